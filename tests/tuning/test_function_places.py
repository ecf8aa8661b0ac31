"""Where a tuned run calls functions with on_workers="any": measured, chosen, a part of configurations, and replayed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import isochrony as iso
from isochrony import Configuration, OptionError
from isochrony.tuning import TuningDecision
from tuning_reports import check_decisions

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]

WINDOW = 1000
WINDOWS = 2000
SAMPLES = np.random.default_rng(7).standard_normal(WINDOWS * WINDOW)

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")


def sleeping(seconds: float, most: int = WINDOWS) -> Function:
    """Takes so long for a window, and holds no lock. After so many windows it takes no more time: measurements come
    first, and are not disturbed if they take long.
    """
    done = [0]

    def sleep(rows: Array) -> Array:
        if done[0] < most:
            time.sleep(seconds * len(rows))
        done[0] += len(rows)
        return rows.max(axis=1)

    return sleep


def holding(seconds: float, most: int = WINDOWS) -> Function:
    """The same with the interpreter's lock, and without computing, since other programs may have the cores."""
    done = [0]

    def hold(rows: Array) -> Array:
        import ctypes

        if done[0] < most:
            ctypes.PyDLL(None).usleep(int(1e6 * seconds * len(rows)))
        done[0] += len(rows)
        return rows.max(axis=1)

    return hold


def windows(function: Function, on_workers: Any = "any") -> iso.Plan:
    plan: Any = iso.scan(SAMPLES, rate=1000.0).rewindow(WINDOW)
    return plan.map(iso.py(function, dtype="f8", width=1, on_workers=on_workers))


def tuned(plan: iso.Plan, **options: Any) -> tuple[Configuration, Any]:
    report = plan.run(**{"workers": 2, "tune": True} | options).report
    assert report.tuning is not None
    check_decisions(report)
    configuration = report.tuning.configuration
    return configuration if configuration is not None else Configuration(1), report


def decision_of(report: Any) -> TuningDecision:
    """That about the place of its function, before the start."""
    (decision,) = (one for one in report.tuning.decisions if str(one).startswith("before the start: "))
    assert decision.at_s == 0
    return decision


def test_a_function_that_releases_the_lock_is_called_in_threads() -> None:
    callers = set()
    sleep = sleeping(0.05, most=40)

    def noted(rows: Array) -> Array:
        callers.add(threading.get_ident())
        return sleep(rows)

    found, report = tuned(windows(noted))
    assert found.places == ("threads",)
    assert len(callers - {threading.get_ident()}) > 1
    decision = decision_of(report)
    assert decision.outcome == "chosen"
    assert (decision.before.places, decision.candidate.places) == (("auto",), ("threads",))
    assert decision.predicted_gain is not None
    assert decision.predicted_gain > 0.5
    # Two sleep as fast as one.
    assert " samples in one thread, " in decision.reason
    assert " times as fast in two at once" in decision.reason
    assert {one.places for one, _ in decision.alternatives} == {("processes",), ("inline",)}
    assert str(decision).startswith("before the start: map(py(noted)) threads (")
    assert "in the workers' threads: chosen by tuning" in str(report)


PRODUCTS = """
import numpy as np, isochrony as iso
noise = np.random.default_rng(1).standard_normal(1 << 22)
square = noise[: 1 << 20].reshape(1 << 10, 1 << 10)
product = iso.py(lambda rows: (rows @ square).max(axis=1), dtype="f8", width=1, on_workers="any")
plan = iso.scan(noise, rate=1000.0).rewindow(1 << 10).map(product)
# Other programs may have the second core for a moment.
for _ in range(5):
    (decision,) = plan.run(workers=2, tune="recommend").report.tuning.decisions
    print(decision)
    if decision.candidate.places == ("threads",):
        break
"""


@pytest.mark.alone
def test_products_of_matrices_are_called_in_threads() -> None:
    """Their library lets go of the lock, and has one thread."""
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    environment = os.environ | dict.fromkeys(names, "1")
    command = [sys.executable, "-c", PRODUCTS]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1].startswith("before the start: map(py(<lambda>)) threads ("), ran.stdout


def test_a_function_that_holds_the_lock_is_called_in_processes() -> None:
    # A hundred seconds, as far as the measurement can tell: a process may take long to start.
    found, report = tuned(windows(holding(0.05, most=40)))
    assert found.places == ("processes",), str(decision_of(report))
    assert len(report.processes) == 2
    assert "in a worker process that takes " in decision_of(report).reason


