"""Formats against integers and rational arithmetic: every eight- and sixteen-bit number, its midpoints, and the neighbours of its midpoints.

Nothing here reads a property of `Format`: the layouts are written down once more, patterns are decoded with integers, and rounding is looked up
in the sorted list of all numbers.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactref_jax.formats import (
    FORMATS,
    decode,
    encode,
    format_of,
    is_complex,
    is_floating,
    is_inexact,
    next_down,
    next_up,
    round_dyadic,
    round_enclosure,
    round_exact,
    round_fraction,
    round_ratio,
    same_number,
    ulp,
)

TINY = Fraction(1, 2**200)


@dataclass(frozen=True)
class Layout:
    """A format as its specification has it.

    IEEE 754-2019, 3.4; OCP 8-bit Floating Point Specification 1.0, 5.1 (the `fn` formats: no infinity, one NaN pattern for each sign); Noune et al.,
    "8-bit numerical formats for deep neural networks", 2022 (the `fnuz` formats: no infinity, no negative zero, NaN where -0 would be).
    """

    exponent_bits: int
    fraction_bits: int
    bias: int
    kind: str

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def precision(self) -> int:
        return self.fraction_bits + 1

    @property
    def smallest_exponent(self) -> int:
        return 1 - self.bias - self.fraction_bits


LAYOUTS = {
    "float64": Layout(11, 52, 1023, "ieee"),
    "float32": Layout(8, 23, 127, "ieee"),
    "float16": Layout(5, 10, 15, "ieee"),
    "bfloat16": Layout(8, 7, 127, "ieee"),
    "float8_e5m2": Layout(5, 2, 15, "ieee"),
    "float8_e4m3": Layout(4, 3, 7, "ieee"),
    "float8_e3m4": Layout(3, 4, 3, "ieee"),
    "float8_e4m3fn": Layout(4, 3, 7, "fn"),
    "float8_e5m2fnuz": Layout(5, 2, 16, "fnuz"),
    "float8_e4m3fnuz": Layout(4, 3, 8, "fnuz"),
    "float8_e4m3b11fnuz": Layout(4, 3, 11, "fnuz"),
}
EIGHT = [name for name, layout in LAYOUTS.items() if layout.bits == 8]
SIXTEEN = ["float16", "bfloat16"]
SMALL = EIGHT + SIXTEEN
WIDE = ["float32", "float64"]


def test_every_format_is_tested() -> None:
    assert set(LAYOUTS) == set(FORMATS)


# The independent path: patterns, numbers in order, rounding ----------------------------------------------------------------------


def by_hand(pattern: int, layout: Layout) -> int | str:
    """A bit pattern read as sign, exponent and fraction: the number in units of the smallest one, or "inf", "-inf", "nan", "-0"."""
    negative = pattern >> (layout.bits - 1)
    exponent = (pattern >> layout.fraction_bits) & ((1 << layout.exponent_bits) - 1)
    fraction = pattern & ((1 << layout.fraction_bits) - 1)
    top = (1 << layout.exponent_bits) - 1
    if layout.kind == "ieee" and exponent == top:
        return "nan" if fraction else "-inf" if negative else "inf"
    if layout.kind == "fn" and exponent == top and fraction == (1 << layout.fraction_bits) - 1:
        return "nan"
    if exponent == 0 and fraction == 0 and negative:
        return "nan" if layout.kind == "fnuz" else "-0"
    magnitude = fraction if exponent == 0 else ((1 << layout.fraction_bits) + fraction) << (exponent - 1)
    return -magnitude if negative else magnitude


def as_float(n: int | str, layout: Layout) -> float:
    return float(n) if isinstance(n, str) else float(Fraction(n) * Fraction(2) ** layout.smallest_exponent)


@cache
def magnitudes(name: str) -> list[int]:
    """The finite numbers from 0 up in units of the smallest one; the k-th has pattern k. Then the one that overflow would be."""
    layout = LAYOUTS[name]
    found = [n for k in range(1 << (layout.bits - 1)) if isinstance(n := by_hand(k, layout), int)]
    assert found == sorted(found)
    return [*found, 2 * found[-1] - found[-2]]


def nearest(numerator: int, denominator: int, name: str) -> float:
    """`numerator / denominator`, in units of the smallest number, rounded by looking it up in the list of all numbers."""
    layout, numbers = LAYOUTS[name], magnitudes(name)
    magnitude = abs(numerator)
    k = bisect_right(numbers, magnitude // denominator) - 1  # the number itself, or the next one below
    if k < len(numbers) - 1:
        side = 2 * magnitude - (numbers[k] + numbers[k + 1]) * denominator
        # Of two neighbours the even one is the one whose pattern ends in 0.
        k += side > 0 or (side == 0 and k % 2 == 1)
    if k >= len(numbers) - 1:
        beyond = math.inf if layout.kind == "ieee" else math.nan
        return math.copysign(beyond, numerator)
    if k == 0 and layout.kind == "fnuz":
        return 0.0
    return math.copysign(as_float(numbers[k], layout), numerator)


def nearest_fraction(value: Fraction, name: str) -> float:
    """A rational number rounded with Python's `round`, which takes ties to even; for the wide formats."""
    layout = LAYOUTS[name]
    magnitude = abs(value)
    exponent = layout.smallest_exponent
    if magnitude:
        binade = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        binade -= magnitude < Fraction(2) ** binade
        exponent = max(exponent, binade - layout.fraction_bits)
    rounded = round(magnitude / Fraction(2) ** exponent) * Fraction(2) ** exponent
    top = Fraction(2) ** (layout.bias + 1)
    return (-1 if value < 0 else 1) * (math.inf if rounded >= top else float(rounded))


