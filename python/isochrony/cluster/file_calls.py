"""Calls functions of files in a worker: gets the inputs of each task, calls, stores its outputs."""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors.native import RunError
from ..workers.exceptions import dumps
from .cache_plugin import host_cache
from .exceptions import error_as_text, pickled_exception
from .executables import Executable
from .prefetch import Prefetch, close
from .scratch import OUTPUT
from .storage import FileKey, shown, storage_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .host_cache import HostCache
    from .input_files import InputFile, LocalFile
    from .prefetch import FetchedFiles
    from .scratch import Scratch

#: What a task of a batch is: its number, item, inputs, URLs of outputs.
Task = tuple[int, Any, "list[InputFile]", "list[str] | None"]


class FileCalls:
    """Calls one function.

    Parameters:
        run: its name; runs do not share what was reported to each.
        attachment: name of the caches.
        function: called with an item, paths of its inputs, and paths of its outputs.
        form: name and maker of the form of files that is cached, if there is one.
    """

    def __init__(
        self,
        run: str,
        attachment: str,
        function: Callable[..., object],
        form: tuple[str, Callable[[Path, Path], object]] | None,
    ) -> None:
        self.run_name = run
        self._function = function
        self._cache = host_cache(attachment)
        if form is not None:
            self._cache.forms[form[0]] = form[1]
        self._prefetch = Prefetch(self._cache)
        self._came_before = self._came()
        self._lock = threading.Lock()
        #: Number of the first change that was not reported.
        self._since: int | None = None

    def runner(self, _: int) -> FileCalls:
        """What calls the function in one slot."""
        return self

    def stop(self) -> None:
        """A function that was begun is not ended: what it returns is not read."""
        self._prefetch.stop()

    def announce(self, batch: bytes) -> FetchedFiles | None:
        """A batch has arrived; the slot is perhaps busy with the one before. Begins to fetch its files, for `run`."""
        return self._prefetch.begin(batch)

    def run(self, batch: bytes, announced: FetchedFiles | None = None) -> bytes:
        """Does the tasks of a batch.

        Returns:
            Pickled: results (number, pickled exception or None, pickled value, outputs written, origins of files,
            seconds), report of the cache, address of this process, its cache and its threads, and what came in the run.
        """
        tasks, is_manifest, waiting = pickle.loads(memoryview(batch)[1:])
        cache = self._cache
        cache.waiting = waiting
        try:
            results = [self._done(task, None if announced is None else announced.take()) for task in tasks]
        finally:
            self._prefetch.end(announced)
        with self._lock:
            since = None if is_manifest else self._since
            following, is_all, changes = cache.report(since)
            self._since = following
        report = (following - (0 if is_all else len(changes)), is_all, changes)
        came = dict(self._came() - self._came_before)
        return pickle.dumps((results, report, (cache.server.address, cache.name, cache.threads), came))

    def _came(self) -> Counter[str]:
        """Bytes that came to this process, by where from, and files that it read from storage, also for peers."""
        return self._cache.bytes + Counter(fetched=self._cache.files["storage"])

    def _done(self, task: Task, fetched: list[LocalFile] | Exception | None) -> tuple[Any, ...]:
        number, item, inputs, outputs = task
        start = time.perf_counter()
        files: list[LocalFile] = []
        written: list[tuple[FileKey, str | None]] = []
        error, value = None, b""
        try:
            if isinstance(fetched, Exception):
                raise fetched
            files.extend(fetched if fetched is not None else (self._cache.obtain(one) for one in inputs))
            value = self._called(item, inputs, files, outputs, written)
        # Also what a function raises to end its process: a worker goes on.
        except (Exception, SystemExit) as raised:
            error = pickled_exception(raised) or error_as_text(raised)
        finally:
            close(files)
        origins = [(file.origin, file.bytes) for file in files]
        return number, error, value, written, origins, time.perf_counter() - start

    def _called(
        self,
        item: Any,
        inputs: list[InputFile],
        files: list[LocalFile],
        outputs: list[str] | None,
        written: list[tuple[FileKey, str | None]],
    ) -> bytes:
        if isinstance(item, Handover):
            return b""
        scratch = self._cache.scratch
        with contextlib.ExitStack() as stack:
            paths = [_named(stack, scratch, one, file) for one, file in zip(inputs, files, strict=True)]
            if not outputs and not isinstance(self._function, Executable):
                return dumps(self._function(item, *paths))
            folder = stack.enter_context(scratch.folder())
            targets = [_target(folder, place, url) for place, url in enumerate(outputs or [])]
            if isinstance(self._function, Executable):
                value = dumps(self._function.run(item, paths, targets, folder))
            else:
                value = dumps(self._function(item, *paths, *targets))
            for url, path in zip(outputs or [], targets, strict=True):
                written.append(_stored(self._cache, url, path))
        return value


class Handover:
    """Instead of an item: the inputs are only fetched, for others to find them."""


def _named(stack: contextlib.ExitStack, scratch: Scratch, wanted: InputFile, file: LocalFile) -> Path:
    """A path by the name that the file has in storage, as long as the task uses it: functions look at its ending."""
    name = _file_name(wanted.key.url)
    if wanted.form is not None:
        # A form is not what the ending says.
        name = Path(name).stem or name
    link = scratch.links.take(file.path, name)
    stack.callback(scratch.links.give_back, file.path, name)
    return link


def _target(folder: Path, place: int, url: str) -> Path:
    inside = folder / f"{OUTPUT}{place}"
    inside.mkdir(exist_ok=True)
    return inside / _file_name(url)


def _file_name(url: str) -> str:
    """The last part of a URL, which cannot lead out of a folder."""
    name = url.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
    return name if name not in ("", ".", "..") and "\0" not in name else "file"


def _stored(cache: HostCache, url: str, path: Path) -> tuple[FileKey, str | None]:
    if not path.is_file() or path.is_symlink():
        raise RunError(
            f"the function wrote no file for its output {shown(url)}; it is given a path for each output, behind "
            "those of its inputs, and writes a file there"
        )
    key = storage_of(url).write(url, path)
    return key, cache.store(key, path)
