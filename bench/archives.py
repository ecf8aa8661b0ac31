"""The applications of the WaveScope thesis, each as a bare loop, in plain Python, with one worker and with all cores.

Scan Summarize, Windowed FFT, Backwards Scan with and without reordering, and FFT Adder (J. E. Smith, 2010, tables 6.1
to 6.7), by turns: windows of 64 pages, 131,072 samples of 16 bits, of recordings that are in the page cache ("cached")
or not ("cold"). Bare loops are those of `src/archives.rs`, in a process of their own that times itself. Results are
asserted equal before a time counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from archives_seeks import Seeks, behind
from archives_supply import Supply, forget, nothing, ready
from archives_turns import RESULTS, bare, compare, opened, side_by_side, tell, timed
from archives_work import (
    CORES,
    WINDOW,
    adder,
    adder_plain,
    plain,
    record,
    spectra,
    summaries,
    summarize,
    tasklets,
    transform,
    writing,
)
from peers_flow import Server

# Behind them: they set the number of threads before NumPy is loaded.
from peers import quartiles  # isort: skip
import numpy as np  # isort: skip

import isochrony as iso


def scans(path: Path, server: Server, supply: Supply, array: Path, size: int, rounds: int) -> None:
    """Scan Summarize and Backwards Scan (tables 6.1, 6.4 to 6.6)."""
    several = f"{CORES} workers"
    for state, prepare in (("cached", nothing), ("cold", forget(path, supply))):
        compare(
            f"scan-summarize/{state}",
            {
                "bare loop": bare(server, f"forward {size} {array}"),
                "plain Python": opened(path, lambda store: plain(store, summarize)),
                "plan, 1 worker": opened(path, lambda store: summaries(store, 1)),
                f"plan, {several}": opened(path, lambda store: summaries(store, CORES)),
                "tasklets, 1 worker": opened(path, lambda store: tasklets(store, summarize, 1)),
                f"tasklets, {several}": opened(path, lambda store: tasklets(store, summarize, CORES)),
            },
            {("plan, 1 worker", "bare loop"): 0.95},
            size,
            rounds,
            prepare,
        )
        compare(
            f"backwards-scan/{state}",
            {
                "bare loop forward": bare(server, f"forward {size} {array}"),
                "bare loop backward": bare(server, f"backward {size} {array}"),
                "plain Python backward": opened(path, lambda store: plain(store, summarize, backwards=True)),
                "tasklets forward": opened(path, lambda store: tasklets(store, summarize, 1)),
                "tasklets as given": opened(
                    path, lambda store: tasklets(store, summarize, 1, backwards=True, order="given")
                ),
                "tasklets reordered": opened(path, lambda store: tasklets(store, summarize, 1, backwards=True)),
            },
            {("tasklets reordered", "tasklets forward"): 0.95},
            size,
            rounds,
            prepare,
        )
    compare(
        "backwards-scan/behind seeks of 1 ms",
        {
            "tasklets forward": opened(path, lambda store: tasklets(store, behind(Seeks(1e-3, path)), 1)),
            "tasklets as given": opened(
                path, lambda store: tasklets(store, behind(Seeks(1e-3, path)), 1, backwards=True, order="given")
            ),
            "tasklets reordered": opened(
                path, lambda store: tasklets(store, behind(Seeks(1e-3, path)), 1, backwards=True)
            ),
        },
        {("tasklets reordered", "tasklets forward"): 0.95},
        size,
        max(rounds - 2, 1),
        nothing,
    )


def windowed_fft(store: iso.Store, servers: list[Server], array: Path, size: int, rounds: int) -> None:
    """Tables 6.2 and 6.3, figure 6-2."""
    several = f"{CORES} workers"
    whole = bare(servers[0], f"fft {size} {array}")()[1]
    together = f"{CORES} independent bare loops"
    compare(
        "windowed-fft/cached",
        {
            "bare loop": bare(servers[0], f"fft {size} {array}"),
            together: side_by_side(servers, f"fft {size // CORES} {array}", whole),
            "plain Python": timed(plain(store, transform)),
            "plan, 1 worker": timed(spectra(store, "float32", 1, whole)),
            f"plan, {several}": timed(spectra(store, "float32", CORES, whole)),
            "tasklets, 1 worker": timed(tasklets(store, transform, 1)),
            f"tasklets, {several}": timed(tasklets(store, transform, CORES)),
        },
        {(f"plan, {several}", together): 0.97},
        size,
        rounds,
        nothing,
    )
    # Many pairs: what is asked for is less than one run differs from the next by.
    compare(
        "windowed-fft/overhead",
        {"plain Python": timed(plain(store, transform)), "tasklets, 1 worker": timed(tasklets(store, transform, 1))},
        {("tasklets, 1 worker", "plain Python"): 0.98},
        size,
        5 * rounds,
        nothing,
    )
    compare(
        "windowed-fft/double/cached",
        {
            "bare loop": bare(servers[0], f"fft64 {size} {array}"),
            together: side_by_side(servers, f"fft64 {size // CORES} {array}", whole),
            "plan, 1 worker": timed(spectra(store, "float64", 1, whole)),
            f"plan, {several}": timed(spectra(store, "float64", CORES, whole)),
        },
        {(f"plan, {several}", together): 0.97},
        size,
        rounds,
        nothing,
    )


def small(path: Path, rounds: int) -> None:
    """What a tasklet costs besides its function: one small input, then an output, too; making it included."""
    count, part = 4000, 1024

    def doubled(inputs: list[iso.Selection], outputs: list[Any]) -> None:
        np.multiply(np.asarray(inputs[0]), 2, out=outputs[0].array)

    with iso.open(path, "r+") as store:
        signal = store["a"]
        parts = [slice(at, at + part) for at in range(0, count * part, part)]

        def bare() -> float:
            start = time.perf_counter()
            for at in parts:
                summarize([signal[at]], [])
            return time.perf_counter() - start

        def one_input() -> float:
            start = time.perf_counter()
            executor = iso.Executor()
            executor.add(*(iso.Tasklet(summarize, [signal[at]], name=str(at.start)) for at in parts))
            executor.run()
            return time.perf_counter() - start

        def with_scratch() -> float:
            room = store.scratch(dtype="i2", rate=2000)
            room.reserve(count * part)
            start = time.perf_counter()
            executor = iso.Executor()
            executor.add(*(iso.Tasklet(doubled, [signal[at]], [room[at]], name=str(at.start)) for at in parts))
            executor.run()
            return time.perf_counter() - start

        def bare_doubled() -> float:
            room = np.empty(part, "i2")
            start = time.perf_counter()
            for at in parts:
                np.multiply(np.asarray(signal[at]), 2, out=room)
            return time.perf_counter() - start

        for name, ours, other in (
            ("an input", one_input, bare),
            ("an input and an output", with_scratch, bare_doubled),
        ):
            spent = [(ours() - other()) / count * 1e9 for _ in range(rounds + 1)][1:]
            middle = quartiles(spent)
            met = middle[0] <= 15_000
            what = f"besides the function, for a tasklet of {name}"
            RESULTS.append(
                {
                    "name": f"archives/tasklet/{name}",
                    "nanoseconds": middle,
                    "what": what,
                    "goal": "<= 15000",
                    "met": met,
                }
            )
            print(f"archives/tasklet/{name}: {middle[0] / 1e3:.1f} us {what}; goal <= 15: {met}", flush=True)


def fft_adder(path: Path, server: Server, supply: Supply, arrays: list[Path], size: int, rounds: int) -> None:
    """Table 6.7, figure 6-4. The model's bound is that of the thesis's section 6.4.2: what a loop takes divided among
    the cores, but no less than the disk takes for what is written. For tasklets that are Python functions the loop is
    plain Python; for those that are plans it is that, too, and the bare one. Sums are durable on all sides, inputs
    cached.
    """
    functions, plans = f"tasklets, {CORES} workers", f"tasklets that are plans, {CORES} workers"
    budget = 64 << 20
    whole = bare(server, f"adder {size} {arrays[0]} {arrays[1]}")()[1]
    disk = "writing and syncing as much"
    times = compare(
        "fft-adder/cached",
        {
            "bare loop": bare(server, f"adder {size} {arrays[0]} {arrays[1]}"),
            disk: writing(path, size // (2 * WINDOW), lambda: whole),
            "plain Python": adder_plain(path),
            "plain Python, not synced": adder_plain(path, synced=False),
            "tasklets, 1 worker": adder(path, 1, budget),
            functions: adder(path, CORES, budget),
            f"tasklets, {CORES} processes": adder(path, CORES, budget, on_workers="processes"),
            "tasklets that are plans, 1 worker": adder(path, 1, budget, plans=True),
            plans: adder(path, CORES, budget, plans=True),
        },
        {},
        2 * size,
        rounds,
        ready(3 * size, supply),
    )

    def bound(loop: str) -> list[float]:
        return [max(seconds / CORES, written) for seconds, written in zip(times[loop], times[disk], strict=True)]

    for ours, loop, goal in (
        (functions, "plain Python", 0.9),
        (plans, "plain Python", 0.9),
        (plans, "bare loop", None),
    ):
        name = f"archives/fft-adder/cached/{ours}"
        tell(name, times[ours], f"the model's bound by the {loop}", bound(loop), goal, 2 * size)
    # As if the disk took what it is given at once.
    ideal = [seconds / CORES for seconds in times["plain Python, not synced"]]
    name = f"archives/fft-adder/cached/{functions}"
    tell(name, times[functions], "plain Python, not synced, by cores", ideal, None, 2 * size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rust", type=Path, required=True, help="the Rust benchmark, iso-bench")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 7
    windows = 32 if arguments.quick else 2048
    servers = [Server(arguments.rust, "--serve") for _ in range(CORES)]
    supply = Supply(arguments.rust)
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        path = Path(folder) / "archives.iso"
        record(path, ["a", "b"], windows)
        size = windows * WINDOW * 2
        arrays = [path / name / "data" for name in "ab"]
        scans(path, servers[0], supply, arrays[0], size, rounds)
        with iso.open(path) as store:
            windowed_fft(store, servers, arrays[0], size, max(rounds - 2, 1))
        small(path, rounds)
        fft_adder(path, servers[0], supply, arrays, size, max(rounds - 2, 1))
    for server in (*servers, supply):
        server.close()
    if arguments.out:
        arguments.out.write_text(json.dumps({"results": RESULTS, "missing": []}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
