"""What tests of tasklets in worker processes share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

PART, PARTS = 1024, 8
N = PART * PARTS


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with iso.open(tmp_path / "ramp.iso", "x") as store:
        store.create("ramp", dtype="i2", rate="100/3", unit="kPa", scale=0.5, offset=1).append(np.arange(N, dtype="i2"))
        store.create("out", dtype="f8", rate=100).reserve(N)
        store.commit()
        yield store


def parts() -> list[slice]:
    return [slice(start, start + PART) for start in range(0, N, PART)]


def twice(inputs: list[iso.Selection], outputs: list[iso.Output]) -> int:
    outputs[0].array = np.asarray(inputs[0]) * 2
    return os.getpid()


def away(work: Any, store: iso.Store, workers: int = 2, **options: Any) -> iso.Executor:
    """A function over each part, in worker processes."""
    executor = iso.Executor(workers=workers, on_workers="processes", **options)
    for at in parts():
        executor.add(iso.Tasklet(work, [store["ramp"][at]], [store["out"][at]], name=str(at.start)))
    return executor


def once(marker: Path) -> bool:
    """True the first time, in whatever process."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
