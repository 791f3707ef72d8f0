"""NaN, infinities and signed zeros, as IEEE 754-2019 has them on the extended reals: tables only.

What a special value does depends on the *class* of an operand, never on its magnitude, except where a magnitude is compared with 1 (`pow`) or
with the edge of a domain. So every two-operand operation is a table from classes to a class, computed here from representatives: the class of the
result for every number that may stand behind the operands' classes. `extended.Extended` applies the tables above any field of finite reals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .values import (
    ABSENT,
    FINITE,
    NAN,
    NEGATIVE_INFINITY,
    NEGATIVE_ZERO,
    POSITIVE_INFINITY,
    UNKNOWN,
    UNSIGNED_ZERO,
)

INF, NOT_A_NUMBER = np.inf, np.nan

# Classes of a number. The first ones are disjoint; SOME_ZERO, SOME_FINITE and ANYTHING say that the class itself is not known.
NEGATIVE, MINUS_ZERO, PLUS_ZERO, POSITIVE, PLUS_INF, MINUS_INF, NOT_NUMBER, SOME_ZERO, SOME_FINITE, ANYTHING, NO_DERIVATIVE = range(11)
#: How many classes there are.
CLASSES = 11

#: Numbers that stand for each class. Two magnitudes, so that a sum of opposite signs shows that its sign is open.
REPRESENTATIVES: dict[int, tuple[float, ...]] = {
    NEGATIVE: (-1.0, -2.0),
    MINUS_ZERO: (-0.0,),
    PLUS_ZERO: (0.0,),
    POSITIVE: (1.0, 2.0),
    PLUS_INF: (INF,),
    MINUS_INF: (-INF,),
    NOT_NUMBER: (NOT_A_NUMBER,),
    SOME_ZERO: (-0.0, 0.0),
    SOME_FINITE: (-2.0, -1.0, -0.0, 0.0, 1.0, 2.0),
}

#: The code of the special plane for each class. The field of finite reals knows the rest.
CODE = np.array([FINITE, NEGATIVE_ZERO, FINITE, FINITE, POSITIVE_INFINITY, NEGATIVE_INFINITY, NAN, UNSIGNED_ZERO, FINITE, UNKNOWN, ABSENT], np.uint8)


def class_of(x: float) -> int:
    """The class of one float."""
    if x != x:
        return NOT_NUMBER
    if np.isinf(x):
        return PLUS_INF if x > 0 else MINUS_INF
    if x == 0:
        return MINUS_ZERO if np.signbit(x) else PLUS_ZERO
    return POSITIVE if x > 0 else NEGATIVE


def join(classes: set[int]) -> int:
    """The least class that holds all of `classes`."""
    if len(classes) == 1:
        return next(iter(classes))
    if classes <= {MINUS_ZERO, PLUS_ZERO, SOME_ZERO}:
        return SOME_ZERO
    if classes <= {NEGATIVE, POSITIVE, MINUS_ZERO, PLUS_ZERO, SOME_ZERO, SOME_FINITE}:
        return SOME_FINITE
    return ANYTHING


def table(operation: Callable[[Any, Any], Any]) -> np.ndarray:
    """`table[a, b]`: the class of `operation` on operands of classes `a` and `b`, from IEEE arithmetic on representatives.

    NaN makes NaN whatever the other operand is; an operand of which nothing is known makes a result of which nothing is known.
    """
    out = np.full((CLASSES, CLASSES), ANYTHING, np.int8)
    with np.errstate(all="ignore"):
        for a, xs in REPRESENTATIVES.items():
            for b, ys in REPRESENTATIVES.items():
                out[a, b] = join({class_of(float(operation(np.float64(x), np.float64(y)))) for x in xs for y in ys})
    out[NOT_NUMBER, :] = out[:, NOT_NUMBER] = NOT_NUMBER
    return out


ADD, SUB, MUL, DIV = (table(f) for f in (np.add, np.subtract, np.multiply, np.divide))
_ALL = np.arange(CLASSES, dtype=np.int8)
ADD[NO_DERIVATIVE, :] = ADD[:, NO_DERIVATIVE] = SUB[:, NO_DERIVATIVE] = _ALL
SUB[NO_DERIVATIVE, :] = MUL[NEGATIVE, :]
SUB[NO_DERIVATIVE, NO_DERIVATIVE] = NO_DERIVATIVE
MUL[NO_DERIVATIVE, :] = MUL[:, NO_DERIVATIVE] = NO_DERIVATIVE
DIV[:, NO_DERIVATIVE] = DIV[:, PLUS_ZERO]
DIV[NO_DERIVATIVE, :] = NO_DERIVATIVE


@dataclass(frozen=True)
class Behaviour:
    """A function of one real argument beyond the finite interior of its domain.

    Limits are floats (NaN, an infinity, a signed zero, an exact number) or the name of a constant of the field.

    Attributes:
        at_infinity: value at +inf.
        at_minus_infinity: value at -inf.
        odd: whether f(-0) is -f(+0).
        lower: left end of the domain; below it the value is NaN.
        at_lower: the value there, or None where the field computes it.
        upper: right end of the domain.
        at_upper: the value there, or None.
        keeps_sign: a zero result has the sign of the argument (ceil, round).
    """

    at_infinity: float | str
    at_minus_infinity: float | str
    odd: bool = False
    lower: float | None = None
    at_lower: float | None = None
    upper: float | None = None
    at_upper: float | None = None
    keeps_sign: bool = False


#: One row a function: IEEE 754-2019, section 9.2.1, where the standard names it; else its limits.
BEHAVIOUR: dict[str, Behaviour] = {
    "exp": Behaviour(INF, 0.0),
    "exp2": Behaviour(INF, 0.0),
    "expm1": Behaviour(INF, -1.0, odd=True),
    "log": Behaviour(INF, NOT_A_NUMBER, lower=0.0, at_lower=-INF),
    "log2": Behaviour(INF, NOT_A_NUMBER, lower=0.0, at_lower=-INF),
    "log1p": Behaviour(INF, NOT_A_NUMBER, odd=True, lower=-1.0, at_lower=-INF),
    "sqrt": Behaviour(INF, NOT_A_NUMBER, odd=True, lower=0.0),
    "rsqrt": Behaviour(0.0, NOT_A_NUMBER, odd=True, lower=0.0, at_lower=INF),
    "cbrt": Behaviour(INF, -INF, odd=True),
    "sin": Behaviour(NOT_A_NUMBER, NOT_A_NUMBER, odd=True),
    "cos": Behaviour(NOT_A_NUMBER, NOT_A_NUMBER),
    "tan": Behaviour(NOT_A_NUMBER, NOT_A_NUMBER, odd=True),
    "asin": Behaviour(NOT_A_NUMBER, NOT_A_NUMBER, odd=True, lower=-1.0, upper=1.0),
    "acos": Behaviour(NOT_A_NUMBER, NOT_A_NUMBER, lower=-1.0, upper=1.0),
    "atan": Behaviour("half_pi", "-half_pi", odd=True),
    "sinh": Behaviour(INF, -INF, odd=True),
    "cosh": Behaviour(INF, INF),
    "tanh": Behaviour(1.0, -1.0, odd=True),
    "asinh": Behaviour(INF, -INF, odd=True),
    "acosh": Behaviour(INF, NOT_A_NUMBER, lower=1.0),
    "atanh": Behaviour(NOT_A_NUMBER, NOT_A_NUMBER, odd=True, lower=-1.0, at_lower=-INF, upper=1.0, at_upper=INF),
    "logistic": Behaviour(1.0, 0.0),
    "erf": Behaviour(1.0, -1.0, odd=True),
    "erfc": Behaviour(0.0, 2.0),
    "erf_inv": Behaviour(NOT_A_NUMBER, NOT_A_NUMBER, odd=True, lower=-1.0, at_lower=-INF, upper=1.0, at_upper=INF),
    "square": Behaviour(INF, INF),
    "one_minus_square": Behaviour(-INF, -INF),
    "floor": Behaviour(INF, -INF, odd=True),
    "ceil": Behaviour(INF, -INF, odd=True, keeps_sign=True),
    "round_half_away": Behaviour(INF, -INF, odd=True, keeps_sign=True),
    "round_half_even": Behaviour(INF, -INF, odd=True, keeps_sign=True),
}

#: Codes after negation, and after taking the magnitude.
NEGATED = np.array([FINITE, FINITE, NEGATIVE_INFINITY, POSITIVE_INFINITY, NAN, UNSIGNED_ZERO, UNKNOWN, ABSENT], np.uint8)
MAGNITUDE = np.array([FINITE, FINITE, POSITIVE_INFINITY, POSITIVE_INFINITY, NAN, FINITE, UNKNOWN, FINITE], np.uint8)


def codes_of(x: np.ndarray | float) -> np.ndarray:
    """The special plane of float64 numbers."""
    x = np.asarray(x, np.float64)
    out = np.where((x == 0) & np.signbit(x), NEGATIVE_ZERO, FINITE)
    return np.where(np.isnan(x), NAN, np.where(x == INF, POSITIVE_INFINITY, np.where(x == -INF, NEGATIVE_INFINITY, out))).astype(np.uint8)


def nonfinite(codes: np.ndarray) -> np.ndarray:
    """Infinities, NaN, and what may be one."""
    return (codes == POSITIVE_INFINITY) | (codes == NEGATIVE_INFINITY) | (codes == NAN) | (codes == UNKNOWN)


def infinite(codes: np.ndarray) -> np.ndarray:
    """Infinities of either sign."""
    return (codes == POSITIVE_INFINITY) | (codes == NEGATIVE_INFINITY)


#: The codes that a sum counts.
TALLIED = (NEGATIVE_ZERO, POSITIVE_INFINITY, NEGATIVE_INFINITY, NAN, UNSIGNED_ZERO, UNKNOWN, ABSENT)


def sum_codes(tally: dict[int, np.ndarray], count: np.ndarray | int) -> np.ndarray:
    """The code of a sum, from how many of its `count` terms have each code.

    NaN beats all; infinities of both signs make NaN; a sum of nothing but negative zeros is -0, and any other zero sum is +0.
    """
    plus, minus = tally[POSITIVE_INFINITY] > 0, tally[NEGATIVE_INFINITY] > 0
    out = np.where(plus, POSITIVE_INFINITY, np.where(minus, NEGATIVE_INFINITY, FINITE))
    unsigned, absent = tally[UNSIGNED_ZERO], tally[ABSENT]
    present = np.asarray(count) - absent
    all_negative = (present > 0) & (tally[NEGATIVE_ZERO] + unsigned == present)
    out = np.where((absent > 0) & (present == 0), ABSENT, out)
    out = np.where(all_negative, np.where(unsigned > 0, UNSIGNED_ZERO, NEGATIVE_ZERO), out)
    out = np.where(tally[UNKNOWN] > 0, UNKNOWN, out)
    return np.where((tally[NAN] > 0) | (plus & minus), NAN, out).astype(np.uint8)
