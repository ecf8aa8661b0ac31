"""Damages stored files, and checks every read of what is left against what was written.

    python tests/attack/damages.py [COUNT [SEED]]

A store is written, copied, and the copy is damaged: in one file a bit is flipped, bytes are cut off, overwritten or
added; the file is deleted, emptied, exchanged with another, replaced by its older self, by another store's, by another
signal's, by a link, by a fifo, by a folder or by one of an absurd size; or a whole folder is deleted. A process of its
own (`read_store.py`) then reads every sample, time and event and runs `verify`. Nothing hangs or dies, and each read
is one of these:

- what was written;
- an error, and then `verify` finds damage, too;
- a state that was committed before, whole, where the log lost what came after it, and `verify` finds that;
- bytes changed in place in the samples of a signal that is not sealed: these are mapped as they are, and only `verify`
  reads their checksums. Then no other sample, time or event differs, and `verify` finds the damage.

Prints a line for each failure, counts by kind, and the seed, from which the same damages come again.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import isochrony as iso

TIMEOUT_S = 60
READER = Path(__file__).with_name("read_store.py")
NAMES = ("plain", "gappy", "sealed", "clocked")
#: Bytes that an overwriting changes at most.
OVERWRITTEN = 64

Read = dict[str, Any]


def write(path: Path, rng: np.random.Generator, older: Path) -> None:
    """A store with gaps, runs, a sealed signal, stamps, events and attributes; `older` is a copy from half-way."""
    with iso.open(path, "x") as store:
        plain = store.create("plain", dtype="i2", rate=1000)
        gappy = store.create("gappy", dtype="f4", rate=100, start="2026-01-01", unit="kPa")
        sealed = store.create("sealed", dtype="i4", rate=500, start="2026-01-01")
        clocked = store.create("clocked", dtype="i2", rate=200)
        for part in range(2):
            plain.append(rng.integers(-3000, 3000, 40_000).astype("i2"))
            for _ in range(5):
                gappy.append(rng.normal(size=2000).astype("f4"))
                gappy.append_gap(samples=int(rng.integers(1, 500)))
            if part == 0:
                sealed.append(rng.integers(-9, 9, 60_000).astype("i4"))
            for second in range(40):
                stamp = f"2026-01-0{1 + part}T00:00:{second:02}.{int(rng.integers(10)):06}Z"
                clocked.append(rng.integers(-9, 9, 200).astype("i2"), at=stamp, resolution=1e-6)
            gappy.events.add("found", 100 + part, 300 + part, loud=1.5)
            store.attrs[f"note {part}"] = "x" * 100
            store.commit()
            if part == 0:
                shutil.copytree(path, older)
        sealed.seal("zstd:3")


def flip(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def overwrite(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    at, size = rng.randrange(len(data)), rng.randrange(1, OVERWRITTEN)
    data[at : at + size] = rng.randbytes(min(size, len(data) - at))
    file.write_bytes(data)


def cut(file: Path, rng: random.Random) -> None:
    os.truncate(file, rng.randrange(file.stat().st_size))


def add(file: Path, rng: random.Random) -> None:
    with file.open("ab") as end:
        end.write(rng.randbytes(rng.randrange(1, 5000)))


def link(file: Path, rng: random.Random) -> None:
    file.unlink()
    file.symlink_to(rng.choice(["/dev/zero", "/etc/hostname", "/nowhere", str(file.parent)]))


def fifo(file: Path, _: random.Random) -> None:
    file.unlink()
    os.mkfifo(file)


def folder(file: Path, _: random.Random) -> None:
    file.unlink()
    file.mkdir()


def exchange(file: Path, rng: random.Random) -> None:
    others = [other for other in file.parent.parent.rglob("*") if other.is_file() and other != file]
    other = rng.choice(sorted(others) or [file])
    ours, theirs = file.read_bytes(), other.read_bytes()
    file.write_bytes(theirs)
    other.write_bytes(ours)


def folder_gone(file: Path, _: random.Random) -> None:
    shutil.rmtree(file.parent)


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "flip": flip,
    "overwrite": overwrite,
    "cut": cut,
    "add": add,
    "delete": lambda file, _: file.unlink(),
    "empty": lambda file, _: os.truncate(file, 0),
    "huge": lambda file, rng: os.truncate(file, 1 << rng.randrange(36, 42)),
    "link": link,
    "fifo": fifo,
    "folder": folder,
    "folder gone": folder_gone,
    "exchange": exchange,
}


@dataclass
class Stores:
    """The store under attack, and where files in its place may come from."""

    base: Path
    #: As it was committed half-way.
    older: Path
    #: Written alike with other samples.
    other: Path


def replace(kind: str, stores: Stores, work: Path, rng: random.Random) -> Path | None:
    """Puts another file in the place of one: which one, `None` if there is no such file."""
    files = stored_files(stores.base)
    if kind == "older":
        file = rng.choice([path for path in files if (stores.older / path).is_file()])
        source = stores.older / file
    elif kind == "other store's":
        file = rng.choice([path for path in files if (stores.other / path).is_file()])
        source = stores.other / file
    else:
        file = rng.choice([path for path in files if path.parts[0] in NAMES])
        others = [Path(name, *file.parts[1:]) for name in NAMES if name != file.parts[0]]
        others = [path for path in others if (stores.base / path).is_file()]
        if not others:
            return None
        source = stores.base / rng.choice(others)
    shutil.copy(source, work / file)
    return file


REPLACEMENTS = ("older", "other store's", "other signal's")


def stored_files(store: Path) -> list[Path]:
    """All files of a store that hold something, relative to it."""
    return sorted(path.relative_to(store) for path in store.rglob("*") if path.is_file() and path.stat().st_size)


def read(store: Path) -> Read | str:
    """What a process of its own reads, or why it did not."""
    command = [sys.executable, str(READER), str(store), *NAMES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode != 0:
        return f"ends with {done.returncode}: {(done.stderr.strip().splitlines() or ['nothing'])[-1]}"
    outcome: Read = json.loads(done.stdout)
    return outcome


def changed_bytes(samples: str, truth: str) -> int | None:
    """How many bytes differ; `None` if there are more or fewer of them."""
    ours, theirs = (np.frombuffer(base64.b85decode(text), "u1") for text in (samples, truth))
    return int(np.count_nonzero(ours != theirs)) if len(ours) == len(theirs) else None


def misread(signal: Read, truth: Read, before: Read, unchecked: int) -> str:
    """What is wrong about a signal that was read, if anything.

    `truth` and `before` are what it was and had been, `unchecked` how many bytes of its samples may differ at most.
    """
    if signal in (truth, before):
        return ""
    if any(signal[part] != truth[part] for part in ("ranges", "times", "events")):
        parts = [part for part in signal if signal[part] != truth[part]]
        return f"other {' and '.join(parts)} than were written"
    changed = changed_bytes(signal["samples"], truth["samples"])
    if changed is None or changed > unchecked:
        return f"wrong samples ({changed} bytes)"
    return ""


def judge(outcome: Read | str, truth: Read, before: Read, unchecked: int, views: Read) -> tuple[str, str]:
    """What a damage led to, and what is wrong about it, if anything. `views` are the plots of the sound store."""
    if isinstance(outcome, str):
        return "died", outcome
    reads = [one for kind in ("signals", "scans", "views") for one in outcome[kind].values()]
    failed = "open" in outcome or any("error" in one for one in reads)
    detected = "verify" in outcome or bool(outcome["damage"])
    unlike = False
    for name, one in outcome["signals"].items():
        if "read" in one:
            wrong = misread(one["read"], truth[name], before[name], unchecked)
            unlike |= one["read"] != truth[name]
            if wrong:
                return "misread", f"{name} reads as {wrong}; verify: {outcome.get('damage', outcome.get('verify'))}"
    for name, one in outcome["scans"].items():
        # A plan reads what the selection reads, or fails.
        selected = outcome["signals"][name].get("read", truth[name])
        if "read" in one and one["read"] != selected["samples"]:
            return "misread", f"a plan reads other samples of {name}; verify: {outcome.get('damage')}"
    # Rows of plots have no checksum: `verify` compares them with the samples.
    plots = outcome["views"].items()
    unlike |= any(one.get("read", views[name]) != views[name] for name, one in plots)
    if (failed or unlike) and not detected:
        return "missed", f"verify calls the store sound: {json.dumps(outcome)[:300]}"
    return ("refused" if failed else "changed" if unlike else "detected" if detected else "harmless"), ""


def truth_of(store: Path) -> tuple[dict[str, Read], Read]:
    """What a sound store shows, and its plots; a plan reads the same, and `verify` finds nothing."""
    outcome = read(store)
    assert isinstance(outcome, dict) and outcome.get("damage") == [], outcome
    signals = {name: one["read"] for name, one in outcome["signals"].items()}
    assert {name: one["read"] for name, one in outcome["scans"].items()} == {
        name: one["samples"] for name, one in signals.items()
    }
    return signals, {name: one["read"] for name, one in outcome["views"].items()}


def main(count: int, seed: int) -> int:
    """Runs so many damages; the number of failures."""
    rng, outcomes, failures = random.Random(seed), Counter[str](), 0
    harmless = Counter[str]()
    with tempfile.TemporaryDirectory() as scratch:
        stores = Stores(*(Path(scratch, name) for name in ("base.iso", "older.iso", "other.iso")))
        work = Path(scratch, "work.iso")
        write(stores.base, np.random.default_rng(seed), stores.older)
        write(stores.other, np.random.default_rng(seed + 1), Path(scratch, "unused.iso"))
        (truth, views), (before, _) = truth_of(stores.base), truth_of(stores.older)
        files = stored_files(stores.base)
        done = 0
        while done < count:
            shutil.copytree(stores.base, work)
            kind = rng.choice(sorted(DAMAGES) + list(REPLACEMENTS))
            if kind in REPLACEMENTS:
                file = replace(kind, stores, work, rng)
            else:
                file = rng.choice(files)
                DAMAGES[kind](work / file, rng)
            if file is not None:
                mapped = file.match("data/c/*") and file.parts[0] != "sealed"
                unchecked = {"flip": 1, "overwrite": OVERWRITTEN}.get(kind, 0)
                outcome, wrong = judge(read(work), truth, before, unchecked if mapped else 0, views)
                outcomes[outcome] += 1
                if outcome == "harmless":
                    harmless[f"{kind} of {file}"] += 1
                if wrong:
                    failures += 1
                    print(f"damage {done}, {kind} of {file}: {wrong}"[:600], flush=True)
                done += 1
            shutil.rmtree(work)
    # Nothing reads what these changed, or it is looked up elsewhere.
    print(f"harmless: {', '.join(f'{what} ({times})' for what, times in sorted(harmless.items()))}")
    print(f"damages: {count} with seed {seed}: {dict(sorted(outcomes.items()))}, {failures} failures")
    return failures


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    sys.exit(main(given[0] if given else 600, given[1] if len(given) > 1 else random.randrange(1 << 32)) > 0)
