"""What tuning a run reaches of the best configuration of a grid, and whether it ever makes a run slower.

Three parts, each by itself with --part:

grid     Of each plan all configurations of a grid (workers, replicas of stages that may have some, one capacity for all
         links) are measured by turns, the best ones again; of each byte stream (`tune_streams.py`) workers and sizes
         of buffers. Winners within 2 % are ties. A run is then tuned that begins with each start below 70 % of the
         best, and the configuration that it keeps is measured beside the best one, as are those between. Other methods
         look for a configuration in the measured grid with as many trials (`tune_methods.py`). The simulator and the
         flow model predict the throughput of every configuration of a plan's grid (`tune_simulated.py`). What tuning
         costs where nothing can be gained is that of runs that begin with the best.
changes  Tuned runs meet a program that competes for a core, and an operator that becomes dearer (`tune_changes.py`).
harm     Tuned and untuned runs alternate, both with a thread for each core and without a configuration.

--only TEXT measures only workloads whose names have that text. With it, or with --part, results of other workloads and
parts stay in the file of --out, if they are of the same machine, commit and size. --quick takes seconds; its figures
mean nothing. ``python tune.py --quick --part grid --only matrix --out /tmp/tune.json``
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tune_changes import competitor, dearer_operator
from tune_methods import MeasuredGrid, compared, summary
from tune_path import GOAL, NO_TRIALS, PartsOfBest, path, spread
from tune_results import Results, origin
from tune_simulated import compare, errors
from tune_streams import streams
from tune_workloads import PLANS, Tunable, Workload, applied, median, run

import numpy as np  # isort: skip

import isochrony as iso
from isochrony.running.options import auto_workers
from isochrony.running.report import Report

#: Starts below this part of the best count; what a tuned run must keep of an untuned one.
COUNTED, KEPT = 0.7, 0.98
ROUNDS = 5
#: Of tuned and untuned runs, and quantile 0.95 of Student's t for them.
PAIRS, QUANTILE = 30, 1.70


def counted(workload: Workload, grid: Iterable[iso.Configuration], short_s: float, cores: int) -> Report:
    """The report of a run with all cores and without replicas, in which stages compute at the same time."""
    one = next(one for one in grid if one.workers == cores and set(one.replicas) <= {1})
    report: Report = run(workload.lasting(short_s), applied(one), one.threads)
    return report


def stage_costs(report: Report) -> tuple[float, ...]:
    """Seconds in which each stage computed."""
    seconds: dict[int, float] = {}
    for stage in report.stages:
        seconds[stage.number] = seconds.get(stage.number, 0.0) + stage.busy_s
    return tuple(max(seconds[number], 1e-9) for number in sorted(seconds))


def predicted(
    workload: Workload, report: Report, times: dict[iso.Configuration, float], short_s: float, cores: int, rounds: int
) -> dict[str, Any] | None:
    """What the simulator and the flow model say of each configuration; None if they lack costs of functions."""
    if workload.calls_python:
        return None
    samples = workload.segments(short_s) * len(workload.segment)
    simulated = compare(workload.stored(), report, times, samples, cores, repeats=3 if rounds == 1 else 9)
    for kind, error in simulated["errors"].items():
        print(
            f"  {workload.name}: {kind} over measured {error['ratio']:.2f}, off by {error['median']:.3f}, "
            f"p90 {error['p90']:.3f}"
        )
    return simulated


def tuned_from(
    workload: Tunable, start: iso.Configuration, parts: PartsOfBest, grid: MeasuredGrid, seconds: float
) -> dict[str, Any]:
    """A tuned run from a start, and other methods with as many trials."""
    begun = time.perf_counter()
    tuning = workload.tuned(start, seconds)
    run_s = time.perf_counter() - begun
    steps = [step for part in path(tuning, seconds) for step in part]
    trials = 1 + sum(one.outcome not in NO_TRIALS for one in tuning.decisions)
    kept = tuning.configuration
    assert kept is not None
    part = parts.part(kept)
    changes = steps[1:]
    found = {
        "start": str(start),
        "start_part": parts.first[start],
        "kept": str(kept),
        "part": part,
        "part_with_ties": 1.0 if parts.is_tie(kept) else part,
        "part_in_grid": parts.part_in_grid(kept),
        "trials": trials,
        "changes": len(changes),
        "settled_s": changes[-1].at_s if changes else 0.0,
        **parts.of_path(steps),
        "windows": tuning.windows,
        "prediction": tuning.predicted_rate / tuning.rate if tuning.predicted_rate and tuning.rate else None,
        "run_s": run_s,
        "decisions": [str(one) for one in tuning.decisions],
        "methods": compared(grid, start, trials),
    }
    print(
        f"  {workload.name}: {start} ({parts.first[start]:.2f}) -> {kept} ({part:.3f}), {len(changes)} changes, "
        f"{trials} trials",
        flush=True,
    )
    return found


def overhead(workload: Tunable, best: iso.Configuration, seconds: float, pairs: int) -> dict[str, Any]:
    """Times of runs that begin with the best configuration: as they are, and tuned."""
    times = []
    for pair in range(pairs):
        one = {}
        for tune in (False, True) if pair % 2 else (True, False):
            start = time.perf_counter()
            if tune:
                workload.tuned(best, seconds)
            else:
                workload.seconds(best, seconds)
            one[tune] = time.perf_counter() - start
        times.append([one[False], one[True]])
    slower = math.exp(float(np.mean([math.log(tuned / plain) for plain, tuned in times])))
    print(f"  {workload.name}: tuned from the best, {slower:.3f} of its time", flush=True)
    return {"times": times, "mean": slower}


def measure(workload: Tunable, short_s: float, long_s: float, harm_s: float, cores: int, rounds: int) -> dict[str, Any]:
    """The grid, its prediction, and what tuning and other methods reach from bad starts."""
    workload.check()
    everything = workload.grid(cores)
    parts = PartsOfBest(workload, everything, short_s, rounds)
    first = {one: median(times) for one, times in parts.times.items()}
    simulated, costs = None, (1.0,)
    if isinstance(workload, Workload):
        report = counted(workload, everything, short_s, cores)
        simulated = predicted(workload, report, first, short_s, cores, rounds)
        costs = stage_costs(report)
    grid = MeasuredGrid(parts.times, costs, cores, parts.best, workload.default_bytes(cores))
    starts = [one for one in everything if parts.first[one] < COUNTED]
    below = len(starts)
    starts = spread(starts)
    return {
        "name": workload.name,
        "configurations": len(everything),
        "best": str(parts.best),
        "ties": [str(one) for one in parts.ties],
        "worst_part": min(parts.first.values()),
        "starts_below": below,
        "grid": {str(one): part for one, part in parts.first.items()},
        "grid_s": {str(one): times for one, times in parts.times.items()},
        "reached": [tuned_from(workload, start, parts, grid, long_s) for start in starts],
        "overhead": overhead(workload, parts.best, harm_s, rounds),
        "simulated": simulated,
    }


def harm(workload: Tunable, seconds: float, pairs: int) -> dict[str, Any]:
    """Tuned beside untuned runs with as many threads, by turns; the seconds of both in each pair."""
    all_times = []
    for pair in range(pairs):
        times = {}
        for tune in (False, True) if pair % 2 else (True, False):
            start = time.perf_counter()
            workload.plain_run(seconds, tune=tune)
            times[tune] = time.perf_counter() - start
        all_times.append([times[False], times[True]])
    ratios = [math.log(untuned / tuned) for untuned, tuned in all_times]
    mean, low = float(np.mean(ratios)), None
    if pairs == PAIRS:
        low = math.exp(mean - QUANTILE * float(np.std(ratios, ddof=1)) / math.sqrt(pairs))
    bound = "" if low is None else f", at least {low:.3f}"
    print(f"  tuned over untuned, {workload.name}: {math.exp(mean):.3f}{bound}", flush=True)
    return {
        "name": workload.name,
        "pairs": pairs,
        "mean": math.exp(mean),
        "low": low,
        "goal": KEPT,
        "times": all_times,
    }


def summarised(plans: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over all starts of the part of the best that the tuner and other methods reach."""
    reached = [one for plan in plans for one in plan["reached"]]
    if not reached:
        return {}
    parts = [one["part"] for one in reached]
    with_ties = [one["part_with_ties"] for one in reached]
    to_goal = [one["to_goal"] for one in reached if one["to_goal"]]
    methods = summary([one["methods"] for one in reached], [one["part_in_grid"] for one in reached])
    for one in methods:
        print(f"  {one['method']}: {one['geometric_mean']:.3f}, worst decile {one['worst_decile']:.3f}")
    return {
        "geometric_mean": math.exp(float(np.mean(np.log(parts)))),
        "worst_decile": float(np.quantile(parts, 0.1)),
        "geometric_mean_with_ties": math.exp(float(np.mean(np.log(with_ties)))),
        "worst_decile_with_ties": float(np.quantile(with_ties, 0.1)),
        "starts": len(parts),
        "goal": GOAL,
        "methods": methods,
        "to_goal": {name: float(np.median([one[name] for one in to_goal])) for name in to_goal[0]} if to_goal else None,
        "never_to_goal": len(parts) - len(to_goal),
        "changes_after_goal": sum(one["changes_after_goal"] or 0 for one in reached),
    }


