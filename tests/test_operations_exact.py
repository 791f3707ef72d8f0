"""Rounded values and gradients are those of rational arithmetic, bit for bit; the enclosure and the tolerance are what they say."""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import exact_operations as exact
import ml_dtypes
import numpy as np
import pytest
from exact_operations import LAYOUTS, PARTS, Layout, Scalar, Shape, Table

import exactref_jax as er

DTYPES = [*LAYOUTS, *PARTS]
OPERATIONS = list(exact.OPERATIONS)

# Random operands --------------------------------------------------------------------------------------------------------------


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def layout_of(dtype: str) -> Layout:
    return LAYOUTS[PARTS.get(dtype, dtype)]


def signs(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)


def greatest(layout: Layout) -> int:
    """The largest `e` for which 2**e is a number of the format."""
    return (layout.overflow - 1 >> (layout.precision - 1)) + layout.least - 1


def in_range(numbers: np.ndarray, layout: Layout) -> np.ndarray:
    """Multiples of the smallest number, below 2**(greatest exponent + 1): the rest is dropped."""
    smallest = math.ldexp(1.0, layout.least - layout.precision + 1)
    small = np.abs(numbers) < math.ldexp(1.0, layout.least)
    return np.where(small, np.trunc(np.where(small, numbers, 0.0) / smallest) * smallest, numbers)


def binary(significand: np.ndarray, exponent: np.ndarray, layout: Layout) -> np.ndarray:
    """`significand * 2**exponent`, where the exponent is clipped so that the number is in range."""
    width = np.frexp(significand)[1].astype(int)
    return in_range(np.ldexp(significand, np.clip(exponent, -1074, greatest(layout) - width)), layout)


def from_codes(codes: np.ndarray, layout: Layout) -> np.ndarray:
    """Numbers with given codes, signs not among them."""
    field, fraction = codes >> (layout.precision - 1), codes & ((1 << (layout.precision - 1)) - 1)
    hidden = np.where(field > 0, 1 << (layout.precision - 1), 0)
    unit = np.maximum(field, 1) + layout.least - layout.precision
    return np.ldexp((fraction + hidden).astype(np.float64), unit)


def spread(rng: np.random.Generator, shape: Shape, layout: Layout) -> np.ndarray:
    """All exponents alike, with the edges of the format more often."""
    normal = 1 << (layout.precision - 1)
    edges = np.array([0, 1, 2, 3, normal - 1, normal, normal + 1, layout.overflow - 2, layout.overflow - 1], np.int64)
    codes = rng.integers(0, layout.overflow, shape, np.int64)
    codes = np.where(rng.random(shape) < 0.2, rng.choice(edges, shape), codes)
    return signs(rng, shape) * from_codes(codes, layout)


def close(rng: np.random.Generator, shape: Shape, layout: Layout) -> np.ndarray:
    """Full significands, exponents near 0."""
    whole = rng.integers(1 << (layout.precision - 1), 1 << layout.precision, shape)
    return binary(signs(rng, shape) * whole, rng.integers(-2, 3, shape) - layout.precision, layout)


