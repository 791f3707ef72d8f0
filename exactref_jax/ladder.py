"""Which precision next: climb until every element is decided, or say which question stays open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .arithmetic.ball import Ball, precision
from .arithmetic.budget import Budget
from .arithmetic.certified import FIRST_ORDER_BITS, Certified, certified
from .arithmetic.extended import Extended
from .arithmetic.ordinary import Ordinary
from .arithmetic.tolerance import Tolerance
from .enclosed import Enclosed, quiet
from .errors import ReferenceUnavailableError, Undecided
from .formats import Format, format_of, is_inexact
from .interpret import Walk
from .kinks import Kink, kink
from .rules import Equation
from .tracing import Program
from .values import NAN, NEGATIVE_INFINITY, NEGATIVE_ZERO, POSITIVE_INFINITY, UNKNOWN, UNSIGNED_ZERO, Complex, Datum, Decision, Value

#: Where the climb starts, and where it ends unless told otherwise. Bits of Arb's working precision.
FIRST_BITS = 128
MAX_BITS = 4096
#: From here on every number has a residue beside its ball: what two runs of plain balls left open is perhaps exactly on a boundary.
RESIDUES_FROM_BITS = 512
#: Bits of the largest subgroup that residues may need.
MAX_ORDER_BITS = 4096


@dataclass(frozen=True, eq=False)
class Algorithm:
    """A named algorithm on given operands, with the tolerance that was derived for it.

    Attributes:
        name: of the algorithm.
        tolerances: for each leaf of the result, the tolerance of each of its parts.
    """

    name: str
    tolerances: Callable[[], list[tuple[np.ndarray, ...]]]

    def __repr__(self) -> str:
        return self.name


#: What a tolerance is derived from: the budget of ordinary operations, or a named algorithm.
Model = Budget | Algorithm


@dataclass(frozen=True, eq=False)
class Part:
    """A real array of results: an output leaf, or one part of a complex one.

    Attributes:
        fmt: the format it is rounded to.
        enclosed: the exact values (zero where `codes` says otherwise).
        codes: special values, as in `values`.
        rounded: numbers of the format, in float64, special values included.
        unsigned: zeros of `rounded` whose sign could not be decided.
        open: elements that are not decided.
    """

    fmt: Format
    enclosed: Enclosed
    codes: np.ndarray
    rounded: np.ndarray
    unsigned: np.ndarray
    open: np.ndarray


@dataclass(frozen=True, eq=False)
class Leaf:
    """One output array: its parts (two if complex), or the integers it is."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    parts: tuple[Part, ...]
    integers: np.ndarray | None = None


