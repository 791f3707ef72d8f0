"""The table of rules: what each JAX primitive means over the reals, in any arithmetic.

A rule gets the arithmetic, the equation and its operands, and returns the outputs. It does its primitive as *one* operation of the arithmetic.
Rules are keyed by the primitive's name, never by a user's function name. There is no default rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UnsupportedPrimitiveError
from ..values import Datum

#: (arithmetic, equation, *operands) -> outputs
Rule = Callable[..., Sequence[Datum]]


@dataclass(frozen=True)
class Equation:
    """One equation of a jaxpr, as a rule sees it.

    Attributes:
        name: the primitive's name.
        params: the primitive's parameters.
        shapes: shapes of the outputs.
        dtypes: dtypes of the outputs.
        source: the user's file and line, or an empty string.
        bind: the primitive itself, on concrete arrays.
        run: interprets a sub-jaxpr, in the same arithmetic.
        primitive: the primitive.
    """

    name: str
    params: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    source: str
    bind: Callable[..., list[Any]]
    run: Callable[[Any, Sequence[Datum]], list[Datum]]
    primitive: Any


RULES: dict[str, Rule] = {}
#: Rules that know what to do with a `Decision` in doubt. For all others the interpreter taints the outputs.
TAKES_DECISIONS: set[str] = set()


def register(*names: str, decisions: bool = False) -> Callable[[Rule], Rule]:
    """Make a function the rule of the named primitives.

    Args:
        names: primitive names, each registered once.
        decisions: whether the rule handles operands that are a `Decision`.
    """

    def decorate(rule: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"primitive {name!r} has a rule already")
            RULES[name] = rule
            if decisions:
                TAKES_DECISIONS.add(name)
        return rule

    return decorate


def lookup(equation: Equation) -> Rule:
    """The rule of an equation.

    Raises:
        UnsupportedPrimitiveError: if there is none.
    """
    rule = RULES.get(equation.name)
    if rule is None:
        raise unsupported(equation)
    return rule


def unsupported(equation: Equation, why: str = "") -> UnsupportedPrimitiveError:
    """The error for an equation that has no meaning here."""
    where = f" ({equation.source})" if equation.source else ""
    reason = f" {why}" if why else ""
    message = f"no rule for primitive `{equation.name}`{where}.{reason} See the documentation, Errors, UnsupportedPrimitiveError."
    return UnsupportedPrimitiveError(message, primitive=equation.name, source=equation.source)


def as_array(x: Datum) -> np.ndarray:
    """A concrete integer or boolean operand."""
    return np.asarray(x)
