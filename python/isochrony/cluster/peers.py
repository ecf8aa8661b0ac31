"""Transfers between the caches of hosts: threads and TCP connections of their own, beside Dask's event loop.

    receiver                                     sender: PeerServer
                          <=======   nonce
      HMAC of it by the cluster's token =======>
                          <=======   accepted
      OPEN: key, whether to fetch it    =======>   pins the object
                          <=======   status, length; WAIT now and then while it fetches it
      READ: start, stop                 =======>
                          <=======   CRC-32, bytes; again for each block

An object is named by its key: its digest is the name in the cache, so no path ever travels. A connection serves any
number of objects, one at a time. The receiver compares the checksum of each block before it stores the block.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import socket
import struct
import threading
import time
import zlib
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import IsochronyError
from ..errors.native import CacheError
from .connections import keep_alive, received
from .storage import shown

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path

Address = tuple[str, int]

TOKEN_BYTES = 32
NONCE_BYTES = 16
ACCEPTED, REFUSED = b"\x01", b"\x02"
OPEN, READ = b"O", b"R"
#: Length of a request's key; largest one.
LENGTH = struct.Struct("<I")
MAX_REQUEST = 64 << 10
RANGE = struct.Struct("<QQ")
#: Status and length of an object.
OPENED = struct.Struct("<BQ")
READY, ABSENT, BUSY, WAIT = range(4)
CHECKSUM = struct.Struct("<I")
#: Bytes that one checksum covers, if pieces are not longer.
BLOCK_BYTES = 4 << 20
#: Connections to one server that a client keeps.
_KEPT_CONNECTIONS = 2
#: Seconds within which an object that the sender fetches by itself is there; it says every `HEARTBEAT_S` that it does.
FETCH_S, HEARTBEAT_S = 120.0, 1.0
#: Seconds for which a peer that failed is left alone, at first and at most.
_BACKOFF_S = (0.5, 30.0)


class PeerError(IsochronyError, OSError):
    """A transfer from a peer did not come to its end; there are other sources."""

    code = "peer"


class PeerAbsentError(PeerError):
    """The peer does not have the object any more, or has no slot free."""

    code = "peer_absent"


class Lease(Protocol):
    """An object that stays in the cache until it is closed."""

    @property
    def path(self) -> Path:
        """Its file."""

    @property
    def bytes(self) -> int:
        """Its length."""

    @property
    def piece_bytes(self) -> int:
        """Length of its pieces."""

    @property
    def name(self) -> str:
        """Its digest."""

    def close(self) -> None:
        """Lets it be evicted."""


def block_bytes(piece_bytes: int) -> int:
    """Bytes that one checksum covers: whole pieces."""
    return max(BLOCK_BYTES // piece_bytes, 1) * piece_bytes


class PeerClient:
    """Receives objects from the caches of other hosts.

    Parameters:
        token: of the cluster.
        slots: transfers at a time.
        per_source: of these, from one host.
        timeout: seconds without progress after which a transfer is given up.
        tls: Dask's, if it has any.
    """

    def __init__(
        self, token: bytes, slots: int, per_source: int, timeout: float, tls: ssl.SSLContext | None = None
    ) -> None:
        self._token = token
        self._slots = threading.BoundedSemaphore(slots)
        self._per_source = per_source
        self._timeout = timeout
        self._tls = tls
        self._lock = threading.Lock()
        self._sources: dict[Address, threading.BoundedSemaphore] = {}
        self._kept: dict[Address, list[socket.socket]] = {}
        #: When a source that failed is tried again, and seconds that it is left alone after the next failure.
        self._rests: dict[Address, tuple[float, float]] = {}
        self.failures = 0

    def is_resting(self, address: Address) -> bool:
        """Whether a source failed a moment ago."""
        return self._rests.get(address, (0.0, 0.0))[0] > time.monotonic()

    @contextlib.contextmanager
    def transfer(self, address: Address, key: dict[str, Any], fetch: bool) -> Any:
        """An object of a peer.

        Parameters:
            address: of the peer.
            key: of the object.
            fetch: has the peer fetch it from storage, and wait for that, if it does not have it.

        Raises:
            PeerError: the peer does not have it, does not answer, or breaks off.
        """
        with self._lock:
            source = self._sources.setdefault(address, threading.BoundedSemaphore(self._per_source))
        with source, self._slots:
            connection: socket.socket | None = None
            try:
                transfer = self._opened(address, key, fetch)
                connection = transfer.connection
                yield transfer
                transfer.end()
            except (PeerAbsentError, CacheError):
                # The peer is well. What is on its way is not read.
                if connection is not None:
                    connection.close()
                raise
            except (OSError, struct.error) as error:
                self._failed(address)
                if connection is not None:
                    connection.close()
                if isinstance(error, PeerError):
                    raise
                raise PeerError(
                    f"the transfer from {address[0]}:{address[1]} broke off ({type(error).__name__}: {error}); other "
                    "sources are tried"
                ) from error
            except BaseException:
                # What is on its way is not read.
                if connection is not None:
                    connection.close()
                raise
            self._rests.pop(address, None)
            self._keep(address, connection)

    def close(self) -> None:
        """Closes what is kept."""
        with self._lock:
            kept = [one for connections in self._kept.values() for one in connections]
            self._kept.clear()
        for connection in kept:
            connection.close()

    def _opened(self, address: Address, key: dict[str, Any], fetch: bool) -> Transfer:
        with self._lock:
            kept = self._kept.get(address)
            connection = kept.pop() if kept else None
        if connection is not None:
            # It may have been closed meanwhile.
            try:
                return self._open(connection, address, key, fetch)
            except ConnectionError:
                connection.close()
            except PeerAbsentError:
                raise
            except BaseException:
                connection.close()
                raise
        connection = self._connect(address)
        try:
            return self._open(connection, address, key, fetch)
        except PeerAbsentError:
            raise
        except BaseException:
            connection.close()
            raise

    def _open(self, connection: socket.socket, address: Address, key: dict[str, Any], fetch: bool) -> Transfer:
        request = json.dumps({"key": key, "fetch": fetch}).encode()
        connection.settimeout(self._timeout)
        connection.sendall(OPEN + LENGTH.pack(len(request)) + request)
        until = time.monotonic() + FETCH_S
        status, length = OPENED.unpack(received(connection, OPENED.size))
        while status == WAIT and time.monotonic() < until:
            status, length = OPENED.unpack(received(connection, OPENED.size))
        if status == WAIT:
            raise PeerError(
                f"{address[0]}:{address[1]} has not fetched {shown(str(key.get('url')))} within {FETCH_S:g} s; "
                "other sources are tried"
            )
        if status not in (READY, ABSENT, BUSY):
            raise PeerError(
                f"{address[0]}:{address[1]} answered {status}, which is not a known status; other sources are tried"
            )
        if status != READY:
            self._keep(address, connection)
            raise PeerAbsentError(
                f"{address[0]}:{address[1]} {'has no slot free for' if status == BUSY else 'does not have'} "
                f"{shown(str(key.get('url')))}; other sources are tried"
            )
        return Transfer(connection, address, length)

    def _connect(self, address: Address) -> socket.socket:
        connection = socket.create_connection(address, timeout=self._timeout)
        try:
            keep_alive(connection)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection)
            connection.sendall(proof(self._token, received(connection, NONCE_BYTES)))
            if received(connection, 1) != ACCEPTED:
                raise PeerError(
                    f"{address[0]}:{address[1]} refused the token of this cluster; it belongs to another attach, or "
                    "another process has the port now"
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def _keep(self, address: Address, connection: socket.socket) -> None:
        with self._lock:
            kept = self._kept.setdefault(address, [])
            if len(kept) < _KEPT_CONNECTIONS:
                kept.append(connection)
                return
        connection.close()

    def _failed(self, address: Address) -> None:
        with self._lock:
            self.failures += 1
            first, most = _BACKOFF_S
            _, rest = self._rests.get(address, (0.0, first))
            self._rests[address] = (time.monotonic() + rest, min(2 * rest, most))


class Transfer:
    """An object that a peer has pinned for us.

    Attributes:
        bytes: its length.
    """

    def __init__(self, connection: socket.socket, address: Address, length: int) -> None:
        self.connection = connection
        self.bytes = length
        self._address = address

    def read(self, start: int, stop: int, buffer: Any, piece_bytes: int, store: Callable[[int, int], None]) -> None:
        """Receives a range, block by block, and has each stored.

        Parameters:
            start, stop: the range.
            buffer: for one block.
            piece_bytes: length of pieces, the same at both sides.
            store: called with the offset of a block, and its length, once it is in the buffer.

        Raises:
            PeerError: a block's bytes are not those that were sent.
            OSError: the connection broke.
        """
        step = block_bytes(piece_bytes)
        self.connection.sendall(READ + RANGE.pack(start, stop))
        while start < stop:
            view = memoryview(buffer)[: min(step, stop - start)]
            (expected,) = CHECKSUM.unpack(received(self.connection, CHECKSUM.size))
            filled = 0
            while filled < len(view):
                count = self.connection.recv_into(view[filled:])
                if not count:
                    raise ConnectionResetError(f"the peer closed the connection {len(view) - filled} bytes early")
                filled += count
            if (found := zlib.crc32(view)) != expected:
                raise PeerError(
                    f"bytes {start}-{start + len(view) - 1} from {self._address[0]}:{self._address[1]} have the CRC-32 "
                    f"{found:08x}, not {expected:08x}; other sources are tried"
                )
            store(start, len(view))
            start += len(view)

    def end(self) -> None:
        """Has the peer let go of the object."""
        nothing = json.dumps(None).encode()
        self.connection.sendall(OPEN + LENGTH.pack(len(nothing)) + nothing)


def proof(token: bytes, nonce: bytes) -> bytes:
    """What only who knows the token can answer."""
    return hmac.digest(token, nonce, "sha256")
