"""Every real recording imports, and what is read back is what its own readers say."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import obspy
import pytest
import soundfile

import isochrony as iso
from isochrony.demo.own import phase_groups, run_own


@pytest.fixture(scope="module")
def event(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any]]:
    """The seismic folder in a store: the volcano file and the station table."""
    path = tmp_path_factory.mktemp("event") / "event.iso"
    with iso.open(path, mode="x") as store:
        summary = iso.import_files(store, recordings / "seismic")
    return iso.open(path), dict(summary)


def test_the_volcano_gives_66_signals_and_the_station_table_is_refused(event: tuple[Any, dict[str, Any]]) -> None:
    store, summary = event
    assert len(store) == len(summary["signals"]) == 66
    ((path, reason),) = summary["problems"]
    assert path.endswith("stations-classic.csv")
    assert "not a recording" in reason
    assert all(one["gaps"] == 0 and one["runs"] == 1 for one in summary["signals"])


def test_samples_and_times_are_those_of_obspy(event: tuple[Any, dict[str, Any]], volcano: Path) -> None:
    store, _ = event
    for trace in obspy.read(volcano):
        stats = trace.stats
        signal = store["/".join((stats.network, stats.station, stats.location or "--", stats.channel))]
        assert np.array_equal(np.asarray(signal.counts[:]), trace.data)
        assert signal.sample_count == stats.npts
        assert float(signal.rate) == stats.sampling_rate
        for index in (0, stats.npts // 2, stats.npts - 1):
            theirs = (stats.starttime + index / stats.sampling_rate).ns
            assert abs(signal.time_of(index).ns - theirs) <= 1_000
            assert signal.index_of(signal.time_of(index)) == index


def test_the_two_clock_groups_are_told_apart_by_time_not_by_index(event: tuple[Any, dict[str, Any]]) -> None:
    store, _ = event
    groups = phase_groups(store.values())
    assert sorted(phase for _, phase in groups) == [0, 8300]
    assert sum(map(len, groups.values())) == 66


@pytest.mark.parametrize("index", [0, 1, 1000, 2999])
def test_differences_between_stations_are_those_of_obspys_start_times(
    event: tuple[Any, dict[str, Any]], volcano: Path, index: int
) -> None:
    store, _ = event
    starts_ns = {
        "/".join((trace.stats.network, trace.stats.station, trace.stats.location or "--", trace.stats.channel)): (
            trace.stats.starttime.ns
        )
        for trace in obspy.read(volcano)
    }
    period_ns = 10_000_000
    one = "YA/UV05/00/HHZ"
    seen = set()
    for other, other_start in starts_ns.items():
        # Index by one clock, to civil time, to index by the other clock, and back to civil time.
        time = store[one].time_of(index)
        nearest = store[other].index_of(time, round="nearest")
        apart_ns = store[other].time_of(nearest).ns - time.ns
        theirs_ns = starts_ns[one] + index * period_ns
        # Also before the first sample, where its clock is carried on: index -1.
        expected = round((theirs_ns - other_start) / period_ns)
        assert nearest == expected
        assert abs(apart_ns - (other_start + expected * period_ns - theirs_ns)) <= 1_000
        seen.add(round(apart_ns, -5))
        # The same the other way round, with the sign changed.
        assert store[one].index_of(store[other].time_of(nearest), round="nearest") == index
    # The second group samples 8.3 ms after the first one, which is 1.7 ms before its next sample.
    assert seen == {0, -1_700_000}


def test_importing_again_changes_nothing(event: tuple[Any, dict[str, Any]], recordings: Path, tmp_path: Path) -> None:
    path = tmp_path / "twice.iso"
    for again in range(2):
        with iso.open(path, mode="a") as store:
            summary = iso.import_files(store, recordings / "seismic")
            assert (summary["files"], summary["skipped"]) == ((0, 1) if again else (1, 0))
    first, _ = event
    second = iso.open(path)
    assert Counter(s.sample_count for s in second.values()) == Counter(s.sample_count for s in first.values())


def test_every_spoken_digit_reads_back(recordings: Path, tmp_path: Path) -> None:
    path = tmp_path / "speech.iso"
    with iso.open(path, mode="x") as store:
        summary = iso.import_files(store, recordings / "speech")
    assert not summary["problems"]
    store = iso.open(path)
    assert len(store) == 90
    for signal in store.values():
        expected, rate = soundfile.read(recordings / "speech" / f"{signal.name}.wav", dtype="int16")
        assert np.array_equal(np.asarray(signal.counts[:]), expected)
        assert float(signal.rate) == rate
        assert signal.runs()[0].start_time is None


def test_the_demo_runs_on_ones_own_files(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Without the odd files, which are of all years.
    own = tmp_path / "own"
    for name in ("seismic", "speech"):
        shutil.copytree(recordings / name, own / name)
    assert run_own(own, tmp_path / "out") == 1
    said = capsys.readouterr().out
    assert "156 signals" in said
    assert "2 groups of sample clocks" in said
    assert "stations-classic.csv: is a table of 3 rows" in said
    assert "90 signals know no civil time" in said
    assert "66 runs at 100 Hz: each is at its nominal rate within its uncertainty" in said
    assert "sample 1501 of YA/UV01/00/HHE and the nearest of YA/FJS/00/HHE, 1500, are -1.700 ms apart" in said
    # Three shocks, as one sees them in the picture; emergent onsets are not timed everywhere.
    assert [int(heard) >= 7 for heard in re.findall(r"event \d: heard by (\d+) of 21 stations", said)] == [True] * 3
    assert (tmp_path / "out" / "own.png").stat().st_size > 10_000
