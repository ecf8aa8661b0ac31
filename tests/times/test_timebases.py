"""Selections by ranges of any timebase: signals' indices, derived timebases, graphs of them."""

from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import isochrony as iso
from made import START, pressure

RATES = [Fraction(30_000, 1001), Fraction(25), Fraction(44_100_000, 1001), Fraction(500_000_021, 5_000_000)]


def inside(rate: Fraction, offset: Fraction, start: Fraction, end: Fraction, length: int) -> list[int]:
    """Indices of samples whose exact times, index / rate + offset seconds, lie in [start, end)."""
    first = -((-(start - offset) * rate) // 1)
    after = -((-(end - offset) * rate) // 1)
    return list(range(max(0, int(first)), min(length, int(after))))


class TestTimebase:
    def test_video_frames_select_the_samples_taken_during_them(self, store: iso.Store) -> None:
        signal = pressure(store, rate=2000)
        frames = iso.Timebase("frames", rate="30000/1001", start=iso.Time(START) + Fraction(1, 10), unit="frames")
        selection = signal[frames[3:7]]
        expected = inside(Fraction(2000), Fraction(0), Fraction(1, 10) + Fraction(3003, 30_000),
                          Fraction(1, 10) + Fraction(7007, 30_000), 2500)  # fmt: skip
        assert selection.ranges == [(expected[0], expected[-1] + 1)]
        assert (frames.name, frames.unit, len(frames), bool(frames), frames.signal) == (
            "frames",
            "frames",
            0,
            True,
            None,
        )
        assert frames.time_of(30) == iso.Time(START) + Fraction(1, 10) + Fraction(1001, 1000)
        assert frames.value_of(iso.Time(START) + Fraction(1, 10) + Fraction(1001, 1000)) == 30

    @given(
        rate=st.sampled_from(RATES),
        start=st.fractions(-100, 400, max_denominator=1000),
        length=st.fractions(0, 600, max_denominator=1000),
    )
    def test_any_range_holds_the_samples_whose_times_lie_in_it(
        self, tmp_path_factory: pytest.TempPathFactory, rate: Fraction, start: Fraction, length: Fraction
    ) -> None:
        folder = tmp_path_factory.getbasetemp() / "ranges.iso"
        with iso.open(folder, "a") as store:
            if "x" not in store:
                store.create("x", dtype="i2", rate=100, start=START).append(np.zeros(1000, "i2"))
            signal = store["x"]
            ticks = iso.Timebase("ticks", rate=rate, start=START)
            expected = inside(Fraction(100), Fraction(0), start / rate, (start + length) / rate, 1000)
            # Ends are rounded to 2**-32 ns, so one that falls on a sample to within that may take it or leave it.
            ends = [(value / rate) * 100 for value in (start, start + length)]
            if any(end.denominator != 1 and abs(end - round(end)) < Fraction(1, 10**12) for end in ends):
                return
            chosen = signal[ticks[start : start + length]]
            assert [i for a, b in chosen.ranges for i in range(a, b)] == expected

    def test_blocks_of_a_signal_are_exact_and_need_no_civil_time(self, store: iso.Store) -> None:
        signal = store.create("x", dtype="i2", rate=7)
        signal.append(np.arange(10_000, dtype="i2"))
        assert signal.timebase is None
        graph = iso.Graph()
        blocks = graph.add(signal).derive("blocks", ratio=(1, 4096))
        assert signal[blocks[1:2]].ranges == [(4096, 8192)]
        # Cut to what there is, as a slice is; a question about bounds is not.
        assert signal[blocks[2:3]].ranges == [(8192, 10_000)]
        assert not signal.in_bounds(blocks[2:3])
        assert signal.contiguous(blocks[0:2])
        # From the middle of a sample on, that sample has begun already.
        assert signal[blocks[Fraction(3, 8192) : Fraction(9, 8192)]].ranges == [(2, 5)]
        assert graph.path(blocks, signal) == ["blocks", "x"]

    def test_ranges_of_its_own_indices_go_over_gaps_and_clock_steps(self, store: iso.Store) -> None:
        signal = pressure(store)
        signal.append(np.zeros(500, "f4"), at=iso.Time(START) + 20)
        assert len(signal.runs()) == 2
        assert signal[signal.timebase[900:2600]].ranges == signal[900:2600].ranges
        assert signal[signal.timebase.derive("tens", ratio=(1, 10))[90:260]].ranges == signal[900:2600].ranges

    def test_another_signals_range_ends_where_its_last_sample_does(self, store: iso.Store) -> None:
        a, b = pressure(store, "a"), pressure(store, "b", rate=1000)
        b.append(np.zeros(30_000, "f4"))
        a.append(np.zeros(500, "f4"), at=iso.Time(START) + 20)
        # 1000 is the first index of a gap, 2500 that of the run after a clock step.
        for start, end in ((0, 1000), (1500, 2500), (2400, 2500)):
            chosen = b[iso.Range(a, start, end)]
            assert chosen.ranges == b[a[start:end]].ranges
            assert (
                chosen.sample_count == b[iso.span(a.time_of(start), a.time_of(end - 1) + Fraction(1, 100))].sample_count
            )
        tens = a.timebase.derive("tens", ratio=(1, 10))
        assert b[tens[150:250]].ranges == b[a[1500:2500]].ranges

    def test_it_works_wherever_a_stretch_is_named(self, store: iso.Store) -> None:
        signal = pressure(store)
        seconds = iso.Timebase("seconds", rate=1, start=START)
        mine = signal.events.add("burst", 250, 260)
        assert [event.id for event in signal.events.find(seconds[2:3])] == [mine]
        assert signal.view(seconds[2:4], pixels=2).start[0] == 200
        assert signal[seconds[2:4]].start_time == iso.Time(START) + 2
        assert iso.scan(signal[seconds[2:4]]).rewindow(100).stats("mean").collect()["mean"].tolist() == [249.5, 349.5]
        # A selection remembers what it was asked for.
        other = pressure(store, "other", rate=1000)
        assert other[signal[seconds[1:2]]].ranges == other[seconds[1:2]].ranges == [(1000, 2000)]
        signal.mark_invalid(seconds[5:6])
        assert (signal.gaps[0].start, signal.gaps[0].length) == (500, 100)

    def test_it_follows_a_signal_that_grows(self, store: iso.Store) -> None:
        signal = store.create("x", dtype="i2", rate=100, start=START)
        signal.append(np.zeros(100, "i2"))
        halves = signal.timebase.derive("halves", ratio=2)
        other = pressure(store, "y")
        signal.append(np.zeros(100, "i2"), at=iso.Time(START) + 100)
        assert halves.time_of(2 * 10_050) == signal.time_of(10_050)
        assert other[halves[0:200]].ranges == [(0, 100)]

    def test_times_remember_whose_run_they_are_of(self, store: iso.Store, tmp_path: Path) -> None:
        a, b = pressure(store, "a"), pressure(store, "b")
        with iso.open(tmp_path / "other.iso", "x") as elsewhere:
            c = pressure(elsewhere, "a")
            for signal in (a, b, c):
                signal.append(np.zeros(500, "f4"), at=iso.Time(START) + 20)
            time = a.time_of(2600)
            assert time.run == 1
            assert a.index_of(time) == 2600
            for other in (b, c):  # whose run 1 is another clock
                with pytest.raises(iso.TimeError, match="prefer"):
                    other.index_of(time)
            assert a.timebase.value_of(time) == 2600
            assert a.timebase.time_of(2600).run == 1
            with pytest.raises(iso.TimeError, match="prefer"):
                c.timebase.value_of(time)

    def test_refuses_what_is_no_range_and_no_value(self, store: iso.Store) -> None:
        frames = iso.Timebase("frames", rate=25, start=START)
        for bad in (slice(3, None), slice(None, 3), slice(0, 9, 2), 3):
            with pytest.raises(iso.TimeError, match="both ends"):
                frames[bad]  # type: ignore[index]
        with pytest.raises(iso.TimeError, match="before it starts"):
            frames[3:2]
        for value in (float("nan"), "12", True, None):
            with pytest.raises(iso.TimeError, match="finite number"):
                frames.time_of(value)  # type: ignore[arg-type]
        for ratio in (0, float("inf"), "1/2", (1, 0), 2**70):
            with pytest.raises(iso.TimeError, match="ratio"):
                frames.derive("x", ratio=ratio)  # type: ignore[arg-type]
        with pytest.raises(iso.TimeError, match="exists already"):
            frames.derive("frames", ratio=2)
        with pytest.raises(TypeError, match="timebase is expected"):
            frames.convert(3, "utc")  # type: ignore[arg-type]
        with pytest.raises(iso.StoreError, match="range of a timebase"):
            pressure(store)["2010"]  # type: ignore[index]


class TestRange:
    def test_length_overlap_and_containment(self) -> None:
        frames = iso.Timebase("frames", rate=25, start=START)
        shot = frames[100:250]
        assert (shot.start, shot.end, shot.length) == (100, 250, 150)
        assert shot == iso.Range(frames, 100, 250)
        assert hash(shot) == hash(iso.Range(frames, 100, 250))
        assert shot.overlaps(frames[249:251])
        assert not shot.overlaps(frames[250:251])
        assert not shot.overlaps(frames[120:120])
        assert not frames[120:120]
        assert 100 in shot and 250 not in shot and Fraction(499, 2) in shot
        assert frames[100:200] in shot
        assert not shot.contains(frames[100:251])
        assert shot.span() == iso.span(iso.Time(START) + 4, iso.Time(START) + 10)
        assert repr(shot) == "frames[100:250]"

    def test_conversion_between_timebases_signals_and_graphs(self, store: iso.Store) -> None:
        signal = pressure(store)
        frames = iso.Timebase("frames", rate=25, start=START)
        ticks = iso.Timebase("ticks", rate=1000, start=iso.Time(START) - 1)
        shot = frames[10:20]
        assert (shot.to(ticks).start, shot.to(ticks).end) == (1400, 1800)
        assert shot.to(signal) == iso.Range(signal, 40, 80)
        assert iso.Range(signal, 40, 80).to(frames) == shot
        assert iso.Range(signal, 40, 80).overlaps(frames[19:21])
        assert frames.convert(10, signal) == 40
        assert signal.timebase.convert(40, frames) == 10
        assert shot.to(frames.graph["utc"]).start == iso.Time(START) + Fraction(10, 25)

    def test_a_map_that_runs_backwards_swaps_the_ends(self) -> None:
        left = iso.Timebase("frames", rate=25, start=START).derive("left", ratio=-1, offset=1000)
        assert left[0:250].to(left.graph["frames"]).start == 750


class TestGraph:
    def test_joins_what_is_known_by_its_relation(self, store: iso.Store) -> None:
        signal = pressure(store)
        graph = iso.Graph()
        graph.add(signal)
        camera = graph.add("camera", unit="frames")
        assert camera.unit == "frames"
        # Frame 0 at sample 30, then one for four samples.
        graph.connect(camera, signal, ratio=4, offset=30)
        assert graph.path("camera", "utc") == ["camera", signal.name, "utc"]
        assert signal[camera[0:5]].ranges == [(30, 50)]
        assert camera.time_of(5) == signal.time_of(50)
        assert camera.time_of(250).in_gap
        assert list(graph) == ["utc", signal.name, "camera"]
        assert len(graph) == 3
        assert "camera" in graph
        assert graph["camera"] == camera
        assert graph.add(signal) == graph[signal.name] == signal.timebase

    def test_an_unreachable_timebase_names_both_islands(self, store: iso.Store) -> None:
        signal = pressure(store)
        graph = iso.Graph()
        pulses, shutter = graph.add("pulses"), graph.add("shutter")
        graph.connect(pulses, shutter, ratio=2)
        with pytest.raises(
            iso.TimeError, match=r'"pulses" reaches \{pulses, shutter\}, "utc" reaches \{utc\}'
        ) as caught:
            signal[pulses[0:3]]
        assert caught.value.code == "unreachable"
        for use in (lambda: pulses.time_of(1), lambda: pulses[0:1].span(), lambda: graph.path("shutter", "utc")):
            with pytest.raises(iso.TimeError, match="add a metric"):
                use()

    def test_a_contradictory_cycle_is_refused_and_changes_nothing(self) -> None:
        graph = iso.Graph()
        pulses = graph.add("pulses", rate=100, start=START)
        frames = graph.add("frames", rate=25, start=START)
        graph.connect(frames, pulses, ratio=4)  # what civil time says, too
        with pytest.raises(iso.TimeError, match="contradicts the path frames -> pulses") as caught:
            graph.connect(frames, pulses, ratio=4, offset=1)
        assert caught.value.code == "contradictory_cycle"
        assert "remove one metric" in str(caught.value)
        assert frames.convert(3, pulses) == 12

    def test_civil_time_of_another_graph_keeps_the_run_and_the_gap(self, store: iso.Store) -> None:
        stepped = store.create("stepped", dtype="i2", rate=100, start=START)
        stepped.append(np.zeros(1000, "i2"))
        stepped.append(np.zeros(1000, "i2"), at=iso.Time(START) + 5)
        stepped.append_gap(samples=50)
        stepped.append(np.zeros(100, "i2"))
        store.commit()
        stepped = store["stepped"]
        graph = iso.Graph()
        graph.add(pressure(store))
        twice = stepped.timebase.convert(1200, graph["utc"])
        assert (twice, twice.run, twice.in_gap) == (stepped.timebase.time_of(1200), 1, False)
        # Ambiguous without the run.
        assert stepped.index_of(twice) == 1200
        assert stepped.timebase.convert(2010, graph["utc"]).in_gap

    def test_names_are_given_once(self, store: iso.Store, tmp_path: Path) -> None:
        graph = iso.Graph()
        graph.add("x", rate=1, start=START)
        with pytest.raises(iso.TimeError, match="exists already"):
            graph.add("x")
        with pytest.raises(iso.TimeError, match="exists already"):
            graph.add(pressure(store, "x"))
        assert graph.add(store["x"], name="west/x").name == "west/x"
        with pytest.raises(iso.TimeError, match="no timebase"):
            graph["y"]
        with pytest.raises(iso.TimeError, match="not in this graph"):
            graph.path(pressure(store, "z"), "utc")
        with pytest.raises(iso.TimeError, match="another graph"):
            graph.connect("x", iso.Timebase("t", rate=1, start=START), ratio=1)
        with pytest.raises(iso.OptionError, match="both, or neither"):
            graph.add("v", rate=3)
        with pytest.raises(iso.OptionError, match="signal"):
            graph.add(store["z"], rate=3)


class TestExactness:
    @pytest.mark.parametrize("ratio", [Fraction(1, 48), Fraction(3, 7), Fraction(160, 147)])
    def test_tiles_of_a_derived_timebase_are_those_of_the_signal(self, store: iso.Store, ratio: Fraction) -> None:
        signal = store.create("tiled", dtype="i2", rate=1000)
        signal.append(np.zeros(48_000, "i2"))
        derived = iso.Graph().add(signal).derive("derived", ratio=ratio)
        for start in range(0, 48_000, 100):
            tile = derived[start * ratio : (start + 100) * ratio]
            assert signal[tile].ranges == signal[start : start + 100].ranges

    def test_a_microsecond_survives_days(self) -> None:
        seconds = iso.Timebase("s", rate=1, start="2010-03-01")
        days = seconds.derive("days", ratio=(1, 86_400))
        time = iso.Time("2010-03-01T00:00:00.000001")
        assert days.value_of(time) == Fraction(1, 86_400_000_000)
        assert days.time_of(days.value_of(time)) == time
        assert days[0 : days.value_of(time)].length == Fraction(1, 86_400_000_000)

    def test_a_chain_is_composed_exactly(self) -> None:
        first = iso.Timebase("0", rate=1, start="2010-03-01")
        ratios = [Fraction(1, 10**9), Fraction(7, 10**6), Fraction(10**12), Fraction(1, 10**6), Fraction(10**9, 7)]
        base, product = first, Fraction(1)
        for name, ratio in enumerate(ratios, 1):
            base, product = base.derive(str(name), ratio=ratio), product * ratio
        assert first.convert(12_345, base) == 12_345 * product
        assert base.convert(12_345 * product, first) == 12_345
