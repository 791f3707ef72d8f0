"""The main job: whose gradients of a digits classifier are right?

A two-layer softmax classifier with cross-entropy on real handwritten digits. The exact gradient of every parameter, rounded once, stands beside the
gradients of JAX in float32 and bfloat16 and of PyTorch in float32, and beside one that is wrong on purpose: it divides the loss by n - 1, which a
comparison with a relative tolerance of two percent lets pass.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import exactref_jax as er

BATCH, HIDDEN, CLASSES = 64, 32, 10


def logits(parameters: dict[str, Any], images: Any) -> Any:
    hidden = jnp.tanh(images @ parameters["W1"] + parameters["b1"])
    return hidden @ parameters["W2"] + parameters["b2"]


def loss(parameters: dict[str, Any], images: Any, labels: Any) -> Any:
    log_probabilities = jax.nn.log_softmax(logits(parameters, images))
    return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], 1))


def wrong_loss(parameters: dict[str, Any], images: Any, labels: Any) -> Any:
    return loss(parameters, images, labels) * (len(labels) / (len(labels) - 1))


def data() -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Parameters, images scaled to [0, 1], labels."""
    digits = load_digits()
    images, labels = digits.data[:BATCH] / 16, digits.target[:BATCH]
    generator = np.random.default_rng(0)
    shapes = {"W1": (images.shape[1], HIDDEN), "b1": (HIDDEN,), "W2": (HIDDEN, CLASSES), "b2": (CLASSES,)}
    parameters = {k: (generator.normal(size=s) / np.sqrt(s[0])).astype(np.float32) for k, s in shapes.items()}
    return parameters, images.astype(np.float32), labels.astype(np.int32)


def torch_gradient(parameters: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    import torch

    p = {k: torch.tensor(v, requires_grad=True) for k, v in parameters.items()}
    hidden = torch.tanh(torch.tensor(images) @ p["W1"] + p["b1"])
    torch.nn.functional.cross_entropy(hidden @ p["W2"] + p["b2"], torch.tensor(labels).long()).backward()
    return {k: v.grad for k, v in p.items()}


def main() -> None:
    parameters, images, labels = data()
    print(f"{len(images)} digits, {images.shape[1]} -> {HIDDEN} -> {CLASSES}, {sum(v.size for v in parameters.values())} parameters\n")

    start = time.perf_counter()
    exact = er.grad(loss)(parameters, images, labels)
    print(exact)
    print(f"({time.perf_counter() - start:.1f} s)\n")

    candidates = {"jax_float32": jax.jit(jax.grad(loss))(parameters, images, labels)}
    try:
        candidates["torch_float32"] = torch_gradient(parameters, images, labels)
    except ModuleNotFoundError:
        print("PyTorch is not installed: its gradients are left out.\n")
    candidates["wrong_float32"] = jax.jit(jax.grad(wrong_loss))(parameters, images, labels)

    # In bfloat16 the program has other inputs, so it has another exact gradient.
    halved = {k: er.asarray(v, "bfloat16") for k, v in parameters.items()}, er.asarray(images, "bfloat16")
    start = time.perf_counter()
    exact_halved = er.grad(loss)(*halved, labels)
    print(exact_halved)
    print(f"({time.perf_counter() - start:.1f} s)\n")

    verdicts = exact.judge(**candidates)
    halved_verdicts = exact_halved.judge(jax_bfloat16=jax.jit(jax.grad(loss))(*halved, labels))
    print(verdicts, halved_verdicts, sep="\n\n", end="\n\n")

    for name in candidates:
        print(f"{name}: {'within what an honest implementation may do' if exact.judge(**{name: candidates[name]}).covered else 'WRONG'}")
    print(f"jax_bfloat16: {'within what an honest implementation may do' if halved_verdicts.covered else 'WRONG'}\n")
    try:
        exact.assert_covers(candidates["wrong_float32"])
    except er.NotCoveredError as error:
        print(error)


if __name__ == "__main__":
    main()
