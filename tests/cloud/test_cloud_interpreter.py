"""Calls that wait for a server leave the interpreter to other threads."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from object_server import BUCKET, KEY, SECRET, Line, line_to, serve

pytestmark = pytest.mark.skipif(os.name != "posix", reason="starts a server")

#: Seconds of each answer, and a part of it within which other threads run.
DELAY, LATE = 0.4, 0.3


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """To a bucket with a store that has a raw and a sealed signal."""
    folder = tmp_path_factory.mktemp("cloud")
    with pytest.MonkeyPatch.context() as patch, iso.open(folder / BUCKET / "a.iso", "x") as store:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "costs"))
        for name in ("raw", "sealed"):
            signal = store.create(name, dtype="i2", rate=1000, start="2020-01-01")
            signal.append(np.arange(200_000, dtype="i2"))
            signal.events.add("note", 5)
        store.commit()
        store["sealed"].seal()
        # So that plans are predicted too.
        plan(store["raw"]).characterise(samples=1 << 16, repeats=3)
    with pytest.MonkeyPatch.context() as patch, serve(folder) as port, line_to(port) as line:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "costs"))
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{line.port}")
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_REGION", "us-east-1")
        yield line


def plan(signal: iso.Signal) -> iso.Plan:
    return iso.scan(signal).rewindow(1000).stats("max")


CALLS: dict[str, Callable[[iso.Store, str], Any]] = {
    "open": lambda store, _: iso.open(store.path),
    "refresh": lambda store, _: store.refresh(),
    "attributes": lambda store, _: dict(store.attrs),
    "signal": lambda store, name: (
        store[name].start_time,
        store[name].runs(),
        [one.time for one in store[name].events],
    ),
    "sizes": lambda store, name: store[name].sizes(),
    "value": lambda store, name: store[name][1000],
    "values": lambda store, name: store[name][5:9].values(),
    "view": lambda store, name: store[name].view(pixels=10).mean,
    "level": lambda store, name: store[name].level(4096)[:].values(),
    "pickle": lambda store, name: pickle.loads(pickle.dumps(store[name])),
    "plan": lambda store, name: plan(store[name]).collect(workers=1),
    "explain": lambda store, name: plan(store[name]).explain(),
}


@pytest.mark.parametrize("name", ["raw", "sealed"])
@pytest.mark.parametrize("call", CALLS)
def test_other_threads_run_while_a_call_waits(line: Line, name: str, call: str) -> None:
    if call == "level" and name == "sealed":
        pytest.skip("the signal has no such level")
    longest = 0.0
    is_done = threading.Event()
    store = iso.open(f"s3://{BUCKET}/a.iso")

    def tick() -> None:
        nonlocal longest
        last = time.monotonic()
        while not is_done.wait(0.01):
            now = time.monotonic()
            longest, last = max(longest, now - last), now

    thread = threading.Thread(target=tick)
    line.delay = DELAY
    line.requests.clear()
    try:
        thread.start()
        CALLS[call](store, name)
    finally:
        line.delay = 0.0
        is_done.set()
        thread.join()
    assert line.requests, "nothing was asked for, so nothing was tested"
    assert longest < LATE


def test_plans_over_remote_stores_are_not_predicted(line: Line) -> None:
    text = plan(iso.open(f"s3://{BUCKET}/a.iso")["raw"]).explain()
    assert "no prediction of throughput: how fast a server answers is not measured" in text
