"""The WaveScope thesis's figure 6-1: Scan Summarize from the disk by load and I/O strategy, up to more than memory.

Loads that the page cache has room for are dropped from it (posix_fadvise) before each run. The largest is more than is
left of the machine's memory: a process of its own (`memory_ballast.py`) holds the rest, so that what is scanned last
has displaced what comes first, as in the thesis. How much of each run came from the disk is what the kernel counts
(/proc/self/io). All strategies of a load go by turns; each is asserted to find the same.
"""

from __future__ import annotations

import mmap
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import figures
from archives_supply import Supply, forget, nothing
from archives_turns import Prepare, Run, opened, order
from archives_work import WINDOW, files, record
from bystanders import Bystanders, sentence
from peers import quartiles
from peers_flow import Server

import isochrony as iso

STRATEGIES = ("read", "mmap", "readahead", "readahead_all", "populate", "direct", "io_uring", "io_uring_direct")
#: What the thesis calls these strategies, and the seconds of its tables 5.2 and 6.1 (medians, 3,947 MB).
THESIS = {
    "read": ("Fread", 32.90),
    "mmap": ("Mmap", 51.75),
    "readahead": ("Ptr RA", 26.10),
    "readahead_all": ("Long RA", 52.21),
}
THESIS_LOAD = 3947.0
#: The thesis's loads in megabytes (section 6.1.2), but for its fourth, of 58.69 GB.
LOADS = (785.25, 3760.0, 18_380.0)
QUICK = (2.1, 4.2, 8.4)
#: Of the largest load what is left of memory for the page cache and everything else.
LEFT = 0.6
DISK = "the disk alone"


def scan(strategy: str, windows: int) -> Callable[[iso.Store], Callable[[], int]]:
    def make(store: iso.Store) -> Callable[[], int]:
        plan = iso.scan(store["a"][: windows * WINDOW], io=strategy).rewindow(WINDOW).stats("min", "max", "mean")

        def run() -> int:
            found = plan.collect()
            assert len(found) == windows
            return int(found["min"].sum()) + int(found["max"].sum()) + int((found["mean"] * WINDOW).sum())

        return run

    return make


def bare(path: Path, size: int) -> Run:
    """Reads as many bytes past the page cache, four MiB at a time, and looks at none: what the disk gives."""
    shards = sorted(files(path), key=lambda shard: int(shard.name))
    buffer = mmap.mmap(-1, 4 << 20)

    def turn() -> tuple[float, int]:
        left, start = size, time.perf_counter()
        for shard in shards:
            if left <= 0:
                break
            descriptor, at = os.open(shard, os.O_RDONLY | os.O_DIRECT), 0
            while left > 0 and (count := os.preadv(descriptor, [buffer], at)):
                at += count
                left -= count
            os.close(descriptor)
        return time.perf_counter() - start, 0

    return turn


def from_disk() -> int:
    """Bytes that this process has had read from the disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split(": ")[1]) for line in lines if line.startswith("read_bytes"))


def of_load(
    path: Path, windows: int, rounds: int, prepare: Prepare, *, warm_up: bool = True
) -> dict[str, dict[str, list[float]]]:
    """Seconds of each strategy and what part of the load came from the disk; a round that warms up does not count."""
    size = windows * WINDOW * 2
    runs = {strategy: opened(path, scan(strategy, windows)) for strategy in STRATEGIES} | {DISK: bare(path, size)}
    names = list(runs)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    shares: dict[str, list[float]] = {name: [] for name in names}
    expected = None
    for turn in range(0 if warm_up else 1, rounds + 1):
        for name in (names[k] for k in order(len(names), turn)):
            with prepare():
                before = from_disk()
                spent, found = runs[name]()
                share = (from_disk() - before) / size
            if name != DISK:
                expected = found if expected is None else expected
                assert found == expected, f"{name} finds {found} instead of {expected}"
            if turn:
                seconds[name].append(spent)
                shares[name].append(share)
    return {name: {"seconds": quartiles(seconds[name]), "from_disk": quartiles(shares[name])} for name in names}


def available() -> int:
    """Bytes of memory that programs and the page cache may take."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


