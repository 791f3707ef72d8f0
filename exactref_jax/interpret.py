"""Walks a jaxpr once, in any arithmetic: read, rule, write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .errors import Undecided
from .formats import format_of, is_complex, is_inexact
from .jax_compat import DropVar, Literal, bind, open_jaxpr, source_line
from .rules import TAKES_DECISIONS, Equation, lookup
from .values import Complex, Datum, Decision, is_real


class Walk:
    """One evaluation of a program in one arithmetic.

    Equal equations on the same values run once: a program that computes something twice (rematerialisation does) then compares a number with
    itself, not with an equal enclosure.
    """

    def __init__(self, arithmetic: Any, see: Callable[[Equation, Sequence[Datum], Sequence[Datum]], None] | None = None):
        """`see` is told of each equation, with its operands and results."""
        self.arithmetic = arithmetic
        self.see = see
        self.known: dict[Any, tuple[Sequence[Datum], tuple[Datum, ...]]] = {}
        self.literals: dict[Any, Datum] = {}

    def lift(self, array: Any, aval: Any) -> Datum:
        """A concrete array as the variable's kind of datum."""
        dtype = aval.dtype
        if not _is_array_dtype(dtype):
            return array
        if is_complex(dtype):
            part = format_of(dtype).dtype
            array = np.asarray(array)
            return Complex(self.arithmetic.lift(array.real, part), self.arithmetic.lift(array.imag, part), np.dtype(dtype))
        if is_inexact(dtype):
            return self.arithmetic.lift(np.asarray(array), np.dtype(dtype))
        return np.asarray(array).astype(dtype)

    def run(self, jaxpr: Any, operands: Sequence[Datum]) -> list[Datum]:
        """The outputs of a closed or open jaxpr on operands.

        Raises:
            UnsupportedPrimitiveError: if a primitive has no rule.
            Undecided: if a comparison that decides control flow is not decided by this arithmetic.
        """
        binders, constants, equations, outputs = open_jaxpr(jaxpr)
        environment: dict[Any, Datum] = {}
        for variable, constant in zip(binders, constants, strict=False):
            environment[variable] = constant if is_real(constant) else self._constant(constant, variable.aval)
        for variable, operand in zip(binders[len(constants) :], operands, strict=True):
            environment[variable] = operand

        def read(atom: Any) -> Datum:
            if isinstance(atom, Literal):
                return self._literal(atom)
            return environment[atom]

        for eqn in equations:
            results = self._equation(eqn, tuple(read(v) for v in eqn.invars))
            for variable, result in zip(eqn.outvars, results, strict=True):
                if not isinstance(variable, DropVar):
                    environment[variable] = _checked(result, variable.aval, eqn)
        return [read(v) for v in outputs]

    def _literal(self, atom: Any) -> Datum:
        aval = atom.aval
        value = np.asarray(atom.val).astype(aval.dtype)
        key = (value.dtype.name, value.shape, value.tobytes())
        if key not in self.literals:
            self.literals[key] = self.lift(value, aval)
        return self.literals[key]

    def _constant(self, constant: Any, aval: Any) -> Datum:
        key = ("constant", id(constant))
        if key not in self.literals:
            self.literals[key] = self.lift(constant, aval)
            self.known[key] = ((), (constant,))  # keeps the constant, and so its id, alive
        return self.literals[key]

    def _equation(self, eqn: Any, operands: tuple[Datum, ...]) -> Sequence[Datum]:
        name, params = eqn.primitive.name, eqn.params
        key: Any = (name, tuple(params.items()), tuple(map(id, operands)), tuple(str(v.aval) for v in eqn.outvars))
        try:
            found = self.known.get(key)
        except (TypeError, ValueError):  # parameters that have no hash, or no truth value when compared
            key = found = None
        if found is not None:
            return found[0]
        equation = Equation(
            name=name,
            params=params,
            shapes=tuple(v.aval.shape for v in eqn.outvars),
            dtypes=tuple(v.aval.dtype for v in eqn.outvars),
            source=source_line(eqn),
            bind=partial(_bind, eqn.primitive, params),
            run=self.run,
            primitive=eqn.primitive,
        )
        rule = lookup(equation)
        try:
            results = self._apply(rule, equation, operands)
        except Undecided as error:
            error.source = error.source or equation.source
            raise
        if self.see is not None:
            self.see(equation, operands, results)
        if key is not None:
            self.known[key] = (results, operands)
        return results

    def _apply(self, rule: Any, equation: Equation, operands: tuple[Datum, ...]) -> Sequence[Datum]:
        if equation.name in TAKES_DECISIONS or not any(isinstance(x, Decision) for x in operands):
            return rule(self.arithmetic, equation, *operands)
        certain = [x.array if isinstance(x, Decision) else x for x in operands]
        question = f"an integer or boolean operand of `{equation.name}` ({equation.source})"
        return self.arithmetic.taint(rule(self.arithmetic, equation, *certain), question)


def _is_array_dtype(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype)


def _bind(primitive: Any, params: dict[str, Any], *operands: Any, **changed: Any) -> list[Any]:
    return bind(primitive, {**params, **changed}, *operands)


def _checked(result: Datum, aval: Any, eqn: Any) -> Datum:
    """Every result has its variable's shape and dtype: cheap, and it finds a wrong rule at once."""
    if not _is_array_dtype(aval.dtype):
        return result
    if tuple(result.shape) != tuple(aval.shape) or np.dtype(result.dtype) != np.dtype(aval.dtype):
        raise AssertionError(f"rule of `{eqn.primitive.name}` gave {result.dtype}{list(result.shape)}, wanted {aval.str_short()}")
    return result
