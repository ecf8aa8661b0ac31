"""Imports damaged and invented files of every format beside a good one.

    python tests/attack/imports.py [COUNT [SEED]]

Each of many files begins as a good one, is damaged in one to three places, cut off, grown or given another suffix,
and lies in a folder beside a good file. `isochrony import` in a process of its own, with bounded memory and time,
must take the good file whole, whatever the others are, and end with 0 or 1 and no trace. Of damaged files whose format
has a checksum over each block of samples (FLAC, miniSEED 3) every sample that was taken must be one of the original, at
its place. Prints a line for each failure, counts, and the seed.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pymseed
import soundfile

import isochrony as iso

TIMEOUT_S = 120
MEMORY = 3 << 30
#: Files of a folder: an import takes a second to begin.
TOGETHER = 10
#: The station of the files of miniSEED 3, of which each record has a checksum.
CHECKED = "QQ7"


def seeds(folder: Path, rng: np.random.Generator) -> tuple[list[Path], np.ndarray]:
    """Good files of every format, and the samples of all of them."""
    samples = rng.integers(-3000, 3000, 3000).astype("i4")
    times = np.datetime64("2026-01-01T00:00:00", "ns") + np.arange(3000) * np.timedelta64(10, "ms")
    rows = "".join(f"{time},{sample}\n" for time, sample in zip(times, samples, strict=True))
    (folder / "a.csv").write_text("time,pressure\n" + rows)
    np.save(folder / "b.npy", samples)
    pa.parquet.write_table(pa.table({"time": times, "pressure": samples}), folder / "c.parquet")
    for name in ("d.wav", "e.flac"):
        soundfile.write(folder / name, samples.astype("i2"), 100)
    start = int(times[0].astype("i8"))
    encodings = pymseed.DataEncoding.STEIM2, pymseed.DataEncoding.INT32
    for name, station, version, encoding in zip("fg", ("STA", CHECKED), (2, 3), encodings, strict=True):
        traces = pymseed.MS3TraceList()
        for channel in ("H_H_Z", "H_H_N"):
            traces.add_data(f"FDSN:XX_{station}_00_{channel}", samples, "i", 100.0, starttime=start)
        traces.to_file(str(folder / f"{name}.mseed"), format_version=version, encoding=encoding)
    return sorted(folder.iterdir()), samples


def spoil(data: bytearray, rng: random.Random) -> bytes:
    """Bytes that are damaged somewhere, mostly near the beginning, where formats say how long everything is."""
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data)) if rng.random() < 0.3 else rng.randrange(min(len(data), 400))
        match rng.randrange(6):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), b"\x00\x00\x00\x80" * 2, rng.randbytes(8)])
            case 2:
                del data[at + 1 :]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(1, 600))
            case 4:
                del data[at : at + rng.randrange(1, 600)]
                data = data or bytearray(b"x")
            case 5:
                data[at : at + 1] = rng.choice([b"nan", b"1e999", b"9" * 30, b"-", b"\n\n", b",,,", b'"', b"\r"])
    return bytes(data)


def wrong_samples(store: iso.Store, names: set[str], original: np.ndarray) -> str:
    """What is wrong with the samples that were taken of damaged files with checksums; empty if nothing is."""
    for name in store.keys():  # noqa: SIM118
        if not names.intersection(name.split("/")):
            continue
        signal = store[name]
        for segment in signal[:].segments:
            taken = np.asarray(segment.counts)
            starts = np.flatnonzero(original == taken[0])
            # Where in the original: whatever a damaged header says of times.
            if not any(np.array_equal(original[at : at + len(taken)], taken) for at in starts):
                return f"{name} has {len(taken)} samples from {segment.start} on that are none of the original"
    return ""


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def main(count: int, seed: int) -> int:
    """Imports so many damaged files; the number of failures."""
    rng, outcomes, failures = random.Random(seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as scratch:
        good = np.random.default_rng(seed).integers(-3000, 3000, 5000).astype("i4")
        (Path(scratch) / "seeds").mkdir()
        files, samples = seeds(Path(scratch) / "seeds", np.random.default_rng(seed))
        suffixes = [file.suffix for file in files]
        for number in range(0, count, TOGETHER):
            source = Path(scratch, f"source{number}")
            source.mkdir()
            np.save(source / "good.npy", good)
            checked = {CHECKED}
            for k in range(min(TOGETHER, count - number)):
                file = rng.choice(files)
                if file.suffix == ".flac":
                    checked.add(f"bad{number + k}")
                suffix = file.suffix if rng.random() < 0.9 else rng.choice(suffixes)
                (source / f"bad{number + k}{suffix}").write_bytes(spoil(bytearray(file.read_bytes()), rng))
            store = source.with_suffix(".iso")
            command = [sys.executable, "-m", "isochrony", "import", str(source), str(store), "--rate", "100"]
            wrong = ""
            try:
                done = subprocess.run(
                    command, capture_output=True, timeout=TIMEOUT_S, preexec_fn=limited, stdin=subprocess.DEVNULL
                )
                outcomes[str(done.returncode)] += 1
                last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
                if done.returncode not in (0, 1):
                    wrong = f"ends with {done.returncode}: {last}"
                elif b"Traceback" in done.stderr:
                    wrong = f"prints a trace: {last}"
                else:
                    with iso.open(store) as made:
                        if not np.array_equal(np.asarray(made["good"].counts[:]), good):
                            wrong = "the good file was not taken whole"
                        elif iso.verify(store)["damage"]:
                            wrong = "the store that it made is damaged"
                        else:
                            wrong = wrong_samples(made, checked, samples)
            except subprocess.TimeoutExpired:
                wrong = "hangs"
            except (iso.IsochronyError, OSError) as error:
                wrong = f"the store cannot be read: {error}"
            if wrong:
                failures += 1
                print(f"files {number} to {number + TOGETHER - 1}: {wrong}"[:600], flush=True)
    print(f"imports: {count} with seed {seed}: exit codes {dict(sorted(outcomes.items()))}, {failures} failures")
    return failures


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    sys.exit(main(given[0] if given else 500, given[1] if len(given) > 1 else random.randrange(1 << 32)) > 0)
