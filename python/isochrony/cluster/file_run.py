"""A run over files: threads of the client that send batches to slots, and the window of tasks that were admitted."""

from __future__ import annotations

import pickle
import secrets
import threading
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

from ..errors.native import RunError
from ..running.options import RunOptions
from .client import ClusterRun, pickled
from .exceptions import unpickled_exception
from .file_calls import Handover
from .file_queue import PIPELINE, FileQueue
from .file_report import HostReport, MapReport
from .file_tasks import FileTask, QueuedWorker, lost_error
from .prefetch import IS_LOCAL, IS_REMOTE
from .worker import FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .input_files import InputFile
    from .slot import Slot
    from .storage import FileKey

#: Seconds for which a new slot is waited for before it is looked whether the run has ended.
_SLOT_S = 0.1
#: Seconds for which a slot waits for tasks; what ends that wait before, wakes it.
_TAKE_S = 10.0
#: Seconds between looks at how much is left to do.
_DEMAND_S = 0.5
#: Files that count as hot: the last ones that tasks read. Seconds within which they are handed over.
_HOT_FILES = 4096
_HANDOVER_S = 60.0


class FileRun:
    """Tasks on the slots of a cluster.

    Parameters:
        client: connected to the cluster.
        attachment: name of its caches.
        function: of each task.
        form: name and maker of the form of files that is cached.
        queue: of tasks.
        policy: that places them, for the report.
        scale: least and most workers.
        done: called with a task, its value or exception, and the outputs it wrote.
    """

    def __init__(
        self,
        client: Any,
        attachment: str,
        function: Callable[..., object],
        form: tuple[str, Callable[[Path, Path], object]] | None,
        queue: FileQueue,
        policy: str,
        scale: tuple[int, int] | None,
        done: Callable[[FileTask, object, BaseException | None, list[tuple[FileKey, str | None]]], None],
    ) -> None:
        payload = pickled((FILES, secrets.token_hex(8), attachment, function, form))
        options = RunOptions.of(on=client, scale=scale) if scale else RunOptions.of(on=client)
        self._queue = queue
        self._policy = policy
        self._done = done
        self._start = time.monotonic()
        self._stop_time: float | None = None
        self._failed = 0
        self._lock = threading.Lock()
        #: Files that tasks read last.
        self._hot: OrderedDict[str, InputFile] = OrderedDict()
        self.error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._run = ClusterRun(client, payload, options)
        self._run.retire_order = self._retire_order
        try:
            self._run.slot_counts()
            queue.expect(self._run.worker_count())
        except BaseException:
            self._run.close()
            raise
        self._acceptor = threading.Thread(target=self._accept, name="isochrony-map", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """Ends it, and gives the slots back."""
        self._stop_time = self._stop_time or time.monotonic()
        self._queue.close()
        self._run.stop()
        self._acceptor.join()
        for thread in self._threads:
            thread.join()
        self._run.close()

    def report(self) -> MapReport:
        """What it did so far."""
        waiting, running, _ = self._queue.counts()
        hosts = dict(self._queue.reports)
        tasks = sum(host.tasks for host in hosts.values())
        seconds = (self._stop_time or time.monotonic()) - self._start
        return MapReport(self._policy, tasks, self._failed, seconds, waiting, running, hosts, self._run.notes())

    def _accept(self) -> None:
        """Starts a thread for each slot that is ready."""
        looked = 0.0
        try:
            while not self._run.is_stopped():
                waiting, running, _ = self._queue.counts()
                slot = self._run.next_slot(_SLOT_S, waiting + running > 0)
                if slot is not None:
                    thread = threading.Thread(target=self._serve, args=(slot,), name="isochrony-slot", daemon=True)
                    self._threads.append(thread)
                    thread.start()
                if time.monotonic() - looked > _DEMAND_S:
                    looked = time.monotonic()
                    mean = self._queue.mean_s()
                    self._run.set_demand(waiting + running, None if mean is None else mean * (waiting + running))
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self.error is None and not self._queue.is_closed:
                self.error = error
        self._queue.close()
        self._done_nothing()

    def _done_nothing(self) -> None:
        """Wakes who waits for results."""
        self._done(FileTask(-1, None, []), None, None, [])

    def _serve(self, slot: Slot) -> None:
        """Sends batches to a slot, and receives results, until it leaves or the run ends."""
        sent: deque[list[FileTask]] = deque()
        worker: QueuedWorker | None = None
        slot.on_drain = self._queue.wake
        try:
            while True:
                if worker is None:
                    slot.send(_batch([], True, 0))
                    if (answer := slot.receive()) in (True, False):
                        return
                    assert isinstance(answer, bytes)
                    _, report, (address, cache, threads), _ = pickle.loads(answer)
                    worker = self._queue.join(slot.name, address, cache, threads, report)
                if slot.is_draining():
                    self._queue.drain(worker)
                batch = None
                if len(sent) < PIPELINE:
                    batch = self._queue.take(worker, 0.0 if sent else _TAKE_S, slot.is_draining)
                if batch is not None:
                    tasks, needs_manifest = batch
                    slot.send(_batch(tasks, needs_manifest, self._queue.counts()[0]))
                    sent.append(tasks)
                    if len(sent) < PIPELINE:
                        continue
                if not sent:
                    if self._queue.is_closed:
                        return
                    if slot.is_draining():
                        self._leave(slot, worker)
                        return
                    if worker not in self._queue.workers():
                        # Another slot of its process was lost.
                        worker = None
                    continue
                answer = slot.receive()
                if answer is False:
                    return
                if answer is True:
                    for task in self._queue.lose(worker, [task for tasks in sent for task in tasks]):
                        with self._lock:
                            self._failed += 1
                            worker.report.tasks += 1
                        self._done(task, None, lost_error(task, worker.name), [])
                    return
                assert isinstance(answer, bytes)
                self._received(worker, sent.popleft(), answer)
        except Exception as error:
            self._fail(error)

    def _received(self, worker: QueuedWorker, tasks: list[FileTask], answer: bytes) -> None:
        results, report, _, came = pickle.loads(answer)
        seconds = sum(result[5] for result in results)
        new = set(self._queue.finish(worker, tasks, seconds, report))
        host = worker.report
        for task, (_, error, value, written, origins, took) in zip(tasks, results, strict=True):
            if task not in new or task.index < 0:
                continue
            raised, result = _outcome(task, error, value)
            with self._lock:
                _count(host, origins, took, came)
                self._failed += raised is not None
                for one in task.inputs:
                    self._hot[one.name] = one
                    self._hot.move_to_end(one.name)
                while len(self._hot) > _HOT_FILES:
                    self._hot.popitem(last=False)
            self._done(task, result, raised, written)

    def _leave(self, slot: Slot, worker: QueuedWorker) -> None:
        """Hands over what only this worker holds, then gives the slot back."""
        with self._lock:
            hot = list(self._hot.values())
        tasks = [FileTask(-1, Handover(), [one]) for one in self._queue.sole_objects(worker, hot)]
        if tasks:
            self._queue.request_handover(worker, tasks)
            self._queue.wait_for_handover(tasks, time.monotonic() + _HANDOVER_S)
        self._queue.leave(worker)
        slot.leave()

    def _retire_order(self, workers: Sequence[str]) -> list[str]:
        """Workers, with those last that could be retired first: who alone holds most hot bytes stays longest."""
        with self._lock:
            hot = list(self._hot.values())
        held = {
            worker.name: sum(one.key.bytes for one in self._queue.sole_objects(worker, hot))
            for worker in self._queue.workers()
        }
        return sorted(workers, key=lambda name: -held.get(name, 0))


def _outcome(task: FileTask, error: bytes | None, value: bytes) -> tuple[BaseException | None, Any]:
    """What a task raised, and what it returned."""
    if error is not None:
        return unpickled_exception(error), None
    try:
        return None, pickle.loads(value)
    except Exception as why:
        return RunError(
            f"what item {task.index} ({str(task.item)[:80]!r}) returned cannot be read here ({type(why).__name__}: "
            f"{why}); install its module on the client, too, or return plain values"
        ), None


def _batch(tasks: Sequence[FileTask], needs_manifest: bool, waiting: int) -> bytes:
    # The first byte says whether there is something to fetch before the batch's turn comes.
    first = IS_REMOTE if any(task.is_remote for task in tasks) else IS_LOCAL
    return first + pickled(
        ([(task.number, task.item, task.placed, task.outputs) for task in tasks], needs_manifest, waiting)
    )


def _count(host: HostReport, origins: list[tuple[str, int]], seconds: float, came: dict[str, int]) -> None:
    host.tasks += 1
    host.seconds += seconds
    for origin, _ in origins:
        setattr(host, origin, getattr(host, origin) + 1)
    # Answers of several slots may overtake each other.
    host.peer_bytes = max(host.peer_bytes, came.get("peer", 0))
    host.storage_bytes = max(host.storage_bytes, came.get("storage", 0))
    host.fetched = max(host.fetched, came.get("fetched", 0))
