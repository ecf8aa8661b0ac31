"""A function over files on workers with caches, against `client.map` of the same function: storage is one server,
in a process of its own, that limits its rate for all and counts bytes. Results are asserted equal.

Localities as in Raicu et al. (DADC 2008): a locality of 10 means that each file is read by ten tasks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import distributed
from peers import quartiles
from peers_flow import RESULTS

import isochrony as iso
from isochrony.cluster.attachment import EVICTIONS, POLICIES

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from storage_server import StorageServer

#: Files of each locality, so that each takes storage some seconds.
LOCALITIES = {1: 200, 2: 100, 5: 60, 10: 40, 30: 20}
FILE_BYTES, RATE = 2 << 20, 50e6
#: Bytes from storage over compulsory ones, hits over 1 - 1/locality, speed over that of `client.map` at a locality of
#: ten, and at any.
GOAL_BYTES, GOAL_HITS, GOAL_SPEED, GOAL_LEAST = 1.05, 0.95, 3.0, 0.97
GOAL_TASKS = 5000.0


def serve(pipe: Any, rate: float) -> None:
    """The storage server: makes files, says what was sent."""
    with StorageServer(rate) as server:
        while (request := pipe.recv()) is not None:
            count, size = request
            if count:
                chance = random.Random(count)
                server.files.clear()
                pipe.send([server.put(f"{count}-{number}.dat", chance.randbytes(size)) for number in range(count)])
            else:
                pipe.send(server.sent_bytes)
                server.sent.clear()


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
    sent: int
    results: list[str]
    hit_rate: float = 0.0
    peer_bytes: int = 0


class Storage:
    """The server's process."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, RATE), daemon=True)
        self._process.start()
        # With the only copy in the server, its end is noticed here.
        theirs.close()

    def make(self, count: int, size: int) -> list[str]:
        self._pipe.send((count, size))
        return list(self._pipe.recv())

    def sent(self) -> int:
        """Since it was asked last."""
        self._pipe.send((0, 0))
        return int(self._pipe.recv())

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join()


def cached(client: Any, storage: Storage, items: list[str], cache: int, policy: str, evict: str) -> Turn:
    with tempfile.TemporaryDirectory() as folder:
        where = f"{folder}/{{worker}}"
        with iso.cluster.attach(client, cache=cache, policy=policy, evict=evict, folder=where) as attachment:
            start = time.perf_counter()
            results = iso.cluster.map(digest, items, client=attachment)
            found = list(results)
            spent = time.perf_counter() - start
            quotas = attachment.info().values()
            assert all(info["allocated_bytes"] <= info["quota_bytes"] for info in quotas)
        report = results.report
        return Turn(spent, storage.sent(), found, report.hit_rate, report.peer_bytes)


def plain(client: Any, storage: Storage, items: list[str]) -> Turn:
    start = time.perf_counter()
    found = client.gather(client.map(digest_of_url, items, pure=False))
    return Turn(time.perf_counter() - start, storage.sent(), found)


