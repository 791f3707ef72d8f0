"""Float64 arithmetic on nonnegative bounds, rounded upward.

One IEEE operation on float64 numbers is off by at most half an ulp of its result, so the next float64 number above the computed result is at
or above the exact one. Zero is kept where the exact result is zero, so that "no error at all" stays recognisable. Infinity absorbs; `0 * inf`
is infinite, because an infinite bound says that anything may have happened.
"""

from __future__ import annotations

import numpy as np

Bound = np.ndarray


def above(x: np.ndarray | float) -> Bound:
    """The next float64 number above each positive `x`; zero stays zero."""
    x = np.asarray(x, np.float64)
    return np.where(x > 0, np.nextafter(x, np.inf), x)


def below(x: np.ndarray | float) -> Bound:
    """The next float64 number below each positive `x`, never below zero."""
    x = np.asarray(x, np.float64)
    return np.where(x > 0, np.nextafter(x, 0.0), 0.0)


def add(*xs: np.ndarray | float) -> Bound:
    """The sum, rounded up."""
    total = np.asarray(xs[0], np.float64)
    for x in xs[1:]:
        # Adding zero is exact.
        total = np.where(x == 0, total, np.where(total == 0, x, above(total + x)))
    return total


def mul(*xs: np.ndarray | float) -> Bound:
    """The product, rounded up; zero where a factor is zero and no other is infinite."""
    out = np.asarray(xs[0], np.float64)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for x in xs[1:]:
            zero = (out == 0) | (np.asarray(x) == 0)
            infinite = np.isinf(out) | np.isinf(x)
            out = np.where(infinite, np.inf, np.where(zero, 0.0, np.nextafter(out * x, np.inf)))
    return out


def div(x: np.ndarray | float, y: np.ndarray | float) -> Bound:
    """The quotient of `x` by a lower bound `y` of a positive divisor, rounded up; infinite where `y` is not positive."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
        q = np.nextafter(np.asarray(x, np.float64) / y, np.inf)
    return np.where((np.asarray(y) > 0) & np.isfinite(x), np.where(np.asarray(x) == 0, 0.0, q), np.inf)


def sub_below(x: np.ndarray | float, y: np.ndarray | float) -> Bound:
    """A lower bound of `x - y`, not below zero."""
    with np.errstate(invalid="ignore"):
        d = np.asarray(x, np.float64) - y
    d = np.where(np.isnan(d), 0.0, d)
    return np.where(np.asarray(y) == 0, np.maximum(d, 0.0), below(np.maximum(d, 0.0)))


def gamma(n: np.ndarray | float, unit_roundoff: float) -> Bound:
    """`n u / (1 - n u)`, rounded up; infinite from `n u >= 1` on.

    The bound of `n` relative errors of at most `u` each, multiplied together (Higham, Accuracy and Stability of Numerical Algorithms,
    2nd ed., Lemma 3.1).
    """
    nu = mul(n, unit_roundoff)
    return div(nu, np.maximum(np.nextafter(1.0 - nu, 0.0), 0.0))


def einsum(subscripts: str, *xs: np.ndarray, terms: int) -> Bound:
    """`np.einsum` of nonnegative arrays, rounded up: each result sums at most `terms` products.

    A float64 sum of `n` products of `k` nonnegative factors has relative error at most `gamma(n + k - 1)` in any order, and loses at most
    the smallest positive number a product to underflow (Higham, section 3.1).
    """
    if any(np.isinf(x).any() for x in xs):
        finite = einsum(subscripts, *(np.where(np.isinf(x), 0.0, x) for x in xs), terms=terms)
        # A product with an infinite factor is infinite, whatever the other factor is.
        hit = np.zeros(finite.shape)
        for k, x in enumerate(xs):
            others = [np.ones(o.shape) if j != k else np.isinf(x).astype(np.float64) for j, o in enumerate(xs)]
            hit = hit + np.einsum(subscripts, *others)
        return np.where(hit > 0, np.inf, finite)
    with np.errstate(over="ignore", under="ignore"):
        out = np.asarray(np.einsum(subscripts, *xs), np.float64)
    touched = np.einsum(subscripts, *((x > 0).astype(np.float64) for x in xs)) > 0
    factor = 1.0 + (2.0 * (terms + len(xs)) + 2.0) * 2.0**-53
    return np.where(touched, above(above(out * factor) + terms * 5e-324), 0.0)
