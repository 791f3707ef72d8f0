"""Small random programs, each written twice: as a JAX function, and over numbers of any precision with their derivatives.

The second way shares nothing with JAX or the library: dual numbers (a value and its derivatives by each input element) of mpmath's `mp`, in NumPy
arrays of objects. A number is known from two precisions: where they differ is how far the lower one can be off, and the higher one is off by far
less. A number that comes closer to a rounding boundary the higher the precision lies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from exact_operations import LAYOUTS, Signed, code
from hypothesis import strategies as st
from jax import lax
from mpmath import mp

BITS = (400, 800)
#: Numbers closer than this, relative to their size, are equal if they are exactly equal, and otherwise nothing is said of them.
CLOSE = 2.0**-150
SHAPES: tuple[tuple[int, ...], ...] = ((), (2,), (3,), (1, 3), (2, 1), (2, 2), (2, 3), (3, 3))
CONSTANTS = (0.1, 0.5, -0.75, 1.0, 3.0, -1.7)


class AmbiguousError(Exception):
    """The evaluation cannot tell whether two numbers are equal, so the program says nothing."""


# Dual numbers -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Dual:
    """A number, and its derivatives by each input element (the number 0 where all of them vanish)."""

    value: Any
    slope: Any

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: Dual) -> Dual:
        return Dual(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other: Dual) -> Dual:
        return Dual(self.value * other.value, self.slope * other.value + other.slope * self.value)

    def __truediv__(self, other: Dual) -> Dual:
        quotient = self.value / other.value
        return Dual(quotient, (self.slope - other.slope * quotient) / other.value)

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.slope)


def constant(x: float) -> Dual:
    return Dual(mp.mpf(float(x)), 0)


def order(a: Dual, b: Dual) -> int:
    """The sign of `a - b`."""
    difference = a.value - b.value
    if difference and abs(difference) < CLOSE * max(abs(a.value), abs(b.value)):
        raise AmbiguousError
    return int(mp.sign(difference))


def array(x: Any) -> np.ndarray:
    """NumPy gives a bare object where a result is 0-d."""
    if isinstance(x, np.ndarray):
        return x
    out = np.empty((), object)
    out[()] = x
    return out


def each(function: Callable[..., Dual], count: int) -> Callable[..., np.ndarray]:
    apply = np.frompyfunc(function, count, 1)
    return lambda *xs: array(apply(*xs))


def smooth(f: Callable[[Any], Any], derivative: Callable[[Any, Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of one number, from its value and its derivative at x with value y."""

    def apply(a: Dual) -> Dual:
        value = f(a.value)
        return Dual(value, a.slope * derivative(a.value, value))

    return each(apply, 1)


def greatest(numbers: Sequence[Dual]) -> Dual:
    """The largest of several; where some are equal, the mean of their derivatives, as JAX has it."""
    best = numbers[0]
    for x in numbers[1:]:
        best = x if order(x, best) > 0 else best
    winners = [x for x in numbers if order(x, best) == 0]
    return Dual(best.value, sum(x.slope for x in winners) / mp.mpf(len(winners)))


def ranked(numbers: Sequence[Dual]) -> list[Dual]:
    """In ascending order; equal ones stay in place, as JAX has it."""
    out: list[Dual] = []
    for x in numbers:
        at = len(out)
        while at and order(x, out[at - 1]) < 0:
            at -= 1
        out.insert(at, x)
    return out


def chosen(a: Dual, b: Dual, x: Dual, y: Dual) -> Dual:
    return x if order(a, b) > 0 else y


def along(f: Callable[[list[Dual]], Any], axis: int) -> Callable[[np.ndarray], np.ndarray]:
    """A function of the numbers of a line; it returns one number, or as many as it gets."""

    def apply(x: np.ndarray) -> np.ndarray:
        lines = np.moveaxis(x, axis, -1)
        out = np.empty(lines.shape[:-1], object)
        for index in np.ndindex(out.shape):
            out[index] = f(list(lines[index]))
        if out.size and isinstance(out.flat[0], list):
            stacked = np.empty(lines.shape, object)
            for index in np.ndindex(out.shape):
                for k, number in enumerate(out[index]):
                    stacked[(*index, k)] = number
            return np.moveaxis(stacked, -1, axis)
        return out

    return apply


