"""Plans on several cores: the same results, who did what, and what is told when something fails."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

pytestmark = pytest.mark.native

RATE = 1000


@pytest.fixture(scope="module")
def pressure(tmp_path_factory: pytest.TempPathFactory) -> iso.Signal:
    """Two million samples with gaps and a clock that was set back."""
    store = iso.open(tmp_path_factory.mktemp("many") / "a.iso", mode="x")
    writer = store.create("stn/p", dtype="i2", rate=RATE, unit="kPa", start="2010-03-01T00:00:00Z")
    chance = np.random.default_rng(3)
    for part in range(5):
        writer.append((chance.normal(size=400_000) * 300).astype("i2"))
        if part == 2:
            writer.append(np.zeros(10, "i2"), at="2010-02-01T00:00:00Z")
        writer.append_gap(samples=1 + 777 * part)
    store.commit()
    return store["stn/p"]


def test_tables_arrays_and_counts_are_the_same_bits(pressure: iso.Signal) -> None:
    windows = iso.scan(pressure).rewindow(512, hop=300)
    plans = [
        windows.stats("mean", "std", "min"),
        windows.power().map(lambda p: p.max()),
        windows.filter(lambda s: s.std() > 300).count(),
        iso.scan(pressure).map(lambda s: s * 2.5).rewindow(1000).rms(),
        # What needs samples around each.
        iso.scan(pressure).fir(np.hanning(31).tolist(), delay="centred").rewindow(500).stats("max"),
        iso.scan(pressure).decimate(10),
        iso.scan(pressure).decimate(4).spectrogram(256, hop=64),
        # What remembers goes on in order.
        iso.scan(pressure).map(lambda s: s * 2.5).iir("butter", "lowpass", 100.0).rewindow(1000).stats("max"),
    ]
    for plan in plans:
        one, many = plan.collect(), plan.collect(workers=3)
        if isinstance(one, iso.Table):
            for name in one.columns:
                np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(many[name]))
        else:
            np.testing.assert_array_equal(one, many)


def test_what_a_filter_holds_back_meets_its_input_whole() -> None:
    """Forwards and backwards filters give their last samples when a stretch ends, however far the input is by then."""
    values = np.random.default_rng(1).standard_normal(60_000)
    scan = iso.scan(values, rate=RATE, segment=1000)
    smoothed = scan.fir([0.1, 0.3, 0.5, 1.0, 0.5, 0.3, 0.1], method="direct", delay="centred")
    early = scan.map(lambda s: s * 2).passthrough().between(0, 30_500)
    for plan, samples in ((smoothed, 59_994), (early, 30_500)):
        for held in (plan.zero_phase("butter", "lowpass", 200.0, 2), plan.fir(np.hanning(101).tolist(), method="fft")):
            alone = held.collect()
            assert len(alone) == samples
            difference = plan.map(lambda a, b: a - b, held)
            for workers in (1, 2, 3):
                np.testing.assert_array_equal(difference.collect(workers=workers), plan.collect() - alone)


def test_merged_windows_come_in_the_same_order_however_many_workers_there_are() -> None:
    windows = iso.scan(np.arange(60_000.0), rate=100, segment=1000).rewindow(10)
    first, second, third = (windows.map(lambda s, k=k: s * 0 + k) for k in (1.0, 2.0, 3.0))
    # Remembers, so that it meets the others behind the tasks.
    fourth = windows.map(lambda s: s * 0 + 4.0).filter(lambda s: s.min().ewm(0.5) > 0)
    merged = first.merge(second, third).merge(fourth)
    for plan in (merged, merged.limit(86)):
        one = plan.collect()
        assert one[:8, 0].tolist() == [1, 2, 3, 4, 1, 2, 3, 4]
        for workers in (2, 3):
            np.testing.assert_array_equal(plan.collect(workers=workers), one)


def test_what_settles_is_done_by_workers_where_a_tolerance_is_granted(pressure: iso.Signal) -> None:
    plan = iso.scan(pressure).iir("butter", "lowpass", 100.0)
    assert "tolerance=" in plan.explain()
    exact = plan.collect()
    one = plan.run(workers=1, tolerance=1e-9)
    assert len(one.report.workers) == 1
    few, many = (plan.collect(workers=workers, tolerance=1e-9) for workers in (1, 3))
    np.testing.assert_array_equal(few, many)
    assert np.abs(many - exact).max() < 1e-9 * 1500
    assert not plan.run(tolerance=1e-10).report.workers
    for refused in (-1e-9, 1.0, float("nan"), True, "much"):
        with pytest.raises(iso.OptionError, match=r"tolerance=.* number from 0 to below 1"):
            plan.run(workers=2, tolerance=refused)  # type: ignore[arg-type]


def test_groups_are_gathered_in_tasks_to_the_same_bits(pressure: iso.Signal) -> None:
    rows = iso.scan(pressure).rewindow(400).stats("mean", "max")
    plan = rows.group_by("max").agg(count="count", total=("mean", "sum"), spread=("mean", "std"))
    assert "partial results are combined" in plan.explain()
    one, many = (plan.collect(workers=workers) for workers in (1, 3))
    for name in one.columns:
        np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(many[name]))
    table = rows.collect()
    tops, counts = np.unique(np.asarray(table["max"]), return_counts=True)
    order = np.argsort(np.asarray(one["max"]))
    np.testing.assert_array_equal(np.asarray(one["max"])[order], tops)
    np.testing.assert_array_equal(np.asarray(one["count"])[order], counts)
    sums = [np.asarray(table["mean"])[np.asarray(table["max"]) == top].sum() for top in tops]
    np.testing.assert_allclose(np.asarray(one["total"])[order], sums, rtol=1e-12, atol=1e-9)


def test_python_functions_see_what_they_see_in_one_thread(pressure: iso.Signal) -> None:
    def seen(workers: int) -> tuple[np.ndarray, list[int]]:
        sums: list[np.ndarray] = []
        starts: list[int] = []
        here = threading.current_thread()

        def see(values: np.ndarray, start: int) -> None:
            assert threading.current_thread() is here
            sums.append(values.sum(axis=1))
            starts.append(start)

        iso.scan(pressure).rewindow(1000).power().each(see).run(workers=workers)
        return np.concatenate(sums), starts

    one, many = seen(1), seen(3)
    np.testing.assert_array_equal(one[0], many[0])
    assert len(many[1]) > 3


def test_branches_and_streams_that_meet_again_are_the_same_bits(pressure: iso.Signal) -> None:
    raw = iso.scan(pressure)
    smooth = raw.fir([0.25, 0.5, 0.25], delay="centred")
    rough = raw.map(lambda a, b: a - b, smooth)
    plans = [rough.rewindow(500).stats("std", "max"), smooth.rewindow(500).map(lambda s: s.max() - s.min()), rough]
    one = iso.collect(*plans)
    for workers in (2, 3):
        done = iso.run(*plans, workers=workers, memory=256 << 20)
        assert len(done.report.workers) == workers
        many = iso.collect(*plans, workers=workers, memory=256 << 20)
        for name in one[0].columns:
            np.testing.assert_array_equal(np.asarray(one[0][name]), np.asarray(many[0][name]))
        np.testing.assert_array_equal(one[1], many[1])
        np.testing.assert_array_equal(one[2], many[2])
    assert done.report.peak_bytes <= 256 << 20
    assert " and " in plans[0].explain().split("on several workers")[1]


def test_channels_of_one_clock_meet_in_tasks_and_python_sees_what_it_sees_in_one_thread(tmp_path: Path) -> None:
    store = iso.open(tmp_path / "channels.iso", mode="x")
    chance = np.random.default_rng(5)
    for name, gap in (("left", 700), ("right", 1300)):
        writer = store.create(name, dtype="i2", rate=RATE, unit="kPa", start="2010-03-01T00:00:00Z")
        # As long in all, with gaps of their own.
        for length in (300_000 - gap, 400_000 + gap):
            writer.append((chance.normal(size=length) * 300).astype("i2"))
            writer.append_gap(samples=gap)
    store.commit()
    left, right = iso.scan(store["left"]), iso.scan(store["right"], clock=store["left"])
    apart = left.map(lambda a, b: a - b, right)
    windows = apart.rewindow(500)

    def spread(values: np.ndarray) -> np.ndarray:
        return np.ptp(values, axis=1).astype("f8")

    starts: dict[int, list[int]] = {}

    def seen(workers: int) -> tuple[np.ndarray, ...]:
        here, found = threading.current_thread(), starts.setdefault(workers, [])

        def see(values: np.ndarray, start: int) -> None:
            assert threading.current_thread() is here
            found.extend(range(start, start + 500 * len(values), 500))

        plans = [
            windows.each(see).map(lambda s: s.std()),
            windows.map(iso.py(spread, dtype="f8", width=1, on_workers="threads")),
            apart.zip(right)[1].rewindow(1000).rms(),
        ]
        return tuple(np.asarray(one) for one in iso.collect(*plans, workers=workers))

    one = seen(1)
    for workers in (2, 3):
        for expected, got in zip(one, seen(workers), strict=True):
            np.testing.assert_array_equal(got, expected)
    assert starts[1] == starts[2] == starts[3]
    assert "0 and 1 -> 2 map" in windows.power().explain().split("on several workers")[1]
    report = windows.power().run(workers=2).report
    assert len(report.workers) == 2
    assert [one.name for one in report.operators[:2]] == ["scan", "scan"]
    assert len(report.reads) == 2


def test_the_report_says_who_did_which_task(pressure: iso.Signal) -> None:
    report = iso.scan(pressure).rewindow(1000).power().run(workers="auto", pin=True, memory=64 << 20).report
    cores = len(os.sched_getaffinity(0))
    if cores == 1:
        assert report.workers == ()
        return
    assert len(report.workers) == cores
    assert sum(worker.tasks for worker in report.workers) == len(report.tasks) > 4
    assert {task.worker for task in report.tasks} <= set(range(cores))
    assert [one.name for one in report.operators] == ["scan", "rewindow", "power"]
    assert "worker 0" in str(report)
    assert "in tasks of up to" in iso.scan(pressure).rewindow(1000).power().explain()


def test_what_python_raises_ends_the_workers(pressure: iso.Signal) -> None:
    def fail(values: np.ndarray, start: int) -> None:
        raise ValueError("enough")

    before = threading.active_count()
    with pytest.raises(iso.RunError, match="enough") as caught:
        iso.scan(pressure).rewindow(1000).power().each(fail).run(workers=4)
    assert isinstance(caught.value.__cause__, ValueError)
    assert threading.active_count() == before


def test_ctrl_c_stops_a_run_on_several_cores(pressure: iso.Signal) -> None:
    # Overlapping so much that it would take minutes.
    plan = iso.scan(pressure).rewindow(4096, hop=1).map(lambda s: (s * s.std()).max())
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        plan.run(workers=2)
    assert "in tasks of" in plan.explain()
    assert time.monotonic() - begun < 30


def test_what_is_kept_is_what_one_thread_keeps(pressure: iso.Signal, tmp_path: Path) -> None:
    peaks = iso.scan(pressure).rewindow(500).map(lambda s: (s - s.mean()).max())
    store = iso.open(tmp_path / "kept.iso", mode="x")
    for workers in (1, 3):
        peaks.sink(store, f"by_{workers}").run(workers=workers)
    one, many = store["by_1"], store["by_3"]
    assert len(one.gaps) == len(many.gaps) > 2
    assert [(gap.start, gap.length) for gap in one.gaps] == [(gap.start, gap.length) for gap in many.gaps]
    np.testing.assert_array_equal(one[:].values(fill=0), many[:].values(fill=0))
    times = [np.asarray(signal.time_of(np.arange(0, signal.sample_count, 50))) for signal in (one, many)]
    np.testing.assert_array_equal(times[0], times[1])


def test_a_clock_step_is_told_of_once_where_streams_meet_behind_tasks(tmp_path: Path) -> None:
    """What remembers begins anew there once, as in one thread."""
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        writer = store.create("p", dtype="i4", rate=100, start="2010-03-01T00:00:00Z")
        counts = (np.arange(2500) * 7919 % 1000).astype("i4")
        writer.append(counts[:1000])
        writer.append(counts[1000:2000], at="2010-03-01T00:00:05Z")
        writer.append(counts[2000:], at="2010-03-01T00:00:01Z")
        store.commit()
        single = iso.scan(store["p"]).rewindow(1)
        handed = single.each(lambda row, start: None)
        some = single.filter(lambda p: p.max() % 3 != 0)
        smoothed = handed.merge(some).map(lambda p: p.max().ewm(0.3))
        one, *others = (smoothed.collect(workers=workers).ravel() for workers in (1, 2, 4))
    # A window of a remainder other than zero comes twice.
    assert len(one) == 2500 + np.count_nonzero(counts % 3)
    for many in others:
        np.testing.assert_array_equal(many, one)


def test_events_of_several_branches_are_numbered_alike_however_the_plan_is_run(tmp_path: Path) -> None:
    values = (np.random.default_rng(2).standard_normal(60_000) * 300).astype("i2")
    parts = [(nth * 15_050, part) for nth, part in enumerate(np.split(values, 4))]

    def events(name: str, segment: int | None, **options: Any) -> list[str]:
        with iso.open(tmp_path / f"{name}.iso", mode="x") as store:
            signal = store.create("a", dtype="i2", rate=1000, start="2010-03-01T00:00:00Z")
            for _, part in parts:
                signal.append(part)
                signal.append_gap(samples=50)
            store.commit()
            if segment is None:
                samples = iso.generate(lambda: iter(parts), dtype="i2", rate=1000, start="2010-03-01T00:00:00Z")
            else:
                samples = iso.scan(store["a"], segment=segment)
            windows = samples.rewindow(100)
            loud = windows.filter(lambda s: s.std() > 330).annotate(store["a"], "loud", peak=lambda s: abs(s).max())
            quiet = windows.filter(lambda s: s.std() < 270).annotate(store["a"], "quiet")
            ranges = windows.filter(lambda s: s.std() > 320).ranges().annotate(store["a"], "range")
            python = windows.map(iso.py(np.abs, dtype="i2", width=100, on_workers="threads"))
            # With a tolerance it is in tasks on one worker, too.
            low = samples.lowpass(100).rewindow(100).stats("mean")
            plans = loud, python.map(lambda s: s.max()), quiet, low, ranges
            iso.run(*plans, memory=64 << 20, **options)
            return [repr(event) for event in sorted(store["a"].events, key=lambda event: event.id)]

    one = events("one", 1000, workers=1)
    assert len(one) > 100
    nth = 0
    for segment in (1000, 333, None):
        for workers in (1, 2, 3):
            for tolerance in (0.0, 1e-6):
                nth += 1
                assert events(f"run {nth}", segment, workers=workers, tolerance=tolerance) == one, (segment, workers)


def test_calls_of_two_branches_come_in_the_same_order_however_many_workers_there_are() -> None:
    windows = iso.scan(np.arange(100_000.0), rate=100, segment=1000).rewindow(10)

    def calls(workers: int) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []
        first = windows.map(lambda s: s * 2).each(lambda _, start: seen.append(("first", start)))
        second = windows.map(lambda s: s.max()).each(lambda _, start: seen.append(("second", start)))
        iso.run(second, first, workers=workers)
        return seen

    two = calls(2)
    assert len(two) == 200
    for workers in (2, 3, 4):
        assert calls(workers) == two
    for name in ("first", "second"):
        assert [call for call in two if call[0] == name] == [call for call in calls(1) if call[0] == name]


@pytest.mark.parametrize("places", [("inline", "threads"), ("threads", "inline"), ("threads", "threads")])
def test_the_error_that_comes_first_is_told_however_many_workers_there_are(places: tuple[str, str]) -> None:
    windows = iso.scan(np.arange(100_000.0), rate=100, segment=1000).rewindow(10)

    def failing(at: int, where: str) -> iso.Plan:
        def function(values: np.ndarray) -> np.ndarray:
            if (values[:, 0] > at).any():
                raise ValueError(f"bad behind {at}")
            return values

        return windows.map(iso.py(function, dtype="f8", width=10, on_workers=where))

    # The later by far, the later in the same portion, and both in one block, where the lower node's is told.
    for first, second, told in (
        (20_000, 70_000, 20_000),
        (70_000, 20_000, 20_000),
        (24_000, 21_000, 21_000),
        (50_000, 50_500, 50_000),
        (50_500, 50_000, 50_500),
    ):
        plans = [failing(at, where) for at, where in zip((first, second), places, strict=True)]
        for workers in (1, 2, 3):
            with pytest.raises(iso.RunError, match=f"bad behind {told}"):
                iso.run(*plans, workers=workers)