def patterns(name: str) -> np.ndarray:
    """Every bit pattern of a format."""
    bits = LAYOUTS[name].bits
    return np.arange(2**bits, dtype=f"uint{bits}").view(FORMATS[name].dtype)


@cache
def finite(name: str) -> np.ndarray:
    """The finite numbers in order, with one zero, in float64."""
    positive = np.array([as_float(n, LAYOUTS[name]) for n in magnitudes(name)[:-1]])
    return np.concatenate([-positive[:0:-1], positive])


def assert_same(got: np.ndarray, expected: np.ndarray) -> None:
    """Equality of arrays that tells zeros apart; NaN equals NaN."""
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(expected)[number])


# Patterns ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_every_pattern_is_read_as_the_specification_has_it(name: str) -> None:
    layout = LAYOUTS[name]
    expected = np.array([as_float(by_hand(k, layout), layout) for k in range(2**layout.bits)])
    assert_same(decode(patterns(name)), expected)


@pytest.mark.parametrize("name", SMALL)
def test_every_number_is_written_back_to_its_pattern(name: str) -> None:
    array = patterns(name)
    values = decode(array)
    back = encode(values, FORMATS[name])
    assert back.dtype == array.dtype
    width, number = f"uint{LAYOUTS[name].bits}", ~np.isnan(values)
    np.testing.assert_array_equal(back.view(width)[number], array.view(width)[number])
    assert np.isnan(decode(back)[~number]).all()


@pytest.mark.parametrize("name", [n for n in SMALL if LAYOUTS[n].kind != "ieee"])
def test_infinity_is_written_as_nan_where_there_is_none(name: str) -> None:
    assert np.isnan(decode(encode(np.array([np.inf, -np.inf, np.nan]), FORMATS[name]))).all()


@pytest.mark.parametrize("name", [n for n in SMALL if LAYOUTS[n].kind == "fnuz"])
def test_negative_zero_is_written_as_zero_where_there_is_none(name: str) -> None:
    assert encode(np.array([-0.0]), FORMATS[name]).view(np.uint8).tolist() == [0]


