"""The sending side of transfers between caches; `peers` has the protocol and the receiving side."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import socket
import ssl
import struct
import threading
import time
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from .connections import keep_alive, received
from .peers import (
    ABSENT,
    ACCEPTED,
    BUSY,
    CHECKSUM,
    HEARTBEAT_S,
    LENGTH,
    MAX_REQUEST,
    NONCE_BYTES,
    OPEN,
    OPENED,
    RANGE,
    READ,
    READY,
    REFUSED,
    WAIT,
    block_bytes,
    proof,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .peers import Address, Lease

#: Connections at a time.
_MAX_CONNECTIONS = 512
#: Seconds after which accepting is tried again, such as where no file can be opened.
_ACCEPT_RETRY_S = 0.05
#: Seconds for which a request waits for a sending slot before it is answered that there is none.
_SLOT_WAIT_S = 0.5
#: Seconds after which a connection that is not used is closed.
_IDLE_S = 60.0
#: Bytes that are encrypted at a time.
_TLS_BYTES = 1 << 20
#: Checksums of blocks that are kept.
_KEPT_CHECKSUMS = 1 << 16


class PeerServer:
    """Sends objects of this host's cache to others.

    Parameters:
        host: address to listen at.
        token: of the cluster.
        lease: pins an object by its key; None: it is not here. The flag says to fetch it then.
        slots: transfers at a time.
        timeout: seconds without progress after which a connection is given up.
        tls: Dask's, if it has any.
    """

    def __init__(
        self,
        host: str,
        token: bytes,
        lease: Callable[[dict[str, Any], bool], Lease | None],
        slots: int,
        timeout: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._token = token
        self._lease = lease
        self._slots = threading.BoundedSemaphore(slots)
        self._timeout = timeout
        self._tls = tls
        self._checksums: OrderedDict[tuple[str, int, int], int] = OrderedDict()
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._listener = socket.create_server((host, 0), backlog=_MAX_CONNECTIONS)
        self.address: Address = (host, self._listener.getsockname()[1])
        self._is_closed = False
        self.sent_bytes = 0
        self.refused = 0
        threading.Thread(target=self._accept, name="isochrony-peers", daemon=True).start()

    def close(self) -> None:
        """Ends all transfers."""
        self._is_closed = True
        listener = self._listener
        with contextlib.suppress(OSError):
            # Wakes the thread that accepts.
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        listener = self._listener
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                if self._is_closed:
                    return
                # Such as too many open files: others are accepted once there is room.
                time.sleep(_ACCEPT_RETRY_S)
                continue
            with self._lock:
                is_full = len(self._connections) >= _MAX_CONNECTIONS
                if not is_full:
                    self._connections.add(connection)
            if is_full:
                connection.close()
                continue
            thread = threading.Thread(target=self._serve, args=(connection,), name="isochrony-peer", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                with self._lock:
                    self._connections.discard(connection)
                connection.close()

    def _serve(self, plain: socket.socket) -> None:
        connection = plain
        try:
            plain.settimeout(self._timeout)
            keep_alive(plain)
            if self._tls is not None:
                connection = self._tls.wrap_socket(plain, server_side=True)
                with self._lock:
                    # The plain one has no descriptor any more.
                    self._connections.discard(plain)
                    self._connections.add(connection)
            nonce = secrets.token_bytes(NONCE_BYTES)
            connection.sendall(nonce)
            if not hmac.compare_digest(received(connection, hashlib.sha256().digest_size), proof(self._token, nonce)):
                self.refused += 1
                connection.sendall(REFUSED)
                return
            connection.sendall(ACCEPTED)
            self._answer(connection)
        # A broken connection is the receiver's concern, and a request that makes no sense is not answered.
        except (OSError, ValueError, KeyError, TypeError, struct.error):
            pass
        finally:
            with self._lock:
                self._connections -= {plain, connection}
            connection.close()

    def _answer(self, connection: socket.socket) -> None:
        lease: Lease | None = None
        holds_slot = False
        try:
            while True:
                connection.settimeout(_IDLE_S if lease is None else self._timeout)
                kind = received(connection, 1)
                connection.settimeout(self._timeout)
                if kind == READ:
                    start, stop = RANGE.unpack(received(connection, RANGE.size))
                    if lease is None or not start <= stop <= lease.bytes:
                        return
                    self._send(connection, lease, start, stop)
                    continue
                if lease is not None:
                    lease.close()
                    lease = None
                if holds_slot:
                    self._slots.release()
                    holds_slot = False
                if kind != OPEN:
                    return
                (length,) = LENGTH.unpack(received(connection, LENGTH.size))
                if length > MAX_REQUEST:
                    return
                request = json.loads(received(connection, length))
                # No key: the receiver is done with the object and keeps the connection.
                if request is None:
                    continue
                lease = self._lease(request["key"], False)
                if lease is None and request["fetch"]:
                    lease = self._fetched(connection, request["key"])
                if lease is None:
                    connection.sendall(OPENED.pack(ABSENT, 0))
                    continue
                holds_slot = self._slots.acquire(timeout=_SLOT_WAIT_S)
                if not holds_slot:
                    lease.close()
                    lease = None
                    connection.sendall(OPENED.pack(BUSY, 0))
                    continue
                connection.sendall(OPENED.pack(READY, lease.bytes))
        finally:
            if lease is not None:
                lease.close()
            if holds_slot:
                self._slots.release()

    def _fetched(self, connection: socket.socket, key: dict[str, Any]) -> Lease | None:
        """Fetches an object, and says meanwhile that it does: a receiver gives up a peer that says nothing."""
        leases: list[Lease | None] = []
        done = threading.Event()

        def fetch() -> None:
            try:
                leases.append(self._lease(key, True))
            finally:
                done.set()

        threading.Thread(target=fetch, name="isochrony-fetch", daemon=True).start()
        try:
            while not done.wait(min(HEARTBEAT_S, self._timeout / 3)):
                connection.sendall(OPENED.pack(WAIT, 0))
        except OSError:
            done.wait()
            for lease in leases:
                if lease is not None:
                    lease.close()
            raise
        return leases[0] if leases else None

    def _send(self, connection: socket.socket, lease: Lease, start: int, stop: int) -> None:
        step = block_bytes(lease.piece_bytes)
        with lease.path.open("rb") as file:
            while start < stop:
                length = min(step, stop - start)
                connection.sendall(CHECKSUM.pack(self._checksum(file, lease.name, start, length)))
                _send_range(connection, file, start, length)
                with self._lock:
                    self.sent_bytes += length
                start += length

    def _checksum(self, file: Any, name: str, start: int, length: int) -> int:
        """Of a block, computed once: pieces of an object never change."""
        place = (name, start, length)
        with self._lock:
            known = self._checksums.get(place)
        if known is None:
            file.seek(start)
            known = zlib.crc32(file.read(length))
            with self._lock:
                self._checksums[place] = known
                while len(self._checksums) > _KEPT_CHECKSUMS:
                    self._checksums.popitem(last=False)
        return known


def _send_range(connection: socket.socket, file: Any, start: int, length: int) -> None:
    """Sends a part of a file.

    Raises:
        OSError: the connection is lost, or the file is shorter.
    """
    if isinstance(connection, ssl.SSLSocket):
        # Its `sendfile` reads 8 KiB at a time, from where the file happens to be if the start is 0.
        file.seek(start)
        sent = 0
        while sent < length and (part := file.read(min(_TLS_BYTES, length - sent))):
            connection.sendall(part)
            sent += len(part)
    else:
        sent = connection.sendfile(file, start, length)
    if sent < length:
        raise OSError(f"the file ended {length - sent} bytes early")
