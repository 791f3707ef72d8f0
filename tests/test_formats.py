"""Formats against rational arithmetic: every eight- and sixteen-bit number, its midpoints, and the neighbours of its midpoints."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactref_jax.formats import (
    FORMATS,
    Format,
    decode,
    encode,
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

EIGHT = [f for f in FORMATS.values() if f.bits == 8]
SMALL = [f for f in FORMATS.values() if f.bits <= 16]
TINY = Fraction(1, 2**200)


def every(fmt: Format) -> np.ndarray:
    """All bit patterns of a format."""
    return np.arange(2**fmt.bits, dtype=f"uint{fmt.bits}").view(fmt.dtype)


def by_hand(pattern: int, fmt: Format) -> float:
    """A bit pattern, read as sign, exponent and fraction; formats of IEEE's layout."""
    fraction_bits = fmt.precision - 1
    sign = -1.0 if pattern >> (fmt.bits - 1) else 1.0
    exponent = (pattern >> fraction_bits) & ((1 << (fmt.bits - 1 - fraction_bits)) - 1)
    fraction = pattern & ((1 << fraction_bits) - 1)
    if exponent == 0:
        return sign * math.ldexp(fraction, fmt.smallest_exponent)
    if exponent == (1 << (fmt.bits - 1 - fraction_bits)) - 1 and fmt.infinities:
        return sign * math.inf if fraction == 0 else math.nan
    return sign * math.ldexp((1 << fraction_bits) + fraction, exponent - 1 + fmt.smallest_exponent)


@pytest.mark.parametrize("fmt", [f for f in SMALL if f.infinities], ids=str)
def test_every_pattern_is_read_as_it_is_written(fmt: Format) -> None:
    values = decode(every(fmt))
    expected = np.array([by_hand(i, fmt) for i in range(2**fmt.bits)])
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_every_number_is_written_back(fmt: Format) -> None:
    array = every(fmt)
    back = encode(decode(array), fmt)
    number = ~np.isnan(decode(array))
    width = f"uint{fmt.bits}"
    np.testing.assert_array_equal(back.view(width)[number], array.view(width)[number])
    assert np.isnan(decode(back)[~number]).all()


def finite(fmt: Format) -> np.ndarray:
    """The format's finite numbers, in order, one zero."""
    values = np.unique(decode(every(fmt)))
    return values[np.isfinite(values)] + 0.0


def even(value: float, fmt: Format) -> bool:
    """Whether the last bit of a number's significand is 0: whether it is a multiple of twice the spacing there."""
    return Fraction(value) % (2 * Fraction(float(ulp(value, fmt)))) == 0


@pytest.mark.parametrize("fmt", EIGHT, ids=str)
def test_rounding_at_every_midpoint_and_beside_it(fmt: Format) -> None:
    """Fractions, through every way in."""
    numbers = finite(fmt)
    for low, high in itertools.pairwise(numbers):
        middle = (Fraction(low) + Fraction(high)) / 2
        tie = low if even(low, fmt) and not even(high, fmt) else high if not even(low, fmt) else None
        if tie is None:  # between two binades both are even multiples of their spacing: the significand decides
            tie = low if Fraction(low) / Fraction(float(ulp(low, fmt))) % 2 == 0 else high
        for value, expected in ((Fraction(low), low), (middle - TINY, low), (middle, tie), (middle + TINY, high), (Fraction(high), high)):
            got = round_fraction(value, fmt)
            assert got == expected, (low, high, value)
            assert same_number(round_ratio(value.numerator, value.denominator, fmt), got)
            assert same_number(round_enclosure(value, value, fmt), got)  # type: ignore[arg-type]
        assert round_enclosure(middle - TINY, middle + TINY, fmt) is None


