"""`Executor(on=, tune=)`: tuning how many slots of a cluster are given tasklets, with real worker processes."""

from __future__ import annotations

import itertools
import os
import queue
import signal as signals
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from cluster_plans import local_cluster
from cluster_tasklets import SAMPLES, doubling_store
from isochrony import Configuration, OptionError
from isochrony.cluster.client import ClusterRun
from isochrony.cluster.tasklets import TaskletSlots, _deaths
from isochrony.tuning.pools import PoolTuningRequest
from tuning_reports import check_decisions

pytest.importorskip("distributed", reason="needs the extra cluster")

SLOTS = 4


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two worker processes with two threads each."""
    with local_cluster(2, SLOTS // 2) as client:
        yield client


@pytest.fixture
def store(tmp_path: Path) -> Iterator[iso.Store]:
    with doubling_store(tmp_path / "s") as store:
        yield store


def double(inputs: Any, outputs: Any) -> Any:
    outputs[0][:] = np.asarray(inputs[0]) * 2.0
    time.sleep(5e-3)  # so that other slots get some, too
    return os.getpid(), float(np.sum(np.asarray(inputs[0])))


def parts(store: iso.Store, size: int = 100, work: Any = double, **options: Any) -> iso.Executor:
    executor = iso.Executor(**options)
    for start in range(0, len(SAMPLES), size):
        part = slice(start, start + size)
        executor.add(iso.Tasklet(work, [store["x"][part]], [store["doubled"][part]], name=f"part {start}"))
    return executor


def sums(report: Any) -> dict[str, float]:
    return {name: total for name, (_, total) in report.values.items()}


@pytest.fixture
def recommended(store: iso.Store, client: Any) -> Configuration:
    tuning = parts(store, on=client, tune="recommend").run().tuning
    assert tuning is not None
    assert tuning.configuration is not None
    return tuning.configuration


def again(store: iso.Store) -> None:
    """Lets the outputs be written anew."""
    del store["doubled"]
    store.create("doubled", dtype="f8", rate=100).reserve(len(SAMPLES))
    store.commit()


def test_values_are_the_same_while_slots_change(store: iso.Store, client: Any) -> None:
    expected = sums(parts(store, on=client).run())
    again(store)
    report = parts(store, on=client, tune=True).run()
    assert sums(report) == expected
    np.testing.assert_array_equal(store["doubled"].values(), SAMPLES * 2.0)
    assert len(report.workers) == SLOTS
    tuning = report.tuning
    assert tuning is not None
    assert tuning.windows > 0
    configuration = tuning.configuration
    assert configuration is not None
    assert configuration.replicas == (SLOTS,)
    assert configuration.machine.startswith("a cluster of ")
    check_decisions(report)


def test_a_recommendation_changes_nothing(store: iso.Store, client: Any) -> None:
    report = parts(store, on=client, tune="recommend").run()
    np.testing.assert_array_equal(store["doubled"].values(), SAMPLES * 2.0)
    tuning = report.tuning
    assert tuning is not None
    assert tuning.decisions == ()
    assert tuning.windows > 0
    assert all(worker.tasklets > 0 for worker in report.workers)
    configuration = tuning.configuration
    assert configuration is not None
    assert 1 <= configuration.workers <= SLOTS
    assert configuration == replace(configuration, replicas=(SLOTS,), link_bytes=(), threads=0, batch_tasks=0)


def test_a_saved_configuration_of_one_slot_uses_one(
    store: iso.Store, client: Any, recommended: Configuration, tmp_path: Path
) -> None:
    again(store)
    one = replace(recommended, workers=1)
    one.save(tmp_path / "one.json")
    assert Configuration.load(tmp_path / "one.json") == one
    report = parts(store, 1000, on=client, tune=tmp_path / "one.json").run()
    np.testing.assert_array_equal(store["doubled"].values(), SAMPLES * 2.0)
    assert [worker.tasklets for worker in report.workers] == [40, 0, 0, 0]
    assert len({pid for pid, _ in report.values.values()}) == 1
    (called,) = [note for note in report.notes if "functions were called by tcp://" in note]
    assert called.startswith("40 functions")
    assert report.tuning is not None
    assert report.tuning.configuration == one
    assert report.tuning.decisions == ()


def test_it_is_fitted_to_a_cluster_with_another_number_of_slots(store: iso.Store, recommended: Configuration) -> None:
    with local_cluster(1, 3) as other:
        for workers, then in [(SLOTS, 3), (3, 3), (2, 2)]:
            again(store)
            report = parts(store, 1000, on=other, tune=replace(recommended, workers=workers)).run()
            assert report.tuning is not None
            assert report.tuning.configuration == replace(recommended, workers=then, replicas=(3,))
            assert sum(worker.tasklets > 0 for worker in report.workers) <= then


def test_free_slots_of_a_lost_worker_count_as_one_loss() -> None:
    assert _deaths(Counter()) == 0
    assert _deaths(Counter({("a", 0): 1, ("a", 1): 1, ("a", 2): 1})) == 1
    assert _deaths(Counter({("a", 0): 1, ("b", 0): 1})) == 2
    # Its process was started anew and was lost again.
    assert _deaths(Counter({("a", 0): 3, ("a", 1): 1})) == 3


class FakeSlot:
    def __init__(self, name: str, *, drains: bool = False) -> None:
        self.name, self._drains, self.has_left = name, drains, False

    def is_draining(self) -> bool:
        return self._drains

    def leave(self) -> None:
        self.has_left = True


def test_the_first_free_slot_is_found_behind_one_that_leaves() -> None:
    run = ClusterRun.__new__(ClusterRun)
    run._ready, run._stopped = queue.SimpleQueue(), threading.Event()
    slots: Any = TaskletSlots.__new__(TaskletSlots)
    slots._run, slots._choosing, slots._numbers = run, threading.Lock(), {}
    slots._joining = itertools.count()
    first, later, leaving = FakeSlot("first"), FakeSlot("later"), FakeSlot("leaving", drains=True)
    slots._numbers = {first: next(slots._joining)}
    for one in (leaving, first):
        run._ready.put(one)  # type: ignore[arg-type]
    assert slots._first_free(later) is first
    assert leaving.has_left
    assert slots._first_free(run.next_slot(0.0, False)) is later
    assert run._ready.empty()


def test_a_worker_that_dies_while_one_slot_is_used_loses_nothing(store: iso.Store, recommended: Configuration) -> None:
    here = Path(store.path).parent / "once"

    def dies_once(inputs: Any, outputs: Any) -> Any:
        if inputs[0].ranges[0][0] == 15_000 and not here.exists():
            here.touch()
            os.kill(os.getpid(), signals.SIGKILL)
        return double(inputs, outputs)

    again(store)
    with local_cluster(1, SLOTS) as other:
        tuning = parts(store, 5000, work=dies_once, on=other, tune="recommend").run().tuning
        assert here.exists()
        here.unlink()
        again(store)
        assert tuning is not None
        assert tuning.configuration is not None
        one = replace(tuning.configuration, workers=1)
        parts(store, 5000, work=dies_once, on=other, tune=one).run()
        assert here.exists()
    np.testing.assert_array_equal(store["doubled"].values(), SAMPLES * 2.0)


def test_what_is_of_other_functions_or_places_is_refused(
    store: iso.Store, client: Any, recommended: Configuration
) -> None:
    for tune in (True, "recommend", recommended):
        with pytest.raises(OptionError, match=r"how many of the cluster's slots .* leave out workers="):
            iso.Executor(workers=2, on=client, tune=tune)
    iso.Executor(workers="auto", on=client, tune=True)
    with pytest.raises(OptionError, match="on='nowhere'"):
        iso.Executor(on="nowhere", tune=True)
    with pytest.raises(OptionError, match=r"another machine \(a cluster of .*; this one: "):
        parts(store, tune=recommended).run()
    with pytest.raises(OptionError, match=r"another machine \(a cluster of abacuses; this one: a cluster of "):
        parts(store, on=client, tune=replace(recommended, machine="a cluster of abacuses")).run()
    with pytest.raises(OptionError, match="was made for another plan"):
        parts(store, work=lambda inputs, outputs: None, on=client, tune=recommended).run()
    with pytest.raises(OptionError, match=r"is not one of an iso\.Executor; give what the report"):
        iso.Executor(on=client, tune=replace(recommended, batch_tasks=2))
    with pytest.raises(iso.IsochronyError, match="a configuration with 0 workers, where the executor has 4"):
        parts(store, on=client, tune=replace(recommended, workers=0)).run()


def test_words_are_those_of_clusters() -> None:
    request = PoolTuningRequest("change", machine="a cluster of A", states=("executing",)).of_slots(4)
    assert request._shown(Configuration(workers=1)) == "1 slot"
    assert request._shown(Configuration(workers=3)) == "3 slots"
    assert request._bottleneck({"threads": {"thread_gain": 0.5}}).startswith("all slots are busy")
