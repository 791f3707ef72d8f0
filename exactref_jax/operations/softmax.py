"""The softmax of attention, and its derivative, as two primitives.

`attention_softmax(s)` is, along the last axis, `exp(s - max s) / sum exp(s - max s)`, and a row of zeros where every score is `-inf` (PyTorch's
`_safe_softmax`). Its derivative `softmax_derivative(p, x) = p (x - sum p x)` is linear in `x` and its own transpose, because the matrix
`diag(p) - p p^T` is symmetric: so the traced backward of attention is `dS = P (dP - D)` with `D = sum P dP`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax.core import ShapedArray
from jax.interpreters import ad

from .primitive import batched_in_front, define


def softmax_lowering(scores: Any) -> Any:
    """An ordinary implementation, in the order in which PyTorch's math path computes it; special values follow from that order."""
    largest = jnp.max(scores, axis=-1, keepdims=True, initial=-jnp.inf)
    dead = largest == -jnp.inf
    exponentials = jnp.exp(scores - jnp.where(dead, jnp.zeros_like(largest), largest))
    total = jnp.sum(exponentials, axis=-1, keepdims=True)
    return jnp.where(dead, jnp.zeros_like(scores), exponentials / total)


def derivative_lowering(probabilities: Any, x: Any) -> Any:
    """`p (x - sum p x)`, in that order."""
    mean = jnp.sum(probabilities * x, axis=-1, keepdims=True)
    return probabilities * (x - mean)


def _same(*operands: Any) -> ShapedArray:
    return ShapedArray(operands[0].shape, operands[0].dtype)


def _softmax_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    probabilities = softmax_p.bind(*primals)
    return probabilities, derivative_p.bind(probabilities, ad.instantiate_zeros(tangents[0]))


def _derivative_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Second derivatives: of its lowering, which JAX differentiates."""
    import jax

    return jax.jvp(derivative_lowering, tuple(primals), tuple(ad.instantiate_zeros(t) for t in tangents))


def _derivative_transpose(cotangent: Any, probabilities: Any, x: Any) -> list[Any]:
    if ad.is_undefined_primal(probabilities):
        raise NotImplementedError("softmax_derivative is linear in its second operand only")
    return [None, ad.Zero(x.aval) if type(cotangent) is ad.Zero else derivative_p.bind(probabilities, cotangent)]


def _no_transpose(cotangent: Any, scores: Any) -> list[Any]:
    raise NotImplementedError("attention_softmax is not linear")


softmax_p = define(
    "attention_softmax",
    static=(),
    abstract=_same,
    lowering=softmax_lowering,
    jvp=_softmax_jvp,
    transpose=_no_transpose,
    batch=lambda operands, axes: (softmax_p.bind(*batched_in_front(operands, axes)), 0),
)
derivative_p = define(
    "softmax_derivative",
    static=(),
    abstract=_same,
    lowering=derivative_lowering,
    jvp=_derivative_jvp,
    transpose=_derivative_transpose,
    batch=lambda operands, axes: (derivative_p.bind(*batched_in_front(operands, axes)), 0),
)

#: Primitives that are interpreted through their lowering.
LOWERINGS = {"attention_softmax": softmax_lowering, "softmax_derivative": derivative_lowering}
