"""The WaveScope thesis's model of FFT Adder (section 6.4.2): what its parts cost, the time that follows, and what ran.

    python adder_model.py --dir DIR --rust RUST --out FILE

The model knows four costs a byte of the two recordings: reading it from the disk, transforming it, adding the spectra,
and writing the sums. One worker transforms, adds and writes one after the other while what follows is read ahead;
several share that work, but no run is faster than the disk, which reads everything and writes everything. Costs are
measured by themselves, in the same round as the runs that they predict, over recordings that are not in the page cache;
sums are durable on all sides.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import figures
from archives_supply import Supply, forget, ready
from archives_turns import Prepare, Run, order
from archives_work import BINS, CORES, WINDOW, adder, adder_operators, files, record, spectrum, writing
from bystanders import Bystanders, sentence

# Behind them: they set the number of threads before NumPy is loaded.
from peers import quartiles  # isort: skip
import numpy as np  # isort: skip

import isochrony as iso

#: Windows of each recording over which transforming and adding are measured.
PART = 64
BUDGET = 64 << 20
#: The thesis's costs in nanoseconds a byte (its disk reads 160 MB/s; adding and writing are one), seconds predicted and
#: run by one worker, and by four, which ran "3x" as fast (section 6.4.4).
THESIS_COSTS = {"reading": 1e3 / 160, "transforming": 60.0, "adding and writing": 6.0}
THESIS_RUNS = [(1, 260.0, 278.33), (4, 65.0, 278.33 / 3)]

Costs = dict[str, float]


# --- costs, in seconds a byte of both recordings -------------------------------------


def reading(path: Path) -> Callable[[], float]:
    """Everything in the order of the files, by a bare loop."""
    buffer = bytearray(1 << 20)

    def cost() -> float:
        size, start = 0, time.perf_counter()
        for each in sorted(files(path)):
            with each.open("rb", buffering=0) as file:
                while count := file.readinto(buffer):
                    size += count
        return (time.perf_counter() - start) / size

    return cost


def each_byte(work: Callable[[], object]) -> Callable[[], float]:
    """Of work on as many windows of two recordings."""

    def cost() -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) / (2 * PART * WINDOW * 2)

    return cost


def costs_in_memory() -> dict[str, dict[str, Callable[[], float]]]:
    """Transforming and adding as functions do it, with SciPy and NumPy, and as the engine does."""
    samples = np.random.default_rng(5).integers(-2048, 2048, PART * WINDOW, dtype="i2")
    # Of their own for each window: in a run, spectra come from memory and sums go there.
    spectra = [np.tile(spectrum(samples[at : at + WINDOW]), (PART, 1)) for at in (0, len(samples) - WINDOW)]
    sums = np.empty((PART, BINS), "c8")
    windows = samples.reshape(PART, WINDOW)
    transformed = iso.scan(samples, rate=2000).map(lambda one: one.astype("float32")).rewindow(WINDOW).fft()
    one, other = (iso.scan(half.ravel(), rate=2000) for half in spectra)
    added = one.map(lambda x, y: x + y, other)

    def through(plan: iso.Plan) -> None:
        for _ in plan.blocks(memory=BUDGET):
            pass

    return {
        "functions": {
            "transforming": each_byte(lambda: [spectrum(window) for window in windows for _ in "ab"]),
            "adding": each_byte(
                lambda: [np.add(*rows, out=total) for *rows, total in zip(*spectra, sums, strict=True)]
            ),
        },
        "plans": {
            "transforming": each_byte(lambda: [through(transformed) for _ in "ab"]),
            "adding": each_byte(lambda: through(added)),
        },
    }


# --- the model -----------------------------------------------------------------------


def predicted(costs: Costs, workers: int) -> float:
    """Seconds a byte by the thesis's model."""
    serial = max(costs["reading"], costs["transforming"] + costs["adding"] + costs["writing"])
    return max(serial / workers, costs["reading"] + costs["writing"])


def runs(path: Path) -> dict[tuple[str, int], tuple[str, Run]]:
    """Who runs it with so many workers: whose costs predict it, and the run."""
    counts = sorted({1, CORES})
    functions = {("tasklets", n): ("functions", adder(path, n, BUDGET)) for n in counts}
    plans = {("tasklets that are plans", n): ("plans", adder(path, n, BUDGET, plans=True)) for n in counts}
    operators = {("a plan of operators", n): ("plans", adder_operators(path, n, BUDGET)) for n in counts}
    return functions | plans | operators


