"""What tests of feeds on Dask workers share: samples that are sent at their rate, a plan, and what it gives.

A module that workers import, since they are sent `prepared_slots` by its name.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np

import isochrony as iso
from isochrony.cluster import worker
from isochrony.cluster.connect import workers_of
from worker_processes import until

FEED_RATE = 200_000
TAPS = [0.125, 0.25, -0.5, 1.0, 0.375]


def feed_samples(seconds: float) -> np.ndarray[Any, Any]:
    return np.random.default_rng(11).integers(-2000, 2000, int(seconds * FEED_RATE), dtype="i2")


def prepared_slots() -> int:
    """In a worker: slots that have prepared the plan of their run."""
    return sum(slot._runner is not None for slot in worker._SLOTS)


def sending(samples: np.ndarray[Any, Any], address: str, client: Any) -> threading.Thread:
    """Sends samples at their rate, once all workers, of one thread each, have the plan of the run that follows."""
    # Slots of the run before go a moment after it.
    until(lambda: not any(client.run(worker.slot_count).values()))
    workers = len(workers_of(client))

    def send() -> None:
        until(lambda: sum(client.run(prepared_slots).values()) >= workers)
        # A run that has ended takes no more of them.
        with contextlib.suppress(iso.RunError):
            iso.scan(samples, rate=FEED_RATE, segment=1000).send(address, speed=1).run()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def loudest(plan: iso.Plan) -> iso.Plan:
    """Filtered samples, of which each window's largest."""
    return plan.fir(TAPS).rewindow(1000).map(lambda s: s.max())


def expected_loudest(samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `loudest` gives. Taps are multiples of 1/8, so that all sums are exact."""
    filtered = np.convolve(samples.astype("f8"), TAPS)[: len(samples)]
    windows = filtered[: len(filtered) // 1000 * 1000].reshape(-1, 1000)
    return np.asarray(windows.max(axis=1, keepdims=True))
