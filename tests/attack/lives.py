"""Kills a writer again and again beside two live readers, and checks every sample that anybody reads.

    python tests/attack/lives.py [LIVES [SEED]]

A writer appends stretches whose samples are a function of their index, with gaps in known places, commits, and says
so; it is killed at a moment that the seed chooses. A second signal it overwrites, seals, unseals, marks invalid and
fills, renames and commits without publishing, at random; its samples say by which overwriting they were made, as its
attributes do. Two readers meanwhile read what is committed, with handles that
they keep and with new ones, and call `verify`. After each life the store has all that was acknowledged, every sample is
right, and `verify` calls it sound, as it does beside the writer and after each tenth life, when a writer opens the
store and closes it. Prints a line for each failure, counts, and the seed.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import isochrony as iso

COMMON = """
import sys, time
import numpy as np, isochrony as iso

def check(signal):
    '''Samples read, all of which are the function of their index, and gaps where they belong.'''
    count = 0
    for segment in signal[:].segments:
        index = np.arange(segment.start, segment.end)
        wrong = np.flatnonzero(np.asarray(segment.counts) != (index * 2654435761 % 65521 - 32760).astype("i2"))
        assert not len(wrong), f"wrong samples from index {index[wrong[0]]}, {len(wrong)} of {len(index)}"
        in_gap = index % 10_000 >= 9_900
        assert not in_gap.any(), f"samples in the gap at index {index[in_gap][0]}"
        count += len(segment)
    expected = (index := signal.end_index) // 10_000 * 9_900 + min(index % 10_000, 9_900)
    assert count == expected, f"{count} samples of {expected} up to index {index}"
    return signal.end_index

def made(signal, index):
    return ((index + 7919 * signal.attrs["made"]) * 2654435761 % 65521 - 32760).astype("i2")

#: What an error about the second signal may say while a writer changes it, or of a handle that is older.
GONE = {"samples_replaced", "signal_removed", "no_such_signal"}

def check_changed(store):
    # The second signal under either name: each sample is of the overwriting that its attributes name.
    for name in ("y", "z"):
        try:
            signal = store[name]
            for segment in signal[:].segments:
                index = np.arange(segment.start, segment.end)
                wrong = np.flatnonzero(np.asarray(segment.counts) != made(signal, index))
                assert not len(wrong), f"{name} is wrong from index {index[wrong[0]]}, {len(wrong)} of {len(index)}"
        except KeyError:
            continue
        except iso.StoreError as error:
            assert error.code in GONE, f"{error.code}: {error}"

def change(store, rng):
    # One random change of the second signal, committed in one of two ways.
    name = "y" if "y" in store else "z"
    kind = int(rng.integers(7)) if name in store else 0
    if kind == 0:
        was = store[name].attrs["made"] if name in store else 0
        signal = store.create(name, dtype="i2", rate=1000, overwrite=True, attrs={"made": was + 1})
        signal.append(made(signal, np.arange(int(rng.integers(1, 90_000)))))
        store.commit(publish=bool(rng.integers(2)))
        return
    signal = store[name]
    end = signal.end_index
    if kind == 1:
        signal.unseal() if signal.codec else signal.seal("zstd:1")
        return
    if kind == 2:
        store.rename(name, "z" if name == "y" else "y")
    elif not signal.codec:
        start = int(rng.integers(end))
        stop = min(end, start + int(rng.integers(1, 9000)))
        if kind == 3:
            signal.append(made(signal, np.arange(end, end + int(rng.integers(1, 9000)))))
        elif kind == 4:
            signal.mark_invalid(start, stop)
        else:
            if kind == 6:
                signal.mark_invalid(start, stop)
                store.commit(publish=bool(rng.integers(2)))
            for gap in [gap for gap in signal.gaps if gap.start < stop and gap.end > start][:3]:
                signal.fill(gap.start, made(signal, np.arange(gap.start, gap.end)))
    store.commit(publish=bool(rng.integers(2)))
"""
WRITER = """
rng = np.random.default_rng(int(sys.argv[2]))
with iso.open(sys.argv[1], "a") as store:
    signal = store["x"] if "x" in store else store.create("x", dtype="i2", rate=1000)
    while True:
        for _ in range(int(rng.integers(1, 4))):
            at = signal.end_index
            if at % 10_000 >= 9_900:
                signal.append_gap(samples=10_000 - at % 10_000)
                continue
            size = min(int(rng.integers(1, 6000)), 9_900 - at % 10_000)
            index = np.arange(at, at + size)
            signal.append((index * 2654435761 % 65521 - 32760).astype("i2"))
        end = signal.end_index
        store.commit()
        print(end, flush=True)
        if rng.integers(2):
            change(store, rng)
