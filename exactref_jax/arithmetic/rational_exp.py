"""Which entries of the exponential of a rational matrix are rational, and what they are.

Let P be the projector on the generalised null space of A along its range (ker A^n along im A^n); it is rational and commutes with A. Then
`exp(A) = exp(A) P + exp(A) (1 - P)`. On the null space A is nilpotent, so the first part is the finite sum of `P A^k / k!`, k < n. The second is a sum of
`exp(lambda) q(lambda)` over the nonzero eigenvalues, with algebraic coefficients; by Lindemann and Weierstrass (Baker, Transcendental Number Theory,
theorem 1.4) an entry of it is algebraic only if all its coefficients are zero: if and only if all `e_i' (1 - P) A^k e_j` are, k < n. So entry (i, j) is
rational if and only if they are, and then it is entry (i, j) of the finite sum.
"""

from __future__ import annotations

from fractions import Fraction

from flint import fmpq, fmpq_mat

#: Larger matrices are left to the balls: exact elimination grows quickly.
MAXIMUM_SIZE = 64


def _identity(n: int) -> fmpq_mat:
    return fmpq_mat(n, n, [fmpq(int(i == j)) for i in range(n) for j in range(n)])


def _pivots(reduced: fmpq_mat, rank: int) -> list[int]:
    columns = []
    for row in range(rank):
        columns.append(next(c for c in range(reduced.ncols()) if reduced[row, c] != 0))
    return columns


def _null_projector(a: fmpq_mat, n: int) -> fmpq_mat:
    """The projector on ker a^n along im a^n."""
    power = a
    size = 1
    while size < n:
        power, size = power * power, 2 * size
    reduced, rank = power.rref()
    if rank == n:
        return _identity(n) * fmpq(0)
    pivots = _pivots(reduced, rank)
    free = [c for c in range(n) if c not in pivots]
    # A basis of the kernel, then one of the image (the pivot columns): together a basis of the whole space.
    basis = [[fmpq(0)] * n for _ in range(n)]
    for k, c in enumerate(free):
        basis[c][k] = fmpq(1)
        for row, pivot in enumerate(pivots):
            basis[pivot][k] = -reduced[row, c]
    for k, c in enumerate(pivots):
        for i in range(n):
            basis[i][len(free) + k] = power[i, c]
    change = fmpq_mat(n, n, [x for row in basis for x in row])
    chosen = fmpq_mat(n, n, [fmpq(int(i == j and i < len(free))) for i in range(n) for j in range(n)])
    return change * chosen * change.inv()


def rational_entries(entries: list[Fraction], n: int) -> dict[tuple[int, int], Fraction]:
    """The rational entries of the exponential of an n x n matrix, by place.

    Args:
        entries: of the matrix, row by row.
        n: its size.
    """
    a = fmpq_mat(n, n, [fmpq(x.numerator, x.denominator) for x in entries])
    projector = _null_projector(a, n)
    rest = _identity(n) - projector
    finite, term = projector, projector
    irrational = {(i, j) for i in range(n) for j in range(n) if rest[i, j] != 0}
    for k in range(1, n):
        term = term * a * fmpq(1, k)
        finite = finite + term
        rest = rest * a
        irrational |= {(i, j) for i in range(n) for j in range(n) if rest[i, j] != 0}
    found = {}
    for i in range(n):
        for j in range(n):
            if (i, j) not in irrational:
                found[i, j] = Fraction(int(finite[i, j].p), int(finite[i, j].q))
    return found
