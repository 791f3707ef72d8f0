"""Arrays from anywhere. The only file that meets lists, NumPy, JAX and PyTorch.

`asarray` gives a NumPy array that owns its memory and cannot be written to, with the dtype kept. PyTorch is never imported here: a
tensor can only be handed in by someone who already has.
"""

from __future__ import annotations

import decimal
import math
import numbers
import sys
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from .formats import COMPLEX_PARTS, FORMATS, encode, format_of, is_complex, is_floating, round_exact, round_fraction


def as_dtype(dtype: Any, argument: str = "dtype") -> np.dtype:
    """The NumPy dtype that a name, a NumPy, ml_dtypes, JAX or PyTorch dtype means.

    Raises:
        TypeError: if it means none; the message names `argument`.

    Example:
        >>> as_dtype("bfloat16")
        dtype(bfloat16)
    """
    name = dtype if isinstance(dtype, str) else None
    if name is None and type(dtype).__module__.split(".")[0] == "torch":
        name = str(dtype)
    if name is not None:
        name = name.removeprefix("torch.")
        if name in FORMATS:
            return FORMATS[name].dtype
    try:
        return np.dtype(name if name is not None else dtype)
    except TypeError:
        wanted = ", ".join([*FORMATS, *COMPLEX_PARTS])
        raise TypeError(f"{argument}: {dtype!r} is no dtype; wanted one of {wanted}, or an integer or boolean dtype.") from None


