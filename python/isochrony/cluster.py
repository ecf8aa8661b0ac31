"""Plans on a Dask cluster: ``plan.collect(on=client)``. All that Isochrony knows of Dask is in this file.

A worker of the cluster has a *slot* for each of its threads. A slot is an actor: an object that lives in the worker for
the run, and whose calls do not go through Dask's scheduler. A call takes a batch of tasks and returns their results; it
runs in a thread of its own, so that the worker's heartbeats go on. All slots of a worker process share the plan that
was prepared there, and its open stores.

    client                                    worker process
    ClusterRun: which slots there are         Slots: plans by their hash, prepared once
    Slot.call(batch)  == actor call ========> SlotActor.run(batch): in its thread

A slot whose worker is gone is given up, and its tasks are done by others. While there is none the run waits for workers
that join, but no longer than `PATIENCE_S`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import queue
import socket
import threading
import time
import traceback
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from . import __version__
from .native_errors import OptionError, PlanError, RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._native import NativePlan, NativeTasks
    from .run_options import RunOptions

__all__ = ["ClusterRun", "SlotActor", "checked_client", "pickled_exception", "unpickled_exception"]

#: Seconds for which a run without any slot waits for a worker.
PATIENCE_S = 60.0
#: Seconds between two looks for workers that joined.
_LOOK_EVERY_S = 0.5
#: Seconds within which a slot that is stopped answers.
_STOP_S = 1.0
#: A waiting call looks so often whether the run has ended.
_WAIT_S = 0.25
#: Plans that a worker keeps prepared.
_KEPT_PLANS = 4


def checked_client(name: str, client: Any) -> Any:
    """A `distributed.Client`, or a cluster that has one.

    Raises:
        OptionError: it is something else, or Dask is not installed.
    """
    if client is None:
        return None
    try:
        import distributed
    except ImportError as error:
        raise OptionError(
            f'{name}={client!r} needs Dask, which is not installed ({error}): pip install "isochrony[cluster]"'
        ) from error
    if isinstance(client, distributed.deploy.Cluster):
        client = distributed.Client(client, set_as_default=False)
    if not isinstance(client, distributed.Client):
        raise OptionError(f"{name}={client!r} is refused; give a distributed.Client, or a cluster such as LocalCluster()")
    if client.asynchronous:
        raise OptionError(f"{name} is an asynchronous client; give one made with asynchronous=False")
    if client.status != "running":
        raise OptionError(f"{name} is a client that is {client.status}; connect a new one")
    return client


class ClusterRun:
    """The slots of one run, for the scheduler.

    Parameters:
        client: connected to the cluster.
        plans: that are run.
        collects: whether their results are gathered.
        options: of the run.
    """

    def __init__(self, client: Any, plans: Sequence[NativePlan], collects: bool, options: RunOptions) -> None:
        import distributed

        # Batches go straight to workers, not by way of Dask's scheduler.
        self._client = distributed.Client(
            client.scheduler.address,
            security=client.security,
            direct_to_workers=True,
            set_as_default=False,
            name="isochrony",
        )
        self._payload = _payload(plans, collects, options)
        self._ready: queue.SimpleQueue[Slot | Exception] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        #: Slots by worker and thread, lost ones too.
        self._slots: dict[tuple[str, int], Slot | None] = {}
        self._alone_since = time.monotonic()
        self._looker = threading.Thread(target=self._look, name="isochrony-workers", daemon=True)

    def slot_count(self) -> int:
        """Slots that the workers of now have; begins to look for them."""
        workers = self._workers()
        self._looker.start()
        return sum(workers.values())

    def next_slot(self, wait_s: float) -> Slot | None:
        """A slot that is ready, if there is one within so many seconds.

        Raises:
            RunError: a worker cannot take part, or there is none for `PATIENCE_S`.
        """
        try:
            slot = self._ready.get(timeout=wait_s)
        except queue.Empty:
            self._check_patience()
            return None
        if isinstance(slot, Exception):
            raise slot
        return slot

    def stop(self) -> None:
        """Ends all calls."""
        self._stopped.set()

    def close(self) -> None:
        """Ends what slots do, and gives them back."""
        self.stop()
        if self._looker.ident is not None:
            self._looker.join()
        with self._lock:
            slots = [slot for slot in self._slots.values() if slot is not None]
            self._slots.clear()
        for slot in slots:
            slot.close()
        self._client.close()

    def __enter__(self) -> ClusterRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _workers(self) -> dict[str, int]:
        """Threads of each worker, by its address."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address: int(worker["nthreads"]) for address, worker in workers.items()}

    def _look(self) -> None:
        """Makes slots on workers that joined, until the run ends."""
        try:
            while not self._stopped.is_set():
                workers = self._workers()
                with self._lock:
                    # A worker that comes back has another address.
                    new = [(w, n) for w, threads in workers.items() for n in range(threads) if (w, n) not in self._slots]
                    self._slots.update(dict.fromkeys(new))
                for key in new:
                    threading.Thread(target=self._begin, args=key, name="isochrony-slot", daemon=True).start()
                self._stopped.wait(_LOOK_EVERY_S)
        except Exception as error:
            if not self._stopped.is_set():
                self._ready.put(_gone(self._client, error))

    def _begin(self, worker: str, number: int) -> None:
        try:
            future = self._client.submit(
                SlotActor, self._payload, number, __version__, workers=[worker], actor=True, pure=False
            )
            while not self._stopped.is_set():
                try:
                    # An actor belongs to the client that is the current one when it arrives.
                    with self._client.as_current():
                        actor = future.result(timeout=_WAIT_S)
                except TimeoutError:
                    continue
                slot = Slot(worker, actor, future, self._stopped, self._lost)
                with self._lock:
                    self._slots[worker, number] = slot
                self._ready.put(slot)
                return
            future.release()
        except Exception as error:
            if self._stopped.is_set():
                return
            if worker in self._workers():
                self._ready.put(_refused(worker, error))

    def _lost(self, slot: Slot) -> None:
        with self._lock:
            for key, one in self._slots.items():
                if one is slot:
                    self._slots[key] = None
            if not any(self._slots.values()):
                self._alone_since = time.monotonic()

    def _check_patience(self) -> None:
        with self._lock:
            waited = time.monotonic() - self._alone_since
            if any(self._slots.values()) or waited < PATIENCE_S:
                return
            known = len({worker for worker, _ in self._slots})
        raise RunError(
            f"no worker of the cluster {self._client.scheduler.address} took part for {waited:.0f} s ({known} were lost or "
            "did not start); start workers, and look at their logs"
        )


