"""PyTorch's attention, judged: its math path and its CPU kernel are covered, its bugs and wrong kernels are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import exactref_jax as er

torch = pytest.importorskip("torch")
functional = torch.nn.functional

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}


def run(operands: list[Any], grad: Any | None, math: bool, **options: Any) -> tuple[Any, Any, list[Any]]:
    """Output, its gradient, and the operands' gradients."""
    leaves = [x.clone().requires_grad_() for x in operands]
    kernels = [torch.nn.attention.SDPBackend.MATH] if math else list(torch.nn.attention.SDPBackend.__members__.values())
    with torch.nn.attention.sdpa_kernel([k for k in kernels if k.name in ("MATH", "FLASH_ATTENTION")]):
        out = functional.scaled_dot_product_attention(*leaves, **options)
    grad = torch.randn(out.shape, dtype=torch.float64).to(out.dtype) if grad is None else grad
    out.backward(grad)
    return out.detach(), grad, [x.grad for x in leaves]


def configuration(generator: np.random.Generator, dtype: Any, four: bool) -> tuple[list[Any], dict[str, Any]]:
    """Operands and options; with `four`, what the fused CPU kernel takes."""
    integers = lambda low, high: int(generator.integers(low, high))
    queries, keys, features = integers(1, 20), integers(1, 24), integers(1, 33)
    values = features if four else integers(1, 33)
    groups, heads, batch = integers(1, 3), integers(1, 3), integers(1, 3)
    shapes = [(batch, heads * groups, queries, features), (batch, heads, keys, features), (batch, heads, keys, values)]
    if not four and generator.random() < 0.3:
        shapes[1] = shapes[1][1:]
    operands = [torch.from_numpy(generator.standard_normal(s)).to(dtype) for s in shapes]
    options: dict[str, Any] = {"enable_gqa": True} if groups > 1 else {}
    kind = generator.integers(0, 4)
    if kind == 0:
        options["is_causal"] = True
    elif kind == 1:
        mask = generator.random((queries, keys)) < 0.7
        mask[:, 0] = True
        options["attn_mask"] = torch.from_numpy(mask)
    elif kind == 2:
        options["attn_mask"] = torch.from_numpy(generator.standard_normal((queries, keys))).to(dtype)
    if generator.random() < 0.4:
        options["scale"] = float(generator.choice([0.25, 0.3, 1.0]))
    return operands, options


@pytest.mark.parametrize("name", DTYPES)
def test_math_path_is_covered(name: str) -> None:
    generator = np.random.default_rng(5)
    for _ in range(50):
        operands, options = configuration(generator, DTYPES[name], four=False)
        if generator.random() < 0.2 and "scale" in options:
            options["scale"] = -options["scale"]
        out, grad, gradients = run(operands, None, math=True, **options)
        result = er.scaled_dot_product_attention(*operands, **options)
        result.assert_covers(out)
        result.backward(grad).assert_covers(tuple(gradients))


@pytest.mark.parametrize("name", DTYPES)
def test_fused_cpu_kernel_is_covered_by_its_own_tolerance(name: str) -> None:
    generator = np.random.default_rng(6)
    algorithm = er.AttentionAlgorithm.torch_cpu()
    for k in range(50):
        operands, options = configuration(generator, DTYPES[name], four=True)
        if k == 0:  # several blocks of keys and of queries
            operands = [torch.from_numpy(generator.standard_normal(s)).to(DTYPES[name]) for s in ((1, 1, 200, 8), (1, 1, 520, 8), (1, 1, 520, 8))]
            options = {}
        out, grad, gradients = run(operands, None, math=False, **options)
        result = er.scaled_dot_product_attention(*operands, **options)
        result.assert_covers(out, tolerance=algorithm.tolerance(*operands, **options))
        tolerances = algorithm.backward_tolerance(*operands, grad, **options)
        result.backward(grad).assert_covers(tuple(gradients), tolerance=tuple(tolerances))


def test_fused_kernel_in_half_precision_needs_its_own_tolerance() -> None:
    generator = np.random.default_rng(7)
    operands = [torch.from_numpy(generator.standard_normal((1, 2, 16, 16))).bfloat16() for _ in range(3)]
    _, grad, gradients = run(operands, None, math=False)
    exact = er.scaled_dot_product_attention.backward(*operands, grad)
    assert not all(part.all() for part in exact.covers(tuple(gradients)))


def test_page_s_example() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 8, 16) for _ in range(3))
    out, grad, gradients = run([q, k, v], None, math=False, is_causal=True)
    result = er.scaled_dot_product_attention(q, k, v, is_causal=True)
    backward = result.backward(grad)
    assert result.covers(out).all()
    for name, gradient in zip(("grad_query", "grad_key", "grad_value"), gradients, strict=True):
        assert backward[name].covers(gradient).all()


