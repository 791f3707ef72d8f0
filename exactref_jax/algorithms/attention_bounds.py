"""Rounding-error bounds of two ways to compute attention: with the scores in memory, and fused. Derivations: docs/attention.md.

All quantities here are nonnegative float64 arrays. Each is a sum of at most some thousand terms, each a chain of less than a hundred correctly
rounded operations or exponentials, so float64 itself adds less than `2**-38` relatively; `SLACK` pays for that. Differences are taken on exact
values before they are rounded (`exact_attention`), or with their own error added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..formats import Format
from .exact_attention import Head

SLACK = 1 + 2.0**-36


@dataclass(frozen=True, eq=False)
class Bounds:
    """Absolute errors of one head's results before they are rounded to the output format, and whether an intermediate may overflow."""

    out: np.ndarray
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    overflow: bool


@dataclass(frozen=True)
class Roundings:
    """What a kernel does, as numbers.

    Attributes:
        working: the format of the arithmetic.
        scale: roundings that the scale itself brings into a score.
        exponential: relative error of one exponential.
        lost: absolute error of an exponential below the normal range.
        narrow: unit roundoff of the format to which probabilities and dS are rounded before a product, or 0.
        narrow_lost: half the smallest number of that format, or 0: what rounding to it costs below its normal range.
        gradients: unit roundoff of the format in which blocks of the gradients are added, beyond the working format's, or 0.
        rescalings: how many times a row is rescaled by an online softmax.
        key_blocks: in how many blocks grad_query is added up; query_blocks: the other gradients.
        both: whether the scale's square root multiplies both operands, each product rounded; else the scale multiplies the scores.
    """

    working: Format
    scale: float
    exponential: float
    lost: float
    narrow: float = 0.0
    narrow_lost: float = 0.0
    gradients: float = 0.0
    rescalings: int = 0
    key_blocks: int = 1
    query_blocks: int = 1
    both: bool = True


def gamma(n: float, u: float) -> float:
    """`n u / (1 - n u)`, Higham, Lemma 3.1; infinite from `n u >= 1` on."""
    return n * u / (1 - n * u) if n * u < 1 else np.inf


def score_errors(h: Head, r: Roundings) -> tuple[np.ndarray, np.ndarray, float]:
    """(error of a computed score; perturbation of the exact score that explains the computed exponential; largest score before it is rounded)."""
    u, eta, features = r.working.unit_roundoff, r.working.smallest / 2, h.q.shape[1]
    count = features + (2 + 2 * r.scale if r.both else 1 + r.scale)
    a = gamma(count, u) * h.sums + features * eta * max(h.weight, 1.0)
    if r.both:
        a = a + np.sqrt(h.weight) * eta * (abs(h.q).sum(1, keepdims=True) + abs(h.k).sum(1)[None])
    hi, lo = h.scores
    reach = float(np.where(h.live, abs(hi) + a, 0.0).max(initial=0.0))
    a = np.where(h.live, a + (u * (abs(hi) + a) if h.masked else 0.0), 0.0)
    shown = np.where(h.live, hi, -np.inf)
    largest = shown.max(axis=1, keepdims=True, initial=-np.inf)
    below = np.where(h.live, abs((hi - np.where(np.isfinite(largest), largest, 0.0)) + lo), 0.0)
    worst = a.max(axis=1, keepdims=True, initial=0.0)
    d = a + u * (below + 2 * worst) + r.exponential + (r.rescalings * (r.exponential + 2 * u))
    # float64 holds differences of scores to 2**-52 of them, and scores to 2**-104.
    return a, np.where(h.live, d + 2.0**-51 * below + 2.0**-100 * abs(hi), 0.0), reach