def test_a_function_that_is_too_cheap_stays() -> None:
    # A third of a second with the lock: processes would take longer to start.
    for _ in range(5):
        _, report = tuned(windows(holding(0.3 / WINDOWS)))
        decision = decision_of(report)
        assert decision.outcome == "chosen"
        assert report.processes == ()
        # A millisecond is measured: other programs may disturb it.
        if decision.candidate.places == ("inline",):
            break
    assert decision.candidate.places == ("inline",), str(decision)
    _, report = tuned(windows(lambda rows: rows.max(axis=1)))
    assert decision_of(report).outcome == "too_short"
    assert "in one thread" in decision_of(report).reason


@pytest.mark.parametrize("place", ["threads", "processes", "inline", "auto"])
def test_results_are_the_same_bits_in_each_place(place: str, tmp_path: Path) -> None:
    plan = windows(lambda rows: rows.std(axis=1) + rows[:, 0])
    expected = plan.collect(workers=1)
    Configuration(2, threads=2, places=(place,)).save(tmp_path / "place.json")
    np.testing.assert_array_equal(plan.collect(tune=tmp_path / "place.json"), expected)


def test_results_are_the_same_bits_if_tuning_chooses() -> None:
    rows = SAMPLES.reshape(WINDOWS, WINDOW)
    for options in ({"workers": 2}, {}, {"workers": 3}):
        plan = windows(sleeping(0.05, most=40))
        found = plan.collect(tune=True, **options)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found[:, 0], rows.max(axis=1))


def test_a_place_is_chosen_without_a_stated_number_of_workers() -> None:
    found, report = tuned(windows(sleeping(0.05, most=40)), workers="auto")
    assert found.places == ("threads",), str(decision_of(report))
    # Without tuning the function stays in the thread of the run.
    callers = set()

    def noted(rows: Array) -> Array:
        callers.add(threading.get_ident())
        return rows.max(axis=1)

    windows(noted).run()
    assert callers == {threading.get_ident()}


def test_a_choice_is_saved_and_replayed(tmp_path: Path) -> None:
    plan = windows(sleeping(0.05, most=40))
    found, _ = tuned(plan)
    assert "places=('threads',)" in repr(found)
    found.save(tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text())["places"] == ["threads"]
    assert Configuration.load(tmp_path / "found.json") == found
    replayed, report = tuned(plan, tune=tmp_path / "found.json")
    assert replayed == found
    assert report.tuning.decisions == ()
    elsewhere = replace(found, places=("processes",))
    assert elsewhere != found
    replayed, report = tuned(plan, tune=elsewhere)
    assert replayed.places == ("processes",)
    assert len(report.processes) == 2
    # As files were before there were places.
    text = (tmp_path / "found.json").read_text()
    old = text.replace(',\n "places": [\n  "threads"\n ]', "")
    assert old != text
    (tmp_path / "old.json").write_text(old)
    assert Configuration.load(tmp_path / "old.json").places == ()
    assert tuned(plan, tune=tmp_path / "old.json")[0].places == ("auto",)


def test_a_place_that_the_user_gave_is_fixed() -> None:
    sleep = sleeping(1e-4)
    callers: set[int] = set()

    def noted(rows: Array) -> Array:
        callers.add(threading.get_ident())
        return sleep(rows)

    plan = windows(noted, "threads")
    found, report = tuned(plan)
    assert found.places == ("threads",)
    assert not [one for one in report.tuning.decisions if one.outcome == "chosen"]
    callers.clear()
    replayed, _ = tuned(plan, tune=replace(found, places=("inline",)))
    assert replayed.places == ("threads",)
    assert callers - {threading.get_ident()}
    callers.clear()
    tuned(windows(noted, "inline"), tune=Configuration(2, threads=2, places=("threads",)))
    assert callers == {threading.get_ident()}


def test_places_of_another_plan_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    plan = windows(sleeping(1e-5))
    one = Configuration(2, threads=2, places=("threads", "threads"))
    with pytest.raises(iso.PlanError, match="has 2 Python functions and the plan has 1") as caught:
        plan.run(tune=one)
    assert caught.value.code == "other_plan"
    for place in ("abroad", "any"):
        with pytest.raises(iso.PlanError, match=rf'places\[0\]="{place}" is refused; it must be "auto", "threads"'):
            plan.run(tune=replace(one, places=(place,)))
        one.save(tmp_path / f"{place}.json")
        fields = json.loads((tmp_path / f"{place}.json").read_text())
        (tmp_path / f"{place}.json").write_text(json.dumps(fields | {"places": [place]}))
        with pytest.raises(OptionError, match=rf"places=\['{place}'\] is refused; it must be a list of \"auto\""):
            Configuration.load(tmp_path / f"{place}.json")


def test_a_recommendation_measures_and_changes_nothing() -> None:
    found, report = tuned(windows(sleeping(0.05, most=40)), tune="recommend")
    assert found.places == ("threads",)
    assert decision_of(report).outcome == "chosen"
    assert not [one for one in report.places if "threads" in one]