exp = smooth(mp.exp, lambda x, y: y)
log = smooth(mp.log, lambda x, y: 1 / x)
tanh = smooth(mp.tanh, lambda x, y: 1 / mp.cosh(x) ** 2)
logistic = smooth(lambda x: 1 / (1 + mp.exp(-x)), lambda x, y: y / (1 + mp.exp(x)))
rsqrt = smooth(lambda x: 1 / mp.sqrt(x), lambda x, y: -y / (2 * x))
square = smooth(lambda x: x * x, lambda x, y: 2 * x)


def total(x: np.ndarray, axis: int | None = None, keepdims: bool = False) -> np.ndarray:
    return array(np.sum(x, axis=axis, keepdims=keepdims))


def mean(x: np.ndarray, keepdims: bool = False) -> np.ndarray:
    return array(total(x, -1, keepdims) / constant(x.shape[-1]))


def softmax(x: np.ndarray) -> np.ndarray:
    weights = exp(x)
    return weights / total(weights, -1, True)


def causal_softmax(x: np.ndarray) -> np.ndarray:
    weights = exp(x) * each(constant, 1)(np.tril(np.ones(x.shape)))
    return weights / total(weights, -1, True)


def layernorm(x: np.ndarray, eps: float) -> np.ndarray:
    centred = x - mean(x, True)
    return centred * rsqrt(array(mean(square(centred), True) + constant(eps)))


def recurrence(x: np.ndarray) -> np.ndarray:
    state = tanh(x[0])
    for row in x[1:]:
        state = tanh(state * constant(0.5) + row)
    return state


# Operations -------------------------------------------------------------------------------------------------------------------


class Operation(NamedTuple):
    """One step of a program, twice, and when it may be taken.

    Attributes:
        arity: number of operands.
        jax: on JAX arrays.
        exact: on arrays of dual numbers, given what a constant becomes in the dtype.
        fits: whether operands with these values (float64) are in the domain, away from its edge.
        divisions: how many divisions it makes, in its gradient included.
        shifts: how many constants it adds.
    """

    arity: int
    jax: Callable[..., Any]
    exact: Callable[..., np.ndarray]
    fits: Callable[..., bool] = lambda *xs: True
    divisions: int = 0
    shifts: int = 0


#: What a constant becomes in the program's dtype.
Held = Callable[[float], float]


