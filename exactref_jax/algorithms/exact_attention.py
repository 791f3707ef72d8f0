"""The exact quantities of one head of attention, in float64, for the bounds of kernels: scores, probabilities, and what the backward makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arithmetic.ball import Ball, precision
from ..arithmetic.surd import Scale

#: Working precision in bits. Everything here is rounded to float64 afterwards.
_BITS = 192


@dataclass(frozen=True, eq=False)
class Head:
    """One head with L queries, S keys: exact values, each correct to float64's last place or better.

    Attributes:
        q, k, v, g: the operands and the gradient of the output, float64 (non-finite numbers replaced by zero).
        live: (L, S), where a score is above minus infinity.
        scores: two float64 arrays (L, S) whose sum is the score, to about 106 bits.
        p: probabilities.
        x: `g v^T`; mean: `D = sum p x`, (L, 1); centred: `x - D`; ds: `p (x - D)`.
        out: `p v`; total: sum of `exp(s - largest)`, (L, 1).
        weight: |scale|; masked: whether a float mask was added to the scores.
        sums: `|q| |k|^T` times |scale|; products: `|g| |v|^T`.
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    g: np.ndarray
    live: np.ndarray
    scores: tuple[np.ndarray, np.ndarray]
    p: np.ndarray
    x: np.ndarray
    mean: np.ndarray
    centred: np.ndarray
    ds: np.ndarray
    out: np.ndarray
    total: np.ndarray
    weight: float
    masked: bool
    sums: np.ndarray
    products: np.ndarray

    def differences(self) -> np.ndarray:
        """(L, S, S): `s_l - s_j` at [i, j, l]; 0 where either is dead."""
        hi, lo = self.scores
        out = (hi[:, None, :] - hi[:, :, None]) + (lo[:, None, :] - lo[:, :, None])
        return np.where(self.live[:, None, :] & self.live[:, :, None], out, 0.0)


def head(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray, bias: np.ndarray | None, scale: Scale, weight: float) -> Head:
    """The exact quantities of one head. `bias` is added to the scores: float64, `-inf` where masked."""
    field: Any = Ball()
    q, k, v, g = (np.where(np.isfinite(z), z, 0.0) for z in (q, k, v, g))
    keys = len(k)
    live = np.ones((len(q), keys), bool) if bias is None else np.broadcast_to(bias, (len(q), keys)) > -np.inf
    shift = np.zeros((len(q), keys)) if bias is None else np.where(live & np.isfinite(bias), bias, 0.0)
    with precision(_BITS):
        Q, K, V, G = (field.lift(z) for z in (q, k, v, g))

        def product(a: Any, b: Any) -> Any:
            return (field.matmul((a[0][None],), (b[0][None],))[0][0],)

        def transposed(a: Any) -> Any:
            return (a[0].T,)

        s = field.add(field.scale(product(Q, transposed(K)), scale), field.lift(shift))
        enclosed = field.enclosed(s)
        near = np.where(live, enclosed.hi, -np.inf)
        if keys:
            top = near.argmax(axis=1)[:, None]
            e = field.exp(field.sub(s, (np.take_along_axis(s[0], top, 1),)))
        else:
            e = s
        e = (np.where(live, e[0], field.lift(np.zeros(1))[0][0]),)
        z = (field.sum(e, 1)[0][:, None],)
        dead = ~live.any(axis=1, keepdims=True)
        p = field.div(e, (np.where(dead, field.lift(np.ones(1))[0][0], z[0]),))
        x = product(G, transposed(V))
        mean = (field.sum(field.mul(p, x), 1)[0][:, None],)
        centred = field.sub(x, mean)
        ds = field.mul(p, centred)
        numbers = dict(p=p, x=x, mean=mean, centred=centred, ds=ds, out=product(p, V), total=z)
        values = {name: field.enclosed(y).hi for name, y in numbers.items()}
    scores = (np.where(live, enclosed.hi, 0.0), np.where(live, enclosed.lo, 0.0))
    sums, products = weight * (abs(q) @ abs(k).T), abs(g) @ abs(v).T
    return Head(q, k, v, g, live, scores, **values, weight=weight, masked=bool(shift.any()), sums=sums, products=products)
