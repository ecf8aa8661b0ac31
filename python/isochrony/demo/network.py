"""A small water network: pipes, stations, and how a pressure front travels in it.

A burst sends a front along every pipe at that pipe's wave speed (1000 to 1250
m/s in iron and steel, less in plastic). A station hears the front that came by
the fastest path, so arrival times are shortest path times from the burst.
Nothing here knows about clocks or samples.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

__all__ = ["BURSTS", "PIPES", "STATIONS", "Burst", "Pipe", "Station", "travel_time_s"]


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


def travel_time_s(burst: Burst, junction: str) -> float:
    """Time that the front of a burst takes to a junction by the fastest path, in s.

    Returns infinity where no pipe leads there.
    """
    first, second = burst.pipe.ends
    reached: dict[str, float] = {}
    queue = [
        (burst.pipe.travel_s * burst.along, first),
        (burst.pipe.travel_s * (1.0 - burst.along), second),
    ]
    heapq.heapify(queue)
    while queue:
        time_s, here = heapq.heappop(queue)
        if here in reached:
            continue
        reached[here] = time_s
        for pipe in PIPES:
            if here in pipe.ends:
                there = pipe.ends[1] if here == pipe.ends[0] else pipe.ends[0]
                heapq.heappush(queue, (time_s + pipe.travel_s, there))
    return reached.get(junction, math.inf)
