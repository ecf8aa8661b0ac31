"""What tests of plans on Dask workers share: clusters, recordings and plans over them."""

from __future__ import annotations

import functools
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.cluster import slot as slots
from isochrony.running.options import RunOptions
from isochrony.running.runs import run_reported

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")

RATE = 1000
SAMPLES = 600_000


@contextmanager
def local_cluster(workers: int, threads: int = 1, **options: Any) -> Iterator[Any]:
    """A client of a new cluster of workers on this machine; `client.cluster` starts and stops them."""
    options = {"threads_per_worker": threads, "dashboard_address": None, "silence_logs": 50, **options}
    with distributed.LocalCluster(n_workers=workers, **options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with samples, gaps and a clock step."""
    path = tmp_path_factory.mktemp("stores") / "recording.iso"
    store = iso.open(path, "x")
    signal = store.create("s", dtype="i2", rate=RATE)
    values = np.random.default_rng(3).integers(-2000, 2000, SAMPLES, dtype="i2")
    at = np.datetime64("2026-03-01T00:00:00", "ns")
    for begin, end, later in ((0, 250_000, 0), (250_000, 400_000, 7_000), (400_000, SAMPLES, -3_000)):
        start = at + np.timedelta64(begin * 1_000_000_000 // RATE, "ns") + np.timedelta64(later, "ms")
        signal.append(values[begin:end], at=start)
    store.commit()
    store.close()
    return path


@pytest.fixture(scope="module")
def signal(path: Path) -> iso.Signal:
    return iso.open(path)["s"]


def same(one: Any, other: Any) -> None:
    if isinstance(one, int):
        assert one == other
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one.to_arrow().equals(other.to_arrow())


def slow(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    time.sleep(0.02)
    return rows.max(axis=1)


def slow_plan(signal: iso.Signal) -> iso.Plan:
    return iso.scan(signal).rewindow(100).map(iso.py(slow, dtype="i2", width=1))


def refusing(answer: Callable[..., Any]) -> Callable[..., Any]:
    """As if workers answered a batch with an error."""

    def refused(slot: Any, call: Any) -> Any:
        result = answer(slot, call)
        if isinstance(result, bytes):
            raise slots.WorkerError(iso.RunError("no"))
        return result

    return refused


@dataclass
class CallLog:
    """A file to which each call of a plan's function appends a checksum of its rows and the number of its process.

    Calls pause until `finish`, so that a run lasts as long as the test needs it, and no longer.

    Parameters:
        file: of the calls.
        pause: seconds of each call.
    """

    file: Path
    pause: float = 0.1

    def plan(self, path: Path) -> iso.Plan:
        """Largest values of windows of a store's signal, by calls that are logged."""
        function = functools.partial(logged, calls=str(self.file), pause=self.pause)
        return iso.scan(iso.open(path)["s"]).rewindow(100).map(iso.py(function, dtype="i4", width=1))

    def finish(self) -> None:
        """Has all further calls return at once."""
        finished_marker(self.file).touch()

    def processes(self) -> set[str]:
        """Those that have called the function."""
        return {line.split()[1] for line in self._lines()}

    def most_calls(self) -> int:
        """The number of calls of the rows for which there were most."""
        return max(Counter(line.split()[0] for line in self._lines()).values())

    def _lines(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []


def finished_marker(calls: Path) -> Path:
    return calls.with_suffix(".finished")


def logged(rows: np.ndarray[Any, Any], calls: str, pause: float) -> np.ndarray[Any, Any]:
    """As `slow`, for a `CallLog`."""
    if not finished_marker(Path(calls)).exists():
        time.sleep(pause)
    with Path(calls).open("a") as file:  # a short line is appended as a whole
        file.write(f"{zlib.crc32(rows.tobytes())} {os.getpid()}\n")
    return rows.max(axis=1)


@pytest.fixture(scope="module")
def long_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with samples for some hundred tasks, all different."""
    path = tmp_path_factory.mktemp("long") / "long.iso"
    with iso.open(path, "x") as store:
        signal = store.create("s", dtype="i4", rate=RATE)
        signal.append(np.arange(12_000_000, dtype="i4"))
        store.commit()
    return path


def run_in_small_tasks(plan: iso.Plan, **given: Any) -> Any:
    """Its report; tasks are small, so that few of them are in flight."""
    options = RunOptions.of(**given)
    options.settings["task"] = 400_000
    return run_reported((plan,), options).report
