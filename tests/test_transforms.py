"""er.grad and its relatives take what jax.grad takes: pytrees, argnums, aux, closures, transformed functions, and other people's errors."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad

import exactref_jax as er

X = np.array([0.5, -1.25, 3.0], np.float32)
Y = np.array([2.0, 0.75, -0.5], np.float32)


def product(x: Any, y: Any) -> Any:
    return jnp.sum(x * x * y)


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    weight: Any
    bias: Any


# Structure ----------------------------------------------------------------------------------------------------------------------


def test_gradient_has_the_structure_of_a_dict_of_lists() -> None:
    gradient = er.grad(lambda p: jnp.sum(p["a"][0] * p["b"]) + p["a"][1])({"a": [X, np.float32(2.0)], "b": Y})
    assert set(gradient.rounded) == {"a", "b"}
    assert gradient.rounded["a"][0].tolist() == Y.tolist()
    assert gradient.rounded["a"][1] == 1.0
    assert gradient["b"].rounded.tolist() == X.tolist()
    assert gradient["a"][1].rounded.shape == ()


def test_gradient_of_a_registered_dataclass_is_one() -> None:
    layer = Layer(np.ones((3, 2), np.float32), np.zeros(2, np.float32))
    gradient = er.grad(lambda p: jnp.sum(X @ p.weight + p.bias))(layer)
    assert isinstance(gradient.rounded, Layer)
    assert gradient.rounded.weight.tolist() == [[v, v] for v in X.tolist()]
    assert gradient.rounded.bias.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("argnums", "wanted"), [(0, (2 * X * Y)), (1, X * X), (-1, X * X), (-2, 2 * X * Y)])
def test_argnums_names_the_argument(argnums: int, wanted: np.ndarray) -> None:
    assert er.grad(product, argnums)(X, Y).rounded.tolist() == wanted.tolist()


def test_a_sequence_of_argnums_gives_a_tuple_in_its_order() -> None:
    for argnums in ((0, 1), [0, 1], (0, -1)):
        by_x, by_y = er.grad(product, argnums)(X, Y).rounded
        assert (by_x.tolist(), by_y.tolist()) == ((2 * X * Y).tolist(), (X * X).tolist())
    by_y, by_x = er.grad(product, (1, 0))(X, Y).rounded
    assert (by_x.tolist(), by_y.tolist()) == ((2 * X * Y).tolist(), (X * X).tolist())
    (alone,) = er.grad(product, (0,))(X, Y).rounded
    assert alone.tolist() == (2 * X * Y).tolist()


@pytest.mark.parametrize("argnums", [2, -3, (0, 5)])
def test_argnums_beyond_the_arguments_is_an_error_that_says_so(argnums: Any) -> None:
    with pytest.raises(ValueError, match="argnums"):
        er.grad(product, argnums)(X, Y)


def test_value_and_grad_are_two_results_of_one_evaluation() -> None:
    value, gradient = er.value_and_grad(product, (0, 1))(X, Y)
    assert float(value.rounded) == float(np.sum(X.astype(float) ** 2 * Y))
    assert gradient.rounded[1].tolist() == (X * X).tolist()
    assert value.rounded.shape == ()


def test_aux_of_arrays_is_a_result() -> None:
    gradient, aux = er.grad(lambda x: (jnp.sum(x * x), {"double": 2 * x, "count": x.size}), has_aux=True)(X)
    assert gradient.rounded.tolist() == (2 * X).tolist()
    assert aux.rounded["double"].tolist() == (2 * X).tolist()
    assert int(aux.rounded["count"]) == 3


def test_aux_that_is_no_array_comes_back_as_it_is() -> None:
    note = object()
    gradient, aux = er.grad(lambda x: (jnp.sum(x * x), ("name", note, 3 * x)), has_aux=True)(X)
    assert gradient.rounded.tolist() == (2 * X).tolist()
    assert aux[0] == "name"
    assert aux[1] is note
    assert aux[2].rounded.tolist() == (3 * X).tolist()


def test_value_and_grad_with_aux_pairs_value_and_aux() -> None:
    (value, aux), gradient = er.value_and_grad(lambda x: (jnp.sum(x), None), has_aux=True)(X)
    assert float(value.rounded) == 2.25
    assert aux is None
    assert gradient.rounded.tolist() == [1.0, 1.0, 1.0]


# Functions ----------------------------------------------------------------------------------------------------------------------


def test_closures_jit_vmap_checkpoint_and_nested_grad_are_seen_through() -> None:
    scale = jnp.asarray(Y)
    plain = er.grad(lambda x: jnp.sum(jnp.sin(x) * scale))(X).rounded
    wrapped = [
        jax.jit(lambda x: jnp.sum(jnp.sin(x) * scale)),
        lambda x: jnp.sum(jax.vmap(lambda a, b: jnp.sin(a) * b)(x, scale)),
        jax.checkpoint(lambda x: jnp.sum(jnp.sin(x) * scale)),
        lambda x: -jnp.sum(jax.vmap(jax.grad(jnp.cos))(x) * scale),
    ]
    for function in wrapped:
        assert er.grad(function)(X).rounded.tolist() == plain.tolist()


def test_keyword_arguments_reach_the_function_and_are_not_differentiated() -> None:
    def loss(x: Any, *, power: int, scale: Any) -> Any:
        return jnp.sum(scale * x**power)

    assert er.grad(loss)(X, power=2, scale=Y).rounded.tolist() == (2 * X * Y).tolist()


def test_arguments_that_are_not_differentiated_may_be_anything() -> None:
    def loss(mode: str, x: Any, labels: Any) -> Any:
        return jnp.sum(x[labels]) if mode == "take" else jnp.sum(x)

    assert er.grad(loss, 1)("take", X, np.array([0, 0, 2])).rounded.tolist() == [2.0, 0.0, 1.0]


def test_a_python_float_is_a_float64_number() -> None:
    gradient = er.grad(lambda x: x * x)(0.1)
    assert gradient.rounded.dtype == np.float64
    assert float(gradient.rounded) == 0.2
    assert Fraction(float(er.evaluate(lambda x: x * x)(0.1).rounded)) == Fraction(float(Fraction(0.1) ** 2))


# Precision ----------------------------------------------------------------------------------------------------------------------


def test_float64_is_exact_and_the_flag_is_left_alone() -> None:
    assert not jax.config.jax_enable_x64
    x = np.array([1.0, 1 + 2.0**-52])
    gradient = er.grad(lambda x: x[1] * x[1] * x[0])(x)
    assert gradient.rounded.dtype == np.float64
    assert float(gradient.rounded[0]) == float((Fraction(1) + Fraction(1, 2**52)) ** 2)
    assert not jax.config.jax_enable_x64
    assert jnp.asarray(x).dtype == np.float32


def test_the_flag_is_left_alone_when_the_function_fails() -> None:
    def fails(x: Any) -> Any:
        raise RuntimeError("mine")

    for transformed in (er.grad(fails), er.value_and_grad(fails), er.evaluate(fails)):
        with pytest.raises(RuntimeError, match="mine"):
            transformed(np.array([1.0, 2.0]))
        assert not jax.config.jax_enable_x64
        assert jnp.asarray(1.0).dtype == np.float32


def test_the_flag_stays_on_where_it_was_on() -> None:
    with jax.enable_x64(True):
        assert er.grad(lambda x: x * x)(np.float32(3.0)).rounded.dtype == np.float32
        assert jax.config.jax_enable_x64
        assert er.grad(lambda x: x * x)(0.1).rounded.dtype == np.float64
        assert jax.config.jax_enable_x64


def test_a_float64_argument_beside_it_is_not_narrowed() -> None:
    tenth = np.array([0.1])
    gradient = er.grad(lambda x, y: jnp.sum(x * y))(np.array([1.0], np.float32), tenth)
    assert gradient.rounded.tolist() == [float(np.float32(0.1))]
    assert float(gradient.interval.lower[0]) <= 0.1 <= float(gradient.interval.upper[0])
    assert gradient.bound[0] > 0


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_each_gradient_has_the_dtype_of_its_argument(dtype: Any) -> None:
    assert er.grad(lambda x: jnp.sum(x * x))(np.ones(2, dtype)).rounded.dtype == dtype


def test_a_gradient_far_below_the_smallest_number_rounds_to_zero() -> None:
    # 4 exp(-2e17), the difference of two numbers that agree to 10**17 digits: not even its sign is known, and the result says so.
    gradient = er.grad(lambda x: jnp.sum(jnp.tanh(x) * np.float32([1, -1])))(np.float32([1e17, 1e17]))
    assert gradient.rounded.tolist() == [0.0, 0.0]
    assert np.all((np.signbit(gradient.rounded) == [False, True]) | gradient.unsigned_zeros)
    lower, upper = gradient.interval
    assert np.all(lower <= 0)
    assert np.all(upper >= 0)


@pytest.mark.parametrize("function", [jnp.maximum, jnp.minimum])
@pytest.mark.parametrize("shapes", [((), (3,)), ((1, 3), (2, 3)), ((2, 1), (1, 3)), ((3,), (2, 3))])
def test_extremes_of_operands_that_broadcast_have_gradients_of_the_operands_shapes(function: Any, shapes: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-2, 3, shape).astype(np.float32) for shape in shapes)
    loss = lambda x, y: jnp.sum(function(x, y))
    for ours, theirs in zip(er.grad(loss, (0, 1))(x, y).rounded, jax.grad(loss, (0, 1))(x, y), strict=True):
        assert ours.tolist() == np.asarray(theirs).tolist()


# Complex ------------------------------------------------------------------------------------------------------------------------

Z = np.array([1 + 2j, -0.5 + 0.25j], np.complex64)


def test_complex_gradient_is_jax_s_or_its_conjugate() -> None:
    loss = lambda z: jnp.sum(jnp.real(z * z) + jnp.imag(z))
    jax_gradient = np.asarray(jax.grad(loss)(Z))
    assert er.grad(loss)(Z).rounded.tolist() == jax_gradient.tolist()
    assert er.grad(loss, convention="torch")(Z).rounded.tolist() == jax_gradient.conj().tolist()


def test_torch_convention_is_torch_s() -> None:
    torch = pytest.importorskip("torch")
    z = torch.tensor(Z).requires_grad_()
    (z * z.conj() + z.imag * z.real * 3).real.sum().backward()
    gradient = er.grad(lambda z: jnp.sum(jnp.real(z * jnp.conj(z) + jnp.imag(z) * jnp.real(z) * 3)), convention="torch")(Z)
    assert gradient.rounded.tolist() == z.grad.numpy().tolist()


def test_an_unknown_convention_is_an_error() -> None:
    with pytest.raises(ValueError, match="convention"):
        er.grad(product, convention="tensorflow")


# vjp, jvp, evaluate -------------------------------------------------------------------------------------------------------------


def test_vjp_pulls_back_a_cotangent_to_each_argument() -> None:
    value, pullback = er.vjp(lambda x, y: {"product": x * y, "first": x[0]}, X, Y)
    cotangent = {"product": np.array([1.0, 2.0, 3.0], np.float32), "first": np.float32(10.0)}
    by_x, by_y = pullback(cotangent).rounded
    assert value.rounded["product"].tolist() == (X * Y).tolist()
    assert by_x.tolist() == [12.0, 1.5, -1.5]
    assert by_y.tolist() == [0.5, -2.5, 9.0]


def test_vjp_refuses_a_cotangent_of_another_shape_or_structure() -> None:
    _, pullback = er.vjp(lambda x: x * x, X)
    with pytest.raises(ValueError, match="cotangent"):
        pullback(np.float32([1.0, 2.0]))
    with pytest.raises((TypeError, ValueError), match="cotangent"):
        pullback({"a": X})


def test_jvp_pushes_forward_a_tangent() -> None:
    value, tangent = er.jvp(lambda x, y: (x * y).sum(), (X, Y), (np.float32([1, 0, 0]), np.float32([0, 0, 2])))
    assert float(value.rounded) == float((X * Y).sum())
    assert float(tangent.rounded) == 2.0 + 6.0


def test_jvp_wants_tuples() -> None:
    with pytest.raises(TypeError, match="primals"):
        er.jvp(lambda x: x, X, (X,))
    with pytest.raises(TypeError, match="tangents"):
        er.jvp(lambda x: x, (X,), X)


def test_vjp_and_jvp_agree_on_a_dot_product_in_the_exact_sense() -> None:
    # u . (J v) = (J^T u) . v: both sides of one bilinear form, each rounded once.
    f = lambda x: jnp.tanh(x) * x[::-1]
    u, v = np.float32([1.0, -2.0, 0.5]), np.float32([0.25, 3.0, -1.0])
    _, tangent = er.jvp(f, (X,), (v,))
    _, pullback = er.vjp(f, X)
    left = sum(float(a) * float(b) for a, b in zip(u, tangent.interval.lower, strict=True))
    right = sum(float(a) * float(b) for a, b in zip(pullback(u).interval.lower[0], v, strict=True))
    assert left == pytest.approx(right, rel=1e-14)


def test_evaluate_keeps_the_function_s_structure_and_integers() -> None:
    result = er.evaluate(lambda x: {"sorted": jnp.sort(x), "place": jnp.argmax(x), "big": x > 1})(X)
    assert result.rounded["sorted"].tolist() == sorted(X.tolist())
    assert int(result.rounded["place"]) == 2
    assert result.rounded["big"].tolist() == [False, False, True]


def test_operations_are_functions_inside_a_traced_program() -> None:
    gradient = er.grad(lambda a, b: jnp.sum(er.matmul(a, b)))(np.float32([[1, 2]]), np.float32([[3], [4]]))
    assert gradient.rounded.tolist() == [[3.0, 4.0]]


# Inputs -------------------------------------------------------------------------------------------------------------------------


def test_torch_tensors_are_inputs_in_any_place() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.tensor(X), torch.tensor(Y, dtype=torch.bfloat16)
    gradient = er.grad(product, (0, 1))(x, y)
    assert gradient.rounded[0].tolist() == (2 * X * Y).tolist()
    assert gradient.rounded[1].dtype == ml_dtypes.bfloat16
    assert er.grad(product)(x.requires_grad_(), torch.tensor(Y)).rounded.tolist() == (2 * X * Y).tolist()
    assert er.grad(lambda p, *, scale: jnp.sum(p["w"] * scale))({"w": x}, scale=torch.tensor(Y)).rounded["w"].tolist() == Y.tolist()


def test_inputs_are_not_changed_and_not_aliased() -> None:
    x = X.copy()
    result = er.grad(lambda x: jnp.sum(x * x))(x)
    x[:] = 0
    assert result.rounded.tolist() == (2 * X).tolist()
    assert result.decimal(0, digits=5) == "1.0000"


# Errors -------------------------------------------------------------------------------------------------------------------------


class MineError(Exception):
    pass


def raises_mine(x: Any) -> Any:
    raise MineError("of the user")


@pytest.mark.parametrize("call", [er.grad(raises_mine), er.value_and_grad(raises_mine), er.evaluate(raises_mine), lambda x: er.vjp(raises_mine, x)])
def test_errors_of_the_function_come_out_as_themselves(call: Any) -> None:
    with pytest.raises(MineError) as caught:
        call(X)
    assert any(frame.name == "raises_mine" for frame in traceback.extract_tb(caught.value.__traceback__))


@pytest.mark.parametrize("argument", [np.array([1, 2]), 3, True, {"a": np.array([1, 2])}])
def test_differentiating_integers_is_an_error_that_names_the_argument(argument: Any) -> None:
    with pytest.raises(TypeError, match=r"argument 1.*(int|bool)"):
        er.grad(lambda x, y: jnp.sum(x), 1)(X, argument)


def test_an_output_that_is_no_scalar_is_an_error_like_jax_s() -> None:
    with pytest.raises(TypeError) as ours:
        er.grad(lambda x: x * x)(X)
    with pytest.raises(TypeError) as theirs:
        jax.grad(lambda x: x * x)(X)
    assert "scalar" in str(ours.value)
    assert str(ours.value) == str(theirs.value)


def test_an_integer_output_is_an_error_like_jax_s() -> None:
    with pytest.raises(TypeError, match="real"):
        er.grad(lambda x: jnp.sum(x > 0))(X)


def test_what_is_no_function_is_an_error() -> None:
    for call in (er.grad, er.value_and_grad, er.evaluate):
        with pytest.raises(TypeError, match="fun"):
            call(3.0)


@pytest.mark.parametrize("bits", [0, 63, 128.0, True, "200"])
def test_max_bits_is_an_integer_of_at_least_64(bits: Any) -> None:
    with pytest.raises(ValueError, match="max_bits"):
        er.grad(lambda x: jnp.sum(x), max_bits=bits)(X)


def test_a_budget_is_a_budget() -> None:
    with pytest.raises(TypeError, match="budget"):
        er.grad(lambda x: jnp.sum(x), budget=1e-6)(X)  # type: ignore[arg-type]


def opaque_primitive() -> Primitive:
    primitive = Primitive("opaque_to_the_library")
    primitive.def_impl(lambda x: x)
    primitive.def_abstract_eval(lambda x: x)
    ad.defjvp(primitive, lambda g, x: g)
    return primitive


@pytest.mark.parametrize("transform", [er.grad, er.value_and_grad, er.evaluate])
def test_an_unsupported_primitive_is_named_with_the_user_s_line(transform: Any) -> None:
    opaque = opaque_primitive()

    def loss(x: Any) -> Any:
        return jnp.sum(opaque.bind(x) ** 2)

    line = loss.__code__.co_firstlineno + 1
    with pytest.raises(er.UnsupportedPrimitiveError) as caught:
        transform(loss)(X)
    assert caught.value.primitive == "opaque_to_the_library"
    assert re.search(rf"{Path(__file__).name}:{line}\b", caught.value.source)
    assert caught.value.source in str(caught.value)
    assert isinstance(caught.value, NotImplementedError)
