"""Simulates links between stages, and what a running plan would have measured on them.

`train_trust.py` makes its data with it. Every row is one link: a writer, a bounded link and a reader, alone or in a
chain of three stages. All rows of a topology advance together, item by item: one item costs about 30 NumPy calls,
however many rows there are.

Times are in units of the reader's nominal service time. The writer keeps a finished item until the link has a free
slot; the reader takes an item out of the link when it starts on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FAMILIES = ("deterministic", "exponential", "erlang", "bimodal", "lognormal", "heavy_tailed")
TOPOLOGIES = ("single", "behind_a_stage", "before_a_stage")

#: The true values are known at these multiples of the capacity that was measured.
CAPACITY_FACTORS = (0.5, 1.0, 2.0)
MAX_CAPACITY = 128
#: Slots of the ring of start times: the largest capacity at which the truth is known.
RING = 2 * MAX_CAPACITY

WARM_UP = 4_000
MIN_WINDOW, MAX_WINDOW = 500, 16_000
#: Longest time, in means, that a heavy-tailed distribution gives.
LONGEST = 200.0
BLOCK = 250


@dataclass(frozen=True)
class Times:
    """Times of one stage in every row: a family with two parameters and a mean, and noise of execution."""

    family: NDArray[np.int64]
    #: Number of phases, share of long items, squared coefficient of variation, or exponent of the tail.
    shape: Array
    #: Long item divided by short item (bimodal).
    ratio: Array
    mean: Array
    #: 0: none; else width of the modified Levy distribution relative to the dissertation's regression.
    noise: Array

    @classmethod
    def random(cls, rng: np.random.Generator, families: NDArray[np.int64], mean: Array) -> Times:
        """Random parameters for rows with given families and means; half of the rows have noise."""
        rows = len(families)
        uniform = rng.random(rows)
        shapes = {
            "deterministic": np.ones(rows),
            "exponential": np.ones(rows),
            "erlang": np.floor(2 + 7 * uniform),
            "bimodal": 0.02 * 25.0**uniform,
            "lognormal": 0.05 * 80.0**uniform,
            "heavy_tailed": 2.1 + 0.9 * uniform,
        }
        shape = np.choose(families, [shapes[name] for name in FAMILIES])
        ratio = 2.0 * 15.0 ** rng.random(rows)
        noise = np.where(rng.random(rows) < 0.5, 0.5 + rng.random(rows), 0.0)
        return cls(families, shape, ratio, mean, noise)

    def draw(self, rng: np.random.Generator, items: int) -> Array:
        """Times of `items` items, shape (items, rows)."""
        drawn = np.empty((items, len(self.family)))
        for number, name in enumerate(FAMILIES):
            rows = np.flatnonzero(self.family == number)
            if len(rows):
                drawn[:, rows] = _unit_times(rng, name, items, self.shape[rows], self.ratio[rows])
        rows = np.flatnonzero(self.noise)
        if len(rows):
            drawn[:, rows] = np.maximum(drawn[:, rows] + _levy_noise(rng, items, self.noise[rows]), 0.01)
        return drawn * self.mean


def _unit_times(rng: np.random.Generator, name: str, items: int, shape: Array, ratio: Array) -> Array:
    """Times with mean 1."""
    size = (items, len(shape))
    match name:
        case "deterministic":
            return np.ones(size)
        case "exponential":
            return rng.standard_exponential(size)
        case "erlang":
            return rng.standard_gamma(np.broadcast_to(shape, size)) / shape
        case "bimodal":
            short = 1.0 / (1.0 - shape + shape * ratio)
            return np.where(rng.random(size) < shape, ratio * short, short)
        case "lognormal":
            variance = np.log1p(shape)
            return np.exp(np.sqrt(variance) * rng.standard_normal(size) - variance / 2.0)
        case _:
            lomax = np.expm1(rng.standard_exponential(size) / shape) * (shape - 1.0)
            return np.minimum(lomax, LONGEST)


def _levy_noise(rng: np.random.Generator, items: int, width: Array) -> Array:
    """Modified Levy noise of kernels with nominal time 1 (dissertation, eqs. 5.7, sharing neglected), mean removed.

    A Levy variable is its scale divided by the square of a normal one; the upper end of the support is kept by drawing
    again.
    """
    location, scale, upper = -0.220, 0.007, 0.742
    least = np.sqrt(scale / (upper - location))
    normal = rng.standard_normal((items, len(width)))
    while len(low := np.flatnonzero(np.abs(normal.ravel()) < least)):
        normal.ravel()[low] = rng.standard_normal(len(low))
    # Mean of 1 / normal² where |normal| is at least `least`: by parts, with the normal density and tail.
    density = np.exp(-(least**2) / 2.0) / np.sqrt(2.0 * np.pi)
    tail = 0.5 - _normal_below(least)
    mean = scale * (density / least - tail) / tail
    return width * (scale / normal**2 - mean)


def _normal_below(x: float) -> float:
    """Probability that a normal variable is between 0 and a small `x`."""
    return float((x - x**3 / 6.0 + x**5 / 40.0 - x**7 / 336.0) / np.sqrt(2.0 * np.pi))


@dataclass(frozen=True)
class Links:
    """Links of one topology, before they are simulated."""

    topology: str
    source: Times
    #: The stage between the source and the last one; the reader of the first link.
    middle: Times
    last: Times
    capacity: NDArray[np.int64]
    #: Of the link that is not observed.
    other_capacity: NDArray[np.int64]
    #: Items of the measured window.
    window: NDArray[np.int64]

    @property
    def observes_second(self) -> bool:
        """Whether the observed link is the one into the last stage."""
        return self.topology == "behind_a_stage"

    @classmethod
    def random(
        cls, rng: np.random.Generator, topology: str, writers: NDArray[np.int64], readers: NDArray[np.int64]
    ) -> Links:
        """Random links whose writer and reader have the given families; the third stage has the writer's."""
        rows = len(writers)
        interval = 1.0 / rng.uniform(0.05, 0.98, rows)
        one = np.ones(rows)
        capacity = np.floor(2.0 * (MAX_CAPACITY / 2.0) ** rng.random(rows)).astype(np.int64)
        other = np.floor(2.0 * 16.0 ** rng.random(rows)).astype(np.int64)
        window = np.floor(MIN_WINDOW * (MAX_WINDOW / MIN_WINDOW) ** rng.random(rows)).astype(np.int64)
        if topology == "behind_a_stage":
            # The writer is as busy as `load` and waits for input for the rest of the time.
            load = rng.uniform(0.2, 0.95, rows)
            source = Times.random(rng, writers, interval)
            middle = Times.random(rng, writers, load * interval)
            last = Times.random(rng, readers, one)
        else:
            # Above 1 the stage behind the reader is the slowest of the three.
            load = rng.uniform(0.2, 1.1, rows) if topology == "before_a_stage" else np.zeros(rows)
            source = Times.random(rng, writers, interval)
            middle = Times.random(rng, readers, one)
            last = Times.random(rng, writers, load * interval)
        return cls(topology, source, middle, last, capacity, other, window)

    def capacities(self) -> NDArray[np.int64]:
        """Capacities at which the truth is known, shape (3, rows)."""
        factors = np.array(CAPACITY_FACTORS)[:, None]
        return np.maximum(np.floor(factors * self.capacity), 1).astype(np.int64)


