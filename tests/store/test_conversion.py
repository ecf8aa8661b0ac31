"""Many indices and many times at once: the same rules as one at a time, against them and against exact rationals."""

import datetime as dt
import time
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso

START = "2010-03-01T00:00:00Z"
START_NS = 1_267_401_600 * 10**9


def stepped(store: iso.Store) -> iso.Signal:
    """Two runs at 100 Hz that overlap for 5 s in civil time, with a gap in the first."""
    signal = store.create("x", dtype="i2", rate=100, start=START)
    signal.append(np.zeros(1000, "i2"))
    signal.append_gap(samples=500)
    signal.append(np.zeros(1000, "i2"))
    signal.append(np.zeros(1000, "i2"), at=iso.Time(START) + 20)
    return signal


class TestTimes:
    @pytest.mark.parametrize("rate", ["100.0000042", "44100000/1001", "1000000", "10000000"])
    def test_nearest_nanosecond_of_the_exact_rational(self, store: iso.Store, rate: str) -> None:
        signal = store.create("x", dtype="i2", rate=rate, start=START)
        signal.append(np.zeros(10, "i2"))
        ten_years = int(Fraction(rate) * 86_400 * 3_652)
        rng = np.random.default_rng(1)
        indices = np.concatenate([np.arange(-50, 50), rng.integers(-ten_years, ten_years, 1000)])
        times = signal.time_of(indices)
        assert times.dtype == np.dtype("M8[ns]")
        for index, ns in zip(indices.tolist(), times.astype("i8").tolist(), strict=True):
            exact = START_NS + Fraction(index) / Fraction(rate) * 10**9
            # Half a nanosecond, and the 2^-32 ns of civil time itself.
            assert abs(ns - exact) <= Fraction(1, 2) + Fraction(1, 2**32)
        np.testing.assert_array_equal(signal.index_of(times), indices)

    def test_agree_with_one_at_a_time_in_gaps_and_runs(self, store: iso.Store) -> None:
        signal = stepped(store)
        indices = np.random.default_rng(2).integers(-100, 3600, 500)
        one = [signal.time_of(int(i)) for i in indices]
        expected = [round(Fraction(t.ns) + Fraction(t.frac, 2**32)) for t in one]
        np.testing.assert_array_equal(signal.time_of(indices).astype("i8"), expected)

    def test_shapes_and_kinds_of_indices(self, store: iso.Store) -> None:
        signal = stepped(store)
        grid = np.arange(12, dtype="u2").reshape(3, 4)
        assert signal.time_of(grid).shape == (3, 4)
        expected = signal.time_of(np.arange(12))
        np.testing.assert_array_equal(signal.time_of(grid).ravel(), expected)
        np.testing.assert_array_equal(signal.time_of(range(12)), expected)
        np.testing.assert_array_equal(signal.time_of(list(range(12))), expected)
        np.testing.assert_array_equal(signal.time_of(np.arange(24)[::2]), signal.time_of(np.arange(0, 24, 2)))
        assert signal.time_of([]).shape == signal.index_of([]).shape == (0,)
        assert isinstance(signal.time_of(np.int32(3)), iso.Time)

    @pytest.mark.parametrize("bad", [[0.5], np.zeros(2), ["1"], [None], np.array([True]), [[1], [2, 3]]])
    def test_refuses_what_is_no_index(self, store: iso.Store, bad: object) -> None:
        with pytest.raises((TypeError, ValueError), match="expected"):
            stepped(store).time_of(bad)

    def test_refuses_indices_beyond_64_bits_and_times_beyond_datetime64(self, store: iso.Store) -> None:
        signal = stepped(store)
        with pytest.raises(IndexError, match="64 bits"):
            signal.time_of(np.array([2**63], "u8"))
        with pytest.raises(iso.TimeError, match="datetime64"):
            signal.time_of(np.array([0, 10**15]))


