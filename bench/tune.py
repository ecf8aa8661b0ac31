"""What tuning a run reaches of the best configuration of a grid, and whether it ever makes a run slower.

Of each plan all configurations of a grid (workers, replicas of stages that may have some, one capacity for all links)
are measured by turns, the best ones again; of each byte stream (`tune_streams.py`) workers and sizes of buffers.
Winners within 2 % are ties. A run is then tuned that begins with each start below 70 % of the best, and the
configuration that it keeps is measured beside the best one. The simulator and the flow model predict the throughput of
every configuration of a plan's grid (`tune_simulated.py`). Tuned runs meet a program that competes for a core, and an
operator that becomes dearer (`tune_changes.py`). Last, tuned and untuned runs alternate.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product, repeat
from pathlib import Path
from typing import Any

# Products of matrices in one thread: threads are the runtime's to choose. NumPy reads it when it is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

from peers import quartiles
from tune_changes import competitor, dearer_operator
from tune_simulated import compare, errors
from tune_streams import Stream, streams

import numpy as np  # isort: skip

import isochrony as iso
from isochrony.running.options import RunOptions, auto_workers
from isochrony.running.runs import run_reported
from isochrony.tuning.configuration import TuningRequest

RATE, WINDOW, AUDIO_RATE = 1000, 4096, 48_000
CAPACITIES = (1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)
#: Starts below this part of the best count; what must be reached of it; what a tuned run must keep of an untuned one.
COUNTED, GOAL, KEPT = 0.7, 0.95, 0.98
#: Winners that take so much longer than the best, measured again, are as good.
TIE = 0.02
ROUNDS = 5

#: Of ones and minus ones: products with whole numbers are exact, so every configuration has the same bits.
MATRIX = np.where(np.random.default_rng(2).random((256, 256)) < 0.5, -1, 1).astype("f4")


def multiplied(windows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Each window by the matrix; the largest value of the product."""
    return (windows @ MATRIX).max(axis=1)


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
}


@dataclass
class Workload:
    """A plan that runs for as long as wanted: the same million samples again and again, which take no memory."""

    name: str
    #: Whole numbers.
    segment: np.ndarray[Any, Any]
    #: Of one million samples in one thread.
    segment_s: float = 0.0

    def _plan(self) -> tuple[Callable[[Any], Any], int, np.ndarray[Any, Any]]:
        made, dtype, rate = PLANS[self.name]
        segment = self.segment.astype(dtype)
        segment.flags.writeable = False
        return made, rate, segment

    def of(self, segments: int) -> Any:
        """The plan over so many segments."""
        made, rate, segment = self._plan()
        return made(iso.generate(lambda: repeat(segment, segments), dtype=segment.dtype, rate=rate))

    def stored(self) -> Any:
        """The plan over an array, which can be read more than once."""
        made, rate, segment = self._plan()
        return made(iso.scan(np.tile(segment, 8), rate=rate))

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
            for workers, replicas, capacity in product(range(1, cores + 1), product(*ranges), CAPACITIES)
        ]

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

    def untuned(self, seconds: float, *, tune: bool) -> None:
        """A run as a user begins it."""
        self.lasting(seconds).run(tune=tune)


@dataclass
class MatrixProduct:
    """Products of matrices over stored samples, by a function that releases the interpreter's lock. It runs in tasks,
    whose sizes follow from what they cost; tuning is left the number of workers.
    """

    name = "matrix multiply"
    samples: np.ndarray[Any, Any]
    #: Of one pass in one thread.
    pass_s: float = 0.0

    def _plan(self, passes: int) -> Any:
        scans = [iso.scan(self.samples, rate=RATE) for _ in range(passes)]
        return [scan.rewindow(256).map(iso.py(multiplied, on_workers="threads")) for scan in scans]

    def _passes(self, seconds: float) -> list[Any]:
        """As many as take about so long in one thread; they run as one."""
        if not self.pass_s:
            start = time.perf_counter()
            run(self._plan(1), None, 1)
            self.pass_s = time.perf_counter() - start
        return self._plan(max(round(seconds / self.pass_s), 1))

    def check(self) -> None:
        """Any number of workers gives the same; also measures how long a pass takes."""
        (plan,) = self._plan(1)
        np.testing.assert_array_equal(*(plan.collect(workers=workers) for workers in (1, 2)), err_msg="other bits")
        self._passes(0.0)

    def grid(self, cores: int) -> list[iso.Configuration]:
        """All numbers of workers."""
        return [iso.Configuration(workers, replicas=(cores,), threads=cores) for workers in range(1, cores + 1)]

    def seconds(self, configuration: iso.Configuration, seconds: float) -> float:
        """Time of a run that takes about so long in one thread."""
        plans = self._passes(seconds)
        start = time.perf_counter()
        run(plans, applied(plain(configuration)), configuration.threads)
        return time.perf_counter() - start

    def tuned(self, start: iso.Configuration, seconds: float) -> iso.TuningReport:
        """A run that begins with a configuration and is tuned."""
        request = TuningRequest("change", configuration=plain(start), threads=start.threads)
        return run(self._passes(seconds), request, start.threads).tuning

    def untuned(self, seconds: float, *, tune: bool) -> None:
        """A run as a user begins it."""
        iso.run(*self._passes(seconds), tune=tune)


