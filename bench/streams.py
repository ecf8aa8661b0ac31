"""Draws the grid of n-buffering as the paper's figures 10 to 13; report.py takes its section from here.

python streams.py rust.json FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import figures

#: Orders by whether buffers are executed at the same time or in turn, as the paper's figures are.
EXECUTION = {"none": "parallel", "output": "parallel", "execution": "in turn", "both": "in turn"}
#: The paper's figure for each source and execution; it has the order of neither output in them.
FIGURES = {
    ("file", "parallel", "none"): 10,
    ("file", "in turn", "execution"): 11,
    ("memory", "parallel", "none"): 12,
    ("memory", "in turn", "execution"): 13,
}


def size(amount: int) -> str:
    return f"{amount >> 20} MiB" if amount >= 1 << 20 else f"{amount >> 10} KiB"


def section(grid: list[dict[str, Any]]) -> str:
    """Tables of seconds, and what they show."""
    amount = size(grid[0]["bytes"])
    text = (
        "## N-buffering by workers, memory, source and order\n\n"
        f"Minimum, maximum and mean of {amount} of 16-bit samples by the paper's plain loop, as in its figures 10 to "
        "13: milliseconds, medians. All memory is divided among the workers. Files are not in the page cache.\n\n"
        "![Milliseconds by workers](figures/streams.svg)\n\n"
    )
    heads = ["source", "order", "memory", *(f"{count} worker{'s' * (count > 1)}" for count in grid[0]["workers"])]
    rows = [
        [row["source"], row["order"], size(row["memory"]), *(f"{cell[0] * 1e3:.0f}" for cell in row["grid"])]
        for row in sorted(grid, key=lambda row: (row["source"], list(EXECUTION).index(row["order"]), row["memory"]))
    ]
    return text + figures.table(heads, rows)


def draw(grid: list[dict[str, Any]], plt: Any) -> Any:
    figure, axes = plt.subplots(2, 2, figsize=(8, 6), sharex=True)
    memories = sorted({row["memory"] for row in grid})
    colours = plt.get_cmap("viridis")
    for axis, ((source, execution, order), number) in zip(axes.flat, FIGURES.items(), strict=True):
        for place, memory in enumerate(memories):
            row = next((r for r in grid if (r["source"], r["order"], r["memory"]) == (source, order, memory)), None)
            if row is None:
                continue
            middle, low, high = ([cell[which] * 1e3 for cell in row["grid"]] for which in range(3))
            colour = colours(place / max(len(memories) - 1, 1))
            axis.fill_between(row["workers"], low, high, color=colour, alpha=0.15, linewidth=0)
            axis.plot(row["workers"], middle, marker="o", markersize=3, color=colour, label=size(memory))
        axis.set_title(f"{source}, executed {execution} (the paper's figure {number})", fontsize=9)
        axis.set_xscale("log", base=2)
        axis.set_xticks(grid[0]["workers"], [str(workers) for workers in grid[0]["workers"]])
        axis.set_ylim(bottom=0)
    for axis in axes[1]:
        axis.set_xlabel("workers")
    for axis in axes[:, 0]:
        axis.set_ylabel("ms")
    figures.legend_below(figure, axes[0, 0], (len(memories) + 1) // 2)
    return figure


def main() -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    measured, folder = Path(sys.argv[1]), Path(sys.argv[2])
    grid = [result for result in json.loads(measured.read_text()) if "grid" in result]
    if not grid:
        return
    figure = draw(grid, plt)
    figure.tight_layout(rect=(0, 0.22 * 2 / figure.get_figheight(), 1, 1))
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "streams.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
