"""TCP connections between processes of a cluster, beside those of Dask."""

from __future__ import annotations

import socket

#: Seconds after which a connection whose other side does not answer counts as lost.
UNANSWERED_S = 10


def received(connection: socket.socket, length: int) -> bytes:
    """So many bytes.

    Raises:
        OSError: the connection is lost.
    """
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            raise ConnectionResetError("the other side closed the connection")
        parts += part
    return bytes(parts)


def keep_alive(connection: socket.socket) -> None:
    """Notices a host that is gone without a word."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_S * 1000)
