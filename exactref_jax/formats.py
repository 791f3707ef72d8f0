"""Floating-point formats: their numbers, their spacing, and rounding to them once.

A `Format` is a handful of integers. Everything else is derived from them: the numbers of the format are `n * 2**q` with
`|n| < 2**precision` and `q >= minimum_exponent - precision + 1`, up to `maximum`. All formats here are subsets of float64, so
Python floats and float64 arrays hold their numbers exactly; `encode` gives them the format's own bits.

Rounding is to nearest, ties to even, with gradual underflow, and goes from the exact value to the format in one step: from an
integer ratio (`round_ratio`), from the two ends of an enclosure (`round_enclosure`), or from float64 numbers that are themselves
the exact values (`round_exact`). It never passes through a second format.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    Attributes:
        name: NumPy's or ml_dtypes' name of the dtype.
        precision: bits of the significand, the leading one included (24 for float32).
        minimum_exponent: `e` of the least normal number `2**e` (-126 for float32).
        maximum: the largest finite number.
        bits: width of the encoding.
        infinities: whether the format has them; where not, overflow gives NaN.
        nan_bits: the encoding of NaN that `encode` writes.
        negative_zero: whether the format distinguishes -0 from +0.
    """

    name: str
    precision: int
    minimum_exponent: int
    maximum: float
    bits: int
    infinities: bool
    nan_bits: int
    negative_zero: bool = True

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype."""
        return np.dtype(getattr(np, self.name, None) or getattr(ml_dtypes, self.name))

    @property
    def unit_roundoff(self) -> float:
        """`2**-precision`: the largest relative error of one rounding to nearest in the normal range."""
        return 2.0**-self.precision

    @property
    def smallest_exponent(self) -> int:
        """`q` of the smallest positive number `2**q`, which is also the spacing of the subnormal numbers."""
        return self.minimum_exponent - self.precision + 1

    @property
    def smallest(self) -> float:
        """The smallest positive number (subnormal)."""
        return math.ldexp(1.0, self.smallest_exponent)

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal number."""
        return math.ldexp(1.0, self.minimum_exponent)

    @property
    def maximum_ulp_exponent(self) -> int:
        """`q` such that `2**q` is the spacing of the numbers in the topmost binade."""
        return math.frexp(self.maximum)[1] - self.precision

    @property
    def overflow_threshold(self) -> Fraction:
        """Magnitudes at or above this do not round to a finite number.

        Half an ulp beyond `maximum` is a tie. It goes away from `maximum` where the significand of `maximum` is odd (IEEE formats)
        and to `maximum` where it is even (float8_e4m3fn); in the latter case the threshold itself still rounds to `maximum`.
        """
        return Fraction(self.maximum) + Fraction(2) ** (self.maximum_ulp_exponent - 1)

    @property
    def overflow(self) -> float:
        """What a positive number beyond the threshold rounds to: infinity, or NaN where the format has no infinity."""
        return math.inf if self.infinities else math.nan

    def __str__(self) -> str:
        return self.name


def _nan(bits: int, precision: int) -> int:
    """Quiet NaN of an IEEE layout: exponent field all ones, leading fraction bit set."""
    return ((1 << (bits - precision)) - 1) << (precision - 1) | 1 << (precision - 2)


def _ieee(name: str, precision: int, minimum_exponent: int, bits: int) -> Format:
    maximum = math.ldexp(2.0 - 2.0 ** (1 - precision), 1 - minimum_exponent)
    return Format(name, precision, minimum_exponent, maximum, bits, True, _nan(bits, precision))


FLOAT64 = _ieee("float64", 53, -1022, 64)
FLOAT32 = _ieee("float32", 24, -126, 32)
FLOAT16 = _ieee("float16", 11, -14, 16)
BFLOAT16 = _ieee("bfloat16", 8, -126, 16)
FLOAT8_E5M2 = _ieee("float8_e5m2", 3, -14, 8)
FLOAT8_E4M3FN = Format("float8_e4m3fn", 4, -6, 448.0, 8, False, 0x7F)

#: The formats by dtype name. The last five are ml_dtypes' other eight-bit formats, for the same few integers.
FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        FLOAT64,
        FLOAT32,
        FLOAT16,
        BFLOAT16,
        FLOAT8_E5M2,
        FLOAT8_E4M3FN,
        _ieee("float8_e4m3", 4, -6, 8),
        _ieee("float8_e3m4", 5, -2, 8),
        Format("float8_e5m2fnuz", 3, -15, 57344.0, 8, False, 0x80, negative_zero=False),
        Format("float8_e4m3fnuz", 4, -7, 240.0, 8, False, 0x80, negative_zero=False),
        Format("float8_e4m3b11fnuz", 4, -10, 30.0, 8, False, 0x80, negative_zero=False),
    )
}

#: Complex dtypes and the format of their parts.
COMPLEX_PARTS: dict[str, Format] = {"complex64": FLOAT32, "complex128": FLOAT64}


