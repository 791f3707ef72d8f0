"""Pure functions of exact values, tolerance and candidate: what a result says of somebody else's numbers."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .enclosed import Enclosed, quiet
from .formats import Format, ulp
from .values import NAN, NEGATIVE_INFINITY, NEGATIVE_ZERO, POSITIVE_INFINITY


class ExactPart(Protocol):
    """What is known of a real array of exact values; see `ladder.Part`."""

    fmt: Format
    enclosed: Enclosed
    codes: np.ndarray
    rounded: np.ndarray
    unsigned: np.ndarray


def _nonfinite(codes: np.ndarray) -> np.ndarray:
    return (codes == POSITIVE_INFINITY) | (codes == NEGATIVE_INFINITY) | (codes == NAN)


@quiet
def interval(part: ExactPart) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds, rounded outward to float64; infinities and NaN stand for themselves."""
    lower, upper = part.enclosed.interval()
    for code, number in ((POSITIVE_INFINITY, np.inf), (NEGATIVE_INFINITY, -np.inf), (NAN, np.nan)):
        lower, upper = (np.where(part.codes == code, number, side) for side in (lower, upper))
    return lower, upper


@quiet
def bound(part: ExactPart) -> np.ndarray:
    """Upper bound of `|rounded - exact|`: infinite where rounding overflowed, 0 where the exact value is itself infinite or NaN."""
    finite = np.isfinite(part.rounded)
    difference, error = part.enclosed.minus(np.where(finite, part.rounded, 0.0))
    # Zero stays zero: there the exact value is the rounded one.
    total = np.abs(difference) + error
    total = np.where(total == 0, 0.0, np.nextafter(total, np.inf))
    return np.where(finite, total, np.where(_nonfinite(part.codes), 0.0, np.inf))


@quiet
def covered(part: ExactPart, tolerance: np.ndarray, candidate: np.ndarray, signed_zeros: bool = False) -> np.ndarray:
    """Which elements of a candidate (float64, exactly what was given) an ordinary implementation may return.

    - A finite number: where its distance from the exact value is at most the tolerance. The distance is known to about `2**-50` of itself and the
      enclosure's radius, and that much is granted.
    - An infinity (or NaN, in a format without infinities) where the exact value is finite: where exact value and tolerance together reach the
      overflow threshold, with its sign.
    - NaN for NaN, an infinity for the same infinity.
    - Anything where the tolerance is infinite.
    """
    fmt = part.fmt
    finite = np.isfinite(candidate)
    difference, error = part.enclosed.minus(np.where(finite, candidate, 0.0))
    with np.errstate(invalid="ignore"):
        near = np.abs(difference) - error <= tolerance * (1 + 2.0**-50)
        lower, upper = part.enclosed.interval()
        # How far maximum and the threshold lie apart is a float64 number, which the threshold of float64 itself is not.
        half = 2.0 ** (fmt.maximum_ulp_exponent - 1)
        beyond = np.isinf(part.enclosed.hi)
        above = np.where(beyond, upper > 0, (fmt.maximum - part.enclosed.hi) + half - part.enclosed.lo - part.enclosed.radius <= tolerance * (1 + 2.0**-50))
        below = np.where(beyond, lower < 0, (fmt.maximum + part.enclosed.hi) + half + part.enclosed.lo - part.enclosed.radius <= tolerance * (1 + 2.0**-50))
    if fmt.infinities:
        overflow = np.where(candidate > 0, above, below) & np.isinf(candidate)
    else:
        overflow = np.isnan(candidate) & (above | below)
    out = np.where(finite, near, overflow)
    for code, same in ((POSITIVE_INFINITY, candidate == np.inf), (NEGATIVE_INFINITY, candidate == -np.inf), (NAN, np.isnan(candidate))):
        if not fmt.infinities and code != NAN:
            same = np.isnan(candidate) | same
        out = np.where(part.codes == code, same, out)
    if signed_zeros:
        zeros = finite & (candidate == 0) & (part.rounded == 0) & ~part.unsigned
        out = out & ~(zeros & (np.signbit(candidate) != np.signbit(part.rounded)))
    return out | np.isposinf(tolerance)


@quiet
def share(part: ExactPart, tolerance: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """Distance from the exact value as a share of the tolerance: at most 1 where covered; infinite where a special value is not."""
    ok = covered(part, tolerance, candidate)
    finite = np.isfinite(candidate) & ~_nonfinite(part.codes)
    difference, error = part.enclosed.minus(np.where(finite, candidate, 0.0))
    distance = np.maximum(np.abs(difference) - error, 0.0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.where(distance == 0, 0.0, np.where(np.isposinf(tolerance), 0.0, distance / tolerance))
    return np.where(finite, np.where(ok, np.minimum(ratio, 1.0), ratio), np.where(ok, 0.0, np.inf))


@quiet
def ulps(part: ExactPart, candidate: np.ndarray) -> np.ndarray:
    """`(candidate - exact) / ulp(exact)`, signed, with the ulp of the output format at the exact value.

    0 where a special value agrees; infinite where just one of the two is infinite; NaN where just one of the two is NaN.
    """
    finite = np.isfinite(candidate)
    difference, _ = part.enclosed.minus(np.where(finite, candidate, 0.0))
    size = np.maximum(np.abs(part.enclosed.hi), 0.0)
    # hi may have been rounded up to a power of two that the exact value does not reach.
    opposed = np.sign(part.enclosed.lo) == -np.sign(part.enclosed.hi)
    spacing = ulp(np.where(opposed, np.nextafter(size, 0), size), part.fmt)
    with np.errstate(invalid="ignore", over="ignore"):
        out = difference / spacing
        halves = (np.where(finite, candidate, 0.0) / 2 - part.enclosed.hi / 2) - part.enclosed.lo / 2
        out = np.where(np.isinf(difference), 2 * (halves / spacing), out)
    exact = np.where(part.codes == NAN, np.nan, np.where(part.codes == POSITIVE_INFINITY, np.inf, np.where(part.codes == NEGATIVE_INFINITY, -np.inf, 0.0)))
    special = _nonfinite(part.codes)
    # Overflow of the format is an agreement with the rounded value.
    agrees = np.where(special, (candidate == exact) | same_special(candidate, part.rounded), ~finite & same_special(candidate, part.rounded))
    away = np.where(np.isnan(candidate) | np.isnan(exact), np.nan, np.where(special, -exact, candidate))
    return np.where(agrees, 0.0, np.where(finite & ~special, out, away))


def same_special(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays hold the same infinity, or both NaN."""
    return (np.isnan(a) & np.isnan(b)) | (np.isinf(a) & (a == b))


def negative_zero(codes: np.ndarray) -> np.ndarray:
    """Where the exact value is -0."""
    return codes == NEGATIVE_ZERO
