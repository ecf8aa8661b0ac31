"""The WaveScope thesis's figures 6-1 to 6-4: Scan Summarize by load and I/O strategy, and applications by workers.

    python scaling.py --dir DIR --rust RUST --out FILE   measures
    python scaling.py --draw FILE FOLDER                 draws; report.py takes its section from here

Figure 6-1 is in `loads.py`; the applications are those of `archives.py`. All runs of an application go by turns.
Speedup is the seconds of one worker over those of so many, round by round.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import figures
import loads
from archives_supply import Supply, forget, nothing, ready
from archives_turns import Prepare, Run, opened, order
from archives_work import CORES, WINDOW, adder, adder_operators, record, spectra, summarize, tasklets, transform
from bystanders import Bystanders, sentence
from peers import quartiles

#: What the thesis says of these figures (sections 6.2.5, 6.3.5 and 6.4.4), on twelve cores.
THESIS = {
    "Windowed FFT": "linear up to 4, 8 with 11 (6-2)",
    "Backwards Scan": "none (6-3)",
    "FFT Adder": "3 with 4, then bound by the disk (6-4)",
}
BUDGET = 64 << 20
#: Workers that are pinned, and rounds with them: the gain is small.
PINNED_WORKERS, PINNED_ROUNDS = sorted({1, CORES, 2 * CORES}), 15


def by_turns(runs: dict[Any, Run], rounds: int, prepare: Prepare) -> dict[Any, list[float]]:
    """Seconds of each, after a round that does not count; over the rounds each follows each other as often."""
    names = list(runs)
    times: dict[Any, list[float]] = {name: [] for name in names}
    expected = None
    for turn in range(rounds + 1):
        for name in (names[k] for k in order(len(names), turn)):
            with prepare():
                seconds, found = runs[name]()
            expected = found if expected is None else expected
            assert found == expected, f"{name} finds {found} instead of {expected}"
            if turn:
                times[name].append(seconds)
    return times


def speedups(
    makes: dict[str, Callable[[int], Run]], workers: list[int], rounds: int, prepare: Prepare
) -> dict[str, dict[str, Any]]:
    """Of one application, as it may be written, all by turns."""
    runs = {(name, count): make(count) for name, make in makes.items() for count in workers}
    times = by_turns(runs, rounds, prepare)
    found = {}
    for name in makes:
        one = times[name, workers[0]]
        found[name] = {
            "seconds": [quartiles(times[name, count]) for count in workers],
            "speedup": [quartiles([a / b for a, b in zip(one, times[name, count], strict=True)]) for count in workers],
        }
    return found


def pinning(path: Path, rounds: int) -> list[dict[str, Any]]:
    """Windowed FFT as tasklets, pinned and not, by turns: unpinned over pinned seconds, round by round."""
    found = []
    for place in ("threads", "processes"):

        def make(count: int, pin: bool, place: str = place) -> Run:
            return opened(path, lambda store: tasklets(store, transform, count, pin=pin, on_workers=place))

        runs = {(count, pin): make(count, pin) for count in PINNED_WORKERS for pin in (False, True)}
        times = by_turns(runs, rounds, nothing)
        for count in PINNED_WORKERS:
            free, pinned = times[count, False], times[count, True]
            gain = quartiles([a / b for a, b in zip(free, pinned, strict=True)])
            found.append(
                {"place": place, "workers": count, "free": quartiles(free), "pinned": quartiles(pinned), "gain": gain}
            )
    return found


def measure(folder: Path, supply: Supply, quick: bool, windows: int, most: float) -> dict[str, Any]:
    rounds, windows = (1, 32) if quick else (5, windows)
    bystanders = Bystanders()
    path = folder / "scaling.iso"
    record(path, ["a", "b"], windows)
    workers = list(range(1, 2 * CORES + 1))
    cold = forget(path, supply)
    applications = speedups(
        {"Windowed FFT, a plan": lambda count: opened(path, lambda store: spectra(store, "float32", count, 0))},
        workers,
        rounds,
        nothing,
    )
    applications |= speedups(
        {"Windowed FFT, tasklets": lambda count: opened(path, lambda store: tasklets(store, transform, count))},
        workers,
        rounds,
        nothing,
    )
    backwards = {
        "Backwards Scan reordered, from the disk": lambda count: opened(
            path, lambda store: tasklets(store, summarize, count, backwards=True)
        )
    }
    applications |= speedups(backwards, workers, rounds, cold)
    adders = {
        "FFT Adder, tasklets": lambda count: adder(path, count, BUDGET),
        "FFT Adder, tasklets that are plans": lambda count: adder(path, count, BUDGET, plans=True),
        "FFT Adder, a plan of operators": lambda count: adder_operators(path, count, BUDGET),
    }
    applications |= speedups(adders, workers, rounds, ready(6 * windows * WINDOW, supply))
    pinned = pinning(path, 1 if quick else PINNED_ROUNDS)
    size = windows * WINDOW * 2
    shutil.rmtree(path)
    return {
        "bytes": size,
        "others": bystanders.cores(),
        "loads": loads.measure(folder, supply, quick, most),
        "workers": workers,
        "applications": applications,
        "pinning": pinned,
    }


# --- the report --------------------------------------------------------------------


def section(measured: dict[str, Any], machine: str = "") -> str:
    by_workers = [
        [
            name,
            *(f"{figures.spread(ratio)}, {one['seconds'][k][0]:.2f} s" for k, ratio in enumerate(one["speedup"])),
            next((said for begin, said in THESIS.items() if name.startswith(begin)), ""),
        ]
        for name, one in measured["applications"].items()
    ]
    heads = [f"{count} worker{'s' * (count > 1)}" for count in measured["workers"]]
    return (
        "## The thesis's figures 6-1 to 6-4\n\n"
        "`make -C bench scaling_section` measures these by themselves.\n\n"
        + (f"{machine}\n" if machine else "")
        + "![Seconds by load, and speedup by workers](figures/scaling.svg)\n\n"
        + loads.section(measured["loads"])
        + f"\nSpeedup of applications over {measured['bytes'] >> 20} MiB a recording by workers, on {CORES} cores, and "
        "seconds. Those of FFT Adder go by turns with each other.\n"
        + sentence(measured["others"])
        + "\n"
        + figures.table(["speedup", *heads, "thesis"], by_workers)
        + "\nWindowed FFT as tasklets with `Executor(pin=True)` over the same without, by turns. The thesis pins each "
        "worker process to the next core in turn and says that it runs faster (section 4.5.2); it has no figure.\n\n"
        + figures.table(["workers", "without", "pinned", "gain"], [pinned_row(one) for one in measured["pinning"]])
    )


def pinned_row(one: dict[str, Any]) -> list[str]:
    seconds = [f"{figures.spread(one[kind])} s" for kind in ("free", "pinned")]
    return [f"{one['place']}, {one['workers']}", *seconds, figures.spread(one["gain"])]


def draw(measured: dict[str, Any], plt: Any) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2))
    colours = plt.get_cmap("tab10")
    loads.draw(measured["loads"], left, colours)
    # Room for the legend below what was measured.
    left.set_ylim(bottom=left.get_ylim()[0] / 10)
    left.legend(fontsize=6, ncols=3, loc="lower right")
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
    right.legend(fontsize=6, loc="lower center")
    figure.tight_layout()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rust", type=Path, help="the Rust benchmark, iso-bench")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--windows", type=int, default=1024, help="of each recording of the applications")
    parser.add_argument("--largest", type=float, default=math.inf, metavar="MB", help="leave out larger loads")
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
        measured = measure(Path(folder), supply, arguments.quick, arguments.windows, arguments.largest)
    supply.close()
    print(section(measured))
    if arguments.out:
        arguments.out.write_text(json.dumps(measured, indent=1))


if __name__ == "__main__":
    sys.exit(main())
