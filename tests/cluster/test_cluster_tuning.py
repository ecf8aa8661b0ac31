"""Plans on Dask workers that are tuned: the same bits, saved and refused configurations, lost workers, and the view."""

from __future__ import annotations

import os
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
from cluster_feeds import FEED_RATE, expected_loudest, feed_samples, loudest, sending
from cluster_plans import local_cluster, long_path
from isochrony import Configuration, OptionError
from isochrony.cli import main
from isochrony.cli.top import describe
from isochrony.cluster import slot as slots
from isochrony.cluster.connect import _CLIENTS
from isochrony.cluster.scaling import Scaling
from isochrony.running.options import RunOptions
from isochrony.running.runs import collect_reported, run_reported
from isochrony.running.status_files import running_plans, status_path
from isochrony.tuning.configuration import TuningRequest, cluster_machine
from tuning_reports import check_decisions
from worker_processes import until

pytest.importorskip("distributed", reason="needs the extra cluster")

__all__ = ["long_path"]  # fixtures

SLOTS = 4


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two worker processes with two threads each."""
    with local_cluster(2, SLOTS // 2) as client:
        yield client


@pytest.fixture(scope="module")
def plan(long_path: Path) -> iso.Plan:
    return iso.scan(iso.open(long_path)["s"], segment=4096).rewindow(1000).power()


def tuned(plan: iso.Plan, task: int = 400_000, **given: Any) -> tuple[Any, Any, Any]:
    """Result, report and what tuning found, with tasks of so many bytes."""
    options = RunOptions.of(**given)
    options.settings["task"] = task
    (found,), _, ran = collect_reported((plan,), options)
    return found, ran.report, ran.report.tuning


@pytest.fixture(scope="module")
def recommended(plan: iso.Plan, client: Any) -> Configuration:
    _, _, tuning = tuned(plan, on=client, tune="recommend")
    assert tuning.decisions == ()
    configuration: Configuration = tuning.configuration
    return configuration


def used(report: Any) -> int:
    return sum(worker.tasks > 0 for worker in report.workers)


def test_results_are_the_bits_of_one_thread(plan: iso.Plan, client: Any) -> None:
    expected = plan.collect(workers=1)
    for tune in (True, "recommend"):
        found, report, tuning = tuned(plan, on=client, tune=tune)
        np.testing.assert_array_equal(found, expected)
        assert len(report.tasks) > 100
        assert tuning.configuration is not None
        check_decisions(report)
    counted = plan.count().collect(on=client, tune=True)
    assert counted == plan.count().collect(workers=1)


def test_a_recommendation_is_of_the_plan_and_of_a_kind_of_cluster(recommended: Configuration) -> None:
    assert (recommended.workers, recommended.replicas) == (SLOTS, (SLOTS,))
    assert (recommended.task_bytes, recommended.threads) == (0, 0)
    # By what messages took here; 0: each slot decides.
    assert 0 <= recommended.batch_tasks <= 32
    assert recommended.io == recommended.cuts == recommended.link_bytes == ()
    assert recommended.machine.startswith("a cluster of ")
    assert recommended.plan


@pytest.mark.parametrize(("workers", "batch_tasks"), [(1, 1), (2, 7), (SLOTS, 32)])
def test_a_saved_configuration_is_applied_from_the_start(
    plan: iso.Plan, client: Any, recommended: Configuration, tmp_path: Path, workers: int, batch_tasks: int
) -> None:
    stated = replace(recommended, workers=workers, batch_tasks=batch_tasks)
    stated.save(tmp_path / "saved.json")
    assert Configuration.load(tmp_path / "saved.json") == stated != recommended
    found, report, tuning = tuned(plan, on=client, tune=tmp_path / "saved.json")
    np.testing.assert_array_equal(found, plan.collect(workers=1))
    assert tuning.configuration == stated
    assert f"batch_tasks={batch_tasks}" in repr(tuning.configuration)
    assert tuning.decisions == ()
    # The next slot takes the place of one that was lost.
    assert used(report) <= workers + sum(worker.lost for worker in report.workers), str(report)


def test_it_is_fitted_to_a_cluster_with_another_number_of_slots(plan: iso.Plan, recommended: Configuration) -> None:
    expected = plan.collect(workers=1)
    with local_cluster(1, 3) as other:
        for workers, then in [(SLOTS, 3), (3, 3), (2, 2)]:
            found, report, tuning = tuned(plan, on=other, tune=replace(recommended, workers=workers, batch_tasks=5))
            np.testing.assert_array_equal(found, expected)
            assert tuning.configuration == replace(recommended, workers=then, replicas=(3,), batch_tasks=5)
            assert used(report) <= then


def test_what_is_of_another_plan_or_place_is_refused(
    plan: iso.Plan, long_path: Path, client: Any, recommended: Configuration
) -> None:
    here = plan.run(workers=2, tune="recommend").report.tuning
    assert here is not None
    assert here.configuration is not None
    with pytest.raises(OptionError, match=r"another machine \(.*; this one: a cluster of "):
        plan.run(on=client, tune=here.configuration)
    with pytest.raises(OptionError, match=r"another machine \(a cluster of .*; this one: "):
        plan.collect(tune=recommended)
    with pytest.raises(OptionError, match=r"another machine \(a cluster of abacuses; this one: a cluster of "):
        plan.collect(on=client, tune=replace(recommended, machine="a cluster of abacuses"))
    with pytest.raises(OptionError, match="was made for another plan"):
        iso.scan(iso.open(long_path)["s"], segment=4096).rewindow(500).power().collect(on=client, tune=recommended)
    with pytest.raises(iso.PlanError, match="workers=0 is refused; it must be 1 to 4"):
        plan.collect(on=client, tune=replace(recommended, workers=0))
    with pytest.raises(OptionError, match=r"is not one of an iso\.Executor; give what the report"):
        iso.Executor(tune=Configuration(workers=1, batch_tasks=2))


def test_a_cluster_is_told_from_others_by_its_processors() -> None:
    assert cluster_machine(["B", "A", "B"]) == "a cluster of A, B"
    assert cluster_machine([None]) == "a cluster of unknown processors"
    empty = cluster_machine([])
    saved = Configuration(workers=1, machine="a cluster of A")
    # Its workers join later.
    saved.check("any plan", empty)
    replace(saved, machine=empty).check("any plan", "a cluster of B")
    for machine in ("a cluster of B", "A, 2 cores", ""):
        with pytest.raises(OptionError, match="another machine"):
            saved.check("any plan", machine)
    with pytest.raises(OptionError, match="another machine"):
        replace(saved, machine="A, 2 cores").check("any plan", empty)


def test_a_run_that_is_not_tuned_has_no_such_report(plan: iso.Plan, client: Any) -> None:
    assert plan.run(on=client).report.tuning is None
    assert plan.run(on=client, progress=True).report.tuning is None


def test_stages_in_the_process_of_the_client_are_tuned_there(long_path: Path, client: Any) -> None:
    filtered = iso.scan(iso.open(long_path)["s"]).lowpass(50).highpass(5).rewindow(1000).power()
    found, report, tuning = tuned(filtered, on=client, tune="recommend")
    np.testing.assert_array_equal(found, filtered.collect(workers=1))
    assert len(tuning.configuration.replicas) == len({stage.number for stage in report.stages}) > 1
    assert tuning.configuration.batch_tasks == 0
    assert tuning.configuration.io == ()
    again, _, applied = tuned(filtered, on=client, tune=tuning.configuration)
    np.testing.assert_array_equal(again, found)
    assert applied.configuration == tuning.configuration


@pytest.mark.parametrize("tune", [True, "recommend"])
def test_blocks_of_a_feed_are_not_tuned(client: Any, tune: Any) -> None:
    samples = feed_samples(1)
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
    sender = sending(samples, listener.address, client)
    (found,), _, ran = collect_reported((loudest(iso.scan(listener)),), RunOptions.of(on=client, tune=tune))
    sender.join()
    np.testing.assert_array_equal(found, expected_loudest(samples))
    assert sum(worker.tasks for worker in ran.report.workers) > 0
    tuning = ran.report.tuning
    assert tuning is not None
    assert tuning.configuration is None
    # What slots took says nothing of this machine.
    assert all(advice.gain is None for advice in tuning.advice)


def test_the_command_line_saves_and_replays(plan: iso.Plan, client: Any, tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "plan.json").write_text(plan.to_json())
    saved = tmp_path / "cluster.json"
    command = ["run", str(tmp_path / "plan.json"), "--on", client.scheduler.address]
    assert main([*command, "--tune", "recommend", "--save-configuration", str(saved)]) == 0
    assert Configuration.load(saved).machine.startswith("a cluster of ")
    assert main([*command, "--tune", str(saved)]) == 0
    assert main(["run", str(tmp_path / "plan.json"), "--tune", str(saved)]) == 2
    assert "was made on another machine" in capfd.readouterr().err
    # The command's own client lives as long as its process.
    _CLIENTS.pop(client.scheduler.address).close()


class RecordedCluster:
    """A cluster that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def scale(self, workers: int) -> None:
        self.asked.append(workers)


