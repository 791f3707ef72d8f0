"""The tolerance follows its budget, covers every honest implementation thrown at it, and not one that breaks the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from exact_operations import LAYOUTS, Signed, code

import exactref_jax as er

UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def of(dtype: str, x: Any) -> np.ndarray:
    return np.asarray(x, np.float64).astype(getattr(ml_dtypes, dtype, dtype))


def tolerance(function: Callable[..., Any], *xs: np.ndarray, **fields: Any) -> np.ndarray:
    return er.evaluate(function, budget=er.Budget(**fields))(*xs).tolerance


# Fields -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"accumulation": {"bfloat": "float32"}}, "accumulation"),
        ({"accumulation": {"bfloat16": "int32"}}, "accumulation"),
        ({"ulps": {"exponential": 1.0}}, "ulps"),
        ({"ulps": {"exp": 0.25}}, "ulps"),
        ({"ulps": {"exp": math.nan}}, "ulps"),
    ],
)
def test_a_budget_of_unknown_names_or_impossible_errors_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        er.Budget(**fields)


def test_a_budget_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="budget"):
        er.sum(np.ones(3)).with_budget(1e-6)  # type: ignore[arg-type]


def test_a_sum_s_tolerance_is_gamma_in_the_accumulation_format() -> None:
    # Higham, section 4.2: with n - 1 roundings the error is at most gamma(n - 2) sum |x| + u |s|; bfloat16 then rounds s once.
    x = of("bfloat16", np.random.default_rng(1).uniform(1, 2, 64))
    exact = sum(map(float, x))
    by_default = float(er.sum(x).tolerance)
    narrow = float(er.sum(x).with_budget(er.Budget(accumulation={"bfloat16": "bfloat16"})).tolerance)
    double = float(er.sum(x).with_budget(er.Budget(accumulation={"bfloat16": "float64"})).tolerance)
    gamma = lambda k, u: k * u / (1 - k * u)
    in_float32 = gamma(62, 2.0**-24) * exact + 2.0**-24 * exact
    assert by_default <= (2.0**-8 * (exact + in_float32) + in_float32) * (1 + 1e-9)
    assert by_default >= 2.0**-8 * exact
    assert narrow == pytest.approx(gamma(62, 2.0**-8) * exact + 2.0**-8 * exact, rel=0.05)
    assert 2.0**-8 * exact <= double <= by_default


def test_a_function_s_tolerance_is_its_ulps_twice_the_published_ones_by_default() -> None:
    x = np.float32(1.5)
    size = math.exp(1.5)
    assert float(tolerance(jnp.exp, x)) == pytest.approx(2 * 4.0 * 2.0**-24 * size, rel=1e-6)
    assert float(tolerance(jnp.exp, x, ulps={"exp": 0.5})) == pytest.approx(2.0**-24 * size, rel=1e-6)
    assert float(tolerance(jnp.exp, x, ulps={"log": 0.5})) == float(tolerance(jnp.exp, x))


def test_flushing_subnormals_costs_the_number_itself() -> None:
    x = np.float32(1e-40)
    half = lambda x: x * 0.5
    assert float(tolerance(half, x)) >= float(x) / 2
    assert float(tolerance(half, x, flush_subnormals=False)) <= 2.0**-149
    assert bool(er.evaluate(half)(x).covers(np.float32(0)))
    assert not bool(er.evaluate(half, budget=er.Budget(flush_subnormals=False))(x).covers(np.float32(0)))


def test_division_by_a_reciprocal_costs_a_second_rounding() -> None:
    x, y = np.float32(1.25), np.float32(3.0)
    one, two = (float(tolerance(jnp.divide, x, y, reciprocal_division=r)) for r in (False, True))
    assert one == pytest.approx(2.0**-24 * 1.25 / 3, rel=1e-6)
    assert two == pytest.approx(2 * one, rel=1e-6)


def test_rounding_copies_first_costs_a_rounding_of_each_product_of_half_formats() -> None:
    rng = np.random.default_rng(2)
    for dtype, grows in (("bfloat16", True), ("float16", True), ("float32", False)):
        x, grad = of(dtype, rng.uniform(1, 2, (5, 3))), of(dtype, rng.uniform(1, 2, (5, 3)))
        result = er.multiply.backward(x, of(dtype, rng.uniform(1, 2, 3)), grad)["grad_y"]
        wider = result.with_budget(er.Budget(rounds_copies=True))
        assert np.all(wider.tolerance > result.tolerance) if grows else np.all(wider.tolerance == result.tolerance)
        # Each product rounded to the format, then summed in float32 and rounded.
        rounded = (x * grad).astype(np.float32)
        assert wider.covers(rounded.sum(0).astype(x.dtype)).all()


# Overflow -----------------------------------------------------------------------------------------------------------------------


def test_an_intermediate_that_may_overflow_makes_the_tolerance_infinite_and_is_counted() -> None:
    result = er.evaluate(lambda x: (x * x) / x)(np.float32([1e30, 2.0]))
    assert result.rounded.tolist() == [np.float32(1e30), 2.0]
    assert np.isinf(result.tolerance).tolist() == [True, False]
    assert result.unbounded == 1
    assert result.covers(np.float32([np.nan, 2.0])).tolist() == [True, True]


def test_unbounded_elements_do_not_pass_an_assertion_silently() -> None:
    result = er.evaluate(lambda x: (x * x) / x)(np.float32([1e30, 2.0]))
    with pytest.raises(er.NotCoveredError, match="infinite tolerance"):
        result.assert_covers(result.rounded)
    result.assert_covers(result.rounded, allow_unbounded=1)


def test_a_divisor_that_may_be_rounded_to_zero_makes_the_tolerance_infinite() -> None:
    # 1 + 2**-30 is 1 in float32.
    result = er.evaluate(lambda x: 1 / ((1 + x) - 1))(np.float32(2.0**-30))
    assert float(result.rounded) == 2.0**30
    assert result.unbounded == 1


def test_a_sum_of_one_sign_does_not_overflow_before_its_end() -> None:
    x = np.float32([1e38, 1e38, 1e38])
    assert np.isfinite(er.sum(x).tolerance)
    assert np.isinf(er.sum(np.concatenate([x, -x, x / 3])).tolerance)


# Decisions ----------------------------------------------------------------------------------------------------------------------


def stepped(a: Any, b: Any, c: Any) -> Any:
    return jnp.where(a * b > c, 1.0, 5.0)


def test_a_comparison_within_rounding_error_covers_both_branches() -> None:
    a, b = np.float32(1.1), np.float32(1.3)
    result = er.evaluate(stepped)(a, b, a * b)
    assert float(result.rounded) in (1.0, 5.0)
    assert float(result.tolerance) >= 4.0
    assert result.covers(1.0)
    assert result.covers(5.0)


def test_a_comparison_beyond_rounding_error_covers_one_branch() -> None:
    a, b = np.float32(1.1), np.float32(1.3)
    result = er.evaluate(stepped)(a, b, a * b * np.float32(1.00001))
    assert float(result.rounded) == 5.0
    assert float(result.tolerance) == 0.0
    assert not result.covers(1.0)


def test_a_comparison_of_numbers_without_error_is_certain_even_at_a_tie() -> None:
    result = er.grad(lambda x: jnp.sum(jnp.where(x >= 0.5, 3 * x, x)))(np.float32([0.5, np.nextafter(np.float32(0.5), np.float32(0))]))
    assert result.rounded.tolist() == [3.0, 1.0]
    assert result.tolerance.tolist() == [0.0, 0.0]


def test_both_sides_of_a_kink_of_maximum_are_covered_where_rounding_may_decide() -> None:
    a, b = np.float32(1.1), np.float32(1.3)
    result = er.grad(lambda a, b, c: jnp.maximum(2 * (a * b), 2 * c) * 0.5, 2)(a, b, a * b)
    assert result.covers(0.0)
    assert result.covers(1.0)


def test_an_index_in_doubt_makes_what_it_picks_unbounded() -> None:
    a, b = np.float32(1.1), np.float32(1.3)
    result = er.evaluate(lambda a, b, c, t: t[jnp.argmax(jnp.stack([a * b, c]))])(a, b, a * b, np.float32([7.0, 9.0]))
    assert result.unbounded == 1


# Scalars, exact sums ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_alpha_may_be_rounded_to_the_dtype(dtype: str) -> None:
    rng = np.random.default_rng(3)
    a, b, c = (of(dtype, rng.uniform(1, 2, shape)) for shape in ((3, 4), (4, 2), (3, 2)))
    tenth, third = float(of(dtype, 0.1)), float(of(dtype, 1 / 3))
    result = er.gemm(a, b, c, alpha=0.1, beta=1 / 3)
    wide = np.float64 if dtype == "float64" else np.float32
    honest = (wide(tenth) * (a.astype(wide) @ b.astype(wide)) + wide(third) * c.astype(wide)).astype(a.dtype)
    assert result.covers(honest).all()
    # What the rounding of alpha alone may do: it is in the tolerance, once.
    product = a.astype(float) @ b.astype(float)
    assert np.all(result.tolerance >= abs(0.1 - tenth) * product)
    assert np.all(result.tolerance <= 12 * UNIT[dtype] * (0.1 * product + c.astype(float) / 3))


def test_an_alpha_that_the_dtype_holds_costs_nothing_where_the_sum_is_exact() -> None:
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    assert er.add(x, y, alpha=1).tolerance.tolist() == [0, 0, 0]
    assert np.all(er.add(x, y, alpha=0.1).tolerance > 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_sums_of_multiples_of_one_power_of_two_round_nothing(dtype: str) -> None:
    whole = of(dtype, [3, -1, 4, 1, -5, 9, 2, -6])
    assert er.sum(whole * of(dtype, 0.25)).tolerance == 0
    assert er.matmul(whole.reshape(2, 4), whole.reshape(4, 2)).tolerance.tolist() == [[0, 0], [0, 0]]
    assert tolerance(jnp.cumsum, whole).tolist() == [0] * 8
    assert tolerance(lambda x: jnp.sum(x, 0), whole.reshape(4, 2)).tolist() == [0, 0]


def test_sums_beyond_the_significand_round() -> None:
    assert er.sum(np.float32([2.0**24, 1, 1])).tolerance > 0
    # Rounding in another order may lose both ones.
    assert er.sum(np.float32([2.0**24, 1, 1])).covers(np.float32(2.0**24))
    assert (
        er.sum(of("bfloat16", [256, 1, 1])).tolerance
        < er.sum(of("bfloat16", [256, 1, 1])).with_budget(er.Budget(accumulation={"bfloat16": "bfloat16"})).tolerance
    )


# Honest implementations ---------------------------------------------------------------------------------------------------------


def rounded(x: Fraction, dtype: str) -> float:
    """One rounding of a rational number, to a finite number or an infinity."""
    layout = LAYOUTS[dtype]
    bits = np.array(code(Signed(x, x < 0), layout), f"uint{layout.bits}")
    return float(bits.view(getattr(ml_dtypes, dtype, dtype)).astype(float))


def flushed(x: float, dtype: str) -> float:
    """Zero for a subnormal number; float16 is computed in float32, and keeps its own."""
    if dtype == "float16":
        return x
    return 0.0 if abs(x) < math.ldexp(1.0, LAYOUTS[dtype].least) else x


#: The least magnitude that is normal, zero being what smaller numbers become; or nothing is flushed.
Flush = Callable[[float], float]


def arithmetic(dtype: str, flush: bool) -> tuple[Callable[[float, float], float], Callable[[float, float], float], Callable[[float, float, float], float]]:
    """Addition, multiplication, and a multiplication fused with an addition, of finite numbers; subnormal operands and results flushed or not."""
    keep: Flush = (lambda x: flushed(x, dtype)) if flush else (lambda x: x)
    exact = lambda x: Fraction(keep(x))

    def once(value: Callable[[], Fraction], *operands: float) -> float:
        return keep(rounded(value(), dtype)) if all(map(math.isfinite, operands)) else math.nan

    add = lambda x, y: once(lambda: exact(x) + exact(y), x, y)
    mul = lambda x, y: once(lambda: exact(x) * exact(y), x, y)
    fma = lambda x, y, z: once(lambda: exact(x) * exact(y) + exact(z), x, y, z)
    return add, mul, fma


def in_a_random_tree(terms: list[float], add: Callable[[float, float], float], rng: np.random.Generator) -> float:
    terms = list(terms)
    while len(terms) > 1:
        i, j = sorted(rng.choice(len(terms), 2, replace=False))
        second = terms.pop(j)
        terms[i] = add(terms[i], second)
    return terms[0]


def dot_products(x: np.ndarray, y: np.ndarray, accumulator: str, rng: np.random.Generator) -> Iterator[float]:
    """Many ways to compute one: trees and chains in random order, fused and not, flushing and not."""
    pairs = list(zip(x.astype(float), y.astype(float), strict=True))
    for flush in (False, True):
        add, mul, fma = arithmetic(accumulator, flush)
        order = [pairs[k] for k in rng.permutation(len(pairs))]
        yield in_a_random_tree([mul(a, b) for a, b in order], add, rng)
        total = 0.0
        for a, b in order:
            total = fma(a, b, total)
        yield total
        half = len(order) // 2
        left, right = 0.0, 0.0
        for a, b in order[:half]:
            left = fma(a, b, left)
        for a, b in order[half:]:
            right = add(mul(a, b), right)
        yield add(left, right)


def extreme(rng: np.random.Generator, dtype: str, size: int) -> np.ndarray:
    """Numbers of neighbouring exponents, from the subnormal ones to the largest; some cancel."""
    layout = LAYOUTS[dtype]
    top = (layout.overflow >> (layout.precision - 1)) + layout.least - 2
    # Products stay in range about half of the time.
    centre = int(rng.integers((layout.least - 24) // 2, top // 2)) if rng.random() < 0.8 else int(rng.integers(layout.least - layout.precision, top))
    exponents = np.clip(centre + rng.integers(-6, 7, size), layout.least - layout.precision, top)
    x = of(dtype, np.ldexp(rng.uniform(1, 2, size) * rng.choice([-1, 1], size), exponents))
    if size > 3:
        x[1] = -x[0]
    return np.where(np.isfinite(x.astype(float)), x, of(dtype, 1.0)).astype(x.dtype)


def assert_covers_each(result: er.Result, candidates: list[float], dtype: str, what: Any) -> None:
    for candidate in candidates:
        assert bool(result.covers(np.float64(candidate))), (what, candidate, result.interval, result.tolerance)
        del candidate


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_dot_products_in_any_order_fused_or_not_flushed_or_not_are_covered(dtype: str) -> None:
    rng = np.random.default_rng(4)
    accumulator = dtype if dtype in ("float32", "float64") else "float32"
    finite = 0
    for _ in range(60):
        n = int(rng.integers(1, 12))
        x, y = extreme(rng, dtype, n), extreme(rng, dtype, n)
        result = er.matmul(x, y)
        finite += bool(np.isfinite(result.tolerance))
        totals = list(dot_products(x, y, accumulator, rng))
        candidates = [t if not math.isfinite(t) else rounded(Fraction(t), dtype) for t in totals]
        assert_covers_each(result, candidates + [flushed(c, dtype) for c in candidates], dtype, (x, y))
    assert finite > 30


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_sums_in_any_order_flushed_or_not_are_covered(dtype: str) -> None:
    rng = np.random.default_rng(5)
    accumulator = dtype if dtype in ("float32", "float64") else "float32"
    for _ in range(60):
        x = extreme(rng, dtype, int(rng.integers(1, 14)))
        result = er.evaluate(jnp.sum)(x)
        for flush in (False, True):
            add, _, _ = arithmetic(accumulator, flush)
            total = in_a_random_tree([float(v) for v in x], add, rng)
            candidate = rounded(Fraction(total), dtype) if math.isfinite(total) else total
            assert_covers_each(result, [candidate, flushed(candidate, dtype)], dtype, x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_quotients_by_rounded_reciprocals_are_covered(dtype: str) -> None:
    rng = np.random.default_rng(6)
    x, y = extreme(rng, dtype, 40), extreme(rng, dtype, 40)
    for k in range(0, 40, 5):
        x[k : k + 5], y[k : k + 5] = extreme(rng, dtype, 5), extreme(rng, dtype, 5)
    y = np.where(y == 0, of(dtype, 1.0), y).astype(x.dtype)
    result = er.evaluate(jnp.divide)(x, y)
    for flush in (False, True):
        _, mul, _ = arithmetic(dtype, flush)
        keep: Flush = (lambda v: flushed(v, dtype)) if flush else (lambda v: v)
        candidates = []
        for a, b in zip(x.astype(float), y.astype(float), strict=True):
            divisor = keep(b)
            inverse = keep(rounded(1 / Fraction(divisor), dtype)) if divisor else math.copysign(math.inf, b)
            candidates.append(mul(a, inverse) if math.isfinite(inverse) else math.nan)
        judged = result.covers(np.array(candidates))
        assert judged.all(), [(x[k], y[k], candidates[k], result.tolerance[k]) for k in np.flatnonzero(~judged)]
    assert np.isfinite(result.tolerance).sum() > 10


@pytest.mark.parametrize("flush", [False, True])
def test_a_variance_computed_step_by_step_is_covered(flush: bool) -> None:
    # A whole program: a mean, differences that cancel, squares, a mean, all in float32.
    rng = np.random.default_rng(7)
    add, mul, _ = arithmetic("float32", flush)
    for _ in range(40):
        n = int(rng.integers(2, 9))
        x = of("float32", float(np.ldexp(1.0, int(rng.integers(-70, 60)))) * (rng.choice([0.0, 1.0, 1000.0]) + rng.standard_normal(n)))
        result = er.evaluate(lambda x: jnp.mean((x - jnp.mean(x)) ** 2))(x)
        inverse = rounded(Fraction(1, n), "float32")
        mean = mul(in_a_random_tree([float(v) for v in x], add, rng), inverse)
        differences = [add(float(v), -mean) for v in x]
        candidate = mul(in_a_random_tree([mul(d, d) for d in differences], add, rng), inverse)
        assert_covers_each(result, [candidate], "float32", x)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "sqrt"])
def test_a_function_off_by_its_ulps_is_covered_and_by_a_multiple_is_not(name: str) -> None:
    x = np.random.default_rng(8).uniform(0.1, 1.4, 50).astype(np.float32)
    result = er.evaluate(getattr(jnp, name), budget=er.Budget(ulps={name: 3.0}))(x)
    exact = getattr(np, name)(x.astype(np.float64))
    ulp = np.ldexp(1.0, np.frexp(exact)[1] - 24)
    for sign in (-1, 1):
        assert result.covers(exact + sign * 2.99 * ulp).all()
        # An ulp is between one and two unit roundoffs of the number, so at most twice the ulps are within the bound.
        assert not result.covers(exact + sign * 6.01 * ulp).any()


# Dishonest ones -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_sum_accumulated_in_a_half_format_is_not_covered(dtype: str) -> None:
    sticks = 2 ** LAYOUTS[dtype].precision
    x = of(dtype, [sticks] + [1.0] * sticks)
    add, mul, _ = arithmetic(dtype, False)
    total = product = 0.0
    for v in x.astype(float):
        total, product = add(total, v), add(product, mul(v, 1.0))
    assert total == product == sticks
    assert not er.sum(x).covers(total)
    assert not er.matmul(x, np.ones_like(x)).covers(product)
    in_itself = er.Budget(accumulation={dtype: dtype})
    assert er.sum(x).with_budget(in_itself).covers(total)
    assert er.matmul(x, np.ones_like(x)).with_budget(in_itself).covers(product)


def test_a_dropped_term_a_wrong_sign_and_a_transposed_operand_are_not_covered() -> None:
    rng = np.random.default_rng(9)
    a, b = (rng.standard_normal((8, 8)).astype(np.float32) for _ in range(2))
    result = er.matmul(a, b)
    assert result.covers(a @ b).all()
    for wrong in (a[:, :-1] @ b[:-1], -(a @ b), a.T @ b, (a @ b) * np.float32(1.0001), (a.astype(np.float16) @ b.astype(np.float16)).astype(np.float32)):
        assert not result.covers(wrong).all()
