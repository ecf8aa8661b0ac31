"""Workers of plans on Dask clusters: threads, processes and stores of their own, and workers that are lost."""

import contextlib
import functools
import os
import shutil
import signal as signals
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from cluster_plans import CallLog, local_cluster, long_path, path, run_in_small_tasks, same, signal, slow_plan
from isochrony.cluster import client as cluster_client
from isochrony.cluster import slot as slots
from isochrony.cluster import worker

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")

__all__ = ["long_path", "path", "signal"]  # fixtures


def test_a_worker_that_is_lost_between_two_calls_of_its_slot_counts_as_lost() -> None:
    class LostActor:
        """As Dask's, once its worker is gone."""

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("Worker holding Actor was lost.  Status: error")

    slot = slots.Slot.__new__(slots.Slot)
    slot._actor = LostActor()
    with pytest.raises(OSError, match="was lost"):
        slot.prepare(b"key", b"payload")


def test_a_worker_that_is_lost_before_its_slot_is_made_counts_as_lost() -> None:
    class LostFuture:
        status = "error"

        def result(self, timeout: float) -> Any:
            raise RuntimeError(message)

    class Client:
        def submit(self, *_: Any, **__: Any) -> LostFuture:
            return LostFuture()

        def as_current(self) -> Any:
            return contextlib.nullcontext()

    run: Any = SimpleNamespace(_stopped=threading.Event())
    message = "Worker holding Actor was lost"
    with pytest.raises(OSError, match="was lost"):
        slots.Slot("tcp://10.0.0.1:1", Client(), 0, run)
    message = "something else"
    with pytest.raises(RuntimeError, match="something else"):
        slots.Slot("tcp://10.0.0.1:1", Client(), 0, run)


@pytest.mark.parametrize("lost", [1, 2])
def test_lost_workers_are_replaced_by_others(signal: iso.Signal, lost: int) -> None:
    """One of them, or all but one; another joins late."""
    with local_cluster(lost + 1) as client:
        plan = slow_plan(signal)
        expected = plan.collect(workers=1)
        pids = [worker.process.pid for worker in client.cluster.workers.values()]

        def kill() -> None:
            time.sleep(0.7)
            for pid in pids[:lost]:
                os.kill(pid, signals.SIGKILL)
            client.cluster.scale(lost + 2)

        killer = threading.Thread(target=kill)
        killer.start()
        found = plan.collect(on=client)
        killer.join()
        np.testing.assert_array_equal(found, expected)


def test_a_worker_that_comes_back_at_its_address_takes_part_again(signal: iso.Signal) -> None:
    plan = slow_plan(signal)
    expected = plan.collect(workers=1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with local_cluster(0) as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address, "--no-dashboard"]
        command += ["--nthreads", "1", "--host", "127.0.0.1", "--worker-port", str(port)]
        # It imports the plan's function from where this process does.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        try:
            client.wait_for_workers(1, timeout=30)
            (pid,) = client.run(os.getpid).values()
            killer = threading.Timer(0.5, os.kill, (pid, signals.SIGKILL))
            killer.start()
            found = plan.collect(on=client)
            assert list(client.run(os.getpid)) == [f"tcp://127.0.0.1:{port}"]
            assert list(client.run(os.getpid).values()) != [pid]
        finally:
            worker.terminate()
            worker.wait(timeout=20)
    np.testing.assert_array_equal(found, expected)


def test_a_slot_that_is_lost_alone_comes_back(long_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = CallLog(tmp_path / "calls")
    answer = slots.Slot._answer
    lost: list[int] = []

    def losing(slot: Any, call: Any) -> Any:
        result = answer(slot, call)
        if isinstance(result, bytes) and slot.number == 1:
            if not lost:
                lost.append(slot.number)
                raise OSError("the connection is broken")
            log.finish()
        return result

    monkeypatch.setattr(slots.Slot, "_answer", losing)
    with local_cluster(1, 2) as client:
        report = run_in_small_tasks(log.plan(long_path), on=client)
    assert [worker.lost for worker in report.workers].count(True) == 1
    assert len(report.workers) == 3


def test_a_scheduler_that_is_gone_is_an_error(signal: iso.Signal) -> None:
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50)
    client = distributed.Client(cluster)
    cluster.close()
    with pytest.raises((iso.RunError, iso.OptionError), match=r"scheduler|client that is"):
        iso.scan(signal).map(lambda s: s + 1).collect(on=client)
    client.close()


