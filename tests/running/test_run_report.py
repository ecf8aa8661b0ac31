"""The report of a run: the engine's share of the time, and latencies of bursts."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import isochrony as iso


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


def test_several_threads_have_no_single_latency() -> None:
    x = np.zeros(500_000)
    report = iso.scan(x, rate=100).rewindow(100).map(lambda s: s.mean()).run(workers=2, measure=False).report
    if report.workers or report.stages:
        assert report.latency is None
    assert iso.scan(x, rate=100).run(workers=1, measure=False).report.engine_share is None