@dataclass(eq=False)
class Evaluation:
    """A program evaluated: decided leaves, and everything else on demand.

    Attributes:
        program: what was evaluated.
        leaves: one for each output.
        bits: the precision that decided all numbers.
        last_bits: the precision of the last run, which decided the signs of zeros, too.
        max_bits: the highest precision allowed.
        decided_by: for each leaf, the name of the rung that decided each element.
    """

    program: Program
    leaves: tuple[Leaf, ...]
    bits: int
    last_bits: int
    max_bits: int
    decided_by: tuple[np.ndarray, ...]
    _tolerances: dict[str, list[tuple[np.ndarray, ...]]] = field(default_factory=dict)
    _normal: list[tuple[np.ndarray, ...]] | None = None
    _kinks: tuple[Kink, ...] | None = None

    @quiet
    def tolerance(self, model: Model) -> list[tuple[np.ndarray, ...]]:
        """For each leaf, the tolerance of each of its parts (float64)."""
        key = repr(model)
        if key not in self._tolerances and isinstance(model, Algorithm):
            self._tolerances[key] = model.tolerances()
        elif key not in self._tolerances and isinstance(model, Budget):
            with precision(self.bits):
                arithmetic = Tolerance(Extended(Ball()), model)
                outputs = _run(arithmetic, self.program)
            tolerances = [tuple(np.array(arithmetic.final_error(v)) for v in _parts(x)) or (_doubtful(x),) for x in outputs]
            self._tolerances[key] = tolerances
        return self._tolerances[key]

    @quiet
    def kinks(self) -> tuple[Kink, ...]:
        """Where the program sat on a kink, in program order."""
        if self._kinks is None:
            found: list[Kink] = []
            arithmetic = Extended(_field(self.program, self.last_bits, FIRST_ORDER_BITS))

            def see(equation: Equation, operands: Sequence[Datum], results: Sequence[Datum]) -> None:
                seen = kink(equation.name, equation.params, equation.source, operands, results, arithmetic)
                if seen is not None:
                    found.append(seen)

            with precision(self.last_bits):
                _run(arithmetic, self.program, see)
            self._kinks = tuple(dict.fromkeys(found))
        return self._kinks

    @quiet
    def normal(self) -> list[tuple[np.ndarray, ...]]:
        """For each leaf, the parts of the ordinary run's answer (float64)."""
        if self._normal is None:
            outputs = _run(Ordinary(), self.program)
            self._normal = [tuple(v.parts[0] for v in _parts(x)) or (np.asarray(x),) for x in outputs]
        return self._normal

    def decimal(self, leaf: int, part: int, index: tuple[int, ...], digits: int) -> str:
        """The exact value of one element, to `digits` correct significant digits."""
        code = int(self.leaves[leaf].parts[part].codes[index])
        special = {NEGATIVE_ZERO: "-0", UNSIGNED_ZERO: "0", POSITIVE_INFINITY: "inf", NEGATIVE_INFINITY: "-inf", NAN: "nan"}
        if code in special:
            return special[code]
        bits = max(self.bits, 4 * digits)
        while bits <= max(self.max_bits, 8 * digits):
            with precision(bits):
                field_ = Ball()
                value = _parts(_run(Extended(field_), self.program)[leaf])[part]
                text = field_.decimal(value.parts[0][index], digits)
            if text is not None:
                return text
            bits *= 2
        raise ReferenceUnavailableError(
            f"{self.program.name}: element {self.leaves[leaf].name}{list(index)} has no {digits} certain digits at {bits // 2} bits.",
            element=f"{self.leaves[leaf].name}{list(index)}",
            question=f"{digits} digits",
            bits=bits // 2,
        )


@quiet
def evaluate(program: Program, max_bits: int = MAX_BITS) -> Evaluation:
    """The exact values of a program's outputs, each rounded once.

    Precision doubles from `FIRST_BITS` until every element is decided. Exact enclosures decide ties. A zero whose sign alone is open climbs as well,
    but is answered at the end: it is 0, and `Part.unsigned` says that its sign is not known.

    Raises:
        ReferenceUnavailableError: if an element, or a comparison that the program branches on, is not decided at `max_bits`.
        UnsupportedPrimitiveError: if the program contains a primitive without a rule.
    """
    bits = min(FIRST_BITS, max_bits)
    first = 0
    history: list[tuple[str, tuple[Leaf, ...]]] = []
    order_bits = FIRST_ORDER_BITS
    while True:
        field = _field(program, bits, order_bits)
        failure: Undecided | None = None
        leaves: tuple[Leaf, ...] = ()
        outputs: list[Datum] = []
        try:
            with precision(bits):
                outputs = _run(Extended(field), program)
                leaves, open_ = _leaves(program, outputs, field)
        except Undecided as error:
            failure, open_ = error, True
        if isinstance(field, Certified) and (wanted := field.wanted_order_bits()) > order_bits:
            order_bits = wanted
            if order_bits <= MAX_ORDER_BITS:
                continue
            raise _unavailable_residues(program, bits, order_bits)
        last = 2 * bits > max_bits
        if failure is None:
            history.append((_rung(field, bits), leaves))
            if not open_:
                first = first or bits
                if last or not any(p.unsigned.any() for leaf in leaves for p in leaf.parts):
                    return Evaluation(program, leaves, first, bits, max_bits, _decided_by(history))
        if last:
            if failure is not None:
                raise _unavailable_decision(program, failure, bits) from failure
            raise _unavailable_element(program, outputs, bits, field)
        bits *= 2


