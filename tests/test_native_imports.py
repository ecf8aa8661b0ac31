"""What native code takes from Python modules of the package, by name: each module and attribute is where it says."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from isochrony._former_paths import FORMER_PATHS

SOURCES = Path(__file__).parents[1] / "crates/py/src"
IMPORT = re.compile(
    r'\.import\("(?P<module>isochrony[\w.]*)"\)(?:\s*\?)?'
    r'(?:\s*\.(?:getattr|call_method[01]?)\(\s*(?:pyo3::)?(?:intern!\(py, )?"(?P<name>\w+)")?'
)


def imports() -> list[tuple[str, str, str | None]]:
    """Place, module and attribute of each import in native code."""
    found = []
    for path in sorted(SOURCES.rglob("*.rs")):
        text = path.read_text("utf-8")
        for one in IMPORT.finditer(text):
            line = text.count("\n", 0, one.start()) + 1
            found.append((f"{path.relative_to(SOURCES)}:{line}", one["module"], one["name"]))
    return found


@pytest.mark.parametrize(("place", "module", "name"), imports(), ids=lambda one: str(one))
def test_native_code_imports_what_is_there(place: str, module: str, name: str | None) -> None:
    former = module.removeprefix("isochrony.")
    assert former not in FORMER_PATHS, f"{place}: import isochrony.{FORMER_PATHS[former]}"
    found = import_module(module)
    assert name is None or hasattr(found, name), f"{place}: {module} has no {name}"


def test_every_import_in_native_code_is_found() -> None:
    written = [
        line for path in SOURCES.rglob("*.rs") for line in re.findall(r'import\("isochrony', path.read_text("utf-8"))
    ]
    found = imports()
    assert len(found) == len(written) > 30
    assert sum(name is not None for *_, name in found) > 20
