"""Reads, and reads with writes, of files of 1 byte to 1 GB on workers with caches: figures 3 to 5 of Raicu et al.
(DADC 2008).

At a locality of 0 % each file is read once, from storage, beside `client.map` of the same function, which downloads
its file; what is written goes to storage. At 100 % caches hold all files, which each task reads from its host's disk
and, with writes, writes as long a file there: beside as many processes that do the same with the same files, each alone
with those of one cache, and without a scheduler. After each read, the page cache lets its file go.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import distributed
from diffusion_storage import Stopwatch, Storage, wait_until_idle
from peers import quartiles

import isochrony as iso

SIZES = {
    "1 B": 1,
    "1 kB": 1000,
    "10 kB": 10_000,
    "100 kB": 100_000,
    "1 MB": 1_000_000,
    "10 MB": 10_000_000,
    "100 MB": 100_000_000,
    "1 GB": 1_000_000_000,
}
WORKERS = (2, 4, 8)
#: Storage; bytes of a pass over all files, files of it at most, and bytes that are read locally in one measurement:
#: enough that a run's start, some 0.1 s, is not what is measured.
RATE, PASS_BYTES, MOST_FILES, LOCAL_BYTES = 250e6, 1_200_000_000, 600, 8_000_000_000
#: Files of a pass for each worker, at least.
LEAST_FILES = 2
#: Of small files passes that are read locally in one measurement.
MOST_REPEATS = 6
#: From this length a file is large: measured once, and written locally once.
LARGE = 100_000_000
#: Cores that other processes had, from which a row is marked.
DISTURBED = 0.3
#: Parts of plain reads, and of the sum of local rates.
GOAL_STORAGE, GOAL_LOCAL = 0.97, 0.95
BLOCK = 1 << 20
#: Rows of Raicu et al. (2008), section 4.3: 64 nodes, files of 100 MB, max-compute-util; the ideal is what they say.
PAPER = {
    False: ["100 MB", "paper: 64", "-", "3.1 Gb/s (GPFS)", "-", "-", "61.7 Gb/s", "65.6 Gb/s", "0.94", "-", "-"],
    True: ["100 MB", "paper: 64", "-", "1 Gb/s (GPFS)", "-", "-", "22.7 Gb/s", "23.6 Gb/s", "0.96", "-", "-"],
}


def count_of(size: int, workers: int) -> int:
    """Files of a pass."""
    return max(min(PASS_BYTES // size, MOST_FILES), LEAST_FILES * workers)


def copied(path: Path, target: Path | None) -> tuple[int, bytes]:
    """Reads a file, and writes it to another one; its length and what it begins with."""
    buffer = memoryview(bytearray(BLOCK))
    length, begin = 0, b""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(path.open("rb", buffering=0))
        target_file = None if target is None else stack.enter_context(target.open("wb", buffering=0))
        while read := source.readinto(buffer):
            if target_file is not None:
                target_file.write(buffer[:read])
            begin = begin or bytes(buffer[:16])
            length += read
    return length, begin[: min(length, 16)]


def cached_file(_: str, path: Path, *targets: Path) -> tuple[int, bytes, str]:
    """The function of files at 0 %: also where the cache has the file."""
    return *copied(path, targets[0] if targets else None), str(path.resolve())


def plain_file(url: str, is_written: bool) -> tuple[int, bytes, str]:
    """The same without caches."""
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "file", Path(folder) / "written"
        with urllib.request.urlopen(url) as answer, path.open("wb") as copy:
            shutil.copyfileobj(answer, copy, BLOCK)
        found = copied(path, target if is_written else None)
        if is_written:
            with target.open("rb") as body:
                size = str(target.stat().st_size)
                request = urllib.request.Request(
                    f"{url}.out", data=body, method="PUT", headers={"Content-Length": size}
                )
                urllib.request.urlopen(request).close()
    return *found, ""


def local_file(path: Path, is_written: bool) -> tuple[int, bytes]:
    """Reads a file from the disk, and writes it there."""
    if is_written:
        with tempfile.NamedTemporaryFile() as target:
            found = copied(path, Path(target.name))
            os.fdatasync(target.fileno())
            os.posix_fadvise(target.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    else:
        found = copied(path, None)
    let_go(path)
    return found


def let_go(path: Path, sync: bool = False) -> None:
    """Has the page cache let a file go; what was not written to the disk yet stays."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if sync:
            os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def local_read(_: str, path: Path) -> tuple[int, bytes]:
    """The functions of files at 100 %."""
    return local_file(path, False)


