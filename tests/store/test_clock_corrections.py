"""Clocks corrected after recording: a recorder's skew, a log of GPS fixes, triggers that two recorders share."""

from __future__ import annotations

import json
import os
import signal as signals
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli import main

START = iso.Time("2010-03-01")
HOUR = 360_000
#: A recorder whose clock is 2 ppm fast: when it says that a second has passed, 1 / 1.000002 s have.
FAST = Fraction(1_000_002, 1_000_000)


def true_time(index: int) -> iso.Time:
    return START + Fraction(index, 100) / FAST


def recorder(store: iso.Store, name: str = "obs", samples: int = HOUR) -> iso.Signal:
    obs = store.create(name, dtype="i4", rate=100, start="2010-03-01")
    obs.append(np.arange(samples, dtype="i4"))
    return obs


def off_ns(time: iso.Time, expected: iso.Time) -> float:
    return abs(float((time - expected) * 10**9))


def stated_ns(time: iso.Time) -> float:
    assert time.uncertainty_ns is not None
    return time.uncertainty_ns


class TestSkew:
    def test_two_comparisons_correct_every_time_to_what_is_stated(self, tmp_path: Path) -> None:
        path = tmp_path / "sea.iso"
        with iso.open(path, "x") as store:
            obs = recorder(store)
            correction = obs.correct_clock([(0, true_time(0)), (HOUR, true_time(HOUR))], uncertainty=20e-9)
            assert (correction.id, correction.run, correction.removed) == (0, None, False)
            assert (correction.fit.shape, correction.fit.outliers) == ("line", [])
            assert correction.fit.residual < 1e-3
            assert correction.fit.resolution == 20
            store.commit()
        with iso.open(path) as store:
            obs = store["obs"]
            for index in range(0, HOUR, 7919):
                time = obs.time_of(index)
                assert off_ns(time, true_time(index)) < 0.1
                assert 20 <= stated_ns(time) < 20.1
                assert obs.index_of(time) == index
                assert obs.recorded_time_of(index) == START + Fraction(index, 100)
            # All that converts: slices by civil time, arrays of times, tables, other signals, xarray.
            half = obs[iso.span(true_time(1000), true_time(2000))]
            assert half.ranges == [(1000, 2000)]
            expected = np.datetime64(true_time(5000).ns, "ns")
            assert abs(obs.time_of(np.array([5000]))[0] - expected) <= np.timedelta64(1, "ns")
            first = obs[5000:5001].start_time
            assert first is not None and off_ns(first, true_time(5000)) < 0.1
            rows = iso.scan(obs).rewindow(1000).stats("mean").collect(as_="table")
            assert off_ns(iso.Time(rows["time"][7]), true_time(7000)) <= 1
            assert obs.runs()[0].rate == pytest.approx(float(100 * FAST), abs=1e-8)
            frames = iso.Timebase("frames", rate=1, start=START)
            assert obs[frames[10:20]].ranges == [(1001, 2001)]
            # Beyond the points it is less certain: 1 ppm of the distance.
            (kept,) = obs.clock_corrections
            assert kept.fit.uncertainty(START + 7200) == pytest.approx(60 + 3.6e6, rel=0.01)

    def test_samples_and_checksums_stay_and_removing_it_brings_back_what_was_recorded(self, tmp_path: Path) -> None:
        path = tmp_path / "sea.iso"
        with iso.open(path, "x") as store:
            recorder(store)
        data = sorted((path / "obs/data").rglob("*")) + sorted((path / "obs/crc").rglob("*"))
        before = {file: file.read_bytes() for file in data if file.is_file()}
        with iso.open(path, "r+") as store:
            obs = store["obs"]
            correction = obs.correct_clock([(0, true_time(0)), (HOUR, true_time(HOUR))], uncertainty=0)
            store.commit()
        assert {file: file.read_bytes() for file in before} == before
        assert iso.verify(path)["damage"] == []
        with iso.open(path, "r+") as store:
            obs = store["obs"]
            (correction,) = obs.clock_corrections
            correction.remove()
            assert obs.time_of(HOUR // 2) == START + 1800
        with iso.open(path) as store:
            obs = store["obs"]
            (kept,) = obs.clock_corrections
            assert kept.removed
            assert kept.points["from"].tolist() == [0, HOUR]
            assert kept.points["civil_ns"].tolist() == [true_time(0).ns, true_time(HOUR).ns]
            assert obs.time_of(HOUR // 2) == START + 1800
            assert repr(kept) == "<ClockCorrection 0 of obs: line of 2 points, removed>"
            np.testing.assert_array_equal(obs.counts[0:HOUR], np.arange(HOUR))
        with iso.open(path) as store, pytest.raises(iso.StoreError, match="open for reading"):
            store["obs"].clock_corrections[0].remove()

    def test_points_may_be_times_that_the_recorder_told(self, store: iso.Store) -> None:
        obs = recorder(store)
        told = [(obs.recorded_time_of(index), true_time(index), 1e-6) for index in (0, HOUR)]
        obs.correct_clock(told)
        assert off_ns(obs.time_of(HOUR // 3), true_time(HOUR // 3)) < 0.1

    def test_commands_show_and_export_corrected_times(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "sea.iso"
        with iso.open(path, "x") as store:
            recorder(store, samples=1000).correct_clock(
                [(0, START + 10), (1000, true_time(1000) + 10)], uncertainty=1e-6
            )
        assert main(["info", f"{path}/obs", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert "2010-03-01T00:00:10" in json.dumps(said)
        out = tmp_path / "out.csv"
        assert main(["export", f"{path}/obs", "--out", str(out)]) == 0
        assert out.read_text().splitlines()[1].startswith("0,2010-03-01T00:00:10")

    def test_a_pickle_keeps_the_times_that_it_showed(self, tmp_path: Path) -> None:
        import pickle

        with iso.open(tmp_path / "sea.iso", "x") as store:
            obs = recorder(store)
            correction = obs.correct_clock([(0, true_time(0)), (HOUR, true_time(HOUR))], uncertainty=0)
            store.commit()
            sent = pickle.dumps(obs)
            expected = obs.time_of(1234)
            correction.remove()
            store.commit()
        assert pickle.loads(sent).time_of(1234) == expected


class TestGps:
    def test_a_log_with_jitter_and_outliers_gives_times_within_what_it_states(self, store: iso.Store) -> None:
        rng = np.random.default_rng(2)
        obs = recorder(store)
        indices = np.arange(0, HOUR, 1000)
        jitter = rng.normal(0, 30_000, len(indices)).round().astype(int)
        wrong = rng.choice(np.arange(10, 350), 9, replace=False)
        points = []
        for place, index in enumerate(indices):
            off = Fraction(int(jitter[place]), 10**9) + (2 if place in wrong else 0)
            points.append((int(index), true_time(int(index)) + off))
        correction = obs.correct_clock(points)
        assert set(correction.fit.outliers) >= set(wrong.tolist())
        assert len(correction.fit.outliers) <= len(wrong) + 2
        assert correction.fit.shape == "line"
        assert 25_000 < correction.fit.residual < 35_000
        assert np.flatnonzero(correction.points["outlier"]).tolist() == correction.fit.outliers
        assert np.isnan(correction.points["uncertainty_ns"]).all()
        for place in range(0, HOUR, 4999):
            time = obs.time_of(place)
            assert off_ns(time, true_time(place)) < min(20_000, stated_ns(time))

    def test_a_clock_whose_rate_changes_is_followed_in_pieces(self, store: iso.Store) -> None:
        obs = recorder(store)

        def truth(index: int) -> iso.Time:
            # 20 ppm slower in the second half.
            late = max(0, index - HOUR // 2)
            return true_time(index) + Fraction(late, 100) * Fraction(20, 10**6)

        points = [(index, truth(index)) for index in range(0, HOUR + 1, 6000)]
        correction = obs.correct_clock(points, uncertainty=100e-9)
        assert correction.fit.shape == "pieces"
        assert correction.fit.outliers == []
        assert correction.fit.line_residual > 1e6 > 100 >= correction.fit.residual
        for index in range(0, HOUR, 3571):
            time = obs.time_of(index)
            assert off_ns(time, truth(index)) <= stated_ns(time)
        line = obs.correct_clock(points, uncertainty=100e-9, shape="line")
        assert line.fit.resolution > 1e6
        assert [one.removed for one in obs.clock_corrections] == [False, False]


class TestTriggers:
    def test_pulses_that_two_recorders_share_give_one_the_clock_of_the_other(self, store: iso.Store) -> None:
        good = store.create("good", dtype="i2", rate=1000, start="2010-03-01")
        good.append(np.zeros(3_600_000, "i2"))
        good.correct_clock([(0, START), (3_600_000, START + 3600)], uncertainty=1e-6)
        obs = recorder(store)
        # Each pulse is seen at a fractional sample of the good recorder.
        pulses = range(0, HOUR, 30_000)
        pairs = [(index, Fraction(index * 10) / FAST + 500) for index in pulses]
        correction = obs.correct_clock(pairs, to=good, uncertainty=0.01)
        # A hundredth of a sample of 1 ms, and what the good clock states.
        assert correction.fit.resolution == pytest.approx(11_000, rel=1e-3)
        assert correction.points["to"].tolist() == [500 + int(Fraction(i * 10) / FAST) for i in pulses]
        for index in (0, 12_345, 350_000):
            time = obs.time_of(index)
            assert off_ns(time, true_time(index) + Fraction(1, 2)) < 1
            assert stated_ns(time) >= 10_000
        # What one selects, the other does.
        assert good.timebase is not None
        assert obs[good.timebase[500:1500]].ranges == [(0, 101)]

    def test_a_counter_is_joined_to_samples_by_pairs(self, store: iso.Store) -> None:
        obs = recorder(store)
        obs.correct_clock([(0, START), (HOUR, START + 3600)], uncertainty=0)
        graph = iso.Graph()
        shots = graph.add("shots", unit="shots")
        fit = shots.fit([(n, 500 + n * 1000) for n in range(10)], to=obs, uncertainty=0.5)
        assert (fit.shape, fit.residual, fit.outliers) == ("line", 0, [])
        assert graph.path("shots", "utc") == ["shots", "obs", "utc"]
        time = shots.time_of(3)
        assert off_ns(time, START + 35) < 1e-3
        assert stated_ns(time) == pytest.approx(5e6, rel=1e-3)
        assert obs[shots[2:4]].ranges == [(2500, 4500)]
        assert fit.rate(3) == 1000
        assert fit.uncertainty(20) > fit.uncertainty(5) > 0.5
        with pytest.raises(iso.TimeError, match="contradicts"):
            shots.fit([(0, 0), (1, 5000)], to=obs, uncertainty=0)


class TestKeptGraphs:
    def test_derived_and_fitted_timebases_come_back_with_the_store(self, tmp_path: Path) -> None:
        path = tmp_path / "sea.iso"
        with iso.open(path, "x") as store:
            obs = recorder(store)
            graph = iso.Graph()
            camera = graph.add("camera", unit="frames")
            camera.fit([(0, 500), (900, 36_500)], to=obs, uncertainty=0.5)
            camera.derive("blocks", ratio=(1, 7), offset=2, unit="blocks")
            graph.add("ticks", rate="30000/1001", start=START)
            expected = [graph[name].time_of(10) for name in ("camera", "blocks", "ticks")]
            graph.save(store)
            assert json.loads((path / "zarr.json").read_text())["attributes"]["isochrony_timebases"]
        with iso.open(path) as store:
            kept = store.graph()
            assert list(kept) == ["utc", "camera", "blocks", "ticks", "obs"]
            assert [kept[name].time_of(10) for name in ("camera", "blocks", "ticks")] == expected
            assert kept["camera"].time_of(10).uncertainty_ns == expected[0].uncertainty_ns
            assert kept["camera"].unit == "frames"
            assert store["obs"][kept["camera"][0:10]].ranges == [(500, 900)]
            with pytest.raises(iso.StoreError, match="open for reading"):
                kept.save(store)
        assert iso.verify(path)["damage"] == []
        with iso.open(path, "r+") as store:
            store.delete("obs")
            with pytest.raises(iso.StoreError, match="obs"):
                store.graph()
            with pytest.raises(iso.TimeError, match="obs"):
                graph.save(store)
            iso.Graph().save(store)
            assert list(store.graph()) == ["utc"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("points", "message"),
        [
            ([], "0 points given"),
            ([(0, "2010-03-01")], "two or more"),
            ([(100, "2010-03-01"), (0, "2010-03-02")], "point 1 is at .* sort the points"),
            ([(5, "2010-03-01"), (5, "2010-03-02")], "point 1 is at .* keep one of equal ones"),
            ([(0, "2010-03-02"), (100, "2010-03-01")], "point 0 to .* at point 1"),
            ([(0, "2010-03-01"), (float("nan"), "2010-03-02")], "point 1: .*nan.*finite"),
            ([(0, "2010-03-01"), (5, np.datetime64("NaT"))], "point 1: NaT"),
            ([(0, "2010-03-01"), (5, "noon")], "noon"),
            ([(0, "2010-03-01"), 5], "point 1 is no pair"),
            ([(0, "2010-03-01", -1), (5, "2010-03-02")], "-1000000000 of point 0 is below zero"),
        ],
    )
    def test_points_that_make_no_clock_are_named(self, store: iso.Store, points: Any, message: str) -> None:
        obs = recorder(store, samples=1000)
        with pytest.raises(iso.TimeError, match=message):
            obs.correct_clock(points, uncertainty=1e-6)
        assert obs.clock_corrections == []
        assert obs.time_of(10) == START + Fraction(1, 10)

    def test_options_out_of_range_and_clocks_that_stepped(self, store: iso.Store) -> None:
        obs = recorder(store, samples=1000)
        points = [(0, "2010-03-01"), (1000, "2010-03-01T00:00:10")]
        with pytest.raises(iso.TimeError, match="at least 5 are needed"):
            obs.correct_clock(points)
        with pytest.raises(iso.OptionError, match="shape"):
            obs.correct_clock(points, uncertainty=0, shape="curve")  # type: ignore[arg-type]
        with pytest.raises(iso.TimeError, match=r"wander=0\.5"):
            obs.correct_clock(points, uncertainty=0, wander=0.5)
        with pytest.raises(iso.OptionError, match="by itself"):
            obs.correct_clock([(0, 0), (5, 5)], to=obs, uncertainty=0)
        with pytest.raises(iso.TimeError, match="correct_clock"):
            assert obs.timebase is not None
            obs.timebase.fit(points, uncertainty=0)
        obs.append(np.zeros(1000, "i4"), at=START + 5)
        with pytest.raises(iso.StoreError, match="run 1 begins with a clock step"):
            obs.correct_clock(points, uncertainty=0)
        obs.correct_clock([(1000, START + 10), (1999, START + 20 - Fraction(1, 100))], uncertainty=0, run=1)
        assert obs.time_of(0) == START
        assert obs.time_of(1000) == START + 10
        plain = store.create("plain", dtype="i2", rate=10)
        with pytest.raises(iso.StoreError, match="civil time"):
            plain.correct_clock(points, uncertainty=0)


class TestStored:
    def test_zarr_reads_the_points(self, tmp_path: Path) -> None:
        zarr = pytest.importorskip("zarr")
        path = tmp_path / "sea.iso"
        with iso.open(path, "x") as store:
            obs = recorder(store, samples=700_000)
            obs.correct_clock([(0, true_time(0)), (HOUR, true_time(HOUR))], uncertainty=1e-6)
        array = zarr.open_array(path / "obs/timebase/corrections", mode="r")
        assert array.shape == (2, 17)
        np.testing.assert_array_equal(array[:, 0], [0, 0])
        np.testing.assert_array_equal(array[:, 7], [0, HOUR])
        np.testing.assert_array_equal(array[:, 9], [true_time(0).ns, true_time(HOUR).ns])
        np.testing.assert_array_equal(array[:, 11], [1000, 1000])
        # A signal without corrections has no such array.
        with iso.open(tmp_path / "plain.iso", "x") as store:
            recorder(store, samples=700_000)
        assert not (tmp_path / "plain.iso/obs/timebase/corrections").exists()

    @pytest.mark.parametrize("committed", [False, True])
    def test_a_writer_that_is_killed_leaves_all_of_a_correction_or_nothing(
        self, tmp_path: Path, committed: bool
    ) -> None:
        path = tmp_path / "sea.iso"
        script = f"""
import os, signal, sys
import numpy as np, isochrony as iso
store = iso.open({str(path)!r}, "x")
obs = store.create("obs", dtype="i4", rate=100, start="2010-03-01")
obs.append(np.zeros({HOUR}, "i4"))
store.commit()
points = [(i * 100, iso.Time("2010-03-01T01:00") + i) for i in range(3600)]
obs.correct_clock(points, uncertainty=1e-6)
if {committed}:
    store.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""
        ended = subprocess.run([sys.executable, "-c", script], env=os.environ, check=False)
        assert ended.returncode == -signals.SIGKILL
        with iso.open(path, "r+") as store:
            obs = store["obs"]
            assert len(obs.clock_corrections) == committed
            assert obs.time_of(100) == START + (3601 if committed else 1)
        assert iso.verify(path)["damage"] == []


class TestGaps:
    def test_a_gap_names_the_files_and_stamps_on_both_sides(self, tmp_path: Path) -> None:
        folder = tmp_path / "raw/p"
        folder.mkdir(parents=True)
        for second in (0, 10, 30):
            np.zeros(1000, "<i2").tofile(folder / f"p_{START.ns // 10**9 + second}.raw")
        with iso.open(tmp_path / "sea.iso", "x") as store:
            store.import_raw(tmp_path / "raw", layout="{sensor}/{sensor}_{epoch}.raw", dtype="<i2", rate=100)
            (gap,) = store["p"].gaps
            first = START.ns // 10**9
            assert gap.before.source == f"p/p_{first + 10}.raw"
            assert gap.after.source == f"p/p_{first + 30}.raw"
            assert (gap.before.stamp, gap.after.stamp) == (START + 10, START + 30)
            assert (gap.before.stamp_index, gap.after.stamp_index) == (1000, gap.end)
            assert gap.before.resolution == 1
            assert repr(gap.after) == f"<GapEdge p/p_{first + 30}.raw, stamped 2010-03-01T00:00:30Z>"

    def test_without_an_importer_stamps_alone_are_known(self, store: iso.Store) -> None:
        signal = store.create("p", dtype="i2", rate=100, start=START)
        signal.append(np.zeros(1000, "i2"))
        signal.append_gap(samples=10)
        signal.append(np.zeros(1000, "i2"))
        (gap,) = signal.gaps
        assert (gap.before.source, gap.after.source, gap.after.stamp) == (None, None, None)
        assert repr(gap.after) == "<GapEdge no file, no stamp>"
