"""Writing signals: stamps, late samples, marks, attributes, events."""

import numpy as np
import pytest

import isochrony as iso
from made import START, pressure


def test_stamps_open_gaps(store: iso.Store) -> None:
    signal = store.create("x", dtype="f4", rate=2000, start=START)
    signal.append(np.zeros(2000, "f4"))
    appended = signal.append(np.ones(2000, "f4"), at="2010-03-01T00:00:07.000128Z")
    assert appended.placement == "gap"
    assert appended.index == pytest.approx(14_000, abs=1)
    gap = signal.append_gap(seconds=3)
    assert gap.length == pytest.approx(6000, abs=1)


def test_a_leap_second_that_the_source_flags_is_no_backward_step(store: iso.Store) -> None:
    for name, leap in (("told", True), ("untold", False)):
        signal = store.create(name, dtype="i2", rate=10, start="2016-12-31T23:59:00Z")
        signal.append(np.zeros(610, "i2"))  # up to 23:59:60, which POSIX calls 00:00:00 and then has once more
        appended = signal.append(np.ones(600, "i2"), at="2017-01-01T00:00:00Z", leap=leap)
        assert appended.placement == appended.new_run == ("leap_second" if leap else "backward_step")
        assert [run.reason for run in signal.runs()] == ["first", appended.new_run]
        assert signal.sample_count == 1210
        assert signal.time_of(610) == iso.Time("2017-01-01T00:00:00Z")
    with pytest.raises(iso.OptionError, match="leap"):
        signal.append([1], leap=True)


def test_only_lossless_conversions(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate=1)
    signal.append([1, 2, 3])
    signal.append(np.arange(3, dtype="u1"))
    signal.append(range(3))
    for bad in (np.zeros(3), np.zeros(3, "i4"), [1.5], [70_000]):
        with pytest.raises(TypeError, match=r"append\(samples, cast=True\)") as caught:
            signal.append(bad)
        assert caught.value.code == "dtype_mismatch"
        # It wraps what does not fit, and lists have none.
        assert "astype" not in str(caught.value)
    with pytest.raises(iso.StoreError, match="1-D"):
        signal.append(np.zeros((2, 2), "i2"))
    with pytest.raises(iso.StoreError, match="masked"):
        signal.append(np.ma.masked_equal(np.arange(3, dtype="i2"), 1))
    assert signal.sample_count == 9


def test_late_samples_fill_their_gap(store: iso.Store) -> None:
    signal = pressure(store)
    late = signal.backfill(np.full(100, -1, "f4"), iso.Time(START) + 11)
    assert (late.placement, late.index, late.samples) == ("filled", 1100, 100)
    assert [(g.start, g.length) for g in signal.gaps] == [(1000, 100), (1200, 300)]
    assert (np.asarray(signal[1100:1200]) == -1).all()


def test_marking_invalid_and_writing_in_place(store: iso.Store) -> None:
    signal = pressure(store)
    store.commit()
    before = np.asarray(signal[0:20])
    signal.mark_invalid(10, 20)
    assert [(g.start, g.length) for g in signal.gaps] == [(10, 10), (1000, 500)]
    signal.write(0, np.full(5, 9, "f4"))
    store.commit()
    np.testing.assert_array_equal(before[:5], np.arange(5))
    np.testing.assert_array_equal(np.asarray(signal[0:6]), [9, 9, 9, 9, 9, 5])


def test_scratch_signals_vanish(store: iso.Store) -> None:
    scratch = store.scratch(dtype="i2", rate=10, start=START)
    scratch.append([1, 2, 3])
    view = scratch.counts[0:3]
    scratch.write(1, [7])
    np.testing.assert_array_equal(scratch.counts[0:3], [1, 7, 3])
    np.testing.assert_array_equal(view, [1, 7, 3])
    assert len(store) == 0


def test_attributes_write_themselves_back(store: iso.Store) -> None:
    signal = pressure(store, attrs={"depth_m": 2})
    signal.attrs["sensor"] = {"model": "X", "gain": np.float32(2)}
    signal.attrs.update(installed=iso.Time(START), tags=np.arange(2))
    del signal.attrs["depth_m"]
    assert dict(signal.attrs) == {
        "sensor": {"model": "X", "gain": 2.0},
        "installed": "2010-03-01T00:00:00Z",
        "tags": [0, 1],
    }
    with pytest.raises(iso.StoreError, match="JSON"):
        signal.attrs["x"] = object()
    with pytest.raises(KeyError):
        signal.attrs["nothing"]


def test_events(store: iso.Store) -> None:
    signal = pressure(store)
    burst = signal.events.add("burst", 100, 200, by="me", size=3)
    later = signal.events.add("note", iso.Time(START) + 3)
    assert [event.id for event in signal.events] == [burst, later]
    event = signal.events[0]
    assert (event.kind, event.start, event.end, event.fields) == ("burst", 100, 200, {"by": "me", "size": 3})
    assert signal.events[-1].time == iso.Time(START) + 3
    assert [e.id for e in signal.events.find(slice(150, 160))] == [burst]
    assert [e.id for e in signal.events.find(kind="note")] == [later]
    signal.events.remove(burst)
    with pytest.raises(KeyError, match="event"):
        signal.events.remove(burst)
    assert len(signal.events) == 1


def test_calibrating_later_changes_no_sample(store: iso.Store) -> None:
    signal = pressure(store, dtype="i2")
    signal.calibrate("mbar", scale=2.0)
    assert signal.unit == "mbar"
    assert signal[3] == 6.0
    assert signal.counts[3] == 3
