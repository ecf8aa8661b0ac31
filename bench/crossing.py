"""What a Python function in a plan costs a block, beside what the function itself does.

By turns in one process: a plan whose operator is a Python function that returns what it is given, the same plan with
an operator of the engine in its place, and the bare call of the function on an array. The crossing is the time a block
that the first takes more than the second. No other Python thread runs but the one that waits for the run.

    python bench/crossing.py [--json]
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import isochrony as iso

BLOCKS = 20_000
WINDOW = 64
TURNS = 15
GOAL_S = 0.5e-6


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main() -> None:
    samples = np.arange(BLOCKS * WINDOW, dtype="f4")
    windows = iso.scan(samples, WINDOW, rate=1000).rewindow(WINDOW)

    def same(rows: np.ndarray) -> np.ndarray:
        return rows

    crossing = windows.map(iso.py(same, dtype="f4", width=WINDOW))
    engine = windows.passthrough()
    # The result is what it would be without the function, and one block is one call.
    assert np.array_equal(crossing.collect(), samples.reshape(-1, WINDOW))
    assert {one.name: one.items for one in crossing.run().report.operators}["py"] == BLOCKS
    row = samples[:WINDOW].reshape(1, -1)

    def bare() -> None:
        for _ in range(BLOCKS):
            same(row)

    taken: dict[str, list[float]] = {"crossing": [], "bare": []}
    for _ in range(TURNS):
        with_function = crossing.run().report.elapsed_s
        without = engine.run().report.elapsed_s
        taken["crossing"].append((with_function - without) / BLOCKS)
        taken["bare"].append(seconds(bare) / BLOCKS)
    median = {name: statistics.median(values) for name, values in taken.items()}
    spread = {name: (min(values), max(values)) for name, values in taken.items()}
    if "--json" in sys.argv:
        print(json.dumps({"median_s": median, "spread_s": spread, "goal_s": GOAL_S}))
        return
    for name, value in median.items():
        low, high = spread[name]
        print(f"{name:<10}{value * 1e9:8.0f} ns a block   ({low * 1e9:.0f} to {high * 1e9:.0f} in {TURNS} turns)")
    verdict = "reached" if median["crossing"] < GOAL_S else "missed"
    print(f"goal: below {GOAL_S * 1e9:.0f} ns: {verdict}")


if __name__ == "__main__":
    main()
