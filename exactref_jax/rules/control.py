"""Control: sub-programs are interpreted in the same arithmetic. Branches and trip counts are decided on exact values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..formats import is_inexact
from ..jax_compat import scan_split
from ..values import Datum, Decision, move
from .table import Equation, register


def _call(name: str, key: str) -> None:
    @register(name, decisions=True)
    def rule(arithmetic: Any, equation: Equation, *xs: Datum) -> Sequence[Datum]:
        return equation.run(equation.params[key], xs)


for _name, _key in {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "eval_jaxpr": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_lin": "call_jaxpr",
}.items():
    _call(_name, _key)


@register("cond", decisions=True)
def _cond(arithmetic: Any, equation: Equation, index: Datum, *xs: Datum) -> Sequence[Datum]:
    """One branch is taken. Where an ordinary implementation may take another one, its outputs may be anything."""
    branches = equation.params["branches"]
    which = index.array if isinstance(index, Decision) else index
    outputs = equation.run(branches[min(max(int(which), 0), len(branches) - 1)], xs)
    return arithmetic.taint(outputs, "which branch of a `cond` is taken") if isinstance(index, Decision) else outputs


@register("while", decisions=True)
def _while(arithmetic: Any, equation: Equation, *xs: Datum) -> Sequence[Datum]:
    """The exact values decide when the loop ends."""
    p = equation.params
    n, m = p["cond_nconsts"], p["body_nconsts"]
    cond_constants, body_constants, carry = xs[:n], xs[n : n + m], list(xs[n + m :])
    doubt = False
    while True:
        (going,) = equation.run(p["cond_jaxpr"], [*cond_constants, *carry])
        if isinstance(going, Decision):
            # Raises for an enclosure; the budget goes on along the exact path and prices the outputs at the end.
            arithmetic.taint([], "whether a `while` loop goes on")
            doubt, going = True, going.array
        if not bool(np.asarray(going)):
            break
        carry = equation.run(p["body_jaxpr"], [*body_constants, *carry])
    return arithmetic.taint(carry, "how often a `while` loop runs") if doubt else carry


@register("scan", decisions=True)
def _scan(arithmetic: Any, equation: Equation, *xs: Datum) -> Sequence[Datum]:
    p = equation.params
    n, m = scan_split(p)
    constants, carry, sequences = xs[:n], list(xs[n : n + m]), xs[n + m :]
    length = int(p["length"])
    stacked: dict[int, list[Datum]] = {}
    for step in range(length)[::-1] if p["reverse"] else range(length):
        rows = [move(lambda q, t=step: q[t], s) for s in sequences]
        outputs = equation.run(p["jaxpr"], [*constants, *carry, *rows])
        carry, stacked[step] = list(outputs[:m]), list(outputs[m:])
    results = list(carry)
    for k, (shape, dtype) in enumerate(zip(equation.shapes[m:], equation.dtypes[m:], strict=True)):
        if length:
            results.append(move(lambda *planes: np.stack(planes, 0), *(stacked[t][k] for t in range(length))))
        else:
            results.append(arithmetic.lift(np.zeros(shape), dtype) if is_inexact(dtype) else np.zeros(shape, dtype))
    return results
