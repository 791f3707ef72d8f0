"""Every JAX name outside its documented interface, and every difference between the versions supported (0.10.2 to 0.12). Mend this file when JAX moves."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import source_info_util

#: `DropVar` binds outputs that nothing reads. It stands in `jax.extend.core` in 0.10 to 0.12, and has no other documented name.
from jax.extend.core import DropVar as DropVar
from jax.extend.core import Literal, Var
from jax.interpreters import ad

__all__ = ["DropVar", "Literal", "Var", "at_source_of", "bind", "dtype_of", "enable_x64", "open_jaxpr", "rebind", "scan_split", "source_line", "zero_tangent"]


def enable_x64(enabled: bool = True) -> contextlib.AbstractContextManager[Any]:
    """64-bit types inside a `with`, for this thread only; the caller's flag is untouched.

    `jax.enable_x64` is the public name from 0.8 on; before, it stood in `jax.experimental`.
    """
    return jax.enable_x64(enabled)


def open_jaxpr(jaxpr: Any) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """(variables of the constants, then of the operands; constants; equations; outputs) of a closed or an open jaxpr.

    `ClosedJaxpr` is another class than `Jaxpr` in 0.10 and the same in 0.12; `remat2` holds an open one in all.
    """
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    constants = list(getattr(jaxpr, "consts", None) or [])
    return [*inner.constvars, *inner.invars], constants, inner.eqns, inner.outvars


def scan_split(params: dict[str, Any]) -> tuple[int, int]:
    """Numbers of constants and of carried values of a scan.

    0.10 says `num_consts` and `num_carry`. 0.11 replaced them by a tree `ft_in` of (constants, carry, sequences), which `unpack` opens; a
    gradient's scan holds another class of tree than a plain one, and only `unpack` and lengths are common to both.
    """
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    constants, carry, _ = params["ft_in"].unpack()
    return len(constants), len(carry)


def source_line(equation: Any) -> str:
    """The user's `file:line (function)` of an equation, or an empty string."""
    return source_info_util.summarize(equation.source_info)


def at_source_of(equation: Any) -> contextlib.AbstractContextManager[Any]:
    """What is bound inside has the equation's source line."""
    return source_info_util.user_context(equation.source_info.traceback)


def rebind(equation: Any, operands: Sequence[Any]) -> Any:
    """An equation's primitive on other operands; `get_bind_params` makes functions of the jaxprs that custom derivatives hold."""
    return equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))


def dtype_of(atom: Any) -> Any:
    """The dtype of a variable or literal."""
    return atom.aval.dtype


def zero_tangent(primal: Any) -> Any:
    """The symbolic zero of a primal's tangent space."""
    return ad.Zero(jax.typeof(primal).to_tangent_aval())


def bind(primitive: Any, params: dict[str, Any], *operands: Any) -> list[Any]:
    """The primitive itself on concrete arrays, as NumPy arrays (arrays of random keys stay JAX arrays).

    64-bit integers must survive, so this runs with 64-bit types. `reshape` says `dimensions=None`, and has refused anything else.
    """
    with enable_x64():
        out = primitive.bind(*(x if _is_key(x) else jnp.asarray(x) for x in operands), **params)
    outputs = out if primitive.multiple_results else [out]
    return [o if _is_key(o) else np.asarray(o) for o in outputs]


def _is_key(x: Any) -> bool:
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
