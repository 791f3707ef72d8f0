"""Discrete: integers, booleans and random bits are computed as JAX computes them, exactly.

NumPy for the common ones, because binding a primitive compiles it; the primitive itself for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..values import Datum, Decision, decision, is_real
from .table import Equation, register, unsupported

#: Elementwise functions of integers and booleans on which NumPy and XLA agree (both wrap around).
_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "sign": np.sign,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
}

#: Elementwise, so that doubt stays where it is.
_ELEMENTWISE = frozenset({*_NUMPY, "convert_element_type", "integer_pow", "div", "rem", "clamp", "select_n"})


def discrete(arithmetic: Any, equation: Equation, *xs: Datum) -> list[Datum]:
    """The primitive on integers and booleans."""
    arrays = [x.array if isinstance(x, Decision) else x for x in xs]
    outputs = _compute(equation, arrays)
    if not any(isinstance(x, Decision) for x in xs):
        return outputs
    if equation.name not in _ELEMENTWISE:
        return arithmetic.taint(outputs, f"an operand of `{equation.name}`")
    doubt = np.zeros(equation.shapes[0], bool)
    for x in xs:
        if isinstance(x, Decision):
            doubt = doubt | np.broadcast_to(x.doubt, doubt.shape)
    if equation.name in ("and", "or") and arrays[0].dtype.kind == "b":
        # A certain False settles `and`, a certain True settles `or`.
        for x, array in zip(xs, arrays, strict=True):
            certain = ~x.doubt if isinstance(x, Decision) else np.ones(array.shape, bool)
            doubt = doubt & ~(certain & (array == (equation.name == "or")))
    return [decision(np.asarray(outputs[0]), doubt)]


def _compute(equation: Equation, arrays: list[Any]) -> list[Any]:
    function = _NUMPY.get(equation.name)
    if function is not None and all(isinstance(x, np.ndarray) for x in arrays):
        with np.errstate(over="ignore"):
            return [np.asarray(function(*arrays)).astype(equation.dtypes[0])]
    if equation.name == "convert_element_type" and np.dtype(equation.dtypes[0]).kind in "biu":
        return [np.asarray(arrays[0]).astype(equation.dtypes[0])]
    return equation.bind(*arrays)


def _only_discrete(name: str) -> None:
    @register(name, decisions=True)
    def rule(arithmetic: Any, equation: Equation, *xs: Datum) -> list[Datum]:
        if any(is_real(x) for x in xs):
            raise unsupported(equation, "It is supported for integers and booleans.")
        return discrete(arithmetic, equation, *xs)


for _name in (
    "and or xor not shift_left shift_right_logical shift_right_arithmetic population_count clz reduce_or reduce_and reduce_xor "
    "platform_index random_bits random_seed random_wrap random_unwrap random_fold_in random_split random_clone threefry2x32 axis_index"
).split():
    _only_discrete(_name)


@register("iota")
def _iota(arithmetic: Any, equation: Equation, *xs: Datum) -> list[Datum]:
    shape, dtype = equation.shapes[0], equation.dtypes[0]
    dimension = equation.params["dimension"]
    counts = np.arange(shape[dimension]).reshape([-1 if d == dimension else 1 for d in range(len(shape))])
    full = np.broadcast_to(counts, shape)
    return [full.astype(dtype) if np.dtype(dtype).kind in "biu" else arithmetic.lift(full, np.dtype(dtype))]


@register("empty", "empty2")
def _empty(arithmetic: Any, equation: Equation, *xs: Datum) -> list[Datum]:
    """Uninitialised memory: of a real number nothing is known; an integer is zero, as XLA makes it."""
    shape, dtype = equation.shapes[0], np.dtype(equation.dtypes[0])
    return [np.zeros(shape, dtype) if dtype.kind in "biu" else arithmetic.unknown(shape, dtype)]
