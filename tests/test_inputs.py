"""Arrays from anywhere: values kept exactly, dtypes kept or given, one rounding, memory owned, errors that name the argument."""

from __future__ import annotations

import decimal
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exactref_jax as er

FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
COMPLEX = ["complex64", "complex128"]
PRECISION = {"float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def assert_ours(got: Any) -> None:
    """A plain array, contiguous, that owns its memory and cannot be written to."""
    assert type(got) is np.ndarray
    assert got.flags.c_contiguous
    assert not got.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        got[...] = 0


# NumPy ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, *COMPLEX, "float8_e4m3", "float8_e3m4", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_numpy_arrays_keep_their_bits(name: str, shape: tuple[int, ...]) -> None:
    dtype = numpy_dtype(name)
    bits = np.random.default_rng(3).integers(0, 256, dtype.itemsize * math.prod(shape), dtype=np.uint8)
    array = (bits & 1 if name == "bool" else bits).view(dtype).reshape(shape)
    got = er.asarray(array)
    assert got.dtype == dtype
    assert got.shape == shape
    assert got.tobytes() == array.tobytes()
    assert_ours(got)


VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "transposed": lambda x: x.T,
    "strided": lambda x: x[:, ::2],
    "reversed": lambda x: x[::-1, :, ::-1],
    "column": lambda x: x[..., 1],
    "Fortran": np.asfortranarray,
    "broadcast": lambda x: np.broadcast_to(x[0], (5, 3, 4)),
    "element": lambda x: x[1, 1, 1:2].reshape(()),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape),
}


@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16", "float8_e5m2", "complex64", "int16"])
@pytest.mark.parametrize("layout", VIEWS)
def test_any_layout(layout: str, name: str) -> None:
    base = np.arange(24).reshape(2, 3, 4).astype(numpy_dtype(name))
    view = VIEWS[layout](base)
    for got in (er.asarray(view), er.asarray(view, name)):
        np.testing.assert_array_equal(got, view)
        assert got.dtype == base.dtype
        assert_ours(got)
    np.testing.assert_array_equal(er.asarray(view, "complex128"), view.astype(np.complex128))


@pytest.mark.parametrize("code", [">f8", ">f4", ">f2", ">i8", ">u4", ">c8", ">c16"])
def test_big_endian_arrays_come_out_native(code: str) -> None:
    array = np.array([1, 2, 100], code)
    got = er.asarray(array)
    assert got.dtype == np.dtype(code).newbyteorder("=")
    assert got.dtype.isnative
    np.testing.assert_array_equal(got, array)
    np.testing.assert_array_equal(er.asarray([1, 2, 100], code), array)


def test_a_read_only_array_is_copied() -> None:
    array = np.arange(3.0)
    array.setflags(write=False)
    got = er.asarray(array)
    assert not np.shares_memory(got, array)
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize("dtype", [None, "float32", "float64", "bfloat16", "complex64"])
def test_a_change_of_the_source_afterwards_changes_nothing(dtype: str | None) -> None:
    array = np.array([1.0, 2.0], np.float32)
    got = er.asarray(array, dtype)
    array[:] = 7
    assert got.tolist() == [1.0, 2.0]
    assert not np.shares_memory(got, array)


def test_our_own_arrays_are_copied_too() -> None:
    first = er.asarray([1.0, 2.0])
    assert not np.shares_memory(er.asarray(first), first)


def test_a_subclass_comes_out_as_a_plain_array() -> None:
    assert_ours(er.asarray(np.eye(2).view(type("Tagged", (np.ndarray,), {}))))


def test_special_values_are_kept() -> None:
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0])
    for name in ("float64", "float32", "float16", "bfloat16", "float8_e5m2"):
        got = er.asarray(special, name).astype(np.float64)
        np.testing.assert_array_equal(got, special)
        np.testing.assert_array_equal(np.signbit(got)[1:], np.signbit(special)[1:])
    signalling = np.array([0x7FA00001, 0xFFC12345], np.uint32).view(np.float32)
    assert er.asarray(signalling).tobytes() == signalling.tobytes()


