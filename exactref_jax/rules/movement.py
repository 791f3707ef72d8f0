"""Movement: each output element is one input element (or a fill), so a rule moves the planes of a value and computes nothing.

NumPy one-liners for the common ones: binding the primitive compiles it once per shape. The primitive itself, run on an array of indices, for
gather and scatter. The tests hold each one-liner against its primitive run on indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..values import Complex, Datum, Decision, concatenate, flat_index, is_real, move, pool, take
from .table import Equation, register


def _moves(name: str) -> Callable[[Callable[..., np.ndarray]], Callable[..., np.ndarray]]:
    """Register `f(plane, equation)`, which moves one plane, as the rule of a primitive with one moved operand."""

    def decorate(f: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        @register(name, decisions=True)
        def rule(arithmetic: Any, equation: Equation, x: Datum, *_: Datum) -> list[Datum]:
            return [move(lambda plane: f(plane, equation), x)]

        return f

    return decorate


@_moves("reshape")
def reshape(x: np.ndarray, equation: Equation) -> np.ndarray:
    """Same elements, row-major, in another shape."""
    return x.reshape(equation.shapes[0])


@_moves("squeeze")
def squeeze(x: np.ndarray, equation: Equation) -> np.ndarray:
    """Dimensions of size one dropped."""
    return x.reshape(equation.shapes[0])


@_moves("expand_dims")
def expand_dims(x: np.ndarray, equation: Equation) -> np.ndarray:
    """Dimensions of size one added."""
    return x.reshape(equation.shapes[0])


@_moves("transpose")
def transpose(x: np.ndarray, equation: Equation) -> np.ndarray:
    """Dimensions permuted."""
    return x.transpose(equation.params["permutation"])


@_moves("broadcast_in_dim")
def broadcast_in_dim(x: np.ndarray, equation: Equation) -> np.ndarray:
    """Copies along new dimensions and along those of size one."""
    shape = equation.shapes[0]
    aligned = [1] * len(shape)
    for size, dimension in zip(x.shape, equation.params["broadcast_dimensions"], strict=True):
        aligned[dimension] = size
    return np.broadcast_to(x.reshape(aligned), shape)


@_moves("slice")
def slice_(x: np.ndarray, equation: Equation) -> np.ndarray:
    """Every stride-th element from start to limit."""
    p = equation.params
    strides = p["strides"] or [1] * x.ndim
    return x[tuple(slice(int(a), int(b), int(s)) for a, b, s in zip(p["start_indices"], p["limit_indices"], strides, strict=True))]


@_moves("rev")
def rev(x: np.ndarray, equation: Equation) -> np.ndarray:
    """Order reversed along dimensions."""
    return np.flip(x, equation.params["dimensions"])


@_moves("tile")
def tile(x: np.ndarray, equation: Equation) -> np.ndarray:
    """The whole array repeated along each dimension."""
    return np.tile(x, equation.params["reps"]).reshape(equation.shapes[0])


@register("concatenate", decisions=True)
def _concatenate(arithmetic: Any, equation: Equation, *xs: Datum) -> list[Datum]:
    return [concatenate(xs, equation.params["dimension"])]


@register("stack", decisions=True)
def _stack(arithmetic: Any, equation: Equation, *xs: Datum) -> list[Datum]:
    return [move(lambda *planes: np.stack(planes, equation.params["axis"]), *xs)]


@register("unstack", decisions=True)
def _unstack(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    axis = equation.params["axis"]
    return [move(lambda p, i=i: np.take(p, i, axis), x) for i in range(x.shape[axis])]


@register("split", decisions=True)
def _split(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    axis = equation.params["axis"]
    ends = np.cumsum([int(s) for s in equation.params["sizes"]])
    cuts = [(slice(None),) * axis + (slice(int(b) - int(s), int(b)),) for s, b in zip(equation.params["sizes"], ends, strict=True)]
    return [move(lambda p, cut=cut: p[cut], x) for cut in cuts]


def pad_plane(x: np.ndarray, fill: np.ndarray, config: Any) -> np.ndarray:
    """XLA's pad: `interior` fills between elements, `low` and `high` at the ends, negative ones cut off."""
    spread = [max(n + max(n - 1, 0) * int(inner), 0) for n, (_, _, inner) in zip(x.shape, config, strict=True)]
    shape = [max(int(lo), 0) + n + max(int(hi), 0) for n, (lo, hi, _) in zip(spread, config, strict=True)]
    out = np.empty(shape, x.dtype)
    out[...] = fill.reshape(())[()]
    inside = tuple(slice(max(int(lo), 0), max(int(lo), 0) + n, int(inner) + 1) for n, (lo, _, inner) in zip(spread, config, strict=True))
    out[inside] = x
    keep = tuple(slice(max(-int(lo), 0), n - max(-int(hi), 0)) for n, (lo, hi, _) in zip(shape, config, strict=True))
    return out[keep]


