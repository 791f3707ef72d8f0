"""What a number system offers. One page: implement this, pass `tests/laws.py`, and every rule of the library runs in it.

There are two levels.

`RealField` is a number system for *finite real numbers*: balls at some precision, double-double balls, residues. It knows no infinities, no
NaN, no signed zeros, no dtypes and no jaxprs. Its numbers are tuples of component arrays of one shape (`Parts`).

`Arithmetic` is what rules call. It works on `Value`s. `extended.Extended` makes one out of any `RealField` by adding the special values;
`tolerance.Tolerance` and `ordinary.Ordinary` are arithmetics of their own, because they describe floating-point implementations, to which
identities of real numbers do not apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..formats import Format
from ..values import Datum, Value
from .surd import Scale

#: Component arrays of one shape.
Parts = tuple[np.ndarray, ...]

#: What `RealField.sign` answers where it cannot tell.
UNDECIDED = 2


class RealField(Protocol):
    """Finite real numbers, enclosed. Elementwise methods are named as JAX's primitives; those not listed stand in `enclosure.Enclosure`.

    Laws (`tests/laws.py`): the result encloses the real result for all reals enclosed by the operands; exact operands of a rational
    operation whose result fits give an exact result; `sign` is never wrong; a higher precision is never wider; movement commutes with `lift`.
    """

    def lift(self, array: np.ndarray) -> Parts:
        """Finite float64 numbers or integers, exactly."""
        ...

    def neg(self, x: Parts) -> Parts:
        """-x."""
        ...

    def add(self, x: Parts, y: Parts) -> Parts:
        """The sum; a number plus an exact zero is that number itself."""
        ...

    def mul(self, x: Parts, y: Parts) -> Parts:
        """The product; a number times an exact one is that number itself."""
        ...

    def div(self, x: Parts, y: Parts) -> Parts:
        """The quotient."""
        ...

    def sqrt(self, x: Parts) -> Parts:
        """The square root."""
        ...

    def exp(self, x: Parts) -> Parts:
        """The exponential."""
        ...

    def log(self, x: Parts) -> Parts:
        """The natural logarithm."""
        ...

    def is_finite(self, x: Parts) -> np.ndarray:
        """False where nothing is known of the number (an enclosure without bounds)."""
        ...

    def is_zero(self, x: Parts) -> np.ndarray:
        """True where the number is certainly zero."""
        ...

    def sign(self, x: Parts) -> np.ndarray:
        """-1, 0, 1, or `UNDECIDED`, as int8."""
        ...

    def same(self, x: Parts, y: Parts) -> np.ndarray:
        """True where both are certainly the very same number because one is the other, moved."""
        ...

    def magnitude(self, x: Parts) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bound of the absolute value, float64 (the upper one infinite beyond its range)."""
        ...

    def variation(self, name: str, xs: Sequence[Parts], errors: Sequence[np.ndarray], **params: Any) -> np.ndarray:
        """Upper bound of `|f(y) - f(x)|` over all `y` with `|y_i - x_i| <= errors_i`; infinite where a `y` leaves the domain."""
        ...

    def round(self, x: Parts, fmt: Format) -> tuple[np.ndarray, np.ndarray]:
        """The number rounded once to `fmt` (float64), and where that is decided."""
        ...


@dataclass(frozen=True, eq=False)
class Term:
    """A product of at most two arrays and a rational number, summed over the indices that the output lacks.

    Attributes:
        scale: the factor, a rational number or a rational multiple of a square root.
        factors: the arrays, each with one letter a dimension. Letters of the output that no factor has mean copies.
        copies: letters that stand for copies which broadcasting makes; where one is summed over, `Budget.rounds_copies` applies.
    """

    scale: Scale
    factors: tuple[tuple[Value, str], ...]
    copies: str = ""


class Arithmetic(Protocol):
    """What rules call. `Value`s in, `Value`s out; integers and booleans are NumPy arrays or `Decision`s."""

    def lift(self, array: np.ndarray, dtype: np.dtype) -> Value:
        """Floating-point numbers (special values included) or integers, exactly, as a value of dtype `dtype`."""
        ...

    def unknown(self, shape: tuple[int, ...], dtype: np.dtype) -> Value:
        """Numbers of which nothing is known (uninitialised memory)."""
        ...

    def elementwise(self, name: str, *xs: Value, **params: Any) -> Value:
        """The function that JAX's primitive `name` computes, broadcasting."""
        ...

    def maximum(self, x: Value, y: Value) -> Value:
        """The larger one, itself; NaN if either is."""
        ...

    def minimum(self, x: Value, y: Value) -> Value:
        """The smaller one, itself; NaN if either is."""
        ...

    def is_negative_zero(self, x: Value) -> np.ndarray:
        """True where the number is certainly -0."""
        ...

    def is_finite(self, x: Value) -> Datum:
        """Where numbers are neither infinite nor NaN."""
        ...

    def compare(self, x: Value, y: Value) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sign of `x - y` (int8), where they are unordered (a NaN), and where the sign is in doubt."""
        ...

    def select(self, which: Datum, cases: Sequence[Value]) -> Value:
        """`cases[which]`, element by element."""
        ...

    def sum(self, x: Value, axes: tuple[int, ...]) -> Value:
        """The sum over axes."""
        ...

    def cumulative(self, name: str, x: Value, axis: int, reverse: bool) -> Value:
        """`cumsum`, `cumprod`, `cummax` or `cummin` along one axis."""
        ...

    def segment_sum(self, x: Value, segments: np.ndarray, count: int) -> Value:
        """Sums of a flat array's elements by segment number (negative: dropped), in the order in which they stand."""
        ...

    def contract(self, terms: Sequence[Term], output: str, sizes: Mapping[str, int], dtype: np.dtype) -> Value:
        """A sum of terms, each summed over the indices that `output` lacks; `sizes` gives each index's range."""
        ...

    def multiple(self, x: Value, name: str) -> Value:
        """X times a constant of `constants`."""
        ...

    def absent(self, shape: tuple[int, ...], dtype: np.dtype) -> Value:
        """Derivatives that are not there; see `values.ABSENT`."""
        ...

    def reordered_product(self, product: Value, rows: Value) -> Value:
        """A product of the rows that was multiplied from first to last, where an implementation may take another order."""
        ...

    def matrix_exp(self, real: Value, imag: Value | None) -> tuple[Value, ...]:
        """The exponentials of square matrices (..., n, n): the real part, and the imaginary one of complex matrices."""
        ...

    def convert(self, x: Value, dtype: np.dtype) -> Value:
        """A float→float cast: the identity on reals."""
        ...

    def truncate(self, x: Value, dtype: np.dtype) -> Datum:
        """A float→integer cast: toward zero."""
        ...

    def ranks(self, x: Value, axis: int | None) -> Any:
        """Dense ranks for the order family; see `rules.order`."""
        ...

    def taint(self, outputs: Sequence[Datum], question: str) -> list[Datum]:
        """Outputs of an equation that was run on a `Decision` in doubt: an enclosure gives up, the budget prices them as unbounded."""
        ...
