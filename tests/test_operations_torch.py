"""PyTorch's own operations and autograd, judged: covered at every element, special values alike; where PyTorch rounds more than it need, a budget says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import exactref_jax as er

torch = pytest.importorskip("torch")

DTYPES = {n: getattr(torch, n) for n in ("float32", "float64", "bfloat16", "float16", "complex64", "complex128")}

FORWARD: dict[str, Callable[..., Any]] = {
    "matmul": torch.matmul,
    "gemm": lambda A, B, C, alpha=1, beta=1: torch.baddbmm(C, A, B, alpha=alpha, beta=beta) if A.ndim == 3 else torch.addmm(C, A, B, alpha=alpha, beta=beta),
    "add": lambda x, y, alpha=1: torch.add(x, y, alpha=alpha),
    "multiply": torch.mul,
    "sum": lambda x, axis=None, keepdims=False: torch.sum(x, dim=axis if axis is not None else tuple(range(x.ndim)), keepdim=keepdims),
}


def shapes(generator: np.random.Generator, name: str) -> tuple[list[tuple[int, ...]], dict[str, Any]]:
    m, k, n, b = (int(v) for v in generator.integers(1, 9, 4))
    if name == "matmul":
        choices = [[(m, k), (k, n)], [(k,), (k, n)], [(m, k), (k,)], [(k,), (k,)], [(b, m, k), (k, n)], [(b, m, k), (b, k, n)], [(b, 1, m, k), (3, k, n)]]
        return choices[int(generator.integers(len(choices)))], {}
    if name == "gemm":
        options = {"alpha": float(generator.choice([1.0, 0.5, 0.3])), "beta": float(generator.choice([1.0, 0.0, 1.7]))}
        if generator.random() < 0.5:
            return [(m, k), (k, n), [(m, n), (n,), (1, n), (m, 1)][int(generator.integers(4))]], options
        return [(b, m, k), (b, k, n), (b, m, n)], options
    if name == "sum":
        axis = [None, 0, -1, (0, 2), (1,)][int(generator.integers(5))]
        return [(m, k, n)], {"axis": axis, "keepdims": bool(generator.random() < 0.5)}
    pairs = [[(m, n), (m, n)], [(m, n), (n,)], [(m, 1), (n,)], [(), (m, n)], [(b, 1, n), (m, n)]]
    options = {"alpha": float(generator.choice([1.0, 2.0, 0.1]))} if name == "add" else {}
    return pairs[int(generator.integers(len(pairs)))], options


def tensor(generator: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    values = generator.standard_normal(shape) + (1j * generator.standard_normal(shape) if dtype.is_complex else 0)
    return torch.from_numpy(np.asarray(values)).to(dtype)


def judge(name: str, operands: list[Any], options: dict[str, Any], grad: Any, copies: bool) -> None:
    leaves = [x.clone().requires_grad_() for x in operands]
    out = FORWARD[name](*leaves, **options)
    out.backward(grad)
    result = getattr(er, name)(*operands, **options)
    result.assert_covers(out.detach())
    backward = result.backward(grad)
    if copies:
        backward = backward.with_budget(er.Budget(rounds_copies=True))
    backward.assert_covers(tuple(x.grad for x in leaves))
    for part, leaf in zip(backward.rounded, leaves, strict=True):
        assert part.dtype.name == str(leaf.dtype).removeprefix("torch.")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FORWARD)
def test_torch_is_covered(name: str, dtype: str) -> None:
    generator = np.random.default_rng(31)
    for _ in range(8):
        operand_shapes, options = shapes(generator, name)
        operands = [tensor(generator, s, DTYPES[dtype]) for s in operand_shapes]
        shape = FORWARD[name](*operands, **options).shape
        # PyTorch rounds products before it adds up copies, in half formats.
        copies = dtype in ("bfloat16", "float16") and name in ("multiply", "matmul", "gemm")
        judge(name, operands, options, tensor(generator, tuple(shape), DTYPES[dtype]), copies)


def test_extra_roundings_of_copies_are_not_in_the_default() -> None:
    generator = np.random.default_rng(32)
    x, y, g = (tensor(generator, s, torch.bfloat16) for s in ((64, 8), (8,), (64, 8)))
    leaf = y.clone().requires_grad_()
    (x * leaf).backward(g)
    backward = er.multiply.backward(x, y, g)["grad_y"]
    assert not backward.covers(leaf.grad).all()
    assert backward.with_budget(er.Budget(rounds_copies=True)).covers(leaf.grad).all()


@pytest.mark.parametrize("name", ["matmul", "add", "multiply", "sum"])
def test_special_values_are_torch_s(name: str) -> None:
    generator = np.random.default_rng(33)
    for _ in range(60):
        operand_shapes, _ = shapes(generator, name)
        operands = []
        for s in operand_shapes:
            x = generator.standard_normal(s).astype(np.float32)
            chosen = generator.random(s) < 0.2
            x = np.where(chosen, generator.choice([np.inf, -np.inf, np.nan, 0.0, -0.0], s), x).astype(np.float32)
            operands.append(torch.from_numpy(np.asarray(x)))
        out = FORWARD[name](*operands)
        result = getattr(er, name)(*operands)
        np.testing.assert_array_equal(np.isnan(result.rounded), out.isnan().numpy())
        np.testing.assert_array_equal(np.isinf(result.rounded), out.isinf().numpy())
        assert result.covers(out).all()


def test_gradients_with_a_scalar_of_zero_are_torch_s() -> None:
    """beta = 0 multiplies in the backward: NaN where grad is infinite."""
    A, B, C = (torch.ones(2, 2) for _ in range(3))
    leaf = C.clone().requires_grad_()
    grad = torch.tensor([[torch.inf, 1.0], [1.0, 1.0]])
    torch.addmm(leaf, A, B, beta=0).backward(grad)
    ours = er.gemm.backward(A, B, C, grad, beta=0)["grad_C"]
    np.testing.assert_array_equal(np.isnan(ours.rounded), leaf.grad.isnan().numpy())


def test_complex_scalars_and_convention() -> None:
    generator = np.random.default_rng(34)
    A, B, C, g = (tensor(generator, (3, 3), torch.complex128) for _ in range(4))
    judge("gemm", [A, B, C], {"alpha": 0.5 - 2j, "beta": 1j}, g, False)
    judge("add", [A, B], {"alpha": 0.25 + 3j}, g, False)
    real = torch.ones(3, 3, dtype=torch.float64)
    leaf = real.clone().requires_grad_()
    (leaf * A).backward(g)
    assert er.multiply.backward(real, A, g)["grad_x"].covers(leaf.grad).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_operands(shape: tuple[int, int]) -> None:
    a, b = torch.ones(shape), torch.ones(shape[::-1])
    leaves = [x.clone().requires_grad_() for x in (a, b)]
    out = torch.matmul(*leaves)
    out.backward(torch.ones_like(out))
    result = er.matmul(a, b)
    assert result.rounded.shape == tuple(out.shape)
    result.backward(torch.ones_like(out)).assert_covers(tuple(x.grad for x in leaves))
