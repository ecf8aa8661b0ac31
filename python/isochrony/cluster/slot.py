"""A thread of a worker, as its client sees it: sends batches to an actor, and waits for what it answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import math
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors.native import RunError
from .connect import result_within
from .worker import SlotActor

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client import ClusterRun

#: Seconds between two looks whether the answer to a call of an actor can still come.
_CALL_WAIT_S = 0.05
#: How often, and seconds between them, references to an actor that is given back are looked for.
_COLLECTIONS = 20
_COLLECTION_WAIT_S = 0.02


class StoppedError(Exception):
    """The run has ended meanwhile."""


class WorkerError(Exception):
    """What was raised in a worker, by our code."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Slot:
    """A thread of a worker that executes batches of tasks, as its client sees it; made by `ClusterRun`.

    Attributes:
        name: address of the worker.
        number: number among the slots of the worker, from 0.
        instruction_set: name of the instruction set of Fourier transforms there; empty before `prepare`.
        cache_report: encoded list of the shards of signals in the cache of its host, in a run that places tasks by
            data; else None.
        on_drain: function without arguments that is called when no more is to be sent to the slot.

    >>> import operator, pickle, distributed, isochrony as iso
    >>> client = distributed.Client(processes=False, n_workers=1, threads_per_worker=1)
    >>> payload = pickle.dumps(("functions", [], ("client", 1)))
    >>> run = iso.cluster.ClusterRun(client, payload, iso.running.options.RunOptions.of(on=client))
    >>> _, slot = run.slot_counts(), run.next_slot(10, True)
    >>> slot.number, slot.instruction_set in ("AVX", "SSE4.1", "NEON", "scalar")
    (0, True)
    >>> slot.prepare(b"other", payload)
    >>> slot.send(pickle.dumps((operator.add, "join", [], [])))  # a function of lists of inputs and outputs, both empty
    >>> slot.send(pickle.dumps((operator.eq, "compare", [], [])))
    >>> pickle.loads(slot.receive()), pickle.loads(slot.receive())
    ((None, [], []), (None, True, []))
    >>> slot.stop() is None  # no results are outstanding
    True
    >>> slot.is_draining()
    False
    >>> slot.on_drain = lambda: print("no more")
    >>> slot.drain()
    no more
    >>> slot.is_draining()
    True
    >>> slot.leave()
    >>> run.close(), client.close()
    (None, None)
    """

    def __init__(self, worker: str, client: Any, number: int, run: ClusterRun) -> None:
        self.name = worker
        self.number = number
        self.instruction_set = ""
        self.cache_report: bytes | None = None
        self._client = client
        self._run = run
        self._stopped = run._stopped
        self._draining = threading.Event()
        #: Called when nothing more is to be sent.
        self.on_drain: Callable[[], None] = lambda: None
        self._calls: deque[Any] = deque()
        self._future = client.submit(SlotActor, number, __version__, workers=[worker], actor=True, pure=False)
        # An actor belongs to the client that is the current one when it arrives.
        with client.as_current():
            self._actor = result_within(self._future, math.inf, self._check)

    def prepare(self, key: bytes, payload: bytes) -> None:
        """Prepare plans or functions in the worker. They are sent only if its process does not have them.

        Parameters:
            key: digest of the payload.
            payload: pickled plans or functions.

        Raises:
            WorkerError: the worker cannot prepare them; its exception is in `error`.
            StoppedError: the run has ended.
            OSError: the worker is lost; also another exception of Dask.

        >>> slot.prepare(key, payload)  # doctest: +SKIP
        """
        if not self._ask("prepare", key, None):
            self._ask("prepare", key, payload)
        self.instruction_set = str(self._ask("instruction_set"))
        if self._run.attachment is not None:
            self.cache_report = bytes(self._ask("cache_report", self._run.attachment))

    def send(self, batch: bytes) -> None:
        """Send a batch of tasks, and return at once. The slot executes batches in the order in which they were sent.

        Parameters:
            batch: encoded tasks.

        >>> slot.send(batch)  # doctest: +SKIP
        """
        try:
            self._calls.append(self._actor.run(batch))
        except Exception as error:
            # Dask knows already that the worker is gone; `receive` tells.
            self._calls.append(error)

    def receive(self) -> bytes | bool:
        """Wait for the results of the oldest batch that was sent and not received.

        Returns:
            Encoded results; True if the worker is lost, so that others must repeat its tasks; False if the run has
            ended.

        Raises:
            RunError: the worker cannot execute the tasks; the exception there is the cause.
            IndexError: no batch was sent.

        >>> results = slot.receive()  # doctest: +SKIP
        """
        call = self._calls[0]
        try:
            if isinstance(call, Exception):
                raise call
            results = self._answer(call)
        except StoppedError:
            return False
        except WorkerError as failed:
            self._run._lost(self)
            raise worker_error(self.name, failed.error) from failed.error
        except Exception:
            if self._stopped.is_set():
                return False
            self._run._lost(self)
            return True
        self._calls.popleft()
        return bytes(results)

    def drain(self) -> None:
        """Mark the slot as one to which no more is sent, and call `on_drain`.

        >>> slot.drain()  # doctest: +SKIP
        """
        self._draining.set()
        self.on_drain()

    def is_draining(self) -> bool:
        """Check whether the slot is to be given back to its worker.

        Returns:
            True after `drain`.

        >>> slot.is_draining()  # doctest: +SKIP
        False
        """
        return self._draining.is_set()

    def leave(self) -> None:
        """Give the slot back to its worker, after all its results were received. Waits at most 0.4 s for Dask.

        >>> slot.leave()  # doctest: +SKIP
        """
        actor = weakref.ref(self._actor)
        self.release()
        # Dask keeps an actor on its worker until the last reference is gone. Its calls refer to it in cycles,
        # and Dask's loop to calls for a moment longer.
        for _ in range(_COLLECTIONS):
            gc.collect()
            if actor() is None:
                break
            time.sleep(_COLLECTION_WAIT_S)
        self._run._left(self)

    def stop(self) -> Any:
        """Ask the worker to end the batch that it executes, without waiting.

        Returns:
            Dask's future of the answer; None if no results are outstanding, or the worker is lost.

        >>> slot.stop() is None  # doctest: +SKIP
        True
        """
        with contextlib.suppress(Exception):
            return self._actor.stop() if self._calls else None
        return None

    def release(self) -> None:
        """Release the actor of the slot. Its worker may be lost.

        >>> slot.release()  # doctest: +SKIP
        """
        self._actor = None
        self._future.release()

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Calls a method there, and waits for its result.

        Raises:
            OSError: the worker is gone; other errors are those of `_answer`.
        """
        try:
            call = getattr(self._actor, method)
        except RuntimeError as error:
            # Dask knows already that the worker is gone.
            raise OSError(str(error)) from None
        return self._answer(call(*arguments))

    def _answer(self, answer: Any) -> Any:
        """The result of a call.

        Raises:
            WorkerError: what the call raised there.
            StoppedError: the run has ended meanwhile.
            Exception: Dask's, since the worker is gone.
        """
        # Not with a timeout of Dask's: now and then it raises UnboundLocalError where a result comes just in time.
        call = asyncio.run_coroutine_threadsafe(_outcome(answer), self._client.loop.asyncio_loop)
        while not concurrent.futures.wait([call], timeout=_CALL_WAIT_S).done:
            if self._stopped.is_set():
                call.cancel()
                raise StoppedError
            self._check_actor()
        result = call.result()
        if isinstance(result, Exception):
            raise WorkerError(result)
        return result

    def _check(self) -> None:
        """Called while the actor is made.

        Raises:
            StoppedError: the run has ended meanwhile.
            OSError: the worker is gone.
        """
        if self._stopped.is_set():
            raise StoppedError
        self._check_actor()

    def _check_actor(self) -> None:
        """Called while a call takes long.

        Raises:
            OSError: its worker is gone.
        """
        if self._future.status not in ("finished", "pending"):
            raise OSError(f"the actor is {self._future.status}") from None
        if not self._run._is_listed(self.name):
            raise OSError("it left the cluster") from None


async def _outcome(answer: Any) -> Any:
    """What a call of an actor gives."""
    return await answer


def worker_error(worker: str, error: Exception) -> Exception:
    """What ends a run, since a worker cannot do its part."""
    first = next(iter(str(error).splitlines()), type(error).__name__)
    return RunError(f"worker {worker} cannot take part: {first}")
