"""Reading signals: what went in comes out without a copy, gaps stay gaps, and errors say what to do."""

import gc
from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso
from made import START, pressure


def test_what_the_design_promises(store: iso.Store) -> None:
    signal = pressure(store)
    assert signal.dtype == np.float32
    assert (signal.unit, signal.rate, signal.rate.fraction) == ("kPa", 100.0, Fraction(100))
    assert (signal.sample_count, signal.start_index, signal.end_index) == (2000, 0, 2500)
    assert (signal.gaps[0].start, signal.gaps[0].length, len(signal.gaps)) == (1000, 500, 1)
    assert signal.gaps[0].duration == 5
    (run,) = signal.runs()
    assert (run.start, run.end, run.sample_count, run.reason) == (0, 2500, 2000, "first")


def test_one_buffer_reads_without_a_copy_and_read_only(store: iso.Store) -> None:
    signal = pressure(store)
    a, b = np.asarray(signal[100:200]), np.asarray(signal[100:200])
    np.testing.assert_array_equal(a, np.arange(100, 200, dtype="f4"))
    assert a.dtype == np.float32
    assert not a.flags.writeable
    assert np.shares_memory(a, b)


def test_a_view_outlives_segment_selection_signal_and_store(tmp_path: Path) -> None:
    store = iso.open(tmp_path / "x.iso", "x")
    signal = pressure(store)
    store.commit()
    view = np.asarray(signal[100:200])
    store.close()
    del store, signal
    gc.collect()
    np.testing.assert_array_equal(view, np.arange(100, 200))


def test_across_a_gap_an_error_names_it(store: iso.Store) -> None:
    signal = pressure(store)
    with pytest.raises(iso.GapError, match=r"500 samples at index 1000 .*2010-03-01T00:00:10Z") as caught:
        np.asarray(signal[900:1600])
    assert caught.value.code == "gap_in_selection"
    with pytest.raises(ValueError, match="gap"):
        signal.counts[900:1600]
    with pytest.raises(iso.GapError):
        signal[1100]


def test_segments_and_gaps_of_a_selection(store: iso.Store) -> None:
    signal = pressure(store)
    selection = signal[900:1600]
    assert [(s.start, s.end) for s in selection.segments] == [(900, 1000), (1500, 1600)]
    assert [(g.start, g.length) for g in selection.gaps] == [(1000, 500)]
    assert selection.sample_count == 200
    assert selection.segments[1].time == iso.Time(START) + 15
    np.testing.assert_array_equal(np.asarray(selection.segments[1]), np.arange(1000, 1100))
    np.testing.assert_array_equal(selection.mask(), np.r_[np.ones(100), np.zeros(500), np.ones(100)] > 0)
    np.testing.assert_array_equal(np.asarray(selection.gaps), [[1000, 500]])


def test_values_with_a_fill(store: iso.Store) -> None:
    signal = pressure(store)
    values = signal[900:1600].values()
    assert values.dtype == np.float64
    expected = np.r_[np.arange(900, 1000), np.full(500, np.nan), np.arange(1000, 1100)]
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(signal[900:1600].values(fill=-1), np.nan_to_num(expected, nan=-1))
    assert signal.values().shape == (2500,)


def test_calibrated_values_and_raw_counts(store: iso.Store) -> None:
    signal = pressure(store, dtype="i2", scale=0.5, offset=10)
    values = np.asarray(signal[10:20])
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, np.arange(10, 20) * 0.5 + 10)
    counts = signal.counts[10:20]
    assert counts.dtype == np.int16
    assert np.shares_memory(counts, signal.counts[10:20])
    assert signal[10] == 15.0
    assert signal.counts[10] == 10
    assert signal.counts[-1] == 1999


def test_by_civil_time(store: iso.Store) -> None:
    signal = pressure(store)
    for key in (
        iso.span("2010-03-01T00:00:01", "2010-03-01T00:00:02"),
        slice("2010-03-01T00:00:01", "2010-03-01T00:00:02"),
        slice(np.datetime64("2010-03-01T00:00:01"), iso.Time("2010-03-01T00:00:02")),
    ):
        np.testing.assert_array_equal(np.asarray(signal[key]), np.arange(100, 200))
    assert signal[iso.span(None, "2010-03-01T00:00:02")].sample_count == 200
    assert signal[iso.span("2010-03-01T00:00:24", None)].sample_count == 100
    assert signal[iso.span("2011-01-01", "2012-01-01")].sample_count == 0


def test_by_the_range_of_another_signal(store: iso.Store) -> None:
    signal = pressure(store)
    other = store.create("other", dtype="i2", rate=10, start="2010-03-01T00:00:02Z")
    other.append(np.arange(50, dtype="i2"))
    np.testing.assert_array_equal(np.asarray(signal[other[0:10]]), np.arange(200, 300))
    assert signal.contiguous(other[0:10])
    assert not signal.contiguous(other[0:100:1]) or other.end_index < 100


@pytest.mark.parametrize("key", [1.5, "2010", None, True, slice(0, 10, 2), slice(0, "2010-01-01"), slice(0.5, 2)])
def test_refuses_other_keys(store: iso.Store, key: object) -> None:
    signal = pressure(store)
    with pytest.raises((TypeError, ValueError)) as caught:
        signal[key]
    assert isinstance(caught.value, iso.IsochronyError)


def test_indices_outside(store: iso.Store) -> None:
    signal = pressure(store)
    with pytest.raises(IndexError, match=r"holds 0\.\.2500"):
        signal[2500]
    assert len(signal[2400:99999]) == 100
    assert len(signal[-100:]) == 100
    assert len(signal[3000:4000]) == 0


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_slices_agree_with_numpy(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 15)), min_size=1, max_size=6))
    model: list[float] = []
    with iso.open(tmp_path_factory.mktemp("s") / "x.iso", "x") as store:
        signal = store.create("x", dtype="i4", rate=10)
        for count, gap in lengths:
            signal.append(np.arange(len(model), len(model) + count, dtype="i4"))
            model += list(range(len(model), len(model) + count))
            if gap:
                signal.append_gap(samples=gap)
                model += [np.nan] * gap
        array = np.array(model)
        for _ in range(5):
            bounds = st.none() | st.integers(-len(model) - 5, len(model) + 5)
            key = slice(data.draw(bounds), data.draw(bounds))
            expected = array[key]
            np.testing.assert_array_equal(signal[key].values(), expected)
            assert signal[key].sample_count == np.isfinite(expected).sum()
            start, stop, _ = key.indices(len(model))
            if start < stop:
                assert signal.contiguous(start, stop) == (not np.isnan(expected).any())
