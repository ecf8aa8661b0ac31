"""Paths that the documents name exist: a renamed file must be renamed there, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    *("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "README.md"),
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")),
)
#: What only looks like a path: a function, and a file that a guide has its reader write.
NO_FILES = {"iso.py", "python/isochrony/importers/vib.py"}
SOURCE_FOLDERS = ("bench", "crates", "examples", "fuzz", "python", "tests", "tools")


def crate_path(path: str) -> Path:
    """The file of a crate, as the glossary writes it: `store/engine` is crates/store/src/engine."""
    crate, _, inside = path.partition("/")
    return ROOT / "crates" / crate / "src" / inside


def is_crate_path(path: str) -> bool:
    """Whether the glossary's way to write a path, also without its extension, leads to a file or folder."""
    return crate_path(path).exists() or crate_path(path + ".rs").exists()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_from_the_root_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    named = set(re.findall(r"`((?:crates|python|tests|docs|examples|bench|fuzz|tools)/[\w./-]*)`", text)) - NO_FILES
    links = set(re.findall(r"\]\(([\w./-]+?)(?:#[\w-]+)?\)", text))
    folder = (ROOT / document).parent
    missing = [path for path in named if not (ROOT / path).exists()]
    missing += [path for path in links if not (folder / path).exists()]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_source_files_exist_by_the_end_of_their_paths(document: str) -> None:
    """`engine/tail.rs` in a section on the store is a file of that ending; `flow/plan/item.rs` is one of a crate."""
    text = (ROOT / document).read_text()
    named = set(re.findall(r"`([\w/-]+\.(?:rs|py))`", text)) - NO_FILES
    sources = [
        path for folder in SOURCE_FOLDERS for path in (ROOT / folder).rglob("*.*") if path.suffix in {".rs", ".py"}
    ]
    known = {"/" + path.relative_to(ROOT).as_posix() for path in sources}
    assert len(known) > 500

    def exists(name: str) -> bool:
        return any(path.endswith("/" + name) for path in known) or is_crate_path(name)

    assert [name for name in sorted(named) if not exists(name)] == []


def test_the_glossary_names_files_that_exist() -> None:
    """Third column: paths, types and functions in backticks; what has a slash or an extension is a path."""
    rows = [line.split("|") for line in (ROOT / "docs/glossary.md").read_text().splitlines() if line.startswith("|")]
    columns = [cells[3] for cells in rows if len(cells) == 5]
    named = {name for column in columns for name in re.findall(r"`([^`]*[/.][^`]*)`", column)}
    assert len(named) > 80
    assert [path for path in sorted(named) if not is_crate_path(path) and not (ROOT / path).exists()] == []


def test_shortened_paths_of_the_architecture_exist() -> None:
    """`.../x` lies in the folder of the last path that is written out."""
    paths = re.findall(r"`((?:crates|python|\.\.\.)/[\w./-]*)`", (ROOT / "ARCHITECTURE.md").read_text())
    folder, shortened = ROOT, []
    for path in paths:
        if path.startswith(".../"):
            shortened.append(folder / path.removeprefix(".../"))
        else:
            folder = (ROOT / path).parent
    assert len(shortened) >= 4
    assert [path for path in shortened if not path.exists()] == []
