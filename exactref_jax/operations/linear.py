"""matmul, gemm, add, multiply and sum: functions of JAX arrays, each one contraction.

They run under `jax.jit`, `jax.vmap` and `jax.grad` like any JAX function. `operation.Operation` makes exact operations of them.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import jax
import numpy as np

from ..arithmetic.surd import MinusZero
from ..formats import is_complex, is_inexact
from ..promotion import result_dtype
from .contraction import ONE, Scale, aligned, broadcast_shapes, contraction, letters, matrix_product

Axis = int | Sequence[int] | None


def scalar(operation: str, name: str, value: Any, dtype: Any) -> Scale:
    """A Python or NumPy number, exactly as given, as two rationals.

    Raises:
        TypeError: if it is no number, or complex where the arrays are real.
        ValueError: if it is infinite or NaN.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Number, np.number)):
        raise TypeError(f"{operation}: {name} is {value!r}; wanted a real or complex number.")
    real, imag = (value.real, value.imag) if isinstance(value, (complex, np.complexfloating)) else (value, 0)
    try:
        exact = Fraction(_plain(real)), Fraction(_plain(imag))
        if exact == (0, 0) and math.copysign(1.0, float(_plain(real))) < 0:
            return MinusZero(), Fraction(0)
    except (OverflowError, ValueError):
        raise ValueError(f"{operation}: {name} is {value!r}; wanted a finite number.") from None
    for part in exact:
        if part.denominator & (part.denominator - 1):
            raise ValueError(f"{operation}: {name} is {value!r}, which no binary floating-point number equals; wanted an int, float or complex.")
    if exact[1] and not is_complex(dtype):
        raise TypeError(f"{operation}: {name} is complex, but the operands are {dtype}; convert one to a complex dtype.")
    return exact


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def is_scalar(x: Any) -> bool:
    """Whether an operand is a Python number (not a 0-d array): it gets no gradient."""
    return isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)


def _dtype(operation: str, **operands: Any) -> Any:
    """The promoted dtype of the operands.

    Raises:
        TypeError: if that is no floating-point or complex dtype.
    """
    try:
        dtype = result_dtype(operands.values())
    except TypeError as error:
        raise TypeError(f"{operation}: {' and '.join(operands)}: {error}") from None
    if not is_inexact(dtype):
        given = ", ".join(f"{k} {getattr(x, 'dtype', type(x).__name__)}" for k, x in operands.items())
        raise TypeError(f"{operation}: wanted floating-point or complex operands; given {given}.")
    return dtype


def matmul(A: jax.Array, B: jax.Array) -> jax.Array:
    """The matrix product `A @ B`, with NumPy's rules for one-dimensional operands and batches.

    Args:
        A: shape (..., m, k) or (k,), any floating-point or complex dtype.
        B: shape (..., k, n) or (k,).

    Returns:
        Shape (..., m, n), in the promoted dtype; batch dimensions broadcast.

    Raises:
        ValueError: if the inner dimensions differ, the batch dimensions do not broadcast, or an operand has no dimensions.

    Guarantee:
        Each element is the exact sum of products, rounded once. The tolerance is that of a sum of k products in any order, with or without FMA.
        Backward: `grad_A = grad @ B^H` and `grad_B = A^H @ grad`, each one contraction with the copies that broadcasting made folded into the
        sum. In bfloat16, float16 and float8, PyTorch rounds each batch's product before summing copies where both operands have batch
        dimensions; the default budget does not allow for that (see `Budget.rounds_copies`).

    Example:
        >>> import exactref_jax as er
        >>> A, B = er.asarray([[1.0, 2.0], [3.0, 4.0]], "float32"), er.asarray([[0.5], [0.25]], "float32")
        >>> er.matmul(A, B).rounded.tolist()
        [[1.0], [2.5]]
        >>> er.matmul.backward(A, B, grad=[[1.0], [1.0]]).rounded.grad_B.tolist()
        [[4.0], [6.0]]
    """
    dtype = _dtype("matmul", A=A, B=B)
    term, output, sizes = matrix_product("matmul", A, B, ONE)
    return contraction([term], output, sizes, dtype)


