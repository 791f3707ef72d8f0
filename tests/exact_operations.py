"""The five operations and their gradients in rational arithmetic, one element at a time: what the library is compared with.

An output element is a sum of monomials: scales times elements of operands, written here with loops and index arithmetic. The gradient of an
operand's element is the sum, over the monomials it stands in, of the output gradient times the conjugate of everything else in the monomial.
Rounding is on integers, down to the bits of the format. Nothing is shared with the library.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np

# Numbers --------------------------------------------------------------------------------------------------------------------


class Signed(NamedTuple):
    """A rational number and its sign bit, which a zero has too."""

    value: Fraction
    minus: bool


#: A number: one part if it is real, two if it is complex.
Number = tuple[Signed, ...]
Index = tuple[int, ...]
Shape = tuple[int, ...]
Scalar = bool | int | float | complex | Fraction


def signed(x: Any) -> Signed:
    if isinstance(x, (int, Fraction)):
        return Signed(Fraction(x), x < 0)
    return Signed(Fraction(float(x)), math.copysign(1.0, x) < 0)


def negated(x: Signed) -> Signed:
    return Signed(-x.value, not x.minus)


def number(x: Any) -> Number:
    """A Python or NumPy number."""
    return (signed(x.real), signed(x.imag)) if isinstance(x, (complex, np.complexfloating)) else (signed(x),)


def conjugate(x: Number) -> Number:
    return (x[0], negated(x[1])) if len(x) == 2 else x


def times(x: Signed, y: Signed) -> Signed:
    return Signed(x.value * y.value, x.minus != y.minus)


def expanded(factors: Sequence[Number]) -> tuple[list[Signed], list[Signed]]:
    """The real and the imaginary part of a product, as terms that are still to be added."""
    if not factors:
        return [signed(1)], []
    real, imag = [factors[0][0]], list(factors[0][1:])
    for x in factors[1:]:
        crossed = [times(t, y) for t in real for y in x[1:]]
        opposite = [negated(times(t, y)) for t in imag for y in x[1:]]
        real = [times(t, x[0]) for t in real] + opposite
        imag = [times(t, x[0]) for t in imag] + crossed
    return real, imag


def total(terms: Sequence[Signed]) -> Signed:
    """The sum. A zero is -0 if all its terms are -0, and there is at least one; otherwise it is +0."""
    value = sum((t.value for t in terms), Fraction(0))
    return Signed(value, value < 0 or (not value and bool(terms) and all(t.minus and not t.value for t in terms)))


def total_of_products(products: Sequence[Sequence[Number]], parts: int) -> Number:
    """The sum of products, with as many parts as asked: one is the real part."""
    terms: list[list[Signed]] = [[], []]
    for factors in products:
        for side, new in zip(terms, expanded(factors), strict=True):
            side += new
    return tuple(total(side) for side in terms[:parts])


# Operations -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Monomial:
    """Scales times elements of operands."""

    scales: tuple[Number, ...]
    elements: tuple[tuple[str, Index], ...]


@dataclass(frozen=True)
class Polynomials:
    """One sum of monomials for each element of an output of some shape."""

    shape: Shape
    monomials: dict[Index, list[Monomial]]


def indices(shape: Shape) -> Iterator[Index]:
    return product(*(range(n) for n in shape))


def seen_at(index: Index, shape: Shape) -> Index:
    """The element of an array that broadcasting puts at an index: leading dimensions may lack, and size one is copied."""
    aligned = index[len(index) - len(shape) :]
    return tuple(0 if n == 1 else i for i, n in zip(aligned, shape, strict=True))


def matmul(A: Shape, B: Shape, scales: tuple[Number, ...] = ()) -> Polynomials:
    a, b = (A if len(A) > 1 else (1, *A)), (B if len(B) > 1 else (*B, 1))
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    out: dict[Index, list[Monomial]] = {}
    for *place, i, j in indices((*batch, a[-2], b[-1])):
        terms = []
        for k in range(a[-1]):
            left, right = (*seen_at(tuple(place), a[:-2]), i, k), (*seen_at(tuple(place), b[:-2]), k, j)
            # The dimension that a vector was given goes again.
            left, right = (left if len(A) > 1 else left[1:]), (right if len(B) > 1 else right[:-1])
            terms.append(Monomial(scales, (("A", left), ("B", right))))
        out[(*place, *([i] if len(A) > 1 else []), *([j] if len(B) > 1 else []))] = terms
    return Polynomials((*batch, *a[-2:-1][: len(A) - 1], *b[-1:][: len(B) - 1]), out)


def gemm(A: Shape, B: Shape, C: Shape, alpha: Scalar = 1, beta: Scalar = 1) -> Polynomials:
    scaled = matmul(A, B, (number(alpha),))
    shape = np.broadcast_shapes(scaled.shape, C)
    extra = lambda i: Monomial((number(beta),), (("C", seen_at(i, C)),))
    return Polynomials(shape, {i: [*scaled.monomials[seen_at(i, scaled.shape)], extra(i)] for i in indices(shape)})


def _operand(name: str, x: Shape | Scalar, index: Index, scales: tuple[Number, ...]) -> Monomial:
    if isinstance(x, tuple):
        return Monomial(scales, ((name, seen_at(index, x)),))
    return Monomial((*scales, number(x)), ())


def _broadcast(*operands: Shape | Scalar) -> Shape:
    return np.broadcast_shapes(*(x for x in operands if isinstance(x, tuple)))


def add(x: Shape | Scalar, y: Shape | Scalar, alpha: Scalar = 1) -> Polynomials:
    shape = _broadcast(x, y)
    return Polynomials(shape, {i: [_operand("x", x, i, ()), _operand("y", y, i, (number(alpha),))] for i in indices(shape)})


def multiply(x: Shape | Scalar, y: Shape | Scalar) -> Polynomials:
    shape, out = _broadcast(x, y), {}
    for i in indices(shape):
        left, right = _operand("x", x, i, ()), _operand("y", y, i, ())
        out[i] = [Monomial(left.scales + right.scales, left.elements + right.elements)]
    return Polynomials(shape, out)


def sum_over(x: Shape, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Polynomials:
    given = range(len(x)) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = {a + len(x) if a < 0 else a for a in given} if x else set()
    reduced = tuple(1 if d in axes else n for d, n in enumerate(x) if keepdims or d not in axes)
    out: dict[Index, list[Monomial]] = {i: [] for i in indices(reduced)}
    for i in indices(x):
        place = tuple(0 if d in axes else n for d, n in enumerate(i) if keepdims or d not in axes)
        out[place].append(Monomial((), (("x", i),)))
    return Polynomials(reduced, out)


OPERATIONS = {"matmul": matmul, "gemm": gemm, "add": add, "multiply": multiply, "sum": sum_over}

# Values and gradients --------------------------------------------------------------------------------------------------------

#: The numbers of an array by index.
Table = dict[Index, Number]


def table(x: np.ndarray) -> Table:
    wide = np.asarray(x).astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return {i: number(wide[i]) for i in indices(x.shape)}


def value(operation: Polynomials, operands: dict[str, Table], parts: int) -> Table:
    out = {}
    for place, monomials in operation.monomials.items():
        products = [[*m.scales, *(operands[name][i] for name, i in m.elements)] for m in monomials]
        out[place] = total_of_products(products, parts)
    return out


def gradient(operation: Polynomials, operands: dict[str, Table], grad: Table, wanted: str, parts: int) -> Table:
    """The gradient of one operand, with the operand's number of parts."""
    products: dict[Index, list[list[Number]]] = {i: [] for i in operands[wanted]}
    for place, monomials in operation.monomials.items():
        for m in monomials:
            for element in (i for name, i in m.elements if name == wanted):
                others = [operands[name][i] for name, i in m.elements if name != wanted]
                products[element].append([grad[place], *map(conjugate, m.scales), *map(conjugate, others)])
    return {i: total_of_products(p, parts) for i, p in products.items()}


