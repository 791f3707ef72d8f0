"""`er.grad` and its relatives: exact values of what JAX's own transformations trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from . import ladder
from .arithmetic.budget import Budget
from .differentiation import differentiable
from .inputs import is_tensor
from .result import Result
from .tracing import exact_leaf, is_wide, other_leaf, trace

Argnums = int | Sequence[int]


def grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    convention: str = "jax",
    budget: Budget | None = None,
    max_bits: int = ladder.MAX_BITS,
) -> Callable[..., Any]:
    """The exact gradient of a scalar function, as `jax.grad` would give it in real arithmetic.

    Args:
        fun: a JAX function with a real scalar result. Closures, `jax.jit`, `jax.vmap` and control flow are fine. It is traced as `jax.grad` traces it,
            and the traced program is evaluated exactly: a constant is the float that the program holds, a comparison compares exact values, a
            float→float cast changes nothing.
        argnums: which positional arguments to differentiate: floating-point (or complex) leaves of any pytree.
        has_aux: whether `fun` returns `(value, aux)`.
        convention: for complex inputs, `"jax"`, or `"torch"` for its conjugate.
        budget: the model of an ordinary implementation that tolerances are derived under.
        max_bits: the highest precision, in bits, before the library gives up.

    Returns:
        A function of the same arguments. It returns a `Result` whose parts are shaped like the differentiated argument (a tuple for a sequence of
        `argnums`); with `has_aux`, `(result, aux)`, where the arrays of aux are exact too: a `Result` if it holds arrays only.

    Guarantee:
        Differentiated inputs are exactly the numbers given, float64 included, whatever `jax_enable_x64` says; the flag is not changed. A Python float
        is a float64 number. Other arguments are passed as they are; a float64 array among them is never narrowed where that would change it.

    Raises:
        UnsupportedPrimitiveError: if the traced program has a primitive without a rule.
        ReferenceUnavailableError: if an element is not decided at `max_bits`.
        TypeError: for a differentiated argument that is not floating-point. Errors of `fun` come out as themselves.

    Example:
        >>> import exactref_jax as er, jax.numpy as jnp, numpy as np
        >>> x = np.array([1.0, 2.0], np.float32)
        >>> er.grad(lambda x: jnp.sum(jnp.sin(x)))(x).rounded
        array([ 0.5403023 , -0.41614684], dtype=float32)
    """
    transformed = _transformed(fun, argnums, has_aux, convention, budget, max_bits, value=False)

    def exact_grad(*args: Any, **kwargs: Any) -> Any:
        _, gradient, aux = transformed(args, kwargs)
        return (gradient, aux()) if has_aux else gradient

    return exact_grad


def value_and_grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    convention: str = "jax",
    budget: Budget | None = None,
    max_bits: int = ladder.MAX_BITS,
) -> Callable[..., Any]:
    """The exact value and gradient of a scalar function: `(value, gradient)`, two results of one evaluation; with `has_aux`, `((value, aux), gradient)`.

    Arguments, guarantee and errors are those of `grad`.

    Example:
        >>> import exactref_jax as er, numpy as np
        >>> value, gradient = er.value_and_grad(lambda x: x * x)(np.float32(3.0))
        >>> float(value.rounded), float(gradient.rounded)
        (9.0, 6.0)
    """
    transformed = _transformed(fun, argnums, has_aux, convention, budget, max_bits, value=True)

    def exact_value_and_grad(*args: Any, **kwargs: Any) -> Any:
        value, gradient, aux = transformed(args, kwargs)
        return ((value, aux()) if has_aux else value), gradient

    return exact_value_and_grad


def _transformed(
    fun: Callable[..., Any], argnums: Argnums, has_aux: bool, convention: str, budget: Budget | None, max_bits: int, *, value: bool
) -> Callable[..., tuple[Any, Any, Callable[[], Any]]]:
    _callable("fun", fun)
    if convention not in ("jax", "torch"):
        raise ValueError(f"convention: given {convention!r}; wanted 'jax' or 'torch'.")
    several = not isinstance(argnums, (int, np.integer))
    numbers = tuple(int(a) for a in argnums) if several else (int(argnums),)  # type: ignore[arg-type,union-attr]

    def apply(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Any, Callable[[], Any]]:
        places = [_place(a, len(args)) for a in numbers]
        inputs, rebuild, wide = _differentiated(args, places)
        others = [_other(a, f"argument {i}") for i, a in enumerate(args)]
        named = {k: _other(v, k) for k, v in kwargs.items()}
        wide = wide or any(is_wide(x, differentiated=False) for x in jax.tree.leaves([[o for i, o in enumerate(others) if i not in places], named]))
        static = _Static()

        def program(*leaves: Any) -> Any:
            chosen = rebuild(leaves)
            full = [chosen[places.index(i)] if i in places else o for i, o in enumerate(others)]
            positions = tuple(places) if several else places[0]
            out, gradient = jax.value_and_grad(differentiable(fun), positions, has_aux=has_aux)(*full, **named)
            out, aux = out if has_aux else (out, None)
            if convention == "torch":
                gradient = jax.tree.map(jnp.conj, gradient)
            return (out if value else None), gradient, static.split(aux)

        name = "er.value_and_grad" if value else "er.grad"
        result = _evaluate(name, program, inputs, wide, budget, max_bits, ("value", "", "aux"), "grad")
        return (result.branch(0) if value else None), result.branch(1), lambda: static.join(result.branch(2))

    return apply


def evaluate(fun: Callable[..., Any], *, budget: Budget | None = None, max_bits: int = ladder.MAX_BITS) -> Callable[..., Result]:
    """The exact value of any JAX function.

    Args:
        fun: a JAX function; its result is any pytree of arrays.
        budget: the model of an ordinary implementation that tolerances are derived under.
        max_bits: the highest precision, in bits, before the library gives up.

    Returns:
        A function of the same arguments that returns a `Result` shaped like `fun`'s. Floating-point arrays among the arguments, and Python floats,
        are exact inputs; everything else is passed as it is.

    Raises:
        UnsupportedPrimitiveError: if the traced program has a primitive without a rule.
        ReferenceUnavailableError: if an element is not decided at `max_bits`.

    Example:
        >>> import exactref_jax as er, jax.numpy as jnp
        >>> er.evaluate(jnp.exp)(1.0).rounded
        array(2.71828183)
    """
    _callable("fun", fun)

    def exact_value(*args: Any, **kwargs: Any) -> Result:
        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=is_tensor)
        places = [i for i, x in enumerate(leaves) if _is_floating(x)]
        inputs = [exact_leaf(leaves[i], f"argument leaf {i}") for i in places]
        others = [_other(x, f"argument leaf {i}") for i, x in enumerate(leaves)]

        def program(*chosen: Any) -> Any:
            full = list(others)
            for i, x in zip(places, chosen, strict=True):
                full[i] = x
            new_args, new_kwargs = jax.tree.unflatten(tree, full)
            return fun(*new_args, **new_kwargs)

        wide = any(is_wide(x, differentiated=True) for x in inputs)
        return _evaluate("er.evaluate", program, inputs, wide, budget, max_bits)

    return exact_value


def vjp(fun: Callable[..., Any], *primals: Any, budget: Budget | None = None, max_bits: int = ladder.MAX_BITS) -> tuple[Result, Callable[[Any], Result]]:
    """The exact value of a function and its exact vector-Jacobian product.

    Args:
        fun: a JAX function of pytrees of floating-point arrays.
        *primals: where to evaluate it.
        budget: the model of an ordinary implementation that tolerances are derived under.
        max_bits: the highest precision, in bits, before the library gives up.

    Returns:
        `(value, pullback)`. `pullback(cotangent)`, with a cotangent like the value, is a result that holds a tuple: one gradient for each primal.

    Raises:
        UnsupportedPrimitiveError: as `grad`.
        ReferenceUnavailableError: as `grad`.

    Example:
        >>> import exactref_jax as er, numpy as np
        >>> value, pullback = er.vjp(lambda x: x * x, np.array([1.0, 3.0], np.float32))
        >>> pullback(np.array([1.0, 10.0], np.float32)).rounded
        (array([ 2., 60.], dtype=float32),)
    """
    _callable("fun", fun)
    inputs, rebuild, wide = _differentiated(primals, list(range(len(primals))))

    def forward(*leaves: Any) -> Any:
        return fun(*rebuild(leaves))

    value = _evaluate("er.vjp", forward, inputs, wide, budget, max_bits)

    def pullback(cotangent: Any) -> Result:
        cotangents, tree, wider = _leaves_of(cotangent, "cotangent")

        def program(*leaves: Any) -> Any:
            mine, theirs = leaves[: len(inputs)], leaves[len(inputs) :]
            out, back = jax.vjp(differentiable(fun), *rebuild(mine))
            return back(_like(out, jax.tree.unflatten(tree, theirs), "cotangent"))

        return _evaluate("er.vjp", program, [*inputs, *cotangents], wide or wider, budget, max_bits)

    return value, pullback


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, budget: Budget | None = None, max_bits: int = ladder.MAX_BITS
) -> tuple[Result, Result]:
    """The exact value of a function and its exact Jacobian-vector product: `(value, tangent)`, two results of one evaluation.

    Args:
        fun: a JAX function of pytrees of floating-point arrays.
        primals: where to evaluate it, a tuple.
        tangents: in which direction, a tuple of the same structure.
        budget: the model of an ordinary implementation that tolerances are derived under.
        max_bits: the highest precision, in bits, before the library gives up.

    Raises:
        UnsupportedPrimitiveError: as `grad`.
        ReferenceUnavailableError: as `grad`.

    Example:
        >>> import exactref_jax as er, numpy as np
        >>> value, tangent = er.jvp(lambda x: x * x, (np.float32(3.0),), (np.float32(2.0),))
        >>> float(tangent.rounded)
        12.0
    """
    _callable("fun", fun)
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise TypeError(f"{name}: given {type(given).__name__}; wanted a tuple.")
    inputs, rebuild, wide = _differentiated(primals, list(range(len(primals))))
    directions, tree, wider = _leaves_of(tuple(tangents), "tangents")

    def program(*leaves: Any) -> Any:
        mine, theirs = rebuild(leaves[: len(inputs)]), leaves[len(inputs) :]
        return jax.jvp(differentiable(fun), tuple(mine), _like(tuple(mine), jax.tree.unflatten(tree, theirs), "tangents"))

    result = _evaluate("er.jvp", program, [*inputs, *directions], wide or wider, budget, max_bits, ("value", "tangent"))
    return result.branch(0), result.branch(1)


# Arguments ----------------------------------------------------------------------------------------------------------------------


def _callable(name: str, fun: Any) -> None:
    if not callable(fun):
        raise TypeError(f"{name}: given {type(fun).__name__}; wanted a function.")


def _place(argnum: int, count: int) -> int:
    if not -count <= argnum < count:
        raise ValueError(f"argnums: {argnum} given, but the function was called with {count} positional arguments.")
    return argnum % count


def _is_floating(x: Any) -> bool:
    if type(x) in (float, complex):
        return True
    name = str(getattr(x, "dtype", "")).removeprefix("torch.")
    return (name.startswith(("float", "bfloat", "complex"))) and not isinstance(x, Tracer)


def _differentiated(args: Sequence[Any], places: Sequence[int]) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]], bool]:
    """Exact leaves of the chosen arguments, how to rebuild the arguments from leaves, and whether 64-bit types are needed."""
    leaves: list[Any] = []
    shapes = []
    for place in places:
        paths, tree = jax.tree_util.tree_flatten_with_path(args[place], is_leaf=is_tensor)
        leaves += [exact_leaf(x, f"argument {place}{jax.tree_util.keystr(path)}") for path, x in paths]
        shapes.append((len(paths), tree))

    def rebuild(values: Sequence[Any]) -> list[Any]:
        out, start = [], 0
        for count, tree in shapes:
            out.append(jax.tree.unflatten(tree, values[start : start + count]))
            start += count
        return out

    return leaves, rebuild, any(is_wide(x, differentiated=True) for x in leaves)


def _leaves_of(tree: Any, name: str) -> tuple[list[Any], Any, bool]:
    paths, structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_tensor)
    leaves = [exact_leaf(x, f"{name}{jax.tree_util.keystr(path)}") for path, x in paths]
    return leaves, structure, any(is_wide(x, differentiated=True) for x in leaves)


def _like(wanted: Any, given: Any, name: str) -> Any:
    """`given` with the dtypes of `wanted` (a cast changes no exact value); shapes and structure must agree."""

    def cast(w: Any, g: Any) -> Any:
        if jnp.shape(w) != jnp.shape(g):
            raise ValueError(f"{name}: shape {list(jnp.shape(g))}; wanted {list(jnp.shape(w))}.")
        return jax.lax.convert_element_type(g, jnp.result_type(w))

    structures = jax.tree.structure(wanted), jax.tree.structure(given)
    if structures[0] != structures[1]:
        raise TypeError(f"{name}: structure {structures[1]}; wanted {structures[0]}.")
    return jax.tree.map(cast, wanted, given)


def _other(x: Any, argument: str) -> Any:
    return jax.tree.map(lambda leaf: other_leaf(leaf, argument), x, is_leaf=is_tensor)


def _evaluate(
    name: str,
    program: Callable[..., Any],
    inputs: Sequence[Any],
    wide: bool,
    budget: Budget | None,
    max_bits: int,
    branches: Sequence[str] = (),
    bare: str = "value",
) -> Result:
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(f"budget: given {type(budget).__name__}; wanted an er.Budget.")
    if isinstance(max_bits, bool) or not isinstance(max_bits, (int, np.integer)) or max_bits < 64:
        raise ValueError(f"max_bits: given {max_bits!r}; wanted an integer of at least 64.")
    traced = trace(name, program, inputs, wide=wide, branches=branches, bare=bare)
    evaluation = ladder.evaluate(traced, int(max_bits))
    return Result(evaluation, traced.tree, range(len(traced.outputs)), name, Budget() if budget is None else budget)


class _Static:
    """The part of aux that is no array: kept aside while tracing, and put back."""

    def __init__(self) -> None:
        self.tree: Any = None
        self.kept: list[tuple[bool, Any]] = []

    def split(self, aux: Any) -> list[Any]:
        leaves, self.tree = jax.tree.flatten(aux)
        dynamic = [isinstance(x, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)) for x in leaves]
        self.kept = [(d, None if d else x) for d, x in zip(dynamic, leaves, strict=True)]
        return [x for d, x in zip(dynamic, leaves, strict=True) if d]

    def join(self, aux: Result) -> Any:
        """A `Result` where aux is arrays only; else a pytree with a `Result` at each array."""
        arrays = iter(range(sum(d for d, _ in self.kept)))
        if all(d for d, _ in self.kept):
            return aux.restructured(self.tree) if self.kept else None
        return jax.tree.unflatten(self.tree, [aux[next(arrays)] if d else x for d, x in self.kept])
