"""Runs of a plan beside their simulation and the flow model, with costs of operators that were measured one by one.

`Plan.characterise` measures what each operator costs by itself. One counted run says which operators a stage has, how
many samples come to each, and what links carry. From these, and from what `tune_machine.py` measures of caches and
memory, the simulator and the flow model predict the throughput of every configuration, none of whose times they have
seen.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

import numpy as np
from tune_machine import measured_machine

from isochrony import Configuration
from isochrony._native import _simulated_runs
from isochrony.running.report import Report

#: Samples that a source gives at once, which are the simulator's items.
SEGMENT = 1 << 17
#: Of the median and of the 90th percentile of the error.
GOAL = 0.1
SEED = 1


def costs_of_nodes(plan: Any, report: Report, total: int, *, repeats: int) -> dict[int, float]:
    """Seconds of each operator for a sample of the plan's source, by its number in the plan."""
    seconds = {}
    for cost in plan.characterise(repeats=repeats, save=False):
        # Rows have no samples: their cost is for a sample of the source already.
        samples = report.operators[cost.node].samples / total if cost.samples else 1.0
        seconds[cost.node] = 1e-9 * cost.ns_per_sample * samples
    return seconds


def simulated_plan(report: Report, seconds: dict[int, float], replicas: tuple[int, ...], total: int) -> dict[str, Any]:
    """The plan of a report as the simulator reads it; an item is a segment of the source."""
    items = max(total // SEGMENT, 1)
    first = {stage.number: stage for stage in reversed(report.stages)}
    stages = []
    for number, most in enumerate(replicas):
        each = sum(seconds.get(node, 0.0) for node in first[number].operators) * total / items
        stage = {"name": f"stage {number}", "service": {"constant": {"mean_s": each}}, "max_replicas": most}
        if number == 0:
            bursts = max(report.bursts, 1)
            stage |= {"source": {"finite": {"items": items}}, "burst_items": max(round(items / bursts), 1)}
        stages.append(stage)
    links = [
        {"from": link.stages[0], "to": link.stages[1], "gain": 1.0, "item_bytes": max(link.bytes // items, 1)}
        for link in report.links
    ]
    return {"stages": stages, "links": links}


def predictions(
    plan: dict[str, Any], configurations: list[Configuration], machine: dict[str, Any], total: int
) -> list[tuple[float, float]]:
    """Samples per second of the simulator and of the flow model for each configuration."""
    request = {
        "plan": plan,
        "machine": machine,
        "seed": SEED,
        "configurations": [
            {"workers": one.workers, "replicas": one.replicas, "link_bytes": one.link_bytes} for one in configurations
        ],
    }
    items = max(total // SEGMENT, 1)
    return [(total / run_s, rate * total / items) for run_s, rate in _simulated_runs(json.dumps(request))]


def errors(ratios: list[float]) -> dict[str, float]:
    """Of predicted over measured throughput: the median ratio, and median and 90th percentile of the error."""
    off = np.abs(np.array(ratios) - 1)
    return {
        "ratio": statistics.median(ratios),
        "median": float(np.median(off)),
        "p90": float(np.quantile(off, 0.9)),
        "goal": GOAL,
    }


def compare(
    plan: Any, report: Report, times: dict[Configuration, float], total: int, cores: int, *, repeats: int
) -> dict[str, Any]:
    """Predicted over measured throughput of each configuration.

    Parameters:
        plan: over samples that can be read more than once, for the costs of its operators.
        report: of any run in stages, of that plan or the same one over generated samples.
    """
    configurations = list(times)
    seconds = costs_of_nodes(plan, report, total, repeats=repeats)
    most = tuple(max(one.replicas[stage] for one in configurations) for stage in range(len(configurations[0].replicas)))
    described = simulated_plan(report, seconds, most, total)
    machine = measured_machine(cores)
    machine = machine | {"cache_bytes": machine["cache_bytes"] / max(len(described["links"]), 1)}
    predicted = predictions(described, configurations, machine, total)
    rows = [
        {
            "configuration": str(one),
            "workers": one.workers,
            "measured": total / times[one],
            "simulated": simulated,
            "flow_model": flow,
        }
        for one, (simulated, flow) in zip(configurations, predicted, strict=True)
    ]
    by_kind = {
        kind: errors([row[kind] / row["measured"] for row in rows])  # type: ignore[operator]
        for kind in ("simulated", "flow_model")
    }
    return {"plan": described, "machine": machine, "runs": rows, "errors": by_kind}
