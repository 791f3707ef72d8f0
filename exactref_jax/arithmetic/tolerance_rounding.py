"""The invariant of a tolerance: what a value with a budget is, how one rounding changes it, and what it is as an operand.

See `tolerance.Tolerance` for the model. Everything that computes a `t` builds on the few methods here.
"""

from __future__ import annotations

import numpy as np

from ..formats import FLOAT64, Format, format_of
from ..specials import nonfinite
from ..values import NAN, UNKNOWN, Value
from . import upward
from .budget import Budget
from .extended import Extended

#: Lower and upper bound of a magnitude.
Bounds = tuple[np.ndarray, np.ndarray]


class Rounding:
    """Values that carry a budget, and the standard model of one rounding.

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
        """T of an operand: infinite where the number may have overflowed. A number without error is in the format, so in range."""
        t, high = self.error(x), self.magnitude(x)[1]
        overflowed = (t > 0) & (upward.add(high, t) >= self._overflow_limit(format_of(x.dtype))) & ~nonfinite(x.codes())
        return np.where(overflowed | (x.codes() == UNKNOWN), np.inf, t)

    @staticmethod
    def _overflow_limit(fmt: Format) -> float:
        """A number overflowed only if |x| + t reaches this.

        What rounds to infinity is at least the threshold T before it is rounded: |x| + c >= T, c the error it had before. `_rounded` charges at least
        one unit there, so t >= c + u (|x| + c), and |x| + t >= T (1 + u). In float64, T is no float64 number, and the maximum takes its place.
        """
        return fmt.maximum if fmt.precision >= FLOAT64.precision else float(fmt.overflow_threshold) * (1 + fmt.unit_roundoff)

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

    def _flushes(self, fmt: Format) -> bool:
        return self.budget.flushes(fmt)

    def _flushed(self, bounds: Bounds, t: np.ndarray, fmt: Format) -> np.ndarray:
        """t, at least the magnitude where the computed number may be subnormal and is then replaced by zero."""
        if not self.budget.flushes(fmt):
            return t
        low, high = bounds
        subnormal = upward.sub_below(low, t) < fmt.smallest_normal
        return np.where(subnormal & (high > 0), np.maximum(t, high), t)

    def _rounded(self, bounds: Bounds, t: np.ndarray, units: np.ndarray | float, fmt: Format) -> np.ndarray:
        """T after `units` further unit roundoffs of the result, with underflow and flushing.

        Below the normal range each rounding is off by half the smallest number instead: `u * smallest_normal = smallest / 2`.
        """
        low, high = bounds
        units = np.where(upward.add(high, t) > fmt.maximum, np.maximum(units, 1.0), units)
        relative = upward.mul(upward.mul(units, fmt.unit_roundoff), upward.add(high, t))
        subnormal = (upward.sub_below(low, t) < fmt.smallest_normal) & (high > 0)
        # Even a product by a power of two, which rounds nothing elsewhere, loses bits down there.
        absolute = np.where(subnormal, upward.mul(np.maximum(units, 1.0), fmt.smallest / 2), 0.0)
        # A number without error that leaves the range has one from here on, so that its use shows the overflow.
        out = np.where((t == 0) & (high > fmt.maximum), upward.mul(fmt.unit_roundoff, high), upward.add(t, relative, absolute))
        return self._flushed(bounds, out, fmt)

    def _settled(self, exact: Value, t: np.ndarray, stable: np.ndarray, *xs: Value) -> np.ndarray:
        """T where infinities and NaN take part: none where the outcome is the same for all operands within their errors.

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
        smallest = fmt.smallest_normal if self.budget.flushes(fmt) else fmt.smallest
        with np.errstate(over="ignore", invalid="ignore"):
            return (quantum >= smallest) & (high <= 2.0**fmt.precision * np.minimum(quantum, 1e300)) & (high <= fmt.maximum)
