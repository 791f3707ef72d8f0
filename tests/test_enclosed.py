"""Enclosures against rational arithmetic: what `hi + lo +/- radius` encloses is inside the interval, near the difference, and rounds as decided."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exactref_jax.arithmetic.ball import Ball, precision
from exactref_jax.enclosed import Enclosed, round_enclosed
from exactref_jax.formats import FORMATS

MAX = float(np.finfo(np.float64).max)
U = 2.0**-53

# Precision, exponent of the least normal number, largest number, what lies beyond, whether there is a -0: as in the formats' specifications.
SPECIFICATIONS: dict[str, tuple[int, int, float, float, bool]] = {
    "float64": (53, -1022, MAX, math.inf, True),
    "float32": (24, -126, (2 - 2.0**-23) * 2.0**127, math.inf, True),
    "float16": (11, -14, 65504.0, math.inf, True),
    "bfloat16": (8, -126, (2 - 2.0**-7) * 2.0**127, math.inf, True),
    "float8_e5m2": (3, -14, 57344.0, math.inf, True),
    "float8_e4m3fn": (4, -6, 448.0, math.nan, True),
    "float8_e4m3": (4, -6, 240.0, math.inf, True),
    "float8_e3m4": (5, -2, 15.5, math.inf, True),
    "float8_e5m2fnuz": (3, -15, 57344.0, math.nan, False),
    "float8_e4m3fnuz": (4, -7, 240.0, math.nan, False),
    "float8_e4m3b11fnuz": (4, -10, 30.0, math.nan, False),
}


def nearest(value: Fraction, name: str) -> float:
    """A rational number rounded with Python's `round`, which takes ties to even."""
    bits, least, largest, beyond, negative_zero = SPECIFICATIONS[name]
    magnitude, exponent = abs(value), least
    if magnitude:
        exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        exponent = max(least, exponent - (magnitude < Fraction(2) ** exponent))
    step = Fraction(2) ** (exponent - bits + 1)
    rounded = round(magnitude / step) * step
    number = beyond if rounded > Fraction(largest) else float(rounded)
    if number == 0 and not negative_zero:
        return 0.0
    return math.copysign(number, -1.0 if value < 0 else 1.0)


def same(a: float, b: float) -> bool:
    return repr(a).replace("-nan", "nan") == repr(b).replace("-nan", "nan")


# Enclosures to try ---------------------------------------------------------------------------------------------------------------

Triple = tuple[float, float, float]
Draw = Callable[..., Any]


@st.composite
def numbers(draw: Draw) -> float:
    """Float64 numbers: powers of two and their neighbours, few bits, subnormal, near overflow, midpoints of every format, anything."""
    kind = draw(st.sampled_from(["power", "beside", "few", "subnormal", "top", "middle", "any"]))
    sign = draw(st.sampled_from([1.0, -1.0]))
    exponent = draw(st.one_of(st.integers(-1074, 1023), st.integers(-160, 130), st.integers(-20, 20)))
    power = math.ldexp(1.0, exponent)
    if kind == "power":
        return sign * power
    if kind == "beside":
        return sign * float(np.nextafter(power, draw(st.sampled_from([0.0, MAX]))))
    if kind == "few":
        return sign * math.ldexp(draw(st.integers(0, 15)), min(exponent, 1020))
    if kind == "subnormal":
        return sign * math.ldexp(draw(st.integers(0, 2**20)), -1074)
    if kind == "top":
        return sign * MAX * (1 - draw(st.integers(0, 3)) * 2 * U)
    if kind == "middle":
        bits = SPECIFICATIONS[draw(st.sampled_from(list(SPECIFICATIONS)))][0]
        middle = math.ldexp(2 ** min(bits, 52) + draw(st.integers(0, 2 ** min(bits, 52) - 1)) | 1, min(exponent, 900) - bits)
        return sign * float(np.nextafter(middle, draw(st.sampled_from([middle, middle, 0.0, MAX]))))
    return draw(st.floats(allow_nan=False, allow_infinity=False))


