"""Generated files are what the built extension declares, and every operator is documented completely."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from isochrony.plan.declarations import PUBLIC, call, declared, others, signature
from isochrony.steps import generated

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import generate  # noqa: E402 - a script beside the package

DECLARED = {one["name"]: one for one in declared()}
#: Methods of plans that return no plan of samples, windows, ranges or rows, or what a class of the user's gives.
WITHOUT_EDGES = {"apply", "blocks", "characterise", "collect", "explain", "from_json", "group_by", "run", "to_json"}
METHODS = {
    name: value
    for name, value in inspect.getmembers(iso.Plan)
    if not name.startswith("_") and (inspect.isfunction(value) or inspect.ismethod(value))
}


@pytest.mark.parametrize("path", generate.outputs(), ids=lambda path: path.name)
def test_generated_files_are_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generate.outputs()[path], "run make generate"


def test_every_operator_has_a_method_or_a_reason_for_none() -> None:
    by_hand = set(generate.BY_HAND) | set(generate.INTERNAL)
    assert by_hand <= set(DECLARED)
    for name in DECLARED:
        adds = generate.INTERNAL.get(name, PUBLIC.get(name, name))
        assert adds in METHODS, name
        if name not in by_hand:
            assert METHODS[name].__doc__ is not None
            assert inspect.unwrap(METHODS[name]).__code__.co_filename == generated.__file__, name


@pytest.mark.parametrize("name", DECLARED)
def test_a_declaration_says_everything(name: str) -> None:
    declaration = DECLARED[name]
    sections = declaration["sections"]
    assert declaration["summary"].endswith(".")
    for heading in ("inputs", "returns", "errors"):
        assert sections[heading], heading
    assert re.search(r"\bedges\b", sections["returns"], re.IGNORECASE), "says what happens at edges"
    assert bool(sections["example"]) == (name not in generate.BY_HAND | generate.INTERNAL)
    counted = declaration["inputs"]
    assert len(others(declaration)) == (counted["least"] - 1 if counted["exact"] else 1)
    for param in declaration["params"]:
        assert param["doc"].endswith("."), param["name"]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_what_it_returns_and_shows_an_example(name: str) -> None:
    text = inspect.getdoc(METHODS[name]) or ""
    returns = re.search(r"\nReturns:\n((?: +.*\n|\n(?= ))+)", text + "\n")
    assert returns is not None
    if name not in WITHOUT_EDGES:
        assert re.search(r"[Ee]dges\b|^ +As `", returns[1]), "says what happens at edges, or refers to who says so"
    assert ">>> " in text


FUNCTIONS = METHODS | {name: getattr(iso, name) for name in ("collect", "generate", "listen", "run", "scan")}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_docstrings_name_every_parameter_in_sections_of_one_order(function: Any) -> None:
    text = inspect.getdoc(function) or ""
    found = re.findall(r"^(Inputs|Returns|Parameters|Conventions|Raises|Source):$", text, re.MULTILINE)
    order = ("Inputs", "Returns", "Parameters", "Conventions", "Raises", "Source")
    assert found == [title for title in order if title in found]
    assert "Returns" in found
    section = re.search(r"\nParameters:\n((?: +.*\n|\n(?= ))+)", text + "\n")
    named = re.findall(r"^    (\*?\w[\w, ]*)(?: \(.*\))?:", "" if section is None else section[1], re.MULTILINE)
    documented = {name.strip("* ") for names in named for name in names.split(",")}
    # Those of functions that run plans are documented once.
    if "those of `collect`" not in text and "those of `Plan.collect`" not in text:
        parameters = set(inspect.signature(function).parameters) - {"self"}
        assert parameters <= documented
        assert not parameters or "Raises" in found


def test_parameters_of_methods_written_by_hand_are_those_that_are_declared() -> None:
    renamed: dict[str, set[str]] = {
        # Given to Groups.agg, or found by tracing a function.
        "group_by": {"aggregates"},
        "ifft": {"complex"},
    }
    for name in generate.BY_HAND:
        method = METHODS[PUBLIC.get(name, name)]
        taken = set(inspect.signature(method).parameters)
        wanted = {param["name"] for param in DECLARED[name]["params"]} - renamed.get(name, set())
        assert wanted <= taken, name


@pytest.mark.parametrize("segment", [1, 7, 100])
@pytest.mark.parametrize("name", [name for name, one in DECLARED.items() if one["sections"]["example"]])
def test_an_example_gives_the_same_however_its_samples_are_cut(name: str, segment: int) -> None:
    text = DECLARED[name]["sections"]["example"].replace(", isochrony as iso", "")

    class Cut:
        """The package, whose scans are cut."""

        def __getattr__(self, attribute: str) -> Any:
            return getattr(iso, attribute)

        def scan(self, *arguments: Any, **options: Any) -> iso.Plan:
            return iso.scan(*arguments, segment=segment, **options)

    assert "iso.scan" in text
    test = doctest.DocTestParser().get_doctest(text, {"iso": Cut()}, name, None, None)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


def test_signatures_are_shown_as_they_are_written() -> None:
    for name, declaration in DECLARED.items():
        if name not in generate.BY_HAND | generate.INTERNAL:
            assert call(declaration) == f"{name}({signature(declaration)})"
    assert call(DECLARED["limit"]) == "limit(count: int)"
    assert call(DECLARED["collect"]) == ""


def test_every_entry_of_the_reference_shows_a_method() -> None:
    text = generate.reference(DECLARED.values())
    entries = re.findall(r"^### (\w+)\n\n`(\w+)\((.*)\)`$", text, re.MULTILINE)
    assert {name for name, *_ in entries} == set(DECLARED) - set(generate.INTERNAL)
    assert {method for _, method, _ in entries} <= set(METHODS)
