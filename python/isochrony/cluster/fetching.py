"""Fills objects of a host's cache: from peers, each asked once, then from storage."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors.native import CacheError, StorageChangedError, StorageError, StorageNotFoundError
from .peers import PeerAbsentError, PeerClient, PeerError, block_bytes
from .storage import read_fully, shown, storage_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._native import NativeCachedObject, NativeReservation
    from .input_files import InputFile
    from .peers import Address

#: Seconds without progress after which what another process fetches is read past the cache.
_PROGRESS_S = 60.0
#: Seconds between looks at what another process fetches, at first and at most.
_POLL_S = (0.002, 0.05)
#: Times that a range is asked of storage where its connection breaks.
_STORAGE_ATTEMPTS = 3


class Fetcher:
    """Fetches pieces of objects.

    Parameters:
        peers: transfers from other hosts.
        own: address of this process, which is never asked.
        storage_reads: reads of storage at a time.

    Attributes:
        bytes: that came, by where from: "peer" or "storage".
        storage_slots: taken by each read of storage.
    """

    def __init__(self, peers: PeerClient, own: Address, storage_reads: int) -> None:
        self.peers = peers
        self._own = own
        self.storage_slots = threading.BoundedSemaphore(storage_reads)
        self.bytes: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._local = threading.local()

    def fill(self, cached: NativeCachedObject, wanted: InputFile) -> str:
        """Fetches what is missing; where it came from."""
        origin = "local"
        sources = self.sources(wanted)
        poll, most = _POLL_S
        until, before = time.monotonic() + _PROGRESS_S, -1
        while missing := cached.missing(0, cached.bytes):
            reservation = cached.reserve(0, cached.bytes)
            try:
                if reservation.ranges:
                    origin = self._fetch(cached, reservation, wanted, sources)
                    # Each was tried once.
                    sources = []
                    continue
            finally:
                reservation.close()
            left = sum(stop - start for start, stop in missing)
            if left != before:
                until, before = time.monotonic() + _PROGRESS_S, left
            elif time.monotonic() > until:
                raise CacheError(f"{shown(wanted.key.url)}: another process of this host fetches it without progress")
            time.sleep(poll)
            poll = min(2 * poll, most)
        return origin

    def sources(self, wanted: InputFile) -> list[tuple[Address, bool]]:
        """Peers to ask, and whether each may have to fetch the object first."""
        sources = [(one, False) for one in wanted.sources]
        if wanted.fetcher is not None:
            sources.append((wanted.fetcher, True))
        return [one for one in sources if one[0] != self._own and not self.peers.is_resting(one[0])]

    def receive(self, transfer: Any, cached: NativeCachedObject) -> None:
        """Receives what is missing of an object."""
        reservation = cached.reserve(0, cached.bytes)
        with contextlib.closing(reservation):
            self._receive_ranges(transfer, cached, reservation)

    def store_from(self, cached: NativeCachedObject, source: Any) -> None:
        """Stores a local file that is the whole object."""
        buffer = self._buffer(cached.piece_bytes)
        with contextlib.closing(cached.reserve(0, cached.bytes)) as reservation:
            for start, stop in reservation.ranges:
                source.seek(start)
                while start < stop:
                    length = min(len(buffer), stop - start)
                    if read_fully(source, buffer[:length].data) < length:
                        raise CacheError("a local file became shorter while it was cached")
                    reservation.store(start, buffer[:length])
                    start += length

    def count(self, origin: str, length: int) -> None:
        """Counts bytes that came."""
        with self._lock:
            self.bytes[origin] += length

    def _fetch(
        self,
        cached: NativeCachedObject,
        reservation: NativeReservation,
        wanted: InputFile,
        sources: Sequence[tuple[Address, bool]],
    ) -> str:
        """Fetches what was reserved, from one source after the other."""
        origin = "storage"
        for address, fetch in sources:
            before = sum(stop - start for start, stop in reservation.ranges)
            with contextlib.suppress(PeerError), self.peers.transfer(address, wanted.request(), fetch) as transfer:
                if transfer.bytes != cached.bytes:
                    raise PeerAbsentError(f"{address[0]} has another version of {shown(wanted.key.url)}")
                self._receive_ranges(transfer, cached, reservation)
            left = sum(stop - start for start, stop in reservation.ranges)
            if left < before:
                origin = "peer"
            if not left:
                return origin
        attempts = 1
        while True:
            try:
                self._read_storage(cached, reservation, wanted)
            except (StorageNotFoundError, StorageChangedError):
                raise
            except StorageError:
                # What was stored stays.
                attempts += 1
                if attempts > _STORAGE_ATTEMPTS:
                    raise
                continue
            return origin

    def _read_storage(self, cached: NativeCachedObject, reservation: NativeReservation, wanted: InputFile) -> None:
        storage = storage_of(wanted.key.url)
        for start, stop in reservation.ranges:
            with self.storage_slots, contextlib.closing(storage.open(wanted.key, start, stop)) as stream:
                self._store_range(cached, reservation, start, stop, stream)

    def _receive_ranges(self, transfer: Any, cached: NativeCachedObject, reservation: NativeReservation) -> None:
        buffer = self._buffer(cached.piece_bytes)

        def store(offset: int, length: int) -> None:
            reservation.store(offset, buffer[:length])
            self.count("peer", length)

        for start, stop in reservation.ranges:
            transfer.read(start, stop, buffer, cached.piece_bytes, store)

    def _store_range(
        self, cached: NativeCachedObject, reservation: NativeReservation, start: int, stop: int, stream: Any
    ) -> None:
        buffer = self._buffer(cached.piece_bytes)
        while start < stop:
            length = min(len(buffer), stop - start)
            read = read_fully(stream, buffer[:length].data)
            self.count("storage", read)
            if read < length:
                raise StorageError(f"a file ended {stop - start - read} bytes early in its storage; run again")
            reservation.store(start, buffer[:length])
            start += length

    def _buffer(self, piece_bytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """A block, one for each thread."""
        buffer = getattr(self._local, "buffer", None)
        if buffer is None or len(buffer) != block_bytes(piece_bytes):
            self._local.buffer = buffer = np.empty(block_bytes(piece_bytes), "u1")
        return buffer
