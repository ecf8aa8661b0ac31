from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isochrony.demo import synth
from isochrony.demo.network import BURSTS, PIPES, STATIONS, travel_time_s
from isochrony.demo.synth import HOUR_START_NS, SAMPLES_PER_FILE, SampleClock, station_plans, write_recordings

clocks = st.builds(
    SampleClock,
    st.floats(-100, 100),
    st.floats(0, 0.5),
    st.floats(1000, 5000),
    st.floats(0, 6.3),
)


@given(clocks, st.integers(0, 7_000_000))
def test_a_sample_clock_runs_at_its_offset_and_wander(clock: SampleClock, sample: int) -> None:
    # The derivative of the closed form against the stated frequency, over a second.
    lasts = float(clock.seconds(sample + 2000) - clock.seconds(sample))
    ppm = (1.0 - lasts) * 1e6
    turn = 2 * math.pi / clock.wander_period_s
    wander = clock.wander_ppm * math.sin(turn * (sample / 2000 + 0.5) + clock.wander_phase)
    assert ppm == pytest.approx(clock.offset_ppm + wander, abs=2e-3)
    assert clock.seconds(0) == 0


def test_fronts_take_the_fastest_path() -> None:
    def all_paths(here: str, there: str, seen: frozenset[str]) -> list[float]:
        if here == there:
            return [0.0]
        found = []
        for pipe in PIPES:
            if here in pipe.ends:
                end = pipe.ends[1] if here == pipe.ends[0] else pipe.ends[0]
                if end not in seen:
                    found += [pipe.travel_s + rest for rest in all_paths(end, there, seen | {end})]
        return found

    for burst in BURSTS:
        for station in STATIONS:
            shortest = min(
                burst.pipe.travel_s * part + rest
                for end, part in zip(burst.pipe.ends, (burst.along, 1 - burst.along), strict=True)
                for rest in all_paths(end, station.junction, frozenset({end}))
            )
            assert travel_time_s(burst.place, station.junction) == pytest.approx(shortest)
    assert travel_time_s(BURSTS[0].place, "nowhere") == math.inf


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_recordings(folder)
    return folder


def stamps(written: Path, station: str) -> list[int]:
    found = [int(path.stem.rpartition("_")[2]) for path in (written / "recordings" / station / "pressure").iterdir()]
    return sorted(found)


def test_files_are_half_minutes_named_by_microsecond(written: Path) -> None:
    for plan in station_plans():
        folder = written / "recordings" / plan.station.name / "pressure"
        for path in folder.iterdir():
            assert path.stat().st_size == 2 * SAMPLES_PER_FILE
            assert len(path.stem.rpartition("_")[2]) == 16


def test_stamps_drift_as_the_truth_says(written: Path) -> None:
    truth = json.loads((written / "truth.json").read_text())
    (stretch,) = truth["stations"]["stn_10"]["stretches"]
    found = stamps(written, "stn_10")
    # Drifting by microseconds each file, so the last is many off the nominal grid.
    assert abs((found[-1] - found[0]) - 30_000_000 * (len(found) - 1)) > 100_000
    span_s = (found[-1] - found[0]) * 1e-6
    rate = SAMPLES_PER_FILE * (len(found) - 1) / span_s
    assert rate == pytest.approx(stretch["rate_hz"], rel=3e-9)
    assert found[0] * 1000 == stretch["start_ns"] // 1000 * 1000


def test_one_station_has_an_outage_and_one_a_backward_step(written: Path) -> None:
    outage = np.diff(stamps(written, "stn_11"))
    assert np.sum(outage > 31_000_000) == 1
    plan = next(one for one in station_plans() if one.station.name == "stn_12")
    order = [file.stamp_ns for file in synth._files(plan)]
    steps = np.diff(order) * 1e-9
    assert np.sum(steps < 29) == 1
    assert steps.min() == pytest.approx(30 - plan.fast_by_s, abs=0.01)


def test_the_truth_lies_outside_the_imported_folder(written: Path) -> None:
    assert not list((written / "recordings").rglob("*.json"))
    assert (written / "truth.json").exists()


def test_the_coarse_set_holds_the_same_samples(written: Path) -> None:
    for station in synth.COARSE_STATIONS:
        fine = sorted((written / "recordings" / station / "pressure").iterdir())
        coarse = sorted((written / "recordings-to-the-second" / station / "pressure").iterdir())
        assert len(fine) == len(coarse)
        for a, b in zip(fine, coarse, strict=True):
            assert int(a.stem[-16:]) // 1_000_000 == int(b.stem[-10:])
            assert a.stat().st_ino == b.stat().st_ino or a.read_bytes() == b.read_bytes()


def test_the_same_seed_makes_the_same_bytes(written: Path, tmp_path: Path) -> None:
    write_recordings(tmp_path)
    name = next((written / "recordings" / "stn_13" / "pressure").iterdir()).name
    first, second = (root / "recordings" / "stn_13" / "pressure" / name for root in (written, tmp_path))
    assert first.read_bytes() == second.read_bytes()


def test_bursts_arrive_after_they_began_and_inside_the_hour(written: Path) -> None:
    for burst in json.loads((written / "truth.json").read_text())["bursts"]:
        for arrival in burst["arrivals_ns"].values():
            assert burst["at_ns"] < arrival < HOUR_START_NS + 3600 * 10**9