def gemm(A: jax.Array, B: jax.Array, C: jax.Array, *, alpha: complex = 1, beta: complex = 1) -> jax.Array:
    """`alpha * (A @ B) + beta * C`.

    Args:
        A: shape (..., m, k) or (k,).
        B: shape (..., k, n) or (k,).
        C: any shape that broadcasts with that of `A @ B`.
        alpha: a real number, or a complex one for complex operands, taken exactly as given.
        beta: likewise.

    Returns:
        The broadcast shape, in the promoted dtype.

    Raises:
        ValueError: if shapes do not fit, or a scalar is not finite.
        TypeError: if a scalar is no number, or complex with real operands.

    Guarantee:
        The exact value, rounded once. The tolerance allows for a scalar rounded to the dtype and for each of the two terms rounded before they are
        added. Backward: `grad_A = conj(alpha) grad @ B^H`, `grad_B = conj(alpha) A^H @ grad`, `grad_C = conj(beta) grad`, each summed
        over the copies of its operand and rounded once. `beta=0` multiplies: a NaN in C gives NaN.

    Example:
        >>> import exactref_jax as er
        >>> er.gemm([[1.0, 2.0]], [[3.0], [4.0]], [0.5], alpha=2, beta=-1).rounded.tolist()
        [[21.5]]
    """
    dtype = _dtype("gemm", A=A, B=B, C=C)
    term, output, sizes = matrix_product("gemm", A, B, scalar("gemm", "alpha", alpha, dtype))
    product = tuple(sizes[n] for n in output)
    shape = broadcast_shapes("gemm", **{"A @ B": product, "C": C.shape})
    extra = letters(len(shape) - len(product), output + "".join(sizes))
    names = extra + output
    # A dimension of `A @ B` that is one where C is longer is a copy, as NumPy has it.
    for n, size in zip(names, shape, strict=True):
        if (n in sizes and sizes[n] != size) or n not in sizes:
            sizes = {**sizes, n: size}
    return contraction([term, (scalar("gemm", "beta", beta, dtype), [(C, aligned(C.shape, names))], names)], names, sizes, dtype)


def add(x: jax.Array | complex, y: jax.Array | complex, *, alpha: complex = 1) -> jax.Array:
    """`x + alpha * y`, broadcasting.

    Args:
        x: an array of any floating-point or complex dtype, or a Python number.
        y: likewise; at least one of the two is an array.
        alpha: a real number, or a complex one for complex operands, taken exactly as given.

    Returns:
        The broadcast shape, in the promoted dtype.

    Raises:
        ValueError: if the shapes do not broadcast, or `alpha` is not finite.
        TypeError: if neither operand is an array, or `alpha` is no number, or complex with real operands.

    Guarantee:
        The exact value, rounded once. Backward: `grad_x = grad` and `grad_y = conj(alpha) grad`, each summed over the copies of its operand
        and rounded once; a Python number gets no gradient (None).

    Example:
        >>> import exactref_jax as er
        >>> er.add(er.asarray([1.0, 2.0], "float16"), 0.5, alpha=2).rounded.tolist()
        [2.0, 3.0]
    """
    dtype = _dtype("add", x=x, y=y)
    _needs_array("add", x, y)
    names, sizes = _broadcast_letters("add", x=x, y=y)
    terms = []
    for name, operand, scale in (("x", x, ONE), ("y", y, scalar("add", "alpha", alpha, dtype))):
        if is_scalar(operand):
            terms.append((_times(scale, scalar("add", name, _number(operand), dtype)), [], ""))
        else:
            terms.append((scale, [(operand, aligned(np.shape(operand), names))], names))
    return contraction(terms, names, sizes, dtype)


