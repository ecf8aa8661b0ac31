"""Calls a function for each of many items on a cluster, where the files that it reads are: ``iso.cluster.map``."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import threading
from collections import deque
from collections.abc import Sized
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..errors.native import OptionError, RunError
from ..options import flag, function_or_none, number
from ..output.progress import ImportProgress
from .attachment import attachment_of
from .file_queue import FileQueue
from .file_run import FileRun
from .file_tasks import FileTask
from .input_files import InputFile
from .storage import FileKey, absolute_url, storage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .file_report import MapReport

#: Files whose versions are asked for at a time.
_STAT_THREADS = 16
#: Items that are read ahead of those that were admitted, while storage is asked for versions.
_AHEAD = 256
#: Seconds for which who waits for a result looks up for Ctrl-C.
_WAIT_S = 0.25
#: Seconds that a task may be passed over for others whose files are there.
_MAX_WAIT_S = 2.0


class MapResults:
    """Results of `map`: an iterator, in the order of the items. A context manager: leaving it ends the run.

    The run also ends when all results were taken, and when the iterator raises. It raises what the function raised for
    an item, or StorageError if a file of an item cannot be read or written; with `keep_going` such an exception is the
    result of its item. It raises OptionError if `inputs` or `outputs` do not fit the items, RunError if no worker takes
    part for 60 s or the scheduler cannot be reached, and whatever the iteration over `items` raises.

    Attributes:
        written: outputs of the items that are done, by index of the item from 0: a list of pairs of the version in
            storage (`url`, `etag`, `modified_ns`, `bytes`) and the BLAKE3 digest in hexadecimal, which is None if the
            output is not in the cache. Items without outputs are missing.

    >>> import isochrony as iso
    >>> urls = ["s3://recordings/a.wav", "s3://recordings/b.wav"]
    >>> with iso.cluster.map(lambda url, path: path.stat().st_size, urls, client=client) as results:  # doctest: +SKIP
    ...     next(results)
    2880
    """

    def __init__(self, producer: _Producer, run: FileRun, keep_going: bool, progress: bool) -> None:
        self._producer = producer
        self._run = run
        self._keep_going = keep_going
        self._progress = ImportProgress("mapping", enabled=None if progress else False, unit="items")
        self._report: MapReport | None = None
        self.written: dict[int, list[tuple[FileKey, str | None]]] = producer.written

    @property
    def report(self) -> MapReport:
        """What the run has done so far: a new `MapReport` at each access, and the final one after the run.

        >>> results.report.hit_rate  # doctest: +SKIP
        0.97
        """
        return self._report or self._run.report()

    def close(self) -> None:
        """End the run. Results that were not taken are lost. Closing again has no effect.

        >>> results.close()  # doctest: +SKIP
        >>> list(results)  # doctest: +SKIP
        []
        """
        if self._report is None:
            self._producer.close()
            self._run.close()
            self._report = self._run.report()
            self._progress.__exit__(None, None, None)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._report is not None:
            raise StopIteration
        try:
            found = self._producer.next_result(lambda: self._run.error)
            done, total = self._producer.counts()
            self._progress(done, total, 0, 0)
        except BaseException:
            self.close()
            raise
        if found is None:
            self.close()
            raise StopIteration
        value, error = found
        if error is None:
            return value
        if self._keep_going:
            return error
        self.close()
        raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def map(  # noqa: A001 - as concurrent.futures names it
    function: Callable[..., object],
    items: Iterable[Any],
    *,
    client: Any,
    inputs: Callable[[Any], Sequence[str] | str] | Sequence[Sequence[str]] | None = None,
    outputs: Callable[[Any], Sequence[str] | str] | None = None,
    cache_form: Callable[[Path, Path], object] | None = None,
    batch: int | None = None,
    window: int = 4096,
    scale: tuple[int, int] | None = None,
    keep_going: bool = False,
    progress: bool = False,
) -> MapResults:
    """Call ``function(item, *paths)`` for each item, on the workers of a cluster with caches (`attach`).

    Parameters:
        function: gets an item, local paths of its inputs, and local paths to write its outputs to. Input files are in
            the cache, under their names in storage: only read them.
        items: an iterable, read as results are taken, at most `window` ahead.
        client: client of the cluster, or its `Attachment`.
        inputs: URLs (``https://host/a.fits``, ``s3://bucket/a.fits``, ``gs://``, ``az://``) or paths that an item
            reads: a function of the item, or a list with a list per item. None: the item itself is a URL or path.
        outputs: function of the item: URLs or paths that it writes. Each appears in storage as a whole when the
            function has returned, and is in the cache of its host from then on. None: items write no files.
        cache_form: function called as ``cache_form(source, target)``, which writes what is cached in place of a file,
            such as its decompressed form; `function` gets that.
        batch: number of tasks sent to a worker at a time, from 1; None: chosen by their duration.
        window: number of tasks among which the next one is chosen, and of results that may wait for an earlier one,
            from 1.
        scale: fewest and most workers that the cluster is scaled to meanwhile; None: the cluster keeps
            its size.
        keep_going: an exception of the function becomes the result of its item, instead of ending the run.
        progress: draw a progress line.

    Returns:
        A `MapResults`: an iterator of what the function returned, in order of the items. The run has started.

    Conventions:
        An item whose worker is lost is given to another worker, so the function may be called more than once. After the
        third lost worker the item fails with a RunError. What the function returns must be picklable.

    Raises:
        OptionError: a parameter out of range, or the cluster has no caches of this process.
        PlanError: a function cannot be pickled, or is larger than 256 MiB.
        RunError: the attachment was closed, or the scheduler cannot be reached.

    >>> import isochrony as iso
    >>> urls = ["s3://recordings/a.wav", "s3://recordings/b.wav"]
    >>> from dask.distributed import Client  # doctest: +SKIP
    >>> client = Client("tcp://10.0.0.5:8786")  # doctest: +SKIP
    >>> with iso.cluster.attach(client, cache="20GB"):  # doctest: +SKIP
    ...     list(iso.cluster.map(lambda url, path: path.stat().st_size, urls, client=client))
    [2880, 5760]
    """
    # No parameter of the function may be one.
    if not callable(function):
        raise OptionError(f"function={function!r} is refused; give a function of an item and local paths")
    function_or_none("outputs", outputs)
    function_or_none("cache_form", cache_form)
    if batch is not None:
        number("batch", batch, 1, "a whole number, at least 1, or None")
    number("window", window, 1, "a whole number, at least 1")
    flag("keep_going", keep_going)
    flag("progress", progress)
    attachment = attachment_of(client)
    form = None if cache_form is None else (_form_name(cache_form), cache_form)
    queue = FileQueue(attachment.policy, window, batch, _MAX_WAIT_S, attachment.max_replicas)
    producer = _Producer(queue, items, _InputUrls(inputs), outputs, None if form is None else form[0], window)
    run = FileRun(
        attachment.client, attachment._name, function, form, queue, attachment.policy, scale, producer.on_done
    )
    attachment._latest = run.report
    producer.start()
    return MapResults(producer, run, keep_going, progress)


class _InputUrls:
    """URLs that an item reads."""

    def __init__(self, inputs: Callable[[Any], Sequence[str] | str] | Sequence[Sequence[str]] | None) -> None:
        self._function = inputs if callable(inputs) else None
        self._lists = None if inputs is None or callable(inputs) else iter(inputs)

    def __call__(self, item: Any) -> list[str]:
        if self._function is not None:
            return _urls("inputs", self._function(item))
        if self._lists is None:
            if not isinstance(item, str | os.PathLike):
                raise OptionError(
                    f"the item {item!r} is not a URL or path; say by inputs= which files an item reads, such as "
                    "inputs=lambda item: [item.url]"
                )
            return _urls("items", item)
        try:
            return _urls("inputs", next(self._lists))
        except StopIteration:
            raise OptionError("inputs= has fewer lists than there are items; give one list for each item") from None


def _urls(name: str, given: Any) -> list[str]:
    """URLs of one, or of several."""
    several = [given] if isinstance(given, str | os.PathLike) else list(given)
    for one in several:
        if not isinstance(one, str | os.PathLike):
            raise OptionError(f"{name}= gave {one!r}, which is not a URL or path; give texts")
    return [os.fspath(one) for one in several]


class _Producer:
    """Admits items, at most a window ahead of the results that were taken, and puts results in order."""

    def __init__(
        self,
        queue: FileQueue,
        items: Iterable[Any],
        inputs: _InputUrls,
        outputs: Callable[[Any], Sequence[str] | str] | None,
        form: str | None,
        window: int,
    ) -> None:
        self._queue = queue
        self._items = iter(items)
        self._total = len(items) if isinstance(items, Sized) else 0
        self._inputs = inputs
        self._outputs = outputs
        self._form = form
        self._window = window
        self._changed = threading.Condition()
        #: Results that wait for an earlier one.
        self._results: dict[int, tuple[object, BaseException | None]] = {}
        self._next = 0
        self._done = 0
        self._admitted = 0
        #: Number of items, once all were read.
        self._count: int | None = None
        self._error: BaseException | None = None
        self._is_closed = False
        self.written: dict[int, list[tuple[FileKey, str | None]]] = {}
        #: Of each file, once it is known; until then who asks storage.
        self._versions: dict[str, InputFile | Future[InputFile]] = {}
        self._pool = ThreadPoolExecutor(_STAT_THREADS, thread_name_prefix="isochrony-stat")
        self._thread = threading.Thread(target=self._produce, name="isochrony-items", daemon=True)

    def start(self) -> None:
        """Begins to read items."""
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def on_done(
        self,
        task: FileTask,
        value: object,
        error: BaseException | None,
        written: list[tuple[FileKey, str | None]],
    ) -> None:
        """A task is done; without an index: something else happened."""
        with self._changed:
            if task.index >= 0:
                self._results[task.index] = (value, error)
                self._done += 1
                if written:
                    self.written[task.index] = written
                    for key, _ in written:
                        # Who reads it from now on reads this version.
                        self._versions[key.url] = InputFile(key, self._form)
            if task.index < 0 or task.index == self._next:
                self._changed.notify_all()

    def next_result(self, failure: Callable[[], BaseException | None]) -> tuple[object, BaseException | None] | None:
        """The result of the next item, and its exception; None: there is no further item."""
        with self._changed:
            while self._next not in self._results:
                if self._error is not None:
                    raise self._error
                if (error := failure()) is not None:
                    raise error
                if self._count == self._next:
                    return None
                if self._is_closed:
                    raise RunError("the run was closed; call map again")
                self._changed.wait(_WAIT_S)
            found = self._results.pop(self._next)
            self._next += 1
            # Not at each result: the producer admits many at a time.
            if self._next % 16 == 0 or self._admitted - self._next < 64:
                self._changed.notify_all()
            return found

    def counts(self) -> tuple[int, int]:
        """Items that are done, and all, as far as that is known."""
        return self._done, self._total or self._count or self._admitted

    def _produce(self) -> None:
        ahead: deque[tuple[FileTask, list[InputFile | Future[InputFile]]]] = deque()
        index = 0
        try:
            is_end = False
            while ahead or not is_end:
                room = self._room(len(ahead))
                if room is None:
                    return
                for item in itertools.islice(self._items, min(room, _AHEAD - len(ahead))) if not is_end else ():
                    outputs = None if self._outputs is None else _urls("outputs", self._outputs(item))
                    # What is relative is so to this process's folder, not to that of a worker.
                    outputs = outputs and [absolute_url(one) for one in outputs]
                    urls = self._inputs(item)
                    ahead.append((FileTask(index, item, [], outputs), [self._version(url) for url in urls]))
                    index += 1
                    room -= 1
                is_end = is_end or (room > 0 and len(ahead) < _AHEAD)
                self._admit(ahead)
            with self._changed:
                self._count = index
                self._changed.notify_all()
        # Whatever the items' own code raises is raised where results are taken.
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _room(self, ahead: int) -> int | None:
        """Items that may be read now; None: the run has ended."""
        with self._changed:
            while not self._is_closed:
                room = self._window - (self._admitted + ahead - self._next)
                if room > 0 or ahead:
                    return max(room, 0)
                self._changed.wait(_WAIT_S)
            return None

    def _admit(self, ahead: deque[tuple[FileTask, list[InputFile | Future[InputFile]]]]) -> None:
        """Admits those of which all versions are known, and waits for one of them."""
        tasks: list[FileTask] = []
        while ahead and (not tasks or all(not isinstance(one, Future) or one.done() for one in ahead[0][1])):
            task, versions = ahead.popleft()
            try:
                task.inputs = [one.result() if isinstance(one, Future) else one for one in versions]
            except Exception as error:
                self._admitted += 1
                self.on_done(task, None, error, [])
                continue
            for one in task.inputs:
                # A future takes as much memory again.
                self._versions[one.key.url] = one
            tasks.append(task)
        self._admitted += len(tasks)
        self._queue.admit(tasks)

    def _version(self, url: str) -> InputFile | Future[InputFile]:
        """The version of a file, asked for once in a run."""
        version = self._versions.get(url)
        if version is None:
            self._versions[url] = version = self._pool.submit(self._stat, url)
        return version

    def _stat(self, url: str) -> InputFile:
        wanted = InputFile(storage_of(url).stat(url), self._form)
        # Computed here, where several threads are.
        _ = wanted.name
        return wanted


def _form_name(form: Callable[[Path, Path], object]) -> str:
    """A name that changes with the function, as far as its pickle does."""
    from .client import pickled

    name = f"{getattr(form, '__module__', '')}.{getattr(form, '__qualname__', type(form).__name__)}"
    return f"{name}-{hashlib.sha256(pickled(form)).hexdigest()[:16]}"
