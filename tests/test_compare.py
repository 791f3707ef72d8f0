"""What a result says of somebody else's numbers, against rational arithmetic: covered, ulps, bound, share, and the message of a failure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import exactref_jax as er
from exactref_jax import compare
from exactref_jax.enclosed import Enclosed
from exactref_jax.formats import FORMATS, Format
from exactref_jax.values import NAN, NEGATIVE_INFINITY, NEGATIVE_ZERO, POSITIVE_INFINITY

MAX = float(np.finfo(np.float64).max)
INF, NANS = math.inf, math.nan
DTYPES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
# Precision, exponent of the smallest number and of the spacing in the topmost binade: as in the formats' specifications.
SPACING = {
    "float64": (53, -1074, 971),
    "float32": (24, -149, 104),
    "float16": (11, -24, 5),
    "bfloat16": (8, -133, 120),
    "float8_e4m3fn": (4, -9, 5),
    "float8_e5m2": (3, -16, 13),
}


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def ulp_of(value: Fraction, name: str) -> Fraction:
    """The spacing of a format's numbers in the binade of a real number."""
    bits, least, top = SPACING[name]
    exponent = least
    if value:
        exponent = abs(value).numerator.bit_length() - value.denominator.bit_length()
        exponent -= abs(value) < Fraction(2) ** exponent
        exponent = min(max(exponent - bits + 1, least), top)
    return Fraction(2) ** exponent


@dataclass(frozen=True)
class Known:
    """What `compare` wants to know of one number; see `compare.ExactPart`."""

    fmt: Format
    enclosed: Enclosed
    codes: np.ndarray
    rounded: np.ndarray
    unsigned: np.ndarray


def known(name: str, hi: float, lo: float = 0.0, radius: float = 0.0, code: int = 0, rounded: float | None = None, unsigned: bool = False) -> Known:
    triple = Enclosed(np.array([hi]), np.array([lo]), np.array([radius]))
    return Known(FORMATS[name], triple, np.array([code], np.uint8), np.array([hi if rounded is None else rounded]), np.array([unsigned]))


def covers(part: Known, tolerance: float, candidate: float, signed_zeros: bool = False) -> bool:
    return bool(compare.covered(part, np.array([tolerance]), np.array([candidate]), signed_zeros)[0])


# Covered: finite numbers ---------------------------------------------------------------------------------------------------------


@st.composite
def exact_numbers(draw: Callable[..., Any]) -> tuple[float, float, float]:
    """`hi`, `lo` and a radius of about what arithmetic with 128 bits leaves, or none; powers of two and ties among them."""
    exponent = draw(st.integers(-900, 900))
    significand = draw(st.one_of(st.just(2**52), st.integers(2**52, 2**53 - 1)))
    hi = draw(st.sampled_from([1.0, -1.0])) * math.ldexp(significand, exponent)
    lo = draw(st.sampled_from([0.0, 0.0, 0.5, -0.5, 0.25, 2.0**-40, -(2.0**-49)])) * math.ulp(hi)
    return hi, lo, draw(st.sampled_from([0.0, 2.0**-106])) * abs(hi)


def float_toward(value: Fraction, toward: float) -> float:
    """The float64 number nearest to `value` on the side of `toward`."""
    x = float(value)
    return x if Fraction(x) == value or (Fraction(x) > value) == (toward > 0) else math.nextafter(x, toward)


@given(exact=exact_numbers(), scale=st.integers(-51, 60), significand=st.integers(2**20, 2**21), side=st.sampled_from([1, -1]))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_a_candidate_just_inside_the_tolerance_is_covered_and_one_just_outside_is_not(
    exact: tuple[float, float, float], scale: int, significand: int, side: int
) -> None:
    hi, lo, radius = exact
    tolerance = math.ldexp(significand, scale - 20) * math.ulp(hi)
    value, granted, part = Fraction(hi) + Fraction(lo), Fraction(tolerance), known("float64", hi, lo, radius)
    inside = float_toward(value + side * granted * Fraction(99, 100), -side * INF)
    outside = float_toward(value + side * granted * Fraction(101, 100), side * INF)
    distance = abs(Fraction(inside) - value)
    if distance + Fraction(radius) <= granted:
        assert covers(part, tolerance, inside)
    assert abs(Fraction(outside) - value) >= granted * Fraction(101, 100)
    assert not covers(part, tolerance, outside)


