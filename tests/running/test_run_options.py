"""Run options: each reaches Rust by its name, has help, and is a keyword of whoever runs plans."""

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony import _native
from isochrony.cli.main import build_parser
from isochrony.options import byte_count
from isochrony.plan.plan import Plan
from isochrony.running.options import OPTIONS, RunOptions, auto_workers

# A value of each that is not its default, and what is to arrive.
GIVEN: dict[str, tuple[Any, Any]] = {
    "workers": (3, 3),
    "tolerance": (0.25, 0.25),
    "pin": (True, True),
    "measure": (False, False),
    "latency": (0.5, 0.5),
    "progress": (True, True),
    "memory": ("3MiB", 3 << 20),
    "optimise": (False, False),
    "control": (iso.Control(), True),
}
#: Of options that stay in Python.
IN_PYTHON = {"progress"}


def arrived(**given: Any) -> dict[str, Any]:
    """What Rust makes of options."""
    effective: dict[str, Any] = json.loads(_native._effective_options(RunOptions.of(**given)))
    return effective


def test_every_option_is_tried_here() -> None:
    # Clusters are tried in test_cluster_plans.py, tuning in test_tuning.py.
    assert {*GIVEN, "on", "paths", "scale", "tune"} == set(OPTIONS)


@pytest.mark.parametrize("name", [name for name in GIVEN if name not in IN_PYTHON])
def test_a_value_reaches_rust_and_changes_no_other(name: str) -> None:
    value, expected = GIVEN[name]
    # Who asks for a number of workers leaves nothing to choose.
    chosen = {"auto_workers": False} if name == "workers" else {}
    assert arrived(**{name: value}) == arrived() | {name: expected} | chosen
    assert arrived()[name] != expected


def test_all_values_reach_rust_together() -> None:
    effective = arrived(**{name: value for name, (value, _) in GIVEN.items()})
    assert effective == effective | {name: expected for name, (_, expected) in GIVEN.items() if name not in IN_PYTHON}


def test_progress_is_called_by_the_run() -> None:
    # The line is drawn by Python; what Rust takes is a function.
    assert RunOptions.of(progress=True).progress
    seen: list[tuple[int, int]] = []
    plan = iso.scan(np.arange(4_000_000.0), rate=100).map(lambda s: np.cos(np.sqrt(np.exp(-s))))
    # A run that is over soon does not say how far it is.
    for _ in range(100):
        plan._native.run([], RunOptions.of(), lambda done, total: seen.append((done, total)))
        if seen:
            break
    assert seen[-1][1] == 4_000_000


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.is_setting])
def test_defaults_are_those_of_rust(name: str) -> None:
    default = OPTIONS[name].default
    if name == "workers":
        assert (default, arrived()["auto_workers"], arrived()[name]) == ("auto", True, auto_workers())
    else:
        assert default is None or arrived()[name] == default


