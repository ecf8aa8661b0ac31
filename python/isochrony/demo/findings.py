"""What the demo finds in a store, as plain values: made by `find`, read by report and figure."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

from .position import Position

__all__ = ["Arrival", "Burst", "Findings", "Outage", "Run", "StationFindings", "Step"]


@dataclass(frozen=True, slots=True)
class Run:
    """One clock between clock steps. Civil times in ns, rates in Hz."""

    start_ns: int
    end_ns: int
    samples: int
    rate_hz: float
    rate_error_hz: float
    drift_s: tuple[tuple[float, float, float], ...] = ()
    """Clock against the nominal rate: (s after the run's start, s ahead, uncertainty in s)."""

    def ppm(self, nominal_hz: float) -> float:
        """How much faster than nominal the clock runs, in parts per million."""
        return (self.rate_hz / nominal_hz - 1.0) * 1e6

    def ppm_error(self, nominal_hz: float) -> float:
        """Uncertainty of `ppm`."""
        return self.rate_error_hz / nominal_hz * 1e6


@dataclass(frozen=True, slots=True)
class Outage:
    """A gap: civil times in ns, and its length on the index in samples."""

    start_ns: int
    end_ns: int
    samples: int


@dataclass(frozen=True, slots=True)
class Step:
    """A backward clock step: where the new run begins by its own clock, and by how much."""

    at_ns: int
    back_by_s: float


@dataclass(frozen=True, slots=True)
class Arrival:
    """Onset of a pressure drop: civil time and standard error in ns, height in the signal's unit.

    `clock_ns` is what of the error the station's clock has.
    """

    station: str
    ns: float
    error_ns: float
    drop: float
    clock_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Burst:
    """Arrivals of one front, in order of time, and where it came from, if the network is known."""

    arrivals: tuple[Arrival, ...]
    position: Position | None = None

    def delays_s(self) -> dict[tuple[str, str], float]:
        """Arrival at the second station after the first, for every pair by name."""
        by_name = sorted(self.arrivals, key=lambda arrival: arrival.station)
        return {(a.station, b.station): (b.ns - a.ns) * 1e-9 for a, b in combinations(by_name, 2)}


@dataclass(slots=True)
class StationFindings:
    """What one signal holds."""

    name: str
    signal: str
    nominal_hz: float
    unit: str
    runs: list[Run] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def samples(self) -> int:
        """Samples stored, gaps not counted."""
        return sum(run.samples for run in self.runs)

    @property
    def longest(self) -> Run:
        """The run with most samples."""
        return max(self.runs, key=lambda run: run.samples)


@dataclass(slots=True)
class Findings:
    """What a whole store holds."""

    stations: list[StationFindings]
    bursts: list[Burst] = field(default_factory=list)
