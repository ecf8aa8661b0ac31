"""Feeds whose blocks Dask workers compute: no sample is lost, whatever happens to the workers."""

import os
import signal as signals
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from cluster_feeds import FEED_RATE, expected_loudest, feed_samples, loudest, sending
from cluster_plans import local_cluster, refusing
from isochrony.cluster import slot as slots
from isochrony.cluster.connect import workers_of
from worker_processes import until


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Any]:
    with local_cluster(2) as client:
        yield client


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
def test_workers_compute_blocks_of_a_feed(two_workers: Any, scheme: str) -> None:
    samples = feed_samples(1.5)
    listener = iso.listen(f"{scheme}://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
    sender = sending(samples, listener.address, two_workers)
    plan = loudest(iso.scan(listener))
    result = plan.run(on=two_workers)
    sender.join()
    assert listener.counts["lost_samples"] == 0 and listener.counts["samples"] == len(samples)
    workers = result.report.workers
    addresses = set(workers_of(two_workers))
    assert {worker.host for worker in workers} == addresses
    assert all(worker.tasks > 0 and worker.sent_bytes > 0 and worker.received_bytes > 0 for worker in workers)
    assert not any(worker.lost for worker in workers)
    # Most samples went to workers: this process computes only what comes before they have the plan.
    assert sum(worker.sent_bytes for worker in workers) > samples.nbytes / 2
    # What workers computed is in both.
    share, latency = result.report.engine_share, result.report.latency
    assert share is not None and 0 <= share <= 1
    assert latency is not None and latency.items > 0 and 0 < latency.median < result.report.elapsed_s

    sender = sending(samples, listener.address, two_workers)
    found = plan.collect(on=two_workers)
    sender.join()
    assert listener.counts["lost_samples"] == 0
    np.testing.assert_array_equal(found, expected_loudest(samples))
    np.testing.assert_array_equal(found, loudest(iso.scan(samples, rate=FEED_RATE)).collect(workers=1))


def test_what_works_in_order_and_what_writes_stays_with_a_feed(two_workers: Any, tmp_path: Path) -> None:
    """A recursive filter before the blocks, a function and a sink behind them."""
    samples = feed_samples(1)
    seen: list[tuple[int, int]] = []

    def note(rows: np.ndarray[Any, Any], start: int) -> None:
        seen.append((os.getpid(), start))

    def plan(scan: iso.Plan) -> iso.Plan:
        return scan.lowpass(20_000).rewindow(4096).power().map(lambda s: s.max())

    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
    sender = sending(samples, listener.address, two_workers)
    with iso.open(tmp_path / "results.iso", "x") as store:
        report = plan(iso.scan(listener)).each(note).sink(store, "largest").run(on=two_workers).report
        sender.join()
        assert sum(worker.tasks for worker in report.workers) > 0
        expected = plan(iso.scan(samples, rate=FEED_RATE)).collect(workers=1)
        np.testing.assert_array_equal(store["largest"][:].values().reshape(expected.shape), expected)
    assert {pid for pid, _ in seen} == {os.getpid()}
    starts = [start for _, start in seen]
    assert len(starts) > 1 and starts == sorted(starts)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_feed_loses_nothing_with_its_workers(lost: int) -> None:
    """With all of them this process goes on by itself."""
    samples = feed_samples(2)
    with local_cluster(2) as client:
        pids = list(client.run(os.getpid).values())
        listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
        sender = sending(samples, listener.address, client)

        def kill() -> None:
            until(lambda: listener.counts["samples"] > len(samples) / 4)
            for pid in pids[:lost]:
                os.kill(pid, signals.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        found = loudest(iso.scan(listener)).collect(on=client)
        killer.join()
        sender.join()
    assert listener.counts["lost_samples"] == 0
    np.testing.assert_array_equal(found, expected_loudest(samples))


def test_a_feed_needs_no_worker() -> None:
    samples = feed_samples(1)
    with local_cluster(0) as client:
        listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
        sender = sending(samples, listener.address, client)
        np.testing.assert_array_equal(loudest(iso.scan(listener)).collect(on=client), expected_loudest(samples))
        sender.join()


def fails_once(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    raise ValueError("no such row")


def test_an_error_ends_the_run_of_a_feed(two_workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a function here, and in a worker."""
    samples = feed_samples(1)
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
    sending(samples, listener.address, two_workers)
    with pytest.raises(iso.RunError, match="no such row") as here:
        loudest(iso.scan(listener)).map(iso.py(fails_once, dtype="f8", width=1)).collect(on=two_workers)
    assert isinstance(here.value.__cause__, ValueError)
    monkeypatch.setattr(slots.Slot, "_answer", refusing(slots.Slot._answer))
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
    sending(samples, listener.address, two_workers)
    with pytest.raises(iso.RunError, match=r"worker tcp://.* cannot take part: no"):
        loudest(iso.scan(listener)).collect(on=two_workers)


@pytest.mark.alone
def test_ctrl_c_ends_the_run_of_a_feed_at_once(two_workers: Any) -> None:
    code = f"""
import sys, threading, time, os, signal
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import isochrony as iso
from distributed import Client
from cluster_feeds import FEED_RATE, feed_samples, loudest, sending
from worker_processes import until
if __name__ == "__main__":
    with Client({two_workers.scheduler.address!r}) as client:
        listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=10)
        samples = feed_samples(10)
        sending(samples, listener.address, client)
        asked = []
        def ask():
            until(lambda: listener.counts["samples"] > len(samples) / 10)
            asked.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=ask).start()
        try:
            loudest(iso.scan(listener)).collect(on=client)
        except KeyboardInterrupt:
            print("took", time.perf_counter() - asked[0], flush=True)
        os._exit(0)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout.startswith("took"), ran.stderr
    assert float(ran.stdout.split()[1]) < 0.5
