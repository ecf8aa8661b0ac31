"""Two listeners in one plan: equal and unequal rates, one that falls silent, one that returns, one that restarts."""

from __future__ import annotations

import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony import OptionError
from two_feeds import LATENESS, SLACK, START, Feeds, delays, made, rows


@pytest.mark.parametrize("rates", [(100, 100), (100, 240)])
@pytest.mark.parametrize("how", ["inner", "outer"])
def test_two_feeds_meet_as_what_they_were_sent_of(rates: tuple[int, int], how: str) -> None:
    feeds = Feeds(rates)
    feeds.send(0, 1.5)
    feeds.send(1, 1.2)
    a, b = (rows(iso.scan(listener)) for listener in feeds.listeners)
    got = a.join(b, how=how).select("min", "max", "min_right", "max_right").collect()
    feeds.join()
    wanted = rows(made(rates[0], 1.5)).join(rows(made(rates[1], 1.2)), how=how)
    wanted = wanted.select("min", "max", "min_right", "max_right").collect()
    for name in wanted.columns:
        np.testing.assert_array_equal(got[name], wanted[name])
    assert feeds.counts("lost_samples") == feeds.counts("late_samples") == (0, 0)


@pytest.mark.parametrize("rates", [(100, 100), (100, 240), (240, 100)])
def test_rows_come_out_while_the_other_feed_is_silent_and_when_it_returns(rates: tuple[int, int]) -> None:
    feeds = Feeds(rates)
    feeds.send(0, 3.5)
    feeds.send(1, 3.5, silent=(1.0, 2.5))
    a, b = (rows(iso.scan(listener)) for listener in feeds.listeners)
    matched: list[tuple[float, bool]] = []

    def end(row: dict[str, Any]) -> float:
        at = float(row["end"]) / rates[0]
        matched.append((at, not np.isnan(float(row["min_right"]))))
        return at

    came = delays(feeds, a.join(b, how="left"), end)
    assert len(came) == 35
    # Without a lateness those from 1.0 on would have come 1.5 s late.
    during = [delay for at, delay in came.items() if 1.2 < at < 2.2]
    assert len(during) >= 9 and max(during) < LATENESS + SLACK and np.median(during) < LATENESS + 0.3
    by_end = dict(matched)
    assert all(by_end[at] for at in by_end if at < 0.95 or at > 2.75)
    assert not any(by_end[at] for at in by_end if 1.15 < at < 2.45)
    assert feeds.counts("late_samples") == (0, 0)
    assert feeds.listeners[1].counts["samples"] == 2 * rates[1]


@pytest.mark.parametrize("how", ["merge", "align", "sync", "map"])
def test_each_way_of_meeting_goes_on_without_a_silent_feed(how: str) -> None:
    feeds = Feeds((100, 100), one_clock=how != "align")
    feeds.send(0, 3.0)
    feeds.send(1, 3.0, silent=(1.0, 2.5))
    first, second = (iso.scan(listener) for listener in feeds.listeners)
    if how == "merge":
        plan = rows(first).merge(rows(second))
    elif how == "align":
        # The reference goes on while the signal is silent: its values are left out, and rows of both go on.
        plan = rows(first).join(rows(second.align(first, method="linear")), how="left")
    elif how == "sync":
        ranges = first.rewindow(10).filter(lambda s: s.max() > 0).ranges()
        (around,) = second.sync(on=ranges)
        plan = rows(first).join(rows(around), how="left")
    else:
        both = first.map(lambda x, y: x + y, second)
        plan = rows(first).join(rows(both), how="left")
    came = delays(feeds, plan, lambda row: float(row["end"]) / 100)
    during = [delay for at, delay in came.items() if 1.2 < at < 2.2]
    assert len(came) == 30
    # Ranges are known only at the end, as they join.
    assert len(during) >= 9 and (how == "sync" or max(during) < LATENESS + SLACK), came


