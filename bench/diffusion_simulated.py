"""The simulator of placement beside real runs: what it is given is measured, each part by itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffusion_storage import Stopwatch, Storage, read_url
from peers import quartiles

import isochrony as iso
from isochrony.cluster.cache_plugin import host_cache
from isochrony.cluster.file_queue import PIPELINE
from isochrony.cluster.input_files import InputFile
from isochrony.cluster.storage import storage_of

#: Files with which parts are measured, tasks that read each, and tasks without files.
FILES, REPEATS, TASKS, ROUNDS = 12, 50, 4000, 3
TOLERANCE = 0.1
CORES = os.cpu_count() or 1

SIMULATED_HEAD = [
    "workers, run",
    "run, s",
    "simulated, s",
    "difference",
    "paper's workers",
    "from storage: run / simulated / paper's, MB",
    "from peers: run / simulated, MB",
    "difference of bytes",
]


@dataclass
class Parameters:
    """Of a cluster: seconds, bytes a second.

    Attributes:
        workers: of one thread.
        start_s: of a run that has nothing to do: its slots are made and given back.
        compute_s: of a core for a task whose file is in the cache, in its worker.
        cpu_s: of cores for such a task in all processes, also client and scheduler.
        task_s: of the client for a task without files.
        message_s: from the client to a worker.
        storage_rate: of all readers together.
        storage_latency_s: until storage has answered.
        peer_rate: from a worker to another one.
        tasks: that a worker has at a time, in all batches that are under way.
    """

    workers: int
    start_s: float
    compute_s: float
    cpu_s: float
    task_s: float
    message_s: float
    storage_rate: float
    storage_latency_s: float
    peer_rate: float
    tasks: int

    def cells(self) -> list[str]:
        """A row of the table of parameters."""
        times = [self.start_s, self.compute_s, self.cpu_s, self.task_s, self.message_s, self.storage_latency_s]
        rates = [self.storage_rate, self.peer_rate]
        return [
            str(self.workers),
            *(f"{one * 1e3:.3g} ms" for one in times),
            *(f"{one / 1e6:.1f} MB/s" for one in rates),
            str(self.tasks),
        ]


PARAMETERS_HEAD = [
    "workers",
    "a run without tasks",
    "a task, file in its cache",
    "in all processes",
    "client, a task",
    "a message",
    "storage answers",
    "storage, all readers",
    "a peer",
    "tasks of a worker at a time",
]


@dataclass
class Comparison:
    """A row of the table, and what is not within the tolerance."""

    cells: list[str]
    missed: list[str]


def _seconds(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    spent = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return quartiles(spent)[0]


def _busy_s(call: Callable[[], object]) -> float:
    """Seconds of cores."""
    spent = []
    for _ in range(ROUNDS):
        with Stopwatch() as watch:
            call()
        spent.append(watch.seconds * watch.cores)
    return quartiles(spent)[0]


def _obtained(attachment: str, files: list[InputFile]) -> float:
    """In a worker: seconds in which it gets files."""
    cache = host_cache(attachment)
    start = time.perf_counter()
    for one in files:
        cache.obtain(one).close()
    return time.perf_counter() - start


def measured(
    client: Any, storage: Storage, workers: int, function: Callable[[str, Path], object], file_bytes: int
) -> Parameters:
    """Measures each part."""
    [small] = storage.make(1, 1)
    latency = _seconds(lambda: read_url(small), 20)
    urls = storage.make(FILES, file_bytes)
    storage_rate = storage.measured_rate(urls)
    names = list(client.scheduler_info(n_workers=-1)["workers"])
    message = _seconds(lambda: client.run(int, workers=names[:1]), 20) / 2
    with tempfile.TemporaryDirectory() as folder:
        where = f"{folder}/{{worker}}"
        with iso.cluster.attach(client, cache="1GB", folder=where) as attachment:

            def empty(count: int) -> Callable[[], object]:
                return lambda: sum(iso.cluster.map(abs, range(count), client=attachment, inputs=lambda _: []))

            start = _seconds(empty(workers))
            task = max(_seconds(empty(TASKS)) - start, 0.0) / TASKS
            list(iso.cluster.map(function, urls, client=attachment))
            items = urls * REPEATS
            cpu = (
                _busy_s(lambda: list(iso.cluster.map(function, items, client=attachment))) - _busy_s(empty(workers))
            ) / len(items)
    # Another one, whose caches are empty: of two workers, the second gets from the first what that got from storage.
    with tempfile.TemporaryDirectory() as folder:
        where = f"{folder}/{{worker}}"
        with iso.cluster.attach(client, cache="1GB", folder=where) as attachment:
            address = tuple(client.run(_peer_address, attachment._name, workers=names[:1])[names[0]])
            files = [InputFile(storage_of(url).stat(url)) for url in urls]
            client.submit(_obtained, attachment._name, files, workers=names[:1], pure=False).result()
            from_peer = [one.at((address,), None) for one in files]
            spent = client.submit(_obtained, attachment._name, from_peer, workers=names[1:2], pure=False).result()
            # A clock would count what other processes take of its core, too.
            before = client.run(time.process_time, workers=names[:1])[names[0]]
            results = iso.cluster.map(function, urls * (REPEATS // 2), client=attachment)
            list(results)
            after = client.run(time.process_time, workers=names[:1])[names[0]]
            # Batches are as long as the queue has found tasks to take.
            batches = sorted(worker.batch for worker in results._run._queue.workers())
            compute = (after - before) / results.report.hosts[names[0]].tasks
    moved = storage.moved()
    assert moved == 2 * FILES * file_bytes, moved
    return Parameters(
        workers,
        start,
        compute,
        cpu,
        task,
        message,
        storage_rate,
        latency,
        FILES * file_bytes / spent,
        PIPELINE * batches[len(batches) // 2],
    )


def _peer_address(attachment: str) -> tuple[str, int]:
    return host_cache(attachment).server.address


def simulated(
    simulator: Path, parameters: Parameters, policy: str, file_bytes: int, numbers: list[int]
) -> list[dict[str, float]]:
    """What the simulator makes of tasks that read these files: as workers are, and as the paper's are."""
    found = []
    for is_ours in (True, False):
        given = {
            "hosts": parameters.workers,
            "slots": parameters.tasks if is_ours else 1,
            "passes_on": str(is_ours).lower(),
            "always_caches": str(is_ours).lower(),
            "processors": 1,
            "policy": policy,
            "object_bytes": file_bytes,
            "compute_s": parameters.compute_s,
            # What client and scheduler take of them for each task, functions do not have.
            "shared_cores": CORES * min(parameters.compute_s / parameters.cpu_s, 1.0),
            "storage_rate": parameters.storage_rate,
            "storage_latency_s": parameters.storage_latency_s,
            "link_rate": parameters.peer_rate,
            "network_latency_s": parameters.message_s,
            "decision_s": parameters.task_s / 2,
            "report_s": parameters.task_s / 2,
        }
        printed = subprocess.run(
            [simulator, *(f"{name}={value}" for name, value in given.items())],
            input=" ".join(map(str, numbers)),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        found.append({name: float(value) for name, value in (line.split("=") for line in printed.splitlines())})
    return found


def compared(
    name: str,
    parameters: Parameters,
    seconds: list[float],
    storage_bytes: int,
    peer_bytes: int,
    file_bytes: int,
    numbers: list[int],
    found: list[dict[str, float]],
) -> Comparison:
    """A run beside its simulation. The time that a run without tasks takes is not simulated, so it is added."""
    ours, papers = found
    makespans = [one["makespan_s"] + parameters.start_s for one in (ours, papers)]
    differences = [makespan / seconds[0] - 1 for makespan in makespans]
    # Bytes by origin, over all that tasks read: a difference of a small number is no large one.
    read = len(numbers) * file_bytes
    bytes_difference = max(
        abs(ours["storage_bytes"] - storage_bytes) / read, abs(ours["peer_bytes"] - peer_bytes) / read
    )
    missed = []
    if abs(differences[0]) > TOLERANCE:
        missed.append(f"makespan {differences[0]:+.1%}")
    if bytes_difference > TOLERANCE:
        missed.append(f"bytes {bytes_difference:.1%} of what tasks read")
    bold = "**" if abs(differences[0]) > TOLERANCE else ""
    bold_bytes = "**" if bytes_difference > TOLERANCE else ""
    cells = [
        name,
        f"{seconds[0]:.2f} ({seconds[1]:.2f} to {seconds[2]:.2f})",
        f"{makespans[0]:.2f}",
        f"{bold}{differences[0]:+.1%}{bold}",
        f"{differences[1]:+.1%}",
        f"{storage_bytes / 1e6:.0f} / {ours['storage_bytes'] / 1e6:.0f} / {papers['storage_bytes'] / 1e6:.0f}",
        f"{peer_bytes / 1e6:.0f} / {ours['peer_bytes'] / 1e6:.0f}",
        f"{bold_bytes}{bytes_difference:.1%}{bold_bytes}",
    ]
    return Comparison(cells, missed)