def run(plans: Any, request: TuningRequest | None, workers: int) -> Any:
    """The report of a run of one plan, or of several as one."""
    plans = tuple(plans) if isinstance(plans, list) else (plans,)
    options = RunOptions.of(workers=workers)
    if request is not None:
        request = request.of_plans([plan._native for plan in plans], collects=False)
        options = replace(options, request=request, tuning=request.json())
    return run_reported(plans, options).report


def plain(configuration: iso.Configuration) -> iso.Configuration:
    """Without the plan and machine that it is for: more passes are another plan."""
    return replace(configuration, plan="", machine="")


def applied(configuration: iso.Configuration) -> TuningRequest:
    """Has that configuration from the start."""
    return TuningRequest("apply", configuration=configuration, threads=configuration.threads)


def by_turns(
    workload: Workload | MatrixProduct | Stream, configurations: list[Any], seconds: float, rounds: int
) -> dict[Any, list[float]]:
    """Times of each, one round after the other."""
    times: dict[Any, list[float]] = {one: [] for one in configurations}
    for _ in range(rounds):
        for one in configurations:
            times[one].append(workload.seconds(one, seconds))
    return times


def median(times: list[float]) -> float:
    """The median."""
    return quartiles(times)[1]


def predicted(
    workload: Workload, times: dict[iso.Configuration, float], short_s: float, cores: int, rounds: int
) -> dict[str, Any]:
    """What the simulator and the flow model say of each configuration."""
    # Counted without replicas, whose blocks overlap.
    counted = next(one for one in times if one.workers == cores and set(one.replicas) <= {1})
    report = run(workload.lasting(short_s), applied(counted), counted.threads)
    samples = workload.segments(short_s) * len(workload.segment)
    simulated = compare(workload.stored(), report, times, samples, cores, repeats=3 if rounds == 1 else 9)
    for kind, error in simulated["errors"].items():
        print(
            f"  {workload.name}: {kind} over measured {error['ratio']:.2f}, off by {error['median']:.3f}, "
            f"p90 {error['p90']:.3f}"
        )
    return simulated


