"""Mixed dtypes follow PyTorch's table."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import exactref_jax as er
from exactref_jax.promotion import join, result_dtype

NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def test_arrays_scalars_and_numbers_as_torch() -> None:
    torch = pytest.importorskip("torch")
    operands: list[Any] = [torch.ones(s, dtype=getattr(torch, n)) for n in NAMES for s in ((2,), ())] + [True, 2, 2.5, 2j]
    for a, b in product(operands, operands):
        if not (torch.is_tensor(a) or torch.is_tensor(b)):
            continue
        expected = str(torch.result_type(a, b)).removeprefix("torch.").replace("complex32", "complex64")
        ours = [er.asarray(x) if torch.is_tensor(x) else x for x in (a, b)]
        assert result_dtype(ours).name == expected, (a, b)


def test_float8_joins_no_other_floating_dtype() -> None:
    eight = er.asarray([1.0], "float8_e5m2")
    assert join(eight.dtype, eight.dtype) == eight.dtype
    for other in ("float32", "float16", "float8_e4m3fn"):
        with pytest.raises(TypeError, match="float8_e5m2"):
            er.add(eight, er.asarray([1.0], other))


@pytest.mark.parametrize(("x", "y", "out"), [("float16", "bfloat16", "float32"), ("float32", "float64", "float64"), ("bfloat16", "complex64", "complex64")])
def test_each_gradient_has_its_own_input_s_dtype(x: str, y: str, out: str) -> None:
    a, b = er.asarray([1.0, 2.0], x), er.asarray([3.0, 5.0], y)
    result = er.multiply(a, b)
    assert result.dtype.name == out
    gradients = result.backward(np.ones(2))
    assert gradients.rounded.grad_x.dtype.name == x
    assert gradients.rounded.grad_y.dtype.name == y
    assert gradients.rounded.grad_x.tolist() == [3.0, 5.0]


def test_a_0d_array_does_not_widen() -> None:
    assert er.add(np.ones(2, np.float32), np.float64(1.0) * np.ones(())).dtype == np.float32
    assert er.add(np.ones(2, np.int32), 0.5).dtype == np.float32