def plain(f: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """An operation without constants."""
    return lambda held, *xs: f(*xs)


def within(low: float, high: float) -> Callable[..., bool]:
    return lambda x: bool(np.all((x > low) & (x < high)))


def away_from_zero(x: np.ndarray) -> bool:
    return bool(np.all(np.abs(x) > 0.05))


def below(limit: float) -> Callable[..., bool]:
    return lambda x: bool(np.all(np.abs(x) < limit))


def matrix(x: np.ndarray) -> bool:
    return x.ndim == 2


def line(x: np.ndarray) -> bool:
    return x.ndim > 0


def wide(x: np.ndarray) -> bool:
    return x.ndim > 0 and x.shape[-1] > 1


def alike(*xs: np.ndarray) -> bool:
    try:
        return len(np.broadcast_shapes(*(x.shape for x in xs))) <= 2
    except ValueError:
        return False


def multipliable(x: np.ndarray, y: np.ndarray) -> bool:
    return 1 <= x.ndim <= 2 and y.ndim == 2 and x.shape[-1] == y.shape[0]


def joinable(x: np.ndarray, y: np.ndarray) -> bool:
    return x.ndim == y.ndim > 0 and x.shape[:-1] == y.shape[:-1] and x.shape[-1] + y.shape[-1] <= 6


SQRT_TWO_OVER_PI = float(np.sqrt(2 / np.pi))


def gelu(held: Held, x: np.ndarray) -> np.ndarray:
    c, k = mp.mpf(held(SQRT_TWO_OVER_PI)), mp.mpf(held(0.044715))
    inner = lambda v: mp.tanh(c * (v + k * v**3))
    slope = lambda v, t: (1 + t + v * (1 - t * t) * c * (1 + 3 * k * v * v)) / 2
    return smooth(lambda v: v * (1 + inner(v)) / 2, lambda v, _: slope(v, inner(v)))(x)


def scanned(x: Any) -> Any:
    return lax.scan(lambda state, row: (jnp.tanh(state * 0.5 + row), None), jnp.tanh(x[0]), x[1:])[0]


def scaled(c: float) -> Operation:
    return Operation(1, lambda x: x * c, lambda held, x: array(x * constant(held(c))))


def shifted(c: float) -> Operation:
    return Operation(1, lambda x: x + c, lambda held, x: array(x + constant(held(c))), shifts=1)


def function(jax_name: Any, f: Any, derivative: Any, fits: Callable[..., bool] = lambda x: True, divisions: int = 0, shifts: int = 0) -> Operation:
    return Operation(1, jax_name, plain(smooth(f, derivative)), fits, divisions, shifts)


OPERATIONS: dict[str, Operation] = {
    # Elementwise.
    "neg": Operation(1, lambda x: -x, plain(lambda x: array(-x))),
    "square": Operation(1, lambda x: x * x, plain(square)),
    "cube": function(lambda x: x**3, lambda x: x**3, lambda x, y: 3 * x * x),
    "inverse_square": function(lambda x: x**-2, lambda x: x**-2, lambda x, y: -2 / x**3, away_from_zero, divisions=1),
    "reciprocal": function(lambda x: 1 / x, lambda x: 1 / x, lambda x, y: -y * y, away_from_zero, divisions=2),
    "exp": Operation(1, jnp.exp, plain(exp), below(8)),
    "expm1": function(jnp.expm1, mp.expm1, lambda x, y: y + 1, below(8), shifts=1),
    "exp2": function(jnp.exp2, lambda x: mp.mpf(2) ** x, lambda x, y: y * mp.log(2), below(8)),
    "log": Operation(1, jnp.log, plain(log), within(0.01, 1e30), divisions=1),
    "log1p": function(jnp.log1p, mp.log1p, lambda x, y: 1 / (1 + x), within(-0.9, 1e30), divisions=1, shifts=1),
    "sqrt": function(jnp.sqrt, mp.sqrt, lambda x, y: 1 / (2 * y), within(0.01, 1e30), divisions=1),
    "rsqrt": Operation(1, lax.rsqrt, plain(rsqrt), within(0.01, 1e30), divisions=1),
    "sin": function(jnp.sin, mp.sin, lambda x, y: mp.cos(x), below(100)),
    "cos": function(jnp.cos, mp.cos, lambda x, y: -mp.sin(x), below(100)),
    "tan": function(jnp.tan, mp.tan, lambda x, y: 1 + y * y, below(1.2), shifts=1),
    "atan": function(jnp.arctan, mp.atan, lambda x, y: 1 / (1 + x * x), divisions=1, shifts=1),
    "asin": function(jnp.arcsin, mp.asin, lambda x, y: 1 / mp.sqrt(1 - x * x), below(0.9), divisions=1, shifts=1),
    "sinh": function(jnp.sinh, mp.sinh, lambda x, y: mp.cosh(x), below(8)),
    "cosh": function(jnp.cosh, mp.cosh, lambda x, y: mp.sinh(x), below(8)),
    "tanh": Operation(1, jnp.tanh, plain(tanh), below(100), shifts=1),
    "asinh": function(jnp.arcsinh, mp.asinh, lambda x, y: 1 / mp.sqrt(1 + x * x), divisions=1, shifts=1),
    "atanh": function(jnp.arctanh, mp.atanh, lambda x, y: 1 / (1 - x * x), below(0.9), divisions=1, shifts=1),
    "logistic": Operation(1, jax.nn.sigmoid, plain(logistic), below(200), divisions=1, shifts=1),
    "erf": function(jax.scipy.special.erf, mp.erf, lambda x, y: 2 * mp.exp(-x * x) / mp.sqrt(mp.pi), below(5)),
    # At 0 the derivative is 1, as JAX has it.
    "abs": function(jnp.abs, abs, lambda x, y: mp.mpf(1 if x >= 0 else -1)),
    "relu": function(jax.nn.relu, lambda x: max(x, mp.mpf(0)), lambda x, y: mp.mpf(x > 0)),
    "softplus": function(jax.nn.softplus, lambda x: mp.log1p(mp.exp(x)), lambda x, y: 1 / (1 + mp.exp(-x)), below(200), divisions=1, shifts=1),
    "silu": Operation(1, jax.nn.silu, plain(lambda x: x * logistic(x)), below(200), divisions=1, shifts=1),
    "gelu": Operation(1, jax.nn.gelu, gelu, below(8), shifts=1),
    "half_stopped": Operation(1, lambda x: x * lax.stop_gradient(x), plain(each(lambda a: Dual(a.value * a.value, a.slope * a.value), 1))),
    "floor": function(jnp.floor, mp.floor, lambda x, y: mp.mpf(0)),
    "add": Operation(2, lambda x, y: x + y, plain(lambda x, y: array(x + y)), alike),
    "sub": Operation(2, lambda x, y: x - y, plain(lambda x, y: array(x - y)), alike),
    "mul": Operation(2, lambda x, y: x * y, plain(lambda x, y: array(x * y)), alike),
    "div": Operation(2, lambda x, y: x / y, plain(lambda x, y: array(x / y)), lambda x, y: alike(x, y) and away_from_zero(y), divisions=2),
    "maximum": Operation(2, jnp.maximum, plain(each(lambda a, b: greatest([a, b]), 2)), alike),
    "minimum": Operation(2, jnp.minimum, plain(each(lambda a, b: -greatest([-a, -b]), 2)), alike),
    "where": Operation(4, lambda a, b, x, y: jnp.where(a > b, x, y), plain(each(chosen, 4)), alike),
    # Lines.
    "total": Operation(1, jnp.sum, plain(total)),
    "sum_rows": Operation(1, lambda x: jnp.sum(x, 0), plain(lambda x: total(x, 0)), line),
    "sum_columns": Operation(1, lambda x: jnp.sum(x, -1, keepdims=True), plain(lambda x: total(x, -1, True)), line),
    "mean": Operation(1, lambda x: jnp.mean(x, -1), plain(mean), line, divisions=1),
    "max_rows": Operation(1, lambda x: jnp.max(x, 0), plain(along(greatest, 0)), line, divisions=1),
    "min_columns": Operation(1, lambda x: jnp.min(x, -1), plain(lambda x: -along(greatest, -1)(-x)), line, divisions=1),
    "cumsum": Operation(1, lambda x: jnp.cumsum(x, -1), plain(lambda x: np.cumsum(x, -1)), line),
    "softmax": Operation(1, lambda x: jax.nn.softmax(x, -1), plain(softmax), lambda x: line(x) and below(50)(x), divisions=1),
    "causal_softmax": Operation(
        1,
        lambda x: jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(x.shape, bool)), x, -jnp.inf), -1),
        plain(causal_softmax),
        lambda x: matrix(x) and below(50)(x),
        divisions=1,
    ),
    "log_softmax": Operation(
        1, lambda x: jax.nn.log_softmax(x, -1), plain(lambda x: x - log(total(exp(x), -1, True))), lambda x: line(x) and below(50)(x), divisions=1
    ),
    "logsumexp": Operation(1, lambda x: jax.nn.logsumexp(x, -1), plain(lambda x: log(total(exp(x), -1))), lambda x: line(x) and below(50)(x), divisions=1),
    "layernorm": Operation(
        1,
        lambda x: (x - jnp.mean(x, -1, keepdims=True)) * lax.rsqrt(jnp.mean((x - jnp.mean(x, -1, keepdims=True)) ** 2, -1, keepdims=True) + 1e-3),
        lambda held, x: layernorm(x, held(1e-3)),
        wide,
        divisions=2,
        shifts=1,
    ),
    "scan": Operation(1, scanned, plain(recurrence), lambda x: line(x) and len(x) > 1 and below(100)(x), shifts=1),
    "sort": Operation(1, lambda x: jnp.sort(x, -1), plain(along(ranked, -1)), line),
    # Movement.
    "transpose": Operation(1, jnp.transpose, plain(np.transpose), matrix),
    "flatten": Operation(1, lambda x: jnp.reshape(x, -1), plain(lambda x: x.reshape(-1)), matrix),
    "tail": Operation(1, lambda x: x[..., 1:], plain(lambda x: x[..., 1:]), wide),
    "every_other": Operation(1, lambda x: x[::2], plain(lambda x: x[::2]), line),
    "flip": Operation(1, lambda x: jnp.flip(x, -1), plain(lambda x: np.flip(x, -1)), line),
    "repeat": Operation(1, lambda x: x[jnp.array([0, 0, -1])], plain(lambda x: x[[0, 0, -1]]), line),
    "join": Operation(2, lambda x, y: jnp.concatenate([x, y], -1), plain(lambda x, y: np.concatenate([x, y], -1)), joinable),
    # Products.
    "matmul": Operation(2, jnp.matmul, plain(np.matmul), multipliable),
    "inner": Operation(
        2,
        lambda x, y: jnp.einsum("ij,kj->ik", x, y),
        plain(lambda x, y: np.matmul(x, y.T)),
        lambda x, y: matrix(x) and matrix(y) and x.shape[1] == y.shape[1],
    ),
}
OPERATIONS |= {f"times {c}": scaled(c) for c in CONSTANTS if c != 1} | {f"plus {c}": shifted(c) for c in CONSTANTS}