def predictions(plans: list[dict[str, Any]]) -> dict[str, Any]:
    """Errors of both models over all configurations."""
    runs = [one for plan in plans if plan["simulated"] for one in plan["simulated"]["runs"]]
    if not runs:
        return {}
    kinds = ("simulated", "flow_model")
    return {kind: errors([one[kind] / one["measured"] for one in runs]) for kind in kinds}


def main() -> None:
    """Measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", action="append", choices=("grid", "changes", "harm"))
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    # The other measurements run in one thread unless they say otherwise.
    os.environ.pop("ISOCHRONY_WORKER", None)
    cores = min(max(auto_workers(), 2), 4)
    segment = np.rint(100 * np.random.default_rng(1).standard_normal(1 << 20))
    # Long enough that threads that begin do not matter, and that trials can pay.
    short_s, long_s, harm_s = (0.05, 0.1, 0.1) if arguments.quick else (0.5, 20.0, 4.0)
    rounds, pairs = (1, 2) if arguments.quick else (ROUNDS, PAIRS)
    everything: list[Tunable] = [*(Workload.named(name, segment) for name in PLANS), *streams()]
    chosen = [one for one in everything if arguments.only in one.name]
    if arguments.quick and not arguments.only:
        chosen = [everything[0], everything[3], everything[-1]]
    parts = arguments.part or ["grid", "changes", "harm"]
    results = Results(arguments.out, origin(is_quick=arguments.quick))
    if arguments.part or arguments.only:
        results.read()
    if "grid" in parts:
        for workload in chosen:
            results.add("plans", measure(workload, short_s, long_s, harm_s, cores, rounds))
        plans = results.results["plans"]
        results.results |= {"summary": summarised(plans), "simulated": predictions(plans)}
    if "changes" in parts:
        for change in (competitor, dearer_operator):
            one = change(arguments.quick, cores)
            part = "part not measured" if one["part"] is None else f"{one['part']:.3f} of the best"
            print(
                f"  {one['name']}: {part}, {one['changes']} changes, {one['settled_s']:.1f} s after it; goal of "
                f"{one['goal']} changes {'met' if one['is_met'] else 'missed'}",
                flush=True,
            )
            results.add("changes", one)
    if "harm" in parts:
        for workload in chosen:
            results.add("harm", harm(workload, harm_s, pairs))
    results.write()


if __name__ == "__main__":
    main()
