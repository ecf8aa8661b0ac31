"""Functions of tasklets on workers of a cluster, `Executor(on=)`, with real worker processes."""

from __future__ import annotations

import os
import signal as signals
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from cluster_tasklets import SAMPLES, doubling_store

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def store(tmp_path: Path) -> Iterator[iso.Store]:
    with doubling_store(tmp_path / "s") as store:
        yield store


def parts(store: iso.Store, work: Any, outputs: bool = True, **options: Any) -> iso.Executor:
    executor = iso.Executor(**options)
    for start in range(0, len(SAMPLES), 5_000):
        part = slice(start, start + 5_000)
        outs = [store["doubled"][part]] if outputs else []
        executor.add(iso.Tasklet(work, [store["x"][part]], outs, name=f"part {start}"))
    return executor


def double(inputs: Any, outputs: Any) -> Any:
    samples = np.asarray(inputs[0])
    outputs[0][: len(samples) // 2] = samples[: len(samples) // 2] * 2.0
    outputs[0][len(samples) // 2 :] = samples[len(samples) // 2 :] * 2.0
    return os.getpid(), str(inputs[0].segments[0].time)


def test_results_are_those_of_this_process(client: Any, store: iso.Store) -> None:
    def slowly(inputs: Any, outputs: Any) -> Any:
        time.sleep(0.1)  # so that the other worker gets some, too
        return double(inputs, outputs)

    report = parts(store, slowly, on=client).run()
    np.testing.assert_array_equal(store["doubled"].values(), SAMPLES * 2.0)
    assert not store.has_pending
    pids = {pid for pid, _ in report.values.values()}
    assert pids == set(client.run(os.getpid).values()), "both workers, and not this process"
    assert report.values["part 5000"][1].startswith("2026-01-01T00:00:50")
    counts = [int(note.split()[0]) for note in report.notes if "functions were called by tcp://" in note]
    assert len(counts) == 2 and sum(counts) == 8
    (place,) = report.places
    assert place.startswith("8 Python function(s) run in workers of the cluster")


def test_what_is_not_committed_is_read_here(client: Any, store: iso.Store) -> None:
    """A tasklet that reads what another one has just written."""
    executor = parts(store, double, on=client, keep_every_s=1e6)
    executor.add(iso.Tasklet(lambda inputs, _: float(inputs[0].values().sum()), [store["doubled"][:]], name="sum"))
    report = executor.run()
    assert report.values["sum"] == float((SAMPLES.astype("f8") * 2.0).sum())
    assert any(note.startswith("1 functions were called in this process") for note in report.notes)
    scratch = store.scratch(dtype="f4", rate=100)
    executor = iso.Executor(on=client)
    scratch.reserve(10)

    def fill(_: Any, outputs: Any) -> None:
        outputs[0][:] = 3

    executor.add(iso.Tasklet(fill, outputs=[scratch[:10]], name="fill"))
    executor.add(iso.Tasklet(lambda inputs, _: float(inputs[0].values().sum()), [scratch[:10]], name="all"))
    assert executor.run().values["all"] == 30.0


def test_an_exception_is_the_cause(client: Any, store: iso.Store) -> None:
    def fails(inputs: Any, _: Any) -> float:
        if inputs[0].ranges[0][0] == 10_000:
            raise ValueError("too loud")
        return float(np.max(inputs[0]))

    with pytest.raises(iso.TaskletError) as caught:
        parts(store, fails, outputs=False, on=client).run()
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError) and str(cause) == "too loud"
    assert any("raised on" in note for note in cause.__notes__)
    assert len(caught.value.report.values) == 7


def test_the_call_of_a_lost_worker_is_repeated(client: Any, store: iso.Store) -> None:
    here = Path(store.path).parent / "once"

    def dies_once(inputs: Any, outputs: Any) -> Any:
        if inputs[0].ranges[0][0] == 15_000 and not here.exists():
            here.touch()
            os.kill(os.getpid(), signals.SIGKILL)
        return double(inputs, outputs)

    parts(store, dies_once, on=client).run()
    assert here.exists()
    np.testing.assert_array_equal(store["doubled"].values(), SAMPLES * 2.0)


def test_ctrl_c_ends_the_run_at_once(client: Any, store: iso.Store) -> None:
    def slow(inputs: Any, _: Any) -> None:
        time.sleep(3)

    threading.Timer(1.0, os.kill, (os.getpid(), signals.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        parts(store, slow, outputs=False, on=client).run()
    assert time.monotonic() - begun < 3


def test_wrong_uses_are_refused(client: Any, store: iso.Store) -> None:
    lock = threading.Lock()
    with pytest.raises(iso.TaskletError) as caught:
        parts(store, lambda inputs, _: lock.locked(), outputs=False, on=client).run()
    assert "a function that cannot be pickled cannot run on a cluster" in str(caught.value.__cause__)
    with pytest.raises(iso.OptionError, match=r"paths= states where .* but there is no on="):
        iso.Executor(paths={"/a": "/b"})
    with pytest.raises(iso.OptionError, match="on='nowhere'"):
        iso.Executor(on="nowhere")
    assert f"called by workers of {client.scheduler.address}" in parts(store, double, on=client).explain()
