"""Plans as tasklets: what they scan is what is stated, and what they see is what the run writes."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.errors.native import OptionError


@pytest.fixture
def water(tmp_path: Path) -> Any:
    with iso.open(tmp_path / "water.iso", "x") as store:
        store.create("a", dtype="f8", rate=100).append(np.arange(1000.0))
        store.create("out", dtype="f8", rate=100).reserve(1000)
        store.commit()
        yield store


def fill(_: Any, outputs: list[iso.Output]) -> None:
    outputs[0][:] = 1.0


def test_another_scratch_signal_or_store_is_no_input_of_a_plan(water: iso.Store, tmp_path: Path) -> None:
    one, other = (water.scratch(dtype="f8", rate=100) for _ in "ab")
    one.reserve(10), other.reserve(10)
    with pytest.raises(OptionError, match=r"scans scratch\[0:10\], but its inputs= leave out 0:10"):
        iso.Tasklet(iso.scan(one[:]).count(), [other[:]])
    with iso.open(tmp_path / "other.iso", "x") as elsewhere:
        same_name = elsewhere.create("a", dtype="f8", rate=100)
        same_name.append(np.zeros(1000))
        with pytest.raises(OptionError, match="of the same store and signal"):
            iso.Tasklet(iso.scan(water["a"][:10]).count(), [same_name[:10]])
    iso.Tasklet(iso.scan(one[:]).count(), [one[:]])
    # Another opening of the store has the same signal.
    iso.Tasklet(iso.scan(water["a"][:10]).count(), [iso.open(water.path)["a"][:10]])


def test_what_a_plan_scans_is_known_though_it_cannot_be_saved(water: iso.Store) -> None:
    plan = iso.scan(water["a"][:100]).rewindow(10).map(iso.py(lambda rows: rows.mean(axis=1)))
    with pytest.raises(OptionError, match="leave out 50:100"):
        iso.Tasklet(plan, [water["a"][:50]])


def test_a_plan_that_would_not_see_what_the_run_writes_is_refused(water: iso.Store) -> None:
    seen_by_others = iso.open(water.path)

    def executor(plan_of: iso.Store, scanned: slice) -> iso.Executor:
        executor = iso.Executor()
        plan = iso.scan(plan_of["out"][scanned]).count()
        executor.add(
            iso.Tasklet(plan, [plan_of["out"][scanned]], name="count"),
            iso.Tasklet(fill, outputs=[water["out"][:500]], name="fill"),
        )
        return executor

    refused = executor(seen_by_others, slice(0, 500))
    for attempt in (refused.run, refused.explain):
        with pytest.raises(
            OptionError, match=r'"count" scans "out" of .* as opened a second time, .* scan the signal of'
        ):
            attempt()
    assert water["out"].sample_count == 0
    assert executor(water, slice(0, 500)).run().values["count"] == 500
    # Where nobody writes any opening will do.
    water["out"].mark_invalid(slice(0, 500))
    water["out"].fill(500, np.ones(500))
    water.commit()
    seen_by_others.refresh()
    assert executor(seen_by_others, slice(500, 1000)).run().values["count"] == 500


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_one_plan_serves_many_tasklets_each_of_which_reads_what_its_inputs_say(water: iso.Store, workers: int) -> None:
    a, out = water["a"], water["out"]
    halves = [water.scratch(dtype="f8", rate=100) for _ in "ab"]
    for half in halves:
        half.reserve(1000)
    double = iso.scan(a).map(lambda sample: 2.0 * sample)
    windows = iso.scan(a).rewindow(20, anchor="range").map(lambda window: window - window.mean())
    total = iso.scan(halves[0]).map(lambda x, y: x + y, iso.scan(halves[1], clock=halves[0]))
    count = iso.scan(a).rewindow(25).count()
    executor = iso.Executor(workers=workers, scratch=8 * 1000)
    for start in range(0, 1000, 100):
        at = slice(start, start + 100)
        for plan, half in zip((double, windows), halves, strict=True):
            executor.add(iso.Tasklet(plan, [a[at]], [half[at]], name=f"{plan.kind} {start}"))
        executor.add(iso.Tasklet(total, [half[at] for half in halves], [out[at]]))
        executor.add(iso.Tasklet(count, [a[at]], name=f"count {start}"))
    report = executor.run()
    samples = a.values().astype("f8")
    rows = samples.reshape(-1, 20)
    np.testing.assert_allclose(out.values(), (2 * rows + rows - rows.mean(axis=1, keepdims=True)).ravel(), rtol=1e-12)
    assert [report.values[f"count {start}"] for start in range(0, 1000, 100)] == [4] * 10


def test_of_a_signal_that_a_plan_scans_wholly_inputs_state_one_range(water: iso.Store) -> None:
    plan = iso.scan(water["a"]).count()
    with pytest.raises(
        OptionError, match=r"scans all of a, but its inputs= state two ranges of it, 0:10 and 20:30; state one range"
    ):
        iso.Tasklet(plan, [water["a"][20:30], water["a"][:10]])
    with pytest.raises(OptionError, match=r"scans a\[0:1000\], but its inputs= leave out 0:1000"):
        iso.Tasklet(plan, [water["out"][:10]])
    executor = iso.Executor()
    executor.add(iso.Tasklet(plan, [water["a"][20:30], water["a"][10:20]], name="side by side"))
    # What lies within another is stated with it.
    executor.add(iso.Tasklet(plan, [water["a"][slice(*one)] for one in ((0, 100), (10, 20), (50, 60))], name="nested"))
    assert executor.run().values == {"side by side": 20, "nested": 100}


def test_nothing_keeps_a_plan_that_was_a_tasklets_work(tmp_path: Path) -> None:
    store = iso.open(tmp_path / "water.iso", "x")
    a = store.create("a", dtype="f8", rate=100)
    a.append(np.arange(1000.0))
    store.commit()
    samples = np.ones(1000)
    plans = [iso.scan(a).count(), iso.scan(samples, rate=100).count()]
    tasklets = [iso.Tasklet(plan, [a[:]]) for plan in plans]
    alive = weakref.ref(samples)
    del plans, tasklets, samples, a, store
    gc.collect()
    assert alive() is None
    # Nobody else writes it.
    iso.open(tmp_path / "water.iso", "r+").close()


@pytest.mark.parametrize("which", ["sink", "appending", "wav", "parquet", "ipc", "on a branch", "not saved"])
def test_a_sink_is_the_work_of_one_tasklet(water: iso.Store, tmp_path: Path, which: str) -> None:
    path = tmp_path / "found"

    def plan() -> iso.Plan:
        a = iso.scan(water["a"])
        rows = a.rewindow(10).rows(largest=lambda window: window.max())
        plans = {
            "sink": lambda: a.sink(water, "found", overwrite=True),
            "appending": lambda: a.sink(water["out"]),
            "wav": lambda: a.map(lambda sample: sample.astype("f4") / 1000).sink_wav(path),
            "parquet": lambda: rows.sink_parquet(path),
            "ipc": lambda: rows.sink_ipc(path),
            "on a branch": lambda: a.map(lambda x, y: x + y, a.sink(water, "found", overwrite=True)),
            "not saved": lambda: a.map(iso.py(lambda values: values)).sink(water, "found", overwrite=True),
        }
        return plans[which]()

    shared = plan()
    for first, second in ((shared, shared), (plan(), plan())):
        executor = iso.Executor()
        executor.add(iso.Tasklet(first, [water["a"][:500]], name="first"))
        executor.add(iso.Tasklet(second, [water["a"][500:]], name="second"))
        for attempt in (executor.run, executor.explain):
            with pytest.raises(OptionError, match=r"'first' and 'second' both write to the output of sink.* outputs="):
                attempt()
    assert not path.exists()
    assert "found" not in water
    executor = iso.Executor()
    executor.add(iso.Tasklet(shared, [water["a"][:500]], name="alone"))
    executor.run()
    assert path.exists() or "found" in water or water["out"].sample_count == 500


def test_events_and_calls_are_the_work_of_many_tasklets(water: iso.Store) -> None:
    seen: list[int] = []
    loud = iso.scan(water["a"]).rewindow(100).annotate(water["a"], "window")
    each = loud.each(lambda values, start: seen.append(start))
    executor = iso.Executor()
    executor.add(*(iso.Tasklet(each, [water["a"][start : start + 500]], name=str(start)) for start in (0, 500)))
    executor.run()
    assert sorted(event.start for event in water["a"].events) == list(range(0, 1000, 100))
    assert set(seen) >= {0, 500}