"""
READER = """
kept, reads = None, 0
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    try:
        store = iso.open(sys.argv[1])
        signal = store["x"]
    except (KeyError, FileNotFoundError):
        continue
    end = check(signal)
    if kept is not None:
        assert kept[1] == check(kept[0]), "an open handle shows something else without refresh"
        kept[0].refresh() if hasattr(kept[0], "refresh") else None
        assert check(kept[0]) >= kept[1]
        end = max(end, kept[1])
    kept = (signal, check(signal))
    check_changed(store)
    reads += 1
    if reads % 4 == 0:
        damage = iso.verify(sys.argv[1])["damage"]
        assert not damage, f"verify beside the writer finds {damage[:1]}"
print(reads)
"""
CLOSING = """
with iso.open(sys.argv[1], "a") as store:
    check(store["x"])
    check_changed(store)
"""
AFTERWARDS = """
store = iso.open(sys.argv[1])
GONE.clear()
check_changed(store)
print(check(store["x"]), len(iso.verify(sys.argv[1])["damage"]))
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", COMMON + program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def life(path: Path, rng: random.Random, acknowledged: int) -> tuple[int, int, list[str]]:
    """One life: the end that was acknowledged, reads, and what was wrong."""
    wrong = []
    seconds = rng.uniform(0.05, 0.8)
    writer = start(WRITER, path, rng.randrange(1 << 30))
    readers = [start(READER, path, seconds + 0.5) for _ in range(2)]
    # From its first commit on, so that a slow machine kills it at work, too.
    first = writer.stdout.readline() if writer.stdout else ""
    time.sleep(seconds)
    writer.kill()
    said, trouble = writer.communicate()
    ends = [int(line) for line in (first + said).splitlines(keepends=True) if line.endswith("\n")]
    if trouble.strip():
        wrong.append(f"the writer: {trouble.strip().splitlines()[-1]}")
    reads = 0
    for reader in readers:
        try:
            out, trouble = reader.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            reader.kill()
            out, trouble = "0", "a reader hangs"
        reads += int(out or 0)
        if trouble.strip():
            wrong.append(f"a reader: {trouble.strip().splitlines()[-1]}")
    acknowledged = max([acknowledged, *ends])
    return acknowledged, reads, wrong + afterwards(path, acknowledged, "after the kill")


def afterwards(path: Path, acknowledged: int, when: str) -> list[str]:
    """What is wrong about a store that nobody writes."""
    out, trouble = start(AFTERWARDS, path).communicate(timeout=300)
    if trouble.strip():
        return [f"{when}: {trouble.strip().splitlines()[-1]}"]
    wrong = []
    end, damage = map(int, out.split())
    if end < acknowledged:
        wrong.append(f"{when} the store ends at {end}, and {acknowledged} was acknowledged")
    if damage:
        wrong.append(f"{when} verify finds {damage} damages: {iso.verify(path)['damage'][:1]}")
    return wrong


def close(path: Path, acknowledged: int) -> list[str]:
    """Open a store for writing and close it; what is wrong then."""
    _, trouble = start(CLOSING, path).communicate(timeout=300)
    wrong = [f"the closing writer: {trouble.strip().splitlines()[-1]}"] if trouble.strip() else []
    return wrong + afterwards(path, acknowledged, "after closing")


def main(lives: int, seed: int) -> int:
    """Lives so many lives, ten for each store; the number of failures."""
    rng, failures, reads = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        acknowledged = 0
        for number in range(lives):
            if number % 10 == 0:
                acknowledged = 0
            path = Path(scratch, f"{number // 10}.iso")
            acknowledged, more, wrong = life(path, rng, acknowledged)
            reads += more
            if number % 10 == 9 or number == lives - 1:
                wrong += close(path, acknowledged)
            for one in wrong:
                failures += 1
                print(f"life {number}: {one}"[:600], flush=True)
    print(f"lives: {lives} with seed {seed}: {reads} reads beside them, {failures} failures")
    return failures


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    sys.exit(main(given[0] if given else 200, given[1] if len(given) > 1 else random.randrange(1 << 32)) > 0)
