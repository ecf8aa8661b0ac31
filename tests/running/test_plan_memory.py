"""Memory of plans: what a run takes of its own stays within `memory`, a fixed cost and what its results hold."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso

SAMPLES, BLOCK = 100_000_000, 1_000_000
LIMIT, FIXED = 32 << 20, 16_000_000

MEASURED = """
import threading, time
import numpy as np
import isochrony as iso

def own():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return sum(int(lines[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))

def doubled(values):
    return values * 2

store = iso.open({path!r}, mode="r")
def plans(s):
    w = s.rewindow(1000)
    {plans}

# What is loaded and made once, by a part of a run.
part = plans(iso.scan(store["long"][:100_000], io={io}))
iso.run(*part, workers={workers}, memory={limit})
most, done = 0, False
def watch():
    global most
    while not done:
        most = max(most, own())
        time.sleep(0.002)
asked = plans(iso.scan(store["long"], io={io}))
before = own()
thread = threading.Thread(target=watch)
thread.start()
try:
    got = iso.collect(*asked, workers={workers}, memory={limit})
finally:
    done = True
    thread.join()
assert got[-1] == {windows}, got[-1]
print(most - before, {held})
"""

# They give numbers, and all of them read the whole recording: the last says so.
PLANS = {
    "chain": """
    called = w.filter(lambda s: s.max() > 100).map(lambda s: s.astype("f4") * 3)
    return [called.count(), w.map(lambda s: s.max()).count()]""",
    "branches": """
    y = s.map(lambda s: s * 0.5)
    smooth = s.fir([0.25, 0.5, 0.25], method="direct", delay="centred")
    rows = w.map(lambda s: s.astype("f8") * 2).stats("mean", "std").group_by().agg(m=("mean", "max"), d=("std", "min"))
    few = w.map(lambda s: s + 1).limit(100).count()
    met = s.map(lambda a, b: a - b, smooth).rewindow(500).map(lambda s: s.max()).count()
    return [rows, met, few, y.count(), w.count()]""",
    "large": """
    large = s.map(lambda s: s * 0.5).rewindow(1_000_000).map(lambda s: s - s.mean()).map(lambda s: s.max())
    return [large.count(), w.count()]""",
    "threads": """
    called = w.map(iso.py(doubled, dtype="i2", width=1000, on_workers="threads"))
    return [called.count(), w.map(lambda s: s.max()).count()]""",
    "inline": """
    called = w.map(lambda s: s + 1, wrap=True).map(iso.py(doubled, dtype="i2", width=1000, on_workers="inline"))
    return [called.count(), w.map(lambda s: s.max()).count()]""",
    "processes": """
    called = w.map(iso.py(doubled, dtype="i2", width=1000, on_workers="processes"))
    return [called.map(lambda s: s.max()).count(), w.map(lambda s: s.max()).count()]""",
    "slow each": """
    called = w.map(lambda s: s + 1).each(lambda values, start: time.sleep(0.0005))
    return [called.count(), w.map(lambda s: s.max()).count()]""",
}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "long.iso"
    block = np.random.default_rng(7).integers(-300, 300, BLOCK, dtype="i2")
    with iso.open(path, "x") as store:
        signal = store.create("long", dtype="i2", rate=1000)
        for _ in range(SAMPLES // BLOCK):
            signal.append(block)
        store.commit()
    return path


def measured(path: Path, **of: object) -> list[int]:
    given = {"path": str(path), "limit": LIMIT, "windows": SAMPLES // 1000, "held": 0, "io": None} | of
    program = textwrap.dedent(MEASURED).format(**given)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("name", PLANS)
def test_a_run_grows_by_its_limit_and_a_fixed_cost_at_most(name: str, workers: int, recording: Path) -> None:
    grown, _ = measured(recording, plans=PLANS[name], workers=workers)
    print(f"{name}, {workers} workers: {grown / 1e6:.1f} MB")
    assert grown <= LIMIT + FIXED


# Of a reader: pieces that it has asked for, four at most, and those that operators look into.
BUFFERS = {"read": 6 * (512 << 10), "direct": 8 * (2 << 20), "io_uring": 8 * (512 << 10)}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("io", BUFFERS)
def test_buffers_of_readers_come_on_top_and_are_few(io: str, workers: int, recording: Path) -> None:
    # With little else, so that it shows if they are many.
    limit = 4 << 20
    grown, _ = measured(recording, plans=PLANS["chain"], workers=workers, io=repr(io), limit=limit)
    print(f"{io}, {workers} workers: {grown / 1e6:.1f} MB")
    assert grown <= limit + FIXED // 2 + workers * BUFFERS[io]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_what_results_hold_comes_on_top(workers: int, recording: Path) -> None:
    plans = (
        "return [w.map(lambda s: s.max()), s.map(lambda s: s * 0.5).rewindow(50).map(lambda s: s.mean()), w.count()]"
    )
    grown, held = measured(recording, plans=plans, workers=workers, held="sum(one.nbytes for one in got[:-1])")
    print(f"{workers} workers: {grown / 1e6:.1f} MB, {held / 1e6:.1f} MB held")
    assert held >= 8 * SAMPLES // 50
    assert grown <= LIMIT + FIXED + held


def test_a_limit_on_the_address_space_is_named() -> None:
    program = """
    import resource
    import numpy as np, isochrony as iso

    plan = iso.scan(np.zeros(10), rate=10).rewindow(1 << 23)
    plan.explain()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        plan.power()
    except iso.PlanError as error:
        print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"power: window=8388608 needs \d+ bytes of tables, but \d+ bytes of this machine's memory are free, and the "
        r"system limits this process to less \(ulimit -v\); make window smaller\n",
        done.stdout,
    ), done.stdout
