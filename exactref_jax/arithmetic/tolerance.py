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

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..formats import Format, format_of, round_fraction
from ..specials import infinite, nonfinite
from ..values import (
    NAN,
    UNKNOWN,
    Datum,
    Decision,
    Value,
    decision,
    is_real,
    move,
)
from . import upward
from .budget import Budget
from .extended import Extended, choose, count_products, cumulate
from .interface import Term

#: Lower and upper bound of a magnitude.
Bounds = tuple[np.ndarray, np.ndarray]


class Tolerance:
    """The arithmetic of exact values with rounding budgets.

    Attributes:
        extended: the exact arithmetic below.
        budget: the model.
    """

    def __init__(self, extended: Extended, budget: Budget):
        self.extended = extended
        self.field = extended.field
        self.budget = budget

    # Values: the exact parts, bounds of the magnitude (kept because every rule asks for them), then t -------------------------------

    def exact(self, x: Value) -> Value:
        """The exact value alone."""
        return Value(x.parts[:-3], x.special, x.dtype)

    def error(self, x: Value) -> np.ndarray:
        """t, as it is left behind by the operation that made `x`."""
        return x.parts[-1]

    def magnitude(self, x: Value) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bound of the exact magnitude."""
        return x.parts[-3], x.parts[-2]

    def operand_error(self, x: Value) -> np.ndarray:
        """t of an operand: infinite where the number may have overflowed. A number without error is in the format, so in range."""
        t, high = self.error(x), self.magnitude(x)[1]
        overflowed = (t > 0) & (upward.add(high, t) > format_of(x.dtype).maximum) & ~nonfinite(x.codes())
        return np.where(overflowed | (x.codes() == UNKNOWN), np.inf, t)

    def _value(self, exact: Value, t: np.ndarray, bounds: Bounds | None = None) -> Value:
        t = np.broadcast_to(np.asarray(t, np.float64), exact.shape)
        low, high = self.field.magnitude(exact.parts) if bounds is None else bounds
        return Value((*exact.parts, low, high, np.where(exact.codes() == UNKNOWN, np.inf, t)), exact.special, exact.dtype)

    def lift(self, array: np.ndarray, dtype: np.dtype) -> Value:
        """Numbers of the program's dtype are exact, up to flushing. Integers are rounded where the dtype cannot hold them."""
        exact = self.extended.lift(array, dtype)
        fmt, bounds = format_of(dtype), self.field.magnitude(exact.parts)
        t = np.zeros(exact.shape)
        if np.asarray(array).dtype.kind in "iu":
            t = np.where(bounds[1] > 2.0**fmt.precision, upward.mul(fmt.unit_roundoff, bounds[1]), t)
        return self._value(exact, self._flushed(bounds, t, fmt), bounds)

    def unknown(self, shape: tuple[int, ...], dtype: np.dtype) -> Value:
        """Numbers of which nothing is known."""
        return self._value(self.extended.unknown(shape, dtype), np.full(shape, np.inf))

    def final_error(self, x: Value) -> np.ndarray:
        """The tolerance of a result: t, and infinite where the number is unknown."""
        return np.where(x.codes() == UNKNOWN, np.inf, self.error(x))

    # Rounding -------------------------------------------------------------------------------------------------------------------

    def _flushed(self, bounds: Bounds, t: np.ndarray, fmt: Format) -> np.ndarray:
        """t, at least the magnitude where the computed number may be subnormal and is then replaced by zero."""
        if not self.budget.flush_subnormals:
            return t
        low, high = bounds
        subnormal = upward.sub_below(low, t) < fmt.smallest_normal
        return np.where(subnormal & (high > 0), np.maximum(t, high), t)

    def _rounded(self, bounds: Bounds, t: np.ndarray, units: np.ndarray | float, fmt: Format) -> np.ndarray:
        """t after `units` further unit roundoffs of the result, with underflow and flushing.

        Below the normal range each rounding is off by half the smallest number instead: `u * smallest_normal = smallest / 2`.
        """
        low, high = bounds
        relative = upward.mul(upward.mul(units, fmt.unit_roundoff), upward.add(high, t))
        subnormal = (upward.sub_below(low, t) < fmt.smallest_normal) & (high > 0)
        # Even a product by a power of two, which rounds nothing elsewhere, loses bits down there.
        absolute = np.where(subnormal, upward.mul(np.maximum(units, 1.0), fmt.smallest / 2), 0.0)
        # A number without error that leaves the range has one from here on, so that its use shows the overflow.
        out = np.where((t == 0) & (high > fmt.maximum), upward.mul(fmt.unit_roundoff, high), upward.add(t, relative, absolute))
        return self._flushed(bounds, out, fmt)

    def _settled(self, exact: Value, t: np.ndarray, stable: np.ndarray, *xs: Value) -> np.ndarray:
        """t where infinities and NaN take part: none where the outcome is the same for all operands within their errors.

        A NaN operand makes NaN whatever the others are. Otherwise the outcome is certain where no operand has an error, or where the rule that calls
        this says that it is `stable`.
        """
        special = nonfinite(exact.codes())
        nan = np.zeros(exact.shape, bool)
        errorless = np.ones(exact.shape, bool)
        for x in xs:
            special = special | nonfinite(x.codes())
            nan = nan | ((x.codes() == NAN) & (self.error(x) == 0))
            errorless = errorless & (self.operand_error(x) == 0)
        return np.where(special, np.where(nan | errorless | stable, 0.0, np.inf), t)

    def _representable(self, exact: Value, bounds: Bounds, fmt: Format) -> np.ndarray:
        """Where the exact number is certainly a number of the format: a multiple of a power of two, not too many times it, in range.

        `+ - *` of numbers without error then round nothing (IEEE 754: the result is the exact one if it is in the format).
        """
        return self._fits(self.field.quantum(exact.parts), bounds[1], fmt)

    def _fits(self, quantum: np.ndarray, high: np.ndarray, fmt: Format) -> np.ndarray:
        """Whether all multiples of `quantum` up to `high` are numbers of the format, and are not flushed."""
        smallest = fmt.smallest_normal if self.budget.flush_subnormals else fmt.smallest
        with np.errstate(over="ignore", invalid="ignore"):
            return (quantum >= smallest) & (high <= 2.0**fmt.precision * np.minimum(quantum, 1e300)) & (high <= fmt.maximum)

    # Functions ------------------------------------------------------------------------------------------------------------------

    def elementwise(self, name: str, *xs: Value, **params: Any) -> Value:
        """The exact result, and what computing it in the dtype can do."""
        special = getattr(self, "_" + name, None)
        if special is not None:
            return special(*xs, **params)
        exact = self.extended.elementwise(name, *(self.exact(x) for x in xs), **params)
        bounds, fmt = self.field.magnitude(exact.parts), format_of(exact.dtype)
        t = self._variation(name, xs, params)
        if name not in _EXACT_FUNCTIONS:
            # k ulps of the computed result: an ulp is at most two unit roundoffs of it.
            t = self._rounded(bounds, t, 2.0 * self.budget.function_ulps(name, fmt), fmt)
        return self._value(exact, self._settled(exact, t, np.zeros(exact.shape, bool), *xs), bounds)

    def _variation(self, name: str, xs: Sequence[Value], params: Mapping[str, Any]) -> np.ndarray:
        errors = [self.operand_error(x) for x in xs]
        return self.field.variation(name, [x.parts[:-3] for x in xs], errors, **params)

    def _neg(self, x: Value) -> Value:
        return self._value(self.extended.elementwise("neg", self.exact(x)), self.error(x))

    def _abs(self, x: Value) -> Value:
        # ||x'| - |x|| <= |x' - x|.
        return self._value(self.extended.elementwise("abs", self.exact(x)), self.error(x))

    def _sign(self, x: Value) -> Value:
        exact, t, low = self.extended.elementwise("sign", self.exact(x)), self.operand_error(x), self.magnitude(x)[0]
        jump = np.where((t > 0) & (low <= t), 2.0, 0.0)
        return self._value(exact, self._settled(exact, jump, low > t, x))

    def _add(self, x: Value, y: Value) -> Value:
        return self._sum_of_two("add", x, y)

    def _sub(self, x: Value, y: Value) -> Value:
        return self._sum_of_two("sub", x, y)

    def _sum_of_two(self, name: str, x: Value, y: Value) -> Value:
        exact = self.extended.elementwise(name, self.exact(x), self.exact(y))
        tx, ty = self.operand_error(x), self.operand_error(y)
        # Adding a number that is exactly zero rounds nothing.
        carried, bounds, fmt = upward.add(tx, ty), self.field.magnitude(exact.parts), format_of(exact.dtype)
        free = self._certainly_zero(x) | self._certainly_zero(y) | ((carried == 0) & self._representable(exact, bounds, fmt))
        t = self._rounded(bounds, carried, np.where(free, 0.0, 1.0), fmt)
        # inf + anything finite is inf.
        return self._value(exact, self._settled(exact, t, np.isfinite(tx) & np.isfinite(ty), x, y), bounds)

    def _certainly_zero(self, x: Value) -> np.ndarray:
        return (self.magnitude(x)[1] == 0) & (self.error(x) == 0) & ~nonfinite(x.codes())

    def _power_of_two(self, x: Value) -> np.ndarray:
        """Numbers without error whose multiples are not rounded."""
        return (self.error(x) == 0) & self.field.is_power_of_two(x.parts[:-3])

    def _product_error(self, x: Value, y: Value) -> np.ndarray:
        """|x'y' - xy| <= |x| ty + |y| tx + tx ty."""
        tx, ty, mx, my = self.operand_error(x), self.operand_error(y), self.magnitude(x)[1], self.magnitude(y)[1]
        return upward.add(upward.mul(mx, ty), upward.mul(my, tx), upward.mul(tx, ty))

    def _stable_product(self, x: Value, y: Value) -> np.ndarray:
        """An infinity keeps its sign, and a zero or infinity stays one, where every finite operand keeps its sign within its error."""
        out = np.ones(np.broadcast_shapes(x.shape, y.shape), bool)
        for v in (x, y):
            out = out & ((self.operand_error(v) == 0) | (self.magnitude(v)[0] > self.operand_error(v)))
        return out

    def _mul(self, x: Value, y: Value) -> Value:
        exact = self.extended.elementwise("mul", self.exact(x), self.exact(y))
        carried, bounds, fmt = self._product_error(x, y), self.field.magnitude(exact.parts), format_of(exact.dtype)
        free = self._power_of_two(x) | self._power_of_two(y) | ((carried == 0) & self._representable(exact, bounds, fmt))
        t = self._rounded(bounds, carried, np.where(free, 0.0, 1.0), fmt)
        return self._value(exact, self._settled(exact, t, self._stable_product(x, y), x, y), bounds)

    def _square(self, x: Value) -> Value:
        return self._mul(x, x)

    def _div(self, x: Value, y: Value) -> Value:
        """|x'/y' - x/y| <= (tx + |x/y| ty) / (|y| - ty), then one rounding, or two by the rounded reciprocal.

        A reciprocal below the normal range may be flushed (or lose bits): that costs at most |x'| times the smallest normal number.
        """
        exact = self.extended.elementwise("div", self.exact(x), self.exact(y))
        fmt, bounds = format_of(exact.dtype), self.field.magnitude(exact.parts)
        tx, ty = self.operand_error(x), self.operand_error(y)
        (low_y, high_y), high_x = self.magnitude(y), self.magnitude(x)[1]
        gap = upward.sub_below(low_y, ty)
        t = np.where((tx == 0) & (ty == 0), 0.0, upward.div(upward.add(tx, upward.mul(bounds[1], ty)), gap))
        t = np.where((gap > 0) | (self.error(y) == 0), t, np.inf)
        power = self._power_of_two(y)
        if self.budget.reciprocal_division:
            lost = upward.div(1.0, upward.add(high_y, ty)) < 2 * fmt.smallest_normal
            t = upward.add(t, np.where(lost & ~power, upward.mul(upward.add(high_x, tx), fmt.smallest_normal), 0.0))
        rounds = np.where(power, 0.0, 2.0 if self.budget.reciprocal_division else 1.0)
        t = np.where(self._certainly_zero(x) & np.isfinite(t), 0.0, self._rounded(bounds, t, rounds, fmt))
        return self._value(exact, self._settled(exact, t, self._stable_product(x, y), x, y), bounds)

    def _integer_pow(self, x: Value, *, y: int) -> Value:
        """Any chain of multiplications that makes x^n rounds n - 1 times each factor at most: relative error gamma(n - 1).

        1 / x^n or (1/x)^n: n - 1 multiplications and n reciprocals of two roundings at most. A power that leaves the range in between leaves it at
        the end too, for n > 0; for n < 0, x^n may overflow where the result is tiny, or vanish where it is large.
        """
        exact = self.extended.elementwise("integer_pow", self.exact(x), y=y)
        if y in (0, 1):
            return self._value(exact, self.error(x) if y else np.zeros(x.shape))
        fmt, n, bounds = format_of(exact.dtype), abs(y), self.field.magnitude(exact.parts)
        t = self._variation("integer_pow", [x], {"y": y})
        units = n - 1 if y > 0 else 3 * n
        factor = upward.div(upward.gamma(units, fmt.unit_roundoff), fmt.unit_roundoff)
        t = self._rounded(bounds, t, np.where(self._power_of_two(x), 0.0, factor), fmt)
        low, high = bounds
        reach = upward.add(high, t)
        if y > 0:
            t = upward.add(t, np.where((low < fmt.smallest_normal) & (high > 0), n * fmt.smallest, 0.0))
        else:
            inverse_overflows = upward.div(1.0, low) > fmt.maximum / 2
            inverse_vanishes = upward.div(1.0, reach) < 2 * fmt.smallest_normal
            t = np.where(inverse_overflows, np.maximum(t, high), t)
            t = np.where(inverse_vanishes & ~nonfinite(exact.codes()), np.inf, t)
        stable = self.magnitude(x)[0] > self.operand_error(x)
        return self._value(exact, self._settled(exact, t, stable, x), bounds)

    def _one_minus_square(self, x: Value) -> Value:
        """1 - x*x: a rounding of the square and one of the difference; or (1 - x)(1 + x): three roundings of the result. Both are allowed."""
        exact = self.extended.elementwise("one_minus_square", self.exact(x))
        fmt, bounds = format_of(exact.dtype), self.field.magnitude(exact.parts)
        t = self._variation("one_minus_square", [x], {})
        high = upward.add(self.magnitude(x)[1], self.operand_error(x))
        t = upward.add(t, upward.mul(fmt.unit_roundoff, upward.mul(high, high)))
        t = np.where(self._certainly_zero(x), 0.0, self._rounded(bounds, t, 3.0, fmt))
        return self._value(exact, self._settled(exact, t, np.isfinite(self.operand_error(x)), x), bounds)

    def _polynomial(self, x: Value, *coefficients: Value) -> Value:
        """Horner's scheme, Estrin's, or powers: each term takes at most 2n roundings, and the terms are summed in some order.

        gamma(2n) on the sum of the absolute terms (Higham, eq. 5.3), beside what the operands bring.
        """
        exact = self.extended.elementwise("polynomial", self.exact(x), *(self.exact(c) for c in coefficients))
        fmt, n, bounds = format_of(exact.dtype), len(coefficients) - 1, self.field.magnitude(exact.parts)
        t = self._variation("polynomial", [x, *coefficients], {})
        total, power = np.zeros(exact.shape), np.ones(exact.shape)
        reach = upward.add(self.magnitude(x)[1], self.operand_error(x))
        for c in coefficients:
            total = upward.add(total, upward.mul(upward.add(self.magnitude(c)[1], self.operand_error(c)), power))
            power = upward.mul(power, reach)
        total = np.where(total > fmt.maximum, np.inf, total)
        t = upward.add(t, upward.mul(upward.gamma(2 * n, fmt.unit_roundoff), total), np.where(total > 0, 2 * n * fmt.smallest_normal, 0.0))
        t = self._flushed(bounds, t, fmt)
        return self._value(exact, self._settled(exact, t, np.zeros(exact.shape, bool), x, *coefficients), bounds)

    def _rem(self, x: Value, y: Value) -> Value:
        """C's fmod rounds nothing (its result is a number of the format); a quotient that may fall either side of an integer moves it by |y|."""
        exact = self.extended.elementwise("rem", self.exact(x), self.exact(y))
        t = self._variation("rem", [x, y], {})
        return self._value(exact, self._settled(exact, t, np.zeros(exact.shape, bool), x, y))

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
        slack = np.where(t > 0, np.abs(np.nan_to_num(centre, posinf=0.0, neginf=0.0)) * 2.0**-51, 0.0)
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

    # Sums -----------------------------------------------------------------------------------------------------------------------

    def _summed(
        self,
        bounds: Bounds,
        carried: np.ndarray,
        absolute: np.ndarray,
        roundings: np.ndarray,
        lost: np.ndarray,
        fmt: Format,
        quantum: np.ndarray | float,
    ) -> np.ndarray:
        """t of a sum in any order, accumulated in the budget's format and rounded once to the dtype.

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
        """
        accumulator = self.budget.accumulator(fmt)
        reach = upward.add(absolute, carried)
        before = upward.add(carried, upward.mul(upward.gamma(np.maximum(roundings - 1, 0), accumulator.unit_roundoff), reach), lost)
        final = np.where(roundings > 0, upward.mul(accumulator.unit_roundoff, upward.add(bounds[1], before)), 0.0)
        t = upward.add(before, final)
        # A partial sum may overflow although the sum does not, unless all terms have one sign.
        one_sign = bounds[0] >= absolute * (1 - 2.0**-50)
        t = np.where((upward.add(reach, t) > accumulator.maximum) & ~one_sign & (roundings > 1), np.inf, t)
        exactly = (carried == 0) & self._fits(np.asarray(quantum), absolute, accumulator)
        # Terms that are all exactly zero sum to zero.
        t = np.where((reach > 0) & ~exactly, t, 0.0)
        final_rounding = 0.0 if accumulator is fmt else np.where(exactly & self._fits(np.asarray(quantum), absolute, fmt), 0.0, 1.0)
        return self._rounded(bounds, t, final_rounding, fmt)

    def _lost(self, operations: np.ndarray | float, fmt: Format) -> np.ndarray:
        """What operations may lose below the normal range: each all of a number there if flushed, else half the smallest number."""
        accumulator = self.budget.accumulator(fmt)
        return upward.mul(operations, accumulator.smallest_normal if self.budget.flush_subnormals else accumulator.smallest / 2)

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
        """n terms in any order: at most n - 1 additions on each (Higham, section 4.2)."""
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
        t = self._summed(bounds, carried, absolute, np.maximum(n - 1, 0), self._lost(np.maximum(n - 1, 0), fmt), fmt, quantum)
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
        t = self._summed(bounds, carried, absolute, additions, self._lost(additions, fmt), fmt, quantum)
        return self._sum_value(exact, np.where(additions == 0, self.error(x), t), carried, bounds)

    def contract(self, terms: Sequence[Term], output: str, sizes: Mapping[str, int], dtype: np.dtype) -> Value:
        """A sum of products: one rounding a product and the additions, in any order, fused or not: at most n on each product (Higham, eq. 3.5).

        A scale other than 1 and -1 is an ordinary scalar: it may be rounded to the dtype, and multiplying by it rounds. In a narrow format, a term
        that is scaled, or added to other terms, may be rounded to the format first, as a program that writes the terms one by one would.
        """
        exact = self.extended.contract([Term(t.scale, tuple((self.exact(x), n) for x, n in t.factors), t.copies) for t in terms], output, sizes, dtype)
        fmt, bounds = format_of(dtype), self.field.magnitude(exact.parts)
        narrow = self.budget.accumulator(fmt) is not fmt
        shape = exact.shape
        carried, absolute, lost, early = (np.zeros(shape) for _ in range(4))
        uncertain = np.zeros(shape, bool)
        additions, products, quantum = -1, 0, np.inf
        for term in terms:
            quantum = min(quantum, self._term_quantum(term, fmt))
            n = _number_of_products(term, output, sizes)
            size, two = float(abs(term.scale)), len(term.factors) == 2
            magnitude, error, doubtful = self._term(term, output, sizes, n)
            magnitude, error = upward.mul(size, magnitude), upward.mul(size, error)
            reach = upward.add(magnitude, error)
            absolute, carried, uncertain = upward.add(absolute, magnitude), upward.add(carried, error), uncertain | doubtful
            additions += n
            # Products of two numbers of a narrow format are exact in the accumulator.
            products = max(products, int(two and 2 * fmt.precision > self.budget.accumulator(fmt).precision))
            scaled = abs(term.scale) not in (0, 1)
            roundings = float(scaled) + float(not _is_number_of(term.scale, fmt))
            computed = n > 1 or two
            roundings += float(narrow and computed and (scaled or len(terms) > 1))
            copied = any(c not in output and any(c in names for _, names in term.factors) for c in term.copies)
            roundings += float(narrow and two and copied and self.budget.rounds_copies)
            # Two or three relative errors u, multiplied together.
            early = upward.add(early, upward.mul(upward.gamma(roundings, fmt.unit_roundoff), reach))
            steps = self._lost(max(n * (1 + two) - 1, 0) + roundings, fmt) if not narrow else self._lost(2 * n, fmt) + roundings * fmt.smallest_normal
            lost = upward.add(lost, np.where(reach > 0, upward.mul(max(size, 1.0), steps), 0.0))
        if len(terms) == 1 and additions + products == 0 and not early.any() and len(terms[0].factors) < 2:
            return self._value(exact, carried, bounds)
        roundings = np.full(shape, float(max(additions, 0) + products))
        t = self._summed(bounds, upward.add(carried, early), absolute, roundings, lost, fmt, quantum)
        return self._value(exact, np.where(nonfinite(exact.codes()), np.where(uncertain, np.inf, 0.0), t), bounds)

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
        if len(names) == 1:
            carried = total(error[0])
            return total(magnitude[0]), carried, np.isinf(carried)
        (x, y), (tx, ty) = magnitude, error
        carried = upward.add(total(x, ty), total(tx, y), total(tx, ty))
        # Infinity times a number that may vanish or change sign; anything times a number that may be anything.
        crossing = [(e > 0) & (self.magnitude(v)[0] <= e) for (v, _), e in zip(term.factors, error, strict=True)]
        infinities = [infinite(v.codes()) for v, _ in term.factors]
        all_of = [np.ones(v.shape, bool) for v, _ in term.factors]
        doubtful = np.zeros(shape, bool)
        for masks in ([infinities[0], crossing[1]], [crossing[0], infinities[1]], [anything[0], all_of[1]], [all_of[0], anything[1]]):
            if all(m.any() for m in masks):
                doubtful = doubtful | (count_products(masks, names, output, sizes) > 0)
        return total(x, y), np.where(doubtful, np.inf, carried), doubtful

    # Casts ----------------------------------------------------------------------------------------------------------------------

    def convert(self, x: Value, dtype: np.dtype) -> Value:
        """To a format that holds all numbers of the old one: nothing. To another: one rounding."""
        exact = self.extended.convert(self.exact(x), dtype)
        old, new, bounds = format_of(x.dtype), format_of(dtype), self.magnitude(x)
        t = self.operand_error(x)
        wider = new.precision >= old.precision and new.maximum >= old.maximum and new.smallest_exponent <= old.smallest_exponent
        t = self._flushed(bounds, t, new) if wider else self._rounded(bounds, t, 1.0, new)
        return self._value(exact, self._settled(exact, t, np.isfinite(self.operand_error(x)), x), bounds)

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


#: Functions whose result the format holds, so that they do not round: their error is that of the argument only.
_EXACT_FUNCTIONS = frozenset({"floor", "ceil", "round_half_away", "round_half_even"})


def _number_of_products(term: Term, output: str, sizes: Mapping[str, int]) -> int:
    summed = {n for _, names in term.factors for n in names if n not in output}
    return int(np.prod([sizes[n] for n in summed], dtype=np.int64))


def _is_number_of(scale: Fraction, fmt: Format) -> bool:
    return round_fraction(scale, fmt) == scale
