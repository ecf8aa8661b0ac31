"""Imports without cycles: between the packages of the package, and between the scripts of a folder."""

from __future__ import annotations

import ast
import graphlib
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

import isochrony as iso

ROOT = Path(str(iso.__file__)).parent
REPOSITORY = Path(__file__).parents[1]


def imports(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """Relative imports that run when a module is imported: not those in functions, nor those that only types need."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not is_for_types and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imports(node)


def package(module: str) -> str:
    """The part of a module's name below `isochrony`: a package's or that of a module beside packages."""
    return [*module.split("."), "__init__"][1]


def graph(root: Path) -> dict[str, set[str]]:
    """What the modules of each package import of others."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in root.rglob("*.py"):
        parts = ["isochrony", *path.relative_to(root).with_suffix("").parts]
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        inside = module if parts[-1] == "__init__" else module.rpartition(".")[0]
        for node in imports(ast.parse(path.read_text("utf-8"))):
            target = resolve_name("." * node.level + (node.module or ""), inside)
            targets = [f"{target}.{one.name}" for one in node.names] if target == "isochrony" else [target]
            found[package(module)] |= {package(one) for one in targets} - {package(module)}
    return found


def test_packages_import_no_package_that_imports_them() -> None:
    found = graph(ROOT)
    assert "steps" in found["running"] and "running" in found["plan"]
    order = list(graphlib.TopologicalSorter(found).static_order())
    assert order.index("errors") < order.index("steps") < order.index("running") < order.index("plan")


def test_a_cycle_is_seen(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first/a.py").write_text("def late():\n    from ..second import b\n")
    (tmp_path / "second.py").write_text("from .first.a import late\n")
    graphlib.TopologicalSorter(graph(tmp_path)).prepare()
    (tmp_path / "first/b.py").write_text("from .. import second\n")
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(graph(tmp_path)).prepare()


def script_graph(folder: Path) -> dict[str, set[str]]:
    """What the scripts of a folder import of each other, also late or only for types."""
    found: dict[str, set[str]] = {path.stem: set() for path in folder.glob("*.py")}
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                found[path.stem] |= {node.module} & found.keys()
            elif isinstance(node, ast.Import):
                found[path.stem] |= {one.name for one in node.names} & found.keys()
    return found


@pytest.mark.parametrize(
    ("folder", "script", "imported"),
    [
        ("bench", "fused", "grammar"),
        ("tools", "train_trust", "trust_report"),
    ],
)
def test_scripts_import_no_script_that_imports_them(folder: str, script: str, imported: str) -> None:
    found = script_graph(REPOSITORY / folder)
    assert imported in found[script]
    order = list(graphlib.TopologicalSorter(found).static_order())
    assert order.index(imported) < order.index(script)


def test_a_cycle_of_scripts_is_seen(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text("import second\n")
    (tmp_path / "second.py").write_text("import json\n")
    graphlib.TopologicalSorter(script_graph(tmp_path)).prepare()
    (tmp_path / "second.py").write_text("def late():\n    from first import second\n")
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(script_graph(tmp_path)).prepare()
