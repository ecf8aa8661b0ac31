"""Draws what tuning reaches, by method, and what models predict beside what was simulated or measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Simulated.
CORES = (4, 16, 64)
#: Results of examples of `crates/tune`.
SIMULATIONS = ("models", *(f"tune_plans_{cores}" for cores in CORES))
#: By the name in the results: the label, and whether it is drawn as ours.
METHODS = {
    "start": "the start",
    "all ones": "one thread,\none replica",
    "all cores": "all threads\nand replicas",
    "random search": "random\nsearch",
    "hill climbing": "hill\nclimbing",
    "DS2": "DS2",
    "dissertation": "dissertation's\nrule",
    "controller": "controller",
}
OURS, OTHER, GUIDE = "#e15759", "#4e79a7", "#8c8c8c"
#: Goals of the geometric mean and of the worst decile.
GOALS = (0.95, 0.88)


def draw_methods(results: dict[str, Any], plt: Any) -> Any:
    """Geometric mean and worst decile of the part of the optimum, by cores."""
    figure, panels = plt.subplots(1, len(CORES), figsize=(4.5 * len(CORES), 3.6), sharey=True)
    for axes, cores in zip(panels, CORES, strict=True):
        found = results[f"tune_plans_{cores}"]
        by_name = {one["method"]: one for one in found["methods"]}
        for at, name in enumerate(METHODS):
            colour = OURS if name == "controller" else OTHER
            mean, decile = by_name[name]["geometric_mean"], by_name[name]["worst_decile"]
            axes.bar(at - 0.2, mean, 0.38, color=colour, label="geometric mean" if at == 0 else None)
            axes.bar(at + 0.2, decile, 0.38, color=colour, alpha=0.45, label="worst decile" if at == 0 else None)
        for goal, style in zip(GOALS, ("-", ":"), strict=True):
            axes.axhline(goal, color=GUIDE, linewidth=0.8, linestyle=style)
        axes.set_xticks(range(len(METHODS)), METHODS.values(), fontsize=6.5, rotation=45, ha="right")
        axes.set(ylim=(0, 1.18), title=f"{cores} cores, {found['starts']} starts, {found['plans']} plans")
    panels[0].set_ylabel("part of the optimum")
    panels[0].legend(fontsize=7, loc="upper left", ncols=2)
    return figure


def draw_predictions(results: dict[str, Any], plt: Any) -> Any:
    """Predicted against simulated throughput and, if there are real runs, against measured throughput."""
    has_runs = "simulated" in results.get("tune", {})
    figure, panels = plt.subplots(1, 1 + has_runs, figsize=(4.2 * (1 + has_runs), 4), squeeze=False)
    axes = panels[0][0]
    predicted, simulated = zip(*results["models"]["flow_model"]["pairs"], strict=True)
    scatter(axes, simulated, predicted, OTHER, "flow model")
    axes.set(xlabel="simulated, items/s", ylabel="predicted, items/s", title="40 random plans, 16 simulated cores")
    finish(axes)
    if has_runs:
        axes = panels[0][1]
        runs = [run for plan in results["tune"]["plans"] if plan["simulated"] for run in plan["simulated"]["runs"]]
        measured = [run["measured"] for run in runs]
        for kind, colour, label in (("flow_model", OTHER, "flow model"), ("simulated", OURS, "simulator")):
            scatter(axes, measured, [run[kind] for run in runs], colour, label)
        axes.set(
            xlabel="measured, samples/s", ylabel="predicted, samples/s", title=f"{len(runs)} configurations, real runs"
        )
        finish(axes)
    return figure


def scatter(axes: Any, at: Any, predicted: Any, colour: str, label: str) -> None:
    axes.scatter(at, predicted, s=12, color=colour, alpha=0.7, linewidth=0, label=label)


def finish(axes: Any) -> None:
    """The same logarithmic scale on both axes, with the line of equality and 10 % around it."""
    axes.set(xscale="log", yscale="log")
    low, high = min(axes.get_xlim()[0], axes.get_ylim()[0]), max(axes.get_xlim()[1], axes.get_ylim()[1])
    ends = [low, high]
    axes.plot(ends, ends, color=GUIDE, linewidth=0.8)
    axes.fill_between(
        ends, [0.9 * one for one in ends], [1.1 * one for one in ends], color=GUIDE, alpha=0.2, linewidth=0
    )
    axes.set(xlim=ends, ylim=ends)
    axes.legend(fontsize=7, loc="upper left")


def draw(results: dict[str, Any], folder: Path) -> None:
    """Both as SVG without dates, so that the same results give the same files."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "isochrony", "svg.fonttype": "none", "axes.titlesize": 9})
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figures = {"tuning_methods": draw_methods(results, plt), "tuning_predictions": draw_predictions(results, plt)}
    for name, figure in figures.items():
        figure.tight_layout()
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)
