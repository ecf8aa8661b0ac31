"""Implementations that are switched, and branches that are added and removed, while a plan runs."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

RATE = 1000
X = np.random.default_rng(5).standard_normal(200_000).astype("f8")

Seen = list[tuple[int, np.ndarray[Any, Any]]]


def made(pause: float = 0.0) -> iso.Plan:
    def blocks() -> Iterator[np.ndarray[Any, Any]]:
        for block in X.reshape(-1, 1000):
            time.sleep(pause)
            yield block

    return iso.generate(blocks, dtype="f8", rate=RATE)


def noting(plan: iso.Plan) -> tuple[iso.Plan, Seen]:
    seen: Seen = []
    return plan.each(lambda values, start: seen.append((start, values.copy()))), seen


def samples(seen: Seen) -> tuple[int, np.ndarray[Any, Any]]:
    """The first index and the samples, which must be contiguous."""
    for (start, values), (following, _) in zip(seen, seen[1:], strict=False):
        assert start + len(values) == following
    return seen[0][0], np.concatenate([values for _, values in seen])


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("source", [iso.scan(X, rate=RATE), made()], ids=["stored", "made"])
def test_a_filter_switches_at_an_index(source: iso.Plan, workers: int) -> None:
    filtered = source.fir(41, "lowpass", 50)
    expected = filtered.collect(workers=1)
    results = []
    for _ in range(2):
        control = iso.Control()
        control.set(filtered, at=50_123, method="fft")
        control.set(filtered, at=120_000, method="direct")
        result = filtered.count().run(workers=workers, control=control, tolerance=1e-14)
        changes = [(one.operator, one.parameters, one.at) for one in result.report.changes]
        assert changes == [("fir", {"method": "fft"}, 50_123), ("fir", {"method": "direct"}, 120_000)]
        for change in result.report.changes:
            control.set(filtered, at=change.at, **change.parameters)
        results.append(filtered.collect(workers=workers, control=control, tolerance=1e-14))
    np.testing.assert_array_equal(results[0], results[1])
    assert len(results[0]) == len(expected)
    np.testing.assert_allclose(results[0], expected, rtol=0, atol=1e-12)
    # Bits of transforms differ in between.
    assert (results[0] != expected)[50_123:120_000].any()
    np.testing.assert_array_equal(results[0][130_000:], expected[130_000:])


def test_a_switch_must_be_declared_and_granted() -> None:
    filtered = iso.scan(X, rate=RATE).fir(41, "lowpass", 50)
    control = iso.Control()
    control.set(filtered, method="fft")
    with pytest.raises(iso.PlanError, match=r"differ by up to 1e-14 .* give the run tolerance=1e-14") as error:
        filtered.collect(control=control)
    assert error.value.code == "not_within_tolerance"
    with pytest.raises(iso.PlanError, match="method"):
        control.set(filtered, method="slow")
    median = iso.scan(X, rate=RATE).running_quantile("25 samples", 0.5)
    control = iso.Control()
    control.set(median, at=1000, method="heaps")
    np.testing.assert_array_equal(median.collect(control=control), median.collect())


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_branch_gets_what_lies_between_two_indices(workers: int) -> None:
    low = made().lowpass(100)
    plan = low.highpass(10).rewindow(100).stats("max")
    expected, filtered = plan.collect(workers=1), low.collect(workers=1)
    branch, seen = noting(low)
    control = iso.Control()
    control.add(branch, at=1234)
    control.remove(branch, at=98_765)
    result = plan.run(workers=workers, control=control)
    (report,) = result.report.branches
    assert (report.operator, report.tap, report.at, report.until) == ("each", "iir", 1234, 98_765)
    assert "branch that ends in each" in str(result.report)
    start, values = samples(seen)
    assert start == 1234
    np.testing.assert_array_equal(values, filtered[1234:98_765])
    control.add(noting(low)[0])
    got = plan.collect(workers=workers, control=control)
    np.testing.assert_array_equal(got["max"], expected["max"])


@pytest.mark.parametrize("workers", [1, 2])
def test_branches_come_and_go_from_another_thread(workers: int) -> None:
    low = made(pause=0.001).lowpass(100)
    plan = low.highpass(10).rewindow(100).stats("max")
    filtered = low.collect(workers=1)
    control, done = iso.Control(), threading.Event()
    noted: list[Seen] = []
    threads = set()

    def change() -> None:
        time.sleep(0.05)
        while not done.is_set():
            branch, seen = noting(low.map(lambda s: s * 2))
            control.add(branch)
            time.sleep(0.02)
            try:
                control.remove(branch)
            except iso.PlanError as error:
                assert error.code == "branch"  # the run has ended
            noted.append(seen)

    control.add(low.each(lambda values, start: threads.add(threading.get_ident())))
    other = threading.Thread(target=change)
    other.start()
    try:
        result = plan.run(workers=workers, control=control)
    finally:
        done.set()
        other.join()
    assert threads == {threading.get_ident()}
    whole, *others = result.report.branches
    assert (whole.at, whole.until) == (0, len(X))
    got = [(report, seen) for report, seen in zip(others, noted, strict=False) if seen]
    assert len(got) > 2
    for report, seen in got:
        start, values = samples(seen)
        assert (start, start + len(values)) == (report.at, report.until)
        np.testing.assert_array_equal(values, 2 * filtered[report.at : report.until])


def test_a_sink_of_a_branch_commits_when_the_branch_is_removed(tmp_path: Path) -> None:
    done = threading.Event()

    def blocks() -> Iterator[np.ndarray[Any, Any]]:
        """The samples again and again, until the other thread has seen what it waits for."""
        deadline = time.monotonic() + 60
        for block in itertools.cycle(X.reshape(-1, 1000)):
            if done.is_set() or time.monotonic() > deadline:
                return
            time.sleep(0.001)
            yield block

    low = iso.generate(blocks, dtype="f8", rate=RATE).lowpass(100)
    with iso.open(tmp_path / "a.iso", "x") as store:
        branch = low.sink(store, "low")
        control, committed = iso.Control(), []

        def wait_for_results() -> None:
            """Until a branch that is added now has got some."""
            given = threading.Event()
            control.add(low.each(lambda values, start: given.set()))
            assert given.wait(60)

        def watch() -> None:
            try:
                wait_for_results()
                control.add(branch)
                wait_for_results()
                control.remove(branch)
                wait_for_results()
                with iso.open(tmp_path / "a.iso") as reader:
                    committed.append(len(reader["low"]))
            finally:
                done.set()

        other = threading.Thread(target=watch)
        other.start()
        branches = low.highpass(10).count().run(control=control).report.branches
        other.join()
        (report,) = (one for one in branches if one.operator == "sink")
        assert report.at is not None and report.until is not None and report.at > 0
        assert committed == [report.until - report.at]
        filtered = iso.scan(np.resize(X, report.until), rate=RATE).lowpass(100).collect(workers=1)
        np.testing.assert_array_equal(store["low"].values(), filtered[report.at :])


def test_branches_that_do_not_fit_are_refused() -> None:
    stored = iso.scan(X, rate=RATE)
    low = stored.fir(41, "lowpass", 50)
    control = iso.Control()
    branch = noting(stored)[0]
    control.add(branch)
    with pytest.raises(iso.PlanError, match="give the run workers=1") as error:
        low.lowpass(10).collect(control=control, workers=2)
    assert error.value.code == "branch"
    with pytest.raises(iso.PlanError, match="nothing would receive its results"):
        control.add(low.highpass(5))
        low.collect(control=control)
    with pytest.raises(iso.PlanError, match="not part of the running plan"):
        control.add(noting(made())[0])
        low.collect(control=control)
    with pytest.raises(iso.PlanError, match="not a branch of the running plan"):
        control.remove(branch)
    with pytest.raises(iso.OptionError):
        control.add(branch, at="now")  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_branch_is_the_error_of_the_run(workers: int) -> None:
    low = made().lowpass(100)

    def failing(values: np.ndarray[Any, Any], start: int) -> None:
        raise ZeroDivisionError("of the branch")

    control = iso.Control()
    control.add(low.each(failing))
    with pytest.raises(iso.RunError, match=r"each \(node 3, .*ZeroDivisionError: of the branch") as error:
        low.highpass(10).run(workers=workers, control=control)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_a_change_of_no_parameter_is_refused() -> None:
    plan = iso.scan(np.arange(8.0), rate=100).map(lambda s: s * 2)
    with pytest.raises(iso.OptionError, match="no parameter to change"):
        iso.Control().set(plan)