@st.composite
def triples(draw: Draw) -> Triple:
    """`hi`, a `lo` of at most half an ulp of it (exactly half among them), and a radius from nothing to enormous."""
    hi = draw(numbers())
    half = math.ulp(hi) / 2  # zero among the subnormal numbers
    share = draw(st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5, -0.5, 1 - U, U - 1, 2.0**-40, -(2.0**-900)]), st.floats(-1, 1)))
    lo = share * half
    if not math.isfinite(hi + lo):
        lo = 0.0
    scale = draw(st.sampled_from([half, abs(lo), abs(hi), 1.0, 5e-324]))
    radius = draw(st.sampled_from([0.0, 0.0, 2.0**-120, U, 0.5, 1.0, 1 + 2 * U, 3.0, 2.0**60])) * scale
    return hi, lo, min(radius, MAX)


def enclosed(*triples: Triple) -> Enclosed:
    return Enclosed(*(np.array(column, np.float64) for column in zip(*triples, strict=True)))


def ends(triple: Triple) -> tuple[Fraction, Fraction]:
    hi, lo, radius = map(Fraction, triple)
    return hi + lo - radius, hi + lo + radius


# The interval --------------------------------------------------------------------------------------------------------------------


def below(a: float, b: Fraction) -> bool:
    return a == -math.inf or (a < math.inf and Fraction(a) <= b)


@given(triples())
@settings(deadline=None, derandomize=True, max_examples=1000)
@example((1.0, -U / 2, 0.0))
@example((1.0, U, 0.0))
@example((1.0, -U / 2, 5e-324))
@example((MAX, 2.0**969, 0.0))
@example((-MAX, -(2.0**969), 2.0**969))
@example((5e-324, 0.0, 5e-324))
@example((0.0, 0.0, 5e-324))
@example((1.0, 0.0, MAX))
def test_the_interval_contains_the_enclosure(triple: Triple) -> None:
    (lower,), (upper,) = enclosed(triple).interval()
    low, high = ends(triple)
    assert below(float(lower), low)
    assert below(-float(upper), -high)


@given(triples())
@settings(deadline=None, derandomize=True, max_examples=500)
def test_the_interval_is_a_few_ulps_wider_than_the_enclosure(triple: Triple) -> None:
    (lower,), (upper,) = enclosed(triple).interval()
    low, high = ends(triple)
    for bound, exact in ((float(lower), low), (float(upper), high)):
        inner = 2 * max(abs(triple[1]), triple[2])
        if abs(exact) < Fraction(MAX) / 2 and math.isfinite(inner):
            # One step of lo -/+ radius and one of the sum, each of at most an ulp, and the rounding of each.
            assert abs(Fraction(bound) - exact) <= 2 * Fraction(math.ulp(bound)) + 2 * Fraction(math.ulp(inner))


@given(numbers())
@settings(deadline=None, derandomize=True, max_examples=300)
def test_the_interval_of_an_exact_float64_number_is_a_point(x: float) -> None:
    (lower,), (upper,) = enclosed((x, 0.0, 0.0)).interval()
    assert lower == upper == x


@given(triples())
@settings(deadline=None, derandomize=True, max_examples=500)
def test_an_exact_number_s_interval_is_a_point_or_two_neighbours(triple: Triple) -> None:
    (lower,), (upper,) = enclosed((triple[0], triple[1], 0.0)).interval()
    exact = Fraction(triple[0]) + Fraction(triple[1])
    if lower == upper:
        assert Fraction(float(lower)) == exact
    else:
        assert upper == math.nextafter(lower, math.inf)
        assert Fraction(max(float(lower), -MAX)) <= exact <= Fraction(min(float(upper), MAX)) or abs(exact) > Fraction(MAX)


def test_intervals_of_numbers_beyond_float64_and_of_unknown_ones() -> None:
    lower, upper = enclosed((math.inf, 0.0, math.inf), (-math.inf, 0.0, math.inf), (1.0, 0.0, math.inf)).interval()
    assert lower.tolist() == [MAX, -math.inf, -math.inf]
    assert upper.tolist() == [math.inf, -MAX, math.inf]


