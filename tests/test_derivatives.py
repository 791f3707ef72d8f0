"""Derivatives are exact where JAX's rules are not: rounded constants, and branches that were not taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from exact_attention import rounded
from flint import arb, ctx
from jax import lax

import exactref_jax as er

X = np.array([-4.5, -1.25, -0.3, 0.25, 0.7, 2.5], np.float32)

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], np.ndarray]] = {
    "erf": (lax.erf, lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x), X),
    "erfc": (lax.erfc, lambda x: -2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x), X),
    "erf_inv": (lax.erf_inv, lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(mpmath.erfinv(x) ** 2), X / 5),
    "exp2": (lax.exp2, lambda x: mpmath.log(2) * mpmath.power(2, x), X),
    "cbrt": (lax.cbrt, lambda x: 1 / (3 * mpmath.power(abs(x), mpmath.mpf(2) / 3)), X),
    "gelu": (
        lambda x: x * lax.erfc(-x * np.float32(np.sqrt(0.5))) / 2,
        lambda x: _gelu_derivative(x),
        X,
    ),
}


def _gelu_derivative(x: Any) -> Any:
    c = mpmath.mpf(float(np.float32(np.sqrt(0.5))))
    return mpmath.erfc(-x * c) / 2 + x * c / mpmath.sqrt(mpmath.pi) * mpmath.exp(-((x * c) ** 2))


def nearest(value: Any) -> float:
    before, ctx.prec = ctx.prec, 300
    try:
        return rounded(arb(mpmath.nstr(value, 60)), np.float32)
    finally:
        ctx.prec = before


@pytest.mark.parametrize("name", FUNCTIONS)
def test_constants_in_derivatives_are_real_numbers(name: str) -> None:
    function, derivative, x = FUNCTIONS[name]
    exact = er.grad(lambda x: jnp.sum(function(x)))(x)
    with mpmath.workdps(80):
        expected = [nearest(derivative(mpmath.mpf(float(v)))) for v in x]
    assert exact.rounded.tolist() == expected
    exact.assert_covers(jax.grad(lambda x: jnp.sum(function(x)))(x))
    assert exact.covers(exact.normal).all()


def test_jax_s_own_program_holds_a_rounded_constant() -> None:
    """Why the rules are needed: the traced program of JAX's gradient has another exact value."""
    x = X / 5
    ours = er.grad(lambda x: jnp.sum(lax.erf_inv(x)))(x)
    theirs = er.evaluate(jax.grad(lambda x: jnp.sum(lax.erf_inv(x))))(x)
    assert (ours.interval.lower != theirs.interval.lower).all()


def test_branch_not_taken_has_no_derivative() -> None:
    """JAX gives NaN at 0: zero times infinity."""
    f = lambda x: jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))
    x = np.array([4.0, 0.0, -1.0], np.float32)
    exact = er.grad(f)(x)
    assert exact.rounded.tolist() == [0.25, 0.0, 0.0]
    candidate = np.asarray(jax.grad(f)(x))
    assert np.isnan(candidate[1])
    assert exact.covers(candidate).tolist()[:2] == [True, False]
    assert exact.covers(exact.normal).all()
    assert exact.covers([0.25, 0.0, 0.0]).all()
    _, tangent = er.jvp(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0), (x,), (np.ones_like(x),))
    assert tangent.rounded.tolist() == [0.25, 0.0, 0.0]


def test_a_zero_that_the_user_wrote_is_a_number() -> None:
    """0 * inf is NaN where the program multiplies: only derivatives can be absent."""
    assert np.isnan(er.evaluate(lambda x: jnp.where(x > 0, x, 0.0) * jnp.inf)(np.float32(-1.0)).rounded)
    assert np.isnan(er.grad(lambda x: 0.0 * jnp.sqrt(x))(np.float32(0.0)).rounded)