def test_what_a_feed_sends_too_late_is_counted_and_taken(tmp_path: Path) -> None:
    rate, each = 100, 5
    listener = iso.listen(
        "udp://127.0.0.1:0", dtype="<i2", rate=rate, framing=">u4", silence=0.9, lateness=0.2, keep_late=1 << 20
    )
    host, port = listener.address.removeprefix("udp://").split(":")
    to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def packet(number: int) -> None:
        samples = np.arange(number * each, (number + 1) * each, dtype="<i2")
        to.sendto(struct.pack(">I", number) + samples.tobytes(), (host, int(port)))

    def send() -> None:
        time.sleep(0.2)
        for number in range(10):
            packet(number)
            time.sleep(each / rate)
        # What was taken in a second comes at once.
        time.sleep(0.7)
        for number in range(10, 30):
            packet(number)

    thread = threading.Thread(target=send)
    thread.start()
    got = iso.scan(listener).collect()
    thread.join()
    counts, late = listener.counts, listener.take_late()
    values = np.concatenate([piece.samples for piece in late])
    assert counts["late_samples"] == counts["lost_samples"] == len(values) > 20
    assert sorted([*got.tolist(), *values.tolist()]) == list(range(150))
    # Index 0 is the first sample of the run, here also the sender's.
    assert all(piece.start == piece.samples[0] and piece.samples.dtype == np.dtype("<i2") for piece in late)
    seconds = np.array([piece.time for piece in late]) - late[0].time
    expected = np.array([piece.start - late[0].start for piece in late]) / rate
    np.testing.assert_allclose(seconds / np.timedelta64(1, "s"), expected, atol=0.05)


def test_a_device_that_counts_anew_is_a_new_run_and_not_late() -> None:
    rate, each = 100, 5
    listener = iso.listen("udp://127.0.0.1:0", dtype="<i2", rate=rate, framing=">u4", silence=2, lateness=0.2)
    host, port = listener.address.removeprefix("udp://").split(":")
    to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send() -> None:
        time.sleep(0.2)
        for _ in range(2):
            for number in range(30):
                samples = np.arange(number * each, (number + 1) * each, dtype="<i2")
                to.sendto(struct.pack(">I", number) + samples.tobytes(), (host, int(port)))
                time.sleep(each / rate)
            time.sleep(0.6)

    thread = threading.Thread(target=send)
    thread.start()
    got = iso.scan(listener).collect()
    thread.join()
    # Further back than a packet can be late.
    assert got.tolist() == [*range(150), *range(150)]
    assert listener.counts["late_samples"] == listener.counts["late_frames"] == 0
    assert listener.counts["clock_steps"] == 1


def test_a_followed_signal_that_is_not_written_holds_nothing_up(tmp_path: Path) -> None:
    path = tmp_path / "water.iso"
    writing = iso.open(path, "x")
    signals = [writing.create(name, dtype="i4", rate=100, start=START) for name in ("a", "b")]
    for signal in signals:
        signal.append(np.arange(100, dtype="i4"))
    writing.commit()
    reading = iso.open(path)
    one, other = (iso.follow(reading[name], silence=3, lateness=0.5) for name in ("a", "b"))
    plan = rows(iso.scan(one)).join(rows(iso.scan(other)), how="left")
    began, came = time.monotonic(), {}

    def take(table: Any, start: int) -> None:
        came.update({int(at): time.monotonic() - began for at in table["start"]})

    thread = threading.Thread(target=plan.each(take).run)
    thread.start()
    time.sleep(0.5)
    signals[0].append(np.arange(100, 200, dtype="i4"))
    writing.commit()
    time.sleep(2.0)
    # Behind its lateness the other's clock has come to about 200.
    assert 150 in came, came
    signals[1].append(np.arange(100, 1000, dtype="i4"))
    writing.commit()
    thread.join(30)
    writing.close()
    late = other.counts["backfilled_samples"]
    assert 50 < late < 900 and other.counts["samples"] == 1000 - late


def test_a_writer_that_paused_is_read_on_although_it_does_not_catch_up(tmp_path: Path) -> None:
    writing = iso.open(tmp_path / "water.iso", "x")
    signal = writing.create("mic", dtype="i4", rate=100, start=START)
    # Stored before the run, and many times as long as the lateness.
    signal.append(np.arange(1000, dtype="i4"))
    writing.commit()
    followed = iso.follow(iso.open(writing.path)["mic"], silence=2, lateness=0.5)
    values: list[int] = []

    def take(samples: Any, start: int) -> None:
        values.extend(samples.tolist())

    def write() -> None:
        for first in range(1000, 1400, 10):
            time.sleep(1.5 if first == 1050 else 0.1)
            signal.append(np.arange(first, first + 10, dtype="i4"))
            writing.commit()

    thread = threading.Thread(target=write)
    thread.start()
    iso.scan(followed).each(take).run()
    thread.join(30)
    writing.close()
    late = followed.counts["backfilled_samples"]
    # About a second of it was given up.
    assert 50 <= late < 250, late
    assert values == [*range(1050), *range(1050 + late, 1400)]


