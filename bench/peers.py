"""Benchmarks from Python: against NumPy memmap and zarr-python, by turns in one process.

Every result is asserted before its time counts. Prints medians and quartiles of times and ratios and writes them as
JSON for report.py.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import isochrony as iso

RESULTS: list[dict[str, Any]] = []


def quartiles(values: list[float]) -> list[float]:
    ordered = sorted(values)
    at = [ordered[round((len(ordered) - 1) * part)] for part in (0.25, 0.75)]
    return [statistics.median(ordered), at[0], at[1]]


def compare(
    name: str,
    ours: Callable[[], None],
    other_name: str,
    other: Callable[[], None],
    *,
    rounds: int,
    size: int | None = None,
    per: int = 1,
    goal: float | None = None,
) -> None:
    """Times both by turns after one round that does not count; ratio above one: ours is faster."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for which, run in enumerate((ours, other)):
            start = time.perf_counter()
            run()
            spent = time.perf_counter() - start
            if turn:
                times[which].append(spent / per)
    ratio = quartiles([b / a for a, b in zip(*times, strict=True)])
    met = None if goal is None else ratio[0] >= goal
    RESULTS.append(
        {
            "name": name,
            "other": other_name,
            "bytes": size,
            "seconds": quartiles(times[0]),
            "other_seconds": quartiles(times[1]),
            "ratio": ratio,
            "goal": None if goal is None else f">= {goal}",
            "met": met,
        }
    )
    print(f"{name} against {other_name}: ratio {ratio[0]:.3f} ({ratio[1]:.3f} to {ratio[2]:.3f})", flush=True)


def scan(store: iso.Store, flat: np.memmap, folder: Path, rounds: int) -> None:
    signal = store["s"]
    window = 120_000
    count = len(flat) // window
    table = iso.scan(signal).rewindow(window).stats("min", "max", "mean").collect()
    expected = flat[: count * window].reshape(count, window)
    assert np.array_equal(np.asarray(table["min"]), expected.min(axis=1))
    assert np.array_equal(np.asarray(table["max"]), expected.max(axis=1))
    assert np.allclose(np.asarray(table["mean"]), expected.mean(axis=1), rtol=0, atol=1e-9)

    def ours() -> None:
        iso.scan(signal).rewindow(window).stats("min", "max", "mean").collect()

    def memmap() -> None:
        expected.min(axis=1), expected.max(axis=1), expected.mean(axis=1)

    array = zarr.open_array(folder / "peers.iso" / "s" / "data", mode="r")

    def by_zarr() -> None:
        for start in range(0, len(flat), window * 64):
            part = array[start : start + window * 64]
            part.min(), part.max(), part.mean()

    size = flat.nbytes
    compare("py/scan/min-max-mean", ours, "NumPy memmap", memmap, rounds=rounds, size=size)
    compare("py/scan/min-max-mean", ours, "zarr-python of the same files", by_zarr, rounds=min(rounds, 5), size=size)


def random_reads(store: iso.Store, flat: np.memmap, folder: Path, rounds: int) -> None:
    signal = store["s"]
    length, per = 4096, 1000
    places = np.random.default_rng(5).integers(0, len(flat) - length, per).tolist()
    array = zarr.open_array(folder / "peers.iso" / "s" / "data", mode="r")
    for at in places[:50]:
        expected = flat[at : at + length]
        assert np.array_equal(np.asarray(signal[at : at + length]), expected)
        assert np.array_equal(np.asarray(array[at : at + length]), expected)

    # Each read is made use of: its sum is what a detector would look at first.
    def ours() -> None:
        for at in places:
            np.asarray(signal[at : at + length]).max()

    def memmap() -> None:
        for at in places:
            flat[at : at + length].max()

    few = places[:100]

    def ours_few() -> None:
        for at in few:
            np.asarray(signal[at : at + length]).max()

    def by_zarr() -> None:
        for at in few:
            array[at : at + length].max()

    compare("py/read/4096-at-random", ours, "NumPy memmap", memmap, rounds=rounds, per=per, goal=1.0)
    compare("py/read/4096-at-random", ours_few, "zarr-python", by_zarr, rounds=min(rounds, 5), per=len(few))


def conversion(store: iso.Store, flat: np.memmap, rounds: int) -> None:
    """A signal as floats, against NumPy's conversion of an array that lies in memory already."""
    part = store["s"][: 64 << 20]
    counts = np.array(flat[: 64 << 20])
    for dtype in ("f8", "f4"):
        assert np.array_equal(part.values(dtype=dtype), counts.astype(dtype))
        out = np.empty(len(counts), dtype)
        name, size = f"py/values/int16-to-{out.dtype.name}", counts.nbytes

        def ours(dtype: str = dtype) -> None:
            part.values(dtype=dtype)

        def astype(dtype: str = dtype) -> None:
            counts.astype(dtype)

        def ours_out(out: np.ndarray = out) -> None:
            part.values(out=out)

        def copyto(out: np.ndarray = out) -> None:
            np.copyto(out, counts)

        compare(name, ours, "NumPy astype of an array", astype, rounds=rounds, size=size, goal=0.91)
        compare(f"{name}/out", ours_out, "NumPy copyto of an array", copyto, rounds=rounds, size=size, goal=0.91)


def view(store: iso.Store, flat: np.memmap, rounds: int) -> None:
    signal = store["s"]
    shown = signal.view(pixels=2000)
    assert shown.count.sum() == len(flat)
    assert shown.max.max() == flat.max()

    def ours() -> None:
        signal.view(pixels=2000)

    step = len(flat) // 2000

    def memmap() -> None:
        whole = flat[: step * 2000].reshape(2000, step)
        whole.min(axis=1), whole.max(axis=1), whole.mean(axis=1)

    compare("py/view/all/2000-pixels", ours, "NumPy over the memmap", memmap, rounds=min(rounds, 7))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    samples = (4 << 20) if arguments.quick else (512 << 20)
    rounds = 2 if arguments.quick else 15
    with tempfile.TemporaryDirectory(dir=arguments.dir) as name:
        folder = Path(name)
        raw = folder / "flat.raw"
        generator = np.random.default_rng(1)
        block = generator.integers(-2048, 2048, 4 << 20, dtype=np.int16)
        with iso.open(folder / "peers.iso", "x") as store, raw.open("wb") as file:
            writer = store.create("s", dtype="i2", rate=2000)
            for _ in range(samples // len(block)):
                writer.append(block)
                block.tofile(file)
            store.commit()
        flat = np.memmap(raw, dtype=np.int16, mode="r")
        with iso.open(folder / "peers.iso") as store:
            random_reads(store, flat, folder, rounds)
            scan(store, flat, folder, rounds)
            conversion(store, flat, rounds)
            view(store, flat, rounds)
    if arguments.out:
        arguments.out.write_text(json.dumps(RESULTS, indent=1))


if __name__ == "__main__":
    main()
