"""What a Python function in a plan costs a block, beside what the function itself does.

By turns in one process: a plan whose operator is a Python function that returns what it is given, the same plan with
an operator of the engine in its place, and the bare call of the function on an array. The crossing is the time a block
that the first takes more than the second. No other Python thread runs but the one that waits for the run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from peers import quartiles

import isochrony as iso

WINDOW = 64
GOAL_NS = 500.0


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def measure(blocks: int, rounds: int) -> dict[str, list[float]]:
    """Nanoseconds a block, of each round: of the crossing and of the bare call."""
    samples = np.arange(blocks * WINDOW, dtype="f4")
    windows = iso.scan(samples, WINDOW, rate=1000).rewindow(WINDOW)

    def same(rows: np.ndarray) -> np.ndarray:
        return rows

    crossing = windows.map(iso.py(same, dtype="f4", width=WINDOW))
    engine = windows.passthrough()
    # The result is what it would be without the function, and one block is one call.
    assert np.array_equal(crossing.collect(), samples.reshape(-1, WINDOW))
    assert {one.name: one.items for one in crossing.run().report.operators}["py"] == blocks
    row = samples[:WINDOW].reshape(1, -1)

    def bare() -> None:
        for _ in range(blocks):
            same(row)

    taken: dict[str, list[float]] = {"crossing": [], "bare": []}
    for _ in range(rounds):
        with_function = crossing.run().report.elapsed_s
        without = engine.run().report.elapsed_s
        taken["crossing"].append((with_function - without) / blocks * 1e9)
        taken["bare"].append(seconds(bare) / blocks * 1e9)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    taken = measure(*(2_000, 3) if arguments.quick else (20_000, 25))
    crossing, bare = quartiles(taken["crossing"]), quartiles(taken["bare"])
    met = crossing[0] < GOAL_NS
    for name, (median, low, high) in (("crossing", crossing), ("bare call", bare)):
        print(f"py/{name}: {median:.0f} ns a block ({low:.0f} to {high:.0f})")
    print(f"goal: below {GOAL_NS:.0f} ns: {'met' if met else 'missed'}")
    result = {
        "name": f"py/crossing/{WINDOW}-samples",
        "what": f"for each block; the bare call takes {bare[0]:.0f}",
        "nanoseconds": crossing,
        "goal": f"< {GOAL_NS:.0f} ns",
        "met": met,
    }
    if arguments.out:
        arguments.out.write_text(json.dumps([result], indent=1))


if __name__ == "__main__":
    main()
