"""I/O strategies of scans: equal results, names, and what is said where one does not apply."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony import machine
from isochrony.errors.native import PlanError, StoreValueError

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
    with pytest.raises(PlanError, match="io= only for a signal of a store"):
        iso.scan(np.zeros(10), rate=1, io="mmap")


# --- the strategy that a scan takes which names none ---


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A store of 20 MB, and a profile of its disk."""
    folder = tmp_path_factory.mktemp("predicted")
    with iso.open(folder / "a.iso", "x") as store:
        writer = store.create("p", dtype="i2", rate=1_000_000)
        for _ in range(10):
            writer.append(np.arange(1_000_000, dtype=np.int32).astype("i2"))
        store.commit()
    return folder / "a.iso", machine.calibrate(folder, size=4 << 20, repeats=1)


def made_best(profile: dict[str, Any], best: str) -> dict[str, Any]:
    """The profile of a disk from which one strategy takes next to nothing, mapping much, and no other is known."""

    def exactly(value: float) -> dict[str, float]:
        return {"low": value, "median": value, "high": value}

    def path(each: float) -> dict[str, Any]:
        cold = {"wait": exactly(each), "fault_bytes": None, "throughput": exactly(1e9), "major_bytes": None}
        return {"ask": exactly(each), "fault_bytes": None, "cold": cold}

    volume = profile["volumes"][0]
    costs = volume["costs"] | {"summarise": exactly(1e-12), "summarise_mapped": exactly(1e-12)}
    paths = {"mmap": path(1e-6), best: path(1e-12)}
    return profile | {"volumes": [volume | {"costs": costs, "paths": paths}]}


READS = """
import sys
import isochrony as iso

plan = iso.scan(iso.open(sys.argv[1])["p"]).rewindow(1000).stats("max").limit(1)
print(plan.run().report.reads[0])
print(plan.explain())
"""


def reads(path: Path, *before: str) -> tuple[str, str]:
    command = [*before, sys.executable, "-c", READS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    read, _, explained = done.stdout.partition("\n")
    if "an unknown part in the page cache" in explained or "no prediction: the disk" in explained:
        pytest.skip("the file system does not tell what is in the page cache, or who it is")
    return read, explained


@pytest.fixture
def doctored(
    calibrated: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any
) -> tuple[Path, str]:
    """The store, and the strategy that its disk's profile makes best."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path, profile = calibrated
    machine.save(made_best(profile, request.param))
    return path, request.param


@pytest.mark.parametrize("doctored", ["read", "readahead", "readahead_all", "populate", "io_uring"], indirect=True)
def test_a_scan_that_names_no_strategy_takes_the_one_predicted_best(doctored: tuple[Path, str]) -> None:
    path, best = doctored
    read, explained = reads(path)
    assert f"{best} *" in explained
    assert read == f"p: {best}" or read.startswith(f"p: read instead of {best}: ")


@pytest.mark.parametrize("doctored", ["direct", "io_uring_direct"], indirect=True)
def test_past_the_page_cache_only_goes_what_is_more_than_half_of_the_free_memory(
    doctored: tuple[Path, str], tmp_path: Path
) -> None:
    path, best = doctored
    assert reads(path)[0] == "p: mmap"
    # A machine with 30 MB left, as this process is told by a file over /proc/meminfo that nobody else sees.
    told = tmp_path / "meminfo"
    told.write_text("MemTotal:       16000000 kB\nMemAvailable:      30000 kB\n")
    mounted = 'mount --bind "$0" /proc/meminfo && exec "$@"'
    over = ["unshare", "--mount", "--map-root-user", "sh", "-c", mounted, str(told)]
    if not shutil.which("unshare") or subprocess.run([*over, "true"], capture_output=True, timeout=60).returncode:
        pytest.skip("no file may be mounted over another here")
    read, explained = reads(path, *over)
    assert f"{best} *" in explained
    assert read == f"p: {best}" or f" instead of {best}: " in read
