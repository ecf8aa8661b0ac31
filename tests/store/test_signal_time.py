"""Indices and civil times of a signal, one at a time."""

from fractions import Fraction

import numpy as np
import pytest

import isochrony as iso
from made import START, pressure


def test_there_and_back(store: iso.Store) -> None:
    signal = pressure(store, rate="44100000/1001")
    for index in (0, 1, 999, 1200, 2499, -5, 10**9):
        time = signal.time_of(index)
        assert signal.index_of(time) == index
        exact = iso.Time(START) + Fraction(index * 1001, 44_100_000)
        assert abs(time - exact) <= Fraction(1, 2**32 * 10**9)
    assert signal.time_of(1200).in_gap
    assert not signal.time_of(900).in_gap
    assert signal.time_of(0).run == signal.runs()[0].id
    assert signal.time_of(0).uncertainty_ns is not None


def test_rounding(store: iso.Store) -> None:
    signal = pressure(store)
    between = iso.Time(START) + Fraction(16, 1000)
    assert signal.index_of(between) == 2
    assert signal.index_of(between, round="floor") == 1
    assert signal.index_of(between, round="ceil") == 2
    assert signal.index_of(signal.time_of(7), round="exact") == 7
    with pytest.raises(iso.TimeError, match="not on a sample"):
        signal.index_of(between, round="exact")
    with pytest.raises(iso.OptionError, match="nearest"):
        signal.index_of(between, round="up")


def test_a_time_in_a_gap_is_flagged_on_request(store: iso.Store) -> None:
    signal = pressure(store)
    start = iso.Time(START)
    signal.mark_invalid(100, 200)
    inside = {0: False, 99: False, 100: True, 150: True, 200: False, 999: False, 1000: True, 1250: True, 1500: False}
    for index, in_gap in inside.items():
        time = start + Fraction(index, 100)
        assert signal.index_of(time) == index
        assert signal.index_of(time, flagged=True) == (index, in_gap)
    for many in (
        np.array([(start + Fraction(index, 100)).to_datetime64() for index in inside]).reshape(3, 3),
        [start + Fraction(index, 100) for index in inside],
    ):
        indices, in_gap = signal.index_of(many, flagged=True)
        assert indices.dtype == np.int64
        assert in_gap.dtype == np.bool_
        assert indices.shape == in_gap.shape == np.shape(many)
        assert indices.ravel().tolist() == list(inside)
        assert in_gap.ravel().tolist() == list(inside.values())
    # Beyond the ends is extrapolated, no gap.
    assert signal.index_of(start - 1, flagged=True) == (-100, False)


def test_numbers_are_refused_as_times_and_times_as_indices(store: iso.Store) -> None:
    signal = pressure(store)
    with pytest.raises(iso.TimeError, match="ambiguous"):
        signal.index_of(12)
    with pytest.raises(TypeError, match="index"):
        signal.time_of("2010-03-01")
    with pytest.raises(TypeError, match="index"):
        signal.time_of(1.0)


def test_times_of_a_selection(store: iso.Store) -> None:
    signal = pressure(store)
    times = signal[990:1510].times()
    assert times.dtype == np.dtype("datetime64[ns]")
    assert times[0] == np.datetime64("2010-03-01T00:00:09.9")
    assert (np.diff(times) == np.timedelta64(10, "ms")).all()


def test_without_civil_time(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate=1)
    signal.append([1, 2, 3])
    assert signal.timebase is None
    assert signal.gaps.missing == 0
    with pytest.raises(iso.StoreError, match="no civil time") as caught:
        signal.time_of(0)
    assert caught.value.code == "no_civil_time"
    with pytest.raises(iso.StoreError):
        signal[iso.span("2010-01-01", None)]


def test_a_backward_step_is_ambiguous_unless_told(store: iso.Store) -> None:
    signal = pressure(store)
    appended = signal.append(np.zeros(500, "f4"), at=iso.Time(START) + 20)
    assert appended.placement == "backward_step"
    assert appended.new_run == "backward_step"
    again = iso.Time(START) + 21
    with pytest.raises(iso.TimeError, match="prefer"):
        signal.index_of(again)
    first, last = signal.index_of(again, prefer="first"), signal.index_of(again, prefer="last")
    assert (first, last) == (2100, 2600)
    assert signal.index_of(again, prefer=signal.runs()[1].id) == last
    assert signal.index_of(signal.time_of(last)) == last
    span = iso.span(iso.Time(START) + 20, iso.Time(START) + 25)
    assert signal.select(span, overlap="all").sample_count == 1000
    assert signal.select(span, overlap="first").sample_count == 500
    assert (np.asarray(signal.select(span, overlap="last")) == 0).all()
    with pytest.raises(iso.GapError, match="clock step"):
        np.asarray(signal[2400:2600])