# Programs ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Program:
    """Steps on numbered arrays: first the inputs, then each step's result. The output is the last one.

    Attributes:
        dtype: name of the dtype.
        inputs: the arrays to run it on.
        steps: operation and operands of each.
        weights: what the loss multiplies the output by, element by element, before it sums.
    """

    dtype: str
    inputs: tuple[np.ndarray, ...]
    steps: tuple[tuple[str, tuple[int, ...]], ...]
    weights: np.ndarray

    def __repr__(self) -> str:
        n = len(self.inputs)
        lines = [f"{self.dtype} program", *(f"  v{k} = input {x.astype(float).tolist()}" for k, x in enumerate(self.inputs))]
        lines += [f"  v{n + k} = {name}({', '.join(f'v{a}' for a in args)})" for k, (name, args) in enumerate(self.steps)]
        return "\n".join([*lines, f"  loss = sum(v{n + len(self.steps) - 1} * {self.weights.astype(float).tolist()})"])

    @property
    def argnums(self) -> tuple[int, ...]:
        return tuple(range(len(self.inputs)))

    def output(self, *inputs: Any) -> Any:
        """The JAX function."""
        values = [jnp.asarray(x) for x in inputs]
        for name, args in self.steps:
            values.append(OPERATIONS[name].jax(*(values[a] for a in args)))
        return values[-1]

    def loss(self, *inputs: Any) -> Any:
        return jnp.sum(self.output(*inputs) * jnp.asarray(self.weights))

    def exact(self, bits: int) -> tuple[np.ndarray, Dual]:
        """The output and the loss at some precision."""
        with mp.workprec(bits):
            output = last(self.dtype, [lifted(x, start, total_size(self.inputs)) for x, start in placed(self.inputs)], self.steps)
            return output, array(total(output * each(constant, 1)(self.weights.astype(float)))).item()