def test_a_cluster_is_not_asked_for_slots_that_are_of_no_use() -> None:
    cluster = RecordedCluster()
    scaling = Scaling(cluster, 1, 8)
    workers = {"a": 2, "b": 2}
    scaling.set_demand(1000, 1e6)
    scaling.look(workers)
    assert cluster.asked == [8]
    scaling.set_demand(1000, 1e6, 5)
    assert scaling._wanted(workers) == 3
    # Half of the slots: the worker that joined last leaves, after some looks.
    scaling.set_demand(1000, 1e6, 2)
    assert [scaling.look(workers) for _ in range(3)] == [[], [], ["b"]]
    # The fewest that the user allows.
    scaling.least = 2
    assert scaling._wanted(workers) == 2


@pytest.fixture
def travel_s() -> list[float]:
    """How long messages travel, in seconds."""
    return [0.02]


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch, travel_s: list[float]) -> Counter[str]:
    """Counts messages from each worker."""
    send, receive = slots.Slot.send, slots.Slot.receive
    sent: dict[int, list[float]] = {}
    received: Counter[str] = Counter()

    def sending(slot: Any, batch: bytes) -> None:
        sent.setdefault(id(slot), []).append(time.monotonic())
        send(slot, batch)

    def receiving(slot: Any) -> Any:
        results = receive(slot)
        time.sleep(max(0.0, sent[id(slot)].pop(0) + travel_s[0] - time.monotonic()))
        received[slot.name] += 1
        return results

    monkeypatch.setattr(slots.Slot, "send", sending)
    monkeypatch.setattr(slots.Slot, "receive", receiving)
    return received