@dataclass(frozen=True)
class Outcome:
    """What a simulation found."""

    #: Name to one value a row: what a plan measures in the window.
    measured: dict[str, Array]
    #: Sends by eighths of the capacity that were full, shape (rows, 9).
    occupancy: NDArray[np.int64]
    #: Items a second in the long run, by factor of the capacity, shape (3, rows).
    throughput: Array
    #: Mean items in the link in the long run, shape (3, rows).
    mean_items: Array


class _Window:
    """Sums over the items of the measured window; windows of different rows have different lengths."""

    NAMES = ("interarrival", "interarrival2", "service", "service2", "writer_wait", "reader_wait", "output_wait")

    def __init__(self, window: NDArray[np.int64]) -> None:
        self.window = window
        rows = len(window)
        self.sums = {name: np.zeros(rows) for name in self.NAMES}
        self.ends = np.zeros((int(window.max()), rows))
        self.starts = np.zeros((int(window.max()), rows))

    def add(self, number: int, values: dict[str, Array], end: Array, start: Array) -> None:
        inside = number < self.window
        for name, value in values.items():
            self.sums[name] += np.where(inside, value, 0.0)
        self.ends[number] = end
        self.starts[number] = start

    def measured(self) -> dict[str, Array]:
        sums, count = self.sums, self.window
        interarrival, service = sums["interarrival"] / count, sums["service"] / count

        def variation(squares: Array, mean: Array) -> Array:
            return np.sqrt(np.maximum(squares / count - mean**2, 0.0)) / mean

        writer = sums["interarrival"] + sums["writer_wait"]
        reader = sums["service"] + sums["reader_wait"] + sums["output_wait"]
        return {
            "interarrival_s": interarrival,
            "interarrival_cv": variation(sums["interarrival2"], interarrival),
            "service_s": service,
            "service_cv": variation(sums["service2"], service),
            "writer_wait_share": sums["writer_wait"] / writer,
            "reader_wait_share": sums["reader_wait"] / reader,
            "reader_output_wait_share": sums["output_wait"] / reader,
        }

    def occupancy(self, capacity: NDArray[np.int64], earlier: Array) -> NDArray[np.int64]:
        """Eighths that were full when the writer finished an item; `earlier`: starts of items before the window."""
        counts = np.zeros((len(self.window), 9), np.int64)
        for row, count in enumerate(self.window):
            starts = np.concatenate([np.sort(earlier[:, row]), self.starts[:count, row]])
            # Items that entered before this one less those that were taken out by then.
            taken = np.searchsorted(starts, self.ends[:count, row], side="right")
            # It may itself be taken at once.
            waiting = np.maximum(len(earlier) + np.arange(count) - taken, 0)
            counts[row] = np.bincount(8 * waiting // capacity[row], minlength=9)
        return counts


def simulate(rng: np.random.Generator, links: Links, items: int) -> Outcome:
    """Runs all links for `items` items after warm-up and the longest window."""
    rows = len(links.capacity)
    shape = (len(CAPACITY_FACTORS), rows)
    observed = links.capacities()
    other = np.broadcast_to(links.other_capacity, shape)
    first_capacity, second_capacity = (other, observed) if links.observes_second else (observed, other)
    rings = [np.zeros((RING, *shape)), np.zeros((RING, *shape))]
    columns = np.arange(observed.size).reshape(shape)
    source_out, middle_out, last_out = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    window = _Window(links.window)
    longest = int(links.window.max())
    waited, began = np.zeros(shape), np.zeros(shape)
    earlier = np.zeros((RING - 1, rows))
    for number in range(WARM_UP + longest + items):
        if number % BLOCK == 0:
            draws = [times.draw(rng, BLOCK) for times in (links.source, links.middle, links.last)]
        source_time, middle_time, last_time = (drawn[number % BLOCK] for drawn in draws)
        before_source, before_middle, before_last = source_out, middle_out, last_out
        source_end = source_out + source_time
        room = rings[0].ravel().take((number - first_capacity) % RING * observed.size + columns)
        source_out = np.maximum(source_end, room)
        middle_start = np.maximum(source_out, middle_out)
        rings[0][number % RING] = middle_start
        middle_end = middle_start + middle_time
        room = rings[1].ravel().take((number - second_capacity) % RING * observed.size + columns)
        middle_out = np.maximum(middle_end, room)
        last_start = np.maximum(middle_out, last_out)
        rings[1][number % RING] = last_start
        last_out = last_start + last_time

        if number < WARM_UP:
            continue
        if links.observes_second:
            writer_before, writer_end, writer_out = before_middle, middle_end, middle_out
            reader_before, reader_start, reader_time = before_last, last_start, last_time
            reader_end = reader_out = last_out
            ring = rings[1]
        else:
            writer_before, writer_end, writer_out = before_source, source_end, source_out
            reader_before, reader_start, reader_time = before_middle, middle_start, middle_time
            reader_end, reader_out = middle_end, middle_out
            ring = rings[0]
        position = number - WARM_UP
        if position < longest:
            interarrival = writer_end[1] - writer_before[1]
            if position == 0:
                earlier = np.delete(ring[:, 1], number % RING, axis=0)
            values = {
                "interarrival": interarrival,
                "interarrival2": interarrival**2,
                "service": reader_time,
                "service2": reader_time**2,
                "writer_wait": writer_out[1] - writer_end[1],
                "reader_wait": reader_start[1] - reader_before[1],
                "output_wait": reader_out[1] - reader_end[1],
            }
            window.add(position, values, writer_end[1], reader_start[1])
        else:
            if position == longest:
                began = reader_before
            waited += reader_start - writer_out
    duration = reader_out - began
    return Outcome(
        measured=window.measured(),
        occupancy=window.occupancy(links.capacity, earlier),
        throughput=items / duration,
        mean_items=waited / duration,
    )
