"""`isochrony run`: saved plans from the command line."""

from __future__ import annotations

import csv
import json
import shutil
import signal as signals
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import isochrony as iso
from isochrony.cli import main
from isochrony.cli.exits import Exit
from isochrony.running.options import RunOptions, auto_workers
from processes import PROGRAM, wait_for


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "small.iso"
    with iso.open(path, "x") as store:
        signal = store.create("stn/pressure", dtype="f8", rate=100, unit="kPa", start="2010-03-01")
        signal.append(np.arange(1000.0))
        signal.append_gap(samples=50)
        signal.append(np.r_[np.arange(1000.0, 1990.0), [np.nan] * 10])
    return path


def saved(store: Path, plan: iso.Plan) -> str:
    path = store.parent / "plan.json"
    path.write_text(plan.to_json())
    return str(path)


def windows(store: Path) -> iso.Plan:
    return iso.scan(iso.open(store)["stn/pressure"]).rewindow(100)


def test_a_count_is_printed_with_what_the_run_did(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = saved(store, windows(store).filter(lambda s: s.mean() > 500).count())
    assert main(["run", plan]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "14"
    assert any(line.startswith("filter") for line in lines)
    assert main(["run", plan, "--json", "--report", str(store.parent / "r.json")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["result"] == 14
    names = [one["name"] for one in shown["report"]["operators"]]
    assert names == ["scan", "rewindow", "filter", "count"]
    assert json.loads((store.parent / "r.json").read_text())["operators"][1]["gaps"] == 1


def test_run_options_are_flags(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import isochrony.cli.run as command

    seen: list[RunOptions] = []
    collect = command.collect_reported
    monkeypatch.setattr(
        command,
        "collect_reported",
        lambda plans, options, **how: seen.append(options) or collect(plans, options, **how),
    )
    plan = saved(store, windows(store).count())
    assert main(["run", plan]) == 0
    flags = ["--workers", "2", "--tolerance", "1e-9", "--pin", "--memory", "64MiB", "--no-optimise"]
    assert main(["run", plan, *flags]) == 0
    assert main(["run", plan, "--workers", "auto"]) == 0
    given = {"auto_workers": False, "workers": 2, "tolerance": 1e-9, "pin": True, "memory": 64 << 20, "optimise": False}
    assert seen[1].settings == given
    assert seen[0].settings == seen[2].settings == {"auto_workers": True, "workers": auto_workers()}


def test_explaining_reads_nothing(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", saved(store, windows(store).count()), "--explain"]) == 0
    assert "runs as" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--out", "--report"])
def test_explaining_writes_nothing(store: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = store.parent / "x.csv"
    assert main(["run", saved(store, windows(store).count()), "--explain", option, str(file)]) == Exit.USAGE
    assert f"{option} {file} cannot be used with --explain, which runs nothing; leave out" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy"])
def test_what_comes_out_is_written_as_a_table(store: Path, suffix: str) -> None:
    out = store.parent / f"max.{suffix}"
    plan = saved(store, windows(store).map(lambda s: s.max()))
    assert main(["run", plan, "--out", str(out)]) == 0
    expected = [*range(99, 2000, 100)]
    if suffix == "npy":
        assert np.load(out).shape == (20, 1)
        return
    if suffix == "csv":
        rows = list(csv.DictReader(out.open()))
        index, value = [int(r["index"]) for r in rows], [float(r["value"]) for r in rows]
    else:
        table = pq.read_table(out)
        index, value = table["index"].to_pylist(), table["value"].to_pylist()
    assert index == [*range(0, 1000, 100), *range(1050, 2050, 100)]
    assert value[:-1] == expected[:-1]


def test_values_that_json_has_no_word_for_are_null(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = saved(store, windows(store).filter(lambda s: ~(s.mean() < 1800)).map(lambda s: s.mean()).ranges())
    assert main(["run", plan, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"] == {"start": [1850], "end": [2050]}
    from isochrony.cli.tables import listed

    assert listed(np.array([1.5, np.nan])) == [1.5, None]
    assert listed(np.array([1 + 2j])) == [[1.0, 2.0]]


def test_another_store_may_take_the_place_of_the_one_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = store.parent / "other.iso"
    shutil.copytree(store, other)
    with iso.open(other, "r+") as there:
        plan = iso.scan(there["stn/pressure"]).rewindow(100).map(lambda s: s.mean()).sink(there, "mean")
        path = saved(store, plan)
    shutil.rmtree(other)
    assert main(["run", path]) == Exit.USAGE
    assert "cannot be opened" in capsys.readouterr().err
    assert main(["run", path, "--store", str(store)]) == 0
    assert iso.open(store)["mean"].sample_count == 20
    assert main(["run", path, "--store", str(store)]) == Exit.STORE
    err = capsys.readouterr().err
    assert "mean" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line", "code", "part"),
    [
        ("{", [], Exit.USAGE, "it is not valid JSON: "),
        (b"\x93NUMPY", [], Exit.USAGE, "UTF-8"),
        (
            '{"isochrony_plan": 2}',
            [],
            Exit.USAGE,
            "not a plan of this version; save the plan again with `Plan.to_json` of",
        ),
        (None, [], Exit.USAGE, "plan.json"),
        ("{}", ["--out", "x.txt"], Exit.USAGE, ".csv"),
        ("{}", ["--store", "nowhere"], Exit.USAGE, "nowhere"),
        ("{}", ["--memory", "many"], Exit.USAGE, "--memory 'many' is refused; give bytes from 1, such as"),
        ("{}", ["--workers", "many"], Exit.USAGE, "--workers 'many' is refused; give a whole number from 1 to 1024"),
        ("{}", ["--tolerance", "2"], Exit.USAGE, "--tolerance 2.0 is refused; give a number from 0 to below 1"),
    ],
)
def test_mistakes_are_one_line_and_a_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | bytes | None, line: list[str], code: Exit, part: str
) -> None:
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["run", str(path), *line]) == code
    err = capsys.readouterr().err
    assert part in err
    assert len(err.splitlines()) == 1


def test_ctrl_c_ends_a_run_soon_and_keeps_what_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "long.iso"
    with iso.open(path, "x") as store:
        signal = store.create("tone", dtype="f8", rate=1000, start="2010-03-01")
        signal.append(np.sin(np.arange(2_000_000.0)))
        store.commit()
        # Two thousand samples for each of two million windows: a minute of work.
        plan = iso.scan(signal).rewindow(2_000, 1).map(lambda s: s.std()).sink(store, "spread")
        saved_as = tmp_path / "plan.json"
        saved_as.write_text(plan.to_json())
    command = [sys.executable, "-c", PROGRAM, "run", str(saved_as)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(path, 1, "spread")
            process.send_signal(signals.SIGINT)
            pressed = time.monotonic()
            out, err = process.communicate(timeout=60)
            took = time.monotonic() - pressed
        finally:
            process.kill()
    assert process.returncode == Exit.INTERRUPTED, (out, err)
    assert "Traceback" not in err and "interrupted" in err, err
    # A tenth of a second, and what a process needs to end on a busy machine.
    assert took < 5
    with iso.open(path) as store:
        kept = store["spread"].sample_count
        assert 0 < kept < 1_998_001
        expected = np.sin(np.arange(2_000.0)).std()
        np.testing.assert_allclose(store["spread"][:1].values(), expected, rtol=1e-12)
    assert iso.verify(path)["damage"] == []


def test_a_damaged_signal_and_one_that_is_not_there_have_their_own_exit_codes(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with iso.open(store, "r+") as there:
        # Its name is in what is said of it; a name is no reason.
        there.create("no signal here", dtype="f8", rate=100).append(np.arange(9.0))
        there["no signal here"].append_gap(samples=7)
    plan = saved(store, iso.scan(iso.open(store)["no signal here"]).count())
    assert main(["run", plan]) == 0
    shutil.rmtree(store / "no signal here" / "gaps")
    capsys.readouterr()
    assert main(["run", plan]) == Exit.STORE
    assert "exists but cannot be opened" in capsys.readouterr().err
    text = Path(plan).read_text()
    Path(plan).write_text(text.replace("no signal here", "nothing"))
    assert main(["run", plan]) == Exit.USAGE
    Path(plan).write_text(text)
    shutil.rmtree(store)
    assert main(["run", plan]) == Exit.USAGE


def test_a_plan_that_is_not_there_is_a_wrong_argument(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nothere.json"
    assert main(["run", str(path)]) == 2
    assert capsys.readouterr().err == f"isochrony: {path} does not exist; give the path of a plan's JSON file\n"
