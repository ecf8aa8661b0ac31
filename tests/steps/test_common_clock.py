"""Signals that were sampled by one clock: their plans meet index by index."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import isochrony as iso
from isochrony import OptionError, PlanError


@pytest.fixture
def store(tmp_path: Path) -> iso.Store:
    """Two channels of one converter, the second with a gap; others that are not."""
    store = iso.open(tmp_path / "array.iso", "x")
    for name, rate, start in [
        ("left", 48_000, "2026-01-01"),
        ("right", 48_000, "2026-01-01"),
        ("late", 48_000, "2026-01-01T00:00:00.000015"),
        ("slow", 44_100, "2026-01-01"),
    ]:
        store.create(name, dtype="i2", rate=rate, start=start, unit="Pa", scale=0.5)
        store[name].append(np.arange(1000, dtype="i2"))
    store.create("untimed", dtype="i2", rate=48_000).append(np.arange(1000, dtype="i2"))
    store["right"].append_gap(samples=1000)
    store["right"].append(np.arange(2000, 2500, dtype="i2"))
    store["left"].append(np.arange(1000, 3000, dtype="i2"))
    store.commit()
    return store


def test_what_both_have_meets_as_it_is_stored(store: iso.Store) -> None:
    left, right = iso.scan(store["left"]), iso.scan(store["right"], clock=store["left"])
    here, there = left.zip(right)
    both = np.r_[0:1000, 2000:2500].astype("i2")
    assert np.array_equal(here.collect(), there.collect())
    assert np.array_equal(there.collect(counts=True), both)


def test_ranges_of_one_cut_the_other(store: iso.Store) -> None:
    left = iso.scan(store["left"])
    right = iso.scan(store["right"], clock=store["left"])
    loud = left.rewindow(100).filter(lambda s: s.max() > 1000).ranges()
    here, there = left.sync(right, on=loud)
    # Of the left's samples from 2000 on the right has 500.
    assert np.array_equal(here.collect(counts=True), np.arange(2000, 3000))
    assert np.array_equal(there.collect(counts=True), np.arange(2000, 2500))


def test_times_are_those_of_the_clock(store: iso.Store) -> None:
    plan = iso.scan(store["right"], clock=store["left"]).rewindow(500)
    times = pa.table(plan.rows(peak=lambda s: s.max()).collect()).column("time").to_pylist()
    assert [time.microsecond for time in times] == [0, 10416, 41666]


def test_a_saved_plan_finds_the_clock_again(store: iso.Store) -> None:
    left, right = iso.scan(store["left"]), iso.scan(store["right"], clock=store["left"])
    plan = left.map(lambda a, b: a - b, right)
    again = iso.Plan.from_json(plan.to_json())
    assert again == plan
    assert not again.collect().any()


def test_without_times_the_caller_is_believed(store: iso.Store) -> None:
    plan = iso.scan(store["left"]).map(lambda a, b: a - b, iso.scan(store["untimed"], clock=store["left"]))
    assert len(plan.collect()) == 1000


def test_another_clock_is_refused(store: iso.Store) -> None:
    with pytest.raises(PlanError, match=r"late does not have the clock of left: sample 0 .*\+15000 ns.*align"):
        iso.scan(store["late"], clock=store["left"])
    with pytest.raises(PlanError, match=r"slow does not have the clock of left: its rate is 44100 Hz, not 48000 Hz"):
        iso.scan(store["slow"], clock=store["left"])
    with pytest.raises(PlanError, match=r"rate=1 and a clock of 48000\.0 Hz"):
        iso.scan(np.zeros(3), rate=1, clock=store["left"])
    with pytest.raises(PlanError, match=r"rate='44100' and a clock of 48000\.0 Hz"):
        iso.scan(np.zeros(3), rate="44100", clock=store["left"])
    with pytest.raises(PlanError, match=r"clock= only for a signal"):
        iso.scan(iso.follow(store["left"]), clock=store["left"])  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"zip|timebase"):
        iso.scan(store["left"]).zip(iso.scan(store["right"]))


@pytest.mark.parametrize("rate", ["48000", "96000/2", "48 kHz", 48_000, (96_000, 2), Fraction(48_000)])
def test_a_rate_beside_a_clock_is_written_as_any(store: iso.Store, rate: Any) -> None:
    here, there = iso.scan(np.zeros(3), rate=rate, clock=store["left"]).zip(iso.scan(store["left"]))
    assert len(here.collect()) == len(there.collect()) == 3
    with pytest.raises(iso.TimeError, match="rate"):
        iso.scan(np.zeros(3), rate="fast", clock=store["left"])


def test_a_clock_is_a_signal_and_no_selection(store: iso.Store) -> None:
    with pytest.raises(OptionError, match=r"clock=<Selection of left: .*>\) is refused; give the signal itself"):
        iso.scan(store["right"], clock=store["left"][:100])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"clock='left'\) is refused; give the signal itself"):
        iso.scan(store["right"], clock="left")  # type: ignore[arg-type]
