"""Files of a crate that import each other: only those that CONTRIBUTING.md justifies."""

from __future__ import annotations

import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CRATES = Path(__file__).parents[1] / "crates"
#: Cycles that stay, with reasons in CONTRIBUTING.md; files below `src`.
JUSTIFIED: dict[str, list[set[str]]] = {
    "cache": [{"pinned", "reservation"}],
    "flow": [
        {"engine/control", "engine/options"},
        {f"engine/dispatch/{name}" for name in ("drive", "fan_in_calls", "marks", "out")},
        {"operators/windows/stats", "operators/windows/whole_stats"},
        {"plan/length", "plan/parameter"},
        {"sources/stored/prefetch", "sources/stored/snapshot"},
    ],
    "store": [{"engine/slot", "engine/tables"}, {"selection", "signal", "span"}],
    "tune": [{f"simulator/{name}" for name in ("cores", "engine", "schedule", "thread")}],
    "workers": [{"connection", "records", "wire"}],
}
USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)
TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:pub\(\w+\) )?mod \w+ \{", re.MULTILINE)


def paths(tree: str) -> Iterator[str]:
    """The paths of a `use` declaration: `a::{b, c::d}` is `a::b` and `a::c::d`."""
    start, brace, rest = tree.strip().partition("{")
    if not brace:
        yield start.partition(" as ")[0].strip()
        return
    depth, part = 0, ""
    for char in rest[: rest.rindex("}")] + ",":
        depth += (char == "{") - (char == "}")
        if char == "," and not depth:
            if part.strip():
                yield from (start + path for path in paths(part))
            part = ""
        else:
            part += char


def target(inside: str, path: str, files: set[str]) -> str:
    """The file in which a path ends that begins in another one; empty: in none of the crate, or in its root."""
    parts = path.split("::")
    if parts[0] == "crate":
        place: list[str] = []
    elif parts[0] in {"self", "super"} or f"{inside}/{parts[0]}".lstrip("/") in files:
        place = [part for part in inside.split("/") if part]
    else:
        return ""
    while parts and parts[0] in {"crate", "self", "super"}:
        if parts.pop(0) == "super":
            place = place[:-1]
    found = "/".join(place)
    for part in parts:
        place.append(part)
        if "/".join(place) in files:
            found = "/".join(place)
    return found


def graph(source: Path) -> dict[str, set[str]]:
    """What files below a folder `src` import of each other; a folder's `mod.rs` may re-export what is below it."""
    texts: dict[str, str] = {}
    for path in source.rglob("*.rs"):
        name = path.relative_to(source).with_suffix("").as_posix()
        texts[name.removesuffix("/mod")] = TESTS.split(path.read_text("utf-8"))[0]
    names = set(texts) - {"lib", "main"}
    found: dict[str, set[str]] = {}
    for name in names:
        uses = (path for use in USE.finditer(texts[name]) for path in paths(use[1]))
        targets = {target(name, path, names) for path in uses} - {"", name}
        found[name] = {one for one in targets if not one.startswith(f"{name}/")}
    return found


def check(source: Path, justified: list[set[str]]) -> None:
    """Raises graphlib.CycleError for a cycle that is not justified."""
    cycle_of = {name: min(cycle) for cycle in justified for name in cycle}
    found: dict[str, set[str]] = {}
    for name, targets in graph(source).items():
        group = cycle_of.get(name, name)
        found.setdefault(group, set()).update({cycle_of.get(one, one) for one in targets} - {group})
    graphlib.TopologicalSorter(found).prepare()


@pytest.mark.parametrize("crate", sorted(path.parent.name for path in CRATES.glob("*/Cargo.toml")))
def test_files_import_only_files_below_them(crate: str) -> None:
    check(CRATES / crate / "src", JUSTIFIED.get(crate, []))


@pytest.mark.parametrize("crate", JUSTIFIED)
def test_a_justified_cycle_exists(crate: str) -> None:
    for place in range(len(JUSTIFIED[crate])):
        others = [cycle for at, cycle in enumerate(JUSTIFIED[crate]) if at != place]
        with pytest.raises(graphlib.CycleError):
            check(CRATES / crate / "src", others)


def test_a_cycle_through_a_nested_use_is_seen(tmp_path: Path) -> None:
    (tmp_path / "scan").mkdir()
    (tmp_path / "lib.rs").write_text("mod plan;\nmod scan;\nuse plan::Plan;\n")
    (tmp_path / "plan.rs").write_text("use crate::{\n    Error,\n    scan::{reader::Reader as Input, Scan},\n};\n")
    (tmp_path / "scan/mod.rs").write_text("mod reader;\npub use reader::Reader;\n")
    (tmp_path / "scan/reader.rs").write_text(
        "use super::Scan;\n#[cfg(test)]\nmod tests {\n    use crate::plan::Plan;\n}\n"
    )
    check(tmp_path, [])
    (tmp_path / "scan/reader.rs").write_text("use super::super::plan::Plan;\n")
    with pytest.raises(graphlib.CycleError):
        check(tmp_path, [])