def total_size(inputs: Sequence[np.ndarray]) -> int:
    return sum(x.size for x in inputs)


def placed(inputs: Sequence[np.ndarray]) -> list[tuple[np.ndarray, int]]:
    """Each input, with the number of elements before it."""
    return [(x, total_size(inputs[:k])) for k, x in enumerate(inputs)]


def lifted(x: np.ndarray, start: int, count: int) -> np.ndarray:
    """Inputs as dual numbers: element k of all has derivative 1 by itself."""
    out = np.empty(x.size, object)
    for k, number in enumerate(x.astype(float).flat):
        slope = np.full(count, mp.mpf(0), object)
        slope[start + k] = mp.mpf(1)
        out[k] = Dual(mp.mpf(number), slope)
    return out.reshape(x.shape)


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def last(dtype: str, values: list[np.ndarray], steps: Sequence[tuple[str, tuple[int, ...]]]) -> np.ndarray:
    held: Held = lambda c: float(np.asarray(c).astype(numpy_dtype(dtype)))
    for name, args in steps:
        values.append(array(OPERATIONS[name].exact(held, *(values[a] for a in args))))
    return values[-1]


# What is known of an exact number -----------------------------------------------------------------------------------------------


#: Numbers below 2**-5000 are as good as zero to every format; as fractions they could be too long to write down.
TINY = 5000


