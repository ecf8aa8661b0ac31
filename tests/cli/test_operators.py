"""`isochrony operators`: the list, a description, JSON, and a name that does not exist."""

from __future__ import annotations

import json

import pytest

from isochrony.cli import main
from isochrony.cli.exits import Exit
from isochrony.plan.declarations import INTERNAL, PUBLIC, declared
from isochrony.plan.plan import Plan

PUBLIC_NAMES = [one["name"] for one in declared() if one["name"] not in INTERNAL]


def test_the_list_has_every_operator_that_a_method_adds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operators"]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    listed = {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "}
    assert listed == set(PUBLIC_NAMES)
    assert {line for line in lines if not line.startswith(" ")} >= {"detection:", "fan-in:"}
    assert main(["operators", "--json"]) == Exit.OK
    assert {one["name"] for one in json.loads(capsys.readouterr().out)} == listed


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_a_description_begins_with_the_call(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    method = PUBLIC.get(name, name)
    assert hasattr(Plan, method)
    assert main(["operators", name]) == Exit.OK
    first, empty, text, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{method}(") and first.endswith(")") and (empty, text != "") == ("", True)


def test_a_call_shows_types_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operators", "notch"]) == Exit.OK
    first = capsys.readouterr().out.splitlines()[0]
    assert first == 'notch(hz: float, q: float = 30.0, *, initial: Literal["zero", "steady"] = "zero")'
    assert main(["operators", "notch", "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["params"][1]["default"] == 30.0
    assert main(["operators", "collect"]) == Exit.OK
    assert capsys.readouterr().out.startswith("collect\n\nGather results in memory")


def test_a_wrong_name_is_told_with_a_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operators", "noth"]) == Exit.USAGE
    error = capsys.readouterr().err
    assert "there is no operator noth (did you mean notch?); isochrony operators lists them" in error