# Python numbers ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (1.5, "float64"),
        (2, "int64"),
        (True, "bool"),
        (1j, "complex128"),
        ([1, 2], "int64"),
        ([1.0, 2], "float64"),
        ((1.0, 2.0), "float64"),
        ([[1j], [2]], "complex128"),
        ([True, False], "bool"),
        ([True, 2], "int64"),
        ([], "float64"),
        ([[], []], "float64"),
        ([[[1.0, 2.0]], [[3.0, 4.0]]], "float64"),
        (np.float32(1.5), "float32"),
        (ml_dtypes.bfloat16(1.5), "bfloat16"),
        ([np.float16(1.5), np.float16(2.5)], "float16"),
        ([np.ones(2, np.float32), np.zeros(2, np.float32)], "float32"),
        (np.int8(-3), "int8"),
    ],
)
def test_python_numbers_and_lists_without_a_dtype(given: Any, dtype: str) -> None:
    got = er.asarray(given)
    assert got.dtype == numpy_dtype(dtype)
    assert got.shape == np.shape(given)
    np.testing.assert_array_equal(got, np.array(given))
    assert_ours(got)


@pytest.mark.parametrize(
    "given", [[[1, 2.5], [Fraction(1, 2), True]], ([1, 2.5], (Fraction(1, 2), 1)), [[np.int8(1), np.float16(2.5)], [decimal.Decimal("0.5"), 1.0]]]
)
@pytest.mark.parametrize("name", [*FLOATS, *COMPLEX])
def test_mixed_nested_lists_with_a_dtype(given: Any, name: str) -> None:
    got = er.asarray(given, name)
    assert got.dtype == numpy_dtype(name)
    np.testing.assert_array_equal(got.astype(complex), [[1, 2.5], [0.5, 1]])


def test_fractions_and_decimals_need_a_dtype() -> None:
    for x in (Fraction(1, 3), [Fraction(1, 3)], decimal.Decimal("0.1"), [1.0, decimal.Decimal("0.1")], 10**400):
        with pytest.raises(TypeError, match=r"weight.*dtype"):
            er.asarray(x, argument="weight")


@pytest.mark.parametrize("numbers", [[2**63 + 1, -1], [2**63 + 1, 0, -(2**62)], [2**64, 1]])
def test_ints_that_no_integer_dtype_holds_are_not_rounded_unasked(numbers: list[int]) -> None:
    """NumPy would make float64 numbers of the first two; lists of ints are int64."""
    with pytest.raises((TypeError, ValueError), match="weight"):
        er.asarray(numbers, argument="weight")


# One rounding --------------------------------------------------------------------------------------------------------------------


def trap(name: str) -> Fraction:
    """Beside a midpoint by less than a wider format can see where rounding twice goes astray; exactly a float64 number."""
    return 1 + Fraction(1, 2 ** PRECISION[name]) + Fraction(1, 2**50)


@pytest.mark.parametrize("name", PRECISION)
def test_float64_is_rounded_once_not_through_float32(name: str) -> None:
    value, right = float(trap(name)), 1 + 2.0 ** (1 - PRECISION[name])
    for x in (value, [value], np.array([value]), np.array(value), np.array([value], ">f8"), np.float64(value), decimal.Decimal(value), Fraction(value)):
        got = np.ravel(er.asarray(x, name)).astype(np.float64)
        assert got.tolist() == [right], type(x)
    assert er.asarray([complex(value, -value)], "complex64")[0] == complex(*np.float32([value, -value]))


