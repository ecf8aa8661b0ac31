"""Python functions in worker processes: how they get there, what comes back, and what is left when one dies."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import functions_of_tests as own
import isochrony as iso

pytestmark = pytest.mark.native

Array = npt.NDArray[Any]
SAMPLES = 1_000_000


@pytest.fixture(scope="module")
def pressure(tmp_path_factory: pytest.TempPathFactory) -> iso.Signal:
    """A million samples with gaps and a clock that was set back."""
    store = iso.open(tmp_path_factory.mktemp("processes") / "a.iso", mode="x")
    writer = store.create("stn/p", dtype="i2", rate=1000, unit="kPa", start="2010-03-01T00:00:00Z")
    chance = np.random.default_rng(5)
    for part in range(4):
        writer.append((chance.normal(size=SAMPLES // 4) * 300).astype("i2"))
        if part == 2:
            writer.append(np.zeros(10, "i2"), at="2010-02-01T00:00:00Z")
        writer.append_gap(samples=1 + 777 * part)
    store.commit()
    return store["stn/p"]


def children() -> set[int]:
    """Processes that this one started and that are still there, ended or not."""
    listed = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(pid) for one in listed for pid in one.read_text().split()}


def descriptors() -> list[str]:
    folder = Path("/proc/self/fd")
    links = []
    for name in os.listdir(folder):  # noqa: PTH208  (a Path would hold the folder open)
        try:
            links.append(str((folder / name).readlink()))
        except FileNotFoundError:
            continue
    return sorted(links)


def alive(pid: int) -> bool:
    """Whether a process of anybody's is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def noted(folder: Path) -> set[int]:
    """Processes that noted themselves in a folder."""
    return {int(marker.name) for marker in folder.iterdir()}


