"""Movement, order, discrete and control rules: what moves is moved bit for bit as JAX moves it; what decides, decides on exact values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import exactref_jax as er

DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.complex64, np.int32, np.bool_]


def data(dtype: Any, shape: tuple[int, ...] = (3, 4, 2)) -> np.ndarray:
    generator = np.random.default_rng(5)
    values = generator.standard_normal(shape) * 4
    values.flat[:: 5 if values.size > 5 else 1] = -0.0
    if np.dtype(dtype).kind == "c":
        values = values + 1j * values[::-1]
    return values.astype(dtype)


I = jnp.array([2, 0, -1, 7])  # noqa: E741

MOVEMENT: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: jnp.reshape(x, (4, 6)),
    "transpose": lambda x: jnp.transpose(x, (2, 0, 1)),
    "broadcast": lambda x: jnp.broadcast_to(x[:, None], (3, 5, 4, 2)),
    "slice": lambda x: x[1:, ::2],
    "negative slice": lambda x: x[::-1, 3:0:-2],
    "squeeze": lambda x: jnp.squeeze(x[:, :1], 1),
    "pad": lambda x: lax.pad(x, x[0, 0, 0], ((1, 2, 1), (-1, 0, 0), (0, 0, 0))),
    "rev": lambda x: lax.rev(x, (0, 2)),
    "concatenate": lambda x: jnp.concatenate([x, x[:, :1], x], 1),
    "split": lambda x: jnp.split(x, 2, 1)[1],
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (2, 1, 5), (2, 2, 1)),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, x[:1, :1], (5, 3, 0)),
    "gather clip": lambda x: jnp.take(x, I, axis=0, mode="clip"),
    "gather fill": lambda x: jnp.take(x, jnp.array([2, 0, -1, 1]), axis=0, mode="wrap"),
    "gather at": lambda x: x.at[jnp.array([2, 0]), :, 1].get(),
    "gather pairs": lambda x: x[jnp.array([0, 2]), jnp.array([3, 1])],
    "scatter": lambda x: x.at[jnp.array([2, 0]), 1].set(x[:2, 0]),
    "scatter dropped": lambda x: x.at[I].set(x[0], mode="drop"),
    "select": lambda x: jnp.where(jnp.arange(4)[:, None] % 2 == 0, x, x[::-1]),
    "stack": lambda x: jnp.stack([x, x], -1),
    "tile": lambda x: jnp.tile(x, (1, 2, 1)),
    "roll": lambda x: jnp.roll(x, 1, 1),
    "diagonal": lambda x: jnp.diagonal(x[:, :3], axis1=0, axis2=1),
    "empty": lambda x: x[:, 4:],
    "expand": lambda x: x[None, ..., None],
    "tril": lambda x: jnp.tril(x[..., 0]),
    "vmapped index": lambda x: jax.vmap(lambda row, i: row[i])(x, jnp.array([0, 3, 1])),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", MOVEMENT)
def test_movement_is_jax_s(name: str, dtype: Any) -> None:
    x = data(dtype)
    ours = er.evaluate(lambda x: MOVEMENT[name](jnp.asarray(x)))(x)
    with jax.enable_x64(True):
        theirs = np.asarray(MOVEMENT[name](jnp.asarray(x)))
    assert ours.rounded.dtype == theirs.dtype
    if np.dtype(dtype).kind == "b":
        np.testing.assert_array_equal(ours.rounded, theirs)
    else:
        assert ours.rounded.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("name", [n for n in MOVEMENT if n != "scatter dropped"])
def test_movement_s_gradient_is_jax_s(name: str) -> None:
    x = data(np.float32)
    weights = np.random.default_rng(6).integers(-4, 5, np.shape(MOVEMENT[name](jnp.asarray(x)))).astype(np.float32)
    f = lambda x: jnp.sum(MOVEMENT[name](x) * weights)
    np.testing.assert_array_equal(er.grad(f)(x).rounded, np.asarray(jax.grad(f)(x)))


ORDER: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: jnp.sort(x, axis=1),
    "sort descending": lambda x: jnp.sort(x, axis=0, descending=True),
    "argsort": lambda x: jnp.argsort(x, axis=1),
    "lexsort": lambda x: jnp.lexsort((x[0], x[1])),
    "top_k": lambda x: lax.top_k(x, 2)[0],
    "top_k indices": lambda x: lax.top_k(x, 2)[1],
    "argmax": lambda x: jnp.argmax(x, 1),
    "argmin": lambda x: jnp.argmin(x, 0),
    "max": lambda x: jnp.max(x, 1),
    "min": lambda x: jnp.min(x),
    "cummax": lambda x: lax.cummax(x, 1),
    "cummin": lambda x: lax.cummin(x, 0, reverse=True),
    "clip": lambda x: jnp.clip(x, -1.0, 2.0),
    "comparison": lambda x: (x > x[::-1]) | (x == x[:, ::-1]),
    "maximum": lambda x: jnp.maximum(x, x[::-1]),
    "median": lambda x: jnp.median(x, axis=1),
    "unique ranks": lambda x: jnp.searchsorted(jnp.sort(x[0]), x[1]),
    "to integers": lambda x: jnp.nan_to_num(x, posinf=9.0, neginf=-9.0).astype(jnp.int32),
}


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("name", ORDER)
def test_order_is_jax_s(name: str, special: bool) -> None:
    generator = np.random.default_rng(7)
    x = generator.integers(-3, 4, (4, 6)).astype(np.float32) / 2  # many ties
    if special:
        x[0, 1], x[1, 2], x[2, 3], x[3, 0], x[3, 4] = np.nan, np.inf, -np.inf, -0.0, np.nan
    ours = np.asarray(er.evaluate(ORDER[name])(x).rounded)
    np.testing.assert_array_equal(ours, np.asarray(ORDER[name](jnp.asarray(x))))


def test_equal_numbers_computed_twice_tie_as_equal() -> None:
    f = lambda x: jnp.argmax(jnp.stack([jnp.exp(x) * 2, 2 * jnp.exp(x)]))
    assert er.evaluate(f)(np.float32(0.3)).rounded == 0
    g = lambda x: jnp.argmax(jnp.stack([jnp.exp(2 * x), jnp.exp(x) * jnp.exp(x)]))
    assert er.evaluate(g)(np.float32(0.3)).rounded == 0


def test_close_numbers_are_told_apart_where_float32_cannot() -> None:
    x = np.float32(1e8)
    f = lambda x: jnp.where((x + 1) > x, 1.0, 2.0)
    assert er.evaluate(f)(x).rounded == 1.0
    assert float(f(x)) == 2.0
    assert er.evaluate(f)(x).covers(2.0)


CONTROL: dict[str, Callable[[Any], Any]] = {
    "cond": lambda x: lax.cond(x > 0.5, lambda x: x * x, lambda x: -x, x),
    "switch": lambda x: lax.switch(jnp.int32(x * 4), [jnp.sin, jnp.cos, jnp.exp], x),
    "while": lambda x: lax.while_loop(lambda c: c < 10.0, lambda c: c * c + 1.0, x),
    "scan": lambda x: lax.scan(lambda c, t: (c * x + t, c), x, jnp.arange(4.0))[1],
    "scan carries two": lambda x: lax.scan(lambda c, t: ((c[1], c[0] + c[1] * t), None), (x, x * x), jnp.arange(3.0), reverse=True)[0],
    "fori": lambda x: lax.fori_loop(0, 5, lambda i, c: c * x + i, x),
    "associative_scan": lambda x: lax.associative_scan(jnp.multiply, jnp.arange(1.0, 6.0) * x),
    "map": lambda x: lax.map(lambda t: t * x, jnp.arange(3.0)),
    "checkpoint": lambda x: jax.checkpoint(lambda x: jnp.sin(x) * jnp.exp(x))(x),
    "stop_gradient": lambda x: x * lax.stop_gradient(x * x),
    "jit": lambda x: jax.jit(lambda x: jnp.tanh(x) + x)(x),
    "random": lambda x: x * jax.random.normal(jax.random.key(0), (3,)).astype(x.dtype),
    "iota": lambda x: x * lax.iota(jnp.int32, 3),
    "one_hot": lambda x: x * jax.nn.one_hot(2, 4),
    "bits": lambda x: x * (jnp.arange(5) ^ 3),
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_is_jax_s(name: str) -> None:
    f = CONTROL[name]
    x = np.float64(0.7)
    ours = er.evaluate(f)(x)
    with jax.enable_x64(True):
        theirs = f(jnp.asarray(x))
    for a, b in zip(jax.tree.leaves(ours.rounded), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-14)
    if name != "while":
        total = lambda x: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(f(x)))
        with jax.enable_x64(True):
            er.grad(total)(x).assert_covers(jax.grad(total)(jnp.asarray(x)))


def test_a_registered_meaning_is_used() -> None:
    from jax.core import ShapedArray
    from jax.extend.core import Primitive

    primitive = Primitive("test_registered")
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda x, *, power: [ShapedArray(x.shape, x.dtype)] * 2)
    er.register_rule(primitive, lambda x, *, power: (x**power, -x))
    first, second = er.evaluate(lambda x: primitive.bind(x, power=3))(np.float32(2.0)).rounded
    assert (float(first), float(second)) == (8.0, -2.0)
    with pytest.raises(ValueError, match="already"):
        er.register_rule("test_registered", lambda x: x)
    with pytest.raises(TypeError, match="meaning"):
        er.register_rule("another", 3)
    with pytest.raises(TypeError, match="primitive"):
        er.register_rule(3, lambda x: x)


def test_kinks_are_listed_with_their_elements() -> None:
    x = np.array([0.0, 1.0, 1.0, -2.0], np.float32)
    kinks = {k.primitive: k.elements for k in er.grad(lambda x: jnp.sum(jnp.maximum(x, 1.0)) + jnp.max(x))(x).kinks}
    assert kinks["max"] == ((1,), (2,))
    assert len(kinks["reduce_max"]) == 1
    assert er.grad(lambda x: jnp.sum(x * x))(x).kinks == ()
    (kink,) = er.evaluate(lambda x: jnp.sqrt(jnp.abs(x)))(np.float32(0.0)).kinks[-1:]
    assert kink.primitive == "sqrt"
    assert "test_rules.py" in kink.source
    sorted_ties = er.evaluate(jnp.sort)(x).kinks
    assert [k.elements for k in sorted_ties] == [((3,),)]
