"""N-buffering: events of progress, and when they come."""

from __future__ import annotations

import os
import threading

import pytest

import isochrony as iso
from isochrony.nbuffering.progress import ProgressEvents


def test_rate_and_remaining_time() -> None:
    event = iso.StreamProgress(bytes=600, total=1000, elapsed_s=2.0)
    assert (event.rate, event.eta_s) == (300.0, pytest.approx(4 / 3))
    assert iso.StreamProgress(600, None, 2.0).eta_s is None
    assert iso.StreamProgress(0, 1000, 2.0).eta_s is None
    assert (iso.StreamProgress(0, 1000, 0.0).rate, iso.StreamProgress(1000, 1000, 3.0).eta_s) == (0.0, 0.0)
    # A file that grew meanwhile.
    assert iso.StreamProgress(1200, 1000, 3.0).eta_s == 0.0


def test_events_come_at_intervals_and_at_the_end() -> None:
    now = [100.0]
    seen: list[iso.StreamProgress] = []
    events = ProgressEvents(seen.append, 1.0, lambda: now[0])
    with events as take:
        assert take is not None
        # Native code looks 40 times a second.
        for tick in range(101):
            now[0] = 100.0 + tick / 40
            take(tick * 10, 0)
        assert [(event.bytes, event.elapsed_s) for event in seen] == [(0, 0.0), (400, 1.0), (800, 2.0)]
        events.end()
    assert (seen[-1].bytes, seen[-1].elapsed_s, seen[-1].total) == (1000, 2.5, None)
    assert len(seen) == 4
    events.end()
    assert len(seen) == 4


def test_no_event_is_given_twice() -> None:
    seen: list[iso.StreamProgress] = []
    events = ProgressEvents(seen.append, 0.0, lambda: 0.0)
    with events as take:
        assert take is not None
        take(5, 5)
        events.end()
    assert seen == [iso.StreamProgress(5, 5, 0.0)]


def test_a_slow_pipe_has_events_of_a_growing_count_and_an_unknown_total() -> None:
    source, into = os.pipe()
    seen: list[iso.StreamProgress] = []
    grown = threading.Event()

    def look(event: iso.StreamProgress) -> None:
        seen.append(event)
        if event.bytes >= 3000:
            grown.set()

    def produce() -> None:
        os.write(into, bytes(3000))
        grown.wait(60)
        os.write(into, bytes(2000))
        os.close(into)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        iso.nbuffer(source, None, stride=1, eager=True, progress=look, progress_every_s=0)
    finally:
        thread.join()
        os.close(source)
    counts = [event.bytes for event in seen]
    assert counts == sorted(counts) and {3000, 5000} <= set(counts)
    assert counts[-1] == 5000
    assert {event.total for event in seen} == {None}
    assert seen[-1].rate > 0
