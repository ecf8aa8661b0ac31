"""One plan over more signals than the process may have files open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso

SIGNALS = 3_000
SAMPLES = 100

PROGRAM = f"""
import resource
import isochrony as iso

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
store = iso.open({{path!r}})
plans = [iso.scan(store[name], io={{io!r}}).rewindow({SAMPLES} // 4).stats("max") for name in sorted(store)]
found = iso.collect(*plans)
assert [table["max"].tolist() for table in found] == [[signal % 1000] * 4 for signal in range({SIGNALS})], found
print("read", len(found))
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "a.iso"
    with iso.open(path, "x") as store:
        for signal in range(SIGNALS):
            samples = np.full(SAMPLES, signal % 1000, "i2")
            store.create(f"stn_{signal:04}", dtype="i2", rate=100, start="2020-01-01").append(samples)
    return path


@pytest.mark.parametrize("io", [None, "mmap", "read", "direct"])
def test_a_plan_over_3000_signals_runs_under_1024_descriptors(path: Path, io: str | None) -> None:
    program = PROGRAM.format(path=str(path), io=io)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, f"read {SIGNALS}\n"), done.stderr[-3000:]
