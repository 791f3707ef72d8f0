"""Primitives that mean what a JAX function says: our own, through their lowering, and those that users register."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from ..jax_compat import enable_x64
from ..operations.softmax import LOWERINGS
from ..values import Datum
from .table import RULES, Equation, register


def _through(meaning: Callable[..., Any], arithmetic: Any, equation: Equation, *xs: Datum) -> Sequence[Datum]:
    with enable_x64():
        jaxpr = jax.make_jaxpr(partial(meaning, **equation.params))(*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in xs))
    return equation.run(jaxpr, xs)


for _name, _meaning in LOWERINGS.items():
    register(_name)(partial(_through, _meaning))


@register("call_hi_primitive")
def _expanded(arithmetic: Any, equation: Equation, *xs: Datum) -> Sequence[Datum]:
    """JAX 0.12's primitives that are written in others: they say themselves what they expand to (`searchsorted` is one)."""
    expand = equation.params["_prim"].expand
    with enable_x64():
        jaxpr = jax.make_jaxpr(expand)(*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in xs))
    return equation.run(jaxpr, xs)


def register_rule(primitive: Any, meaning: Callable[..., Any], *, replace: bool = False) -> None:
    """Give a primitive of your own (a custom call, a Pallas kernel) its meaning, for all arithmetics at once.

    Args:
        primitive: the `jax.extend.core.Primitive`, or its name.
        meaning: a JAX function of the operands, and of the primitive's parameters by keyword, that returns what the primitive means over the
            real numbers: an array, or a sequence of arrays where it has several results. It may use any supported primitive.
        replace: whether it may take the place of an existing rule.

    Raises:
        TypeError: if `meaning` is no function, or `primitive` neither a primitive nor a name.
        ValueError: if there is a rule already, and `replace` is false.

    The tolerance is that of the operations in `meaning`, in the operands' dtypes. Derivatives are the primitive's own: JAX differentiates with the rules that
    you gave it, and the traced result is evaluated.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np, exactref_jax as er
        >>> from jax.extend.core import Primitive
        >>> hypotenuse_p = Primitive("hypotenuse")
        >>> _ = hypotenuse_p.def_abstract_eval(lambda x, y: jax.core.ShapedArray(x.shape, x.dtype))
        >>> er.register_rule(hypotenuse_p, lambda x, y: jnp.sqrt(x * x + y * y))
        >>> float(er.evaluate(hypotenuse_p.bind)(np.float32(3.0), np.float32(4.0)).rounded)
        5.0
    """
    name = primitive if isinstance(primitive, str) else getattr(primitive, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"primitive: given {type(primitive).__name__}; wanted a jax.extend.core.Primitive or its name.")
    if not callable(meaning):
        raise TypeError(f"meaning: given {type(meaning).__name__}; wanted a function of JAX arrays.")
    if name in RULES and not replace:
        raise ValueError(f"primitive: {name!r} has a rule already; wanted one without, or replace=True.")
    RULES[name] = partial(_through, meaning)
