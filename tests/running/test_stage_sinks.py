"""Sinks of plans in stages: what one thread would write is written, also at an error, at Ctrl-C and at a limit."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

RATE = 1000
BLOCK = 5_000
SAMPLES = np.random.default_rng(11).normal(0, 100, 400_000).astype("f4")
#: Seconds after which a sink commits what it has.
COMMIT_INTERVAL = 1.0


def filtered(plan: iso.Plan) -> iso.Plan:
    return plan.lowpass(50).highpass(5)


def blocks(count: int, then: Callable[[], None] = lambda: None) -> iso.Plan:
    """A source of Python's that yields blocks, and then does something."""

    def made() -> Iterator[np.ndarray[Any, Any]]:
        yield from SAMPLES[: count * BLOCK].reshape(-1, BLOCK)
        then()

    return iso.generate(made, dtype="f4", rate=RATE, start="2026-03-01")


def peaks(plan: iso.Plan) -> iso.Plan:
    return plan.rewindow(512).power().map(lambda s: s.max())


#: What sinks are to have, all of it; of a plan without sinks.
FILTERED = filtered(iso.scan(SAMPLES, rate=RATE)).collect(workers=1)
PEAKS = peaks(filtered(iso.scan(SAMPLES, rate=RATE))).collect(workers=1).ravel()


class Written:
    """What runs with some numbers of workers write, each into a store of its own.

    Parameters:
        folder: of the stores.
        build: a plan whose sinks write to the store.
        ends: the error with which runs end; None if they complete.
    """

    def __init__(self, folder: Path, build: Callable[[iso.Store], iso.Plan], ends: type[BaseException] | None) -> None:
        self.appended: dict[int, dict[str, np.ndarray[Any, Any]]] = {}
        self.committed: dict[int, dict[str, np.ndarray[Any, Any]]] = {}
        self.errors: dict[int, str] = {}
        for workers in (1, 2, 3):
            path = folder / f"{workers}.iso"
            with iso.open(path, "x") as store:
                plan = build(store)
                if workers > 1:
                    assert "stage 1: " in plan.explain(), plan.explain()
                if ends is None:
                    assert (plan.run(workers=workers).report.stages != ()) == (workers > 1)
                else:
                    with pytest.raises(ends) as caught:
                        plan.run(workers=workers)
                    self.errors[workers] = str(caught.value)
                # What others read now is what a crash would leave.
                self.committed[workers] = self.contents(iso.open(path))
                self.appended[workers] = self.contents(store)

    @staticmethod
    def contents(store: iso.Store) -> dict[str, np.ndarray[Any, Any]]:
        return {name: store[name].values() for name in store}

    def check_same(self, kind: dict[int, dict[str, np.ndarray[Any, Any]]]) -> dict[str, np.ndarray[Any, Any]]:
        """All have what one thread has, which is returned."""
        for workers in (2, 3):
            assert kind[workers].keys() == kind[1].keys(), workers
            for name, values in kind[1].items():
                np.testing.assert_array_equal(kind[workers][name], values, err_msg=f"{name}, {workers} workers")
        assert len(set(self.errors.values())) <= 1, self.errors
        return kind[1]


def test_a_limit_before_a_sink(tmp_path: Path) -> None:
    def build(store: iso.Store) -> iso.Plan:
        return peaks(filtered(iso.scan(SAMPLES, rate=RATE))).limit(31).sink(store, "peaks")

    written = Written(tmp_path, build, None)
    assert len(written.check_same(written.committed)["peaks"]) == 31


def test_a_limit_behind_a_sink(tmp_path: Path) -> None:
    """The sink has the segments that one thread reads for the limit, and no more."""

    def build(store: iso.Store) -> iso.Plan:
        return peaks(filtered(iso.scan(SAMPLES, rate=RATE)).sink(store, "filtered")).limit(31)

    written = Written(tmp_path, build, None)
    values = written.check_same(written.committed)["filtered"]
    assert 31 * 512 <= len(values) < len(SAMPLES) // 2
    np.testing.assert_array_equal(values, FILTERED[: len(values)])


def both_sinks(source: iso.Plan, store: iso.Store) -> iso.Plan:
    return peaks(filtered(source).sink(store, "filtered")).sink(store, "peaks")