def test_parts_of_an_array_of_enclosures() -> None:
    x = Enclosed(np.arange(6.0).reshape(2, 3), np.zeros((2, 3)), np.ones((2, 3)))
    assert x.shape == (2, 3)
    assert x[1].hi.tolist() == [3.0, 4.0, 5.0]
    assert x[0, 2].shape == ()
    assert float(x[0, 2].radius) == 1.0


# The difference from a candidate -------------------------------------------------------------------------------------------------


@st.composite
def candidates(draw: Draw) -> tuple[Triple, float]:
    """An enclosure and a candidate: unrelated, equal, a few ulps away, opposite, or such that the difference is a tie."""
    triple = draw(triples())
    hi = triple[0]
    away = draw(st.integers(-4, 4))
    near = hi + away * math.ulp(hi) if abs(hi) < MAX / 2 else hi
    scaled = draw(st.sampled_from([U, -U, 3 * U, U / 2, 2.0, 0.5, 1.5])) * min(abs(hi), MAX / 4)
    return triple, draw(st.one_of(st.sampled_from([hi, near, -hi, hi + triple[1], scaled, 0.0]), numbers()))


@given(candidates())
@settings(deadline=None, derandomize=True, max_examples=1500)
@example(((1.0, U, 0.0), -U))
@example(((1.0, U, 2.0**-106), -U))
@example(((1.0, U, U * (1 + 2 * U)), -U))
@example(((-1.0, -U, 2.0**-106), U))
@example(((2.0**-1000, 2.0**-1053, 2.0**-1074), -(2.0**-1053)))
@example(((5e-324, 0.0, 5e-324), -5e-324))
@example(((MAX, 0.0, 0.0), MAX / 2))
def test_the_difference_is_within_its_error_of_every_number_enclosed(case: tuple[Triple, float]) -> None:
    triple, candidate = case
    (difference,), (error,) = enclosed(triple).minus(np.array([candidate]))
    for value in ends(triple):
        exact = Fraction(candidate) - value
        if math.isfinite(difference) and math.isfinite(error):
            assert abs(Fraction(float(difference)) - exact) <= Fraction(float(error))
        elif math.isinf(difference):
            # Beyond float64: of the right sign, and really that far away, give or take the radius.
            assert abs(exact) + Fraction(triple[2]) > Fraction(MAX) * (1 - Fraction(U))
            assert (difference > 0) == (Fraction(candidate) > Fraction(triple[0]))


@given(candidates())
@settings(deadline=None, derandomize=True, max_examples=500)
def test_the_difference_s_error_is_its_roundings_and_the_radius(case: tuple[Triple, float]) -> None:
    triple, candidate = case
    (difference,), (error,) = enclosed(triple).minus(np.array([candidate]))
    if math.isfinite(difference) and math.isfinite(error):
        size = abs(Fraction(float(difference))) + 2 * abs(Fraction(triple[1]))
        assert Fraction(float(error)) <= (Fraction(triple[2]) + 2 * Fraction(U) * size) * (1 + Fraction(2.0**-40)) + Fraction(1, 2**1073)


@given(numbers())
@settings(deadline=None, derandomize=True, max_examples=300)
def test_the_difference_of_equal_exact_numbers_is_exactly_zero(x: float) -> None:
    (difference,), (error,) = enclosed((x, 0.0, 0.0)).minus(np.array([x]))
    assert (difference, error) == (0.0, 0.0)


def test_the_difference_from_a_number_beyond_float64_is_infinite() -> None:
    difference, _ = enclosed((math.inf, 0.0, math.inf), (-math.inf, 0.0, math.inf)).minus(np.array([MAX, 0.0]))
    assert difference.tolist() == [-math.inf, math.inf]


# Rounding ------------------------------------------------------------------------------------------------------------------------