def measure(
    workload: Workload | MatrixProduct | Stream, short_s: float, long_s: float, cores: int, rounds: int
) -> dict[str, Any]:
    """The grid, its prediction, and what tuning reaches from bad starts."""
    name = workload.name
    workload.check()
    everything = workload.grid(cores)
    first = {one: median(times) for one, times in by_turns(workload, everything, short_s, max(rounds // 2, 1)).items()}
    simulated = predicted(workload, first, short_s, cores, rounds) if isinstance(workload, Workload) else None
    winners = sorted(first, key=lambda one: first[one])[:5]
    again = by_turns(workload, winners, short_s, rounds)
    best = min(winners, key=lambda one: median(again[one]))
    ties = [one for one in winners if median(again[one]) <= (1 + TIE) * median(again[best])]
    parts = {one: first[best] / time_s for one, time_s in first.items()}
    starts = [one for one in everything if parts[one] < COUNTED]
    # Starts that differ in little say the same.
    starts = starts[:: max(len(starts) // 6, 1)][:6]
    reached = []
    for start in starts:
        begun = time.perf_counter()
        tuning = workload.tuned(start, long_s)
        kept = tuning.configuration
        pairs = by_turns(workload, [best, kept], short_s, rounds) if plain(kept) != plain(best) else {best: [1.0]}
        # What tuning finds beyond the grid, or in noise, does not make up for another start.
        part = min(median(pairs[best]) / median(pairs[kept]), 1.0)
        # Another winner that cannot be told from the best, or less than that beside it.
        is_tie = plain(kept) in map(plain, ties) or part >= 1 / (1 + TIE)
        changes = [one for one in tuning.decisions if one.outcome == "kept"]
        reached.append(
            {
                "start": str(start),
                "start_part": parts[start],
                "kept": str(kept),
                "part": part,
                "part_with_ties": 1.0 if is_tie else part,
                "changes": len(changes),
                "settled_s": changes[-1].at_s if changes else 0.0,
                "prediction": tuning.predicted_rate / tuning.rate if tuning.predicted_rate else None,
                "run_s": time.perf_counter() - begun,
                "decisions": [str(one) for one in tuning.decisions],
            }
        )
        print(f"  {name}: {start} ({parts[start]:.2f}) -> {kept} ({part:.3f}), {len(changes)} changes", flush=True)
    return {
        "name": name,
        "configurations": len(everything),
        "best": str(best),
        "ties": [str(one) for one in ties],
        "worst_part": min(parts.values()),
        "starts_below": sum(part < COUNTED for part in parts.values()),
        "grid": {str(one): part for one, part in parts.items()},
        "reached": reached,
        "simulated": simulated,
    }


def harm(workload: Workload | MatrixProduct | Stream, seconds: float, pairs: int) -> dict[str, Any]:
    """Tuned against untuned runs of the same, by turns."""
    ratios = []
    for pair in range(pairs):
        times = {}
        for tune in (False, True) if pair % 2 else (True, False):
            start = time.perf_counter()
            workload.untuned(seconds, tune=tune)
            times[tune] = time.perf_counter() - start
        ratios.append(math.log(times[False] / times[True]))
    mean, deviation = float(np.mean(ratios)), float(np.std(ratios, ddof=1))
    # 1.70: quantile 0.95 of Student's t with 29 degrees of freedom.
    low = math.exp(mean - 1.70 * deviation / math.sqrt(pairs))
    print(f"  tuned over untuned, {workload.name}: {math.exp(mean):.3f}, at least {low:.3f}", flush=True)
    return {"name": workload.name, "pairs": pairs, "mean": math.exp(mean), "low": low, "goal": KEPT}


def main() -> None:
    """Measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    # The other measurements run in one thread unless they say otherwise.
    os.environ.pop("ISOCHRONY_WORKER", None)
    cores = min(max(auto_workers(), 2), 4)
    segment = np.rint(100 * np.random.default_rng(1).standard_normal(1 << 20))
    # Long enough that threads that begin do not matter, and that trials can pay.
    short_s, long_s, harm_s = (0.05, 0.1, 0.1) if arguments.quick else (0.5, 20.0, 4.0)
    rounds, pairs = (1, 2) if arguments.quick else (ROUNDS, 30)
    plans = [Workload(name, segment) for name in PLANS]
    products = MatrixProduct(np.tile(segment.astype("f4"), 1 if arguments.quick else 32))
    everything: list[Workload | MatrixProduct | Stream] = [*plans, products, *streams()]
    if arguments.quick:
        everything = [everything[0], products, everything[-1]]
    results = [measure(workload, short_s, long_s, cores, rounds) for workload in everything]
    parts = [one["part"] for result in results for one in result["reached"]]
    with_ties = [one["part_with_ties"] for result in results for one in result["reached"]]
    summary = {}
    if parts:
        summary = {
            "geometric_mean": math.exp(float(np.mean(np.log(parts)))),
            "worst_decile": float(np.quantile(parts, 0.1)),
            "geometric_mean_with_ties": math.exp(float(np.mean(np.log(with_ties)))),
            "worst_decile_with_ties": float(np.quantile(with_ties, 0.1)),
            "starts": len(parts),
            "goal": GOAL,
        }
        print(f"  reached of the best: {summary['geometric_mean']:.3f}, worst decile {summary['worst_decile']:.3f}")
    simulated = {}
    for kind in ("simulated", "flow_model"):
        runs = [one for result in results if result["simulated"] for one in result["simulated"]["runs"]]
        simulated[kind] = errors([one[kind] / one["measured"] for one in runs])
        print(f"  {kind}: off by {simulated[kind]['median']:.3f}, 90th percentile {simulated[kind]['p90']:.3f}")
    changes = [competitor(arguments.quick), dearer_operator(arguments.quick)]
    for one in changes:
        print(
            f"  {one['name']}: {one['changes']} changes, {one['settled_s']:.1f} s after it; goal {one['goal']} changes"
        )
    measured = {"plans": results, "summary": summary, "simulated": simulated, "changes": changes}
    # Kept if what follows is broken off.
    arguments.out.write_text(json.dumps({**measured, "harm": []}, indent=1))
    # Long enough to be tuned.
    harms = [harm(workload, harm_s, pairs) for workload in everything]
    arguments.out.write_text(json.dumps({**measured, "harm": harms}, indent=1))


if __name__ == "__main__":
    main()
