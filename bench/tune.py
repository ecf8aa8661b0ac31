"""What tuning a run reaches of the best configuration of a grid, and whether it ever makes a run slower.

Of each plan all configurations of a grid (workers, replicas of stages that may have some, one capacity for all links)
are measured by turns, the best ones again. A run is then tuned that begins with each start below 70 % of the best, and
the configuration that it keeps is measured beside the best one. The simulator and the flow model predict the
throughput of every configuration of the grid (`tune_simulated.py`). Last, tuned and untuned runs alternate, of plans of
which nothing can be gained.
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

from peers import quartiles
from tune_simulated import compare, errors

import numpy as np  # isort: skip

import isochrony as iso
from isochrony.running.options import RunOptions, auto_workers
from isochrony.running.runs import run_reported
from isochrony.tuning import TuningRequest

RATE, WINDOW = 1000, 4096
CAPACITIES = (1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)
#: Starts below this part of the best count; what must be reached of it; what a tuned run must keep of an untuned one.
COUNTED, GOAL, KEPT = 0.7, 0.95, 0.98
ROUNDS = 5


#: Plans by name, of a source.
PLANS: dict[str, Callable[[Any], Any]] = {
    "three filters in a row": lambda x: x.lowpass(50).highpass(5).lowpass(40).rewindow(WINDOW).map(lambda s: s.max()),
    "windowed FFT behind a recursive filter": lambda x: x.lowpass(50).rewindow(WINDOW).power().map(lambda s: s.max()),
    "detector behind a filter": lambda x: x.highpass(5).stalta(0.05, 1.0).ca_cfar(pfa=1e-3, training=32, guard=4),
}


@dataclass
class Workload:
    """A plan that runs for as long as wanted: the same million samples again and again, which take no memory."""

    name: str
    segment: np.ndarray[Any, Any]
    #: Of one million samples in one thread.
    segment_s: float = 0.0

    def of(self, segments: int) -> Any:
        """The plan over so many segments."""
        return PLANS[self.name](iso.generate(lambda: repeat(self.segment, segments), dtype="f4", rate=RATE))

    def stored(self) -> Any:
        """The plan over an array, which can be read more than once."""
        return PLANS[self.name](iso.scan(np.tile(self.segment, 8), rate=RATE))

    def lasting(self, seconds: float) -> Any:
        """The plan that takes about so long in one thread."""
        return self.of(self.segments(seconds))

    def segments(self, seconds: float) -> int:
        """How many segments take about so long in one thread."""
        if not self.segment_s:
            run(self.of(4), None, 1)
            start = time.perf_counter()
            run(self.of(16), None, 1)
            self.segment_s = (time.perf_counter() - start) / 16
        return max(round(seconds / self.segment_s), 4)


def run(plan: Any, request: TuningRequest | None, workers: int) -> Any:
    """The report of a run."""
    options = RunOptions.of(workers=workers)
    if request is not None:
        request = request.of_plans([plan._native], collects=False)
        options = replace(options, request=request, tuning=request.json())
    return run_reported((plan,), options).report


def applied(configuration: iso.Configuration) -> TuningRequest:
    """Has that configuration from the start."""
    return TuningRequest("apply", configuration=configuration, threads=configuration.threads)


def grid(plan: Any, cores: int) -> list[iso.Configuration]:
    """All configurations; the limits are those of the run."""
    report = run(plan, TuningRequest("recommend", threads=cores), cores)
    start = report.tuning.configuration
    ranges = [range(1, most + 1) for most in start.replicas]
    return [
        replace(start, workers=workers, replicas=replicas, link_bytes=(capacity,) * len(start.link_bytes))
        for workers, replicas, capacity in product(range(1, cores + 1), product(*ranges), CAPACITIES)
    ]


def seconds(plan: Any, configuration: iso.Configuration) -> float:
    """Time of a run."""
    start = time.perf_counter()
    run(plan, applied(configuration), configuration.threads)
    return time.perf_counter() - start


def by_turns(plan: Any, configurations: list[iso.Configuration], rounds: int) -> dict[iso.Configuration, list[float]]:
    """Times of each, one round after the other."""
    times: dict[iso.Configuration, list[float]] = {one: [] for one in configurations}
    for _ in range(rounds):
        for one in configurations:
            times[one].append(seconds(plan, one))
    return times


def median(times: list[float]) -> float:
    """The median."""
    return quartiles(times)[1]


def measure(workload: Workload, short_s: float, long_s: float, cores: int, rounds: int) -> dict[str, Any]:
    """One plan: the grid, its prediction, and what tuning reaches from bad starts."""
    name, short, long = workload.name, workload.lasting(short_s), workload.lasting(long_s)
    samples = workload.segments(short_s) * len(workload.segment)
    everything = grid(short, cores)
    np.testing.assert_array_equal(
        *(short.collect(workers=workers) for workers in (1, cores)), err_msg=f"{name}: other bits"
    )
    first = {one: median(times) for one, times in by_turns(short, everything, max(rounds // 2, 1)).items()}
    # Counted without replicas, whose blocks overlap.
    counted = next(one for one in everything if one.workers == cores and set(one.replicas) <= {1})
    report = run(short, applied(counted), counted.threads)
    simulated = compare(workload.stored(), report, first, samples, cores, repeats=3 if rounds == 1 else 9)
    for kind, error in simulated["errors"].items():
        print(
            f"  {name}: {kind} over measured {error['ratio']:.2f}, off by {error['median']:.3f}, p90 {error['p90']:.3f}"
        )
    winners = sorted(first, key=lambda one: first[one])[:5]
    again = by_turns(short, winners, rounds)
    best = min(winners, key=lambda one: median(again[one]))
    parts = {one: first[best] / time_s for one, time_s in first.items()}
    starts = [one for one in everything if parts[one] < COUNTED]
    # Starts that differ in little say the same.
    starts = starts[:: max(len(starts) // 6, 1)][:6]
    reached = []
    for start in starts:
        begun = time.perf_counter()
        tuning = run(long, TuningRequest("change", configuration=start, threads=cores), cores).tuning
        kept = tuning.configuration
        pairs = by_turns(short, [best, kept], rounds) if kept != best else {best: [1.0]}
        part = median(pairs[best]) / median(pairs[kept])
        changes = [one for one in tuning.decisions if one.outcome == "kept"]
        reached.append(
            {
                "start": str(start),
                "start_part": parts[start],
                "kept": str(kept),
                "part": part,
                "changes": len(changes),
                "settled_s": changes[-1].at_s if changes else 0.0,
                "prediction": tuning.predicted_rate / tuning.rate if tuning.predicted_rate else None,
                "run_s": time.perf_counter() - begun,
            }
        )
        print(f"  {name}: {start} ({parts[start]:.2f}) -> {kept} ({part:.3f}), {len(changes)} changes", flush=True)
    return {
        "name": name,
        "configurations": len(everything),
        "best": str(best),
        "worst_part": min(parts.values()),
        "starts_below": sum(part < COUNTED for part in parts.values()),
        "reached": reached,
        "simulated": simulated,
    }


def harm(name: str, plan: Any, pairs: int) -> dict[str, Any]:
    """Tuned against untuned runs of the same plan, by turns."""
    ratios = []
    for pair in range(pairs):
        times = {}
        for tune in (False, True) if pair % 2 else (True, False):
            start = time.perf_counter()
            plan.run(tune=tune)
            times[tune] = time.perf_counter() - start
        ratios.append(math.log(times[False] / times[True]))
    mean, deviation = float(np.mean(ratios)), float(np.std(ratios, ddof=1))
    # 1.70: quantile 0.95 of Student's t with 29 degrees of freedom.
    low = math.exp(mean - 1.70 * deviation / math.sqrt(pairs))
    print(f"  tuned over untuned, {name}: {math.exp(mean):.3f}, at least {low:.3f}")
    return {"name": name, "pairs": pairs, "mean": math.exp(mean), "low": low, "goal": KEPT}


def main() -> None:
    """Measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    # The other measurements run in one thread unless they say otherwise.
    os.environ.pop("ISOCHRONY_WORKER", None)
    cores = min(max(auto_workers(), 2), 4)
    segment = np.random.default_rng(1).standard_normal(1 << 20).astype("f4")
    segment.flags.writeable = False
    # Long enough that threads that begin do not matter, and that trials can pay.
    short_s, long_s, harm_s = (0.05, 0.1, 0.1) if arguments.quick else (1.0, 40.0, 4.0)
    rounds, pairs = (1, 2) if arguments.quick else (ROUNDS, 30)
    names = list(PLANS)[:1] if arguments.quick else list(PLANS)
    workloads = [Workload(name, segment) for name in names]
    results = [measure(workload, short_s, long_s, cores, rounds) for workload in workloads]
    parts = [one["part"] for result in results for one in result["reached"]]
    summary = {}
    if parts:
        summary = {
            "geometric_mean": math.exp(float(np.mean(np.log(parts)))),
            "worst_decile": float(np.quantile(parts, 0.1)),
            "goal": GOAL,
        }
        print(f"  reached of the best: {summary['geometric_mean']:.3f}, worst decile {summary['worst_decile']:.3f}")
    simulated = {}
    for kind in ("simulated", "flow_model"):
        runs = [one for result in results for one in result["simulated"]["runs"]]
        simulated[kind] = errors([one[kind] / one["measured"] for one in runs])
        print(f"  {kind}: off by {simulated[kind]['median']:.3f}, 90th percentile {simulated[kind]['p90']:.3f}")
    # Long enough to be tuned, and already at its best.
    harms = [harm(workload.name, workload.lasting(harm_s), pairs) for workload in workloads]
    arguments.out.write_text(
        json.dumps({"plans": results, "summary": summary, "simulated": simulated, "harm": harms}, indent=1)
    )


if __name__ == "__main__":
    main()