def test_a_cluster_without_workers_is_an_error(signal: iso.Signal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_client, "WORKER_TIMEOUT_S", 1.0)
    with (
        local_cluster(0) as client,
        pytest.raises(iso.RunError, match=r"no worker of the cluster .* start workers"),
    ):
        iso.scan(signal).map(lambda s: s + 1).collect(on=client)


def prepared() -> list[int]:
    """In a worker: the plans that it has prepared."""
    return [id(tasks) for tasks in worker._PREPARED.values()]


def test_threads_of_a_worker_share_a_plan_which_is_prepared_once(signal: iso.Signal) -> None:
    plan = iso.scan(signal).rewindow(100).map(lambda s: s.max())
    expected = plan.collect(workers=1)
    with local_cluster(1, 3) as client:
        found = [plan.collect(on=client)]
        first = client.run(prepared)
        found.append(plan.collect(on=client))
        assert client.run(prepared) == first
        assert [len(plans) for plans in first.values()] == [1]
        report = slow_plan(signal).run(on=client).report
        assert len(report.workers) == 3 and len({worker.host for worker in report.workers}) == 1
        assert sum(worker.tasks > 0 for worker in report.workers) > 1
    for one in found:
        np.testing.assert_array_equal(one, expected)


def test_workers_may_be_threads_of_this_process(signal: iso.Signal) -> None:
    plan = iso.scan(signal).rewindow(100).map(lambda s: s.max())
    with local_cluster(2, processes=False) as client:
        np.testing.assert_array_equal(plan.collect(on=client), plan.collect(workers=1))


def test_threads_of_a_worker_release_memory_to_each_other(signal: iso.Signal) -> None:
    plan = iso.scan(signal).rewindow(4096).power().map(lambda s: s.max())
    with local_cluster(1, 8) as client:
        same(plan.collect(on=client, memory="2MB"), plan.collect(workers=1))


def test_stores_may_lie_elsewhere_on_workers(signal: iso.Signal, path: Path, tmp_path: Path) -> None:
    """Workers that run in another place: the store's folder is moved away once the plan has its snapshot."""
    shutil.copytree(path, tmp_path / "there" / path.name)
    plan = iso.scan(signal).rewindow(100).map(lambda s: s.max())
    expected = plan.collect(workers=1)
    with local_cluster(1) as client:
        found = plan.collect(on=client, paths={str(path.parent): str(tmp_path / "there")})
        np.testing.assert_array_equal(found, expected)
        maps = client.run(lambda: Path("/proc/self/maps").read_text())
        assert all(str(tmp_path / "there") in text and str(path) not in text for text in maps.values())
        with pytest.raises(iso.RunError, match=r"worker tcp://.* cannot take part: .*nowhere"):
            plan.map(lambda s: s + 1).collect(on=client, paths={str(path.parent): "/nowhere"})
    with pytest.raises(iso.OptionError, match="paths="):
        plan.collect(paths=["/a", "/b"])
    with pytest.raises(iso.OptionError, match="give on= too"):
        plan.collect(paths={"/a": "/b"})


def function_processes() -> int:
    """In a worker: processes of functions below it."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return sum(len(one.read_text().split()) for one in children)


def scaled(rows: np.ndarray[Any, Any], factor: int) -> np.ndarray[Any, Any]:
    return rows.max(axis=1).astype("i8") * factor


def test_processes_of_functions_end_with_their_plan(signal: iso.Signal) -> None:
    with local_cluster(1) as client:
        (before,) = client.run(function_processes).values()
        counts = []
        for factor in range(worker._KEPT_PLANS + 2):
            function = functools.partial(scaled, factor=factor)
            iso.scan(signal).rewindow(100).map(iso.py(function, dtype="i8", width=1)).collect(on=client)
            counts += client.run(function_processes).values()
        until = time.monotonic() + 10
        while time.monotonic() < until and counts[-1] > before + worker._KEPT_PLANS:
            time.sleep(0.1)
            counts += client.run(function_processes).values()
        assert counts[0] > before
        assert counts[-1] <= before + worker._KEPT_PLANS, counts
