"""Defining a JAX primitive whole: every rule it needs, or an error where it is defined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir


def batched_in_front(operands: Sequence[Any], axes: Sequence[int | None]) -> list[Any]:
    """All operands with the batched axis in front, copied where they are not batched."""
    (size,) = {x.shape[d] for x, d in zip(operands, axes, strict=True) if d is not None}
    return [jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, axes, strict=True)]


def define(
    name: str,
    *,
    static: tuple[str, ...],
    abstract: Callable[..., Any],
    lowering: Callable[..., Any],
    jvp: Callable[..., Any],
    transpose: Callable[..., Any],
    batch: Callable[..., Any],
) -> Primitive:
    """A primitive with one output and all its rules. Leaving one out is a TypeError.

    Args:
        name: its name in jaxprs.
        static: names of its parameters, which must be hashable.
        abstract: shapes and dtypes of operands (and parameters) → the output's `ShapedArray`.
        lowering: an ordinary implementation in JAX, used to run and to compile it.
        jvp: primals, tangents → output and its tangent.
        transpose: cotangent, operands → cotangents.
        batch: operands, batched axes → output, its batched axis.
    """
    primitive = Primitive(name)
    primitive.def_abstract_eval(abstract)
    primitive.def_impl(jax.jit(lowering, static_argnames=static))
    mlir.register_lowering(primitive, mlir.lower_fun(lowering, multiple_results=False))
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    return primitive