def _field(program: Program, bits: int, order_bits: int) -> Ball:
    return Ball() if bits < RESIDUES_FROM_BITS else certified(program.operands, order_bits)


def _rung(field: Ball, bits: int) -> str:
    return f"{bits} bits" + (" and residues" if isinstance(field, Certified) else "")


def _decided_by(history: Sequence[tuple[str, tuple[Leaf, ...]]]) -> tuple[np.ndarray, ...]:
    """For each leaf, the first rung on which each element was decided."""
    out = []
    for k, leaf in enumerate(history[-1][1]):
        names = np.full(leaf.shape, history[-1][0], dtype=object)
        for rung, leaves in reversed(history[:-1]):
            # An integer has no enclosure: it counts as decided where the whole run was.
            decided = [~(p.open | p.unsigned) for p in leaves[k].parts]
            names = np.where(np.all(decided, axis=0), rung, names) if decided else names
        out.append(np.asarray(names, dtype=object).astype(str))
    return tuple(out)


def _run(arithmetic: Any, program: Program, see: Any = None) -> list[Datum]:
    walk = Walk(arithmetic, see)
    operands = [walk.lift(x, v.aval) for x, v in zip(program.operands, program.jaxpr.jaxpr.invars, strict=True)]
    return walk.run(program.jaxpr, operands)


def _doubtful(x: Datum) -> np.ndarray:
    """The tolerance of integers: none, or infinite where an implementation may have others."""
    return np.where(x.doubt, np.inf, 0.0) if isinstance(x, Decision) else np.zeros(np.shape(x))


def _parts(x: Datum) -> tuple[Value, ...]:
    return (x.real, x.imag) if isinstance(x, Complex) else (x,) if isinstance(x, Value) else ()


def _leaves(program: Program, outputs: Sequence[Datum], field: Ball) -> tuple[tuple[Leaf, ...], bool]:
    leaves, open_ = [], False
    for (name, shape, dtype), x in zip(program.outputs, outputs, strict=True):
        if not is_inexact(dtype):
            open_ = open_ or isinstance(x, Decision)
            leaves.append(Leaf(name, shape, dtype, (), np.asarray(x.array if isinstance(x, Decision) else x)))
            continue
        parts = []
        for value in _parts(x):
            part = _part(value, format_of(dtype), field)
            parts.append(part)
            open_ = open_ or bool(part.open.any())
        leaves.append(Leaf(name, shape, dtype, tuple(parts)))
    return tuple(leaves), open_


def _part(value: Value, fmt: Format, field: Ball) -> Part:
    """A rounded array, and where it is not decided."""
    codes = value.codes()
    balls = (field.settled(value.parts, fmt),)
    enclosed = Ball().enclosed(balls)
    rounded, decided, zero = Ball().round(balls, fmt, enclosed)
    undecided = (~decided & ~zero & (codes == 0)) | (codes == UNKNOWN)
    unsigned = (zero & ~decided & (codes == 0)) | (codes == UNSIGNED_ZERO)
    specials = {NEGATIVE_ZERO: -0.0 if fmt.negative_zero else 0.0, NAN: np.nan}
    specials |= {POSITIVE_INFINITY: fmt.overflow, NEGATIVE_INFINITY: -fmt.overflow}
    for code, number in specials.items():
        rounded = np.where(codes == code, number, rounded)
    return Part(fmt, enclosed, codes, np.where(unsigned, 0.0, rounded), unsigned & fmt.negative_zero, undecided)


