"""A small water network: pipes, stations, and how a pressure front travels in it.

A burst sends a front along every pipe at that pipe's wave speed (1000 to 1250
m/s in iron and steel, less in plastic). A station hears the front that came by
the fastest path, so arrival times are shortest path times from the burst.
Nothing here knows about clocks or samples.

Junctions are points of a plan in m. Pipes are straight, and their lengths are those
of the plan to a metre: a map needs no other drawing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

__all__ = [
    "BURSTS",
    "JUNCTIONS_M",
    "PIPES",
    "STATIONS",
    "Burst",
    "Pipe",
    "Place",
    "Station",
    "distance_m",
    "shortest",
    "travel_time_s",
]


@dataclass(frozen=True, slots=True)
class Pipe:
    """A pipe between two junctions: length in m, wave speed in m/s."""

    ends: tuple[str, str]
    length_m: float
    wave_speed_m_s: float

    @property
    def travel_s(self) -> float:
        """Time of a front from one end to the other, in s."""
        return self.length_m / self.wave_speed_m_s


@dataclass(frozen=True, slots=True)
class Place:
    """A point of a pipe, so many m from its first end."""

    pipe: Pipe
    at_m: float

    def __str__(self) -> str:
        first, second = self.pipe.ends
        return f"{first}-{second}, {self.at_m:.1f} m from {first}"


@dataclass(frozen=True, slots=True)
class Station:
    """A pressure logger at a junction; `mean_mbar` is the static pressure there."""

    name: str
    junction: str
    mean_mbar: float


@dataclass(frozen=True, slots=True)
class Burst:
    """A pipe that breaks `at_s` seconds into the hour, `along` (0 to 1) its first end."""

    pipe: Pipe
    along: float
    at_s: float
    drop_mbar: float
    recovery_s: float

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.pipe, self.along * self.pipe.length_m)


PIPES = (
    Pipe(("reservoir", "mill"), 640.0, 1180.0),
    Pipe(("mill", "square"), 420.0, 1040.0),
    Pipe(("square", "school"), 310.0, 1040.0),
    Pipe(("mill", "bridge"), 530.0, 1120.0),
    Pipe(("bridge", "school"), 460.0, 985.0),
    Pipe(("bridge", "harbour"), 780.0, 1210.0),
)

STATIONS = (
    Station("stn_10", "mill", 5150.0),
    Station("stn_11", "school", 4620.0),
    Station("stn_12", "bridge", 4880.0),
    Station("stn_13", "harbour", 5430.0),
)

BURSTS = (
    Burst(PIPES[1], 0.35, at_s=14 * 60 + 22.618_340, drop_mbar=310.0, recovery_s=38.0),
    Burst(PIPES[5], 0.60, at_s=46 * 60 + 51.204_915, drop_mbar=420.0, recovery_s=55.0),
)


JUNCTIONS_M = {
    "reservoir": (-620.0, 159.0),
    "mill": (0.0, 0.0),
    "square": (120.0, 402.5),
    "school": (426.5, 448.2),
    "bridge": (530.0, 0.0),
    "harbour": (1270.0, -246.0),
}


def shortest(starts: Mapping[str, float], pipes: Iterable[Pipe], cost: Callable[[Pipe], float]) -> dict[str, float]:
    """Least cost of a path to every junction that can be reached (Dijkstra).

    Parameters:
        starts: junctions at which paths begin, and what it costs to be there.
        pipes: of the network.
        cost: of a whole pipe, from 0.
    """
    around: dict[str, list[tuple[str, float]]] = {}
    for pipe in pipes:
        first, second = pipe.ends
        around.setdefault(first, []).append((second, cost(pipe)))
        around.setdefault(second, []).append((first, cost(pipe)))
    reached: dict[str, float] = {}
    queue = [(spent, junction) for junction, spent in starts.items()]
    heapq.heapify(queue)
    while queue:
        spent, here = heapq.heappop(queue)
        if here not in reached:
            reached[here] = spent
            for there, more in around.get(here, ()):
                heapq.heappush(queue, (spent + more, there))
    return reached


def travel_time_s(place: Place, junction: str) -> float:
    """Time that a front from a place takes to a junction by the fastest path, in s.

    Returns infinity where no pipe leads there.
    """
    first, second = place.pipe.ends
    along_s = place.at_m / place.pipe.wave_speed_m_s
    starts = {first: along_s, second: place.pipe.travel_s - along_s}
    return shortest(starts, PIPES, lambda pipe: pipe.travel_s).get(junction, math.inf)


def distance_m(a: Place, b: Place, pipes: Iterable[Pipe] = PIPES) -> float:
    """Length of the shortest way along pipes between two places, in m; infinity where there is none."""
    first, second = a.pipe.ends
    starts = {first: a.at_m, second: a.pipe.length_m - a.at_m}
    to = shortest(starts, pipes, lambda pipe: pipe.length_m)
    first, second = b.pipe.ends
    around = min(to.get(first, math.inf) + b.at_m, to.get(second, math.inf) + b.pipe.length_m - b.at_m)
    return min(around, abs(a.at_m - b.at_m)) if a.pipe == b.pipe else around
