"""Documents: paths and links lead somewhere, pages are short and can be found, examples run."""

from __future__ import annotations

import contextlib
import doctest
import functools
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from document_blocks import PAGES, ROOT, blocks_of, pages_with

DOCUMENTS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "README.md", *PAGES)
#: Written by programs: `make generate`, `make bench` and `make -C studies/xstream`.
GENERATED = {"docs/operators.md", "docs/benchmarks.md", "docs/measurements/xstream_design_space.md"}
#: Pages that are looked up, not read.
LONG = GENERATED | {"docs/glossary.md"}
MAX_WORDS = 1_500
MAX_LINE = 120
#: Where readers begin.
ENTRIES = ("README.md", "docs/README.md")
#: What only looks like a path: a function, and files that guides have their readers write.
NO_FILES = {"iso.py", "python/isochrony/importers/vib.py", "acme_vib.py", "acme_entropy.py"}
SOURCE_FOLDERS = ("bench", "crates", "examples", "fuzz", "python", "studies", "tests", "tools")


def crate_path(path: str) -> Path:
    """The file of a crate, as the glossary writes it: `store/engine` is crates/store/src/engine."""
    crate, _, inside = path.partition("/")
    return ROOT / "crates" / crate / "src" / inside


@functools.cache
def source_files() -> tuple[Path, ...]:
    """Files of the project's code; not what builds and measurements leave in its folders."""
    found = []
    for folder in SOURCE_FOLDERS:
        for inside, folders, names in os.walk(ROOT / folder):
            folders[:] = sorted(set(folders) - {"target", "out", "__pycache__"})
            found += [Path(inside, name) for name in names]
    return tuple(path for path in found if path.suffix in {".rs", ".py", ".pyi", ".toml"})


def is_crate_path(path: str) -> bool:
    """Whether the glossary's way to write a path, also without its extension, leads to a file or folder."""
    return crate_path(path).exists() or crate_path(path + ".rs").exists()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_from_the_root_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    named = (
        set(re.findall(r"`((?:crates|python|tests|docs|examples|bench|fuzz|studies|tools)/[\w./-]*)`", text)) - NO_FILES
    )
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
    known = [f"/{path.relative_to(ROOT).as_posix()}" for path in source_files() if path.suffix in {".rs", ".py"}]
    assert len(known) > 500

    def exists(name: str) -> bool:
        return any(path.endswith("/" + name) for path in known) or is_crate_path(name)

    assert [name for name in sorted(named) if not exists(name)] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/correctness_issues").glob("*.md")), ids=lambda page: page.stem)
def test_files_that_a_fix_names_exist(page: Path) -> None:
    # Also those without backticks, in the last column.
    cells = [line.split("|")[-2] for line in page.read_text().splitlines() if line.startswith("| ")]
    named = {path for cell in cells for path in re.findall(r"(?<![\w/(.])[\w-]+(?:/[\w.-]+)+\.(?:rs|py)\b", cell)}
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []


def test_pages_that_sources_name_exist() -> None:
    named = {
        page for path in source_files() for page in re.findall(r"\bdocs/[\w/]+\.md\b", path.read_text(errors="replace"))
    }
    assert len(named) > 20
    assert sorted(page for page in named if not (ROOT / page).exists()) == []


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


def prose(text: str) -> str:
    """The text without blocks of code."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)


def links(document: str) -> Iterator[tuple[str, str]]:
    """Document and anchor of each relative link."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose((ROOT / document).read_text())):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = os.path.normpath((ROOT / document).parent / path) if path else str(ROOT / document)
        yield os.path.relpath(found, ROOT), anchor