def rational(x: Any) -> Fraction:
    sign, significand, exponent, length = x._mpf_
    if exponent + length > TINY:
        raise AmbiguousError
    if exponent + length < -TINY:
        return Fraction(0)
    return Fraction(int(significand)) * Fraction(2) ** int(exponent) * (-1 if sign else 1)


@dataclass(frozen=True)
class Known:
    """An exact number, between two others that are closer than any format can tell, but for the boundaries of its roundings.

    Attributes:
        low: lower bound.
        high: upper bound.
    """

    low: Fraction
    high: Fraction

    @property
    def value(self) -> Fraction:
        return (self.low + self.high) / 2 if not self.low <= 0 <= self.high else Fraction(0)

    def codes(self, dtype: str) -> set[int]:
        """The bits of the number rounded once: one code, or those of both zeros."""
        layout = LAYOUTS[dtype]
        minus_zero = 1 << (layout.bits - 1)
        if self.low <= 0 <= self.high:
            if self.high - self.low > Fraction(1, 2**250):
                raise AmbiguousError
            return {0, minus_zero}
        low, high = (code(Signed(x, x < 0), layout) for x in (self.low, self.high))
        if abs(low - high) > 1:
            raise AmbiguousError
        nearest = high if low % 2 and low != high else low
        return {nearest} if nearest % minus_zero else {0, minus_zero}

    def is_tie(self, dtype: str) -> bool:
        """Whether it is nonzero, and lies where rounding changes: an enclosure of it never decides."""
        sides = (x - abs(x) * Fraction(s, 2**300) for x, s in ((self.low, 1), (self.high, -1)))
        return self.value != 0 and len({code(Signed(x, x < 0), LAYOUTS[dtype]) for x in sides}) > 1


def known(coarse: Any, fine: Any) -> Known:
    """A number from its values at the two precisions."""
    a, b = rational(coarse), rational(fine)
    off = abs(a - b) if b or not fine else Fraction(1, 2**TINY)
    return Known(b - off, b + off)


@dataclass(frozen=True)
class Truth:
    """What the program's output, loss and gradients are, element by element."""

    output: np.ndarray
    loss: Known
    gradients: tuple[np.ndarray, ...]

    def has_tie(self, dtype: str) -> bool:
        return any(number.is_tie(dtype) for part in (self.output, array(self.loss), *self.gradients) for number in part.flat)


def truth(program: Program) -> Truth:
    """From two precisions.

    Raises:
        AmbiguousError: where these do not tell numbers apart.
    """
    (coarse, a), (fine, b) = (program.exact(bits) for bits in BITS)
    count = total_size(program.inputs)
    slopes = (np.broadcast_to(np.array(x.slope, object), count) for x in (a, b))
    gradient = array(np.frompyfunc(known, 2, 1)(*slopes))
    gradients = tuple(gradient[start : start + x.size].reshape(x.shape) for x, start in placed(program.inputs))
    output = array(np.frompyfunc(lambda x, y: known(x.value, y.value), 2, 1)(coarse, fine))
    return Truth(output, known(a.value, b.value), gradients)


# Drawing them -----------------------------------------------------------------------------------------------------------------