def random_patterns(name: str, count: int = 200_000) -> np.ndarray:
    """Bit patterns at random, the specials and both ends of each binade among them."""
    layout = LAYOUTS[name]
    generator = np.random.default_rng(1)
    bits = generator.integers(0, 2**layout.bits, count, dtype=f"uint{layout.bits}", endpoint=False)
    starts = np.arange(2 ** (layout.exponent_bits + 1), dtype=bits.dtype) << np.array(layout.fraction_bits, bits.dtype)
    ones = np.array((1 << layout.fraction_bits) - 1, bits.dtype)
    return np.concatenate([bits, starts, starts | ones, starts | np.array(1, bits.dtype)])


@pytest.mark.parametrize("name", WIDE)
def test_wide_numbers_are_written_back_to_their_patterns(name: str) -> None:
    bits = random_patterns(name)
    array = bits.view(name)
    values = decode(array)
    number = ~np.isnan(array)
    back = encode(values, FORMATS[name])
    np.testing.assert_array_equal(back.view(bits.dtype)[number], bits[number])
    assert np.isnan(back[~number]).all()


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_format_s_few_integers(name: str) -> None:
    fmt, layout = FORMATS[name], LAYOUTS[name]
    assert (fmt.precision, fmt.minimum_exponent, fmt.bits) == (layout.precision, 1 - layout.bias, layout.bits)
    assert (fmt.infinities, fmt.negative_zero) == (layout.kind == "ieee", layout.kind != "fnuz")
    assert fmt.smallest == 2.0**layout.smallest_exponent
    assert fmt.smallest_normal == 2.0 ** (1 - layout.bias)
    assert fmt.unit_roundoff == 2.0 ** -(layout.fraction_bits + 1)
    assert fmt.dtype.name == name
    assert fmt.dtype.itemsize * 8 == layout.bits
    if name in SMALL:
        last, beyond = magnitudes(name)[-2:]
        unit = Fraction(2) ** layout.smallest_exponent
        assert fmt.maximum == last * unit
        assert fmt.overflow_threshold == (last + beyond) * unit / 2


def test_dtypes_and_their_formats() -> None:
    for name in LAYOUTS:
        assert format_of(name) is format_of(FORMATS[name].dtype) is FORMATS[name]
        assert is_floating(FORMATS[name].dtype)
        assert not is_complex(FORMATS[name].dtype)
    assert format_of("complex64") is FORMATS["float32"]
    assert format_of(np.complex128) is FORMATS["float64"]
    assert is_inexact(np.complex64)
    assert not is_inexact(np.int32)
    with pytest.raises(TypeError, match="int32"):
        format_of(np.int32)


# Rounding rational numbers -------------------------------------------------------------------------------------------------------

Ratio = tuple[int, int]


def numbers_and_midpoints(name: str) -> list[Ratio]:
    """Every number, every midpoint of two neighbours (the overflow threshold among them), either sign, in units of the smallest number."""
    numbers = magnitudes(name)
    middles = [a + b for a, b in itertools.pairwise(numbers)]
    return [(sign * n, 2) for sign in (1, -1) for n in (*(2 * n for n in numbers), *middles, 8 * numbers[-1])]


def beside(ratio: Ratio, bits: int) -> list[Ratio]:
    """A ratio, and the ratio plus and minus 2**-bits."""
    numerator, denominator = ratio[0] << bits, ratio[1] << bits
    return [(numerator + ratio[1] * step, denominator) for step in (-1, 0, 1)]


def scaled(ratio: Ratio, exponent: int) -> Ratio:
    """`ratio * 2**exponent`."""
    return ratio[0] << max(exponent, 0), ratio[1] << max(-exponent, 0)


@pytest.mark.parametrize("name", SMALL)
def test_ratios_at_and_beside_every_number_and_midpoint(name: str) -> None:
    fmt, exponent = FORMATS[name], LAYOUTS[name].smallest_exponent
    for point in numbers_and_midpoints(name):
        for ratio in beside(point, 200):
            expected = nearest(*ratio, name)
            quotient, dyadic = round_ratio(*scaled(ratio, exponent), fmt), round_dyadic(ratio[0], exponent - ratio[1].bit_length() + 1, fmt)
            # Zeros are told apart in the next test.
            assert quotient == dyadic == expected or (quotient != quotient and dyadic != dyadic and expected != expected), ratio