def measure(folder: Path, supply: Supply, rounds: int, windows: int) -> dict[str, Any]:
    bystanders = Bystanders()
    path = folder / "adder.iso"
    record(path, ["a", "b"], windows)
    size = 2 * windows * WINDOW * 2
    sums = windows * BINS * 8
    cold, room = forget(path, supply, sums * 5 // 4), ready(sums * 5 // 4, supply)
    read, write, in_memory = reading(path), writing(path, windows, lambda: 0), costs_in_memory()
    contestants = runs(path)
    costs: dict[str, list[Costs]] = {kind: [] for kind in in_memory}
    times: dict[tuple[str, int], list[float]] = {which: [] for which in contestants}
    found: set[int] = set()
    for turn in range(rounds + 1):
        disk = {"reading": within(cold, read), "writing": within(room, lambda: write()[0]) / size}
        for kind, parts in in_memory.items():
            here = disk | {name: cost() for name, cost in parts.items()}
            if turn:
                costs[kind].append(here)
        for which in (list(contestants)[k] for k in order(len(contestants), turn)):
            with cold():
                seconds, one = contestants[which][1]()
            found.add(one)
            if turn:
                times[which].append(seconds)
    assert len(found) == 1, f"runs differ in what they find: {found}"
    return {
        "bytes": size,
        "others": bystanders.cores(),
        "costs": {
            kind: {name: quartiles([one[name] for one in each]) for name in each[0]} for kind, each in costs.items()
        },
        "runs": [
            described(name, workers, times[name, workers], [predicted(one, workers) * size for one in costs[kind]])
            for (name, workers), (kind, _) in contestants.items()
        ],
    }


def within(prepare: Prepare, run: Callable[[], float]) -> float:
    with prepare():
        return run()


def described(name: str, workers: int, ran: list[float], model: list[float]) -> dict[str, Any]:
    return {
        "name": name,
        "workers": workers,
        "seconds": quartiles(ran),
        "predicted": quartiles(model),
        "ratio": quartiles([p / r for p, r in zip(model, ran, strict=True)]),
    }


# --- the report ----------------------------------------------------------------------


def section(measured: dict[str, Any], machine: str = "") -> str:
    functions, plans = measured["costs"]["functions"], measured["costs"]["plans"]

    def nanoseconds(costs: dict[str, list[float]], *names: str) -> str:
        return f"{sum(costs[name][0] for name in names) * 1e9:.2f}"

    by_cost = []
    for what, names in (
        ("reading", ["reading"]),
        ("transforming", ["transforming"]),
        ("adding and writing", ["adding", "writing"]),
        ("adding", ["adding"]),
    ):
        there = f"{THESIS_COSTS[what]:.2f}" if what in THESIS_COSTS else "–"
        by_cost.append([what, there, nanoseconds(functions, *names), nanoseconds(plans, *names)])
    by_run = [
        ["the thesis, 3,940 MB", f"{n}", f"{model:.0f}", f"{ran:.0f}", f"{model / ran:.2f}"]
        for n, model, ran in THESIS_RUNS
    ]
    by_run += [
        [
            one["name"],
            f"{one['workers']}",
            figures.spread(one["predicted"]),
            figures.spread(one["seconds"]),
            figures.spread(one["ratio"]),
        ]
        for one in measured["runs"]
    ]
    return (
        "## The thesis's model of FFT Adder (section 6.4.2)\n\n"
        "`make -C bench adder_model_section` measures this by itself. One worker takes what transforming, adding and "
        "writing take together, while what follows is read; several divide that, and the disk, which reads and writes "
        "everything, is the bound. Costs are measured by themselves in each round: of functions SciPy's transform and "
        "NumPy's sum, of plans the engine's. Writing ends when the sums are durable. "
        f"{measured['bytes'] >> 20} MiB of recordings, not in the page cache; medians (quartiles).\n"
        + sentence(measured["others"])
        + "\n"
        + (f"{machine}\n" if machine else "")
        + figures.table(["nanoseconds a byte", "thesis", "functions", "plans"], by_cost)
        + "\n"
        + figures.table(["run", "workers", "predicted, s", "ran, s", "predicted / ran"], by_run)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rust", type=Path, required=True, help="the Rust benchmark, iso-bench")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--windows", type=int, default=1024, help="of each recording")
    arguments = parser.parse_args()
    supply = Supply(arguments.rust)
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        measured = measure(Path(folder), supply, *((1, 32) if arguments.quick else (7, arguments.windows)))
    supply.close()
    print(section(measured))
    if arguments.out:
        arguments.out.write_text(json.dumps(measured, indent=1))


if __name__ == "__main__":
    sys.exit(main())
