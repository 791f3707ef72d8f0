"""How tight the tolerances of PyTorch's attention and matrix exponential are: largest observed error as a share of the tolerance.

Prints the tables that docs/attention.md and docs/matrix_exp.md keep. Needs PyTorch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import exactref_jax as er

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from test_attention_torch import DTYPES, configuration, run

RUNS = 200


def attention(name: str, fused: bool) -> list[float]:
    """Largest share of each result over all runs."""
    generator = np.random.default_rng(42)
    algorithm = er.AttentionAlgorithm.torch_cpu() if fused else er.AttentionAlgorithm.math()
    worst = [0.0] * 4
    for _ in range(RUNS):
        operands, options = configuration(generator, DTYPES[name], four=fused)
        out, grad, gradients = run(operands, None, math=not fused, **options)
        result = er.scaled_dot_product_attention(*operands, **options)
        backward = result.backward(grad)
        tolerances = [algorithm.tolerance(*operands, **options), *algorithm.backward_tolerance(*operands, grad, **options)]
        parts = [result, *(backward[n] for n in ("grad_query", "grad_key", "grad_value"))]
        for k, (part, candidate, tolerance) in enumerate(zip(parts, [out, *gradients], tolerances, strict=True)):
            worst[k] = max(worst[k], share(part, candidate, tolerance))
    return worst


def share(result: Any, candidate: Any, tolerance: np.ndarray) -> float:
    lower, upper = result.interval
    error = np.abs(candidate.double().numpy() - (lower + upper) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(error == 0, 0.0, error / tolerance).max(initial=0.0))


def exponential(name: str, norm: float) -> list[float]:
    """Largest share of the exponential and of its gradient."""
    generator = np.random.default_rng(43)
    dtype = {"float32": np.float32, "float64": np.float64}[name]
    worst = [0.0, 0.0]
    for _ in range(RUNS):
        n = int(generator.integers(2, 9))
        a = generator.standard_normal((2, n, n))
        a = (a / np.abs(a).sum(1).max() * norm).astype(dtype)
        g = generator.standard_normal((2, n, n)).astype(dtype)
        leaf = torch.tensor(a, requires_grad=True)
        out = torch.matrix_exp(leaf)
        out.backward(torch.tensor(g))
        result = er.matrix_exp(a)
        backward = result.backward(g)["grad_A"]
        worst[0] = max(worst[0], share(result, out.detach(), result.tolerance))
        worst[1] = max(worst[1], share(backward, leaf.grad, backward.tolerance))
    return worst


def main() -> None:
    print(f"PyTorch {torch.__version__}, {RUNS} runs each\n")
    print("| kernel | dtype | output | grad_query | grad_key | grad_value |\n|---|---|---|---|---|---|")
    for fused in (False, True):
        for name in DTYPES:
            print(f"| {'torch_cpu()' if fused else 'math()'} | {name} | " + " | ".join(f"{x:.3g}" for x in attention(name, fused)) + " |", flush=True)
    print("\n| dtype | 1-norm | matrix_exp | grad_A |\n|---|---|---|---|")
    for name in ("float32", "float64"):
        for norm in (0.1, 1.0, 10.0):
            print(f"| {name} | {norm:g} | " + " | ".join(f"{x:.3g}" for x in exponential(name, norm)) + " |", flush=True)


if __name__ == "__main__":
    main()
