"""What tasklets in worker processes cost: memory and descriptors, in this process and in those."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from tasklet_processes import PART, PARTS, away, parts, store
from worker_processes import nothing_is_left

pytestmark = pytest.mark.native

__all__ = ["nothing_is_left", "store"]  # fixtures

# Each tasklet has a function of its own, which encloses 8 MiB; each is a copy when it has travelled.
OWN = """
import functools, os, sys, numpy as np, isochrony as iso
K = 40
def resident(pid="self"):
    return int(next(l for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS")).split()[1]) >> 10
def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) >> 10
def work(template, k, inputs, outputs):
    return float(np.asarray(inputs[0])[0] + template[k]), resident(), resident(os.getppid())
with iso.open(sys.argv[1], "x") as store:
    sig = store.create("x", dtype="i2", rate=100)
    sig.append(np.arange(K, dtype="i2"))
    template = np.ones(1 << 20)
    executor = iso.Executor(on_workers="processes", workers=int(sys.argv[2]))
    for k in range(K):
        executor.add(iso.Tasklet(functools.partial(work, template, k), [sig[k:k + 1]], name=str(k)))
    before = resident()
    values = executor.run().values
    assert [values[str(k)][0] for k in range(K)] == [k + 1.0 for k in range(K)]
    there = [one for _, one, _ in values.values()]
    print(max(peak(), *(one for *_, one in values.values())) - before, max(there) - min(there))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_functions_with_much_in_them_are_kept_only_while_they_are_called(tmp_path: Path, workers: int) -> None:
    asked = [sys.executable, "-c", OWN, str(tmp_path / "a.iso"), str(workers)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    here, there = map(int, done.stdout.split())
    # All of them are 320 MiB.
    assert here < 120, f"{here} MiB more here"
    assert there < 120, f"{there} MiB more in a worker process"


def test_a_function_of_several_tasklets_stays_until_the_last_and_is_the_same_for_all(store: iso.Store) -> None:
    large = np.zeros(1 << 18)
    calls: list[int] = []

    def counts(_: list[Any], outputs: list[iso.Output]) -> int:
        outputs[0][:] = large[0]
        calls.append(len(calls))
        return calls[-1]

    # One process remembers what its functions remember.
    assert sorted(away(counts, store, workers=1).run().values.values()) == list(range(PARTS))


def test_an_array_in_a_cycle_is_not_kept(store: iso.Store) -> None:
    def cycle(inputs: list[iso.Selection], _: list[iso.Output]) -> int:
        samples = np.asarray(inputs[0])
        last = None
        try:
            int("no")
        except ValueError as error:
            last = error  # and its frame holds it, and the samples
        assert last is not None and samples.size
        if inputs[0].ranges[0][0] % (2 * PART):
            raise KeyError("as well")
        return Path("/proc/self/maps").read_text().count("isochrony-worker")

    executor = iso.Executor(on_workers="processes")
    for at in parts():
        executor.add(iso.Tasklet(cycle, [store["ramp"][at]], name=str(at.start)))
    with pytest.raises(iso.errors.native.TaskletError, match="as well") as failed:
        executor.run()
    values = failed.value.report.values
    assert list(values.values()) == [1] * (PARTS // 2)


FEW = """
import resource, sys, numpy as np, isochrony as iso
K, keep = 60, []
def keeps(inputs, _):
    keep.append(np.asarray(inputs[0])[:1])
def copies(inputs, _):
    keep.append(np.asarray(inputs[0])[:1].copy())
with iso.open(sys.argv[1], "x") as store:
    sig = store.create("x", dtype="i2", rate=100)
    sig.append(np.arange(K, dtype="i2"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    for work in (copies, keeps):
        executor = iso.Executor(on_workers="processes")
        for k in range(K):
            executor.add(iso.Tasklet(work, [sig[k:k + 1]], name=str(k)))
        try:
            executor.run()
        except iso.TaskletError as error:
            print(repr(error.__cause__), [one.ended for one in error.report.processes])
"""


def test_a_process_that_may_open_no_more_files_says_so(tmp_path: Path) -> None:
    asked = [sys.executable, "-c", FEW, str(tmp_path / "a.iso")]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (said,) = done.stdout.splitlines()
    assert "no more than 40 files" in said
    assert "keep copies" in said
    assert said.endswith("[None]")
