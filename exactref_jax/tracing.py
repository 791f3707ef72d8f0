"""A function and its arguments → a `Program`: the jaxpr that JAX traces, the exact operands, and the structure of the outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from .formats import is_inexact
from .inputs import asarray, is_tensor
from .jax_compat import enable_x64

_WIDE = ("float64", "complex128")


@dataclass(frozen=True, eq=False)
class Program:
    """A traced program with its operands.

    Attributes:
        name: what the user called, for messages (`er.matmul.backward`).
        jaxpr: the closed jaxpr.
        operands: one concrete array for each of its inputs, exact.
        tree: structure of the outputs.
        outputs: name, shape and dtype of each output leaf.
    """

    name: str
    jaxpr: Any
    operands: tuple[np.ndarray, ...]
    tree: Any
    outputs: tuple[tuple[str, tuple[int, ...], np.dtype], ...]


def trace(name: str, function: Callable[..., Any], operands: Sequence[Any], *, wide: bool, branches: Sequence[str] = (), bare: str = "value") -> Program:
    """Trace `function` at the shapes and dtypes of `operands`.

    Args:
        name: for messages.
        function: takes the operands as JAX arrays; returns a pytree of arrays.
        operands: NumPy arrays, or Python floats (traced with a weak type, as JAX does).
        wide: whether to trace with 64-bit types; otherwise as the caller's flag says.
        branches: where the outputs are a tuple of this many branches, how the names in each of them begin.
        bare: the name of an output that has no other.
    """
    with enable_x64() if wide else contextlib.nullcontext():
        jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*operands)
    paths, tree = jax.tree_util.tree_flatten_with_path(shapes)
    names = [branches[int(path[0].idx)] + path_name(path[1:]) if branches else path_name(path) for path, _ in paths]
    outputs = tuple((name.removeprefix(".") or bare, tuple(s.shape), np.dtype(s.dtype)) for name, (_, s) in zip(names, paths, strict=True))
    return Program(name, jaxpr, tuple(np.asarray(x) for x in operands), tree, outputs)


def path_name(path: Sequence[Any]) -> str:
    """`.layers[0].weight` for a path in a pytree: attributes and string keys with dots, all else in brackets."""
    out = ""
    for entry in path:
        key = getattr(entry, "name", getattr(entry, "key", getattr(entry, "idx", entry)))
        out += f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
    return out


def exact_leaf(x: Any, argument: str) -> Any:
    """One differentiated input: a read-only array, or a Python float (which is a float64 number, and stays one).

    Raises:
        TypeError: if it is not a floating-point or complex number or array.
    """
    if type(x) in (float, complex):
        return x
    array = asarray(x, argument=argument)
    if not is_inexact(array.dtype):
        raise TypeError(f"{argument}: given {array.dtype}; wanted a floating-point or complex dtype (gradients need one).")
    return array


def other_leaf(x: Any, argument: str) -> Any:
    """An input that is not differentiated, as JAX takes it: PyTorch tensors become NumPy arrays, all else stays."""
    return asarray(x, argument=argument) if is_tensor(x) else x


def is_wide(x: Any, *, differentiated: bool) -> bool:
    """Whether an input needs 64-bit types.

    A differentiated float64 input does: it is never narrowed. Another float64 array does unless float32 holds each of its numbers; where it does,
    narrowing loses nothing, and the program keeps the dtypes it has in the caller's JAX.
    """
    if type(x) in (float, complex):
        return differentiated
    dtype = getattr(x, "dtype", None)
    if getattr(dtype, "name", "") not in _WIDE or isinstance(x, Tracer):
        return False
    if differentiated:
        return True
    array = np.asarray(x)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = array.astype(np.complex64 if array.dtype.kind == "c" else np.float32)
    return not bool(np.array_equal(narrow.astype(array.dtype), array, equal_nan=True))
