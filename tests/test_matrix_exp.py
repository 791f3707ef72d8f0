"""matrix_exp, its Frechet derivative and its gradient: bit for bit Arb's, covered where PyTorch and JAX are right, and only there."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import exact_attention as reference
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import exactref_jax as er
from exactref_jax.arithmetic.rational_exp import rational_entries

DTYPES = {"float32": np.float32, "float64": np.float64, "complex64": np.complex64, "complex128": np.complex128, "bfloat16": ml_dtypes.bfloat16}


def matrix(generator: np.random.Generator, dtype: Any, n: int, norm: float, kind: str = "full") -> np.ndarray:
    out = generator.standard_normal((n, n)) + (1j * generator.standard_normal((n, n)) if np.dtype(dtype).kind == "c" else 0.0)
    if kind == "triangular":
        out = np.triu(out)
    elif kind == "nilpotent":
        out = np.triu(out, 1)
    elif kind == "defective":
        out = np.triu(out, 1) + 0.75 * np.eye(n)
    size = np.abs(out).sum(0).max(initial=0.0)
    return (out / (size or 1.0) * norm).astype(dtype)


def rounded(table: list[list[Any]], dtype: Any) -> np.ndarray:
    """Entries rounded once; of complex dtypes each part by itself."""
    if np.dtype(dtype).kind != "c":
        return np.array([[reference.rounded(z.real, dtype) for z in row] for row in table])
    part = np.float32 if dtype == np.complex64 else np.float64
    return np.array([[complex(reference.rounded(z.real, part), reference.rounded(z.imag, part)) for z in row] for row in table])


def check(generator: np.random.Generator, dtype: Any, n: int, norm: float, kind: str) -> int:
    a, g = matrix(generator, dtype, n, norm, kind), matrix(generator, dtype, n, 1.0)
    wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    forward = er.matrix_exp(a)
    gradient = forward.backward(g)
    adjoint = a.astype(wide).conj().T
    block = np.block([[adjoint, g.astype(wide)], [np.zeros((n, n)), adjoint]])
    with reference.bits():
        np.testing.assert_array_equal(forward.rounded.astype(wide), rounded(reference.matrix_exp(a.astype(wide)), dtype))
        upper = [row[n:] for row in reference.matrix_exp(block)[:n]]
        np.testing.assert_array_equal(gradient.rounded.grad_A.astype(wide), rounded(upper, dtype))
    np.testing.assert_array_equal(er.matrix_exp_frechet(adjoint.astype(dtype), g).rounded, gradient.rounded.grad_A)
    assert forward.covers(forward.rounded).all()
    assert forward.covers(forward.normal).all()
    return 2 * n * n


KINDS = ("full", "triangular", "nilpotent", "defective")


@pytest.mark.parametrize("name", DTYPES)
def test_agrees_with_arb(name: str) -> None:
    generator = np.random.default_rng(21)
    for n in (1, 2, 3, 5, 8):
        for norm in (2.0**-40, 0.1, 3.0, 40.0):
            check(generator, DTYPES[name], n, norm, KINDS[(n + int(norm)) % 4])


@pytest.mark.slow
@pytest.mark.parametrize("name", DTYPES)
def test_agrees_with_arb_on_many(name: str) -> None:
    generator = np.random.default_rng(22)
    count = 0
    while count < 20_000:
        norm = float(2.0 ** generator.uniform(-40, 6.6))
        count += check(generator, DTYPES[name], int(generator.integers(1, 17)), norm, KINDS[int(generator.integers(0, 4))])


def series(a: list[list[Fraction]]) -> list[list[Fraction]]:
    """exp of a nilpotent rational matrix."""
    n = len(a)
    out = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    term = [row[:] for row in out]
    for k in range(1, n):
        term = [[sum((term[i][m] * a[m][j] for m in range(n)), Fraction(0)) / k for j in range(n)] for i in range(n)]
        out = [[out[i][j] + term[i][j] for j in range(n)] for i in range(n)]
    return out


def test_rational_entries_of_nilpotent_matrices_are_the_series() -> None:
    generator = np.random.default_rng(23)
    for n in range(1, 6):
        a = [[Fraction(int(generator.integers(-3, 4)), 4) if j > i else Fraction(0) for j in range(n)] for i in range(n)]
        found = rational_entries([x for row in a for x in row], n)
        assert found == {(i, j): v for i, row in enumerate(series(a)) for j, v in enumerate(row)}


def test_no_entry_is_called_rational_that_is_not() -> None:
    """e is the exponential of one, and t of a rotation: only structural zeros and the null space's part are rational."""
    assert rational_entries([Fraction(1)], 1) == {}
    assert rational_entries([Fraction(x) for x in (0, 1, -1, 0)], 2) == {}
    assert rational_entries([Fraction(x) for x in (1, 0, 0, 0)], 2) == {(0, 1): 0, (1, 0): 0, (1, 1): 1}
    assert rational_entries([Fraction(x) for x in (1, -1, 1, -1)], 2) == {(0, 0): 2, (0, 1): -1, (1, 0): 1, (1, 1): 0}