def is_tensor(x: Any) -> bool:
    """Whether `x` is a PyTorch tensor, found without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def asarray(x: Any, dtype: Any = None, *, argument: str = "x") -> np.ndarray:
    """A read-only NumPy copy of `x`, dtype kept or given.

    Args:
        x: a number, a nested list or tuple of numbers, a NumPy, JAX or PyTorch array; any strides, shape or size. Numbers may be Python
            ints of any size, floats, complex, `fractions.Fraction` or `decimal.Decimal`.
        dtype: the result's dtype (a name such as `"bfloat16"`, or a NumPy, JAX or PyTorch dtype). By default an array keeps its own;
            Python floats become float64, ints int64, complex numbers complex128, and fractions and decimals need a dtype.
        argument: the name that error messages use.

    Returns:
        A C-contiguous NumPy array that shares no memory with `x`.

    Guarantee:
        A value that `dtype` holds is kept exactly, signed zeros and NaN included. Any other is rounded **once**, to nearest, ties to even,
        with gradual underflow and the format's own overflow, from its exact value: a Python int of a hundred digits, or 0.1 as a Fraction,
        goes to bfloat16 in one step. Each part of a complex number is rounded by itself. To an integer dtype only integers that fit are taken.

    Raises:
        TypeError: for anything else than numbers, or a Tracer (inside `jax.jit` or `jax.grad` there is no value to copy).
        ValueError: for ragged lists and for numbers that an integer dtype cannot hold.

    Example:
        >>> asarray([[1.0, 2.0], [3.0, 4.0]], "float32").dtype
        dtype('float32')
        >>> asarray([0.1], "bfloat16").astype(float)
        array([0.10009766])
    """
    array = _numpy(x, argument, dtype is not None)
    target = (array.dtype if dtype is None else as_dtype(dtype)).newbyteorder("=")
    if target.name not in FORMATS and target.name not in COMPLEX_PARTS and target.kind not in "biu":
        raise TypeError(f"{argument}: dtype {target} is not supported; wanted one of {', '.join([*FORMATS, *COMPLEX_PARTS])}, or integers.")
    out = array.astype(target, order="C") if array.dtype.newbyteorder("=") == target else _convert(array, target, argument)
    out.flags.writeable = False
    return out


def _numpy(x: Any, argument: str, dtype_given: bool) -> np.ndarray:
    """`x` as a NumPy array of its own dtype, or of objects for lists of numbers that must be converted exactly."""
    if is_tensor(x):
        return _from_tensor(x, argument)
    if isinstance(x, np.ndarray):
        array = x.view(np.ndarray)
    elif type(x).__module__.split(".")[0] in ("jax", "jaxlib"):
        array = _from_jax(x, argument)
    elif isinstance(x, (np.generic, numbers.Number, decimal.Decimal, list, tuple)):
        array = _from_python(x, argument, dtype_given)
    elif hasattr(x, "__array__"):
        array = np.asarray(x)
    else:
        raise TypeError(f"{argument}: given {type(x).__name__}; wanted a number, a list, or a NumPy, JAX or PyTorch array.")
    if array.dtype == object and not dtype_given:
        raise TypeError(f"{argument}: an array of Python objects has no dtype of its own; give one, for instance dtype='float64'.")
    return array


def _from_jax(x: Any, argument: str) -> np.ndarray:
    from jax.core import Tracer

    if isinstance(x, Tracer):
        raise TypeError(
            f"{argument}: given a JAX tracer. An exact result needs values, which do not exist inside jax.jit, jax.vmap or jax.grad. "
            "Call this outside, or use er.grad and er.evaluate on the function."
        )
    try:
        return np.asarray(x)
    except TypeError as error:
        raise TypeError(f"{argument}: {error}") from None


def _from_tensor(x: Any, argument: str) -> np.ndarray:
    """A PyTorch tensor: values only, whatever device, strides, lazy conjugation or gradient it has."""
    if x.layout is not sys.modules["torch"].strided or x.is_quantized:
        raise TypeError(f"{argument}: given a sparse or quantized tensor; wanted a dense one (see Tensor.to_dense, Tensor.dequantize).")
    if x.is_meta:
        raise TypeError(f"{argument}: given a meta tensor, which has no values.")
    x = x.detach().cpu().resolve_conj().resolve_neg().contiguous()
    name = str(x.dtype).removeprefix("torch.")
    if name in FORMATS and name not in ("float64", "float32", "float16"):
        torch, bits = sys.modules["torch"], FORMATS[name].bits
        raw = x.reshape(-1).view(torch.int16 if bits == 16 else torch.uint8).numpy()
        return raw.view(FORMATS[name].dtype).reshape(tuple(x.shape))
    try:
        return x.numpy()
    except TypeError:
        raise TypeError(f"{argument}: tensors of dtype {x.dtype} are not supported.") from None


def _from_python(x: Any, argument: str, dtype_given: bool) -> np.ndarray:
    try:
        array = np.asarray(x)
        if array.dtype.kind in "OiufcV" and isinstance(x, (list, tuple, numbers.Number, decimal.Decimal)) and dtype_given:
            # Exact conversion looks at each number itself: np.asarray may already have rounded a large int to float64.
            exact = np.asarray(x, dtype=object)
            array = array if exact.shape != array.shape else _of_numbers(exact, array, argument)
    except ValueError:
        raise ValueError(f"{argument}: the nested lists do not have a rectangular shape.") from None
    except (TypeError, OverflowError, RuntimeError):
        raise TypeError(f"{argument}: wanted numbers or nested lists of numbers.") from None
    if array.dtype.kind == "f" and not dtype_given and isinstance(x, (list, tuple)) and array.size:
        each = np.asarray(x, dtype=object)
        if each.shape == array.shape and all(isinstance(v, (int, np.integer)) for v in each.flat):
            raise TypeError(f"{argument}: ints that no integer dtype holds; give a dtype, for instance dtype='float64'.")
    if array.dtype == object:
        return _of_numbers(array, array, argument)
    if array.dtype.kind not in "biufcV" or (array.dtype.kind == "V" and not is_floating(array.dtype)):
        raise TypeError(f"{argument}: wanted numbers; given {array.dtype} data.")
    return array


def _of_numbers(exact: np.ndarray, otherwise: np.ndarray, argument: str) -> np.ndarray:
    """`exact` if its objects are Python or NumPy numbers; the converted array where they are arrays themselves."""
    for value in exact.flat:
        if not isinstance(value, (numbers.Number, np.generic, decimal.Decimal)):
            if otherwise is not exact:
                return otherwise
            raise TypeError(f"{argument}: wanted numbers; given {type(value).__name__}.")
    return exact


def _convert(array: np.ndarray, target: np.dtype, argument: str) -> np.ndarray:
    """`array` in dtype `target`, each element rounded once from its exact value."""
    if target.kind in "biu":
        return _to_integers(array, target, argument)
    if is_complex(target):
        part = COMPLEX_PARTS[target.name].dtype
        out = np.empty(array.shape, target)
        real, imaginary = _parts(array)
        out.real, out.imag = _convert(real, part, argument), _convert(imaginary, part, argument)
        return out
    if is_complex(array.dtype):
        raise TypeError(f"{argument}: complex numbers cannot be held by {target}; wanted complex64 or complex128.")
    fmt = format_of(target)
    if is_floating(array.dtype) or (array.dtype.kind in "biu" and array.dtype.itemsize <= 4):
        with np.errstate(invalid="ignore"):
            return encode(round_exact(array.astype(np.float64), fmt), fmt).reshape(array.shape)
    out = np.array([_round_number(v, fmt, argument) for v in array.flat], np.float64)
    return encode(out, fmt).reshape(array.shape)


def _parts(array: Any) -> tuple[np.ndarray, np.ndarray]:
    if array.dtype == object:
        real = np.array([getattr(v, "real", v) if isinstance(v, (complex, np.complexfloating)) else v for v in array.flat] + [None], object)
        imaginary = np.array([v.imag if isinstance(v, (complex, np.complexfloating)) else 0 for v in array.flat] + [None], object)
        return real[:-1].reshape(array.shape), imaginary[:-1].reshape(array.shape)
    if is_complex(array.dtype):
        return array.real, array.imag
    return array, np.zeros(array.shape)


def _round_number(value: Any, fmt: Any, argument: str) -> float:
    """One Python or NumPy number, rounded once."""
    if isinstance(value, (float, np.floating, decimal.Decimal)) or type(value).__module__ == ml_dtypes.__name__:
        wide: Any = value
        if isinstance(wide, np.generic) and wide.dtype == np.longdouble and np.isfinite(wide):
            return round_fraction(Fraction(*np.longdouble(wide).as_integer_ratio()), fmt) if wide else math.copysign(0.0, float(wide))
        if not isinstance(value, decimal.Decimal):
            return float(round_exact(np.asarray(float(value)), fmt))
        if not value.is_finite():
            return float(round_exact(np.asarray(float(value)), fmt))
        return round_fraction(Fraction(value), fmt) if value else float(round_exact(np.asarray(float(value)), fmt))
    if isinstance(value, (numbers.Rational, np.integer, np.bool_)):
        exact = Fraction(int(value.numerator), int(value.denominator)) if isinstance(value, numbers.Rational) else Fraction(int(value))
        return round_fraction(exact, fmt)
    raise TypeError(f"{argument}: given {type(value).__name__}; wanted real numbers for {fmt}.")


def _to_integers(array: np.ndarray, target: np.dtype, argument: str) -> np.ndarray:
    out = np.empty(array.shape, target)
    low, high = (0, 1) if target.kind == "b" else (np.iinfo(target).min, np.iinfo(target).max)
    for index, value in zip(np.ndindex(array.shape), array.flat, strict=True):
        try:
            integer = int(value)
            if integer != value or not low <= integer <= high:
                raise ValueError
        except (ValueError, OverflowError, TypeError):
            raise ValueError(f"{argument}: {value!r} at {index} is not an integer that {target} can hold.") from None
        out[index] = integer
    return out