def format_of(dtype: object) -> Format:
    """The format of a real dtype, or of the parts of a complex one.

    Raises:
        TypeError: if `dtype` is no floating-point dtype of this library.

    Example:
        >>> format_of("bfloat16").precision
        8
    """
    if isinstance(dtype, Format):
        return dtype
    name = np.dtype(dtype).name if not isinstance(dtype, str) else dtype  # type: ignore[call-overload]
    found = FORMATS.get(name) or COMPLEX_PARTS.get(name)
    if found is None:
        raise TypeError(f"dtype: given {name}; wanted one of {', '.join([*FORMATS, *COMPLEX_PARTS])}.")
    return found


def is_complex(dtype: object) -> bool:
    """Whether `dtype` is complex64 or complex128."""
    return np.dtype(dtype).name in COMPLEX_PARTS  # type: ignore[call-overload]


def is_floating(dtype: object) -> bool:
    """Whether `dtype` is a real floating-point dtype of this library."""
    return np.dtype(dtype).name in FORMATS  # type: ignore[call-overload]


def is_inexact(dtype: object) -> bool:
    """Whether `dtype` is a real or complex floating-point dtype of this library."""
    return is_floating(dtype) or is_complex(dtype)


# Rounding one number ------------------------------------------------------------------------------------------------------


def round_ratio(numerator: int, denominator: int, fmt: Format) -> float:
    """`numerator / denominator` rounded once to `fmt`, as a Python float (which holds it exactly).

    Nearest, ties to even; gradual underflow; beyond the overflow threshold the format's own overflow. A result of zero is `+0.0`
    or `-0.0` by the numerator's sign, as a nonzero number that rounds to zero keeps its sign.

    Args:
        numerator: any integer.
        denominator: a positive integer.
        fmt: the format.

    Example:
        >>> round_ratio(1, 3, FORMATS["bfloat16"])
        0.333984375
    """
    if numerator == 0:
        return 0.0
    sign, n = (-1.0, -numerator) if numerator < 0 else (1.0, numerator)
    exponent = n.bit_length() - denominator.bit_length()
    if (n << max(-exponent, 0)) < (denominator << max(exponent, 0)):
        exponent -= 1  # now 2**exponent <= n / denominator < 2**(exponent + 1)
    quantum = max(exponent - fmt.precision + 1, fmt.smallest_exponent)
    quotient, remainder = divmod(n << max(-quantum, 0), denominator << max(quantum, 0))
    twice, divisor = 2 * remainder, denominator << max(quantum, 0)
    if twice > divisor or (twice == divisor and quotient & 1):
        quotient += 1
    if quantum > fmt.maximum_ulp_exponent or (quantum == fmt.maximum_ulp_exponent and quotient > fmt.maximum / 2.0**quantum):
        return sign * fmt.overflow
    if quotient == 0 and not fmt.negative_zero:
        return 0.0
    return sign * math.ldexp(quotient, quantum)


def round_fraction(value: Fraction | int, fmt: Format) -> float:
    """A rational number rounded once to `fmt`; see `round_ratio`."""
    value = Fraction(value)
    return round_ratio(value.numerator, value.denominator, fmt)


def round_dyadic(significand: int, exponent: int, fmt: Format) -> float:
    """`significand * 2**exponent` rounded once to `fmt`; see `round_ratio`. Enormous exponents cost nothing."""
    if significand == 0:
        return 0.0
    top = abs(significand).bit_length() + exponent
    if top > fmt.maximum_ulp_exponent + fmt.precision + 1:
        return fmt.overflow if significand > 0 else -fmt.overflow
    if top < fmt.smallest_exponent - 1:
        return 0.0 if significand > 0 or not fmt.negative_zero else -0.0
    return round_ratio(significand << max(exponent, 0), 1 << max(-exponent, 0), fmt)


def round_enclosure(lower: Fraction, upper: Fraction, fmt: Format) -> float | None:
    """The number of `fmt` to which every number of `[lower, upper]` rounds, or None where they differ.

    Rounding is monotone, so the two ends decide. Zeros of different sign count as different.

    Example:
        >>> from fractions import Fraction
        >>> round_enclosure(Fraction(1, 3), Fraction(334, 1000), FORMATS["float8_e5m2"])
        0.3125
        >>> round_enclosure(Fraction(0), Fraction(1), FORMATS["float8_e5m2"]) is None
        True
    """
    a, b = round_fraction(lower, fmt), round_fraction(upper, fmt)
    return a if same_number(a, b) and (a != 0 or lower * upper > 0 or lower == upper) else None