def with_single_tasks(client: Any, workers: int, slots: int) -> RunOptions:
    """A task a message: 100 tasks in a second for each slot, of thousands."""
    options = RunOptions.of(on=client)
    options.settings["task"] = 16 << 10
    start = Configuration(workers=workers, replicas=(slots,), batch_tasks=1)
    return replace(options, request=TuningRequest("change", configuration=start, status=status_path()))


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What `isochrony top` shows meanwhile."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    shown: list[str] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.2):
            shown.extend(map(describe, running_plans()))

    thread = threading.Thread(target=look)
    thread.start()
    yield shown
    ended.set()
    thread.join()


@pytest.mark.alone
@pytest.mark.usefixtures("received")
def test_a_bad_start_is_improved(plan: iso.Plan, watch: list[str], travel_s: list[float]) -> None:
    # So long that what follows the decision is seen, too.
    travel_s[0] = 0.08
    with local_cluster(2) as client:
        begun = time.monotonic()
        report = run_reported((plan,), with_single_tasks(client, 1, 2)).report
        elapsed = time.monotonic() - begun
    tuning = report.tuning
    assert tuning is not None
    check_decisions(report)
    kept = [decision for decision in tuning.decisions if decision.outcome == "kept"]
    # After a change at once there is no bound.
    bounds = [decision.gain.low for decision in kept if decision.gain is not None and decision.gain.low is not None]
    assert bounds
    assert min(bounds) > 0
    assert any(one.candidate.workers > one.before.workers for one in kept), str(report)
    # 0: each slot decides, which is more than one of these small tasks.
    carries_more = (
        one.candidate.batch_tasks > one.before.batch_tasks
        or (one.candidate.batch_tasks == 0 and one.before.batch_tasks == 1)
        or one.candidate.task_bytes > one.before.task_bytes
        for one in kept
    )
    assert any(carries_more), str(report)
    # As it began it would have taken two minutes.
    assert elapsed < 20, str(report)
    assert any("of 2 slots" in text for text in watch)
    assert any("decision at" in text for text in watch)


def test_a_worker_that_dies_while_a_run_is_tuned_changes_no_bits(plan: iso.Plan, received: Counter[str]) -> None:
    expected = plan.collect(workers=1)
    with local_cluster(3) as client:
        address, pid = next(iter(client.run(os.getpid).items()))

        def kill() -> None:
            until(lambda: received[address] > 30)
            os.kill(pid, signals.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        (found,), _, ran = collect_reported((plan,), with_single_tasks(client, 3, 3))
        killer.join()
    np.testing.assert_array_equal(found, expected)
    assert any(worker.lost for worker in ran.report.workers)
    tuning = ran.report.tuning
    assert tuning is not None
    assert tuning.windows > 3
    check_decisions(ran.report)
