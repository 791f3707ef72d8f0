"""What two published algorithms for the matrix exponential may be off by, element by element. Derivation: docs/matrix_exp.md.

Both scale by a power of two, approximate, and square. With `E_0` the error of the approximation, `X_i = exp(2^i B)` exact, a squaring makes

    E_(i+1) = |X_i| E_i + E_i |X_i| + E_i^2 + gamma_n (|X_i| + E_i)^2,

because the computed square of `X_i + D`, `|D| <= E_i`, differs from `X_i^2` by `X_i D + D X_i + D^2` and a matrix product's rounding (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., eq. 3.13). The truncation error of `E_0` is computed, not estimated: the very polynomial or rational function is
evaluated in ball arithmetic and compared with the exponential.

Matrices are float64 (or complex128) arrays that hold their numbers exactly; bounds are float64, with the slack of `SLACK` for their own rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from flint import acb, acb_mat

from ..formats import FLOAT64, Format
from .ball import precision

SLACK = 1 + 2.0**-36
_BITS = 320

#: Degrees of the Taylor polynomials of Bader, Blanes and Casas (Mathematics 7(12):1174, 2019, table 3), and the largest 1-norm each is used for.
TAYLOR_DEGREES = (1, 2, 4, 8, 12, 18)
THETA: dict[str, tuple[float, ...]] = {
    "float32": (1.192092800768788e-07, 5.978858893805233e-04, 5.116619363445086e-02, 5.800524627688768e-01, 1.461661507209034e00, 3.010066362817634e00),
    "float64": (2.220446049250313e-16, 2.580956802971767e-08, 3.397168839976962e-04, 4.991228871115323e-02, 2.996158913811580e-01, 1.090863719290036e00),
}
#: Roundings on the longest path of each polynomial, for matrices of size n: a product of degrees adds its factors' and n; see the derivation.
_TAYLOR_ROUNDINGS: dict[int, Callable[[int], int]] = {
    1: lambda n: 1,
    2: lambda n: n + 2,
    4: lambda n: 3 * n + 7,
    8: lambda n: 7 * n + 18,
    12: lambda n: 11 * n + 24,
    18: lambda n: 17 * n + 28,
}
_ROOT = math.sqrt(177.0)
#: Bader, Blanes and Casas, eq. 13: the scheme of degree 8, x_1 to x_7 and y_2 (x_7 as published; PyTorch divides by x_3 once less).
_X3 = 2 / 3
_EIGHT = (
    _X3 * (1 + _ROOT) / 88,
    _X3 * (1 + _ROOT) / 352,
    _X3,
    (-271 + 29 * _ROOT) / (315 * _X3),
    11 * (-1 + _ROOT) / (1260 * _X3),
    11 * (-9 + _ROOT) / (5040 * _X3),
    (89 - _ROOT) / (5040 * _X3**2),
    (857 - 58 * _ROOT) / 630,
)
#: The same, section 3.4 and table 2: rows of coefficients of I, A, A^2, A^3 (and A^6), degrees 12 and 18.
_TWELVE = (
    (9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740),
    (5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031, 0.01108844528519167989),
    (0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968, 0.00610700528898058230),
    (-2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079, -0.00675951846863086359),
)
_EIGHTEEN = (
    (0.0, -1.00365581030144618291e-01, -8.02924648241156932449e-03, -8.92138498045729985177e-04, 0.0),
    (0.0, 3.97849749499645077844e-01, 1.36783778460411720168e00, 4.98289622525382669416e-01, -6.37898194594723280150e-04),
    (-1.09676396052962061844e01, 1.68015813878906206114e00, 5.71779846478865511061e-02, -6.98210122488052056106e-03, 3.34975017086070470649e-05),
    (-9.04316832390810593223e-02, -6.76404519071381882256e-02, 6.75961301770459654925e-02, 2.95552570429315521194e-02, -1.39180257516060693404e-05),
    (0.0, 0.0, -9.23364619367118555360e-02, -1.69364939002081722752e-02, -1.40086798182036094347e-05),
)


def _absolute_taylor(a: np.ndarray, degree: int) -> np.ndarray:
    """The scheme of a degree with absolute coefficients, at a nonnegative matrix: the sum of the magnitudes of all that it adds up."""
    one, a2 = np.eye(len(a)), a @ a
    if degree <= 2:
        out = one + a + (a2 / 2 if degree == 2 else 0.0)
    elif degree == 4:
        out = one + a + a2 @ (one / 2 + a / 6 + a2 / 24)
    elif degree == 8:
        x1, x2, x3, x4, x5, x6, x7, y2 = (abs(c) for c in _EIGHT)
        a4 = a2 @ (x1 * a + x2 * a2)
        out = one + a + y2 * a2 + (x3 * a2 + a4) @ (x4 * one + x5 * a + x6 * a2 + x7 * a4)
    else:
        a3 = a @ a2
        powers = [one, a, a2, a3, a3 @ a3]
        table = _TWELVE if degree == 12 else _EIGHTEEN
        sums = [sum((abs(c) * p for c, p in zip(row, powers, strict=False)), np.zeros(a.shape)) for row in table]
        if degree == 12:
            a6 = sums[2] + sums[3] @ sums[3]
            out = sums[0] + (sums[1] + a6) @ a6
        else:
            a9 = sums[3] + sums[0] @ sums[4]
            out = sums[1] + (sums[2] + a9) @ a9
    return out * SLACK


#: Largest scaled norm, limits of the norm, and degrees of JAX's Pade approximants (Higham, SIAM J. Matrix Anal. Appl. 26:1179, 2005). JAX rounds the number
#: of squarings down, so the scaled norm may be twice the first number; the truncation error is computed at the scaled matrix as it is.
PADE_LIMITS: dict[str, tuple[float, tuple[float, ...], tuple[int, ...]]] = {
    "float32": (3.925724783138660, (4.258730016922831e-001, 1.880152677804762e000), (3, 5, 7)),
    "float64": (5.371920351148152, (1.495585217958292e-002, 2.539398330063230e-001, 9.504178996162932e-001, 2.097847961257068e000), (3, 5, 7, 9, 13)),
}
#: Squarings after which JAX gives up with NaN.
PADE_SQUARINGS = 16


def gamma(n: float, u: float) -> float:
    """`n u / (1 - n u)`; infinite from `n u >= 1` on."""
    return n * u / (1 - n * u) if n * u < 1 else math.inf


def _exact(m: np.ndarray) -> acb_mat:
    n = len(m)
    return acb_mat(n, n, [acb(complex(x).real, complex(x).imag) for x in m.flat])


def _upper(m: acb_mat, n: int) -> np.ndarray:
    """Upper bounds of the magnitudes of the entries."""
    values = np.array([float(x.abs_upper()) for x in m.entries()], np.float64).reshape(n, n)
    return np.nextafter(values, np.inf) if n else values


def _scaled(m: np.ndarray, squarings: int) -> np.ndarray:
    return m * 2.0**-squarings


def _squared(x: acb_mat, error: np.ndarray, squarings: int, n: int, inner: int, u: float) -> np.ndarray:
    """The recursion above."""
    g = gamma(inner, u)
    for _ in range(squarings):
        size = _upper(x, n)
        with np.errstate(over="ignore", invalid="ignore"):
            error = (size @ error + error @ size + error @ error + g * (size + error) @ (size + error)) * SLACK
        x = x * x
    return np.where(np.isnan(error), np.inf, error)


def _working(fmt: Format, is_complex: bool, n: int) -> tuple[str, float, int]:
    """Name of the thresholds, unit roundoff, and terms of an inner product: a complex product is `2 sqrt(2) u` off, as if it had two more terms."""
    name = "float64" if fmt is FLOAT64 else "float32"
    return name, 2.0**-53 if name == "float64" else 2.0**-24, n + 2 if is_complex else n


def taylor(m: np.ndarray, fmt: Format, batched: bool, inner: int | None = None) -> np.ndarray:
    """Error of PyTorch's algorithm with the published coefficients: optimised Taylor polynomials, scaling and squaring.

    Args:
        m: a finite matrix.
        fmt: of its parts; half formats are computed in float32.
        batched: whether it stands in a batch of more than one: then the degree is always 18.
        inner: terms of the longest inner product, if not the size of the matrix.
    """
    n = len(m)
    name, u, terms = _working(fmt, np.iscomplexobj(m), inner or n)
    limits = THETA[name]
    norm = float(np.abs(m).sum(0).max(initial=0.0))
    out = np.zeros((n, n))
    cases = set()
    # The norm is itself a rounded sum, so near a limit either degree may be taken.
    for x in (norm * (1 - 2.0**-10), norm, norm * (1 + 2.0**-10)):
        degree = 18 if batched else next((d for d, t in zip(TAYLOR_DEGREES[:-1], limits, strict=False) if x <= t), 18)
        cases.add((degree, max(0, math.ceil(math.log2(x / limits[-1]))) if degree == 18 and x > 0 else 0))
    for degree, squarings in cases:
        b = _scaled(m, squarings)
        size = np.abs(b)
        with precision(_BITS):
            exact = _exact(b)
            x = exact.exp()
            polynomial, power = _identity(n), _identity(n)
            for k in range(1, degree + 1):
                power = power * exact * (acb(1) / k)
                polynomial = polynomial + power
            truncation = _upper(polynomial - x, n)
            rounding = gamma(_TAYLOR_ROUNDINGS[degree](terms), u) * _absolute_taylor(size, degree)
            error = _squared(x, truncation + rounding, squarings, n, terms, u)
        out = np.maximum(out, error)
    return out


def pade(m: np.ndarray, fmt: Format) -> np.ndarray:
    """Error of `jax.scipy.linalg.expm`: a Pade approximant by LU with partial pivoting, scaling and squaring; infinite where it gives up."""
    n = len(m)
    name, u, terms = _working(fmt, np.iscomplexobj(m), n)
    largest, limits, degrees = PADE_LIMITS[name]
    norm = float(np.abs(m).sum(0).max(initial=0.0))
    out = np.zeros((n, n))
    cases = set()
    for x in (norm * (1 - 2.0**-10), norm, norm * (1 + 2.0**-10)):
        squarings = max(0, math.floor(math.log2(x / largest))) if x > 0 else 0
        cases.add((degrees[sum(x >= t for t in limits)], squarings))
    for degree, squarings in cases:
        if squarings > PADE_SQUARINGS:
            return np.full((n, n), np.inf)
        out = np.maximum(out, _pade_case(_scaled(m, squarings), degree, squarings, terms, u))
    return out


def _pade_case(b: np.ndarray, degree: int, squarings: int, terms: int, u: float) -> np.ndarray:
    n, size = len(b), np.abs(b)
    coefficients = [math.factorial(2 * degree - k) // (math.factorial(degree - k) * math.factorial(k)) for k in range(degree + 1)]
    scale = coefficients[-1]
    with precision(_BITS):
        exact = _exact(b)
        x, power, numerator, denominator = exact.exp(), _identity(n), _identity(n) * 0, _identity(n) * 0
        absolute, term = np.zeros((n, n)), np.eye(n)
        for k, c in enumerate(coefficients):
            c = c // scale
            numerator, denominator = numerator + power * acb(c), denominator + power * acb(c * (-1) ** k)
            absolute, term = absolute + float(c) * term, term @ size
            power = power * exact
        inverse = denominator.inv()
        rational = inverse * numerator
        truncation = _upper(rational - x, n)
        q, r, q_inverse = _upper(denominator, n), _upper(rational, n), _upper(inverse, n)
    # A term of degree k takes at most k - 1 products, each n roundings, and 2 m + 4 scalings and additions.
    evaluation = gamma((degree - 1) * terms + 2 * degree + 5, u) * absolute * SLACK
    off = q.sum(0) - q.diagonal()
    growth = 2.0 if (q.diagonal() > off * (1 + 1e-10)).all() else 2.0 ** (n - 1)
    factor = 8.0 if terms != n else 1.0
    solve = gamma(3 * n * factor, u) * n * growth * (q + evaluation).max(initial=0.0) * np.ones((n, n))
    e = evaluation + solve
    first = q_inverse @ (evaluation + e @ r)
    contraction = float((q_inverse @ e).sum(0).max(initial=0.0))
    if not contraction < 0.5:
        return np.full((n, n), np.inf)
    error = (first + (q_inverse @ e) @ first * 2.0) * SLACK
    # The geometric series of (q_inverse e) from its second term on is at most twice it, column by column, in the 1-norm.
    error = error + 2.0 * contraction * first.max(initial=0.0)
    with precision(_BITS):
        return _squared(x, error + truncation, squarings, n, terms, u)


def _identity(n: int) -> acb_mat:
    return acb_mat(n, n, [acb(1 if i == j else 0) for i in range(n) for j in range(n)])


def either(m: np.ndarray, fmt: Format) -> np.ndarray:
    """The worse of both algorithms, alone or in a batch; finite where one of them is."""
    bounds = [taylor(m, fmt, batched) for batched in (False, True)] + [pade(m, fmt)]
    out = np.maximum(bounds[0], bounds[1])
    return np.where(np.isfinite(bounds[2]), np.maximum(out, bounds[2]), out)


def moved(size: np.ndarray, error: np.ndarray) -> np.ndarray:
    """`exp(size + error) - exp(size)` for nonnegative matrices: a bound of |exp(A + T) - exp(A)| where |A| <= size and |T| <= error, term by term."""
    n = len(size)
    if not error.any():
        return np.zeros((n, n))
    if not (np.isfinite(error).all() and np.isfinite(size).all()):
        return np.full((n, n), np.inf)
    with precision(_BITS):
        return _upper((_exact(size) + _exact(error)).exp() - _exact(size).exp(), n)
