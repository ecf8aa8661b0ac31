"""Plans that keep what they compute: signals, events, ranges, samples around them."""

import json
import math
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso
from made import START, pressure


def drifting(store: iso.Store, name: str = "stn/p") -> iso.Signal:
    """Ten minutes at a clock 40 ppm fast, a gap of 3.3 s, more, a clock step back, more."""
    signal = store.create(name, dtype="i2", rate=100, unit="kPa", scale=0.5, offset=1)
    rng = np.random.default_rng(5)
    t0, period = 1_267_401_600_000_000_000, 10_000_000 / 1.00004

    def block(at: float, count: int) -> float:
        x = rng.integers(-100, 100, count).astype("i2")
        signal.append(x, at=np.datetime64(round(at), "ns"), resolution=0)
        return at + count * period

    at = float(t0)
    for _ in range(10):
        at = block(at, 6000)
    at += 3.3e9
    for _ in range(3):
        at = block(at, 6000)
    block(t0 - 7200e9, 6000)
    return signal


def same_times(a: iso.Signal, b: iso.Signal, pairs: list[tuple[int, int]], within_ns: float) -> None:
    for i, j in pairs:
        assert abs(int(a.time_of(i).ns) - int(b.time_of(j).ns)) <= within_ns, (i, j)


def test_a_copy_has_the_same_samples_gaps_runs_and_times(store: iso.Store) -> None:
    signal = drifting(store)
    iso.scan(signal).sink(store, "copy").run()
    copy = store["copy"]
    assert (copy.dtype, copy.unit, copy.rate, copy.scale, copy.offset) == (
        signal.dtype, "kPa", signal.rate, 0.5, 1.0,
    )  # fmt: skip
    assert [(g.start, g.length) for g in copy.gaps] == [(g.start, g.length) for g in signal.gaps]
    assert len(copy.gaps) == 1
    assert [(r.start, r.end) for r in copy.runs()] == [(r.start, r.end) for r in signal.runs()]
    assert len(copy.runs()) == 2
    for a, b in zip(signal[:].segments, copy[:].segments, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    indices = [0, 5999, 59_999, 60_330, 70_000, signal.end_index - 1]
    # To what the store's own clock makes of the stamps: a hundredth of a sample.
    same_times(signal, copy, [(i, i) for i in indices], 1e-2 / 100 * 1e9)
    assert not store.has_pending


def test_one_value_a_window_is_a_signal_at_the_windows_rate(store: iso.Store) -> None:
    signal = drifting(store)
    windows = iso.scan(signal).rewindow(250, 100)
    iso.run(windows.map(lambda s: s.mean()).sink(store, "mean"), windows.map(lambda s: s.max()).sink(store, "max"))
    mean = store["mean"]
    assert mean.rate == 1
    assert mean.dtype == np.float64
    assert mean.unit == ""
    expected = windows.map(lambda s: s.mean()).collect()[:, 0]
    got = np.concatenate([np.asarray(segment) for segment in mean[:].segments])
    np.testing.assert_array_equal(got, expected)
    assert len(mean.gaps) == 1
    assert len(mean.runs()) == 2
    first_after = int(mean.gaps[0].start + mean.gaps[0].length)
    same_times(signal, mean, [(0, 0), (59_700, 597), (60_330, first_after)], 1e-2 * 1e9)
    assert store["max"].sample_count == mean.sample_count


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_chunking_keeps_the_same(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    window = data.draw(st.integers(1, 20))
    hop = data.draw(st.integers(1, 20))
    timed = data.draw(st.booleans())
    with iso.open(tmp_path_factory.mktemp("s") / "x.iso", "x") as store:
        signal = store.create("x", dtype="i4", rate=data.draw(st.sampled_from([1, 7])), start=START if timed else None)
        for count, gap in data.draw(
            st.lists(st.tuples(st.integers(1, 300), st.integers(1, 30)), min_size=1, max_size=4)
        ):
            signal.append(np.arange(count, dtype="i4") + signal.end_index)
            signal.append_gap(samples=gap)
        keep = data.draw(st.integers(1, 3))
        kept = []
        for name, segment in [("a", None), ("b", data.draw(st.integers(1, 40)))]:
            windows = iso.scan(signal, segment).rewindow(window, hop).filter(lambda s: s.min() % keep == 0)
            windows.map(lambda s: s.max()).sink(store, name).run()
            kept.append(store[name])
        a, b = kept
        assert [(g.start, g.length) for g in a.gaps] == [(g.start, g.length) for g in b.gaps]
        for one, other in zip(a[:].segments, b[:].segments, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        # Every value lies where its window began, to a hundredth of a sample of the new signal.
        if timed and a.sample_count:
            starts = iso.scan(signal).rewindow(window, hop).filter(lambda s: s.min() % keep == 0)
            firsts = starts.map(lambda s: s.min()).collect()[:, 0]
            at = np.concatenate([np.arange(s.start, s.start + len(s)) for s in a[:].segments])
            for index, first in zip(at, firsts, strict=True):
                off = int(a.time_of(int(index)).ns) - int(signal.time_of(int(first)).ns)
                assert abs(off) <= 1e9 * hop / float(signal.rate) * 1e-2


def test_windows_that_are_samples_keep_their_rate(store: iso.Store) -> None:
    signal = pressure(store)
    windows = iso.scan(signal).rewindow(100)
    windows.filter(lambda s: s.mean() > 1500).sink(store, "loud").run()
    loud = store["loud"]
    assert loud.rate == 100
    np.testing.assert_array_equal(np.asarray(loud[:]), np.arange(1500, 2000, dtype="f4"))
    assert str(loud.time_of(0)) == str(signal.time_of(2000))
    iso.scan(signal).rewindow(100, 250).map(lambda s: s - s.mean()).sink(store, "holes").run()
    assert next((g.start, g.length) for g in store["holes"].gaps) == (100, 150)
    with pytest.raises(iso.PlanError, match=r"sink.*overlap"):
        iso.scan(signal).rewindow(100, 50).sink(store, "no")


def test_sinks_refuse_what_they_cannot_keep(store: iso.Store, tmp_path: Path) -> None:
    signal = pressure(store)
    scan = iso.scan(signal)
    with pytest.raises(iso.PlanError, match=r"stn_10/pressure.*another name") as error:
        scan.sink(store, "stn_10/pressure", overwrite=True)
    assert error.value.code == "writes_its_input"
    with pytest.raises(iso.PlanError, match=r"writes|would write"):
        scan.map(lambda s: s * 2).sink(signal)
    with pytest.raises(iso.PlanError, match="samples"):
        scan.count().sink(store, "n")
    scan.sink(store, "copy").run()
    with pytest.raises(iso.RunError, match="copy"):
        scan.sink(store, "copy").run()
    assert store["copy"].sample_count == 2000
    scan.limit(7).sink(store, "copy", overwrite=True).run()
    assert store["copy"].sample_count == 7
    iso.scan(signal[7:9]).sink(store["copy"]).run()
    np.testing.assert_array_equal(np.asarray(store["copy"][:]), np.arange(9, dtype="f4"))
    iso.scan(signal[1700:1710]).sink(store, "copy", append=True).run()
    assert [(g.start, g.length) for g in store["copy"].gaps] == [(9, 1691)]
    with pytest.raises(iso.RunError, match="cannot take float64"):
        scan.map(lambda s: s / np.float64(2)).sink(store["copy"]).run()
    for wrong in [lambda: scan.sink(store), lambda: scan.sink(store, "a", overwrite=True, append=True)]:
        with pytest.raises(iso.OptionError, match="sink"):
            wrong()
    store.commit()
    reading = iso.open(store.path)
    with pytest.raises(iso.StoreError, match="read"):
        scan.sink(reading, "x")
    with pytest.raises(iso.StoreError, match="read"):
        scan.rewindow(10).annotate(reading["copy"], "x")


def test_a_failed_run_keeps_the_last_commit(store: iso.Store) -> None:
    big = store.create("big", dtype="f8", rate=1000)
    big.append(np.zeros(20 << 20))
    store.commit()

    def fails(rows: Any) -> Any:
        calls.append(1)
        if len(calls) == 150:
            raise ValueError("enough")
        return rows[:, 0]

    calls: list[int] = []
    plan = iso.scan(big).sink(store, "copy").rewindow(1000).map(iso.py(fails, dtype="f8"))
    with pytest.raises(iso.RunError, match="enough"):
        plan.run()
    seen = iso.open(store.path)["copy"]
    assert 0 < seen.sample_count < big.sample_count
    assert store["copy"].sample_count >= seen.sample_count


# --- ranges, sync, events ---


def joined(spans: list[tuple[int, int]], join: int, before: int, after: int) -> list[tuple[int, int]]:
    """What `ranges` means, slowly."""
    out: list[tuple[int, int]] = []
    for start, end in spans:
        start, end = max(start - before, 0), end + after
        if out and start <= out[-1][1] + join:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_ranges_are_what_a_loop_finds(data: st.DataObject) -> None:
    window, hop = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 12))
    join, before, after = (data.draw(st.integers(0, 6)) for _ in range(3))
    segment = data.draw(st.sampled_from([None, 1, 5, 11]))
    seed = data.draw(st.integers(0, 2**32))
    parts = data.draw(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 9)), min_size=1, max_size=3))
    rng = np.random.default_rng(seed)
    arrays, expected, start = [], [], 0
    for count, gap in parts:
        x = rng.integers(0, 10, count)
        arrays.append((start, x.copy()))
        spans = [
            (start + k, start + k + window) for k in range(0, count - window + 1, hop) if x[k : k + window].max() > 6
        ]
        expected += joined(spans, join, before, after)
        start += count + gap
    plan = iso.generate(lambda: iter(arrays), dtype="i8", rate=10, segment=segment).rewindow(window, hop)
    ranges = plan.filter(lambda s: s.max() > 6).ranges(join=join, before=before, after=after)
    assert [tuple(row) for row in ranges.collect()] == expected


