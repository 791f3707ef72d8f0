"""One multilinear primitive; `matmul`, `gemm`, `add`, `multiply` and `sum` are spellings of it.

    contraction(x_0, x_1, ...)[output] = sum over terms of  scale * sum over the other letters of  x_i[inputs i] * x_j[inputs j]

Every term is a rational (or Gaussian rational) number times a product of at most two operands. Each operand has one letter a dimension; letters that
the output lacks are summed, letters of the output that a term lacks are copies. The class of these functions is closed under differentiation (replace
an operand by its tangent), under transposition (exchange an operand and the output), and under batching (one more letter), so the backward of each spelling is
one contraction for each operand: the copies that broadcasting made are folded into the sum, and it is rounded once.

Sources: the rules are those of einsum, as in Laue, Mitterreiter and Giesen, "Computing higher order derivatives of matrix and tensor expressions",
NeurIPS 2018, section 3.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.interpreters import ad

from ..arithmetic.surd import MinusZero
from ..formats import FLOAT32, FORMATS, is_complex
from ..jax_compat import zero_tangent
from .primitive import define


@dataclass(frozen=True)
class ScaledProduct:
    """One term: `(real + imag i)` times the product of the operands numbered in `factors`.

    Attributes:
        real: real part of the scale.
        imag: imaginary part of the scale.
        factors: numbers of the operands, at most two.
        copies: letters that stand for copies which broadcasting makes.
        root: a positive integer whose square root is one more factor of the scale.
        minus_zero: whether the real part is the scalar -0.
    """

    real: Fraction
    imag: Fraction
    factors: tuple[int, ...]
    copies: str = ""
    root: int = 1
    minus_zero: bool = False

    def of(self, factors: Sequence[int]) -> ScaledProduct:
        """The same term of other operands."""
        return replace(self, factors=tuple(factors))


Names = tuple[str, ...]
Sizes = tuple[tuple[str, int], ...]
Terms = tuple[ScaledProduct, ...]


def _abstract(*operands: Any, inputs: Names, terms: Terms, output: str, sizes: Sizes) -> ShapedArray:
    size = dict(sizes)
    dtype = operands[0].dtype
    for k, (x, names) in enumerate(zip(operands, inputs, strict=True)):
        wanted = tuple(size[n] for n in names)
        if x.shape != wanted or x.dtype != dtype:
            raise TypeError(f"contraction: operand {k} is {x.str_short()}, wanted {dtype}{list(wanted)} for indices {names!r}")
    if any(t.imag for t in terms) and not is_complex(dtype):
        raise TypeError(f"contraction: a complex scale needs complex operands, not {dtype}")
    return ShapedArray(tuple(size[n] for n in output), dtype)


def _lowering(*operands: Any, inputs: Names, terms: Terms, output: str, sizes: Sizes) -> Any:
    """An ordinary implementation: einsum, half formats and float8 accumulated in float32, rounded once."""
    size, dtype = dict(sizes), operands[0].dtype
    narrow = not is_complex(dtype) and FORMATS[dtype.name].precision < FLOAT32.precision
    wide = jnp.float32 if narrow else dtype
    shape = [size[n] for n in output]
    total = None
    for term in terms:
        names = [inputs[k] for k in term.factors]
        have = "".join(n for n in output if any(n in s for s in names))
        scale = (complex(term.real, term.imag) if term.imag else -0.0 if term.minus_zero else float(term.real)) * math.sqrt(term.root)
        if names:
            factors = [lax.convert_element_type(operands[k], wide) for k in term.factors]
            value = jnp.einsum(",".join(names) + "->" + have, *factors, precision="highest")
            value = value if scale == 1 else value * jnp.asarray(scale, wide)
        else:
            value = jnp.asarray(scale, wide)
        value = jnp.broadcast_to(jnp.reshape(value, [size[n] if n in have else 1 for n in output]), shape)
        total = value if total is None else total + value
    return lax.convert_element_type(jnp.zeros(shape, wide) if total is None else total, dtype)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, inputs: Names, **params: Any) -> tuple[Any, Any]:
    """d(c x y) = c dx y + c x dy: terms again, with tangents among the operands, each under its primal's letters."""
    out = contraction_p.bind(*primals, inputs=inputs, **params)
    moving = [k for k, t in enumerate(tangents) if type(t) is not ad.Zero]
    place = {k: len(primals) + i for i, k in enumerate(moving)}
    linear = [term.of([*term.factors[:i], place[k], *term.factors[i + 1 :]]) for term in params["terms"] for i, k in enumerate(term.factors) if k in place]
    if not linear:
        return out, zero_tangent(out)
    operands = (*primals, *(tangents[k] for k in moving))
    names = (*inputs, *(inputs[k] for k in moving))
    return out, contraction_p.bind(*operands, inputs=names, **{**params, "terms": tuple(linear)})


