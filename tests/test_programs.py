"""On random programs: the exact values are mpmath's, rounded once; the tolerance covers what JAX computes, and nothing beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import programs
import pytest
from exact_operations import bits
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from programs import AmbiguousError, Known, Program

import exactref_jax as er
from exactref_jax import ladder

DTYPES = ("float32", "bfloat16", "float64", "float16")

# One part of a result at a time -------------------------------------------------------------------------------------------------


def sweep(test: Callable[..., None], examples: int) -> Callable[..., None]:
    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    # A failure prints the whole program; shrinking it would take minutes.
    rules = settings(deadline=None, derandomize=True, max_examples=examples, suppress_health_check=quiet, phases=[Phase.generate], database=None)
    return rules(given(st.data())(test))


def drawn(data: st.DataObject, dtype: str, reassociable: bool = True) -> tuple[Program, programs.Truth]:
    program = data.draw(programs.programs(dtype, reassociable=reassociable))
    try:
        return program, programs.truth(program)
    except AmbiguousError:
        assume(False)
        raise


def results(program: Program, budget: er.Budget | None = None) -> tuple[er.Result, er.Result, er.Result]:
    """Output, loss and gradients. An exact tie by an identity that the library does not know (`sinh(asinh(x))`) may be refused, and nothing else."""
    try:
        loss, gradients = er.value_and_grad(program.loss, program.argnums, budget=budget)(*program.inputs)
        return er.evaluate(program.output, budget=budget)(*program.inputs), loss, gradients
    except er.ReferenceUnavailableError:
        assume(not programs.truth(program).has_tie(program.dtype))
        raise


def budget_of_jax(program: Program) -> er.Budget:
    """JAX adds running sums, and what scatters to one place, in half formats themselves; the default is float32, as for all other sums."""
    runs = any(name in ("cumsum", "repeat") for name, _ in program.steps)
    return er.Budget(accumulation={program.dtype: program.dtype}) if runs and program.dtype in ("float16", "bfloat16") else er.Budget()


def parts(program: Program, truth: programs.Truth) -> Iterator[tuple[str, er.Result, np.ndarray]]:
    """Each array's result, and what is known of its elements."""
    output, loss, gradients = results(program)
    yield "output", output, truth.output
    yield "loss", loss, programs.array(truth.loss)
    for k, known in enumerate(truth.gradients):
        yield f"gradient {k}", gradients[k], known


def elements(known: np.ndarray) -> Iterator[tuple[tuple[int, ...], Known]]:
    for index in np.ndindex(known.shape):
        yield index, known[index]


def beyond(exact: Fraction, tolerance: float, sign: int) -> float:
    """A float64 number at 1.01 times the tolerance from the exact value, or just beyond that."""
    wanted = exact + sign * Fraction(tolerance) * Fraction(101, 100)
    try:
        near = float(wanted)
    except OverflowError:
        return sign * np.inf
    return near if (Fraction(near) - wanted) * sign > 0 else float(np.nextafter(near, sign * np.inf))


# The claims -------------------------------------------------------------------------------------------------------------------


def check_exact(program: Program, truth: programs.Truth) -> None:
    for name, result, known in parts(program, truth):
        what = f"{name} of {program}"
        encoded = bits(result.rounded)[0]
        lower, upper = result.interval
        for index, number in elements(known):
            assert int(encoded[index]) in number.codes(program.dtype), (index, what)
            assert lower[index] == -np.inf or Fraction(float(lower[index])) <= number.high, (index, what)
            assert upper[index] == np.inf or Fraction(float(upper[index])) >= number.low, (index, what)
            distance, bound = result.rounded[index], float(result.bound[index])
            assert bound == np.inf or abs(Fraction(float(distance)) - number.value) <= Fraction(bound) + (number.high - number.low), (index, what)
        assert np.all(result.covers(result.rounded)), what
        assert np.all(result.covers(result.normal)), what


def check_nothing_beyond(program: Program, truth: programs.Truth) -> None:
    for name, result, known in parts(program, truth):
        tolerance = result.tolerance
        for sign in (1, -1):
            candidate = np.zeros(known.shape)
            for index, number in elements(known):
                candidate[index] = beyond(number.high if sign > 0 else number.low, float(tolerance[index]), sign) if np.isfinite(tolerance[index]) else 0.0
            judged = np.isfinite(tolerance) & np.isfinite(candidate)
            assert not np.any(result.covers(candidate) & judged), f"{name} of {program}"


def check_covers_jax(program: Program, compiled: bool) -> None:
    """JAX's output, loss and gradients, in the program's dtype."""
    output, loss, gradients = results(program, budget_of_jax(program))
    run: Callable[..., Any] = jax.jit if compiled else lambda f: f
    with jax.enable_x64(program.dtype == "float64"):
        inputs = [jnp.asarray(x) for x in program.inputs]
        value, slopes = run(jax.value_and_grad(program.loss, program.argnums))(*inputs)
        candidates = (run(program.output)(*inputs), value, slopes)
    for name, result, candidate in zip(("output", "loss", "gradients"), (output, loss, gradients), candidates, strict=True):
        assert all(map(np.all, jax.tree.leaves(result.covers(candidate)))), f"{name} of {program}: {candidate}\n{result.judge(jax=candidate)}"


def check_rungs_agree(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Balls alone, and balls with residues at a higher precision."""
    output, _, gradients = results(program)
    with monkeypatch.context() as patch:
        patch.setattr(ladder, "FIRST_BITS", ladder.RESIDUES_FROM_BITS)
        others = results(program)
    for a, b in zip(jax.tree.leaves((output.rounded, gradients.rounded)), jax.tree.leaves((others[0].rounded, others[2].rounded)), strict=True):
        assert np.array_equal(bits(a)[0], bits(b)[0]), program
    for a, b in ((output, others[0]), (gradients, others[2])):
        for low, high in ((a.interval.lower, b.interval.upper), (b.interval.lower, a.interval.upper)):
            assert all(np.all(x <= y) for x, y in zip(jax.tree.leaves(low), jax.tree.leaves(high), strict=True)), program


# Fast, and many ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_interval_and_rounded_are_those_of_mpmath(dtype: str) -> None:
    sweep(lambda data: check_exact(*drawn(data, dtype)), 25)()


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_beyond_the_tolerance_is_covered(dtype: str) -> None:
    sweep(lambda data: check_nothing_beyond(*drawn(data, dtype)), 20)()


# Each program compiles its operations one by one: few examples here, many in the sweep.
@pytest.mark.parametrize(("dtype", "examples"), [("float32", 10), ("bfloat16", 10), ("float16", 5), ("float64", 5)])
def test_gradients_of_jax_are_covered(dtype: str, examples: int) -> None:
    sweep(lambda data: check_covers_jax(drawn(data, dtype)[0], compiled=False), examples)()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_compiled_gradients_of_jax_are_covered(dtype: str) -> None:
    sweep(lambda data: check_covers_jax(drawn(data, dtype, reassociable=False)[0], compiled=True), 8)()


def test_balls_and_residues_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(lambda data: check_rungs_agree(drawn(data, "float32")[0], monkeypatch), 20)()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_thousands_of_programs_are_exact_and_judged(dtype: str) -> None:
    def check(data: st.DataObject) -> None:
        program, truth = drawn(data, dtype)
        check_exact(program, truth)
        check_nothing_beyond(program, truth)

    sweep(check, 2000)()


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_thousands_of_gradients_of_jax_are_covered(dtype: str, compiled: bool) -> None:
    sweep(lambda data: check_covers_jax(drawn(data, dtype, reassociable=not compiled)[0], compiled), 300 if compiled else 1000)()
