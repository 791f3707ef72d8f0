"""Ties and zeros that no precision decides are answered; what misses them by 2**-140 is told apart, on the right side."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from flint import arb, ctx

import exactref_jax as er
from exactref_jax.arithmetic.ball import precision
from exactref_jax.arithmetic.certified import certified
from exactref_jax.arithmetic.residue import Point
from exactref_jax.arithmetic.surd import magnitude, rounded, surd
from exactref_jax.formats import FORMATS

A, B = np.float32(0.3), np.float32(1.7)


def share(a: Any, b: Any) -> Any:
    return jnp.exp(a) / (jnp.exp(a) + jnp.exp(b))


def one(a: Any, b: Any) -> Any:
    """1, as the sum of two irrational terms."""
    return share(a, b) + share(b, a)


ZEROS: dict[str, Callable[[Any, Any], Any]] = {
    "shares": lambda a, b: one(a, b) - 1,
    "product of exponentials": lambda a, b: jnp.exp(a) * jnp.exp(b / 2) - jnp.exp(a + b / 2),
    "tanh": lambda a, b: jnp.tanh(a) - (jnp.exp(2 * a) - 1) / (jnp.exp(2 * a) + 1),
    "logistic": lambda a, b: 1 / (1 + jnp.exp(-a)) - jnp.exp(a) / (1 + jnp.exp(a)),
    "sinh and cosh": lambda a, b: jnp.cosh(a) ** 2 - jnp.sinh(a) ** 2 - 1,
    "a symbol": lambda a, b: (jnp.log(a) + b) - (b + jnp.log(a)),
    "the square of a root": lambda a, b: jnp.sqrt(a) * jnp.sqrt(a) - a,
    "thirds": lambda a, b: share(a / 3, b / 7) + share(b / 7, a / 3) - 1,
    "expm1": lambda a, b: jnp.expm1(a) - (jnp.exp(a) - 1),
    "a function of its inverse": lambda a, b: jnp.sinh(jnp.arcsinh(a)) + jnp.exp(jnp.log(b)) + jnp.log(jnp.exp(a)) - (b + 2 * a),
}


@pytest.mark.parametrize("name", ZEROS)
def test_zero_is_found(name: str) -> None:
    result = er.evaluate(ZEROS[name])(A, B)
    assert result.rounded == 0
    assert result.interval == (0, 0)
    assert not result.unsigned_zeros
    assert "residues" in str(result.decided_by)


@pytest.mark.parametrize("odd", [0, 1])
@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, 24), (ml_dtypes.bfloat16, 8), (np.float64, 53)])
def test_ties_go_to_the_even_number(dtype: Any, bits: int, odd: int) -> None:
    """1 + k ulp + half an ulp, both parities of k."""
    a, b = np.asarray(0.3, dtype), np.asarray(1.7, dtype)
    half = dtype(2.0**-bits)
    ulps = dtype(odd * 2.0 ** (1 - bits))
    result = er.evaluate(lambda a, b, h, k: one(a, b) + k + h)(a, b, half, ulps)
    assert float(result.rounded) == 1 + 2 * odd * 2.0 ** (1 - bits)
    assert "residues" in str(result.decided_by)


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, 24), (ml_dtypes.bfloat16, 8)])
def test_near_misses_are_told_apart(dtype: Any, bits: int, side: int) -> None:
    """The tie moved by 2**-140 relatively, by a number of the format times a power of two that the program makes."""
    a, b, half = np.asarray(0.3, dtype), np.asarray(1.7, dtype), dtype(2.0**-bits)
    tiny = dtype(side * 2.0**-70)

    def program(a: Any, b: Any, half: Any, tiny: Any) -> Any:
        return one(a, b) + half + tiny * jnp.abs(tiny)

    result = er.evaluate(program)(a, b, half, tiny)
    assert float(result.rounded) == (1.0 if side < 0 else 1 + 2.0 ** (1 - bits))


def test_no_inverse_is_taken_on_the_wrong_branch() -> None:
    """arccosh(cosh(x)) is |x|, arcsin(sin(x)) is x only near 0, sqrt(x * x) is |x|."""
    for f, x, expected in (
        (lambda x: jnp.arccosh(jnp.cosh(x)), -1.5, 1.5),
        (lambda x: jnp.arcsin(jnp.sin(x)), 3.0, np.pi - 3.0),
        (lambda x: jnp.sqrt(x * x), -1.5, 1.5),
        (lambda x: jnp.arctan(jnp.tan(x)), 3.0, 3.0 - np.pi),
    ):
        assert abs(float(er.evaluate(f)(np.float64(x)).rounded) - expected) < 1e-15


def test_comparisons_of_equal_numbers_are_decided() -> None:
    assert er.evaluate(lambda a, b: jnp.where(one(a, b) >= 1, a, b))(A, B).rounded == A
    assert er.evaluate(lambda a, b: jnp.where(one(a, b) > 1, a, b))(A, B).rounded == B


def test_a_quotient_by_a_hidden_zero_is_a_pole() -> None:
    assert np.isposinf(er.evaluate(lambda a, b: a / (one(a, b) - 1))(A, B).rounded)


# Attention ------------------------------------------------------------------------------------------------------------------


def mirrored(features: int) -> tuple[np.ndarray, np.ndarray]:
    """Two queries and two keys whose scores are (a, b) and (b, a)."""
    q = np.zeros((2, features), np.float32)
    k = np.zeros((2, features), np.float32)
    q[0, 0], q[1, 1] = 1.0, 1.0
    k[0, :2], k[1, :2] = (0.3, 1.7), (1.7, 0.3)
    return q, k


@pytest.mark.parametrize("features", [2, 3, 4, 5, 24])
@pytest.mark.parametrize("odd", [0, 1])
def test_grad_value_on_a_tie(features: int, odd: int) -> None:
    """softmax(a, b)[0] + softmax(b, a)[0] = 1, times a gradient half an ulp beyond a float32 number, by two rows."""
    q, k = mirrored(features)
    base = np.float32(1 + odd * 2.0**-23)
    # The gradient of value row 0 is p(0,0) g(0) + p(1,0) g(1); with equal g it is g. Two more columns add half an ulp exactly.
    g = np.array([[base, 2.0**-24], [base, 2.0**-24]], np.float32)
    gradients = er.scaled_dot_product_attention.backward(q, k, np.ones((2, 2), np.float32), g)
    assert gradients.rounded.grad_value[:, 0].tolist() == [float(base)] * 2
    summed = er.grad(lambda v: jnp.sum(jnp.asarray(g) * er.scaled_dot_product_attention.function(jnp.asarray(q), jnp.asarray(k), jnp.stack([v, v], 1))))
    result = summed(np.ones(2, np.float32))
    expected = 1 + 2 * odd * 2.0**-23 if odd else 1.0
    assert result.rounded.tolist() == [expected] * 2


@pytest.mark.parametrize("features", [2, 3])
def test_cancellation_across_rows_with_different_normalisers(features: int) -> None:
    """Rows of 2 and of 3 live keys with opposite gradients: grad_value of a key whose shares are equal cancels to zero."""
    q = np.zeros((2, features), np.float32)
    q[0, 0], q[1, 1] = 0.7, 0.7
    k = np.zeros((3, features), np.float32)
    k[:, 0], k[:, 1] = (0.3, 1.7, -2.0), (0.3, 1.7, -2.0)
    mask = np.array([[0.0, 0.0, -np.inf], [0.0, 0.0, -np.inf]], np.float32)
    g = np.array([[1.0], [-1.0]], np.float32)
    gradients = er.scaled_dot_product_attention.backward(q, k, np.array([[1.0], [2.0], [3.0]], np.float32), g, attn_mask=mask)
    assert gradients.rounded.grad_value.ravel().tolist() == [0.0, 0.0, 0.0]


def test_float_mask_beside_the_default_scale() -> None:
    """exp of a rational times exp of a rational multiple of sqrt(3): two independent transcendentals."""
    q, k = mirrored(3)
    mask = np.array([[0.25, 0.5], [0.5, 0.25]], np.float32)
    g = np.ones((2, 1), np.float32) * np.float32(1 + 2.0**-23)
    gradients = er.scaled_dot_product_attention.backward(q, k, np.ones((2, 1), np.float32), g, attn_mask=mask)
    assert gradients.rounded.grad_value.ravel().tolist() == [float(np.float32(1 + 2.0**-23))] * 2


def test_grad_query_summed_over_broadcast_rows() -> None:
    """One query, two batches of keys with the roles exchanged: dS cancels across the copies."""
    q = np.array([[[0.7, 0.3]]], np.float32)
    k = np.array([[[1.0, 2.0], [-1.0, 0.5]], [[-1.0, 0.5], [1.0, 2.0]]], np.float32)
    v = np.array([[[1.0], [2.0]], [[1.0], [2.0]]], np.float32)
    g = np.ones((2, 1, 1), np.float32)
    gradients = er.scaled_dot_product_attention.backward(q, k, v, g)
    assert gradients.rounded.grad_query.ravel().tolist() == [0.0, 0.0]


# The matrix exponential -----------------------------------------------------------------------------------------------------


def test_nilpotent_and_path_cancelling_exponentials() -> None:
    hidden = np.array([[1.0, -1.0], [1.0, -1.0]], np.float32)  # its square is zero
    assert er.matrix_exp(hidden).rounded.tolist() == [[2.0, -1.0], [1.0, 0.0]]
    # Two paths from 0 to 3 that cancel, between eigenvalues that are not zero.
    paths = np.array([[1, 1, 1, 0], [0, 2, 0, 1], [0, 0, 2, -1], [0, 0, 0, 3]], np.float32)
    assert er.matrix_exp(paths).rounded[0, 3] == 0
    assert not er.matrix_exp(paths).unsigned_zeros.any()
    # 1 + 2**-24 is a tie of float32: the entry of a nilpotent block, beside an eigenvalue that makes the others irrational.
    tie = np.array([[0, 2, 1, 0], [0, 0, 2.0**-24, 0], [0, 0, 0, 0], [0, 0, 0, 1]], np.float32)
    assert er.matrix_exp(tie).rounded[0, 2] == 1.0


def test_gradient_of_a_nilpotent_exponential_on_a_tie() -> None:
    A = np.array([[0.0, 1.0], [0.0, 0.0]], np.float32)
    # L(A', G)[1, 0] = g10 + (g00 + g11) / 2 + g01 / 6 (series): chosen to be 1 + 2**-24.
    G = np.array([[2.0**-23, 0.0], [1.0, 0.0]], np.float32)
    assert er.matrix_exp.backward(A, G).rounded.grad_A[1, 0] == 1.0
    G[1, 0] = 1 + 2.0**-23
    assert er.matrix_exp.backward(A, G).rounded.grad_A[1, 0] == np.float32(1 + 2.0**-22)


# Residues themselves --------------------------------------------------------------------------------------------------------


def test_failure_probability_is_kept() -> None:
    """Exponents 2**-149 and 2**7 apart need a subgroup of several hundred bits; the run takes one that is large enough."""
    tiny, large = np.float32(2.0**-149), np.float32(88.0)
    result = er.evaluate(lambda a, b: one(a, b) - 1)(tiny, large)
    assert result.rounded == 0


def test_exponents_too_far_apart_are_refused() -> None:
    with pytest.raises(er.ReferenceUnavailableError, match=r"prime of \d+ bits"):
        er.evaluate(lambda a: jnp.exp(a**5) * jnp.exp(-(a**5)) - 1)(np.float64(2.0**-1074))


def test_point_is_a_homomorphism() -> None:
    point = Point.random(256, random.Random(1))
    half, third = point.rational(Fraction(1, 2)), point.rational(Fraction(1, 3))
    assert point.add(half, third).value == point.rational(Fraction(5, 6)).value
    assert point.mul(point.exp(half), point.exp(third)).value == point.exp(point.rational(Fraction(5, 6))).value
    assert point.mul(point.root(6), point.root(6)).value == point.dyadic(6, 0).value
    assert point.mul(point.root(2), point.root(3)).value == point.root(6).value
    assert point.exp(point.root(12)).value == point.mul(point.exp(point.root(3)), point.exp(point.root(3))).value
    assert point.exp(half).value != point.exp(third).value
    assert point.exp(point.root(3)).value != point.exp(point.root(2)).value


def test_unequal_numbers_have_unequal_residues() -> None:
    """A residue of zero for a number that is not zero would be a wrong answer: 2000 random differences, none is zero."""
    field = certified([np.arange(3.0)])
    generator = np.random.default_rng(3)
    with precision(128):
        x, y = (field.exp(field.lift(generator.integers(-50, 50, 2000) / 8.0)) for _ in range(2))
        difference = field.sub(x, y)
    for a, b, d in zip(x[0], y[0], difference[1], strict=True):
        assert (d.value == 0) == (a is b or bool(a.overlaps(b)))


def test_surds_are_rounded_once() -> None:
    before = ctx.prec
    ctx.prec = 300
    try:
        for features in (2, 3, 5, 8, 12, 128):
            scale = surd(Fraction(1, features), features)
            exact = 1 / arb(features).sqrt()
            assert rounded(scale, FORMATS["float64"]) == float(exact)
            assert exact <= magnitude(scale)
            low, high = scale.bounds()
            assert arb(low.numerator) / low.denominator < exact < arb(high.numerator) / high.denominator
    finally:
        ctx.prec = before
    assert surd(Fraction(1, 4), 16) == Fraction(1)