def test_workers_are_as_many_as_the_cores_that_the_process_may_use() -> None:
    code = "from isochrony.running.options import auto_workers; print(auto_workers())"

    def count(*before: str, **environment: str) -> int:
        command = [*before, sys.executable, "-c", code]
        ran = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
        return int(ran.stdout)

    assert count() == len(os.sched_getaffinity(0))
    assert count("taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))) == 1
    # Inside a worker process the other cores are its siblings'.
    assert count(ISOCHRONY_WORKER="1") == 1


def test_workers_of_others_use_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    def outside() -> None:
        raise ValueError("No worker found")

    expected = auto_workers()
    dask, torch = types.ModuleType("distributed"), types.ModuleType("torch.utils.data")
    monkeypatch.setitem(sys.modules, "distributed", dask)
    monkeypatch.setitem(sys.modules, "torch.utils.data", torch)
    monkeypatch.setattr(dask, "get_worker", outside, raising=False)
    monkeypatch.setattr(torch, "get_worker_info", lambda: None, raising=False)
    assert auto_workers() == expected
    monkeypatch.setattr(torch, "get_worker_info", lambda: (0, 2))
    assert auto_workers() == 1
    monkeypatch.setattr(torch, "get_worker_info", lambda: None)
    monkeypatch.setattr(dask, "get_worker", lambda: dask)
    assert auto_workers() == 1


def test_what_rust_does_not_know_is_an_error() -> None:
    with pytest.raises(TypeError, match="unknown field `speed`"):
        _native._effective_options(RunOptions({"speed": 3}))
    with pytest.raises(TypeError, match="'speed' is not a run option; give one of workers, tolerance"):
        iso.scan(np.arange(4.0), rate=1).collect(speed=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'wrokers' is not a run option \(did you mean workers\?\); give one of"):
        iso.scan(np.arange(4.0), rate=1).collect(wrokers=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", list(OPTIONS))
def test_has_help_text(name: str) -> None:
    text = OPTIONS[name].help
    assert len(text.split()) >= 4, f"{name} needs help that says something"
    assert not text.endswith(".")
    assert f"\n            {name}: {text.split()[0]}" in (Plan.collect.__doc__ or "")


@pytest.mark.parametrize("function", [iso.collect, iso.run, Plan.collect, Plan.run, Plan.blocks])
def test_is_a_keyword_of_what_runs_plans(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    keywords = {name: one.default for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
    own: dict[str, Any] = {} if function in (iso.run, Plan.run) else {"counts": False}
    if function in (iso.collect, Plan.collect):
        own["as_"] = "numpy"
    assert keywords == own | {name: option.default for name, option in OPTIONS.items()}
    assert "{run_options}" not in (function.__doc__ or "")


def run_parser() -> argparse.ArgumentParser:
    commands = next(one for one in build_parser()._actions if isinstance(one, argparse._SubParsersAction))
    parser: argparse.ArgumentParser = commands.choices["run"]
    return parser


def test_is_a_flag_of_the_command_line_with_the_same_help() -> None:
    flags = {flag: one.help for one in run_parser()._actions for flag in one.option_strings}
    for name, option in OPTIONS.items():
        default = {"tolerance": " (default: 0)"}.get(name, "")
        shown = option.metavar or (option.is_setting and option.default is False)
        wanted = {
            f"--{name}": (option.flag_help or option.help) + default if shown else None,
            f"--no-{name}": f"do not {option.help}" if option.is_setting and option.default is True else None,
        }
        assert {flag: flags.get(flag) for flag in wanted} == wanted
    assert flags["--no-optimise"] and flags["--workers"] and "--control" not in flags


def test_a_docstring_has_forms_that_python_takes_and_a_flag_those_of_its_text() -> None:
    document = Plan.collect.__doc__ or ""
    for name, in_python, as_text in (
        ("paths", '{"/home/me/data": "/mnt/data"}', "/home/me/data=/mnt/data"),
        ("scale", "(1, 8)", "1,8"),
        ("tune", "True: adapt", "yes: adapt"),
    ):
        option = OPTIONS[name]
        assert in_python in option.help and in_python in document
        assert as_text in option.flag_help and as_text not in document
    assert OPTIONS["paths"].check("paths", {"/home/me/data": "/mnt/data"}) == {"/home/me/data": "/mnt/data"}
    assert OPTIONS["paths"].parse("/home/me/data=/mnt/data") == {"/home/me/data": "/mnt/data"}
    assert OPTIONS["scale"].check("scale", (1, 8)) == OPTIONS["scale"].parse("1,8") == (1, 8)


def test_the_default_that_help_states_is_that_of_rust() -> None:
    stated = {name: re.search(r"\(default: (\w+)\)", option.help) for name, option in OPTIONS.items()}
    found = {name: one[1] for name, one in stated.items() if one}
    assert found.pop("workers") == OPTIONS["workers"].default
    assert {name: byte_count(name, text) for name, text in found.items()} == {"memory": arrived()["memory"]}


FLAGS = [name for name, option in OPTIONS.items() if isinstance(option.default, bool) and option.metavar is None]


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_takes_no_other_value(name: str) -> None:
    given: Any = {name: "no"}
    with pytest.raises(iso.OptionError, match=f"{name}='no' is refused; give True or False"):
        RunOptions.of(**given)
