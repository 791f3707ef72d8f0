"""What travels along a jaxpr's variables.

A real array is a `Value`: the arithmetic's component arrays, a plane of special values above them, and the dtype that the traced program
gives it. A complex array is two of them (`Complex`). Integers and booleans are NumPy arrays, or a `Decision` where some of them are in
doubt. Everything that only moves elements (`move`, `take`, `concatenate`) works on all of these alike, plane by plane, so a number keeps its
identity wherever it goes: two places that hold the very same Python object hold the very same real number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Codes of the special plane. FINITE must be 0: an absent plane (None) means that every element is finite.
FINITE = 0
NEGATIVE_ZERO = 1
POSITIVE_INFINITY = 2
NEGATIVE_INFINITY = 3
NAN = 4
#: A zero whose sign is not known (an exact zero times a number of undecided sign). As a number it is 0.
UNSIGNED_ZERO = 5
#: Nothing is known: not even whether the value is finite (a divisor that may be zero, an argument at the edge of a domain).
UNKNOWN = 6
#: A derivative that is not there: what a branch that was not taken gets. As a number it is 0, but it stays 0 whatever it is multiplied by or
#: divided by, and adds nothing, not even a sign.
ABSENT = 7


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """An array of real numbers in some arithmetic.

    Attributes:
        parts: the arithmetic's component arrays, all of the value's shape. Where `special` says that an element is no finite nonzero
            number, the parts hold the arithmetic's zero.
        special: codes as above, or None where every element is finite and no zero is negative.
        dtype: the dtype of the traced program; exact arithmetics ignore it, the budget and the ordinary run read their precision off it.
    """

    parts: tuple[np.ndarray, ...]
    special: np.ndarray | None
    dtype: np.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.parts[0].shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.parts[0].size

    def codes(self) -> np.ndarray:
        """The special plane, materialised."""
        return np.zeros(self.shape, np.uint8) if self.special is None else self.special


@dataclass(frozen=True, eq=False, slots=True)
class Complex:
    """An array of complex numbers: two values of one shape."""

    real: Value
    imag: Value
    dtype: np.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.real.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.real.size


@dataclass(frozen=True, eq=False, slots=True)
class Decision:
    """Booleans or integers, some of which are in doubt.

    To an enclosure, doubt means undecided: `array` holds an arbitrary choice. To the budget it means that an ordinary implementation may
    have it otherwise: `array` holds the exact answer.
    """

    array: np.ndarray
    doubt: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.array.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.array.size

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the array."""
        return self.array.dtype


Datum = Any  # Value | Complex | Decision | np.ndarray (or a JAX array of random keys)


def is_real(x: Datum) -> bool:
    """Whether `x` holds real or complex numbers, not integers or booleans."""
    return isinstance(x, (Value, Complex))


def decision(array: np.ndarray, doubt: np.ndarray | None) -> Datum:
    """A `Decision`, or the plain array where nothing is in doubt."""
    return array if doubt is None or not doubt.any() else Decision(array, np.broadcast_to(doubt, array.shape))


def as_objects(x: Any) -> np.ndarray:
    """`x` as an array of objects; NumPy hands back a bare object where the result is 0-d."""
    return x if isinstance(x, np.ndarray) else np.array(x, dtype=object)


def move(f: Callable[..., np.ndarray], *xs: Datum) -> Datum:
    """`f`, a function that moves elements and nothing else, applied to each plane of `xs`.

    All of `xs` must be of one kind, except that plain arrays may stand beside decisions.
    """
    first = xs[0]
    if isinstance(first, Value):
        parts = tuple(_array(f(*planes), planes[0]) for planes in zip(*(x.parts for x in xs), strict=True))
        special = None
        if any(x.special is not None for x in xs):
            special = _array(f(*(x.codes() for x in xs)), np.empty(0, np.uint8))
        return Value(parts, special, first.dtype)
    if isinstance(first, Complex):
        return Complex(move(f, *(x.real for x in xs)), move(f, *(x.imag for x in xs)), first.dtype)
    if any(isinstance(x, Decision) for x in xs):
        arrays = [x.array if isinstance(x, Decision) else x for x in xs]
        doubts = [x.doubt if isinstance(x, Decision) else np.zeros(x.shape, bool) for x in xs]
        return decision(np.asarray(f(*arrays)), np.asarray(f(*doubts)))
    return f(*xs)


def _array(x: Any, like: np.ndarray) -> np.ndarray:
    """NumPy indexing gives bare scalars for 0-d results; make them arrays again."""
    return x if isinstance(x, np.ndarray) else np.array(x, dtype=like.dtype)


def take(x: Datum, index: np.ndarray) -> Datum:
    """Elements of the flattened `x` at `index`, in the shape of `index`."""
    return move(lambda plane: plane.reshape(-1)[index], x)


def flat_index(shape: Sequence[int]) -> np.ndarray:
    """The array of `shape` that holds each element's own position in the flattened array."""
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(tuple(shape))


def concatenate(xs: Sequence[Datum], axis: int = 0) -> Datum:
    """Concatenation along an axis."""
    return move(lambda *planes: np.concatenate(planes, axis), *xs)


def pool(xs: Sequence[Datum]) -> Datum:
    """All elements of `xs`, flattened, one array after the other: what index maps index."""
    return concatenate([move(lambda plane: plane.reshape(-1), x) for x in xs])
