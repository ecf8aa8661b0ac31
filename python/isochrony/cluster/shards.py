"""Signals through the caches of hosts: what places tasks on a client, and what a worker's stores read through.

A worker of an attached cluster opens the stores of plans with a `NativeShardCache`. What its host's cache lacks comes
from hosts that the client named for the task, then from the store. Native code compares all of it with the checksums of
the store, so what a peer sends need not be believed.

Tasks on two hosts may read the same piece, such as where one ends and the next begins. The later one names the host of
the earlier one, which need not have begun with the piece when it is asked:

    the peer ...                       then it answers
    has the piece                      with it
    fetches it from the store          with it, as soon as it is there
    asks other hosts for it, too       as above if its address is the lower one, else that it has nothing; when these
                                       have nothing, it asks who asked
    has not begun with it              that it has nothing; when it needs the piece, it asks who asked

So that one of both reads the store.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .._native import NativeCache, NativeCachedObject, NativeShardCache

#: Ranges that a peer is asked for at a time.
_MAX_RANGES = 256
#: Seconds for which a peer waits for pieces that this host fetches from the store, and between looks at them.
_FETCH_WAIT_S, _FETCH_POLL_S = 2.0, 0.005

Address = tuple[str, int]
#: Store's uuid in hex, signal, shard, content version.
ShardKey = tuple[str, int, int, int]
#: Of a shard: its first byte.
Piece = tuple[ShardKey, int]


@dataclass(frozen=True)
class ShardPlacement:
    """How tasks of plans are placed on an attached cluster.

    Attributes:
        attachment: its name.
        policy: that places tasks.
        max_wait: seconds after which the oldest task goes to any free slot.
        max_replicas: copies of a shard from which ``good-cache-compute`` gives tasks that read it to no host without
            any of their bytes, unless they have waited long.
    """

    attachment: str
    policy: str
    max_wait: float = 1.0
    max_replicas: int = 4

    @property
    def options(self) -> tuple[str, float, int]:
        """For the dispatcher of tasks."""
        return self.policy, self.max_wait, self.max_replicas


#: Of attached clusters, by the address of their scheduler.
_PLACEMENTS: dict[str, ShardPlacement] = {}


def place_shards(scheduler: str, placement: ShardPlacement | None) -> None:
    """Places tasks of plans on this cluster by data from now on; None: as without caches."""
    if placement is None:
        _PLACEMENTS.pop(scheduler, None)
    else:
        _PLACEMENTS[scheduler] = placement


def placement_of(client: Any) -> ShardPlacement | None:
    """How tasks are placed on the cluster of a client."""
    return _PLACEMENTS.get(str(client.scheduler.address))


def shards_of(attachment: str) -> NativeShardCache:
    """What stores of this worker are read through.

    Raises:
        RunError: the attachment was closed.
    """
    from .cache_plugin import host_cache

    return host_cache(attachment).shards.native


class ShardHost:
    """Shards of signals in the cache of a worker's host.

    Parameters:
        cache: of the host.
        name: of the cache, which tells it from others.
        peers: transfers from other hosts: a `PeerClient`.
        address: at which other hosts reach this process.
        count: called with "peer" and the number of bytes that came.

    Attributes:
        native: what stores read through.
    """

    def __init__(
        self, cache: NativeCache, name: str, peers: Any, address: Address, count: Callable[[str, int], None]
    ) -> None:
        self._cache = cache
        self._peers = peers
        self._address = address
        self._count = count
        self._piece_bytes = int(cache.info()["piece_bytes"])
        self._lock = threading.Lock()
        #: Shards and pieces that other hosts are asked for at the moment.
        self._asking: Counter[Piece] = Counter()
        #: Hosts that wanted these meanwhile and got nothing: they read the store.
        self._refused: defaultdict[Piece, set[Address]] = defaultdict(set)
        self.native = cache.shards(name, address, self._fetch)

    def close(self) -> None:
        """Ends fetching, and lets all be evicted that nobody reads."""
        self.native.close()

    def lease(self, key: dict[str, Any]) -> NativeCachedObject | None:
        """A shard for another host, pinned, if the ranges that it asks for are present, or are about to be."""
        store, signal, shard, version = bytes.fromhex(key["shard"][0]), *(int(one) for one in key["shard"][1:])
        length, ranges = int(key["bytes"]), [(int(start), int(stop)) for start, stop in key["ranges"]]
        host, port = key["address"]
        asking = (str(host), int(port))
        if len(ranges) > _MAX_RANGES:
            raise ValueError("too many ranges")
        from ..errors.native import CacheError

        # Before it is looked what is here: who begins to fetch it after that, asks who asked.
        self.native.add_source(store, signal, shard, version, asking)
        try:
            cached = self._cache.pin_existing_shard(store, signal, shard, version, length)
        except CacheError:
            return None
        if cached is None:
            return None
        try:
            if cached.bytes == length and self._wait(cached, (key["shard"][0], signal, shard, version), ranges, asking):
                return cached
        except CacheError:
            pass
        cached.close()
        return None

    def _wait(
        self, cached: NativeCachedObject, key: ShardKey, ranges: Sequence[tuple[int, int]], asking: Address
    ) -> bool:
        """Whether ranges are present, once who fetches them now has done so."""
        until = time.monotonic() + _FETCH_WAIT_S
        while missing := [part for start, stop in ranges for part in cached.missing(start, stop)]:
            if time.monotonic() > until or not all(self._is_fetched(cached, key, part, asking) for part in missing):
                return False
            time.sleep(_FETCH_POLL_S)
        return True

    def _is_fetched(self, cached: NativeCachedObject, key: ShardKey, part: tuple[int, int], asking: Address) -> bool:
        """Whether pieces are about to be present, and a peer may wait for them."""
        pieces = [(key, start) for start in range(*part, self._piece_bytes)]
        with self._lock:
            asked = [piece for piece in pieces if piece in self._asking]
            if asked and not self._address < asking:
                # Both would wait for each other.
                for piece in asked:
                    self._refused[piece].add(asking)
                return False
        with contextlib.closing(cached.reserve(*part)) as reservation:
            return not reservation.ranges

    def _fetch(
        self, key: ShardKey, length: int, missing: Sequence[tuple[int, int]], sources: Sequence[Address]
    ) -> Iterator[tuple[int, np.ndarray[Any, np.dtype[np.uint8]]]]:
        """Blocks of what is missing, from one peer after the other."""
        piece = self._piece_bytes
        # A peer may have some pieces only, so each is asked for on its own.
        pieces = [(start, min(stop, start + piece)) for first, stop in missing for start in range(first, stop, piece)]
        left, asked = dict(pieces), [(key, start) for start, _ in pieces]
        tried: set[tuple[Address, int]] = set()
        with self._lock:
            self._asking.update(asked)
        try:
            while True:
                for start, block in self._ask(key, length, pieces, sources):
                    del left[start]
                    yield start, block
                refused = self._refused_since(asked, left, tried)
                if refused is None:
                    return
                pieces, sources = refused
        finally:
            with self._lock:
                self._end_asking(asked)

    def _refused_since(
        self, asked: list[Piece], left: dict[int, int], tried: set[tuple[Address, int]]
    ) -> tuple[list[tuple[int, int]], list[Address]] | None:
        """Pieces that are left, and a host to ask for them that got nothing of them here. None: there is no such host,
        and from now on none is refused.
        """
        with self._lock:
            hosts: defaultdict[Address, list[int]] = defaultdict(list)
            for piece in asked:
                for host in self._refused.get(piece, ()):
                    if piece[1] in left and (host, piece[1]) not in tried:
                        hosts[host].append(piece[1])
            if not hosts:
                self._end_asking(asked)
                return None
        host, starts = min(hosts.items())
        tried.update((host, start) for start in starts)
        return [(start, left[start]) for start in starts], [host]

    def _end_asking(self, asked: list[Piece]) -> None:
        self._asking.subtract(asked)
        for piece in asked:
            if self._asking[piece] <= 0:
                del self._asking[piece]
                self._refused.pop(piece, None)
        asked.clear()

    def _ask(
        self, key: ShardKey, length: int, pieces: list[tuple[int, int]], sources: Sequence[Address]
    ) -> Iterator[tuple[int, np.ndarray[Any, np.dtype[np.uint8]]]]:
        from .peers import PeerError, block_bytes

        piece, left = self._piece_bytes, pieces
        buffer = np.empty(block_bytes(piece), "u1")
        for address in sources:
            kept, left = left, []
            for number, (start, stop) in enumerate(kept):
                if address == self._address or self._peers.is_resting(address):
                    left += kept[number:]
                    break
                request = {
                    "url": f"shard {key[2]} of signal {key[1]}",
                    "shard": key,
                    "bytes": length,
                    "ranges": [(start, stop)],
                    "address": self._address,
                }
                try:
                    with self._peers.transfer(address, request, False) as transfer:
                        transfer.read(start, stop, buffer, piece, lambda _offset, _length: None)
                except PeerError:
                    left.append((start, stop))
                    continue
                self._count("peer", stop - start)
                yield start, buffer[: stop - start]