def until(done: Callable[[], bool]) -> None:
    """Waits for something, not for ever."""
    give_up = time.monotonic() + 60
    while not done() and time.monotonic() < give_up:
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No process, socket or shared memory outlives a run, however it ended."""
    before = children(), threading.active_count()
    yield
    assert children() == before[0]
    assert threading.active_count() == before[1]
    assert not [link for link in descriptors() if "isochrony-worker" in link]


def windows(signal: iso.Signal, window: int = 500, hop: int | None = None) -> iso.Plan:
    return iso.scan(signal).rewindow(window, hop)


def on_two(plan: iso.Plan, **options: Any) -> iso.RunResult:
    # Short of memory, so that there are many tasks and both workers get some.
    return plan.run(workers=2, memory=32 << 20, **options)


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
    for dtype in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "f4", "f8", "c8", "c16"):
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
            "in the caller's thread: it remembers, in one worker process; peaks travels by name",
        ),
    ]
    for function, said in cases:
        alone = windows(pressure).map(function)
        assert on_two(alone).report.places == (where(alone),)
        # What is before it in tasks, so that there are workers whatever becomes of it.
        plan = windows(pressure).map(lambda s: s + 1).map(function)
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
    assert "in the caller's thread: it is in no chain that is done in tasks" in where(in_order)


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
        many = windows(pressure).map(lambda s: s * 1).map(function).collect(workers=2)
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
    for options in ({}, {"on_workers": "inline"}, {"on_workers": "processes", "sequential": True}):
        plan = windows(pressure).map(iso.py(own.peaks, **options))  # type: ignore[arg-type]
        saved = json.loads(plan.to_json())["nodes"][-1]["params"]
        assert {name: saved[name] for name in ("on_workers", "sequential") if name in saved} == options
        assert where(iso.Plan.from_json(plan.to_json())) == where(plan)


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


# --- what they raise ---


class UnpicklableError(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.lock = threading.Lock()


def test_an_exception_comes_back_as_itself_with_where_it_came_from(pressure: iso.Signal) -> None:
    def strict(rows: Array) -> Array:
        if rows.max() > 0:
            raise ValueError("too loud")
        return rows.max(axis=1)

    with pytest.raises(iso.RunError) as caught:
        on_two(windows(pressure).map(iso.py(strict, dtype="i2")))
    for part in ("py (node 2, samples 0 to", "2010-03-01T00:00:00", "ValueError: too loud"):
        assert part in str(caught.value)
    cause = caught.value.__cause__
    assert type(cause) is ValueError
    (note,) = cause.__notes__
    assert "In worker process" in note
    assert "in strict\n" in note
    assert "_worker.py" not in note


def test_an_exception_that_cannot_be_pickled_comes_back_as_text(pressure: iso.Signal) -> None:
    def fails(rows: Array) -> Array:
        raise UnpicklableError(3, 4)

    with pytest.raises(iso.RunError, match="UnpicklableError: 3 and 4") as caught:
        on_two(windows(pressure).map(iso.py(fails, dtype="i2")))
    assert type(caught.value.__cause__) is RuntimeError
    assert "in fails\n" in caught.value.__cause__.__notes__[0]


def test_what_is_no_error_leaves_a_run_as_itself(pressure: iso.Signal) -> None:
    def leaves(rows: Array) -> Array:
        sys.exit("enough")

    with pytest.raises(SystemExit, match="enough"):
        on_two(windows(pressure).map(iso.py(leaves, dtype="i2")))


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (lambda rows: rows[:1, 0], r"returned int16 of shape \(1,\)"),
        (lambda rows: rows[:, 0].astype("f4"), "returned float32 of shape"),
        (lambda rows: rows[None], "array of 3 dimensions"),
        (lambda rows: np.array(["a"] * len(rows)), r"cannot flow in a plan; convert them with \.astype"),
        (lambda rows: None, "cannot flow in a plan|dimensions"),
    ],
)
def test_results_of_another_kind_are_refused_as_in_one_process(
    pressure: iso.Signal, function: Callable[[Array], Any], part: str
) -> None:
    plan = windows(pressure).map(iso.py(function, dtype="i2"))
    with pytest.raises(iso.RunError, match=part):
        on_two(plan)
    with pytest.raises(iso.RunError, match=part):
        plan.run()


def test_a_function_that_cannot_be_loaded_there_says_so(pressure: iso.Signal, tmp_path: Path) -> None:
    class Here:
        """Comes back only in the process that it was made in."""

        def __init__(self, pid: int) -> None:
            if pid != os.getpid():
                (tmp_path / str(os.getpid())).touch()
                raise ImportError("not here")
            self.pid = pid

        def __reduce__(self) -> Any:
            return type(self), (self.pid,)

    def waits(rows: Array) -> Array:
        """In the workers' threads: until both have tried to load what comes behind."""
        until(lambda: len(noted(tmp_path)) >= 2)
        return rows.copy()

    here = Here(os.getpid())
    plan = windows(pressure).map(iso.py(waits, dtype="i2", width=500, on_workers="threads"))
    with pytest.raises(iso.RunError, match="not here") as caught:
        on_two(plan.map(iso.py(lambda rows: rows[:, 0] + here.pid * 0, dtype="i2")))
    assert isinstance(caught.value.__cause__, ImportError)
    assert "could not be loaded there" in caught.value.__cause__.__notes__[-1]
    # No worker has tried in a second process what failed in its first.
    assert len(noted(tmp_path)) == 2


