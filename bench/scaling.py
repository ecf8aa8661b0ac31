"""The WaveScope thesis's figures 6-1 to 6-4: Scan Summarize by load and I/O strategy, and applications by workers.

    python scaling.py --dir DIR --rust RUST --out FILE   measures
    python scaling.py --draw FILE FOLDER                 draws; report.py takes its section from here

Scans are of files that are not in the page cache; they and the applications are those of `archives.py`. All runs of a
figure go by turns. Speedup is the seconds of one worker over those of so many, round by round.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import figures
from archives_supply import Supply, forget, nothing, ready
from archives_turns import Prepare, Run, opened
from archives_work import CORES, WINDOW, adder, record, spectra, summarize, tasklets, transform
from peers import quartiles

import isochrony as iso

STRATEGIES = ("read", "mmap", "readahead", "readahead_all", "populate", "direct", "io_uring", "io_uring_direct")
#: What the thesis calls these strategies, and the megabytes a second of its tables 5.2 and 6.1 (medians, 3,947 MB).
THESIS = {"read": ("Fread", 120), "mmap": ("Mmap", 76), "readahead": ("Ptr RA", 151), "readahead_all": ("Long RA", 76)}


def by_turns(runs: dict[Any, Run], rounds: int, prepare: Prepare) -> dict[Any, list[float]]:
    """Seconds of each, after a round that does not count; who begins changes from round to round."""
    names = list(runs)
    times: dict[Any, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            with prepare():
                seconds, _ = runs[name]()
            if turn:
                times[name].append(seconds)
    return times


def scan(strategy: str, samples: int) -> Callable[[iso.Store], Callable[[], int]]:
    def make(store: iso.Store) -> Callable[[], int]:
        plan = iso.scan(store["a"][:samples], io=strategy).rewindow(WINDOW).stats("min", "max", "mean")
        return lambda: len(plan.collect())

    return make


def loads(path: Path, supply: Supply, windows: int, rounds: int) -> dict[str, Any]:
    """Figure 6-1."""
    parts = [windows // 8, windows // 4, windows // 2, windows]
    runs = {(strategy, part): opened(path, scan(strategy, part * WINDOW)) for strategy in STRATEGIES for part in parts}
    times = by_turns(runs, rounds, forget(path, supply))
    return {
        "megabytes": [part * WINDOW * 2 / 1e6 for part in parts],
        "seconds": {strategy: [quartiles(times[strategy, part]) for part in parts] for strategy in STRATEGIES},
    }


def speedup(make: Callable[[int], Run], workers: list[int], rounds: int, prepare: Prepare) -> dict[str, Any]:
    """Figures 6-2 to 6-4."""
    times = by_turns({count: make(count) for count in workers}, rounds, prepare)
    one = times[workers[0]]
    return {
        "seconds": [quartiles(times[count]) for count in workers],
        "speedup": [quartiles([a / b for a, b in zip(one, times[count], strict=True)]) for count in workers],
    }


def measure(folder: Path, supply: Supply, quick: bool) -> dict[str, Any]:
    rounds, windows = (1, 32) if quick else (5, 1024)
    path = folder / "scaling.iso"
    record(path, ["a", "b"], windows)
    workers = list(range(1, 2 * CORES + 1))
    cold = forget(path, supply)
    applications = {
        "Windowed FFT, a plan": speedup(
            lambda count: opened(path, lambda store: spectra(store, "float32", count, 0)), workers, rounds, nothing
        ),
        "Windowed FFT, tasklets": speedup(
            lambda count: opened(path, lambda store: tasklets(store, transform, count)), workers, rounds, nothing
        ),
    }
    applications["Backwards Scan reordered, from the disk"] = speedup(
        lambda count: opened(path, lambda store: tasklets(store, summarize, count, backwards=True)),
        workers,
        rounds,
        cold,
    )
    room = ready(6 * windows * WINDOW, supply)
    applications["FFT Adder"] = speedup(lambda count: adder(path, count, 64 << 20), workers, rounds, room)
    return {
        "bytes": windows * WINDOW * 2,
        "loads": loads(path, supply, windows, rounds),
        "workers": workers,
        "applications": applications,
    }


# --- the report --------------------------------------------------------------------


def section(measured: dict[str, Any]) -> str:
    scans, workers = measured["loads"], measured["workers"]
    amounts = [f"{megabytes:.0f} MB" for megabytes in scans["megabytes"]]
    by_load = []
    for strategy, points in scans["seconds"].items():
        name, rate = THESIS.get(strategy, ("", 0))
        here = scans["megabytes"][-1] / points[-1][0]
        by_load.append(
            [
                f"`{strategy}`",
                *(f"{seconds[0] * 1e3:.0f} ({seconds[1] * 1e3:.0f} to {seconds[2] * 1e3:.0f})" for seconds in points),
                f"{here:.0f}",
                f"{rate} ({name})" if name else "",
            ]
        )
    by_workers = [
        [name, *(figures.spread(ratio) for ratio in one["speedup"])] for name, one in measured["applications"].items()
    ]
    heads = [f"{count} worker{'s' * (count > 1)}" for count in workers]
    return (
        "## The thesis's figures 6-1 to 6-4\n\n"
        f"Scan Summarize from the disk by load and I/O strategy, milliseconds, and megabytes a second of the largest "
        f"load beside the thesis's on a disk of 160 MB/s; then the speedup of applications over "
        f"{measured['bytes'] >> 20} MiB a recording by workers, on {CORES} cores.\n\n"
        "![Seconds by load, and speedup by workers](figures/scaling.svg)\n\n"
        + figures.table(["strategy", *amounts, "MB/s", "MB/s, thesis"], by_load)
        + "\n"
        + figures.table(["speedup", *heads], by_workers)
    )


def draw(measured: dict[str, Any], plt: Any) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6))
    colours = plt.get_cmap("tab10")
    scans = measured["loads"]
    for place, (strategy, points) in enumerate(scans["seconds"].items()):
        middle, low, high = zip(*points, strict=True)
        left.fill_between(scans["megabytes"], low, high, color=colours(place), alpha=0.15, linewidth=0)
        left.plot(scans["megabytes"], middle, marker="o", markersize=3, color=colours(place), label=strategy)
    left.set_title("Scan Summarize from the disk (figure 6-1)", fontsize=9)
    left.set_xlabel("MB")
    left.set_ylabel("s")
    left.set_xlim(left=0)
    left.set_ylim(bottom=0)
    left.legend(fontsize=7)
    workers = measured["workers"]
    for place, (name, one) in enumerate(measured["applications"].items()):
        middle, low, high = zip(*one["speedup"], strict=True)
        right.fill_between(workers, low, high, color=colours(place), alpha=0.15, linewidth=0)
        right.plot(workers, middle, marker="o", markersize=3, color=colours(place), label=name)
    right.plot(workers, [min(count, CORES) for count in workers], color="0.6", linestyle=":", label="cores")
    right.set_title("Speedup (figures 6-2 to 6-4)", fontsize=9)
    right.set_xlabel("workers")
    right.set_xticks(workers)
    right.set_ylim(bottom=0)
    right.legend(fontsize=7)
    figure.tight_layout()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rust", type=Path, help="the Rust benchmark, iso-bench")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draw", nargs=2, type=Path, metavar=("FILE", "FOLDER"))
    arguments = parser.parse_args()
    if arguments.draw:
        import matplotlib

        matplotlib.use("svg")
        import matplotlib.pyplot as plt

        file, folder = arguments.draw
        folder.mkdir(parents=True, exist_ok=True)
        measured = json.loads(file.read_text())
        draw(measured, plt).savefig(folder / "scaling.svg", metadata={"Date": None})
        return
    if arguments.rust is None:
        parser.error("--rust is needed: cargo build --release --bin iso-bench")
    supply = Supply(arguments.rust)
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        measured = measure(Path(folder), supply, arguments.quick)
    supply.close()
    print(section(measured))
    if arguments.out:
        arguments.out.write_text(json.dumps(measured, indent=1))


if __name__ == "__main__":
    sys.exit(main())
