"""Precision climbs until every element is decided; exact ties are decided; what cannot be is named, and Arb's own setting comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from flint import ctx
from mpmath import mp

import exactref_jax as er

ONE, HALF_ULP = np.float32(1.0), 2.0**-24


def six(x: Any) -> Any:
    return jnp.log(2 * x) + jnp.log(3 * x)


def tied_by_pythagoras(x: Any) -> Any:
    """1 + 2**-24, halfway between two float32 numbers, by an identity that the library does not know."""
    return jnp.sin(x) ** 2 + jnp.cos(x) ** 2 + HALF_ULP


#: Programs whose answer hangs on an equality that no precision shows, and what is open.
UNDECIDABLE: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "tie": (tied_by_pythagoras, "value[]", "on which side of 1.00000005960464"),
    "select": (lambda x: jnp.where(six(x) > jnp.log(6 * x), 1.0, 2.0), "value[]", "compar"),
    "argmax": (lambda x: jnp.argmax(jnp.stack([six(x), jnp.log(6 * x)])), "value[]", "compar"),
    "pole": (lambda x: 1 / (six(x) - jnp.log(6 * x)), "value[]", "divisor"),
}


@pytest.fixture(autouse=True)
def own_precision() -> Iterator[None]:
    """Arb's global precision is the caller's: odd here, so that a change would show."""
    before = ctx.prec
    ctx.prec = 77
    yield
    assert ctx.prec == 77
    ctx.prec = before


# Undecided ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNDECIDABLE)
@pytest.mark.parametrize("max_bits", [128, 1024])
def test_what_no_precision_decides_is_named(name: str, max_bits: int) -> None:
    function, element, question = UNDECIDABLE[name]
    with pytest.raises(er.ReferenceUnavailableError) as caught:
        er.evaluate(function, max_bits=max_bits)(ONE / 2 if name == "tie" else ONE)
    error = caught.value
    assert error.element == element
    assert question in error.question
    assert 64 <= error.bits <= max_bits
    for part in (error.element, error.question, str(error.bits)):
        assert part in str(error)
    assert isinstance(error, er.ExactRefError)


def test_the_undecided_element_and_its_enclosure_are_given() -> None:
    with pytest.raises(er.ReferenceUnavailableError) as caught:
        er.evaluate(lambda x: {"ties": jnp.stack([x, tied_by_pythagoras(x)])}, max_bits=256)(ONE / 2)
    assert caught.value.element == "ties[1]"
    middle, radius = caught.value.enclosure.strip("[]").split(" +/- ")
    assert abs(Fraction(middle) - 1 - Fraction(1, 2**24)) <= Fraction(radius) < Fraction(1, 2**60)


def test_a_loop_that_hangs_on_an_undecided_comparison_names_its_line() -> None:
    from jax import lax

    def looped(x: Any) -> Any:
        return lax.while_loop(lambda s: six(x) > jnp.log(6 * x) + s, lambda s: s + 1, 0.0 * x)

    with pytest.raises(er.ReferenceUnavailableError) as caught:
        er.evaluate(looped, max_bits=256)(ONE)
    assert "test_ladder.py" in caught.value.element
    assert caught.value.bits <= 256


def test_an_undecided_sign_of_zero_is_answered_and_marked() -> None:
    result = er.evaluate(lambda x: jnp.stack([six(x) - jnp.log(6 * x), x - x]), max_bits=512)(ONE)
    assert result.rounded.tolist() == [0.0, 0.0]
    assert result.unsigned_zeros.tolist() == [True, False]


# Climbing -----------------------------------------------------------------------------------------------------------------------


def near_tie(x: Any) -> Any:
    """Above the tie by exp(-x)."""
    return 1 + (HALF_ULP + jnp.exp(-x))


@pytest.mark.parametrize("exponent", [30, 100, 500, 1500])
def test_precision_escalates_as_far_as_a_near_tie_needs(exponent: int) -> None:
    x = np.float32([exponent, -1])
    result = er.evaluate(near_tie)(x)
    assert result.rounded[0] == np.nextafter(ONE, np.float32(2))
    needed = exponent / np.log(2)
    bits = [int(text.split()[0]) for text in result.decided_by]
    assert bits[1] == 128
    assert needed - 30 <= bits[0] <= max(128, 2.1 * needed)


def test_a_lower_cap_gives_up_where_a_higher_one_decides() -> None:
    x = np.float32(500)
    with pytest.raises(er.ReferenceUnavailableError) as caught:
        er.evaluate(near_tie, max_bits=512)(x)
    assert caught.value.bits == 512
    assert er.evaluate(near_tie, max_bits=1024)(x).rounded > 1


def test_a_comparison_escalates_too() -> None:
    # exp(-500) decides which is larger.
    function = lambda x: jnp.where(1 + jnp.exp(-x) > 1, x, -x)
    assert er.evaluate(function)(np.float32(500)).rounded == 500
    assert er.grad(lambda x: function(x))(np.float32(500)).rounded == 1


# Ties -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_exact_ties_go_to_the_even_neighbour(dtype: Any) -> None:
    unit = dtype(np.finfo(dtype).eps)
    start = np.array([1, 1 + unit, -1, -1 - unit], dtype)
    result = er.evaluate(lambda x: x + jnp.sign(x) * unit / 2)(start)
    assert result.rounded.tolist() == [1.0, 1.0 + 2 * float(unit), -1.0, -1.0 - 2 * float(unit)]
    assert set(result.decided_by.tolist()) == {"128 bits"}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.exp(x) * jnp.exp(-x) + HALF_ULP,
        lambda x: jnp.exp(x) * jnp.exp(x) / jnp.exp(2 * x) + HALF_ULP,
        lambda x: jnp.sqrt(1 + x) ** 2 / (1 + x) + HALF_ULP,
        lambda x: jnp.sum(jnp.exp(x * jnp.arange(3.0)) / jnp.sum(jnp.exp(x * jnp.arange(3.0)))) + HALF_ULP,
    ],
    ids=["inverse exponentials", "sum of exponents", "square of a root", "softmax sums to one"],
)
def test_ties_of_transcendental_and_algebraic_numbers_are_decided(function: Callable[[Any], Any]) -> None:
    result = er.evaluate(function)(np.float32(0.375))
    assert float(result.rounded) == 1.0
    assert "residues" in str(result.decided_by)
    lower, upper = result.interval
    assert float(lower) == float(upper) == 1 + HALF_ULP


def test_numbers_that_only_seem_equal_are_told_apart() -> None:
    # exp(pi sqrt 163) is an integer but for 7.5e-13; the integer, in two parts that float64 holds, is subtracted.
    function = lambda x: jnp.exp(jnp.sqrt(x) * 4 * jnp.arctan(x / x)) - 262537412640768736.0 - 8.0
    result = er.evaluate(function)(np.array(163.0))
    with mp.workprec(400):
        exact = mp.exp(mp.sqrt(163) * mp.pi) - 262537412640768744
    assert float(result.rounded) == float(exact)
    assert result.decimal(digits=25) == mp.nstr(exact, 25, strip_zeros=False)


# The setting of Arb (the fixture checks it) -------------------------------------------------------------------------------------


def test_everything_on_a_result_leaves_arb_s_precision_alone() -> None:
    result = er.grad(lambda x: jnp.sum(jnp.exp(x) / jnp.sum(jnp.exp(x)) * x))(np.float32([1, 2, 3]))
    _ = result.rounded, result.interval, result.tolerance, result.normal, result.bound, repr(result), result.decimal(0, digits=300)
    assert result.covers(result.normal).all()
    assert ctx.prec == 77


def test_an_error_in_the_middle_leaves_arb_s_precision_alone() -> None:
    with pytest.raises(er.ReferenceUnavailableError):
        er.evaluate(tied_by_pythagoras, max_bits=256)(ONE / 2)
    assert ctx.prec == 77
    with pytest.raises(er.UnsupportedPrimitiveError):
        er.evaluate(jnp.fft.fft)(np.float32([1, 2]))
    assert ctx.prec == 77
    with pytest.raises(er.ReferenceUnavailableError):
        er.evaluate(lambda x: six(x) - jnp.log(6 * x), max_bits=128)(ONE).decimal(digits=10)
    assert ctx.prec == 77


def test_arb_s_precision_does_not_change_a_result() -> None:
    function = lambda x: jnp.sum(jnp.sin(x) * x)
    x = np.float32([0.1, 0.7])
    results = []
    for bits in (20, 77, 3000):
        ctx.prec = bits
        results.append(er.value_and_grad(function)(x)[1].rounded.tolist())
    ctx.prec = 77
    assert results[0] == results[1] == results[2]
