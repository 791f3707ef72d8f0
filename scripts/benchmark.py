"""Ratios against the peers, in one run: each figure is the median of several fresh processes, taken in turns.

With no argument, prints the table that docs/performance.md keeps. With a job and a program, measures one of them and prints seconds.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

RUNS = 7


def programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Programs of a few dozen numbers, float32."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    generator = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype(np.float32)

    def classifier(parameters: Any, x: Any, labels: Any) -> Any:
        hidden = jax.nn.relu(x @ parameters[0] + parameters[1])
        scores = jax.nn.log_softmax(hidden @ parameters[2])
        return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], 1))

    def attention(x: Any) -> Any:
        return jnp.sum(jax.nn.softmax(x @ x.T / 2) @ x)

    def layer_norm(x: Any) -> Any:
        centred = x - jnp.mean(x, -1, keepdims=True)
        return jnp.sum((centred * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5)) ** 3)

    return {
        "classifier, 36 parameters": (classifier, ((normal(5, 4), normal(4), normal(4, 3)), normal(2, 5), np.array([0, 2], np.int32))),
        "attention, 4 x 4": (attention, (normal(4, 4),)),
        "layer norm, 3 x 4": (layer_norm, (normal(3, 4),)),
    }


def first_gradient(program: str, exact: bool) -> float:
    """Seconds to the first gradient: ours (traced, decided, rounded), or JAX's compiled in float64. JAX is awake before the clock starts."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import exactref_jax as er

    function, arguments = programs()[program]
    jnp.zeros(1).block_until_ready()
    if exact:
        start = time.perf_counter()
        _ = er.grad(function)(*arguments).rounded
        return time.perf_counter() - start
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda v: v.astype(np.float64) if v.dtype == np.float32 else v, arguments)
        start = time.perf_counter()
        jax.block_until_ready(jax.jit(jax.grad(function))(*wide))
        return time.perf_counter() - start


def import_time(package: str) -> float:
    """Seconds to import JAX, or JAX and then this package."""
    start = time.perf_counter()
    import jax  # noqa: F401

    if package == "exactref_jax":
        import exactref_jax  # noqa: F401
    return time.perf_counter() - start


def measure(job: str, program: str) -> float:
    """One job in this process."""
    if job == "import":
        return import_time(program)
    return first_gradient(program, exact=job == "exact")


def medians(jobs: list[tuple[str, str]]) -> list[float]:
    """Each job in fresh processes, in turns, so that a slow minute of the machine hits all alike."""
    seconds: list[list[float]] = [[] for _ in jobs]
    for _ in range(RUNS):
        for times, (job, program) in zip(seconds, jobs, strict=True):
            out = subprocess.run([sys.executable, __file__, job, program], check=True, capture_output=True, text=True)
            times.append(float(out.stdout))
    return [statistics.median(times) for times in seconds]


def main() -> None:
    if len(sys.argv) == 3:
        print(measure(*sys.argv[1:]))
        return
    import jax

    print(f"Python {platform.python_version()}, jax {jax.__version__}, {platform.machine()}, medians of {RUNS} processes\n")
    print("| job | ours | JAX | ratio |")
    print("|---|---|---|---|")
    for program in programs():
        ours, theirs = medians([("exact", program), ("compiled", program)])
        print(f"| first `er.grad`, {program}, against the first compiled float64 gradient | {ours:.3f} s | {theirs:.3f} s | {ours / theirs:.2f} |", flush=True)
    ours, theirs = medians([("import", "exactref_jax"), ("import", "jax")])
    print(f"| import, over JAX's own ({ours - theirs:+.3f} s) | {ours:.3f} s | {theirs:.3f} s | {ours / theirs:.2f} |")


if __name__ == "__main__":
    main()
