"""The function that is differentiated: what the user wrote, with exact derivative rules in place of those of JAX's that are not exact.

The function is traced once, and its jaxpr replayed equation by equation under the transformation at hand; JAX differentiates what is replayed. The rules
stand in `operations.derivatives`. A user's own `custom_jvp` and `custom_vjp` rules stay as they are: they are the derivative that the user asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.core import Tracer

from .jax_compat import Literal, at_source_of, dtype_of, open_jaxpr, rebind, scan_split
from .operations.derivatives import RULES

#: Sub-programs that are replayed in place.
_INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr"}
_LOOPS = ("cond", "scan", "while")


def differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, traced and replayed with exact derivative rules. Its results that are no arrays pass through."""

    def replayed(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, kwargs))
        places = [i for i, x in enumerate(leaves) if isinstance(x, (jax.Array, Tracer, np.ndarray, np.generic, float, complex)) and not isinstance(x, bool)]
        kept: dict[str, Any] = {}

        def flat(*arrays: Any) -> list[Any]:
            full = list(leaves)
            for i, x in zip(places, arrays, strict=True):
                full[i] = x
            new_args, new_kwargs = jax.tree.unflatten(structure, full)
            results, kept["structure"] = jax.tree.flatten(function(*new_args, **new_kwargs))
            kept["dynamic"] = [isinstance(x, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)) for x in results]
            kept["results"] = results
            return [x for x, d in zip(results, kept["dynamic"], strict=True) if d]

        arrays = [leaves[i] for i in places]
        jaxpr = jax.make_jaxpr(flat)(*arrays)
        if not _concerned(jaxpr):
            return function(*args, **kwargs)
        outputs = iter(replay(jaxpr, arrays))
        results = [next(outputs) if d else x for x, d in zip(kept["results"], kept["dynamic"], strict=True)]
        return jax.tree.unflatten(kept["structure"], results)

    return replayed


def _concerned(jaxpr: Any) -> bool:
    """Whether some equation has a rule here."""
    for eqn in open_jaxpr(jaxpr)[2]:
        name = eqn.primitive.name
        if name in RULES:
            return True
        if name in _INLINED or name in _LOOPS:
            for value in eqn.params.values():
                if any(_concerned(v) for v in (value if isinstance(value, tuple) else (value,)) if hasattr(v, "eqns") or hasattr(v, "jaxpr")):
                    return True
    return False


def replay(jaxpr: Any, operands: Sequence[Any]) -> list[Any]:
    """The outputs of a jaxpr, each equation bound again."""
    binders, constants, equations, outputs = open_jaxpr(jaxpr)
    environment = dict(zip(binders, [*constants, *operands], strict=True))

    def read(atom: Any) -> Any:
        return np.asarray(atom.val, dtype_of(atom)) if isinstance(atom, Literal) else environment[atom]

    for eqn in equations:
        with at_source_of(eqn):
            results = _equation(eqn, [read(v) for v in eqn.invars])
        environment.update(zip(eqn.outvars, results, strict=True))
    return [read(v) for v in outputs]


def _equation(eqn: Any, operands: list[Any]) -> Sequence[Any]:
    name, params = eqn.primitive.name, eqn.params
    if name in RULES:
        return [RULES[name](lambda *xs: eqn.primitive.bind(*xs, **params), *operands)]
    if name in _INLINED:
        return replay(params[_INLINED[name]], operands)
    if name in _LOOPS and any(_concerned(v) for v in _programs(params)):
        return {"cond": _cond, "scan": _scan, "while": _while}[name](params, operands)
    out = rebind(eqn, operands)
    return out if eqn.primitive.multiple_results else [out]


def _programs(params: dict[str, Any]) -> list[Any]:
    found = []
    for value in params.values():
        found += [v for v in (value if isinstance(value, tuple) else (value,)) if hasattr(v, "eqns") or hasattr(v, "jaxpr")]
    return found


def _cond(params: dict[str, Any], operands: list[Any]) -> Sequence[Any]:
    index, *rest = operands
    branches = [lambda *xs, b=branch: replay(b, xs) for branch in params["branches"]]
    return lax.switch(index, branches, *rest)


def _scan(params: dict[str, Any], operands: list[Any]) -> Sequence[Any]:
    constants, carried = scan_split(params)
    fixed, start, sequences = operands[:constants], operands[constants : constants + carried], operands[constants + carried :]

    def body(carry: Any, xs: Any) -> tuple[list[Any], list[Any]]:
        out = replay(params["jaxpr"], [*fixed, *carry, *xs])
        return out[:carried], out[carried:]

    end, stacked = lax.scan(body, list(start), list(sequences), length=params["length"], reverse=params["reverse"])
    return [*end, *stacked]


def _while(params: dict[str, Any], operands: list[Any]) -> Sequence[Any]:
    n, m = params["cond_nconsts"], params["body_nconsts"]
    fixed, body_fixed, start = operands[:n], operands[n : n + m], operands[n + m :]
    return lax.while_loop(
        lambda carry: replay(params["cond_jaxpr"], [*fixed, *carry])[0],
        lambda carry: replay(params["body_jaxpr"], [*body_fixed, *carry]),
        list(start),
    )
