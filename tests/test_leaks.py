"""Every public call gives back what it takes: memory, Python objects, descriptors, threads."""

from __future__ import annotations

import collections
import ctypes
import gc
import mmap
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from leaks import CALLS, SAMPLES, UNCALLED, Drive, World, public

#: By itself: what threads of other tests take or give back meanwhile would count, too.
pytestmark = pytest.mark.alone

CALLS_EACH = 1000
WARM_UP = 150

#: Every call takes minutes in all: `ISOCHRONY_LEAKS=all` drives all of them, else those that have leaked before, and
#: every twentieth of the others.
ALWAYS = ("Plan.each", "Store.create", "Store.delete", "jit", "nbuffer")
NAMES = sorted(name for name, drive in public().items() if drive is not None)
DRIVEN = NAMES if os.environ.get("ISOCHRONY_LEAKS") == "all" else sorted({*ALWAYS, *NAMES[::20]})

#: Blocks of Python's allocator, and objects of a type, that may come and go with caches and interned values: a call
#: that keeps one takes a thousand.
FEW = 300
#: Bytes of memory: what allocators round up and keep of a thousand calls; a kilobyte a call is a million.
NOISE = 400_000


def test_every_public_name_is_driven() -> None:
    drives = public()
    assert [name for name, drive in drives.items() if drive is None] == []
    known = {*iso.__all__, *(name for name in drives)}
    classes = {name.partition(".")[0] for name in iso.__all__}
    stale = [name for name in {*CALLS, *SAMPLES} if name not in known and name.partition(".")[0] not in classes]
    assert stale == []
    for name in UNCALLED:
        owner, _, member = name.partition(".")
        assert not member or hasattr(getattr(iso, owner), member), name


class Mallinfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def allocated() -> int:
    """Bytes that malloc has given out, in every heap; 0 with a C library that cannot tell."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return 0
    mallinfo.restype = Mallinfo
    info = mallinfo()
    return int(info.uordblks) + int(info.hblkhd)


class Taken:
    """What the process has."""

    def __init__(self) -> None:
        gc.collect()
        self.blocks = sys.getallocatedblocks()
        self.types = collections.Counter(type(one).__name__ for one in gc.get_objects())
        self.descriptors = len(list(Path("/proc/self/fd").iterdir()))
        self.threads = len(list(Path("/proc/self/task").iterdir()))
        lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        # A leak that fits into free memory of a heap shows here alone,
        self.allocated = allocated()
        # and one of mapped memory only here.
        self.resident = int(lines["RssAnon"].split()[0]) * 1024

    def grown(self, before: Taken) -> dict[str, int]:
        """What there is more than before, beyond noise."""
        more = {
            "Python memory blocks": (self.blocks - before.blocks, FEW),
            "descriptors": (self.descriptors - before.descriptors, 0),
            # The engine's clock has a thread, which rests when nothing runs.
            "threads": (self.threads - before.threads, 4),
            "allocated bytes": (self.allocated - before.allocated, NOISE),
            "resident bytes": (self.resident - before.resident, NOISE),
        }
        kinds = {name: (count, FEW) for name, count in (self.types - before.types).items()}
        return {name: count for name, (count, most) in {**more, **kinds}.items() if count > most}


def leak(drive: Drive, world: World) -> dict[str, int]:
    """What a thousand calls do not give back, three times over: what grows only once is a cache."""
    for _ in range(WARM_UP):
        drive(world)
    left: dict[str, int] = {}
    for _ in range(3):
        before = Taken()
        for _ in range(CALLS_EACH):
            drive(world)
        left = Taken().grown(before)
        if not left:
            break
    return left


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("leaks"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks into /proc")
@pytest.mark.parametrize("name", DRIVEN)
def test_calls_give_back_what_they_take(name: str, world: World) -> None:
    drive = public()[name]
    assert drive is not None
    assert leak(drive, world) == {}


def test_a_leak_would_be_seen(world: World) -> None:
    kept: list[object] = []
    assert "Python memory blocks" in leak(lambda w: kept.append(object()), world)
    memory: list[bytes] = []
    if allocated():
        assert "allocated bytes" in leak(lambda w: memory.append(bytes(1000)), world)
    mapped: list[mmap.mmap] = []

    def touch_a_page(_: World) -> None:
        mapped.append(mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE))
        mapped[-1][0] = 1

    assert "resident bytes" in leak(touch_a_page, world)
    files: list[int] = []
    try:
        assert "descriptors" in leak(lambda w: files.append(os.dup(0)), world)
    finally:
        for file in files:
            os.close(file)


def test_names_that_stay_for_good_are_few_and_small(world: World) -> None:
    """Names, units and rates of signals and fields of rows are interned: each costs this much, once."""
    before = Taken()
    count = 2000
    for k in range(count):
        iso.scan(world.x, rate=100 + k / 8, unit=f"unit{k}").rewindow(100).rows(
            **{f"field{k}": lambda s: s.max()}
        ).explain()
    each = (Taken().allocated - before.allocated) / count
    assert each < 6000
    again = Taken()
    for k in range(count):
        iso.scan(world.x, rate=100 + k / 8, unit=f"unit{k}").rewindow(100).rows(
            **{f"field{k}": lambda s: s.max()}
        ).explain()
    assert not {"allocated bytes", "resident bytes"} & set(Taken().grown(again))
    assert np.isfinite(each)
