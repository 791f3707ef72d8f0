"""What an evaluation gives: the exact values rounded once, their enclosure, and what an ordinary implementation may return."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from . import compare
from .arithmetic.budget import Budget
from .errors import NotCoveredError
from .formats import COMPLEX_PARTS, FORMATS, decode, encode, is_complex, ulp
from .inputs import asarray
from .judgement import Judgement, verdict
from .kinks import Kink


class Interval(NamedTuple):
    """Rigorous float64 bounds: `lower <= exact <= upper`, each a pytree like the result's.

    Example:
        >>> import exactref_jax as er, jax.numpy as jnp
        >>> bounds = er.evaluate(jnp.exp)(1.0).interval
        >>> float(bounds.lower), float(bounds.upper)
        (2.718281828459045, 2.7182818284590455)
    """

    lower: Any
    upper: Any


class Source(Protocol):
    """Where a result gets its parts from; see `ladder.Evaluation`."""

    @property
    def leaves(self) -> Sequence[Any]:
        """One for each output array; see `ladder.Leaf`."""
        ...

    @property
    def decided_by(self) -> Sequence[np.ndarray]:
        """For each leaf, the name of the rung that decided each element."""
        ...

    def kinks(self) -> tuple[Kink, ...]:
        """Where the program sat on a kink."""
        ...

    def tolerance(self, model: Any) -> list[tuple[np.ndarray, ...]]:
        """For each leaf, the tolerance of each of its parts."""
        ...

    def normal(self) -> list[tuple[np.ndarray, ...]]:
        """For each leaf, the parts of the ordinary answer."""
        ...

    def decimal(self, leaf: int, part: int, index: tuple[int, ...], digits: int) -> str:
        """Correct digits of one element."""
        ...


class Result:
    """Exact values of the arrays that an operation or a program returns.

    Every part is a pytree with the structure of what was evaluated: an array for an operation's forward result, a named tuple for a backward, the
    argument's own structure for `er.grad`. `result[key]` is the result of one branch: a name, an index, a key.

    The parts of a complex array (bound, tolerance, interval, ulps) are complex128 arrays: real and imaginary part each by itself. Integer leaves are
    exact.

    Example:
        >>> import exactref_jax as er, numpy as np
        >>> result = er.sum(np.array([0.1, 0.2, 0.3], np.float32))
        >>> float(result.rounded), bool(result.covers(0.6000000238418579)), bool(result.covers(0.61))
        (0.6000000238418579, True, False)
    """

    def __init__(self, source: Source, tree: Any, indices: Sequence[int], name: str, budget: Any):
        self._source = source
        self._tree = tree
        self._indices = tuple(indices)
        self._name = name
        self._budget = budget
        #: set by operations: makes the backward of a forward result
        self._backward: Callable[..., Result] | None = None

    # Parts ------------------------------------------------------------------------------------------------------------------

    @property
    def rounded(self) -> Any:
        """The exact value rounded once: nearest, ties to even, gradual underflow, the format's own overflow. NumPy arrays of the output dtype."""
        return self._each(lambda leaf, _: _join(leaf, [p.rounded for p in leaf.parts]))

    @property
    def interval(self) -> Interval:
        """Float64 bounds of the exact value, rounded outward: equal where it is a float64 number."""
        ends = [self._each(lambda leaf, _, side=side: _wide(leaf, [compare.interval(p)[side] for p in leaf.parts])) for side in (0, 1)]
        return Interval(*ends)

    @property
    def bound(self) -> Any:
        """Float64 upper bound of `|rounded - exact|`; infinite where `rounded` is infinite and the exact value is not."""
        return self._each(lambda leaf, _: _wide(leaf, [compare.bound(p) for p in leaf.parts], zero=True))

    @property
    def tolerance(self) -> Any:
        """Float64: an ordinary implementation of the same operations in the same dtypes is at most this far from the exact value.

        In any order of summation, with or without FMA; derived under the result's `budget`. Infinite where it may return anything: an intermediate
        may overflow, a divisor may be rounded to zero, a branch may be taken the other way. `unbounded` counts those.
        """
        tolerances = self._source.tolerance(self._budget)
        return self._each(lambda leaf, k: _wide(leaf, tolerances[k]) if leaf.parts else np.array(tolerances[k][0]))

    @property
    def normal(self) -> Any:
        """The same program in its own dtype, every operation rounded, in the stated order (documentation, Guarantees, The normal answer)."""
        normal = self._source.normal()
        return self._each(lambda leaf, k: _join(leaf, normal[k]) if leaf.parts else np.asarray(normal[k][0]).astype(leaf.dtype))

    @property
    def budget(self) -> Any:
        """What `tolerance` is derived from: a `Budget`, or, for attention and the matrix exponential, a named algorithm."""
        return self._budget

    def with_budget(self, budget: Budget) -> Result:
        """The same exact values, with the tolerance of another budget."""
        if not isinstance(budget, Budget):
            raise TypeError(f"budget: given {type(budget).__name__}; wanted an er.Budget.")
        out = Result(self._source, self._tree, self._indices, self._name, budget)
        out._backward = self._backward
        return out

    @property
    def unbounded(self) -> int:
        """How many elements have an infinite tolerance."""
        return sum(int(np.isinf(t).sum()) for k in self._indices for t in self._source.tolerance(self._budget)[k])

    @property
    def unsigned_zeros(self) -> Any:
        """Where `rounded` is a zero whose sign could not be decided (boolean arrays). It is given as +0."""
        return self._each(lambda leaf, _: np.any([p.unsigned for p in leaf.parts], axis=0) if leaf.parts else np.zeros(leaf.shape, bool))

    @property
    def kinks(self) -> tuple[Kink, ...]:
        """Where the evaluated program sat on a kink: exact ties of comparisons, maxima and sorts, and abs, sign or a root at 0.

        The value is what the traced program says there. For each: the primitive, the user's source line, the elements.

        Example:
            >>> import exactref_jax as er, jax.numpy as jnp, numpy as np
            >>> kink = er.grad(lambda x: jnp.sum(jnp.abs(x)))(np.array([1.0, 0.0], np.float32)).kinks[0]
            >>> kink.primitive, kink.elements
            ('abs', ((1,),))
        """
        return self._source.kinks()

    @property
    def decided_by(self) -> Any:
        """How each element was decided (arrays of strings): the precision of the first run that decided it, and whether residues were needed."""
        return self._each(lambda leaf, k: self._source.decided_by[k])

    @property
    def shape(self) -> Any:
        """Shapes of the arrays."""
        return self._each(lambda leaf, _: leaf.shape)

    @property
    def dtype(self) -> Any:
        """Dtypes of the arrays."""
        return self._each(lambda leaf, _: leaf.dtype)

    # Judging ----------------------------------------------------------------------------------------------------------------

    def covers(self, candidate: Any, *, tolerance: Any = None, signed_zeros: bool = False) -> Any:
        """Which elements of a candidate an ordinary implementation may return.

        Args:
            candidate: a pytree of lists, NumPy, JAX or PyTorch arrays, with this result's structure and shapes, of any dtype: what counts is
                the numbers. For a backward, a dict or tuple of gradients will do.
            tolerance: instead of the result's own: a number, or a pytree of float64 arrays like `result.tolerance`.
            signed_zeros: whether a zero must have the right sign, too.

        Returns:
            Boolean arrays. True: within the tolerance, or the tolerance is infinite. NaN covers NaN, an infinity itself; an infinity is covered where the
            exact value and its tolerance reach the overflow threshold. A complex element is covered if both parts are; a non-finite one covers a
            non-finite one.

        Raises:
            ValueError: if structure or shapes differ.
        """
        given = self._match(candidate, "candidate")
        granted = self._granted(tolerance)

        def judge(leaf: Any, k: int) -> np.ndarray:
            numbers = given[k]
            if not leaf.parts:
                return np.asarray((numbers == leaf.integers) | np.isinf(granted[k][0]))
            parts = _split(numbers, leaf)
            out = [compare.covered(p, t, c, signed_zeros) for p, t, c in zip(leaf.parts, granted[k], parts, strict=True)]
            if len(out) == 1:
                return out[0]
            # Complex products of infinities differ by part between ordinary implementations, not in being finite.
            exact = np.any([compare._nonfinite(p.codes) for p in leaf.parts], axis=0)
            candidate_infinite = np.any([~np.isfinite(c) for c in parts], axis=0)
            return np.where(exact & candidate_infinite, True, out[0] & out[1])

        return self._each(judge)

    def assert_covers(self, candidate: Any, *, tolerance: Any = None, signed_zeros: bool = False, allow_unbounded: int = 0) -> None:
        """Raise if any element is not covered, or if more than `allow_unbounded` elements have no finite tolerance.

        Raises:
            NotCoveredError: with the worst elements: index, candidate, exact value, error in ulps, tolerance in ulps.
        """
        covered = jax.tree.leaves(self.covers(candidate, tolerance=tolerance, signed_zeros=signed_zeros))
        missing = sum(int((~c).sum()) for c in covered)
        problems = []
        if tolerance is None and self.unbounded > allow_unbounded:
            problems.append(f"{self.unbounded} elements have an infinite tolerance (allow_unbounded={allow_unbounded})")
        if missing:
            problems.append(
                f"{missing} of {sum(c.size for c in covered)} elements are not covered\n" + self._worst(candidate, covered, self._granted(tolerance))
            )
        if problems:
            raise NotCoveredError(f"{self._name}: " + "; ".join(problems))

    def ulps(self, candidate: Any) -> Any:
        """Signed distance of a candidate from the exact value (not from `rounded`), in ulps of the output dtype at the exact value. Float64.

        0 where a special value agrees, infinite where just one side is infinite, NaN where just one side is NaN.
        """
        given = self._match(candidate, "candidate")

        def distance(leaf: Any, k: int) -> np.ndarray:
            if not leaf.parts:
                return np.asarray(given[k], np.float64) - np.asarray(leaf.integers, np.float64)
            return _wide(leaf, [compare.ulps(p, c) for p, c in zip(leaf.parts, _split(given[k], leaf), strict=True)])

        return self._each(distance)

    def judge(self, **candidates: Any) -> Judgement:
        """A table of verdicts on named candidates: elements covered, largest and median error in ulps, largest error as a share of the tolerance.

        Args:
            **candidates: each as in `covers`.

        Example:
            >>> import exactref_jax as er, jax, jax.numpy as jnp
            >>> x = jnp.asarray([0.5, 1.0, 2.0])
            >>> f = lambda x: jnp.sum(jnp.exp(x))
            >>> er.grad(f)(x).judge(jax=jax.grad(f)(x), wrong=2 * jnp.exp(x)).covered
            False
        """
        verdicts = []
        for name, candidate in candidates.items():
            given = self._match(candidate, name)
            covered = jax.tree.leaves(self.covers(candidate))
            distances = jax.tree.leaves(self.ulps(candidate))
            for k, ok, ulps in zip(self._indices, covered, distances, strict=True):
                leaf, tolerances = self._source.leaves[k], self._source.tolerance(self._budget)[k]
                share = np.where(ok, 0.0, np.inf)
                if leaf.parts:
                    parts = zip(leaf.parts, tolerances, _split(given[k], leaf), strict=True)
                    share = np.max([compare.share(p, t, c) for p, t, c in parts], axis=0)
                unbounded = int(np.any([np.isinf(t) for t in tolerances], axis=0).sum()) if leaf.parts else 0
                verdicts.append(verdict(name, leaf.name, ok, ulps, share, unbounded))
        return Judgement(self._name, tuple(verdicts))

    def decimal(self, index: int | tuple[int, ...] = (), digits: int = 50) -> str:
        """The exact value of one element, correct to `digits` significant digits (to half a unit of the last one printed).

        Args:
            index: of the element; for a result of one array.
            digits: how many, at least 1.

        Example:
            >>> import exactref_jax as er, jax.numpy as jnp
            >>> er.evaluate(jnp.exp)(1.0).decimal(digits=30)
            '2.71828182845904523536028747135'
        """
        leaf, k = self._single("decimal")
        if digits < 1:
            raise ValueError(f"digits: given {digits}; wanted at least 1.")
        position = (index,) if isinstance(index, (int, np.integer)) else tuple(index)
        if len(position) != len(leaf.shape) or any(not -n <= i < n for i, n in zip(position, leaf.shape, strict=True)):
            raise IndexError(f"index: given {position}; wanted an element of an array of shape {list(leaf.shape)}.")
        place = tuple(int(i) % n for i, n in zip(position, leaf.shape, strict=True))
        if not leaf.parts:
            return str(int(leaf.integers[place]))
        texts = [self._source.decimal(k, part, place, digits) for part in range(len(leaf.parts))]
        return texts[0] if len(texts) == 1 else f"{texts[0]} + {texts[1]}i".replace("+ -", "- ")

    def backward(self, grad: Any = None) -> Result:
        """Of an operation's forward result: the gradients of its inputs, given the gradient of the output.

        Raises:
            TypeError: if `grad` is missing (there is no default of ones), or this is no forward result of an operation.
            ValueError: if its shape is not the output's.
        """
        if self._backward is None:
            raise TypeError(f"{self._name}: this result has no backward; wanted the result of an operation such as er.matmul(A, B).")
        return self._backward(grad)

    # Structure --------------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Result:
        branch = jax.tree.unflatten(self._tree, list(self._indices))
        try:
            if isinstance(key, str) and hasattr(branch, "_fields"):
                branch = getattr(branch, key)
            else:
                branch = branch[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            keys = getattr(branch, "_fields", None) or (list(branch) if isinstance(branch, dict) else None)
            hint = f"; wanted one of {', '.join(map(repr, keys))}" if keys else "" if isinstance(branch, (tuple, list)) else "; it holds one array"
            raise KeyError(f"{self._name}: no result {key!r}{hint}.") from None
        indices, tree = jax.tree.flatten(branch)
        if not indices:
            raise KeyError(f"{self._name}: {key!r} has no gradient (it is a Python number or an integer).")
        return Result(self._source, tree, indices, f"{self._name}[{key!r}]", self._budget)

    def branch(self, number: int) -> Result:
        """One of the results that were evaluated together."""
        branch = jax.tree.unflatten(self._tree, list(self._indices))[number]
        indices, tree = jax.tree.flatten(branch)
        return Result(self._source, tree, indices, self._name, self._budget)

    def restructured(self, tree: Any) -> Result:
        """The same arrays under another tree structure with as many leaves."""
        return Result(self._source, tree, self._indices, self._name, self._budget)

    def _each(self, f: Callable[[Any, int], Any]) -> Any:
        return jax.tree.unflatten(self._tree, [f(self._source.leaves[k], k) for k in self._indices])

    def _single(self, what: str) -> tuple[Any, int]:
        if len(self._indices) != 1:
            raise TypeError(f"{what}: this result holds {len(self._indices)} arrays; choose one with result[key].")
        return self._source.leaves[self._indices[0]], self._indices[0]

    def _match(self, candidate: Any, argument: str, dtype: Any = None) -> dict[int, np.ndarray]:
        """The candidate's arrays, by leaf."""
        structure = jax.tree.unflatten(self._tree, list(self._indices))
        fields = getattr(structure, "_fields", None)
        if fields is not None and isinstance(candidate, dict):
            unknown = [k for k in candidate if k not in fields]
            if unknown:
                raise ValueError(f"{argument}: {', '.join(map(repr, unknown))} is none of {', '.join(fields)}.")
            candidate = type(structure)(*(candidate.get(f) for f in fields))
        elif fields is not None and type(candidate) in (tuple, list) and len(candidate) == len(fields):
            candidate = type(structure)(*candidate)
        try:
            leaves = self._tree.flatten_up_to(candidate)
        except (ValueError, TypeError) as error:
            wanted = f"a pytree like {self._tree}" if len(self._indices) != 1 or fields is not None else "one array"
            raise ValueError(f"{argument}: wanted {wanted}; {error}") from None
        out = {}
        for k, x in zip(self._indices, leaves, strict=True):
            leaf = self._source.leaves[k]
            array = asarray(x, dtype, argument=f"{argument} {leaf.name}")
            if array.shape != leaf.shape:
                raise ValueError(f"{argument} {leaf.name}: shape {list(array.shape)}; wanted {list(leaf.shape)}.")
            if is_complex(array.dtype) and len(leaf.parts) == 1:
                raise ValueError(f"{argument} {leaf.name}: complex numbers; the result is {leaf.dtype}.")
            out[k] = array
        return out

    def _granted(self, tolerance: Any) -> dict[int, tuple[np.ndarray, ...]]:
        if tolerance is None:
            own = self._source.tolerance(self._budget)
            return {k: own[k] for k in self._indices}
        if isinstance(tolerance, (int, float)):
            leaves = self._source.leaves
            return {k: (np.full(leaves[k].shape, float(tolerance)),) * max(len(leaves[k].parts), 1) for k in self._indices}
        given = self._match(tolerance, "tolerance")
        return {k: tuple(_split(v, self._source.leaves[k])) for k, v in given.items()}

    # What a person sees -----------------------------------------------------------------------------------------------------

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        """name, dtype and shape, elements, largest bound, largest tolerance: one row an array."""
        tolerances = self._source.tolerance(self._budget)
        rows = []
        for k in self._indices:
            leaf = self._source.leaves[k]
            kind = f"{leaf.dtype}{list(leaf.shape)}"
            count = int(np.prod(leaf.shape, dtype=np.int64))
            decided = f"{count} decided"
            unsigned = sum(int(p.unsigned.sum()) for p in leaf.parts)
            decided += f" ({unsigned} zeros of open sign)" if unsigned else ""
            if not leaf.parts or not count:
                rows.append((leaf.name, kind, decided, "exact" if count else "-", "exact" if count else "-"))
                continue
            spacing = [ulp(np.abs(p.enclosed.hi), p.fmt) for p in leaf.parts]
            bound = max(_largest(compare.bound(p) / s) for p, s in zip(leaf.parts, spacing, strict=True))
            with np.errstate(over="ignore"):
                finite = max(_largest(np.where(np.isinf(t), 0.0, t) / s) for t, s in zip(tolerances[k], spacing, strict=True))
            unbounded = sum(int(np.isinf(t).sum()) for t in tolerances[k])
            text = f"{finite:.3g} ulp" + (f", {unbounded} unbounded" if unbounded else "")
            rows.append((leaf.name, kind, decided, f"{bound:.3g} ulp", text))
        return rows

    def __repr__(self) -> str:
        header = ("array", "dtype", "elements", "bound at most", "tolerance at most")
        rows = [header, *self._rows()]
        widths = [max(len(r[c]) for r in rows) for c in range(len(header))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        return f"<{self._name}: exact values, rounded once>\n" + "\n".join("  " + line for line in lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{h}</th>" for h in ("array", "dtype", "elements", "bound at most", "tolerance at most"))
        body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in self._rows())
        return f"<table><caption>{html.escape(self._name)}: exact values, rounded once</caption><tr>{head}</tr>{body}</table>"

    def _worst(self, candidate: Any, covered: Sequence[np.ndarray], tolerances: dict[int, tuple[np.ndarray, ...]], count: int = 5) -> str:
        """The elements farthest outside, for an error message."""
        given = self._match(candidate, "candidate")
        found = []
        for k, ok in zip(self._indices, covered, strict=True):
            leaf = self._source.leaves[k]
            for index in np.argwhere(~ok)[:1000]:
                at = tuple(int(i) for i in index)
                if not leaf.parts:
                    found.append((np.inf, f"  {leaf.name}{list(at)}: {given[k][at]}, exact {leaf.integers[at]}"))
                    continue
                numbers = _split(given[k], leaf)
                for p, t, c in zip(leaf.parts, tolerances[k], numbers, strict=True):
                    error = float(compare.ulps(p, c)[at])
                    spacing = float(ulp(np.abs(p.enclosed.hi[at]), p.fmt))
                    lower, upper = (float(side[at]) for side in compare.interval(p))
                    exact = f"{lower!r}" if lower == upper else f"in [{lower!r}, {upper!r}]"
                    line = f"  {leaf.name}{list(at)}: {float(c[at])!r}, exact {exact}; off by {error:.4g} ulp, tolerance {float(t[at]) / spacing:.4g} ulp"
                    found.append((np.inf if error != error else abs(error), line))
        found.sort(key=lambda item: -item[0])
        return "\n".join(line for _, line in found[:count])


def _largest(x: np.ndarray) -> float:
    return float(np.nan_to_num(x, nan=0.0).max(initial=0.0))


def _join(leaf: Any, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Parts (float64) as an array of the leaf's dtype."""
    if not leaf.parts:
        return np.array(leaf.integers)
    if len(leaf.parts) == 1:
        return encode(parts[0], FORMATS[leaf.dtype.name]).reshape(leaf.shape)
    out = np.empty(leaf.shape, leaf.dtype)
    out.real, out.imag = (encode(p, COMPLEX_PARTS[leaf.dtype.name]).reshape(leaf.shape) for p in parts)
    return out


def _wide(leaf: Any, parts: Sequence[np.ndarray], zero: bool = False) -> np.ndarray:
    """Parts as one float64 or complex128 array; of integers, themselves or zero."""
    if not leaf.parts:
        return np.zeros(leaf.shape) if zero else np.asarray(leaf.integers, np.float64)
    if len(leaf.parts) == 1:
        return np.array(parts[0], np.float64).reshape(leaf.shape)
    out = np.empty(leaf.shape, np.complex128)
    out.real, out.imag = parts
    return out


def _split(array: Any, leaf: Any) -> list[np.ndarray]:
    """A candidate's numbers as float64 parts."""
    if len(leaf.parts) == 1:
        return [decode(array) if not is_complex(array.dtype) else array.real.astype(np.float64)]
    if is_complex(array.dtype):
        return [array.real.astype(np.float64), array.imag.astype(np.float64)]
    return [decode(array), np.zeros(array.shape)]
