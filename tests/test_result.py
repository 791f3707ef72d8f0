"""What a result shows, holds and judges."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from mpmath import mp

import exactref_jax as er

A = np.float32([[1.5, -2.0], [0.25, 3.0]])
B = np.float32([[0.5], [1.25]])
X = np.float32([0.5, 1.0, 2.0])


class Pair(NamedTuple):
    first: Any
    second: Any


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    weight: Any
    bias: Any


def pair() -> er.Result:
    return er.evaluate(lambda x: {"double": 2 * x, "rest": (jnp.exp(x), Pair(x[0], x[1:]))})(X)


# What a person sees -------------------------------------------------------------------------------------------------------------


def test_repr_names_operation_array_dtype_shape_and_counts() -> None:
    text = repr(er.matmul(A, B))
    assert text.startswith("<er.matmul")
    assert "float32[2, 1]" in text
    assert "2 decided" in text
    assert "ulp" in text


def test_repr_has_a_row_for_each_array_and_says_what_is_unbounded() -> None:
    lines = repr(er.evaluate(lambda x: {"safe": x, "wild": (x * x) / x})(np.float32([1e30, 1.0]))).splitlines()
    assert len(lines) == 4
    assert "unbounded" not in lines[2]
    assert "1 unbounded" in lines[3]


def test_html_is_a_table_with_the_same_rows_and_escapes_names() -> None:
    result = er.evaluate(lambda x: {"<b>&": x})(X)
    markup = result._repr_html_()
    assert "<b>" not in markup
    assert "&lt;b&gt;&amp;" in markup
    assert markup.count("<tr>") == 2
    judged = result.judge(**{"<i>": {"<b>&": X}})._repr_html_()
    assert "<i>" not in judged
    assert "&lt;i&gt;" in judged


def test_an_empty_array_has_a_repr_and_is_covered() -> None:
    result = er.sum(np.zeros((0, 3), np.float32), axis=1)
    assert "float32[0]" in repr(result)
    assert result.covers(np.zeros(0)).shape == (0,)
    result.assert_covers(np.zeros(0))


# Structure ----------------------------------------------------------------------------------------------------------------------


def test_parts_have_the_structure_of_what_was_evaluated() -> None:
    result = pair()
    for part in (result.rounded, result.normal, result.bound, result.tolerance, *result.interval, result.unsigned_zeros, result.decided_by):
        assert set(part) == {"double", "rest"}
        assert isinstance(part["rest"][1], Pair)
        assert part["rest"][1].second.shape == (2,)
    assert result.shape["rest"][1] == Pair((), (2,))
    assert result.dtype["double"] == np.float32


def test_keys_follow_the_structure_down_to_one_array() -> None:
    result = pair()
    assert result["double"].rounded.tolist() == (2 * X).tolist()
    assert result["rest"][1]["second"].rounded.tolist() == [1.0, 2.0]
    assert result["rest"][1][1].rounded.tolist() == [1.0, 2.0]
    assert result["rest"][-1].rounded.first == 0.5
    assert result["rest"][0].covers(np.exp(X)).all()
    assert "rest" in repr(result["rest"])


@pytest.mark.parametrize("key", ["triple", 7, ("double",), None])
def test_a_key_that_is_not_there_says_which_are(key: Any) -> None:
    with pytest.raises(KeyError, match="'double', 'rest'"):
        pair()[key]


def test_one_array_has_no_keys() -> None:
    with pytest.raises(KeyError, match="one array"):
        er.sum(X)["value"]


def test_a_registered_dataclass_keeps_its_type_in_every_part() -> None:
    result = er.grad(lambda p: jnp.sum(A @ p.weight + p.bias))(Layer(B, np.zeros(1, np.float32)))
    assert isinstance(result.tolerance, Layer)
    covered = result.covers(Layer(result.rounded.weight, result.rounded.bias))
    assert isinstance(covered, Layer)
    assert covered.weight.all()


def test_a_backward_has_named_parts_that_take_dicts_and_tuples() -> None:
    g = er.matmul.backward(A, B, np.ones((2, 1), np.float32))
    assert g.rounded._fields == ("grad_A", "grad_B")
    by_hand = {"grad_A": np.ones((2, 1)) @ B.T, "grad_B": A.T @ np.ones((2, 1))}
    for candidate in (by_hand, tuple(by_hand.values()), list(by_hand.values()), type(g.rounded)(**by_hand)):
        assert all(c.all() for c in g.covers(candidate))
    assert g["grad_B"].covers(by_hand["grad_B"]).all()
    assert g[1].covers(by_hand["grad_B"]).all()


# Numbers ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_rounded_and_normal_have_the_output_s_dtype_and_bounds_are_float64(dtype: str) -> None:
    result = er.sum(er.asarray([1.5, 0.25, -0.5], dtype))
    assert result.rounded.dtype == result.normal.dtype == np.dtype(getattr(ml_dtypes, dtype, dtype))
    for part in (*result.interval, result.bound, result.tolerance):
        assert part.dtype == np.float64
    assert float(result.rounded) == 1.25


def test_the_interval_is_a_point_where_float64_holds_the_value_and_else_two_neighbours() -> None:
    exact = er.sum(np.float32([1.0, 2.0**-30])).interval
    assert exact.lower == exact.upper == 1 + 2.0**-30
    lower, upper = er.evaluate(jnp.exp)(X).interval
    with mp.workprec(300):
        for low, high, x in zip(lower, upper, X, strict=True):
            assert mp.mpf(float(low)) < mp.exp(float(x)) < mp.mpf(float(high))
            assert high == np.nextafter(low, np.inf)


def test_the_bound_holds_and_is_tight() -> None:
    result = er.evaluate(jnp.exp)(X)
    with mp.workprec(300):
        for r, bound, x in zip(result.rounded, result.bound, X, strict=True):
            distance = abs(mp.mpf(float(r)) - mp.exp(float(x)))
            assert distance <= mp.mpf(float(bound)) <= distance * (1 + mp.mpf(2) ** -40)


def test_overflow_rounds_to_infinity_with_an_infinite_bound_and_a_finite_interval() -> None:
    result = er.multiply(np.float32([1e30]), np.float32([1e30]))
    assert result.rounded.tolist() == [math.inf]
    assert result.bound.tolist() == [math.inf]
    assert result.interval.lower[0] == result.interval.upper[0] == float(np.float32(1e30)) ** 2
    assert result.decimal(0, digits=5).startswith("1.0000e+60") or "e+60" in result.decimal(0, digits=5)


@pytest.mark.parametrize("digits", [1, 2, 15, 50, 400])
def test_decimal_has_as_many_correct_digits_as_asked(digits: int) -> None:
    result = er.evaluate(lambda x: jnp.stack([jnp.exp(x), -jnp.sin(x) / 1024, x * 0 + 0.1]))(np.float32(1.25))
    with mp.workprec(4 * digits + 200):
        exact = [mp.exp(1.25), -mp.sin(1.25) / 1024, mp.mpf(float(np.float32(0.1)))]
        for k, number in enumerate(exact):
            text = result.decimal(k, digits=digits)
            significant = re.sub(r"e.*", "", text).replace("-", "").replace(".", "").lstrip("0")
            assert len(significant) <= digits
            unit = mp.mpf(10) ** (mp.floor(mp.log10(abs(number))) - digits + 1)
            # A value that is rounded up to the next power of ten has a larger unit.
            assert abs(mp.mpf(text) - number) <= unit * (mp.mpf(1) / 2 + mp.mpf(2) ** -100)


def test_decimal_of_special_values_zeros_integers_and_complex_numbers() -> None:
    values = er.evaluate(lambda x: jnp.stack([1 / x[0], -1 / x[0], x[0] / x[0], -x[0], x[1] - x[1]]))(np.float32([0.0, 1.0]))
    assert [values.decimal(k) for k in range(3)] == ["inf", "-inf", "nan"]
    assert values.decimal(3).startswith("-0")
    assert Fraction(values.decimal(4)) == 0
    assert er.evaluate(lambda x: jnp.argmax(x))(X).decimal() == "2"
    assert er.evaluate(lambda z: z * z)(np.complex64(1 - 2j)).decimal(digits=3) == "-3.00 - 4.00i"


@pytest.mark.parametrize("index", [3, -4, (0, 0), (), "a"])
def test_decimal_of_no_element_is_an_error(index: Any) -> None:
    with pytest.raises((IndexError, TypeError, ValueError)):
        er.evaluate(jnp.exp)(X).decimal(index)


def test_decimal_wants_one_array_and_a_digit() -> None:
    with pytest.raises(TypeError, match="choose one"):
        pair().decimal(0)
    with pytest.raises(ValueError, match="digits"):
        er.sum(X).decimal(digits=0)
    assert er.evaluate(jnp.exp)(X).decimal(-1, digits=4) == er.evaluate(jnp.exp)(X).decimal((2,), digits=4) == "7.389"


def test_ulps_are_signed_distances_from_the_exact_value() -> None:
    result = er.sum(np.float32([1.0, 2.0**-25]))
    assert float(result.ulps(np.float32(1.0))) == -0.25
    assert float(result.ulps(np.float64(1 + 2.0**-22))) == 1.75
    assert float(result.ulps(np.float64(1 + 2.0**-23))) == 0.75
    assert np.isnan(result.ulps(np.float32(np.nan)))
    assert float(result.ulps(np.float32(-np.inf))) == -math.inf


# Judging ------------------------------------------------------------------------------------------------------------------------


def test_covers_takes_lists_any_dtype_and_torch_tensors() -> None:
    result = er.matmul(A, B)
    product = A @ B
    for candidate in (product, product.tolist(), product.astype(np.float64), jnp.asarray(product)):
        assert result.covers(candidate).all()
    torch = pytest.importorskip("torch")
    assert result.covers(torch.tensor(product)).all()
    assert result.covers(torch.tensor(product.tolist(), dtype=torch.float64).requires_grad_()).all()


@pytest.mark.parametrize("candidate", [np.ones(3, np.float32), np.float32(1.0), {"a": np.ones((2, 1))}, [A @ B, A @ B]])
def test_a_candidate_of_another_shape_or_structure_is_refused(candidate: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="candidate"):
        er.matmul(A, B).covers(candidate)


def test_covers_with_a_given_tolerance() -> None:
    result = er.evaluate(jnp.exp)(X)
    near = np.exp(X.astype(float)) * (1 + 1e-4)
    assert not result.covers(near).any()
    assert result.covers(near, tolerance=1e-2).all()
    assert result.covers(near, tolerance=np.array([0.0, 1.0, 1.0])).tolist() == [False, True, True]


def test_special_values_cover_themselves_only() -> None:
    result = er.evaluate(lambda x: jnp.stack([1 / x, -1 / x, x / x, x]))(np.float32(0.0))
    inf, nan = math.inf, math.nan
    assert result.covers([inf, -inf, nan, 0.0]).all()
    assert not result.covers([-inf, inf, 0.0, nan]).any()
    assert not result.covers([nan, nan, inf, inf]).any()
    assert not result.covers([3.4e38, -3.4e38, 1.0, 1e-30]).any()


def test_signed_zeros_count_if_asked() -> None:
    result = er.evaluate(lambda x: -x)(np.float32([0.0]))
    assert np.signbit(result.rounded).all()
    assert result.covers([0.0]).all()
    assert not result.covers([0.0], signed_zeros=True).any()
    assert result.covers([-0.0], signed_zeros=True).all()


def test_infinity_is_covered_only_where_the_tolerance_reaches_the_overflow_threshold() -> None:
    top = np.float32(np.finfo(np.float32).max)
    near, below = er.add([top], np.float32([1e31])), er.add([top / 2], np.float32([1e31]))
    assert near.covers([np.inf]).all()
    assert not near.covers([-np.inf]).any()
    assert not below.covers([np.inf]).any()


def test_with_budget_changes_the_tolerance_and_nothing_else() -> None:
    result = er.evaluate(jnp.exp)(X)
    sharper = result.with_budget(er.Budget(ulps={"exp": 0.5}))
    assert np.all(sharper.tolerance < result.tolerance)
    assert sharper.rounded.tolist() == result.rounded.tolist()
    assert sharper.budget == er.Budget(ulps={"exp": 0.5})
    assert result.budget == er.Budget()
    forward = er.matmul(A, B).with_budget(er.Budget())
    assert forward.backward(np.ones((2, 1), np.float32)).rounded.grad_B.tolist() == [[1.75], [1.0]]


def test_assert_covers_lists_the_worst_elements() -> None:
    result = er.matmul(A, B)
    candidate = (A @ B).copy()
    candidate[1, 0] += 1
    with pytest.raises(er.NotCoveredError, match=r"1 of 2 elements are not covered\n.*\[1, 0\]") as caught:
        result.assert_covers(candidate)
    assert isinstance(caught.value, AssertionError)
    result.assert_covers(A @ B)


def test_judge_makes_a_row_for_each_candidate_and_array() -> None:
    g = er.matmul.backward(A, B, np.ones((2, 1), np.float32))
    right = g.rounded
    judgement = g.judge(right=right, wrong=(right.grad_A, right.grad_B * 2))
    assert [(v.candidate, v.covered, v.elements) for v in judgement.verdicts] == [("right", 4, 4), ("right", 2, 2), ("wrong", 4, 4), ("wrong", 0, 2)]
    assert not judgement.covered
    assert repr(judgement).count("<- not covered") == 1
    assert g.judge(right=right).covered


# Memory and errors --------------------------------------------------------------------------------------------------------------


def test_a_part_that_is_written_to_does_not_change_the_result() -> None:
    result = er.evaluate(jnp.exp)(X)
    before = [np.array(p) for p in (result.rounded, result.tolerance, result.bound, *result.interval, result.normal)]
    for part in (result.rounded, result.tolerance, result.bound, *result.interval, result.normal):
        if part.flags.writeable:
            part[...] = -1
    after = (result.rounded, result.tolerance, result.bound, *result.interval, result.normal)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_asarray_gives_read_only_arrays() -> None:
    with pytest.raises(ValueError, match="read-only"):
        er.asarray(A)[0, 0] = 1


def test_backward_wants_a_gradient_of_the_output_s_shape() -> None:
    result = er.matmul(A, B)
    with pytest.raises(TypeError, match="grad"):
        result.backward()
    with pytest.raises(ValueError, match="grad"):
        result.backward(np.ones((2, 2), np.float32))
    with pytest.raises(TypeError, match="grad"):
        er.matmul.backward(A, B)


def test_only_an_operation_s_forward_result_has_a_backward() -> None:
    for result in (er.evaluate(jnp.exp)(X), er.matmul.backward(A, B, np.ones((2, 1), np.float32))):
        with pytest.raises(TypeError, match="no backward"):
            result.backward(X)
