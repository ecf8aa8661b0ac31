"""Makes the demo's recordings: one hour of a water network as its loggers would store it.

What is injected, and written as truth outside the folder of recordings:

- each logger's sample clock has an offset of tens of ppm and a slow wander below
  one ppm, so 30 s of samples last 30 s only on paper;
- one logger loses power for some minutes and restarts at an arbitrary phase;
- one logger's calendar clock runs fast until its receiver locks, which steps it
  back; samples go on without a break;
- two bursts, whose fronts reach the stations at different times.

A file holds 60,000 little-endian int16 samples in mbar and is named by station
and the microsecond (floored) at which its first sample was taken, by the
station's own calendar clock. All randomness comes from one seed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .network import BURSTS, STATIONS, Burst, Station, travel_time_s

__all__ = [
    "COARSE_STATIONS",
    "HOUR_START_NS",
    "LAYOUT",
    "RATE_HZ",
    "SAMPLES_PER_FILE",
    "SampleClock",
    "StationPlan",
    "Written",
    "pressure_mbar",
    "station_plans",
    "write_recordings",
]

LAYOUT = "{station}/{sensor}/{station}_{epoch}.raw"
SENSOR = "pressure"
RATE_HZ = 2000
SAMPLES_PER_FILE = 60_000
HOUR_START_NS = 1_267_401_600_000_000_000  # 2010-03-01T00:00:00Z
HOUR_S = 3600.0
# Stations without a fault of the calendar: their files, renamed to the second,
# make the second data set.
COARSE_STATIONS = ("stn_10", "stn_13")

Float = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SampleClock:
    """When a logger takes its n-th sample, in true seconds after it was switched on.

    The frequency is ``RATE_HZ * (1 + offset_ppm/1e6)`` to first order, with a
    sinusoidal wander of `wander_ppm` over `wander_period_s`, integrated in closed
    form so that the truth is exact.
    """

    offset_ppm: float
    wander_ppm: float
    wander_period_s: float
    wander_phase: float

    def seconds(self, sample: npt.ArrayLike) -> Float:
        """True time of samples (any shape) since switching on, in s."""
        nominal = np.asarray(sample, dtype=np.float64) / RATE_HZ
        turn = 2.0 * math.pi / self.wander_period_s
        wander = np.cos(turn * nominal + self.wander_phase) - math.cos(self.wander_phase)
        drift = nominal * self.offset_ppm - self.wander_ppm / turn * wander
        return np.asarray(nominal - drift * 1e-6, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class StationPlan:
    """How one logger behaves over the hour. Times are true seconds into the hour."""

    station: Station
    clock: SampleClock
    on_s: tuple[float, ...]
    """When acquisition starts; a second entry is the restart after an outage."""
    off_s: tuple[float, ...]
    """When each acquisition ends, at the next whole file."""
    fast_by_s: float = 0.0
    """How far the calendar clock is ahead until `locks_s`."""
    locks_s: float = 0.0

    def sessions(self) -> Iterator[tuple[float, float]]:
        """Start and end of each acquisition."""
        return zip(self.on_s, self.off_s, strict=True)

    def until(self, end_s: float) -> StationPlan:
        """The same logger, switched off at `end_s`."""
        kept = [(on_s, min(off_s, end_s)) for on_s, off_s in self.sessions() if on_s < end_s]
        return replace(self, on_s=tuple(on_s for on_s, _ in kept), off_s=tuple(off_s for _, off_s in kept))


def station_plans() -> tuple[StationPlan, ...]:
    """The four loggers of the demo."""
    by_name = {station.name: station for station in STATIONS}
    return (
        StationPlan(by_name["stn_10"], SampleClock(31.7, 0.28, 2900.0, 0.4), (0.137_412,), (HOUR_S,)),
        StationPlan(
            by_name["stn_11"],
            SampleClock(-46.2, 0.35, 3300.0, 2.1),
            (0.802_955, 27 * 60 + 41.377_208),
            (23 * 60 + 5.0, HOUR_S),
        ),
        StationPlan(
            by_name["stn_12"],
            SampleClock(12.4, 0.22, 2500.0, 4.0),
            (0.456_001,),
            (HOUR_S,),
            fast_by_s=1.750,
            locks_s=6 * 60.0,
        ),
        StationPlan(by_name["stn_13"], SampleClock(-8.9, 0.31, 3600.0, 5.2), (0.021_870,), (HOUR_S,)),
    )


def front(since_s: Float, drop: float, rise_s: float, recovery_s: float) -> Float:
    """Pressure change of a burst's front, in the unit of `drop`, 0 before it arrives.

    A fast exponential fall with time constant `rise_s`, then a slow recovery to
    a third of the drop, which the network keeps losing.
    """
    after = np.maximum(since_s, 0.0)
    fall = -np.expm1(-after / rise_s)
    kept = 1.0 / 3.0 + 2.0 / 3.0 * np.exp(-after / recovery_s)
    return np.asarray(-drop * fall * kept, dtype=np.float64)


def rise_time_s(travel_s: float) -> float:
    """Time constant of a front after travelling: friction smears it, about 3 ms per s."""
    return 0.0025 + 0.003 * travel_s


def burst_drop_mbar(burst: Burst, travel_s: float) -> float:
    """Height of a front after travelling: junctions and friction take some of it."""
    return burst.drop_mbar * math.exp(-0.55 * travel_s)


@dataclass(slots=True)
class _Demand:
    """What consumers and pumps do to the pressure at one station, without bursts."""

    station: Station
    random: np.random.Generator
    _grid: Float = field(init=False)
    _tones: list[tuple[float, float, float]] = field(init=False)

    GRID_HZ = 8.0

    def __post_init__(self) -> None:
        # Consumers: a mean-reverting walk on a coarse grid, plus the slow wave of
        # an hour's demand.
        count = int(HOUR_S * self.GRID_HZ) + 16
        steps = self.random.standard_normal(count) * 1.1
        pull = 1.0 - 1.0 / (90.0 * self.GRID_HZ)
        walk = np.empty(count)
        level = 0.0
        for i, step in enumerate(steps):
            level = level * pull + step
            walk[i] = level
        time = np.arange(count) / self.GRID_HZ
        slow = 55.0 * np.sin(2 * math.pi * time / 2700.0 + self.random.uniform(0, 6.28))
        # Walks are smoothed over a second: a tap is not a hammer.
        kernel = np.hanning(int(self.GRID_HZ) + 3)
        self._grid = np.convolve(walk, kernel / kernel.sum(), mode="same") + slow
        # Pumps: shaft and blade-pass tones.
        self._tones = [
            (hz, amplitude * self.random.uniform(0.6, 1.4), self.random.uniform(0, 6.28))
            for hz, amplitude in ((24.7, 3.2), (49.4, 1.4), (148.2, 0.9))
        ]

    def mbar(self, time_s: Float) -> Float:
        total = np.interp(time_s * self.GRID_HZ, np.arange(len(self._grid)), self._grid)
        for hz, amplitude, phase in self._tones:
            total += amplitude * np.sin((2.0 * math.pi * hz) * time_s + phase)
        # Turbulence: white noise of the sensor and a part that lives below 100 Hz.
        white = self.random.standard_normal(len(time_s), dtype=np.float32)
        slow = self.random.standard_normal(len(time_s) // 10 + 2, dtype=np.float32)
        total += 2.2 * white
        total += np.interp(np.arange(len(time_s)) / 10.0, np.arange(len(slow)), 2.5 * slow)
        return total + self.station.mean_mbar


def pressure_mbar(station: Station, time_s: Float, demand: Float, bursts: Sequence[Burst] = BURSTS) -> Float:
    """Pressure at a station: demand (mbar, shape of `time_s`) and the fronts of all bursts."""
    total = demand.copy()
    for burst in bursts:
        travel = travel_time_s(burst.place, station.junction)
        arrival = burst.at_s + travel
        if time_s[-1] >= arrival:
            total += front(
                time_s - arrival,
                burst_drop_mbar(burst, travel),
                rise_time_s(travel),
                burst.recovery_s,
            )
    return total


@dataclass(frozen=True, slots=True)
class _File:
    """One file to write: its stamp in ns and the true times of its samples."""

    stamp_ns: int
    time_s: Float


def _files(plan: StationPlan) -> Iterator[_File]:
    """The files of one logger, in the order it writes them."""
    for on_s, off_s in plan.sessions():
        first = 0
        while on_s + (first + SAMPLES_PER_FILE) / RATE_HZ <= off_s + 0.5:
            time_s = on_s + plan.clock.seconds(np.arange(first, first + SAMPLES_PER_FILE))
            fast = plan.fast_by_s if time_s[0] < plan.locks_s else 0.0
            stamp_us = HOUR_START_NS // 1000 + math.floor((time_s[0] + fast) * 1e6)
            yield _File(stamp_us * 1000, time_s)
            first += SAMPLES_PER_FILE


@dataclass(frozen=True, slots=True)
class Written:
    """What was written where: folders, file and byte counts."""

    recordings: Path
    coarse: Path
    truth: Path
    files: int
    samples: int
    bytes: int


def write_recordings(
    folder: Path, seed: int = 20100301, *, bursts: Sequence[Burst] = BURSTS, seconds: float = HOUR_S
) -> Written:
    """Write recordings, the same stamped to the second, and the truth, under `folder`.

    Parameters:
        folder: existing folder; gets ``recordings/``, ``recordings-to-the-second/``
            and ``truth.json``.
        seed: of all noise. Same seed, same bytes.
        bursts: that happen; none may lie in an outage of all stations.
        seconds: of the hour that are recorded.
    """
    recordings = folder / "recordings"
    coarse = folder / "recordings-to-the-second"
    stations: dict[str, object] = {}
    files = samples = 0
    plans = [plan.until(seconds) for plan in station_plans()]
    for number, plan in enumerate(plans):
        name = plan.station.name
        demand = _Demand(plan.station, np.random.default_rng([seed, number]))
        target = recordings / name / SENSOR
        target.mkdir(parents=True, exist_ok=True)
        coarse_target = coarse / name / SENSOR
        if name in COARSE_STATIONS:
            coarse_target.mkdir(parents=True, exist_ok=True)
        for recorded in _files(plan):
            values = pressure_mbar(plan.station, recorded.time_s, demand.mbar(recorded.time_s), bursts)
            path = target / f"{name}_{recorded.stamp_ns // 1000}.raw"
            path.write_bytes(np.rint(values).astype("<i2").tobytes())
            files += 1
            samples += len(values)
            if name in COARSE_STATIONS:
                link = coarse_target / f"{name}_{recorded.stamp_ns // 1_000_000_000}.raw"
                link.unlink(missing_ok=True)
                # The same bytes under a coarser name; no second copy where links work.
                try:
                    os.link(path, link)
                except OSError:
                    link.write_bytes(path.read_bytes())
        stations[name] = _station_truth(plan)
    truth = folder / "truth.json"
    truth.write_text(json.dumps({"stations": stations, "bursts": _burst_truth(bursts)}, indent=1))
    return Written(recordings, coarse, truth, files, samples, samples * 2)


def _station_truth(plan: StationPlan) -> dict[str, object]:
    """Rates of each stretch of the sample clock, the outage and the clock step."""
    stretches = []
    for on_s, off_s in plan.sessions():
        files = 0
        while on_s + (files + 1) * SAMPLES_PER_FILE / RATE_HZ <= off_s + 0.5:
            files += 1
        firsts = np.arange(files + 1) * SAMPLES_PER_FILE
        # A calendar step divides the files into runs, as it must divide the import.
        before = int(np.sum(on_s + plan.clock.seconds(firsts[:-1]) < plan.locks_s))
        for a, b in ((0, before), (before, files)):
            if a < b:
                ends = on_s + plan.clock.seconds(firsts[[a, b]])
                stretches.append(_stretch(int(firsts[b] - firsts[a]), ends))
    truth: dict[str, object] = {"stretches": stretches}
    if plan.fast_by_s:
        truth["clock_step"] = {"back_by_s": plan.fast_by_s, "about_s": plan.locks_s}
    return truth


def _stretch(samples: int, ends: Float) -> dict[str, object]:
    """Truth about consecutive samples: `ends` are their true seconds into the hour."""
    return {
        "start_ns": HOUR_START_NS + round(float(ends[0]) * 1e9),
        "end_ns": HOUR_START_NS + round(float(ends[1]) * 1e9),
        "samples": samples,
        "rate_hz": samples / float(ends[1] - ends[0]),
    }


def _burst_truth(bursts: Sequence[Burst]) -> list[dict[str, object]]:
    """Place of every burst, and its arrival at every station in ns since 1970."""
    return [
        {
            "at_ns": HOUR_START_NS + round(burst.at_s * 1e9),
            "pipe": list(burst.pipe.ends),
            "at_m": burst.place.at_m,
            "arrivals_ns": {
                station.name: HOUR_START_NS + round((burst.at_s + travel_time_s(burst.place, station.junction)) * 1e9)
                for station in STATIONS
            },
        }
        for burst in bursts
    ]