def test_a_recommendation_of_a_run_in_one_thread_is_a_configuration() -> None:
    plan = windows(sleeping(0.05, most=40))
    report = plan.run(tune="recommend").report
    found = report.tuning.configuration  # type: ignore[union-attr]
    assert found is not None
    assert found.places == ("threads",)
    assert report.workers == ()
    replayed, report = tuned(plan, workers="auto", tune=found)
    assert replayed.places == ("threads",)
    assert len(report.workers) == len(os.sched_getaffinity(0))
    expected = SAMPLES.reshape(WINDOWS, WINDOW).max(axis=1)
    np.testing.assert_array_equal(plan.collect(tune=replace(found, plan=""))[:, 0], expected)


def test_several_functions_are_placed_each_by_itself() -> None:
    plan: Any = iso.scan(SAMPLES, rate=1000.0).rewindow(WINDOW)
    sleep = sleeping(0.03, most=60)
    plan = plan.map(iso.py(lambda rows: (sleep(rows), rows)[1], dtype="f8", width=WINDOW, on_workers="any"))
    plan = plan.map(iso.py(lambda rows: rows.max(axis=1), dtype="f8", width=1, on_workers="inline"))
    plan = plan.map(iso.py(lambda rows: rows[:, 0] + sleep(rows), dtype="f8", width=1, on_workers="any"))
    found, report = tuned(plan)
    assert found.places == ("threads", "inline", "auto"), str(report)
    first, second = (one for one in report.tuning.decisions if one.outcome in ("chosen", "not_measured"))
    assert (first.candidate.places, first.outcome) == (("threads", "inline", "auto"), "chosen")
    # It is behind one that may be called in the run alone.
    assert second.outcome == "not_measured"
    assert "it follows map(py(<lambda>))" in second.reason


def test_a_function_behind_a_feed_is_not_measured() -> None:
    called = []

    def made() -> Iterator[Array]:
        yield from np.arange(10_000.0).reshape(10, 1000)

    def noted(rows: Array) -> Array:
        called.append(len(rows))
        return rows.max(axis=1)

    plan: Any = iso.generate(made, dtype="f8", rate=1000).rewindow(10)
    plan = plan.map(iso.py(noted, dtype="f8", width=1, on_workers="any"))
    report = plan.run(tune=True, workers=2).report
    decision = decision_of(report)
    assert decision.outcome == "not_measured"
    assert "can be read once only" in decision.reason
    assert sum(called) == 1000


def test_an_error_in_the_measurement_is_the_error_of_the_run() -> None:
    sleep = sleeping(0.05, most=40)

    def failing(rows: Array) -> Array:
        raise ValueError(f"no result for {len(rows) > 0}")

    def late(rows: Array) -> Array:
        if (rows[:, 0] == SAMPLES[WINDOW * WINDOWS // 2]).any():
            raise ValueError("too late")
        return sleep(rows)

    for function, text in ((failing, "no result for True"), (late, "too late")):
        errors = []
        for where, options in (("inline", {}), ("any", {"tune": True})):
            with pytest.raises(iso.RunError, match=text) as caught:
                windows(function, where).run(workers=2, **options)  # type: ignore[arg-type]
            assert isinstance(caught.value.__cause__, ValueError)
            errors.append(str(caught.value))
        inline, measured = errors
        assert inline.partition(" (node 2, ")[0] == measured.partition(" (node 2, ")[0] == "py"
        if function is failing:
            assert measured == inline


@pytest.mark.parametrize("where", ["the thread of the run", "another thread"])
def test_ctrl_c_ends_the_measurement(where: str) -> None:
    calls: list[int] = []
    main = threading.get_ident()
    pressed = threading.Event()

    def presses(rows: Array) -> Array:
        thread = threading.get_ident()
        calls.append(thread)
        time.sleep(2e-4 * len(rows))
        is_here = thread == main
        if is_here == (where == "the thread of the run") and not pressed.is_set():
            pressed.set()
            os.kill(os.getpid(), signal.SIGINT)
        return rows.max(axis=1)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            windows(presses).run(workers=2, tune=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed.is_set()
    # The run would call it with some hundred blocks; in the thread of the run it is the first call of all.
    assert len(calls) == 1 if where == "the thread of the run" else len(calls) < 20


def test_any_is_refused_for_what_keeps_state() -> None:
    with pytest.raises(OptionError, match=r'sequential=True, on_workers="any"\) is refused'):
        iso.py(np.cumsum, sequential=True, on_workers="any")
    with pytest.raises(OptionError, match=r'state=..., on_workers="any"\) is refused'):
        iso.py(np.cumsum, state=dict, on_workers="any")
