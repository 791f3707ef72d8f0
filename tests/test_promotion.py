"""Mixed dtypes follow PyTorch's table, and each gradient has its own input's dtype, rounded once to it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import exactref_jax as er
from exactref_jax.promotion import join, result_dtype

NAMES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
FLOATS = ["float16", "bfloat16", "float32", "float64"]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
SHAPES = [(2,), (1, 2), ()]


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def theirs(ask: Callable[[], Any]) -> str | None:
    """PyTorch's answer as a NumPy name; None where its table has no entry. Its complex numbers of two float16 are complex64 here."""
    try:
        return str(ask()).removeprefix("torch.").replace("complex32", "complex64")
    except RuntimeError:
        return None


@pytest.mark.parametrize("a", NAMES)
def test_join_is_torch_promote_types(a: str) -> None:
    torch = pytest.importorskip("torch")
    for b in NAMES:
        expected = theirs(lambda b=b: torch.promote_types(getattr(torch, a), getattr(torch, b)))
        assert join(numpy_dtype(a), numpy_dtype(b)).name == expected, (a, b)


def test_join_is_symmetric_and_idempotent() -> None:
    for a, b in product(NAMES, NAMES):
        assert join(numpy_dtype(a), numpy_dtype(b)) == join(numpy_dtype(b), numpy_dtype(a)), (a, b)
        both = join(numpy_dtype(a), numpy_dtype(b))
        assert join(both, numpy_dtype(a)) == both


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_pairs_of_arrays_0d_arrays_and_numbers_are_torch_result_type(name: str, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    first = torch.ones(shape, dtype=getattr(torch, name))
    others = [torch.ones(s, dtype=getattr(torch, n)) for n, s in product(NAMES, SHAPES)] + [True, 2, 2.5, 2j]
    for other in others:
        ours = er.asarray(other) if torch.is_tensor(other) else other
        expected = theirs(lambda other=other: torch.result_type(first, other))
        assert result_dtype([er.asarray(first), ours]).name == expected, (name, shape, other)
        assert result_dtype([ours, er.asarray(first)]).name == expected, (name, shape, other)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", ["int32", "float16", "bfloat16", "float32", "float64", "complex64"])
def test_the_dtype_of_a_product_is_that_of_pytorch_s(name: str) -> None:
    """What PyTorch returns, not what its table says."""
    torch = pytest.importorskip("torch")
    first = torch.ones(2, dtype=getattr(torch, name))
    others = [torch.ones(s, dtype=getattr(torch, n)) for n, s in product(NAMES, [(2,), ()])] + [2, 2.5, 2j]
    for other in others:
        expected = theirs(lambda other=other: (first * other).dtype)
        if expected is None or not ("float" in expected or "complex" in expected):
            continue
        assert er.multiply(er.asarray(first), er.asarray(other) if torch.is_tensor(other) else other).dtype.name == expected, (name, other)


def test_three_operands_join_rank_by_rank() -> None:
    """The join within each rank, then the ranks: as torch.result_type of the sum of equals, of whatever order."""
    torch = pytest.importorskip("torch")
    names = ["int32", "float16", "bfloat16", "float32", "float64", "complex64"]
    for a, b, c in product(names, names, names):
        arrays = [np.ones(2, numpy_dtype(a)), np.ones(2, numpy_dtype(b)), np.ones((), numpy_dtype(c))]
        dense = torch.promote_types(getattr(torch, a), getattr(torch, b))
        expected = theirs(lambda dense=dense, c=c: torch.result_type(torch.ones(2, dtype=dense), torch.ones((), dtype=getattr(torch, c))))
        assert result_dtype(arrays).name == expected, (a, b, c)
        assert result_dtype(arrays[::-1]).name == expected, (a, b, c)


def test_a_0d_array_or_a_number_does_not_widen() -> None:
    zero_d = np.array(1.0)
    assert er.add(np.ones(2, np.float32), zero_d).dtype == np.float32
    assert er.add(np.ones(2, np.float16), np.float64(1.0)).dtype == np.float16
    assert er.add(np.ones(2, np.float16), 1e300).dtype == np.float16
    assert er.add(np.ones(2, np.int32), 0.5).dtype == np.float32
    assert er.add(np.ones(2, np.int32), zero_d).dtype == np.float64
    assert er.add(np.ones(2, np.float64), 1j).dtype == np.complex128
    assert er.add(np.ones(2, np.float64), np.array(1j, np.complex64)).dtype == np.complex128
    assert er.add(np.ones((), np.float32), zero_d).dtype == np.float64


def test_float8_joins_itself_numbers_and_0d_arrays_of_other_kinds() -> None:
    for name in FLOAT8:
        eight = np.ones(2, numpy_dtype(name))
        for other in (eight, eight[0], 2, 2.5, True, np.array(2.5), np.array(2, np.int64), np.array(True)):
            assert result_dtype([eight, other]).name == name, other
        assert er.add(eight, eight).dtype.name == name


@pytest.mark.parametrize("name", FLOAT8)
def test_pytorch_s_table_has_no_entry_for_float8_with_anything_else(name: str) -> None:
    torch = pytest.importorskip("torch")
    others = [other for other in (*NAMES, *FLOAT8) if other != name]
    assert [theirs(lambda other=other: torch.promote_types(getattr(torch, name), getattr(torch, other))) for other in others] == [None] * len(others)


@pytest.mark.parametrize("other", [*NAMES, *FLOAT8])
@pytest.mark.parametrize("name", FLOAT8)
def test_float8_joins_no_other_dtype(name: str, other: str) -> None:
    """As the documentation says: "A float8 dtype joins no other: convert one of them"."""
    if other == name:
        return
    pair = (np.ones(2, numpy_dtype(name)), np.ones(2, numpy_dtype(other)))
    for x, y in (pair, pair[::-1]):
        with pytest.raises(TypeError, match=name):
            er.add(x, y)


@pytest.mark.parametrize("operation", ["add", "multiply", "matmul", "gemm"])
def test_a_mixture_with_float8_is_refused_by_every_operation_naming_its_operands(operation: str) -> None:
    eight, other = np.ones((2, 2), ml_dtypes.float8_e5m2), np.ones((2, 2), np.float32)
    operands = (eight, other, other)[: 3 if operation == "gemm" else 2]
    names = r"A and B" if operation in ("matmul", "gemm") else r"x and y"
    with pytest.raises(TypeError, match=rf"{operation}: {names}.*float8_e5m2.*float32"):
        getattr(er, operation)(*operands)
    with pytest.raises(TypeError, match=r"float8_e5m2.*float32"):
        getattr(er, operation).backward(*operands, np.ones((2, 2)))


# Gradients -----------------------------------------------------------------------------------------------------------------------


def mixed(operation: str, x: str, y: str) -> tuple[er.Result, er.Result]:
    """Forward and backward of an operation on operands of two dtypes."""
    a, b = np.full((2, 2), 1.5).astype(numpy_dtype(x)), np.full((2, 2), 2.0).astype(numpy_dtype(y))
    operands = (a, b, a)[: 3 if operation == "gemm" else 2]
    result = getattr(er, operation)(*operands)
    return result, result.backward(np.ones((2, 2), np.float32))


@pytest.mark.parametrize(("x", "y"), [*product([*FLOATS, "complex64"], repeat=2), ("complex128", "float32"), ("float8_e5m2", "float8_e5m2")])
@pytest.mark.parametrize("operation", ["multiply", "matmul"])
def test_each_gradient_has_its_own_input_s_dtype(operation: str, x: str, y: str) -> None:
    result, gradients = mixed(operation, x, y)
    assert result.dtype == join(numpy_dtype(x), numpy_dtype(y))
    assert [g.dtype.name for g in gradients.rounded] == [x, y]
    assert list(gradients.dtype) == [numpy_dtype(x), numpy_dtype(y)]


@pytest.mark.parametrize(("x", "y"), [("float16", "bfloat16"), ("float64", "float16"), ("bfloat16", "complex64")])
@pytest.mark.parametrize("operation", ["add", "gemm"])
def test_each_gradient_of_a_sum_has_its_own_input_s_dtype(operation: str, x: str, y: str) -> None:
    _, gradients = mixed(operation, x, y)
    assert [g.dtype.name for g in gradients.rounded] == [x, y, x][: len(gradients.rounded)]


def test_integer_arrays_and_numbers_get_no_gradient() -> None:
    g = er.multiply.backward(np.ones(2, np.float16), np.array([2, 3]), np.ones(2))
    assert g.rounded.grad_y is None
    assert g.rounded.grad_x.dtype == np.float16
    assert g.rounded.grad_x.tolist() == [2.0, 3.0]
    assert er.multiply.backward(np.ones(2, np.float16), 2.5, np.ones(2)).rounded.grad_y is None


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_a_gradient_is_rounded_once_to_its_input_s_dtype_not_through_the_output_s(narrow: str) -> None:
    """grad * y lies beside a midpoint of the narrow format, by less than the output's float32 can see."""
    p = {"float16": 11, "bfloat16": 8}[narrow]
    # (1 + 2**-p) * (1 + 2**-23) = 1 + 2**-p + 2**-23 + ..., and three of them, less two, leave the last term.
    grad, y = np.float32([1 + 2.0**-p, 2.0**-20]), np.float32([1.0, 2.0**-20])
    exact = sum(Fraction(float(g)) * Fraction(float(v)) for g, v in zip(grad, y, strict=True))
    assert exact == 1 + Fraction(1, 2**p) + Fraction(1, 2**40)
    assert np.float32(float(exact)) == 1 + 2.0**-p
    x = np.ones(1, numpy_dtype(narrow))  # broadcast: its gradient is the sum of both products
    gradient = er.multiply.backward(x, y, grad).rounded.grad_x
    assert gradient.dtype == x.dtype
    assert float(gradient[0]) == 1 + 2.0 ** (1 - p)


def test_the_output_s_gradient_may_have_any_dtype() -> None:
    """Its numbers count: float64 beside a midpoint of float16 is not rounded to the output's float32 first."""
    x, y = np.ones(1, np.float16), np.ones(1, np.float32)
    grad = np.array([1 + 2.0**-11 + 2.0**-40])
    assert er.multiply.backward(x, y, grad).rounded.grad_x.tolist() == [1 + 2.0**-10]
    assert er.add.backward(x, y, grad).rounded.grad_y.tolist() == [float(np.float32(1 + 2.0**-11))]


def test_nothing_has_no_dtype() -> None:
    with pytest.raises(TypeError, match="operand"):
        result_dtype([])