def coarse(rng: np.random.Generator, shape: Shape, layout: Layout) -> np.ndarray:
    """Significands of two bits, exponents a precision apart: sums are often exact, often midpoints, sometimes zero."""
    span = min(layout.precision + 2, (greatest(layout) - layout.least) // 2)
    return binary(signs(rng, shape) * rng.integers(0, 4, shape), rng.integers(-span // 2, span // 2 + 2, shape), layout)


def halves(rng: np.random.Generator, shape: Shape, layout: Layout) -> np.ndarray:
    """Odd significands of half the precision and a bit: products have one or two bits too many, and many are midpoints."""
    width = layout.precision // 2 + rng.integers(1, 2 + layout.precision % 2, shape)
    odd = (1 << (width - 1)) | rng.integers(0, 1 << (layout.precision // 2), shape) | 1
    return binary(signs(rng, shape) * odd, rng.integers(-3, 4, shape) - width, layout)


def tiny(rng: np.random.Generator, shape: Shape, layout: Layout) -> np.ndarray:
    """Products lie about the smallest number and the least normal one."""
    middle = (layout.least - rng.choice([0, layout.precision], shape)) // 2
    return binary(signs(rng, shape) * rng.integers(1, 8, shape), middle + rng.integers(-3, 3, shape), layout)


def large(rng: np.random.Generator, shape: Shape, layout: Layout) -> np.ndarray:
    """Products lie about the largest number."""
    middle = (greatest(layout) - rng.choice([0, 4, layout.precision], shape)) // 2
    return binary(signs(rng, shape) * rng.integers(1, 8, shape), middle + rng.integers(-2, 2, shape), layout)


def huge(rng: np.random.Generator, shape: Shape, layout: Layout) -> np.ndarray:
    """Sums lie about the largest number; some terms are half its last place, so that a sum may be the overflow threshold itself."""
    top = layout.overflow - 1 - rng.integers(0, 2, shape) * rng.integers(0, 1 << (layout.precision - 1), shape)
    half = math.ldexp(1.0, greatest(layout) - layout.precision)
    return signs(rng, shape) * np.where(rng.random(shape) < 0.4, half * rng.integers(1, 3, shape), from_codes(top, layout))


def zeros(rng: np.random.Generator, shape: Shape, layout: Layout) -> np.ndarray:
    """Zeros of both signs, and sometimes one."""
    return signs(rng, shape) * (rng.random(shape) < 0.15)


def units(rng: np.random.Generator, shape: Shape, layout: Layout) -> np.ndarray:
    return signs(rng, shape)


def tie(rng: np.random.Generator, count: int, layout: Layout) -> np.ndarray:
    """Terms whose sum is a midpoint of two numbers, or one smallest number beside it; then pairs that cancel."""
    p = layout.precision
    e = int(rng.integers(layout.least + 1, greatest(layout) + 1)) if rng.random() < 0.8 else greatest(layout)
    whole = int(rng.integers(1 << (p - 1), 1 << p)) if e < greatest(layout) else (layout.overflow - 1 & ((1 << (p - 1)) - 1)) | 1 << (p - 1)
    beside = float(rng.choice([0.0, 1.0, -1.0])) * math.ldexp(1.0, layout.least - p + 1)
    pairs = spread(rng, (max(count - 3, 0) // 2,), layout)
    terms = [math.ldexp(whole, e - p + 1), math.ldexp(rng.choice([-1.0, 1.0]), e - p), beside, *pairs, *-pairs, 0.0]
    return rng.permutation(terms[:count]) * rng.choice([-1.0, 1.0])


def ties(rng: np.random.Generator, shape: Shape, layout: Layout) -> np.ndarray:
    """A tie along the last axis, or along the first."""
    if not shape or 0 in shape:
        return spread(rng, shape, layout)
    axis = int(rng.choice([0, -1]))
    rest = np.delete(shape, axis)
    rows = np.array([tie(rng, shape[axis], layout) for _ in range(int(np.prod(rest)))])
    return np.moveaxis(rows.reshape(*rest, shape[axis]), -1, axis)


KINDS: dict[str, Callable[[np.random.Generator, Shape, Layout], np.ndarray]] = {
    "spread": spread,
    "close": close,
    "coarse": coarse,
    "halves": halves,
    "tiny": tiny,
    "large": large,
    "huge": huge,
    "zeros": zeros,
    "ties": ties,
}


def draw(rng: np.random.Generator, kind: str, shape: Shape, dtype: str) -> np.ndarray:
    parts = [KINDS[kind](rng, shape, layout_of(dtype)) for _ in range(1 + (dtype in PARTS))]
    out = np.empty(shape, numpy_dtype(dtype))
    if len(parts) == 2:
        out.real, out.imag = parts
    else:
        out[...] = parts[0]
    for given, held in zip(parts, [out.real, out.imag] if len(parts) == 2 else [out], strict=True):
        assert np.array_equal(given, held.astype(np.float64)), "the generator made a number that the dtype does not have"
    return out


# Cases --------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A call of an operation, and the gradient of its output."""

    name: str
    operands: dict[str, np.ndarray | Scalar]
    options: dict[str, Any]
    grad: np.ndarray
    dtype: str

    @property
    def polynomials(self) -> exact.Polynomials:
        shapes = {k: x.shape if isinstance(x, np.ndarray) else x for k, x in self.operands.items()}
        return exact.OPERATIONS[self.name](**shapes, **self.options)

    @property
    def tables(self) -> dict[str, Table]:
        return {k: exact.table(x) for k, x in self.operands.items() if isinstance(x, np.ndarray)}

    @property
    def mixes_kinds_of_numbers(self) -> bool:
        """Whether real numbers meet complex ones, or a scalar is complex: then a zero's sign depends on how the product is written."""
        scalars = [*self.options.values(), *(x for x in self.operands.values() if not isinstance(x, np.ndarray))]
        kinds = {x.dtype.kind == "c" for x in self.operands.values() if isinstance(x, np.ndarray)}
        return len(kinds) == 2 or any(isinstance(s, complex) for s in scalars)


M = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 4), (4, 2)),
    ((1, 5), (5, 1)),
    ((2, 2, 3), (3, 2)),
    ((2, 3), (2, 3, 1)),
    ((3,), (2, 3, 2)),
    ((2, 1, 3), (3,)),
    ((2, 1, 2, 3), (3, 3, 1)),
    ((2, 1, 1, 2), (1, 3, 2, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((0,), (0,)),
    ((0, 2, 3), (3, 2)),
    ((2, 0, 1, 2), (1, 2, 1)),
]
#: Of A, B, C.
G = [
    ((2, 3), (3, 2), (2, 2)),
    ((2, 3), (3, 2), ()),
    ((2, 3), (3, 2), (2,)),
    ((2, 3), (3, 2), (2, 1)),
    ((2, 3), (3, 2), (2, 1, 2)),
    ((1, 3), (3, 2), (3, 2)),
    ((3,), (3,), (2, 2)),
    ((3,), (3,), ()),
    ((2, 1, 2, 3), (2, 3, 1), (2, 2, 1, 1)),
    ((1, 2, 2), (2, 2), (3, 2, 1)),
    ((2, 0), (0, 2), (2,)),
    ((0, 3), (3, 2), (1, 2)),
]
E = [((4,), (4,)), ((2, 3), (3,)), ((3, 1), (1, 4)), ((2, 1, 3), (2, 1)), ((), ()), ((5,), ()), ((), (2, 2)), ((0, 3), (1, 3)), ((1,), (0,)), ((3, 2), (3, 2))]
#: Shape, axis, keepdims.
S = [
    ((5,), None, False),
    ((2, 4), 0, False),
    ((2, 4), -1, True),
    ((3, 3), (0, 1), True),
    ((2, 3), (), False),
    ((2, 2, 3), (2, 0), False),
    ((2, 2, 3), (-2,), False),
    ((2, 1, 3), 1, False),
    ((), None, False),
    ((), 0, False),
    ((), -1, True),
    ((0, 3), 0, False),
    ((0, 3), 1, True),
    ((0,), None, True),
]

SCALARS: list[Scalar] = [1, -1, 2, 0, 0.5, 0.1, -0.3, 3, 1e-30, 2**60 + 1, True, float(np.float32(0.1)), 5e-324, 1.7e308, Fraction(-3, 8)]
COMPLEX_SCALARS: list[Scalar] = [1j, 0.1 - 2j, -1 + 0.3j, 1e-40 + 1e40j, 2 + 0j]


def some(rng: np.random.Generator, choices: list[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def scalar(rng: np.random.Generator, dtype: str, *, operand: bool) -> Scalar:
    """An operand is a Python number, which a Fraction is not taken for; alpha and beta are no booleans."""
    choices = [*SCALARS, *(COMPLEX_SCALARS if dtype in PARTS else []), float(draw(rng, "spread", (), "float64"))]
    return some(rng, [s for s in choices if not isinstance(s, Fraction if operand else bool)])


def shapes_and_options(rng: np.random.Generator, name: str, dtype: str) -> tuple[dict[str, Shape | Scalar], dict[str, Any]]:
    free = lambda: scalar(rng, dtype, operand=False) if rng.random() < 0.7 else 1
    if name == "matmul":
        return dict(zip("AB", some(rng, M), strict=True)), {}
    if name == "gemm":
        return dict(zip("ABC", some(rng, G), strict=True)), {"alpha": free(), "beta": free()}
    if name == "sum":
        shape, axis, keepdims = some(rng, S)
        return {"x": shape}, {"axis": axis, "keepdims": keepdims}
    x, y = some(rng, E)
    if rng.random() < 0.15:
        x, y = rng.permutation(np.array([x or y or (2,), scalar(rng, dtype, operand=True)], object))
    return {"x": x, "y": y}, ({"alpha": free()} if name == "add" else {})


def random_case(rng: np.random.Generator, name: str, kind: str, dtype: str, *dtypes: str) -> Case:
    """Operands of the dtypes in turn; of `dtype`, if there are none."""
    shapes, options = shapes_and_options(rng, name, dtype)
    chosen = dtypes or (dtype,)
    if kind == "ties" and name in ("add", "gemm") and rng.random() < 0.7:
        options |= {k: some(rng, [1, -1, 2]) for k in options}
    operands: dict[str, np.ndarray | Scalar] = {}
    for k, (operand, shape) in enumerate(shapes.items()):
        one = kind == "ties" and k > 0 and name != "add"
        if not isinstance(shape, tuple):
            operands[operand] = shape
        elif one:
            operands[operand] = units(rng, shape, layout_of(dtype)).astype(numpy_dtype(chosen[k % len(chosen)]))
        else:
            operands[operand] = draw(rng, kind, shape, chosen[k % len(chosen)])
    if kind == "ties" and name == "add" and all(isinstance(x, np.ndarray) and x.shape == operands["x"].shape != () for x in operands.values()):
        both = draw(rng, kind, (*operands["x"].shape, 2), dtype)
        operands = {"x": both[..., 0].astype(operands["x"].dtype), "y": both[..., 1].astype(operands["y"].dtype)} if not dtypes else operands
    output = exact.OPERATIONS[name](**{k: x.shape if isinstance(x, np.ndarray) else x for k, x in operands.items()}, **options).shape
    return Case(name, operands, options, draw(rng, kind, output, dtype), dtype)


def generator(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


#: Operand dtypes in turn, and the dtype of the output: PyTorch's table.
MIXES = [
    ("float32", "float32", "bfloat16"),
    ("float32", "float16", "bfloat16"),
    ("float32", "float16", "float32"),
    ("float64", "float32", "float64"),
    ("float64", "float64", "bfloat16"),
    ("complex64", "complex64", "float32"),
    ("complex128", "float64", "complex64"),
    ("complex64", "bfloat16", "complex64"),
    ("complex128", "complex64", "complex128"),
]


def mixed_case(rng: np.random.Generator, name: str, kind: str) -> Case:
    """Operands of different dtypes; all have dimensions, so that none is of a lower rank in the promotion."""
    while True:
        output, *dtypes = some(rng, MIXES if name != "sum" else [m for m in MIXES if m[0] == m[1]])
        case = random_case(rng, name, kind, output, *dtypes)
        arrays = [x for x in case.operands.values() if isinstance(x, np.ndarray)]
        if len(arrays) == len(case.operands) and all(x.ndim for x in arrays):
            return case


# Judging ------------------------------------------------------------------------------------------------------------------------


def results(case: Case) -> Iterator[tuple[str, er.Result, Table, str]]:
    """The forward result and each gradient, with the exact numbers and the dtype they are to have."""
    polynomials, tables = case.polynomials, case.tables
    forward = getattr(er, case.name)(**case.operands, **case.options)
    yield "forward", forward, exact.value(polynomials, tables, 1 + (case.dtype in PARTS)), case.dtype
    backward = forward.backward(case.grad)
    for name, x in case.operands.items():
        if isinstance(x, np.ndarray):
            numbers = exact.gradient(polynomials, tables, exact.table(case.grad), name, 1 + (x.dtype.name in PARTS))
            yield f"grad_{name}", backward[f"grad_{name}"], numbers, x.dtype.name


def first_difference(got: np.ndarray, want: np.ndarray, numbers: Table, part: int, loose: bool, layout: Layout) -> str:
    """What differs, or nothing. Zeros need their sign unless `loose`; all NaN are one."""
    magnitude = np.uint64((1 << (layout.bits - 1)) - 1)
    nan = lambda x: ((x & magnitude) >= layout.overflow) & (layout is LAYOUTS["float8_e4m3fn"])
    exactly_zero = np.array([not n[part].value for n in numbers.values()], bool).reshape(want.shape)
    a, b = got.astype(np.uint64), want.astype(np.uint64)
    same = (a == b) | (nan(a) & nan(b)) | (loose & exactly_zero & ((a & magnitude) == 0))
    for place in np.argwhere(~same)[:1]:
        at = tuple(int(i) for i in place)
        return f"part {part} at {at}: bits {got[at]:#x}, wanted {want[at]:#x} for {numbers[at][part]}"
    return ""


def check_bits(case: Case) -> int:
    """Compare bit for bit; how many elements were compared."""
    count = 0
    for name, result, numbers, dtype in results(case):
        assert result.rounded.dtype == numpy_dtype(dtype), (name, case)
        got = exact.bits(result.rounded)
        want = exact.rounded_bits(numbers, result.rounded.shape, dtype)
        for part, (g, w) in enumerate(zip(got, want, strict=True)):
            assert g.shape == w.shape, (name, case)
            problem = first_difference(g, w, numbers, part, case.mixes_kinds_of_numbers, layout_of(dtype))
            assert not problem, f"{name}, {problem}; {case}"
        assert not np.any(result.unsigned_zeros), (name, case)
        count += result.rounded.size
    return count


def parts_of(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag] if np.iscomplexobj(x) else [x]


def part_numbers(numbers: Table, part: int, shape: Shape) -> np.ndarray:
    out = np.empty(shape, object)
    for i, n in numbers.items():
        out[i] = n[part].value
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_values_and_gradients_are_rational_arithmetic_rounded_once(name: str, kind: str) -> None:
    rng = generator(name, kind)
    count = 0
    for dtype in DTYPES:
        for _ in range(4):
            count += check_bits(random_case(rng, name, kind, dtype))
    assert count > 100


@pytest.mark.parametrize("name", [n for n in OPERATIONS if n != "sum"])
def test_operands_of_different_dtypes_promote_and_each_gradient_has_its_own(name: str) -> None:
    rng = generator(name, "mixed")
    for kind in KINDS:
        for _ in range(3):
            check_bits(mixed_case(rng, name, kind))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*DTYPES, "mixed"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_hundred_thousand_elements_over_all_operations_and_dtypes(name: str, dtype: str) -> None:
    # Five operations, nine columns: 2,300 elements each make 103,500.
    rng, count = generator("sweep", name, dtype), 0
    while count < 2300:
        for kind in KINDS:
            count += check_bits(mixed_case(rng, name, kind) if dtype == "mixed" else random_case(rng, name, kind, dtype))


# Enclosure and tolerance ----------------------------------------------------------------------------------------------------------


def some_results(*key: str, each: int = 1) -> Iterator[tuple[Case, str, er.Result, Table]]:
    name, dtype = key[-2:]
    rng = generator(*key)
    for kind in KINDS:
        for _ in range(each):
            case = random_case(rng, name, kind, dtype)
            for what, result, numbers, _ in results(case):
                yield case, what, result, numbers


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_interval_contains_the_exact_value(name: str, dtype: str) -> None:
    for case, what, result, numbers in some_results("interval", name, dtype):
        ends = [parts_of(side) for side in result.interval]
        for part in range(len(ends[0])):
            value = part_numbers(numbers, part, result.shape)
            for i in np.ndindex(value.shape):
                low, high = float(ends[0][part][i]), float(ends[1][part][i])
                assert low <= value[i] <= high, (what, i, case)
                # "Equal where it is a float64 number."
                assert (low == high) == (abs(value[i]) <= sys.float_info.max and float(value[i]) == value[i]), (what, i, case)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_bound_holds_the_distance_of_rounded_from_exact(name: str, dtype: str) -> None:
    for case, what, result, numbers in some_results("bound", name, dtype):
        wide = result.rounded.astype(np.complex128 if dtype in PARTS else np.float64)
        for part, (rounded, bound) in enumerate(zip(parts_of(wide), parts_of(result.bound), strict=True)):
            value = part_numbers(numbers, part, result.shape)
            for i in np.ndindex(value.shape):
                if not np.isfinite(rounded[i]):
                    assert np.isposinf(bound[i]), (what, i, case)
                    continue
                distance = abs(Fraction(float(rounded[i])) - value[i])
                assert distance <= float(bound[i]) < math.inf, (what, i, case)
                assert (distance == 0) == (bound[i] == 0), (what, i, case)


def beyond(value: Fraction, tolerance: float, direction: int) -> float:
    """The first float64 number farther from the exact value than 1.01 times the tolerance; infinite if there is none."""
    target = value + direction * Fraction(101, 100) * Fraction(tolerance)
    if abs(target) >= Fraction(2) ** 1024:
        return math.inf
    out = float(target)
    return out if (out - target) * direction > 0 else math.nextafter(out, direction * math.inf)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_beyond_the_tolerance_is_covered(name: str, dtype: str) -> None:
    judged = 0
    for case, what, result, numbers in some_results("beyond", name, dtype):
        tolerance = parts_of(result.tolerance)
        base = result.rounded.astype(np.complex128 if dtype in PARTS else np.float64)
        for part, direction in [(p, d) for p in range(len(tolerance)) for d in (-1, 1)]:
            value = part_numbers(numbers, part, result.shape)
            candidate, moved = base.copy(), np.zeros(base.shape, bool)
            for i in np.ndindex(base.shape):
                t = float(tolerance[part][i])
                far = beyond(value[i], t, direction) if np.isfinite(base[i]) and math.isfinite(t) else math.inf
                if math.isfinite(far):
                    parts_of(candidate)[part][i], moved[i] = far, True
            assert not (result.covers(candidate) & moved).any(), (what, direction, case)
            judged += int(moved.sum())
    assert judged > 60


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_rounded_and_normal_are_covered(name: str, dtype: str) -> None:
    for case, what, result, _ in some_results("covers", name, dtype):
        assert result.covers(result.rounded).all(), (what, case)
        assert result.covers(result.normal).all(), (what, case)


@pytest.mark.parametrize("name", OPERATIONS)
def test_normal_has_the_dtype_and_is_rounded_where_one_rounding_is_all(name: str) -> None:
    for dtype in DTYPES:
        x = draw(generator(name, dtype), "close", (3,), dtype)
        one = {"matmul": (x[:1], x[1:2]), "gemm": (x[:1], x[1:2], x[:1] * 0), "add": (x, x[::-1]), "multiply": (x, x[::-1]), "sum": (x[:2],)}[name]
        result = getattr(er, name)(*one)
        assert result.normal.dtype == result.rounded.dtype == numpy_dtype(dtype)
        if dtype not in PARTS:
            assert exact.bits(result.normal)[0].tolist() == exact.bits(result.rounded)[0].tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_numbers_far_from_overflow_have_a_finite_tolerance(name: str, dtype: str) -> None:
    rng = generator("finite", name, dtype)
    for _ in range(4):
        case = random_case(rng, name, "zeros", dtype)
        options = {k: (some(rng, [1, -0.3, 2]) if k in ("alpha", "beta") else v) for k, v in case.options.items()}
        arrays = {k: (x if isinstance(x, np.ndarray) else 0.1) for k, x in case.operands.items()}
        forward = getattr(er, name)(**arrays, **options)
        assert forward.unbounded == 0
        assert forward.backward(case.grad).unbounded == 0


# Particular values ------------------------------------------------------------------------------------------------------------------


def test_the_page_s_example_gives_the_page_s_values() -> None:
    A = er.asarray([[1.0, 2.0], [3.0, 4.0]], "float32")
    B = er.asarray([[0.5], [0.25]], "float32")
    grad = er.asarray([[1.0], [1.0]], "float32")
    g = er.matmul.backward(A, B, grad)
    assert g.rounded.grad_A.tolist() == [[0.5, 0.25], [0.5, 0.25]]
    assert g.rounded.grad_B.tolist() == [[4.0], [6.0]]
    assert er.matmul(A, B).backward(grad).rounded.grad_B.tolist() == [[4.0], [6.0]]
    assert g.rounded.grad_A.dtype == g.rounded.grad_B.dtype == np.float32


def test_gradients_are_the_page_s_matrix_products() -> None:
    # The reference differentiates monomials; this is the formula in words: grad_A = grad @ B^H, grad_B = A^H @ grad.
    rng = np.random.default_rng(1)
    A, B, grad = (rng.integers(-4, 5, s) + 1j * rng.integers(-4, 5, s) for s in ((2, 3), (3, 4), (2, 4)))
    tables = {"A": exact.table(A), "B": exact.table(B)}
    polynomials = exact.matmul((2, 3), (3, 4))
    for name, wanted in (("A", grad @ B.conj().T), ("B", A.conj().T @ grad)):
        found = exact.gradient(polynomials, tables, exact.table(grad), name, 2)
        assert {i: complex(re.value, im.value) for i, (re, im) in found.items()} == dict(np.ndenumerate(wanted))


def test_a_sum_of_no_terms_is_positive_zero() -> None:
    assert exact.bits(er.sum(np.zeros((0, 2), np.float32), axis=0).rounded)[0].tolist() == [0, 0]
    assert exact.bits(er.matmul(np.zeros((1, 0)), np.zeros((0, 1))).rounded)[0].tolist() == [[0]]
    gradient = er.matmul.backward(np.full((2, 3), -1.0), np.zeros((3, 0)), np.zeros((2, 0))).rounded.grad_A
    assert exact.bits(gradient)[0].tolist() == [[0, 0, 0]] * 2


def test_a_sum_of_negative_zeros_is_negative_zero_and_a_cancelled_one_is_positive() -> None:
    assert np.signbit(er.sum(np.array([-0.0, -0.0])).rounded)
    assert not np.signbit(er.sum(np.array([-0.0, 0.0])).rounded)
    assert not np.signbit(er.sum(np.array([-1.0, 1.0])).rounded)
    assert not np.signbit(er.sum(np.array([1.0, -1.0, -0.0])).rounded)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_nonzero_value_that_rounds_to_zero_keeps_its_sign(sign: float) -> None:
    result = er.multiply(np.float16(sign * 2.0**-24), np.float16(2.0**-2))
    assert result.rounded == 0
    assert np.signbit(result.rounded) == (sign < 0)


@pytest.mark.parametrize("call", ["multiply by scalar", "add scalar", "alpha", "beta"])
def test_a_negative_zero_scalar_keeps_its_sign(call: str) -> None:
    one, zero = np.ones((1, 1)), np.full((1, 1), -0.0)
    result = {
        "multiply by scalar": lambda: er.multiply(one, -0.0),
        "add scalar": lambda: er.add(zero, -0.0),
        "alpha": lambda: er.add(zero, one, alpha=-0.0),
        "beta": lambda: er.gemm(zero, one, one, beta=-0.0),
    }[call]()
    assert np.signbit(result.rounded).all()


def test_integers_are_exact_whatever_the_output_dtype_holds() -> None:
    # 2**24 + 1 is no float32 number.
    result = er.multiply(np.array([2**24 + 1], np.int32), np.float32([3.0]))
    assert result.rounded.dtype == np.float32
    assert float(result.interval.lower[0]) == float(result.interval.upper[0]) == 3 * (2**24 + 1)
    assert exact.bits(result.rounded)[0].tolist() == [exact.code(exact.signed(3 * (2**24 + 1)), LAYOUTS["float32"])]


def test_nothing_overflows_on_the_way() -> None:
    x = np.float32([1e30, -1e30])
    assert er.matmul(x, np.float32([1e30, 1e30])).rounded == 0
    assert er.sum(np.array([1.7e308, 1.7e308, -1.7e308, -1.7e308, 2.0])).rounded == 2.0


@pytest.mark.parametrize("alpha", [10**400, -(2**2000) - 1])
def test_a_scalar_beyond_float64_is_still_exact(alpha: int) -> None:
    x = np.array([2.0**-1074])
    result = er.add(np.zeros(1), x, alpha=alpha)
    value = Fraction(alpha) * Fraction(2) ** -1074
    assert exact.bits(result.rounded)[0].tolist() == [exact.code(exact.signed(value), LAYOUTS["float64"])]
    # An ordinary implementation rounds such a scalar to infinity.
    assert np.isposinf(result.tolerance).all()
    assert result.covers(result.normal).all()
