"""Sets figures of chapters 4 to 8 of the RaftLib dissertation beside the project's own, and draws those of tuning.

python dissertation.py RESULTS TUNE_JSON PAGES

RESULTS has what examples of `crates/tune` print: `models.json`, and `tune_plans_N.json` of N cores. TUNE_JSON is
what `tune.py` writes; without it rows of real runs say that they were not measured. PAGES gets `dissertation.md` and
`figures/tuning_*.svg`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tune_figures

SIMULATED, MEASURED = "simulated", "measured"
#: What a row says whose runs have not been made.
MISSING = "not measured yet"


@dataclass(frozen=True)
class Row:
    """One figure of the dissertation.

    Attributes:
        what: it is.
        paper: the figure, with its place.
        kind: whether ours is measured or simulated.
        ours: text of ours, from all results.
        why: they differ, or cannot be compared.
    """

    what: str
    paper: str
    kind: str
    ours: Callable[[dict[str, Any]], str]
    why: str

    def text(self, results: dict[str, Any]) -> str:
        """The row of the table."""
        try:
            ours = self.ours(results)
        except KeyError:
            ours = MISSING
        return f"| {self.what} | {self.paper} | {ours} | {self.kind} | {self.why} |"


def percent(part: float, digits: int = 1) -> str:
    """A part as text."""
    return f"{100 * part:.{digits}f} %"


def error(found: dict[str, Any]) -> str:
    """Median and 90th percentile of an error."""
    return f"median {percent(found['median'])}, 90th percentile {percent(found['p90'])}"


def flow_error(results: dict[str, Any]) -> str:
    """Errors of the flow model on simulated plans."""
    found = results["models"]["flow_model"]
    within = f"{percent(found['within_10_percent'], 0)} of {found['plans']} plans within 10 %"
    return f"{error(found)}; {within}; R² {found['r_squared']:.4f}"


def settling(results: dict[str, Any]) -> str:
    """Changes and windows of the controller."""
    found = results["tune_plans_16"]
    return f"{found['changes']:.0f} changes, {found['windows_to_95']:.0f} windows to 95 % of the optimum (medians)"


def noise_ranks(results: dict[str, Any]) -> str:
    """In how many groups each distribution is the nearest."""
    groups = results["models"]["noise"]["groups"]
    nearest = [group["ranked"][0]["kind"].replace("_", " ") for group in groups]
    counts = {kind: nearest.count(kind) for kind in dict.fromkeys(nearest)}
    return ", ".join(f"{kind} in {count} of {len(groups)}" for kind, count in counts.items())


def levy_against_normal(results: dict[str, Any]) -> str:
    """Divergences of both, by nominal time."""
    texts = []
    for group in results["models"]["noise"]["groups"]:
        by_kind = {one["kind"]: one["divergence"] for one in group["ranked"]}
        levy, normal = by_kind["modified_levy"], by_kind["normal"]
        texts.append(f"{1e6 * group['nominal_s']:.0f} µs: {levy:.2f}, {normal:.2f}")
    return "; ".join(texts)


def rates(method: str, field: str) -> Callable[[dict[str, Any]], str]:
    """A part of the estimates of a method."""

    def text(results: dict[str, Any]) -> str:
        (found,) = [one for one in results["models"]["service_rate"] if one["method"] == method]
        known = f"; {percent(found['known'], 0)} of attempts end with an estimate"
        return f"{percent(found[field], 0)}{known}"

    return text


def trusted(model: str) -> Callable[[dict[str, Any]], str]:
    """Rates of the classifier for a model."""

    def text(results: dict[str, Any]) -> str:
        (found,) = [one for one in results["models"]["classifier"]["models"] if one["model"] == model]
        right, wrong = percent(found["true_positives"]), percent(found["false_positives"])
        return f"{percent(found['accuracy'])}; trusts {right} of the right and {wrong} of the wrong models"

    return text


def method(cores: int, name: str) -> Callable[[dict[str, Any]], str]:
    """The part of the optimum that a method reaches on so many simulated cores."""

    def text(results: dict[str, Any]) -> str:
        all_methods = results[f"tune_plans_{cores}"]
        (found,) = [one for one in all_methods["methods"] if one["method"] == name]
        of = f"{all_methods['starts']} starts of {all_methods['plans']} plans"
        return f"{percent(found['geometric_mean'])}, worst decile {percent(found['worst_decile'])} ({of})"

    return text


def reached(results: dict[str, Any]) -> str:
    """The part of the best configuration of a grid that real runs reached."""
    found = results["tune"]["summary"]
    return f"{percent(found['geometric_mean'])}, worst decile {percent(found['worst_decile'])}"


def method_of_runs(name: str) -> Callable[[dict[str, Any]], str]:
    """The part of the best of a grid that a method reaches over measured times."""

    def text(results: dict[str, Any]) -> str:
        summary = results["tune"]["summary"]
        (found,) = [one for one in summary["methods"] if one["method"] == name]
        of = f"{summary['starts']} starts"
        return f"{percent(found['geometric_mean'])}, worst decile {percent(found['worst_decile'])} ({of})"

    return text


def settling_of_runs(results: dict[str, Any]) -> str:
    """Changes, trials and seconds of real runs until the goal."""
    summary = results["tune"]["summary"]
    found = summary["to_goal"]
    if not found:
        return f"none of {summary['starts']} runs came to 95 %"
    return (
        f"{found['changes']:.0f} changes, {found['trials']:.0f} trials and {found['at_s']:.1f} s to 95 % of the best "
        f"(medians), not in {summary['never_to_goal']} of {summary['starts']} runs; {summary['changes_after_goal']} "
        "changes after that in all"
    )


def load_changes(results: dict[str, Any]) -> str:
    """Changes after a change of the load, and what they reach."""
    texts = []
    for one in results["tune"]["changes"]:
        part = "part not measured" if one["part"] is None else percent(one["part"])
        texts.append(f"{one['name']}: {one['changes']} changes, {part}")
    return "; ".join(texts) or MISSING


def tuning_cost(results: dict[str, Any]) -> str:
    """How much slower runs are that begin with the best configuration and are tuned."""
    plans = {plan["name"]: plan["overhead"]["mean"] for plan in results["tune"]["plans"]}
    return ", ".join(f"{percent(mean - 1)} ({name})" for name, mean in plans.items())


CHAPTERS: dict[str, list[Row]] = {
    "Chapter 4: flow model and sizes of buffers": [
        Row(
            "throughput by the flow model",
            "typically within 10 % (4.4); R² 0.9999 (4.3.2)",
            SIMULATED,
            flow_error,
            "ours: random plans, 16 simulated cores; the model lacks the costs of moving items, which are most of the "
            "work of the fastest plans",
        ),
        Row(
            "the same, from costs that a running plan measures",
            "not reported",
            SIMULATED,
            lambda r: error(r["tune_plans_16"]["prediction_error"]),
            "what moving items costs is in these; the controller uses them",
        ),
        Row(
            "the same, real runs",
            "typically within 10 %",
            MEASURED,
            lambda r: error(r["tune"]["simulated"]["flow_model"]),
            "ours: each operator measured by itself, all configurations of a grid",
        ),
        Row(
            "the simulator, real runs",
            "no simulator",
            MEASURED,
            lambda r: error(r["tune"]["simulated"]["simulated"]),
            "the same costs and runs; the goal is 10 %",
        ),
        Row(
            "a buffer as M/M/1 asks for it is large enough",
            "in all applications (figures 4.14 to 4.16)",
            SIMULATED,
            lambda r: (
                f"{percent(r['models']['buffers']['enough'], 0)} of {r['models']['buffers']['links']} links; the least "
                f"reaches {percent(r['models']['buffers']['least'])} of the throughput"
            ),
            "there: occupancy never above the capacity; ours: 95 % of the throughput of an unbounded link, where a "
            "writer that found the link full waits until half of it is free",
        ),
    ],
    "Chapter 5: noise of execution times": [
        Row(
            "nearest distribution",
            "Levy: the only one with p ≥ 0.01 for more than a tenth of the data (table 5.3)",
            MEASURED,
            noise_ranks,
            "ours: Kullback-Leibler divergence of fits, one machine, some thousand runs for each nominal time",
        ),
        Row(
            "truncated Levy, normal: distance from the data",
            "mean p 0.025, 0.002 (table 5.3)",
            MEASURED,
            levy_against_normal,
            "ours in nats, less is nearer, by nominal time; there many machines, and p of Anderson and Darling",
        ),
    ],
    "Chapter 6: service rates and monitoring": [
        Row(
            "estimates within 20 %, a filtered quantile",
            "the majority of 1,800 (6.6)",
            SIMULATED,
            rates("filtered_quantile", "within_20_percent"),
            "the dissertation's method on simulated queues, utilization 0.5 to 0.98",
        ),
        Row(
            "the same, utilization law",
            "not used",
            SIMULATED,
            rates("utilization_law", "within_20_percent"),
            "our method, on the same queues",
        ),
        Row(
            "both phases of a run found",
            "most at high utilization; neither in 0.24 % (6.6)",
            SIMULATED,
            lambda r: (
                f"{percent(r['models']['changes']['both_phases_within_20_percent'], 0)}; change noticed in "
                f"{percent(r['models']['changes']['noticed'], 0)}"
            ),
            "ours: the service time doubles from utilization 0.6, or falls by two fifths from 0.98; utilization law",
        ),
        Row(
            "overhead of monitoring",
            "1 to 2 % (6.6)",
            MEASURED,
            tuning_cost,
            "ours: runs that begin with the best configuration of a grid, tuned beside untuned; trials are in it, too",
        ),
    ],
    "Chapter 7: whether a model may be believed": [
        Row(
            "M/M/1: correct",
            "88.1 % (SVM), 80.8 % (network)",
            SIMULATED,
            trusted("mm1k"),
            "there a random split of measured queues; ours links whose writer or reader has a distribution that "
            "training lacks, and a bounded queue",
        ),
        Row("M/D/1: correct", "83.4 % (SVM), 79.2 % (network)", SIMULATED, trusted("md1k"), "as above"),
        Row(
            "M/M/1 on distributions that training lacks",
            "55.8 %, 44.2 % of all falsely trusted (table 7.3)",
            SIMULATED,
            trusted("mm1k"),
            "there trained with one distribution, ours with four",
        ),
    ],
    "Chapter 8: tuning while it runs": [
        Row(
            "part of the optimum, 16 cores",
            "72 % of the best of an enumeration (8.1.4)",
            SIMULATED,
            method(16, "controller"),
            "there one application on 14 cores; ours random plans from starts below 70 % of the optimum",
        ),
        Row("the same, 4 cores", "no figure", SIMULATED, method(4, "controller"), "as above"),
        Row("the same, 64 cores", "no figure", SIMULATED, method(64, "controller"), "as above"),
        Row(
            "the dissertation's rule, 16 cores",
            "72 %",
            SIMULATED,
            method(16, "dissertation"),
            "one more replica for the busiest stage while a window is faster, in our runtime",
        ),
        Row(
            "part of the best of a grid, real runs",
            "72 %",
            MEASURED,
            reached,
            "ours: four plans and four byte streams, from starts below 70 % of the best",
        ),
        *(
            Row(
                f"{label}, real runs",
                paper,
                MEASURED,
                method_of_runs(name),
                "over the measured times of the same grids, as many trials as the tuner made",
            )
            for name, label, paper in (
                ("controller", "the same by those times", "72 %"),
                ("all cores", "all threads and replicas", "no figure"),
                ("random search", "random search", "no figure"),
                ("hill climbing", "hill climbing", "no figure"),
                ("DS2", "DS2", "no figure"),
                ("dissertation", "the dissertation's rule", "72 %"),
            )
        ),
        Row(
            "changes until it is settled, real runs",
            "11 duplications within 4 ms",
            MEASURED,
            settling_of_runs,
            "a trial is several windows of 40 ms or longer",
        ),
        Row(
            "after the load has changed, real runs",
            "no figure",
            MEASURED,
            load_changes,
            "ours: changes of the configuration, and the part of the best under the new load",
        ),
        Row(
            "changes until it is settled",
            "11 duplications within 4 ms",
            SIMULATED,
            settling,
            "a window is 40 ms or longer here: each change has to show its gain in a paired trial",
        ),
    ],
}

HEAD = """# The dissertation's figures and ours

