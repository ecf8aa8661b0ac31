"""Python functions in worker processes: what is lost and what is left when one dies, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import functions_of_tests as own
import isochrony as iso
from worker_processes import Array, alive, descriptors, noted, nothing_is_left, on_two, pressure, until, windows

pytestmark = pytest.mark.native

__all__ = ["nothing_is_left", "pressure"]  # fixtures


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
            from isochrony.workers import process as _worker

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
        iso.RunError,
        match=r"py \(node 2.*kills was killed by SIGKILL, so the state that kills keeps between calls is lost",
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
