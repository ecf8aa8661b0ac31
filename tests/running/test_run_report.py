"""The report of a run: the engine's share of the time and latencies, in one thread, in tasks and in stages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import isochrony as iso

Values = np.ndarray[Any, Any]
X = np.random.default_rng(3).normal(0, 100, 4_000_000).astype("f4")


def filtered(plan: iso.Plan) -> iso.Plan:
    """Filters that remember what came before: with several workers a stage each."""
    return plan.lowpass(50).highpass(5)


def test_latencies_are_those_of_a_known_delay() -> None:
    def slow(_values: object, start: int) -> None:
        if start % 10_000 == 0:
            time.sleep(0.02)

    source = ((at, np.zeros(1000)) for at in range(0, 40_000, 1000))
    report = iso.generate(source, dtype="f8", rate=100).each(slow).run(workers=1).report
    assert report.latency is not None
    assert 1 <= report.latency.items <= report.bursts
    # Four sleeps of 20 ms, in as many bursts or fewer.
    assert 0.02 <= report.latency.most < report.elapsed_s
    assert report.latency.median <= report.latency.p99 <= report.latency.most
    assert "latency: " in str(report)


def test_the_engines_share_is_what_operators_and_sources_leave_of_the_time() -> None:
    x = np.zeros(2_000_000)

    def share(segment: int) -> float:
        report = iso.scan(x, segment, rate=100).map(lambda s: s * 2).run(workers=1).report
        assert report.engine_share is not None
        return report.engine_share

    shares = [sorted(share(segment) for _ in range(5))[2] for segment in (10, 500_000)]
    assert all(0 <= one <= 1 for one in shares)
    report = iso.scan(x, rate=100).map(lambda s: s * 2).run(workers=1).report
    useful = sum(operator.useful_s for operator in report.operators)
    assert report.engine_share == pytest.approx(max(1 - useful / report.elapsed_s, 0), abs=0.02)
    assert f"engine: {100 * report.engine_share:.1f}% of the time worked" in str(report)


def test_waiting_for_a_feed_is_not_the_engines_time() -> None:
    listener = iso.listen("udp://127.0.0.1:0", dtype="f4", rate=1000, silence=10)
    # A second and a half of sound in real time, which takes no time to process.
    sound = iso.scan(np.zeros(1500, "f4"), rate=1000, segment=100)
    sending = threading.Thread(target=sound.send(listener.address, speed=1, frame=100).run)
    sending.start()
    report = iso.scan(listener, segment=100).rewindow(100).run(workers=1).report
    sending.join()
    assert report.elapsed_s > 1
    assert report.engine_share is not None
    useful = sum(operator.useful_s for operator in report.operators)
    # Of the share one can tell the time that is counted as worked.
    worked = useful / (1 - report.engine_share)
    assert worked < 0.7 * report.elapsed_s
    assert report.latency is not None and report.latency.median < 0.1


def test_in_tasks_all_threads_count_while_they_work() -> None:
    report = iso.scan(X, rate=1000).rewindow(512).power().map(lambda s: s.max()).run(workers=2).report
    assert len(report.workers) == 2 and len(report.tasks) > 2 and not report.stages
    share = report.engine_share
    assert share is not None and 0 <= share < 0.9
    useful = sum(operator.useful_s for operator in report.operators)
    busy = sum(worker.busy_s for worker in report.workers)
    # The calling thread waits for results most of the time.
    assert max(0, 1 - useful / busy) <= share <= max(0, 1 - useful / (busy + 0.5 * report.elapsed_s))
    assert f"engine: {100 * share:.1f}% of the time worked" in str(report)


def test_in_stages_the_time_of_all_stages_counts() -> None:
    report = filtered(iso.scan(X, rate=1000)).rewindow(512).power().run(workers=2).report
    assert len(report.stages) > 2
    useful = sum(operator.useful_s for operator in report.operators)
    busy = sum(stage.busy_s for stage in report.stages)
    assert report.engine_share == pytest.approx(max(0, 1 - useful / busy), abs=1e-6)


def test_a_latency_of_tasks_begins_with_the_task() -> None:
    def slow(windows: Values) -> Values:
        time.sleep(0.05)
        return windows.max(axis=1)

    windows = iso.scan(X, rate=1000).rewindow(1000)
    function = iso.py(slow, dtype="f4", width=1, on_workers="threads")
    report = windows.map(function).run(workers=2).report
    assert len(report.tasks) > 2
    latency = report.latency
    assert latency is not None
    assert 1 <= latency.items <= report.bursts
    # Tasks begin a little before the calling thread does.
    assert 0.05 <= latency.median <= latency.p99 <= latency.most < report.elapsed_s + 0.1
    assert "latency: " in str(report)


def test_a_latency_of_tasks_ends_in_the_calling_thread() -> None:
    rows = iso.scan(X, rate=1000).rewindow(1000).stats("max")
    report = rows.each(lambda _rows, _start: time.sleep(0.05)).run(workers=2).report
    assert len(report.tasks) > 2
    assert report.latency is not None
    assert 0.05 <= report.latency.median <= report.latency.most < report.elapsed_s + 0.1


def test_a_latency_of_stages_begins_at_the_source_and_ends_in_the_last_stage() -> None:
    def made() -> Iterator[Values]:
        for block in X[:20_000].reshape(20, 1000):
            time.sleep(0.05)
            yield block

    # The source is slow, what follows is not.
    at_source = filtered(iso.generate(made, dtype="f4", rate=1000)).rewindow(500).power()
    # The sink is slow, what comes before is not.
    at_sink = filtered(iso.scan(X[:20_000], rate=1000)).each(lambda _samples, _start: time.sleep(0.05))
    for plan in (at_source, at_sink):
        report = plan.run(workers=2).report
        assert len(report.stages) > 1
        assert report.latency is not None and report.latency.items > 0
        assert 0.05 <= report.latency.median <= report.latency.most < report.elapsed_s


def sound_to(listener: iso.Listener) -> threading.Thread:
    """Sends two seconds in real time, in packets of 5 ms or longer."""
    sending = threading.Thread(target=iso.scan(X[:2000], rate=1000, segment=100).send(listener.address, speed=1).run)
    sending.start()
    return sending


@pytest.mark.parametrize("workers", [1, 2])
def test_a_latency_of_a_live_feed_includes_the_wait_for_a_busy_plan(workers: int) -> None:
    listener = iso.listen("udp://127.0.0.1:0", dtype="f4", rate=1000, silence=10)
    sending = sound_to(listener)
    # Samples that arrive while it sleeps wait in the listener, or in links.
    windows = filtered(iso.scan(listener, segment=100)).rewindow(100)
    report = windows.each(lambda _windows, _start: time.sleep(0.09)).run(workers=workers).report
    sending.join()
    assert (len(report.stages) > 1) == (workers == 2)
    assert report.latency is not None and report.latency.items >= 10
    delivered = report.latency.p99 if workers == 1 else report.latency.median
    assert 0.09 <= delivered <= report.latency.most < 1, report.latency


@pytest.mark.parametrize("workers", [1, 2])
def test_a_latency_of_a_live_feed_ends_when_rows_that_were_held_back_are_delivered(workers: int) -> None:
    listener = iso.listen("udp://127.0.0.1:0", dtype="f4", rate=1000, silence=10)
    sending = sound_to(listener)
    # Rows are collected until the feed has nothing for a moment.
    rows = filtered(iso.scan(listener, segment=100)).rewindow(100).stats("max")
    report = rows.each(lambda _rows, _start: time.sleep(0.05)).run(workers=workers).report
    sending.join()
    assert (len(report.stages) > 1) == (workers == 2)
    assert report.latency is not None and report.latency.items >= 10
    # In one thread most bursts complete no window; in stages these do not reach the last one.
    delivered = report.latency.p99 if workers == 1 else report.latency.median
    assert 0.05 <= delivered <= report.latency.most < 1, report.latency


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_is_measured_on_request(workers: int) -> None:
    source = iso.scan(X[:500_000], rate=1000)
    for plan in (source.rewindow(100).map(lambda s: s.mean()), filtered(source).rewindow(100)):
        report = plan.run(workers=workers, measure=False).report
        assert bool(report.workers or report.stages) == (workers == 2)
        assert report.engine_share is None and report.latency is None
        assert "engine: " not in str(report) and "latency: " not in str(report)