@pytest.mark.parametrize("name", EIGHT)
def test_every_way_to_round_a_fraction_agrees_zeros_included(name: str) -> None:
    fmt, exponent = FORMATS[name], LAYOUTS[name].smallest_exponent
    for point in numbers_and_midpoints(name):
        for ratio in beside(point, 200):
            value, expected = Fraction(*scaled(ratio, exponent)), nearest(*ratio, name)
            expected = 0.0 if value == 0 else expected
            assert same_number(round_fraction(value, fmt), expected), value
            assert same_number(round_ratio(value.numerator, value.denominator, fmt), expected), value
            assert same_number(round_dyadic(value.numerator, 1 - value.denominator.bit_length(), fmt), expected), value
            enclosed = round_enclosure(value, value, fmt)
            assert enclosed is not None
            assert same_number(enclosed, expected), value


@pytest.mark.parametrize("name", EIGHT)
def test_thirds_between_all_neighbours(name: str) -> None:
    """Denominators that are no powers of two."""
    fmt, exponent = FORMATS[name], LAYOUTS[name].smallest_exponent
    for a, b in itertools.pairwise(magnitudes(name)):
        for weight in (1, 2):
            for sign in (1, -1):
                ratio = (sign * (3 * a + weight * (b - a)), 3)
                got, expected = round_ratio(*scaled(ratio, exponent), fmt), nearest(*ratio, name)
                assert got == expected or (got != got and expected != expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_nothing_is_too_large_or_too_small(name: str) -> None:
    fmt = FORMATS[name]
    beyond = math.inf if LAYOUTS[name].kind == "ieee" else math.nan
    for significand in (1, -1, 3**5000, -(3**5000)):
        assert same_number(round_dyadic(significand, 10**18, fmt), beyond if significand > 0 else -beyond)
        zero = -0.0 if significand < 0 and LAYOUTS[name].kind != "fnuz" else 0.0
        assert same_number(round_dyadic(significand, -(10**18), fmt), zero)
    assert same_number(round_fraction(Fraction(10**400), fmt), beyond)
    assert same_number(round_fraction(Fraction(-(10**400)), fmt), -beyond)
    assert same_number(round_fraction(Fraction(1, 10**400), fmt), 0.0)
    assert same_number(round_dyadic(0, 10**18, fmt), 0.0)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_negative_number_that_rounds_to_zero_is_negative_zero_where_there_is_one(name: str) -> None:
    fmt, tiny = FORMATS[name], Fraction(-1, 2**2000)
    zero = 0.0 if LAYOUTS[name].kind == "fnuz" else -0.0
    half = Fraction(-1, 2) * Fraction(2) ** LAYOUTS[name].smallest_exponent
    for value in (tiny, half, half + TINY if name not in WIDE else half):
        assert same_number(round_fraction(value, fmt), zero)
    if name != "float64":
        assert_same(round_exact(np.array([-0.0, float(half), float(half) / 3]), fmt), np.full(3, zero))


# Enclosures ----------------------------------------------------------------------------------------------------------------------


def enclosed(a: Fraction, b: Fraction, name: str) -> float | None:
    """`round_enclosure` of the numbers between `a` and `b`, whichever is the smaller."""
    return round_enclosure(min(a, b), max(a, b), FORMATS[name])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", EIGHT)
def test_an_enclosure_is_decided_where_both_ends_round_alike(name: str, sign: int) -> None:
    unit = sign * Fraction(2) ** LAYOUTS[name].smallest_exponent
    for k, (a, b) in enumerate(itertools.pairwise(magnitudes(name))):
        low, high, middle, tiny = a * unit, b * unit, (a + b) * unit / 2, sign * TINY
        assert enclosed(low + tiny, middle - tiny, name) == low
        assert enclosed(middle - tiny, middle + tiny, name) is None
        assert enclosed(low, high, name) is None
        # A midpoint as an end: it goes with the even one of its neighbours, whose pattern ends in 0.
        assert (enclosed(middle - tiny, middle, name) is None) is (k % 2 == 1)
        assert (enclosed(middle, middle + tiny, name) is None) is (k % 2 == 0)


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_enclosure_on_one_side_of_zero_rounds_to_a_zero_of_that_sign(name: str) -> None:
    tiny = Fraction(1, 2**2000)
    assert [repr(enclosed(*ends, name)) for ends in ((Fraction(0), Fraction(0)), (tiny, 2 * tiny))] == ["0.0", "0.0"]
    assert repr(enclosed(-2 * tiny, -tiny, name)) == ("0.0" if LAYOUTS[name].kind == "fnuz" else "-0.0")


@pytest.mark.parametrize("name", [n for n, layout in LAYOUTS.items() if layout.kind != "fnuz"])
def test_an_enclosure_of_numbers_of_both_signs_is_not_decided(name: str) -> None:
    tiny = Fraction(1, 2**2000)
    assert round_enclosure(-tiny, tiny, FORMATS[name]) is None


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_enclosure_beyond_the_overflow_threshold_is_decided(name: str) -> None:
    top = Fraction(2) ** 1100
    beyond = "inf" if LAYOUTS[name].kind == "ieee" else "nan"
    assert repr(enclosed(top, 2 * top, name)) == beyond
    assert repr(enclosed(-top, -2 * top, name)).removeprefix("-") == beyond
    assert enclosed(Fraction(1), top, name) is None


# Rounding float64 numbers --------------------------------------------------------------------------------------------------------


def look_up(x: np.ndarray, name: str) -> np.ndarray:
    """`nearest` for arrays of float64 numbers: numbers and midpoints of small formats are float64 numbers, so comparing them is exact."""
    layout, numbers = LAYOUTS[name], magnitudes(name)
    values = np.array([as_float(n, layout) for n in numbers])
    middles = np.array([as_float(a + b, layout) for a, b in itertools.pairwise(numbers)]) / 2
    magnitude = np.abs(x)
    k = np.searchsorted(middles, magnitude)  # how many midpoints lie below
    tie = (k < len(middles)) & (magnitude == middles[np.minimum(k, len(middles) - 1)])
    k = k + (tie & (k % 2 == 1))
    values[-1] = np.inf if layout.kind == "ieee" else np.nan
    out = np.copysign(values[k], x)
    out = np.where(np.isinf(x), np.copysign(values[-1], x), np.where(np.isnan(x), np.nan, out))
    return np.where(out == 0, 0.0, out) if layout.kind == "fnuz" else out


@pytest.mark.parametrize("name", SMALL)
def test_float64_numbers_at_and_beside_every_number_and_midpoint(name: str) -> None:
    layout = LAYOUTS[name]
    points = np.array([as_float(n, layout) / d for n, d in numbers_and_midpoints(name)])
    points = np.concatenate([points, [0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, np.inf, -np.inf, np.nan]])
    for x in (points, np.nextafter(points, -np.inf), np.nextafter(points, np.inf)):
        assert_same(round_exact(x, FORMATS[name]), look_up(x, name))


def random_float64(name: str) -> np.ndarray:
    """Numbers with exponents over a little more than a format's range, few and many bits, and numbers anywhere."""
    layout = LAYOUTS[name]
    generator = np.random.default_rng(7)
    exponents = generator.integers(layout.smallest_exponent - 3, layout.bias + 4, 200_000)
    significands = generator.integers(-(2**52), 2**52, 200_000) >> generator.integers(0, 52, 200_000)
    with np.errstate(over="ignore"):
        near = np.ldexp(significands.astype(np.float64), exponents - 40)
    anywhere = generator.integers(0, 2**63, 100_000).view(np.float64)
    return np.concatenate([near, anywhere, -anywhere])


@pytest.mark.parametrize("name", SMALL)
def test_random_float64_numbers(name: str) -> None:
    x = random_float64(name)
    assert_same(round_exact(x, FORMATS[name]), look_up(x, name))


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_float64_numbers_round_as_numpy_casts_them(name: str) -> None:
    x = np.concatenate([random_float64(name), random_patterns("float64")[:100_000].view(np.float64)])
    x = x[~np.isnan(x)]
    with np.errstate(over="ignore", under="ignore"):
        theirs = x.astype(name)
    assert_same(round_exact(x, FORMATS[name]), theirs.astype(np.float64))


def test_float64_numbers_at_and_beside_midpoints_of_float32_round_as_numpy_casts_them() -> None:
    bits = random_patterns("float32")
    a = bits.view(np.float32)
    a = a[np.abs(a) < np.finfo(np.float32).max]
    middle = a.astype(np.float64) + np.spacing(a).astype(np.float64) / 2
    for x in (middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)):
        with np.errstate(over="ignore", under="ignore"):
            theirs = x.astype(np.float32)
        assert_same(round_exact(x, FORMATS["float32"]), theirs.astype(np.float64))