def measure(folder: Path, supply: Supply, quick: bool, most: float) -> dict[str, Any]:
    """Loads of at most so many megabytes that the disk has room for."""
    rounds, bystanders = 1 if quick else 3, Bystanders()
    room = min(shutil.disk_usage(folder).free / 1.5e6, most)
    loads = [load for load in (QUICK if quick else LOADS) if load <= room]
    if not loads:
        raise SystemExit(f"{folder} has room for no load of {LOADS[0]:.0f} MB; give another folder by --dir")
    counts = [max(round(load * 1e6 / (2 * WINDOW)), 1) for load in loads]
    path = folder / "loads.iso"
    record(path, ["a"], -(-counts[-1] // 16) * 16)
    points = []
    for windows in counts[:-1]:
        prepare = forget(path, supply, room_for=windows * WINDOW * 2)
        points.append(of_load(path, windows, rounds, prepare))
    largest = counts[-1] * WINDOW * 2
    # The largest load must not fit memory, of which other programs need some.
    scarce = loads[-1] == LOADS[-1]
    held = max(available() - round(LEFT * largest), 1 << 20) if scarce else 1 << 20
    ballast = Server(sys.executable, Path(__file__).with_name("memory_ballast.py"), str(held), greets=True)
    left = available()
    prepare = nothing if scarce else forget(path, supply)
    points.append(of_load(path, counts[-1], max(rounds - 1, 1), prepare, warm_up=not scarce))
    ballast.close()
    return {
        "megabytes": [windows * WINDOW * 2 / 1e6 for windows in counts],
        "scarce": scarce,
        "held": held,
        "others": bystanders.cores(),
        "left": left,
        "points": points,
        "missing": [load for load in (QUICK if quick else LOADS) if load not in loads],
    }


# --- the report --------------------------------------------------------------------


def section(scans: dict[str, Any]) -> str:
    """What was done, and a table of strategies by load."""
    largest = scans["megabytes"][-1]
    rows = []
    for name in (*STRATEGIES, DISK):
        points = [point[name] for point in scans["points"]]
        there, seconds = THESIS.get(name, ("", 0.0))
        rows.append(
            [
                f"`{name}`" if name != DISK else name,
                *(figures.spread(point["seconds"]) for point in points),
                f"{largest / points[-1]['seconds'][0]:.0f}",
                f"{points[-1]['from_disk'][0]:.2f}",
                f"{THESIS_LOAD / seconds:.0f} ({there})" if there else "160 (its disk)" if name == DISK else "",
            ]
        )
    heads = [f"{megabytes:,.0f} MB, s" for megabytes in scans["megabytes"]]
    absent = "".join(f" The load of {load:,.0f} MB was left out." for load in scans["missing"])
    memory = (
        f"; for the largest {scans['held'] / 1e9:.1f} GB of memory are held by another process, so that "
        f"{scans['left'] / 1e9:.1f} GB are left, and nothing is dropped"
    )
    return (
        "Scan Summarize from the disk by load and I/O strategy. The loads are the thesis's: what memory has room for "
        f"is dropped from the page cache before each run{memory if scans['scarce'] else ''}. The last columns are of "
        "the largest load: megabytes a second, the part of its bytes that the kernel read from the disk, and the "
        f"thesis's megabytes a second (3,947 MB).{absent}\n"
        + sentence(scans["others"])
        + "\n"
        + figures.table(["strategy", *heads, "MB/s", "from the disk", "MB/s, thesis"], rows)
    )


def draw(scans: dict[str, Any], axes: Any, colours: Any) -> None:
    at = scans["megabytes"]
    for place, name in enumerate((*STRATEGIES, DISK)):
        middle, low, high = zip(*(point[name]["seconds"] for point in scans["points"]), strict=True)
        colour, style = ("0.4", ":") if name == DISK else (colours(place), "-")
        axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(at, middle, marker="o", markersize=3, linestyle=style, color=colour, label=name)
    for name, (there, seconds) in THESIS.items():
        colour = colours(STRATEGIES.index(name))
        axes.plot([THESIS_LOAD], [seconds], marker="x", linestyle="", color=colour, label=f"{there}, 2010")
    if scans["scarce"]:
        axes.axvline(scans["left"] / 1e6, color="0.8", linewidth=1, label="memory left for the last load")
    axes.set(xscale="log", yscale="log", xlabel="MB", ylabel="s")
    axes.set_title("Scan Summarize from the disk (figure 6-1)", fontsize=9)
