"""Compares findings with the truth that was injected; read only after they are printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .findings import Burst, Findings, Run
from .network import PIPES, Pipe, Place, distance_m
from .synth import RATE_HZ

__all__ = [
    "ARRIVAL_LIMIT_S",
    "RATE_LIMIT_PPM",
    "ArrivalError",
    "PositionError",
    "RateError",
    "Truth",
    "allowance_m",
    "read_truth",
]

RATE_LIMIT_PPM = 1.0
ARRIVAL_LIMIT_S = 1e-3
# Both are known to better than a sample; a burst is another one if it is seconds away.
_SAME_BURST_NS = 10e9


@dataclass(frozen=True, slots=True)
class RateError:
    """A run's rate against the truth over the same samples, in ppm; `error_ppm` is what was claimed."""

    station: str
    true_ppm: float
    found_ppm: float
    error_ppm: float
    claimed_ppm: float


@dataclass(frozen=True, slots=True)
class ArrivalError:
    """The delay between two stations against the truth, in s."""

    burst: int
    stations: tuple[str, str]
    true_s: float
    error_s: float


@dataclass(frozen=True, slots=True)
class PositionError:
    """How far a burst was found from where it was, along pipes in m, and how far it may be.

    Allowed is a front's travel in one sample and in the clocks' uncertainty. `stated_m` is what was claimed, `verdict`
    what was said of it.
    """

    burst: int
    place: Place
    error_m: float
    stated_m: float
    allowed_m: float
    verdict: str


def allowance_m(pipe: Pipe, clock_s: float, rate_hz: float = RATE_HZ) -> float:
    """What a front travels in a pipe in one sample and in the uncertainty of the clocks, in m."""
    return pipe.wave_speed_m_s * (1.0 / rate_hz + clock_s)


class Truth:
    """What was injected, by its JSON file."""

    def __init__(self, injected: dict[str, Any]) -> None:
        self._stations = injected["stations"]
        self._bursts = injected["bursts"]

    @property
    def bursts(self) -> int:
        """How many bursts there were."""
        return len(self._bursts)

    def rate_errors(self, findings: Findings) -> list[RateError]:
        """Error of every run's rate."""
        errors = []
        for station in findings.stations:
            for run in station.runs:
                true_hz = self._rate(station.name, run)
                true_ppm = (true_hz / station.nominal_hz - 1.0) * 1e6
                found_ppm = run.ppm(station.nominal_hz)
                claimed = run.ppm_error(station.nominal_hz)
                errors.append(RateError(station.name, true_ppm, found_ppm, found_ppm - true_ppm, claimed))
        return errors

    def _rate(self, station: str, run: Run) -> float:
        """True rate over the stretches in a run, weighted by their samples.

        A run of a wrong calendar is displaced by its step; what overlaps most is what it holds.
        """
        weighted = total = 0.0
        for stretch in self._stations[station]["stretches"]:
            overlap = min(run.end_ns, stretch["end_ns"]) - max(run.start_ns, stretch["start_ns"])
            if overlap > 0.5 * (stretch["end_ns"] - stretch["start_ns"]):
                weighted += stretch["rate_hz"] * stretch["samples"]
                total += stretch["samples"]
        return weighted / total if total else float("nan")

    def arrival_errors(self, findings: Findings) -> list[ArrivalError]:
        """Error of every delay between two stations, for bursts that were found."""
        errors = []
        for number, injected, burst in self._found(findings):
            arrivals = injected["arrivals_ns"]
            for (a, b), delay in burst.delays_s().items():
                true = (arrivals[b] - arrivals[a]) * 1e-9
                errors.append(ArrivalError(number, (a, b), true, delay - true))
        return errors

    def position_errors(self, findings: Findings) -> list[PositionError]:
        """Error of every position, for bursts that were found and have one."""
        errors = []
        by_ends = {pipe.ends: pipe for pipe in PIPES}
        for number, injected, burst in self._found(findings):
            if (found := burst.position) is not None:
                true = Place(by_ends[tuple(injected["pipe"])], injected["at_m"])
                clock_s = max(arrival.clock_ns for arrival in burst.arrivals) * 1e-9
                allowed = allowance_m(true.pipe, clock_s)
                error = distance_m(found.place, true)
                errors.append(PositionError(number, found.place, error, found.error_m, allowed, found.verdict))
        return errors

    def _found(self, findings: Findings) -> Iterator[tuple[int, dict[str, Any], Burst]]:
        """Bursts that were injected and found: number, truth and finding."""
        for number, injected in enumerate(self._bursts):
            for burst in findings.bursts:
                if abs(burst.arrivals[0].ns - min(injected["arrivals_ns"].values())) < _SAME_BURST_NS:
                    yield number, injected, burst


def read_truth(path: Path) -> Truth:
    """Read the truth file."""
    return Truth(json.loads(path.read_text(encoding="utf-8")))
