"""Exact operations: what one calls as `er.matmul(A, B)` and `er.matmul.backward(A, B, grad)`."""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from . import ladder
from .algorithms.attention import AttentionAlgorithm
from .algorithms.matrix_exp import MatrixExpAlgorithm
from .arithmetic.budget import Budget
from .formats import is_complex, is_inexact
from .inputs import asarray
from .ladder import Algorithm, Model
from .operations import attention, linear
from .operations import matrix_exp as exponential
from .result import Result
from .tracing import Program, trace


class Operation:
    """An operation on arrays, exactly evaluated, with its backward.

    `operation(...)` takes lists, NumPy, JAX and PyTorch arrays and gives a `Result`. Inside a function that JAX traces (`jax.jit`, `jax.grad`,
    `er.grad`, ...) its operands have no values; there it is the ordinary JAX function `operation.function`, which is usable like any other.

    The backward is not written down anywhere: it is `jax.vjp` of the function, traced, and that program is evaluated exactly. Its convention for
    complex numbers is PyTorch's.

    Attributes:
        function: the JAX function, a spelling of one primitive.
        name: its name.

    Example:
        >>> import exactref_jax as er
        >>> er.multiply
        <exact operation multiply(x: 'jax.Array | complex', y: 'jax.Array | complex') -> 'jax.Array'>
        >>> er.multiply([3.0], [2.0]).backward([1.0]).rounded.grad_x.tolist()
        [2.0]
    """

    def __init__(self, function: Callable[..., jax.Array]):
        self.function = function
        self.name = function.__name__
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self.__signature__ = inspect.signature(function)
        parameters = self.__signature__.parameters.values()
        self._operands = [p.name for p in parameters if p.default is p.empty]
        gradients = [f"grad_{name}" for name in self._operands]
        self._gradients = namedtuple(f"{self.name.capitalize()}Gradients", gradients)  # type: ignore[misc]
        grad = inspect.Parameter("grad", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        positional = [p for p in parameters if p.default is p.empty]
        options = [p for p in parameters if p.default is not p.empty]
        self._backward_signature = self.__signature__.replace(parameters=[*positional, grad, *options])

    def __repr__(self) -> str:
        return f"<exact operation {self.name}{self.__signature__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The exact result, or the JAX function's where an operand is being traced."""
        operands, options = self._bind(self.__signature__, f"er.{self.name}", args, kwargs)
        if any(isinstance(x, Tracer) for x in [*operands.values(), *options.values()]):
            return self.function(**operands, **options)
        arrays, options = self._arrays(operands, f"er.{self.name}"), self._options(options, f"er.{self.name}")
        result = self._evaluate(self._program(f"er.{self.name}", arrays, options), self._model(arrays, options, None))
        result._backward = lambda grad=None: self._backward(arrays, grad, options)
        return result

    def backward(self, *args: Any, **kwargs: Any) -> Result:
        """The exact gradients of the operands, given the gradient of the output.

        Args:
            *args: the operands, then `grad`, which must have the output's shape. There is no default of ones.
            **kwargs: the operation's own options.

        Returns:
            A result whose parts are named tuples: `grad_` and the operand's name. A Python number and an integer array get None.

        Raises:
            TypeError: if an argument is missing, or `grad` is complex where the output is real.
            ValueError: if the shape of `grad` is not the output's.
        """
        operands, options = self._bind(self._backward_signature, f"er.{self.name}.backward", args, kwargs)
        grad = operands.pop("grad")
        return self._backward(self._arrays(operands, f"er.{self.name}.backward"), grad, self._options(options, f"er.{self.name}.backward"))

    # The parts of a call --------------------------------------------------------------------------------------------------

    def _bind(self, signature: inspect.Signature, name: str, args: Any, kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            hint = " grad is the gradient of the output; there is no default of ones." if "'grad'" in str(error) else ""
            raise TypeError(f"{name}: {error}; wanted {name}{signature}.{hint}") from None
        options = {k: v for k, v in bound.arguments.items() if signature.parameters[k].default is not inspect.Parameter.empty}
        operands = {k: v for k, v in bound.arguments.items() if k not in options}
        return operands, options

    def _arrays(self, operands: dict[str, Any], name: str) -> dict[str, Any]:
        """The operands as exact arrays; Python numbers stay where the operation takes them."""
        scalars = self.name in ("add", "multiply")
        out = {}
        for k, x in operands.items():
            if isinstance(x, Result):
                raise TypeError(f"{name}: {k} is a Result; wanted an array. Pass {k}.rounded to go on from the rounded value.")
            out[k] = x if scalars and linear.is_scalar(x) else asarray(x, argument=f"{name}: {k}")
        return out

    def _options(self, options: dict[str, Any], name: str) -> dict[str, Any]:
        """The options, arrays among them made exact."""
        return options

    def _model(self, arrays: dict[str, Any], options: dict[str, Any], grad: Any) -> Model:
        """What the tolerance is derived from."""
        return Budget()

    def _program(self, name: str, arrays: dict[str, Any], options: dict[str, Any]) -> Program:
        fixed = {k: x for k, x in arrays.items() if not isinstance(x, np.ndarray)}
        names = [k for k in arrays if k not in fixed]

        def forward(*xs: Any) -> Any:
            return self.function(**dict(zip(names, xs, strict=True)), **fixed, **options)

        return trace(name, forward, [arrays[k] for k in names], wide=True)

    def _evaluate(self, program: Program, model: Model) -> Result:
        # A contraction of float64 numbers is exact well below this many bits; see docs/derivations.md, "Bits that decide a contraction".
        evaluation = ladder.evaluate(program, max(ladder.MAX_BITS, CONTRACTION_BITS))
        return Result(evaluation, program.tree, range(len(program.outputs)), program.name, model)

    def _backward(self, arrays: dict[str, Any], grad: Any, options: dict[str, Any]) -> Result:
        name = f"er.{self.name}.backward"
        if grad is None:
            raise TypeError(f"{name}: missing argument 'grad', the gradient of the output; there is no default of ones.")
        cotangent = asarray(grad, argument=f"{name}: grad")
        differentiable = [k for k, x in arrays.items() if isinstance(x, np.ndarray) and is_inexact(x.dtype)]
        if not differentiable:
            raise TypeError(f"{name}: no operand is a floating-point or complex array, so none has a gradient.")
        fixed = {k: _conjugate_number(x) for k, x in arrays.items() if k not in differentiable}
        scalars = {k: _conjugate_number(x) for k, x in options.items()}

        def backward(grad: Any, *xs: Any) -> Any:
            def forward(*xs: Any) -> Any:
                return self.function(**dict(zip(differentiable, xs, strict=True)), **fixed, **scalars)

            # JAX pulls back grad times the derivative; PyTorch's convention is grad times its conjugate, which is the derivative of the same
            # operation at the conjugate operands, because all its coefficients are real but for the scalars.
            out, vjp = jax.vjp(forward, *map(_conjugate, xs))
            if grad.shape != out.shape:
                raise ValueError(f"{name}: grad has shape {list(grad.shape)}; wanted {list(out.shape)}, that of the output.")
            if jnp.iscomplexobj(grad) and not is_complex(out.dtype):
                raise TypeError(f"{name}: grad is complex, but the output is {out.dtype}.")
            pulled = vjp(lax.convert_element_type(grad, out.dtype))
            gradients = {f"grad_{k}": g for k, g in zip(differentiable, pulled, strict=True)}
            return self._gradients(**{g: gradients.get(g) for g in self._gradients._fields})

        program = trace(name, backward, [cotangent, *(arrays[k] for k in differentiable)], wide=True)
        return self._evaluate(program, self._model(arrays, options, cotangent))


class Attention(Operation):
    """Scaled dot product attention: an operation whose tolerance is that of a named algorithm, PyTorch's math path."""

    def _options(self, options: dict[str, Any], name: str) -> dict[str, Any]:
        mask = options.get("attn_mask")
        return options if mask is None else {**options, "attn_mask": asarray(mask, argument=f"{name}: attn_mask")}

    def _model(self, arrays: dict[str, Any], options: dict[str, Any], grad: Any) -> Model:
        kept = {k: v for k, v in options.items() if k != "dropout_p"}

        def tolerances() -> list[tuple[np.ndarray, ...]]:
            algorithm = AttentionAlgorithm.math()
            query, key, value = arrays.values()
            if grad is None:
                return [(algorithm.tolerance(query, key, value, **kept),)]
            return [(t,) for t in algorithm.backward_tolerance(query, key, value, grad, **kept)]

        return Algorithm("AttentionAlgorithm.math()", tolerances)


class MatrixExponential(Operation):
    """The matrix exponential and its Frechet derivative: operations whose tolerance is that of a named algorithm, PyTorch's."""

    def _model(self, arrays: dict[str, Any], options: dict[str, Any], grad: Any) -> Model:
        def tolerances() -> list[tuple[np.ndarray, ...]]:
            algorithm = MatrixExpAlgorithm.torch()
            if grad is not None:
                t: Any = algorithm.backward_tolerance(arrays["A"], grad).grad_A
            elif "E" in arrays:
                t = algorithm.frechet_tolerance(arrays["A"], arrays["E"])
            else:
                t = algorithm.tolerance(arrays["A"])
            return [(t.real, t.imag) if np.iscomplexobj(t) else (t,)]

        return Algorithm("MatrixExpAlgorithm.torch()", tolerances)

    def _backward(self, arrays: dict[str, Any], grad: Any, options: dict[str, Any]) -> Result:
        if self.name == "matrix_exp_frechet":
            raise TypeError("er.matrix_exp_frechet has no backward: that would be a second derivative of the matrix exponential.")
        return super()._backward(arrays, grad, options)


def _conjugate(x: Any) -> Any:
    return lax.conj(x) if jnp.iscomplexobj(x) else x


def _conjugate_number(x: Any) -> Any:
    return x.conjugate() if isinstance(x, (complex, np.complexfloating)) else x


#: Precision at which every contraction of float64 numbers and float64 scalars is exact: see docs/derivations.md.
CONTRACTION_BITS = 8192

matmul = Operation(linear.matmul)
gemm = Operation(linear.gemm)
add = Operation(linear.add)
multiply = Operation(linear.multiply)
sum = Operation(linear.sum)
scaled_dot_product_attention = Attention(attention.scaled_dot_product_attention)
matrix_exp = MatrixExponential(exponential.matrix_exp)
matrix_exp_frechet = MatrixExponential(exponential.matrix_exp_frechet)
