"""Clusters that grow, shrink and lose workers by `drain` while plans run: no task is done twice."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from cluster_plans import CallLog, local_cluster, long_path, run_in_small_tasks
from isochrony.cluster import drain, scaling
from isochrony.cluster.connect import workers_of
from worker_processes import until

__all__ = ["long_path"]  # fixtures


@contextmanager
def watching(look: Callable[[], object]) -> Iterator[None]:
    """Calls a function again and again meanwhile."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def test_a_run_grows_its_cluster_and_shrinks_it_and_nothing_is_done_twice(
    long_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "TARGET_S", 1.0)
    with local_cluster(1) as client:
        log = CallLog(tmp_path / "calls")
        most = [0]

        def look() -> None:
            most[0] = max(most[0], len(workers_of(client)))
            if most[0] == 3 and len(log.processes()) == 3:
                log.finish()

        with watching(look):
            report = run_in_small_tasks(log.plan(long_path), on=client, scale=(1, 3))
        assert most[0] == 3
        assert len({worker.host for worker in report.workers}) == 3
        assert not any(worker.lost for worker in report.workers)
        assert sum(worker.tasks for worker in report.workers) == len(report.tasks)
        assert log.most_calls() == 1
        give_up = time.monotonic() + 20
        while len(workers_of(client)) > 1 and time.monotonic() < give_up:
            time.sleep(0.1)
        assert len(workers_of(client)) == 1

        log = CallLog(tmp_path / "more calls")
        with watching(lambda: len(workers_of(client)) == 2 and log.finish()):
            found = log.plan(long_path).collect(on=client, scale=(1, 2))
        np.testing.assert_array_equal(found.ravel(), np.arange(99, 12_000_000, 100, dtype="i4"))


def test_a_run_that_needs_fewer_workers_retires_the_others(
    long_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "TARGET_S", 1000.0)
    with local_cluster(3) as client:
        log = CallLog(tmp_path / "calls")
        during: list[int] = []

        def look() -> None:
            during.append(len(workers_of(client)))
            if during[-1] == 1:
                log.finish()

        with watching(look):
            report = run_in_small_tasks(log.plan(long_path), on=client, scale=(1, 3))
        assert during[-1] == 1, during
        assert not any(worker.lost for worker in report.workers)
        assert sum(worker.tasks for worker in report.workers) == len(report.tasks)
        assert log.most_calls() == 1


def test_a_worker_can_be_drained_while_runs_use_it(long_path: Path, tmp_path: Path) -> None:
    with local_cluster(2, 2) as client:
        log = CallLog(tmp_path / "calls", 0.2)
        leaving = next(iter(workers_of(client)))
        during = []

        def leave() -> None:
            # Two threads of each worker have a process each.
            until(lambda: len(log.processes()) > 2)
            drain(client, [leaving])
            during.append(not ended.is_set())
            log.finish()

        ended = threading.Event()
        drainer = threading.Thread(target=leave)
        drainer.start()
        report = run_in_small_tasks(log.plan(long_path), on=client)
        ended.set()
        drainer.join()
        assert during == [True], "the run ended before the worker was drained"
        assert leaving not in workers_of(client)
        assert not any(worker.lost for worker in report.workers)
        assert {worker.host for worker in report.workers} > {leaving}
        assert sum(worker.tasks for worker in report.workers) == len(report.tasks)
        assert log.most_calls() == 1


class SlowToStart:
    """An actor that its worker makes for a while."""

    def __init__(self) -> None:
        time.sleep(0.5)


def test_a_worker_is_drained_whose_actor_was_given_back_before_it_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a slot is by a run that ends early: Dask's scheduler counts it for ever."""
    monkeypatch.setattr(scaling, "_RETIRE_S", 5.0)
    with local_cluster(2) as client:
        leaving = sorted(workers_of(client))[0]
        released = client.submit(SlowToStart, workers=[leaving], actor=True, pure=False)
        until(lambda: len(client.processing()[leaving]) == 1)
        released.release()
        drain(client, [leaving])
        assert leaving not in workers_of(client)
        (other,) = workers_of(client)
        kept = client.submit(SlowToStart, workers=[other], actor=True, pure=False).result()
        with pytest.raises(iso.RunError, match="still hold actors that are not of Isochrony"):
            drain(client, [other])
        assert other in workers_of(client)
        del kept