def same_number(a: float, b: float) -> bool:
    """Equality that tells zeros apart and finds NaN equal to NaN."""
    return (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (a != a and b != b)


# Arrays of the format's numbers, held in float64 ------------------------------------------------------------------------


def round_exact(values: np.ndarray, fmt: Format) -> np.ndarray:
    """Float64 numbers, each taken as an exact value, rounded once to `fmt`; float64 out.

    Each `x` is scaled by the power of two that makes the spacing of `fmt` at `x` equal to one. That is exact: the scaled number is below
    `2**precision <= 2**53`, and where it is scaled down it stays at or above `2**(precision - 1)`. `rint` then rounds it to nearest even,
    and scaling back is exact.
    """
    x = np.asarray(values, np.float64)
    if fmt is FLOAT64:
        return x
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(x)
        exponent = np.frexp(np.where(finite, x, 0.0))[1].astype(np.int64) - 1
        quantum = np.maximum(exponent - fmt.precision + 1, fmt.smallest_exponent)
        out = np.ldexp(np.rint(np.ldexp(np.where(finite, x, 0.0), -quantum)), quantum)
        out = np.where(np.abs(out) > fmt.maximum, np.copysign(fmt.overflow, x), out)
        special = x if fmt.infinities else np.full_like(x, np.nan)
        out = np.where(finite, out, special)
    return np.copysign(out, x) if fmt.negative_zero else np.where(out == 0, 0.0, out)


def encode(values: np.ndarray, fmt: Format) -> np.ndarray:
    """The array of dtype `fmt.dtype` that holds `values`, which must be numbers of the format (float64, infinities and NaN included).

    The bits are composed from sign, exponent and fraction; no cast takes part, so nothing can round.
    """
    x = np.asarray(values, np.float64)
    if fmt is FLOAT64:
        return x.copy()
    magnitude = np.where(np.isfinite(x), np.abs(x), 0.0)
    exponent = np.frexp(magnitude)[1]
    bias = 1 - fmt.minimum_exponent
    field = np.where(magnitude >= fmt.smallest_normal, exponent.astype(np.int64) - 1 + bias, 0)
    spacing = np.where(field > 0, exponent.astype(np.int64) - fmt.precision, fmt.smallest_exponent)
    significand = np.ldexp(magnitude, -spacing).astype(np.int64)
    hidden = np.where(field > 0, 1 << (fmt.precision - 1), 0)
    bits = (field << (fmt.precision - 1)) + significand - hidden
    infinity = ((1 << (fmt.bits - fmt.precision)) - 1) << (fmt.precision - 1)
    bits = np.where(np.isinf(x), infinity if fmt.infinities else fmt.nan_bits, bits)
    negative = np.signbit(x) & (fmt.negative_zero | (magnitude != 0) | (np.isinf(x) & fmt.infinities))
    bits = bits | (negative.astype(np.int64) << (fmt.bits - 1))
    bits = np.where(np.isnan(x) | (np.isinf(x) & (not fmt.infinities)), fmt.nan_bits, bits)
    return np.ascontiguousarray(bits.astype(f"uint{fmt.bits}")).view(fmt.dtype)


def decode(array: np.ndarray) -> np.ndarray:
    """The exact values of a floating-point array, in float64 (every format here is a subset of float64)."""
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return np.asarray(array).astype(np.float64)


def ulp(values: np.ndarray | float, fmt: Format) -> np.ndarray:
    """The unit in the last place of `fmt` at each real number, in float64: the spacing of the format's numbers in its binade.

    `2**(max(e, minimum_exponent) - precision + 1)` for `2**e <= |x| < 2**(e+1)`; the smallest positive number at zero; the spacing of the
    topmost binade beyond `maximum` and at infinities; NaN at NaN. (Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., 2.3.2:
    the definition of Goldberg, extended to the reals.)

    Example:
        >>> float(ulp(1.0, FORMATS["float16"])) == 2.0 ** -10
        True
    """
    x = np.abs(np.asarray(values, np.float64))
    exponent = np.frexp(np.where(np.isfinite(x), x, fmt.maximum))[1].astype(np.int64) - fmt.precision
    exponent = np.where(x == 0, fmt.smallest_exponent, exponent)
    out = np.ldexp(1.0, np.clip(exponent, fmt.smallest_exponent, fmt.maximum_ulp_exponent))
    return np.where(np.isnan(x), np.nan, out)


def next_up(values: np.ndarray | float, fmt: Format) -> np.ndarray:
    """The least number of `fmt` above each of `values` (numbers of the format, in float64).

    Infinity stays; above `maximum` comes the format's overflow; `-inf` is followed by `-maximum`; NaN stays NaN.

    Example:
        >>> float(next_up(448.0, FORMATS["float8_e4m3fn"]))
        nan
    """
    x = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        magnitude = np.abs(x)
        step = ulp(x, fmt)
        # Going toward zero from a power of two, the spacing is that of the binade below.
        power = (magnitude > fmt.smallest_normal) & (np.frexp(magnitude)[0] == 0.5)
        toward_zero = np.where(power, step / 2, step)
        out = np.where(x < 0, x + toward_zero, x + step)
        out = np.where(out > fmt.maximum, fmt.overflow, out)
        out = np.where(np.isneginf(x), -fmt.maximum, out)
        out = np.where(np.isposinf(x) | np.isnan(x), x, out)
    zero = np.where(x < 0, -0.0 if fmt.negative_zero else 0.0, 0.0)
    return np.where(out == 0, zero, out)


def next_down(values: np.ndarray | float, fmt: Format) -> np.ndarray:
    """The greatest number of `fmt` below each of `values`: `-next_up(-x)`."""
    out = -next_up(-np.asarray(values, np.float64), fmt)
    return out if fmt.negative_zero else np.where(out == 0, 0.0, out)
