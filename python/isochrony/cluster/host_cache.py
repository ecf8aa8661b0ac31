"""The cache of a host, in a worker process: gets files in the order *local, peer, storage*.

All processes of a host that name the same folder share it. What a process waits for, another one of the host fetches
once: pieces are reserved in the cache. Peers are asked for an object at most once each, then storage is read. Where the
cache cannot take an object, its file is read past it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._native import open_cache
from ..errors.native import CacheError, RunError, StorageError
from .fetching import Fetcher
from .input_files import CacheSettings, InputFile, LocalFile
from .peer_server import PeerServer
from .peers import PeerClient, PeerError
from .scratch import Scratch
from .shards import ShardHost
from .storage import FileKey, copy_to, shown

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from .._native import NativeCachedObject

#: Changes that are kept for runs to report.
_KEPT_CHANGES = 1 << 14


class HostCache:
    """This process's part of its host's cache.

    Parameters:
        settings: of the attachment.
        folder: of the cache.
        host: address at which peers reach this process.
        tls: contexts of Dask's connections, as listener and as client.
        threads: of the worker.

    Attributes:
        waiting: tasks that wait in the client, as it said last.
    """

    def __init__(
        self,
        settings: CacheSettings,
        folder: Path,
        host: str,
        tls: tuple[ssl.SSLContext | None, ssl.SSLContext | None] = (None, None),
        threads: int = 1,
    ) -> None:
        self.settings = settings
        self.threads = threads
        self.waiting = 0
        self.folder = folder
        self._cache = open_cache(folder, settings.quota, settings.evict, settings.piece)
        self.scratch = Scratch(folder / "scratch")
        #: Makers of forms, by name.
        self.forms: dict[str, Callable[[Path, Path], object]] = {}
        #: Files, by where they were: "local", "peer" or "storage".
        self.files: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._changes: deque[tuple[list[tuple[str, int]], list[str]]] = deque(maxlen=_KEPT_CHANGES)
        #: Number of the change after the last one.
        self._next_change = 0
        #: Complete objects, and their lengths.
        self._objects: dict[str, int] = {}
        self._making: dict[str, threading.Lock] = {}
        self.server = PeerServer(host, settings.token, self._lease, settings.sends, settings.timeout, tls[0])
        self.peers = PeerClient(settings.token, settings.receives, settings.per_source, settings.timeout, tls[1])
        self._fetcher = Fetcher(self.peers, self.server.address, settings.storage_reads)
        #: Tells caches from each other: processes of a host may share one.
        self.name = f"{host}:{folder}"
        #: Shards of signals, for plans.
        self.shards = ShardHost(self._cache, self.name, self.peers, self.server.address, self._fetcher.count)

    def close(self) -> None:
        """Ends transfers; the cache stays on disk."""
        self.shards.close()
        self.server.close()
        self.peers.close()
        self.scratch.close()

    def obtain(self, wanted: InputFile) -> LocalFile:
        """A file, on this host's disk.

        Raises:
            StorageError: storage does not give it.
        """
        try:
            found = self._obtain_form(wanted) if wanted.form else self._obtain_file(wanted)
        except CacheError:
            found = self._past_cache(wanted)
        with self._lock:
            self.files[found.origin] += 1
        return found

    def report(self, since: int | None) -> tuple[int, bool, list[tuple[list[tuple[str, int]], list[str]]]]:
        """What changed in the cache, for an index.

        Parameters:
            since: number of the first change that is wanted; None: all objects.

        Returns:
            Number of the next change; whether the list is all objects, as one change that adds them; the changes.
        """
        with self._lock:
            self._refresh()
            first = self._next_change - len(self._changes)
            if since is None or not first <= since <= self._next_change:
                return self._next_change, True, [(list(self._objects.items()), [])]
            return self._next_change, False, [self._changes[one - first] for one in range(since, self._next_change)]

    def store(self, key: FileKey, path: Path) -> str | None:
        """Takes a local file into the cache, as a version that storage has now; its BLAKE3 digest, or None if the cache
        cannot take it.
        """
        try:
            cached = self._cache.pin_file(*key)
            with contextlib.closing(cached), path.open("rb", buffering=0) as source:
                self._fetcher.store_from(cached, source)
                return cached.digest() if not cached.missing(0, key.bytes) else None
        except CacheError:
            return None

    def holds(self, name: str) -> bool:
        """Whether an object is complete here."""
        with self._lock:
            self._refresh()
            return name in self._objects

    @property
    def bytes(self) -> Counter[str]:
        """Bytes that came, by where from."""
        return self._fetcher.bytes

    def info(self) -> dict[str, Any]:
        """What the cache has and has done."""
        return self._cache.info()

    def _refresh(self) -> None:
        """Takes note of what changed, under the lock."""
        is_all, added, removed = self._cache.changes()
        if is_all:
            now = dict(added)
            removed = [name for name in self._objects if name not in now]
            added = [(name, length) for name, length in added if self._objects.get(name) != length]
            self._objects = now
        else:
            self._objects.update(added)
            for name in removed:
                self._objects.pop(name, None)
        if added or removed:
            self._changes.append((added, removed))
            self._next_change += 1

    def _lease(self, key: dict[str, Any], fetch: bool) -> NativeCachedObject | None:
        """An object for a peer; see `PeerServer`."""
        if "shard" in key:
            return self.shards.lease(key)
        url, etag, modified_ns, length = key["url"], key["etag"], int(key["modified_ns"]), int(key["bytes"])
        if not isinstance(url, str) or not isinstance(etag, str | None) or not isinstance(key["form"], str | None):
            raise TypeError("no key of a file")
        wanted = InputFile(FileKey(url, etag, modified_ns, length), key["form"])
        leased = self._complete(wanted)
        if leased is None and fetch:
            with contextlib.suppress(StorageError, CacheError):
                self.obtain(wanted).close()
                leased = self._complete(wanted)
        return leased

    def _complete(self, wanted: InputFile) -> NativeCachedObject | None:
        """An object that is complete here, pinned."""
        with self._lock:
            # Only what is there is pinned: pinning what is not would create it.
            length = self._objects.get(wanted.name)
            if length is None:
                self._refresh()
                length = self._objects.get(wanted.name)
        if length is None:
            return None
        try:
            cached = self._cache.pin_file(*wanted.cached[:3], length)
            if not cached.missing(0, length):
                return cached
            cached.close()
        except CacheError:
            pass
        return None

    def _obtain_file(self, wanted: InputFile) -> LocalFile:
        cached = self._cache.pin_file(*wanted.key)
        try:
            origin = self._fetcher.fill(cached, wanted)
        except BaseException:
            cached.close()
            raise
        return LocalFile(cached.path, origin, wanted.key.bytes, cached.close)

    def _obtain_form(self, wanted: InputFile) -> LocalFile:
        with self._lock:
            making = self._making.setdefault(wanted.name, threading.Lock())
        with making:
            cached = self._complete(wanted)
            if cached is not None:
                return LocalFile(cached.path, "local", cached.bytes, cached.close)
            for address, fetch in self._fetcher.sources(wanted):
                with contextlib.suppress(PeerError), self.peers.transfer(address, wanted.request(), fetch) as transfer:
                    cached = self._cache.pin_file(*wanted.cached[:3], transfer.bytes)
                    try:
                        self._fetcher.receive(transfer, cached)
                    except BaseException:
                        cached.close()
                        raise
                    if not cached.missing(0, cached.bytes):
                        return LocalFile(cached.path, "peer", cached.bytes, cached.close)
                    cached.close()
            with self.scratch.folder() as folder:
                made = self._make_form(wanted, folder)
                length = made.stat().st_size
                cached = self._cache.pin_file(*wanted.cached[:3], length)
                try:
                    with made.open("rb", buffering=0) as source:
                        self._fetcher.store_from(cached, source)
                    if cached.missing(0, length):
                        raise CacheError(f"{made} could not be cached")
                except BaseException:
                    cached.close()
                    raise
            return LocalFile(cached.path, "storage", length, cached.close)

    def _make_form(self, wanted: InputFile, folder: Path) -> Path:
        assert wanted.form is not None
        source = folder / (Path(wanted.key.url.partition("?")[0]).name or "source")
        made = folder / "form"
        with self._fetcher.storage_slots:
            copy_to(wanted.key, source)
        self._fetcher.count("storage", wanted.key.bytes)
        make = self.forms.get(wanted.form)
        if make is None:
            raise CacheError(f"the form {wanted.form} is not known to this worker")
        make(source, made)
        source.unlink(missing_ok=True)
        if not made.is_file():
            raise RunError(
                f"cache_form= {wanted.form} wrote no file for {shown(wanted.key.url)}; it is called with the path of "
                "the file and the path to write to"
            )
        return made

    def _past_cache(self, wanted: InputFile) -> LocalFile:
        """A copy in scratch, which goes when it is closed."""
        scratch = self.scratch.folder()
        folder = scratch.__enter__()

        def close() -> None:
            scratch.__exit__(None, None, None)

        try:
            if wanted.form is not None:
                path = self._make_form(wanted, folder)
            else:
                path = folder / "file"
                with self._fetcher.storage_slots:
                    copy_to(wanted.key, path)
                self._fetcher.count("storage", wanted.key.bytes)
            return LocalFile(path, "storage", path.stat().st_size, close)
        except BaseException:
            close()
            raise