@pytest.mark.parametrize("name", PRECISION)
def test_fractions_and_ints_are_rounded_once_not_through_float64(name: str) -> None:
    p = PRECISION[name]
    value, right = 1 + Fraction(1, 2**p) + Fraction(1, 2**90), 1 + 2.0 ** (1 - p)
    assert float(value) == 1 + 2.0**-p
    for x in (value, [value], np.array([value], object)):
        assert np.ravel(er.asarray(x, name)).astype(np.float64).tolist() == [right]
    if name in ("float32", "bfloat16"):
        n = 2**100 + 2 ** (100 - p) + 1
        assert float(n) == 2.0**100 + 2.0 ** (100 - p)
        for given_int in (n, [n], [[n, 1]], (n, 0.5), np.array([n], object)):
            assert float(np.ravel(er.asarray(given_int, name))[0]) == 2.0**100 * right
    assert float(er.asarray(Fraction(1, 3), "float32")) == float(np.float32(1) / np.float32(3))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_numpy_integers_are_rounded_once(dtype: Any, name: str) -> None:
    """2**61 plus half a step plus one: float64 drops the one, and then takes the tie to even."""
    p = PRECISION[name]
    n = 2**61 + 2 ** (61 - p) + 1
    for x in (np.array([n], dtype), np.array(n, dtype), [dtype(n)], dtype(n)):
        assert float(np.ravel(er.asarray(x, name))[0]) == 2.0**61 * (1 + 2.0 ** (1 - p))


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_ints_beside_floats_in_a_list_are_not_rounded_to_float64_first(name: str) -> None:
    p = PRECISION[name]
    n = 2**61 + 2 ** (61 - p) + 1
    for x in ([n, 0.5], [[np.int64(n), 0.5]], (n, np.float32(0.5)), [n, 0.5, True]):
        assert np.ravel(er.asarray(x, name)).astype(float).tolist()[:2] == [2.0**61 * (1 + 2.0 ** (1 - p)), 0.5]


def test_ints_beyond_2_to_the_53() -> None:
    assert float(er.asarray(2**53 + 1, "float64")) == 2.0**53
    assert float(er.asarray(2**53 + 3, "float64")) == 2.0**53 + 4
    assert float(er.asarray(2**24 + 1, "float32")) == 2.0**24
    assert er.asarray([2**53 + 1, 0.5], "float64").tolist() == [2.0**53, 0.5]
    assert er.asarray(2**53 + 1).tolist() == 2**53 + 1
    assert er.asarray(np.array([2**63 + 1025], np.uint64), "float64")[0] == 2.0**63 + 2048


def test_extended_precision_is_rounded_once() -> None:
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("longdouble is no wider than float64 here")
    value = np.longdouble(1) + np.longdouble(2) ** -24 + np.longdouble(2) ** -60
    for x in (np.array([value]), [value], value, np.array(value)):
        assert float(np.ravel(er.asarray(x, "float32"))[0]) == 1 + 2.0**-23, type(x)


@given(name=st.sampled_from(list(PRECISION)), value=st.fractions(max_denominator=2**70), scale=st.integers(-160, 140), halves=st.integers(-(2**12), 2**12))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_fractions_are_rounded_to_the_nearest_of_two_neighbours(name: str, value: Fraction, scale: int, halves: int) -> None:
    for exact in (value * Fraction(2) ** scale, halves * Fraction(2) ** scale):
        got = er.asarray(exact, name)
        number = float(got)
        if not math.isfinite(number):
            continue  # overflow has its own test
        step = np.array(1, f"int{8 * got.dtype.itemsize}")
        bits = got.view(step.dtype)
        for neighbour in (float((bits + step).view(got.dtype)), float((bits - step).view(got.dtype))):
            if math.isfinite(neighbour):
                here, there = abs(Fraction(number) - exact), abs(Fraction(neighbour) - exact)
                assert here < there or (here == there and int(bits) % 2 == 0)


def test_overflow_underflow_and_signed_zeros() -> None:
    assert float(er.asarray(10**400, "float32")) == np.inf
    assert er.asarray([1e39, -1e39], "float32").tolist() == [np.inf, -np.inf]
    assert er.asarray([65519.99, 65520.0, Fraction(65520) - Fraction(1, 10**9)], "float16").tolist() == [65504.0, np.inf, 65504.0]
    assert np.isnan(er.asarray([1000.0, -np.inf, np.nan], "float8_e4m3fn").astype(float)).all()
    assert er.asarray([464.0, 464.01], "float8_e4m3fn").astype(float)[0] == 448.0
    for x in (-1e-300, Fraction(-1, 10**400), decimal.Decimal("-1e-400"), decimal.Decimal("-0"), -0.0, np.float64(-0.0)):
        got = er.asarray(x, "float16")
        assert got == 0
        assert np.signbit(got), x
    assert not np.signbit(er.asarray(1e-300, "float16"))