def specials(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    out = generator.standard_normal(shape).astype(np.float32)
    chosen = generator.random(shape) < 0.12
    out[chosen] = generator.choice([np.inf, -np.inf, np.nan, 0.0, -0.0], chosen.sum())
    return out


def test_special_values_are_those_of_the_math_path() -> None:
    generator = np.random.default_rng(8)
    for k in range(150):
        queries, keys, features, values = (int(n) for n in generator.integers(1, 4, 4))
        operands = [torch.from_numpy(specials(generator, s)) for s in ((queries, features), (keys, features), (keys, values))]
        grad = torch.from_numpy(specials(generator, (queries, values)))
        options: dict[str, Any] = {}
        if k % 5 == 0:
            options["is_causal"] = True
        elif k % 5 == 1:
            options["attn_mask"] = torch.from_numpy(generator.random((queries, keys)) < 0.6)
        elif k % 5 == 2:
            mask = generator.standard_normal((queries, keys)).astype(np.float32)
            mask[generator.random(mask.shape) < 0.3] = -np.inf
            mask[generator.random(mask.shape) < 0.1] = np.inf
            options["attn_mask"] = torch.from_numpy(mask)
        elif k % 5 == 3:
            options["scale"] = float(generator.choice([0.0, -1.0, 2.0]))
        out, _, gradients = run(operands, grad, math=True, **options)
        result = er.scaled_dot_product_attention(*operands, **options)
        backward = result.backward(grad)
        for ours, theirs in zip([result.rounded, *backward.rounded], [out, *gradients], strict=True):
            np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs.numpy()))
            np.testing.assert_array_equal(np.isinf(ours), np.isinf(theirs.numpy()))
        assert result.covers(out).all()
        assert all(part.all() for part in backward.covers(tuple(gradients)))


def test_infinite_and_nan_scale_give_nan() -> None:
    x = torch.ones(2, 2)
    for scale in (float("inf"), float("nan")):
        out, grad, gradients = run([x, x, x], None, math=True, scale=scale)
        result = er.scaled_dot_product_attention(x, x, x, scale=scale)
        assert np.isnan(result.rounded).all()
        assert out.isnan().all()
        for ours, theirs in zip(result.backward(grad).rounded[:2], gradients[:2], strict=True):
            np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs.numpy()))


def test_fused_kernel_s_nan_is_not_covered() -> None:
    """With a causal mask and a negative scale the fused kernel multiplies minus infinity before it takes the maximum."""
    generator = np.random.default_rng(9)
    operands = [torch.from_numpy(generator.standard_normal((1, 1, 4, 4))).float() for _ in range(3)]
    out, _, _ = run(operands, None, math=False, is_causal=True, scale=-1.0)
    assert out.isnan().any(), "PyTorch has mended its kernel: this test may go"
    result = er.scaled_dot_product_attention(*operands, is_causal=True, scale=-1.0)
    assert not np.isnan(result.rounded).any()
    assert not result.covers(out).all()
    assert not result.covers(out, tolerance=er.AttentionAlgorithm.torch_cpu().tolerance(*operands, is_causal=True, scale=-1.0)).all()


def kernel(q: Any, k: Any, v: Any, g: Any, *, scale: float, leave_out_mean: bool, shift: int, narrow: bool) -> list[Any]:
    """A causal attention and its backward in float64, with a mistake; its results are rounded to the operands' dtype."""
    dtype = q.dtype
    q, k, v, g = (x.double() for x in (q, k, v, g))
    keys = k.shape[0]
    s = q @ k.T * scale
    s = s.masked_fill(~torch.ones(s.shape, dtype=torch.bool).tril(shift), -torch.inf)
    p = torch.softmax(s, -1)
    p = p.bfloat16().double() if narrow else p
    x = g @ v.T
    mean = 0 if leave_out_mean else (p * x).sum(-1, keepdim=True)
    ds = p * (x - mean)
    assert keys
    return [y.to(dtype) for y in (ds @ k * scale, ds.T @ q * scale, p.T @ g)]


MISTAKES = {
    "scale off by one percent": dict(scale=0.2525, leave_out_mean=False, shift=0, narrow=False),
    "mean left out": dict(scale=0.25, leave_out_mean=True, shift=0, narrow=False),
    "mask off by one": dict(scale=0.25, leave_out_mean=False, shift=1, narrow=False),
    "probabilities in bfloat16": dict(scale=0.25, leave_out_mean=False, shift=0, narrow=True),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_kernels_are_caught(mistake: str, dtype: Any) -> None:
    generator = np.random.default_rng(10)
    q, k, v, g = (torch.from_numpy(generator.standard_normal((16, 16))).to(dtype) for _ in range(4))
    exact = er.scaled_dot_product_attention.backward(q, k, v, g, is_causal=True)
    right = kernel(q, k, v, g, scale=0.25, leave_out_mean=False, shift=0, narrow=False)
    exact.assert_covers(tuple(right))
    wrong = kernel(q, k, v, g, **MISTAKES[mistake])  # type: ignore[arg-type]
    missed = 1 - np.mean(np.concatenate([np.ravel(c) for c in exact.covers(tuple(wrong))]))
    assert missed > (0.5 if dtype == torch.float32 else 0.05)
