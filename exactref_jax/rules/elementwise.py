"""Elementwise: each output element is one function of the operands' elements there: the arithmetic's operation of that name."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import format_of, is_complex, is_floating, is_inexact
from ..values import Complex, Datum, Decision, Value, decision, is_real
from . import complex_numbers
from .discrete import discrete
from .table import Equation, register, unsupported

#: JAX's name → the arithmetic's, where they differ.
_RENAMED = {"add_any": "add"}

_PLAIN = (
    "neg add add_any sub mul div rem abs sign exp exp2 expm1 log log1p log2 sqrt rsqrt cbrt sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh logistic erf erfc erf_inv pow atan2 floor ceil square one_minus_square polynomial"
).split()


def apply(arithmetic: Any, equation: Equation, name: str, *xs: Datum, **params: Any) -> list[Datum]:
    """The arithmetic's function `name`; integers among the operands (an exponent) become numbers; all-integer operands stay integers."""
    if not any(is_real(x) for x in xs):
        return discrete(arithmetic, equation, *xs)
    if any(isinstance(x, Complex) for x in xs):
        return [complex_numbers.apply(arithmetic, equation, name, *xs)]
    dtype = next(x.dtype for x in xs if is_real(x))
    values = [x if is_real(x) else arithmetic.lift(np.asarray(x), dtype) for x in xs]
    return [arithmetic.elementwise(name, *values, **params)]


def _plain(name: str) -> None:
    target = _RENAMED.get(name, name)

    @register(name)
    def rule(arithmetic: Any, equation: Equation, *xs: Datum) -> list[Datum]:
        return apply(arithmetic, equation, target, *xs)


for _name in _PLAIN:
    _plain(_name)


@register("integer_pow")
def _integer_pow(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    return apply(arithmetic, equation, "integer_pow", x, y=equation.params["y"]) if is_real(x) else equation.bind(x)


@register("round")
def _round(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    if not is_real(x):
        return discrete(arithmetic, equation, x)
    away = getattr(equation.params["rounding_method"], "name", "") == "AWAY_FROM_ZERO"
    return apply(arithmetic, equation, "round_half_away" if away else "round_half_even", x)


@register("copy", "copy_p", "stop_gradient", "optimization_barrier", "name", "device_put", "reshard", "pvary", decisions=True)
def _identity(arithmetic: Any, equation: Equation, *xs: Datum) -> list[Datum]:
    return list(xs)


@register("bitcast_convert_type")
def _bitcast(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    """The bits of integers, read as numbers (random numbers are made so). Bits of a real number exist only where it is one of its format."""
    if is_real(x):
        raise unsupported(equation, "It asks for the bits of a number, and a real number has none.")
    (out,) = equation.bind(x)
    dtype = equation.dtypes[0]
    return [arithmetic.lift(np.asarray(out), dtype)] if is_floating(dtype) else [out]


@register("multiple")
def _multiple(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    """A multiple by a real constant, in a derivative."""
    return [arithmetic.multiple(x, equation.params["name"])]


@register("masked", decisions=True)
def _masked(arithmetic: Any, equation: Equation, which: Datum, x: Datum) -> list[Datum]:
    """The derivative of what was chosen; elsewhere there is none."""
    case = equation.params["case"]
    array, doubt = (which.array, which.doubt) if isinstance(which, Decision) else (which, None)
    chosen = decision(np.asarray(array) == case, doubt if case >= 0 else None)

    def part(v: Value) -> Value:
        return arithmetic.select(chosen, [arithmetic.absent(v.shape, v.dtype), v])

    return [Complex(part(x.real), part(x.imag), x.dtype) if isinstance(x, Complex) else part(x)]


@register("convert_element_type", decisions=True)
def _convert(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    """Float→float is the identity on reals; float→int truncates the exact value; int→float is exact up to the budget's rounding."""
    dtype = equation.dtypes[0]
    if isinstance(x, Complex):
        if is_complex(dtype):
            part = format_of(dtype).dtype
            return [Complex(arithmetic.convert(x.real, part), arithmetic.convert(x.imag, part), np.dtype(dtype))]
        return list(_convert(arithmetic, equation, x.real))
    if isinstance(x, Value):
        if is_complex(dtype):
            return [complex_numbers.from_real(arithmetic, arithmetic.convert(x, format_of(dtype).dtype), dtype)]
        return [arithmetic.convert(x, dtype) if is_floating(dtype) else arithmetic.truncate(x, dtype)]
    if not is_inexact(dtype):
        return discrete(arithmetic, equation, x)
    part = format_of(dtype).dtype
    if isinstance(x, Decision):
        value = _lift_decision(arithmetic, x, part)
    else:
        value = arithmetic.lift(np.asarray(x), part)
    return [complex_numbers.from_real(arithmetic, value, dtype) if is_complex(dtype) else value]


def _lift_decision(arithmetic: Any, x: Decision, dtype: np.dtype) -> Value:
    """A boolean in doubt is 0 or 1: a choice between two numbers. An integer in doubt may be anything."""
    if x.dtype.kind == "b":
        cases = [arithmetic.lift(np.full(x.shape, float(k)), dtype) for k in (0, 1)]
        return arithmetic.select(x, cases)
    lifted = arithmetic.lift(x.array, dtype)
    unknown = arithmetic.unknown(x.shape, dtype)
    return arithmetic.select(Decision(np.zeros(x.shape, bool), x.doubt), [lifted, unknown])


@register("is_finite")
def _is_finite(arithmetic: Any, equation: Equation, x: Datum) -> list[Datum]:
    """The exact value never overflows: infinite and NaN are special values only."""
    if isinstance(x, Complex):
        raise unsupported(equation, "It is supported for real numbers.")
    if not is_real(x):
        return discrete(arithmetic, equation, x)
    return [arithmetic.is_finite(x)]


@register("real", "imag", "conj", "complex")
def _parts(arithmetic: Any, equation: Equation, *xs: Datum) -> list[Datum]:
    return [complex_numbers.parts(arithmetic, equation, *xs)]