def test_decimals() -> None:
    assert float(er.asarray(decimal.Decimal("0.1"), "float64")) == 0.1
    assert er.asarray([decimal.Decimal("Infinity"), decimal.Decimal("-Infinity")], "float32").tolist() == [np.inf, -np.inf]
    assert np.isnan(er.asarray(decimal.Decimal("NaN"), "float32"))


def test_parts_of_complex_numbers_are_rounded_each() -> None:
    got = er.asarray([0.1 + 0.2j, 1, Fraction(1, 3)], "complex64")
    assert got.dtype == np.complex64
    assert got.tolist() == [complex(np.float32(0.1), np.float32(0.2)), 1, complex(np.float32(1 / 3))]
    assert er.asarray(np.complex128([1e39 - 1e-60j]), "complex64")[0] == complex(np.inf, -0.0)
    assert np.signbit(er.asarray(np.complex128([complex(0.0, -1e-60)]), "complex64").imag[0])
    large = 2**100 + 2**76 + 1
    assert er.asarray([large], "complex64")[0] == 2.0**100 + 2.0**77
    with pytest.raises(TypeError, match=r"weight.*complex"):
        er.asarray(np.array([1j]), "float32", argument="weight")
    with pytest.raises(TypeError, match=r"weight.*complex"):
        er.asarray([1j], "float32", argument="weight")


# A dtype that is given -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, *COMPLEX])
def test_a_dtype_may_be_a_name_or_any_library_s_dtype(name: str) -> None:
    dtype = numpy_dtype(name)
    given = [name, dtype, dtype.type, getattr(jnp, "bool_" if name == "bool" else name)]
    for d in given:
        assert er.asarray([1, 0], d).dtype == dtype
        assert er.asarray([1, 0], d).astype(complex).tolist() == [1, 0]


@pytest.mark.parametrize("name", [*FLOATS, "int8", "int16", "int32", "int64", "uint8", "bool", *COMPLEX])
def test_a_dtype_may_be_pytorch_s(name: str) -> None:
    torch = pytest.importorskip("torch")
    assert er.asarray([1, 0], getattr(torch, name)).dtype == numpy_dtype(name)
    assert er.asarray([1, 0], f"torch.{name}").dtype == numpy_dtype(name)


def test_a_dtype_may_be_a_python_type() -> None:
    assert [er.asarray([1], t).dtype.name for t in (float, int, bool, complex)] == ["float64", "int64", "bool", "complex128"]


@pytest.mark.parametrize("dtype", ["flot32", "str", object, "datetime64[s]", "float8", "S4", np.dtype([("a", float)])])
def test_a_dtype_that_is_none_or_not_supported(dtype: Any) -> None:
    with pytest.raises(TypeError, match=r"dtype"):
        er.asarray([1.0], dtype)


@pytest.mark.parametrize("given", [1.5, 256, -1, np.nan, np.inf, 2**70, Fraction(1, 2), 1 + 1j])
def test_an_integer_dtype_takes_only_integers_that_fit(given: Any) -> None:
    with pytest.raises(ValueError, match=r"weight.*uint8"):
        er.asarray([given], "uint8", argument="weight")


def test_integers_that_fit_are_converted_exactly() -> None:
    assert er.asarray([2**63 - 1, -(2**63)], "int64").tolist() == [2**63 - 1, -(2**63)]
    assert er.asarray([2**64 - 1], "uint64").tolist() == [2**64 - 1]
    assert er.asarray([2.0, True, Fraction(4, 2), np.float16(3)], "int8").tolist() == [2, 1, 2, 3]
    assert er.asarray([[1.0, 0.0]], "bool").tolist() == [[True, False]]
    with pytest.raises(ValueError, match="bool"):
        er.asarray([2], "bool")


# JAX -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3fn", "int8", "uint32", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_jax_arrays_keep_their_dtype_and_values(name: str, shape: tuple[int, ...]) -> None:
    array = (jnp.arange(math.prod(shape)).reshape(shape) % 2).astype(name)
    got = er.asarray(array)
    assert got.dtype == numpy_dtype(name)
    assert got.shape == shape
    np.testing.assert_array_equal(got, np.asarray(array))
    assert_ours(got)


