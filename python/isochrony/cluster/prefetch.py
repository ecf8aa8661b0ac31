"""Fetches the files of a slot's next batch while its function computes."""

from __future__ import annotations

import contextlib
import pickle
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .host_cache import HostCache
    from .input_files import LocalFile

#: First byte of a batch: whether files of it are to be fetched from elsewhere.
IS_LOCAL, IS_REMOTE = b"\x00", b"\x01"
#: What becomes of a batch: for each of its first tasks its files, or why there are none.
Fetched = Future[list["list[LocalFile] | Exception"]]
#: Part of the cache that the files of one batch may keep pinned before it is run.
_QUOTA_PART = 8


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
        self._batches: set[Fetched] = set()
        self._is_stopped = False

    def begin(self, batch: bytes) -> Fetched | None:
        """Begins to fetch the files of a batch whose turn comes later; None: there is nothing to fetch."""
        if batch[:1] != IS_REMOTE:
            return None
        with self._lock:
            if self._is_stopped:
                return None
            fetched = self._pool.submit(self._fetch, batch)
            self._batches.add(fetched)
            return fetched

    def take(self, fetched: Fetched | None) -> list[list[LocalFile] | Exception]:
        """What was fetched for the first tasks of a batch; waits for what is on its way."""
        with self._lock:
            if fetched not in self._batches:
                return []
            self._batches.remove(fetched)
        if fetched.cancel():
            return []
        return fetched.result()

    def stop(self) -> None:
        """Lets go of what nobody takes any more."""
        with self._lock:
            self._is_stopped = True
            batches = list(self._batches)
            self._batches.clear()
        for fetched in batches:
            if not fetched.cancel():
                fetched.add_done_callback(_close_all)
        self._pool.shutdown(wait=False)

    def _fetch(self, batch: bytes) -> list[list[LocalFile] | Exception]:
        tasks, _, _ = pickle.loads(memoryview(batch)[1:])
        fetched: list[list[LocalFile] | Exception] = []
        left = self._cache.settings.quota // _QUOTA_PART
        for _, _, inputs, _ in tasks:
            left -= sum(one.key.bytes for one in inputs)
            # The first task begins as soon as it can, whatever its files take.
            if (left < 0 and fetched) or self._is_stopped:
                break
            files: list[LocalFile] = []
            try:
                files.extend(self._cache.obtain(one) for one in inputs)
                fetched.append(files)
            except Exception as error:
                close(files)
                fetched.append(error)
        return fetched


def close(files: list[LocalFile]) -> None:
    """Lets files be evicted."""
    for file in files:
        file.close()


def _close_all(fetched: Fetched) -> None:
    with contextlib.suppress(Exception):
        for files in fetched.result():
            if not isinstance(files, Exception):
                close(files)
