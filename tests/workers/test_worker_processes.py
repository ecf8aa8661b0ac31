"""Python functions in worker processes: how they get there, what comes back, and what is said of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functions_of_tests as own
import isochrony as iso
from worker_processes import Array, children, descriptors, nothing_is_left, on_two, pressure, until, windows

pytestmark = pytest.mark.native

__all__ = ["nothing_is_left", "pressure"]  # fixtures


def test_what_would_be_left_is_seen() -> None:
    """The check above sees what it looks for."""
    child = subprocess.Popen(["sleep", "100"])
    try:
        assert child.pid in children()
    finally:
        child.kill()
        child.wait()
    assert child.pid not in children()
    memory = os.memfd_create("isochrony-worker-of-a-test")
    assert [link for link in descriptors() if "isochrony-worker" in link]
    os.close(memory)


def test_pinned_workers_and_their_processes_stay_on_a_core_each(pressure: iso.Signal, tmp_path: Path) -> None:
    def where(rows: Array) -> Array:
        (tmp_path / str(os.getpid())).touch()
        # Until the other process is there, too; not for ever.
        until(lambda: len(list(tmp_path.iterdir())) == 2)
        cores = sorted(os.sched_getaffinity(0))
        return np.tile([os.getpid(), len(cores), cores[0]], (len(rows), 1))

    plan = windows(pressure).map(iso.py(where, dtype="i8", width=3, on_workers="processes"))
    seen = set(map(tuple, plan.collect(workers=2, memory=32 << 20, pin=True).tolist()))
    assert len({pid for pid, _, _ in seen} - {os.getpid()}) == 2
    assert {count for _, count, _ in seen} == {1}
    assert len({core for _, _, core in seen}) == min(2, len(os.sched_getaffinity(0)))


def test_a_pinned_run_gives_the_thread_its_affinity_back(pressure: iso.Signal) -> None:
    before = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    def here(rows: Array) -> Array:
        seen.append(os.sched_getaffinity(0))
        return rows

    def fails(rows: Array) -> Array:
        raise ValueError("as asked")

    report = windows(pressure).map(iso.py(here)).run(workers=1, pin=True).report
    (cpu,) = report.pinned_cpus
    # The first call, which tells what it returns, comes before the run.
    assert len(seen) > 1 and all(cpus == {cpu} for cpus in seen[1:])
    assert f"threads pinned to CPU {cpu}" in str(report)
    assert os.sched_getaffinity(0) == before

    report = windows(pressure).power().run(workers=2, pin=True, memory=64 << 20).report
    assert len(report.pinned_cpus) == 3, report  # this thread and two workers
    assert {cpu for cpu in report.pinned_cpus if cpu is not None} <= before
    assert os.sched_getaffinity(0) == before

    with pytest.raises(iso.RunError, match="as asked"):
        windows(pressure).map(iso.py(fails, dtype="f4", width=1)).run(workers=1, pin=True)
    assert os.sched_getaffinity(0) == before
    assert windows(pressure).count().run().report.pinned_cpus == ()


# --- results ---


def test_any_number_of_workers_gives_the_same_bits(pressure: iso.Signal) -> None:
    def spectrum(rows: Array) -> Array:
        return np.abs(np.fft.rfft(rows.astype("f8"), axis=1))[:, :9]

    def steep(rows: Array) -> Array:
        return rows[:, -1] > rows[:, 0]

    plans = [
        windows(pressure).map(iso.py(own.peaks)),
        windows(pressure, 64, 24).map(iso.py(spectrum)),
        windows(pressure, 100, 70).filter(iso.py(steep)).map(iso.py(lambda rows: rows[:, ::-1])),
        windows(pressure, 200).map(iso.py(lambda rows: rows.mean(axis=1) + 1j)).filter(lambda s: s.real.max() > 1),
        iso.scan(pressure).map(iso.py(lambda x: x.astype("f4") ** 2)).rewindow(1000).stats("mean"),
        # Behind what remembers, in order: settling is granted no tolerance.
        iso.scan(pressure).iir("butter", "lowpass", 100.0).rewindow(1000).map(iso.py(own.peaks)),
    ]
    for plan in plans:
        one = plan.collect()
        for workers in (2, 3) if plan is plans[1] else (2,):
            many = plan.collect(workers=workers, memory=64 << 20)
            if isinstance(one, iso.Table):
                one_, many_ = np.asarray(one["mean"]), np.asarray(many["mean"])
            else:
                one_, many_ = one, many
            np.testing.assert_array_equal(one_, many_)
            assert one_.dtype == many_.dtype
            assert len(many_)


def test_blocks_of_any_type_and_overlap_arrive_as_they_are() -> None:
    chance = np.random.default_rng(11)
    expected, plans = [], []
    for dtype in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8", "c8", "c16"):
        window, hop = (int(n) for n in chance.integers(1, 40, 2))
        x = chance.integers(0, 100, int(chance.integers(40, 3000))).astype(dtype)
        rows = np.lib.stride_tricks.sliding_window_view(x, window)[::hop]
        # A function of one's own each, so that none is computed for another.
        function = iso.py(lambda rows, dtype=dtype: rows[:, ::-1].astype(dtype), dtype=dtype, width=window)
        plans.append(iso.scan(x, 500, rate=10).rewindow(window, hop).map(function))
        expected.append(rows[:, ::-1])
        same = iso.py(lambda x, dtype=dtype: x.astype(dtype), dtype=dtype)
        plans.append(iso.scan(x, 500, rate=10).map(same))
        expected.append(x)
    gathered = iso.collect(*plans, workers=2)
    assert all("in worker processes" in where(plan) for plan in plans)
    for got, wanted in zip(gathered, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == wanted.dtype


def test_calibrated_values_and_counts_arrive_as_in_one_process(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        writer = store.create("p", dtype="i2", rate=100, unit="kPa", scale=0.5, offset=1.0)
        writer.append((np.arange(20_000) % 1000).astype("i2"))
        store.commit()
        for counts in (False, True):
            plan = iso.scan(store["p"]).rewindow(100).map(iso.py(lambda rows: rows[:, :2], counts=counts))
            one, many = plan.collect(), plan.collect(workers=2)
            np.testing.assert_array_equal(one, many)
            assert one.dtype == many.dtype == ("i2" if counts else "f8")


def test_blocks_larger_than_the_memory_that_is_shared_at_first(pressure: iso.Signal) -> None:
    # A few samples become megabytes: results of 8 kB a window.
    plan = windows(pressure, 1000).map(iso.py(lambda rows: np.repeat(rows[:, :1], 1024, axis=1).astype("f8")))
    np.testing.assert_array_equal(plan.collect(), plan.collect(workers=2))


def test_an_array_that_a_function_keeps_stays_as_it_was(pressure: iso.Signal) -> None:
    kept: list[tuple[Array, Array]] = []

    def keeps(rows: Array) -> Array:
        same = all(np.array_equal(array, copy) for array, copy in kept)
        kept.append((rows[1:], rows[1:].copy()))
        assert not rows.flags.writeable
        return np.full(len(rows), same)

    flags = windows(pressure).map(iso.py(keeps, dtype="?")).collect(workers=2)
    assert flags.all()
    assert kept == []


# --- how functions get there ---


def where(plan: iso.Plan) -> str:
    """What `explain` says of the only function of a plan."""
    (line,) = [line.strip() for line in plan.explain().splitlines() if line.strip().startswith(("map(", "filter("))]
    return line


def test_explain_and_report_say_where_functions_are_called_and_why(pressure: iso.Signal) -> None:
    lock = threading.Lock()

    def locked(rows: Array) -> Array:
        with lock:
            return rows[:, 0]

    cases = [
        (iso.py(own.peaks), "map(py(peaks)) in worker processes: peaks travels by name (functions_of_tests:peaks)"),
        (iso.py(own.peaks), "in worker processes: peaks travels by name (functions_of_tests:peaks); its module is"),
        (iso.py(lambda rows: rows[:, 0]), "in worker processes: <lambda> travels by value ("),
        (iso.py(locked, dtype="i2"), "in the caller's thread: it cannot travel to a worker process (TypeError: cannot"),
        (iso.py(own.peaks, on_workers="inline"), 'in the caller\'s thread: it was given on_workers="inline"'),
        (iso.py(own.peaks, on_workers="threads"), 'in the workers\' threads: on_workers="threads"'),
        (iso.py(own.peaks, sequential=True), "in the caller's thread: it remembers what came before"),
        (
            iso.py(own.peaks, sequential=True, on_workers="processes"),
            "in the caller's thread: it keeps state in one worker process; peaks travels by name",
        ),
    ]
    for function, said in cases:
        alone = windows(pressure).map(function)
        assert on_two(alone).report.places == (where(alone),)
        # What is before it in tasks, so that there are workers whatever becomes of it.
        plan = windows(pressure).map(lambda s: s + 1, wrap=True).map(function)
        assert said in where(plan)
        report = on_two(plan).report
        assert report.places == (where(plan),)
        in_processes = "worker process" in said and "cannot" not in said
        assert bool(report.processes) == in_processes
        assert where(plan) in str(report)
        if in_processes:
            assert f"process {report.processes[0].pid}" in str(report)
            assert os.getpid() not in {one.pid for one in report.processes}
            assert all(one.blocks > 0 and one.ended is None for one in report.processes)
    in_order = iso.scan(pressure).iir("butter", "lowpass", 100.0).rewindow(1000).map(iso.py(own.peaks))
    assert "in the caller's thread: no part of the plan that runs in tasks contains it" in where(in_order)


def test_each_worker_has_a_process_of_its_own(pressure: iso.Signal) -> None:
    plan = windows(pressure).map(iso.py(lambda rows: np.full(len(rows), os.getpid())))
    pids = set(plan.collect(workers=2, memory=32 << 20)[:, 0].tolist())
    report = on_two(plan).report
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2
    assert len(report.processes) == len({one.worker for one in report.processes}) <= 2
    # Two functions of one worker share its process.
    twice = on_two(plan.map(iso.py(lambda rows: rows + 1))).report
    assert len(twice.processes) <= 2


def test_threads_and_the_callers_thread_are_those_of_this_process(pressure: iso.Signal) -> None:
    here = threading.get_ident()
    for on_workers, in_caller in [("threads", False), ("inline", True)]:
        seen: set[tuple[int, int]] = set()

        def first(rows: Array, seen: set[tuple[int, int]] = seen) -> Array:
            seen.add((os.getpid(), threading.get_ident()))
            return rows[:, 0]

        function = iso.py(first, dtype="i2", on_workers=on_workers)  # type: ignore[arg-type]
        many = windows(pressure).map(lambda s: s * 1, wrap=True).map(function).collect(workers=2)
        assert {pid for pid, _ in seen} == {os.getpid()}
        assert (here in {thread for _, thread in seen}) == in_caller
        np.testing.assert_array_equal(many, windows(pressure).map(iso.py(first)).collect())


def test_compiled_functions_run_in_the_workers_threads(pressure: iso.Signal) -> None:
    pytest.importorskip("numba")
    plan = windows(pressure).map(iso.jit(own.summed))
    assert "in the workers' threads: compiled, it needs no interpreter" in where(plan)
    np.testing.assert_array_equal(plan.collect(), plan.collect(workers=2))
    assert len(on_two(plan).report.tasks) > 1


def test_closures_travel_as_they_are_when_the_run_begins(pressure: iso.Signal) -> None:
    factor = 2
    plan = windows(pressure).map(iso.py(lambda rows: rows[:, :1] * factor, dtype="i2"))
    first = plan.collect(workers=2)
    factor = 3
    np.testing.assert_array_equal(plan.collect(workers=2), first // 2 * 3)


def test_what_a_script_defines_travels(tmp_path: Path) -> None:
    """Functions, classes and exceptions of __main__, without the guard that other process pools need."""
    program = """
    import numpy as np, isochrony as iso

    class Loud(ValueError):
        pass

    LIMIT = 5

    def helper(rows):
        return rows.max(axis=1)

    def strict(rows):
        if helper(rows).max() > LIMIT:
            raise Loud("too loud")
        return helper(rows)

    windows = iso.scan(np.arange(1000.0) % 6, rate=10).rewindow(10)
    print(windows.map(iso.py(strict, dtype="f8")).collect(workers=2).sum())
    LIMIT = 4
    try:
        windows.map(iso.py(strict, dtype="f8")).collect(workers=2)
    except iso.RunError as error:
        print(type(error.__cause__) is Loud)
    """
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=200, cwd=tmp_path
    )
    assert said.stdout.split() == ["500.0", "True"], said.stderr


def test_options_that_make_no_sense_are_refused(pressure: iso.Signal) -> None:
    lock = threading.Lock()
    with pytest.raises(iso.OptionError, match="on_workers='there'"):
        iso.py(own.peaks, on_workers="there")  # type: ignore[arg-type]
    with pytest.raises(iso.OptionError, match="runs in one place"):
        iso.py(own.peaks, sequential=True, on_workers="threads")
    with pytest.raises(iso.PlanError, match=r"cannot travel to a worker process .*inline"):
        windows(pressure).map(iso.py(lambda rows: (lock, rows)[1], on_workers="processes"))


def test_where_a_function_is_called_is_saved(pressure: iso.Signal) -> None:
    places: tuple[dict[str, Any], ...] = ({}, {"on_workers": "inline"}, {"on_workers": "any"})
    for options in (*places, {"on_workers": "processes", "sequential": True}):
        plan = windows(pressure).map(iso.py(own.peaks, **options))
        saved = json.loads(plan.to_json())["nodes"][-1]["params"]
        assert {name: saved[name] for name in ("on_workers", "sequential") if name in saved} == options
        assert where(iso.Plan.from_json(plan.to_json(), allow_functions=True)) == where(plan)


def test_one_that_remembers_is_called_in_order_in_one_process(pressure: iso.Signal) -> None:
    total = 0

    def running(rows: Array) -> Array:
        nonlocal total
        sums = total + np.cumsum(rows.sum(axis=1, dtype="i8"))
        total = int(sums[-1])
        return sums

    expected = np.cumsum(windows(pressure).map(lambda s: s.sum()).collect()[:, 0].astype("i8"))
    for on_workers in ("processes", "inline"):
        total = 0
        plan = windows(pressure).map(iso.py(running, dtype="i8", sequential=True, on_workers=on_workers))  # type: ignore[arg-type]
        result = plan.map(lambda s: s + 0).collect(workers=2)
        np.testing.assert_array_equal(result[:, 0], expected)
        assert (total == 0) == (on_workers == "processes")


def test_what_is_printed_comes_out(pressure: iso.Signal, capfd: pytest.CaptureFixture[str]) -> None:
    def says(rows: Array) -> Array:
        print("said by", os.getpid())
        print("told by", os.getpid(), file=sys.stderr)
        return rows[:, 0]

    on_two(windows(pressure).map(iso.py(says, dtype="i2")))
    out, err = capfd.readouterr()
    assert "said by" in out
    assert "told by" in err
    assert str(os.getpid()) not in out
