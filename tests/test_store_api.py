"""The store from Python: what goes in comes out, gaps stay gaps, and errors say what to do."""

import copy
import gc
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso

START = "2010-03-01T00:00:00Z"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[iso.Store]:
    with iso.open(tmp_path / "water.iso", "x") as store:
        yield store


def pressure(store: iso.Store, name: str = "stn_10/pressure", **options: object) -> iso.Signal:
    """Samples 0..999, a gap of 500, samples 1000..1999, at 100 Hz."""
    given_options = {"dtype": "f4", "rate": 100, "unit": "kPa", "start": START, **options}
    signal = store.create(name, **given_options)
    signal.append(np.arange(1000, dtype=given_options["dtype"]))
    signal.append_gap(samples=500)
    signal.append(np.arange(1000, 2000).astype(given_options["dtype"]))
    return signal


class TestReading:
    def test_what_the_design_promises(self, store: iso.Store) -> None:
        signal = pressure(store)
        assert signal.dtype == np.float32
        assert (signal.unit, signal.rate, signal.rate.fraction) == ("kPa", 100.0, Fraction(100))
        assert (signal.sample_count, signal.start_index, signal.end_index) == (2000, 0, 2500)
        assert (signal.gaps[0].start, signal.gaps[0].length, len(signal.gaps)) == (1000, 500, 1)
        assert signal.gaps[0].duration == 5
        (run,) = signal.runs()
        assert (run.start, run.end, run.sample_count, run.reason) == (0, 2500, 2000, "first")

    def test_one_buffer_reads_without_a_copy_and_read_only(self, store: iso.Store) -> None:
        signal = pressure(store)
        a, b = np.asarray(signal[100:200]), np.asarray(signal[100:200])
        np.testing.assert_array_equal(a, np.arange(100, 200, dtype="f4"))
        assert a.dtype == np.float32
        assert not a.flags.writeable
        assert np.shares_memory(a, b)

    def test_a_view_outlives_segment_selection_signal_and_store(self, tmp_path: Path) -> None:
        store = iso.open(tmp_path / "x.iso", "x")
        signal = pressure(store)
        store.commit()
        view = np.asarray(signal[100:200])
        store.close()
        del store, signal
        gc.collect()
        np.testing.assert_array_equal(view, np.arange(100, 200))

    def test_across_a_gap_an_error_names_it(self, store: iso.Store) -> None:
        signal = pressure(store)
        with pytest.raises(iso.GapError, match=r"500 samples at index 1000 .*2010-03-01T00:00:10Z") as caught:
            np.asarray(signal[900:1600])
        assert caught.value.code == "gap_in_selection"
        with pytest.raises(ValueError, match="gap"):
            signal.counts[900:1600]
        with pytest.raises(iso.GapError):
            signal[1100]

    def test_segments_and_gaps_of_a_selection(self, store: iso.Store) -> None:
        signal = pressure(store)
        selection = signal[900:1600]
        assert [(s.start, s.end) for s in selection.segments] == [(900, 1000), (1500, 1600)]
        assert [(g.start, g.length) for g in selection.gaps] == [(1000, 500)]
        assert selection.sample_count == 200
        assert selection.segments[1].time == iso.Time(START) + 15
        np.testing.assert_array_equal(np.asarray(selection.segments[1]), np.arange(1000, 1100))
        np.testing.assert_array_equal(selection.mask(), np.r_[np.ones(100), np.zeros(500), np.ones(100)] > 0)
        np.testing.assert_array_equal(np.asarray(selection.gaps), [[1000, 500]])

    def test_values_with_a_fill(self, store: iso.Store) -> None:
        signal = pressure(store)
        values = signal[900:1600].values()
        assert values.dtype == np.float64
        expected = np.r_[np.arange(900, 1000), np.full(500, np.nan), np.arange(1000, 1100)]
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(signal[900:1600].values(fill=-1), np.nan_to_num(expected, nan=-1))
        assert signal.values().shape == (2500,)

    def test_calibrated_values_and_raw_counts(self, store: iso.Store) -> None:
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

    def test_by_civil_time(self, store: iso.Store) -> None:
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

    def test_by_the_range_of_another_signal(self, store: iso.Store) -> None:
        signal = pressure(store)
        other = store.create("other", dtype="i2", rate=10, start="2010-03-01T00:00:02Z")
        other.append(np.arange(50, dtype="i2"))
        np.testing.assert_array_equal(np.asarray(signal[other[0:10]]), np.arange(200, 300))
        assert signal.contiguous(other[0:10])
        assert not signal.contiguous(other[0:100:1]) or other.end_index < 100

    @pytest.mark.parametrize("key", [1.5, "2010", None, True, slice(0, 10, 2), slice(0, "2010-01-01"), slice(0.5, 2)])
    def test_refuses_other_keys(self, store: iso.Store, key: object) -> None:
        signal = pressure(store)
        with pytest.raises((TypeError, ValueError)) as caught:
            signal[key]
        assert isinstance(caught.value, iso.IsochronyError)

    def test_indices_outside(self, store: iso.Store) -> None:
        signal = pressure(store)
        with pytest.raises(IndexError, match=r"holds 0\.\.2500"):
            signal[2500]
        assert len(signal[2400:99999]) == 100
        assert len(signal[-100:]) == 100
        assert len(signal[3000:4000]) == 0

    @given(st.data())
    @settings(max_examples=150, deadline=None)
    def test_slices_agree_with_numpy(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
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


class TestTime:
    def test_there_and_back(self, store: iso.Store) -> None:
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

    def test_rounding(self, store: iso.Store) -> None:
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

    def test_numbers_are_refused_as_times_and_times_as_indices(self, store: iso.Store) -> None:
        signal = pressure(store)
        with pytest.raises(iso.TimeError, match="ambiguous"):
            signal.index_of(12)
        with pytest.raises(TypeError, match="index"):
            signal.time_of("2010-03-01")
        with pytest.raises(TypeError, match="index"):
            signal.time_of(1.0)

    def test_times_of_a_selection(self, store: iso.Store) -> None:
        signal = pressure(store)
        times = signal[990:1510].times()
        assert times.dtype == np.dtype("datetime64[ns]")
        assert times[0] == np.datetime64("2010-03-01T00:00:09.9")
        assert (np.diff(times) == np.timedelta64(10, "ms")).all()

    def test_without_civil_time(self, store: iso.Store) -> None:
        signal = store.create("x", dtype="i2", rate=1)
        signal.append([1, 2, 3])
        assert signal.timebase is None
        assert signal.gaps.missing == 0
        with pytest.raises(iso.StoreError, match="no civil time") as caught:
            signal.time_of(0)
        assert caught.value.code == "no_civil_time"
        with pytest.raises(iso.StoreError):
            signal[iso.span("2010-01-01", None)]

    def test_a_backward_step_is_ambiguous_unless_told(self, store: iso.Store) -> None:
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


class TestWriting:
    def test_stamps_open_gaps(self, store: iso.Store) -> None:
        signal = store.create("x", dtype="f4", rate=2000, start=START)
        signal.append(np.zeros(2000, "f4"))
        appended = signal.append(np.ones(2000, "f4"), at="2010-03-01T00:00:07.000128Z")
        assert appended.placement == "gap"
        assert appended.index == pytest.approx(14_000, abs=1)
        gap = signal.append_gap(seconds=3)
        assert gap.length == pytest.approx(6000, abs=1)

    def test_only_lossless_conversions(self, store: iso.Store) -> None:
        signal = store.create("x", dtype="i2", rate=1)
        signal.append([1, 2, 3])
        signal.append(np.arange(3, dtype="u1"))
        signal.append(range(3))
        for bad in (np.zeros(3), np.zeros(3, "i4"), [1.5], [70_000]):
            with pytest.raises(TypeError, match="astype") as caught:
                signal.append(bad)
            assert caught.value.code == "dtype_mismatch"
        with pytest.raises(iso.StoreError, match="1-D"):
            signal.append(np.zeros((2, 2), "i2"))
        with pytest.raises(iso.StoreError, match="masked"):
            signal.append(np.ma.masked_equal(np.arange(3, dtype="i2"), 1))
        assert signal.sample_count == 9

    def test_late_samples_fill_their_gap(self, store: iso.Store) -> None:
        signal = pressure(store)
        late = signal.backfill(np.full(100, -1, "f4"), iso.Time(START) + 11)
        assert (late.placement, late.index, late.samples) == ("filled", 1100, 100)
        assert [(g.start, g.length) for g in signal.gaps] == [(1000, 100), (1200, 300)]
        assert (np.asarray(signal[1100:1200]) == -1).all()

    def test_marking_invalid_and_writing_in_place(self, store: iso.Store) -> None:
        signal = pressure(store)
        store.commit()
        before = np.asarray(signal[0:20])
        signal.mark_invalid(10, 20)
        assert [(g.start, g.length) for g in signal.gaps] == [(10, 10), (1000, 500)]
        signal.write(0, np.full(5, 9, "f4"))
        store.commit()
        np.testing.assert_array_equal(before[:5], np.arange(5))
        np.testing.assert_array_equal(np.asarray(signal[0:6]), [9, 9, 9, 9, 9, 5])

    def test_scratch_signals_vanish(self, store: iso.Store) -> None:
        scratch = store.scratch(dtype="i2", rate=10, start=START)
        scratch.append([1, 2, 3])
        view = scratch.counts[0:3]
        scratch.write(1, [7])
        np.testing.assert_array_equal(scratch.counts[0:3], [1, 7, 3])
        np.testing.assert_array_equal(view, [1, 7, 3])
        assert len(store) == 0

    def test_attributes_write_themselves_back(self, store: iso.Store) -> None:
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

    def test_events(self, store: iso.Store) -> None:
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

    def test_calibrating_later_changes_no_sample(self, store: iso.Store) -> None:
        signal = pressure(store, dtype="i2")
        signal.calibrate("mbar", scale=2.0)
        assert signal.unit == "mbar"
        assert signal[3] == 6.0
        assert signal.counts[3] == 3


class TestStore:
    def test_mapping(self, store: iso.Store) -> None:
        for name in ("b/y", "a/x", "b/x"):
            pressure(store, name)
        assert list(store) == store.keys() == ["a/x", "b/x", "b/y"]
        assert [signal.name for signal in store.find("b/*")] == ["b/x", "b/y"]
        assert [name for name, _ in store.items()] == [s.name for s in store.values()]
        assert "a/x" in store
        assert 5 not in store
        assert store.get("nothing") is None
        assert store.get("a/x") == store["a/x"]
        assert len(store) == 3

    def test_rename_and_delete(self, store: iso.Store) -> None:
        signal = pressure(store, "a")
        store.commit()
        store.rename("a", "c/d")
        store.commit()
        assert signal.name == "c/d"
        np.testing.assert_array_equal(np.asarray(signal[0:3]), [0, 1, 2])
        del store["c/d"]
        store.commit()
        assert len(store) == 0
        with pytest.raises(KeyError, match="removed"):
            signal.sample_count  # noqa: B018

    def test_names(self, store: iso.Store) -> None:
        pressure(store, "stn_10/pressure")
        with pytest.raises(KeyError, match='did you mean "stn_10/pressure"') as caught:
            store["stn_10/presure"]
        assert caught.value.code == "no_such_signal"
        assert not str(caught.value).startswith(("'", '"'))
        with pytest.raises(FileExistsError):
            pressure(store, "stn_10/pressure")
        for bad in ("../up", "/abs", "a//b", "data", "stn_10/pressure/deeper", "stn_10"):
            with pytest.raises(ValueError, match=r"signal|name"):
                pressure(store, bad)
        replaced = store.create("stn_10/pressure", dtype="i2", rate=1, overwrite=True)
        assert replaced.sample_count == 0

    def test_opening(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError) as caught:
            iso.open(tmp_path / "nothing.iso")
        assert isinstance(caught.value, iso.StoreError)
        assert caught.value.code == "not_a_store"
        iso.open(tmp_path / "a.iso", "a").close()
        with pytest.raises(FileExistsError):
            iso.open(tmp_path / "a.iso", "x")
        with pytest.raises(iso.OptionError, match="mode"):
            iso.open(tmp_path / "a.iso", "w")

    def test_a_second_writer_is_told_who_writes(self, tmp_path: Path) -> None:
        with iso.open(tmp_path / "a.iso", "x"):
            with pytest.raises(iso.StoreError) as caught:
                iso.open(tmp_path / "a.iso", "r+")
            message = str(caught.value)
            # Who to ask, or to end: the process and its command.
            assert re.search(rf"\b{os.getpid()}\b", message)
            assert Path(sys.argv[0]).name in message or Path(sys.executable).name in message
            assert "\n" not in message
        iso.open(tmp_path / "a.iso", "r+").close()

    def test_reading_refuses_writing(self, store: iso.Store) -> None:
        pressure(store)
        store.commit()
        reader = iso.open(store.path)
        with pytest.raises(PermissionError, match=r"mode .r\+."):
            reader["stn_10/pressure"].append([1.0])
        with pytest.raises(PermissionError):
            reader.create("x", dtype="i2", rate=1)
        with pytest.raises(PermissionError):
            reader["stn_10/pressure"].attrs["a"] = 1

    def test_one_writer(self, store: iso.Store) -> None:
        program = f"import isochrony as iso; iso.open({str(store.path)!r}, 'r+')"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.returncode == 1
        assert "StoreLockedError" in done.stderr

    def test_readers_follow(self, store: iso.Store) -> None:
        signal = store.create("x", dtype="i2", rate=10, start=START)
        store.commit()
        reader = iso.open(store.path)
        seen = reader["x"]
        signal.append(np.arange(100, dtype="i2"))
        assert seen.sample_count == 0
        assert not reader.refresh()
        store.commit(publish=False)
        assert seen.sample_count == 0
        assert reader.refresh()
        assert seen.sample_count == 100
        np.testing.assert_array_equal(seen.counts[:], np.arange(100))
        store.create("y", dtype="i2", rate=10)
        store.commit()
        assert seen.refresh()
        assert list(reader) == ["x", "y"]

    def test_leaving_commits_and_an_exception_does_not(self, tmp_path: Path) -> None:
        with iso.open(tmp_path / "a.iso", "x") as store:
            pressure(store, "kept")
        assert store.closed
        with pytest.raises(RuntimeError, match="mine"), iso.open(tmp_path / "a.iso", "a") as store:
            pressure(store, "lost")
            raise RuntimeError("mine")
        assert list(iso.open(tmp_path / "a.iso")) == ["kept"]
        store = iso.open(tmp_path / "a.iso", "a")
        pressure(store, "dropped")
        assert store.has_pending
        store.close(commit=False)
        store.close()
        assert list(iso.open(tmp_path / "a.iso")) == ["kept"]
        with pytest.raises(iso.StoreError, match="closed"):
            store["kept"]

    def test_signals_pickle_as_path_name_and_commit(self, store: iso.Store) -> None:
        signal = pressure(store)
        store.commit()
        sent = pickle.dumps(signal)
        assert len(sent) < 1000
        back = pickle.loads(sent)
        np.testing.assert_array_equal(np.asarray(back[0:10]), np.arange(10))
        assert back.sample_count == signal.sample_count
        assert copy.copy(signal).name == signal.name
        signal.append([1.0])
        store.commit()
        assert pickle.loads(sent).sample_count == 2001

    def test_a_pickle_of_a_newer_commit_is_refused_clearly(self, store: iso.Store) -> None:
        signal = pressure(store)
        store.commit()
        _, (path, name, sequence) = signal.__reduce__()
        from isochrony._native import _reopen

        with pytest.raises(iso.StoreError, match=f"pickled at commit {sequence + 1}") as caught:
            _reopen(path, name, sequence + 1)
        assert caught.value.code == "older_commit"
        with pytest.raises(TypeError, match="signals"):
            pickle.dumps(store)

    def test_reprs(self, store: iso.Store) -> None:
        signal = pressure(store)
        signal.events.add("note", 5)
        for thing in (
            store, signal, signal[0:1500], signal.gaps, signal.gaps[0], signal.runs()[0], signal.events,
            signal.events[0], signal.timebase, signal[0:5].segments[0], signal.counts, signal.view(pixels=10),
        ):  # fmt: skip
            assert repr(thing).startswith("<")
        assert "stn_10/pressure" in store._repr_html_()
        assert "kPa" in signal._repr_html_()


class TestManyGaps:
    def test_a_million_gaps_stay_lazy(self, store: iso.Store) -> None:
        signal = store.create("x", dtype="u1", rate=1000, start=START)
        signal.append(np.ones(400_000, "u1"))
        for start in range(1, 4_000, 2):
            signal.mark_invalid(start, start + 1)
        gaps = signal.gaps
        assert len(gaps) == 2000
        assert gaps[1999].start == 3999
        assert gaps[-1] == gaps[1999]
        assert [g.start for g in gaps[10:14]] == [21, 23, 25, 27]
        assert [g.start for g in gaps[13:9:-2]] == [27, 23]
        assert gaps.missing == 2000
        with pytest.raises(IndexError, match="2000"):
            gaps[2000]
        assert sum(1 for _ in gaps) == 2000
        assert np.asarray(gaps).shape == (2000, 2)


class TestScan:
    @given(st.data())
    @settings(max_examples=100, deadline=None)
    def test_windows_agree_with_numpy(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        dtype = data.draw(st.sampled_from(["i2", "u1", "f4", "f8"]))
        window = data.draw(st.integers(1, 30))
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        rows = []
        with iso.open(tmp_path_factory.mktemp("s") / "x.iso", "x") as store:
            signal = store.create("x", dtype=dtype, rate=10, start=START)
            at = 0
            for count, gap in data.draw(
                st.lists(st.tuples(st.integers(1, 90), st.integers(1, 9)), min_size=1, max_size=4)
            ):
                x = (rng.standard_normal(count) * 50).astype(dtype)
                signal.append(x)
                for k in range(count // window):
                    part = x[k * window : (k + 1) * window].astype("f8")
                    rows.append((at + k * window, part.min(), part.max(), part.mean(), part.std(), len(part)))
                signal.append_gap(samples=gap)
                at += count + gap
            table = iso.scan(signal).rewindow(window).stats("min", "max", "mean", "std", "count").collect()
        expected = np.array(rows).reshape(-1, 6).T
        np.testing.assert_array_equal(table["start"], expected[0])
        np.testing.assert_array_equal(table["end"], expected[0] + window)
        np.testing.assert_array_equal(table["min"], expected[1])
        np.testing.assert_array_equal(table["max"], expected[2])
        np.testing.assert_allclose(table["mean"], expected[3], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(table["std"], expected[4], rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(table["count"], expected[5])

    def test_a_part_gives_the_signals_own_windows(self, store: iso.Store) -> None:
        signal = pressure(store)
        whole = iso.scan(signal).rewindow(100).stats("mean").collect()
        part = iso.scan(signal[150:1790]).rewindow(100).stats("mean").collect()
        assert list(part["start"]) == [200, 300, 400, 500, 600, 700, 800, 900, 1500, 1600]
        assert set(part["start"]) <= set(whole["start"])
        own = iso.scan(signal[150:1790]).rewindow(100, anchor="range").stats("mean").collect()
        assert list(own["start"])[:2] == [150, 250]
        kept = iso.scan(signal[150:1790]).rewindow(100, anchor="range", tail="keep").stats("count").collect()
        assert list(kept["count"]) == [100] * 8 + [50, 100, 100, 90]

    def test_times_units_and_calibration(self, store: iso.Store) -> None:
        signal = pressure(store, dtype="i2", scale=-0.5, offset=1)
        table = iso.scan(signal).rewindow(500).stats("min", "max").collect()
        assert table.columns == ("start", "end", "time", "min", "max")
        assert table["time"][2] == np.datetime64("2010-03-01T00:00:15", "ns")
        assert table["max"][0] == 1.0
        assert table["min"][0] == 1 - 499 / 2
        assert table.units == {"min": "kPa", "max": "kPa"}

    def test_plans_print_compare_and_explain(self, store: iso.Store) -> None:
        signal = pressure(store)
        plan = iso.scan(signal).rewindow(100).stats("min")
        assert str(plan) == "scan(stn_10/pressure) -> rewindow(100) -> stats(min)"
        assert plan == iso.scan(signal).rewindow(100).stats("min")
        assert "windows of 100" in plan.explain()

    def test_refuses_what_it_cannot_run(self, store: iso.Store) -> None:
        signal = pressure(store)
        plan = iso.scan(signal).rewindow(100)
        with pytest.raises(iso.PlanError, match="workers"):
            plan.stats("min").collect(workers=2)
        for bad in ((), ("min", "min"), ("median",)):
            with pytest.raises(iso.PlanError, match="stats"):
                plan.stats(*bad)
        for window in (0, -1, 2.5, "60s", True):
            with pytest.raises(iso.OptionError, match="rewindow"):
                iso.scan(signal).rewindow(window)
        with pytest.raises(iso.PlanError, match="rewindow"):
            iso.scan(signal).stats("min")
        with pytest.raises(iso.PlanError, match="nothing"):
            iso.scan(signal).collect()
        with pytest.raises(iso.PlanError, match="signal"):
            iso.scan(np.zeros(3))

    def test_tables_convert(self, store: iso.Store) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        pandas = pytest.importorskip("pandas")
        table = iso.scan(pressure(store)).rewindow(100).stats("mean", "count").collect()
        arrow = pyarrow.table(table)
        assert arrow.num_rows == table.num_rows == 20
        assert arrow.schema.field("mean").metadata == {b"unit": b"kPa"}
        assert isinstance(table.to_pandas(), pandas.DataFrame)
        assert table.to_numpy()["mean"][3] == table["mean"][3]
        assert "[20 rows]" in repr(table)
        assert table._repr_html_().count("<tr>") == 12
