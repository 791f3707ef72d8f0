"""Bad arguments of operations: the message names the argument, what was given and what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import exactref_jax as er

A, B, C = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), np.ones((2, 4), np.float32)

WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "inner dimensions": (lambda: er.matmul(A, A), ValueError, r"matmul: the last dimension of A.*\[2, 3\]"),
    "no dimensions": (lambda: er.matmul(A, 1.0), ValueError, "B has no dimensions"),
    "batches": (lambda: er.matmul(np.ones((2, 2, 3)), np.ones((3, 3, 4))), ValueError, r"do not broadcast: A \[2\], B \[3\]"),
    "C": (lambda: er.gemm(A, B, np.ones(3)), ValueError, "gemm.*C"),
    "alpha is text": (lambda: er.add(A, A, alpha="1"), TypeError, "alpha is '1'"),
    "alpha is nan": (lambda: er.add(A, A, alpha=float("nan")), ValueError, "alpha is nan"),
    "alpha is complex": (lambda: er.add(A, A, alpha=1j), TypeError, "alpha is complex"),
    "alpha is bool": (lambda: er.gemm(A, B, C, alpha=True), TypeError, "alpha is True"),
    "beta is infinite": (lambda: er.gemm(A, B, C, beta=float("inf")), ValueError, "beta is inf"),
    "integers": (lambda: er.matmul([[1]], [[2]]), TypeError, "wanted floating-point or complex"),
    "two numbers": (lambda: er.add(1.0, 2.0), TypeError, "add"),
    "shapes of add": (lambda: er.add(A, B), ValueError, r"x \[2, 3\], y \[3, 4\]"),
    "shapes of multiply": (lambda: er.multiply(A, B), ValueError, "do not broadcast"),
    "axis": (lambda: er.sum(A, axis=2), ValueError, "axis"),
    "axis twice": (lambda: er.sum(A, axis=(0, -2)), ValueError, "axis"),
    "text": (lambda: er.sum("abc"), TypeError, "sum: x"),
    "missing operand": (lambda: er.matmul(A), TypeError, "missing.*'B'"),
    "unknown option": (lambda: er.sum(A, dim=0), TypeError, "dim"),
    "missing gradient": (lambda: er.matmul.backward(A, B), TypeError, "grad is the gradient of the output; there is no default"),
    "missing gradient of a result": (lambda: er.matmul(A, B).backward(), TypeError, "missing argument 'grad'"),
    "shape of gradient": (lambda: er.matmul.backward(A, B, A), ValueError, r"grad has shape \[2, 3\]; wanted \[2, 4\]"),
    "gradient of another shape that broadcasts": (lambda: er.add.backward(A, A, 1.0), ValueError, r"grad has shape \[\]"),
    "complex gradient": (lambda: er.sum.backward(A, 1j), TypeError, "grad is complex"),
    "no gradient": (lambda: er.evaluate(lambda x: x)(A).backward(A), TypeError, "no backward"),
    "a result as operand": (lambda: er.matmul(er.sum(A), B), TypeError, "A is a Result"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name: str) -> None:
    call, error, match = WRONG[name]
    with pytest.raises(error, match=match):
        call()


def test_numbers_and_integers_get_no_gradient() -> None:
    assert er.add.backward(A, 2.0, A).rounded.grad_y is None
    assert er.multiply.backward(2.0, A, A).rounded.grad_x is None
    integers = np.ones((2, 3), np.int32)
    assert er.multiply.backward(A, integers, A).rounded.grad_y is None
    with pytest.raises(KeyError, match="no gradient"):
        _ = er.add.backward(A, 2.0, A)["grad_y"]


def test_two_ways_to_a_backward_agree() -> None:
    standalone = er.gemm.backward(A, B, C, C, alpha=0.1, beta=3)
    reused = er.gemm(A, B, C, alpha=0.1, beta=3).backward(C)
    for a, b in zip(standalone.rounded, reused.rounded, strict=True):
        np.testing.assert_array_equal(a, b)
    assert standalone.rounded._fields == ("grad_A", "grad_B", "grad_C")


def test_the_page_s_example() -> None:
    a, b = er.asarray([[1.0, 2.0], [3.0, 4.0]], "float32"), er.asarray([[0.5], [0.25]], "float32")
    grad = er.asarray([[1.0], [1.0]], "float32")
    g = er.matmul.backward(a, b, grad)
    assert g.rounded.grad_A.tolist() == [[0.5, 0.25], [0.5, 0.25]]
    assert g.rounded.grad_B.tolist() == [[4.0], [6.0]]
    assert er.matmul(a, b).backward(grad).rounded.grad_B.tolist() == [[4.0], [6.0]]


def test_tracers_are_for_the_function() -> None:
    with pytest.raises(TypeError, match="tracer"):
        jax.jit(lambda x: er.matmul.backward(x, B, C).rounded)(A)