def test_memory_that_cannot_be_had_is_an_error_and_no_crash(pressure: iso.Signal) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    plan = windows(pressure).map(iso.py(own.peaks))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, hard))
    try:
        with pytest.raises(iso.RunError, match=r"1048576 bytes of shared memory .*peaks cannot be had .*fewer workers"):
            plan.run(workers=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --- processes that die ---


def once(marker: Path) -> bool:
    """True the first time, in whatever process."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@pytest.mark.parametrize("death", [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: os._exit(3)])
def test_a_process_that_dies_costs_one_more_try(
    pressure: iso.Signal, tmp_path: Path, death: Callable[[], None]
) -> None:
    marker = tmp_path / "died"

    def fragile(rows: Array) -> Array:
        if rows[0, 0] > 0 and once(marker):
            death()
        return rows.max(axis=1)

    plan = windows(pressure).map(iso.py(fragile, dtype="i2"))
    report = on_two(plan).report
    (died,) = [one for one in report.processes if one.ended]
    assert died.ended in ("was killed by SIGKILL", "ended with exit status 3")
    assert len({one.pid for one in report.processes}) == len(report.processes) >= 2
    assert died.ended in str(report)
    marker.unlink()
    np.testing.assert_array_equal(plan.collect(workers=2), windows(pressure).map(lambda s: s.max()).collect())


def test_a_process_killed_from_outside_costs_one_more_try(pressure: iso.Signal, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    def waits(rows: Array) -> Array:
        if once(pid_file):
            (tmp_path / "whole").write_text(str(os.getpid()))
            time.sleep(100)
        return rows.max(axis=1)

    def kill() -> None:
        give_up = time.monotonic() + 60
        while not (tmp_path / "whole").exists() or not (tmp_path / "whole").read_text():
            assert time.monotonic() < give_up
            time.sleep(0.01)
        os.kill(int((tmp_path / "whole").read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    result = windows(pressure).map(iso.py(waits, dtype="i2")).collect(workers=2)
    killer.join()
    np.testing.assert_array_equal(result, windows(pressure).map(lambda s: s.max()).collect())


def test_a_process_that_dies_before_it_is_ready_is_counted_and_replaced(
    pressure: iso.Signal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nmkdir '{tmp_path}/died' 2>/dev/null && kill -KILL $$\nexec '{sys.executable}' \"$@\"\n"
    )
    python.chmod(0o755)
    plan = windows(pressure).map(iso.py(own.peaks))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(python))
        report = on_two(plan).report
    (died,) = [one for one in report.processes if one.ended]
    assert died.ended == "was killed by SIGKILL"
    assert died.blocks == 0
    assert sum(one.blocks for one in report.processes) > 0


def test_a_death_between_blocks_leaves_the_next_block_its_second_try(pressure: iso.Signal, tmp_path: Path) -> None:
    """One worker's process ends after a block, and the fresh one in its place dies of the next."""
    leave, die = 32001, 32002
    chosen: dict[str, int] = {}

    def tells(rows: Array) -> Array:
        """In the workers' threads: marks two blocks that one of them is given, while the others wait."""
        rows = rows.copy()
        mine = threading.get_ident()
        if chosen.setdefault("thread", mine) != mine:
            until((tmp_path / "died").exists)
            return rows
        chosen["blocks"] = chosen.get("blocks", 0) + 1
        if chosen["blocks"] == 1:
            rows[0, 0] = leave
        elif chosen["blocks"] == 2:
            left = int((tmp_path / "left").read_text())
            until(lambda: not alive(left))
            rows[0, 0] = die
        return rows

    def does(rows: Array) -> Array:
        if rows[0, 0] == leave:
            from isochrony import _worker

            (tmp_path / "left").write_text(str(os.getpid()))
            # Once it has answered it waits for what comes next.
            _worker._Worker.exactly = lambda *_: os._exit(3)  # type: ignore[method-assign]
        if rows[0, 0] == die and once(tmp_path / "died"):
            os._exit(4)
        return rows[:, 1]

    plan = windows(pressure).map(iso.py(tells, dtype="i2", width=500, on_workers="threads"))
    report = on_two(plan.map(iso.py(does, dtype="i2"))).report
    ended = {one.ended for one in report.processes} - {None}
    assert ended == {"ended with exit status 3", "ended with exit status 4"}


def test_a_function_that_kills_its_process_each_time_ends_the_run(pressure: iso.Signal) -> None:
    def kills(rows: Array) -> Array:
        os.kill(os.getpid(), signal.SIGKILL)
        return rows[:, 0]

    with pytest.raises(iso.RunError) as caught:
        on_two(windows(pressure).map(iso.py(kills, dtype="i2")))
    for part in ("py (node 2", "worker process of", "kills was killed by SIGKILL", "so did another", "inline"):
        assert part in str(caught.value)


def test_deaths_at_ever_new_blocks_end_the_run_too(pressure: iso.Signal, tmp_path: Path) -> None:
    def each_first(rows: Array) -> Array:
        if once(tmp_path / f"{rows[:10].tobytes().hex()[:100]}"):
            os._exit(1)
        return rows[:, 0]

    with pytest.raises(iso.RunError, match=r"more than 8 worker processes died.*exit status 1"):
        iso.scan(pressure, segment=5000).rewindow(500).map(iso.py(each_first, dtype="i2")).run(workers=2)


def test_what_one_that_remembers_knew_is_lost_with_its_process(pressure: iso.Signal, tmp_path: Path) -> None:
    def kills(rows: Array) -> Array:
        if once(tmp_path / "died"):
            os.kill(os.getpid(), signal.SIGKILL)
        return rows[:, 0]

    plan = windows(pressure).map(iso.py(kills, dtype="i2", sequential=True, on_workers="processes"))
    with pytest.raises(
        iso.RunError, match=r"py \(node 2.*kills was killed by SIGKILL, and what kills remembered is lost"
    ):
        plan.run(workers=2)


def test_processes_that_cannot_start_say_so(pressure: iso.Signal, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = windows(pressure).map(iso.py(own.peaks))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(iso.RunError, match=r"no worker process can be started \(/nowhere/python.*inline"):
        plan.run(workers=2)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(iso.RunError, match=r"ended with exit status 1 before it was ready"):
        plan.run(workers=2)
    monkeypatch.setattr(sys, "executable", "")
    report = windows(pressure).map(lambda s: s + 1).map(iso.py(own.peaks)).run(workers=2).report
    assert "no Python interpreter that could be started" in report.places[0]
    assert report.processes == ()


# --- ends ---


def test_nothing_stays_open(pressure: iso.Signal) -> None:
    plan = windows(pressure).map(iso.py(own.peaks))
    plan.run(workers=2)
    before = descriptors()
    for _ in range(3):
        plan.run(workers=2)
    with pytest.raises(iso.RunError):
        windows(pressure).map(iso.py(lambda rows: rows / None, dtype="f8")).run(workers=2)  # type: ignore[operator]
    assert descriptors() == before


def test_ctrl_c_ends_a_run_whose_functions_take_long(pressure: iso.Signal, tmp_path: Path) -> None:
    def slow(rows: Array) -> Array:
        (tmp_path / "begun").touch()
        time.sleep(100)
        return rows[:, 0]

    def press() -> None:
        give_up = time.monotonic() + 60
        while not (tmp_path / "begun").exists() and time.monotonic() < give_up:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    for options in ({}, {"sequential": True, "on_workers": "processes"}):
        (tmp_path / "begun").unlink(missing_ok=True)
        pressing = threading.Thread(target=press)
        pressing.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            windows(pressure).map(iso.py(slow, dtype="i2", **options)).run(workers=2)  # type: ignore[arg-type]
        assert time.monotonic() - begun < 60
        pressing.join()


def test_processes_end_in_order_once_the_run_is_over(pressure: iso.Signal, tmp_path: Path) -> None:
    """What libraries do when an interpreter ends (remove their files, say) is done; what never ends is killed."""

    def leaves(rows: Array) -> Array:
        import atexit

        if once(tmp_path / f"begun-{os.getpid()}"):
            atexit.register((tmp_path / f"ended-{os.getpid()}").touch)
        return rows[:, 0]

    def lasts(rows: Array) -> Array:
        if once(tmp_path / f"begun-{os.getpid()}"):
            threading.Thread(target=time.sleep, args=(1000,)).start()
        return rows[:, 0]

    for function in (leaves, lasts):
        report = on_two(windows(pressure).map(iso.py(function, dtype="i2"))).report
        assert report.processes
        for one in report.processes:
            assert (tmp_path / f"begun-{one.pid}").exists()
            assert (tmp_path / f"ended-{one.pid}").exists() == (function is leaves)


def test_a_death_is_noticed_where_another_process_holds_the_socket(pressure: iso.Signal, tmp_path: Path) -> None:
    def forks(rows: Array) -> Array:
        if once(tmp_path / "died"):
            if os.fork() == 0:
                give_up = time.monotonic() + 60
                while not (tmp_path / "over").exists() and time.monotonic() < give_up:
                    time.sleep(0.01)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return rows.max(axis=1)

    result = windows(pressure).map(iso.py(forks, dtype="i2")).collect(workers=2)
    (tmp_path / "over").touch()
    np.testing.assert_array_equal(result, windows(pressure).map(lambda s: s.max()).collect())


def await_end(pids: set[int]) -> None:
    """Waits until processes have ended; those that do not are killed, so that no failure leaves them."""
    give_up = time.monotonic() + 60
    while left := [pid for pid in pids if alive(pid)]:
        if time.monotonic() > give_up:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            pytest.fail(f"{left} of {pids} outlived what started them")
        time.sleep(0.01)


def test_what_a_function_starts_ends_with_the_run(pressure: iso.Signal, tmp_path: Path) -> None:
    """Commands and pools that a function leaves behind, and those that it waits for when the run is interrupted."""

    def leaves(rows: Array) -> Array:
        if once(tmp_path / "left"):
            sleeper = subprocess.Popen(["sleep", "1000"])
            (tmp_path / "pids" / str(sleeper.pid)).touch()
        return rows[:, 0]

    def waits(rows: Array) -> Array:
        sleeper = subprocess.Popen(["sleep", "1000"])
        (tmp_path / "pids" / str(sleeper.pid)).touch()
        sleeper.wait()
        return rows[:, 0]

    def press() -> None:
        give_up = time.monotonic() + 60
        while len(noted(tmp_path / "pids")) < 2 and time.monotonic() < give_up:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    (tmp_path / "pids").mkdir()
    on_two(windows(pressure).map(iso.py(leaves, dtype="i2")))
    assert len(noted(tmp_path / "pids")) == 1
    await_end(noted(tmp_path / "pids"))
    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        on_two(windows(pressure).map(iso.py(waits, dtype="i2")))
    pressing.join()
    assert len(noted(tmp_path / "pids")) >= 2
    await_end(noted(tmp_path / "pids"))


def test_when_the_parent_is_killed_its_processes_and_theirs_end(tmp_path: Path) -> None:
    """Also those that never let go of the interpreter, and what was started by one that has nothing to do: that one has
    time to end in order."""
    program = """
    import atexit, os, re, subprocess, sys, time
    from pathlib import Path
    import numpy as np, isochrony as iso

    def note(pid):
        Path(FOLDER, str(pid)).touch()

    def computes(rows):
        note(os.getpid())
        while True:
            sum(range(1000))

    def holds(rows):
        note(os.getpid())
        re.match("(a+)+$", "a" * 60 + "b")

    def waits(rows):
        note(os.getpid())
        sleeper = subprocess.Popen(["sleep", "1000"])
        note(sleeper.pid)
        sleeper.wait()

    def leaves(rows):
        note(os.getpid())
        note(subprocess.Popen(["sleep", "1000"]).pid)
        atexit.register(print, os.getpid(), "ended")
        atexit.register(time.sleep, 3)
        return rows[:, 0]

    def rests(rows):
        time.sleep(1000)

    FOLDER, name = sys.argv[1:]
    plan = iso.scan(np.zeros(100_000), rate=1).rewindow(10).map(iso.py(globals()[name], dtype="f8"))
    plan.map(iso.py(rests, dtype="f8", on_workers="inline")).run(workers=2)
    """
    least = {"computes": 1, "holds": 1, "waits": 2, "leaves": 2}
    folders = {name: tmp_path / name for name in least}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    parents = []
    for name, folder in folders.items():
        folder.mkdir()
        with (tmp_path / f"{name}.txt").open("w") as printed:
            parents.append(subprocess.Popen([*command, str(folder), name], cwd=tmp_path, stdout=printed))
    try:
        give_up = time.monotonic() + 100
        while any(len(noted(folders[name])) < least[name] for name in least):
            assert time.monotonic() < give_up
            assert all(parent.poll() is None for parent in parents)
            time.sleep(0.01)
    finally:
        for parent in parents:
            parent.kill()
            parent.wait()
    await_end(set().union(*map(noted, folders.values())))
    assert "ended" in (tmp_path / "leaves.txt").read_text()


def test_modules_in_the_current_folder_are_not_imported_by_workers(tmp_path: Path) -> None:
    """As in the script itself, which has its own folder on its path and not the current one."""
    (tmp_path / "here").mkdir()
    for name in ("json", "numpy", "isochrony", "sitecustomize"):
        (tmp_path / "here" / f"{name}.py").write_text("raise SystemExit('foreign code')")
    program = """
    import numpy as np, isochrony as iso
    plan = iso.scan(np.arange(1000.0), rate=1).rewindow(10).map(iso.py(lambda rows: rows.sum(axis=1), dtype="f8"))
    print(plan.collect(workers=2).sum())
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(program))
    command = [sys.executable, str(tmp_path / "script.py")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=tmp_path / "here")
    assert said.stdout.split() == ["499500.0"], said.stderr
