"""Additive: each input element is added into one output element. The transpose of a movement.

For reduce_sum and cumsum that is said directly. For scatter-add and window sums the primitive's own transpose, run on the output's indices, tells
where each input element goes; the arithmetic sums the segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..jax_compat import enable_x64
from ..values import Complex, Datum, Value, is_real, move, pool
from .discrete import discrete
from .movement import pad_plane
from .order import global_ranks
from .table import Equation, register


def by_part(f: Any, x: Datum) -> Datum:
    """A linear function of a value, or of the two parts of a complex one."""
    return Complex(f(x.real), f(x.imag), x.dtype) if isinstance(x, Complex) else f(x)


@register("reduce_sum")
def _reduce_sum(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    if not is_real(x):
        return equation.bind(x)
    axes = tuple(int(a) for a in equation.params["axes"])
    return [by_part(lambda v: arithmetic.sum(v, axes), x)]


@register("cumsum", "cumprod", "cummax", "cummin")
def _cumulative(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    if not is_real(x):
        return equation.bind(x)
    p = equation.params
    if equation.name == "cumsum":
        return [by_part(lambda v: arithmetic.cumulative("cumsum", v, p["axis"], p["reverse"]), x)]
    return [arithmetic.cumulative(equation.name, x, p["axis"], p["reverse"])]


def destinations(equation: Equation, operands: Sequence[Any], added: Sequence[int]) -> np.ndarray:
    """For each element of the `added` operands, flattened one after the other, the output element into which it is added; -1: dropped.

    The primitive is linear in them, with coefficients 0 and 1; its transpose takes the output's indices back. Indices plus one are exact in
    float64 below 2**53, and a dropped element receives 0.
    """
    with enable_x64():

        def linear(*chosen: Any) -> Any:
            full = [jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in operands]
            for place, value in zip(added, chosen, strict=True):
                full[place] = value
            return equation.primitive.bind(*full, **equation.params)

        shapes = [jax.ShapeDtypeStruct(operands[i].shape, jnp.float64) for i in added]
        size = int(np.prod(equation.shapes[0], dtype=np.int64))
        ids = jnp.arange(1, size + 1, dtype=jnp.float64).reshape(equation.shapes[0])
        back = jax.linear_transpose(linear, *shapes)(ids)
    return np.concatenate([np.asarray(b).reshape(-1) for b in back]).astype(np.int64) - 1


def _add_into(arithmetic: Any, equation: Equation, values: Sequence[Datum], where: np.ndarray) -> Datum:
    shape = equation.shapes[0]
    size = int(np.prod(shape, dtype=np.int64))

    def one(flat: Value) -> Value:
        return move(lambda p: p.reshape(shape), arithmetic.segment_sum(flat, where, size))

    return by_part(one, pool(values))


@register("scatter-add", "scatter_add")
def _scatter_add(arithmetic: Any, equation: Equation, x: Datum, indices: Datum, updates: Datum) -> list[Datum]:
    if not is_real(x):
        return equation.bind(x, indices, updates)
    where = destinations(equation, [x, np.asarray(indices), updates], [0, 2])
    return [_add_into(arithmetic, equation, [x, updates], where)]


@register("reduce_window_sum")
def _reduce_window_sum(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    """Windows may overlap, so an element is added into several outputs: the primitive on indices, window element by window element."""
    if not is_real(x):
        return equation.bind(x)
    p = equation.params
    window = [int(w) for w in p["window_dimensions"]]
    padding = [(int(a), int(b)) for a, b in p["padding"]]
    base = [int(d) for d in p["base_dilation"]]
    config = [(lo, hi, d - 1) for (lo, hi), d in zip(padding, base, strict=True)]

    def windows(part: Value) -> Value:
        zero = arithmetic.lift(np.zeros(()), part.dtype)
        padded = move(lambda q, v: pad_plane(q, v, config), part, zero)
        pieces = []
        for offset in np.ndindex(*window):
            cut = tuple(
                slice(o * int(d), o * int(d) + (n - 1) * int(s) + 1, int(s))
                for o, d, s, n in zip(offset, p["window_dilation"], p["window_strides"], equation.shapes[0], strict=True)
            )
            pieces.append(move(lambda q, cut=cut: q[cut], padded))
        stacked = move(lambda *planes: np.stack(planes, 0), *pieces)
        return arithmetic.sum(stacked, (0,))

    return [by_part(windows, x)]


@register("select_and_scatter_add")
def _select_and_scatter_add(arithmetic: Any, equation: Equation, source: Datum, operand: Datum) -> list[Datum]:
    """The gradient of a window maximum: the primitive chooses on exact ranks where each source element is added."""
    ranks, doubt = global_ranks(arithmetic, operand)
    where = destinations(equation, [source, ranks], [0])
    out = [_add_into(arithmetic, equation, [source], where)]
    return arithmetic.taint(out, "the largest element of a window") if doubt else out


@register("reduce_prod")
def _reduce_prod(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    """A product, in any order."""
    if not is_real(x):
        return discrete(arithmetic, equation, x)
    axes = tuple(int(a) for a in equation.params["axes"])
    kept = [a for a in range(len(x.shape)) if a not in axes]
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    rows = move(lambda p: p.transpose([*axes, *kept]).reshape([count, *(x.shape[a] for a in kept)]), x)
    if not rows.shape[0]:
        return [arithmetic.lift(np.ones(equation.shapes[0]), x.dtype)]
    total = move(lambda p: p[0], rows)
    for i in range(1, rows.shape[0]):
        total = arithmetic.elementwise("mul", total, move(lambda p, i=i: p[i], rows))
    return [arithmetic.reordered_product(total, rows)]
