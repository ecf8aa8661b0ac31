from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from isochrony.errors import MissingExtraError
from isochrony.extras import EXTRAS, require

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def test_the_extras_are_those_of_the_package() -> None:
    declared = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    del declared["all"]
    names = {extra: tuple(re.split(r"[<>=]", one)[0] for one in needs) for extra, needs in declared.items()}
    assert names == EXTRAS


def test_the_readme_says_what_each_extra_brings() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", (PROJECT.parent / "README.md").read_text(), re.M)
    assert {extra: tuple(brought.split(", ")) for extra, brought in rows if extra != "all"} == EXTRAS


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_a_missing_library_names_its_extra(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in EXTRAS[extra]:
        monkeypatch.setitem(__import__("sys").modules, package, None)
        with pytest.raises(MissingExtraError) as caught:
            require(package, "reading things")
        assert f"reading things needs {package}" in str(caught.value)
        assert f"pip install 'isochrony[{extra}]'" in str(caught.value)
        assert isinstance(caught.value, ImportError)


def test_a_library_that_is_there_is_returned() -> None:
    assert require("json", "reading JSON").loads("1") == 1