@pytest.mark.parametrize(("x", "y", "expected"), [(1.0, 2.0, (0.0, 1.0)), (2.0, 1.0, (1.0, 0.0)), (1.0, 1.0, (0.5, 0.5)), (np.nan, 1.0, (0.0, 0.0))])
def test_maximum_shares_a_tie(x: float, y: float, expected: tuple[float, float]) -> None:
    gradients = er.grad(jnp.maximum, (0, 1))(np.float32(x), np.float32(y))
    assert tuple(float(g) for g in gradients.rounded) == expected
    gradients.assert_covers(jax.grad(jnp.maximum, (0, 1))(np.float32(x), np.float32(y)))
    lesser = er.grad(jnp.minimum, (1, 0))(np.float32(x), np.float32(y))
    assert tuple(float(g) for g in lesser.rounded) == expected


@pytest.mark.parametrize("x", [-2.0, -1.0, 0.5, 1.0, 3.0])
def test_clamp_is_jax_s(x: float) -> None:
    f = lambda low, x, high: lax.clamp(low, x, high)
    arguments = tuple(np.float32(v) for v in (-1.0, x, 1.0))
    exact = er.grad(f, (0, 1, 2))(*arguments)
    assert [float(g) for g in exact.rounded] == [float(g) for g in jax.grad(f, (0, 1, 2))(*arguments)]


def test_a_near_tie_has_a_finite_tolerance() -> None:
    """Two products that float32 cannot tell apart: the gradient of their maximum may be either's."""
    x = np.float32(1 + 2.0**-23)

    def f(x: Any) -> Any:
        return jnp.maximum(x * x * x, x * x * x * (1 + np.float32(2.0**-30)))

    exact = er.grad(f)(x)
    assert exact.unbounded == 0
    exact.assert_covers(jax.grad(f)(x))


LOOPS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda x: lax.scan(lambda c, _: (lax.erf(c) + x, c), x, None, length=3)[0],
    "scan over a sequence": lambda x: lax.scan(lambda c, v: (jnp.maximum(c, v) * c, v), x, jnp.arange(3.0), reverse=True)[0],
    "cond": lambda x: lax.cond(x > 0, lambda x: lax.erf(x), lambda x: x, x),
    "switch": lambda x: lax.switch(1, [lambda x: x, lambda x: lax.exp2(x), lambda x: -x], x),
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.where(c > 0, lax.erf(c), c), x),
    "jit": lambda x: jax.jit(lambda y: lax.erf(y) * x)(x),
    "checkpoint": lambda x: jax.checkpoint(lambda y: lax.erf(lax.erf(y)))(x),
    "vmap": lambda x: jnp.sum(jax.vmap(lambda a: jnp.where(a > 0, lax.erf(a), jnp.maximum(a, -1.0)))(x * jnp.arange(-2.0, 3.0))),
    "nested": lambda x: jax.jit(lambda y: lax.scan(lambda c, _: (lax.cond(c > 0, lax.erf, lax.neg, c), None), y, None, length=2)[0])(x),
}


@pytest.mark.parametrize("name", LOOPS)
def test_rules_reach_into_control_flow(name: str) -> None:
    f = LOOPS[name]
    exact = er.grad(f)(np.float64(0.7))
    with jax.enable_x64(True):
        candidate = jax.grad(f)(jnp.float64(0.7))
        h = 1e-6
        difference = (f(jnp.float64(0.7 + h)) - f(jnp.float64(0.7 - h))) / (2 * h)
    exact.assert_covers(candidate)
    assert abs(float(exact.rounded) - float(difference)) < 1e-8


def test_a_user_s_own_rule_stands() -> None:
    @jax.custom_jvp
    def f(x: Any) -> Any:
        return lax.erf(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 7.0 * tangents[0]))
    assert float(er.grad(lambda x: f(x) + jnp.maximum(x, 0.0))(np.float32(1.0)).rounded) == 8.0

    @jax.custom_vjp
    def g(x: Any) -> Any:
        return lax.erf(x)

    g.defvjp(lambda x: (g(x), None), lambda _, ct: (5.0 * ct,))
    assert float(er.grad(lambda x: g(x) + jnp.maximum(x, 0.0))(np.float32(1.0)).rounded) == 6.0


def test_aux_that_is_no_array_passes_through() -> None:
    gradient, aux = er.grad(lambda x: (lax.erf(x), {"name": "erf", "x": x}), has_aux=True)(np.float32(0.5))
    assert aux["name"] == "erf"
    assert aux["x"].rounded == 0.5
    assert gradient.shape == ()