@st.composite
def at_boundaries(draw: Draw) -> tuple[str, Triple]:
    """A format, and an enclosure at or beside one of its numbers, midpoints, thresholds or zero."""
    name = draw(st.sampled_from(list(SPECIFICATIONS)))
    bits, least, largest, _, _ = SPECIFICATIONS[name]
    top = math.frexp(largest)[1] - 1
    exponent = draw(st.one_of(st.sampled_from([least - bits, least - 1, least, top, top + 1]), st.integers(least - bits, min(top + 2, 1023))))
    step = math.ldexp(1.0, max(exponent, least) - bits + 1) if exponent <= 1023 else math.ldexp(1.0, 971)
    kind = draw(st.sampled_from(["number", "middle", "threshold", "zero", "anything"]))
    if kind == "threshold":
        hi = largest if name == "float64" else largest + math.ldexp(1.0, top - bits)
    elif kind == "zero":
        hi = draw(st.sampled_from([0.0, 5e-324, math.ldexp(1.0, max(least - bits, -1074))]))
    elif kind == "anything":
        hi = draw(numbers())
    else:
        count = draw(st.integers(0, 2**bits - 1))
        hi = min(count * step, MAX)
        hi = min(hi + step / 2, MAX) if kind == "middle" else hi
    hi = float(np.nextafter(hi, draw(st.sampled_from([hi, hi, hi, -MAX, MAX]))))
    half = math.ulp(hi) / 2
    lo = draw(st.sampled_from([0.0, 0.0, half, -half, half / 2, -half / 2, half * 2.0**-50, -half * 2.0**-500]))
    lo = lo if math.isfinite(hi + lo) else 0.0
    scale = draw(st.sampled_from([0.0, abs(lo), half, step / 2, step, 5e-324, abs(hi)]))
    radius = draw(st.sampled_from([1.0, 1 - U, 1 + 2 * U, 2.0**-60, 0.5])) * scale
    sign = draw(st.sampled_from([1.0, -1.0]))
    return name, (sign * hi, sign * lo, min(radius, MAX))


@given(at_boundaries())
@settings(deadline=None, derandomize=True, max_examples=2500)
@example(("float64", (1.0, U, 0.0)))
@example(("float64", (1.0, U, 5e-324)))
@example(("float64", (1.0, -U / 2, U / 2)))
@example(("float64", (1 + 2 * U, U, 0.0)))
@example(("float32", (1 + 2.0**-24, 0.0, 0.0)))
@example(("float32", (1 + 2.0**-24, -(2.0**-78), 0.0)))
@example(("float32", (1 + 2.0**-24, 0.0, 5e-324)))
@example(("float8_e4m3fn", (464.0, 0.0, 0.0)))
@example(("float8_e4m3fn", (464.0, 0.0, 1e-20)))
@example(("float8_e5m2fnuz", (-1e-30, 0.0, 0.0)))
@example(("float16", (0.0, 0.0, 1e-30)))
def test_decided_means_that_every_number_enclosed_rounds_to_it(case: tuple[str, Triple]) -> None:
    name, triple = case
    (rounded,), (decided,) = round_enclosed(enclosed(triple), FORMATS[name])
    if not decided:
        return
    for value in ends(triple):  # rounding is monotone
        expected = 0.0 if value == 0 else nearest(value, name)
        assert same(float(rounded), expected), (value, rounded, expected)


@given(at_boundaries())
@settings(deadline=None, derandomize=True, max_examples=500)
def test_an_exact_float64_number_is_decided(case: tuple[str, Triple]) -> None:
    name, (hi, _, _) = case
    (rounded,), (decided,) = round_enclosed(enclosed((hi, 0.0, 0.0)), FORMATS[name])
    assert decided
    assert same(float(rounded), 0.0 if hi == 0 else nearest(Fraction(hi), name))


@given(at_boundaries())
@settings(deadline=None, derandomize=True, max_examples=1000)
def test_an_enclosure_well_inside_a_rounding_cell_is_decided(case: tuple[str, Triple]) -> None:
    """Wider by a few ulps of float64, it still rounds to one number that is neither zero nor beyond float64."""
    name, triple = case
    hi, lo, radius = triple
    slack = 4 * Fraction(math.ulp(max(abs(lo), radius)) if name == "float64" else max(math.ulp(hi), math.ulp(radius)))
    low, high = ends(triple)[0] - slack, ends(triple)[1] + slack
    number = nearest(low, name)
    one_sign, in_range = low > 0 or high < 0, max(abs(low), abs(high)) < Fraction(MAX)
    if one_sign and in_range and number != 0 and same(number, nearest(high, name)):
        (rounded,), (decided,) = round_enclosed(enclosed(triple), FORMATS[name])
        assert decided
        assert same(float(rounded), number)


