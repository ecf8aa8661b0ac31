"""The storage of the benchmarks of data diffusion, a server in a process of its own that limits its rate for all and
counts bytes; and the time of the machine's cores that a run took.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from storage_server import StorageServer

#: Bytes of a file that are random; a longer file repeats them.
_RANDOM_BYTES = 1 << 20
#: Readers of storage with which its rate is measured.
_READERS = 4
#: Cores of others above which a measurement says so.
_BUSY = 0.3
#: Seconds for which the machine must be idle.
_IDLE_S = 0.5


def _content(chance: random.Random, size: int) -> bytes:
    block = chance.randbytes(min(size, _RANDOM_BYTES))
    return (block * (size // max(len(block), 1) + 1))[:size]


def serve(pipe: Any, rate: float) -> None:
    """The storage server: makes files, says what went through it."""
    with StorageServer(rate) as server:
        made: set[str] = set()
        while (request := pipe.recv()) is not None:
            if request == "bytes":
                pipe.send(server.sent_bytes + server.received.total())
                server.sent.clear()
                server.received.clear()
                # What was written is not read again.
                for path in server.files.keys() - made:
                    del server.files[path]
                continue
            count, size = request
            chance = random.Random(count)
            server.files.clear()
            pipe.send([server.put(f"{count}-{number}.dat", _content(chance, size)) for number in range(count)])
            made = set(server.files)


class Storage:
    """The server's process. A context manager.

    Parameters:
        rate: bytes a second, of all readers and writers together.
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, rate), daemon=True)
        self._process.start()
        # With the only copy in the server, its end is noticed here.
        theirs.close()

    def make(self, count: int, size: int) -> list[str]:
        """Files in place of those there were; their URLs."""
        self._pipe.send((count, size))
        return list(self._pipe.recv())

    def moved(self) -> int:
        """Bytes that were sent and received since it was asked last; forgets what was written meanwhile."""
        self._pipe.send("bytes")
        return int(self._pipe.recv())

    def measured_rate(self, urls: list[str]) -> float:
        """Bytes a second that some readers get together."""
        self.moved()
        with ThreadPoolExecutor(_READERS) as pool:
            start = time.perf_counter()
            for _ in pool.map(read_url, urls):
                pass
            spent = time.perf_counter() - start
        return self.moved() / spent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(None)
        self._process.join()


def read_url(url: str) -> None:
    with urllib.request.urlopen(url) as answer:
        while answer.read(1 << 20):
            pass


@dataclass
class Stopwatch:
    """Seconds, and how many of the machine's cores this process and its children had meanwhile. A context manager.

    Attributes:
        others: cores that other processes and the kernel had.
    """

    seconds: float = 0.0
    cores: float = 0.0
    others: float = 0.0
    _start: tuple[float, float, float] = field(default=(0.0, 0.0, 0.0), repr=False)

    def __enter__(self) -> Self:
        self._start = (time.perf_counter(), _own_s(), _busy_s())
        return self

    def __exit__(self, *_: object) -> None:
        start, own, busy = self._start
        self.seconds = time.perf_counter() - start
        self.cores = (_own_s() - own) / self.seconds
        self.others = max((_busy_s() - busy) / self.seconds - self.cores, 0.0)
        if self.others > _BUSY:
            print(f"  other processes had {self.others:.1f} cores for {self.seconds:.1f} s", flush=True)


def wait_until_idle(seconds: float) -> None:
    """Waits at most so long until nobody uses this machine's cores."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        before = _busy_s()
        time.sleep(_IDLE_S)
        if _busy_s() - before < _BUSY * _IDLE_S:
            return


def _own_s() -> float:
    """Seconds of cores of this process and its children."""
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _busy_s() -> float:
    """Seconds of all cores, but those in which they idled or waited for a disk."""
    times = psutil.cpu_times()
    return float(sum(times[:8]) - times.idle - times.iowait)