def anchors(document: str) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose((ROOT / document).read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_anchors_resolve(document: str) -> None:
    broken = [path for path, _ in links(document) if not (ROOT / path).exists()]
    assert broken == []
    wrong = [f"{path}#{anchor}" for path, anchor in links(document) if anchor and anchor not in anchors(path)]
    assert wrong == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_pages_are_named_by_links(document: str) -> None:
    """A page in plain text, such as "(design.md, section 5)", is not found when it is moved."""
    text = re.sub(r"`[^`\n]*`|\[[^\]]*\]\([^)]*\)", "", prose((ROOT / document).read_text()))
    assert re.findall(r"[\w/]+\.md\b", text) == []


def test_anchors_are_those_of_headings_outside_of_code() -> None:
    assert "data-diffusion" in anchors("docs/benchmarks.md")
    assert "the-log-its-header-then-records" not in anchors("docs/design/independent_reader.md")


@pytest.mark.parametrize("page", [page for page in PAGES if page not in LONG])
def test_pages_are_short(page: str) -> None:
    assert len((ROOT / page).read_text().split()) < MAX_WORDS


@pytest.mark.parametrize("page", [page for page in PAGES if page not in GENERATED])
def test_lines_are_short(page: str) -> None:
    """Except rows of tables and lines that only the targets of links make long."""
    lines = [line for line in (ROOT / page).read_text().splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(re.sub(r"\]\([^)]*\)", "]", line)) > MAX_LINE] == []


def test_every_page_is_reachable() -> None:
    reached, waiting = set(ENTRIES), list(ENTRIES)
    while waiting:
        for path, _ in links(waiting.pop()):
            if path.endswith(".md") and path not in reached and (ROOT / path).exists():
                reached.add(path)
                waiting.append(path)
    assert [page for page in PAGES if page not in reached] == []


def test_the_design_index_lists_every_page() -> None:
    listed = {path for path, _ in links("docs/design/README.md")}
    pages = {page for page in PAGES if page.startswith("docs/design/")} - {"docs/design/README.md"}
    assert len(pages) > 60
    assert pages - listed == set()


#: Pages of docs/examples are run by test_example_pages.py, which asserts that it runs each.
WITH_CODE = [page for page in pages_with("python") if not page.startswith("docs/examples/")]
#: Languages of blocks. Other tests run what is not run here: test_document_services.py, test_document_commands.py, and
#: of toml test_plugins.py. Those of rust are doctests, those of text pictures and what programs print.
LANGUAGES = {"python", "pycon", "json", "sh", "toml", "rust", "text"}


@pytest.mark.parametrize("page", WITH_CODE)
def test_blocks_of_python_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one namespace and an empty folder, unless the line before says why not, or what they run with."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType(f"page_{Path(page).stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    blocks = [block for block in blocks_of(page) if block.language == "python"]
    assert len(blocks) == (ROOT / page).read_text().count("```python")
    for block in blocks:
        compiled = compile(block.code, page, "exec")
        if block.not_run is not None:
            assert len(block.not_run.split()) >= 2, f"{page}: say what the block needs"
        elif block.run_with is None:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compiled, vars(module))


@pytest.mark.parametrize("page", PAGES)
def test_blocks_say_their_language(page: str) -> None:
    """So that none escapes the tests that run them."""
    assert {block.language for block in blocks_of(page)} <= LANGUAGES
    assert len(list(blocks_of(page))) * 2 == len(re.findall(r"^ *```", (ROOT / page).read_text(), re.M))


@pytest.mark.parametrize("page", [page for page in PAGES if ">>>" in (ROOT / page).read_text()])
def test_prompts_give_what_they_show(page: str) -> None:
    text = (ROOT / page).read_text()
    blocks = [block.code for block in blocks_of(page) if block.language == "pycon"]
    assert sum(code.count(">>> ") for code in blocks) == text.count(">>> "), "prompts belong in blocks of pycon"
    runner = doctest.DocTestRunner(verbose=False)
    for number, code in enumerate(blocks):
        runner.run(doctest.DocTestParser().get_doctest(code, {}, f"{page}, block {number}", page, 0))
    assert runner.summarize(verbose=False).failed == 0
    assert runner.summarize(verbose=False).attempted > 0