def _transpose(cotangent: Any, *operands: Any, inputs: Names, terms: Terms, output: str, sizes: Sizes) -> list[Any]:
    """The cotangent of a linear operand: in each of its terms, the operand and the output exchange places."""
    linear = [k for k, x in enumerate(operands) if ad.is_undefined_primal(x)]
    known = [k for k in range(len(operands)) if k not in linear]
    place = {k: 1 + i for i, k in enumerate(known)}
    out: list[Any] = [None] * len(operands)
    for k in linear:
        mine = [t for t in terms if k in t.factors]
        if type(cotangent) is ad.Zero or not mine:
            out[k] = ad.Zero(operands[k].aval)
            continue
        exchanged = tuple(t.of([0, *(place[j] for j in t.factors if j != k)]) for t in mine)
        names = (output, *(inputs[j] for j in known))
        out[k] = contraction_p.bind(cotangent, *(operands[j] for j in known), inputs=names, terms=exchanged, output=inputs[k], sizes=sizes)
    return out


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, inputs: Names, terms: Terms, output: str, sizes: Sizes) -> tuple[Any, int]:
    """One more letter, in front, for the batched operands and the output."""
    letter = next(c for c in string.ascii_letters if c not in dict(sizes))
    (size,) = {x.shape[d] for x, d in zip(operands, axes, strict=True) if d is not None}
    moved = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, axes, strict=True)]
    names = tuple(n if d is None else letter + n for n, d in zip(inputs, axes, strict=True))
    return contraction_p.bind(*moved, inputs=names, terms=terms, output=letter + output, sizes=(*sizes, (letter, size))), 0


contraction_p = define(
    "contraction",
    static=("inputs", "terms", "output", "sizes"),
    abstract=_abstract,
    lowering=_lowering,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
)

# The spellings --------------------------------------------------------------------------------------------------------------

#: Real and imaginary part of a scale, as exact rationals.
Scale = tuple[Fraction, Fraction]
ONE: Scale = (Fraction(1), Fraction(0))


def contraction(terms: Sequence[tuple[Scale, Sequence[tuple[Any, str]], str]], output: str, sizes: dict[str, int], dtype: Any, root: int = 1) -> jax.Array:
    """Bind the primitive. An index of size one in an operand, where it is longer elsewhere, is a copy: its letter is dropped.

    Args:
        terms: (scale, [(array, letters)], letters of copies).
        output: letters of the output.
        sizes: size of each letter.
        dtype: of the output, to which the arrays are cast.
        root: its square root multiplies every scale.
    """
    arrays: list[Any] = []
    inputs: list[str] = []
    built: list[ScaledProduct] = []
    for (real, imag), factors, copies in terms:
        placed = []
        for x, names in factors:
            dropped = tuple(d for d, n in enumerate(names) if x.shape[d] == 1 and sizes[n] != 1)
            placed.append(len(arrays))
            arrays.append(lax.convert_element_type(lax.squeeze(x, dropped) if dropped else x, dtype))
            inputs.append("".join(n for d, n in enumerate(names) if d not in dropped))
        built.append(ScaledProduct(real, imag, tuple(placed), copies, root, isinstance(real, MinusZero)))
    if not arrays:
        raise TypeError("a contraction needs at least one array")
    used = set(output).union(*inputs)
    known = tuple((n, s) for n, s in sizes.items() if n in used)
    return contraction_p.bind(*arrays, inputs=tuple(inputs), terms=tuple(built), output=output, sizes=known)


def letters(count: int, taken: str = "") -> str:
    """`count` letters that are not in `taken`."""
    return "".join([c for c in string.ascii_letters if c not in taken][:count])


def aligned(shape: Sequence[int], names: str) -> str:
    """The last letters of `names`, one for each dimension: NumPy's alignment for broadcasting."""
    return names[len(names) - len(shape) :]


def broadcast_shapes(operation: str, **shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's broadcasting, with an error that names the operands."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        given = ", ".join(f"{k} {list(s)}" for k, s in shapes.items())
        raise ValueError(f"{operation}: the shapes of {' and '.join(shapes)} do not broadcast: {given}.") from None


def matrix_product(operation: str, A: Any, B: Any, scale: Scale) -> tuple[tuple[Scale, list[tuple[Any, str]], str], str, dict[str, int]]:
    """The term, output letters and sizes of `scale * (A @ B)`, with NumPy's rules for one-dimensional operands and batches."""
    for name, x in (("A", A), ("B", B)):
        if x.ndim == 0:
            raise ValueError(f"{operation}: {name} has no dimensions; wanted at least one.")
    inner_a, inner_b = A.shape[-1], B.shape[-2] if B.ndim > 1 else B.shape[0]
    if inner_a != inner_b:
        axis = "second to last" if B.ndim > 1 else "only"
        raise ValueError(f"{operation}: the last dimension of A and the {axis} one of B must agree; given A {list(A.shape)}, B {list(B.shape)}.")
    batch = broadcast_shapes(operation, A=A.shape[:-2], B=B.shape[:-2])
    b = letters(len(batch), "mkn")
    names_a = aligned(A.shape[:-2], b) + ("mk" if A.ndim > 1 else "k")
    names_b = aligned(B.shape[:-2], b) + ("kn" if B.ndim > 1 else "k")
    output = b + ("m" if A.ndim > 1 else "") + ("n" if B.ndim > 1 else "")
    sizes = {**dict(zip(b, batch, strict=True)), "k": inner_a}
    sizes.update({"m": A.shape[-2]} if A.ndim > 1 else {})
    sizes.update({"n": B.shape[-1]} if B.ndim > 1 else {})
    # PyTorch folds batches into the sum of one product unless both operands have batch dimensions.
    copies = b if A.ndim > 2 and B.ndim > 2 else ""
    return (scale, [(A, names_a), (B, names_b)], copies), output, sizes