@register("pad", decisions=True)
def _pad(arithmetic: Any, equation: Equation, x: Datum, fill: Datum) -> list[Datum]:
    return [move(lambda p, v: pad_plane(p, v, equation.params["padding_config"]), x, fill)]


def _clamped(starts: Any, shape: tuple[int, ...], sizes: tuple[int, ...]) -> list[int]:
    """Starts of a dynamic slice, moved inside as XLA does."""
    return [min(max(int(s), 0), n - k) for s, n, k in zip(starts, shape, sizes, strict=True)]


@register("dynamic_slice")
def _dynamic_slice(arithmetic: Any, equation: Equation, x: Datum, *starts: Datum) -> list[Datum]:
    sizes = tuple(int(s) for s in equation.params["slice_sizes"])
    window = tuple(slice(a, a + k) for a, k in zip(_clamped(starts, x.shape, sizes), sizes, strict=True))
    return [move(lambda p: p[window], x)]


@register("dynamic_update_slice")
def _dynamic_update_slice(arithmetic: Any, equation: Equation, x: Datum, update: Datum, *starts: Datum) -> list[Datum]:
    window = tuple(slice(a, a + k) for a, k in zip(_clamped(starts, x.shape, update.shape), update.shape, strict=True))

    def put(plane: np.ndarray, new: np.ndarray) -> np.ndarray:
        out = np.array(plane)
        out[window] = new
        return out

    return [move(put, x, update)]


@register("gather")
def _gather(arithmetic: Any, equation: Equation, x: Datum, indices: Datum) -> list[Datum]:
    """The primitive on indices; out of bounds in fill mode becomes the fill value, NaN if none is given."""
    if not is_real(x):
        return equation.bind(x, indices)
    where = equation.bind(flat_index(x.shape), indices, fill_value=-1)[0]
    if not (where < 0).any():
        return [take(x, where)]
    fill = equation.params["fill_value"]
    missing = arithmetic.lift(np.array([np.nan if fill is None else fill], np.float64), (x.real if isinstance(x, Complex) else x).dtype)
    missing = Complex(missing, missing, x.dtype) if isinstance(x, Complex) else missing
    return [take(pool([x, missing]), np.where(where < 0, x.size, where))]


@register("scatter")
def _scatter(arithmetic: Any, equation: Equation, x: Datum, indices: Datum, updates: Datum) -> list[Datum]:
    """The primitive on indices of both operand and updates."""
    if not is_real(x):
        return equation.bind(x, indices, updates)
    where = equation.bind(flat_index(x.shape), indices, flat_index(updates.shape) + x.size)[0]
    return [take(pool([x, updates]), where)]


@register("select_n", "choose", decisions=True)
def _select_n(arithmetic: Any, equation: Equation, which: Datum, *cases: Datum) -> list[Datum]:
    """`cases[which]`: movement, once it is decided which."""
    if isinstance(cases[0], Complex):
        real, imag = (arithmetic.select(which, [getattr(c, part) for c in cases]) for part in ("real", "imag"))
        return [Complex(real, imag, cases[0].dtype)]
    if is_real(cases[0]):
        return [arithmetic.select(which, cases)]
    index = which.array if isinstance(which, Decision) else np.asarray(which)
    arrays = [c.array if isinstance(c, Decision) else np.asarray(c) for c in cases]
    shape = equation.shapes[0]
    place = np.clip(np.broadcast_to(index.astype(np.int64), shape), 0, len(cases) - 1)
    out = np.choose(place, arrays) if len(cases) <= 32 else np.take_along_axis(np.stack(arrays), place[None], 0)[0]
    doubt = np.zeros(shape, bool)
    if isinstance(which, Decision):
        same = np.all([a == arrays[0] for a in arrays], axis=0)
        doubt = doubt | (np.broadcast_to(which.doubt, shape) & ~same)
    doubts = [c.doubt if isinstance(c, Decision) else np.zeros(shape, bool) for c in cases]
    doubt = doubt | np.take_along_axis(np.stack(doubts), place[None], 0)[0]
    return [Decision(out.astype(equation.dtypes[0]), doubt) if doubt.any() else out.astype(equation.dtypes[0])]
