"""Events in a signal that the same run creates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso


@pytest.fixture
def store(tmp_path: Path) -> Iterator[iso.Store]:
    with iso.open(tmp_path / "s.iso", "x") as store:
        signal = store.create("p", dtype="f8", rate=100, start="2020-01-01T00:00:00Z")
        rng = np.random.default_rng(5)
        signal.append(rng.normal(size=3000))
        # Five seconds are missing.
        signal.append(rng.normal(size=2000), at="2020-01-01T00:00:35Z")
        store.commit()
        yield store


def loud_windows(values: np.ndarray[Any, Any], starts: list[int]) -> list[tuple[int, int]]:
    """Windows of 50 samples from these starts on, whose mean is above 0.2, one by one."""
    found = []
    for start, end in zip(starts, [3000, 5500], strict=True):
        for begin in range(start, end - 49, 50):
            if sum(values[begin : begin + 50]) / 50 > 0.2:
                found.append((begin, begin + 50))
    return found


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_events_go_to_the_copy_of_the_same_run(store: iso.Store, overwrite: bool, workers: int) -> None:
    signal = store["p"]
    if overwrite:
        # An older signal of that name, with an event that must not be there afterwards.
        old = store.create("copy", dtype="f8", rate=100, start="2020-01-01T00:00:00Z")
        old.append(np.zeros(700))
        store.commit()
        iso.scan(old).rewindow(700).annotate(old, "loud").run()
    copied = iso.scan(signal).sink(store, "copy", overwrite=overwrite)
    loud = copied.rewindow(50).filter(lambda s: s.mean() > 0.2)
    loud.annotate((store, "copy"), "loud", mean=lambda s: s.mean()).run(workers=workers)
    copy = store["copy"]
    expected = loud_windows(signal.values(), [0, 3500])
    assert len(expected) > 5
    assert [(event.start, event.end) for event in copy.events.find(kind="loud")] == expected
    for event in copy.events:
        assert event.fields["mean"] == pytest.approx(copy.values()[event.start : event.end].mean())
    assert signal.events.find(kind="loud") == []
    assert not store.has_pending


def test_a_signal_of_another_rate_gets_events_by_time(store: iso.Store) -> None:
    means = iso.scan(store["p"]).rewindow(50).map(lambda s: s.mean()).sink(store, "means")
    means.filter(lambda m: m.max() > 0.2).ranges().annotate((store, "means"), "loud").run()
    values = store["p"].values()
    expected = {begin // 50 for begin, _ in loud_windows(values, [0, 3500])}
    found = {index for event in store["means"].events for index in range(event.start, event.end)}
    # An end on a boundary takes in the next sample: it is found to the nearest.
    assert expected <= found and len(found) <= 2 * len(expected)


def test_a_run_that_commits_before_its_end_keeps_what_came_before(store: iso.Store) -> None:
    def slow(_values: object, start: int) -> None:
        # The sinks commit once a second.
        if start == 0:
            time.sleep(1.2)
        if start >= 4000:
            raise LookupError("enough")

    copied = iso.scan(store["p"], 100).sink(store, "copy")
    plan = copied.rewindow(50).annotate((store, "copy"), "window").each(slow)
    with pytest.raises(iso.RunError, match="enough"):
        plan.run(workers=1)
    events = store["copy"].events.find(kind="window")
    assert events
    assert events[-1].end <= len(store["copy"])


def test_what_no_sink_creates_is_an_error_that_says_so(store: iso.Store) -> None:
    windows = iso.scan(store["p"]).rewindow(50)
    with pytest.raises(iso.RunError, match=r'no sink before annotate has created "none"; put annotate behind sink'):
        windows.annotate((store, "none"), "x").run()
    for wrong in ((store,), (store, 3), ("p", "p"), (store, "p", "q")):
        with pytest.raises(iso.OptionError, match="give a signal, or a pair of a store and a name"):
            windows.annotate(wrong, "x")  # type: ignore[arg-type]


def test_a_saved_plan_knows_that_the_run_creates_the_signal(store: iso.Store) -> None:
    plan = iso.scan(store["p"]).sink(store, "copy").rewindow(50).annotate((store, "copy"), "window")
    again = iso.Plan.from_json(plan.to_json(), store=store)
    assert again == plan
    again.run()
    assert len(store["copy"].events.find(kind="window")) == 100
