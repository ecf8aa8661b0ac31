"""I/O strategies of scans: equal results, names, and what is said where one does not apply."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony.native_errors import PlanError, StoreValueError

STRATEGIES = ["read", "mmap", "readahead", "readahead_all", "populate", "direct", "io_uring", "io_uring_direct"]
WINDOW = 1000


@pytest.fixture
def store(tmp_path: Path) -> iso.Store:
    store = iso.open(tmp_path / "a.iso", "x")
    random = np.random.default_rng(7)
    writer = store.create("p", dtype="i2", rate=100)
    for count, gap in [(250_003, 17), (90_000, 100_000), (700_001, 0)]:
        writer.append(random.integers(-1000, 1000, count, dtype=np.int16))
        if gap:
            writer.append_gap(samples=gap)
    store.commit()
    return store


def expected(store: iso.Store) -> list[tuple[int, int]]:
    """Extremes of windows, by NumPy over the gap-free segments."""
    rows = []
    for segment in store["p"].select().segments:
        values = np.asarray(segment)
        whole = values[: len(values) // WINDOW * WINDOW].reshape(-1, WINDOW)
        rows += list(zip(whole.min(axis=1).tolist(), whole.max(axis=1).tolist(), strict=True))
    return rows


@pytest.mark.parametrize("io", STRATEGIES)
def test_every_strategy_gives_the_same_rows_and_is_named(store: iso.Store, io: str) -> None:
    plan = iso.scan(store["p"], io=io).rewindow(WINDOW).stats("min", "max")
    table = plan.collect()
    rows = list(zip(table["min"].tolist(), table["max"].tolist(), strict=True))
    assert rows == expected(store)
    assert f"io={io}" in str(plan)
    reads = plan.run().report.reads
    assert len(reads) == 1
    # Some file systems refuse to be read past the page cache, and containers an io_uring, which the report says.
    assert reads[0] == f"p: {io}" or f"instead of {io}: " in reads[0]
    assert reads[0] in plan.explain()
    again = iso.Plan.from_json(plan.to_json(), store=store)
    assert str(again) == str(plan)


@pytest.mark.parametrize("io", STRATEGIES)
def test_a_sealed_signal_says_that_no_strategy_applies(store: iso.Store, io: str) -> None:
    rows = expected(store)
    store["p"].seal("zstd")
    plan = iso.scan(store["p"], io=io).rewindow(WINDOW).stats("min", "max")
    table = plan.collect()
    assert list(zip(table["min"].tolist(), table["max"].tolist(), strict=True)) == rows
    assert f"decoded, {io} does not apply: the signal is sealed with zstd" in plan.explain()


def test_samples_that_are_kept_do_not_change_as_the_scan_goes_on(store: iso.Store) -> None:
    kept = iso.scan(store["p"], io="read", segment=4096).collect()
    assert np.array_equal(kept, np.concatenate([np.asarray(s) for s in store["p"].select().segments]))


LARGER = """
import resource, sys
import isochrony as iso

io, path = sys.argv[1:]
plan = iso.scan(iso.open(path)["p"], io=io).rewindow(100_000).stats("min", "max")
plan_of_nothing = iso.scan(iso.open(path)["p"][:100_000], io=io).rewindow(100_000).stats("min", "max").collect()
status = open("/proc/self/status").read()
have = int(status.split("VmData:")[1].split()[0]) * 1024
# From here on the kernel grants this process 64 MB of memory of its own; what is mapped from files does not count.
resource.setrlimit(resource.RLIMIT_DATA, (have + (64 << 20), have + (64 << 20)))
table = plan.collect(memory=8 << 20)
print(len(table["min"]), int(table["min"].min()), int(table["max"].max()))
"""


@pytest.mark.parametrize("io", STRATEGIES)
def test_an_input_larger_than_the_memory_that_is_granted(tmp_path: Path, io: str) -> None:
    store = iso.open(tmp_path / "a.iso", "x")
    writer = store.create("p", dtype="i2", rate=1_000_000)
    block = np.arange(1 << 22, dtype=np.int32).astype("i2")
    for _ in range(20):
        writer.append(block)
    store.commit()
    store.close()
    done = subprocess.run(
        [sys.executable, "-c", LARGER, io, str(tmp_path / "a.iso")], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == [str(20 * (1 << 22) // 100_000), "-32768", "32767"], done.stderr


def test_an_unknown_strategy_names_those_that_there_are(store: iso.Store) -> None:
    with pytest.raises(StoreValueError, match=r"no I/O strategy .fread.") as caught:
        iso.scan(store["p"], io="fread")
    assert all(name in str(caught.value) for name in STRATEGIES)


def test_an_array_takes_no_strategy() -> None:
    with pytest.raises(PlanError, match="io= for a signal of a store"):
        iso.scan(np.zeros(10), rate=1, io="mmap")
