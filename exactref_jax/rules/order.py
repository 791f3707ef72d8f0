"""Order: what depends on its operands through comparisons only, decided by the sign of a difference.

Comparisons are of exact values, and an exact tie is a tie. A comparison that cannot be decided is never guessed: it travels as a `Decision` in doubt.
Sorting orders the exact values once and then moves; ties fall as they do in JAX (stable, first index, NaN last).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..values import Complex, Datum, Decision, Value, decision, flat_index, is_real, move, pool, take
from .discrete import discrete
from .table import Equation, register, unsupported

_TESTS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "lt": lambda sign, unordered: (sign < 0) & ~unordered,
    "le": lambda sign, unordered: (sign <= 0) & ~unordered,
    "gt": lambda sign, unordered: (sign > 0) & ~unordered,
    "ge": lambda sign, unordered: (sign >= 0) & ~unordered,
    "eq": lambda sign, unordered: (sign == 0) & ~unordered,
    "ne": lambda sign, unordered: (sign != 0) | unordered,
}


def _comparison(name: str) -> None:
    @register(name, decisions=True)
    def rule(arithmetic: Any, equation: Equation, x: Datum, y: Datum) -> list[Datum]:
        if not is_real(x):
            return discrete(arithmetic, equation, x, y)
        if isinstance(x, Complex):
            return [_complex_comparison(arithmetic, equation, x, y)]
        sign, unordered, doubt = arithmetic.compare(x, y)
        return [decision(np.asarray(_TESTS[name](sign, unordered)), doubt)]


for _name in _TESTS:
    _comparison(_name)


def _total_order(name: str) -> None:
    """The total order of sorting: -0 below +0, NaN above all."""

    @register(name, decisions=True)
    def rule(arithmetic: Any, equation: Equation, x: Datum, y: Datum) -> list[Datum]:
        if not is_real(x):
            return equation.bind(x, y)
        sign, _, doubt = arithmetic.compare(x, y)
        x_nan, y_nan = _is_nan(arithmetic, x), _is_nan(arithmetic, y)
        minus = [arithmetic.is_negative_zero(v).astype(np.int8) for v in (x, y)]
        order = np.where(sign == 0, minus[1] - minus[0], sign)
        order = np.where(x_nan | y_nan, x_nan.astype(np.int8) - y_nan.astype(np.int8), order)
        found = {"lt_to": order < 0, "le_to": order <= 0, "eq_to": order == 0}[name]
        return [decision(np.asarray(found), doubt & ~x_nan & ~y_nan)]


for _name in ("lt_to", "le_to", "eq_to"):
    _total_order(_name)


def _complex_comparison(arithmetic: Any, equation: Equation, x: Complex, y: Complex) -> Datum:
    """Complex numbers are equal where both parts are."""
    if equation.name not in ("eq", "ne"):
        raise unsupported(equation, "Complex numbers have no order.")
    results = [arithmetic.compare(a, b) for a, b in ((x.real, y.real), (x.imag, y.imag))]
    equal = [_TESTS["eq"](sign, unordered) for sign, unordered, _ in results]
    doubts = [doubt for _, _, doubt in results]
    # A part that certainly differs settles it.
    doubt = (doubts[0] & (equal[1] | doubts[1])) | (doubts[1] & (equal[0] | doubts[0]))
    both = equal[0] & equal[1]
    return decision(both if equation.name == "eq" else ~both, doubt)


@register("max", "min")
def _extreme(arithmetic: Any, equation: Equation, x: Datum, y: Datum) -> list[Datum]:
    if not is_real(x):
        return discrete(arithmetic, equation, x, y)
    if isinstance(x, Complex):
        raise unsupported(equation, "Complex numbers have no order.")
    return [arithmetic.maximum(x, y) if equation.name == "max" else arithmetic.minimum(x, y)]


@register("clamp")
def _clamp(arithmetic: Any, equation: Equation, low: Datum, x: Datum, high: Datum) -> list[Datum]:
    if not is_real(x):
        return discrete(arithmetic, equation, low, x, high)
    return [arithmetic.minimum(arithmetic.maximum(x, low), high)]


@register("reduce_max", "reduce_min")
def _reduce_extreme(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    """By halves: the larger of two, of four, ..., so that at most ceil(log2 n) comparisons lie behind a result."""
    if not is_real(x):
        return equation.bind(x)
    larger = arithmetic.maximum if equation.name == "reduce_max" else arithmetic.minimum
    rows = _reduced_first(x, equation.params["axes"])
    if not rows.shape[0]:
        return [arithmetic.lift(np.full(equation.shapes[0], -np.inf if equation.name == "reduce_max" else np.inf), x.dtype)]
    while rows.shape[0] > 1:
        half, rest = rows.shape[0] // 2, rows.shape[0] % 2
        pairs = larger(move(lambda p, h=half: p[:h], rows), move(lambda p, h=half: p[h : 2 * h], rows))
        rows = move(lambda p, q: np.concatenate([p, q]), pairs, move(lambda p, r=rest: p[len(p) - r :], rows)) if rest else pairs
    return [move(lambda p: p[0], rows)]


def _reduced_first(x: Datum, axes: Sequence[int]) -> Datum:
    """The reduced axes flattened, row-major, and put first."""
    axes = [int(a) for a in axes]
    kept = [a for a in range(len(x.shape)) if a not in axes]
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    return move(lambda p: p.transpose([*axes, *kept]).reshape([count, *(x.shape[a] for a in kept)]), x)


@register("argmax", "argmin")
def _arg_extreme(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    """The first index of the largest element; of the first NaN, if there is one.

    A running winner is found first; then it is held against every element once more, so that only comparisons with the winner can be in doubt.
    """
    if not is_real(x):
        return equation.bind(x)
    direction = 1 if equation.name == "argmax" else -1
    rows = _reduced_first(x, equation.params["axes"])
    best = np.zeros(rows.shape[1:], np.int64)

    def at(index: np.ndarray) -> Value:
        return move(lambda p: np.take_along_axis(p, index[None], 0)[0], rows)

    for i in range(1, rows.shape[0]):
        challenger, champion = move(lambda p, i=i: p[i], rows), at(best)
        sign, unordered, _ = arithmetic.compare(challenger, champion)
        is_nan = [_is_nan(arithmetic, v) for v in (challenger, champion)]
        wins = np.where(unordered, is_nan[0] & ~is_nan[1], sign == direction)
        best = np.where(wins, i, best)
    doubt = np.zeros(best.shape, bool)
    champion = at(best)
    for i in range(rows.shape[0]):
        _, _, open_ = arithmetic.compare(move(lambda p, i=i: p[i], rows), champion)
        doubt |= open_ & (best != i)
    return [decision(best.astype(equation.dtypes[0]), doubt)]


def _is_nan(arithmetic: Any, x: Value) -> np.ndarray:
    _, unordered, _ = arithmetic.compare(x, x)
    return unordered


# Sorting ------------------------------------------------------------------------------------------------------------------


def line_ranks(arithmetic: Any, x: Value) -> tuple[np.ndarray, np.ndarray]:
    """Dense ranks along the last axis: equal numbers have equal ranks, NaN the highest; and which elements' places are in doubt.

    A float64 approximation proposes an order; adjacent elements are then compared exactly, and exchanged until none is out of order.
    """
    n = x.shape[-1]
    flat = move(lambda p: p.reshape(-1, n), x)
    lines = flat.shape[0]
    if n == 0 or lines == 0:
        return np.zeros(x.shape, np.int64), np.zeros(x.shape, bool)
    guess = arithmetic.approximate(flat)
    order = np.argsort(guess, axis=1, kind="stable")
    place = flat_index(flat.shape)[:, :1] + 0
    while True:
        ordered = take(flat, place + order)
        left, right = (move(lambda p, s=s: p[:, s], ordered) for s in (slice(0, n - 1), slice(1, n)))
        sign, unordered, doubt = arithmetic.compare(left, right)
        nan = _is_nan(arithmetic, ordered)
        sign = np.where(unordered, np.where(nan[:, :-1] & nan[:, 1:], 0, np.where(nan[:, 1:], -1, 1)), sign)
        wrong = sign > 0
        if not wrong.any():
            break
        order = _exchange(order, wrong)  # each exchange undoes one inversion, so this ends
    ranks = np.concatenate([np.zeros((lines, 1), np.int64), np.cumsum(sign < 0, axis=1)], axis=1)
    near = np.zeros(flat.shape, bool)
    near[:, :-1] |= doubt
    near[:, 1:] |= doubt
    near |= np.take_along_axis(arithmetic.overlapping(flat), order, axis=1)
    out, open_ = np.empty(flat.shape, np.int64), np.empty(flat.shape, bool)
    np.put_along_axis(out, order, ranks, axis=1)
    np.put_along_axis(open_, order, near, axis=1)
    return out.reshape(x.shape), open_.reshape(x.shape)


def _exchange(order: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """One pass of exchanges of adjacent elements, each element exchanged once at most."""
    order = order.copy()
    for row, bad in zip(order, wrong, strict=True):
        i = 0
        while i < len(bad):
            if bad[i]:
                row[i], row[i + 1] = row[i + 1], row[i]
                i += 1
            i += 1
    return order


def global_ranks(arithmetic: Any, x: Value) -> tuple[np.ndarray, bool]:
    """Ranks of all elements together, as float64 with NaN for NaN, and whether any is in doubt."""
    ranks, doubt = line_ranks(arithmetic, move(lambda p: p.reshape(1, -1), x))
    out = ranks.reshape(x.shape).astype(np.float64)
    return np.where(_is_nan(arithmetic, x), np.nan, out), bool(doubt.any())


@register("sort")
def _sort(arithmetic: Any, equation: Equation, *xs: Datum) -> list[Datum]:
    """Stable, by the first `num_keys` operands in turn; the others are carried along."""
    if not any(is_real(x) for x in xs):
        return equation.bind(*xs)
    axis, keys = equation.params["dimension"], equation.params["num_keys"]
    last = [move(lambda p: np.moveaxis(p, axis, -1), x) for x in xs]
    ranks, doubt = [], np.zeros(last[0].shape, bool)
    for x in last[:keys]:
        if is_real(x):
            rank, open_ = line_ranks(arithmetic, x)
            ranks.append(rank)
            doubt |= open_
        else:
            ranks.append(np.asarray(x))
    permutation = np.lexsort(ranks[::-1], axis=-1)
    return _reorder(arithmetic, last, keys, permutation, doubt, axis)


@register("top_k")
def _top_k(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    """The k largest, largest first, of equal ones the first; and their indices."""
    if not is_real(x):
        return equation.bind(x)
    k, axis = equation.params["k"], equation.params.get("axis", len(x.shape) - 1)
    last = move(lambda p: np.moveaxis(p, axis, -1), x)
    ranks, doubt = line_ranks(arithmetic, last)
    permutation = np.lexsort([-ranks], axis=-1)[..., :k]
    indices = np.broadcast_to(np.arange(last.shape[-1]), last.shape).astype(equation.dtypes[1])
    return _reorder(arithmetic, [last, indices], 1, permutation, doubt, axis)


def _reorder(arithmetic: Any, xs: Sequence[Datum], keys: int, permutation: np.ndarray, doubt: np.ndarray, axis: int) -> list[Datum]:
    """Each operand in sorted order; where an element's place is in doubt, as the arithmetic has it."""
    open_ = np.take_along_axis(doubt, permutation, axis=-1)
    outputs: list[Datum] = []
    for i, x in enumerate(xs):
        moved = move(lambda p: np.take_along_axis(p, permutation, axis=-1), x)
        if isinstance(moved, Complex):
            real, imaginary = (arithmetic.displaced(v, w, open_, False) for v, w in ((moved.real, x.real), (moved.imag, x.imag)))
            moved = Complex(real, imaginary, moved.dtype)
        elif is_real(moved):
            # Only the first key is an order statistic: a later one moves with the elements.
            moved = arithmetic.displaced(moved, x, open_, i == 0 and keys > 0)
        elif open_.any():
            known = moved.array if isinstance(moved, Decision) else moved
            moved = decision(known, open_ | (moved.doubt if isinstance(moved, Decision) else False))
        outputs.append(move(lambda p: np.moveaxis(p, -1, axis), moved))
    return outputs


@register("reduce_window_max", "reduce_window_min")
def _reduce_window_extreme(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    """The primitive on exact ranks picks each window's winner."""
    if not is_real(x):
        return equation.bind(x)
    ranks, doubt = global_ranks(arithmetic, x)
    chosen = equation.bind(ranks)[0]
    empty = -np.inf if equation.name == "reduce_window_max" else np.inf
    first = {float(r): i for i, r in reversed(list(enumerate(ranks.reshape(-1)))) if r == r}
    nan = np.flatnonzero(np.isnan(ranks.reshape(-1)))
    index = np.array([nan[0] if c != c else first.get(float(c), x.size) for c in chosen.reshape(-1)], np.int64).reshape(chosen.shape)
    out = [take(pool([x, arithmetic.lift(np.full(1, empty), x.dtype)]), index)]
    return arithmetic.taint(out, "the largest element of a window") if doubt else out
