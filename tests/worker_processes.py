"""What tests of worker processes share: a recording, plans over it, and what must not be left behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import isochrony as iso

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
    """Processes that this one started and that are still there, ended or not, but for those of `multiprocessing`."""
    listed = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    # Other tests use pools. What these leave stays for as long as this process does.
    others = {resource_tracker._resource_tracker._pid, forkserver._forkserver._forkserver_pid}  # type: ignore[attr-defined]
    return {int(pid) for one in listed for pid in one.read_text().split()} - others


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
    """Whether a process is there and has not ended with all of its threads, of which the last one closes its files."""
    folder = Path(f"/proc/{pid}")
    try:
        ended = (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        return not ended or len(list((folder / "task").iterdir())) > 1
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
    # Threads of a test before may end only now.
    until(lambda: threading.active_count() <= before[1])
    assert threading.active_count() <= before[1], threading.enumerate()
    assert not [link for link in descriptors() if "isochrony-worker" in link]


def windows(signal: iso.Signal, window: int = 500, hop: int | None = None) -> iso.Plan:
    return iso.scan(signal).rewindow(window, hop)


def on_two(plan: iso.Plan, **options: Any) -> iso.RunResult:
    # Short of memory, so that there are many tasks and both workers get some.
    return plan.run(workers=2, memory=32 << 20, **options)
