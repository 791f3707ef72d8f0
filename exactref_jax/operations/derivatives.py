"""Derivatives that are exact: rules for the few primitives whose rules in JAX are not.

JAX's rule of `erf` holds `2/sqrt(pi)` as a rounded number, so the program that it traces is not quite the derivative. Its rules of `select_n`, `max`, `min`
and `clamp` make the derivative with respect to what was *not* chosen a product by the number 0, and 0 times infinity is NaN: the well-known NaN
gradient of `where`. Here a constant is a real number (`multiple`), and what was not chosen has no derivative (`masked`), not a zero one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.interpreters import ad

from ..arithmetic.constants import FLOATS
from ..jax_compat import zero_tangent
from .primitive import batched_in_front, define


def _like_first(x: Any, *_: Any, **__: Any) -> ShapedArray:
    return ShapedArray(x.shape, x.dtype)


def _like_last(*xs: Any, **_: Any) -> ShapedArray:
    return ShapedArray(xs[-1].shape, xs[-1].dtype)


# A multiple by a real constant ----------------------------------------------------------------------------------------------


def _multiple_lowering(x: Any, *, name: str) -> Any:
    return x * jnp.asarray(FLOATS[name], x.dtype)


def _multiple_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, name: str) -> tuple[Any, Any]:
    out = multiple_p.bind(*primals, name=name)
    return out, zero_tangent(out) if type(tangents[0]) is ad.Zero else multiple_p.bind(*tangents, name=name)


def _multiple_transpose(cotangent: Any, x: Any, *, name: str) -> list[Any]:
    return [ad.Zero(x.aval) if type(cotangent) is ad.Zero else multiple_p.bind(cotangent, name=name)]


multiple_p = define(
    "multiple",
    static=("name",),
    abstract=_like_first,
    lowering=_multiple_lowering,
    jvp=_multiple_jvp,
    transpose=_multiple_transpose,
    batch=lambda operands, axes, *, name: (multiple_p.bind(*operands, name=name), axes[0]),
)

# Choices --------------------------------------------------------------------------------------------------------------------


def _masked_lowering(which: Any, x: Any, *, case: int) -> Any:
    return jnp.where(which == case, x, jnp.zeros_like(x))


def _masked_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, case: int) -> tuple[Any, Any]:
    out = masked_p.bind(*primals, case=case)
    return out, zero_tangent(out) if type(tangents[1]) is ad.Zero else masked_p.bind(primals[0], tangents[1], case=case)


def _masked_transpose(cotangent: Any, which: Any, x: Any, *, case: int) -> list[Any]:
    return [None, ad.Zero(x.aval) if type(cotangent) is ad.Zero else masked_p.bind(which, cotangent, case=case)]


#: `masked(which, x)`: x where `which` is `case`; elsewhere no derivative. `which`: int32, of x's shape.
masked_p = define(
    "masked",
    static=("case",),
    abstract=_like_last,
    lowering=_masked_lowering,
    jvp=_masked_jvp,
    transpose=_masked_transpose,
    batch=lambda operands, axes, *, case: (masked_p.bind(*batched_in_front(operands, axes), case=case), 0),
)


def _choose_lowering(which: Any, *cases: Any) -> Any:
    return lax.select_n(which, *cases)


def _choose_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    which, *cases = primals
    out = choose_p.bind(which, *cases)
    if all(type(t) is ad.Zero for t in tangents[1:]):
        return out, zero_tangent(out)
    nowhere = masked_p.bind(which, jnp.zeros_like(out), case=-1)
    return out, choose_p.bind(which, *(nowhere if type(t) is ad.Zero else t for t in tangents[1:]))


def _choose_transpose(cotangent: Any, which: Any, *cases: Any) -> list[Any]:
    out: list[Any] = [None]
    for k, case in enumerate(cases):
        if not ad.is_undefined_primal(case):
            out.append(None)
        else:
            out.append(ad.Zero(case.aval) if type(cotangent) is ad.Zero else masked_p.bind(which, cotangent, case=k))
    return out


#: `choose(which, *cases)`: `cases[which]`. `which`: int32, of the cases' shape.
choose_p = define(
    "choose",
    static=(),
    abstract=_like_last,
    lowering=_choose_lowering,
    jvp=_choose_jvp,
    transpose=_choose_transpose,
    batch=lambda operands, axes: (choose_p.bind(*batched_in_front(operands, axes)), 0),
)


# Rules ----------------------------------------------------------------------------------------------------------------------


def _inexact(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def _real(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def _select(bind: Callable[..., Any], which: Any, *cases: Any) -> Any:
    if not _inexact(cases[0]) or len(cases) < 2:
        return bind(which, *cases)
    return choose_p.bind(jnp.broadcast_to(lax.convert_element_type(which, np.int32), cases[0].shape), *cases)


def _of(bind: Callable[..., Any], derivative: Callable[[Any, Any, Any], Any], *xs: Any) -> Any:
    """A function of one number with the derivative `derivative(g, result, x)`."""
    (x,) = xs
    if not _real(x):
        return bind(x)
    function = jax.custom_jvp(lambda x: bind(x))

    @function.defjvp
    def _rule(primals: Any, tangents: Any) -> tuple[Any, Any]:
        result = function(*primals)
        return result, derivative(tangents[0], result, primals[0])

    return function(x)


def _extreme(bind: Callable[..., Any], x: Any, y: Any) -> Any:
    """The winner's derivative; of a tie the mean of both, as JAX has it; of a NaN none."""
    if not _real(x):
        return bind(x, y)
    x, y = jnp.broadcast_arrays(x, y)
    function = jax.custom_jvp(lambda x, y: bind(x, y))

    @function.defjvp
    def _rule(primals: Any, tangents: Any) -> tuple[Any, Any]:
        x, y = primals
        out = function(x, y)
        first, second = lax.eq(x, out), lax.eq(y, out)
        which = lax.convert_element_type(first, np.int32) + 2 * lax.convert_element_type(second, np.int32)
        g, h = tangents
        nothing = masked_p.bind(which, jnp.zeros_like(out), case=-1)
        return out, choose_p.bind(which, nothing, g, h, lax.div(lax.add(g, h), lax.full_like(out, 2)))

    return function(x, y)


