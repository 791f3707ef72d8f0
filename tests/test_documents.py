"""The code on the README and in the documentation runs and prints what the pages say; the notebook runs."""

from __future__ import annotations

from pathlib import Path

import documents
import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_page_prints_what_it_says(page: Path) -> None:
    for example, printed in documents.run(page):
        if example.output is not None or printed:
            assert documents.lasting(printed) == documents.lasting(example.output or ""), f"{page.name}, line {example.line}"


def test_readme_and_documentation_have_examples() -> None:
    assert documents.examples(ROOT / "README.md")
    assert sum(len(documents.examples(p)) for p in PAGES) > 10


def test_a_wrong_output_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    [(example, printed)] = documents.run(page)
    assert documents.lasting(printed) != documents.lasting(example.output or "")


@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.name)
def test_notebook_runs(notebook: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("torch")
    content = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(content, timeout=300, kernel_name="python3").execute(cwd=str(notebook.parent))
