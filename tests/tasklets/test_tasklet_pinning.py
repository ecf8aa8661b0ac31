"""Workers of an executor on CPUs of their own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

ALLOWED = os.sched_getaffinity(0)


def affinity(inputs: Any, outputs: Any) -> list[int]:
    """CPUs that who runs this may use; takes long enough that no worker runs all."""
    time.sleep(0.02)
    return sorted(os.sched_getaffinity(0))


def run(tmp_path: Path, **options: Any) -> iso.tasklets.TaskletsReport:
    store = iso.open(tmp_path / "a.iso", "x")
    signal = store.create("s", dtype="i2", rate=100)
    signal.append(np.arange(1600, dtype="i2"))
    store.commit()
    executor = iso.Executor(**options)
    for start in range(0, 1600, 100):
        executor.add(iso.Tasklet(affinity, [signal[start : start + 100]], name=str(start)))
    return executor.run()


@pytest.mark.parametrize("place", ["threads", "processes"])
def test_each_worker_has_a_cpu_and_so_has_its_process(tmp_path: Path, place: str) -> None:
    report = run(tmp_path, workers=2, pin=True, on_workers=place)
    assert len(report.pinned_cpus) == 2
    assert set(report.pinned_cpus) <= ALLOWED
    if len(ALLOWED) > 1:
        assert len(set(report.pinned_cpus)) == 2
    for one in report.tasklets:
        assert one.worker is not None
        assert report.values[one.name] == [report.pinned_cpus[one.worker]]


def test_the_caller_keeps_its_affinity(tmp_path: Path) -> None:
    report = run(tmp_path, workers=1, pin=True)
    assert len(report.pinned_cpus) == 1
    assert os.sched_getaffinity(0) == ALLOWED


def test_nothing_is_pinned_unless_asked(tmp_path: Path) -> None:
    report = run(tmp_path, workers=2)
    assert report.pinned_cpus == ()
    assert all(value == sorted(ALLOWED) for value in report.values.values())


def test_an_option_that_is_no_flag_is_refused() -> None:
    with pytest.raises(iso.OptionError, match="pin"):
        iso.Executor(pin="yes")  # type: ignore[arg-type]
