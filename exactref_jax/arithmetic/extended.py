"""`Extended(field)`: an `Arithmetic` on the extended reals over any field of finite reals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from .. import specials
from ..errors import Undecided
from ..specials import CODE, INF, TALLIED, nonfinite, sum_codes
from ..values import (
    ABSENT,
    FINITE,
    NAN,
    NEGATIVE_INFINITY,
    NEGATIVE_ZERO,
    POSITIVE_INFINITY,
    UNKNOWN,
    Datum,
    Decision,
    Value,
    concatenate,
    decision,
    flat_index,
    move,
    pool,
    take,
)
from .extended_functions import Functions, broadcast, where
from .interface import UNDECIDED, Term
from .surd import representative


class Extended(Functions):
    """An `Arithmetic` on the extended reals over a field of finite reals."""

    # Order --------------------------------------------------------------------------------------------------------------

    def compare(self, x: Value, y: Value) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sign of x - y, where they are unordered, where the sign is in doubt. The very same number compares equal at any precision."""
        sign = self.field.sign(self.field.sub(x.parts, y.parts))
        unordered = np.zeros(sign.shape, bool)
        doubt = sign == UNDECIDED
        if x.special is not None or y.special is not None:
            cx, cy = np.broadcast_arrays(x.codes(), y.codes())
            at = nonfinite(cx) | nonfinite(cy)
            side = np.zeros(ABSENT + 1, np.int8)
            side[POSITIVE_INFINITY], side[NEGATIVE_INFINITY] = 1, -1
            sign = np.where(at, np.sign(side[cx] - side[cy]), sign).astype(np.int8)
            unordered = (cx == NAN) | (cy == NAN)
            doubt = np.where(at, ((cx == UNKNOWN) | (cy == UNKNOWN)) & ~unordered, doubt)
        return np.where(doubt, 0, sign).astype(np.int8), unordered, doubt

    def is_finite(self, x: Value) -> Datum:
        """The exact value never overflows: infinite and NaN are special values only."""
        codes = x.codes()
        return decision(~nonfinite(codes), codes == UNKNOWN)

    def maximum(self, x: Value, y: Value) -> Value:
        """The larger one, itself; NaN if either is; of two zeros the positive one. An undecided pair becomes the enclosure of both."""
        return self._extreme(1, x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        """The smaller one, itself; NaN if either is; of two zeros the negative one."""
        return self._extreme(-1, x, y)

    def _extreme(self, direction: int, x: Value, y: Value) -> Value:
        x, y = broadcast(self.plain(x), self.plain(y))
        sign, unordered, doubt = self.compare(x, y)
        # Of two equal numbers the first, unless they are zeros and the second has the sign that wins.
        wins = NEGATIVE_ZERO if direction < 0 else FINITE
        loses = FINITE if direction < 0 else NEGATIVE_ZERO
        second_zero = self.is_zero(x) & (x.codes() == loses) & (y.codes() == wins)
        first = (sign == direction) | ((sign == 0) & ~second_zero)
        parts, codes = where(first, x.parts, y.parts), np.where(first, x.codes(), y.codes())
        if doubt.any():
            either = self.field.maximum if direction > 0 else self.field.minimum
            parts = where(doubt, either(x.parts, y.parts), parts)
            codes = np.where(doubt, np.where(nonfinite(x.codes()) | nonfinite(y.codes()), UNKNOWN, FINITE), codes)
        return self._value(parts, np.where(unordered, NAN, codes), x.dtype)

    def select(self, which: Datum, cases: Sequence[Value]) -> Value:
        """`cases[which]`. Where `which` is in doubt the result is UNKNOWN, unless all cases are the very same number."""
        if not isinstance(which, Decision):
            return choose(which, cases)
        out = choose(which.array, cases)
        agree = np.ones(out.shape, bool)
        for case in cases[1:]:
            agree &= self.field.same(cases[0].parts, case.parts) & (cases[0].codes() == case.codes())
        return self._value(out.parts, np.where(which.doubt & ~agree, UNKNOWN, out.codes()), out.dtype)

    def approximate(self, x: Value) -> np.ndarray:
        """Float64 numbers near the exact ones, to propose an order; NaN after everything else."""
        hi = self.field.enclosed(x.parts).hi
        codes = x.codes()
        out = np.where(codes == POSITIVE_INFINITY, INF, np.where(codes == NEGATIVE_INFINITY, -INF, hi))
        return np.where((codes == NAN) | (codes == UNKNOWN), np.nan, out)

    def overlapping(self, x: Value) -> np.ndarray:
        """Elements whose place along the last axis is in doubt beyond what comparing neighbours shows: for exact values, where one is unknown."""
        unknown = x.codes() == UNKNOWN
        return np.broadcast_to(unknown.any(axis=-1, keepdims=True), x.shape)

    def displaced(self, moved: Value, before: Value, doubt: np.ndarray, is_key: bool) -> Value:
        """A sorted operand: elements whose place is in doubt are unknown."""
        if not doubt.any():
            return moved
        return self._value(moved.parts, np.where(doubt, UNKNOWN, moved.codes()), moved.dtype)

    # Sums ---------------------------------------------------------------------------------------------------------------

    def sum(self, x: Value, axes: tuple[int, ...]) -> Value:
        """The sum over axes."""
        if not axes:
            return x
        parts = x.parts
        for axis in sorted(axes, reverse=True):
            parts = self.field.sum(parts, axis)
        if x.special is None:
            return Value(parts, None, x.dtype)
        count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
        tally = {code: (x.special == code).sum(axis=axes) for code in TALLIED}
        return self._value(parts, sum_codes(tally, count), x.dtype)

    def segment_sum(self, x: Value, segments: np.ndarray, count: int) -> Value:
        """Sums of a flat array's elements by segment number."""
        parts = self.field.segment_sum(x.parts, segments, count)
        if x.special is None:
            return Value(parts, None, x.dtype)
        kept = segments >= 0
        tally = {code: np.bincount(segments[kept & (x.special == code)], minlength=count) for code in TALLIED}
        return self._value(parts, sum_codes(tally, np.bincount(segments[kept], minlength=count)), x.dtype)

    def cumulative(self, name: str, x: Value, axis: int, reverse: bool) -> Value:
        """Running sums, products, maxima or minima along an axis."""
        step = {"cumsum": self._add, "cumprod": self._mul, "cummax": self.maximum, "cummin": self.minimum}[name]
        return cumulate(step, x, axis, reverse)

    def contract(self, terms: Sequence[Term], output: str, sizes: Mapping[str, int], dtype: np.dtype) -> Value:
        """A sum of scaled products, summed over the indices that the output lacks."""
        shape = tuple(sizes[n] for n in output)
        parts = self.field.contract([(t.scale, [(x.parts, n) for x, n in t.factors]) for t in terms], output, sizes)
        parts = tuple(np.broadcast_to(p, shape) for p in parts)
        ordinary = all(x.special is None for t in terms for x, _ in t.factors)
        if ordinary and not self.field.is_zero(parts).any():
            return Value(parts, None, dtype)
        return self._value(parts, self._contraction_codes(terms, output, sizes), dtype)

    def _contraction_codes(self, terms: Sequence[Term], output: str, sizes: Mapping[str, int]) -> np.ndarray:
        """The code of each sum of products, from how many products of each class it has.

        Numbers of products are einsums of masks: sums of zeros and ones, exact in float64.
        """
        shape = tuple(sizes[n] for n in output)
        counted = dict.fromkeys(range(specials.CLASSES), np.zeros(shape))
        for term in terms:
            scale = specials.class_of(representative(term.scale))
            factors = [(self.classes(x), names) for x, names in term.factors]
            for masks, result in _class_products(factors, scale):
                counted[result] = counted[result] + count_products(masks, [n for _, n in factors], output, sizes)
        tally = {int(code): np.zeros(shape) for code in TALLIED}
        for cls, code in enumerate(CODE):
            if code in tally:
                tally[int(code)] = tally[int(code)] + counted[cls]
        return sum_codes(tally, sum(counted.values(), np.zeros(shape)))

    def matrix_exp(self, real: Value, imag: Value | None) -> tuple[Value, ...]:
        """The exponentials of square matrices. One infinity or NaN makes a matrix of NaN; a real 1 x 1 matrix is a number."""
        shape, n = real.shape, real.shape[-1]
        operands = [v for v in (real, imag) if v is not None]
        if real.size == 0:
            return tuple(operands)
        if imag is None and n == 1:
            return (self.elementwise("exp", real),)
        flat = [move(lambda p: p.reshape(-1, n, n), v) for v in operands]
        bad = np.any([nonfinite(v.codes()) for v in flat], axis=(0, 2, 3))
        certain = np.any([nonfinite(v.codes()) & (v.codes() != UNKNOWN) for v in flat], axis=(0, 2, 3))
        unknown = bad & ~certain
        zero = self.field.lift(np.zeros(flat[0].shape))
        parts = [tuple(np.where(bad[:, None, None], z, p) for p, z in zip(v.parts, zero, strict=True)) for v in flat]
        results = self.field.matrix_exp(parts[0], parts[1] if len(parts) > 1 else None)
        codes = np.where(unknown, UNKNOWN, np.where(bad, NAN, 0))[:, None, None]
        out = []
        for v, r in zip(operands, results, strict=False):
            special = np.where(self.field.is_finite(r), np.broadcast_to(codes, r[0].shape), UNKNOWN).astype(np.uint8)
            out.append(move(lambda p: p.reshape(shape), self._value(r, special, v.dtype)))
        return tuple(out)

    # Casts --------------------------------------------------------------------------------------------------------------

    def convert(self, x: Value, dtype: np.dtype) -> Value:
        """A float→float cast is the identity on reals."""
        return replace(x, dtype=np.dtype(dtype))

    def truncate(self, x: Value, dtype: np.dtype) -> Datum:
        """A float→integer cast: toward zero; beyond the integer type's range its nearest end, NaN to zero, as XLA does on a CPU.

        To a boolean: whether the number is nonzero.
        """
        codes = x.codes()
        if np.dtype(dtype).kind == "b":
            sign = self.field.sign(x.parts)
            return decision((sign != 0) | nonfinite(codes), (sign == UNDECIDED) | (codes == UNKNOWN))
        integers, open_ = self.field.integers(self.field.truncate(x.parts))
        info = np.iinfo(dtype)
        out = np.clip(integers, info.min, info.max)
        out = np.where(codes == POSITIVE_INFINITY, info.max, np.where(codes == NEGATIVE_INFINITY, info.min, out))
        out = np.where(codes == NAN, 0, out)
        return decision(out.astype(dtype), (open_ & ~nonfinite(codes)) | (codes == UNKNOWN))

    def absent(self, shape: tuple[int, ...], dtype: np.dtype) -> Value:
        """Derivatives that are not there."""
        return Value(self.field.lift(np.zeros(shape)), np.full(shape, ABSENT, np.uint8), dtype)

    def multiple(self, x: Value, name: str) -> Value:
        """X times a positive constant of `constants`."""
        return self._value(self.field.multiple(x.parts, name), x.special, x.dtype)

    def reordered_product(self, product: Value, rows: Value) -> Value:
        """A product of the rows; real multiplication has no order."""
        return product

    def taint(self, outputs: Sequence[Datum], question: str) -> list[Datum]:
        """An equation on a doubtful integer or boolean has no enclosure."""
        raise Undecided(question)


def _class_products(factors: list[tuple[np.ndarray, str]], scale: int) -> list[tuple[list[np.ndarray], int]]:
    """Pairs (masks of the factors, class of the scaled product), for the classes that occur."""
    present = [[c for c in range(specials.CLASSES) if (classes == c).any()] for classes, _ in factors]
    out = []
    if not factors:
        return [([], scale)]
    for a in present[0]:
        if len(factors) == 1:
            out.append(([factors[0][0] == a], int(specials.MUL[a, scale])))
            continue
        for b in present[1]:
            out.append(([factors[0][0] == a, factors[1][0] == b], int(specials.MUL[specials.MUL[a, b], scale])))
    return out


def count_products(masks: Sequence[np.ndarray], names: Sequence[str], output: str, sizes: Mapping[str, int]) -> np.ndarray:
    """How many products of a term have all masks true, for each element of the output."""
    have = "".join(n for n in output if any(n in s for s in names))
    counted = np.einsum(",".join(names) + "->" + have, *(m.astype(np.float64) for m in masks)) if masks else np.ones(())
    spread = counted.reshape([sizes[n] if n in have else 1 for n in output])
    return np.broadcast_to(spread, tuple(sizes[n] for n in output))


def choose(which: np.ndarray, cases: Sequence[Value]) -> Value:
    """`cases[which]` by movement: the chosen numbers themselves. A boolean `which` means case 1 where it is true."""
    shape = cases[0].shape
    which = np.broadcast_to(np.asarray(which).astype(np.int64), shape)
    index = np.clip(which, 0, len(cases) - 1) * cases[0].size + flat_index(shape)
    return take(pool(cases), index)


def cumulate(step: Callable[[Value, Value], Value], x: Value, axis: int, reverse: bool) -> Value:
    """Running results of `step` along an axis, from the first element on (from the last, if `reverse`)."""
    n = x.shape[axis]
    rows = [move(lambda p, i=i: p[(slice(None),) * axis + (slice(i, i + 1),)], x) for i in range(n)]
    if reverse:
        rows.reverse()
    for i in range(1, n):
        rows[i] = step(rows[i - 1], rows[i])
    if reverse:
        rows.reverse()
    return concatenate(rows, axis) if rows else x