def test_is_a_jax_function() -> None:
    generator = np.random.default_rng(24)
    a = matrix(generator, np.float32, 3, 1.0)
    loss = lambda a: jnp.sum(er.matrix_exp(a) ** 2)
    exact = er.grad(loss)(a)
    exact.assert_covers(jax.grad(loss)(a))
    exact.assert_covers(jax.jit(jax.grad(loss))(a))
    exact.assert_covers(jax.grad(lambda a: jnp.sum(jax.scipy.linalg.expm(a) ** 2))(a))
    stack = np.stack([a, 2 * a])
    assert er.matrix_exp(stack).covers(jax.vmap(lambda a: er.matrix_exp(a))(stack)).all()
    _, tangent = er.jvp(er.matrix_exp.function, (a,), (a,))
    np.testing.assert_array_equal(tangent.rounded, er.matrix_exp_frechet(a, a).rounded)


def test_frechet_has_no_backward() -> None:
    a = np.eye(2, dtype=np.float32)
    with pytest.raises(TypeError, match="no backward"):
        er.matrix_exp_frechet.backward(a, a, a)
    with pytest.raises(TypeError, match="no backward"):
        er.matrix_exp_frechet(a, a).backward(a)
    with pytest.raises(NotImplementedError, match="second derivative"):
        er.grad(lambda a: jnp.sum(jax.grad(lambda a: jnp.sum(er.matrix_exp(a)))(a)))(a)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [(np.ones(3), ValueError, "A has shape"), (np.ones((2, 3)), ValueError, "square"), (np.ones((2, 2), np.int32), TypeError, "A is int32")],
)
def test_wrong_arguments_are_named(given: np.ndarray, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        er.matrix_exp(given)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_empty_matrices(shape: tuple[int, ...]) -> None:
    assert er.matrix_exp(np.zeros(shape)).rounded.shape == shape
    assert er.matrix_exp.backward(np.zeros(shape), np.zeros(shape)).rounded.grad_A.shape == shape


# PyTorch and JAX, judged ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128"])
def test_jax_is_covered_by_its_own_tolerance(name: str) -> None:
    generator = np.random.default_rng(25)
    algorithm = er.MatrixExpAlgorithm.jax()
    for n in (1, 2, 5, 9):
        for norm in (1e-3, 0.3, 1.5, 5.0, 7.7, 30.0):
            a = matrix(generator, DTYPES[name], n, norm)
            with jax.enable_x64(True):
                candidate = np.asarray(jax.scipy.linalg.expm(a))
            er.matrix_exp(a).assert_covers(candidate, tolerance=algorithm.tolerance(a))


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128"])
def test_torch_is_covered(name: str) -> None:
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(26)
    wrong = (0.0511, 0.581) if name in ("float32", "complex64") else (3.39e-4, 0.05)  # norms for which PyTorch takes its wrong polynomial
    for n in (1, 2, 5, 9):
        for norm in (1e-6, 1e-3, 0.1, 1.2, 2.5, 10.0, 30.0):
            for batch in ((), (1,), (3,)):
                a = np.broadcast_to(matrix(generator, DTYPES[name], n, norm), (*batch, n, n)).copy()
                g = np.broadcast_to(matrix(generator, DTYPES[name], n, 1.0), (*batch, n, n)).copy()
                leaf = torch.tensor(a, requires_grad=True)
                out = torch.matrix_exp(leaf)
                out.backward(torch.tensor(g))
                if batch == (3,) or not wrong[0] < norm < wrong[1] or n == 1:
                    er.matrix_exp(a).assert_covers(out.detach())
                er.matrix_exp.backward(a, g).assert_covers((leaf.grad,))


@pytest.mark.parametrize(("name", "norm"), [("float32", 0.55), ("float64", 0.045)])
def test_torch_s_wrong_polynomial_is_not_covered(name: str, norm: float) -> None:
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(27)
    a = matrix(generator, DTYPES[name], 4, norm)
    assert not er.matrix_exp(a).covers(torch.matrix_exp(torch.tensor(a))).all(), "PyTorch has mended degree 8: this test may go"
    stacked = np.stack([a, a])
    er.matrix_exp(stacked).assert_covers(torch.matrix_exp(torch.tensor(stacked)))


def test_torch_s_half_formats_are_not_covered() -> None:
    torch = pytest.importorskip("torch")
    a = torch.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=torch.bfloat16)
    assert not er.matrix_exp(a).covers(torch.matrix_exp(a)).all()


def test_special_values_are_torch_s() -> None:
    torch = pytest.importorskip("torch")
    inf, nan = np.inf, np.nan
    for rows in ([[inf, 0], [0, 0]], [[0, inf], [0, 0]], [[-inf, 0], [0, -inf]], [[nan, 0], [0, 0]], [[inf]], [[-inf]], [[nan]]):
        a = np.array(rows, np.float32)
        leaf = torch.tensor(a, requires_grad=True)
        out = torch.matrix_exp(leaf)
        out.sum().backward()
        result = er.matrix_exp(a)
        np.testing.assert_array_equal(result.rounded, out.detach().numpy())
        np.testing.assert_array_equal(np.isnan(result.backward(np.ones_like(a)).rounded.grad_A), np.isnan(leaf.grad.numpy()))
    pair = er.matrix_exp(np.array([[[inf, 0], [0, 0]], [[0, 1], [0, 0]]], np.float32)).rounded
    assert np.isnan(pair[0]).all()
    assert pair[1].tolist() == [[1.0, 1.0], [0.0, 1.0]]
