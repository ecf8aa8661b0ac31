"""Paths that the documents name exist: a renamed file must be renamed there, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    *("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "README.md"),
    *("docs/design.md", "docs/features.md", "docs/glossary.md"),
)


def crate_path(path: str) -> Path:
    """The file of a crate, as the glossary writes it: `store/engine` is crates/store/src/engine."""
    crate, _, inside = path.partition("/")
    return ROOT / "crates" / crate / "src" / inside


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_from_the_root_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    named = set(re.findall(r"`((?:crates|python|tests|docs|examples|bench|fuzz)/[\w./-]*)`", text))
    links = set(re.findall(r"\]\(([\w./-]+?)(?:#[\w-]+)?\)", text))
    folder = (ROOT / document).parent
    missing = [path for path in named if not (ROOT / path).exists()]
    missing += [path for path in links if not (folder / path).exists()]
    assert missing == []


def test_the_glossary_names_files_that_exist() -> None:
    text = (ROOT / "docs/glossary.md").read_text()
    crates = "|".join(path.name for path in (ROOT / "crates").iterdir())
    named = set(re.findall(rf"`((?:{crates})/[\w./-]+)`", text))
    assert len(named) > 40

    def exists(path: str) -> bool:
        return crate_path(path).exists() or crate_path(path + ".rs").exists()

    assert [path for path in sorted(named) if not exists(path)] == []