# Formats ----------------------------------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """A format's precision, least normal exponent, width, and the code that overflow gives."""

    precision: int
    least: int
    bits: int
    overflow: int


LAYOUTS = {
    "float64": Layout(53, -1022, 64, 0x7FF << 52),
    "float32": Layout(24, -126, 32, 0xFF << 23),
    "float16": Layout(11, -14, 16, 0x1F << 10),
    "bfloat16": Layout(8, -126, 16, 0xFF << 7),
    "float8_e5m2": Layout(3, -14, 8, 0x1F << 2),
    "float8_e4m3fn": Layout(4, -6, 8, 0x7F),
}
PARTS = {"complex64": "float32", "complex128": "float64"}


def code(x: Signed, layout: Layout) -> int:
    """The bits of a number rounded once: to nearest, ties to even, gradually to zero, beyond the largest number to the overflow code.

    Codes of one sign are ordered as numbers are, with the hidden bit carried into the exponent; so is the rounding up to the next binade.
    """
    n, d = abs(x.value.numerator), x.value.denominator
    sign = x.minus << (layout.bits - 1)
    if not n:
        return sign
    exponent = n.bit_length() - d.bit_length()
    exponent -= (n << max(-exponent, 0)) < (d << max(exponent, 0))
    exponent = max(exponent, layout.least)
    unit = exponent - layout.precision + 1
    n, d = n << max(-unit, 0), d << max(unit, 0)
    whole, rest = divmod(n, d)
    whole += 2 * rest > d or (2 * rest == d and whole & 1)
    magnitude = ((exponent - layout.least) << (layout.precision - 1)) + whole
    return sign | min(magnitude, layout.overflow)


def rounded_bits(numbers: Table, shape: Shape, dtype: str) -> list[np.ndarray]:
    """For each part of a dtype, the bits of the rounded numbers."""
    layout = LAYOUTS[PARTS.get(dtype, dtype)]
    columns = zip(*numbers.values(), strict=True) if numbers else [[]] * (2 if dtype in PARTS else 1)
    return [np.array([code(x, layout) for x in column], f"uint{layout.bits}").reshape(shape) for column in columns]


def bits(x: np.ndarray) -> list[np.ndarray]:
    """For each part of an array, its bits."""
    parts = [x.real, x.imag] if x.dtype.kind == "c" else [x]
    return [np.ascontiguousarray(p).view(f"uint{8 * p.dtype.itemsize}").reshape(x.shape) for p in parts]
