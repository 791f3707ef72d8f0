"""Named algorithms for the matrix exponential: what each may be off by."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arithmetic.ball import Ball, precision
from ..arithmetic.matrix_exp_bounds import SLACK, pade, taylor
from ..formats import FLOAT32, Format, decode, format_of, is_complex, ulp
from ..inputs import asarray

Gradients = namedtuple("Gradients", ["grad_A"])


@dataclass(frozen=True)
class MatrixExpAlgorithm:
    """How the matrix exponential is computed; it gives the tolerance. Ready-made: `torch()` and `jax()`. Derivation: docs/matrix_exp.md.

    Attributes:
        name: "torch" or "jax".

    Example:
        >>> import exactref_jax as er, numpy as np
        >>> A = np.array([[0.0, 1.0], [-1.0, 0.0]], np.float32)
        >>> bool(er.matrix_exp(A).covers(np.cos(1.0) * np.eye(2) + np.sin(1.0) * A, tolerance=er.MatrixExpAlgorithm.jax().tolerance(A)).all())
        True
    """

    name: str

    @staticmethod
    def torch() -> MatrixExpAlgorithm:
        """PyTorch's, with the published coefficients: Taylor polynomials of Bader, Blanes and Casas, scaling and squaring."""
        return MatrixExpAlgorithm("torch")

    @staticmethod
    def jax() -> MatrixExpAlgorithm:
        """`jax.scipy.linalg.expm`: Pade approximants, LU with partial pivoting, scaling and squaring; infinite where it gives NaN."""
        return MatrixExpAlgorithm("jax")

    def tolerance(self, A: Any) -> np.ndarray:
        """How far this algorithm may be from the exponential of each matrix.

        Args:
            A: shape (..., n, n).

        Returns:
            Float64 of A's shape, absolute; of complex matrices complex128, the same bound for each part.
        """
        return self._bound(asarray(A, argument="A"), None)

    def frechet_tolerance(self, A: Any, E: Any) -> np.ndarray:
        """How far the upper right block of this algorithm's exponential of [[A, E], [0, A]] may be from L(A, E).

        Args:
            A: shape (..., n, n).
            E: likewise.

        Raises:
            ValueError: for `jax()`, whose derivative is another program than its exponential of a block matrix.
        """
        if self.name == "jax":
            raise ValueError("MatrixExpAlgorithm.jax(): only its forward tolerance is derived; JAX differentiates its program, and runs no block matrix.")
        return self._bound(asarray(A, argument="A"), asarray(E, argument="E"))

    def backward_tolerance(self, A: Any, grad: Any) -> Gradients:
        """How far this algorithm's `grad_A = L(A^H, grad)` may be from the exact one.

        Args:
            A: shape (..., n, n).
            grad: the gradient of the output.
        """
        matrices = asarray(A, argument="A")
        return Gradients(self.frechet_tolerance(np.swapaxes(matrices.conj() if is_complex(matrices.dtype) else matrices, -1, -2), grad))

    def _bound(self, A: np.ndarray, E: np.ndarray | None) -> np.ndarray:
        fmt, n = format_of(A.dtype), A.shape[-1]
        out = np.zeros(A.shape)
        numbers = [_numbers(x) for x in (A, E) if x is not None]
        batched = int(np.prod(A.shape[:-2])) > 1
        for at in np.ndindex(A.shape[:-2]):
            m = numbers[0][at]
            if E is not None:
                m = np.block([[m, numbers[1][at]], [np.zeros_like(m), m]])
            out[at] = self._one(m, fmt, batched, n, E is not None)
        return out * (1 + 1j) if is_complex(A.dtype) else out

    def _one(self, m: Any, fmt: Format, batched: bool, n: int, block: bool) -> np.ndarray:
        if not n or not np.isfinite(m).all():
            return np.zeros((n, n))
        bound = pade(m, fmt) if self.name == "jax" else taylor(m, fmt, batched)
        if block:
            bound = bound[:n, n:]
        if fmt.precision < FLOAT32.precision:
            reach = (_size(m)[:n, n:] if block else _size(m)) + bound
            bound = (bound + ulp(reach, fmt) / 2) * SLACK
        with np.errstate(invalid="ignore"):
            limit = float(fmt.maximum)
            return np.where(bound + (_size(m)[:n, n:] if block else _size(m)) > limit, np.inf, bound)


def _numbers(x: np.ndarray) -> Any:
    return x.astype(np.complex128) if is_complex(x.dtype) else decode(x)


def _size(m: Any) -> np.ndarray:
    """|exp(m)|, rounded up."""
    field = Ball()
    with precision(192):
        real, imag = (field.lift(np.ascontiguousarray(p)[None]) for p in (m.real, m.imag))
        parts = field.matrix_exp(real, imag if np.iscomplexobj(m) else None)
        return sum((field.magnitude(p)[1][0] for p in parts if p is not None), np.zeros(m.shape))
