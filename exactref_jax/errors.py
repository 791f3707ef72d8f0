"""The errors this library raises on purpose.

Each class says what happened, why, and what to do about it. Bad arguments raise `TypeError` or `ValueError` with a
message that names the argument, what was given and what is wanted; the classes below are for what is not the caller's
mistake. An error of the user's own function comes out as itself.
"""

from __future__ import annotations


class ExactRefError(Exception):
    """Base class of the errors below.

    Example:
        >>> import exactref_jax as er
        >>> try:
        ...     er.add([1.0], [2.0]).assert_covers([4.0])
        ... except er.ExactRefError as error:
        ...     print(type(error).__name__)
        NotCoveredError
    """


class ReferenceUnavailableError(ExactRefError):
    """The exact value could not be rounded, because a question about it stayed open.

    **What happened.** Some element's enclosure, at the highest precision allowed, still contains a number at which the
    answer changes: a rounding boundary (the midpoint of two neighbouring floating-point numbers), zero (whose sign, or
    whose place in a comparison, decides the result), a pole, or the edge of a domain.

    **Why.** Nearly always because the exact value lies *exactly* there, and is computed through an operation that is not
    exact at any precision. More precision separates numbers that differ; it never proves two numbers equal. Equality that
    follows from algebra, and from the laws of exponentials of rational numbers, is proved by residues; other equalities,
    such as `log(x) + log(x) = log(x * x)`, are not.

    **What decides it.** A larger `max_bits`, if the numbers differ after all. Otherwise a program that computes the same
    value exactly (for instance 1 where it says `sin(x)**2 + cos(x)**2`). The message names the element, its enclosure and the
    question.

    Attributes:
        element: what could not be decided: the output's name and index, or the source line of a comparison.
        enclosure: decimal text of an interval that contains the exact value, or an empty string where there is none.
        question: what was asked of it.
        bits: the precision, in bits, at which the library gave up.

    Example:
        >>> import exactref_jax as er, jax.numpy as jnp
        >>> try:
        ...     er.evaluate(lambda x: 1 / (jnp.log(x) + jnp.log(x) - jnp.log(x * x)), max_bits=512)(3.0)
        ... except er.ReferenceUnavailableError as error:
        ...     print(error.element, error.bits)
        value[] 512
    """

    def __init__(self, message: str, *, element: str = "", enclosure: str = "", question: str = "", bits: int = 0):
        super().__init__(message)
        self.element = element
        self.enclosure = enclosure
        self.question = question
        self.bits = bits


class UnsupportedPrimitiveError(ExactRefError, NotImplementedError):
    """The traced program contains a JAX primitive whose meaning over the reals this library does not know.

    **What happened.** The message names the primitive and the user's file and line that called it.

    **Why.** A rule that guesses would make a reference that is sometimes wrong, so there is no default rule.

    **What to do.** Write the line with supported primitives, or give the primitive its meaning with `er.register_rule`.

    Attributes:
        primitive: the primitive's name.
        source: the user's `file:line (function)`, or an empty string where JAX has not recorded it.

    Example:
        >>> import exactref_jax as er, numpy as np
        >>> from jax.core import ShapedArray
        >>> from jax.extend.core import Primitive
        >>> mystery_p = Primitive("mystery")
        >>> _ = mystery_p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
        >>> try:
        ...     er.evaluate(mystery_p.bind)(np.float32(1.0))
        ... except er.UnsupportedPrimitiveError as error:
        ...     print(error.primitive)
        mystery
    """

    def __init__(self, message: str, *, primitive: str, source: str):
        super().__init__(message)
        self.primitive = primitive
        self.source = source


class NotCoveredError(ExactRefError, AssertionError):
    """A candidate lies outside the tolerance, or more elements than allowed have no finite tolerance.

    Raised by `Result.assert_covers`. The message lists the worst elements: index, candidate, exact value, error in ulps
    and tolerance in ulps.

    Example:
        >>> import exactref_jax as er
        >>> try:
        ...     er.add([1.0], [2.0]).assert_covers([3.5])
        ... except er.NotCoveredError as error:
        ...     print(str(error).splitlines()[0])
        er.add: 1 of 1 elements are not covered
    """


class Undecided(ArithmeticError):
    """Internal: a question could not be answered at this precision. The ladder climbs; it never escapes it."""

    def __init__(self, question: str, source: str = "", enclosure: str = ""):
        super().__init__(question)
        self.question = question
        self.source = source
        self.enclosure = enclosure