@given(exact=exact_numbers(), steps=st.integers(-(2**20), 2**20), extra=st.sampled_from([Fraction(0), Fraction(1, 2**40), -Fraction(1, 2**40)]))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_a_candidate_at_exactly_the_tolerance_is_covered_and_one_a_relative_2_to_the_minus_40_beyond_is_not(
    exact: tuple[float, float, float], steps: int, extra: Fraction
) -> None:
    hi, lo, _ = exact
    candidate = hi + steps * math.ulp(hi)
    distance = abs(Fraction(candidate) - Fraction(hi) - Fraction(lo))
    assume(distance > 0)
    part, wanted = known("float64", hi, lo), distance * (1 + extra)
    assert covers(part, float_toward(wanted, INF), candidate) is (extra >= 0)


@pytest.mark.parametrize("name", DTYPES)
def test_tolerance_zero_covers_the_exact_number_only(name: str) -> None:
    part = known(name, 1.5)
    assert covers(part, 0.0, 1.5)
    for candidate in (math.nextafter(1.5, 2), math.nextafter(1.5, 1), -1.5, 0.0, NANS, INF, -INF):
        assert not covers(part, 0.0, candidate)


def test_tolerance_zero_covers_no_float64_number_where_the_exact_value_is_none() -> None:
    part = known("float64", 1.0, 2.0**-60)
    assert not any(covers(part, 0.0, c) for c in (1.0, math.nextafter(1.0, 2)))
    assert covers(part, 2.0**-60, 1.0)


def test_an_infinite_tolerance_covers_anything() -> None:
    for candidate in (0.0, -1e300, INF, -INF, NANS):
        assert covers(known("float32", 1.0), INF, candidate)
        assert covers(known("float32", 0.0, code=NAN, rounded=NANS), INF, candidate)


def test_numbers_at_the_ends_of_the_range() -> None:
    assert covers(known("float64", 5e-324), 5e-324, 0.0)
    assert covers(known("float64", 5e-324), 5e-324, 1e-323)
    assert not covers(known("float64", 5e-324), 0.0, 1e-323)
    assert not covers(known("float64", 5e-324), 5e-324, 1.5e-323)
    assert not covers(known("float64", -MAX), MAX, MAX)
    assert covers(known("float64", MAX), MAX, 0.0)


def sums(name: str) -> tuple[er.Result, list[Fraction]]:
    """Sums that round, some by cancellation, and their exact values."""
    generator = np.random.default_rng(5)
    x = (generator.standard_normal((12, 7)) * [1, -1, 1, -1, 1, -1, 3]).astype(numpy_dtype(name))
    return er.sum(x, axis=1), [sum(map(Fraction, row)) for row in x.astype(float).tolist()]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("side", [1, -1])
def test_a_result_covers_what_is_within_0_99_of_its_tolerance_and_not_what_is_1_01_away(name: str, side: int) -> None:
    result, exact = sums(name)
    tolerances = [Fraction(t) for t in result.tolerance.tolist()]
    assert all(t > 0 for t in tolerances)
    inside = [float_toward(v + side * t * Fraction(99, 100), -side * INF) for v, t in zip(exact, tolerances, strict=True)]
    outside = [float_toward(v + side * t * Fraction(101, 100), side * INF) for v, t in zip(exact, tolerances, strict=True)]
    held = [abs(Fraction(c) - v) <= t for c, v, t in zip(inside, exact, tolerances, strict=True)]
    assert sum(held) > 6
    assert result.covers(inside)[held].all()
    assert not result.covers(outside).any()


@pytest.mark.parametrize("name", DTYPES)
def test_the_rounded_and_the_normal_answer_are_covered(name: str) -> None:
    result, _ = sums(name)
    for answer in (result.rounded, result.normal):
        assert result.covers(answer).all()
        result.assert_covers(answer)


# Covered: special values ---------------------------------------------------------------------------------------------------------


def specials(name: str) -> er.Result:
    """inf, -inf, NaN, 0, -0, 1."""
    return er.evaluate(lambda x: jnp.stack([1 / x, -1 / x, x / x, x, -x, x + 1]))(np.zeros((), numpy_dtype(name)))


