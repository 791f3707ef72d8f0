"""NaN, infinities, signed zeros and the edges of domains: each function as IEEE 754 has it, which is what JAX does on a CPU in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import exactref_jax as er

INF, NAN = np.inf, np.nan
X = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 5e-324, -5e-324, 1.7e308, -1.7e308])

UNARY: dict[str, Callable[[Any], Any]] = {
    name: getattr(lax, name)
    for name in (
        "neg abs sign exp exp2 expm1 log log1p sqrt rsqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh logistic erf erfc erf_inv "
        "floor ceil round square is_finite"
    ).split()
}
UNARY |= {f"integer_pow {n}": (lambda x, n=n: lax.integer_pow(x, n)) for n in (-3, -2, -1, 0, 1, 2, 3)}
UNARY["round to even"] = lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)

#: Where JAX on a CPU is not IEEE, or not the real function: subnormals are flushed, and a huge argument's function is far off or overflows.
DIFFERENT = {
    "rsqrt": (5e-324, -5e-324),  # flushed to zero first
    "log": (5e-324, -5e-324),
    "log1p": (),
    "sqrt": (-5e-324,),
    "sign": (5e-324, -5e-324),
    "floor": (-5e-324,),
    "ceil": (5e-324,),
    "atanh": (),
    "tan": (1.7e308, -1.7e308),
}


def same(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """The same kind of number: NaN, an infinity, a zero with its sign, or a finite number close to it."""
    close = np.isclose(ours, theirs, rtol=1e-6, atol=1e-300)
    zeros = (ours == 0) & (theirs == 0) & (np.signbit(ours) == np.signbit(theirs))
    return (np.isnan(ours) & np.isnan(theirs)) | (np.isinf(ours) & (ours == theirs)) | zeros | (close & (ours != 0) & (theirs != 0) & np.isfinite(ours))


def run(function: Callable[..., Any], *xs: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(function(*(jnp.asarray(x) for x in xs))).astype(np.float64)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str) -> None:
    ours = np.asarray(er.evaluate(UNARY[name])(X).rounded).astype(np.float64)
    theirs = run(UNARY[name], X)
    subnormal = (np.abs(ours) < 2.3e-308) & (ours != 0)  # flushed by JAX
    skipped = np.isin(X, DIFFERENT.get(name, ())) | (np.abs(X) == 5e-324) | subnormal
    agree = same(ours, theirs) | skipped
    assert agree.all(), [(x, a, b) for x, a, b in zip(X[~agree], ours[~agree], theirs[~agree], strict=True)]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min", "pow", "atan2", "rem", "eq", "ne", "lt", "le", "gt", "ge"])
def test_functions_of_two_numbers(name: str) -> None:
    values = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, -0.5])
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    function = getattr(lax, name)
    ours = np.asarray(er.evaluate(function)(x, y).rounded).astype(np.float64)
    agree = same(ours, run(function, x, y))
    assert agree.all(), [(a, b, o) for a, b, o in zip(x[~agree], y[~agree], ours[~agree], strict=True)]


@pytest.mark.parametrize("name", ["reduce_sum", "cumsum", "dot", "scatter"])
def test_sums_of_special_values(name: str) -> None:
    generator = np.random.default_rng(3)
    table = generator.choice([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0], (300, 3), p=[0.05, 0.1, 0.1, 0.25, 0.3, 0.1, 0.1])
    functions: dict[str, Callable[[Any], Any]] = {
        "reduce_sum": lambda x: jnp.sum(x, 1),
        "cumsum": lambda x: jnp.cumsum(x, 1),
        "dot": lambda x: jnp.einsum("ij,ij->i", x, x[::-1]),
        "scatter": lambda x: jnp.zeros((300, 2)).at[:, jnp.array([0, 1, 1])].add(x),
    }
    ours = er.evaluate(functions[name])(table).rounded
    theirs = run(functions[name], table)
    finite = np.isfinite(ours)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    np.testing.assert_array_equal(ours[~np.isnan(ours)], theirs[~np.isnan(ours)])
    if name in ("reduce_sum", "scatter"):  # JAX begins the others with +0
        nonzero = finite & (ours != 0)
        np.testing.assert_array_equal(np.signbit(ours[nonzero]), np.signbit(theirs[nonzero]))


def test_a_sum_of_negative_zeros_is_negative_and_an_empty_one_positive() -> None:
    assert np.signbit(er.sum(np.array([-0.0, -0.0])).rounded)
    assert not np.signbit(er.sum(np.array([-0.0, 0.0])).rounded)
    assert not np.signbit(er.sum(np.zeros(0)).rounded)
    assert not np.signbit(er.sum(np.array([1.0, -1.0])).rounded)


def test_nothing_overflows_on_the_way() -> None:
    """Real arithmetic: 1e30 * 1e30 - 1e30 * 1e30 is 0 in float32, and 1/(1/x) is x."""
    big = np.float32(1e30)
    assert er.evaluate(lambda x: x * x - x * x)(big).rounded == 0
    assert er.evaluate(lambda x: 1 / (1 / (x * x)) / x)(big).rounded == big
    assert np.isinf(er.evaluate(lambda x: x * x)(big).rounded)
    assert er.evaluate(lambda x: x * x - x * x)(big).unbounded == 1


def test_a_pole_has_the_sign_of_its_zero() -> None:
    assert er.evaluate(lambda x: 1 / x)(np.array([0.0, -0.0])).rounded.tolist() == [INF, -INF]
    assert er.grad(lambda x: jnp.sum(jnp.log(x)))(np.array([0.0, -0.0], np.float32)).rounded.tolist() == [INF, -INF]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "complex64"])
def test_special_inputs_of_every_dtype(dtype: str) -> None:
    x = er.asarray([NAN, 1.0, -0.0], dtype)
    assert np.isnan(np.asarray(er.sum(x).rounded).astype(np.complex128)).all()
    product = np.asarray(er.multiply(x, x).rounded).astype(np.complex128)
    assert np.isnan(product[0])
    assert product[1] == 1