def local_copy(_: str, path: Path) -> tuple[int, bytes]:
    return local_file(path, True)


def _set_barrier(barrier: Any) -> None:
    global _BARRIER
    _BARRIER = barrier


def _read_all(paths: list[str], is_written: bool) -> tuple[int, float]:
    """In a process: bytes of files and seconds, beginning together with the others."""
    _BARRIER.wait()
    start = time.perf_counter()
    total = sum(local_file(Path(path), is_written)[0] for path in paths)
    return total, time.perf_counter() - start


class Readers:
    """Processes that read local files at once."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = context.Pool(count, _set_barrier, (context.Barrier(count),))
        self._count = count

    def rate(self, lists: list[list[str]], is_written: bool) -> float:
        """The sum of their bytes a second; each has a list."""
        lists = lists + [[]] * (self._count - len(lists))
        found = self._pool.starmap(_read_all, [(paths, is_written) for paths in lists], chunksize=1)
        return sum(length / spent for length, spent in found if length)

    def close(self) -> None:
        self._pool.terminate()
        self._pool.join()


@contextlib.contextmanager
def attached(client: Any) -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as folder:
        where = f"{folder}/{{worker}}"
        with iso.cluster.attach(client, cache="20GB", folder=where) as attachment:
            yield attachment


def measure(
    client: Any, storage: Storage, readers: Readers, name: str, size: int, workers: int, is_written: bool, is_full: bool
) -> dict[str, Any]:
    """A row of the table."""
    count = count_of(size, workers) if is_full else 4 * workers
    urls = storage.make(count, size)
    rounds = 3 if is_full and size < LARGE and workers == WORKERS[0] else 1
    total = count * size
    repeats = min(max(LOCAL_BYTES // total, 1), MOST_REPEATS) if is_full else 2
    if is_written and size >= LARGE:
        repeats = 1
    outputs: Callable[[str], str] | None = (lambda url: f"{url}.out") if is_written else None
    values: dict[str, list[float]] = defaultdict(list)

    def add(name: str, done: int, watch: Stopwatch) -> None:
        values[name].append(done / watch.seconds)
        values[f"{name} cores"].append(watch.cores)
        values["others"].append(watch.others)

    for _ in range(rounds):
        if is_full:
            wait_until_idle(3.0)
        with attached(client) as attachment:
            storage.moved()
            with Stopwatch() as watch:
                found = list(iso.cluster.map(cached_file, urls, client=attachment, outputs=outputs))
            add("storage", count, watch)
            assert storage.moved() == total * (2 if is_written else 1)
            with Stopwatch() as watch:
                plain = client.gather(client.map(plain_file, urls, is_written=is_written, pure=False))
            add("plain", count, watch)
            assert storage.moved() == total * (2 if is_written else 1)
            assert [one[:2] for one in found] == [one[:2] for one in plain]
            lists: dict[Path, list[str]] = defaultdict(list)
            for _, _, path in found:
                let_go(Path(path), sync=True)
                lists[Path(path).parents[1]].append(path)
            shares = [one * repeats for one in lists.values()]
            items = urls * repeats
            random.Random(1).shuffle(items)
            function = local_copy if is_written else local_read
            with Stopwatch() as watch:
                results = iso.cluster.map(function, items, client=attachment)
                lengths = [length for length, _ in results]
            add("local", len(items), watch)
            assert lengths == [size] * len(items)
            assert storage.moved() == 0
            values["hits"].append(results.report.local / len(items))
            values["sum"].append(readers.rate(shares, is_written) / size)
    storage_ratio = quartiles([a / b for a, b in zip(values["storage"], values["plain"], strict=True)])
    local_ratio = quartiles([a / b for a, b in zip(values["local"], values["sum"], strict=True)])
    return {
        "size": name,
        "bytes": size,
        "workers": workers,
        "files": count,
        "rounds": rounds,
        "is_written": is_written,
        "values": {what: quartiles(several) for what, several in values.items()},
        "storage_ratio": storage_ratio,
        "local_ratio": local_ratio,
    }


def rate_text(files: float, size: int) -> str:
    """Files a second, as bytes a second where they are not small."""
    return f"{files * size / 1e6:.0f} MB/s" if size >= 100_000 else f"{files:.0f}/s"


def ratio_text(ratio: list[float], goal: float) -> str:
    spread = f" ({ratio[1]:.2f} to {ratio[2]:.2f})" if ratio[1] != ratio[2] else ""
    return f"{ratio[0]:.2f}{spread}" if ratio[0] >= goal else f"**{ratio[0]:.2f}**{spread}"


def tables(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tables of reads, and of reads with writes."""
    made = []
    for is_written in (False, True):
        what = "Reads with writes" if is_written else "Reads"
        of_it = [one for one in rows if one["is_written"] == is_written]
        cells = []
        for one in of_it:
            median = {name: value[0] for name, value in one["values"].items()}
            size = one["bytes"]
            cells.append(
                [
                    one["size"] + (" †" if max(one["values"]["others"]) > DISTURBED else ""),
                    str(one["workers"]),
                    rate_text(median["storage"], size),
                    rate_text(median["plain"], size),
                    ratio_text(one["storage_ratio"], GOAL_STORAGE),
                    f"{median['storage cores']:.1f} / {median['plain cores']:.1f}",
                    rate_text(median["local"], size),
                    rate_text(median["sum"], size),
                    ratio_text(one["local_ratio"], GOAL_LOCAL),
                    f"{median['local cores']:.1f}",
                    f"{median['hits']:.3f}",
                ]
            )
        cells.append(PAPER[is_written])
        met = all(one["storage_ratio"][0] >= GOAL_STORAGE and one["local_ratio"][0] >= GOAL_LOCAL for one in of_it)
        made.append(
            {
                "name": f"diffusion/{'reads and writes' if is_written else 'reads'}",
                "goal": f">= {GOAL_STORAGE} of plain reads, >= {GOAL_LOCAL} of the sum of local rates",
                "met": met,
                "table": {
                    "title": f"{what}: storage of {RATE / 1e6:.0f} MB/s for all; a ratio in bold misses its goal",
                    "head": [
                        "file",
                        "workers",
                        "0 %: caches",
                        "`client.map`",
                        "ratio",
                        "cores busy",
                        "100 %: caches",
                        "sum of local rates",
                        "ratio",
                        "cores busy",
                        "found local",
                    ],
                    "rows": cells,
                },
            }
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    is_full = not arguments.quick
    rows = []
    print(f"load before: {os.getloadavg()[0]:.1f}", flush=True)
    with Storage(RATE) as storage:
        for workers in WORKERS if is_full else WORKERS[:1]:
            options: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
            readers = Readers(workers)
            with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
                for name, size in SIZES.items():
                    if not is_full and size not in (1, 1_000_000):
                        continue
                    for is_written in (False, True):
                        if size > LARGE and workers > WORKERS[0]:
                            # A minute and more for each, and storage is the limit with two of them.
                            continue
                        start = time.perf_counter()
                        row = measure(client, storage, readers, name, size, workers, is_written, is_full)
                        rows.append(row)
                        median = {what: value[0] for what, value in row["values"].items()}
                        print(
                            f"{name:>7}{workers:3} {'read+write' if is_written else 'read':10} 0 %: "
                            f"{rate_text(median['storage'], size):>9} of {rate_text(median['plain'], size):>9} "
                            f"({row['storage_ratio'][0]:.2f}), 100 %: {rate_text(median['local'], size):>9} of "
                            f"{rate_text(median['sum'], size):>9} ({row['local_ratio'][0]:.2f}); cores "
                            f"{median['storage cores']:.1f} {median['plain cores']:.1f} {median['local cores']:.1f}; "
                            f"local {median['hits']:.3f}; {time.perf_counter() - start:.1f} s",
                            flush=True,
                        )
                        if arguments.out:
                            arguments.out.write_text(json.dumps(tables(rows), indent=1))
            readers.close()
    print(f"load after: {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