def test_sync_gives_the_samples_around_what_was_found(store: iso.Store) -> None:
    signal = pressure(store)
    other = store.create("other", dtype="f4", rate=100, start=START)
    other.append(np.zeros(10, "f4"))
    scan = iso.scan(signal, 64)
    found = scan.rewindow(100).filter(lambda s: (s.mean() > 500) & (s.mean() < 700)).ranges(before=50, after=25)
    (around,) = scan.sync(on=found)
    np.testing.assert_array_equal(around.collect(), np.arange(450, 725))
    twice, raw = scan.map(lambda s: s * 2).sync(scan, on=found)
    both = iso.collect(twice, raw)
    np.testing.assert_array_equal(both[0], 2 * both[1])
    with pytest.raises(iso.PlanError, match="ranges"):
        scan.sync(on=scan)
    with pytest.raises(iso.OptionError, match="join"):
        scan.ranges(join=-1)


def test_windows_and_ranges_become_events(store: iso.Store) -> None:
    signal = pressure(store)
    windows = iso.scan(signal).rewindow(100).filter(lambda s: s.mean() > 1700)
    plan = windows.annotate(signal, "loud", peak=lambda s: s.max(), many=lambda s: (s > 1800).any(), by="hand")
    assert plan.count().collect() == 3
    events = signal.events.find(kind="loud")
    assert [(e.start, e.end) for e in events] == [(2200, 2300), (2300, 2400), (2400, 2500)]
    assert events[0].fields == {"by": "hand", "peak": 1799.0, "many": False}
    windows.ranges().annotate(signal, "span", level=3).run()
    assert [(e.start, e.end, e.fields) for e in signal.events.find(kind="span")] == [(2200, 2500, {"level": 3})]
    assert not store.has_pending
    assert iso.open(store.path)[signal.name].events.find(kind="span")[0].start == 2200
    with pytest.raises(iso.PlanError, match="windows or ranges"):
        iso.scan(signal).annotate(signal, "x")
    with pytest.raises(iso.PlanError, match="ranges"):
        windows.ranges().annotate(signal, "x", peak=lambda s: s.max())
    with pytest.raises(iso.PlanError, match=r"\.max\(\)"):
        windows.annotate(signal, "x", peak=lambda s: s)
    with pytest.raises(iso.OptionError, match="kind"):
        windows.annotate(signal, "")