def test_float64_stays() -> None:
    x = random_patterns("float64").view(np.float64)
    assert_same(round_exact(x, FORMATS["float64"]), x)


@pytest.mark.parametrize("name", EIGHT)
def test_overflow_is_that_of_ml_dtypes(name: str) -> None:
    fmt = FORMATS[name]
    top, step = fmt.maximum, as_float(magnitudes(name)[-1] - magnitudes(name)[-2], LAYOUTS[name])
    # Few bits: ml_dtypes casts through float32, which holds these.
    x = np.array([top, top + step / 4, top + step / 2, top + step * 0.75, top + step, 2 * top, 1e30, np.inf])
    x = np.concatenate([x, -x])
    assert_same(round_exact(x, fmt), x.astype(fmt.dtype).astype(np.float64))


# Float32 and float64 -------------------------------------------------------------------------------------------------------------


@st.composite
def near_a_boundary(draw: Callable[..., object], name: str) -> Fraction:
    """A number or a midpoint of a wide format, or a number beside one by as little as 2**-1500."""
    layout = LAYOUTS[name]
    fraction = draw(
        st.one_of(st.sampled_from([0, 1, 2, 2**layout.fraction_bits - 1, 2**layout.fraction_bits - 2]), st.integers(0, 2**layout.fraction_bits - 1))
    )
    field = draw(st.one_of(st.sampled_from([0, 1, 2, 2 * layout.bias - 1, 2 * layout.bias]), st.integers(0, 2 * layout.bias)))
    number = by_hand(field << layout.fraction_bits | fraction, layout)
    assert isinstance(number, int)
    step = Fraction(1 << max(field - 1, 0))
    offset = draw(st.sampled_from([Fraction(0), step / 2, step / 3, step]))
    tiny = Fraction(draw(st.integers(-1, 1)), 2 ** draw(st.integers(1, 1500)))
    sign = draw(st.sampled_from([1, -1]))
    return sign * (number + offset + tiny) * Fraction(2) ** layout.smallest_exponent


