"""Where a program sat on a kink: exact ties, and functions at a point where they have no derivative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .specials import nonfinite
from .values import Datum, Value, move

_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "max", "min"))
_SINGULAR_AT_ZERO = frozenset(("abs", "sign", "sqrt", "rsqrt", "cbrt"))


@dataclass(frozen=True)
class Kink:
    """An equation of the traced program that was evaluated on a kink.

    Attributes:
        primitive: its name: a comparison or choice whose operands are exactly equal, or a function at a point where it has no derivative.
        source: the user's `file:line (function)`.
        elements: indices of the elements concerned, of the operand (of a sorted operand: in sorted order).
    """

    primitive: str
    source: str
    elements: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        shown = ", ".join(str(list(e)) for e in self.elements[:5]) + (", ..." if len(self.elements) > 5 else "")
        return f"{self.primitive} at {self.source or 'an unknown line'}: {len(self.elements)} element(s) {shown}"


def kink(name: str, params: dict[str, Any], source: str, operands: Sequence[Datum], results: Sequence[Datum], arithmetic: Any) -> Kink | None:
    """The kink that an equation sat on, if it did."""
    mask = _mask(name, params, operands, results, arithmetic)
    if mask is None or not mask.any():
        return None
    return Kink(name, source, tuple(tuple(int(i) for i in index) for index in np.argwhere(mask)))


def _mask(name: str, params: dict[str, Any], operands: Sequence[Datum], results: Sequence[Datum], arithmetic: Any) -> np.ndarray | None:
    if not operands or not isinstance(operands[0], Value):
        return None
    if name in _COMPARISONS and isinstance(operands[1], Value):
        return _tied(arithmetic, operands[0], operands[1])
    if name in _SINGULAR_AT_ZERO:
        return arithmetic.is_zero(operands[0])
    if name == "clamp":
        return _tied(arithmetic, operands[1], operands[0]) | _tied(arithmetic, operands[1], operands[2])
    if name in ("reduce_max", "reduce_min"):
        axes = tuple(params["axes"])
        return _tied(arithmetic, operands[0], move(lambda p: np.expand_dims(p, axes), results[0]))
    if name in ("sort", "top_k"):
        axis = params["dimension"] if name == "sort" else params.get("axis", len(operands[0].shape) - 1)
        ordered = move(lambda p: np.moveaxis(p, axis, -1), results[0])
        out = np.zeros(ordered.shape, bool)
        out[..., 1:] = _tied(arithmetic, move(lambda p: p[..., 1:], ordered), move(lambda p: p[..., :-1], ordered))
        return np.moveaxis(out, -1, axis)
    return None


def _tied(arithmetic: Any, x: Value, y: Value) -> np.ndarray:
    """Exactly equal finite numbers that are not one number, moved."""
    sign, unordered, doubt = arithmetic.compare(x, y)
    finite = ~nonfinite(x.codes()) & ~nonfinite(y.codes())
    return (sign == 0) & ~unordered & ~doubt & finite & ~arithmetic.field.same(x.parts, y.parts)
