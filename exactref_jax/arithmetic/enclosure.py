"""Identities that are true of real numbers, for every `RealField` to inherit.

Each default is a theorem about real numbers, so it holds for any number system that encloses them, at whatever width. An heir overrides what
it has better. The budget must not inherit from here: it has to see the operation that an ordinary implementation calls, not what it equals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .interface import UNDECIDED, Parts
from .surd import Scale, Surd


class Enclosure:
    """Defaults of a `RealField`. An heir supplies lift, neg, add, mul, div, sqrt, exp, log, sign, is_zero, same and the bounds."""

    lift: Any
    neg: Any
    add: Any
    mul: Any
    div: Any
    sqrt: Any
    exp: Any
    log: Any
    sign: Any

    def constant(self, value: float, like: Parts) -> Parts:
        """The number `value`, with the shape of `like`."""
        return self.lift(np.full(like[0].shape, value))

    def sub(self, x: Parts, y: Parts) -> Parts:
        """X - y = x + (-y)."""
        return self.add(x, self.neg(y))

    def square(self, x: Parts) -> Parts:
        """x^2 = x x."""
        return self.mul(x, x)

    def one_minus_square(self, x: Parts) -> Parts:
        """1 - x^2 = (1 - x)(1 + x), which keeps the bits that cancel near x = 1 and -1."""
        one = self.constant(1.0, x)
        return self.mul(self.sub(one, x), self.add(one, x))

    def integer_pow(self, x: Parts, *, y: int) -> Parts:
        """x^y by squaring; x^-y = 1 / x^y."""
        out, base, n = self.constant(1.0, x), x, abs(y)
        while n:
            out = self.mul(out, base) if n & 1 else out
            n >>= 1
            base = self.square(base) if n else base
        return out if y >= 0 else self.div(self.constant(1.0, x), out)

    def polynomial(self, x: Parts, *coefficients: Parts) -> Parts:
        """Horner's scheme; the first coefficient is the constant one, as JAX's primitive has it."""
        out = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            out = self.add(self.mul(out, x), c)
        return out

    def rsqrt(self, x: Parts) -> Parts:
        """1 / sqrt(x)."""
        root = self.sqrt(x)
        return self.div(self.constant(1.0, x), root)

    def logistic(self, x: Parts) -> Parts:
        """1 / (1 + exp(-x))."""
        one = self.constant(1.0, x)
        return self.div(one, self.add(one, self.exp(self.neg(x))))

    def expm1(self, x: Parts) -> Parts:
        """exp(x) - 1."""
        return self.sub(self.exp(x), self.constant(1.0, x))

    def log1p(self, x: Parts) -> Parts:
        """log(1 + x)."""
        return self.log(self.add(self.constant(1.0, x), x))

    def tanh(self, x: Parts) -> Parts:
        """1 - 2 / (exp(2x) + 1)."""
        one = self.constant(1.0, x)
        two = self.constant(2.0, x)
        return self.sub(one, self.div(two, self.add(self.exp(self.add(x, x)), one)))

    # Sums -------------------------------------------------------------------------------------------------------------

    def sum(self, x: Parts, axis: int) -> Parts:
        """The sum along one axis, by halves: real addition is associative, and halves keep enclosures tight."""
        n = x[0].shape[axis]
        before, after = x[0].shape[:axis], x[0].shape[axis + 1 :]
        if n == 0:
            return self.lift(np.zeros(before + after))

        def cut(v: Parts, s: slice | int) -> Parts:
            return tuple(_array(p[(slice(None),) * axis + (s,)], p) for p in v)

        while n > 1:
            half = n // 2
            rest = cut(x, slice(2 * half, n))
            halves = self.add(cut(x, slice(0, half)), cut(x, slice(half, 2 * half)))
            x = tuple(np.concatenate([p, q], axis) for p, q in zip(halves, rest, strict=True))
            n = x[0].shape[axis]
        return cut(x, 0)

    def segment_sum(self, x: Parts, segments: np.ndarray, count: int) -> Parts:
        """Sums of flat `x` by segment number: sort into a table with one row a segment, padded with zeros, and sum the rows."""
        order = np.argsort(segments, kind="stable")
        order = order[segments[order] >= 0]
        per_segment = np.bincount(segments[order], minlength=count)
        width = int(per_segment.max(initial=0))
        start = np.concatenate([[0], np.cumsum(per_segment)[:-1]]).astype(np.int64)
        table = np.full((count, width), x[0].size, np.int64)
        table[segments[order], np.arange(order.size) - start[segments[order]]] = order
        zero = self.lift(np.zeros(1))
        return self.sum(tuple(np.concatenate([p, z])[table] for p, z in zip(x, zero, strict=True)), 1)

    def contract(self, terms: Sequence[tuple[Scale, Sequence[tuple[Parts, str]]]], output: str, sizes: Mapping[str, int]) -> Parts:
        """A sum of scaled products of at most two arrays, summed over the indices that `output` lacks; see `interface.Term`."""
        total: Parts | None = None
        for scale, factors in terms:
            product = self._term(scale, factors, output, sizes)
            total = product if total is None else self.add(total, product)
        return self.lift(np.zeros([sizes[n] for n in output])) if total is None else total

    def _term(self, scale: Scale, factors: Sequence[tuple[Parts, str]], output: str, sizes: Mapping[str, int]) -> Parts:
        reduced = []
        for k, (x, names) in enumerate(factors):
            others = "".join(n for j, (_, n) in enumerate(factors) if j != k)
            for name in [n for n in names if n not in output and n not in others]:
                x = self.sum(x, names.index(name))
                names = names.replace(name, "")
            reduced.append((x, names))
        if not reduced:
            out, names = self.lift(np.ones(())), ""
        elif len(reduced) == 1:
            out, names = reduced[0]
        else:
            left, right = reduced
            out, names = self._pair(left, right, output, sizes)
        if scale != 1:
            out = self.scale(out, scale)
        return _spread(out, names, output, sizes)

    def _pair(self, left: tuple[Parts, str], right: tuple[Parts, str], output: str, sizes: Mapping[str, int]) -> tuple[Parts, str]:
        """The product of two arrays as a batch of matrix products, (b, m, k) with (b, k, n)."""
        (x, xn), (y, yn) = left, right
        batch = "".join(n for n in xn if n in yn and n in output)
        inner = "".join(n for n in xn if n in yn and n not in output)
        rows = "".join(n for n in xn if n not in yn)
        columns = "".join(n for n in yn if n not in xn)

        def size(names: str) -> int:
            return int(np.prod([sizes[n] for n in names], dtype=np.int64))

        def arrange(v: Parts, names: str, groups: tuple[str, str, str]) -> Parts:
            order = [names.index(n) for n in "".join(groups)]
            return tuple(p.transpose(order).reshape([size(g) for g in groups]) for p in v)

        product = self.matmul(arrange(x, xn, (batch, rows, inner)), arrange(y, yn, (batch, inner, columns)))
        names = batch + rows + columns
        return tuple(p.reshape([sizes[n] for n in names]) for p in product), names

    def matmul(self, x: Parts, y: Parts) -> Parts:
        """(b, m, k) with (b, k, n): the sum of the products."""
        return self.sum(self.mul(tuple(p[:, :, :, None] for p in x), tuple(p[:, None] for p in y)), 2)

    def scale(self, x: Parts, factor: Scale) -> Parts:
        """X times a rational number, or times a rational multiple of a square root."""
        if factor == -1:
            return self.neg(x)
        if isinstance(factor, Surd):
            root = self.sqrt(self.lift(np.full(x[0].shape, factor.root, object)))
            return self.mul(self.scale(x, factor.factor), root)
        numerator = self.lift(np.full(x[0].shape, factor.numerator, object))
        out = self.mul(x, numerator)
        if factor.denominator == 1:
            return out
        return self.div(out, self.lift(np.full(x[0].shape, factor.denominator, object)))

    # Order ------------------------------------------------------------------------------------------------------------

    def is_positive(self, x: Parts) -> np.ndarray:
        """True where the number is certainly above zero."""
        return self.sign(x) == 1

    def undecided(self, x: Parts) -> np.ndarray:
        """True where the sign is not known."""
        return self.sign(x) == UNDECIDED


def _array(x: Any, like: np.ndarray) -> np.ndarray:
    return x if isinstance(x, np.ndarray) else np.array(x, dtype=like.dtype)


def _spread(x: Parts, names: str, output: str, sizes: Mapping[str, int]) -> Parts:
    """Transpose to the output's order and copy along the indices that `names` lacks."""
    present = [n for n in output if n in names]
    shape = [sizes[n] if n in names else 1 for n in output]
    full = tuple(sizes[n] for n in output)
    return tuple(np.broadcast_to(p.transpose([names.index(n) for n in present]).reshape(shape), full) for p in x)