@pytest.mark.parametrize("name", DTYPES)
def test_special_values_cover_themselves_and_nothing_else(name: str) -> None:
    result = specials(name)
    exact = [INF, -INF, NANS, 0.0, -0.0, 1.0]
    assert result.covers(exact).all()
    assert result.covers(result.rounded).all()
    wrong = [-INF, INF, 0.0, NANS, INF, -INF]
    assert not result.covers(wrong, tolerance=1.0).any()
    assert not result.covers([MAX, -MAX, INF, INF, NANS, NANS], tolerance=1.0).any()
    assert not result.covers([0.0, 0.0, -INF, -INF, -INF, INF], tolerance=1.0).any()


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "float8_e5m2"])
def test_nan_is_not_covered_for_an_infinity_nor_the_other_way_round(name: str) -> None:
    assert not specials(name).covers([NANS, NANS, INF, 0.0, 0.0, 1.0], tolerance=1.0)[:3].any()


def test_nan_stands_for_an_infinity_in_a_format_that_has_none() -> None:
    assert specials("float8_e4m3fn").covers([NANS, NANS, NANS, 0.0, 0.0, 1.0]).all()


THRESHOLD = {"float16": (65504.0, 16.0), "bfloat16": (float(ml_dtypes.finfo("bfloat16").max), 2.0**119), "float32": (float(np.finfo("float32").max), 2.0**103)}
THRESHOLD |= {"float8_e5m2": (57344.0, 4096.0), "float64": (MAX, 2.0**970)}


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", THRESHOLD)
def test_an_infinity_is_covered_where_value_and_tolerance_reach_the_overflow_threshold(name: str, sign: float) -> None:
    largest, half = THRESHOLD[name]
    part = known(name, sign * largest)
    assert covers(part, half, sign * INF)
    assert not covers(part, half, -sign * INF)
    assert not covers(part, half, NANS)
    assert not covers(part, half / 2, sign * INF)
    assert not covers(part, 0.0, sign * INF)
    below = known(name, sign * (largest - 2 * half))
    assert not covers(below, 2 * half, sign * INF)
    assert covers(below, 3 * half, sign * INF)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nan_is_covered_where_a_format_without_infinities_overflows(sign: float) -> None:
    part = known("float8_e4m3fn", sign * 448.0)
    assert covers(part, 16.0, NANS)
    assert not covers(part, 15.0, NANS)
    assert not covers(part, 15.0, sign * INF)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e5m2"])
def test_a_finite_value_beyond_the_format_covers_its_infinity_and_what_is_near(name: str) -> None:
    largest, half = THRESHOLD[name]
    part = known(name, 4 * largest, rounded=INF)
    assert covers(part, 0.0, INF)
    assert covers(part, 0.0, 4 * largest)
    for candidate in (-INF, NANS, largest, 0.0, -4 * largest):
        assert not covers(part, half, candidate)


def test_an_exact_float64_result_is_not_covered_by_infinity() -> None:
    result = er.evaluate(lambda x: x)(np.array([MAX, -MAX]))
    assert result.tolerance.tolist() == [0.0, 0.0]
    assert result.covers([MAX, -MAX]).all()
    assert not result.covers([INF, -INF]).any()


def test_an_ordinary_sum_at_the_overflow_threshold_is_covered_whichever_way_it_falls() -> None:
    """Exactly at the threshold: rounded once it is infinite, added one by one it is the largest number."""
    for name, (largest, half) in THRESHOLD.items():
        x = np.array([largest, half / 2, half / 2]).astype(numpy_dtype(name))
        result = er.sum(x)
        assert float(result.rounded) == INF
        assert result.covers(result.rounded)
        assert result.covers(result.normal)
        assert result.covers(x[0]), name


# Zeros ---------------------------------------------------------------------------------------------------------------------------


def test_zeros_of_either_sign_are_one_number_unless_asked() -> None:
    result = er.evaluate(lambda x: jnp.stack([x, -x, x * 1]))(np.float32(0.0))
    assert np.signbit(result.rounded).tolist() == [False, True, False]
    assert result.covers([-0.0, 0.0, -0.0]).all()
    assert not result.covers([-0.0, 0.0, -0.0], signed_zeros=True).any()
    assert result.covers([0.0, -0.0, 0.0], signed_zeros=True).all()


def test_the_sign_of_a_zero_counts_only_where_both_are_zero_and_the_sign_is_known() -> None:
    small = known("float32", -1e-60, rounded=-0.0)
    assert covers(small, 1e-45, 0.0)
    assert not covers(small, 1e-45, 0.0, signed_zeros=True)
    assert covers(small, 1e-45, -0.0, signed_zeros=True)
    assert covers(known("float32", 0.0, unsigned=True), 0.0, -0.0, signed_zeros=True)
    assert covers(known("float32", 1e-45), 1e-45, -0.0, signed_zeros=True)
    assert covers(known("float32", 0.0, code=NEGATIVE_ZERO, rounded=-0.0), 0.0, -0.0, signed_zeros=True)


