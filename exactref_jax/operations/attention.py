"""scaled_dot_product_attention: two contractions with a softmax between them."""

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..formats import is_floating
from .contraction import Scale, aligned, broadcast_shapes, contraction, letters
from .softmax import softmax_p

NAME = "scaled_dot_product_attention"
_DTYPES = ("float64", "float32", "float16", "bfloat16")


def scaled_dot_product_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> jax.Array:
    """`softmax(scale * query @ key^T + mask) @ value`, with PyTorch's signature.

    Args:
        query: shape (..., heads, L, E) or (..., L, E), float64, float32, float16 or bfloat16.
        key: shape (..., S, E), of the same dtype.
        value: shape (..., S, Ev), of the same dtype. Batch dimensions broadcast.
        attn_mask: booleans (True: may attend), or numbers added to the scaled scores, of a shape that broadcasts into (..., L, S); of the operands'
            dtype, or float32. It gets no gradient.
        dropout_p: must be 0.
        is_causal: position i attends to the keys 0 to i (aligned top left where L and S differ). Not together with `attn_mask`.
        scale: a real number, exactly as given. By default the real number `1 / sqrt(E)`, which is not rounded.
        enable_gqa: whether several heads of `query` (dimension -3) may share one of `key` and `value`.

    Returns:
        Shape (..., L, Ev), of the operands' dtype.

    Raises:
        ValueError: if shapes do not fit, `dropout_p` is not 0, or `attn_mask` is given with `is_causal`.
        TypeError: if dtypes differ or have no attention.

    Guarantee:
        Each element is the exact value, rounded once; nothing between is rounded. A row that may attend to nothing is zero. Backward:
        `grad_query`, `grad_key`, `grad_value`, each summed over the copies of its operand and rounded once. Special values are those of PyTorch's math
        path. The tolerance is that of the same path (`er.AttentionAlgorithm.math()`); a fused kernel has another.

    Example:
        >>> import exactref_jax as er
        >>> q, k = er.asarray([[1.0, 2.0]], "float32"), er.asarray([[3.0, -1.0], [3.0, -1.0]], "float32")
        >>> er.scaled_dot_product_attention(q, k, er.asarray([[1.0], [3.0]], "float32")).rounded.tolist()
        [[2.0]]
    """
    check(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if scale is not None and (isinstance(scale, bool) or not isinstance(scale, numbers.Real)):
        raise TypeError(f"{NAME}: scale is {scale!r}; wanted a real number or None.")
    dtype = query.dtype
    working = jnp.float64 if dtype == jnp.float64 else jnp.float32
    q, k, v = (lax.convert_element_type(x, working) for x in (query, key, value))
    factor, root = _scale(scale, query.shape[-1])
    scores = _product(q, k, "le", "se", "ls", enable_gqa, factor, root)
    if scale is not None and not math.isfinite(scale):
        scores = scores * jnp.asarray(jnp.nan, working)
    bias = _bias(attn_mask, is_causal, scores.shape, working)
    probabilities = softmax_p.bind(scores if bias is None else scores + bias)
    out = _product(probabilities, v, "ls", "se", "le", enable_gqa, (Fraction(1), Fraction(0)), 1)
    return lax.convert_element_type(out, dtype)


def _product(x: Any, y: Any, names_x: str, names_y: str, names_out: str, shared_heads: bool, scale: Scale, root: int) -> Any:
    """A batched matrix product, where each head of `y` may serve a group of heads of `x`."""
    shape_x, shape_y = x.shape, y.shape
    groups = shape_x[-3] // shape_y[-3] if shared_heads and len(shape_x) > 2 and len(shape_y) > 2 and shape_y[-3] else 1
    if groups > 1:
        x = jnp.reshape(x, (*shape_x[:-3], shape_y[-3], groups, *shape_x[-2:]))
        batch = (*broadcast_shapes(NAME, x=shape_x[:-3], y=shape_y[:-3]), shape_y[-3])
        b = letters(len(batch), "lseg")
        letters_x, letters_y, letters_out = b[len(b) - len(shape_x) + 2 :] + "g" + names_x, aligned(shape_y[:-2], b) + names_y, b + "g" + names_out
    else:
        batch = broadcast_shapes(NAME, x=shape_x[:-2], y=shape_y[:-2])
        b = letters(len(batch), "lseg")
        letters_x, letters_y, letters_out = aligned(shape_x[:-2], b) + names_x, aligned(shape_y[:-2], b) + names_y, b + names_out
    sizes = dict(zip(b, batch, strict=True)) | {"g": groups}
    sizes |= dict(zip(names_x, shape_x[-2:], strict=True)) | dict(zip(names_y, shape_y[-2:], strict=True))
    out = contraction([(scale, [(x, letters_x), (y, letters_y)], b)], letters_out, sizes, x.dtype, root)
    return jnp.reshape(out, (*out.shape[:-4], out.shape[-4] * groups, *out.shape[-2:])) if groups > 1 else out


def _scale(scale: float | None, features: int) -> tuple[Scale, int]:
    """The scale as a rational number and a root: by default `1 / sqrt(E) = (1 / E) sqrt(E)`."""
    if scale is None:
        return ((Fraction(1, features), Fraction(0)), features) if features else ((Fraction(1), Fraction(0)), 1)
    return (Fraction(scale) if math.isfinite(scale) else Fraction(1), Fraction(0)), 1


def _bias(mask: Any, is_causal: bool, shape: tuple[int, ...], dtype: Any) -> Any:
    """What is added to the scores: 0 or -inf for a boolean or causal mask, and a float mask itself."""
    if is_causal:
        mask = np.tril(np.ones(shape[-2:], bool))
    if mask is None:
        return None
    if mask.dtype == bool:
        return jnp.where(mask, jnp.zeros((), dtype), jnp.full((), -jnp.inf, dtype))
    return lax.stop_gradient(lax.convert_element_type(mask, dtype))


def check(query: Any, key: Any, value: Any, mask: Any, dropout_p: Any, is_causal: Any, enable_gqa: Any) -> None:
    """Raise for operands that no attention takes; see `scaled_dot_product_attention`."""
    operands = {"query": query, "key": key, "value": value}
    for name, x in operands.items():
        if x.ndim < 2:
            raise ValueError(f"{NAME}: {name} has shape {list(x.shape)}; wanted at least two dimensions.")
        if not is_floating(x.dtype) or x.dtype.name not in _DTYPES:
            raise TypeError(f"{NAME}: {name} is {x.dtype}; wanted one of {', '.join(_DTYPES)}.")
        if x.dtype != query.dtype:
            raise TypeError(f"{NAME}: {name} is {x.dtype}, but query is {query.dtype}; wanted one dtype.")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"{NAME}: the last dimensions of query and key must agree; given {list(query.shape)} and {list(key.shape)}.")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"{NAME}: the second to last dimensions of key and value must agree; given {list(key.shape)} and {list(value.shape)}.")
    if isinstance(dropout_p, bool) or not isinstance(dropout_p, numbers.Real) or dropout_p != 0:
        raise ValueError(f"{NAME}: dropout_p is {dropout_p!r}; wanted 0: there is no exact value of a random result.")
    shape = _score_shape(operands, bool(enable_gqa))
    if mask is None:
        return
    if is_causal:
        raise ValueError(f"{NAME}: attn_mask and is_causal are both given; wanted one of them. Put the causal part into the mask: mask & tril(ones(L, S)).")
    if mask.dtype != bool and mask.dtype != query.dtype and mask.dtype.name != "float32":
        raise TypeError(f"{NAME}: attn_mask is {mask.dtype}; wanted bool, {query.dtype} or float32.")
    try:
        fits = np.broadcast_shapes(mask.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{NAME}: attn_mask has shape {list(mask.shape)}; wanted one that broadcasts into {list(shape)}.")


def _score_shape(operands: dict[str, Any], enable_gqa: bool) -> tuple[int, ...]:
    query, key, _ = operands.values()
    batches = {name: x.shape[:-2] for name, x in operands.items()}
    if enable_gqa:
        for name, x in operands.items():
            if x.ndim < 3:
                raise ValueError(f"{NAME}: enable_gqa needs a dimension of heads; {name} has shape {list(x.shape)}.")
            if name != "query" and (x.shape[-3] == 0 or query.shape[-3] % x.shape[-3]):
                raise ValueError(f"{NAME}: the {x.shape[-3]} heads of {name} do not divide the {query.shape[-3]} heads of query.")
        batches = {name: (*b[:-1], query.shape[-3]) for name, b in batches.items()}
    broadcast_shapes(NAME, **batches)
    del batches["value"]
    return (*broadcast_shapes(NAME, **batches), query.shape[-2], key.shape[-2])
