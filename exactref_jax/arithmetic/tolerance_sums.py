"""What rounding does to sums: gamma on the sum of the terms' magnitudes, in any order, with or without FMA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..formats import Format, format_of
from ..specials import infinite, nonfinite
from ..values import Value
from . import surd, upward
from .extended import count_products, cumulate
from .interface import Term
from .tolerance_functions import Functions
from .tolerance_rounding import Bounds


class Sums(Functions):
    """Sums, running sums, segment sums and contractions with their budgets."""

    maximum: Any
    minimum: Any

    def _summed(
        self,
        bounds: Bounds,
        carried: np.ndarray,
        absolute: np.ndarray,
        roundings: np.ndarray,
        lost: np.ndarray,
        fmt: Format,
        quantum: np.ndarray | float,
        products: bool = False,
        accumulator: Format | None = None,
    ) -> np.ndarray:
        """T of a sum in any order, accumulated in the budget's format and rounded once to the dtype.

        With k roundings on any term at most, the last of them is that of the final addition, relative to the sum itself; the others are relative to
        the terms: gamma(k - 1) (sum |terms|), then u |computed sum|. With an exact last step the bound only shrinks.

        Args:
            bounds: the exact sum's magnitude.
            carried: what the terms bring, summed.
            absolute: the sum of the terms' magnitudes.
            roundings: k.
            lost: what underflow and flushing of partial results may cost.
            fmt: the format of the result.
            quantum: a power of two of which all terms are multiples. Partial sums then are, too; if all such numbers up to the sum of the
                magnitudes are in the format, and the terms have no error, nothing is rounded in any order.
            products: whether the terms are products, which may overflow by themselves.
            accumulator: the format of partial sums, if not the budget's.
        """
        accumulator = accumulator or self.budget.accumulator(fmt)
        reach = upward.add(absolute, carried)
        before = upward.add(carried, upward.mul(upward.gamma(np.maximum(roundings - 1, 0), accumulator.unit_roundoff), reach), lost)
        final = np.where(roundings > 0, upward.mul(accumulator.unit_roundoff, upward.add(bounds[1], before)), 0.0)
        t = upward.add(before, final)
        # A partial sum may overflow although the sum does not, unless all terms have one sign.
        one_sign = bounds[0] >= absolute * (1 - 2.0**-50)
        t = np.where((upward.add(reach, t) > accumulator.maximum) & ~one_sign & (products | (roundings > 1)), np.inf, t)
        exactly = (carried == 0) & self._fits(np.asarray(quantum), absolute, accumulator)
        # Terms that are all exactly zero sum to zero.
        t = np.where((reach > 0) & ~exactly, t, 0.0)
        final_rounding = 0.0 if accumulator is fmt else np.where(exactly & self._fits(np.asarray(quantum), absolute, fmt), 0.0, 1.0)
        return self._rounded(bounds, t, final_rounding, fmt)

    def _lost(self, operations: np.ndarray | float, fmt: Format, accumulator: Format | None = None) -> np.ndarray:
        """What operations may lose below the normal range: each all of a number there if flushed, else half the smallest number."""
        accumulator = accumulator or self.budget.accumulator(fmt)
        return upward.mul(operations, accumulator.smallest_normal if self.budget.flushes(accumulator) else accumulator.smallest / 2)

    def _quantum(self, x: Value) -> np.ndarray:
        """A power of two of which each number is a multiple; 0 where it has an error or is not finite."""
        return np.where((self.error(x) > 0) | nonfinite(x.codes()), 0.0, self.field.quantum(x.parts[:-3]))

    def _term_quantum(self, term: Term, fmt: Format) -> float:
        """A power of two of which all products of an unscaled term are multiples; 0 for a scaled one."""
        if abs(term.scale) != 1 or not term.factors:
            return 0.0
        quanta = [float(self._quantum(x).min(initial=np.inf)) for x, _ in term.factors]
        return 0.0 if 0.0 in quanta else float(np.prod(quanta))

    def _sum_value(self, exact: Value, t: np.ndarray, carried: np.ndarray, bounds: Bounds) -> Value:
        # An infinite or NaN sum is certain, unless some term may be anything.
        return self._value(exact, np.where(nonfinite(exact.codes()), np.where(np.isinf(carried), np.inf, 0.0), t), bounds)

    def sum(self, x: Value, axes: tuple[int, ...]) -> Value:
        """N terms in any order: at most n - 1 additions on each (Higham, section 4.2)."""
        exact = self.extended.sum(self.exact(x), axes)
        n = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
        if n <= 1:
            return self._value(exact, self.error(x).reshape(exact.shape) if n else np.zeros(exact.shape))
        fmt, bounds = format_of(x.dtype), self.field.magnitude(exact.parts)
        letters = "".join(chr(ord("a") + a) for a in range(len(x.shape)))
        spec = letters + "->" + "".join(c for a, c in enumerate(letters) if a not in axes)
        carried = upward.einsum(spec, self.operand_error(x), terms=n)
        absolute = upward.einsum(spec, self.magnitude(x)[1], terms=n)
        quantum = self._quantum(x).min(axis=tuple(axes))
        t = self._summed(bounds, carried, absolute, np.full(exact.shape, n - 1.0), self._lost(n - 1.0, fmt), fmt, quantum)
        return self._sum_value(exact, t, carried, bounds)

    def segment_sum(self, x: Value, segments: np.ndarray, count: int) -> Value:
        """As `sum`, with as many terms as each segment has. A term that is exactly zero adds no rounding."""
        exact = self.extended.segment_sum(self.exact(x), segments, count)
        fmt, bounds = format_of(x.dtype), self.field.magnitude(exact.parts)
        kept = segments >= 0
        error, magnitude = self.operand_error(x)[kept], self.magnitude(x)[1][kept]

        def total(weights: np.ndarray) -> np.ndarray:
            infinite_terms = np.bincount(segments[kept], weights=np.isinf(weights), minlength=count) > 0
            raw = np.bincount(segments[kept], weights=np.where(np.isinf(weights), 0.0, weights), minlength=count)
            # A float64 sum of n nonnegative numbers has relative error at most gamma(n - 1).
            return np.where(infinite_terms, np.inf, upward.above(raw * (1 + (n + 2) * 2.0**-52)))

        n = np.bincount(segments[kept], weights=(magnitude > 0) | (error > 0), minlength=count)
        carried, absolute = total(error), total(magnitude)
        quantum = np.full(count, np.inf)
        np.minimum.at(quantum, segments[kept], self._quantum(x)[kept])
        adder = self.budget.sequential_accumulator(fmt)
        steps = np.maximum(n - 1, 0)
        t = self._summed(bounds, carried, absolute, steps, self._lost(steps, fmt, adder), fmt, quantum, accumulator=adder)
        return self._sum_value(exact, np.where(n <= 1, carried, t), carried, bounds)

    def cumulative(self, name: str, x: Value, axis: int, reverse: bool) -> Value:
        """A running sum is a sum of its first k terms in some order; running products, maxima and minima are chains of the operation."""
        if name != "cumsum":
            step = {"cumprod": self._mul, "cummax": self.maximum, "cummin": self.minimum}[name]
            return cumulate(step, x, axis, reverse)
        exact = self.extended.cumulative(name, self.exact(x), axis, reverse)
        fmt, bounds = format_of(x.dtype), self.field.magnitude(exact.parts)
        n = x.shape[axis]
        mask = np.tril(np.ones((n, n)))
        mask = mask.T if reverse else mask

        def running(v: np.ndarray) -> np.ndarray:
            return np.moveaxis(upward.einsum("...j,ij->...i", np.moveaxis(v, axis, -1), mask, terms=max(n, 1)), -1, axis)

        carried, absolute = running(self.operand_error(x)), running(self.magnitude(x)[1])
        shape = [n if a == axis else 1 for a in range(len(x.shape))]
        additions = np.broadcast_to((mask.sum(1) - 1).reshape(shape), x.shape)
        quantum = self._quantum(x).min(axis=axis, keepdims=True) if n else 0.0
        adder = self.budget.sequential_accumulator(fmt)
        t = self._summed(bounds, carried, absolute, additions, self._lost(additions, fmt, adder), fmt, quantum, accumulator=adder)
        return self._sum_value(exact, np.where(additions == 0, self.error(x), t), carried, bounds)

    def contract(self, terms: Sequence[Term], output: str, sizes: Mapping[str, int], dtype: np.dtype) -> Value:
        """A sum of products: one rounding a product and the additions, in any order, fused or not: at most n on each product (Higham, eq. 3.5).

        A scale other than 1 and -1 is an ordinary scalar: it may be rounded to the dtype, and multiplying by it rounds. In a narrow format, a term
        that is scaled, or added to other terms, may be rounded to the format first, as a program that writes the terms one by one would.
        """
        exact = self.extended.contract([Term(t.scale, tuple((self.exact(x), n) for x, n in t.factors), t.copies) for t in terms], output, sizes, dtype)
        if any(abs(t.scale) != 1 for t in terms):
            # Equal exact numbers times one scale are one number; computed ones are not.
            exact = replace(exact, parts=self.field.fresh(exact.parts))
        fmt, bounds = format_of(dtype), self.field.magnitude(exact.parts)
        narrow = self.budget.accumulator(fmt) is not fmt
        shape = exact.shape
        carried, absolute, lost, early = (np.zeros(shape) for _ in range(4))
        uncertain, overflows = np.zeros(shape, bool), np.zeros(shape, bool)
        additions, products, quantum, several = -1, 0, np.inf, False
        for term in terms:
            quantum = min(quantum, self._term_quantum(term, fmt))
            n = _number_of_products(term, output, sizes)
            size, two = surd.magnitude(term.scale), len(term.factors) == 2
            magnitude, error, doubtful = self._term(term, output, sizes, n)
            unscaled = upward.add(magnitude, error)
            magnitude, error = upward.mul(size, magnitude), upward.mul(size, error)
            reach = upward.add(magnitude, error)
            absolute, carried, uncertain = upward.add(absolute, magnitude), upward.add(carried, error), uncertain | doubtful
            additions += n
            several = several or (two and n > 1)
            # Products of two numbers of a narrow format are exact in the accumulator.
            products = max(products, int(two and 2 * fmt.precision > self.budget.accumulator(fmt).precision))
            scaled = abs(term.scale) not in (0, 1)
            separate = narrow and (n > 1 or two) and (scaled or len(terms) > 1)
            accumulator = self.budget.accumulator(fmt)
            # What is computed is at most 1 + gamma times the sum of the magnitudes.
            limit = (fmt if separate else accumulator).maximum / (1 + float(upward.gamma(n + 4, accumulator.unit_roundoff)))
            if abs(term.scale) != 1 and (n > 1 or two):
                # The sum before it is scaled, or an operand scaled before it is multiplied, may leave the range although the term does not.
                overflows = overflows | (unscaled > limit)
                operands_leave, lost_early = self._scaled_operands(term, output, sizes, n, size, limit)
                overflows, lost = overflows | operands_leave, upward.add(lost, lost_early)
            if len(terms) > 1:
                overflows = overflows | ((reach > limit) & (scaled or separate or two))
            roundings = float(scaled) + float(not surd.is_number_of(term.scale, fmt))
            roundings += float(separate)
            copied = any(c not in output and any(c in names for _, names in term.factors) for c in term.copies)
            roundings += float(narrow and two and copied and self.budget.rounds_copies)
            # Two or three relative errors u, multiplied together.
            early = upward.add(early, upward.mul(upward.gamma(roundings, fmt.unit_roundoff), reach))
            steps = self._lost(max(n * (1 + two) - 1, 0) + roundings, fmt) if not narrow else self._lost(2 * n, fmt) + roundings * fmt.smallest_normal
            lost = upward.add(lost, np.where(reach > 0, upward.mul(max(size, 1.0), steps), 0.0))
        if len(terms) == 1 and additions + products == 0 and not early.any() and len(terms[0].factors) < 2:
            return self._value(exact, carried, bounds)
        roundings = np.full(shape, float(max(additions, 0) + products))
        t = self._summed(bounds, upward.add(carried, early), absolute, roundings, lost, fmt, quantum, several)
        t = np.where(nonfinite(exact.codes()), np.where(uncertain, np.inf, 0.0), np.where(overflows, np.inf, t))
        return self._value(exact, t, bounds)

    def _scaled_operands(self, term: Term, output: str, sizes: Mapping[str, int], n: int, size: float, limit: float) -> tuple[np.ndarray, np.ndarray]:
        """Scaling an operand before the product: where that may overflow, and what it may lose below the normal range.

        The reference implementation of BLAS's gemm does so: `alpha b` first. A scaled operand there is off by at most the smallest normal number, which the
        other operand multiplies.
        """
        shape = tuple(sizes[c] for c in output)
        leaves, lost = np.zeros(shape, bool), np.zeros(shape)
        if len(term.factors) != 2:
            return leaves, lost
        names = [s for _, s in term.factors]
        fmt = format_of(term.factors[0][0].dtype)
        reach = [upward.add(self.magnitude(x)[1], np.where(np.isinf(self.operand_error(x)), 0.0, self.operand_error(x))) for x, _ in term.factors]
        everything = [r > 0 for r in reach]
        have = "".join(c for c in output if any(c in s for s in names))
        for k in range(2):
            scaled = upward.mul(size, reach[k])
            for mask, overflow in ((scaled > limit, True), ((scaled > 0) & (scaled < 2 * fmt.smallest_normal), False)):
                if not mask.any():
                    continue
                masks = [mask if j == k else everything[j] for j in range(2)]
                if overflow:
                    leaves = leaves | (count_products(masks, names, output, sizes) > 0)
                else:
                    weights = [mask * fmt.smallest_normal if j == k else reach[j] for j in range(2)]
                    total = upward.einsum(",".join(names) + "->" + have, *weights, terms=max(n, 1))
                    lost = upward.add(lost, np.broadcast_to(total.reshape([sizes[c] if c in have else 1 for c in output]), shape))
        return leaves, lost

    def _term(self, term: Term, output: str, sizes: Mapping[str, int], n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sum of the products' magnitudes, sum of what their operands' errors do to them, and where a special product is not certain."""
        names = [s for _, s in term.factors]
        shape = tuple(sizes[c] for c in output)
        have = "".join(c for c in output if any(c in s for s in names))

        def total(*xs: np.ndarray) -> np.ndarray:
            if not all(x.any() for x in xs):
                return np.zeros(shape)
            out = upward.einsum(",".join(names) + "->" + have, *xs, terms=max(n, 1))
            return np.broadcast_to(out.reshape([sizes[c] if c in have else 1 for c in output]), shape)

        if not names:
            return np.ones(shape), np.zeros(shape), np.zeros(shape, bool)
        magnitude = [self.magnitude(x)[1] for x, _ in term.factors]
        error = [self.operand_error(x) for x, _ in term.factors]
        anything = [np.isinf(e) for e in error]
        present = [~self._no_derivative(x) for x, _ in term.factors]
        if len(names) == 2 and not all(p.all() for p in present):
            # What may be anything is counted below, where it meets a derivative that is there.
            error = [np.where(a, 0.0, e) for a, e in zip(anything, error, strict=True)]
        if len(names) == 1:
            carried = total(error[0])
            return total(magnitude[0]), carried, np.isinf(carried)
        (x, y), (tx, ty) = magnitude, error
        carried = upward.add(total(x, ty), total(tx, y), total(tx, ty))
        # Infinity times a number that may vanish or change sign; anything times a number that may be anything.
        crossing = [(e > 0) & (self.magnitude(v)[0] <= e) for (v, _), e in zip(term.factors, error, strict=True)]
        infinities = [infinite(v.codes()) for v, _ in term.factors]
        all_of = present
        doubtful = np.zeros(shape, bool)
        for masks in ([infinities[0], crossing[1]], [crossing[0], infinities[1]], [anything[0], all_of[1]], [all_of[0], anything[1]]):
            if all(m.any() for m in masks):
                doubtful = doubtful | (count_products(masks, names, output, sizes) > 0)
        return total(x, y), np.where(doubtful, np.inf, carried), doubtful


def _number_of_products(term: Term, output: str, sizes: Mapping[str, int]) -> int:
    summed = {n for _, names in term.factors for n in names if n not in output}
    return int(np.prod([sizes[n] for n in summed], dtype=np.int64))