@pytest.mark.parametrize("name", FORMATS)
def test_the_rounded_answer_is_covered_with_signed_zeros_too(name: str) -> None:
    smallest = FORMATS[name].smallest
    x = np.array([smallest, -smallest, 0.0, -0.0]).astype(FORMATS[name].dtype)
    result = er.multiply(x, np.full(4, 0.25).astype(x.dtype))
    assert result.rounded.astype(float).tolist() == [0.0] * 4
    assert result.covers(result.rounded, signed_zeros=True).all()
    assert result.covers(result.rounded).all()


# Ulps ----------------------------------------------------------------------------------------------------------------------------


@given(exact=exact_numbers(), steps=st.integers(-40, 40), name=st.sampled_from(["float64", "float32", "bfloat16"]), few=st.booleans())
@settings(deadline=None, derandomize=True, max_examples=500)
@example((1.0, -(2.0**-54), 0.0), 0, "float64", False)
@example((1.0, 2.0**-54, 0.0), -1, "float32", False)
@example((2.0**128, -(2.0**60), 0.0), 0, "float32", False)
def test_ulps_are_the_signed_distance_in_units_of_the_binade_of_the_exact_value(exact: tuple[float, float, float], steps: int, name: str, few: bool) -> None:
    hi, lo, _ = exact
    value = Fraction(hi) + Fraction(lo)
    step = ulp_of(value, name) if few else Fraction(math.ulp(hi))
    candidate = float(Fraction(hi) + steps * step)
    (got,) = compare.ulps(known(name, hi, lo), np.array([candidate]))
    expected = (Fraction(candidate) - value) / ulp_of(value, name)
    # Two roundings, of the larger of the two numbers that are subtracted.
    slack = Fraction(1, 2**52) * (abs(Fraction(candidate) - Fraction(hi)) + abs(Fraction(lo))) / ulp_of(value, name)
    assert abs(Fraction(float(got)) - expected) <= slack * 2


@pytest.mark.parametrize(
    ("terms", "unit"), [([1.0, 2.0**-20], 2.0**-10), ([1.0, -(2.0**-20)], 2.0**-11), ([1.0], 2.0**-10), ([2.0**-14, -(2.0**-24)], 2.0**-24)]
)
def test_ulps_at_binade_boundaries_of_float16(terms: list[float], unit: float) -> None:
    """Just below a power of two the unit is that of the binade below; below the least normal number it stays."""
    value = sum(terms)
    for x in (terms, [-t for t in terms]):
        exact = sum(x)
        result = er.sum(np.array(x, np.float16) if value > 0.5 else np.array(x, np.float32).astype(np.float16))
        for candidate in (exact + unit, exact - 3 * unit, exact):
            assert float(result.ulps(candidate)) == (candidate - exact) / unit


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_ulps_beyond_the_largest_number_are_those_of_the_topmost_binade(name: str) -> None:
    largest, half = THRESHOLD[name]
    power = largest + 2 * half
    for hi, lo in ((power, -power * 2.0**-60), (power, 0.0), (2 * power, -power * 2.0**-60), (8 * power, 0.0)):
        (got,) = compare.ulps(known(name, hi, lo, rounded=INF), np.array([largest]))
        assert got == pytest.approx((largest - hi - lo) / (2 * half), rel=1e-12), (hi, lo)


def test_ulps_from_a_sum_just_below_the_power_of_two_after_the_largest_number() -> None:
    result = er.sum(np.float32([2.0**127, 2.0**127, -(2.0**-100)]))
    assert float(result.ulps(np.finfo(np.float32).max)) == -1.0


