"""The laws of `laws.py`, on the number systems that there are; and each law fails on a system that breaks it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import laws
import numpy as np
import pytest
from flint import arb

from exactref_jax.arithmetic.ball import Ball, precision
from exactref_jax.arithmetic.certified import certified
from exactref_jax.formats import FORMATS


def fraction(x: arb) -> Fraction:
    significand, exponent = x.man_exp()
    return Fraction(int(significand)) * Fraction(2) ** int(exponent)


def bounds(x: Any) -> list[Any]:
    with precision(2000):
        return [(fraction(a.lower()), fraction(a.upper())) if a.is_finite() else (None, None) for a in x[0].ravel()]


def widen(x: Any, radius: np.ndarray) -> Any:
    balls = np.empty(x[0].shape, object)
    for index in np.ndindex(balls.shape):
        balls[index] = x[0][index] + arb(0, float(radius[index])) if radius[index] else x[0][index]
    return (balls, *x[1:])


BALLS = laws.Field(Ball, precision, bounds, widen)
CERTIFIED = laws.Field(lambda: certified([np.arange(2.0)]), precision, bounds, widen)


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
def test_balls(law: Any) -> None:
    law(BALLS)


@pytest.mark.parametrize(
    "law", [law for law in laws.LAWS if law not in (laws.functions_enclose, laws.variation_bounds_the_change)], ids=lambda law: law.__name__
)
def test_balls_with_residues(law: Any) -> None:
    law(CERTIFIED)


class WrongFunction(Ball):
    def exp(self, x: Any) -> Any:
        return (np.vectorize(lambda a: arb(a.exp().mid()) * (1 + arb(2) ** -50), otypes=[object])(x[0]),)


class WrongAddition(Ball):
    def add(self, x: Any, y: Any) -> Any:
        return widen(Ball.add(self, x, y), np.full(np.broadcast(x[0], y[0]).shape, 2.0**-100))


class Forgetful(Ball):
    def sub(self, x: Any, y: Any) -> Any:
        return (np.vectorize(lambda a, b: a - b, otypes=[object])(x[0], y[0]),)


class Guessing(Ball):
    def sign(self, x: Any) -> np.ndarray:
        return np.vectorize(lambda a: 1 if a.mid() > 0 else -1 if a.mid() < 0 else 0, otypes=[np.int8])(x[0])


class Short(Ball):
    def magnitude(self, x: Any) -> Any:
        low, high = Ball.magnitude(self, x)
        return low, np.nextafter(np.nextafter(high, 0), 0)


class LosesTerms(Ball):
    def segment_sum(self, x: Any, segments: np.ndarray, count: int) -> Any:
        return Ball.segment_sum(self, x, np.where(np.arange(len(segments)) == 0, -1, segments), count)


class TooCalm(Ball):
    def variation(self, name: str, xs: Any, errors: Any, **params: Any) -> np.ndarray:
        return Ball.variation(self, name, xs, errors, **params) / 2


class Hasty(Ball):
    def round(self, x: Any, fmt: Any, enclosed: Any = None) -> Any:
        rounded, _, zero = Ball.round(self, x, fmt, enclosed)
        return rounded, np.ones(rounded.shape, bool), zero


class Widening(Ball):
    def exp(self, x: Any) -> Any:
        from flint import ctx

        return widen(Ball.exp(self, x), np.full(x[0].shape, float(ctx.prec)))


class Coarse(Ball):
    def quantum(self, x: Any) -> np.ndarray:
        return 2 * Ball.quantum(self, x)


BROKEN = {
    laws.functions_enclose: WrongFunction,
    laws.arithmetic_is_exact_where_it_fits: WrongAddition,
    laws.identity_travels: Forgetful,
    laws.signs_are_never_wrong: Guessing,
    laws.magnitudes_bound: Short,
    laws.sums_and_contractions_are_exact: LosesTerms,
    laws.variation_bounds_the_change: TooCalm,
    laws.rounding_is_right_where_decided: Hasty,
    laws.higher_precision_is_no_wider: Widening,
    laws.exact_numbers_are_known: Coarse,
}


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
def test_each_law_can_fail(law: Any) -> None:
    with pytest.raises(AssertionError):
        law(replace(BALLS, make=BROKEN[law]))


def test_precision_is_given_back() -> None:
    from flint import ctx

    before = ctx.prec
    with pytest.raises(ZeroDivisionError), precision(999):
        raise ZeroDivisionError
    assert ctx.prec == before


def test_boundaries_are_those_in_the_ball() -> None:
    fmt = FORMATS["float32"]
    with precision(200):
        middle = arb(1) + arb(2) ** -24
        assert Ball().boundaries(middle + arb(0, 2.0**-80), fmt) == [1 + Fraction(1, 2**24)]
        assert Ball().boundaries(arb(0, 2.0**-160), fmt) == [0]
        assert Ball().boundaries(arb(1.3) + arb(0, 2.0**-80), fmt) == []