def test_float64_jax_arrays() -> None:
    with jax.enable_x64(True):
        array = jnp.array([0.1, 1 / 3], jnp.float64)
    assert er.asarray(array).tolist() == [0.1, 1 / 3]
    assert er.asarray(array).dtype == np.float64


def test_jax_arrays_are_rounded_once() -> None:
    with jax.enable_x64(True):
        array = jnp.array([float(trap("bfloat16"))], jnp.float64)
    assert er.asarray(array, "bfloat16").astype(float).tolist() == [1 + 2.0**-7]


def test_lists_of_jax_arrays() -> None:
    assert er.asarray([jnp.float32(1.5), jnp.float32(2.5)]).tolist() == [1.5, 2.5]
    assert er.asarray([jnp.float32(1.5), jnp.float32(2.5)], "bfloat16").astype(float).tolist() == [1.5, 2.5]


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap], ids=["jit", "grad", "vmap"])
def test_tracers_are_refused(transform: Any) -> None:
    def ask(x: Any) -> Any:
        er.asarray(x, argument="weight")
        return x

    with pytest.raises(TypeError, match=r"weight.*tracer"):
        transform(ask)(jnp.ones(2) if transform is jax.vmap else 1.0)


# PyTorch -------------------------------------------------------------------------------------------------------------------------

TENSORS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda t: t,
    "transposed": lambda t: t.T,
    "column": lambda t: t[:, 1],
    "strided": lambda t: t[:, ::2],
    "element": lambda t: t[1, 2],
    "empty": lambda t: t[:0],
    "expanded": lambda t: t[:1].expand(4, 3),
}


@pytest.mark.parametrize("name", [*FLOATS, *COMPLEX, "int8", "int16", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("layout", TENSORS)
def test_tensors_keep_dtype_shape_and_values(layout: str, name: str) -> None:
    torch = pytest.importorskip("torch")
    values = [[1.0, 0.0, 3.0], [2.0, -4.0, 0.5]] if name not in ("uint8", "bool") else [[1.0, 0.0, 3.0], [2.0, 4.0, 0.0]]
    view = TENSORS[layout](torch.tensor(values).to(getattr(torch, name)))
    got = er.asarray(view)
    assert got.dtype == numpy_dtype(name)
    assert got.shape == tuple(view.shape)
    wide = complex if name in COMPLEX else float
    np.testing.assert_array_equal(got.astype(wide), view.to(torch.complex128 if wide is complex else torch.float64).numpy())
    assert_ours(got)


@pytest.mark.parametrize(("name", "bits"), [("bfloat16", 16), ("float8_e4m3fn", 8), ("float8_e5m2", 8)])
def test_every_pattern_of_a_narrow_tensor_is_kept(name: str, bits: int) -> None:
    torch = pytest.importorskip("torch")
    patterns = np.arange(2**bits).astype(f"uint{bits}")
    tensor = torch.from_numpy(patterns.view(f"int{bits}")).view(getattr(torch, name))
    assert er.asarray(tensor).tobytes() == patterns.tobytes()


def test_tensors_that_require_a_gradient() -> None:
    torch = pytest.importorskip("torch")
    leaf = torch.ones(2, requires_grad=True)
    assert er.asarray(leaf).tolist() == [1.0, 1.0]
    assert er.asarray(2 * leaf).tolist() == [2.0, 2.0]
    assert er.asarray(torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))).astype(float).tolist() == [1.0, 1.0]
    assert leaf.requires_grad


def test_conjugate_and_negative_views() -> None:
    torch = pytest.importorskip("torch")
    z = torch.tensor([1 + 2j, 3 - 1j])
    assert z.conj().is_conj()
    assert z.conj().imag.is_neg()
    assert er.asarray(z.conj()).tolist() == [1 - 2j, 3 + 1j]
    assert er.asarray(z.conj().imag).tolist() == [-2.0, 1.0]
    assert er.asarray(z.reshape(2, 1).mH).tolist() == [[1 - 2j, 3 + 1j]]


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e5m2", "complex64", "int32"])
@pytest.mark.parametrize("dtype", [None, "complex64"])
def test_a_change_of_the_tensor_afterwards_changes_nothing(name: str, dtype: str | None) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([1.0, 2.0]).to(getattr(torch, name))
    got = er.asarray(tensor, dtype)
    tensor.copy_(torch.tensor([7.0, 7.0]))
    assert got.astype(complex).tolist() == [1, 2]


