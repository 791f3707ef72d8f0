"""Arrays from anywhere: values kept exactly, dtypes kept or given, memory owned."""

from __future__ import annotations

import decimal
import subprocess
import sys
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import exactref_jax as er

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


@pytest.mark.parametrize("dtype", [*FLOATS, np.complex64, np.complex128, np.int8, np.int64, np.uint64, np.bool_], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_numpy_arrays_are_kept(dtype: Any, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
    got = er.asarray(array)
    assert got.dtype == array.dtype
    assert got.shape == shape
    assert got.tobytes() == array.tobytes()


def test_layouts() -> None:
    base = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for view in (base.T, base[:, ::2], base[::-1], base[..., 1], np.asfortranarray(base), base.astype(">f4"), np.broadcast_to(base[0], (5, 3, 4))):
        got = er.asarray(view)
        np.testing.assert_array_equal(got, view)
        assert got.dtype == np.float32


def test_result_is_ours_and_read_only() -> None:
    array = np.ones(3, np.float32)
    got = er.asarray(array)
    array[0] = 7.0
    assert got[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        got[0] = 2.0
    array.setflags(write=False)
    assert er.asarray(array)[0] == 7.0


@pytest.mark.parametrize(
    ("given", "dtype"), [(1.5, np.float64), ([1, 2], np.int64), ([1.0, 2], np.float64), ([[1j], [2]], np.complex128), (True, np.bool_), ([], np.float64)]
)
def test_python_numbers(given: Any, dtype: Any) -> None:
    assert er.asarray(given).dtype == dtype
    np.testing.assert_array_equal(er.asarray(given), np.array(given))


def test_values_are_rounded_once() -> None:
    trap = 1 + Fraction(1, 2**8) + Fraction(1, 2**40)  # rounds down in bfloat16 if float32 comes between
    for given in (trap, float(trap), [trap], decimal.Decimal(float(trap)), np.float64(float(trap))):
        assert float(np.ravel(er.asarray(given, "bfloat16"))[0]) == 1 + 2.0**-7
    assert float(er.asarray(2**53 + 1, "float64")) == 2.0**53
    assert float(er.asarray(2**24 + 1, "float32")) == 2.0**24
    assert float(er.asarray(10**400, "float32")) == np.inf
    assert np.isnan(float(er.asarray(1000.0, "float8_e4m3fn")))
    assert np.signbit(er.asarray(-1e-300, "float16"))
    assert er.asarray(np.array([2**63 + 1025], np.uint64), "float64")[0] == 2.0**63 + 2048


def test_complex_numbers() -> None:
    assert er.asarray(1 + 2j, "complex64").dtype == np.complex64
    assert er.asarray([0.1], "complex64")[0] == np.float32(0.1)
    with pytest.raises(TypeError, match="complex"):
        er.asarray(1j, "float32")


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16, jnp.int32, jnp.complex64, jnp.float8_e5m2])
def test_jax_arrays(dtype: Any) -> None:
    array = jnp.asarray([1, 2, 0], dtype)
    got = er.asarray(array)
    assert got.dtype == array.dtype
    np.testing.assert_array_equal(got, np.asarray(array))


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    for name in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128", "int32", "bool"):
        tensor = torch.tensor([[1.0, 0.0], [2.0, -4.0]]).to(getattr(torch, name))
        for view in (tensor, tensor.T, tensor[:, 1], tensor[0, 0], tensor[:0]):
            got = er.asarray(view)
            assert got.dtype.name == name
            assert got.shape == tuple(view.shape)
            wide = view.to(torch.complex128 if "complex" in name else torch.float64).numpy()
            np.testing.assert_array_equal(got.astype(wide.dtype), wide)
    leaf = torch.ones(2, requires_grad=True)
    assert er.asarray(leaf).tolist() == [1.0, 1.0]
    z = torch.tensor([1 + 2j])
    assert er.asarray(z.conj())[0] == 1 - 2j
    assert er.asarray(z.conj().imag)[0] == -2.0
    with pytest.raises(TypeError, match="sparse"):
        er.asarray(torch.eye(2).to_sparse())


@pytest.mark.parametrize("given", ["text", None, object(), [[1.0], [1.0, 2.0]], ["a"]])
def test_what_is_no_array_is_refused(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="weight"):
        er.asarray(given, argument="weight")


def test_integers_must_fit() -> None:
    for given in (1.5, 300, -1, np.nan):
        with pytest.raises(ValueError, match="uint8"):
            er.asarray([given], "uint8")


def test_torch_is_not_imported_unasked() -> None:
    code = "import sys, exactref_jax as er; er.matmul([[1.0]], [[2.0]]).backward([[1.0]]).covers(([[2.0]], [[1.0]])); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