@pytest.mark.parametrize("name", DTYPES)
def test_ulps_are_zero_where_special_values_agree(name: str) -> None:
    result = specials(name)
    assert result.ulps(result.rounded).tolist() == [0.0] * 6
    assert result.ulps([INF, -INF, NANS, -0.0, 0.0, 1.0]).tolist() == [0.0] * 6


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "float8_e5m2"])
def test_ulps_are_infinite_where_one_side_is_and_nan_where_one_side_is(name: str) -> None:
    result = specials(name)
    assert result.ulps([0.0, 0.0, 0.0, INF, -INF, INF]).tolist()[:2] == [-INF, INF]
    assert np.isnan(result.ulps([0.0, 0.0, 0.0, INF, -INF, INF])[2])
    assert result.ulps([0.0, 0.0, 0.0, INF, -INF, INF]).tolist()[3:] == [INF, -INF, INF]
    assert np.isnan(result.ulps([NANS, NANS, INF, NANS, NANS, NANS])).all()
    assert result.ulps([-INF, INF, NANS, 0.0, 0.0, 1.0]).tolist()[:2] == [-INF, INF]


def test_overflow_agrees_with_the_rounded_infinity() -> None:
    result = er.multiply(np.float32([1e30, -1e30]), np.float32([1e30, 1e30]))
    assert result.ulps([INF, -INF]).tolist() == [0.0, 0.0]
    assert result.ulps([-INF, INF]).tolist() == [-INF, INF]
    assert np.isnan(result.ulps([NANS, NANS])).all()
    assert np.isfinite(result.ulps(np.float32([3e38, -3e38]))).all()
    eight = er.multiply(er.asarray([448.0], "float8_e4m3fn"), er.asarray([2.0], "float8_e4m3fn"))
    assert eight.ulps([NANS]).tolist() == [0.0]
    assert eight.ulps([448.0]).tolist() == [-14.0]


def test_ulps_of_finite_numbers_are_finite() -> None:
    """MAX and -MAX are about 2**54 units apart, though their difference is no float64 number."""
    assert compare.ulps(known("float64", -MAX), np.array([MAX])).tolist() == [2.0**54 - 2]
    assert compare.ulps(known("float64", MAX), np.array([-MAX])).tolist() == [2 - 2.0**54]


@pytest.mark.parametrize("name", DTYPES)
def test_ulps_of_the_rounded_answer_are_at_most_a_half(name: str) -> None:
    result, exact = sums(name)
    distances = result.ulps(result.rounded)
    assert (np.abs(distances) <= 0.5).all()
    for got, r, v in zip(distances.tolist(), result.rounded.astype(float).tolist(), exact, strict=True):
        assert got == pytest.approx(float((Fraction(r) - v) / ulp_of(v, name)), rel=2.0**-45, abs=2.0**-60)


# Bound, share and interval -------------------------------------------------------------------------------------------------------


@given(exact=exact_numbers(), steps=st.integers(-3, 3))
@settings(deadline=None, derandomize=True, max_examples=300)
@example((1.0, 2.0**-53, 2.0**-106), 0)
def test_the_bound_holds_for_every_number_enclosed_and_is_tight(exact: tuple[float, float, float], steps: int) -> None:
    hi, lo, radius = exact
    rounded = hi + steps * math.ulp(hi)
    (bound,) = compare.bound(known("float64", hi, lo, radius, rounded=rounded))
    distances = [abs(Fraction(rounded) - Fraction(hi) - Fraction(lo) - side * Fraction(radius)) for side in (-1, 1)]
    # Two roundings of numbers at most three times the distance, the sum of distance and error, and one step up: below eight units of 2**-52.
    assert max(distances) <= Fraction(float(bound)) <= (max(distances) + Fraction(radius)) * (1 + Fraction(1, 2**49))


def test_the_bound_of_special_values_and_overflow() -> None:
    assert compare.bound(known("float32", 0.0, code=POSITIVE_INFINITY, rounded=INF)).tolist() == [0.0]
    assert compare.bound(known("float32", 0.0, code=NEGATIVE_INFINITY, rounded=-INF)).tolist() == [0.0]
    assert compare.bound(known("float32", 0.0, code=NAN, rounded=NANS)).tolist() == [0.0]
    assert compare.bound(known("float32", 1e60, rounded=INF)).tolist() == [INF]
    assert compare.bound(known("float8_e4m3fn", 1e60, rounded=NANS)).tolist() == [INF]
    assert compare.bound(known("float32", 0.0, code=NEGATIVE_ZERO, rounded=-0.0)).tolist() == [0.0]
    assert compare.bound(known("float32", 1.5)).tolist() == [0.0]


@pytest.mark.parametrize("name", DTYPES)
def test_the_bound_of_a_result_holds(name: str) -> None:
    result, exact = sums(name)
    for r, bound, v in zip(result.rounded.astype(float).tolist(), result.bound.tolist(), exact, strict=True):
        assert abs(Fraction(r) - v) <= Fraction(bound) <= abs(Fraction(r) - v) * (1 + Fraction(1, 2**49))


