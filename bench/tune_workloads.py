"""Plans whose tuning `tune.py` measures, each with a grid of configurations, and how their runs are timed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product, repeat
from typing import Any, Protocol, TypeVar

# Products of matrices in one thread: threads are the runtime's to choose. NumPy reads it when it is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

from peers import quartiles

import numpy as np  # isort: skip

import isochrony as iso
from isochrony.running.options import RunOptions, auto_workers
from isochrony.running.runs import run_reported
from isochrony.tuning.configuration import TuningRequest

__all__ = [
    "CAPACITIES",
    "PLANS",
    "RATE",
    "WINDOW",
    "Tunable",
    "Workload",
    "applied",
    "by_turns",
    "median",
    "part_of_best",
    "plain",
    "run",
]

#: What stands for a configuration.
Key = TypeVar("Key")

RATE, WINDOW, AUDIO_RATE = 1000, 4096, 48_000
CAPACITIES = (1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)

#: Of ones and minus ones: products with whole numbers are exact, so every configuration has the same bits.
MATRIX = np.where(np.random.default_rng(2).random((256, 256)) < 0.5, -1, 1).astype("f4")


class Tunable(Protocol):
    """What is tuned: a plan or a byte stream, which runs for as long as wanted."""

    name: str

    def check(self) -> None:
        """Any configuration gives the same."""

    def grid(self, cores: int) -> list[iso.Configuration]:
        """All configurations."""

    def default_bytes(self, cores: int) -> int:
        """Capacity of links, or size of buffers, of a run that is not tuned."""

    def seconds(self, configuration: iso.Configuration, seconds: float) -> float:
        """Time of a run that takes about so long with one worker."""

    def tuned(self, start: iso.Configuration, seconds: float) -> iso.TuningReport:
        """A run that begins with a configuration and is tuned."""

    def plain_run(self, seconds: float, *, tune: bool) -> None:
        """A run without a configuration, on all cores whether it is tuned or not."""


def multiplied(windows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Each window by the matrix; the largest value of the product."""
    return (windows @ MATRIX).max(axis=1)


def matrix_products(x: Any) -> Any:
    """Products of matrices, by a function that releases the interpreter's lock; about half of them are passed on."""
    return x.rewindow(256).map(iso.py(multiplied, on_workers="threads")).filter(lambda s: s.max() > 4500)


def detect_audio(x: Any) -> Any:
    """The detector of DETECTAUDIO, on one channel."""
    score = x.rewindow(32).spectral_score(band_hz=(1500, 7500))
    return score.cfar(deviations=7, memory=1000).triggers(on=1, off=0.5, min_length=0.005, merge=0.02)


#: Plans by name, of a source; dtype and rate of the samples.
PLANS: dict[str, tuple[Callable[[Any], Any], str, int]] = {
    "three filters in a row": (
        lambda x: x.lowpass(50).highpass(5).lowpass(40).rewindow(WINDOW).map(lambda s: s.max()),
        "f4",
        RATE,
    ),
    "windowed FFT behind a recursive filter": (
        lambda x: x.lowpass(50).rewindow(WINDOW).power().map(lambda s: s.max()),
        "f4",
        RATE,
    ),
    "DETECTAUDIO": (detect_audio, "i2", AUDIO_RATE),
    "matrix multiply": (matrix_products, "f4", RATE),
}


