"""Late samples as rows in the run that reads the feed: over real sockets, with faults, in one thread and in stages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony import OptionError
from two_feeds import START

RATE, EACH = 200, 10


def part(number: int) -> np.ndarray[Any, Any]:
    return np.arange(number * EACH, (number + 1) * EACH, dtype="i4")


def paused(pause_s: float) -> iso.Plan:
    """Samples that count from 0, sent as they are taken; what is taken in a pause is sent behind it.

    The pause begins when all before it has been sent, so it is never shorter, however loaded the machine is.
    """

    def parts() -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
        begun = time.monotonic() + 0.5
        for number in range(60):
            taken = begun + (number + 1) * EACH / RATE
            if number == 20:
                time.sleep(pause_s)
            time.sleep(max(0.0, taken - time.monotonic()))
            yield number * EACH, part(number)

    return iso.generate(parts, dtype="i4", rate=RATE, start=START)


class Run:
    """What a run of a feed and its late samples gave."""

    def __init__(self, listener: iso.Listener, source: iso.Plan, workers: int, **send: Any) -> None:
        self.values: list[int] = []
        rows: list[dict[str, Any]] = []
        self.came: list[int] = []

        def take(samples: np.ndarray[Any, Any], start: int) -> None:
            self.values.extend(samples.tolist())

        def take_late(table: Any, start: int) -> None:
            rows.append({name: table[name] for name in table.columns})
            # How many samples in time had come before.
            self.came.append(len(self.values))

        thread = threading.Thread(target=source.send(listener.address, frame=EACH, **send).run)
        thread.start()
        plans = [iso.scan(listener).each(take), listener.late().each(take_late)]
        if workers > 1:
            # Operators that remember, which are stages of their own.
            plans.append(iso.scan(listener).lowpass(20).highpass(1).rewindow("100ms").stats("max"))
        report = iso.run(plans, workers=workers).report
        assert workers == 1 or len({stage.number for stage in report.stages}) >= 3
        thread.join(30)
        self.counts = listener.counts
        names = ("start", "end", "time", "index", "sample_time", "value")
        assert not rows or list(rows[0]) == list(names)
        self.rows = {name: np.concatenate([row[name] for row in rows]) if rows else np.empty(0) for name in names}


def listen(address: str, **options: Any) -> iso.Listener:
    options = {"silence": 10.0, "lateness": 0.3, "keep_late": 1 << 20} | options
    return iso.listen(address, dtype="i4", rate=RATE, **options)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
def test_late_samples_are_rows_in_the_run_of_their_feed(scheme: str, workers: int) -> None:
    listener = listen(f"{scheme}://127.0.0.1:0")
    run = Run(listener, paused(1.0), workers)
    rows = run.rows
    # Of the pause more than two thirds were given up; if the sender is held up, more. Not all: the feed goes on.
    assert 50 < len(rows["value"]) == run.counts["late_samples"] < 50 * EACH
    assert run.counts["dropped_late_samples"] == 0 and listener.take_late() == []
    # Each sample once: in time or late.
    assert sorted([*run.values, *rows["value"].tolist()]) == list(range(60 * EACH))
    np.testing.assert_array_equal(rows["index"], rows["value"])
    assert np.all(rows["start"] > rows["index"]) and np.all(np.diff(rows["start"]) >= 0)
    np.testing.assert_array_equal(rows["end"], rows["start"] + 1)
    at = np.datetime64(START, "ns")
    for name, index in (("sample_time", "index"), ("time", "start")):
        expected = at + rows[index] * np.timedelta64(1_000_000_000 // RATE, "ns")
        off = np.abs(rows[name].astype("datetime64[ns]") - expected)
        assert np.all(off <= np.timedelta64(1, "us")), name
    # They come while the feed goes on, not at its end.
    assert run.came[0] < len(run.values)


@pytest.mark.parametrize("workers", [1, 2])
def test_frames_that_overtake_one_another_are_late_or_in_time(workers: int) -> None:
    listener = listen("udp://127.0.0.1:0", reorder=0.02)
    run = Run(listener, paused(0.0), workers, jitter=0.15, loss=0.05, twice=0.05, seed=3)
    values, late = run.values, run.rows["value"].tolist()
    assert late and run.counts["late_samples"] == len(late)
    every = [*values, *late]
    assert len(set(every)) == len(every) and set(every) <= set(range(60 * EACH))
    offsets = set((run.rows["value"] - run.rows["index"]).tolist())
    assert len(offsets) == 1 and np.all(np.diff(run.rows["start"]) >= 0)


def test_what_has_no_room_is_dropped_and_counted() -> None:
    # Two frames, with what they take in memory, and no third.
    listener = listen("udp://127.0.0.1:0", keep_late=300)
    thread = threading.Thread(target=paused(1.0).send(listener.address, frame=EACH).run)
    thread.start()
    # Nobody takes them before the end.
    got = iso.scan(listener).collect()
    thread.join(30)
    counts = listener.counts
    kept = np.concatenate([piece.samples for piece in listener.take_late()])
    # Whole pieces of frames.
    assert EACH < len(kept) <= 2 * EACH
    assert counts["dropped_late_samples"] == counts["late_samples"] - len(kept) > 0
    # The latest are kept.
    assert kept[-1] == np.setdiff1d(np.arange(60 * EACH), got)[-1]


@pytest.mark.parametrize("workers", [1, 2])
def test_late_rows_are_counted_grouped_joined_and_written(tmp_path: Path, workers: int) -> None:
    listener = listen("tcp://127.0.0.1:0")
    thread = threading.Thread(target=paused(1.0).send(listener.address, frame=EACH).run)
    thread.start()
    late = listener.late()
    per_part = late.group_by(every="100ms").agg(n="count", last=("value", "max"))
    windows = iso.scan(listener).rewindow("100ms").stats("min", "max")
    counted, groups, windowed, joined, _, rows = iso.collect(
        late.count(),
        per_part,
        windows,
        windows.join(per_part, how="left"),
        listener.late().filter(lambda r: r.value % 2 == 0).sink_parquet(tmp_path / "late.parquet").count(),
        late,
        workers=workers,
    )
    thread.join(30)
    assert counted == sum(groups["n"]) == listener.counts["late_samples"] > 50
    spans = [list(zip(table["start"].tolist(), table["end"].tolist(), strict=True)) for table in (windowed, groups)]
    expected = [(a, c) for a, b in spans[0] for c, d in spans[1] if a < d and c < b]
    has_partner = joined["n"] > 0
    starts = zip(joined["start"][has_partner].tolist(), joined["start_right"][has_partner].tolist(), strict=True)
    assert list(starts) == expected and expected
    import pyarrow.parquet as parquet

    table = parquet.read_table(tmp_path / "late.parquet")
    assert len(rows["value"]) == counted
    np.testing.assert_array_equal(table["value"].to_numpy(), rows["value"][rows["value"] % 2 == 0])


def test_either_plan_may_end_before_the_other() -> None:
    listener = listen("udp://127.0.0.1:0")
    thread = threading.Thread(target=paused(1.0).send(listener.address, frame=EACH).run)
    thread.start()
    samples, late = iso.collect(iso.scan(listener), listener.late().limit(7))
    thread.join(30)
    assert len(late["value"]) == 7
    assert len(samples) + listener.counts["late_samples"] == 60 * EACH
    listener = listen("udp://127.0.0.1:0", silence=None, lateness=30.0)
    thread = threading.Thread(target=paused(0.0).send(listener.address, frame=EACH).run)
    thread.start()
    samples, late = iso.collect(iso.scan(listener).limit(100), listener.late())
    thread.join(30)
    assert samples.tolist() == list(range(100)) and len(late["value"]) == 0


def test_a_second_run_has_late_samples_of_its_own() -> None:
    """Those of an earlier run that nobody has taken are not among them."""
    listener = listen("udp://127.0.0.1:0")
    rows = []
    for reads in (False, True):
        thread = threading.Thread(target=paused(1.0).send(listener.address, frame=EACH).run)
        thread.start()
        before = listener.counts["late_samples"]
        rows = iso.collect(iso.scan(listener).count(), *([listener.late()] if reads else []))
        thread.join(30)
    assert len(rows[1]["value"]) == listener.counts["late_samples"] - before > 0
    assert sum(len(piece.samples) for piece in listener.take_late()) == before > 0


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(OptionError, match=r"keep_late=0 is refused; give listen\(\) the bytes of late samples"):
        iso.listen("udp://127.0.0.1:0", dtype="i2", rate=100).late()
    listener = listen("udp://127.0.0.1:0", silence=0.2)
    with pytest.raises(
        iso.IsochronyError, match=r"no plan reads udp://.* in this process.* run the plan of late samples"
    ):
        listener.late().count().collect()
    # Nothing remains of it.
    assert iso.collect(listener.late().count(), iso.scan(listener).count()) == (0, 0)


def test_late_samples_have_one_reader() -> None:
    listener = listen("tcp://127.0.0.1:0", silence=30.0)
    is_reading, refused = threading.Event(), threading.Event()
    got: list[tuple[int, int]] = []

    def parts() -> Iterator[np.ndarray[Any, Any]]:
        yield part(0)
        # The feed ends when the second reader has been refused.
        refused.wait(60)
        yield part(1)

    def read() -> None:
        samples = iso.scan(listener).each(lambda _samples, _start: is_reading.set())
        got.append(iso.collect(listener.late().count(), samples.count()))

    source = iso.generate(parts, dtype="i4", rate=RATE, start=START)
    threads = [threading.Thread(target=run) for run in (read, source.send(listener.address, frame=EACH).run)]
    for thread in threads:
        thread.start()
    try:
        # The run has opened all its sources before it passes samples on.
        assert is_reading.wait(60)
        with pytest.raises(iso.IsochronyError, match="already reading the late samples of tcp://"):
            listener.late().count().collect()
    finally:
        refused.set()
        for thread in threads:
            thread.join(60)
    assert got == [(0, 2 * EACH)]