def multiply(x: jax.Array | complex, y: jax.Array | complex) -> jax.Array:
    """The product `x * y`, element by element, broadcasting.

    Args:
        x: an array of any floating-point or complex dtype, or a Python number.
        y: likewise; at least one of the two is an array.

    Returns:
        The broadcast shape, in the promoted dtype.

    Raises:
        ValueError: if the shapes do not broadcast, or a Python number is not finite.
        TypeError: if neither operand is an array.

    Guarantee:
        The exact product, rounded once. Backward: `grad_x = grad * conj(y)` and `grad_y = grad * conj(x)`, each summed over the copies of its
        operand and rounded once; a Python number gets no gradient (None). In bfloat16, float16 and float8, PyTorch rounds each product before it
        sums copies; the default budget does not allow for that (see `Budget.rounds_copies`).

    Example:
        >>> import exactref_jax as er
        >>> er.multiply.backward([1.0, 2.0], [[3.0], [4.0]], grad=[[1.0, 1.0], [1.0, 1.0]]).rounded.grad_x.tolist()
        [7.0, 7.0]
    """
    dtype = _dtype("multiply", x=x, y=y)
    _needs_array("multiply", x, y)
    names, sizes = _broadcast_letters("multiply", x=x, y=y)
    scale, factors = ONE, []
    for name, operand in (("x", x), ("y", y)):
        if is_scalar(operand):
            scale = _times(scale, scalar("multiply", name, _number(operand), dtype))
        else:
            factors.append((operand, aligned(np.shape(operand), names)))
    return contraction([(scale, factors, names)], names, sizes, dtype)


def sum(x: jax.Array, axis: Axis = None, keepdims: bool = False) -> jax.Array:
    """The sum over axes.

    Args:
        x: an array of any floating-point or complex dtype.
        axis: None for all axes, an axis, or several; negative ones count from the end. An empty tuple sums over none.
        keepdims: whether the summed axes stay, with size one.

    Returns:
        The reduced shape, in x's dtype.

    Raises:
        ValueError: for an axis out of range or given twice.

    Guarantee:
        The exact sum, rounded once; of nothing, +0. Half formats and float8 are budgeted with float32 accumulation and one final rounding.
        Backward: at every element of x the gradient of the output that it was summed into, exactly.

    Example:
        >>> import exactref_jax as er
        >>> er.sum(er.asarray([[1.0, 2.0], [3.0, 4.0]], "float32"), axis=-1).rounded.tolist()
        [3.0, 7.0]
    """
    dtype = _dtype("sum", x=x)
    axes = _axes(axis, x.ndim)
    names = letters(x.ndim)
    output = "".join(n for d, n in enumerate(names) if d not in axes)
    out = contraction([(ONE, [(x, names)], "")], output, dict(zip(names, x.shape, strict=True)), dtype)
    return jax.lax.reshape(out, tuple(1 if d in axes else s for d, s in enumerate(x.shape))) if keepdims else out


def _axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    given = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    axes = []
    for a in given:
        if isinstance(a, bool) or not isinstance(a, (int, np.integer)):
            raise TypeError(f"sum: axis is {axis!r}; wanted None, an int, or a tuple of ints.")
        if not -max(ndim, 1) <= a < max(ndim, 1):
            raise ValueError(f"sum: axis {a} is out of range for an array of {ndim} dimensions.")
        axes.append(int(a) % max(ndim, 1))
    if len(set(axes)) != len(axes):
        raise ValueError(f"sum: axis {axis!r} names a dimension twice.")
    return tuple(sorted(axes)) if ndim else ()


def _number(x: Any) -> Any:
    return int(x) if isinstance(x, bool) else x


def _needs_array(operation: str, x: Any, y: Any) -> None:
    if is_scalar(x) and is_scalar(y):
        raise TypeError(f"{operation}: x and y are both Python numbers; wanted at least one array (see er.asarray).")


def _broadcast_letters(operation: str, **operands: Any) -> tuple[str, dict[str, int]]:
    shape = broadcast_shapes(operation, **{k: () if is_scalar(v) else v.shape for k, v in operands.items()})
    names = letters(len(shape))
    return names, dict(zip(names, shape, strict=True))


def _times(a: Scale, b: Scale) -> Scale:
    if not a[1] and not b[1]:  # keeps the sign of a zero
        return a[0] * b[0], Fraction(0)
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]