@dataclass
class Workload:
    """A plan that runs for as long as wanted: the same million samples again and again, which take no memory."""

    name: str
    make: Callable[[Any], Any]
    rate: int
    segment: np.ndarray[Any, Any]
    #: Of links, in the grid.
    capacities: tuple[int, ...] = CAPACITIES
    #: Of one million samples in one thread.
    segment_s: float = 0.0

    @classmethod
    def named(cls, name: str, segment: np.ndarray[Any, Any]) -> Workload:
        """One of `PLANS`; the samples are whole numbers."""
        make, dtype, rate = PLANS[name]
        segment = segment.astype(dtype)
        segment.flags.writeable = False
        return cls(name, make, rate, segment)

    def of(self, segments: int) -> Any:
        """The plan over so many segments."""
        source = iso.generate(lambda: repeat(self.segment, segments), dtype=self.segment.dtype, rate=self.rate)
        return self.make(source)

    @property
    def calls_python(self) -> bool:
        """Whether it calls a function, whose cost is not among those of operators."""
        return "py(" in str(self.of(1))

    def stored(self) -> Any:
        """The plan over an array, which can be read more than once."""
        return self.make(iso.scan(np.tile(self.segment, 8), rate=self.rate))

    def segments(self, seconds: float) -> int:
        """How many segments take about so long in one thread."""
        if not self.segment_s:
            run(self.of(4), None, 1)
            start = time.perf_counter()
            run(self.of(16), None, 1)
            self.segment_s = (time.perf_counter() - start) / 16
        return max(round(seconds / self.segment_s), 4)

    def lasting(self, seconds: float) -> Any:
        """The plan that takes about so long in one thread."""
        return self.of(self.segments(seconds))

    def grid(self, cores: int) -> list[iso.Configuration]:
        """All configurations; the limits are those of the run."""
        report = run(self.lasting(0.2), TuningRequest("recommend", threads=cores), cores)
        start = report.tuning.configuration
        ranges = [range(1, most + 1) for most in start.replicas]
        return [
            replace(start, workers=workers, replicas=replicas, link_bytes=(capacity,) * len(start.link_bytes))
            for workers, replicas, capacity in product(range(1, cores + 1), product(*ranges), self.capacities)
        ]

    def default_bytes(self, cores: int) -> int:
        """The smallest capacity of its links in a run that is not tuned."""
        return min(link.capacity for link in run(self.of(4), None, cores).links)

    def seconds(self, configuration: iso.Configuration, seconds: float) -> float:
        """Time of a run that takes about so long in one thread."""
        plan = self.lasting(seconds)
        start = time.perf_counter()
        run(plan, applied(configuration), configuration.threads)
        return time.perf_counter() - start

    def tuned(self, start: iso.Configuration, seconds: float) -> iso.TuningReport:
        """A run that begins with a configuration and is tuned."""
        request = TuningRequest("change", configuration=start, threads=start.threads)
        return run(self.lasting(seconds), request, start.threads).tuning

    def check(self) -> None:
        """Any number of workers gives the same."""
        plan = self.of(4)
        np.testing.assert_array_equal(
            *(plan.collect(workers=workers) for workers in (1, 2)), err_msg=f"{self.name}: other bits"
        )

    def plain_run(self, seconds: float, *, tune: bool) -> None:
        """A run without a configuration. A tuned one has a thread for each core, so one that is not is given them."""
        plan = self.lasting(seconds)
        if tune:
            plan.run(tune=True)
        else:
            plan.run(workers=auto_workers())


def run(plan: Any, request: TuningRequest | None, workers: int) -> Any:
    """The report of a run."""
    options = RunOptions.of(workers=workers)
    if request is not None:
        request = request.of_plans([plan._native], collects=False)
        options = replace(options, request=request, tuning=request.json())
    return run_reported((plan,), options).report


def plain(configuration: iso.Configuration) -> iso.Configuration:
    """Without the plan and machine that it is for."""
    return replace(configuration, plan="", machine="")


def applied(configuration: iso.Configuration) -> TuningRequest:
    """Has that configuration from the start."""
    return TuningRequest("apply", configuration=configuration, threads=configuration.threads)


def by_turns(
    workload: Tunable, configurations: Iterable[iso.Configuration], seconds: float, rounds: int
) -> dict[iso.Configuration, list[float]]:
    """Times of each, one round after the other."""
    times: dict[iso.Configuration, list[float]] = {one: [] for one in configurations}
    for _ in range(rounds):
        for one in times:
            times[one].append(workload.seconds(one, seconds))
    return times


def median(times: list[float]) -> float:
    """The median."""
    return quartiles(times)[0]


def part_of_best(times: Mapping[Key, list[float]], best: Key, one: Key) -> float:
    """The part of the best one's throughput that another has, by medians of times measured by turns; at most 1.

    What is faster than the best is so by chance, or lies beyond the grid; it does not make up for another start.
    """
    return min(median(times[best]) / median(times[one]), 1.0)
