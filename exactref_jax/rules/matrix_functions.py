"""The matrix exponential: one operation of the arithmetic. Its derivative is a block of an exponential of twice the size."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import format_of
from ..values import Complex, Datum, concatenate, move
from .table import Equation, register


def _exponential(arithmetic: Any, x: Datum) -> Datum:
    if isinstance(x, Complex):
        real, imag = arithmetic.matrix_exp(x.real, x.imag)
        return Complex(real, imag, x.dtype)
    return arithmetic.matrix_exp(x, None)[0]


@register("matrix_exp")
def _matrix_exp(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    return [_exponential(arithmetic, x)]


@register("matrix_exp_frechet")
def _frechet(arithmetic: Any, equation: Equation, x: Datum, e: Datum) -> list[Datum]:
    """The upper right block of exp([[A, E], [0, A]]) (Higham, Functions of Matrices, theorem 3.6)."""
    n = x.shape[-1]
    zeros = arithmetic.lift(np.zeros(x.shape), format_of(x.dtype).dtype)
    zero: Datum = Complex(zeros, zeros, x.dtype) if isinstance(x, Complex) else zeros
    block = concatenate([concatenate([x, e], -1), concatenate([zero, x], -1)], -2)
    return [move(lambda p: p[..., :n, n:], _exponential(arithmetic, block))]