def test_events_of_another_signal_are_found_by_time(store: iso.Store) -> None:
    signal = pressure(store)
    other = store.create("slow", dtype="f4", rate=10, start="2010-02-28T23:59:50")
    other.append(np.zeros(1000, "f4"))
    iso.scan(signal).rewindow(100).limit(2).ranges().annotate(other, "first").run()
    # Two seconds from the tenth on.
    assert [(e.start, e.end) for e in other.events.find(kind="first")] == [(100, 121)]
    with pytest.raises(iso.RunError, match="no civil time"):
        iso.scan(np.zeros(10), rate=10).rewindow(2).annotate(other, "x").run()


def test_plans_with_sinks_come_back_from_json(store: iso.Store) -> None:
    signal = pressure(store)
    store.commit()
    windows = iso.scan(signal).rewindow(100)
    plan = windows.map(lambda s: s.mean()).sink(store, "mean", overwrite=True)
    plan = plan.filter(lambda s: s.max() > 1900).ranges(join=5).annotate(signal, "high", by=1)
    saved = plan.to_json()
    again = iso.Plan.from_json(saved, store=store)
    assert again == plan
    assert str(again) == str(plan)
    again.run()
    assert store["mean"].sample_count == 20
    assert len(signal.events.find(kind="high")) == 1
    computed = windows.annotate(signal, "peak", top=lambda s: s.max())
    assert iso.Plan.from_json(computed.to_json(), store=store) == computed
    store.close()
    iso.Plan.from_json(saved).run()
    with iso.open(store.path) as after:
        assert after["mean"].sample_count == 20
        # Run twice, told once.
        assert len(after[signal.name].events.find(kind="high")) == 1
    broken = json.loads(saved)
    broken["nodes"][3]["params"]["if_exists"] = "perhaps"
    with pytest.raises(iso.PlanError, match="perhaps"):
        iso.Plan.from_json(broken)


def test_a_gap_longer_than_the_axis_shows_keeps_its_duration(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate=10, start="2010-01-01", max_gap=60)
    signal.append(np.arange(100, dtype="i2"))
    signal.append(np.arange(100, dtype="i2"), at="2010-01-08T00:00:00Z")
    iso.scan(signal).sink(store, "y").run()
    copy = store["y"]
    last = copy.end_index - 1
    assert str(copy.time_of(last)) == str(signal.time_of(signal.end_index - 1))
    assert math.isclose(float(copy.gaps[0].duration), float(signal.gaps[0].duration), abs_tol=1e-3)
