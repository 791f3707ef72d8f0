"""Attention and its gradients with Arb at 400 bits, written as the textbook has them; what the library is compared with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from flint import acb, acb_mat, arb, ctx


@contextmanager
def bits(precision: int = 400) -> Any:
    before = ctx.prec
    ctx.prec = precision
    try:
        yield
    finally:
        ctx.prec = before


def rounded(ball: arb, dtype: Any) -> float:
    """The number of a dtype that a ball rounds to, by comparison with the midpoints beside a first guess."""
    guess = np.asarray(float(ball)).astype(dtype)
    if dtype == np.float64:
        down, up = np.nextafter(guess, -np.inf), np.nextafter(guess, np.inf)
    else:
        down, up = _neighbours(guess)
    candidates = sorted({float(down), float(guess), float(up)})
    for low, high in pairwise(candidates):
        middle = (arb(low) + arb(high)) / 2
        if ball < middle:
            return low
        if not ball > middle:
            # Within 2**-390 of a midpoint: a sum of terms of one live key lies on it, and the tie goes to the even number.
            return low if int(np.asarray(low).astype(dtype).view(f"uint{8 * np.dtype(dtype).itemsize}")) % 2 == 0 else high
    return candidates[-1]


def _neighbours(guess: np.ndarray) -> tuple[Any, Any]:
    """The numbers of a dtype below and above, by its bits."""
    pattern = int(guess.view(f"uint{8 * guess.dtype.itemsize}"))

    def number(bits: int) -> Any:
        return np.asarray(bits, f"uint{8 * guess.dtype.itemsize}").view(guess.dtype)

    if float(guess) == 0:
        return -number(1), number(1)
    outward, inward = number(pattern + 1), number(pattern - 1)
    return (inward, outward) if float(guess) > 0 else (outward, inward)


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray, bias: np.ndarray | None, scale: float | None
) -> tuple[list[list[arb]], list[list[arb]], list[list[arb]], list[list[arb]]]:
    """Output and gradients of one head: lists of rows of balls. `bias` is float64, -inf where masked."""
    (queries, features), keys, values = q.shape, len(k), v.shape[1]
    factor = 1 / arb(features).sqrt() if scale is None else arb(scale)
    p: list[list[arb]] = []
    for i in range(queries):
        live = [j for j in range(keys) if bias is None or bias[i, j] > -np.inf]
        scores = {j: factor * sum((arb(float(q[i, e])) * arb(float(k[j, e])) for e in range(features)), arb(0)) for j in live}
        if bias is not None:
            scores = {j: s + arb(float(bias[i, j])) for j, s in scores.items()}
        exponentials = {j: s.exp() for j, s in scores.items()}
        total = sum(exponentials.values(), arb(0))
        p.append([exponentials[j] / total if j in exponentials else arb(0) for j in range(keys)])
    x = [[sum((arb(float(g[i, e])) * arb(float(v[j, e])) for e in range(values)), arb(0)) for j in range(keys)] for i in range(queries)]
    mean = [sum((p[i][j] * x[i][j] for j in range(keys)), arb(0)) for i in range(queries)]
    ds = [[p[i][j] * (x[i][j] - mean[i]) for j in range(keys)] for i in range(queries)]

    def table(rows: int, columns: int, f: Callable[[int, int], arb]) -> list[list[arb]]:
        return [[f(i, e) for e in range(columns)] for i in range(rows)]

    out = table(queries, values, lambda i, e: sum((p[i][j] * arb(float(v[j, e])) for j in range(keys)), arb(0)))
    grad_q = table(queries, features, lambda i, e: factor * sum((ds[i][j] * arb(float(k[j, e])) for j in range(keys)), arb(0)))
    grad_k = table(keys, features, lambda j, e: factor * sum((ds[i][j] * arb(float(q[i, e])) for i in range(queries)), arb(0)))
    grad_v = table(keys, values, lambda j, e: sum((p[i][j] * arb(float(g[i, e])) for i in range(queries)), arb(0)))
    return out, grad_q, grad_k, grad_v


def total(tables: list[list[list[arb]]]) -> list[list[arb]]:
    """Copies added up."""
    return [[sum((t[i][e] for t in tables), arb(0)) for e in range(len(tables[0][i]))] for i in range(len(tables[0]))]


def matrix_exp(a: np.ndarray) -> list[list[acb]]:
    """Arb's exponential of one matrix."""
    n = len(a)
    found = acb_mat(n, n, [acb(complex(x).real, complex(x).imag) for x in a.flat]).exp()
    return [[found[i, j] for j in range(n)] for i in range(n)]
