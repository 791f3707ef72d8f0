"""Balls with a residue beside each: a `Ball` that also knows when a number is exactly zero.

The ball says where a number is, the residue whether it is exactly a given number. A number that the ball cannot tell from zero, and whose residue is
zero, is zero: it becomes the exact ball, so that comparisons, products and quotients after it are decided too.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from ..formats import Format
from ..values import as_objects
from .ball import Ball, objects
from .interface import Parts
from .rational_exp import MAXIMUM_SIZE, rational_entries
from .residue import UNKNOWN, Point, Residue
from .surd import Scale, Surd

#: Bits of the subgroup's order to begin with, and the probability (log2) that is accepted.
FIRST_ORDER_BITS = 512
FAILURE_BITS = -100


class Certified(Ball):
    """Real numbers as pairs of a ball and a residue at one random point."""

    name = "residues"

    def __init__(self, point: Point):
        self.point = point
        self.ball = Ball()

    # Pairs ----------------------------------------------------------------------------------------------------------------

    def _joined(self, balls: np.ndarray, residues: np.ndarray) -> Parts:
        """Both, each made to know what the other knows."""
        out_balls: Any = as_objects(balls).copy()
        out_residues: Any = as_objects(residues).copy()
        for index in np.ndindex(out_balls.shape):
            ball, residue = out_balls[index], out_residues[index]
            if ball.is_exact():
                if residue.algebraic is None or residue.value is None:
                    out_residues[index] = self._of_exact(ball)
            elif residue.value == 0 and ball.contains(0) and self.point.settle(residue):
                out_balls[index], out_residues[index] = arb(0), self.point.dyadic(0, 0)
        return out_balls, out_residues

    def _of_exact(self, ball: arb) -> Residue:
        significand, exponent = ball.man_exp()
        return self.point.dyadic(int(significand), int(exponent))

    def _both(self, name: str, residue: Callable[..., Residue], *xs: Parts, **params: Any) -> Parts:
        balls = getattr(self.ball, name)(*((x[0],) for x in xs), **params)[0]
        return self._joined(balls, objects(residue, len(xs))(*(x[1] for x in xs)))

    def lift(self, array: np.ndarray) -> Parts:
        """Exactly."""
        balls = super().lift(array)[0]
        return balls, objects(self._of_exact, 1)(balls)

    def constant(self, value: float, like: Parts) -> Parts:
        """The number `value`, with the shape of `like`."""
        return self.lift(np.full(like[0].shape, value))

    def neg(self, x: Parts) -> Parts:
        """-x."""
        return self._both("neg", self.point.neg, x)

    def add(self, x: Parts, y: Parts) -> Parts:
        """The sum."""
        return self._both("add", self.point.add, x, y)

    def sub(self, x: Parts, y: Parts) -> Parts:
        """The difference."""
        return self._both("sub", lambda a, b: self.point.add(a, self.point.neg(b)), x, y)

    def mul(self, x: Parts, y: Parts) -> Parts:
        """The product."""
        return self._both("mul", self.point.mul, x, y)

    def div(self, x: Parts, y: Parts) -> Parts:
        """The quotient."""
        return self._both("div", self.point.div, x, y)

    def square(self, x: Parts) -> Parts:
        """x^2."""
        return self._both("square", lambda a: self.point.mul(a, a), x)

    def integer_pow(self, x: Parts, *, y: int) -> Parts:
        """x^y."""
        return self._both("integer_pow", lambda a: self.point.power(a, y), x, y=y)

    def abs(self, x: Parts) -> Parts:
        """|x|, whose residue is known where the sign is."""
        negated = self.neg(x)
        signs = self.sign(x)
        unknown: Any = UNKNOWN
        residues = np.where(signs == -1, negated[1], np.where((signs == 0) | (signs == 1), x[1], unknown))
        return self._joined(self.ball.abs((x[0],))[0], residues)

    def maximum(self, x: Parts, y: Parts) -> Parts:
        """The larger one."""
        return self._chosen("maximum", x, y)

    def minimum(self, x: Parts, y: Parts) -> Parts:
        """The smaller one."""
        return self._chosen("minimum", x, y)

    def _chosen(self, name: str, x: Parts, y: Parts) -> Parts:
        sign = self.sign(self.sub(x, y))
        first = (sign == 1) if name == "maximum" else (sign == -1)
        x, y = (tuple(np.broadcast_to(p, sign.shape) for p in v) for v in (x, y))
        unknown: Any = UNKNOWN
        residues = np.where(first | (sign == 0), x[1], np.where(np.abs(sign) == 1, y[1], unknown))
        return self._joined(getattr(self.ball, name)((x[0],), (y[0],))[0], residues)

    def exp(self, x: Parts) -> Parts:
        """The exponential."""
        return self._both("exp", self._inverting("exp", self.point.exp), x)

    def _inverting(self, name: str, function: Callable[[Residue], Residue]) -> Callable[[Residue], Residue]:
        """`function`, which undoes its inverse and can be undone."""

        def apply(x: Residue) -> Residue:
            undone = self.point.undone(name, x)
            return self.point.value_of(name, x, function(x)) if undone is None else undone

        return apply

    def _of_exponential(self, name: str, formula: Callable[[Residue, Residue], Residue], x: Parts, factor: int = 1) -> Parts:
        """A function that is rational in `exp(factor x)`: the ball by its own method, the residue by the formula of e and 1."""
        point, one, times = self.point, self.point.dyadic(1, 0), self.point.dyadic(factor, 0)
        return self._both(name, self._inverting(name, lambda a: formula(point.exp(point.mul(a, times)), one)), x)

    def expm1(self, x: Parts) -> Parts:
        """exp(x) - 1."""
        p = self.point
        return self._of_exponential("expm1", lambda e, one: p.add(e, p.neg(one)), x)

    def logistic(self, x: Parts) -> Parts:
        """E / (1 + e)."""
        p = self.point
        return self._of_exponential("logistic", lambda e, one: p.div(e, p.add(one, e)), x)

    def tanh(self, x: Parts) -> Parts:
        """(e^2 - 1) / (e^2 + 1)."""
        p = self.point
        return self._of_exponential("tanh", lambda e, one: p.div(p.add(e, p.neg(one)), p.add(e, one)), x, 2)

    def sinh(self, x: Parts) -> Parts:
        """(e - 1/e) / 2."""
        p, two = self.point, self.point.dyadic(2, 0)
        return self._of_exponential("sinh", lambda e, one: p.div(p.add(e, p.neg(p.div(one, e))), two), x)

    def cosh(self, x: Parts) -> Parts:
        """(e + 1/e) / 2."""
        p, two = self.point, self.point.dyadic(2, 0)
        return self._of_exponential("cosh", lambda e, one: p.div(p.add(e, p.div(one, e)), two), x)

    def half_pi(self, like: Parts) -> Parts:
        """Pi / 2."""
        return self.ball.half_pi(like)[0], np.full(like[0].shape, self.point.symbol("pi / 2"), object)

    def scale(self, x: Parts, factor: Scale) -> Parts:
        """X times a rational number, or times a rational multiple of a square root."""
        rational = factor.factor if isinstance(factor, Surd) else Fraction(factor)
        residue = self.point.rational(rational)
        if isinstance(factor, Surd):
            residue = self.point.mul(residue, self.point.root(factor.root))
        return self._joined(self.ball.scale((x[0],), factor)[0], objects(lambda a: self.point.mul(a, residue), 1)(x[1]))

    def matmul(self, x: Parts, y: Parts) -> Parts:
        """(b, m, k) with (b, k, n): Arb's product, and sums of products of residues."""
        balls = self.ball.matmul((x[0],), (y[0],))[0]
        k = x[0].shape[2]
        products = objects(self.point.mul, 2)(x[1][:, :, :, None], y[1][:, None])
        if k == 0:
            return self._joined(balls, np.full(balls.shape, self.point.dyadic(0, 0), object))
        total = products[:, :, 0]
        for i in range(1, k):
            total = objects(self.point.add, 2)(total, products[:, :, i])
        return self._joined(balls, total)

    def matrix_exp(self, real: Parts, imag: Parts | None) -> tuple[Parts, Parts | None]:
        """The exponentials of square matrices. Of exact ones it is known which entries are rational; all others are symbols."""
        balls = self.ball.matrix_exp((real[0],), None if imag is None else (imag[0],))
        results = []
        for which, part in enumerate(balls):
            if part is None:
                continue
            values, residues = part[0].copy(), np.empty(part[0].shape, object)
            for b in range(len(values)):
                known = self._rational_exp(real[0][b], None if imag is None else imag[0][b])
                key = (*(x.value for x in real[1][b].flat), *(() if imag is None else (x.value for x in imag[1][b].flat)))
                n = values.shape[1]
                for i, j in np.ndindex(n, n):
                    # [[Re, -Im], [Im, Re]]: the imaginary part stands below.
                    rational = known.get((i + which * n, j))
                    if rational is not None:
                        values[b, i, j] = arb(rational.numerator) / arb(rational.denominator)
                        residues[b, i, j] = self.point.rational(rational)
                    else:
                        residues[b, i, j] = UNKNOWN if None in key else self.point.symbol(("matrix_exp", which, i, j, key))
            results.append(self._joined(values, residues))
        return results[0], None if imag is None else results[1]

    def _rational_exp(self, real: np.ndarray, imag: np.ndarray | None) -> dict[tuple[int, int], Fraction]:
        n = len(real)
        parts = [real] if imag is None else [real, imag]
        if n > MAXIMUM_SIZE or not all(x.is_exact() for p in parts for x in p.flat):
            return {}
        exact = [[_fraction(x) for x in p.flat] for p in parts]
        if imag is None:
            return rational_entries(exact[0], n)
        re, im = (np.array([*e, None], object)[:-1].reshape(n, n) for e in exact)
        return rational_entries(list(np.block([[re, -im], [im, re]]).flat), 2 * n)

    def multiple(self, x: Parts, name: str) -> Parts:
        """X times a constant of `constants`, which is a symbol."""
        constant = self.point.rational(Fraction(1, 3)) if name == "1/3" else self.point.symbol(name)
        return self._joined(self.ball.multiple((x[0],), name)[0], objects(lambda a: self.point.mul(a, constant), 1)(x[1]))

    def fresh(self, x: Parts) -> Parts:
        """The same numbers as new objects."""
        return (*self.ball.fresh((x[0],)), x[1])

    def wanted_order_bits(self) -> int:
        """Bits of the subgroup's order with which all that was found zero here is so but for a probability below `2**FAILURE_BITS`."""
        bits = self.point.order.bit_length()
        return bits if self.point.checked == -np.inf else max(bits, bits + int(np.ceil(self.point.failure() - FAILURE_BITS)))

    # What is known --------------------------------------------------------------------------------------------------------

    def settled(self, x: Parts, fmt: Format) -> np.ndarray:
        """The balls; those whose residue is that of a rounding boundary in them made exact, because they are that boundary."""
        _, decided, _ = super().round((x[0],), fmt)
        out = x[0].copy()
        for index in np.argwhere(~decided):
            at = tuple(index)
            for boundary in self.boundaries(x[0].item(at), fmt):
                difference = self.point.add(x[1].item(at), self.point.neg(self.point.rational(boundary)))
                if self.point.settle(difference):
                    out[at] = arb(boundary.numerator) / arb(boundary.denominator)
        return out


def _fraction(x: arb) -> Fraction:
    significand, exponent = x.man_exp()
    return Fraction(int(significand)) * Fraction(2) ** int(exponent)


def _symbolic(name: str) -> Any:
    def method(self: Certified, *xs: Parts, **params: Any) -> Parts:
        function = lambda *a: self.point.function(name, *a)
        return self._both(name, self._inverting(name, function) if len(xs) == 1 else function, *xs, **params)

    method.__doc__ = f"`Ball.{name}`; the residue is a symbol, unless the result is exact."
    return method


for _name in (
    "exp2 log log1p log2 sqrt rsqrt cbrt sin cos tan asin acos atan asinh acosh atanh erf erfc erf_inv pow atan2 rem floor ceil "
    "round_half_away round_half_even truncate"
).split():
    setattr(Certified, _name, _symbolic(_name))


def certified(seed: Sequence[np.ndarray], order_bits: int = FIRST_ORDER_BITS) -> Certified:
    """A field at a point that depends on the operands, so that a result is the same every time."""
    digest = hashlib.sha256(str(order_bits).encode())
    for x in seed:
        digest.update(str(x.dtype).encode() + x.tobytes())
    return Certified(Point.random(order_bits, random.Random(digest.digest())))