def check(value: Fraction, name: str) -> None:
    fmt, expected = FORMATS[name], nearest_fraction(value, name)
    if value == 0:
        expected = 0.0
    elif expected == 0:
        expected = math.copysign(0.0, value)
    assert same_number(round_fraction(value, fmt), expected)
    if value.denominator & (value.denominator - 1) == 0:
        assert same_number(round_dyadic(value.numerator, 1 - value.denominator.bit_length(), fmt), expected)


@given(value=near_a_boundary("float32"))
@settings(deadline=None, derandomize=True, max_examples=600)
def test_float32_beside_numbers_and_midpoints(value: Fraction) -> None:
    check(value, "float32")


@given(value=near_a_boundary("float64"))
@settings(deadline=None, derandomize=True, max_examples=600)
def test_float64_beside_numbers_and_midpoints(value: Fraction) -> None:
    check(value, "float64")


@pytest.mark.parametrize("name", WIDE)
@given(numerator=st.integers(-(2**80), 2**80), shift=st.integers(-1200, 1100), denominator=st.integers(1, 2**40))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_ratios_of_any_size(name: str, numerator: int, shift: int, denominator: int) -> None:
    check(Fraction(numerator, denominator) * Fraction(2) ** shift, name)


@given(numerator=st.integers(-(2**1100), 2**1100), denominator=st.integers(1, 2**1100))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_float64_is_python_s_own_division(numerator: int, denominator: int) -> None:
    """Division of integers in Python is correctly rounded, subnormals included."""
    try:
        expected = numerator / denominator
    except OverflowError:
        expected = math.inf if numerator > 0 else -math.inf
    assert round_ratio(numerator, denominator, FORMATS["float64"]) == expected


