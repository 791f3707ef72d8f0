"""scaled_dot_product_attention and its gradients: bit for bit Arb's at 400 bits, whatever the dtype, mask, heads or scale."""

from __future__ import annotations

from typing import Any

import exact_attention as reference
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import exactref_jax as er

DTYPES = {"float32": np.float32, "float64": np.float64, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


def normal(generator: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    return generator.standard_normal(shape).astype(dtype)


def expected(q: Any, k: Any, v: Any, g: Any, bias: Any, scale: float | None, groups: int) -> list[np.ndarray]:
    """Rounded output and gradients of (heads, ...) operands; `groups` query heads share a key head."""
    results: list[Any] = []
    with reference.bits():
        heads = [reference.attention(*(x.astype(np.float64) for x in (q[h], k[h // groups], v[h // groups], g[h])), bias, scale) for h in range(len(q))]
        out, grad_q = [h[0] for h in heads], [h[1] for h in heads]
        grad_k, grad_v = ([reference.total([h[i] for h in heads[s : s + groups]]) for s in range(0, len(heads), groups)] for i in (2, 3))
        for table, like in ((out, g), (grad_q, q), (grad_k, k), (grad_v, v)):
            numbers = [reference.rounded(x, q.dtype) for head in table for row in head for x in row]
            results.append(np.array(numbers).reshape(like.shape))
    return results


def check(generator: np.random.Generator, dtype: Any) -> int:
    """One random configuration; returns how many elements were compared."""
    queries, keys, features, values = (int(n) for n in generator.integers(1, 6, 4))
    groups, heads = int(generator.integers(1, 3)), int(generator.integers(1, 3))
    spread = float(2.0 ** generator.integers(-3, 3))
    q, g = normal(generator, dtype, heads * groups, queries, features), normal(generator, dtype, heads * groups, queries, values)
    k, v = normal(generator, dtype, heads, keys, features), normal(generator, dtype, heads, keys, values)
    q = (q * dtype(spread)).astype(dtype)
    options: dict[str, Any] = {"enable_gqa": True} if groups > 1 else {}
    bias = None
    kind = generator.integers(0, 4)
    if kind == 0:
        options["is_causal"] = True
        bias = np.where(np.tril(np.ones((queries, keys), bool)), 0.0, -np.inf)
    elif kind == 1:
        options["attn_mask"] = generator.random((queries, keys)) < 0.7
        options["attn_mask"][:, 0] = True
        bias = np.where(options["attn_mask"], 0.0, -np.inf)
    elif kind == 2:
        options["attn_mask"] = normal(generator, dtype, queries, keys)
        bias = options["attn_mask"].astype(np.float64)
    scale = None if generator.random() < 0.5 else float(generator.choice([0.3, -0.75, 1.0]))
    if scale is not None:
        options["scale"] = scale
    forward = er.scaled_dot_product_attention(q, k, v, **options)
    backward = forward.backward(g)
    exact = [forward.rounded, *backward.rounded]
    for ours, theirs in zip(exact, expected(q, k, v, g, bias, scale, groups), strict=True):
        np.testing.assert_array_equal(ours.astype(np.float64), theirs)
    assert forward.covers(forward.rounded).all()
    assert forward.covers(forward.normal).all()
    for part in backward.covers(backward.normal):
        assert part.all()
    return sum(x.size for x in exact)


@pytest.mark.parametrize("name", DTYPES)
def test_agrees_with_arb(name: str) -> None:
    generator = np.random.default_rng(11)
    count = 0
    while count < 1000:
        count += check(generator, DTYPES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", DTYPES)
def test_agrees_with_arb_on_many(name: str) -> None:
    generator = np.random.default_rng(12)
    count = 0
    while count < 25_000:
        count += check(generator, DTYPES[name])


def test_one_key_has_no_gradient_through_its_weight() -> None:
    """A causal first row: P is 1 exactly, dS is 0 exactly, at the first precision."""
    generator = np.random.default_rng(0)
    q, k, v, g = (normal(generator, np.float32, 3, 4) for _ in range(4))
    gradients = er.scaled_dot_product_attention.backward(q, k, v, g, is_causal=True)
    assert not gradients.rounded.grad_query[0].any()
    assert set(gradients.decided_by.grad_query.flat) == {"128 bits"}


def test_equal_keys_share_equally_at_the_first_precision() -> None:
    q, k = np.ones((1, 8), np.float32), np.full((4, 8), 0.3, np.float32)
    result = er.scaled_dot_product_attention(q, k, np.eye(4, dtype=np.float32))
    assert result.rounded.tolist() == [[0.25] * 4]
    assert set(result.decided_by.flat) == {"128 bits"}


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_operands(shape: tuple[int, int]) -> None:
    queries, keys = shape
    result = er.scaled_dot_product_attention(np.ones((queries, 2), np.float32), np.ones((keys, 2), np.float32), np.ones((keys, 5), np.float32))
    assert result.rounded.shape == (queries, 5)
    assert not result.rounded.any()
    gradients = result.backward(np.ones((queries, 5), np.float32))
    assert gradients.rounded.grad_value.shape == (keys, 5)


def test_no_features_means_equal_weights() -> None:
    value = np.array([[1.0], [2.0]], np.float32)
    assert er.scaled_dot_product_attention(np.ones((1, 0), np.float32), np.ones((2, 0), np.float32), value).rounded.tolist() == [[1.5]]


def test_is_a_jax_function_with_the_same_gradients() -> None:
    generator = np.random.default_rng(1)
    q, k, v = (normal(generator, np.float32, 2, 5, 4) for _ in range(3))

    def loss(q: Any, k: Any, v: Any) -> Any:
        return jnp.sum(er.scaled_dot_product_attention(q, k, v, is_causal=True) ** 2)

    exact = er.grad(loss, argnums=(0, 1, 2))(q, k, v)
    for transformed in (jax.grad(loss, (0, 1, 2)), jax.jit(jax.grad(loss, (0, 1, 2)))):
        assert all(part.all() for part in exact.covers(transformed(q, k, v)))
    batched = jax.vmap(lambda q, k, v: er.scaled_dot_product_attention(q, k, v))(q, k, v)
    assert er.scaled_dot_product_attention(q, k, v).covers(batched).all()
    assert np.isfinite(jax.hessian(lambda q: loss(q, k, v))(q)).all()


def test_backward_is_the_page_s() -> None:
    """Two contractions for P and V, one softmax derivative, two for Q and K: nothing else but movement and the scale."""
    q = np.ones((2, 3), np.float32)

    def pullback(q: Any, k: Any, v: Any, g: Any) -> Any:
        return jax.vjp(er.scaled_dot_product_attention.function, q, k, v)[1](g)

    names = [e.primitive.name for e in jax.make_jaxpr(pullback)(q, q, q, q).jaxpr.eqns]
    assert names.count("contraction") == 1 + 1 + 4
    assert names.count("softmax_derivative") == 1
    assert set(names) <= {"contraction", "attention_softmax", "softmax_derivative", "convert_element_type"}


Q = np.ones((2, 3), np.float32)
WRONG = [
    (dict(dropout_p=0.1), ValueError, "dropout_p"),
    (dict(attn_mask=np.ones((2, 2), bool), is_causal=True), ValueError, "attn_mask and is_causal"),
    (dict(attn_mask=np.ones((3, 2), bool)), ValueError, "attn_mask has shape"),
    (dict(attn_mask=np.ones((2, 2, 2), bool)), ValueError, "attn_mask has shape"),
    (dict(attn_mask=np.ones((2, 2), np.int32)), TypeError, "attn_mask is int32"),
    (dict(attn_mask=np.ones((2, 2), np.float64)), TypeError, "attn_mask is float64"),
    (dict(key=np.ones((2, 4), np.float32)), ValueError, "query and key"),
    (dict(value=np.ones((3, 4), np.float32)), ValueError, "key and value"),
    (dict(key=np.ones(3, np.float32)), ValueError, "key has shape"),
    (dict(key=np.ones((2, 3), np.float16)), TypeError, "key is float16"),
    (dict(query=np.ones((2, 3), np.complex64)), TypeError, "query is complex64"),
    (dict(scale="1"), TypeError, "scale"),
    (dict(enable_gqa=True), ValueError, "enable_gqa"),
]


@pytest.mark.parametrize(("given", "error", "match"), WRONG, ids=lambda x: str(x)[:40])
def test_wrong_arguments_are_named(given: dict[str, Any], error: type[Exception], match: str) -> None:
    arguments = {"query": Q, "key": Q, "value": Q, **given}
    with pytest.raises(error, match=match):
        er.scaled_dot_product_attention(**arguments)


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="do not divide"):
        er.scaled_dot_product_attention(np.ones((3, 2, 2), np.float32), np.ones((2, 2, 2), np.float32), np.ones((2, 2, 2), np.float32), enable_gqa=True)
    with pytest.raises(ValueError, match="do not broadcast"):
        er.scaled_dot_product_attention(np.ones((4, 2, 2), np.float32), np.ones((2, 2, 2), np.float32), np.ones((2, 2, 2), np.float32))
