"""Stores that tests copy into object storage, and how two of them are compared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import isochrony as iso


def waves(count: int, seed: int) -> Any:
    random = np.random.default_rng(seed)
    return (np.sin(np.arange(count) / 50) * 1000 + random.normal(0, 50, count)).astype("i2")


def make(path: Path, count: int = 600_000) -> None:
    """Raw with gaps, sealed, complex; attributes and events."""
    with iso.open(path, "x") as store:
        raw = store.create("stn_1/pressure", dtype="i2", rate=2000, unit="kPa", scale=0.5, start="2010-03-01")
        for part in np.array_split(waves(count, 1), 5):
            raw.append(part)
            raw.append_gap(samples=311)
        raw.events.add("burst", start=1000, end=2000)
        sealed = store.create("stn_2/pressure", dtype="f4", rate=2000, start="2010-03-01")
        sealed.append(waves(count, 2).astype("f4"))
        store.create("radio", dtype="c8", rate=1000).append(waves(9000, 3) * np.complex64(1 + 2j))
        store.attrs["place"] = "harbour"
        store.commit()
    with iso.open(path, "r+") as store:
        store["stn_2/pressure"].seal("zstd")


def check_same(one: Any, other: Any) -> None:
    """Two stores show the same."""
    one, other = iso.open(one), iso.open(other)
    assert list(one) == list(other) and dict(one.attrs) == dict(other.attrs) and one.uuid == other.uuid
    for name in other:
        there, here = one[name], other[name]
        assert (there.end_index, there.unit, there.codec) == (here.end_index, here.unit, here.codec)
        assert [(gap.start, gap.length) for gap in there.gaps] == [(gap.start, gap.length) for gap in here.gaps]
        assert len(there.events) == len(here.events)
        np.testing.assert_array_equal(there[:].values(), here[:].values())


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "isochrony", *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
