"""Arb balls (python-flint): midpoint and radius at any precision, one Python object an element.

Always right and starts at once: there is nothing to compile. An Arb operation encloses the real result for every real in its operands
(Johansson, "Arb: efficient arbitrary-precision midpoint-radius interval arithmetic", IEEE Trans. Comput. 66, 2017); exact operands whose exact
result fits the precision give a radius of zero, and that is what decides ties.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from flint import acb, acb_mat, arb, arb_mat, ctx

from ..enclosed import Enclosed, round_enclosed
from ..formats import FLOAT64, Format, next_down, next_up, round_dyadic, same_number
from ..values import as_objects
from .constants import BALLS
from .enclosure import Enclosure
from .interface import UNDECIDED, Parts
from .surd import Scale, Surd


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Arb's working precision, for the duration; the caller's setting comes back."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def objects(function: Callable[..., Any], arity: int) -> Callable[..., Any]:
    """`function` applied to arrays of objects, element by element, broadcasting."""
    ufunc = np.frompyfunc(function, arity, 1)
    return lambda *xs: as_objects(ufunc(*xs))


def floats(function: Callable[..., Any], arity: int, dtype: Any = np.float64) -> Callable[..., np.ndarray]:
    """The same, for functions that answer with numbers or booleans."""
    ufunc = np.frompyfunc(function, arity, 1)
    return lambda *xs: np.asarray(ufunc(*xs)).astype(dtype)


def _method(name: str) -> Any:
    apply = objects(operator.methodcaller(name), 1)
    return lambda self, x: (apply(x[0]),)


def _function(function: Callable[..., Any], arity: int) -> Any:
    apply = objects(function, arity)
    return lambda self, *xs: (apply(*(x[0] for x in xs)),)


def _mul(a: arb, b: arb) -> arb:
    # One times a number *is* that number: identity decides comparisons that no precision does.
    return a if b == 1 else b if a == 1 else a * b


def _add(a: arb, b: arb) -> arb:
    return a if b.is_zero() else b if a.is_zero() else a + b


def _sub(a: arb, b: arb) -> arb:
    # The very same number minus itself is zero, which a ball cannot know.
    return arb(0) if a is b else a if b.is_zero() else a - b


def _div(a: arb, b: arb) -> arb:
    return arb(1) if a is b and a.is_finite() and not a.contains(0) else a if b == 1 else a / b


def _rsqrt(a: arb) -> arb:
    root = a.sqrt()
    return 1 / root if root.is_exact() else a.rsqrt()


def _cbrt(a: arb) -> arb:
    if a.is_zero():
        return a
    return a.root(3) if a >= 0 else -((-a).root(3)) if a < 0 else _straddling_cbrt(a)


def _straddling_cbrt(a: arb) -> arb:
    bound = a.abs_upper().root(3).abs_upper()
    return arb(0, 1) * bound if a.is_finite() else arb("nan")


def _logistic(a: arb) -> arb:
    # Both forms are the same number; the one whose exponential is small loses no bits.
    if a < 0:
        e = a.exp()
        return e / (1 + e)
    return 1 / (1 + (-a).exp())


def _exp2(a: arb) -> arb:
    return arb(2) ** a


def _log2(a: arb) -> arb:
    if a.is_exact():
        man, exp = a.man_exp()
        if man == 1:
            return arb(exp)
    return a.log_base(2)


def _round_half_away(a: arb) -> arb:
    return (a + 0.5).floor() if a >= 0 else -((-a + 0.5).floor())


def _round_half_even(a: arb) -> arb:
    down = (a + 0.5).floor()
    odd = not (down / 2).is_integer()
    return down - 1 if odd and (a + 0.5).is_integer() else down


def _integer(function: Callable[[arb], arb]) -> Callable[[arb], arb]:
    """A function with integer values: exact where the whole ball has one of them."""

    def apply(a: arb) -> arb:
        if not a.is_finite():
            return arb("nan")
        low, high = function(a.lower()), function(a.upper())
        return low if low == high else low.union(high)

    return apply


def _truncate(a: arb) -> arb:
    return a.floor() if a >= 0 else a.ceil()


def _rem(a: arb, b: arb) -> arb:
    quotient = _integer(_truncate)(a / b)
    return a - quotient * b


def _quantum(a: arb) -> float:
    if not a.is_exact():
        return 0.0
    man, exp = a.man_exp()
    if man == 0:
        return math.inf
    # Arb keeps mantissas odd. Beyond float64's range a smaller power of two divides it too, and 0 stands for "none".
    return math.ldexp(1.0, max(min(int(exp), 1000), -1100))


def _is_float(a: arb) -> bool:
    """Whether a ball is a float64 number."""
    if not a.is_exact():
        return False
    significand, exponent = a.man_exp()
    bits = int(significand).bit_length()
    return bits <= 53 and int(exponent) >= -1074 and bits + int(exponent) <= 1024


def _integer_of(a: arb) -> int:
    integer = a.unique_fmpz()
    if integer is None:
        raise ValueError(f"{a} is no single integer")
    return int(integer)


def _parity(a: arb) -> int:
    if a.is_exact():
        return 2 if not a.is_integer() else _integer_of(a) & 1
    return 2 if not a.contains_integer() else UNDECIDED + 1


_half_pi: Callable[[], arb] = lambda: arb.pi() / 2


class Ball(Enclosure):
    """Real numbers as Arb balls, at the precision that is set while it runs (see `precision`)."""

    name = "arb"

    def lift(self, array: np.ndarray) -> Parts:
        """Finite float64 numbers or integers, exactly. Each element becomes an object of its own, which is its identity."""
        array = np.asarray(array)
        if array.dtype.kind == "f":
            return (objects(arb, 1)(array.astype(object)),)
        return (objects(lambda v: arb(int(v)), 1)(array.astype(object)),)

    neg = _function(operator.neg, 1)
    add = _function(_add, 2)
    sub = _function(_sub, 2)
    mul = _function(_mul, 2)
    div = _function(_div, 2)
    abs = _function(abs, 1)
    square = _function(lambda a: a * a, 1)

    exp = _method("exp")
    expm1 = _method("expm1")
    exp2 = _function(_exp2, 1)
    log = _method("log")
    log1p = _method("log1p")
    log2 = _function(_log2, 1)
    sqrt = _method("sqrt")
    rsqrt = _function(_rsqrt, 1)
    cbrt = _function(_cbrt, 1)
    sin = _method("sin")
    cos = _method("cos")
    tan = _method("tan")
    asin = _method("asin")
    acos = _method("acos")
    atan = _method("atan")
    sinh = _method("sinh")
    cosh = _method("cosh")
    tanh = _method("tanh")
    asinh = _method("asinh")
    acosh = _method("acosh")
    atanh = _method("atanh")
    logistic = _function(_logistic, 1)
    erf = _method("erf")
    erfc = _method("erfc")
    erf_inv = _method("erfinv")
    pow = _function(lambda a, b: a**b, 2)
    atan2 = _function(arb.atan2, 2)
    rem = _function(_rem, 2)
    floor = _function(_integer(arb.floor), 1)
    ceil = _function(_integer(arb.ceil), 1)
    round_half_away = _function(_integer(_round_half_away), 1)
    round_half_even = _function(_integer(_round_half_even), 1)
    truncate = _function(_integer(_truncate), 1)
    maximum = _function(lambda a, b: a.max(b), 2)
    minimum = _function(lambda a, b: a.min(b), 2)

    def half_pi(self, like: Parts) -> Parts:
        """Pi / 2, with the shape of `like`."""
        return (np.full(like[0].shape, _half_pi(), object),)

    def integer_pow(self, x: Parts, *, y: int) -> Parts:
        """x^y; exact where it fits."""
        return (objects(lambda a: a**y, 1)(x[0]),)

    def scale(self, x: Parts, factor: Scale) -> Parts:
        """X times a rational number, or times a rational multiple of a square root.

        Exact numbers that are equal give one object: the same number times the same scale is the same number, however irrational.
        """
        if factor == -1:
            return self.neg(x)
        rational = factor.factor if isinstance(factor, Surd) else factor
        numerator, denominator = arb(rational.numerator), arb(rational.denominator)
        if isinstance(factor, Surd):
            numerator = numerator * arb(factor.root).sqrt()
        known: dict[Any, arb] = {}

        def times(a: arb) -> arb:
            if a.is_zero():
                return a
            if not a.is_exact():
                return a * numerator / denominator
            key = a.man_exp()
            if key not in known:
                known[key] = a * numerator / denominator
            return known[key]

        return (objects(times, 1)(x[0]),)

    def matmul(self, x: Parts, y: Parts) -> Parts:
        """(b, m, k) with (b, k, n), by Arb's matrix product: 2 to 20 ns a multiply-add, against 200 as separate objects.

        Johansson, "Faster arbitrary-precision dot product and matrix multiplication", ARITH 2019.
        """
        batch, m, k = x[0].shape
        n = y[0].shape[2]
        if k == 1:
            return self.mul((x[0],), (y[0],))
        out = np.empty((batch, m, n), object)
        for b in range(batch):
            if k == 0 or m == 0 or n == 0:
                out[b] = arb(0)
                continue
            product = arb_mat(m, k, x[0][b].ravel().tolist()) * arb_mat(k, n, y[0][b].ravel().tolist())
            out[b] = np.array(product.entries(), object).reshape(m, n)
        return (out,)

    def matrix_exp(self, real: Parts, imag: Parts | None) -> tuple[Parts, Parts | None]:
        """The exponentials of square matrices, (b, n, n): real and imaginary part."""
        batch, n, _ = real[0].shape
        out = [np.empty((batch, n, n), object) for _ in range(1 if imag is None else 2)]
        for b in range(batch):
            if imag is None:
                entries: Any = [arb_mat(n, n, real[0][b].ravel().tolist()).exp().entries()]
            else:
                numbers = [acb(x, y) for x, y in zip(real[0][b].flat, imag[0][b].flat, strict=True)]
                found = acb_mat(n, n, numbers).exp().entries()
                entries = [[z.real for z in found], [z.imag for z in found]]
            for o, values in zip(out, entries, strict=True):
                o[b] = np.array([*values, None], object)[:-1].reshape(n, n)
        return (out[0],), None if imag is None else (out[1],)

    def multiple(self, x: Parts, name: str) -> Parts:
        """X times a constant of `constants`."""
        constant = BALLS[name]()
        return (objects(lambda a: a * constant, 1)(x[0]),)

    def fresh(self, x: Parts) -> Parts:
        """The same numbers as new objects: numbers that are no longer certain to be the very ones they were."""
        return (objects(lambda a: arb(a), 1)(x[0]),)

    # What is known of a number -----------------------------------------------------------------------------------------

    def is_finite(self, x: Parts) -> np.ndarray:
        """False where the ball has no bounds."""
        return floats(arb.is_finite, 1, bool)(x[0])

    def is_zero(self, x: Parts) -> np.ndarray:
        """True where the ball is the number zero."""
        return floats(arb.is_zero, 1, bool)(x[0])

    def sign(self, x: Parts) -> np.ndarray:
        """-1, 0, 1 or `UNDECIDED`."""
        return floats(lambda a: 1 if a > 0 else -1 if a < 0 else 0 if a.is_zero() else UNDECIDED, 1, np.int8)(x[0])

    def same(self, x: Parts, y: Parts) -> np.ndarray:
        """True where both are one Python object: the same number, moved."""
        return floats(operator.is_, 2, bool)(x[0], y[0])

    def is_power_of_two(self, x: Parts) -> np.ndarray:
        """True where the number is certainly 2**k or -2**k."""
        return floats(lambda a: a.is_exact() and abs(a.man_exp()[0]) == 1, 1, bool)(x[0])

    def quantum(self, x: Parts) -> np.ndarray:
        """The largest power of two of which the number is certainly a multiple, in float64; infinite for zero, 0 where there is none."""
        return floats(_quantum, 1)(x[0])

    def integers(self, x: Parts) -> tuple[np.ndarray, np.ndarray]:
        """Numbers known to be integers, as Python ints, and where there is no single one."""
        found = objects(lambda a: a.unique_fmpz() if a.is_exact() else None, 1)(x[0])
        missing = floats(lambda n: n is None, 1, bool)(found)
        return np.asarray(np.frompyfunc(lambda n: 0 if n is None else int(n), 1, 1)(found), object), missing

    def parity(self, x: Parts) -> tuple[np.ndarray, np.ndarray]:
        """0 for an even integer, 1 for an odd one, 2 for no integer; and where that is not decided."""
        found = floats(_parity, 1, np.int8)(x[0])
        return found, found == UNDECIDED + 1

    def magnitude(self, x: Parts) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the absolute value, rounded outward to float64."""
        zero = self.is_zero(x)
        low = floats(lambda a: float(a.abs_lower()), 1)(x[0])
        high = floats(lambda a: float(a.abs_upper()), 1)(x[0])
        exact = floats(_is_float, 1, bool)(x[0])
        # Conversion to float64 may be off by an ulp in either direction; one step outward makes up for it.
        below = np.where(np.isnan(low), 0.0, np.maximum(np.nextafter(low, -np.inf), 0.0))
        above = np.where(np.isnan(high), np.inf, np.nextafter(high, np.inf))
        return np.where(zero, 0.0, np.where(exact, low, below)), np.where(zero, 0.0, np.where(exact, high, above))

    def variation(self, name: str, xs: Sequence[Parts], errors: Sequence[np.ndarray], **params: Any) -> np.ndarray:
        """Upper bound of the change of a function when its arguments move by at most `errors`.

        A monotone function of one argument is evaluated at both ends; any other on the widened balls. Where an argument may leave the domain,
        Arb's answer has no bounds, and neither has ours.
        """
        shape = np.broadcast_shapes(*(x[0].shape for x in xs))
        moved = np.zeros(shape, bool)
        for e in errors:
            moved = moved | (np.broadcast_to(e, shape) > 0)
        out = np.zeros(shape)
        if not moved.any():
            return out
        chosen = [(np.broadcast_to(x[0], shape)[moved],) for x in xs]
        widths = [np.broadcast_to(e, shape)[moved] for e in errors]
        finite = np.all([np.isfinite(w) for w in widths], axis=0)
        widths = [np.where(finite, w, 0.0) for w in widths]
        centre = getattr(self, name)(*chosen, **params)
        if name in MONOTONE:
            step = self.lift(widths[0])
            ends = [getattr(self, name)(shifted, **params) for shifted in (self.add(chosen[0], step), self.sub(chosen[0], step))]
        else:
            wide = [self.add(x, (objects(lambda w: arb(0, w), 1)(w.astype(object)),)) for x, w in zip(chosen, widths, strict=True)]
            ends = [getattr(self, name)(*wide, **params)]
        changes = [self.magnitude(self.sub(end, centre))[1] for end in ends]
        out[moved] = np.where(finite, np.maximum.reduce(changes), np.inf)
        return out

    # Results -----------------------------------------------------------------------------------------------------------

    def enclosed(self, x: Parts) -> Enclosed:
        """The numbers as float64 triples: two nonoverlapping parts and a radius that covers the rest."""
        hi, lo, radius = (np.asarray(p, np.float64) for p in np.frompyfunc(_triple, 1, 3)(x[0]))
        return Enclosed(hi.reshape(x[0].shape), lo.reshape(x[0].shape), radius.reshape(x[0].shape))

    def round(self, x: Parts, fmt: Format, enclosed: Enclosed | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rounded once to `fmt`; where that is decided; and where it is zero, for certain, perhaps of undecided sign."""
        rounded, decided = round_enclosed(self.enclosed(x) if enclosed is None else enclosed, fmt)
        zero = np.zeros(rounded.shape, bool)
        for index in np.argwhere(~decided):
            at = tuple(index)
            rounded[at], decided[at], zero[at] = _round(x[0].item(at), fmt)
        return rounded, decided, zero | (decided & (rounded == 0))

    def nearest(self, x: Parts, fmt: Format) -> np.ndarray:
        """As `round`, with the midpoint rounded where the enclosure does not decide."""
        rounded, decided, _ = self.round(x, fmt)
        for index in np.argwhere(~decided):
            at = tuple(index)
            rounded[at] = _round(x[0].item(at).mid(), fmt)[0]
        return rounded

    def settled(self, x: Parts, fmt: Format) -> np.ndarray:
        """The balls, made exact where more is known of a number than its ball (see `certified`); here it is not."""
        return x[0]

    def boundaries(self, a: arb, fmt: Format) -> list[Fraction]:
        """Zero and the numbers at which rounding to `fmt` changes, as far as they lie in a ball: none but the nearest ones are looked at."""
        near = _round(a.mid(), fmt)[0]
        found = [Fraction(0), fmt.overflow_threshold, -fmt.overflow_threshold]
        if math.isfinite(near):
            for neighbour in (float(next_down(near, fmt)), float(next_up(near, fmt))):
                if math.isfinite(neighbour):
                    found.append((Fraction(near) + Fraction(neighbour)) / 2)
        return [b for b in found if a.contains(arb(b.numerator) / arb(b.denominator))]

    def boundary(self, a: arb, fmt: Format) -> str:
        """A number in a ball at which its rounding changes, as text."""
        found = self.boundaries(a, fmt)
        if not found:
            return "several numbers"
        return f"{float(found[-1]):.17g}" if abs(found[-1]) < 10**300 else "the overflow threshold"

    def decimal(self, a: arb, digits: int) -> str | None:
        """`digits` correct significant digits of one element, or None where this precision does not give them."""
        if a.is_zero():
            return "0"
        if not a.is_exact() and a.rel_accuracy_bits() < digits * math.log2(10) + 4:
            return None
        return a.str(digits, radius=False)


#: Functions of one argument that are monotone on every interval of their domain.
MONOTONE = frozenset(
    "exp exp2 expm1 log log1p log2 sqrt rsqrt cbrt tanh logistic atan asin acos sinh asinh acosh atanh erf erfc erf_inv "
    "floor ceil round_half_away round_half_even truncate neg".split()
)


def _triple(a: arb) -> tuple[float, float, float]:
    hi = float(a)
    if not math.isfinite(hi):
        if not a.is_finite() or not abs(a) >= arb(FLOAT64.maximum):
            return 0.0, 0.0, math.inf
        return hi, 0.0, math.inf
    rest = a - arb(hi)
    lo = float(rest)
    rest = rest - arb(lo)
    if rest.is_zero():
        return hi, lo, 0.0
    return hi, lo, math.nextafter(float(rest.abs_upper()), math.inf)


def _round(a: arb, fmt: Format) -> tuple[float, bool, bool]:
    """One ball, rounded from exact integers: the number, whether it is decided, and whether it is a zero whatever its sign."""
    if not a.is_finite():
        return 0.0, False, False
    if a.is_exact():
        man, exp = a.man_exp()
        out = round_dyadic(int(man), int(exp), fmt)
        return out, True, out == 0
    low, high = (round_dyadic(int(m), int(e), fmt) for m, e in (a.lower().man_exp(), a.upper().man_exp()))
    if low == 0 and high == 0:
        return (low if a > 0 or a < 0 else 0.0), bool(a > 0 or a < 0), True
    return high, same_number(low, high), False