def check_whole(contents: dict[str, np.ndarray[Any, Any]], count: int) -> None:
    """Both sinks have what comes of so many samples."""
    np.testing.assert_array_equal(contents["filtered"], FILTERED[:count])
    np.testing.assert_array_equal(contents["peaks"], PEAKS[: count // 512])


def test_a_source_that_fails(tmp_path: Path) -> None:
    def tears() -> None:
        raise ValueError("the tape is torn")

    written = Written(tmp_path, lambda store: both_sinks(blocks(40, tears), store), iso.RunError)
    assert written.errors[1].endswith("ValueError: the tape is torn")
    check_whole(written.check_same(written.appended), 40 * BLOCK)


@pytest.mark.parametrize("before", [True, False])
def test_a_function_that_fails(tmp_path: Path, before: bool) -> None:
    """Before a sink, and behind one, which has the samples at which the function failed."""
    seen = [0]

    def fails(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen[0] += len(rows)
        if seen[0] > 300:
            raise ValueError("enough")
        return rows[:, 0]

    def build(store: iso.Store) -> iso.Plan:
        seen[0] = 0
        windows = filtered(iso.scan(SAMPLES, rate=RATE)).sink(store, "filtered").rewindow(512)
        values = windows.map(iso.py(fails, dtype="f4"))
        return values.sink(store, "first") if before else values

    written = Written(tmp_path, build, iso.RunError)
    assert written.errors[1].endswith("ValueError: enough")
    appended = written.check_same(written.appended)
    assert 300 * 512 <= len(appended["filtered"]) < len(SAMPLES)
    np.testing.assert_array_equal(appended["filtered"], FILTERED[: len(appended["filtered"])])
    if before:
        np.testing.assert_array_equal(appended["first"], FILTERED[::512][: len(appended["first"])])
        assert 0 < len(appended["first"]) <= 300


def test_what_was_committed_before_an_error_stays(tmp_path: Path) -> None:
    """Sinks commit after 64 MiB, or a second."""
    large = np.tile(SAMPLES, 60)

    def made() -> Iterator[np.ndarray[Any, Any]]:
        yield from np.split(large, 60)
        raise ValueError("the tape is torn")

    def build(store: iso.Store) -> iso.Plan:
        return both_sinks(iso.generate(made, dtype="f4", rate=RATE), store)

    written = Written(tmp_path, build, iso.RunError)
    one = written.check_same(written.appended)["filtered"]
    assert len(one) == len(large)
    for workers in (1, 2, 3):
        kept = written.committed[workers]
        # On a busy machine the first commit comes after a second, before 64 MiB.
        assert len(kept["filtered"]) > 0
        assert 4 * (len(large) - len(kept["filtered"])) < (64 << 20) + 8 * len(SAMPLES)
        np.testing.assert_array_equal(kept["filtered"], one[: len(kept["filtered"])])
        # A commit is one of the store, of both sinks: neither is ahead of the other by more than a segment.
        assert (
            len(kept["filtered"]) // 512 - len(SAMPLES) // 512 - 1 <= len(kept["peaks"]) <= len(kept["filtered"]) // 512
        )


def test_ctrl_c_while_a_feed_is_quiet(tmp_path: Path) -> None:
    """All that arrived has been written, and committed a second later."""
    senders: list[threading.Thread] = []

    def build(store: iso.Store) -> iso.Plan:
        listener = iso.listen("tcp://127.0.0.1:0", dtype="f4", rate=RATE, silence=20)

        def press() -> None:
            # The last window is complete, and a commit of a quiet sink is due.
            time.sleep(2 * COMMIT_INTERVAL + 0.5)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

        send = blocks(40, press).send(listener.address)

        def run() -> None:
            # The listener has gone.
            with contextlib.suppress(iso.RunError):
                send.run(workers=1)

        senders.append(threading.Thread(target=run))
        senders[-1].start()
        return both_sinks(iso.scan(listener), store)

    try:
        written = Written(tmp_path, build, KeyboardInterrupt)
    finally:
        for sender in senders:
            sender.join(20)
    check_whole(written.check_same(written.committed), 40 * BLOCK)
    check_whole(written.check_same(written.appended), 40 * BLOCK)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_ctrl_c_in_the_midst_leaves_what_comes_first(tmp_path: Path, workers: int) -> None:
    """When it comes is chance: what is written is the beginning of what one thread writes, in both sinks."""
    pressed: list[int] = []

    def press() -> Iterator[np.ndarray[Any, Any]]:
        for number in range(10_000):
            if number == 150:
                threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
            if number >= 150:
                pressed.append(number)
            time.sleep(0.001)
            yield SAMPLES[(number * 2000) % len(SAMPLES) :][:2000]

    with iso.open(tmp_path / "a.iso", "x") as store:
        plan = both_sinks(iso.generate(press, dtype="f4", rate=RATE), store)
        assert "stage 1: " in plan.explain()
        with pytest.raises(KeyboardInterrupt):
            plan.run(workers=workers)
        got = Written.contents(store)
    assert len(pressed) < 1_000
    count = len(got["filtered"])
    assert 0 < count <= (150 + len(pressed)) * 2000
    expected = filtered(iso.scan(np.tile(SAMPLES, 6), rate=RATE)).collect(workers=1)
    np.testing.assert_array_equal(got["filtered"], expected[:count])
    assert len(got["peaks"]) <= count // 512
    expected = peaks(filtered(iso.scan(np.tile(SAMPLES, 6), rate=RATE))).collect(workers=1).ravel()
    np.testing.assert_array_equal(got["peaks"], expected[: len(got["peaks"])])