@pytest.mark.parametrize("name", WIDE)
def test_overflow_threshold_of_the_wide_formats(name: str) -> None:
    fmt, info = FORMATS[name], np.finfo(name)
    threshold = Fraction(float(info.max)) + (Fraction(float(info.max)) - Fraction(float(np.nextafter(info.max, 0)))) / 2
    assert fmt.maximum == float(info.max)
    assert fmt.overflow_threshold == threshold
    assert round_fraction(threshold - TINY, fmt) == fmt.maximum
    assert round_fraction(threshold, fmt) == math.inf
    assert round_fraction(-threshold + TINY, fmt) == -fmt.maximum
    assert round_fraction(-threshold, fmt) == -math.inf


# Rounding twice ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("via", WIDE)
@pytest.mark.parametrize("name", SMALL)
def test_rounding_through_a_wider_format_would_be_caught(name: str, via: str) -> None:
    """Beside the midpoint above 1 by too little for the wider format to see, which then takes the tie to 1."""
    fmt, step = FORMATS[name], Fraction(2) ** (1 - LAYOUTS[name].precision)
    for sign in (1, -1):
        value = sign * (1 + step / 2 + TINY)
        assert round_fraction(value, fmt) == sign * (1 + step)
        assert nearest_fraction(Fraction(nearest_fraction(value, via)), via) == sign * (1 + step / 2)
        assert round_fraction(Fraction(nearest_fraction(value, via)), fmt) == sign
    below_two = 2 - step / 2 - TINY
    assert round_fraction(below_two, fmt) == 2 - step
    assert round_fraction(Fraction(nearest_fraction(below_two, via)), fmt) == 2


@pytest.mark.parametrize("name", SMALL)
def test_float64_numbers_are_not_rounded_through_float32(name: str) -> None:
    step = 2.0 ** (1 - LAYOUTS[name].precision)
    x = 1 + step / 2 + 2.0**-50
    assert float(np.float32(x)) == 1 + step / 2
    assert float(round_exact(np.array(x), FORMATS[name])) == 1 + step
    assert float(round_exact(np.array(float(np.float32(x))), FORMATS[name])) == 1


def test_float32_is_not_rounded_through_float64() -> None:
    value = 1 + Fraction(1, 2**24) + Fraction(1, 2**80)
    assert float(value) == 1 + 2.0**-24
    assert round_fraction(value, FORMATS["float32"]) == 1 + 2.0**-23
    assert np.float32(float(value)) == 1


# Spacing and neighbours ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_ulp_is_the_gap_above_every_number_and_at_every_real_number_in_it(name: str) -> None:
    fmt, numbers = FORMATS[name], finite(name)
    low, high = numbers[numbers >= 0][:-1], numbers[numbers > 0]
    gap = high - low
    for x in (low, low + gap / 2, low + gap / 3, np.nextafter(high, 0)):
        np.testing.assert_array_equal(ulp(x, fmt), gap)
        np.testing.assert_array_equal(ulp(-x, fmt), gap)


