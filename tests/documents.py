"""Runs the code of a Markdown page, and compares what it prints with the output that stands below it."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.M | re.S)


@dataclass(frozen=True)
class Example:
    """One block of code, and the output that the page shows for it, if any."""

    line: int
    code: str
    output: str | None


def examples(page: Path) -> list[Example]:
    text = page.read_text()
    out: list[Example] = []
    last = None
    for match in BLOCK.finditer(text):
        language, body = match.groups()
        adjacent = last is not None and not text[last : match.start()].strip()
        if language == "python":
            out.append(Example(text.count("\n", 0, match.start()) + 2, body, None))
            last = match.end()
        else:
            if language == "text" and adjacent:
                out[-1] = Example(out[-1].line, out[-1].code, body)
            last = None
    return out


def run(page: Path) -> list[tuple[Example, str]]:
    """Each example, in one namespace, with what it printed."""
    namespace: dict[str, object] = {"__name__": page.stem}
    results = []
    for example in examples(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (example.line - 1) + example.code, str(page), "exec"), namespace)
        results.append((example, printed.getvalue()))
    return results


def lasting(output: str) -> list[str]:
    """The lines of an output, without what varies with the CPU: how far another library is off (the last columns of a judgement)."""
    lines, judged = [], False
    for line in output.splitlines():
        judged = line.startswith("candidate ") or (judged and bool(line.strip()))
        lines.append(" ".join(line.split()[:3]) if judged else line.rstrip())
    return lines