def test_tensors_are_rounded_once() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([float(trap("bfloat16"))], dtype=torch.float64)
    assert er.asarray(tensor, "bfloat16").astype(float).tolist() == [1 + 2.0**-7]
    assert er.asarray(tensor, torch.bfloat16).astype(float).tolist() == [1 + 2.0**-7]
    large = torch.tensor([2**61 + 2**37 + 1])
    assert er.asarray(large, "float32").tolist() == [2.0**61 + 2.0**38]


@pytest.mark.parametrize("make", ["sparse", "sparse_csr", "meta", "list of leaves"])
def test_tensors_without_plain_values_are_refused(make: str) -> None:
    torch = pytest.importorskip("torch")
    made = {
        "sparse": lambda: torch.sparse_coo_tensor(torch.tensor([[0], [1]]), torch.ones(1), (2, 2), check_invariants=True),
        "sparse_csr": lambda: sparse_csr(torch),
        "meta": lambda: torch.empty(2, device="meta"),
        "list of leaves": lambda: [torch.ones((), requires_grad=True)],
    }[make]()
    with pytest.raises(TypeError, match="weight"):
        er.asarray(made, argument="weight")


def sparse_csr(torch: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(torch.tensor([0, 1, 1]), torch.tensor([0]), torch.ones(1), (2, 2))


CODE = """
import sys
import numpy as np
import exactref_jax as er
er.asarray([1.0, 2.0], "bfloat16"), er.asarray(np.ones(2), "float8_e5m2")
result = er.matmul([[1.0]], [[2.0]])
result.covers([[2.0]]), result.ulps([[2.0]]), result.judge(right=[[2.0]])
result.backward([[1.0]]).assert_covers(([[2.0]], [[1.0]]))
try:
    er.asarray("text")
except TypeError:
    pass
assert "torch" not in sys.modules
"""


def test_torch_is_not_imported_unless_a_tensor_is_handed_in() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)


# Errors --------------------------------------------------------------------------------------------------------------------------

REFUSED: dict[str, Callable[[], Any]] = {
    "text": lambda: "text",
    "bytes": lambda: b"text",
    "list of text": lambda: ["a"],
    "number and text": lambda: [1.0, "a"],
    "array of text": lambda: np.array(["1.5"]),
    "None": lambda: None,
    "list with None": lambda: [1.0, None],
    "object": object,
    "dict": lambda: {"a": 1.0},
    "set": lambda: {1.0},
    "range": lambda: range(3),
    "function": lambda: math.sin,
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "ragged depth": lambda: [1.0, [2.0]],
    "dates": lambda: np.array(["2020-01-01"], "datetime64[D]"),
    "records": lambda: np.zeros(2, [("a", float)]),
    "array of objects": lambda: np.array([object()], object),
    "random key": lambda: jax.random.key(0),
}


@pytest.mark.parametrize("dtype", [None, "float32", "int32", "complex64"])
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_array_of_numbers_is_refused_by_name(what: str, dtype: str | None) -> None:
    with pytest.raises((TypeError, ValueError), match="weight"):
        er.asarray(REFUSED[what](), dtype, argument="weight")


@pytest.mark.parametrize(
    "make", [lambda: np.ones(2, np.longdouble), lambda: np.longdouble(1), lambda: jnp.ones(2, jnp.int4)], ids=["longdouble", "number", "int4"]
)
def test_an_unsupported_dtype_is_refused_by_name(make: Callable[[], Any]) -> None:
    array = make()
    with pytest.raises(TypeError, match=rf"weight: dtype {array.dtype}"):
        er.asarray(array, argument="weight")


@pytest.mark.parametrize("given", ["text", None, [[1.0], [1.0, 2.0]]])
def test_an_operation_names_its_operand(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"er\.matmul: B"):
        er.matmul([[1.0]], given)
    with pytest.raises((TypeError, ValueError), match="grad"):
        er.matmul.backward([[1.0]], [[1.0]], given)