def ties(fmt: Format) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Midpoints of neighbours, in float64, where they are exact, and the neighbours."""
    numbers = finite(fmt)
    return numbers[:-1], numbers[1:], numbers[:-1] / 2 + numbers[1:] / 2


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_rounding_float64_numbers_beside_every_midpoint(fmt: Format) -> None:
    low, high, middle = ties(fmt)
    np.testing.assert_array_equal(round_exact(low, fmt), low)
    np.testing.assert_array_equal(round_exact(np.nextafter(middle, -np.inf), fmt), low)
    np.testing.assert_array_equal(round_exact(np.nextafter(middle, np.inf), fmt), high)
    # Of two neighbours the even one is a multiple of twice their distance.
    distance = high - low
    tie = np.where(np.mod(low, 2 * distance) == 0, low, high)
    np.testing.assert_array_equal(round_exact(middle, fmt), tie)
    np.testing.assert_array_equal(np.signbit(round_exact(middle, fmt)), np.signbit(middle) if fmt.negative_zero else np.signbit(middle) & (tie != 0))


@pytest.mark.parametrize("fmt", [f for f in SMALL if f.bits == 16], ids=str)
def test_rounding_fractions_beside_many_midpoints(fmt: Format) -> None:
    low, high, middle = (x[::37] for x in ties(fmt))
    for a, b, m in zip(low, high, middle, strict=True):
        assert round_fraction(Fraction(m) - TINY, fmt) == a
        assert round_fraction(Fraction(m) + TINY, fmt) == b
        assert round_fraction(Fraction(m), fmt) == round_exact(np.array(m), fmt)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_overflow_is_the_format_s_own(fmt: Format) -> None:
    threshold = fmt.overflow_threshold
    beyond = math.inf if fmt.infinities else math.nan
    assert round_fraction(threshold - TINY, fmt) == fmt.maximum
    assert same_number(round_fraction(threshold + TINY, fmt), beyond)
    assert same_number(round_fraction(-threshold - TINY, fmt), -beyond)
    odd = int(Fraction(fmt.maximum) / Fraction(2) ** fmt.maximum_ulp_exponent) % 2
    assert same_number(round_fraction(threshold, fmt), beyond if odd else fmt.maximum)
    assert same_number(round_dyadic(1, 10**18, fmt), beyond)
    assert same_number(round_dyadic(-(3**5000), 10**18, fmt), -beyond)
    assert same_number(round_dyadic(-(3**5000), -(10**18), fmt), -0.0)


def test_overflow_of_eight_bits_is_that_of_ml_dtypes() -> None:
    for fmt in EIGHT:
        for value in (fmt.maximum * 2, -fmt.maximum * 2, math.inf, -math.inf):
            theirs = float(np.asarray(value, np.float64).astype(fmt.dtype))
            assert same_number(float(round_exact(np.array(value), fmt)), theirs), (fmt, value)


@pytest.mark.parametrize("name", ["float32", "float64"])
@given(numerator=st.integers(-(2**80), 2**80), shift=st.integers(-1200, 1100), denominator=st.integers(1, 2**40))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_rounding_is_nearest(name: str, numerator: int, shift: int, denominator: int) -> None:
    fmt = FORMATS[name]
    value = Fraction(numerator, denominator) * Fraction(2) ** shift
    got = round_fraction(value, fmt)
    if not math.isfinite(got):
        assert abs(value) >= fmt.overflow_threshold
        return
    error = abs(Fraction(got) - value)
    for neighbour in (float(next_up(got, fmt)), float(next_down(got, fmt))):
        if math.isfinite(neighbour):
            other = abs(Fraction(neighbour) - value)
            assert error < other or (error == other and even(got, fmt))


def test_two_roundings_would_be_caught() -> None:
    """1 + 2**-8 + 2**-40 rounds up in bfloat16, but to even, down, through float32."""
    value = 1 + Fraction(1, 2**8) + Fraction(1, 2**40)
    once = round_fraction(value, FORMATS["bfloat16"])
    twice = float(np.float32(float(value)).astype(ml_dtypes.bfloat16))
    assert once == 1 + 2.0**-7
    assert twice == 1.0


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_neighbours_and_spacing(fmt: Format) -> None:
    numbers = finite(fmt)
    np.testing.assert_array_equal(next_up(numbers[:-1], fmt), numbers[1:])
    np.testing.assert_array_equal(next_down(numbers[1:], fmt), numbers[:-1])
    assert same_number(float(next_up(fmt.maximum, fmt)), fmt.overflow)
    positive = numbers[numbers > 0]
    # The spacing above a number is the ulp of everything up to the next.
    np.testing.assert_array_equal(ulp(positive[:-1], fmt), np.diff(positive))
    np.testing.assert_array_equal(ulp(-positive, fmt), ulp(positive, fmt))
    assert float(ulp(0.0, fmt)) == fmt.smallest


def test_special_values_of_the_neighbours() -> None:
    fmt = FORMATS["float16"]
    assert next_up(np.array([np.inf, np.nan]), fmt)[0] == np.inf
    assert np.isnan(next_up(np.array([np.nan]), fmt)).all()
    assert next_up(np.array(-np.inf), fmt) == -fmt.maximum
    assert np.signbit(next_up(np.array(-fmt.smallest), fmt))