class TestIndices:
    @given(st.data())
    @settings(max_examples=100, deadline=None)
    def test_agree_with_one_at_a_time(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        unit = data.draw(st.sampled_from(["ns", "us", "ms", "s", "10ms", "ps"]))
        scale = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "10ms": 10**7, "ps": Fraction(1, 1000)}[unit]
        offsets = data.draw(st.lists(st.integers(-(10**9), 45 * 10**9), min_size=1, max_size=20))
        counts = np.array([int((START_NS + ns) // scale) for ns in offsets if unit != "ps"] or [offsets[0]], "i8")
        times = counts.view(f"M8[{unit}]")
        options = {
            "round": data.draw(st.sampled_from([None, "nearest", "floor", "ceil"])),
            "prefer": data.draw(st.sampled_from(["first", "last", 0, 1])),
        }
        with iso.open(tmp_path_factory.mktemp("s") / "x.iso", "x") as store:
            signal = stepped(store)
            expected = [signal.index_of(time, **options) for time in times]
            np.testing.assert_array_equal(signal.index_of(times, **options), expected)

    def test_ambiguous_times_need_a_preference(self, store: iso.Store) -> None:
        signal = stepped(store)
        twice = np.array(["2010-03-01T00:00:01", "2010-03-01T00:00:21"], "M8[s]")
        with pytest.raises(iso.TimeError, match="prefer"):
            signal.index_of(twice)
        np.testing.assert_array_equal(signal.index_of(twice, prefer="first"), [100, 2100])
        np.testing.assert_array_equal(signal.index_of(twice, prefer="last"), [100, 2600])

    def test_exact_takes_sample_times_only(self, store: iso.Store) -> None:
        signal = stepped(store)
        times = signal.time_of(np.arange(0, 1000, 7))
        np.testing.assert_array_equal(signal.index_of(times, round="exact"), np.arange(0, 1000, 7))
        with pytest.raises(iso.TimeError, match="not on a sample"):
            signal.index_of(times + np.timedelta64(1, "ns"), round="exact")

    def test_sequences_of_other_times(self, store: iso.Store) -> None:
        pandas = pytest.importorskip("pandas")
        signal = stepped(store)
        texts = ["2010-03-01T00:00:01", "2010-03-01T00:00:02.5"]
        same = [
            texts,
            tuple(iso.Time(text) for text in texts),
            [dt.datetime.fromisoformat(text) for text in texts],
            [np.datetime64(text) for text in texts],
            pandas.DatetimeIndex(texts),
            pandas.Series(pandas.DatetimeIndex(texts)),
            pandas.DatetimeIndex(texts, tz="UTC").tz_convert("Europe/Berlin"),
        ]
        for times in same:
            np.testing.assert_array_equal(signal.index_of(times), [100, 250])
        # A time that a signal gave remembers its run.
        np.testing.assert_array_equal(signal.index_of([signal.time_of(2100), signal.time_of(2600)]), [2100, 2600])

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (np.arange(3), "datetime64"),
            ([1.5], "ambiguous"),
            (np.array(["2010-01-01", "NaT"], "M8[ns]"), "NaT at position 1"),
            (["2010-01-01", "never"], "never"),
            ([None], "got NoneType"),
            (b"2010", "got bytes"),
            (np.ma.masked_equal(np.array([0, 1], "M8[s]"), np.datetime64(0, "s")), "masked"),
        ],
    )
    def test_refuses_what_is_no_time(self, store: iso.Store, bad: object, message: str) -> None:
        with pytest.raises(iso.TimeError, match=message):
            stepped(store).index_of(bad)


class TestRunsWithoutTime:
    def test_are_not_extrapolated_into(self, store: iso.Store) -> None:
        signal = store.create("x", dtype="i2", rate=100)
        signal.append(np.zeros(100, "i2"))
        signal.begin_run()
        signal.append(np.zeros(100, "i2"), at=START)
        for index in (50, np.array([150, 50])):
            with pytest.raises(iso.StoreError, match="no civil time"):
                signal.time_of(index)
        assert signal.time_of(np.array([100]))[0] == np.datetime64("2010-03-01")


def test_millions_a_second(store: iso.Store) -> None:
    """A tenth of what a quiet machine does; one call each, with a gap and a clock step on the way."""
    signal = stepped(store)
    indices = np.arange(2_000_000) % 3_400
    begin = time.perf_counter()
    times = signal.time_of(indices)
    there = time.perf_counter()
    back = signal.index_of(times, prefer="last")
    end = time.perf_counter()
    np.testing.assert_array_equal(signal.time_of(back), times)
    assert len(indices) / (there - begin) > 1e6
    assert len(indices) / (end - there) > 0.5e6
