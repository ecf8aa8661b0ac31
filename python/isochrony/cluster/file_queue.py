"""The client's queue of tasks that read files: which worker gets which, and what caches hold."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from .._native import NativeDispatcher
from .file_report import HostReport
from .file_tasks import MAX_LOSSES, FileTask, QueuedWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from .input_files import InputFile
    from .peers import Address

#: Seconds that a batch shall take.
BATCH_S = 0.02
#: Batches of a slot that are under way at a time.
PIPELINE = 2
#: Tasks of a batch at most, and tasks of a worker after which its batches may become longer or shorter, by what factor.
_MAX_BATCH, _MEASURED_TASKS, _RESIZE_FACTOR = 64, 16, 4
#: Decisions that are taken at a time.
_DECISIONS = 512
#: Seconds for which the first workers wait for the others.
_JOIN_S = 3.0
#: Weight of the last batch in the moving mean of what tasks take.
_MEAN_WEIGHT = 0.3


class FileQueue:
    """Thread-safe wrapper around the dispatcher: one lock, and a condition that is signalled when something changed.

    Parameters:
        policy: of the dispatcher.
        window: tasks that it chooses from.
        batch: tasks of a batch; None: by how long they take.
        max_wait: seconds that a task may be passed over.
        max_replicas: copies of a file from which items go to no worker without any of their bytes.
    """

    def __init__(self, policy: str, window: int, batch: int | None, max_wait: float, max_replicas: int) -> None:
        self._dispatcher = NativeDispatcher(policy, window, max_wait, max_replicas)
        self._names_holders = policy != "first-available"
        self._batch = batch
        self._changed = threading.Condition()
        self._tasks: dict[int, FileTask] = {}
        self._workers: dict[str, QueuedWorker] = {}
        self._hosts: dict[int, QueuedWorker] = {}
        #: The task and the worker that were chosen to fetch an object from storage, until the object is reported.
        self._fetching: dict[str, tuple[FileTask, QueuedWorker]] = {}
        #: Those of these objects for which other workers were told so.
        self._named_fetches: set[str] = set()
        self._expected = 1
        #: When the first worker joined; tasks are placed after `_JOIN_S` at the latest.
        self._joined: float | None = None
        self._handovers: deque[tuple[FileTask, QueuedWorker]] = deque()
        self._start = time.monotonic()
        #: Of all workers, also of those that are gone.
        self.reports: dict[str, HostReport] = {}
        self.is_closed = False

    def close(self) -> None:
        """Nobody gets anything any more."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Has slots that wait for tasks look whether they are to leave."""
        with self._changed:
            self._changed.notify_all()

    def expect(self, workers: int) -> None:
        """How many workers shall have said what their caches hold before tasks are placed. Those that do not within
        `_JOIN_S` of the first one are not waited for.
        """
        with self._changed:
            self._expected = workers

    def admit(self, tasks: Sequence[FileTask]) -> None:
        """Adds tasks."""
        with self._changed:
            for task in tasks:
                for one in task.inputs:
                    if one.form is None:
                        self._dispatcher.set_bytes(one.name, one.key.bytes)
            numbers = self._dispatcher.admit([[one.name for one in task.inputs] for task in tasks], self._now())
            for number, task in zip(numbers, tasks, strict=True):
                task.number = number
                self._tasks[number] = task
            self._decide()

    def join(self, name: str, address: Address, cache: str, threads: int, report: Any) -> QueuedWorker:
        """A slot of a worker is ready; the worker."""
        with self._changed:
            worker = self._workers.get(name)
            if worker is None:
                worker = QueuedWorker(name, address, cache, threads, self._batch or 1)
                worker.report = self.reports.setdefault(name, HostReport())
                self._workers[name] = worker
                self._add_host(worker, report)
                if self._joined is None:
                    self._joined = self._now()
                self._decide()
            return worker

    def take(
        self, worker: QueuedWorker, wait_s: float, is_leaving: Callable[[], bool] = lambda: False
    ) -> tuple[list[FileTask], bool] | None:
        """A batch for a slot of a worker, and whether all that its cache holds is to be reported; None: nothing within
        so many seconds, or the slot is to leave.
        """
        until = time.monotonic() + wait_s
        with self._changed:
            while not self.is_closed:
                if self._workers.get(worker.name) is not worker:
                    return None
                if worker.next_batch is not None and not worker.running and not worker.is_asked:
                    worker.is_asked = True
                    return [], True
                if handover := self._next_handover(worker):
                    worker.running += 1
                    return [handover], False
                if not worker.queue:
                    self._decide()
                if worker.queue:
                    # A part for each slot.
                    most = min(worker.batch, -(-len(worker.queue) // worker.threads))
                    tasks = [worker.queue.popleft() for _ in range(most)]
                    worker.running += len(tasks)
                    needs_manifest, worker.needs_manifest = worker.needs_manifest, False
                    return tasks, needs_manifest
                now = time.monotonic()
                if now >= until or is_leaving():
                    return None
                deadline = self._dispatcher.next_deadline()
                wait = until - now if deadline is None else min(until - now, max(deadline - self._now(), 0.001))
                self._changed.wait(wait)
            return None

    def finish(self, worker: QueuedWorker, tasks: Sequence[FileTask], seconds: float, report: Any) -> list[FileTask]:
        """Tasks that a worker has done, in so many seconds each; those that were not done before."""
        with self._changed:
            if self._workers.get(worker.name) is not worker:
                # It counted as lost: its tasks are with others.
                return []
            worker.running -= len(tasks)
            new = [task for task in tasks if not task.is_done and task.worker is worker]
            for task in tasks:
                task.is_done = True
                self._stop_fetching(task)
            self._dispatcher.finish([task.number for task in new if task.number >= 0], self._now())
            for task in new:
                self._tasks.pop(task.number, None)
            if worker.next_batch is not None and report[1]:
                # If something runs yet, it is asked again.
                worker.is_asked = False
            # A host of the dispatcher that becomes another one has no tasks any more.
            if worker.next_batch is not None and report[1] and not worker.running:
                self._resize(worker, report)
            else:
                self._apply(worker, report)
            self._measure(worker, len(tasks), seconds)
            self._decide()
            self._changed.notify_all()
            return new

    def lose(self, worker: QueuedWorker, sent: Sequence[FileTask]) -> list[FileTask]:
        """A worker is gone, with what it held; its tasks wait again, but for those that were lost too often.

        Parameters:
            worker: that is gone.
            sent: what the slot had that noticed it.
        """
        with self._changed:
            for task in sent:
                # Handovers are not repeated.
                task.is_done = task.is_done or task.number < 0
            if self._workers.get(worker.name) is not worker:
                return []
            del self._workers[worker.name], self._hosts[worker.host]
            self._forget_fetcher(worker)
            waiting = set(worker.queue)
            failed = []
            for number in self._dispatcher.remove_host(worker.host, self._now()):
                task = self._tasks[number]
                task.worker = None
                if task not in waiting:
                    task.losses += 1
                    if task.losses >= MAX_LOSSES:
                        failed.append(task)
            for task in failed:
                task.is_done = True
            self._decide()
            self._changed.notify_all()
            return failed

    def drain(self, worker: QueuedWorker) -> None:
        """Gives a worker nothing more; what it was not sent, others get."""
        with self._changed:
            if worker.is_draining or self._workers.get(worker.name) is not worker:
                return
            worker.is_draining = True
            self._requeue(worker)
            self._decide()
            self._changed.notify_all()

    def leave(self, worker: QueuedWorker) -> None:
        """A worker that has nothing left to do is not asked any more."""
        with self._changed:
            if self._workers.get(worker.name) is worker and not worker.running:
                del self._workers[worker.name], self._hosts[worker.host]
                self._forget_fetcher(worker)
                self._dispatcher.remove_host(worker.host, self._now())
                self._changed.notify_all()

    def sole_objects(self, worker: QueuedWorker, objects: Sequence[InputFile]) -> list[InputFile]:
        """Those of some objects that no cache holds but that of a worker, as far as workers have it that stay."""
        with self._changed:
            # What one worker reports of a cache, others that share it have, too, and may not have reported yet.
            staying = {one.cache for one in self._workers.values() if one is not worker and not one.is_draining}
            if worker.cache in staying:
                return []
            found = []
            for one in objects:
                hosts = [self._hosts[host] for host in self._dispatcher.holders(one.name) if host in self._hosts]
                caches = {host.cache for host in hosts}
                if worker.cache in caches and not caches & staying:
                    found.append(one)
            return found

    def request_handover(self, source: QueuedWorker, objects: Sequence[FileTask]) -> None:
        """Has other workers fetch objects from one that is to leave."""
        with self._changed:
            self._handovers.extend((task, source) for task in objects)
            self._changed.notify_all()

    def wait_for_handover(self, tasks: Sequence[FileTask], until: float) -> None:
        """Waits until these are done, or there is nobody for them."""
        with self._changed:
            while not self.is_closed and not all(task.is_done for task in tasks):
                others = any(not worker.is_draining for worker in self._workers.values())
                if not others or (left := until - time.monotonic()) <= 0:
                    break
                self._changed.wait(min(left, 0.25))
            mine = set(tasks)
            self._handovers = deque(one for one in self._handovers if one[0] not in mine)

    def workers(self) -> list[QueuedWorker]:
        """Those that take part."""
        with self._changed:
            return list(self._workers.values())

    def counts(self) -> tuple[int, int, int]:
        """Tasks that wait, tasks that run, copies of objects."""
        with self._changed:
            self._decide()
            sent = sum(worker.running for worker in self._workers.values())
            waiting, running, copies = self._dispatcher.counts()
            return waiting + max(running - sent, 0), sent, copies

    def mean_s(self) -> float | None:
        """Seconds that a task takes, if that is known."""
        with self._changed:
            means = [worker.mean_s for worker in self._workers.values() if worker.mean_s is not None]
        return sum(means) / len(means) if means else None

    def _now(self) -> float:
        return time.monotonic() - self._start

    def _next_handover(self, worker: QueuedWorker) -> FileTask | None:
        if not self._handovers or worker.is_draining or self._handovers[0][1] is worker:
            return None
        task, source = self._handovers.popleft()
        task.worker = worker
        task.placed = [one.at((source.address,), None) for one in task.inputs]
        return task

    def _decide(self) -> None:
        """Places tasks on free slots."""
        if self._joined is None:
            return
        if self._expected:
            if len(self._workers) < self._expected and self._now() < self._joined + _JOIN_S:
                return
            self._expected = 0
        decisions = self._dispatcher.decide(_DECISIONS, self._now())
        for number, host, inputs in decisions:
            task, worker = self._tasks[number], self._hosts[host]
            if task.is_done:
                # It was lost too often; the dispatcher forgets what is done, not what waits.
                self._dispatcher.finish([number], self._now())
                del self._tasks[number]
                continue
            task.worker = worker
            places = {name: (is_local, sources) for name, _, is_local, sources in inputs}
            task.placed = [self._placed(task, one, *places[one.name]) for one in task.inputs]
            task.is_remote = not all(is_local for is_local, _ in places.values())
            worker.queue.append(task)
        if decisions:
            self._changed.notify_all()

    def _placed(self, task: FileTask, wanted: InputFile, is_local: bool, sources: Sequence[int]) -> InputFile:
        if is_local or not self._names_holders:
            return wanted
        assert task.worker is not None
        cache = task.worker.cache
        holders = [self._hosts[host] for host in sources if host in self._hosts]
        # Workers that share a cache never ask each other: each would wait for what the other one has reserved.
        if any(holder.cache == cache for holder in holders):
            return wanted
        if holders:
            return wanted.at(tuple(holder.address for holder in holders), None)
        # Nobody has it yet. Who was sent to fetch it first passes it on, so that storage is read once.
        _, first = self._fetching.setdefault(wanted.name, (task, task.worker))
        if first.cache == cache:
            return wanted
        self._named_fetches.add(wanted.name)
        return wanted.at((), first.address)

    def _apply(self, worker: QueuedWorker, report: Any) -> None:
        """Takes note of what changed in a worker's cache."""
        number, is_all, changes = report
        if is_all:
            self._dispatcher.apply_manifest(worker.host, number, changes[0][0])
        for added, removed in changes:
            if not is_all:
                if not self._dispatcher.apply_changes(worker.host, number, added, removed):
                    worker.needs_manifest = True
                    return
                number += 1
            for name, _ in added if self._fetching else ():
                self._forget_fetching(name)

    def _add_host(self, worker: QueuedWorker, report: Any) -> None:
        worker.host = self._dispatcher.add_host(worker.threads * worker.batch * PIPELINE, self._now())
        self._hosts[worker.host] = worker
        self._apply(worker, report)

    def _measure(self, worker: QueuedWorker, tasks: int, seconds: float) -> None:
        """Has batches become longer where tasks are short, and shorter where they are not."""
        if not tasks:
            return
        mean = seconds / tasks
        worker.mean_s = mean if worker.mean_s is None else worker.mean_s + _MEAN_WEIGHT * (mean - worker.mean_s)
        worker.measured += tasks
        if self._batch is not None or worker.measured < _MEASURED_TASKS or worker.next_batch is not None:
            return
        batch = min(max(int(BATCH_S / max(worker.mean_s, 1e-9)), 1), _MAX_BATCH)
        if batch >= _RESIZE_FACTOR * worker.batch or _RESIZE_FACTOR * batch <= worker.batch:
            worker.next_batch = batch
            self._requeue(worker)

    def _requeue(self, worker: QueuedWorker) -> None:
        """Gives a worker nothing more, and has its unsent tasks wait again."""
        self._dispatcher.set_draining(worker.host, True)
        while worker.queue:
            task = worker.queue.pop()
            task.worker = None
            self._stop_fetching(task, but=self._named_fetches)
            self._dispatcher.requeue(task.number, self._now())

    def _stop_fetching(self, task: FileTask, but: Collection[str] = ()) -> None:
        """A task does not fetch its objects any more; its worker fetches some yet, because others ask it to."""
        for one in task.inputs:
            if self._fetching.get(one.name, (None,))[0] is task and one.name not in but:
                self._forget_fetching(one.name)

    def _forget_fetcher(self, worker: QueuedWorker) -> None:
        self._fetching = {name: one for name, one in self._fetching.items() if one[1] is not worker}
        self._named_fetches &= self._fetching.keys()

    def _forget_fetching(self, name: str) -> None:
        self._fetching.pop(name, None)
        self._named_fetches.discard(name)

    def _resize(self, worker: QueuedWorker, report: Any) -> None:
        """Number of slots of a host of the dispatcher: it becomes another host."""
        assert worker.next_batch is not None
        del self._hosts[worker.host]
        self._dispatcher.remove_host(worker.host, self._now())
        worker.batch, worker.next_batch, worker.is_asked, worker.measured = worker.next_batch, None, False, 0
        self._add_host(worker, report)
        if worker.is_draining:
            self._dispatcher.set_draining(worker.host, True)