def probability_range(h: Head, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(largest change, largest value) of each probability when every score moves by at most `d`: the exact range, which saturates.

    `p_j = 1 / (1 + sum_(l != j) exp(s_l - s_j))` is largest where `s_j` rises by `d_j` and the others fall, and smallest the other way. With
    `w_l = exp(s_l - s_j)` and `e = d_l + d_j`, `p+ / p - 1 = sum w_l (1 - exp(-e)) / (1 + sum w_l exp(-e))`, whose terms have one sign.
    """
    change, most = np.zeros(h.p.shape), np.zeros(h.p.shape)
    step = max(1, int(2**22 // max(h.p.shape[1] ** 2, 1)))
    for start in range(0, len(h.p), step):
        rows = slice(start, start + step)
        part = Head(**{**h.__dict__, "scores": (h.scores[0][rows], h.scores[1][rows]), "live": h.live[rows]})
        change[rows], most[rows] = _range(part.differences(), d[rows], h.p[rows], h.live[rows])
    return change, most


def _range(differences: np.ndarray, d: np.ndarray, p: np.ndarray, live: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    other = live[:, None, :] & ~np.eye(p.shape[1], dtype=bool)[None]
    e = np.minimum(d[:, None, :] + d[:, :, None], 1e300)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        w = np.where(other, np.exp(np.clip(differences, -745, 700)), 0.0)
        lower = np.where(other, np.exp(np.clip(differences - e, -745, 700)), 0.0).sum(2)
        upper = np.where(other, np.exp(np.clip(differences + e, -745, 700)), 0.0).sum(2)
        rise = (w * -np.expm1(-e)).sum(2) / (1 + lower)
        fall = np.where(other, w * np.expm1(np.minimum(e, 700)), 0.0).sum(2) / (1 + upper)
        most = np.where(live, 1 / (1 + lower), 0.0)
        # Where exp(s_l - s_j) leaves float64's range, the probability itself is below 1e-300: take its largest value.
        tame = np.where(other, differences, 0.0).max(2, initial=0.0) < 690
        up = np.where(tame, p * rise, most)
        down = np.where(tame & np.isfinite(fall), np.minimum(p * fall, p), p)
    return np.where(live, np.maximum(up, down), 0.0) * SLACK, np.minimum(most * SLACK, 1.0)


def math_path(h: Head, r: Roundings) -> Bounds:
    """Scores, probabilities and dS in memory, in the working format (PyTorch's math path)."""
    u, eta = r.working.unit_roundoff, r.working.smallest / 2
    keys, values = h.p.shape[1], h.v.shape[1]

    def g(n: float) -> float:
        return gamma(n, u)

    _, d, score = score_errors(h, r)
    change, most = probability_range(h, d)
    lost = np.where(h.live, 2 * r.lost + eta, 0.0)
    av, ax, centred, ads = abs(h.v), abs(h.x), abs(h.centred), abs(h.ds)
    spread = _spread(change, h.v, h.out)
    out = (1 + g(keys)) * spread + g(keys) * abs(h.out) + g(keys + 1) * (1 + g(keys)) * (most @ av) + lost @ av + keys * eta
    # D: the common part of x drops out, because the changes of the probabilities sum to zero.
    mean = (change * centred).sum(1, keepdims=True)
    mean2 = g(keys) * (abs(h.mean) + mean) + (1 + g(keys)) * (most * (g(keys + 1) * ax + (1 + g(keys + 1)) * g(values) * h.products)).sum(1, keepdims=True)
    mean2 = mean2 + (lost * (ax + g(values) * h.products)).sum(1, keepdims=True) + (keys + values) * eta
    inner = g(values) * h.products + values * eta + mean2
    dds = change * centred + most * mean + most * (g(keys + 3) * (centred + mean) + (1 + g(keys + 3)) * inner)
    dds = dds + lost * (centred + mean + inner) + np.where(h.live, eta, 0.0)
    dp = change + g(keys + 1) * most + lost
    return _gradients(h, r, out, dp, dds, most, ads, score)


def _spread(change: np.ndarray, v: np.ndarray, out: np.ndarray) -> np.ndarray:
    """`sum_j change_j |v_j - out|`; the difference is rounded once, and out is known to an ulp."""
    result = np.zeros(out.shape)
    for column in range(v.shape[1]):
        a, b = v[:, column][None], out[:, column][:, None]
        result[:, column] = (change * (abs(a - b) + 2.0**-51 * (abs(a) + abs(b)))).sum(1)
    return result


def fused(h: Head, r: Roundings) -> Bounds:
    """Blocks of keys with an online softmax; in the backward, probabilities again from the stored logarithm of the sum, and `D = sum g out`."""
    u, eta = r.working.unit_roundoff, r.working.smallest / 2
    keys, values = h.p.shape[1], h.v.shape[1]

    def g(n: float) -> float:
        return gamma(n, u)

    a, d, score = score_errors(h, r)
    change, most = probability_range(h, d)
    lost = np.where(h.live, r.lost + eta, 0.0)
    av, ag = abs(h.v), abs(h.g)
    centred, ads = abs(h.centred), abs(h.ds)
    steps = keys + 2 + r.rescalings
    out = (
        (1 + g(steps)) * _spread(change, h.v, h.out)
        + g(steps) * abs(h.out)
        + (g(steps) + r.narrow) * (1 + g(steps)) * (most @ av)
        + (lost + r.narrow_lost) @ av
        + steps * eta
    )
    stored = out + r.narrow * (abs(h.out) + out) + r.narrow_lost
    # The stored logarithm of the sum: log is monotone, and a perturbation of the scores moves it by at most this.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        up = np.log1p((h.p * np.expm1(np.minimum(d, 700))).sum(1, keepdims=True))
        down = -np.log1p(-np.minimum((h.p * -np.expm1(-d)).sum(1, keepdims=True), 1 - 1e-16))
    moved = np.minimum(np.maximum(up, down), d.max(axis=1, keepdims=True, initial=0.0)) + g(steps)
    hi = h.scores[0]
    largest = np.where(h.live, hi, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    log_total = np.log(np.maximum(h.total, 1.0))
    worst = a.max(axis=1, keepdims=True, initial=0.0)
    moved = moved + 2 * u * log_total + u * (abs(largest) + worst + log_total)
    exponent = np.where(h.live, a + moved + u * (abs(largest + log_total - hi) + a + moved) * 2, 0.0)
    with np.errstate(over="ignore"):
        relative = np.expm1(np.minimum(exponent, 700)) * (1 + r.exponential) + r.exponential
    dp = np.where(h.live, h.p * relative, 0.0) + lost
    again = h.p + dp
    mean = (ag * stored).sum(1, keepdims=True) + g(values) * (ag * (abs(h.out) + stored)).sum(1, keepdims=True) + values * eta
    inner = g(values) * h.products + values * eta + mean
    dds = dp * centred + again * inner + g(2) * again * (centred + inner) + np.where(h.live, eta, 0.0)
    dds = dds + r.narrow * (ads + dds) + np.where(h.live, r.narrow_lost, 0.0)
    return _gradients(h, r, out, dp + r.narrow * again + np.where(h.live, r.narrow_lost, 0.0), dds, again, ads, score)


def _gradients(h: Head, r: Roundings, out: np.ndarray, dp: np.ndarray, dds: np.ndarray, most: np.ndarray, ads: np.ndarray, score: float) -> Bounds:
    """The last products of both backwards, given the errors of probabilities and dS."""
    u, eta = r.working.unit_roundoff, r.working.smallest / 2
    queries, keys = h.p.shape
    ag, ak, aq = abs(h.g), abs(h.k), abs(h.q)
    extra = 2 + 2 * r.scale if r.both else 1 + r.scale
    root = np.sqrt(h.weight)
    reach = ads + dds
    blocks_q, blocks_k = r.gradients * (r.key_blocks - 1), r.gradients * (r.query_blocks - 1)
    query = h.weight * (dds @ ak + (gamma(keys + extra, u) + blocks_q) * (reach @ ak))
    query = query + (h.weight + root) * eta * (keys + reach.sum(1, keepdims=True)) + eta + r.key_blocks * r.narrow_lost
    key = h.weight * (dds.T @ aq + (gamma(queries + extra, u) + blocks_k) * (reach.T @ aq))
    key = key + (h.weight + root) * eta * (queries + reach.sum(0)[:, None]) + eta + r.query_blocks * r.narrow_lost
    value = dp.T @ ag + (gamma(queries, u) + blocks_k) * ((h.p + dp).T @ ag) + queries * eta + r.query_blocks * r.narrow_lost
    # Whether an intermediate may leave the working format: products and sums of magnitudes, each with its bound.
    largest = [h.sums, h.products, reach, reach @ ak, reach.T @ aq, h.weight * (reach @ ak), most @ abs(h.v) + out, (h.p + dp).T @ ag]
    largest += [abs(h.q) * max(root, 1.0), abs(h.k) * max(root, 1.0), abs(h.mean)]
    top = max((float(x.max(initial=0.0)) for x in largest), default=0.0)
    # A score may round to the maximum itself (a mask of the most negative number); a difference of two may overflow, to a probability of 0.
    overflow = not (top * 2 < r.working.maximum and score <= r.working.maximum * (1 + u / 2))
    return Bounds(out * SLACK, query * SLACK, key * SLACK, value * SLACK, overflow)
