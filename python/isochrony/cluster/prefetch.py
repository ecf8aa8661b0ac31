"""Fetches the files of a slot's next batch while its function computes."""

from __future__ import annotations

import pickle
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .host_cache import HostCache
    from .input_files import InputFile, LocalFile

#: First byte of a batch: whether files of it are to be fetched from elsewhere.
IS_LOCAL, IS_REMOTE = b"\x00", b"\x01"
#: Part of the cache that the files of one batch may keep pinned before it is run.
_QUOTA_PART = 8
#: Seconds within which a thread that is idle begins.
_BEGIN_S = 0.01


class FetchedFiles:
    """Files of a batch's first tasks, in their order and as they come. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._files: deque[list[LocalFile] | Exception] = deque()
        #: Whether a thread fetches them, whether more may come, and whether anybody wants them.
        self._is_begun = self._is_complete = self._is_closed = False

    def begin(self) -> bool:
        """They will be fetched; False: nobody wants them any more."""
        with self._changed:
            self._is_begun = not self._is_closed
            self._changed.notify()
            return self._is_begun

    def put(self, files: list[LocalFile] | Exception) -> bool:
        """Those of the next task, or why there are none; False: nobody wants them, and they were let go."""
        with self._changed:
            if not self._is_closed:
                self._files.append(files)
                self._changed.notify()
                return True
        close(files)
        return False

    def complete(self) -> None:
        """No more will come."""
        with self._changed:
            self._is_complete = True
            self._changed.notify()

    def take(self) -> list[LocalFile] | Exception | None:
        """Those of the next task; waits for what is on its way. None: there are none, nor of later tasks."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_begun or self._is_closed, _BEGIN_S):
                # All threads are busy with others: who needs them fetches them.
                self._is_closed = True
            self._changed.wait_for(lambda: self._files or self._is_complete or self._is_closed)
            return self._files.popleft() if self._files else None

    def close(self) -> None:
        """Lets go of what was not taken."""
        with self._changed:
            self._is_closed = True
            left = list(self._files)
            self._files.clear()
            self._changed.notify()
        for files in left:
            close(files)


class Prefetch:
    """Threads of a worker that fetch ahead, one for each slot.

    Parameters:
        cache: of the host.
    """

    def __init__(self, cache: HostCache) -> None:
        self._cache = cache
        self._pool = ThreadPoolExecutor(cache.threads, thread_name_prefix="isochrony-prefetch")
        self._lock = threading.Lock()
        #: Of batches that were not run yet.
        self._batches: set[FetchedFiles] = set()
        self._is_stopped = False

    def begin(self, batch: bytes) -> FetchedFiles | None:
        """Begins to fetch the files of a batch whose turn comes later; None: there is nothing to fetch."""
        if batch[:1] != IS_REMOTE:
            return None
        with self._lock:
            if self._is_stopped:
                return None
            fetched = FetchedFiles()
            self._batches.add(fetched)
            self._pool.submit(self._fetch, batch, fetched)
            return fetched

    def end(self, fetched: FetchedFiles | None) -> None:
        """A batch was run."""
        if fetched is not None:
            with self._lock:
                self._batches.discard(fetched)
            fetched.close()

    def stop(self) -> None:
        """Lets go of what nobody takes any more."""
        with self._lock:
            self._is_stopped = True
            batches = list(self._batches)
            self._batches.clear()
        for fetched in batches:
            fetched.close()
        self._pool.shutdown(wait=False)

    def _fetch(self, batch: bytes, fetched: FetchedFiles) -> None:
        if not fetched.begin():
            return
        try:
            tasks, _, _ = pickle.loads(memoryview(batch)[1:])
            left = self._cache.settings.quota // _QUOTA_PART
            for place, (_, _, inputs, _) in enumerate(tasks):
                left -= sum(one.key.bytes for one in inputs)
                # The first task begins as soon as it can, whatever its files take.
                if left < 0 and place:
                    break
                if not fetched.put(self._obtained(inputs)):
                    break
        finally:
            fetched.complete()

    def _obtained(self, inputs: list[InputFile]) -> list[LocalFile] | Exception:
        files: list[LocalFile] = []
        try:
            files.extend(self._cache.obtain(one) for one in inputs)
        except Exception as error:
            close(files)
            return error
        return files


def close(files: list[LocalFile] | Exception) -> None:
    """Lets files be evicted."""
    if not isinstance(files, Exception):
        for file in files:
            file.close()
