"""Stored signals that another process still appends to, followed by plans."""

import json
import re
import shutil
import signal as signals
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

RATE = 1000

# Appends arange in commits of so many samples, one every so many seconds, and says when each was done.
WRITER = """
import sys, time, numpy as np, isochrony as iso
path, name, first, commits, each, pause = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:7])
first, commits, each = int(first), int(commits), int(each)
with iso.open(path, "a") as store:
    if name in store:
        signal = store[name]
    else:
        signal = store.create(name, dtype="i4", rate=1000, start="2026-01-01")
    for k in range(first, first + commits):
        signal.append(np.arange(k * each, (k + 1) * each, dtype="i4"))
        begun = time.monotonic_ns()
        store.commit()
        print(begun, time.monotonic_ns(), flush=True)
        time.sleep(pause)
    if len(sys.argv) > 7:
        time.sleep(60)
"""


@contextmanager
def writer(path: Path, name: str, *arguments: float) -> Iterator[subprocess.Popen[str]]:
    """A process that appends: first commit, number of commits, samples of each, seconds between them."""
    command = [sys.executable, "-c", WRITER, str(path), name, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def made(path: Path, *names: str) -> None:
    with iso.open(path, "a") as store:
        for name in names:
            store.create(name, dtype="i4", rate=RATE, start="2026-01-01")


def in_background(call: Any) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    return thread, results


def waits(condition: Any) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, "what was waited for did not come"
        time.sleep(0.01)


def test_what_another_process_commits_comes_soon_and_windows_go_on_across_commits(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    made(path, "mic")
    seen: list[tuple[int, int]] = []
    followed = iso.follow(iso.open(path)["mic"], silence=20)
    # 100 commits of 77 samples every 20 ms; windows of 50 do not fit them.
    plan = iso.scan(followed).each(lambda values, start: seen.append((start + len(values), time.monotonic_ns())))
    thread, results = in_background(plan.rewindow(50).map(lambda s: s.sum()).limit(154).collect)
    with writer(path, "mic", 0, 100, 77, 0.02) as process:
        assert process.stdout is not None
        commits = [[int(word) for word in line.split()] for line in process.stdout]
    thread.join(30)
    sums = np.arange(7700).reshape(-1, 50).sum(axis=1)
    assert np.array_equal(results[0][:, 0], sums)
    assert followed.counts["samples"] == 7700
    # The result may be there before the writer has come back from its commit, which then only syncs.
    arrived = dict(seen)
    marks = [(begun, done, arrived[(k + 1) * 77]) for k, (begun, done) in enumerate(commits) if (k + 1) * 77 in arrived]
    assert len(marks) > 50
    begun, done, at = np.array(marks).T
    since_begin, since_end = (at - begun) / 1e6, np.maximum(0, at - done) / 1e6
    print(f"from a commit's beginning to its samples in a function: median {np.median(since_begin):.2f} ms,", end=" ")
    print(f"90 % {np.quantile(since_begin, 0.9):.2f} ms; the commits took {np.median(done - begun) / 1e6:.2f} ms")
    # The kernel wakes the run, which would look by itself after up to 20 ms, 10 on average.
    assert np.median(since_end) < 5


def test_a_reader_far_behind_catches_up_and_then_waits(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    with writer(path, "mic", 0, 1, 3_000_000, 0) as process:
        process.wait()
    followed = iso.follow(iso.open(path)["mic"], silence=20)
    counted, results = in_background(iso.scan(followed).rewindow(1000).stats("max").limit(3010).collect)
    waits(lambda: followed.counts["samples"] >= 3_000_000)
    with writer(path, "mic", 3000, 10, 1000, 0.01) as process:
        process.wait()
    counted.join(30)
    assert np.array_equal(results[0]["max"], np.arange(999, 3_010_000, 1000))


def test_gaps_clock_steps_and_times_are_those_of_the_stored_signal(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    with iso.open(path, "x") as store:
        signal = store.create("mic", dtype="i4", rate=RATE)  # empty, and without times yet
        store.commit()
        # In this process what is not committed yet counts, so it is followed by way of another handle.
        followed = iso.follow(iso.open(path)["mic"], silence=20)
        rows = iso.scan(followed).rewindow(10).stats("min").limit(27)
        thread, results = in_background(rows.collect)
        steps: list[Any] = [
            lambda: signal.append(np.arange(55, dtype="i4"), at="2026-01-01T00:00:00Z"),
            lambda: signal.append_gap(samples=5),
            lambda: signal.append_gap(samples=7),  # the same gap, longer, in another commit
            lambda: signal.append(np.arange(67, 105, dtype="i4")),
            lambda: signal.append(np.arange(105, 167, dtype="i4")),
            lambda: signal.append(np.arange(167, 300, dtype="i4"), at="2025-12-31T00:00:00Z"),  # a clock step
        ]
        for step in steps:
            step()
            store.commit()
            time.sleep(0.05)
        thread.join(30)
    whole = iso.scan(iso.open(path)["mic"]).rewindow(10).stats("min").collect()
    live = results[0]
    assert live.columns == ("start", "end", "time", "min")
    for name in live.columns:
        assert np.array_equal(live[name], whole[name][:27]), name
    assert 67 in live["start"] and 167 in live["start"]


def test_what_is_filled_in_behind_is_counted_and_ahead_comes_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    with iso.open(path, "x") as store:
        signal = store.create("mic", dtype="i4", rate=RATE, start="2026-01-01")
        signal.append(np.arange(100, dtype="i4"))
        signal.append_gap(samples=100)
        signal.append(np.arange(200, 300, dtype="i4"))
        signal.append_gap(samples=100)
        store.commit()
        followed = iso.follow(iso.open(path)["mic"], silence=20)
        thread, results = in_background(iso.scan(followed).limit(400).collect)
        waits(lambda: followed.counts["samples"] == 200)
        signal.backfill(np.arange(150, 180, dtype="i4"), signal.time_of(150))  # behind
        signal.backfill(np.arange(350, 400, dtype="i4"), signal.time_of(350))  # in the gap at the end, not passed yet
        signal.append(np.arange(400, 600, dtype="i4"))
        store.commit()
        thread.join(30)
    expected = [*range(100), *range(200, 300), *range(350, 400), *range(400, 550)]
    assert np.array_equal(results[0], expected)
    assert followed.counts["backfilled_samples"] == 30


def test_a_killed_writer_and_the_one_after_it_are_one_signal(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    made(path, "mic")
    followed = iso.follow(iso.open(path)["mic"], silence=30)
    thread, results = in_background(iso.scan(followed).limit(3000).collect)
    with writer(path, "mic", 0, 10_000, 10, 0.001) as process:
        waits(lambda: followed.counts["samples"] > 500)
        process.send_signal(signals.SIGKILL)
        process.wait()
    with iso.open(path) as store:
        kept = store["mic"].sample_count
    # A killed process loses nothing that it committed, and nobody read what it had not.
    assert followed.counts["samples"] <= kept
    assert kept % 10 == 0
    with writer(path, "mic", kept // 10, 10_000, 10, 0.0) as process:
        thread.join(60)
    assert np.array_equal(results[0], np.arange(3000))


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_it_may_end_with_its_writer(tmp_path: Path, how: str) -> None:
    path = tmp_path / "water.iso"
    made(path, "mic")
    more = [1] if how == "killed" else []
    with writer(path, "mic", 0, 20, 100, 0.01, *more) as process:
        assert process.stdout is not None
        process.stdout.readline()
        followed = iso.follow(iso.open(path)["mic"], while_written=True)
        thread, results = in_background(iso.scan(followed).collect)
        if how == "killed":
            for _ in range(19):
                process.stdout.readline()
            assert thread.is_alive()
            process.kill()
        thread.join(30)
    assert np.array_equal(results[0], np.arange(2000))


def test_it_ends_when_the_signal_is_sealed_or_after_a_silence(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    with iso.open(path, "x") as store:
        signal = store.create("mic", dtype="i4", rate=RATE)
        signal.append(np.arange(1000, dtype="i4"))
        store.commit()
        reading = iso.open(path)
        thread, results = in_background(iso.scan(iso.follow(reading["mic"])).count().collect)
        begun = time.monotonic()
        assert iso.scan(iso.follow(reading["mic"], start=200, silence=0.3)).count().collect() == 800
        assert 0.3 <= time.monotonic() - begun < 5
        # 0: what is stored, then the end.
        assert iso.scan(iso.follow(reading["mic"], silence=0)).count().collect() == 1000
        assert thread.is_alive()
        signal.append(np.arange(500, dtype="i4"))
        signal.seal()
        thread.join(30)
    assert results == [1500]


def test_two_signals_meet_while_they_grow(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    made(path, "a", "b")
    store = iso.open(path)
    both = [iso.follow(store[name], silence=30) for name in ("a", "b")]
    other = iso.scan(both[1]).align(iso.scan(both[0])).rewindow(100)
    plan = iso.scan(both[0]).rewindow(100).map(lambda x, y: (x - y).mean(), other)
    thread, results = in_background(plan.limit(15).collect)
    with writer(path, "a", 0, 10, 200, 0.01) as process:
        process.wait()
    with writer(path, "b", 0, 25, 80, 0.01) as process:
        process.wait()
    thread.join(30)
    assert results and np.abs(results[0]).max() < 1e-3


def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    made(path, "mic")
    code = """
import isochrony as iso, sys
followed = iso.follow(iso.open(sys.argv[1])["mic"])
print("ready", flush=True)
try:
    iso.scan(followed).run()
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    program = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        program.stdout.readline()
        time.sleep(0.3)
        program.send_signal(signals.SIGINT)
        begun = time.monotonic()
        assert program.stdout.readline() == "stopped\n"
        assert time.monotonic() - begun < 1
    finally:
        program.kill()
        program.wait()


def test_waiting_takes_no_time_of_a_processor(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    made(path, "mic")
    followed = iso.follow(iso.open(path)["mic"], silence=2)
    begun = time.process_time()
    iso.scan(followed).run()
    used = time.process_time() - begun
    print(f"{used / 2:.2%} of a processor while nothing is written")
    assert used < 0.1


def test_a_signal_that_goes_away_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    made(path, "mic")
    plan = iso.scan(iso.follow(iso.open(path)["mic"], silence=20))
    failed: list[BaseException] = []

    def run() -> None:
        try:
            plan.run()
        except iso.RunError as error:
            failed.append(error)

    thread, _ = in_background(run)
    time.sleep(0.1)
    with iso.open(path, "a") as store:
        store.delete("mic")
        store.commit()
        thread.join(30)
    assert "removed" in str(failed[0])


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    made(path, "mic")
    signal = iso.open(path)["mic"]
    for start in (-1, 2**63, 2**70, 1.5, True, "0"):
        with pytest.raises(iso.OptionError, match=re.escape(f"start={start!r} is refused")):
            iso.follow(signal, start=start)  # type: ignore[arg-type]
    with pytest.raises(iso.OptionError, match="silence=-1"):
        iso.follow(signal, silence=-1)
    with pytest.raises(iso.PlanError, match="store"):
        iso.follow(signal[0:0])  # type: ignore[arg-type]
    with pytest.raises(iso.PlanError, match="rate"):
        iso.scan(iso.follow(signal), rate=5)


def test_a_plan_over_a_followed_signal_is_saved_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    with writer(path, "mic", 0, 3, 100, 0) as process:
        process.wait()
    saved = iso.scan(iso.follow(iso.open(path)["mic"], start=100, silence=0.1)).count().to_json()
    assert json.loads(saved)["nodes"][0]
    assert iso.Plan.from_json(saved).collect() == 200
    other = tmp_path / "other.iso"
    shutil.move(path, other)
    assert iso.Plan.from_json(saved, store=iso.open(other)).collect() == 200