class Slot:
    """A thread of a worker, as its client sees it.

    Attributes:
        name: address of the worker.
    """

    def __init__(
        self, worker: str, actor: Any, future: Any, stopped: threading.Event, lost: Callable[[Slot], None]
    ) -> None:
        self.name = worker
        self._actor = actor
        self._future = future
        self._stopped = stopped
        self._lost = lost
        self._is_busy = False

    def call(self, batch: bytes) -> bytes | bool:
        """Results of a batch of tasks; True: the worker is gone; False: the run has ended.

        Raises:
            RunError: the worker cannot do them.
        """
        self._is_busy = True
        try:
            # Raises where Dask knows already that the worker is gone.
            answer = self._actor.run(batch)
            while not self._stopped.is_set():
                try:
                    results = bytes(answer.result(timeout=_WAIT_S))
                    self._is_busy = False
                    return results
                except TimeoutError:
                    if self._future.status not in ("finished", "pending"):
                        raise OSError(f"the actor is {self._future.status}") from None
        except RunError as error:
            if self._stopped.is_set():
                return False
            raise _refused(self.name, error) from error
        except Exception as error:
            if self._stopped.is_set():
                return False
            if isinstance(error, OSError | RuntimeError | ValueError):
                self._lost(self)
                return True
            raise _refused(self.name, error) from error
        return False

    def close(self) -> None:
        """Ends what it does; its worker may be gone."""
        if self._is_busy:
            with contextlib.suppress(Exception):
                self._actor.stop().result(timeout=_STOP_S)
        self._future.release()


