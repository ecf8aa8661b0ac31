"""The client's queue of tasks that read files, against random histories of workers."""

from __future__ import annotations

import gc
import pickle
import random
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isochrony.cluster import worker as worker_module
from isochrony.cluster.file_calls import Handover
from isochrony.cluster.file_queue import FileQueue
from isochrony.cluster.file_tasks import MAX_LOSSES, FileTask, QueuedWorker
from isochrony.cluster.input_files import InputFile
from isochrony.cluster.storage import FileKey

POLICIES = ["good-cache-compute", "max-compute-util", "max-cache-hit", "first-cache-available", "first-available"]


def wanted(number: int, length: int = 1000) -> InputFile:
    return InputFile(FileKey(f"/data/{number}", "tag", 0, length))


class Host:
    """A worker of the model: a cache that reports what changed in it."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = ("10.0.0.1", number)
        self.held: dict[str, int] = {}
        self.changes: list[tuple[list[tuple[str, int]], list[str]]] = []
        self.since: int | None = None
        self.sent: list[list[FileTask]] = []
        self.worker: QueuedWorker | None = None
        self.asks = False

    def report(self, is_manifest: bool) -> Any:
        since = None if is_manifest else self.since
        self.since = len(self.changes)
        if since is None:
            return self.since, True, [(list(self.held.items()), [])]
        return since, False, self.changes[since:]

    def fetch(self, name: str) -> None:
        if name not in self.held:
            removed = [next(iter(self.held))] if len(self.held) >= 4 else []
            for other in removed:
                del self.held[other]
            self.held[name] = 1000
            self.changes.append(([(name, 1000)], removed))


@given(st.integers(0, 1 << 32), st.sampled_from(POLICIES), st.sampled_from([None, 1, 3]))
def test_each_task_is_done_once_whatever_happens(seed: int, policy: str, batch: int | None) -> None:
    """Workers that join, finish, are lost, drained and leave; reports that are lost; tasks short and long."""
    chance = random.Random(seed)
    queue = FileQueue(policy, 50, batch, 0.0, 2)
    hosts: list[Host] = []
    tasks: list[FileTask] = []
    done: list[FileTask] = []
    names = 0

    def join(name: str) -> Host:
        host = Host(name, names)
        hosts.append(host)
        host.worker = queue.join(name, host.address, name, chance.choice([1, 2]), host.report(True))
        return host

    def finish(host: Host) -> None:
        batch = host.sent.pop(0)
        for task in batch:
            for one in task.placed:
                # Others may have been lost since it was placed.
                assert host.address not in one.sources
                assert one.fetcher != host.address
                host.fetch(one.name)
        report = host.report(host.asks)
        if chance.random() < 0.1:
            # It says that it has changed, and what it was is lost.
            host.since = len(host.changes)
            report = (report[0] + 3, False, [([], [])])
        seconds = len(batch) * chance.choice([0.0001, 0.5])
        assert host.worker is not None
        done.extend(task for task in queue.finish(host.worker, batch, seconds, report) if task.index >= 0)

    def take(host: Host) -> None:
        assert host.worker is not None
        taken = queue.take(host.worker, 0.0)
        if taken is not None:
            host.sent.append(taken[0])
            host.asks = taken[1]

    def lose(host: Host) -> None:
        assert host.worker is not None
        done.extend(queue.lose(host.worker, [task for batch in host.sent for task in batch]))
        hosts.remove(host)

    for _ in range(chance.randrange(200)):
        step = chance.random()
        if step < 0.15 and len(tasks) < 100:
            new = [
                FileTask(len(tasks) + n, n, [wanted(chance.randrange(8)) for _ in range(chance.randrange(3))])
                for n in range(chance.randrange(1, 20))
            ]
            for task in new:
                task.inputs = list({one.name: one for one in task.inputs}.values())
            tasks += new
            queue.admit(new)
        elif step < 0.25 and len(hosts) < 5:
            names += 1
            join(f"w{names}")
        elif hosts:
            host = chance.choice(hosts)
            if step < 0.6 and len(host.sent) < 2:
                take(host)
            elif step < 0.92 and host.sent:
                finish(host)
            elif step < 0.95:
                lose(host)
            elif step < 0.96:
                # As if a worker were about to leave, which then stays.
                objects = [one for one in (wanted(n) for n in range(8)) if one.name in host.held][:2]
                queue.request_handover(host.worker, [FileTask(-1, Handover(), [one]) for one in objects])
            elif step < 0.98:
                queue.drain(host.worker)
                while host.sent:
                    finish(host)
                queue.leave(host.worker)
                hosts.remove(host)
    names += 1
    last = join("last")
    for _ in range(1000):
        if len(done) == len(tasks):
            break
        for host in list(hosts):
            if len(host.sent) < 2:
                take(host)
            if host.sent:
                finish(host)
    assert len(done) == len(tasks)
    assert {task.index for task in done} == set(range(len(tasks)))
    assert all(task.losses <= MAX_LOSSES for task in tasks)
    assert last.worker is not None
    waiting, running, _ = queue.counts()
    assert (waiting, running) == (0, sum(len(batch) for host in hosts for batch in host.sent))


def test_one_worker_fetches_and_the_others_are_told_of_it() -> None:
    queue = FileQueue("max-compute-util", 100, 1, 0.0, 4)
    queue.expect(2)
    a = queue.join("a", ("a", 1), "a", 1, (0, True, [([], [])]))
    queue.admit([FileTask(n, n, [wanted(0)]) for n in range(8)])
    assert queue.take(a, 0.0) is None, "another worker may have it"
    b = queue.join("b", ("b", 2), "b", 1, (0, True, [([], [])]))
    placed = {}
    for worker in (a, b, a, b):
        taken = queue.take(worker, 0.0)
        if taken is not None:
            placed.setdefault(worker.name, []).extend(one for task in taken[0] for one in task.placed)
    fetchers = {(name, one.fetcher) for name, ones in placed.items() for one in ones}
    first = next(name for name, fetcher in fetchers if fetcher is None)
    assert all(fetcher in (None, (first, 1 if first == "a" else 2)) for _, fetcher in fetchers)
    assert len({name for name, fetcher in fetchers if fetcher is None}) == 1


@pytest.mark.parametrize("is_held", [False, True])
def test_workers_that_share_a_cache_do_not_ask_each_other(is_held: bool) -> None:
    queue = FileQueue("max-compute-util", 100, 1, 0.0, 4)
    queue.expect(3)
    one = wanted(0)
    changes = [([(one.name, 1000)] if is_held else [], [])]
    workers = [
        queue.join("a", ("h", 1), "h:/cache", 1, (0, True, changes)),
        # It has not reported what the other one fetched.
        queue.join("b", ("h", 2), "h:/cache", 1, (0, True, [([], [])])),
        queue.join("c", ("i", 3), "i:/cache", 1, (0, True, [([], [])])),
    ]
    queue.admit([FileTask(n, n, [one]) for n in range(12)])
    asked = {}
    for worker in workers:
        while taken := queue.take(worker, 0.0):
            places = [place for task in taken[0] for place in task.placed]
            asked.setdefault(worker.name, set()).update(
                address for place in places for address in (*place.sources, *filter(None, [place.fetcher]))
            )
    assert asked.keys() == {"a", "b", "c"}
    assert not (asked["a"] | asked["b"]) & {("h", 1), ("h", 2)}
    assert asked["c"] <= {("h", 1), ("h", 2)}
    assert len(asked["a"] | asked["b"] | asked["c"]) == 1


def test_hot_objects_of_one_worker_are_handed_over() -> None:
    queue = FileQueue("good-cache-compute", 100, 1, 0.0, 4)
    hot = [wanted(n) for n in range(3)]
    a = queue.join("a", ("a", 1), "a", 1, (0, True, [([(one.name, 1000) for one in hot], [])]))
    b = queue.join("b", ("b", 2), "b", 1, (0, True, [([(hot[0].name, 1000)], [])]))
    assert queue.sole_objects(a, hot) == hot[1:]
    assert queue.sole_objects(b, hot) == []
    queue.drain(a)
    handovers = [FileTask(-1, Handover(), [one]) for one in queue.sole_objects(a, hot)]
    queue.request_handover(a, handovers)
    assert queue.take(a, 0.0) is None
    for number in range(2):
        taken = queue.take(b, 0.0)
        assert taken is not None and taken[0][0].placed[0].sources == (("a", 1),)
        queue.finish(b, taken[0], 0.1, (number, False, [([(hot[number + 1].name, 1000)], [])]))
    queue.wait_for_handover(handovers, 0.0)
    assert all(task.is_done for task in handovers)
    assert queue.sole_objects(a, hot) == []
    queue.leave(a)
    assert [worker.name for worker in queue.workers()] == ["b"]
    assert queue.sole_objects(b, hot) == hot


def test_what_workers_of_one_cache_hold_is_not_handed_over_while_one_of_them_stays() -> None:
    queue = FileQueue("good-cache-compute", 100, 1, 0.0, 4)
    hot = [wanted(n) for n in range(2)]
    a = queue.join("a", ("h", 1), "h:/cache", 1, (0, True, [([(one.name, 1000) for one in hot], [])]))
    # It has not reported what the other one fetched.
    b = queue.join("b", ("h", 2), "h:/cache", 1, (0, True, [([], [])]))
    c = queue.join("c", ("i", 3), "i:/cache", 1, (0, True, [([(hot[0].name, 1000)], [])]))
    assert queue.sole_objects(a, hot) == []
    queue.drain(b)
    assert queue.sole_objects(a, hot) == hot[1:]
    assert queue.sole_objects(b, hot) == [], "a worker of its cache stays"
    queue.drain(a)
    assert queue.sole_objects(b, hot) == hot[1:], "it is as good a source"
    queue.drain(c)
    assert queue.sole_objects(a, hot) == hot


def test_functions_of_files_stay_prepared_as_long_as_a_slot_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Calls:
        def __init__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("isochrony.cluster.file_calls.FileCalls", Calls)
    payload = pickle.dumps((worker_module.FILES, "run"))
    key = b"functions of files"
    assert worker_module._prepared(key, None) is None
    calls = worker_module._prepared(key, payload)
    assert isinstance(calls, Calls) and worker_module._prepared(key, None) is calls
    assert key not in worker_module._PREPARED
    del calls
    gc.collect()
    assert worker_module._prepared(key, None) is None


def test_an_idle_slot_leaves_when_it_is_told_to() -> None:
    queue = FileQueue("good-cache-compute", 100, 1, 0.0, 4)
    a = queue.join("a", ("a", 1), "a", 1, (0, True, [([], [])]))
    leaves = threading.Event()
    taken: list[Any] = []
    slot = threading.Thread(target=lambda: taken.append(queue.take(a, 60.0, leaves.is_set)))
    slot.start()
    leaves.set()
    queue.wake()
    slot.join(5)
    assert taken == [None]


def test_a_handover_beside_the_question_for_a_manifest_does_not_stop_a_worker() -> None:
    queue = FileQueue("max-compute-util", 100, None, 0.0, 2)
    a = queue.join("a", ("a", 1), "a", 2, (0, True, [([], [])]))
    tasks = [FileTask(n, n, []) for n in range(200)]
    queue.admit(tasks)
    done = 0
    question = None
    # Short tasks make batches larger, before which the worker is asked what it holds.
    while question is None:
        taken = queue.take(a, 0.0)
        assert taken is not None
        if not taken[0]:
            question = taken[0]
        else:
            done += len(queue.finish(a, taken[0], 1e-5, (0, False, [])))
    b = queue.join("b", ("b", 2), "b", 1, (0, True, [([], [])]))
    handover = FileTask(-1, Handover(), [wanted(0)])
    queue.request_handover(b, [handover])
    queue.drain(b)
    taken = queue.take(a, 0.0)
    assert taken == ([handover], False)
    queue.finish(a, question, 0.0, (0, True, [([], [])]))
    queue.finish(a, taken[0], 0.1, (0, False, []))
    for _ in range(200):
        taken = queue.take(a, 0.0)
        assert taken is not None, "it is asked again, and goes on"
        done += len(queue.finish(a, taken[0], 1e-5, (0, taken[1], [([], [])] if taken[1] else [])))
        if done == len(tasks):
            return
    raise AssertionError("tasks are left")


def test_a_worker_that_was_named_as_fetcher_remains_it() -> None:
    """Its task goes back to the queue, but others were told to ask it: a third worker is told so, too."""
    queue = FileQueue("max-compute-util", 100, 1, 0.0, 4)
    queue.expect(2)
    a = queue.join("a", ("a", 1), "a", 1, (0, True, [([], [])]))
    b = queue.join("b", ("b", 2), "b", 1, (0, True, [([], [])]))
    queue.admit([FileTask(n, n, [wanted(0)]) for n in range(6)])
    # One of them fetches, and the other one was told so.
    first, other = (a, b) if any(one.fetcher is None for task in a.queue for one in task.placed) else (b, a)
    assert all(one.fetcher == first.address for task in other.queue for one in task.placed)
    queue.drain(first)
    c = queue.join("c", ("c", 3), "c", 1, (0, True, [([], [])]))
    placed = [one for worker in (other, c) for task in worker.queue for one in task.placed]
    assert placed and all(one.fetcher == first.address for one in placed)
