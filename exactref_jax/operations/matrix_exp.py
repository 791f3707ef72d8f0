"""matrix_exp and its Frechet derivative, as two primitives.

`L(A, E)`, the derivative of the exponential at A in the direction E, is linear in E; the transpose of `E -> L(A, E)` is `C -> L(A^T, C)`, because
`trace(C^T L(A, E)) = trace(L(A, C^T) E)` (Higham, Functions of Matrices, section 3.2, and the series of the exponential). So the backward of the exponential is
`grad_A = L(A^H, grad)`, found by transposition and written down nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.interpreters import ad

from ..formats import is_inexact
from ..jax_compat import zero_tangent
from .primitive import batched_in_front, define


def _abstract(*operands: Any) -> ShapedArray:
    return ShapedArray(operands[0].shape, operands[0].dtype)


def _wide(x: Any) -> Any:
    return x if x.dtype.itemsize >= 4 else x.astype(jnp.float32)


def _exp_lowering(A: Any) -> Any:
    if A.size == 0:
        return A
    return jax.scipy.linalg.expm(_wide(A)).astype(A.dtype)


def _frechet_lowering(A: Any, E: Any) -> Any:
    """The upper right block of exp([[A, E], [0, A]]) (Higham, Functions of Matrices, theorem 3.6)."""
    if A.size == 0:
        return A
    n = A.shape[-1]
    block = jnp.concatenate([jnp.concatenate([A, E], -1), jnp.concatenate([jnp.zeros_like(A), A], -1)], -2)
    return _exp_lowering(block)[..., :n, n:]


def _exp_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (A,), (E,) = primals, tangents
    out = matrix_exp_p.bind(A)
    return out, zero_tangent(out) if type(E) is ad.Zero else frechet_p.bind(A, E)


def _frechet_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (A, E), (dA, dE) = primals, tangents
    if type(dA) is not ad.Zero:
        raise NotImplementedError(
            "matrix_exp_frechet has no derivative with respect to A: that would be a second derivative of the matrix exponential. "
            "Differentiate er.matrix_exp once, or with respect to E only."
        )
    out = frechet_p.bind(A, E)
    return out, zero_tangent(out) if type(dE) is ad.Zero else frechet_p.bind(A, dE)


def _frechet_transpose(cotangent: Any, A: Any, E: Any) -> list[Any]:
    if type(cotangent) is ad.Zero:
        return [None, ad.Zero(E.aval)]
    return [None, frechet_p.bind(jnp.swapaxes(A, -1, -2), cotangent)]


def _not_linear(cotangent: Any, A: Any) -> list[Any]:
    raise NotImplementedError("matrix_exp is not linear")


matrix_exp_p = define(
    "matrix_exp",
    static=(),
    abstract=_abstract,
    lowering=_exp_lowering,
    jvp=_exp_jvp,
    transpose=_not_linear,
    batch=lambda operands, axes: (matrix_exp_p.bind(*batched_in_front(operands, axes)), 0),
)
frechet_p = define(
    "matrix_exp_frechet",
    static=(),
    abstract=_abstract,
    lowering=_frechet_lowering,
    jvp=_frechet_jvp,
    transpose=_frechet_transpose,
    batch=lambda operands, axes: (frechet_p.bind(*batched_in_front(operands, axes)), 0),
)


def _check(operation: str, **matrices: Any) -> None:
    first = next(iter(matrices))
    for name, x in matrices.items():
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"{operation}: {name} has shape {list(x.shape)}; wanted square matrices, (..., n, n).")
        if not is_inexact(x.dtype) or "float8" in x.dtype.name:
            raise TypeError(f"{operation}: {name} is {x.dtype}; wanted float64, float32, float16, bfloat16, complex64 or complex128.")
        if x.shape != matrices[first].shape or x.dtype != matrices[first].dtype:
            raise ValueError(
                f"{operation}: {name} is {x.dtype}{list(x.shape)}, {first} is {matrices[first].dtype}{list(matrices[first].shape)}; wanted the same."
            )


def matrix_exp(A: jax.Array) -> jax.Array:
    """The matrix exponential, the sum of `A^k / k!`.

    Args:
        A: shape (..., n, n), float64, float32, float16, bfloat16 or complex, of any norm.

    Returns:
        The exponential of each matrix, of A's shape and dtype.

    Raises:
        ValueError: if A is no batch of square matrices.
        TypeError: if its dtype has no exponential.

    Guarantee:
        Each element is the exact value, rounded once. Backward: `grad_A = matrix_exp_frechet(A^H, grad)`. A matrix that holds an infinity or a NaN
        gives a matrix of NaN, as in PyTorch (a 1 x 1 matrix gives the exponential of its number). The tolerance is that of PyTorch's algorithm
        with the published coefficients (`er.MatrixExpAlgorithm.torch()`).

    Example:
        >>> import exactref_jax as er
        >>> er.matrix_exp([[0.0, 1.0], [0.0, 0.0]]).rounded.tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """
    _check("matrix_exp", A=A)
    return matrix_exp_p.bind(A)


def matrix_exp_frechet(A: jax.Array, E: jax.Array) -> jax.Array:
    """The Frechet derivative of the matrix exponential at A in the direction E: `exp(A + E) = exp(A) + L(A, E) + O(E^2)`.

    Args:
        A: shape (..., n, n), as in `matrix_exp`.
        E: of the same shape and dtype.

    Returns:
        `L(A, E)`, of A's shape and dtype.

    Raises:
        ValueError: if A is no batch of square matrices, or E is not like it.
        TypeError: if the dtype has no exponential.

    Guarantee:
        Each element is the exact value, rounded once. It has no backward.

    Example:
        >>> import exactref_jax as er
        >>> er.matrix_exp_frechet([[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]]).rounded.tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    _check("matrix_exp_frechet", A=A, E=E)
    return frechet_p.bind(A, E)
