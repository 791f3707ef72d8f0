"""Bilinear: one contraction of the arithmetic. A complex product is a contraction of real ones with twice the terms."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..arithmetic.interface import Term
from ..arithmetic.surd import MinusZero, Scale, opposite, surd
from ..formats import format_of, is_complex
from ..values import Complex, Datum, Value, is_real
from .table import Equation, register

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def real_terms(scale: tuple[Scale, Scale], factors: Sequence[tuple[Datum, str]], copies: str) -> tuple[list[Term], list[Term]]:
    """The real and the imaginary part of a scaled product of real or complex arrays, each a list of real terms."""
    parts: list[list[tuple[Scale, tuple[tuple[Value, str], ...]]]] = [[(scale[0], ())], [(scale[1], ())]]
    parts = [[t for t in part if t[0] != 0] or ([part[0]] if k == 0 and not scale[1] else []) for k, part in enumerate(parts)]
    for x, names in factors:
        real, imag = parts
        if isinstance(x, Complex):

            def times(terms: Any, v: Value, sign: int, names: str = names) -> Any:
                return [(opposite(s) if sign < 0 else s, (*f, (v, names))) for s, f in terms]

            parts = [times(real, x.real, 1) + times(imag, x.imag, -1), times(real, x.imag, 1) + times(imag, x.real, 1)]
        else:
            parts = [[(s, (*f, (x, names))) for s, f in part] for part in parts]
    return tuple([Term(s, f, copies) for s, f in part] for part in parts)  # type: ignore[return-value]


def contract(arithmetic: Any, terms: Sequence[Any], output: str, sizes: dict[str, int], dtype: Any) -> Datum:
    """A sum of scaled products. `terms`: (scale's real and imaginary part, factors, copies)."""
    real: list[Term] = []
    imag: list[Term] = []
    for scale, factors, copies in terms:
        r, i = real_terms(scale, factors, copies)
        real += r
        imag += i
    part = format_of(dtype).dtype
    value = arithmetic.contract(real, output, sizes, part)
    if not is_complex(dtype):
        return value
    return Complex(value, arithmetic.contract(imag, output, sizes, part), np.dtype(dtype))


@register("dot_general")
def _dot_general(arithmetic: Any, equation: Equation, x: Datum, y: Datum) -> list[Datum]:
    if not (is_real(x) or is_real(y)):
        return equation.bind(x, y)
    (contracted_x, contracted_y), (batch_x, batch_y) = equation.params["dimension_numbers"]
    names_x: list[str] = list(_LETTERS[: len(x.shape)])
    names_y: list[str] = list(_LETTERS[len(x.shape) : len(x.shape) + len(y.shape)])
    for i, j in [*zip(contracted_x, contracted_y, strict=True), *zip(batch_x, batch_y, strict=True)]:
        names_y[j] = names_x[i]
    free_x = [n for d, n in enumerate(names_x) if d not in (*contracted_x, *batch_x)]
    free_y = [n for d, n in enumerate(names_y) if d not in (*contracted_y, *batch_y)]
    output = "".join([*(names_x[d] for d in batch_x), *free_x, *free_y])
    sizes = {**dict(zip(names_x, x.shape, strict=True)), **dict(zip(names_y, y.shape, strict=True))}
    one = (Fraction(1), Fraction(0))
    factors = [(x, "".join(names_x)), (y, "".join(names_y))]
    return [contract(arithmetic, [(one, factors, "")], output, sizes, equation.dtypes[0])]


@register("contraction")
def _contraction(arithmetic: Any, equation: Equation, *xs: Datum) -> list[Datum]:
    p = equation.params
    terms = [
        ((MinusZero() if t.minus_zero else surd(t.real, t.root), surd(t.imag, t.root)), [(xs[k], p["inputs"][k]) for k in t.factors], t.copies)
        for t in p["terms"]
    ]
    return [contract(arithmetic, terms, p["output"], dict(p["sizes"]), equation.dtypes[0])]
