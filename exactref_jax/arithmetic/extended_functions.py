"""Functions of one element on the extended reals: the field's where all is finite, the tables of `specials` elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import specials
from ..formats import decode
from ..specials import BEHAVIOUR, CODE, INF, MAGNITUDE, NEGATED, Behaviour, codes_of, infinite, nonfinite
from ..values import (
    ABSENT,
    FINITE,
    NAN,
    NEGATIVE_INFINITY,
    NEGATIVE_ZERO,
    POSITIVE_INFINITY,
    UNKNOWN,
    UNSIGNED_ZERO,
    Value,
    move,
)
from .interface import UNDECIDED, Parts


def where(mask: np.ndarray, yes: Parts, no: Parts) -> Parts:
    """Element by element, one of two numbers."""
    return tuple(np.where(mask, p, q) for p, q in zip(yes, no, strict=True))


_SIGNS = (-1.0, 1.0)
#: Operations in which a derivative that is not there stays so.
_LINEAR = frozenset(("neg", "add", "sub", "mul", "div"))
#: The class of a square where the class itself is open: a zero is +0, a number is not negative.
_SQUARED = np.arange(specials.CLASSES, dtype=np.int8)
_SQUARED[specials.SOME_ZERO] = specials.PLUS_ZERO


class Functions:
    """Elementwise operations over a field of finite reals."""

    def __init__(self, field: Any):
        self.field = field

    # Making values ------------------------------------------------------------------------------------------------------

    def lift(self, array: np.ndarray, dtype: np.dtype) -> Value:
        """Floats (special values included) or integers, exactly."""
        array = np.asarray(array)
        if array.dtype.kind in "biu":
            return Value(self.field.lift(array), None, dtype)
        x = decode(array)
        codes = codes_of(x)
        return self._value(self.field.lift(np.where(np.isfinite(x), x + 0.0, 0.0)), codes, dtype)

    def unknown(self, shape: tuple[int, ...], dtype: np.dtype) -> Value:
        """Numbers of which nothing is known."""
        return Value(self.field.lift(np.zeros(shape)), np.full(shape, UNKNOWN, np.uint8), dtype)

    def _value(self, parts: Parts, codes: np.ndarray | None, dtype: np.dtype) -> Value:
        """A value whose parts are zero wherever its code says that it is no finite nonzero number."""
        if codes is None or not codes.any():
            return Value(parts, None, dtype)
        codes = np.broadcast_to(codes, parts[0].shape).astype(np.uint8)
        return Value(where(codes != FINITE, self.field.lift(np.zeros(codes.shape)), parts), codes, dtype)

    def classes(self, x: Value) -> np.ndarray:
        """The class of each element, as `specials` numbers them."""
        sign, codes = self.field.sign(x.parts), x.codes()
        out = np.array([specials.NEGATIVE, specials.PLUS_ZERO, specials.POSITIVE, specials.SOME_FINITE], np.int8)[sign + 1]
        by_code = {
            NEGATIVE_ZERO: specials.MINUS_ZERO,
            POSITIVE_INFINITY: specials.PLUS_INF,
            NEGATIVE_INFINITY: specials.MINUS_INF,
            NAN: specials.NOT_NUMBER,
            UNSIGNED_ZERO: specials.SOME_ZERO,
            UNKNOWN: specials.ANYTHING,
            ABSENT: specials.NO_DERIVATIVE,
        }
        for code, cls in by_code.items():
            out = np.where(codes == code, np.int8(cls), out)
        return out

    def is_negative_zero(self, x: Value) -> np.ndarray:
        """True where the number is certainly -0."""
        return x.codes() == NEGATIVE_ZERO

    def is_zero(self, x: Value) -> np.ndarray:
        """True where the number is certainly a zero, of whatever sign."""
        return self.field.is_zero(x.parts) & ~nonfinite(x.codes())

    # Functions ----------------------------------------------------------------------------------------------------------

    def elementwise(self, name: str, *xs: Value, **params: Any) -> Value:
        """The function that JAX's primitive `name` computes, on the extended reals."""
        special = getattr(self, "_" + name, None)
        if name not in _LINEAR:
            xs = tuple(self.plain(x) for x in xs)
        return self._function(name, *xs) if special is None else special(*xs, **params)

    def plain(self, x: Value) -> Value:
        """The same numbers, where a derivative that is not there is the number 0."""
        if x.special is None or not (x.special == ABSENT).any():
            return x
        return self._value(x.parts, np.where(x.special == ABSENT, FINITE, x.special), x.dtype)

    def _function(self, name: str, x: Value) -> Value:
        behaviour, field = BEHAVIOUR[name], self.field
        parts = getattr(field, name)(x.parts)
        codes = np.where(field.is_finite(parts), FINITE, UNKNOWN).astype(np.uint8)
        parts, codes = self._edges(behaviour, x, parts, codes)
        if behaviour.keeps_sign:
            zero, sign = field.is_zero(parts) & (codes == FINITE), field.sign(x.parts)
            codes = np.where(zero & (sign == -1), NEGATIVE_ZERO, np.where(zero & (sign == UNDECIDED), UNSIGNED_ZERO, codes))
        if x.special is not None:
            before = x.special
            if behaviour.odd:
                pole = infinite(codes)
                codes = np.where(before == NEGATIVE_ZERO, np.where(pole, NEGATED[codes], NEGATIVE_ZERO), codes)
                codes = np.where(before == UNSIGNED_ZERO, np.where(pole, UNKNOWN, UNSIGNED_ZERO), codes)
            parts, codes = self._limit(parts, codes, before == POSITIVE_INFINITY, behaviour.at_infinity)
            parts, codes = self._limit(parts, codes, before == NEGATIVE_INFINITY, behaviour.at_minus_infinity)
            codes = np.where((before == NAN) | (before == UNKNOWN), before, codes)
        return self._value(parts, codes, x.dtype)

    def _edges(self, behaviour: Behaviour, x: Value, parts: Parts, codes: np.ndarray) -> tuple[Parts, np.ndarray]:
        """NaN outside the domain, the given values at its ends, UNKNOWN where the side is undecided."""
        for edge, value, inward in ((behaviour.lower, behaviour.at_lower, 1), (behaviour.upper, behaviour.at_upper, -1)):
            if edge is None:
                continue
            distance = x.parts if edge == 0 else self.field.sub(x.parts, self.field.constant(edge, x.parts))
            side = self.field.sign(distance)
            codes = np.where(side == -inward, NAN, np.where(side == UNDECIDED, UNKNOWN, codes)).astype(np.uint8)
            if value is not None:
                parts, codes = self._limit(parts, codes, side == 0, value)
        return parts, codes

    def _limit(self, parts: Parts, codes: np.ndarray, at: np.ndarray, value: float | str) -> tuple[Parts, np.ndarray]:
        """Put `value` where the mask `at` says."""
        if not at.any():
            return parts, codes
        if isinstance(value, str):
            number = getattr(self.field, value.removeprefix("-"))(parts)
            number, code = (self.field.neg(number) if value.startswith("-") else number), np.uint8(FINITE)
        else:
            number, code = self.field.constant(value if np.isfinite(value) else 0.0, parts), codes_of(value)
        return where(at, number, parts), np.where(at, code, codes).astype(np.uint8)

    def _neg(self, x: Value) -> Value:
        zero = self.field.is_zero(x.parts) & (x.codes() == FINITE)
        return self._value(self.field.neg(x.parts), np.where(zero, NEGATIVE_ZERO, NEGATED[x.codes()]), x.dtype)

    def _abs(self, x: Value) -> Value:
        sign = self.field.sign(x.parts)
        # |x| of a positive x *is* x: the field's own abs is for undecided signs only.
        parts = where(sign == -1, self.field.neg(x.parts), x.parts)
        if (sign == UNDECIDED).any():
            parts = where(sign == UNDECIDED, self.field.abs(x.parts), parts)
        return self._value(parts, None if x.special is None else MAGNITUDE[x.special], x.dtype)

    def _sign(self, x: Value) -> Value:
        sign, codes = self.field.sign(x.parts), x.codes()
        sign = np.where(codes == POSITIVE_INFINITY, 1, np.where(codes == NEGATIVE_INFINITY, -1, sign))
        out = np.where(sign == UNDECIDED, UNKNOWN, np.where(sign == 0, codes, FINITE))
        return self._value(self.field.lift(np.where(sign == UNDECIDED, 0, sign).astype(np.float64)), out, x.dtype)

    def _add(self, x: Value, y: Value) -> Value:
        return self._additive(specials.ADD, self.field.add, x, y)

    def _sub(self, x: Value, y: Value) -> Value:
        return self._additive(specials.SUB, self.field.sub, x, y)

    def _additive(self, table: np.ndarray, exact: Callable[..., Parts], x: Value, y: Value) -> Value:
        parts = exact(x.parts, y.parts)
        if x.special is None and y.special is None:
            return Value(parts, None, x.dtype)
        # A finite sum is the field's; the table knows the rest, and the sign of a sum of two zeros.
        at = nonfinite(x.codes()) | nonfinite(y.codes()) | (self.is_zero(x) & self.is_zero(y))
        return self._value(parts, self._by_table(table, at, x, y), x.dtype)

    def _mul(self, x: Value, y: Value) -> Value:
        parts = self.field.mul(x.parts, y.parts)
        at = self.field.is_zero(parts) | nonfinite(x.codes()) | nonfinite(y.codes())
        return self._value(parts, self._by_table(specials.MUL, at, x, y), x.dtype)

    def _div(self, x: Value, y: Value) -> Value:
        sign = self.field.sign(y.parts)
        unsafe = (sign == 0) | (sign == UNDECIDED)
        divisor = where(unsafe, self.field.constant(1.0, y.parts), y.parts) if unsafe.any() else y.parts
        parts = self.field.div(x.parts, divisor)
        at = self.field.is_zero(parts) | unsafe | nonfinite(x.codes()) | nonfinite(y.codes())
        to_zero = infinite(y.codes()) & ~nonfinite(x.codes())
        if to_zero.any():
            parts = where(to_zero, self.field.constant(0.0, parts), parts)
        return self._value(parts, self._by_table(specials.DIV, at, x, y), x.dtype)

    def _by_table(self, table: np.ndarray, at: np.ndarray, x: Value, y: Value) -> np.ndarray | None:
        """Codes from a table of classes, for the elements in the mask `at`; elsewhere FINITE."""
        if not at.any():
            return None
        shape = at.shape
        chosen = [move(lambda p: np.broadcast_to(p, shape)[at], v) for v in (x, y)]
        codes = np.zeros(shape, np.uint8)
        codes[at] = CODE[table[self.classes(chosen[0]), self.classes(chosen[1])]]
        return codes

    def _square(self, x: Value) -> Value:
        return self._value(self.field.square(x.parts), None if x.special is None else MAGNITUDE[x.special], x.dtype)

    def _integer_pow(self, x: Value, *, y: int) -> Value:
        """x^y. Its specials are those of the product of y factors x, and of one divided by it."""
        if y in (0, 1):
            return x if y else self._value(self.field.constant(1.0, x.parts), None, x.dtype)
        parts = self.field.integer_pow(x.parts, y=abs(y))
        # x x has the class of an even power, x x x that of an odd one.
        classes = self.classes(x)
        squared = specials.MUL[classes, classes]
        squared = np.where((classes == specials.SOME_FINITE) | (classes == specials.SOME_ZERO), _SQUARED[classes], squared)
        power = squared if y % 2 == 0 else specials.MUL[squared, classes]
        special = (classes != specials.NEGATIVE) & (classes != specials.POSITIVE) & (classes != specials.SOME_FINITE)
        out = self._value(parts, np.where(special, CODE[power], FINITE), x.dtype)
        return out if y > 0 else self._div(self._value(self.field.constant(1.0, parts), None, x.dtype), out)

    def _polynomial(self, x: Value, *coefficients: Value) -> Value:
        """Horner's scheme on the extended reals, which is what JAX's primitive computes; the first coefficient is the constant one."""
        out = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            out = self._add(self._mul(out, x), c)
        return move(lambda p: np.broadcast_to(p, np.broadcast_shapes(p.shape, x.shape)), out)

    def _pow(self, x: Value, y: Value) -> Value:
        """IEEE pow. Beyond positive bases and finite exponents it depends on |x| against 0, 1, infinity and on y being odd, even or no integer."""
        x, y = broadcast(x, y)
        field = self.field
        sign = field.sign(x.parts)
        at = (sign != 1) | nonfinite(x.codes()) | nonfinite(y.codes())
        base = where(at, field.constant(1.0, x.parts), x.parts)
        parts = field.pow(base, y.parts)
        codes = np.where(field.is_finite(parts), FINITE, UNKNOWN).astype(np.uint8)
        if not at.any():
            return self._value(parts, codes, x.dtype)
        xs, ys = (move(lambda p: p[at], v) for v in (x, y))
        bases, exponents = self._power_bases(xs), self._power_exponents(ys)
        with np.errstate(all="ignore"):
            results = np.stack([np.power(b, e) for b in bases for e in exponents], -1)
        classes = _joined(results)
        open_ = (xs.codes() == UNKNOWN) | (ys.codes() == UNKNOWN)
        # A negative base: the magnitude to the power, with the sign that the parity gives.
        magnitude = field.pow(where(field.sign(xs.parts) == -1, field.neg(xs.parts), field.constant(1.0, xs.parts)), ys.parts)
        value = where(classes == specials.NEGATIVE, field.neg(magnitude), magnitude)
        # pow(x, 0), pow(1, y) and pow(-1, inf) are 1, NaN or not; these bases and exponents do not go through the field.
        one = (results == 1).all(-1) & (nonfinite(xs.codes()) | nonfinite(ys.codes()) | (field.sign(xs.parts) == 0))
        value = where(one, field.constant(1.0, value), value)
        finite = (classes == specials.NEGATIVE) | (classes == specials.POSITIVE)
        settled = np.where(finite | (classes == specials.PLUS_ZERO), FINITE, np.where(classes == specials.SOME_FINITE, UNKNOWN, CODE[classes]))
        value = where(classes == specials.PLUS_ZERO, field.constant(0.0, value), value)
        settled = np.where(finite & ~one & ~field.is_finite(value), UNKNOWN, settled)
        codes[at] = np.where(open_ & (settled != NAN) & ~one, UNKNOWN, settled)
        return self._value(_put(parts, at, value), codes, x.dtype)

    def _power_bases(self, x: Value) -> list[np.ndarray]:
        """Representatives of each base: three magnitudes where it is not decided against 1, both signs where it is not decided against 0."""
        size = self.field.sign(self.field.sub(self.field.abs(x.parts), self.field.constant(1.0, x.parts)))
        classes = self.classes(x)
        out = []
        for magnitude, side in ((0.5, -1), (1.0, 0), (2.0, 1)):
            m = np.where(size == UNDECIDED, magnitude, np.select([size == -1, size == 0], [0.5, 1.0], 2.0))
            for s in (-1.0, 1.0):
                number = np.select([classes == specials.NEGATIVE, classes == specials.POSITIVE], [-m, m], s * m if side else s * 0.0)
                out.append(_representative(classes, number, s))
        return out

    def _power_exponents(self, y: Value) -> list[np.ndarray]:
        """Representatives of each exponent: odd, even or no integer, all of them where the parity is not decided."""
        parity, open_ = self.field.parity(y.parts)
        classes = self.classes(y)
        out = []
        for magnitude in (0.5, 1.0, 2.0):
            m = np.where(open_, magnitude, np.select([parity == 0, parity == 1], [2.0, 1.0], 0.5))
            for s in (-1.0, 1.0):
                number = np.select([classes == specials.NEGATIVE, classes == specials.POSITIVE], [-m, m], s * m if magnitude != 1 else s * 0.0)
                out.append(_representative(classes, number, s))
        return out

    def _atan2(self, y: Value, x: Value) -> Value:
        """IEEE atan2: with a zero or an infinity among the operands, a multiple of pi/4 with the sign of y."""
        y, x = broadcast(y, x)
        field = self.field
        parts = field.atan2(y.parts, x.parts)
        # On the negative half of the real line the angle jumps, so the sign of y must be known there.
        decided = (field.sign(y.parts) != UNDECIDED) | (field.sign(x.parts) == 1)
        codes = np.where(field.is_finite(parts) & decided, FINITE, UNKNOWN).astype(np.uint8)
        at = nonfinite(x.codes()) | nonfinite(y.codes()) | self.is_zero(x) | self.is_zero(y)
        if at.any():
            ys, xs = (move(lambda p: p[at], v) for v in (y, x))
            cy, cx = self.classes(ys), self.classes(xs)
            angles = np.stack([np.arctan2(_representative(cy, s, s), _representative(cx, t, t)) for s in _SIGNS for t in _SIGNS], -1)
            joined, angle = _joined(angles), angles[..., 0]
            quarters = np.where(np.isnan(angle), 0.0, np.rint(angle / (np.pi / 4)))
            number = field.mul(field.half_pi(ys.parts), field.lift(quarters / 2))
            one_angle = (angles == angles[..., :1]).all(-1) | (joined == specials.NOT_NUMBER)
            settled = np.where(one_angle, CODE[joined], np.where(joined == specials.SOME_ZERO, UNSIGNED_ZERO, UNKNOWN))
            open_ = ((ys.codes() == UNKNOWN) | (xs.codes() == UNKNOWN)) & (joined != specials.NOT_NUMBER)
            codes[at] = np.where(open_, UNKNOWN, settled)
            parts = _put(parts, at, number)
        return self._value(parts, codes, x.dtype)

    def _rem(self, x: Value, y: Value) -> Value:
        """C's fmod: x - y trunc(x / y), with the sign of x."""
        x, y = broadcast(x, y)
        field, cx, cy = self.field, x.codes(), y.codes()
        sign = field.sign(y.parts)
        unsafe = (sign == 0) | (sign == UNDECIDED)
        parts = field.rem(x.parts, where(unsafe, field.constant(1.0, y.parts), y.parts))
        parts = where(infinite(cy), x.parts, parts)
        codes = np.where((~infinite(cy) & (sign == UNDECIDED)) | ~field.is_finite(parts), UNKNOWN, FINITE)
        negative = (field.sign(x.parts) == -1) | (cx == NEGATIVE_ZERO)
        codes = np.where(field.is_zero(parts) & negative, NEGATIVE_ZERO, codes)
        codes = np.where(cx == UNSIGNED_ZERO, UNSIGNED_ZERO, codes)
        codes = np.where((cx == UNKNOWN) | (cy == UNKNOWN), UNKNOWN, codes)
        nan = infinite(cx) | (~infinite(cy) & (sign == 0) & (cy != UNKNOWN) & (cy != NAN)) | (cx == NAN) | (cy == NAN)
        return self._value(parts, np.where(nan, NAN, codes), x.dtype)


