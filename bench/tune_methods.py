"""Methods that look for a good configuration, each with as many trials as the tuner made, over a measured grid.

A method needs no runs of its own. A trial of a configuration gives one of the times that the grid was measured with,
each in turn, so it has the noise of a real run. The configuration that a method picks is rated by the median of its
times, as the tuner's is (`part_of_best`). This favours the methods: a trial of theirs is a whole run, one of the
tuner's a few windows of a running plan. DS2 and the dissertation's rule need the costs of stages: those of a run
without replicas. Methods that state nothing about links or buffers have the default size of a run, or the largest of
the grid that is not above it, rather than that of a bad start.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from tune_workloads import part_of_best

import isochrony as iso

__all__ = ["METHODS", "MeasuredGrid", "compared", "summary"]

#: Of random search, whose luck differs.
DRAWS = 20
#: See `coordinates`.
Point = tuple[int, ...]


class OutOfTrialsError(Exception):
    """All trials are used."""


@dataclass(frozen=True)
class MeasuredGrid:
    """Every configuration of a workload, with the times of its runs.

    Attributes:
        times: of each configuration, in seconds.
        costs: of each stage for the same work, in any unit; one for what has no stages.
        cores: of the machine.
        best: the configuration that others are compared with.
        default_bytes: capacity of links, or size of buffers, of a run that states none.
    """

    times: dict[iso.Configuration, list[float]]
    costs: tuple[float, ...]
    cores: int
    best: iso.Configuration
    default_bytes: int

    def points(self) -> dict[Point, list[float]]:
        """Times by coordinates: threads, replicas of each stage, and capacity of links or size of buffers."""
        return {coordinates(one): times for one, times in self.times.items()}


def coordinates(one: iso.Configuration) -> Point:
    """Threads, replicas of each stage, and capacity of links or size of buffers."""
    return (one.workers, *one.replicas, one.link_bytes[0] if one.link_bytes else one.buffer_bytes)


class Trials:
    """Gives a limited number of measured times, those of each configuration in turn; remembers the fastest one."""

    def __init__(self, points: dict[Point, list[float]], start: Point, count: int) -> None:
        self._times = {point: cycle(times) for point, times in points.items()}
        self._left = count
        self.best = start
        self.best_s = math.inf

    def seconds(self, point: Point) -> float:
        """The time of one run.

        Raises:
            OutOfTrialsError: no trial is left.
        """
        if self._left == 0:
            raise OutOfTrialsError
        self._left -= 1
        return next(self._times[point])

    def gains(self, point: Point) -> bool:
        """Whether one run is faster than the fastest so far, which it then is."""
        seconds = self.seconds(point)
        if seconds >= self.best_s:
            return False
        self.best, self.best_s = point, seconds
        return True


class ConfigurationSpace:
    """The values of each coordinate of a grid, and moves within it.

    Raises:
        ValueError: costs of other stages than the grid's.
    """

    def __init__(self, grid: MeasuredGrid, points: dict[Point, list[float]]) -> None:
        self.axes = [sorted(set(axis)) for axis in zip(*points, strict=True)]
        self.points = list(points)
        self.costs, self.cores, self.default_bytes = grid.costs, grid.cores, grid.default_bytes
        stages = len(self.axes) - 2
        if len(grid.costs) != max(stages, 1):
            raise ValueError(f"{len(grid.costs)} costs for {stages} stages; give one for each, or one without stages")
        #: Coordinates of the number of threads for a stage: its replicas, or the workers of what has no stages.
        self.stages = range(1, 1 + stages) if stages else range(1)

    def within(self, point: Point) -> Point:
        """Each coordinate at the largest value that is not above it."""
        at = zip(point, self.axes, strict=True)
        return tuple(max((value for value in axis if value <= one), default=axis[0]) for one, axis in at)

    def with_threads(self, workers: int, replicas: Callable[[int], int]) -> Point:
        """That many workers and replicas of each stage, as far as the grid has them, with links of the default size."""
        changed = [workers, *(axis[0] for axis in self.axes[1:-1]), self.default_bytes]
        for nth, at in enumerate(self.stages):
            changed[at] = replicas(nth) if at else workers
        return self.within(tuple(changed))

    def step(self, point: Point, at: int, by: int) -> Point | None:
        """The neighbour on an axis; None at its end."""
        axis = self.axes[at]
        to = axis.index(point[at]) + by
        return (*point[:at], axis[to], *point[at + 1 :]) if 0 <= to < len(axis) else None


@dataclass
class Search:
    """What a method looks for a configuration with."""

    space: ConfigurationSpace
    trials: Trials
    start: Point
    chance: random.Random


def start(search: Search) -> Point:
    """No other."""
    return search.start


def all_ones(search: Search) -> Point:
    """One thread and one replica of each stage."""
    return search.space.with_threads(1, lambda _: 1)


def all_cores(search: Search) -> Point:
    """A thread for each core, and as many replicas as there may be."""
    cores = search.space.cores
    return search.space.with_threads(cores, lambda _: cores)


def random_search(search: Search) -> Point:
    """The fastest of configurations drawn with equal chance."""
    search.trials.gains(search.start)
    while True:
        search.trials.gains(search.chance.choice(search.space.points))


def hill_climbing(search: Search) -> Point:
    """Steps of one value at a time, up or down, kept if they are faster; ends where none is."""
    space, trials = search.space, search.trials
    trials.gains(search.start)
    has_gained = True
    while has_gained:
        has_gained = False
        for at in range(len(space.axes)):
            for by in (1, -1):
                to = space.step(trials.best, at, by)
                has_gained |= to is not None and trials.gains(to)
    return trials.best


def ds2(search: Search) -> Point:
    """Replicas for the throughput of all cores, by the true rate of each stage (V. Kalavri et al., OSDI 2018)."""
    space, costs = search.space, search.space.costs
    most = [space.axes[at][-1] for at in space.stages]
    target = min(min(one / cost for one, cost in zip(most, costs, strict=True)), space.cores / sum(costs))
    # The small number: 3.0000000001 replicas are 3.
    return space.with_threads(space.cores, lambda nth: math.ceil(target * costs[nth] - 1e-9))


def dissertation(search: Search) -> Point:
    """One more replica for the busiest stage while that is faster (J. C. Beard, 2015)."""
    space, trials, first = search.space, search.trials, search.start
    has_replicas = space.stages[0] > 0
    trials.gains(space.with_threads(space.cores if has_replicas else first[0], lambda nth: first[space.stages[nth]]))
    while True:
        steps = {at: space.step(trials.best, at, 1) for at in space.stages}
        shares = {
            at: space.costs[nth] / trials.best[at] for nth, at in enumerate(space.stages) if steps[at] is not None
        }
        if not shares:
            return trials.best
        to = steps[max(shares, key=lambda at: shares[at])]
        if to is None or not trials.gains(to):
            return trials.best


#: By name: the configuration that a method picks.
METHODS: dict[str, Callable[[Search], Point]] = {
    "start": start,
    "all ones": all_ones,
    "all cores": all_cores,
    "random search": random_search,
    "hill climbing": hill_climbing,
    "DS2": ds2,
    "dissertation": dissertation,
}


def compared(grid: MeasuredGrid, first: iso.Configuration, trials: int) -> dict[str, list[float]]:
    """The part of the best configuration that each method reaches from a start; of random search, of each draw.

    Parameters:
        trials: runs that a method may make, the first of the start included.
    """
    points = grid.points()
    best = coordinates(grid.best)
    reached: dict[str, list[float]] = {}
    for name, method in METHODS.items():
        for seed in range(DRAWS if name == "random search" else 1):
            budget = Trials(points, coordinates(first), max(trials, 1))
            try:
                picked = method(
                    Search(ConfigurationSpace(grid, points), budget, coordinates(first), random.Random(seed))
                )
            except OutOfTrialsError:
                picked = budget.best
            reached.setdefault(name, []).append(part_of_best(points, best, picked))
    return reached


def summary(compared: list[dict[str, list[float]]], controller: list[float]) -> list[dict[str, Any]]:
    """Geometric mean and worst decile of each method over all starts; of the tuner, of its real runs."""
    parts = {name: [part for one in compared for part in one[name]] for name in METHODS} | {"controller": controller}
    return [
        {
            "method": name,
            "geometric_mean": math.exp(sum(map(math.log, all_parts)) / len(all_parts)),
            "worst_decile": sorted(all_parts)[round(0.1 * (len(all_parts) - 1))],
            "worst": min(all_parts),
        }
        for name, all_parts in parts.items()
        if all_parts
    ]
