"""Sealed signals against decoding alone and zarr-python, and the import of miniSEED against ObsPy's reading.

By turns in one run, page cache warm; results are asserted. Sealed signals are longer than the chunks that a store
keeps, so every chunk is decoded in every round; with --quick they are not. Our import writes, checksums and commits a
store; ObsPy's reading ends in memory.
"""

from __future__ import annotations

import argparse
import json
import mmap
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from peers_flow import MISSING, RESULTS, Turn, compare, missing, timed

# Behind it: it sets the number of threads before NumPy is loaded.
import numpy as np  # isort: skip

import isochrony as iso
from isochrony.importers import import_files

CODECS = {"zstd": "zstd:3", "blosc": "blosc:lz4:5"}
CHUNK_BYTES = 1 << 20
SHARD_CHUNKS = 64
WINDOW = 4096


def pressure(count: int) -> np.ndarray[Any, Any]:
    """Counts like those of a 16-bit sensor: noise on waves, a few bits of it white."""
    block = np.random.default_rng(5).standard_normal(1 << 20)
    smooth = np.convolve(block, np.hanning(64), "same") * 40 + block * 6
    waves = 3000 * np.sin(np.arange(1 << 20) * (2 * np.pi * 37 / (1 << 20)))
    return np.resize((smooth + waves).round().astype("i2"), count)


class SealedChunks:
    """The compressed chunks of a sealed signal, as they lie in its files."""

    def __init__(self, folder: Path) -> None:
        self.chunks: list[memoryview] = []
        for number in range(len(list(folder.iterdir()))):
            with (folder / str(number)).open("rb") as file:
                shard = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
            index = shard[len(shard) - 16 * SHARD_CHUNKS - 4 : len(shard) - 4]
            places = list(struct.iter_unpack("<QQ", index))
            self.chunks += [shard[at : at + size] for at, size in places if at != 2**64 - 1]

    def decode(self, codec: Any, threads: int) -> int:
        """Decodes all chunks, each thread into memory of its own; gives the number of bytes."""

        def some(first: int) -> int:
            memory = bytearray(CHUNK_BYTES)
            chunks = self.chunks[first::threads]
            for chunk in chunks:
                codec.decode(chunk, memory)
            return len(chunks) * CHUNK_BYTES

        if threads == 1:
            return some(0)
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(some, range(threads)))


def sealed(folder: Path, count: int, rounds: int) -> None:
    samples = pressure(count)
    path = folder / "sealed.iso"
    with iso.open(path, mode="x") as store:
        for name, codec in CODECS.items():
            signal = store.create(name, dtype="i2", rate=1_000_000)
            signal.append(samples)
            store.commit()
            signal.seal(codec)
    expected = int(samples[: count // WINDOW * WINDOW].reshape(-1, WINDOW).max(axis=1).sum(dtype="i8"))
    with iso.open(path) as store:
        for name in CODECS:
            scans = {workers: scan(store[name], workers, expected) for workers in (1, 2)}
            others = {"one worker": scans[1], **by_zarr(path, name, samples)}
            goals = {"one worker": 1.8, "zarr-python": 3}
            alone = decoding(name, path / name / "data/c", samples.nbytes)
            if alone is not None:
                others["decoding alone, two threads"] = alone(2)
                goals["decoding alone, two threads"] = 0.9
                compare(
                    f"sealed scan, {name}, one worker",
                    scans[1],
                    {"decoding alone": alone(1)},
                    samples=count,
                    rounds=rounds,
                    goals={"decoding alone": 0.9},
                )
            compare(f"sealed scan, {name}, two workers", scans[2], others, samples=count, rounds=rounds, goals=goals)


def scan(signal: iso.Signal, workers: int, expected: int) -> Turn:
    plan = iso.scan(signal).rewindow(WINDOW).stats("max")
    return timed(lambda: int(np.asarray(plan.collect(workers=workers)["max"]).sum(dtype="i8")), expected)


def decoding(name: str, folder: Path, size: int) -> Callable[[int], Turn] | None:
    """Decoding of all chunks of a signal, with a number of threads."""
    try:
        import numcodecs
    except ImportError:
        missing(f"decoding {name} alone", "numcodecs is not installed (pip install numcodecs)")
        return None
    numcodecs.blosc.use_threads = False
    codec = numcodecs.Zstd() if name == "zstd" else numcodecs.Blosc()
    shards = SealedChunks(folder)
    decoded = len(shards.chunks) * CHUNK_BYTES
    assert decoded == -(-size // CHUNK_BYTES) * CHUNK_BYTES
    return lambda threads: timed(lambda: shards.decode(codec, threads), decoded)


def by_zarr(path: Path, name: str, samples: np.ndarray[Any, Any]) -> dict[str, Turn]:
    try:
        import zarr
    except ImportError:
        missing(f"sealed scan, {name}", "zarr-python is not installed (pip install zarr)")
        return {}
    array = zarr.open_array(path / name / "data", mode="r")
    step = array.chunks[0]
    expected = int(samples[::step].sum(dtype="i8"))

    def run() -> int:
        return sum(int(np.asarray(array[at : at + step])[0]) for at in range(0, len(samples), step))

    return {"zarr-python": timed(run, expected)}


def miniseed(folder: Path, count: int, rounds: int) -> None:
    try:
        import obspy
    except ImportError:
        missing("import of miniSEED", "ObsPy is not installed (pip install obspy)")
        return
    samples = pressure(count).astype("i4")
    for length in (4096, 512):
        file = folder / f"records_{length}.mseed"
        header = {"network": "XX", "station": "ABC", "channel": "HHZ", "sampling_rate": 100.0}
        obspy.Trace(samples, header=header).write(str(file), format="MSEED", encoding="STEIM2", reclen=length)

        def ours(file: Path = file) -> float:
            store = folder / "imported.iso"
            shutil.rmtree(store, ignore_errors=True)
            start = time.perf_counter()
            with iso.open(store, mode="x") as opened:
                import_files(opened, file)
                signal = opened["XX/ABC/--/HHZ"]
                assert len(signal) == count
            return time.perf_counter() - start

        def theirs(file: Path = file) -> float:
            start = time.perf_counter()
            found = obspy.read(file)
            spent = time.perf_counter() - start
            assert found[0].stats.npts == count
            return spent

        compare(
            f"import of {file.stat().st_size / 1e6:.0f} MB of miniSEED into a store, records of {length} bytes",
            ours,
            {"ObsPy read": theirs},
            samples=file.stat().st_size,
            rounds=rounds,
            size=1,
            goals={"ObsPy read": 1.25},
        )
        file.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 7
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        sealed(Path(folder), (1 << 22) if arguments.quick else 5 << 25, rounds)
        miniseed(Path(folder), (2 << 20) if arguments.quick else 75_000_000, rounds)
    if arguments.out:
        arguments.out.write_text(json.dumps({"results": RESULTS, "missing": MISSING}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
