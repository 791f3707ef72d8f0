"""Complex numbers: two values, and the real operations that a complex one consists of.

(a + bi)(c + di) = (ac - bd) + (ad + bc)i. An ordinary implementation computes just these products and sums, so the budget of the parts is the
budget of the composition (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.6).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import format_of
from ..values import Complex, Datum, Value, move
from .table import Equation, unsupported


def from_real(arithmetic: Any, x: Value, dtype: Any) -> Complex:
    """X + 0i."""
    return Complex(x, arithmetic.lift(np.zeros(x.shape), x.dtype), np.dtype(dtype))


def apply(arithmetic: Any, equation: Equation, name: str, *xs: Datum) -> Complex:
    """Addition, subtraction, negation and multiplication of complex numbers.

    Raises:
        UnsupportedPrimitiveError: for any other function.
    """
    values = [x if isinstance(x, Complex) else from_real(arithmetic, x, equation.dtypes[0]) for x in xs]
    if name in ("add", "sub", "neg"):
        real, imag = (arithmetic.elementwise(name, *(getattr(v, part) for v in values)) for part in ("real", "imag"))
        return Complex(real, imag, values[0].dtype)
    if name in ("mul", "square"):
        x, y = (values[0], values[0]) if name == "square" else values

        def mul(a: Value, b: Value) -> Value:
            return arithmetic.elementwise("mul", a, b)

        real = arithmetic.elementwise("sub", mul(x.real, y.real), mul(x.imag, y.imag))
        imag = arithmetic.elementwise("add", mul(x.real, y.imag), mul(x.imag, y.real))
        return Complex(real, imag, values[0].dtype)
    raise unsupported(equation, "Complex numbers are supported in sums, differences and products.")


def parts(arithmetic: Any, equation: Equation, *xs: Datum) -> Datum:
    """real, imag, conj and complex: exact."""
    x = xs[0]
    if equation.name == "complex":
        real, imag = (move(lambda p: np.broadcast_to(p, equation.shapes[0]), v) for v in xs)
        return Complex(real, imag, np.dtype(equation.dtypes[0]))
    if isinstance(x, Value):
        if equation.name == "conj":  # of a real number: a complex one, as JAX has it
            return from_real(arithmetic, arithmetic.convert(x, format_of(equation.dtypes[0]).dtype), equation.dtypes[0])
        return x if equation.name == "real" else arithmetic.lift(np.zeros(x.shape), x.dtype)
    if equation.name == "conj":
        return Complex(x.real, arithmetic.elementwise("neg", x.imag), x.dtype)
    return x.real if equation.name == "real" else x.imag
