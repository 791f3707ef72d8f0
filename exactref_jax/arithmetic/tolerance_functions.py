"""What rounding does to functions of one element: each takes what its operands bring through the function, and adds its own rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..formats import format_of
from ..specials import nonfinite
from ..values import ABSENT, Value
from . import upward
from .tolerance_rounding import Rounding

#: Functions whose result the format holds, so that they do not round: their error is that of the argument only.
_EXACT_FUNCTIONS = frozenset({"floor", "ceil", "round_half_away", "round_half_even"})


class Functions(Rounding):
    """Elementwise operations with their budgets."""

    def elementwise(self, name: str, *xs: Value, **params: Any) -> Value:
        """The exact result, and what computing it in the dtype can do."""
        return self._renamed(name, self._computed(name, *xs, **params), xs)

    def _renamed(self, name: str, out: Value, xs: Sequence[Value]) -> Value:
        """The result under a new identity, where it is an operand's number but perhaps not the operand's *computed* number.

        One times x is x, and so is x plus zero; but a computed number times a computed one is that number only where the other is surely one, and
        nothing is rounded or flushed on the way. |x| is x only where x is surely not negative.
        """
        changed = np.zeros(out.shape, bool)
        for k, x in enumerate(xs):
            if len(x.parts) != len(out.parts):
                continue
            same = self.field.same(out.parts[:-3], tuple(np.broadcast_to(p, out.shape) for p in x.parts[:-3]))
            if not same.any():
                continue
            kept = self.error(out) == np.broadcast_to(self.error(x), out.shape)
            for j, other in enumerate(xs):
                if j != k:
                    kept = kept & (np.broadcast_to(self.operand_error(other), out.shape) == 0)
            if name == "abs":
                kept = kept & (self.magnitude(x)[0] > self.operand_error(x))
            changed = changed | (same & ~kept)
        if not changed.any():
            return out
        fresh = self.field.fresh(out.parts[:-3])
        parts = tuple(np.where(changed, f, p) for f, p in zip(fresh, out.parts[:-3], strict=True))
        return Value((*parts, *out.parts[-3:]), out.special, out.dtype)

    def _computed(self, name: str, *xs: Value, **params: Any) -> Value:
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
        jump = np.where(np.isinf(t), np.inf, np.where((t > 0) & (low <= t), 2.0, 0.0))
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
        t = self._settled(exact, t, self._stable_product(x, y), x, y)
        return self._value(exact, np.where(self._no_derivative(x) | self._no_derivative(y), 0.0, t), bounds)

    def _no_derivative(self, x: Value) -> np.ndarray:
        """Where a derivative is certainly not there."""
        return (x.codes() == ABSENT) & (self.error(x) == 0)

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
            # The reciprocal of a power of two is exact, but may be flushed all the same; that of a tiny number may overflow.
            lost = upward.div(1.0, upward.add(high_y, ty)) < 2 * fmt.smallest_normal
            t = upward.add(t, np.where(lost & (self._flushes(fmt) | ~power), upward.mul(upward.add(high_x, tx), fmt.smallest_normal), 0.0))
            t = np.where((gap > 0) & (upward.div(1.0, gap) > fmt.maximum) & (high_x > 0), np.inf, t)
        rounds = np.where(power, 0.0, 2.0 if self.budget.reciprocal_division else 1.0)
        t = np.where(self._certainly_zero(x) & np.isfinite(t), 0.0, self._rounded(bounds, t, rounds, fmt))
        t = self._settled(exact, t, self._stable_product(x, y), x, y)
        return self._value(exact, np.where(self._no_derivative(x), 0.0, t), bounds)

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

        gamma(2n) on the sum of the absolute terms (Higham, eq. 5.3), beside what the operands bring. An intermediate of any scheme is at most the sum of
        |c_k| max(1, |x|)^k; one that is flushed costs at most the smallest normal number times max(1, |c_k|) max(1, |x|)^n, 2n times.
        """
        exact = self.extended.elementwise("polynomial", self.exact(x), *(self.exact(c) for c in coefficients))
        fmt, n, bounds = format_of(exact.dtype), len(coefficients) - 1, self.field.magnitude(exact.parts)
        t = self._variation("polynomial", [x, *coefficients], {})
        total, largest = np.zeros(exact.shape), np.zeros(exact.shape)
        power, above_one, factor = np.ones(exact.shape), np.ones(exact.shape), np.ones(exact.shape)
        reach = upward.add(self.magnitude(x)[1], self.operand_error(x))
        for c in coefficients:
            size = upward.add(self.magnitude(c)[1], self.operand_error(c))
            total, largest = upward.add(total, upward.mul(size, power)), upward.add(largest, upward.mul(size, above_one))
            power, above_one, factor = upward.mul(power, reach), upward.mul(above_one, np.maximum(reach, 1.0)), np.maximum(factor, size)
        lost = upward.mul(2 * n * fmt.smallest_normal, factor, above_one)
        t = upward.add(t, upward.mul(upward.gamma(2 * n, fmt.unit_roundoff), total), np.where(total > 0, lost, 0.0))
        t = np.where((largest > fmt.maximum) | (above_one > fmt.maximum), np.inf, t)
        t = self._flushed(bounds, t, fmt)
        return self._value(exact, self._settled(exact, t, np.zeros(exact.shape, bool), x, *coefficients), bounds)

    def _rem(self, x: Value, y: Value) -> Value:
        """C's fmod rounds nothing (its result is a number of the format); a quotient that may fall either side of an integer moves it by |y|."""
        exact = self.extended.elementwise("rem", self.exact(x), self.exact(y))
        t = self._variation("rem", [x, y], {})
        return self._value(exact, self._settled(exact, t, np.zeros(exact.shape, bool), x, y))
