"""Imports run one way, few files know JAX's insides, one knows PyTorch, and every public name explains itself."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import exactref_jax as er

PACKAGE = Path(er.__file__).parent
MODULES = {".".join(p.relative_to(PACKAGE).with_suffix("").parts): p for p in sorted(PACKAGE.rglob("*.py"))}

#: From the bottom up: a module may import from its own layer and those below. A folder stands for all of its modules.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "formats", "values", "jax_compat"),
    ("inputs", "promotion", "specials", "enclosed", "judgement"),
    ("arithmetic",),
    ("operations",),
    ("rules", "differentiation"),
    ("interpret", "tracing", "compare", "kinks"),
    ("algorithms",),
    ("ladder", "result"),
    ("operation", "transforms"),
    ("__init__",),
)

#: What may not be reached, at any distance.
SEPARATE = {
    "arithmetic": ("interpret", "tracing", "rules", "ladder", "jax_compat"),
    "rules": ("ladder", "result", "transforms", "operation"),
    "operations": ("ladder", "result", "transforms", "operation", "interpret"),
    "result": ("interpret", "tracing", "rules", "ladder", "jax_compat"),
    "compare": ("result", "ladder", "interpret"),
}


def statements(module: str) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node


def names(node: ast.Import | ast.ImportFrom, module: str) -> list[str]:
    """The full names that a statement imports from."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        # The same for a file and for a folder's own: either has one more part than the folder.
        package = module.split(".")[: -node.level]
        base = ".".join(["exactref_jax", *package, *([base] if base else [])])
    return [f"{base}.{alias.name}" for alias in node.names]


def own(name: str) -> str | None:
    """The module of the package that a full name means, or lies in."""
    if name != "exactref_jax" and not name.startswith("exactref_jax."):
        return None
    parts = name.split(".")[1:]
    while parts:
        for module in (".".join(parts), ".".join([*parts, "__init__"])):
            if module in MODULES:
                return module
        parts.pop()
    return "__init__"


@cache
def imported(module: str) -> frozenset[str]:
    found = (own(name) for node in statements(module) for name in names(node, module))
    return frozenset(m for m in found if m is not None) - {module}


def head(module: str) -> str:
    return module.split(".")[0]


def layer(module: str) -> int:
    (number,) = [k for k, heads in enumerate(LAYERS) if head(module) in heads]
    return number


def reached(module: str) -> set[str]:
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        for other in imported(waiting.pop()) - seen:
            seen.add(other)
            waiting.append(other)
    return seen


# The graph ----------------------------------------------------------------------------------------------------------------------


def test_every_module_has_a_layer() -> None:
    known = {name for heads in LAYERS for name in heads}
    assert {head(m) for m in MODULES} == known


@pytest.mark.parametrize("module", MODULES)
def test_imports_never_point_upward(module: str) -> None:
    upward = {other for other in imported(module) if layer(other) > layer(module)}
    assert not upward


def test_no_module_imports_itself_through_others() -> None:
    assert not [m for m in MODULES if m in reached(m)]


@pytest.mark.parametrize("folder", SEPARATE)
def test_what_is_separate_stays_separate(folder: str) -> None:
    for module in (m for m in MODULES if head(m) == folder):
        assert not {other for other in reached(module) if head(other) in SEPARATE[folder]}, module


def test_the_reader_of_imports_sees_relative_and_absolute_ones() -> None:
    # What the tests above rely on.
    assert {"values", "errors"} <= imported("arithmetic.extended")
    assert "ladder" in imported("transforms")
    assert {"arithmetic.ball", "formats", "values"} <= reached("ladder")
    assert own("exactref_jax.formats.round_exact") == "formats"
    assert own("jax.numpy") is None


# Others' packages ---------------------------------------------------------------------------------------------------------------


def foreign(module: str, prefixes: tuple[str, ...]) -> set[str]:
    found = {name for node in statements(module) for name in names(node, module)}
    return {name for name in found if any(name == p or name.startswith(p + ".") for p in prefixes)}


def test_only_the_compatibility_file_touches_jax_s_private_names() -> None:
    assert [m for m in MODULES if foreign(m, ("jax._src", "jaxlib"))] == []


#: Files that define primitives need JAX's documented extension points.
DEFINE_PRIMITIVES = {"jax_compat", "operations.primitive", "operations.contraction", "operations.matrix_exp", "operations.softmax", "operations.derivatives"}


def test_only_the_compatibility_file_and_the_primitives_touch_jax_s_extension_points() -> None:
    assert {m for m in MODULES if foreign(m, ("jax.extend", "jax.interpreters"))} <= DEFINE_PRIMITIVES


def test_arithmetics_formats_and_comparisons_import_no_jax() -> None:
    for module in MODULES:
        if head(module) in ("arithmetic", "formats", "values", "specials", "enclosed", "compare", "errors", "judgement", "promotion"):
            assert not foreign(module, ("jax",)), module


def without_docstrings(module: str) -> str:
    tree = ast.parse(MODULES[module].read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.unparse(tree)


def test_only_inputs_knows_pytorch_and_does_not_import_it() -> None:
    knows = {m for m in MODULES for node in ast.walk(ast.parse(without_docstrings(m))) if isinstance(node, ast.Name) and node.id == "torch"}
    assert knows == {"inputs"}
    assert not [m for m in MODULES if foreign(m, ("torch",))]


def test_importing_and_using_the_library_does_not_import_pytorch() -> None:
    code = "import sys, numpy as np, exactref_jax as er; er.matmul(np.ones((2, 2)), [[1.0], [2.0]]).covers([[3.0], [3.0]]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# Public names -------------------------------------------------------------------------------------------------------------------

PUBLIC = sorted(name for name in vars(er) if not name.startswith("_") and not inspect.ismodule(getattr(er, name)))


def test_the_public_names_are_the_table_of_contents() -> None:
    tree = ast.parse(MODULES["__init__"].read_text())
    listed = {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert listed == set(PUBLIC)
    assert all(isinstance(node, (ast.ImportFrom, ast.Expr)) for node in tree.body)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(getattr(er, name))
    assert getattr(er, name).__doc__


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_shows_an_example(name: str) -> None:
    assert ">>>" in getattr(er, name).__doc__
