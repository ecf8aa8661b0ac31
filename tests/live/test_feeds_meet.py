"""Several feeds, and made samples, in one plan: they meet by civil time, and by index where a clock is stated."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import isochrony as iso
from isochrony import OptionError, PlanError

RATE = 1000


def sender(address: str, start: str, samples: np.ndarray) -> threading.Thread:
    """Sends samples that were taken from a time on."""
    made = iso.generate([samples], dtype=samples.dtype, rate=RATE, start=start)
    thread = threading.Thread(target=made.send(address).run)
    thread.start()
    return thread


def test_two_feeds_meet_by_time() -> None:
    # The second begins 300 samples later, so its sample k is the first's k + 300.
    first, second = (iso.listen("tcp://127.0.0.1:0", dtype="i4", rate=RATE, silence=20) for _ in range(2))
    count = np.arange(2000, dtype="i4")
    threads = [sender(first.address, "2026-01-01", count), sender(second.address, "2026-01-01T00:00:00.3", count)]
    with pytest.raises(PlanError):
        iso.scan(first).zip(iso.scan(second))
    one = iso.scan(first)
    difference = one.map(lambda a, b: a - b, iso.scan(second).align(one, method="linear")).collect()
    for thread in threads:
        thread.join()
    assert len(difference) == 1700
    assert np.allclose(difference, 300, atol=1e-6)


def test_two_feeds_of_a_stated_clock_meet_by_index() -> None:
    first = iso.listen("tcp://127.0.0.1:0", dtype="i4", rate=RATE, silence=20)
    second = iso.listen("tcp://127.0.0.1:0", dtype="i4", rate=RATE, silence=20, clock=first)
    count = np.arange(2000, dtype="i4")
    threads = [sender(first.address, "2026-01-01", count), sender(second.address, "2026-01-01T00:00:00.3", count * 2)]
    got = iso.scan(first).map(lambda a, b: b - a, iso.scan(second)).collect()
    for thread in threads:
        thread.join()
    assert np.array_equal(got, count)


def test_a_clock_that_cannot_be_shared_is_refused() -> None:
    listener = iso.listen("udp://127.0.0.1:0", dtype="i4", rate=RATE)
    with pytest.raises(OptionError, match=r"clock=.* give a feed of 5 Hz"):
        iso.listen("udp://127.0.0.1:0", dtype="i4", rate=5, clock=listener)
    with pytest.raises(OptionError, match=r"clock='udp' is refused; give what listen\(\) returned"):
        iso.listen("udp://127.0.0.1:0", dtype="i4", rate=5, clock="udp")  # type: ignore[arg-type]


def made(start: str | None) -> iso.Plan:
    """Samples that count from 0."""

    def parts() -> Iterator[np.ndarray]:
        yield np.arange(1000, dtype="i4")

    return iso.generate(parts, dtype="i4", rate=RATE, start=start)


def test_made_samples_meet_by_time_where_they_state_one() -> None:
    with pytest.raises(PlanError):
        made("2026-01-01").zip(made("2026-01-01T00:00:00.3"))
    one = made("2026-01-01")
    late = made("2026-01-01T00:00:00.3").align(one, method="linear")
    difference = one.map(lambda a, b: a - b, late).collect()
    assert len(difference) == 700 and np.allclose(difference, 300, atol=1e-6)
    # The same start and rate are the same times.
    here, there = made("2026-01-01").zip(made("2026-01-01"))
    assert np.array_equal(here.collect(), there.collect())
    # Without times there is only the index.
    assert len(made(None).zip(made(None))[0].collect()) == 1000
