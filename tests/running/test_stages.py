"""Plans that keep state, on several cores: stages, their report, live signals."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import isochrony as iso
from isochrony.running.report import Measurement

RATE = 1000
X = np.random.default_rng(7).normal(0, 100, 400_000).astype("f4")
WHERE: tuple[Literal["inline", "threads", "processes"], ...] = ("inline", "threads", "processes")


def filtered(plan: iso.Plan) -> iso.Plan:
    return plan.lowpass(50).highpass(5)


def peaks(plan: iso.Plan) -> iso.Plan:
    return filtered(plan).rewindow(512).power().map(lambda s: s.max())


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_generator_before_a_limit_is_asked_for_no_more_than_one_thread_asks(workers: int) -> None:
    asked = []

    def blocks() -> Iterator[np.ndarray[Any, Any]]:
        for number in range(100_000):
            asked.append(number)
            yield X[:2000]

    plan = peaks(iso.generate(blocks, rate=RATE, dtype="f4")).limit(20)
    assert plan.collect(workers=workers).shape[0] == 20
    # The twentieth window of 512 samples ends in the sixth block of 2,000.
    assert len(asked) == 6
    if workers > 1:
        assert "the source's function would be called for more than that needs" in plan.explain()


def test_filters_and_spectra_are_stages_with_the_same_bits() -> None:
    plan = peaks(iso.scan(X, rate=RATE))
    np.testing.assert_array_equal(plan.collect(workers=2), plan.collect())
    text = plan.explain()
    assert "stage 0: scan -> iir, expected to take 33% of the time\n" in text
    report = plan.run(workers=2).report
    names = [[report.operators[at].name for at in stage.operators] for stage in report.stages]
    assert names == [["scan", "iir"], ["iir", "rewindow"], ["power"], ["power"], ["map"]]
    assert [(stage.number, stage.replica) for stage in report.stages] == [
        (0, None),
        (1, None),
        (2, 0),
        (2, 1),
        (3, None),
    ]
    for stage in report.stages:
        spent = stage.busy_s + stage.input_wait_s + stage.output_wait_s + stage.core_wait_s
        assert 0 < spent <= report.elapsed_s + 0.05
    for operator in report.operators:
        assert operator.useful_s <= operator.threads * report.elapsed_s
    assert [operator.threads for operator in report.operators] == [1, 1, 1, 1, 2, 1]
    # Every sample went over the first two links, and half as many values over the last: a spectrum a window.
    least = [4 * len(X), 4 * len(X), 2 * len(X) - 2048]
    assert [link.stages for link in report.links] == [(0, 1), (1, 2), (2, 3)]
    for link, fewest in zip(report.links, least, strict=True):
        assert link.bytes >= fewest and sum(link.occupancy) > 0 and 0 <= link.mean_occupancy <= 1
    assert len(report.threads) in (0, 2)
    for thread in report.threads:
        assert thread.cpu_s is None or 0 <= thread.cpu_s <= thread.elapsed_s + 0.01
    assert "waited" in str(report)
    # One thread has none, nor has what runs in tasks.
    assert plan.run().report.stages == ()
    assert iso.scan(X, rate=RATE).rewindow(512).power().run(workers=2).report.stages == ()


def test_functions_and_sources_of_python_stay_in_this_thread() -> None:
    seen: list[int] = []

    def made() -> Iterator[np.ndarray[Any, Any]]:
        for block in X.reshape(-1, 1000):
            seen.append(threading.get_ident())
            yield block

    def noted(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen.append(threading.get_ident())
        return rows.max(axis=1)

    function = iso.py(noted, dtype="f4", width=1, on_workers="inline")
    plan = filtered(iso.generate(made, dtype="f4", rate=RATE)).rewindow(512).map(function)
    two = plan.collect(workers=2)
    assert len(plan.run(workers=2).report.stages) > 2
    np.testing.assert_array_equal(two, plan.collect())
    assert set(seen) == {threading.get_ident()}


def test_an_error_of_a_python_source_reaches_the_user_as_from_one_thread() -> None:
    def made() -> Iterator[np.ndarray[Any, Any]]:
        yield X[:1000]
        raise ValueError("the tape is torn")

    plan = peaks(iso.generate(made, dtype="f4", rate=RATE))
    texts = []
    for workers in (1, 2):
        with pytest.raises(iso.RunError) as caught:
            plan.collect(workers=workers)
        assert isinstance(caught.value.__cause__, ValueError)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_a_followed_signal_gives_what_it_gives_when_all_is_there(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        for name in ("a", "b"):
            store.create(name, dtype="f4", rate=RATE, start="2026-01-01")
        store.commit()

        def write() -> None:
            # One of them lags behind, now and then.
            for at in range(0, 40_000, 1000):
                store["a"].append(X[at : at + 1000])
                store.commit()
                if at % 3000 == 0:
                    time.sleep(0.002)
                store["b"].append(X[at + 7 : at + 1007])
                store.commit()

        def together(*sources: Any) -> iso.Plan:
            first, second = (filtered(iso.scan(source)) for source in sources)
            return first.align(second).rewindow(512).map(lambda s: s.std())

        writer = threading.Thread(target=write)
        writer.start()
        followed = [iso.follow(store[name], silence=1.0) for name in ("a", "b")]
        live = together(*followed)
        result = live.collect(workers=2)
        writer.join()
        stored = together(store["a"], store["b"])
        np.testing.assert_array_equal(result, stored.collect())
        # All windows but one at the end, which alignment needs.
        assert len(result) == 40_000 // 512 - 1


def test_the_command_line_takes_workers_and_reports_stages(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        store.create("x", dtype="f4", rate=RATE).append(X)
        store.commit()
        plan = peaks(iso.scan(store["x"]))
        (tmp_path / "plan.json").write_text(plan.to_json())
    command = [sys.executable, "-m", "isochrony", "run", "plan.json", "--workers", "2", "--json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    report = json.loads(ran.stdout)["report"]
    names = [[report["operators"][at]["name"] for at in stage["operators"]] for stage in report["stages"]]
    assert names == [["scan", "iir"], ["iir", "rewindow"], ["power"], ["power"], ["map"]]
    assert [link["stages"] for link in report["links"]] == [[0, 1], [1, 2], [2, 3]]
    assert 0 <= report["engine_share"] <= 1
    assert set(report["latency"]) == {"items", "median", "p99", "most"} and report["latency"]["items"] > 0


def test_a_plan_chooses_one_worker_where_more_would_not_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Costs that another test has measured would decide.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    short, long = (iso.scan(np.resize(X, count), rate=RATE) for count in (400_000, 2_000_000))
    for plan, stages in ((short, 0), (long, 5)):
        assert len(peaks(plan).run().report.stages) == stages
        assert len(peaks(plan).run(workers="auto").report.stages) == stages
    assert "by default one worker: it reads only 400000 samples" in short.explain()
    assert "by default a worker for each core" in peaks(long).explain()
    assert "by default one worker: it reads only 1536 samples" in peaks(long).limit(3).explain()

    def made() -> Iterator[np.ndarray[Any, Any]]:
        yield from np.resize(X, 2_000_000).reshape(-1, 1000)

    live = peaks(iso.generate(made, dtype="f4", rate=RATE))
    assert len(live.run().report.stages) > 1
    # What others read ahead of a live source would be lost.
    assert "by default one worker: something may end early" in live.limit(3).explain()


def test_by_default_functions_are_called_as_with_one_worker_while_others_compute_what_comes_before() -> None:
    calls: list[tuple[int, int]] = []

    def noted(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        calls.append((threading.get_ident(), len(rows)))
        return rows.max(axis=1)

    function = iso.py(noted, dtype="f4", width=1)
    plan = filtered(iso.scan(np.resize(X, 2_000_000), rate=RATE)).rewindow(512).map(function)
    expected, alone = plan.collect(workers=1), list(calls)
    calls.clear()
    result = plan.run()
    assert len(result.report.stages) > 1 and result.report.processes == ()
    assert calls == alone and {thread for thread, _ in calls} == {threading.get_ident()}
    np.testing.assert_array_equal(plan.collect(), expected)
    # Their calls alternate with those of a generator.
    source = iso.generate(lambda: iter(X.reshape(-1, 1000)), dtype="f4", rate=RATE)
    assert "would no longer alternate" in filtered(source).rewindow(512).map(function).explain()


CALLERS: set[tuple[int, int]] = set()


def named(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    CALLERS.add((os.getpid(), threading.get_ident()))
    time.sleep(0.005)
    return np.column_stack([np.full(len(rows), os.getpid()), rows.max(axis=1)])


def test_functions_that_ask_for_workers_get_them_in_stages_too() -> None:
    here = os.getpid()
    before = filtered(iso.scan(np.resize(X, 3_000_000), rate=RATE)).rewindow(512)
    plans = {where: before.map(iso.py(named, dtype="f8", width=2, on_workers=where)) for where in WHERE}
    expected = plans["inline"].collect(workers=1)[:, 1]
    for workers in (1, 2, 3):
        for where, plan in plans.items():
            CALLERS.clear()
            got = plan.collect(workers=workers)
            np.testing.assert_array_equal(got[:, 1], expected)
            away = where == "processes" and workers > 1
            assert ({int(pid) for pid in got[:, 0]} != {here}) is away, (where, workers)
            threads = {thread for _, thread in CALLERS}
            if where == "threads" and workers > 1:
                assert threads - {threading.get_ident()}
            elif not away:
                assert threads == {threading.get_ident()}
    text = plans["threads"].explain(workers=3)
    assert "py, 3 replicas" in text and "in the workers' threads" in text
    assert "in the caller's thread" in plans["inline"].explain(workers=3)


def test_explain_shows_what_collect_does_with_so_many_workers() -> None:
    plan = iso.scan(X, rate=RATE).lowpass(50).rewindow(512).power()
    for workers in (2, 3, 5):
        report = plan.run(workers=workers).report
        lines = [line.strip() for line in plan.explain(workers=workers).splitlines()]
        lines = [line for line in lines if line.startswith("stage ")]
        collected = plan.collect(workers=workers)
        assert len(lines) == 3 and f"power, {workers} replicas" in lines[1] and "collect" in lines[2], lines
        assert len(collected) == X.size // 512 and report is not None
    with pytest.raises(iso.OptionError, match="workers=0 is refused"):
        plan.explain(workers=0)


def test_a_stream_that_operators_made_has_no_clock_in_stages_either(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        for name, start in (("a", "2026-01-01"), ("b", "2026-01-01T00:00:01")):
            store.create(name, dtype="f4", rate=RATE, start=start).append(X)
        store.commit()
        first, second = (iso.scan(store[name]) for name in ("a", "b"))
        plan = filtered(second.align(first)).rewindow(512).stats("max")
        one, two = (plan.collect(workers=workers) for workers in (1, 2))
        assert one.columns == two.columns
        for name in one.columns:
            np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(two[name]))


# Indices, and the levels in effect from there on.
CHANGES = ((10_025, 110), (200_000, 125))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_change_at_an_index_is_in_effect_from_there_on_with_any_number_of_workers(workers: int) -> None:
    samples = np.resize(X, 300_000)
    lowpass = iso.scan(samples, rate=RATE).lowpass(RATE / 8)
    loud = lowpass.rewindow(100, hop=50).filter(lambda s: s.max() > 140)
    control = iso.Control()
    for at, level in CHANGES:
        control.set(loud, at=at, predicate=lambda s, level=level: s.max() > level)
    rows = loud.stats("max")
    report = rows.run(workers=workers, control=control).report
    assert [(one.operator, one.at) for one in report.changes] == [("filter", 10_025), ("filter", 200_000)]
    for at, level in CHANGES:
        control.set(loud, at=at, predicate=lambda s, level=level: s.max() > level)
    got = rows.collect(workers=workers, control=control)
    filtered = lowpass.collect(workers=1)
    starts = np.arange(0, len(filtered) - 99, 50)
    peak = np.lib.stride_tricks.sliding_window_view(filtered, 100)[starts].max(axis=1)
    level = np.select([starts < 10_025, starts < 200_000], [140, 110], 125)
    np.testing.assert_array_equal(got["start"], starts[peak > level])


def test_a_control_measures_and_changes_stages_while_they_run() -> None:
    control, done = iso.Control(), threading.Event()
    seen: list[Measurement] = []
    codes: set[str] = set()
    with pytest.raises(iso.PlanError, match="nothing runs with this control") as error:
        control.measurement()
    assert error.value.code == "no_stages"

    def adjust() -> None:
        while not done.is_set():
            try:
                measured = control.measurement()
                control.set_replicas(2, 1 + len(seen) % 2)
                control.set_link_capacity(0, "64KiB")
            except iso.PlanError as refused:
                assert refused.code == "no_stages", refused
                continue
            seen.append(measured)
            refused_calls: list[Callable[[], None]] = [
                lambda: control.set_replicas(0, 2),
                lambda: control.set_replicas(2, 3),
                lambda: control.set_link_capacity(99, 1),
            ]
            for call in refused_calls:
                with pytest.raises(iso.PlanError) as refusal:
                    call()
                codes.add(refusal.value.code)

    plan = peaks(iso.scan(np.resize(X, 6_000_000), rate=RATE))
    expected = plan.collect(workers=1)
    thread = threading.Thread(target=adjust)
    thread.start()
    try:
        for _ in range(3):
            np.testing.assert_array_equal(plan.collect(workers=2, control=control), expected)
    finally:
        done.set()
        thread.join()
    assert len(seen) > 3
    assert codes <= {"no_replicas", "no_link", "no_stages"} and {"no_replicas", "no_link"} <= codes
    last = seen[-1]
    assert any(stage.replica == 1 for stage in last.stages)
    assert last.links[0].capacity == 64 << 10
    busy = [stage.busy_s for stage in last.stages]
    assert all(0 <= stage.cpu_s <= stage.busy_s for stage in last.stages)
    assert 0 < sum(busy) <= 2 * last.elapsed_s + 0.05
    report = plan.run(workers=2).report
    first = report.stages[0]
    assert (first.bytes, first.items > 0) == (6_000_000 * 4, True)
    # A filter of float32 gives float32.
    assert report.links[0].gain == pytest.approx(1, rel=0.01)


def test_without_measuring_only_the_run_as_a_whole_is_timed() -> None:
    plan = peaks(iso.scan(np.resize(X, 2_000_000), rate=RATE))
    for workers in (1, 2):
        timed, untimed = (plan.run(workers=workers, measure=measure).report for measure in (True, False))
        assert sum(one.useful_s for one in timed.operators) > 0 < untimed.elapsed_s
        assert {one.useful_s for one in untimed.operators} == {0.0}
        assert {(one.busy_s, one.cpu_s, one.input_wait_s) for one in untimed.stages} <= {(0.0, 0.0, 0.0)}
        assert [(one.name, one.samples) for one in timed.operators] == [
            (one.name, one.samples) for one in untimed.operators
        ]


@pytest.mark.parametrize("workers", [1, 2])
def test_latency_bounds_how_long_rows_are_held_back(workers: int) -> None:
    made: list[float] = []

    def pieces() -> Iterator[np.ndarray[Any, Any]]:
        # Never without samples, so that nothing is passed on for want of them.
        for piece in X[:250_000].reshape(250, 1000):
            time.sleep(0.002)
            made.append(time.monotonic())
            yield piece

    def lags(**options: Any) -> tuple[np.ndarray[Any, Any], list[float]]:
        made.clear()
        got: list[tuple[np.ndarray[Any, Any], float]] = []

        def note(rows: Any, _: int) -> None:
            got.append((np.asarray(rows["max"]), time.monotonic()))

        plan = filtered(iso.generate(pieces, dtype="f4", rate=RATE)).rewindow(1000).stats("max").each(note)
        plan.run(workers=workers, **options)
        rows = np.concatenate([values for values, _ in got])
        arrived = [at for values, at in got for _ in values]
        return rows, [at - begun for at, begun in zip(arrived, made, strict=True)]

    held, passed_on = lags(), lags(latency=0.04)
    np.testing.assert_array_equal(held[0], passed_on[0])
    if workers == 1:
        # Stages run out of samples now and then.
        assert max(held[1]) > 0.4
    assert np.median(passed_on[1]) < 0.1


def at_indices(plan: iso.Plan, changes: list[tuple[int, dict[str, Any]]]) -> iso.Control:
    control = iso.Control()
    for at, parameters in changes:
        control.set(plan, at=at, **parameters)
    return control


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_and_several_inputs_and_thresholds_change_at_an_index(workers: int) -> None:
    samples = np.resize(X, 300_000)
    source = iso.scan(samples, rate=RATE)
    blocks = samples.reshape(-1, 100)
    starts = np.arange(0, len(samples), 100)
    # Rows of windows.
    rows = source.rewindow(100).stats("max")
    loud = rows.filter(lambda r: r.max > 200)
    control = at_indices(loud, [(150_050, {"predicate": lambda r: r.max > 100})])
    got = loud.collect(workers=workers, control=control)
    np.testing.assert_array_equal(got["start"], starts[blocks.max(axis=1) > np.where(starts < 150_050, 200, 100)])
    # An expression of two plans, of items that are cut elsewhere.
    windows = source.rewindow(100)
    both = windows.map(lambda s, t: s.max() - t.min(), filtered(source).rewindow(100))
    control = at_indices(both, [(77, {"expression": lambda s, t: s.max() + t.min()})])
    got = both.collect(workers=workers, control=control)
    kept = filtered(source).collect(workers=1).reshape(-1, 100).min(axis=1)
    sign = np.where(starts[: len(kept)] < 77, -1, 1).astype("f4")
    np.testing.assert_array_equal(np.asarray(got).ravel(), blocks[: len(kept)].max(axis=1) + sign * kept)
    # Thresholds of ranges, which remember whether one is open.
    ranges = filtered(source).triggers(on=60)
    control = at_indices(ranges, [(100_000, {"on": 80}), (200_000, {"on": 40, "off": 20})])
    got = ranges.collect(workers=workers, control=control)
    values = filtered(source).collect(workers=1)
    expected, begun = [], None
    for index, value in enumerate(values.tolist()):
        on, off = (60, 60) if index < 100_000 else (80, 80) if index < 200_000 else (40, 20)
        if begun is None and value >= on:
            begun = index
        elif begun is not None and value < off:
            expected.append((begun, index))
            begun = None
    if begun is not None:
        expected.append((begun, len(values)))
    np.testing.assert_array_equal(got, expected)


def test_changes_that_cannot_be_placed_or_shared_are_refused() -> None:
    source = iso.scan(np.resize(X, 300_000), rate=RATE)
    rows = source.rewindow(100).stats("max")
    for nowhere in (
        rows.select("max").filter(lambda r: r.max > 1),
        rows.group_by("max").agg(n="count").filter(lambda r: r.n > 1),
    ):
        with pytest.raises(iso.PlanError, match=r"keep start in select") as error:
            iso.Control().set(nowhere, at=5, predicate=lambda r: r.max > 2)
        assert error.value.code == "no_indices"
    # What remembers nothing may begin to before a run, and with one worker during it; then it is one filter's memory.
    windows = source.rewindow(100)
    loud = windows.filter(lambda s: s.max() > 1e9)
    control = iso.Control()
    control.set(loud, predicate=lambda s: s.max().ewm(0.5) > 150)
    expected = windows.filter(lambda s: s.max().ewm(0.5) > 150).count().collect(workers=1)
    assert loud.count().collect(workers=2, control=control) == expected > 0
    changes = [
        (0, {"predicate": lambda s: s.max().ewm(0.5) > 1e9}),
        (7000, {"predicate": lambda s: s.max().ewm(0.5) > 150}),
    ]
    got = loud.stats("max").collect(workers=1, control=at_indices(loud, changes))["start"]
    always = windows.filter(lambda s: s.max().ewm(0.5) > 150).stats("max").collect(workers=1)["start"]
    np.testing.assert_array_equal(got, always[always >= 7000])
    with pytest.raises(iso.PlanError, match="give the run workers=1") as error:
        loud.count().collect(workers=2, control=at_indices(loud, changes[:1]))
    assert error.value.code == "changes_memory"


def test_more_sources_than_links_can_carry_are_not_cut() -> None:
    """One thread is faster than passing a thousand channels by a few links."""
    channels = [filtered(iso.scan(X[:20_000] + k, rate=RATE)) for k in range(200)]
    for workers in ("auto", 2):
        assert iso.run(*channels, workers=workers).report.stages == ()
    assert iso.run(*channels[:4], workers=2).report.stages != ()


def test_with_a_tolerance_a_filter_has_replicas_and_the_same_bits_however_samples_arrive() -> None:
    # Several cells; what settles differs in the last bits of float64.
    samples = np.tile(X, 4).astype("f8")

    def generated(lengths: list[int]) -> iso.Plan:
        ends = np.cumsum(np.resize(lengths, len(samples)))
        made = iso.generate(lambda: iter(np.split(samples, ends[ends < len(samples)])), dtype="f8", rate=RATE)
        return made.lowpass(50).rewindow(512).power()

    exact = generated([1 << 16]).collect()
    plan = generated([1 << 16])
    one = plan.collect(workers=1, tolerance=1e-6)
    assert not np.array_equal(one, exact)
    np.testing.assert_allclose(one, exact, rtol=0, atol=1e-6 * np.abs(exact).max())
    for lengths in ([1 << 16], [999, 4096, 1]):
        for workers in (1, 2, 3):
            np.testing.assert_array_equal(generated(lengths).collect(workers=workers, tolerance=1e-6), one)
    report = plan.run(workers=2, tolerance=1e-6).report
    filters = [stage for stage in report.stages if "iir" in [report.operators[at].name for at in stage.operators]]
    assert [stage.replica for stage in filters] == [0, 1]
