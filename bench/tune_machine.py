"""This machine as the simulator of plans describes one: its caches, memory and cores, measured in a second.

The rest is of the runtime (`helpers_after_s`, `spin_s`), or hardly differs between machines beside stages that take
0.1 ms and more for an item (`hand_over_s`, `wake_s`, `time_slice_s`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

__all__ = ["ITEM_BYTES", "last_cache_bytes", "measured_machine"]

#: Of an item that passes between cores.
ITEM_BYTES = 1 << 19
ROUNDS = 201
#: Where the size of the last cache is not known.
USUAL_CACHE = 8 << 20


def last_cache_bytes() -> int:
    """Size of the last level of the first core's caches."""
    sizes = [USUAL_CACHE]
    for one in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")):
        text = one.read_text().strip()
        sizes.append(int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}[text[-1]] if text[-1] in "KM" else int(text))
    return sizes[-1]


def pinned(number: int) -> ThreadPoolExecutor:
    """A thread on the n-th core that this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    return ThreadPoolExecutor(1, initializer=partial(os.sched_setaffinity, 0, {cores[number % len(cores)]}))


def seconds(call: Callable[[], object]) -> float:
    """Time of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def memory_bytes_per_s(cores: int) -> float:
    """Bytes that all cores together read and write beyond the caches, each copying memory of its own."""
    size = 4 * last_cache_bytes()
    arrays = [(np.ones(size, "u1"), np.ones(size, "u1")) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as threads:
        times = [seconds(lambda: list(threads.map(lambda two: np.copyto(*two), arrays))) for _ in range(7)]
    return 2 * size * cores / median(times)


def transfer_bytes_per_s() -> float:
    """Bytes per second that reading an item takes longer if another core has written it; 0 if it does not."""
    item = np.zeros(ITEM_BYTES // 8)
    times: dict[bool, list[float]] = {False: [], True: []}
    with pinned(0) as reader, pinned(1) as other:
        for number in range(ROUNDS):
            for by_other in (False, True) if number % 2 else (True, False):
                (other if by_other else reader).submit(item.fill, 1.0).result()
                times[by_other].append(reader.submit(seconds, item.sum).result())
    longer = median(times[True]) - median(times[False])
    return ITEM_BYTES / longer if longer > 0 else 0.0


@cache
def measured_machine(cores: int) -> dict[str, Any]:
    """The simulator's description of this machine with so many cores; one NUMA node.

    `cache_bytes` is the whole last cache: links of a plan share it.
    """
    return {
        "cores": cores,
        "helpers_after_s": 500e-6,
        "hand_over_s": 1e-6,
        "wake_s": 20e-6,
        "spin_s": 50e-6,
        "memory_bytes_per_s": memory_bytes_per_s(cores),
        "cache_bytes": last_cache_bytes(),
        "transfer_bytes_per_s": transfer_bytes_per_s(),
        "time_slice_s": 3e-3,
    }