def _unavailable_residues(program: Program, bits: int, order_bits: int) -> ReferenceUnavailableError:
    question = "whether a number that no precision decides is exactly what it seems to be"
    return ReferenceUnavailableError(
        f"{program.name}: open is {question}. Residues decide it with a probability of error below 2**-100 only modulo a prime of {order_bits} bits, "
        f"above the limit of {MAX_ORDER_BITS}: the exponents of its exponentials lie too far apart.",
        element="",
        enclosure="",
        question=question,
        bits=bits,
    )


# What to say when it does not work out ------------------------------------------------------------------------------------------


def _unavailable_decision(program: Program, failure: Undecided, bits: int) -> ReferenceUnavailableError:
    where = f" at {failure.source}" if failure.source else ""
    return ReferenceUnavailableError(
        f"{program.name}: {failure.question} is not decided at {bits} bits{where}: two numbers that it compares are equal, or closer than 2**-{bits} "
        "of their size. Numbers that are exactly equal are recognised only where both are exact, or the very same number. "
        "A larger max_bits decides it if they differ.",
        element=failure.source,
        enclosure=failure.enclosure,
        question=failure.question,
        bits=bits,
    )


def _unavailable_element(program: Program, outputs: Sequence[Datum], bits: int, field: Ball) -> ReferenceUnavailableError:
    for (name, _, dtype), x in zip(program.outputs, outputs, strict=True):
        if isinstance(x, Decision):
            index = tuple(int(i) for i in np.argwhere(x.doubt)[0])
            element, enclosure, question = f"{name}{list(index)}", "", "the integer itself: a comparison behind it is not decided"
            break
        found = _first_undecided(x, format_of(dtype), field) if is_inexact(dtype) else None
        if found is not None:
            index, enclosure, question = found
            question = question or _origin(program, bits, field)
            element = f"{name}{list(index)}"
            break
    else:  # pragma: no cover - called only when something is undecided
        raise AssertionError("nothing is undecided")
    return ReferenceUnavailableError(
        f"{program.name}: element {element} is not decided at {bits} bits. Its exact value lies in {enclosure or 'no known interval'}; open is {question}. "
        "A larger max_bits decides it, unless the value lies exactly there.",
        element=element,
        enclosure=enclosure,
        question=question,
        bits=bits,
    )


_ORIGINS = {
    "div": "whether the divisor is zero",
    "rem": "which multiple of the divisor is taken off",
    **dict.fromkeys(("select_n", "choose", "masked"), "which case is chosen (numbers that are compared are equal, or too close to tell apart)"),
    **dict.fromkeys(("sort", "top_k"), "the order of two elements"),
}


def _origin(program: Program, bits: int, field: Ball) -> str:
    """The question at the first equation that made something unknown out of what was known."""
    found: list[str] = []

    def unknown(x: Datum) -> bool:
        return any((v.codes() == UNKNOWN).any() for v in _parts(x))

    def see(equation: Equation, operands: Sequence[Datum], results: Sequence[Datum]) -> None:
        if not found and any(unknown(r) for r in results) and not any(unknown(x) for x in operands):
            what = _ORIGINS.get(equation.name, "whether its argument lies at a pole or outside its domain")
            found.append(f"{what}, at `{equation.name}`" + (f" ({equation.source})" if equation.source else ""))

    with precision(bits):
        _run(Extended(field), program, see)
    return found[0] if found else "whether it is a finite number at all"


def _first_undecided(x: Datum, fmt: Format, field: Ball) -> tuple[tuple[int, ...], str, str] | None:
    for value in _parts(x):
        part = _part(value, fmt, field)
        if not part.open.any():
            continue
        index = tuple(int(i) for i in np.argwhere(part.open)[0])
        if part.codes[index] == UNKNOWN:
            return index, "", ""
        ball = value.parts[0][index]
        boundary = Ball().boundary(ball, fmt)
        return index, ball.str(20), f"on which side of {boundary} it lies, where rounding to {fmt} changes"
    return None