def test_illegal_latenesses_are_refused() -> None:
    def listen(**options: Any) -> Any:
        return iso.listen("udp://127.0.0.1:0", dtype="i2", rate=100, **options)

    with pytest.raises(OptionError, match=r"lateness=0.01 is refused; give at least reorder=0.05 seconds"):
        listen(lateness=0.01)
    with pytest.raises(OptionError, match=r'lateness=1 is refused; give none with framing="raw"'):
        listen(lateness=1, framing="raw")
    with pytest.raises(OptionError, match=r"lateness=-1 is refused; give a number of seconds, 0 or more"):
        listen(lateness=-1.0)
    with pytest.raises(OptionError, match="keep_late"):
        listen(keep_late=-1)
    assert listen(buffer="64kB", max_frame="1kB", keep_late="1kB").counts["samples"] == 0
    for name in ("lateness", "silence", "reorder", "step"):
        for value in (True, "0.5", float("nan")):
            remedy = rf"{name}={value!r} is refused; give a finite number of seconds"
            with pytest.raises(OptionError, match=remedy):
                listen(**{name: value})


def test_illegal_times_of_follow_are_refused(tmp_path: Path) -> None:
    with iso.open(tmp_path / "water.iso", "x") as store:
        signal = store.create("mic", dtype="i4", rate=100)
        for name in ("lateness", "silence"):
            for value in (True, "0.5", float("inf")):
                remedy = rf"{name}={value!r} is refused; give a finite number of seconds"
                with pytest.raises(OptionError, match=remedy):
                    iso.follow(signal, **{name: value})
            with pytest.raises(OptionError, match=rf"{name}=-1 is refused; give a number of seconds, 0 or more"):
                iso.follow(signal, **{name: -1})


def test_what_is_not_committed_is_not_followed(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        signal = store.create("a", dtype="i2", rate=100)
        signal.append(np.arange(100, dtype="i2"))
        store.commit()
        signal.append(np.arange(50, dtype="i2"))
        # What was appended since may be rolled back.
        assert iso.scan(iso.follow(signal, silence=0.1)).count().collect() == 100
        store.commit()
        assert iso.scan(iso.follow(signal, silence=0.1)).count().collect() == 150


def test_every_commit_of_a_busy_writer_in_another_thread_is_followed(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        signal = store.create("a", dtype="f4", rate=1000, start="2026-01-01")
        store.commit()

        def write() -> None:
            for at in range(0, 300_000, 1000):
                signal.append(np.arange(at, at + 1000, dtype="f4"))
                store.commit()

        writer = threading.Thread(target=write)
        writer.start()
        found = iso.scan(iso.follow(signal, silence=1)).collect()
        writer.join()
        np.testing.assert_array_equal(found, np.arange(300_000, dtype="f4"))


@pytest.mark.parametrize(
    ("value", "shown", "legal"),
    [(-1e-300, "-1e-300", "a number of seconds, 0 or more"), (1e300, r"1e\+300", r"at most 1.8e\+19 seconds")],
)
def test_refused_times_are_shown_in_a_few_digits(tmp_path: Path, value: float, shown: str, legal: str) -> None:
    """As they were given, not with three hundred zeros."""
    for name in ("reorder", "step", "silence", "lateness"):
        with pytest.raises(OptionError, match=rf"^{name}={shown} is refused; give {legal}$"):
            iso.listen("udp://127.0.0.1:0", dtype="i2", rate=100, **{name: value})
    with pytest.raises(OptionError, match=rf"^jitter={shown} is refused; give {legal}$"):
        iso.scan(np.zeros(4), rate=1).send("udp://127.0.0.1:9", jitter=value)
    with iso.open(tmp_path / "water.iso", "x") as store:
        signal = store.create("mic", dtype="i4", rate=100)
        for name in ("lateness", "silence"):
            with pytest.raises(OptionError, match=rf"^{name}={shown} is refused; give {legal}$"):
                iso.follow(signal, **{name: value})