@pytest.mark.parametrize("name", LAYOUTS)
def test_ulp_at_zero_beyond_the_largest_number_and_at_special_values(name: str) -> None:
    fmt, layout = FORMATS[name], LAYOUTS[name]
    assert ulp(np.array([0.0, -0.0]), fmt).tolist() == [2.0**layout.smallest_exponent] * 2
    assert float(ulp(5e-324, fmt)) == 2.0**layout.smallest_exponent
    below = float(next_down(fmt.maximum, fmt))
    top = fmt.maximum - below
    beyond = np.array([fmt.maximum, np.inf, -np.inf] + ([] if name == "float64" else [2 * fmt.maximum, -1e300]))
    assert set(ulp(beyond, fmt).tolist()) == {top}
    assert np.isnan(ulp(np.nan, fmt))


@pytest.mark.parametrize("name", [*WIDE, "float16"])
def test_ulp_of_numbers_is_numpy_s_spacing(name: str) -> None:
    x = np.abs(random_patterns(name).view(name))
    x = x[x < np.finfo(name).max]
    np.testing.assert_array_equal(ulp(x.astype(np.float64), FORMATS[name]), np.spacing(x).astype(np.float64))


@given(x=st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None, derandomize=True, max_examples=500)
def test_ulp_of_real_numbers_in_float32_by_definition(x: float) -> None:
    value = abs(Fraction(x))
    exponent = -149
    while exponent < 104 and value >= Fraction(2) ** (exponent + 24):
        exponent += 1
    assert float(ulp(x, FORMATS["float32"])) == 2.0**exponent


@pytest.mark.parametrize("name", SMALL)
def test_neighbours_of_every_number(name: str) -> None:
    fmt, numbers = FORMATS[name], finite(name)
    signed = numbers.copy()
    up, down = next_up(numbers[:-1], fmt), next_down(numbers[1:], fmt)
    zero = np.flatnonzero(numbers == 0)[0]
    # From below, the step to zero arrives at -0; from above at +0.
    signed[zero] = 0.0 if LAYOUTS[name].kind == "fnuz" else -0.0
    assert_same(up, signed[1:])
    assert_same(down, numbers[:-1])
    assert same_number(float(next_up(-0.0, fmt)), float(numbers[zero + 1]))
    assert same_number(float(next_down(-0.0, fmt)), float(numbers[zero - 1]))


@pytest.mark.parametrize("name", LAYOUTS)
def test_neighbours_of_the_ends_and_of_special_values(name: str) -> None:
    fmt = FORMATS[name]
    beyond = np.inf if LAYOUTS[name].kind == "ieee" else np.nan
    assert_same(next_up(np.array([fmt.maximum, np.nan]), fmt), np.array([beyond, np.nan]))
    assert_same(next_down(np.array([-fmt.maximum, np.nan]), fmt), np.array([-beyond, np.nan]))
    if LAYOUTS[name].kind == "ieee":
        assert_same(next_up(np.array([np.inf, -np.inf]), fmt), np.array([np.inf, -fmt.maximum]))
        assert_same(next_down(np.array([np.inf, -np.inf]), fmt), np.array([fmt.maximum, -np.inf]))


@pytest.mark.parametrize("name", [*WIDE, "float16"])
def test_neighbours_are_numpy_s(name: str) -> None:
    x = random_patterns(name).view(name)
    x = x[~np.isnan(x)]
    inf = np.array(np.inf, name)
    with np.errstate(over="ignore", under="ignore"):
        up, down = np.nextafter(x, inf), np.nextafter(x, -inf)
    np.testing.assert_array_equal(next_up(x.astype(np.float64), FORMATS[name]), up.astype(np.float64))
    np.testing.assert_array_equal(next_down(x.astype(np.float64), FORMATS[name]), down.astype(np.float64))


def test_same_number_tells_zeros_apart_and_finds_nan_equal_to_nan() -> None:
    assert same_number(math.nan, -math.nan)
    assert same_number(-0.0, -0.0)
    assert not same_number(0.0, -0.0)
    assert not same_number(math.nan, 0.0)
    assert not same_number(math.inf, -math.inf)