def numbers(dtype: str) -> st.SearchStrategy[float]:
    """Numbers of the dtype: small fractions (so that ties happen), full significands, and some far from 1."""
    precision = LAYOUTS[dtype].precision
    fractions = st.integers(-12, 12).map(lambda k: k / 4)
    significands = st.integers(2 ** (precision - 1), 2**precision - 1)
    near = st.tuples(significands, st.integers(-4, 2), st.sampled_from([-1.0, 1.0])).map(lambda t: t[2] * float(np.ldexp(float(t[0]), t[1] - precision)))
    exponents = st.sampled_from([-14, -9, 9] if dtype == "float16" else [-128, -100, -64, -30, 30, 60])
    far = st.tuples(significands, exponents, st.sampled_from([-1.0, 1.0])).map(lambda t: t[2] * float(np.ldexp(float(t[0]), t[1] - precision)))
    return st.one_of(fractions, near, near, near, far)


def arrays(dtype: str) -> st.SearchStrategy[np.ndarray]:
    def filled(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
        size = int(np.prod(shape))
        return st.lists(numbers(dtype), min_size=size, max_size=size).map(lambda v: np.array(v).reshape(shape).astype(numpy_dtype(dtype)))

    return st.sampled_from(SHAPES).flatmap(filled)


def approximate(x: np.ndarray) -> np.ndarray:
    return np.array([float(v.value) for v in x.flat]).reshape(x.shape)


def choices(values: Sequence[np.ndarray], age: int) -> list[tuple[str, tuple[int, ...]]]:
    """Operations, with their operands, that take one of the newest values, and any others."""
    focus = max(len(values) - 1 - age, 0)
    out: list[tuple[str, tuple[int, ...]]] = []
    for name, operation in OPERATIONS.items():
        others = product(range(len(values)), repeat=operation.arity - 1) if operation.arity < 4 else product(range(len(values)), (focus,), range(len(values)))
        args = dict.fromkeys(a for rest in others for a in ((focus, *rest), (*rest, focus)))
        out += [(name, a) for a in args if operation.fits(*(values[k] for k in a))]
    return out


def result(name: str, args: Sequence[np.ndarray]) -> np.ndarray | None:
    """What an operation gives, without derivatives, if that is tame."""
    try:
        out = last("float64", list(args), [(name, tuple(range(len(args))))])
    except AmbiguousError:
        return None
    largest = max(1e4, *(2 * np.abs(approximate(x)).max() for x in args))
    return out if 0 < out.size <= 9 and np.all(np.abs(approximate(out)) <= largest) else None


@st.composite
def programs(draw: st.DrawFn, dtype: str, longest: int = 7, reassociable: bool = True) -> Program:
    """Programs of some inputs and steps.

    Args:
        draw: hypothesis' own.
        dtype: name of the dtype.
        longest: the largest number of steps.
        reassociable: whether a division may divide a quotient, and a constant be added to a sum with another one. XLA rewrites such chains under
            `jax.jit` to forms that round, overflow and cancel elsewhere than the program says.
    """
    inputs = tuple(draw(st.lists(arrays(dtype), min_size=1, max_size=3)))
    with mp.workprec(80):
        values = [array(each(constant, 1)(x.astype(float))) for x in inputs]
        steps: list[tuple[str, tuple[int, ...]]] = []
        divisions = shifts = 0
        # A seed spreads the choices evenly, which hypothesis' own draws do not. The inputs shrink.
        random = Random(draw(st.integers(0, 2**32)))
        for _ in range(random.randint(2, longest)):
            possible = [
                (name, args)
                for name, args in choices([approximate(v) for v in values], random.choice([0, 0, 0, 1, 2]))
                if reassociable or (divisions + OPERATIONS[name].divisions <= 1 and shifts + OPERATIONS[name].shifts <= 1)
            ]
            name = random.choice(sorted({name for name, _ in possible}))
            args = random.choice([args for other, args in possible if other == name])
            out = result(name, [values[a] for a in args])
            if out is not None:
                divisions, shifts = divisions + OPERATIONS[name].divisions, shifts + OPERATIONS[name].shifts
                steps.append((name, args))
                values.append(out)
    weights = draw(st.lists(st.sampled_from([1.0, -1.0, 0.5, 2.0, 0.75]), min_size=values[-1].size, max_size=values[-1].size))
    return Program(dtype, inputs, tuple(steps), np.array(weights).reshape(values[-1].shape).astype(numpy_dtype(dtype)))