J. C. Beard, *Online Modeling and Tuning of Parallel Stream Processing Systems* (Washington University, 2015), chapters
4 to 8, beside what this project has instead. `make dissertation` writes this page: figures of ours come from what
`bench/tune.py` measured and what examples of `crates/tune` simulated, none is typed.

*Simulated* runs are those of [the simulator](simulator.md). The machines, applications and programs differ in every
row, so no row is a comparison of two systems on one machine; the last column says what else differs.
"""
TAIL = """
What tuning does is in [tuning.md](tuning.md), how the classifier was trained in [trust.md](trust.md).
"""


def page(results: dict[str, Any]) -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for chapter, rows in CHAPTERS.items():
        lines = "\n".join(row.text(results) for row in rows)
        head = "| figure | dissertation | ours | ours is | why they differ |\n|---|---|---|---|---|"
        parts.append(f"## {chapter}\n\n{head}\n{lines}\n")
    return "\n".join(parts) + TAIL


def main() -> None:
    """Write the page and the figures."""
    folder, tune, pages = map(Path, sys.argv[1:4])
    results = {name: json.loads((folder / f"{name}.json").read_text()) for name in tune_figures.SIMULATIONS}
    if tune.exists():
        results["tune"] = json.loads(tune.read_text())
    pages.mkdir(parents=True, exist_ok=True)
    (pages / "dissertation.md").write_text(page(results))
    tune_figures.draw(results, pages / "figures")


if __name__ == "__main__":
    main()