class SlotActor:
    """A slot, in its worker.

    Parameters:
        payload: plans and options, pickled.
        number: of the slot among those of its worker.
        version: of Isochrony on the client.
    """

    def __init__(self, payload: bytes, number: int, version: str) -> None:
        from concurrent.futures import ThreadPoolExecutor

        if version != __version__:
            raise RunError(
                f"the client has Isochrony {version} and {socket.gethostname()} has {__version__}; install the same version "
                "on all hosts"
            )
        self._tasks = _prepared(payload)
        self._runner = self._tasks.runner(number)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="isochrony-slot")

    async def run(self, batch: bytes) -> bytes:
        """Results of a batch of tasks."""
        import asyncio

        # The loop is free meanwhile: heartbeats, other calls and `stop` go on.
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._runner.run, batch)

    async def stop(self) -> None:
        """Ends what it does."""
        self._runner.stop()


_PREPARED: OrderedDict[bytes, NativeTasks] = OrderedDict()
_PREPARING = threading.Lock()


def _prepared(payload: bytes) -> NativeTasks:
    """The plans of a payload, prepared once in a process."""
    from ._native import NativePlan, NativeTasks

    key = hashlib.sha256(payload).digest()
    with _PREPARING:
        tasks = _PREPARED.get(key)
        if tasks is None:
            try:
                sent, collects, settings = pickle.loads(payload)
                plans = [NativePlan.received(text, objects) for text, objects in sent]
            except ModuleNotFoundError as error:
                raise RunError(
                    f"a function of the plan needs the module {error.name!r}, which {socket.gethostname()} does not have; "
                    "install it there"
                ) from error
            tasks = NativeTasks(plans, collects, _Settings(settings), os.cpu_count() or 1)
            _PREPARED[key] = tasks
            while len(_PREPARED) > _KEPT_PLANS:
                _PREPARED.popitem(last=False)
        _PREPARED.move_to_end(key)
        return tasks


class _Settings:
    """Options of a run, in a worker."""

    control = None
    cluster = None

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings


def _payload(plans: Sequence[NativePlan], collects: bool, options: RunOptions) -> bytes:
    """Plans and options for workers.

    Raises:
        PlanError: a plan reads what is in this process only, or a function cannot be pickled.
    """
    import cloudpickle

    if options.control is not None:
        raise PlanError("control= is refused with on=; parameters of what other hosts compute cannot change while they do")
    sent = [plan.sent(for_tasks=True) for plan in plans]
    try:
        return bytes(cloudpickle.dumps((sent, collects, options.settings)))
    except Exception as error:
        first = next(iter(str(error).splitlines()), "")
        raise PlanError(
            f"a plan with a function that cannot be pickled cannot run on a cluster ({type(error).__name__}: {first}); "
            "take out of the function what belongs to this process, such as locks, files and connections"
        ) from error


def _gone(client: Any, error: Exception) -> Exception:
    return RunError(
        f"the Dask scheduler {client.scheduler.address} cannot be reached ({type(error).__name__}: {error}); see whether "
        "it runs, and connect a new client"
    )


def _refused(worker: str, error: Exception) -> Exception:
    first = next(iter(str(error).splitlines()), type(error).__name__)
    return RunError(f"worker {worker} cannot take part: {first}")


def pickled_exception(error: BaseException) -> bytes | None:
    """An exception for another process, with a note of where it was raised; None if it cannot be pickled."""
    import cloudpickle

    lines = "".join(traceback.format_exception(error))
    error.add_note(f"raised on {socket.gethostname()}, process {os.getpid()}:\n{lines}")
    try:
        return bytes(cloudpickle.dumps(error))
    except Exception:
        return None


def unpickled_exception(encoded: bytes) -> BaseException:
    """What `pickled_exception` gave."""
    error = pickle.loads(encoded)
    if not isinstance(error, BaseException):
        raise TypeError(f"{type(error).__name__} is no exception")
    return error
