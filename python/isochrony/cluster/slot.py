"""A thread of a worker, as its client sees it: sends batches to an actor, and waits for what it answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors.native import RunError
from .worker import SlotActor

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client import ClusterRun

#: Seconds after which a waiting call checks whether the run has ended.
_WAIT_S = 0.25
#: The same of a call of an actor.
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
    """A thread of a worker, as its client sees it.

    Attributes:
        name: address of the worker.
        number: among the slots of the worker.
        instruction_set: of Fourier transforms there, once it is prepared.
        cache_report: what the cache of its host has of signals, in a run that places tasks by data; else None.
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
            self._actor = self._wait(self._future)

    def prepare(self, key: bytes, payload: bytes) -> None:
        """Prepares plans there, unless its process has them.

        Raises:
            RunError: it cannot.
        """
        if not self._ask("prepare", key, None):
            self._ask("prepare", key, payload)
        self.instruction_set = str(self._ask("instruction_set"))
        if self._run.attachment is not None:
            self.cache_report = bytes(self._ask("cache_report", self._run.attachment))

    def send(self, batch: bytes) -> None:
        """Has a batch of tasks done, after those that were sent before."""
        try:
            self._calls.append(self._actor.run(batch))
        except Exception as error:
            # Dask knows already that the worker is gone; `receive` tells.
            self._calls.append(error)

    def receive(self) -> bytes | bool:
        """Results of the oldest batch that was sent; True: the worker is gone; False: the run has ended.

        Raises:
            RunError: the worker cannot do its tasks.
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
        """Nothing more is sent to it."""
        self._draining.set()
        self.on_drain()

    def is_draining(self) -> bool:
        """Whether nothing more is sent to it."""
        return self._draining.is_set()

    def leave(self) -> None:
        """Gives it back: all that it had was received."""
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
        """Ends what it does; the answer to wait for, if there is one."""
        with contextlib.suppress(Exception):
            return self._actor.stop() if self._calls else None
        return None

    def release(self) -> None:
        """Gives the actor back; its worker may be gone."""
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

    def _wait(self, answer: Any) -> Any:
        """What Dask gives, as soon as it is there.

        Raises:
            StoppedError: the run has ended meanwhile.
            OSError: the worker is gone.
        """
        while not self._stopped.is_set():
            try:
                return answer.result(timeout=_WAIT_S)
            # The second one is what Dask's `sync` raises if its own timeout cancels a call at the last moment.
            except (TimeoutError, UnboundLocalError):
                self._check_actor()
        raise StoppedError

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
