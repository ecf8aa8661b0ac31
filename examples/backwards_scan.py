"""BACKWARDS SCAN: a program that asks for the end first still reads its disk from front to back.

Tasklets summarise a signal, the last part first. The executor sorts them by where their inputs lie on the disk; with
`order="given"` it does not. Fast disks hide what that is worth, so the program reads through one with a stated seek time.

    python examples/backwards_scan.py [parts] [milliseconds a seek]
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import isochrony as iso

PART = 64 * 4096 // 2


class Disk:
    """A disk of 160 MB/s, on which reading anything but what comes next takes `seek_s` besides."""

    def __init__(self, seek_s: float, bytes_per_s: float = 160e6) -> None:
        self.seek_s, self.bytes_per_s, self.seeks, self._next = seek_s, bytes_per_s, 0, -1

    def read(self, part: iso.Selection) -> Any:
        """The samples of one range."""
        ((start, end),) = part.ranges
        seeks, self._next = start != self._next, end
        self.seeks += seeks
        samples = np.asarray(part)
        time.sleep(seeks * self.seek_s + samples.nbytes / self.bytes_per_s)
        return samples


def record(store: iso.Store, parts: int) -> iso.Signal:
    """A signal of 16 bits that wanders."""
    signal = store.create("wander", dtype="i2", rate=1_000_000)
    rng = np.random.default_rng(1)
    for _ in range(parts):
        signal.append((rng.standard_normal(PART, "f4").cumsum() % 20_000).astype("i2"))
    store.commit()
    return signal


def scan(signal: iso.Signal, disk: Disk, **options: Any) -> dict[int, tuple[int, int, float]]:
    """Minimum, maximum and mean of each part, which the program asks for from the end on."""

    def summarise(inputs: list[iso.Selection], _: list[iso.Output]) -> tuple[int, int, float]:
        samples = disk.read(inputs[0])
        return int(samples.min()), int(samples.max()), float(samples.mean())

    executor = iso.Executor(**options)
    for start in reversed(range(0, len(signal), PART)):
        executor.add(iso.Tasklet(summarise, [signal[start : start + PART]], name=str(start)))
    return {int(name): value for name, value in executor.run().values.items()}


def main(parts: int = 200, seek_ms: float = 5.0) -> None:
    """Scan it forward by a bare loop, backwards as given, and backwards reordered."""
    with tempfile.TemporaryDirectory() as folder, iso.open(Path(folder) / "wander.iso", "x") as store:
        signal = record(store, parts)
        disk, began = Disk(seek_ms / 1000), time.perf_counter()
        for start in range(0, len(signal), PART):
            samples = disk.read(signal[start : start + PART])
            _ = int(samples.min()), int(samples.max()), float(samples.mean())
        forward = time.perf_counter() - began
        print(f"forward, bare loop     {forward:6.3f} s  {disk.seeks:4} seeks")
        for order in ("given", "disk"):
            disk, began = Disk(seek_ms / 1000), time.perf_counter()
            scan(signal, disk, order=order)
            took = time.perf_counter() - began
            print(f"backwards, {order:5} order {took:6.3f} s  {disk.seeks:4} seeks  {took / forward:5.2f} of forward")


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:2]), *(float(one) for one in sys.argv[2:3]))