def test_the_interval_of_special_values_is_themselves() -> None:
    lower, upper = specials("float32").interval
    np.testing.assert_array_equal(lower, [INF, -INF, NANS, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(upper, lower)


@given(exact=exact_numbers(), scale=st.integers(-5, 40), steps=st.integers(-(2**20), 2**20))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_the_share_is_at_most_one_exactly_where_the_candidate_is_covered(exact: tuple[float, float, float], scale: int, steps: int) -> None:
    hi, lo, radius = exact
    tolerance, candidate = math.ldexp(math.ulp(hi), scale), hi + steps * math.ulp(hi)
    part = known("float64", hi, lo, radius)
    (share,) = compare.share(part, np.array([tolerance]), np.array([candidate]))
    assert (share <= 1) is np.bool_(covers(part, tolerance, candidate))
    expected = abs(Fraction(candidate) - Fraction(hi) - Fraction(lo)) / Fraction(tolerance)
    assert share == pytest.approx(float(expected), rel=2.0**-40, abs=2.0**-40)


def test_the_share_of_special_values_and_extreme_tolerances() -> None:
    def share(part: Known, tolerance: float, candidate: float) -> float:
        return float(compare.share(part, np.array([tolerance]), np.array([candidate]))[0])

    assert share(known("float32", 1.0), 0.0, 1.0) == 0.0
    assert share(known("float32", 1.0), 0.0, 1.5) == INF
    assert share(known("float32", 1.0), INF, 1.5) == 0.0
    assert share(known("float32", 1.0), INF, NANS) == 0.0
    assert share(known("float32", 1.0), 1.0, NANS) == INF
    assert share(known("float32", 1.0), 1.0, INF) == INF
    assert share(known("float32", 0.0, code=POSITIVE_INFINITY, rounded=INF), 0.0, INF) == 0.0
    assert share(known("float32", 0.0, code=POSITIVE_INFINITY, rounded=INF), 0.0, 1.0) == INF
    assert share(known("float32", 1e60, rounded=INF), 0.0, INF) == 0.0


# Candidates of any kind ----------------------------------------------------------------------------------------------------------

RESULT = er.matmul(np.float32([[1.5, -2.0], [0.25, 3.0]]), np.float32([[0.5], [1.25]]))  # [[-1.75], [3.875]]


@pytest.mark.parametrize("dtype", [*DTYPES, "float8_e5m2fnuz", "int8", "int64"])
def test_a_candidate_s_numbers_count_not_its_dtype(dtype: str) -> None:
    result = er.sum(np.float32([[1.5, 2.5], [-0.5, -1.5]]), axis=1)
    assert result.covers(np.array([4, -2]).astype(numpy_dtype(dtype))).all()
    assert not result.covers(np.array([3, -1]).astype(numpy_dtype(dtype))).any()


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float16"])
def test_candidates_in_the_result_s_own_narrow_dtype(name: str) -> None:
    result, _ = sums(name)
    right = result.rounded
    assert right.dtype == numpy_dtype(name)
    assert result.covers(right).all()
    assert result.covers(jnp.asarray(right)).all()
    assert not result.covers(-right).any()
    assert (np.abs(result.ulps(jnp.asarray(right))) <= 0.5).all()


def test_jax_candidates() -> None:
    assert RESULT.covers(jnp.array([[-1.75], [3.875]])).all()
    assert not RESULT.covers(jnp.array([[-1.25], [3.5]], jnp.bfloat16)).any()
    assert RESULT.ulps(jnp.array([[-1.75], [3.875]])).tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_pytorch_candidates(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    result = er.sum(np.float32([[1.5, 2.5], [-0.5, -1.5]]), axis=1)
    right = torch.tensor([4.0, -2.0]).to(getattr(torch, dtype))
    assert result.covers(right).all()
    assert not result.covers(torch.tensor([3.0, -1.0]).to(getattr(torch, dtype))).any()
    assert result.ulps(right).tolist() == [0.0, 0.0]
    assert result.judge(torch=right).covered
    if dtype == "float32":
        result.assert_covers(right.requires_grad_())


def test_lists_and_numbers() -> None:
    assert RESULT.covers([[-1.75], [3.875]]).all()
    assert er.sum(np.float32([1.0, 2.0])).covers(3)
    assert er.sum(np.float32([1.0, 2.0])).covers(True, tolerance=2.0)


@pytest.mark.parametrize("candidate", [[[1.0]], [1.0, 2.0], 1.0, np.ones((2, 1, 1)), np.ones((1, 2)), []])
def test_a_candidate_of_another_shape_is_refused(candidate: Any) -> None:
    for ask in (RESULT.covers, RESULT.ulps, RESULT.assert_covers):
        with pytest.raises(ValueError, match=r"candidate.*wanted (\[2, 1\]|one array)"):
            ask(candidate)
    with pytest.raises(ValueError, match="mine"):
        RESULT.judge(mine=candidate)


@pytest.mark.parametrize(
    "candidate", ["text", None, [["a"], ["b"]], np.array([["a"], ["b"]]), np.ones((2, 1), complex), np.ones((2, 1), "datetime64[s]"), [[None], [1.0]]]
)
def test_a_candidate_that_is_no_real_array_is_refused(candidate: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="candidate"):
        RESULT.covers(candidate)


def test_a_missing_gradient_is_named() -> None:
    g = er.matmul.backward(np.float32([[1.0, 2.0]]), np.float32([[3.0], [4.0]]), [[1.0]])
    with pytest.raises((TypeError, ValueError), match="grad_B"):
        g.covers({"grad_A": g.rounded.grad_A})
    with pytest.raises(ValueError, match="candidate"):
        g.covers((g.rounded.grad_A,))
    with pytest.raises(ValueError, match="candidate"):
        g.covers(g.rounded.grad_A)


def test_a_gradient_that_is_not_asked_for_is_refused() -> None:
    """A misspelt name beside the right ones would pass unjudged."""
    g = er.matmul.backward(np.float32([[1.0, 2.0]]), np.float32([[3.0], [4.0]]), [[1.0]])
    with pytest.raises(ValueError, match="grad_C"):
        g.covers({"grad_A": g.rounded.grad_A, "grad_B": g.rounded.grad_B, "grad_C": [1.0]})


def test_missing_and_unknown_keys_of_a_pytree_are_refused() -> None:
    result = er.evaluate(lambda x: {"a": x, "b": 2 * x})(np.float32([1.0]))
    assert result.covers({"a": [1.0], "b": [2.0]})["b"].all()
    for candidate in ({"a": [1.0]}, {"a": [1.0], "b": [2.0], "c": [3.0]}, {"a": [1.0], "B": [2.0]}, [[1.0], [2.0]], {"a": [1.0], "b": None}):
        with pytest.raises((TypeError, ValueError), match="candidate"):
            result.covers(candidate)


def test_a_tolerance_of_one_s_own() -> None:
    candidate = [[-1.75 + 0.5], [3.875 - 0.5]]
    assert RESULT.covers(candidate, tolerance=0.5).all()
    assert not RESULT.covers(candidate, tolerance=0.495).any()
    assert RESULT.covers(candidate, tolerance=[[0.5], [0.25]]).tolist() == [[True], [False]]
    assert not RESULT.covers(candidate, tolerance=math.nan).any()
    assert RESULT.covers([[INF], [NANS]], tolerance=INF).all()
    RESULT.assert_covers(candidate, tolerance=0.5)
    with pytest.raises(ValueError, match="tolerance"):
        RESULT.covers(candidate, tolerance=np.ones(3))


# Complex numbers -----------------------------------------------------------------------------------------------------------------


def test_a_complex_number_is_covered_if_both_parts_are() -> None:
    result = er.multiply(np.complex64([1 + 2j]), np.complex64([3 - 1j]))  # 5 + 5i
    assert result.covers([5 + 5j], tolerance=0.0).all()
    for candidate in (5.5 + 5j, 5 + 5.5j, 5.5 + 5.5j):
        assert not result.covers([candidate], tolerance=0.49).any()
        assert result.covers([candidate], tolerance=0.51).all()
    assert not result.covers([complex(NANS, 5)], tolerance=1.0).any()
    assert not result.covers([complex(5, INF)], tolerance=1.0).any()
    assert not result.covers([5.0], tolerance=1.0).any()
    assert result.ulps([5 + 5j]).tolist() == [0j]


def test_where_the_exact_complex_number_is_not_finite_any_such_number_is_covered() -> None:
    result = er.multiply(np.complex64([complex(INF, 1)]), np.complex64([2.0]))
    for candidate in (complex(INF, NANS), complex(NANS, NANS), complex(INF, 2), complex(-INF, 0)):
        assert result.covers([candidate]).all()
    assert not result.covers([1 + 1j]).any()


def test_nan_is_not_covered_where_a_finite_complex_number_overflows() -> None:
    """The exact value is 6e38, finite, and so is the tolerance: as for real numbers, NaN is no answer."""
    real, result = er.add(np.float32([3e38]), np.float32([3e38])), er.add(np.complex64([3e38]), np.complex64([3e38]))
    assert np.isfinite(real.tolerance).all()
    assert np.isfinite(result.tolerance).all()
    assert real.covers([INF]).all()
    assert result.covers([complex(INF, 0)]).all()
    assert not real.covers([NANS]).any()
    assert not result.covers([complex(NANS, 0)]).any()
    assert not result.covers([complex(-INF, 0)]).any()


# assert_covers -------------------------------------------------------------------------------------------------------------------


def failure(result: er.Result, candidate: Any, **options: Any) -> str:
    with pytest.raises(er.NotCoveredError) as caught:
        result.assert_covers(candidate, **options)
    return str(caught.value)


def test_the_message_names_operation_count_element_numbers_and_units() -> None:
    lines = failure(RESULT, [[-1.75], [3.875 + 2.0**-21]], tolerance=2.0**-23).splitlines()
    assert lines[0] == "er.matmul: 1 of 2 elements are not covered"
    assert len(lines) == 2
    assert "[1, 0]" in lines[1]
    assert repr(3.875 + 2.0**-21) in lines[1]
    assert "exact 3.875" in lines[1]
    assert "off by 2 ulp" in lines[1]
    assert "tolerance 0.5 ulp" in lines[1]


def test_the_message_gives_an_interval_where_the_exact_value_is_no_float64_number() -> None:
    result = er.evaluate(jnp.exp)(np.float32([0.5]))
    lower, upper = (float(side[0]) for side in result.interval)
    assert lower < upper
    assert f"exact in [{lower!r}, {upper!r}]" in failure(result, [2.0])


def test_the_message_lists_the_worst_first_and_nan_before_all() -> None:
    result = er.evaluate(lambda x: x)(np.ones(9, np.float32))
    lines = failure(result, [1, 2, 3, NANS, 5, 6, 7, 8, 1]).splitlines()
    assert lines[0].endswith("7 of 9 elements are not covered")
    assert [int(re.findall(r"\[(\d+)\]", line)[0]) for line in lines[1:]] == [3, 7, 6, 5, 4]


def test_the_message_names_the_array() -> None:
    g = er.matmul.backward(np.float32([[1.0, 2.0]]), np.float32([[3.0], [4.0]]), [[1.0]])
    text = failure(g, (g.rounded.grad_A, -g.rounded.grad_B))
    assert "er.matmul.backward" in text
    assert "2 of 4 elements" in text
    assert "grad_B[0, 0]" in text
    assert "grad_A" not in text
    assert "grad_B" in failure(g["grad_B"], -g.rounded.grad_B)


def test_unbounded_elements_never_pass_silently() -> None:
    result = er.evaluate(lambda x: (x * x) / x)(np.float32([1e30, 1.0, 2e30]))
    assert result.unbounded == 2
    assert result.covers(result.rounded).all()
    assert "2 elements have an infinite tolerance" in failure(result, result.rounded)
    assert "allow_unbounded=1" in failure(result, result.rounded, allow_unbounded=1)
    result.assert_covers(result.rounded, allow_unbounded=2)
    result.assert_covers(result.rounded, tolerance=0.0)
    both = failure(result, [1.0, 2.0, 3.0])
    assert "2 elements have an infinite tolerance" in both
    assert "1 of 3 elements are not covered" in both


def test_signed_zeros_and_tolerance_reach_assert_covers() -> None:
    result = er.evaluate(lambda x: -x)(np.float32([0.0]))
    result.assert_covers([0.0])
    assert "1 of 1" in failure(result, [0.0], signed_zeros=True)
    result.assert_covers([0.5], tolerance=0.5)
    assert "1 of 1" in failure(result, [0.5], tolerance=0.25)


def test_a_failure_is_an_assertion_error_too() -> None:
    with pytest.raises(AssertionError):
        RESULT.assert_covers([[0.0], [0.0]])
