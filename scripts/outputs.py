"""Writes into the Markdown pages what their code prints: `python scripts/outputs.py README.md docs/index.md`. The tests compare the two."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import documents


def main() -> None:
    for name in sys.argv[1:]:
        page = Path(name)
        results = documents.run(page)
        text = page.read_text()
        for example, printed in results:
            if example.output is not None:
                block = re.compile(r"(```python\n" + re.escape(example.code) + r"```\s*```text\n)(.*?)(```)", re.S)
                text = block.sub(lambda m, printed=printed: m.group(1) + printed + m.group(3), text, count=1)
        page.write_text(text)


if __name__ == "__main__":
    main()
