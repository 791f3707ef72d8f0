"""What every field of real numbers must satisfy. A new arithmetic passes these laws and no others; each can fail (see test_laws.py).

A law takes a `Field`: the number system, and a way to read and to make its numbers. It raises AssertionError where it is broken.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from mpmath import mp

from exactref_jax.formats import FORMATS, round_fraction

UNDECIDED = 2


@dataclass(frozen=True)
class Field:
    """A number system under test.

    Attributes:
        make: the system, at a precision.
        running: the context in which it runs, at a precision.
        bounds: rational bounds of each number, flattened.
        widen: the same numbers with a radius, given as float64.
        bits: precisions to try, increasing.
    """

    make: Callable[[], Any]
    running: Callable[[int], AbstractContextManager[Any]]
    bounds: Callable[[Any], list[tuple[Fraction, Fraction]]]
    widen: Callable[[Any, np.ndarray], Any]
    bits: tuple[int, ...] = (64, 160)


#: Function -> (mpmath's, interesting arguments).
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], tuple[float, ...]]] = {
    "exp": (mp.exp, (-700.0, -1.5, 0.0, 1e-300, 0.7, 88.0)),
    "expm1": (mp.expm1, (-40.0, -1e-200, 0.0, 1e-30, 0.7, 50.0)),
    "exp2": (lambda x: mp.power(2, x), (-100.25, 0.0, 0.5, 33.0)),
    "log": (mp.log, (1e-300, 0.5, 1.0, 1.0 + 2.0**-50, 7.0, 1e300)),
    "log1p": (mp.log1p, (-0.999, -1e-200, 0.0, 1e-18, 3.0)),
    "log2": (lambda x: mp.log(x, 2), (0.25, 0.3, 1.0, 7.0, 1e300)),
    "sqrt": (mp.sqrt, (0.0, 0.25, 2.0, 1e-310, 1e300)),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), (0.25, 2.0, 1e-310)),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), (-8.0, -2.0, 0.0, 27.0, 1e-300)),
    "sin": (mp.sin, (-1e22, -1.0, 0.0, 3.1415926, 1e5)),
    "cos": (mp.cos, (-1e22, 0.0, 1.5707963, 1e5)),
    "tan": (mp.tan, (-1.5, 0.0, 0.3)),
    "asin": (mp.asin, (-1.0, -0.3, 0.0, 0.99)),
    "acos": (mp.acos, (-1.0, -0.3, 0.0, 0.99)),
    "atan": (mp.atan, (-1e30, 0.0, 0.7)),
    "sinh": (mp.sinh, (-30.0, 1e-200, 0.7)),
    "cosh": (mp.cosh, (-30.0, 0.0, 0.7)),
    "tanh": (mp.tanh, (-30.0, 1e-200, 0.7)),
    "asinh": (mp.asinh, (-1e30, 1e-200, 0.7)),
    "acosh": (mp.acosh, (1.0, 1.5, 1e30)),
    "atanh": (mp.atanh, (-0.99, 1e-200, 0.7)),
    "logistic": (lambda x: 1 / (1 + mp.exp(-x)), (-700.0, 0.0, 40.0)),
    "erf": (mp.erf, (-3.0, 1e-200, 0.7)),
    "erfc": (mp.erfc, (-3.0, 0.7, 20.0)),
    "erf_inv": (mp.erfinv, (-0.9, 0.0, 0.3)),
    "square": (lambda x: x * x, (-1.5, 0.0, 1e-200)),
    "one_minus_square": (lambda x: 1 - x * x, (-1.0, 0.5, 1 - 2.0**-53)),
    "floor": (mp.floor, (-1.5, 2.0, 1e300)),
    "ceil": (mp.ceil, (-1.5, 2.0, 1e300)),
    "neg": (lambda x: -x, (-1.5, 0.0)),
    "abs": (abs, (-1.5, 0.0, 2.0)),
}

NUMBERS = np.array([-3.0, -1.0, -0.1, 0.0, 2.0**-40, 0.1, 1.0, 1.5, 7.0, 2.0**60])


def _exact(x: Any) -> Fraction:
    """An mpmath number as the fraction that it is."""
    sign, man, exp, _ = mp.mpf(x)._mpf_
    return Fraction(-man if sign else man) * Fraction(2) ** exp


def _inside(bounds: tuple[Fraction, Fraction], value: Fraction, slack: Fraction) -> bool:
    return bounds[0] - slack <= value <= bounds[1] + slack


def functions_enclose(field: Field) -> None:
    """The result encloses the function at exact arguments, and at every point of an inexact one."""
    for name, (reference, arguments) in FUNCTIONS.items():
        for bits in field.bits:
            with field.running(bits), mp.workprec(600):
                system = field.make()
                x = np.array(arguments)
                for value, bounds in zip(arguments, field.bounds(getattr(system, name)(system.lift(x))), strict=True):
                    exact = _exact(reference(mp.mpf(value)))
                    assert _inside(bounds, exact, abs(exact) / 2**550), (name, value, bits)
                radius = np.full(x.shape, 2.0**-30) * np.minimum(np.abs(x), 1.0) * 0.25
                wide = field.bounds(getattr(system, name)(field.widen(system.lift(x), radius)))
                for value, r, bounds in zip(arguments, radius, wide, strict=True):
                    for point in (value - r * 0.99, value, value + r / 2, value + r * 0.99):
                        at = mp.mpf(point)
                        result = reference(at)
                        if mp.im(result) == 0 and mp.isfinite(result) and bounds[0] is not None:
                            assert _inside(bounds, _exact(mp.re(result)), abs(_exact(mp.re(result))) / 2**550), (name, point, bits)


def arithmetic_is_exact_where_it_fits(field: Field) -> None:
    """Exact operands whose exact result fits give a point; a quotient encloses."""
    with field.running(field.bits[-1]):
        system = field.make()
        x, y = (system.lift(v) for v in np.meshgrid(NUMBERS, NUMBERS))
        a, b = ([Fraction(float(v)) for v in w.ravel()] for w in np.meshgrid(NUMBERS, NUMBERS))
        for name, operation in (("add", lambda p, q: p + q), ("sub", lambda p, q: p - q), ("mul", lambda p, q: p * q)):
            for p, q, bounds in zip(a, b, field.bounds(getattr(system, name)(x, y)), strict=True):
                assert bounds == (operation(p, q),) * 2, (name, p, q)
        nonzero = system.lift(np.where(np.meshgrid(NUMBERS, NUMBERS)[1] == 0, 1.0, np.meshgrid(NUMBERS, NUMBERS)[1]))
        for p, q, bounds in zip(a, b, field.bounds(system.div(x, nonzero)), strict=True):
            assert bounds[0] <= p / (q or 1) <= bounds[1], (p, q)


def identity_travels(field: Field) -> None:
    """An inexact number minus itself is zero, divided by itself one, and times one or plus zero itself; an equal one is not the same."""
    with field.running(field.bits[0]):
        system = field.make()
        x = system.exp(system.lift(np.array([0.3, 2.0])))
        one, zero = system.lift(np.ones(2)), system.lift(np.zeros(2))
        assert system.is_zero(system.sub(x, x)).all()
        assert field.bounds(system.div(x, x)) == [(1, 1)] * 2
        assert system.same(system.mul(x, one), x).all()
        assert system.same(system.add(zero, x), x).all()
        assert not system.same(system.exp(system.lift(np.array([0.3, 2.0]))), x).any()
        assert not system.same(system.fresh(x), x).any()


def signs_are_never_wrong(field: Field) -> None:
    """-1, 0 and 1 only where they are certain."""
    with field.running(field.bits[0]):
        system = field.make()
        x = system.lift(np.array([-1.0, 0.0, 1.0, 2.0**-1000]))
        assert system.sign(x).tolist() == [-1, 0, 1, 1]
        wide = field.widen(x, np.array([0.5, 0.5, 2.0, 2.0**-999]))
        assert system.sign(wide).tolist() == [-1, UNDECIDED, UNDECIDED, UNDECIDED]
        assert system.is_zero(wide).tolist() == [False] * 4


def magnitudes_bound(field: Field) -> None:
    """Lower and upper bounds of the absolute value hold and are close."""
    with field.running(field.bits[0]):
        system = field.make()
        x = field.widen(system.lift(NUMBERS), np.abs(NUMBERS) / 8)
        low, high = system.magnitude(x)
        for a, b, bounds in zip(low, high, field.bounds(x), strict=True):
            largest = max(abs(bounds[0]), abs(bounds[1]))
            least = Fraction(0) if bounds[0] <= 0 <= bounds[1] else min(abs(bounds[0]), abs(bounds[1]))
            assert Fraction(float(a)) <= least
            assert Fraction(float(b)) >= largest
            assert float(b) <= float(largest) * (1 + 1e-9)


def sums_and_contractions_are_exact(field: Field) -> None:
    """Sums, segment sums and contractions of short numbers equal Fractions."""
    generator = np.random.default_rng(1)
    with field.running(field.bits[-1]):
        system = field.make()
        a, b = generator.integers(-9, 10, (3, 4)) / 8.0, generator.integers(-9, 10, (4, 2)) / 4.0
        x, y = system.lift(a), system.lift(b)
        assert [p for p, _ in field.bounds(system.sum(x, 0))] == [Fraction(v) for v in a.sum(0)]
        assert [p for p, _ in field.bounds(system.sum(system.lift(np.zeros((0, 2))), 0))] == [0, 0]
        scale = Fraction(-3, 4)
        product = system.contract([(scale, [(x, "ij"), (y, "jk")])], "ki", {"i": 3, "j": 4, "k": 2})
        assert [p for p, _ in field.bounds(product)] == [Fraction(v) for v in (-0.75 * (a @ b).T).ravel()]
        segments = np.array([0, 2, 0, -1, 2, 2, 0, 0, 2, 2, 0, -1])
        totals = system.segment_sum(tuple(p.ravel() for p in x), segments, 3)
        expected = [sum(Fraction(v) for v, s in zip(a.ravel(), segments, strict=True) if s == k) for k in range(3)]
        assert [p for p, _ in field.bounds(totals)] == expected


def variation_bounds_the_change(field: Field) -> None:
    """`|f(y) - f(x)|` for sampled y within the error, one and two arguments."""
    generator = np.random.default_rng(2)
    with field.running(field.bits[-1]), mp.workprec(400):
        system = field.make()
        for name in ("exp", "log1p", "sqrt", "sin", "tanh", "erfc", "rsqrt"):
            reference = FUNCTIONS[name][0]
            x, error = generator.uniform(0.2, 3.0, 20), generator.uniform(0.0, 0.15, 20)
            bound = system.variation(name, [system.lift(x)], [error])
            for a, e, limit in zip(x, error, bound, strict=True):
                for t in (-1.0, -0.3, 0.6, 1.0):
                    moved = abs(reference(mp.mpf(a) + mp.mpf(e) * t) - reference(mp.mpf(a)))
                    assert moved <= mp.mpf(float(limit)) * (1 + mp.mpf(2) ** -300) + mp.mpf(2) ** -390, (name, a, e)
        x, y = generator.uniform(0.5, 2.0, 20), generator.uniform(-2.0, 2.0, 20)
        bound = system.variation("pow", [system.lift(x), system.lift(y)], [np.full(20, 0.01), np.full(20, 0.02)])
        for a, b, limit in zip(x, y, bound, strict=True):
            for s, t in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                moved = abs(mp.power(mp.mpf(a) + s * mp.mpf(0.01), mp.mpf(b) + t * mp.mpf(0.02)) - mp.power(mp.mpf(a), mp.mpf(b)))
                assert moved <= mp.mpf(float(limit))
        assert np.isinf(system.variation("log", [system.lift(np.array([0.1]))], [np.array([0.2])])).all()


def rounding_is_right_where_decided(field: Field) -> None:
    """A decided rounding is that of every point; exact ties are decided."""
    with field.running(field.bits[-1]):
        system = field.make()
        for name in ("float32", "bfloat16", "float64"):
            fmt = FORMATS[name]
            tie = np.array([1.0 + fmt.unit_roundoff * 1.0])
            if name != "float64":
                rounded, decided, _ = system.round(system.lift(tie), fmt)
                assert decided.all()
                assert rounded.tolist() == [1.0]
                assert not system.round(field.widen(system.lift(tie), np.array([2.0**-60])), fmt)[1].any()
            x = system.exp(system.lift(np.linspace(-3, 3, 50)))
            rounded, decided, _ = system.round(x, fmt)
            for value, sure, bounds in zip(rounded, decided, field.bounds(x), strict=True):
                assert not sure or round_fraction(bounds[0], fmt) == value == round_fraction(bounds[1], fmt)
            assert decided.all()


def higher_precision_is_no_wider(field: Field) -> None:
    """Radii shrink as the precision grows."""
    widths = []
    for bits in field.bits:
        with field.running(bits):
            system = field.make()
            bounds = field.bounds(system.exp(system.lift(np.array([0.3, 1.7]))))
            widths.append([b - a for a, b in bounds])
    assert all(later <= earlier for first, second in itertools.pairwise(widths) for earlier, later in zip(first, second, strict=True))


def exact_numbers_are_known(field: Field) -> None:
    """Quanta, powers of two, integers and parities, where a system knows them."""
    with field.running(field.bits[-1]):
        system = field.make()
        x = system.lift(np.array([6.0, 0.75, 1.0, -0.5, 0.0]))
        assert system.quantum(x)[:4].tolist() == [2.0, 0.25, 1.0, 0.5]
        assert np.isinf(system.quantum(x)[4])
        assert system.is_power_of_two(x).tolist() == [False, False, True, True, False]
        assert system.parity(x)[0].tolist() == [0, 2, 1, 2, 0]
        integers, missing = system.integers(x)
        assert [int(v) for v, m in zip(integers, missing, strict=True) if not m] == [6, 1, 0]
        inexact = system.exp(x)
        assert system.quantum(inexact)[:4].tolist() == [0.0] * 4


LAWS: tuple[Callable[[Field], None], ...] = (
    functions_enclose,
    arithmetic_is_exact_where_it_fits,
    identity_travels,
    signs_are_never_wrong,
    magnitudes_bound,
    sums_and_contractions_are_exact,
    variation_bounds_the_change,
    rounding_is_right_where_decided,
    higher_precision_is_no_wider,
    exact_numbers_are_known,
)


def no_context(_: int) -> AbstractContextManager[None]:
    """For systems of one precision."""
    return nullcontext()
