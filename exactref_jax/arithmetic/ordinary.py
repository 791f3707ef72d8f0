"""The normal answer: the same program in its own dtype, every operation rounded as IEEE 754 says, in a stated order.

- Sums, contractions and running sums go from left to right: the first term, then each further product rounded and added, the sum rounded. Summed
  indices run in row-major order, in the order in which the first factor that has them has them; terms of a contraction follow each other.
- Half formats and float8 accumulate in float32 (products, sums, scalars) and are rounded once at the end.
- A scalar factor is rounded to the accumulation format, and multiplies the finished sum.
- Elementary functions are rounded to nearest from at least 128 bits. An integer power is computed by squaring.
- Comparisons, and so branches, are those of the rounded numbers. Nothing is flushed.

Numbers are float64 arrays that hold numbers of the format. `+ - * / sqrt` in a format of precision p <= 25 may be computed in float64 and rounded
again: the double rounding is innocuous, as 53 >= 2 p + 2 (Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30, 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..formats import Format, decode, format_of, round_exact, round_fraction
from ..values import ABSENT, NAN, NEGATIVE_INFINITY, NEGATIVE_ZERO, POSITIVE_INFINITY, Datum, Value
from . import surd
from .ball import Ball, precision
from .budget import Budget
from .constants import FLOATS
from .extended import Extended, choose, cumulate
from .interface import Term

_BITS = 128


class Ordinary:
    """IEEE arithmetic in the program's dtypes."""

    def __init__(self, budget: Budget | None = None):
        self.budget = budget or Budget()
        self.extended = Extended(Ball())

    def _value(self, x: np.ndarray | float, dtype: np.dtype) -> Value:
        """`x`, rounded once to the dtype."""
        return Value((np.asarray(round_exact(np.asarray(x, np.float64), format_of(dtype))),), None, np.dtype(dtype))

    def lift(self, array: np.ndarray, dtype: np.dtype) -> Value:
        """Numbers of the dtype; integers rounded to it."""
        array = np.asarray(array)
        fmt = format_of(dtype)
        if array.dtype.kind in "iu":
            rounded = np.array([round_fraction(int(v), fmt) for v in array.flat], np.float64).reshape(array.shape)
            return Value((rounded,), None, np.dtype(dtype))
        return self._value(decode(array), dtype)

    def unknown(self, shape: tuple[int, ...], dtype: np.dtype) -> Value:
        """Uninitialised memory: zeros will do."""
        return self._value(np.zeros(shape), dtype)

    # Functions ------------------------------------------------------------------------------------------------------------

    def elementwise(self, name: str, *xs: Value, **params: Any) -> Value:
        """One operation, rounded once."""
        dtype = xs[0].dtype
        operands = [x.parts[0] for x in xs]
        with np.errstate(all="ignore"):
            if name in _BASIC:
                return self._basic(name, xs, operands, dtype)
            if name == "integer_pow":
                return self._integer_pow(xs[0], params["y"])
            if name == "polynomial":
                return self._polynomial(*xs)
            if name == "one_minus_square":
                square = self.elementwise("mul", xs[0], xs[0])
                return self._value(1.0 - square.parts[0], dtype)
            return self._correctly_rounded(name, xs, params)

    def _basic(self, name: str, xs: Sequence[Value], operands: Sequence[np.ndarray], dtype: np.dtype) -> Value:
        out = self._value(_BASIC[name](*operands), dtype)
        if all(x.special is None for x in xs) or name not in ("mul", "div", "neg", "add", "sub"):
            return out
        absent = [np.broadcast_to(x.codes() == ABSENT, out.shape) for x in xs]
        gone = absent[0] & absent[1] if name in ("add", "sub") else absent[0] | absent[1] if name == "mul" else absent[0]
        return Value((np.where(gone, 0.0, out.parts[0]),), np.where(gone, ABSENT, 0).astype(np.uint8) if gone.any() else None, out.dtype)

    def _correctly_rounded(self, name: str, xs: Sequence[Value], params: Mapping[str, Any]) -> Value:
        """The function's exact value at these arguments, rounded; from the midpoint of the enclosure where 128 bits do not decide."""
        dtype = xs[0].dtype
        with precision(_BITS):
            exact = self.extended.elementwise(name, *(self.extended.lift(x.parts[0], dtype) for x in xs), **params)
            return self._from_exact(exact, dtype)

    def _from_exact(self, exact: Value, dtype: np.dtype) -> Value:
        out = self.extended.field.nearest(exact.parts, format_of(dtype))
        special = {NEGATIVE_ZERO: -0.0, POSITIVE_INFINITY: np.inf, NEGATIVE_INFINITY: -np.inf, NAN: np.nan}
        for code, number in special.items():
            out = np.where(exact.codes() == code, number, out)
        return self._value(out, dtype)

    def _integer_pow(self, x: Value, y: int) -> Value:
        out: Value | None = None
        base, n = x, abs(y)
        while n:
            if n & 1:
                out = base if out is None else self.elementwise("mul", out, base)
            n >>= 1
            base = self.elementwise("mul", base, base) if n else base
        if out is None:
            return self._value(np.ones(x.shape), x.dtype)
        return out if y > 0 else self._value(1.0 / out.parts[0], x.dtype)

    def _polynomial(self, x: Value, *coefficients: Value) -> Value:
        out = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            out = self.elementwise("add", self.elementwise("mul", out, x), c)
        return self._value(np.broadcast_to(out.parts[0], np.broadcast_shapes(out.shape, x.shape)), x.dtype)

    def multiple(self, x: Value, name: str) -> Value:
        """The constant is rounded, then the product."""
        constant = round_exact(np.asarray(FLOATS[name]), format_of(x.dtype))
        with np.errstate(all="ignore"):
            return self._value(x.parts[0] * constant, x.dtype)

    def absent(self, shape: tuple[int, ...], dtype: np.dtype) -> Value:
        """Zeros that are known for what they are until they are added to something."""
        return Value((np.zeros(shape),), np.full(shape, ABSENT, np.uint8), np.dtype(dtype))

    # Order ----------------------------------------------------------------------------------------------------------------

    def compare(self, x: Value, y: Value) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the rounded numbers; never in doubt."""
        a, b = x.parts[0], y.parts[0]
        with np.errstate(invalid="ignore"):
            sign = (a > b).astype(np.int8) - (a < b).astype(np.int8)
        unordered = np.isnan(a) | np.isnan(b)
        return sign.astype(np.int8), unordered, np.zeros(sign.shape, bool)

    def is_negative_zero(self, x: Value) -> np.ndarray:
        """Of the rounded numbers."""
        return (x.parts[0] == 0) & np.signbit(x.parts[0])

    def is_finite(self, x: Value) -> Datum:
        """Of the rounded numbers."""
        return np.isfinite(x.parts[0])

    def maximum(self, x: Value, y: Value) -> Value:
        """NaN if either is."""
        return self._value(np.maximum(x.parts[0], y.parts[0]), x.dtype)

    def minimum(self, x: Value, y: Value) -> Value:
        """NaN if either is."""
        return self._value(np.minimum(x.parts[0], y.parts[0]), x.dtype)

    def select(self, which: Datum, cases: Sequence[Value]) -> Value:
        """The chosen case."""
        return choose(which, cases)

    def approximate(self, x: Value) -> np.ndarray:
        """The numbers themselves."""
        return x.parts[0]

    def overlapping(self, x: Value) -> np.ndarray:
        """None."""
        return np.zeros(x.shape, bool)

    def displaced(self, moved: Value, before: Value, doubt: np.ndarray, is_key: bool) -> Value:
        """The sorted operand."""
        return moved

    # Sums -----------------------------------------------------------------------------------------------------------------

    def _accumulator(self, dtype: np.dtype) -> Format:
        return self.budget.accumulator(format_of(dtype))

    def sum(self, x: Value, axes: tuple[int, ...]) -> Value:
        """From left to right, row-major, in the accumulation format."""
        kept = [a for a in range(len(x.shape)) if a not in axes]
        count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
        rows = x.parts[0].transpose([*axes, *kept]).reshape([count, *(x.shape[a] for a in kept)])
        return self._value(self._running(rows, x.dtype, lambda total: None), x.dtype)

    def _running(self, rows: np.ndarray, dtype: np.dtype, see: Callable[[np.ndarray], None]) -> np.ndarray:
        fmt = self._accumulator(dtype)
        if not len(rows):
            return np.zeros(rows.shape[1:])
        total = rows[0]
        see(total)
        with np.errstate(all="ignore"):
            for row in rows[1:]:
                total = round_exact(total + row, fmt)
                see(total)
        return total

    def segment_sum(self, x: Value, segments: np.ndarray, count: int) -> Value:
        """Each segment from left to right."""
        fmt = self._accumulator(x.dtype)
        out, started = np.zeros(count), np.zeros(count, bool)
        with np.errstate(all="ignore"):
            for value, segment in zip(x.parts[0], segments, strict=True):
                if segment >= 0:
                    out[segment] = round_exact(out[segment] + value, fmt) if started[segment] else value
                    started[segment] = True
        return self._value(out, x.dtype)

    def cumulative(self, name: str, x: Value, axis: int, reverse: bool) -> Value:
        """From left to right (from right to left, if `reverse`)."""
        if name != "cumsum":
            step: Callable[[Value, Value], Value] = {
                "cumprod": lambda a, b: self.elementwise("mul", a, b),
                "cummax": self.maximum,
                "cummin": self.minimum,
            }[name]
            return cumulate(step, x, axis, reverse)
        rows = np.moveaxis(x.parts[0], axis, 0)
        seen: list[np.ndarray] = []
        self._running(rows[::-1] if reverse else rows, x.dtype, seen.append)
        if not seen:
            return x
        out = np.stack(seen[::-1] if reverse else seen, 0)
        return self._value(np.moveaxis(out, 0, axis), x.dtype)

    def contract(self, terms: Sequence[Term], output: str, sizes: Mapping[str, int], dtype: np.dtype) -> Value:
        """Term by term; within a term product by product."""
        fmt = self._accumulator(dtype)
        shape = tuple(sizes[n] for n in output)
        total: np.ndarray | None = None
        with np.errstate(all="ignore"):
            for term in terms:
                products = _products(term, output, sizes, fmt)
                value: np.ndarray | None = None
                for product in products:
                    value = product if value is None else round_exact(value + product, fmt)
                value = np.zeros(shape) if value is None else value
                if term.scale != 1:
                    value = round_exact(value * surd.rounded(term.scale, fmt), fmt)
                total = value if total is None else round_exact(total + value, fmt)
        return self._value(np.zeros(shape) if total is None else total, dtype)

    def matrix_exp(self, real: Value, imag: Value | None) -> tuple[Value, ...]:
        """The exact exponential of these matrices, rounded: no order of operations is conventional."""
        operands = [v for v in (real, imag) if v is not None]
        with precision(_BITS):
            exact = self.extended.matrix_exp(*(self.extended.lift(v.parts[0], v.dtype) for v in operands), *([None] * (2 - len(operands))))
            out = [self._from_exact(e, v.dtype) for e, v in zip(exact, operands, strict=True)]
        return tuple(out)

    # Casts ----------------------------------------------------------------------------------------------------------------

    def convert(self, x: Value, dtype: np.dtype) -> Value:
        """Rounded once to the new dtype."""
        return self._value(x.parts[0], dtype)

    def truncate(self, x: Value, dtype: np.dtype) -> Datum:
        """Toward zero, into the integer type's range; NaN to zero."""
        if np.dtype(dtype).kind == "b":
            return x.parts[0] != 0
        info = np.iinfo(dtype)
        whole = np.nan_to_num(np.trunc(x.parts[0]), nan=0.0, posinf=np.inf, neginf=-np.inf)
        clipped = [info.max if v >= info.max else info.min if v <= info.min else int(v) for v in whole.flat]
        return np.array(clipped, dtype).reshape(whole.shape)

    def reordered_product(self, product: Value, rows: Value) -> Value:
        """From left to right."""
        return product

    def taint(self, outputs: Sequence[Datum], question: str) -> list[Datum]:
        """Nothing is ever in doubt here."""
        return list(outputs)


def _products(term: Term, output: str, sizes: Mapping[str, int], fmt: Format) -> Any:
    """The term's products one after the other, each an array of the output's shape, rounded to `fmt`."""
    summed: list[str] = []
    for _, names in term.factors:
        summed += [n for n in names if n not in output and n not in summed]
    order = [*summed, *output]
    full = tuple(sizes[n] for n in order)
    factors = []
    for x, names in term.factors:
        present = [n for n in order if n in names]
        arranged = x.parts[0].transpose([names.index(n) for n in present])
        factors.append(np.broadcast_to(arranged.reshape([sizes[n] if n in names else 1 for n in order]), full))
    if not factors:
        yield np.ones(full)
        return
    for index in np.ndindex(*(sizes[n] for n in summed)):
        if len(factors) == 1:
            yield factors[0][index]
        else:
            yield round_exact(factors[0][index] * factors[1][index], fmt)


def _rem(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmod(a, b)


#: Operations that float64 rounds correctly, and those that do not round.
_BASIC: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "square": np.square,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round_half_even": np.rint,
    "rem": _rem,
}
