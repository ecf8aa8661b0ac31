"""The side of a worker, which Dask calls but which does not know Dask: actors, and plans prepared once in a process."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import socket
import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from .. import __version__
from .._native import _instruction_set, _snapshot_at
from ..errors.native import RunError
from .shards import shards_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._native import NativeTaskRunner, NativeTasks
    from .file_calls import FileCalls
    from .tasklets import FunctionCalls

#: What a payload holds, as its first item.
PLANS = "plans"
FUNCTIONS = "functions"
FILES = "files"

#: Plans that a worker keeps prepared.
_KEPT_PLANS = 4


class SlotActor:
    """A slot in its worker: a Dask actor that executes batches of tasks in a thread of its own.

    `prepare`, `run` and `cache_report` return an exception instead of raising it: to Dask an exception of an actor
    means that the worker is lost.

    Parameters:
        number: number of the slot among those of its worker, from 0.
        version: version of Isochrony on the client.

    Raises:
        RunError: this host has another version.

    >>> import asyncio, isochrony as iso, operator, pickle
    >>> actor = iso.cluster.SlotActor(0, iso.__version__)
    >>> asyncio.run(actor.prepare(b"key", pickle.dumps(("functions", [], ("client", 1)))))
    True
    >>> batch = pickle.dumps((operator.eq, "compare", [], []))  # a function of lists of inputs and outputs, both empty
    >>> pickle.loads(asyncio.run(actor.run(batch)))
    (None, True, [])
    """

    def __init__(self, number: int, version: str) -> None:
        from concurrent.futures import ThreadPoolExecutor

        if version != __version__:
            raise version_error(version)
        self._number = number
        self._runner: NativeTaskRunner | FunctionCalls | FileCalls | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="isochrony-slot")
        _SLOTS.add(self)

    async def prepare(self, key: bytes, payload: bytes | None) -> bool | Exception:
        """Prepare plans or functions, once in a process: other slots use the same ones.

        Parameters:
            key: digest of the payload.
            payload: pickled plans or functions; None: use those that this process has under the key.

        Returns:
            True if they are prepared; False if this process does not have them, so that their payload is needed; or an
            exception: RunError for a missing module or store, or whatever preparing raised.

        >>> import asyncio, isochrony as iso
        >>> asyncio.run(iso.cluster.SlotActor(0, iso.__version__).prepare(b"unknown", None))
        False
        """
        prepared: bool | Exception = await self._in_thread(self._prepare, key, payload)
        return prepared

    async def run(self, batch: bytes) -> bytes | Exception:
        """Execute a batch of tasks, after `prepare`.

        Parameters:
            batch: encoded tasks.

        Returns:
            Encoded results, or the exception that executing them raised.

        Raises:
            AssertionError: nothing was prepared.

        >>> import asyncio, isochrony as iso, operator, pickle
        >>> actor = iso.cluster.SlotActor(0, iso.__version__)
        >>> _ = asyncio.run(actor.prepare(b"key", pickle.dumps(("functions", [], ("client", 1)))))
        >>> pickle.loads(asyncio.run(actor.run(pickle.dumps((operator.add, "join", [], [])))))
        (None, [], [])
        """
        assert self._runner is not None
        announce = getattr(self._runner, "announce", None)
        announced = () if announce is None else (announce(batch),)
        results: bytes | Exception = await self._in_thread(self._runner.run, batch, *announced)
        return results

    async def instruction_set(self) -> str:
        """Name the instruction set that Fourier transforms use in this process.

        Returns:
            "AVX", "SSE4.1", "NEON" or "scalar".

        >>> import asyncio, isochrony as iso
        >>> name = asyncio.run(iso.cluster.SlotActor(0, iso.__version__).instruction_set())
        >>> name in ("AVX", "SSE4.1", "NEON", "scalar")
        True
        """
        return _instruction_set()[0]

    async def cache_report(self, attachment: str) -> bytes | Exception:
        """List the shards of signals in the cache of this host.

        Parameters:
            attachment: name of the caches.

        Returns:
            Encoded list, for the dispatcher of the client; or an exception: RunError if the attachment was closed.

        >>> asyncio.run(actor.cache_report(attachment))  # doctest: +SKIP
        """
        report: bytes | Exception = await self._in_thread(lambda: shards_of(attachment).report())
        return report

    async def stop(self) -> None:
        """End the batch that is being executed. A function of a tasklet or of `map` is not interrupted.

        >>> import asyncio, isochrony as iso
        >>> asyncio.run(iso.cluster.SlotActor(0, iso.__version__).stop())
        """
        if self._runner is not None:
            self._runner.stop()

    def _prepare(self, key: bytes, payload: bytes | None) -> bool:
        tasks = _prepared(key, payload)
        if tasks is not None:
            self._runner = tasks.runner(self._number)
        return tasks is not None

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # The loop is free meanwhile: heartbeats, other calls and `stop` go on.
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
        except Exception as error:
            return error
        except BaseException as error:
            # Dask's loop would end with it, and the worker.
            return RunError(f"{type(error).__name__} in a worker: {error}; catch it in the function")


#: The slots of this process that were not given back.
_SLOTS: weakref.WeakSet[SlotActor] = weakref.WeakSet()


def slot_count() -> int:
    """Slots that runs have in this process."""
    gc.collect()
    return len(_SLOTS)


_PREPARED: OrderedDict[bytes, NativeTasks | FunctionCalls] = OrderedDict()
#: Functions of files, as long as a slot calls them: no later run has the same ones.
_FILE_CALLS: weakref.WeakValueDictionary[bytes, FileCalls] = weakref.WeakValueDictionary()
_PREPARING = threading.Lock()


def _prepared(key: bytes, payload: bytes | None) -> NativeTasks | FunctionCalls | FileCalls | None:
    """What a payload holds, prepared once in a process; None: it is not, and there is no payload."""
    with _PREPARING:
        calls = _FILE_CALLS.get(key)
        if calls is not None:
            return calls
        tasks = _PREPARED.get(key)
        if tasks is None:
            if payload is None:
                return None
            try:
                kind, *content = pickle.loads(payload)
            except ModuleNotFoundError as error:
                raise module_error(error) from error
            if kind == FILES:
                from .file_calls import FileCalls

                _FILE_CALLS[key] = calls = FileCalls(*content)
                return calls
            _PREPARED[key] = tasks = _tasks(kind, content)
            while len(_PREPARED) > _KEPT_PLANS:
                _PREPARED.popitem(last=False)
        _PREPARED.move_to_end(key)
        return tasks


def _tasks(kind: str, content: list[Any]) -> NativeTasks | FunctionCalls:
    if kind == FUNCTIONS:
        from .tasklets import FunctionCalls

        return FunctionCalls(*content)
    from .._native import NativeTasks

    (text, objects), collects, settings, paths, process, attachment = content
    objects = localized(objects, paths, process)
    cache = None if attachment is None else shards_of(attachment)
    return NativeTasks(text, objects, collects, Settings(settings), os.cpu_count() or 1, cache)


def this_process() -> tuple[str, int]:
    """What tells this process from those of other hosts."""
    return socket.gethostname(), os.getpid()


def localized(
    objects: list[tuple[str, Any]], paths: list[tuple[str, str]], client: tuple[str, int]
) -> list[tuple[str, Any]]:
    """Objects of a plan, as they are found in this process; `client`: the process that sent them."""
    # A process of another host may have the client's number.
    is_client = client == this_process()

    def found(kind: str, one: Any) -> tuple[str, Any]:
        if kind != "signal":
            return kind, one
        snapshot, opening = one
        return kind, (_snapshot_at(snapshot, paths), opening if is_client else (0, 0))

    return [found(*one) for one in objects]


def version_error(version: str) -> RunError:
    """The client has another version."""
    return RunError(
        f"the client has Isochrony {version} and {socket.gethostname()} has {__version__}; install the same version on "
        "all hosts"
    )


def module_error(error: ModuleNotFoundError) -> RunError:
    """A function of a plan cannot be unpickled here."""
    return RunError(
        f"a function of the plan needs the module {error.name!r}, which {socket.gethostname()} does not have; install "
        "it there"
    )


class Settings:
    """Options of a run, in a worker."""

    control = None
    cluster = None
    tuning = None

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
