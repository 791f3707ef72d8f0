"""Gradients that others' bug reports are about: exact, bit for bit; what the library cannot answer yet is listed, and the list is exact."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import exactref_jax as er

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "reports"

if not (FOLDER / "cases.py").exists():
    pytest.skip("the reports are not here", allow_module_level=True)


def module() -> ModuleType:
    """The programs and what they give. Loading them turns on JAX's 64-bit flag, which is put back."""
    flag = jax.config.jax_enable_x64
    spec = importlib.util.spec_from_file_location("reports_cases", FOLDER / "cases.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["reports_cases"] = loaded
    try:
        spec.loader.exec_module(loaded)
    finally:
        jax.config.update("jax_enable_x64", flag)
    return loaded


cases = module()
CASES: dict[str, dict[str, Any]] = {c["id"]: c for c in cases.CASES}

#: Programs with a primitive that has no rule: the primitive.
UNSUPPORTED = {"solve-hilbert4-f32": "lu", "svd-norm-repeated-f32": "svd", "fft-roundtrip-f32": "fft"}

#: Gradients that differ from what is expected, and why.
DIFFERENT = {
    "logcdf-2nd-f32": "jax computes log_ndtr piecewise, by approximations: the program's gradient is theirs; expected is the function's",
    "kl-zero-target-f32": "at a target of 0 the program's branch is a constant, so the derivative is 1.5; expected is the one-sided one of t log t, -inf",
    "std-constant-f64": "the gradient of a norm at 0 is 0 times infinity in the traced program",
}


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    """The programs are written for 64-bit types."""
    with jax.enable_x64(True):
        yield


def exact_gradients(case: dict[str, Any]) -> er.Result:
    if not case["op"]:
        return er.grad(case["fn"], argnums=case["argnums"])(*case["inputs"])
    name, options, cotangent = case["op"]
    options = dict(options)
    inputs = list(case["inputs"])
    if name == "scaled_dot_product_attention" and "mask" in options:
        options["attn_mask"] = options.pop("mask")
    if name == "scaled_dot_product_attention" and len(inputs) == 4:
        options["attn_mask"] = inputs.pop()
    return getattr(er, name).backward(*inputs, cotangent, **options)


def gradients(case: dict[str, Any]) -> list[np.ndarray]:
    """Those of the differentiated arguments, in order."""
    rounded = exact_gradients(case).rounded
    return [rounded[i] for i in case["argnums"]] if case["op"] else list(rounded)


def expected(case: dict[str, Any]) -> list[Any]:
    # The operations take alpha and beta as exactly the numbers given, so theirs is the mathematical value.
    return case["expected_math"] if case["id"] in EXACT_CONSTANTS else case["expected"]


#: Where the library uses exact constants, and `expected` the ones rounded to the dtype.
EXACT_CONSTANTS = {"gemm-alpha-f16"}


def misses(case: dict[str, Any]) -> list[str]:
    """Elements that are not the expected number, or not within the expected set."""
    out = []
    for k, (got, wanted) in enumerate(zip(gradients(case), expected(case), strict=True)):
        flat = np.array(wanted, dtype=object).ravel()
        for index, (x, text) in enumerate(zip(got.astype(float).ravel(), flat, strict=True)):
            low, high = cases.parse(text)
            if not (x == low or (low < high and low <= x <= high)):
                out.append(f"argument {case['argnums'][k]}, element {index}: {float(x).hex()}, expected {text}")
    return out


def answered(case: dict[str, Any]) -> bool:
    return case["id"] not in UNSUPPORTED and case["id"] not in DIFFERENT


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if answered(case)])
def test_gradient_is_the_expected_one_bit_for_bit(name: str) -> None:
    assert misses(CASES[name]) == []


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_gradient_listed_as_different_is_different(name: str) -> None:
    # When this fails, take the case off the list.
    assert misses(CASES[name])


def test_a_derivative_at_a_branch_is_that_of_the_branch_taken() -> None:
    [missed] = misses(CASES["kl-zero-target-f32"])
    assert missed.startswith(f"argument 0, element 0: {(1.5).hex()}")


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_program_listed_as_unsupported_is_refused_with_the_primitive_s_name(name: str) -> None:
    with pytest.raises(er.UnsupportedPrimitiveError) as caught:
        exact_gradients(CASES[name])
    assert caught.value.primitive == UNSUPPORTED[name]


def test_the_lists_name_cases() -> None:
    assert {*UNSUPPORTED, *DIFFERENT, *EXACT_CONSTANTS} <= set(CASES)
    assert len(CASES) == 48


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if answered(case)])
def test_a_gradient_far_from_it_is_judged_so(name: str) -> None:
    case = CASES[name]
    result = exact_gradients(case)
    judged = result.covers(jax.tree.map(_far_away, result.rounded, result.tolerance))
    for rounded, tolerance, covered in zip(*map(jax.tree.leaves, (result.rounded, result.tolerance, judged)), strict=True):
        assert not (covered & np.isfinite(tolerance) & np.isfinite(rounded.astype(float))).any()


def _far_away(rounded: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    number = rounded.astype(float)
    number = np.where(np.isfinite(number), number, 0.0)
    return number + 4 * np.where(np.isfinite(tolerance), tolerance, 0.0) + np.abs(number) * 2.0**-6 + 1e-30


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if answered(case) and case["kind"] == "smooth"])
def test_the_expected_gradient_is_covered(name: str) -> None:
    case = CASES[name]
    result = exact_gradients(case)
    for k, wanted in zip(case["argnums"], case["expected"], strict=True):
        numbers = np.array([cases.parse(t)[0] for t in np.array(wanted, dtype=object).ravel()]).reshape(case["inputs"][k].shape)
        part = result[k] if case["op"] else result[case["argnums"].index(k)]
        assert part.covers(numbers).all()
