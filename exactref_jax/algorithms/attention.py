"""Named kernels of attention: what each may be off by."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..arithmetic.surd import Scale, surd
from ..formats import FLOAT32, FLOAT64, FORMATS, Format, decode, ulp
from ..inputs import asarray
from ..operations import attention as operation
from .attention_bounds import SLACK, Bounds, Roundings, fused, gamma, math_path
from .exact_attention import Head, head

Gradients = namedtuple("Gradients", ["grad_query", "grad_key", "grad_value"])


@dataclass(frozen=True)
class AttentionAlgorithm:
    """How a kernel computes attention; it gives the tolerance of that kernel.

    The ready-made ones are `math()`, `flash()` and `torch_cpu()`. The derivation of both bounds stands in docs/attention.md.

    Attributes:
        name: for messages.
        online: whether scores stay in blocks: an online softmax, probabilities recomputed in the backward from the stored logarithm of their sum, and
            `D = sum g out` from the stored output. Else scores and probabilities are held in the working format.
        key_block: keys in a block.
        query_block: queries in a block of the backward: a number, or pairs (least number of queries, block).
        narrow_probabilities: whether probabilities and dS are rounded to the operands' half format before a product.
        narrow_accumulation: whether the blocks of a gradient are added in the output's format.
        scale_both: whether both operands are multiplied by the scale's square root; else the scores are multiplied by the scale.
        exponential_ulps: ulps that an exponential may be off.
        flush_below: probabilities below this may be computed as zero (relative to the largest of their row), in float32.

    Example:
        >>> import exactref_jax as er, numpy as np
        >>> q = k = v = np.eye(2, dtype=np.float32)[None, None]
        >>> float(er.AttentionAlgorithm.math().tolerance(q, k, v).max()) < 1e-6
        True
    """

    name: str
    online: bool
    key_block: int = 1 << 62
    query_block: int | tuple[tuple[int, int], ...] = 1 << 62
    narrow_probabilities: bool = False
    narrow_accumulation: bool = False
    scale_both: bool = False
    exponential_ulps: float = 1.0
    flush_below: float = 0.0

    @staticmethod
    def math() -> AttentionAlgorithm:
        """PyTorch's math path: scores in memory, in float32 for half formats; both operands scaled; exponentials to one ulp (SLEEF, "u10")."""
        return AttentionAlgorithm("math", online=False, scale_both=True)

    @staticmethod
    def flash() -> AttentionAlgorithm:
        """FlashAttention-2 (Dao, 2023, algorithms 1 and 2) as its CUDA kernels run it.

        Blocks of 64 keys and queries at the smallest; half probabilities and dS enter the products; gradients are added in float32; exponentials
        are base 2 by the GPU's approximation, 2 ulps (CUDA C++ Programming Guide, `ex2.approx`), of an argument with one more rounding: together 4.
        """
        return AttentionAlgorithm("flash", online=True, key_block=64, query_block=64, narrow_probabilities=True, exponential_ulps=4.0)

    @staticmethod
    def torch_cpu() -> AttentionAlgorithm:
        """The fused kernel that PyTorch picks on a CPU for four-dimensional operands.

        Blocks of 512 keys; in the backward of 32 queries (64 from 192 queries on, 256 from 768 on); half probabilities and dS enter the products;
        gradients are added up in the output's format; float32 exponentials to 20 ulps, zero below `exp(-87)` (its `exp_u20`).
        """
        blocks = ((0, 32), (192, 64), (768, 256))
        return AttentionAlgorithm(
            "torch_cpu",
            online=True,
            key_block=512,
            query_block=blocks,
            narrow_probabilities=True,
            narrow_accumulation=True,
            exponential_ulps=20.0,
            flush_below=float(np.exp(-87.0)),
        )

    def tolerance(self, query: Any, key: Any, value: Any, **options: Any) -> np.ndarray:
        """How far this kernel's forward may be from the exact value.

        Args:
            query: as in `er.scaled_dot_product_attention`, like the other operands.
            key: likewise.
            value: likewise.
            **options: `attn_mask`, `is_causal`, `scale`, `enable_gqa`.

        Returns:
            Float64, of the output's shape: absolute, for `result.covers(candidate, tolerance=...)`.
        """
        return Problem(query, key, value, None, options).forward(self)

    def backward_tolerance(self, query: Any, key: Any, value: Any, grad: Any, **options: Any) -> Gradients:
        """How far this kernel's gradients may be from the exact ones: `grad_query`, `grad_key`, `grad_value`, float64 arrays of the operands' shapes.

        Args:
            query: as in `er.scaled_dot_product_attention.backward`, like all others.
            key: likewise.
            value: likewise.
            grad: the gradient of the output.
            **options: `attn_mask`, `is_causal`, `scale`, `enable_gqa`.
        """
        return Gradients(*Problem(query, key, value, grad, options).backward(self))

    def roundings(self, fmt: Format, queries: int, keys: int, default_scale: bool) -> Roundings:
        """The numbers of this kernel for operands of a format."""
        working = FLOAT64 if fmt is FLOAT64 else FLOAT32
        u, half = working.unit_roundoff, working is not fmt
        if self.scale_both:
            # The root of the scale: rounded to float32 (three roundings in float64 before that are below 2**-26 of an ulp of it), or two in float64.
            scale = 1.0 + 2.0**-26 if working is FLOAT32 else 2.0 if default_scale else 1.0
        else:
            scale = 1.0 if working is FLOAT32 else 2.0 if default_scale else 0.0
        block = self.query_block if isinstance(self.query_block, int) else max(b for least, b in self.query_block if queries >= least)
        key_blocks, query_blocks = -(-keys // self.key_block) or 1, -(-queries // block) or 1
        return Roundings(
            working,
            scale,
            2 * self.exponential_ulps * u,
            max(self.flush_below if working is FLOAT32 else 0.0, 2 * working.smallest),
            narrow=fmt.unit_roundoff if half and self.narrow_probabilities else 0.0,
            narrow_lost=fmt.smallest / 2 if half and self.narrow_probabilities else 0.0,
            gradients=fmt.unit_roundoff if half and self.narrow_accumulation else u,
            rescalings=key_blocks - 1 if self.online else 0,
            key_blocks=key_blocks if self.online else 1,
            query_blocks=query_blocks if self.online else 1,
            both=self.scale_both,
        )


class Problem:
    """Attention on given operands, head by head, and how heads are copied and added up."""

    def __init__(self, query: Any, key: Any, value: Any, grad: Any, options: dict[str, Any]):
        unknown = set(options) - {"attn_mask", "is_causal", "scale", "enable_gqa"}
        if unknown:
            raise TypeError(f"AttentionAlgorithm: unknown argument {sorted(unknown)[0]!r}; wanted attn_mask, is_causal, scale or enable_gqa.")
        mask = options.get("attn_mask")
        mask = None if mask is None else asarray(mask, argument="attn_mask")
        arrays = [asarray(x, argument=n) for n, x in (("query", query), ("key", key), ("value", value))]
        q, k, v = arrays
        operation.check(q, k, v, mask, 0.0, options.get("is_causal", False), options.get("enable_gqa", False))
        self.format = FORMATS[arrays[0].dtype.name]
        self.special = any(not np.isfinite(decode(x)).all() for x in arrays)
        self.operands = [decode(x) for x in arrays]
        self.scale_given = options.get("scale")
        queries, keys = self.operands[0].shape[-2], self.operands[1].shape[-2]
        self.shape = (queries, keys)
        batches = [list(x.shape[:-2]) for x in self.operands]
        self.groups = [1, 1, 1]
        if options.get("enable_gqa", False):
            heads = batches[0][-1]
            self.groups = [1, heads // max(batches[1][-1], 1), heads // max(batches[2][-1], 1)]
            for b in batches:
                b[-1] = heads
        self.batch = np.broadcast_shapes(*map(tuple, batches))
        self.bias = self._bias(mask, bool(options.get("is_causal", False)), np.broadcast_shapes(*map(tuple, batches[:2])))
        self.grad = np.zeros((*self.batch, queries, self.operands[2].shape[-1])) if grad is None else decode(asarray(grad, argument="grad"))
        self.special = self.special or not np.isfinite(self.grad).all()

    def _bias(self, mask: Any, causal: bool, batch: Sequence[int]) -> np.ndarray | None:
        if causal:
            mask = np.tril(np.ones(self.shape, bool))
        if mask is None:
            return None
        numbers = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else decode(mask)
        return np.broadcast_to(np.broadcast_to(numbers, (*batch, *self.shape)), (*self.batch, *self.shape))

    def _full(self, k: int) -> np.ndarray:
        """An operand with all its copies."""
        x = self.operands[k]
        if self.groups[k] > 1:
            x = np.repeat(x, self.groups[k], axis=-3)
        return np.broadcast_to(x, (*self.batch, *x.shape[-2:]))

    def _heads(self, algorithm: AttentionAlgorithm, see: Callable[[tuple[int, ...], Head, Bounds], None]) -> Roundings:
        q, k, v = (self._full(i) for i in range(3))
        scale, weight = self._scale()
        r = algorithm.roundings(self.format, *self.shape, self.scale_given is None)
        for at in np.ndindex(*self.batch):
            h = head(q[at], k[at], v[at], self.grad[at], None if self.bias is None else self.bias[at], scale, weight)
            see(at, h, fused(h, r) if algorithm.online else math_path(h, r))
        return r

    def _scale(self) -> tuple[Scale, float]:
        features = self.operands[0].shape[-1]
        if self.scale_given is None:
            scale: Scale = surd(Fraction(1, features), features) if features else Fraction(1)
            return scale, 1 / np.sqrt(features) * (1 + 2.0**-50) if features else 1.0
        finite = np.isfinite(self.scale_given)
        return Fraction(self.scale_given if finite else 0), abs(float(self.scale_given)) if finite else 0.0

    def _final(self, exact: np.ndarray, bound: np.ndarray) -> np.ndarray:
        """The last rounding, to a half format: half an ulp of whatever is rounded; infinite where something may have overflowed."""
        if self.format.precision < FLOAT32.precision:
            reach = abs(exact) + bound
            bound = (bound + ulp(reach, self.format) / 2) * SLACK
        return bound

    def forward(self, algorithm: AttentionAlgorithm) -> np.ndarray:
        """Tolerance of the output."""
        shape = (*self.batch, self.shape[0], self.operands[2].shape[-1])
        out, exact = np.zeros(shape), np.zeros(shape)

        def see(at: tuple[int, ...], h: Head, b: Bounds) -> None:
            out[at], exact[at] = np.inf if b.overflow else b.out, h.out
            if self.special:
                # Below the normal range a probability may be zero, and zero times an infinite value is NaN.
                out[at] = np.where((h.live & (h.p < 2 * FLOAT32.smallest_normal)).any(1, keepdims=True), np.inf, out[at])

        self._heads(algorithm, see)
        return self._final(exact, out)

    def backward(self, algorithm: AttentionAlgorithm) -> list[np.ndarray]:
        """Tolerances of the three gradients."""
        shapes = [(*self.batch, *x.shape[-2:]) for x in self.operands]
        bounds, exact = [np.zeros(s) for s in shapes], [np.zeros(s) for s in shapes]

        def see(at: tuple[int, ...], h: Head, b: Bounds) -> None:
            parts = (b.query, b.key, b.value)
            weight = self._scale()[1] * (np.sign(self.scale_given) if self.scale_given else 1.0)
            values = (weight * (h.ds @ h.k), weight * (h.ds.T @ h.q), h.p.T @ h.g)
            vanishing = self.special and bool((h.live & (h.p < 2 * FLOAT32.smallest_normal)).any())
            for k in range(3):
                bounds[k][at] = np.inf if b.overflow or vanishing else parts[k]
                exact[k][at] = values[k]

        r = self._heads(algorithm, see)
        # A fused kernel rounds each copy's gradient to the output's format before copies are added up.
        each = self.format.unit_roundoff if algorithm.online else 0.0
        addition = r.gradients if algorithm.online else r.working.unit_roundoff
        return [self._final(*self._folded(k, exact[k], bounds[k], each, addition)) for k in range(3)]

    def _folded(self, k: int, exact: np.ndarray, bound: np.ndarray, each: float, addition: float) -> tuple[np.ndarray, np.ndarray]:
        """Copies added up: each copy may be rounded, and each addition rounds once more."""
        x, groups = self.operands[k], self.groups[k]
        reach, copies = abs(exact) + bound, 1
        if groups > 1:
            split = (*exact.shape[:-3], exact.shape[-3] // groups, groups, *exact.shape[-2:])
            exact, bound, reach = (y.reshape(split).sum(-3) for y in (exact, bound, reach))
            copies *= groups
        shape = x.shape
        padded = (1,) * (exact.ndim - len(shape)) + shape
        axes = tuple(a for a, n in enumerate(padded) if n != exact.shape[a])
        copies *= int(np.prod([exact.shape[a] for a in axes]))
        exact, bound, reach = (y.sum(axes, keepdims=True).reshape(shape) for y in (exact, bound, reach))
        extra = (each + gamma(copies - 1, addition) * (1 + each)) * reach if copies > 1 else 0.0
        return exact, (bound + extra) * SLACK
