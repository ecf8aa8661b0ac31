"""Tasklets in worker processes: what is lost and what is left when one dies, raises or is stopped."""

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
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.errors.native import TaskletError
from tasklet_processes import PART, PARTS, away, once, store
from worker_processes import alive, noted, nothing_is_left, until

pytestmark = pytest.mark.native

__all__ = ["nothing_is_left", "store"]  # fixtures


class ClippedError(Exception):
    def __init__(self, signal: str, *, at: int) -> None:
        super().__init__(f"{signal} is clipped at {at}")
        self.at = at


def test_what_a_function_raises_comes_back_as_itself(store: iso.Store) -> None:
    def strict(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0][:] = 0
        if inputs[0].ranges[0][0] == PART:
            raise ClippedError(inputs[0].name, at=PART + 3)

    with pytest.raises(TaskletError, match=f"ramp is clipped at {PART + 3}") as failed:
        away(strict, store).run()
    cause = failed.value.__cause__
    assert type(cause) is ClippedError
    assert cause.at == PART + 3


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("death", [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: os._exit(3)])
def test_a_process_that_dies_costs_one_more_try_of_its_tasklet(
    store: iso.Store, tmp_path: Path, workers: int, death: Callable[[], None]
) -> None:
    def fragile(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0][:] = -1
        if inputs[0].ranges[0][0] == 3 * PART and once(tmp_path / "died"):
            death()
        outputs[0][:] = np.asarray(inputs[0])

    report = away(fragile, store, workers).run()
    np.testing.assert_array_equal(store["out"].values(), store["ramp"].values())
    (died,) = [one for one in report.processes if one.ended]
    assert died.ended in ("was killed by SIGKILL", "ended with exit status 3")
    assert died.ended in str(report)
    assert sum(one.blocks for one in report.processes) == PARTS


def test_one_that_kills_its_process_each_time_fails_and_nobody_else_does(store: iso.Store) -> None:
    def kills(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0][:] = 7
        if inputs[0].ranges[0][0] == 3 * PART:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(
        TaskletError, match=r"was killed by SIGKILL, and so did another that was given the same tasklet"
    ) as failed:
        away(kills, store).run()
    assert [one.state for one in failed.value.report.tasklets].count("done") == PARTS - 1
    whole = np.repeat([True, False, True], [3 * PART, PART, 4 * PART])
    np.testing.assert_array_equal(store["out"][:].mask(), whole)


def test_a_process_killed_from_outside_costs_one_more_try(store: iso.Store, tmp_path: Path) -> None:
    def waits(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        if once(tmp_path / "first"):
            (tmp_path / "writing").write_text(str(os.getpid()))
            (tmp_path / "writing").rename(tmp_path / "pid")
            time.sleep(100)
        outputs[0][:] = np.asarray(inputs[0])

    def kill() -> None:
        until((tmp_path / "pid").exists)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    away(waits, store).run()
    killer.join()
    np.testing.assert_array_equal(store["out"].values(), store["ramp"].values())


def test_what_cannot_come_back_or_be_loaded_is_a_clear_error(store: iso.Store) -> None:
    def lock(_: list[Any], outputs: list[iso.Output]) -> Any:
        outputs[0][:] = 0
        return threading.Lock()

    class Unloadable:
        def __reduce__(self) -> Any:
            return (eval, ("1 // 0",))

        def __call__(self, *_: Any) -> None: ...

    with pytest.raises(TaskletError, match=r"result cannot be pickled, .*_thread.lock.*on_workers=\"threads\""):
        away(lock, store).run()
    with pytest.raises(TaskletError, match=r"ZeroDivisionError.*by zero") as failed:
        away(Unloadable(), store).run()
    assert any("could not be loaded there" in note for note in failed.value.__cause__.__notes__)  # type: ignore[union-attr]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exit_that_a_function_raises_ends_the_run(store: iso.Store, workers: int) -> None:
    def leaves(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0][:] = 0
        sys.exit(f"at {inputs[0].ranges[0][0]}")

    with pytest.raises(SystemExit, match="at "):
        away(leaves, store, workers).run()


SCRIPT = """
    import os, sys, time
    from pathlib import Path
    import numpy as np
    import isochrony as iso

    folder = Path(sys.argv[1])

    def slow(inputs, outputs):
        (folder / "pids" / str(os.getpid())).touch()
        outputs[0][:] = 1
        if inputs[0].ranges[0][0] > 1000:
            {busy}

    if __name__ == "__main__":
        (folder / "pids").mkdir()
        store = iso.open(folder / "a.iso", "x")
        store.create("ramp", dtype="f4", rate=1).append(np.arange(8000, dtype="f4"))
        store.create("out", dtype="f4", rate=1).reserve(8000)
        store.commit()
        executor = iso.Executor(workers={workers}, on_workers="processes", keep_every_s=0.01)
        for k in range(8):
            at = slice(1000 * k, 1000 * k + 1000)
            executor.add(iso.Tasklet(slow, [store["ramp"][at]], [store["out"][at]]))
        try:
            executor.run()
        except KeyboardInterrupt:
            assert store["out"].sample_count >= 1000
            print("stopped", flush=True)
"""


@pytest.mark.parametrize(("workers", "end"), [(1, signal.SIGINT), (2, signal.SIGINT), (2, signal.SIGKILL)])
def test_ctrl_c_and_the_death_of_the_parent_end_processes_that_are_at_work(
    tmp_path: Path, workers: int, end: signal.Signals
) -> None:
    busy = "time.sleep(1000)" if end == signal.SIGINT else "sum(iter(int, 1))"
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT.replace("{busy}", busy).replace("{workers}", str(workers))))
    run = subprocess.Popen([sys.executable, str(script), str(tmp_path)], stdout=subprocess.PIPE, text=True)
    until(lambda: (tmp_path / "pids").is_dir() and len(noted(tmp_path / "pids")) == workers)
    # At work: the first part is done, and the next one takes for ever.
    until(lambda: written(tmp_path / "a.iso") >= 1000)
    pids = noted(tmp_path / "pids")
    run.send_signal(end)
    said, _ = run.communicate(timeout=60)
    assert said == ("stopped\n" if end == signal.SIGINT else "")
    until(lambda: not any(alive(pid) for pid in pids))
    assert not any(alive(pid) for pid in pids)
    with iso.open(tmp_path / "a.iso", "r+") as store:
        assert set(np.unique(store["out"].values()[store["out"][:].mask()])) == {1.0}


def written(path: Path) -> int:
    with iso.open(path, "r") as store:
        return store["out"].sample_count
