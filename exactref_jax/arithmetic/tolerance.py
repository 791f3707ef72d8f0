"""What an ordinary implementation's roundings can do: the budget as one more arithmetic over the same rules.

A value is the exact number, enclosed, and `t`: an ordinary implementation's number is within `t` of the exact one (infinite: it may have
anything there, NaN included). Each operation adds what its own rounding can do to what its operands bring. The invariant, for every operation f with
exact operands x and computed ones x':

    |f'(x') - f(x)|  <=  sup |f(y) - f(x)| over |y_i - x_i| <= t_i   +   the rounding of f' at x'        (triangle inequality)

The first is `variation`; the second is a number of unit roundoffs (or ulps) of a magnitude of at most |f(x)| plus the first. Derivations of each
rule stand in docs/derivations.md; the standard model is fl(a op b) = (a op b)(1 + d), |d| <= u, in the normal range (Higham, Accuracy and Stability of
Numerical Algorithms, 2nd ed., eq. 2.4), with an absolute error of at most half the smallest number below it.

Two things are settled where an operand is *used*: a number that may exceed the format's maximum may have become infinite, so its t is infinite; and a
result in the subnormal range may have been flushed, so its t is at least its magnitude. Bounds are float64, every operation rounded up (`upward`).

No identity of real numbers is used here. That is why this class does not inherit from `Enclosure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..formats import FLOAT32, format_of
from ..specials import nonfinite
from ..values import NAN, UNKNOWN, Datum, Decision, Value, decision, is_real, move
from . import matrix_exp_bounds, upward
from .constants import FLOATS
from .extended import choose
from .tolerance_sums import Sums


class Tolerance(Sums):
    """The arithmetic of exact values with rounding budgets."""

    # Order ----------------------------------------------------------------------------------------------------------------------

    def _unstable(self, x: Value, y: Value) -> np.ndarray:
        """Where an ordinary implementation may see the other order: the distance is within the two errors, and it is not the same number twice."""
        tx, ty = self.operand_error(x), self.operand_error(y)
        distance = self.field.magnitude(self.field.sub(x.parts[:-3], y.parts[:-3]))[0]
        reach = upward.add(tx, ty)
        same = self.field.same(x.parts[:-3], y.parts[:-3]) & np.isfinite(reach)
        finite = ~nonfinite(x.codes()) & ~nonfinite(y.codes())
        return np.where(finite, (reach > 0) & (distance <= reach) & ~same, np.isinf(reach))

    def compare(self, x: Value, y: Value) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The exact order; in doubt where an ordinary implementation may see another."""
        sign, unordered, doubt = self.extended.compare(self.exact(x), self.exact(y))
        return sign, unordered, doubt | self._unstable(x, y)

    def is_negative_zero(self, x: Value) -> np.ndarray:
        """As the exact arithmetic."""
        return self.extended.is_negative_zero(self.exact(x))

    def is_finite(self, x: Value) -> Datum:
        """As the exact arithmetic; in doubt where the computed number may have overflowed, or be anything."""
        return decision(~nonfinite(x.codes()), np.isinf(self.operand_error(x)))

    def maximum(self, x: Value, y: Value) -> Value:
        """|max(x', y') - max(x, y)| is at most the error of whichever may win."""
        return self._extreme(self.extended.maximum, x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        """As `maximum`."""
        return self._extreme(self.extended.minimum, x, y)

    def _extreme(self, exact_extreme: Any, x: Value, y: Value) -> Value:
        shape = np.broadcast_shapes(x.shape, y.shape)
        x, y = (move(lambda p: np.broadcast_to(p, shape), v) for v in (x, y))
        ex, ey = self.exact(x), self.exact(y)
        exact = exact_extreme(ex, ey)
        tx, ty = self.error(x), self.error(y)
        unstable = self._unstable(x, y)
        is_x = self.field.same(exact.parts, ex.parts) | ((x.codes() == exact.codes()) & nonfinite(x.codes()))
        t = np.where(unstable, np.maximum(tx, ty), np.where(is_x, tx, ty))
        t = np.where(np.isinf(self.operand_error(x)) | np.isinf(self.operand_error(y)), np.inf, t)
        t = np.where((exact.codes() == NAN), self._settled(exact, t, np.zeros(shape, bool), x, y), t)
        # Who wins is not certain, so the result is not certainly one of the two: it loses its identity.
        parts = tuple(np.where(unstable, fresh, p) for fresh, p in zip(self.field.fresh(exact.parts), exact.parts, strict=True))
        return self._value(Value(parts, exact.special, exact.dtype), t)

    def select(self, which: Datum, cases: Sequence[Value]) -> Value:
        """The chosen case. Where the choice is in doubt: the distance to the case farthest away, and that case's error."""
        if not isinstance(which, Decision):
            return choose(which, cases)
        out = choose(which.array, cases)
        chosen, t = self.exact(out), self.error(out)
        flipped = t
        for case in cases:
            distance = self.field.magnitude(self.field.sub(case.parts[:-3], chosen.parts))[1]
            special = nonfinite(case.codes()) | nonfinite(chosen.codes())
            distance = np.where(special, np.where((case.codes() == chosen.codes()) & (case.codes() != UNKNOWN), 0.0, np.inf), distance)
            same = self.field.same(case.parts[:-3], chosen.parts) & ~special
            flipped = np.maximum(flipped, upward.add(np.where(same, 0.0, distance), self.operand_error(case)))
        parts = tuple(np.where(which.doubt, fresh, p) for fresh, p in zip(self.field.fresh(chosen.parts), chosen.parts, strict=True))
        return self._value(Value(parts, chosen.special, chosen.dtype), np.where(which.doubt, flipped, t))

    def approximate(self, x: Value) -> np.ndarray:
        """As the exact arithmetic."""
        return self.extended.approximate(self.exact(x))

    def overlapping(self, x: Value) -> np.ndarray:
        """Elements that an ordinary implementation may sort to another place: their interval of possible values meets another one's.

        Along the sorted line: the largest upper end before an element reaches it, or the smallest lower end after it does. Float64 ends, one step
        outward. Numbers without error do not count: their order is exact.
        """
        n = x.shape[-1]
        centre, t = self.approximate(x), self.operand_error(x)
        slack = np.where(t > 0, (np.abs(np.nan_to_num(centre, posinf=0.0, neginf=0.0)) + np.where(np.isinf(t), 0.0, t)) * 2.0**-51, 0.0)
        centre = np.where(np.isnan(centre), np.inf, centre)
        low, high = (np.where(np.isinf(t), s * np.inf, centre + s * (t + slack)) for s in (-1.0, 1.0))
        order = np.argsort(centre, axis=-1, kind="stable")
        low, high, sure = (np.take_along_axis(v, order, -1) for v in (low, high, t == 0))
        before = np.full(low.shape, -np.inf)
        before[..., 1:] = np.maximum.accumulate(high, axis=-1)[..., :-1]
        after = np.full(low.shape, np.inf)
        after[..., :-1] = np.minimum.accumulate(low[..., ::-1], axis=-1)[..., ::-1][..., 1:]
        unsure_before, unsure_after = (np.zeros(low.shape, bool) for _ in range(2))
        unsure_before[..., 1:] = np.logical_or.accumulate(~sure, axis=-1)[..., :-1]
        unsure_after[..., :-1] = np.logical_or.accumulate(~sure[..., ::-1], axis=-1)[..., ::-1][..., 1:]
        met = ((before >= low) & (~sure | unsure_before)) | ((after <= high) & (~sure | unsure_after))
        out = np.zeros(x.shape, bool)
        np.put_along_axis(out, order, met & (n > 1), axis=-1)
        return out

    def displaced(self, moved: Value, before: Value, doubt: np.ndarray, is_key: bool) -> Value:
        """A sorted operand. Order statistics move by at most the largest error on the line; what is carried along may be any other element's."""
        if not doubt.any():
            return moved
        worst = self.operand_error(before).max(axis=-1, keepdims=True) if is_key else np.inf
        exact = self.exact(moved)
        parts = tuple(np.where(doubt, fresh, p) for fresh, p in zip(self.field.fresh(exact.parts), exact.parts, strict=True))
        t = np.where(doubt, np.maximum(worst, self.error(moved)), self.error(moved))
        return self._value(Value(parts, exact.special, exact.dtype), t)

    def matrix_exp(self, real: Value, imag: Value | None) -> tuple[Value, ...]:
        """The worse of two published algorithms, and what the operand's error does: exp(|A| + T) - exp(|A|), by the series, element by element."""
        operands = [v for v in (real, imag) if v is not None]
        exact = self.extended.matrix_exp(*(self.exact(v) for v in operands), *([None] * (2 - len(operands))))
        shape, n, fmt = real.shape, real.shape[-1], format_of(real.dtype)
        t = np.zeros(shape)
        for at in np.ndindex(shape[:-2]):
            errors = [self.operand_error(v)[at] for v in operands]
            certain = all(not e.any() for e in errors)
            if any(nonfinite(v.codes()[at]).any() for v in operands):
                t[at] = 0.0 if certain else np.inf
                continue
            centre = [np.asarray(self.extended.approximate(self.exact(v)))[at] for v in operands]
            matrix = centre[0] if imag is None else centre[0] + 1j * centre[1]
            # float64 holds exact operands of the program, and the others to an ulp.
            error = upward.add(*errors, *(np.abs(c) * 2.0**-51 for c in centre)) if not certain else np.zeros((n, n))
            size = upward.add(*(np.abs(c) for c in centre))
            t[at] = upward.add(matrix_exp_bounds.either(matrix, fmt), matrix_exp_bounds.moved(size, error))
        bounds = [self.field.magnitude(e.parts) for e in exact]
        rounds = 1.0 if fmt.precision < FLOAT32.precision else 0.0
        return tuple(self._value(e, np.where(nonfinite(e.codes()), t, self._rounded(b, t, rounds, fmt)), b) for e, b in zip(exact, bounds, strict=True))

    def reordered_product(self, product: Value, rows: Value) -> Value:
        """Any order rounds as often; but a partial product of the large factors may overflow, and one of the small ones vanish."""
        fmt = format_of(rows.dtype)
        large, small = np.ones(product.shape), np.ones(product.shape)
        for i in range(rows.shape[0]):
            reach = upward.add(self.magnitude(rows)[1][i], self.operand_error(rows)[i])
            least = upward.sub_below(self.magnitude(rows)[0][i], self.operand_error(rows)[i])
            large = upward.mul(large, np.maximum(reach, 1.0))
            # A factor of zero makes zero of everything finite.
            small = small * np.where(reach == 0, 1.0, np.minimum(least, 1.0)) * (1 - 2.0**-50)
        leaves = (large > fmt.maximum) | ((small < fmt.smallest_normal) & (large > 1))
        return self._value(self.exact(product), np.where(leaves & (rows.shape[0] > 2), np.inf, self.error(product)), self.magnitude(product))

    def multiple(self, x: Value, name: str) -> Value:
        """The constant is rounded, then the product: two roundings."""
        exact = self.extended.multiple(self.exact(x), name)
        bounds = self.field.magnitude(exact.parts)
        t = upward.mul(self.operand_error(x), np.nextafter(FLOATS[name], np.inf))
        return self._value(exact, self._settled(exact, self._rounded(bounds, t, 2.0, format_of(x.dtype)), np.ones(x.shape, bool), x), bounds)

    def absent(self, shape: tuple[int, ...], dtype: np.dtype) -> Value:
        """Derivatives that are not there, without error."""
        return self._value(self.extended.absent(shape, dtype), np.zeros(shape))

    # Casts ----------------------------------------------------------------------------------------------------------------------

    def convert(self, x: Value, dtype: np.dtype) -> Value:
        """To a format that holds all numbers of the old one: nothing. To another: one rounding."""
        exact = self.extended.convert(self.exact(x), dtype)
        old, new, bounds = format_of(x.dtype), format_of(dtype), self.magnitude(x)
        t = self.operand_error(x)
        wider = new.precision >= old.precision and new.maximum >= old.maximum and new.smallest_exponent <= old.smallest_exponent
        free = (t == 0) & self._representable(exact, bounds, new)
        t = self._flushed(bounds, t, new) if wider else self._rounded(bounds, t, np.where(free, 0.0, 1.0), new)
        out = self._value(exact, self._settled(exact, t, np.isfinite(self.operand_error(x)), x), bounds)
        return self._renamed("convert", out, [x])

    def truncate(self, x: Value, dtype: np.dtype) -> Datum:
        """A cast to integers: in doubt where the computed number may truncate to another one."""
        exact = self.extended.truncate(self.exact(x), dtype)
        t = self.operand_error(x)
        if np.dtype(dtype).kind == "b":
            moved = (t > 0) & (self.magnitude(x)[0] <= t)
        else:
            moved = self.field.variation("truncate", [x.parts[:-3]], [t]) > 0
        array, doubt = (exact.array, exact.doubt) if isinstance(exact, Decision) else (exact, np.zeros(exact.shape, bool))
        return decision(array, doubt | (moved & ~nonfinite(x.codes())) | np.isinf(t))

    def taint(self, outputs: Sequence[Datum], question: str) -> list[Datum]:
        """After a doubtful index, trip count or branch, anything is possible."""
        return [self._tainted(x) for x in outputs]

    def _tainted(self, x: Datum) -> Datum:
        if isinstance(x, Value):
            return self._value(self.exact(x), np.full(x.shape, np.inf))
        if is_real(x):
            return type(x)(self._tainted(x.real), self._tainted(x.imag), x.dtype)
        array = x.array if isinstance(x, Decision) else np.asarray(x)
        return decision(array, np.ones(array.shape, bool))
