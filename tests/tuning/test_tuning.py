"""Runs that are tuned: the same bits, configurations as values, reports, errors, and the view of running plans."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony import Configuration, OptionError
from isochrony.running.options import RunOptions
from isochrony.running.runs import run_reported
from isochrony.running.status_files import running_plans, status_folder
from isochrony.tuning import TuningDecision
from isochrony.tuning.configuration import OUTCOMES, TuningRequest
from tuning_reports import check_decisions


def filters(samples: int, cutoff_hz: float = 50.0, order: int = 4) -> iso.Plan:
    """Filters that keep state: a plan that runs in stages."""
    noise = (1000 * np.random.default_rng(5).standard_normal(1 << 20)).astype(np.int16)
    plan: Any = iso.scan(np.tile(noise, samples >> 20), rate=1000.0)
    for _ in range(3):
        plan = plan.iir("butter", band="lowpass", cutoff_hz=cutoff_hz, order=order)
    return plan.rewindow(4096).power()


@pytest.fixture(scope="module")
def plan() -> iso.Plan:
    return filters(24 << 20)


@pytest.fixture(scope="module")
def tuned(plan: iso.Plan) -> Configuration:
    tuning = plan.run(tune=True, workers=2).report.tuning
    assert tuning is not None
    assert tuning.configuration is not None
    return tuning.configuration


def test_results_are_the_bits_of_one_thread(plan: iso.Plan, tuned: Configuration) -> None:
    expected = plan.collect(workers=1)
    for tune in (True, "recommend"):
        np.testing.assert_array_equal(plan.collect(tune=tune), expected)


def test_a_configuration_of_a_run_is_refused_where_results_are_gathered(plan: iso.Plan, tuned: Configuration) -> None:
    with pytest.raises(OptionError, match="one was run, the other collected"):
        plan.collect(tune=tuned)


def test_the_report_says_what_limits_the_plan_and_what_was_decided() -> None:
    report = filters(96 << 20).run(tune=True, workers=2).report
    tuning = report.tuning
    assert tuning is not None
    assert tuning.windows > 2
    assert tuning.rate > 1e6
    assert tuning.predicted_rate is not None
    assert tuning.bottleneck is not None
    assert f"bottleneck: {tuning.bottleneck}" in str(report)
    assert tuning.model in {"flow model", "local search"}
    assert f"candidates chosen by {tuning.model}: {tuning.model_reason}" in str(report)
    if tuning.model_error is None:
        assert tuning.model_reason == "no trial has checked the flow model yet"
    else:
        assert tuning.plain_error is not None
        assert f"off by {100 * tuning.model_error:.1f} %" in (tuning.model_reason or "")
        assert (tuning.model == "flow model") == (tuning.model_error <= tuning.plain_error + 0.01)
    check_decisions(report)
    # The number of workers was given, and is not changed.
    assert all(decision.candidate.workers == 2 for decision in tuning.decisions)


def test_every_outcome_is_explained() -> None:
    text = TuningDecision.__doc__ or ""
    assert [outcome for outcome in OUTCOMES if f'"{outcome}"' not in text] == []


def test_a_run_without_tuning_has_no_such_report(plan: iso.Plan) -> None:
    assert plan.run().report.tuning is None
    assert plan.run(progress=True).report.tuning is None


def test_a_plan_in_one_thread_has_nothing_to_tune() -> None:
    tuning = iso.scan(np.arange(1000.0), rate=10).rewindow(10).power().run(tune=True).report.tuning
    assert tuning is not None
    assert tuning.configuration is None
    assert tuning.decisions == ()


@pytest.mark.alone
def test_a_start_below_the_optimum_is_improved() -> None:
    """One active thread of two: the tuner finds the second within the run."""
    # Some seconds with two threads: a shorter run is left as it is.
    plan = filters(384 << 20, order=10)
    natives = [plan._native]
    start = Configuration(workers=1, replicas=(1, 1, 1, 1), link_bytes=(1 << 20,) * 3)
    request = TuningRequest("change", configuration=start, threads=2).of_plans(natives, collects=False)
    options = RunOptions.of(workers=2)
    options = RunOptions(options.settings, request=request, tuning=request.json())
    report = run_reported((plan,), options).report
    assert report.tuning is not None
    kept = [decision for decision in report.tuning.decisions if decision.outcome == "kept"]
    if len(os.sched_getaffinity(0)) > 1:
        assert kept, report
        assert kept[0].before.workers == 1
        assert kept[0].candidate.workers == 2
        assert kept[0].predicted_gain is not None
        assert kept[0].predicted_gain > 0.2
        assert kept[0].gain is not None
        assert kept[0].gain.low is not None
        assert kept[0].gain.low > 0


def test_a_configuration_is_saved_loaded_and_replayed(plan: iso.Plan, tuned: Configuration, tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    tuned.save(path)
    loaded = Configuration.load(path)
    assert loaded == tuned
    for tune in (loaded, path, str(path)):
        tuning = plan.run(tune=tune).report.tuning
        assert tuning is not None
        assert tuning.configuration == tuned
        assert tuning.decisions == ()
    with pytest.raises(iso.UsageError, match="exists"):
        tuned.save(path)
    assert "plan" not in repr(tuned)


def test_a_configuration_of_another_plan_or_machine_is_refused(plan: iso.Plan, tuned: Configuration) -> None:
    with pytest.raises(OptionError, match="was made for another plan"):
        filters(24 << 20, cutoff_hz=60.0).run(tune=tuned)
    fields = {name: getattr(tuned, name) for name in Configuration.__slots__}
    with pytest.raises(OptionError, match=r"another machine \(an abacus, 1 cores; this one: "):
        plan.run(tune=Configuration(**fields | {"machine": "an abacus, 1 cores"}))
    with pytest.raises(iso.PlanError, match="has 1 stages and the plan has ") as caught:
        plan.run(tune=Configuration(**fields | {"replicas": (1,)}))
    assert caught.value.code == "other_plan"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as a configuration"),
        ("[]", "is not a configuration of format 1"),
        ('{"format": 2}', "is not a configuration of format 1"),
        ('{"format": 1, "workers": -1}', "workers=-1 is refused; it must be a whole number from 0"),
        ('{"format": 1, "workers": 1}', "replicas is missing; it must be a list of whole numbers"),
    ],
)
def test_broken_files_are_refused_with_a_reason(plan: iso.Plan, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(OptionError, match=message):
        plan.run(tune=path)


def test_wrong_values_are_refused(plan: iso.Plan) -> None:
    with pytest.raises(OptionError, match=r"tune=3 is refused; give True"):
        plan.run(tune=3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"tune='nowhere.json' is refused, since there is no such file; give True"):
        plan.run(tune="nowhere.json")


def test_the_command_line_tunes_saves_and_shows(plan: iso.Plan, tmp_path: Path) -> None:
    noise = np.random.default_rng(5).standard_normal(1 << 20)
    store = iso.open(tmp_path / "a.iso", "x")
    signal = store.create("noise", dtype="float64", rate=1000)
    signal.append(noise)
    store.commit()
    saved: Any = iso.scan(signal)
    for _ in range(3):
        saved = saved.iir("butter", band="lowpass", cutoff_hz=50, order=4)
    (tmp_path / "plan.json").write_text(saved.rewindow(4096).power().map(lambda s: s.max()).to_json())
    store.close()
    command = [sys.executable, "-m", "isochrony", "run", str(tmp_path / "plan.json")]
    ran = subprocess.run([*command, "--tune", "recommend", "--json"], capture_output=True, text=True, check=True)
    tuning = json.loads(ran.stdout)["report"]["tuning"]
    assert set(tuning) == {
        *("configuration", "predicted_gain", "bottleneck", "rate", "predicted_rate", "windows", "decisions"),
        *("model", "model_reason", "model_error", "plain_error", "advice"),
    }
    found = tmp_path / "found.json"
    command += ["--workers", "2"]
    subprocess.run([*command, "--tune", "yes", "--save-configuration", str(found)], check=True, capture_output=True)
    again = subprocess.run([*command, "--tune", str(found), "--json"], capture_output=True, text=True, check=True)
    replayed = json.loads(again.stdout)["report"]["tuning"]["configuration"]
    assert replayed["replicas"] == list(Configuration.load(found).replicas)
    short = iso.scan(signal[:1000]).rewindow(10).power()
    (tmp_path / "short.json").write_text(short.to_json())
    one_thread = [*command[:4], str(tmp_path / "short.json"), "--tune", "yes", "--save-configuration"]
    ran = subprocess.run([*one_thread, str(tmp_path / "none.json")], capture_output=True, text=True, check=True)
    assert "none.json is not written, since the plan ran in one thread" in ran.stderr
    useless = [*command, "--save-configuration", str(tmp_path / "none.json")]
    ran = subprocess.run(useless, capture_output=True, text=True, check=False)
    assert "needs --tune" in ran.stderr
    refused = subprocess.run([*command, "--tune", "maybe"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert (
        "--tune 'maybe' is refused, since there is no such file; give yes, no, recommend, or the file" in refused.stderr
    )
    assert "Traceback" not in refused.stderr


def test_top_shows_a_running_plan_and_nothing_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert status_folder() == tmp_path / "isochrony"
    plan = filters(128 << 20)
    seen: list[dict[str, Any]] = []
    texts: list[str] = []

    def look() -> None:
        while not done.is_set():
            states = running_plans()
            if states and not seen:
                seen.extend(states)
                top = [sys.executable, "-m", "isochrony", "top", "--once"]
                text = subprocess.run(top, capture_output=True, text=True, check=True).stdout
                if "process" in text:
                    texts.append(text)
                else:
                    # The run ended while the program started: the next one is looked at.
                    seen.clear()
            time.sleep(0.02)

    done = threading.Event()
    watching = threading.Thread(target=look)
    watching.start()
    for _ in range(40):
        plan.run(tune=True, workers=2)
        if texts:
            break
    done.set()
    watching.join()
    state = seen[0]
    assert state["pid"] == os.getpid()
    assert state["total"] == 128 << 20
    assert any(name.startswith("iir") or "iir" in name for name in state["names"])
    (text,) = texts
    assert f"process {os.getpid()}: " in text
    assert "bottleneck: " in text or "link 0 to 1: " in text
    assert "candidates chosen by " in text
    assert running_plans() == []


def test_what_a_killed_process_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = status_folder()
    folder.mkdir(mode=0o700)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    process.send_signal(signal.SIGKILL)
    process.wait()
    left = folder / f"{process.pid}-0.json"
    left.write_text("{}")
    part = left.with_suffix(".part")
    part.write_text("{")
    (folder / "notes.json").write_text("{}")
    assert running_plans() == []
    assert not left.exists()
    assert not part.exists()


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from isochrony.running.status_files import status_path

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = status_path()
    assert path is not None
    path.parent.chmod(0o777)
    assert status_path() is None


def test_measured_operators_predict_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    plan = filters(8 << 20)
    assert "no prediction of throughput: not measured: iir -> rewindow -> power" in plan.explain()
    costs = plan.characterise(samples=1 << 18, repeats=3)
    assert [cost.name for cost in costs] == ["iir", "iir", "iir", "rewindow", "power"]
    for cost in costs:
        assert cost.low_ns <= cost.ns_per_sample <= cost.high_ns
        assert cost.samples >= 1 << 18
    assert (tmp_path / "isochrony/operators.json").exists()
    text = plan.explain()
    assert "1 thread: " in text
    assert "error so far: no prediction was checked yet" in text
    # Longer than half a second: its error counts. The operators are those that were measured.
    other = filters(96 << 20)
    report = other.run(workers=1).report
    lines = [line for line in other.explain().splitlines() if "error so far" in line]
    if report.elapsed_s > 0.5:
        assert lines[0].endswith("of 1 predictions")
        rate = json.loads((tmp_path / "isochrony/operators.json").read_text())["predictions"][0]
        assert rate["measured"] == pytest.approx((96 << 20) / report.elapsed_s, rel=0.01)
        # The machine may be busy with other tests: the order of magnitude is right.
        assert 0.2 < rate["predicted"] / rate["measured"] < 5
    else:
        assert lines[0].endswith("no prediction was checked yet")


def test_what_cannot_be_measured_is_refused_or_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    made = iso.generate(lambda: iter([np.zeros(100)]), dtype="f8", rate=100)
    with pytest.raises(iso.PlanError, match="can be read only once") as caught:
        made.rewindow(10).power().characterise()
    assert caught.value.code == "cannot_characterise"
    windows: Any = iso.scan(np.arange(1e5), rate=100).rewindow(10)
    called = windows.map(iso.py(lambda block: block * 2)).power()
    assert [cost.name for cost in called.characterise(repeats=3)] == ["rewindow"]
    for wrong in ({"samples": 0}, {"repeats": 2}, {"save": 1}):
        with pytest.raises(OptionError):
            windows.characterise(**wrong)
