"""A table of verdicts: what `Result.judge` returns."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Verdict:
    """One candidate for one array.

    Attributes:
        candidate: its name.
        array: the array's name.
        covered: how many elements are covered.
        elements: how many there are.
        largest_ulps: largest distance from the exact value, in ulps of the output dtype there (infinite where just one side is infinite or NaN).
        median_ulps: the median of these distances.
        largest_share: largest distance as a share of the tolerance. Every element is covered where it is at most 1.
        unbounded: how many elements have an infinite tolerance, so that anything is covered.
    """

    candidate: str
    array: str
    covered: int
    elements: int
    largest_ulps: float
    median_ulps: float
    largest_share: float
    unbounded: int

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        count = f"{self.covered}/{self.elements}" + (f" ({self.unbounded} unbounded)" if self.unbounded else "")
        if not self.elements:
            return (self.candidate, self.array, count, "-", "-", "-")
        return (self.candidate, self.array, count, _number(self.largest_ulps), _number(self.median_ulps), _number(self.largest_share))


@dataclass(frozen=True)
class Judgement:
    """Verdicts on candidates, one for each candidate and array; it prints as a table.

    Attributes:
        name: what was judged.
        verdicts: one for each candidate and array.
    """

    name: str
    verdicts: tuple[Verdict, ...]

    HEADER = ("candidate", "array", "covered", "max ulps", "median ulps", "max share of tolerance")

    @property
    def covered(self) -> bool:
        """Whether every element of every candidate is covered."""
        return all(v.covered == v.elements for v in self.verdicts)

    def __repr__(self) -> str:
        rows = [self.HEADER, *((*v.cells, "" if v.covered == v.elements else "<- not covered") for v in self.verdicts)]
        widths = [max(len(r[c]) for r in rows) for c in range(len(self.HEADER))]
        lines = []
        for row in rows:
            left = [row[c].ljust(widths[c]) for c in range(2)]
            right = [row[c].rjust(widths[c]) for c in range(2, len(self.HEADER))]
            lines.append("  ".join([*left, *right, *row[len(self.HEADER) :]]).rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{h}</th>" for h in self.HEADER)
        body = ""
        for v in self.verdicts:
            style = "" if v.covered == v.elements else ' style="color:#b00"'
            body += f"<tr{style}>" + "".join(f"<td>{html.escape(c)}</td>" for c in v.cells) + "</tr>"
        return f"<table><caption>{html.escape(self.name)}</caption><tr>{head}</tr>{body}</table>"


def verdict(candidate: str, array: str, covered: np.ndarray, ulps: np.ndarray, share: np.ndarray, unbounded: int) -> Verdict:
    """Summary of one array: `covered`, |distance| in `ulps` and as a `share` of the tolerance, element by element."""
    distance = np.nan_to_num(np.abs(ulps), nan=np.inf, posinf=np.inf)
    return Verdict(
        candidate,
        array,
        int(covered.sum()),
        int(covered.size),
        float(distance.max(initial=0.0)),
        float(np.median(distance)) if distance.size else 0.0,
        float(share.max(initial=0.0)),
        unbounded,
    )


def _number(x: float) -> str:
    if x == 0 or np.isinf(x):
        return f"{x:.0f}"
    return f"{x:.3g}" if 1e-3 <= x < 1e5 else f"{x:.1e}"
