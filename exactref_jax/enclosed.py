"""Enclosures of real numbers as float64 arrays: what a result keeps, and what is rounded and compared.

A number is known as `hi + lo`, two nonoverlapping float64 numbers (about 106 bits), give or take `radius`. Every arithmetic delivers this form,
so results and comparisons need no arbitrary precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .formats import FLOAT64, Format, round_exact

MAXIMUM = FLOAT64.maximum

#: Overflow, underflow and NaN are results here, not accidents: NumPy's warnings of them do not reach the caller.
quiet = np.errstate(all="ignore")


@dataclass(frozen=True, eq=False, slots=True)
class Enclosed:
    """An array of real numbers, each within `radius` of `hi + lo`.

    Attributes:
        hi: float64; infinite where the number is finite but beyond float64 (then `lo` is 0 and the enclosure is `maximum` to infinity).
        lo: float64, at most half an ulp of `hi`.
        radius: float64, rounded up; 0 where the number is exactly `hi + lo`; infinite where no bound is known.
    """

    hi: np.ndarray
    lo: np.ndarray
    radius: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.hi.shape

    def __getitem__(self, index: object) -> Enclosed:
        return Enclosed(*(np.asarray(p[index]) for p in (self.hi, self.lo, self.radius)))  # type: ignore[index]

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds in float64, rounded outward. Equal where the number is exactly a float64 number.

        `lo - radius` is rounded down by one step where it is inexact, then `hi` is added; the sum is rounded down by one step unless a
        TwoSum (Knuth, TAOCP vol. 2, 4.2.2, Theorem B) shows that it is exact.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            lower = _sum_outward(self.hi, _outward(self.lo - self.radius, -np.inf, self.radius), -np.inf)
            upper = _sum_outward(self.hi, _outward(self.lo + self.radius, np.inf, self.radius), np.inf)
        beyond = np.isinf(self.hi)
        lower = np.where(beyond, np.where(self.hi > 0, MAXIMUM, -np.inf), np.where(np.isnan(lower), -np.inf, lower))
        upper = np.where(beyond, np.where(self.hi > 0, np.inf, -MAXIMUM), np.where(np.isnan(upper), np.inf, upper))
        return lower, upper

    def minus(self, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`candidate - number`: an approximation, and an upper bound of its error. `candidate` is float64 and finite.

        `candidate - hi` and the subtraction of `lo` are rounded once each. Where the first is inexact, `candidate` and `hi` are not within a
        factor of two of each other (Sterbenz), so it exceeds `lo` by far; where it is exact and not 0, it is a multiple of half an ulp of `hi`
        and `|lo|` is at most that. So two roundings are at most `2**-52` of the larger one, plus the radius.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            first = candidate - self.hi
            difference = first - self.lo
            error = 2.0**-52 * (np.abs(first) + np.abs(self.lo)) + self.radius
            error = np.where(self.radius == 0, error, np.nextafter(error, np.inf))
        beyond = np.isinf(self.hi)
        return np.where(beyond, -self.hi, difference), np.where(beyond, 0.0, error)


def _outward(x: np.ndarray, direction: float, radius: np.ndarray) -> np.ndarray:
    """One step outward where the sum `x` of lo and radius may have been rounded (a radius of zero adds nothing)."""
    return np.where(radius == 0, x, np.nextafter(x, direction))


def _sum_outward(hi: np.ndarray, lo: np.ndarray, direction: float) -> np.ndarray:
    s = hi + lo
    t = s - hi
    error = (hi - (s - t)) + (lo - t)
    away = error < 0 if direction < 0 else error > 0
    return np.where(away | np.isnan(error), np.nextafter(s, direction), s)


def round_enclosed(x: Enclosed, fmt: Format) -> tuple[np.ndarray, np.ndarray]:
    """Each number rounded once to `fmt` (float64 array), and where the enclosure decides it.

    Rounding is monotone: where both ends of an enclosure round to one number, so does everything between (Ziv, "Fast evaluation of elementary
    mathematical functions with correctly rounded last bit", ACM TOMS 17, 1991). For float64 the ends are `hi + (lo -/+ radius)`, each one IEEE
    addition, which itself rounds to nearest even; for the others, float64 bounds of the ends are rounded with `round_exact`.
    Left undecided: ends that differ; zeros, unless the enclosure is exactly zero; numbers beyond float64.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        if fmt is FLOAT64:
            low = x.hi + _outward(x.lo - x.radius, -np.inf, x.radius)
            high = x.hi + _outward(x.lo + x.radius, np.inf, x.radius)
        else:
            ends = x.interval()
            low, high = round_exact(ends[0], fmt), round_exact(ends[1], fmt)
        exactly_zero = (x.hi == 0) & (x.lo == 0) & (x.radius == 0)
        known = np.isfinite(x.hi) & np.isfinite(x.radius)
        # Two ends on either side of a tie can round alike only if they round to one number; zeros need their sign.
        decided = known & (low == high) & (low != 0) & np.isfinite(low)
    if fmt is not FLOAT64:
        lower, upper = x.interval()
        beyond = known & (np.abs(low) == np.inf) & (low == high) & (np.sign(lower) == np.sign(upper))
        overflow = known & (np.isnan(low) & np.isnan(high)) & (np.sign(lower) == np.sign(upper))
        decided = decided | beyond | overflow
        # An enclosure on one side of zero that rounds to zero keeps its sign.
        small = known & (low == 0) & (high == 0) & (np.sign(lower) * np.sign(upper) > 0)
        low = np.where(small, np.copysign(0.0, lower) if fmt.negative_zero else 0.0, low)
        decided = decided | small
    return np.array(np.where(exactly_zero, 0.0, low)), np.array(decided | exactly_zero)