def record(name: str, turns: list[Turn], others: list[Turn], goals: list[tuple[str, float, str, float]]) -> None:
    """Adds a row; `goals`: what, value, at least or at most, and bound."""
    seconds, other_seconds = [one.seconds for one in turns], [one.seconds for one in others]
    ratio = quartiles([b / a for a, b in zip(seconds, other_seconds, strict=True)])
    missed = [
        f"{what} {value:.3f}, not {how} {bound}"
        for what, value, how, bound in goals
        if not (value >= bound if how == ">=" else value <= bound)
    ]
    RESULTS.append(
        {
            "name": name,
            "other": "client.map",
            "bytes": turns[0].sent,
            "seconds": quartiles(seconds),
            "other_seconds": quartiles(other_seconds),
            "ratio": ratio,
            "goal": "; ".join(f"{what} {how} {bound}" for what, _, how, bound in goals) or None,
            "met": not missed if goals else None,
        }
    )
    for one in missed:
        print(f"{name}: missed {one}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    is_full = not arguments.quick
    rounds, divisor = (3, 1) if is_full else (1, 20)
    options: dict[str, Any] = {"n_workers": arguments.workers, "threads_per_worker": 1, "dashboard_address": None}
    print(f"load before: {os.getloadavg()[0]:.1f}", flush=True)
    print(f"{'':34}{'s':>8}{'map, s':>8}{'ratio':>7}{'bytes':>8}{'hits':>7}{'peers':>9}", flush=True)
    storage = Storage()
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:

        def turns(name: str, locality: int, policy: str, evict: str, share: float, with_goals: bool) -> None:
            count = max(LOCALITIES[locality] // divisor, 2)
            urls = storage.make(count, FILE_BYTES)
            items = urls * locality
            random.Random(locality).shuffle(items)
            cache = max(int(count * FILE_BYTES * share), 16 << 20)
            ours, others = [], []
            for _ in range(rounds if with_goals else 1):
                ours.append(cached(client, storage, items, cache, policy, evict))
                others.append(plain(client, storage, items))
                assert ours[-1].results == others[-1].results
            compulsory = count * FILE_BYTES
            sent = quartiles([one.sent / compulsory for one in ours])[0]
            hits = quartiles([one.hit_rate for one in ours])[0]
            ratio = quartiles([b.seconds / a.seconds for a, b in zip(ours, others, strict=True)])[0]
            print(
                f"{name:34}{quartiles([one.seconds for one in ours])[0]:8.2f}"
                f"{quartiles([one.seconds for one in others])[0]:8.2f}{ratio:7.2f}{sent:8.3f}{hits:7.3f}"
                f"{ours[0].peer_bytes / compulsory:9.3f}",
                flush=True,
            )
            goals = []
            if with_goals:
                goals = [("bytes", sent, "<=", GOAL_BYTES), ("speed", ratio, ">=", GOAL_LEAST)]
                if locality > 1:
                    goals.append(("hits", hits / (1 - 1 / locality), ">=", GOAL_HITS))
                if locality >= 10:
                    goals.append(("speed", ratio, ">=", GOAL_SPEED))
            record(f"diffusion/{name}", ours, others, goals)

        for locality in LOCALITIES:
            turns(f"locality {locality}", locality, "good-cache-compute", "lru", 2.0, True)
        for policy in POLICIES:
            turns(f"{policy}", 5, policy, "lru", 2.0, False)
        for evict in EVICTIONS:
            turns(f"{evict}, a third fits", 5, "good-cache-compute", evict, 1 / 6, False)
        with tempfile.TemporaryDirectory() as folder:
            count = 50_000 // divisor
            with iso.cluster.attach(client, cache="100MB", folder=f"{folder}/{{worker}}") as attachment:
                rates = []
                for _ in range(rounds):
                    start = time.perf_counter()
                    results = iso.cluster.map(abs, range(count), client=attachment, inputs=lambda _: [])
                    assert sum(results) == count * (count - 1) // 2
                    rates.append(count / (time.perf_counter() - start))
        rate = quartiles(rates)
        print(f"{rate[0]:.0f} empty tasks a second ({rate[1]:.0f} to {rate[2]:.0f})", flush=True)
        RESULTS.append(
            {
                "name": f"diffusion/{count} empty tasks",
                "other": f"{GOAL_TASKS:.0f} tasks/s",
                "bytes": 0,
                "seconds": quartiles([count / one for one in rates]),
                "other_seconds": (count / GOAL_TASKS,) * 3,
                "ratio": quartiles([one / GOAL_TASKS for one in rates]),
                "goal": ">= 1",
                "met": rate[0] >= GOAL_TASKS,
            }
        )
    storage.close()
    print(f"load after: {os.getloadavg()[0]:.1f}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(RESULTS, indent=1))
    if is_full:
        assert all(one["met"] for one in RESULTS if one["goal"]), "a goal was missed"


if __name__ == "__main__":
    sys.exit(main())
