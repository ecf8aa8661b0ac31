"""Decimated views read as signals: against NumPy over the samples themselves."""

import pickle
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso

START = "2010-03-01T00:00:00Z"
STATS = {"min": np.min, "max": np.max, "mean": np.mean, "std": np.std, "count": len}


def expected(values: np.ndarray, present: np.ndarray, bucket: int, measure: str) -> np.ndarray:
    """By NumPy: NaN where no sample is finite, and -1 where there is no sample at all."""
    out = []
    for k in range(len(values) // bucket):
        part = slice(k * bucket, (k + 1) * bucket)
        finite = values[part][present[part] & np.isfinite(values[part])]
        if not present[part].any():
            out.append(-1.0)
        elif len(finite) == 0:
            out.append(0.0 if measure == "count" else np.nan)
        else:
            out.append(float(STATS[measure](finite)))
    return np.array(out, "f8")


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_agree_with_numpy(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["u1", "i2", "i4", "f4", "f8"]))
    scale, offset = data.draw(st.sampled_from([(None, None), (0.5, 3.0), (-2.0, 1.0)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    pieces, present = [], []
    with iso.open(tmp_path_factory.mktemp("s") / "x.iso", "x") as store:
        signal = store.create("x", dtype=dtype, rate=100, unit="V", scale=scale, offset=offset, start=START)
        for _ in range(data.draw(st.integers(1, 4))):
            x = (rng.standard_normal(data.draw(st.integers(1, 40_000))) * 100).astype(dtype)
            if dtype.startswith("f") and data.draw(st.booleans()):
                at = data.draw(st.integers(0, len(x) - 1))
                x[at : at + 3000] = data.draw(st.sampled_from([np.nan, np.inf]))
            signal.append(x)
            gap = data.draw(st.integers(1, 9_000))
            signal.append_gap(samples=gap)
            pieces += [x.astype("f8") * (scale or 1) + (offset or 0), np.zeros(gap)]
            present += [np.ones(len(x), bool), np.zeros(gap, bool)]
        values, present = np.concatenate(pieces), np.concatenate(present)
        for bucket in signal.levels:
            for measure in STATS:
                level = signal.level(bucket, measure)
                want = expected(values, present, bucket, measure)
                assert len(level) == level.end_index == len(want)
                tolerance = {"rtol": 1e-6, "atol": 1e-6} if measure in ("mean", "std") else {"rtol": 1e-15}
                np.testing.assert_allclose(level.values(fill=-1), want, **tolerance)
                holes = np.isin(np.arange(len(want)), [k for s, n in level.gaps for k in range(s, s + n)])
                gone = ~present[: len(want) * bucket].reshape(-1, bucket).any(axis=1)
                np.testing.assert_array_equal(holes, gone)
                assert level.sample_count == (~gone).sum()
                bounds = st.none() | st.integers(-len(want) - 2, len(want) + 2)
                key = slice(data.draw(bounds), data.draw(bounds))
                np.testing.assert_array_equal(level[key].values(fill=-1), level.values(fill=-1)[key])


class TestAsASignal:
    def make(self, store: iso.Store) -> iso.Signal:
        signal = store.create("x", dtype="i2", rate=2000, unit="kPa", start=START)
        signal.append(np.arange(20_000, dtype="i2"))
        signal.append_gap(samples=10_000)
        signal.append(np.arange(10_000, dtype="i2"))
        return signal

    def test_rate_time_and_index(self, store: iso.Store) -> None:
        signal = self.make(store)
        assert signal.levels == (512, 4096, 32768)
        level = signal.level(512)
        assert (level.rate.fraction, level.unit, level.measure) == (Fraction(2000, 512), "kPa", "mean")
        for index in (0, 1, 40, 50, 77, -3, 10**6):
            assert level.time_of(index) == signal.time_of(index * 512)
            assert level.index_of(level.time_of(index)) == index
        inside = iso.Time(START) + Fraction(512 * 5 + 100, 2000)
        assert [level.index_of(inside, round=r) for r in ("floor", "nearest", "ceil")] == [5, 5, 6]
        assert level.index_of(inside + Fraction(200, 2000)) == 6
        assert level.index_of(level.time_of(5), round="exact") == 5
        with pytest.raises(iso.TimeError, match="not on a sample"):
            level.index_of(inside, round="exact")

    def test_slices_by_time_take_buckets_that_begin_there(self, store: iso.Store) -> None:
        signal = self.make(store)
        level = signal.level(512, "max")
        part = level[iso.Time(START) + Fraction(512, 2000) : iso.Time(START) + Fraction(4 * 512 + 1, 2000)]
        assert part.ranges == [(1, 5)]
        np.testing.assert_array_equal(np.asarray(part), np.arange(1, 5) * 512 + 511)
        np.testing.assert_array_equal(part.times(), [level.time_of(i).to_datetime64() for i in range(1, 5)])
        assert level[iso.span("2011-01-01", "2012-01-01")].ranges == []
        # A part of the signal selects the buckets that begin in it.
        assert level[signal[512:1025]].ranges == [(1, 3)]

    def test_gaps_are_named_and_never_filled(self, store: iso.Store) -> None:
        level = self.make(store).level(512)
        assert level.gaps.tolist() == [[40, 18]]
        with pytest.raises(iso.GapError, match="18 buckets at index 40"):
            np.asarray(level[:])
        with pytest.raises(iso.GapError, match="a gap of 1 bucket at index 57"):
            np.asarray(level[57:60])
        with pytest.raises(iso.GapError):
            level[45]
        assert np.isnan(level[38:60].values()[2:20]).all()
        assert level[-1] == pytest.approx(np.arange(9_424, 9_936).mean())
        with pytest.raises(IndexError, match=r"0\.\.78"):
            level[78]

    def test_clock_steps_part_it(self, store: iso.Store) -> None:
        signal = self.make(store)
        signal.append(np.zeros(10_000, "i2"), at=iso.Time(START) + 2)
        level = signal.level(512)
        twice = iso.span(iso.Time(START) + 2, iso.Time(START) + 3)
        assert len(level[twice]) in (3, 4)
        assert (level[twice].values() > 0).all()
        with pytest.raises(iso.TimeError, match="prefer"):
            level.index_of(iso.Time(START) + 3)
        assert level.index_of(iso.Time(START) + 3, prefer="last") > level.index_of(iso.Time(START) + 3, prefer="first")

    def test_follows_its_signal_and_pickles(self, store: iso.Store) -> None:
        signal = self.make(store)
        level = signal.level(512, "min")
        before = len(level)
        signal.append(np.full(5120, -9, "i2"))
        assert len(level) == before + 10
        assert level[-1] == -9
        store.commit()
        back = pickle.loads(pickle.dumps(level))
        np.testing.assert_array_equal(back.values(), level.values())
        assert repr(back).startswith("<Level min of x: 88 buckets of 512 samples")

    def test_sealed_ones_read_the_same(self, store: iso.Store) -> None:
        signal = self.make(store)
        before = signal.level(512, "std").values()
        store.commit()
        signal.seal()
        np.testing.assert_array_equal(signal.level(512, "std").values(), before)

    def test_refuses_what_is_not_there(self, store: iso.Store) -> None:
        signal = self.make(store)
        with pytest.raises(iso.StoreError, match=r"\[512, 4096, 32768\]") as caught:
            signal.level(1000)
        assert caught.value.code == "no_such_level"
        with pytest.raises(iso.OptionError, match="mean"):
            signal.level(512, "median")
        with pytest.raises(TypeError, match="index"):
            signal.level("512")
        short = store.create("short", dtype="i2", rate=1)
        assert short.levels == ()
        with pytest.raises(iso.StoreError, match="no levels yet"):
            short.level(512)
        offset = store.create("complex", dtype="c8", rate=1, scale=1.0, offset=2.0)
        offset.append(np.zeros(1000, "c8"))
        with pytest.raises(iso.StoreError, match="offset"):
            offset.level(offset.levels[0]).values()
