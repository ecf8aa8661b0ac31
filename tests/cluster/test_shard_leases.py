"""What a host answers to another one that asks for pieces of a shard: those that it has, or fetches at this moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from isochrony._native import open_cache
from isochrony.cluster import shards
from isochrony.cluster.shards import ShardHost

PIECE, PIECES = 1 << 16, 4
KEY = ("ab" * 16, 1, 2, 3)
#: Addresses, the second one is asked.
LOWER, OWN, HIGHER = ("10.0.0.1", 1), ("10.0.0.2", 1), ("10.0.0.3", 1)


class Transfer:
    """Gives pieces of sevens."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, start: int, stop: int, into: Any, *_: object) -> None:
        into[: stop - start] = 7


class Peers:
    """Other hosts, which are asked until `answers` is set. Those in `owners` have everything, the others nothing."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.owners: set[tuple[str, int]] = set()

    def is_resting(self, _: object) -> bool:
        return False

    def transfer(self, address: tuple[str, int], *_: object) -> Transfer:
        from isochrony.cluster.peers import PeerAbsentError

        self.asked.set()
        assert self.answers.wait(10)
        if address in self.owners:
            return Transfer()
        raise PeerAbsentError("it has nothing")


class FileCache:
    """A cache that has a file instead of the shard: Python creates no shards."""

    def __init__(self, folder: Path) -> None:
        self._cache = open_cache(folder, 64 << 20, "lru", PIECE)
        self.info, self.shards = self._cache.info, self._cache.shards

    def pin_shard(self, *_: object) -> Any:
        return self._cache.pin_file("a shard", "tag", 0, PIECES * PIECE)

    pin_existing_shard = pin_shard


@pytest.fixture
def host(tmp_path: Path) -> Iterator[tuple[ShardHost, Any, Peers]]:
    """A host, its cached shard, of which nothing is present, and its peers."""
    cache: Any = FileCache(tmp_path / "cache")
    peers = Peers()
    host = ShardHost(cache, "cache", peers, OWN, lambda *_: None)
    cached = cache.pin_shard()
    yield host, cached, peers
    peers.answers.set()
    cached.close()
    host.close()


def request(piece: int, asking: tuple[str, int]) -> dict[str, Any]:
    """As it comes from a peer: what was a tuple is a list."""
    ranges = [[piece * PIECE, (piece + 1) * PIECE]]
    return {"shard": list(KEY), "bytes": PIECES * PIECE, "ranges": ranges, "address": list(asking)}


def timed(host: ShardHost, piece: int, asking: tuple[str, int]) -> tuple[bool, float]:
    """Whether the host has a piece for a peer, and seconds until it said so."""
    begun = time.monotonic()
    lease = host.lease(request(piece, asking))
    if lease is not None:
        lease.close()
    return lease is not None, time.monotonic() - begun


def test_what_nobody_fetches_is_not_waited_for(host: Any) -> None:
    found, seconds = timed(host[0], 0, HIGHER)
    assert not found and seconds < 1


def test_what_is_read_from_the_store_is_waited_for(host: Any) -> None:
    own, cached, _ = host
    reservation = cached.reserve(0, PIECE)

    def fetch() -> None:
        time.sleep(0.4)
        reservation.store(0, np.zeros(PIECE, "u1"))

    thread = threading.Thread(target=fetch)
    thread.start()
    for asking in (LOWER, HIGHER):
        found, _ = timed(own, 0, asking)
        assert found
    thread.join()
    reservation.close()


def test_a_fetch_that_fails_or_takes_long_is_not_waited_for(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own, cached, _ = host
    reservation = cached.reserve(0, PIECE)
    threading.Timer(0.3, reservation.close).start()
    found, seconds = timed(own, 0, HIGHER)
    assert not found and 0.2 < seconds < 1.5
    monkeypatch.setattr(shards, "_FETCH_WAIT_S", 0.2)
    reservation = cached.reserve(0, PIECE)
    found, seconds = timed(own, 0, HIGHER)
    assert not found and seconds < 1.5
    reservation.close()


def test_of_two_hosts_that_ask_each_other_only_the_one_with_the_higher_address_waits(host: Any) -> None:
    own, cached, peers = host
    reservation = cached.reserve(PIECE, 3 * PIECE)
    fetched: list[Any] = []

    def fetch() -> None:
        fetched.extend(own._fetch(KEY, PIECES * PIECE, [(PIECE, 3 * PIECE)], [HIGHER]))
        # Nobody had it, so the store is read.
        reservation.store(PIECE, np.zeros(2 * PIECE, "u1"))

    thread = threading.Thread(target=fetch)
    thread.start()
    assert peers.asked.wait(5)
    for piece in (1, 2):
        found, seconds = timed(own, piece, LOWER)
        assert not found and seconds < 1, "that host reads the store now"
    threading.Timer(0.3, peers.answers.set).start()
    found, _ = timed(own, 2, HIGHER)
    assert found
    thread.join()
    assert not fetched and not own._asking
    reservation.close()


def test_a_host_that_got_nothing_is_asked_once_the_others_have_nothing(host: Any) -> None:
    own, _, peers = host
    peers.owners.add(LOWER)
    fetched: dict[int, Any] = {}

    def fetch() -> None:
        for start, block in own._fetch(KEY, PIECES * PIECE, [(0, 2 * PIECE)], [HIGHER]):
            fetched[start] = block.copy()

    thread = threading.Thread(target=fetch)
    thread.start()
    assert peers.asked.wait(5)
    found, _ = timed(own, 1, LOWER)
    assert not found, "that host reads the store now"
    peers.answers.set()
    thread.join()
    # It wanted the second piece only; the first one is read from the store.
    assert list(fetched) == [PIECE] and (fetched[PIECE] == 7).all()
    assert not own._asking and not own._refused