@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_what_spans_a_midpoint_zero_or_the_threshold_is_not_decided(name: str) -> None:
    bits, _, largest, _, _ = SPECIFICATIONS[name]
    step = math.ldexp(1.0, 1 - bits)
    middle = (1.0, step / 2, step / 4) if name == "float64" else (1 + step / 2, 0.0, step / 4)
    threshold = (largest, 0.0, largest / 2)
    for triple in (middle, (0.0, 0.0, 5e-324), (5e-324, 0.0, 1.0), threshold, (1.0, 0.0, math.inf), (math.inf, 0.0, math.inf)):
        (_,), (decided,) = round_enclosed(enclosed(triple), FORMATS[name])
        assert not decided, triple


@pytest.mark.parametrize("name", [n for n in SPECIFICATIONS if n != "float64"])
def test_overflow_and_underflow_are_decided_with_their_sign(name: str) -> None:
    _, _, _, beyond, negative_zero = SPECIFICATIONS[name]
    rounded, decided = round_enclosed(enclosed((1e300, 0.0, 1e299), (-1e300, 0.0, 1e299), (1e-300, 0.0, 1e-301), (-1e-300, 0.0, 1e-301)), FORMATS[name])
    assert decided.all()
    assert [repr(float(r)).replace("-nan", "nan") for r in rounded] == [
        repr(beyond),
        repr(-beyond).replace("-nan", "nan"),
        "0.0",
        "-0.0" if negative_zero else "0.0",
    ]


def test_exact_zero_is_decided_and_positive() -> None:
    for fmt in FORMATS.values():
        (rounded,), (decided,) = round_enclosed(enclosed((0.0, 0.0, 0.0)), fmt)
        assert decided
        assert same(float(rounded), 0.0)


# From Arb ------------------------------------------------------------------------------------------------------------------------


@st.composite
def balls(draw: Draw) -> tuple[Fraction, Fraction]:
    """Midpoint and radius, about float64's range and beyond both ends."""
    exponent = draw(st.one_of(st.integers(-1200, 1200), st.sampled_from([1023, 1024, 1025, -1074, -1022])))
    middle = Fraction(draw(st.integers(-(2**130), 2**130)), 2**130) * Fraction(2) ** exponent
    radius = draw(st.sampled_from([Fraction(0), Fraction(1, 2**200), Fraction(1, 2**110), Fraction(1, 2**53), Fraction(1, 4)])) * Fraction(2) ** exponent
    return middle, radius


def ball(middle: Fraction, radius: Fraction) -> arb:
    with precision(2000):
        return arb(middle.numerator) / arb(middle.denominator) + arb(0, arb(radius.numerator) / arb(radius.denominator))


def rational(a: arb) -> Fraction:
    significand, exponent = a.man_exp()
    return Fraction(int(significand)) * Fraction(2) ** int(exponent)


@given(balls())
@settings(deadline=None, derandomize=True, max_examples=600)
@example((Fraction(2**1024), Fraction(2**1022)))
@example((Fraction(-(2**1024)), Fraction(2**1023)))
@example((Fraction(2**1024 - 2**970), Fraction(2**960)))
@example((Fraction(1, 2**1075), Fraction(1, 2**1080)))
def test_the_interval_of_a_ball_s_enclosure_contains_the_ball(case: tuple[Fraction, Fraction]) -> None:
    a = ball(*case)
    with precision(128):
        found = Ball().enclosed((np.array([a], object),))
    (lower,), (upper,) = found.interval()
    with precision(4000):
        low, high = rational(a.lower()), rational(a.upper())
    assert below(float(lower), low)
    assert below(-float(upper), -high)
    hi, lo = float(found.hi[0]), float(found.lo[0])
    if math.isfinite(hi):
        assert abs(lo) <= math.ulp(hi) / 2
        assert hi + lo == hi
