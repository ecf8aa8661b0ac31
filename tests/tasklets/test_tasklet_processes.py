"""Tasklets in worker processes: what functions are given, what comes back, what is lost when one dies."""

from __future__ import annotations

import os
import platform
import resource
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.errors.native import GapError, OptionError, TaskletError, TaskletValueError
from tasklet_processes import PART, PARTS, N, away, parts, store, twice
from worker_processes import children, nothing_is_left

pytestmark = pytest.mark.native

__all__ = ["nothing_is_left", "store"]  # fixtures

# --- results ---


@pytest.mark.parametrize("workers", [1, 3])
def test_functions_give_what_they_give_in_this_process_by_way_of_scratch_and_journal(
    store: iso.Store, workers: int
) -> None:
    room = store.scratch(dtype="f8", rate=100)
    room.reserve(N)

    def add(inputs: list[iso.Selection], outputs: list[iso.Output]) -> tuple[int, Any]:
        first, second = (np.asarray(one) for one in inputs)
        outputs[0][PART // 2 :] = (first + second)[PART // 2 :]
        outputs[0][: PART // 2] = (first + second)[: PART // 2]
        return os.getpid(), first[:3]

    executor = iso.Executor(workers=workers, on_workers="processes", scratch=4 * 8 * PART)
    for at in parts():
        executor.add(iso.Tasklet(twice, [store["ramp"][at]], [room[at]], name=f"twice {at.start}"))
        executor.add(iso.Tasklet(add, [room[at], store["ramp"][at]], [store["out"][at]], name=f"add {at.start}"))
    text = executor.explain()
    assert "8 Python function(s) run in worker processes: twice travels by name" in text
    assert "8 Python function(s) run in worker processes: add travels by value" in text
    report = executor.run()
    values = np.arange(N) * 0.5 + 1
    np.testing.assert_array_equal(store["out"].values(), 3 * values)
    pids = {report.values[f"twice {at.start}"] for at in parts()} | {
        report.values[f"add {at.start}"][0] for at in parts()
    }
    assert pids == {one.pid for one in report.processes}
    assert os.getpid() not in pids
    assert len(report.processes) == len({one.worker for one in report.processes}) <= workers
    assert sum(one.blocks for one in report.processes) == 2 * PARTS
    assert all(line in text and line in str(report) for line in report.places)
    np.testing.assert_array_equal(report.values["add 0"][1], 2 * values[:3])
    # Finished and noted as those of this process are.
    kept = iso.Executor(on_workers="processes")
    kept.add(*(iso.Tasklet(twice, [store["ramp"][at]], name=f"look {at.start}") for at in parts()[:1]))
    with pytest.raises(TaskletError, match="list index"):
        kept.run()


def test_segments_of_a_run_without_civil_time_have_none_wherever_the_function_is_called(tmp_path: Path) -> None:
    def times(inputs: list[iso.Selection], _: list[iso.Output]) -> list[Any]:
        return [segment.time and segment.time.run for segment in inputs[0].segments]

    with iso.open(tmp_path / "a.iso", "x") as store:
        writer = store.create("a", dtype="i2", rate=100, start="2010-03-01")
        writer.append(np.arange(50, dtype="i2"))
        writer.begin_run()
        writer.append(np.arange(50, dtype="i2"))
        store.commit()
        chosen = store["a"][0:100]
        with pytest.raises(iso.StoreError, match="no civil time here"):
            store["a"].time_of(60)
        alone = [segment.time and segment.time.run for segment in chosen.segments]
        assert [run is None for run in alone] == [False, True]
        for where in ("threads", "processes"):
            executor = iso.Executor(on_workers=where)  # type: ignore[arg-type]
            executor.add(iso.Tasklet(times, [chosen], name="times"))
            found = executor.run().values["times"]
            assert [run is None for run in found] == [False, True], where


def test_what_was_finished_is_kept_and_what_it_returned(store: iso.Store, tmp_path: Path) -> None:
    def fails(inputs: list[iso.Selection], outputs: list[iso.Output]) -> int:
        outputs[0][:] = 0
        if inputs[0].ranges[0][0] == 2 * PART and not (tmp_path / "mended").exists():
            raise KeyError("not yet")
        return os.getpid()

    executor = away(fails, store)
    with pytest.raises(TaskletError, match=r'"2048" failed: .*not yet') as failed:
        executor.run()
    assert isinstance(failed.value.__cause__, KeyError)
    assert "In worker process" in failed.value.__cause__.__notes__[0]
    assert [one.state for one in failed.value.report.tasklets].count("done") == PARTS - 1
    assert len(failed.value.report.processes) in (1, 2)
    (tmp_path / "mended").touch()
    report = executor.run(resume=True)
    assert [one.state for one in report.tasklets].count("kept") == PARTS - 1
    assert {report.values[key] for key in report.values if key != "2048"} <= {
        one.pid for one in failed.value.report.processes
    }


def test_inputs_are_as_selections_are(tmp_path: Path) -> None:
    def seen(inputs: list[iso.Selection], _: list[iso.Output]) -> list[Any]:
        found = []
        for one in inputs:
            about = [one.name, one.unit, one.ranges, one.sample_count, len(one)]
            arrays = [one.values(), one.values(fill=-1), one.values(1, counts=True), one.mask()]
            for segment in one.segments:
                about += [segment.start, segment.end, float(segment.rate), segment.unit]
                # One that was created without a start has none.
                about += [segment.time, segment.time and (segment.time.run, segment.time.in_gap)]
                arrays += [np.asarray(segment), segment.counts]
            if len(one.segments) == 1 and one.sample_count == len(one):
                arrays += [np.asarray(one), np.asarray(one, "c16"), one.counts]
            found.append((about, [(array, array.dtype.str, array.flags.writeable) for array in arrays]))
        return found

    def gap(inputs: list[iso.Selection], _: list[iso.Output]) -> None:
        np.asarray(inputs[0])

    def times(inputs: list[iso.Selection], _: list[iso.Output]) -> None:
        inputs[0].times()

    with iso.open(tmp_path / "a.iso", "x") as store:
        chance = np.random.default_rng(3)
        for dtype in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8", "c8", "c16"):
            writer = store.create(dtype.replace("?", "b"), dtype=dtype, rate="100/3", start="2010-03-01")
            for _ in range(3):
                writer.append(chance.integers(0, 100, 50).astype(dtype))
                writer.append_gap(samples=7)
            writer.append(chance.integers(0, 2, 30).astype(dtype), at="2010-02-01")
        store.create("p", dtype="i2", rate=100, unit="kPa", scale=0.1, offset=-3).append(np.arange(200, dtype="i2"))
        store.commit()
        chosen = [
            store[name][a:b] for name in store for a, b in ((0, 50), (3, 3), (40, 60), (0, 201))[: 3 + (name != "p")]
        ]
        reports = []
        for where in ("threads", "processes"):
            executor = iso.Executor(on_workers=where)  # type: ignore[arg-type]
            executor.add(iso.Tasklet(seen, chosen, name="seen"))
            reports.append(executor.run())
        np.testing.assert_equal(*(one.values["seen"] for one in reports))
        for work, raised, said in (
            (gap, GapError, "gap or a clock step"),
            (times, AttributeError, 'in a worker process has no .times.*on_workers="threads"'),
        ):
            executor = iso.Executor(on_workers="processes")
            executor.add(iso.Tasklet(work, [store["i2"][0:201]]))
            with pytest.raises(TaskletError, match=said) as failed:
                executor.run()
            assert isinstance(failed.value.__cause__, raised)


def test_outputs_are_written_in_any_way_that_they_are_written_here(store: iso.Store) -> None:
    def parted(_: list[Any], outputs: list[iso.Output]) -> None:
        outputs[0][10:] = 1
        outputs[0].array[20:] += 2

    def cleared(_: list[Any], outputs: list[iso.Output]) -> None:
        outputs[0].array[5:7] = 3

    def given(_: list[Any], outputs: list[iso.Output]) -> None:
        mine = np.ones(PART)
        outputs[0].array = mine
        outputs[0][4:8] = 5
        mine[:] = 9

    def converted(_: list[Any], outputs: list[iso.Output]) -> None:
        assert (len(outputs[0]), outputs[0].dtype, outputs[0].name) == (PART, "f8", "out")
        outputs[0].array = np.arange(PART, dtype="i4")[::-1]
        outputs[0].array *= 2

    def late(_: list[Any], outputs: list[iso.Output]) -> None:
        outputs[0].array = mine = np.zeros(PART)
        mine[3] = 4

    works = [parted, cleared, given, converted, late]
    end = len(works) * PART
    found = []
    for where in ("processes", "threads"):
        executor = iso.Executor(on_workers=where)  # type: ignore[arg-type]
        for at, work in zip(parts(), works, strict=False):
            executor.add(iso.Tasklet(work, [], [store["out"][at]]))
        executor.run()
        found.append(store["out"][:end].values())
        store["out"].mark_invalid(0, end)
    np.testing.assert_array_equal(*found)


def test_what_was_declared_is_what_must_be_written_there_too(store: iso.Store) -> None:
    def half(_: list[Any], outputs: list[iso.Output]) -> None:
        outputs[0][: PART // 2] = 1

    kept: list[iso.Output] = []

    def keeps(_: list[Any], outputs: list[iso.Output]) -> None:
        outputs[0][:] = 1
        kept.append(outputs[0])
        if len(kept) > 1:
            kept[0][:] = 2

    with pytest.raises(TaskletError, match=r"512\.\.1024 of out"):
        away(half, store, workers=1).run()
    with pytest.raises(TaskletError, match="after its function has returned") as failed:
        away(keeps, store, workers=1).run()
    assert isinstance(failed.value.__cause__, TaskletValueError)


def test_an_array_that_a_function_keeps_stays_as_it_was_there(store: iso.Store) -> None:
    kept: list[tuple[Any, Any]] = []

    def keeps(inputs: list[iso.Selection], outputs: list[iso.Output]) -> bool:
        same = all(np.array_equal(array, copy) for array, copy in kept)
        counts = inputs[0].counts
        outputs[0].array[:] = counts
        kept.append((counts, counts.copy()))
        kept.append((outputs[0].array, outputs[0].array.copy()))
        if len(kept) % 3 == 0:
            raise ValueError("and raises")
        return same

    with pytest.raises(TaskletError, match="and raises") as failed:
        away(keeps, store, workers=1).run()
    values = failed.value.report.values
    assert len(values) == PARTS - PARTS // 3
    assert all(values.values())


def test_larger_than_the_memory_that_is_shared_at_first(store: iso.Store) -> None:
    large = store.create("large", dtype="f8", rate=100)
    large.reserve(3 << 20)
    executor = iso.Executor(on_workers="processes")
    for at in range(0, 3 << 20, 1 << 20):

        def fill(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
            outputs[0].array[:] = np.repeat(np.asarray(inputs[0]), 1 << 10)

        executor.add(iso.Tasklet(fill, [store["ramp"][at >> 10 : (at >> 10) + PART]], [large[at : at + (1 << 20)]]))
    executor.run()
    np.testing.assert_array_equal(large.values(), np.repeat(store["ramp"][: 3 * PART].values(), 1 << 10))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other allocators")
def test_memory_that_functions_let_go_of_is_used_again_by_their_process(
    store: iso.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A Dask cluster that another test started in this process sets it, and our processes inherit it.
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)

    def faults(_: list[Any], outputs: list[iso.Output]) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        outputs[0][:] = np.ones(1 << 20)[:PART]
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    report = away(faults, store, workers=1).run()
    # Eight megabytes have 2048 pages.
    assert sorted(report.values.values())[PARTS // 2] < 200


# --- who calls what ---


def test_each_function_is_called_where_it_was_asked_for(store: iso.Store) -> None:
    lock = threading.Lock()
    own = os.getpid()

    def where(_: list[Any], __: list[Any]) -> tuple[bool, bool]:
        return os.getpid() == own, threading.get_ident() == threading.main_thread().ident

    def locked(_: list[Any], __: list[Any]) -> bool:
        with lock:
            return os.getpid() == own

    executor = iso.Executor(workers=2, on_workers="processes")
    executor.add(
        iso.Tasklet(where, name="away"),
        iso.Tasklet(where, name="here", on_workers="threads"),
        iso.Tasklet(where, name="inline", on_workers="inline"),
        iso.Tasklet(where, name="auto", on_workers="auto"),
        iso.Tasklet(locked, name="locked"),
        iso.Tasklet(iso.scan(store["ramp"][:]).rewindow(100).count(), [store["ramp"][:]], name="plan"),
    )
    text = executor.explain()
    assert "in threads of this process: " in text
    assert "cannot travel to a worker process (TypeError: cannot pickle '_thread.lock' object)" in text
    assert "1 plan(s) run natively" in text
    report = executor.run()
    found = {name: value for name, value in report.values.items() if name != "plan"}
    assert {name: value if isinstance(value, bool) else value[0] for name, value in found.items()} == {
        "away": False,
        "here": True,
        "inline": True,
        "auto": True,
        "locked": True,
    }
    assert all(line in text for line in report.places)
    for wrong in ("elsewhere", 1, True):
        with pytest.raises(OptionError, match="on_workers="):
            iso.Executor(on_workers=wrong)  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="on_workers="):
            iso.Tasklet(where, on_workers=wrong)  # type: ignore[arg-type]


def test_inline_functions_are_called_one_at_a_time() -> None:
    inside, most = [0], [0]

    def counts(_: list[Any], __: list[Any]) -> None:
        inside[0] += 1
        time.sleep(0.001)
        most[0] = max(most[0], inside[0])
        inside[0] -= 1

    executor = iso.Executor(workers=4, on_workers="inline")
    executor.add(*(iso.Tasklet(counts, name=str(k)) for k in range(40)))
    executor.run()
    assert most == [1]


@pytest.mark.parametrize("waits_for", ["function", "plan"])
def test_inline_functions_that_wait_leave_workers_to_others(store: iso.Store, waits_for: str) -> None:
    done = threading.Event()

    def waits(_: list[Any], __: list[Any]) -> bool:
        return done.wait(60)

    def follows(_: list[Any], __: list[Any]) -> bool:
        return done.is_set()

    def sets(_: list[Any], __: list[Any]) -> None:
        done.set()

    # Two inline functions come before what the first waits for; the plan's end is told by a function behind it.
    executor = iso.Executor(workers=2, order="given")
    executor.add(
        iso.Tasklet(waits, name="waits", on_workers="inline"),
        iso.Tasklet(follows, name="follows", on_workers="inline"),
    )
    if waits_for == "plan":
        executor.add(iso.Tasklet(iso.scan(store["ramp"][:]).rewindow(100).count(), [store["ramp"][:]], name="plan"))
    executor.add(iso.Tasklet(sets, name="sets", after=["plan"] if waits_for == "plan" else [], on_workers="threads"))
    values = executor.run().values
    assert (values["waits"], values["follows"]) == (True, True)


def test_many_functions_of_their_own_travel_once_each(store: iso.Store) -> None:
    executor = iso.Executor(workers=2, on_workers="processes")
    for k, at in enumerate(parts()):

        def fill(k: int, _: list[Any], outputs: list[iso.Output]) -> int:
            outputs[0][:] = k
            return k

        executor.add(iso.Tasklet(partial(fill, k), [], [store["out"][at]], name=str(k)))
    report = executor.run()
    assert report.values == {str(k): k for k in range(PARTS)}
    np.testing.assert_array_equal(store["out"].values(), np.repeat(np.arange(PARTS), PART))
    assert children() == set()