def _clamp(bind: Callable[..., Any], low: Any, x: Any, high: Any) -> Any:
    """JAX's choice: x strictly between the limits, else the limit that it meets."""
    if not _real(x):
        return bind(low, x, high)
    function = jax.custom_jvp(lambda low, x, high: bind(low, x, high))

    @function.defjvp
    def _rule(primals: Any, tangents: Any) -> tuple[Any, Any]:
        low, x, high = (jnp.broadcast_to(v, primals[1].shape) for v in primals)
        tangents = tuple(jnp.broadcast_to(t, x.shape) for t in tangents)
        inside = lax.bitwise_and(lax.gt(x, low), lax.lt(x, high))
        below, above = lax.gt(low, x), lax.lt(high, x)
        which = lax.select(inside, jnp.full(x.shape, 1, np.int32), lax.convert_element_type(below, np.int32) * 2)
        which = lax.select(lax.bitwise_and(above, lax.bitwise_not(below)), jnp.full(x.shape, 3, np.int32), which)
        nothing = masked_p.bind(which, jnp.zeros_like(x), case=-1)
        return function(*primals), choose_p.bind(which, nothing, tangents[1], tangents[0], tangents[2])

    return function(low, x, high)


def _erf(g: Any, result: Any, x: Any) -> Any:
    return multiple_p.bind(lax.mul(g, lax.exp(lax.neg(lax.square(x)))), name="2/sqrt(pi)")


#: Primitive -> (how it is bound, operands) -> its result, differentiable as it should be.
RULES: dict[str, Callable[..., Any]] = {
    "select_n": _select,
    "max": _extreme,
    "min": _extreme,
    "clamp": _clamp,
    "erf": lambda bind, x: _of(bind, _erf, x),
    "erfc": lambda bind, x: _of(bind, lambda g, result, x: lax.neg(_erf(g, result, x)), x),
    "erf_inv": lambda bind, x: _of(bind, lambda g, result, x: multiple_p.bind(lax.mul(g, lax.exp(lax.square(result))), name="sqrt(pi)/2"), x),
    "exp2": lambda bind, x: _of(bind, lambda g, result, x: lax.mul(g, multiple_p.bind(result, name="log(2)")), x),
    "log2": lambda bind, x: _of(bind, lambda g, result, x: lax.div(g, multiple_p.bind(x, name="log(2)")), x),
    "cbrt": lambda bind, x: _of(bind, lambda g, result, x: lax.mul(g, multiple_p.bind(lax.integer_pow(result, -2), name="1/3")), x),
}
