"""Commands and JSON in documents: what they name exists, and files are those that Isochrony reads and writes."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from document_blocks import PAGES, ROOT, arguments_of, blocks_of, commands_of, pages_with
from isochrony.cli.main import COMMANDS, build_parser
from isochrony.errors import UsageError

#: Beside the pages: documents in which commands are named.
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", *PAGES)
#: In backticks, and no command: what the metadata of a store says, literally.
NO_COMMANDS = {"isochrony signal <id>"}
PARSER = build_parser()
# What argparse says of a command that is named with its first words only.
_UNFINISHED = re.compile(r"arguments are required|expected one argument|expected at least one argument")


def named_commands(document: str) -> set[str]:
    """Commands in the text, which may be unfinished."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return set(re.findall(r"`(isochrony [a-z][^`\n]*)`", text)) - NO_COMMANDS


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if named_commands(one)])
def test_commands_in_the_text_are_commands_with_their_options(document: str) -> None:
    for command in named_commands(document):
        words = arguments_of(command)
        assert words[0] in COMMANDS, command
        try:
            PARSER.parse_args(words)
        except UsageError as error:
            assert _UNFINISHED.search(str(error)), f"{command}: {error}"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("isochrony run plan.json --onto local", "no option --onto"),
        ("isochrony info a b", "takes one"),
    ],
)
def test_wrong_commands_are_found(command: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as refused:
        PARSER.parse_args(arguments_of(command))
    assert not _UNFINISHED.search(str(refused.value))


@pytest.mark.parametrize("page", pages_with("sh"))
def test_blocks_of_commands_are_complete(page: str) -> None:
    """Those that need no bucket of others are run, too: test_document_services.py."""
    commands = [words for block in blocks_of(page) if block.language == "sh" for words in commands_of(block)]
    assert commands
    for words in commands:
        PARSER.parse_args(words)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_targets_of_make_exist(document: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.M))
    named = set(re.findall(r"(?:^|`)make ([\w-]+)", (ROOT / document).read_text(encoding="utf-8"), re.M))
    assert len(named) >= 2
    assert named <= targets


def test_extras_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    text = "".join((ROOT / document).read_text(encoding="utf-8") for document in DOCUMENTS)
    named = [one for listed in re.findall(r"(?:isochrony|\.whl\)?)\[([a-z, ]+)\]", text) for one in listed.split(",")]
    assert len(named) >= 3
    assert {one.strip() for one in named} <= set(extras)


def json_of(page: str) -> Any:
    (code,) = [block.code for block in blocks_of(page) if block.language == "json"]
    return json.loads(code)


def test_every_json_is_tested() -> None:
    assert pages_with("json") == ["docs/design/expressions.md", "docs/design/import_resume.md"]


def test_the_nodes_of_an_expression_are_read_as_the_page_says(store: iso.Store) -> None:
    """Those of samples as an expression of samples, those of rows as one of rows: no expression has both."""
    nodes = json_of("docs/design/expressions.md")["nodes"]
    assert [node["op"] for node in nodes] == ["input", "mean", "constant", "field"]
    signal = store.create("x", dtype="f8", rate=1)
    signal.append(np.arange(12.0))
    store.commit()
    windows = iso.scan(signal).rewindow(4)
    means = json.loads(windows.map(lambda s: s.max()).to_json())
    means["nodes"][-1]["params"]["expression"] = {"nodes": nodes[:2]}
    np.testing.assert_array_equal(iso.Plan.from_json(means, store=store).collect().ravel(), [1.5, 5.5, 9.5])
    rows = json.loads(windows.stats("mean").filter(lambda r: r.mean == 0).to_json())
    rows["nodes"][-1]["params"]["predicate"] = {"nodes": [*nodes[2:], {"op": "gt", "args": [1, 0]}]}
    np.testing.assert_array_equal(iso.Plan.from_json(rows, store=store).collect()["mean"], [5.5, 9.5])


def test_an_import_is_recorded_as_the_page_says(store: iso.Store, tmp_path: Path) -> None:
    recorded = json_of("docs/design/import_resume.md")
    ((name, size, first, samples),) = recorded["files"]
    folder = tmp_path / recorded["folder"]
    folder.mkdir(parents=True)
    np.zeros(samples, "<i2").tofile(folder / name)
    assert (folder / name).stat().st_size == size
    store.import_raw(tmp_path, preset="censam")
    (event,) = store["stn_10/pressure"].events
    assert (event.kind, event.start, event.end) == ("import", first, first + samples)
    assert event.fields == recorded
