"""Scales of a contraction: rational numbers, and rational multiples of a square root (attention's `1 / sqrt(E)`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ..formats import Format, round_fraction

#: Bits to which a root is bounded where a float is wanted.
_BITS = 256


@dataclass(frozen=True)
class Surd:
    """`factor * sqrt(root)`, an irrational number: `root` is a positive integer and no square, `factor` is not zero. Made by `surd`."""

    factor: Fraction
    root: int

    def __abs__(self) -> Surd:
        return Surd(abs(self.factor), self.root)

    def __neg__(self) -> Surd:
        return Surd(-self.factor, self.root)

    def __rmul__(self, other: int | Fraction) -> Scale:
        return surd(other * self.factor, self.root)

    def bounds(self) -> tuple[Fraction, Fraction]:
        """Rational bounds, strictly below and above, within `2**-250` of each other relatively."""
        root = math.isqrt(self.root << (2 * _BITS))
        low, high = (self.factor * Fraction(r, 1 << _BITS) for r in (root, root + 1))
        return min(low, high), max(low, high)


class MinusZero(Fraction):
    """The scalar -0: zero, whose products have the opposite sign."""

    def __rmul__(self, other: object) -> Fraction:  # type: ignore[override]
        return self if isinstance(other, (int, Fraction)) and other > 0 else Fraction(0)

    __mul__ = __rmul__  # type: ignore[assignment]

    def __abs__(self) -> Fraction:
        return Fraction(0)


#: A scale: rational, or a rational multiple of a square root.
Scale = Fraction | Surd


def surd(factor: Fraction | int, root: int) -> Scale:
    """`factor * sqrt(root)`, as a fraction where it is one."""
    whole = math.isqrt(root)
    if isinstance(factor, MinusZero):
        return factor
    return Fraction(factor) * whole if whole * whole == root or factor == 0 else Surd(Fraction(factor), root)


def opposite(scale: Scale) -> Scale:
    """-scale, of a zero too."""
    if isinstance(scale, MinusZero):
        return Fraction(0)
    return MinusZero() if scale == 0 else -scale


def representative(scale: Scale) -> float:
    """-1, -0, 0 or 1: a number of the scale's class."""
    if isinstance(scale, MinusZero):
        return -0.0
    factor = scale.factor if isinstance(scale, Surd) else scale
    return float((factor > 0) - (factor < 0))


def rounded(scale: Scale, fmt: Format) -> float:
    """Rounded once to a format.

    A number within `2**-250` (relatively) of an irrational square root of a small rational number lies on the same side of every float
    and midpoint of floats: were `m` such a boundary, of at most 54 bits, `|factor^2 root - m^2|` would be a nonzero multiple of
    `1 / (denominator(factor)^2 2**k)`, far above `2**-250` of it for factors of float64 numbers.
    """
    if isinstance(scale, MinusZero):
        return -0.0
    return round_fraction(scale.bounds()[0] if isinstance(scale, Surd) else scale, fmt)


def is_number_of(scale: Scale, fmt: Format) -> bool:
    """Whether a format holds the scale exactly."""
    return not isinstance(scale, Surd) and round_fraction(scale, fmt) == scale


def magnitude(scale: Scale) -> float:
    """An upper bound of the absolute value, in float64."""
    upper = abs(scale).bounds()[1] if isinstance(scale, Surd) else abs(scale)
    value = float(upper) if upper < Fraction(2) ** 1024 else math.inf
    return value if Fraction(value if value < math.inf else 0) >= upper or value == math.inf else math.nextafter(value, math.inf)
