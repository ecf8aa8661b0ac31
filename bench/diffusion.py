"""A function over files on workers with caches, against `client.map` of the same function, and against the simulator:
storage is one server that limits its rate for all and counts bytes. Results are asserted equal.

Localities as in Raicu et al. (DADC 2008): a locality of 10 means that each file is read by ten tasks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import time
import urllib.request
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import distributed
from diffusion_simulated import PARAMETERS_HEAD, SIMULATED_HEAD, Parameters, compared, measured, simulated
from diffusion_storage import Stopwatch, Storage
from peers import quartiles

import isochrony as iso
from isochrony.cluster.attachment import EVICTIONS, POLICIES

#: Files of each locality, so that each takes storage some seconds.
LOCALITIES = {1: 200, 2: 100, 5: 60, 10: 40, 30: 20}
WORKERS = (2, 4, 8)
FILE_BYTES, RATE = 2 << 20, 50e6
#: Bytes from storage over compulsory ones, hits over 1 - 1/locality, speed over that of `client.map` at a locality of
#: ten, and at any.
GOAL_BYTES, GOAL_HITS, GOAL_SPEED, GOAL_LEAST = 1.05, 0.95, 3.0, 0.97
GOAL_TASKS = 5000.0
#: Bytes of a cache beyond which all files of a locality fit, in parts of these.
AMPLE = 2.0
#: The locality at which policies and evictions are measured.
LOCALITY = 5


def digest(_: str, path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest_of_url(url: str) -> str:
    """The same function without caches."""
    with urllib.request.urlopen(url) as answer, tempfile.NamedTemporaryFile() as copy:
        copy.write(answer.read())
        copy.flush()
        return digest(url, Path(copy.name))


@dataclass
class Turn:
    """What one run took."""

    seconds: float
    cores: float
    moved: int
    results: list[str]
    hit_rate: float = 0.0
    peer_bytes: int = 0


@dataclass
class Bench:
    """A cluster, storage, and what was measured."""

    client: Any
    storage: Storage
    workers: int
    is_full: bool
    simulator: Path | None
    rounds: int = 1
    parameters: Parameters | None = None
    #: Rows of tables, and the goals that they miss, by name of the table.
    rows: dict[str, list[list[str]]] = field(default_factory=dict)
    missed: dict[str, list[str]] = field(default_factory=dict)
    #: What was simulated, for simulating it again.
    runs: list[dict[str, Any]] = field(default_factory=list)

    def cached(self, items: list[str], cache: int, policy: str, evict: str) -> Turn:
        with tempfile.TemporaryDirectory() as folder:
            where = f"{folder}/{{worker}}"
            with iso.cluster.attach(self.client, cache=cache, policy=policy, evict=evict, folder=where) as attachment:
                with Stopwatch() as watch:
                    results = iso.cluster.map(digest, items, client=attachment)
                    found = list(results)
                quotas = attachment.info().values()
                assert all(info["allocated_bytes"] <= info["quota_bytes"] for info in quotas)
            report = results.report
            return Turn(watch.seconds, watch.cores, self.storage.moved(), found, report.hit_rate, report.peer_bytes)

    def plain(self, items: list[str]) -> Turn:
        with Stopwatch() as watch:
            found = self.client.gather(self.client.map(digest_of_url, items, pure=False))
        return Turn(watch.seconds, watch.cores, self.storage.moved(), found)

    def files(self, locality: int) -> tuple[list[str], list[int]]:
        """URLs, and numbers of those that tasks read."""
        count = LOCALITIES[locality] if self.is_full else 6
        numbers = list(range(count)) * locality
        random.Random(locality).shuffle(numbers)
        return self.storage.make(count, FILE_BYTES), numbers

    def row(self, table: str, cells: list[str]) -> None:
        self.rows.setdefault(table, []).append(cells)
        print(f"{table:12}", *(f"{one:>22}" for one in cells), flush=True)

    def check(self, table: str, what: str, value: float, how: str, bound: float) -> str:
        """The value, in bold where it misses a goal."""
        if value >= bound if how == ">=" else value <= bound:
            return f"{value:.3f}"
        self.missed.setdefault(table, []).append(f"{what} {value:.3f}, not {how} {bound}")
        return f"**{value:.3f}**"

    def locality(self, locality: int) -> None:
        """A row of all localities."""
        urls, numbers = self.files(locality)
        items = [urls[number] for number in numbers]
        compulsory = len(urls) * FILE_BYTES
        ours = [
            self.cached(items, max(int(compulsory * AMPLE), 16 << 20), "good-cache-compute", "lru")
            for _ in range(self.rounds)
        ]
        # Its time is that of storage, which always takes the same.
        other = self.plain(items)
        assert all(one.results == other.results for one in ours)
        seconds = quartiles([one.seconds for one in ours])
        sent = quartiles([one.moved / compulsory for one in ours])[0]
        hits = quartiles([one.hit_rate for one in ours])[0]
        ideal = 1 - 1 / locality
        peers = quartiles([one.peer_bytes / compulsory for one in ours])[0]
        what = f"{self.workers} workers, locality {locality}:"
        ratio = other.seconds / seconds[0]
        faster = self.check("localities", f"{what} speed", ratio, ">=", GOAL_SPEED if locality >= 10 else GOAL_LEAST)
        cells = [
            str(self.workers),
            f"{locality} ({len(urls)})",
            f"{seconds[0]:.2f} ({seconds[1]:.2f} to {seconds[2]:.2f})",
            f"{other.seconds:.2f}",
            faster,
            self.check("localities", f"{what} bytes", sent, "<=", GOAL_BYTES),
            f"{peers:.3f}",
            f"{hits:.3f} of {ideal:.3f}",
            f"{quartiles([one.cores for one in ours])[0]:.1f} / {other.cores:.1f}",
            f"{len(items) * FILE_BYTES / seconds[0] / 1e6:.0f} MB/s",
        ]
        if locality > 1:
            self.check("localities", f"{what} hits over the ideal", hits / ideal, ">=", GOAL_HITS)
        self.row("localities", cells)
        self.against_simulator(f"{self.workers}, locality {locality}", "good-cache-compute", numbers, seconds, ours[0])

    def against_simulator(self, name: str, policy: str, numbers: list[int], seconds: list[float], real: Turn) -> None:
        if self.simulator is None or self.parameters is None:
            return
        found = simulated(self.simulator, self.parameters, policy, FILE_BYTES, numbers)
        cells = compared(name, self.parameters, seconds, real.moved, real.peer_bytes, FILE_BYTES, numbers, found)
        self.row("simulated", cells.cells)
        given = {"name": name, "policy": policy, "numbers": numbers, "parameters": asdict(self.parameters)}
        self.runs.append({**given, "seconds": seconds, "moved": real.moved, "peer_bytes": real.peer_bytes})
        for one in cells.missed:
            self.missed.setdefault("simulated", []).append(f"{name}: {one}")

    def variant(self, table: str, name: str, policy: str, evict: str, share: float, plain: Turn | None) -> Turn:
        """A row of policies or evictions: caches that hold so large a part of all files, each."""
        urls, numbers = self.files(LOCALITY)
        items = [urls[number] for number in numbers]
        compulsory = len(urls) * FILE_BYTES
        cache = max(int(compulsory * share), 16 << 20)
        turns = [self.cached(items, cache, policy, evict) for _ in range(self.rounds)]
        plain = plain or self.plain(items)
        assert all(one.results == plain.results for one in turns)
        seconds = quartiles([one.seconds for one in turns])
        self.row(
            table,
            [
                name,
                f"{seconds[0]:.2f} ({seconds[1]:.2f} to {seconds[2]:.2f})",
                f"{plain.seconds / seconds[0]:.2f}",
                f"{quartiles([one.moved / compulsory for one in turns])[0]:.3f}",
                f"{quartiles([one.peer_bytes / compulsory for one in turns])[0]:.3f}",
                f"{quartiles([one.hit_rate for one in turns])[0]:.3f}",
                f"{quartiles([one.cores for one in turns])[0]:.1f}",
            ],
        )
        if share == AMPLE and policy != "good-cache-compute":
            self.against_simulator(f"{self.workers}, {name}", policy, numbers, seconds, turns[0])
        return plain

    def empty_tasks(self) -> None:
        count = 50_000 if self.is_full else 2500
        rates = []
        with (
            tempfile.TemporaryDirectory() as folder,
            iso.cluster.attach(self.client, cache="100MB", folder=f"{folder}/{{worker}}") as attachment,
        ):
            for _ in range(self.rounds):
                start = time.perf_counter()
                results = iso.cluster.map(abs, range(count), client=attachment, inputs=lambda _: [])
                assert sum(results) == count * (count - 1) // 2
                rates.append(count / (time.perf_counter() - start))
        rate = quartiles(rates)
        self.check("empty", "tasks/s", rate[0], ">=", GOAL_TASKS)
        self.row("empty", [str(self.workers), f"{rate[0]:.0f} ({rate[1]:.0f} to {rate[2]:.0f})", "3,800"])


HEADS = {
    "localities": (
        "Localities: files of 2 MiB, storage of 50 MB/s, good-cache-compute against `client.map`",
        [
            "workers",
            "locality (files)",
            "caches, s",
            "`client.map`, s",
            "faster",
            "from storage, of all files once",
            "from peers",
            "hits of ideal",
            "cores busy",
            "read by tasks",
        ],
        f"from storage <= {GOAL_BYTES}, hits >= {GOAL_HITS} of the ideal, {GOAL_SPEED:g} times as fast from a locality "
        f"of 10 on, else {GOAL_LEAST}",
    ),
    "policies": (
        f"Policies: locality {LOCALITY}, caches that hold all files",
        ["policy", "s", "faster than `client.map`", "from storage", "from peers", "hits", "cores busy"],
        None,
    ),
    "evictions": (
        f"Evictions: locality {LOCALITY}, two caches that hold a sixth of the files each",
        ["eviction", "s", "faster than `client.map`", "from storage", "from peers", "hits", "cores busy"],
        None,
    ),
    "simulated": (
        "The simulator with the parameters of these runs",
        SIMULATED_HEAD,
        "within 10 %",
    ),
    "parameters": ("What the simulator was given, each measured by itself", PARAMETERS_HEAD, None),
    "empty": ("Tasks without files", ["workers", "tasks/s", "paper"], f">= {GOAL_TASKS:.0f} tasks/s"),
}


_PAPER_30 = ["0.99 (0.066 MB a task)", "2.1 (0.421 MB a task)", "within 90 % of 0.967", "-", "39 Gb/s"]
#: Rows of Raicu et al. (2008), figures 3 and 10 to 13: 64 hosts of two processors, images of 2 MB in storage that take
#: 6 MB in caches; from storage and peers as parts of all images once, by the bytes that the text has of each stacking.
PAPER = {
    "localities": [
        ["paper: 128", "1", "-", "-", "-", "1.0 (2 MB a task)", "0", "-", "-", "-"],
        ["paper: 128", "30", "-", "-", "9.8 (39 by 4 Gb/s)", *_PAPER_30],
    ],
    "policies": [
        ["paper, first-cache-available: 64 nodes, files of 100 MB in caches", "-", "1.8 (5.7 by 3.1 Gb/s)"] + ["-"] * 4,
        ["paper, max-compute-util: the same", "-", "20 (61.7 by 3.1 Gb/s)"] + ["-"] * 4,
    ],
}


def results(
    rows: dict[str, list[list[str]]], missed: dict[str, list[str]], runs: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Tables, as the report takes them."""
    found = []
    for name, (title, head, goal) in HEADS.items():
        if name in rows:
            table = {"title": title, "head": head, "rows": rows[name] + PAPER.get(name, [])}
            met = not missed.get(name) if goal else None
            found.append({"name": f"diffusion/{name}", "goal": goal, "met": met, "table": table})
            if name == "simulated":
                found[-1]["runs"] = runs
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--simulator", type=Path, help="the example `simulate` of crates/placement, built")
    arguments = parser.parse_args()
    is_full = not arguments.quick
    rows: dict[str, list[list[str]]] = {}
    missed: dict[str, list[str]] = {}
    runs: list[dict[str, Any]] = []
    print(f"load before: {os.getloadavg()[0]:.1f}", flush=True)
    with Storage(RATE) as storage:
        for workers in WORKERS if is_full else WORKERS[:1]:
            options: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
            with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
                bench = Bench(client, storage, workers, is_full, arguments.simulator, 3 if is_full else 1)
                bench.rows, bench.missed, bench.runs = rows, missed, runs
                bench.parameters = measured(client, storage, workers, digest, FILE_BYTES)
                bench.row("parameters", bench.parameters.cells())
                bench.empty_tasks()
                for locality in LOCALITIES if is_full else (1, 10):
                    bench.locality(locality)
                if workers == WORKERS[0]:
                    plain = None
                    for policy in POLICIES:
                        plain = bench.variant("policies", policy, policy, "lru", AMPLE, plain)
                    for evict in EVICTIONS if is_full else EVICTIONS[:1]:
                        plain = bench.variant("evictions", evict, "good-cache-compute", evict, 1 / 6, plain)
            if arguments.out:
                arguments.out.write_text(json.dumps(results(rows, missed, runs), indent=1))
    print(f"load after: {os.getloadavg()[0]:.1f}", flush=True)
    for name, several in missed.items():
        print(f"goals missed, {name}: {'; '.join(several)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
