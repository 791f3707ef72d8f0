"""The operations are JAX functions: under jit, vmap, grad, jvp; and the transpose of a contraction is one contraction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exactref_jax as er

X = np.random.default_rng(41).standard_normal((3, 4)).astype(np.float32)
Y = np.random.default_rng(42).standard_normal((4, 2)).astype(np.float32)
Z = np.random.default_rng(43).standard_normal(2).astype(np.float32)

SPELLINGS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "matmul": (er.matmul, jnp.matmul, (X, Y)),
    "vector": (er.matmul, jnp.matmul, (X[0], Y)),
    "batch": (er.matmul, jnp.matmul, (np.stack([X, X]), Y)),
    "gemm": (lambda a, b, c: er.gemm(a, b, c, alpha=0.5, beta=-2.0), lambda a, b, c: 0.5 * (a @ b) - 2.0 * c, (X, Y, Z)),
    "add": (lambda x, y: er.add(x, y, alpha=3), lambda x, y: x + 3 * y, (X, X[0])),
    "add number": (lambda x: er.add(x, 1.5), lambda x: x + 1.5, (X,)),
    "multiply": (er.multiply, jnp.multiply, (X, X[:, :1])),
    "sum": (lambda x: er.sum(x, axis=(0,), keepdims=True), lambda x: jnp.sum(x, 0, keepdims=True), (X,)),
    "complex": (er.matmul, jnp.matmul, (X + 1j * X, Y - 2j * Y)),
    "half": (er.matmul, jnp.matmul, (X.astype(jnp.bfloat16), Y.astype(jnp.bfloat16))),
}


def close(a: Any, b: Any) -> None:
    tolerance = 2e-2 if np.asarray(a).dtype.itemsize == 2 else 1e-5
    np.testing.assert_allclose(np.asarray(a).astype(np.complex128), np.asarray(b).astype(np.complex128), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", SPELLINGS)
def test_under_transformations(name: str) -> None:
    ours, theirs, given = SPELLINGS[name]
    operands = tuple(jnp.asarray(x) for x in given)
    close(jax.jit(ours)(*operands), theirs(*operands))
    stacked = tuple(jnp.stack([x, 2 * x, -x]) for x in operands)
    close(jax.vmap(ours)(*stacked), jax.vmap(theirs)(*stacked))
    close(
        jax.vmap(ours, (1, *[None] * (len(operands) - 1)))(jnp.moveaxis(stacked[0], 0, 1), *operands[1:]),
        jnp.stack([theirs(x, *operands[1:]) for x in stacked[0]]),
    )
    close(jax.jvp(ours, operands, operands)[1], jax.jvp(theirs, operands, operands)[1])
    out, ours_back = jax.vjp(ours, *operands)
    _, theirs_back = jax.vjp(theirs, *operands)
    for a, b in zip(ours_back(out), theirs_back(out), strict=True):
        close(a, b)
    if out.dtype == np.float32:
        numbers = tuple(range(len(operands)))
        for a, b in zip(*(jax.grad(lambda *xs, f=f: jnp.sum(f(*xs) ** 3), numbers)(*operands) for f in (ours, theirs)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
        hessian = [jax.hessian(lambda x, f=f: jnp.sum(f(x, *operands[1:]) ** 2))(operands[0]) for f in (ours, theirs)]
        np.testing.assert_allclose(*hessian, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SPELLINGS)
def test_each_gradient_is_one_contraction(name: str) -> None:
    function, _, operands = SPELLINGS[name]
    out = jax.eval_shape(function, *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands))

    def pullback(g: Any, *xs: Any) -> Any:
        return jax.vjp(function, *xs)[1](g)

    jaxpr = jax.make_jaxpr(pullback)(jnp.zeros(out.shape, out.dtype), *operands)
    names = [e.primitive.name for e in jaxpr.jaxpr.eqns if e.primitive.name not in ("squeeze", "reshape", "broadcast_in_dim", "convert_element_type")]
    assert set(names) <= {"contraction"}
    assert len(names) <= 1 + len(operands)


@pytest.mark.parametrize("name", [n for n in SPELLINGS if n not in ("complex", "half")])
def test_er_grad_through_an_operation_is_its_backward(name: str) -> None:
    function, _, operands = SPELLINGS[name]
    weights = np.random.default_rng(44).standard_normal(np.shape(function(*map(jnp.asarray, operands)).rounded)).astype(np.float32)
    numbers = tuple(range(len(operands)))
    exact = er.grad(lambda *xs: jnp.sum(er.multiply(function(*xs), weights)), numbers)(*operands)
    backward = function(*operands).backward(weights)
    for ours, theirs in zip(exact.rounded, [g for g in backward.rounded if g is not None], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_inside_control_flow() -> None:
    square = X[:, :3]
    f = lambda a: jax.lax.scan(lambda c, _: (er.matmul(c, a), None), jnp.eye(3), None, length=3)[0]
    close(f(square), square @ square @ square)
    exact = er.grad(lambda a: jnp.sum(f(a)))(square)
    exact.assert_covers(jax.grad(lambda a: jnp.sum(f(a)))(square))
