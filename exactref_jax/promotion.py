"""The dtype of an operation on mixed dtypes: PyTorch's table (torch.result_type).

Dtypes fall into categories: boolean < integer < floating < complex. Operands fall into three ranks: arrays with dimensions, 0-d arrays, and
Python scalars. Within a rank the usual join is taken; a lower rank only lifts the category, never the width within it: a float64 0-d
array does not widen a float32 matrix, and a Python float makes an integer array PyTorch's default float32.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .formats import BFLOAT16, COMPLEX_PARTS, FLOAT16, FORMATS, is_complex, is_floating

#: Dtype of a Python scalar that meets no array of its category: PyTorch's defaults.
SCALAR_DTYPES: dict[type, np.dtype] = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float32),
    complex: np.dtype(np.complex64),
}

_COMPLEX_OF = {f.name: name for name, f in COMPLEX_PARTS.items()}


def category(dtype: np.dtype) -> int:
    """0 boolean, 1 integer, 2 floating, 3 complex."""
    return 3 if is_complex(dtype) else 2 if is_floating(dtype) else 0 if dtype.kind == "b" else 1


def join(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype of an operation on two arrays of one rank.

    Raises:
        TypeError: for a float8 dtype with any other floating dtype: PyTorch's table has no entry there, so convert one first.

    Example:
        >>> join(np.dtype("float16"), FORMATS["bfloat16"].dtype)
        dtype('float32')
    """
    if a == b:
        return a
    if "float8" in a.name or "float8" in b.name:
        raise TypeError(f"there is no promotion of {a} with {b}: convert one of the operands with er.asarray(x, dtype).")
    if {category(a), category(b)} <= {0, 1}:
        return np.promote_types(a, b) if {a.kind, b.kind} != {"i", "u"} or "uint64" not in (a.name, b.name) else np.dtype(np.int64)
    if category(a) < 2:
        return b
    if category(b) < 2:
        return a
    if 3 in (category(a), category(b)):
        parts = join(np.dtype(COMPLEX_PARTS.get(a.name, FORMATS.get(a.name)).dtype), np.dtype(COMPLEX_PARTS.get(b.name, FORMATS.get(b.name)).dtype))  # type: ignore[union-attr]
        return np.dtype(_COMPLEX_OF.get(parts.name, "complex64"))
    if "float8" in a.name or "float8" in b.name:
        raise TypeError(f"there is no promotion of {a} with {b}: convert one of the operands with er.asarray(x, dtype).")
    if {a.name, b.name} == {FLOAT16.name, BFLOAT16.name}:
        return np.dtype(np.float32)
    return max(a, b, key=lambda d: FORMATS[d.name].precision)


def _combine(higher: np.dtype | None, lower: np.dtype | None) -> np.dtype | None:
    """The join of two ranks: `lower` lifts the category of `higher`, not its width."""
    if higher is None or lower is None:
        return higher or lower
    if category(lower) <= category(higher):
        return higher
    if category(higher) == 2:
        return np.dtype(_COMPLEX_OF.get(higher.name, "complex64"))
    return lower


def result_dtype(operands: Iterable[np.ndarray | bool | int | float | complex]) -> np.dtype:
    """The dtype of an operation on arrays, 0-d arrays and Python scalars.

    Example:
        >>> result_dtype([np.ones(3, np.float32), np.float64(2.0) * np.ones(())])
        dtype('float32')
        >>> result_dtype([np.ones(3, np.int32), 0.5])
        dtype('float32')
    """
    ranks: list[np.dtype | None] = [None, None, None]
    for x in operands:
        if hasattr(x, "dtype"):
            rank, dtype = (0 if x.ndim else 1), np.dtype(x.dtype)  # type: ignore[union-attr]
        else:
            rank, dtype = 2, next(d for t, d in SCALAR_DTYPES.items() if isinstance(x, t))
        known = ranks[rank]
        ranks[rank] = dtype if known is None else join(known, dtype)
    out = _combine(_combine(ranks[0], ranks[1]), ranks[2])
    if out is None:
        raise TypeError("result_dtype needs at least one operand")
    return out