def broadcast(x: Value, y: Value) -> tuple[Value, Value]:
    """Both operands in their common shape."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    first, second = (move(lambda p: np.broadcast_to(p, shape), v) for v in (x, y))
    return first, second


def _put(parts: Parts, at: np.ndarray, values: Parts) -> Parts:
    out = tuple(np.array(p) for p in parts)
    for p, v in zip(out, values, strict=True):
        p[at] = v
    return out


def _representative(classes: np.ndarray, number: np.ndarray | float, sign: float) -> np.ndarray:
    """A float of each class; `number` where it is a finite nonzero one or its sign is open, a zero of `sign` where only that is open."""
    return np.select(
        [classes == c for c in (specials.NEGATIVE, specials.MINUS_ZERO, specials.PLUS_ZERO, specials.POSITIVE, specials.PLUS_INF)]
        + [classes == c for c in (specials.MINUS_INF, specials.NOT_NUMBER, specials.SOME_ZERO)],
        [-np.abs(number), -0.0, 0.0, np.abs(number), INF, -INF, np.nan, np.copysign(0.0, sign)],
        number,
    )


def _joined(results: np.ndarray) -> np.ndarray:
    """The class that holds all results along the last axis."""
    flat = results.reshape(-1, results.shape[-1])
    return np.array([specials.join({specials.class_of(float(r)) for r in row}) for row in flat], np.int8).reshape(results.shape[:-1])
