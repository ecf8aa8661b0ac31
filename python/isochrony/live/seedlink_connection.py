"""A connection to a SeedLink server (version 3), on which packets of one channel come."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .seedlink_channel import Channel

__all__ = ["BrokenError", "Connection"]

# A packet is "SL", six hexadecimal digits, and a record.
_HEAD, _RECORD = 8, 512
# Longest answer to a command.
_LINE = 1024
# A socket is looked at again after so many seconds, so that a run that ends is noticed.
_LOOK = 0.25
# Seconds for a connection, and for an answer.
_ANSWER = 20.0
# After so long without a packet the server is asked for a sign of life, and after so long without that given up.
_QUIET, _GONE = 30.0, 90.0


class BrokenError(Exception):
    """The connection cannot be used any further."""


class Connection:
    """A connection on which packets of a channel come; all that waits looks at `stop` every quarter of a second."""

    def __init__(self, channel: Channel, after: int | None, stop: threading.Event) -> None:
        self._stop = stop
        try:
            self._socket = _connected(channel.host, channel.port, stop)
        except OSError as error:
            raise BrokenError(f"cannot be reached: {error}") from error
        self._bytes = bytearray()
        self._heard = self._asked = time.monotonic()
        try:
            self._greet(channel, after)
        except BaseException:
            self.close()
            raise

    def _greet(self, channel: Channel, after: int | None) -> None:
        hello = self._ask("HELLO")
        if "SEEDLINK" not in hello.upper():
            raise BrokenError(f"is not at a SeedLink server: the server answers {hello[:60]!r} to HELLO")
        self._line()
        go_on = "" if after is None else f" {(after + 1) & 0xFFFFFF:06X}"
        for command in (
            f"STATION {channel.station} {channel.network}",
            f"SELECT {channel.location or '--'}{channel.channel}.D",
            f"DATA{go_on}",
        ):
            answer = self._ask(command)
            if answer != "OK":
                raise BrokenError(f"is refused: the server answers {answer[:60]!r} to {command}")
        self._send("END")

    def _send(self, command: str) -> None:
        try:
            self._socket.sendall(f"{command}\r".encode())
        except OSError as error:
            raise BrokenError(f"is interrupted: the server closed the connection ({error})") from error

    def _ask(self, command: str) -> str:
        self._send(command)
        return self._line()

    def _line(self) -> str:
        until = time.monotonic() + _ANSWER
        while b"\n" not in self._bytes:
            if len(self._bytes) > _LINE or time.monotonic() > until:
                raise BrokenError("is not at a SeedLink server: the server sends no line as answer")
            self._more()
        line, _, rest = self._bytes.partition(b"\n")
        self._bytes = bytearray(rest)
        return line.decode("ascii", "replace").strip()

    def _more(self) -> bool:
        """Reads what there is; whether there was anything."""
        _wanted(self._stop)
        try:
            piece = self._socket.recv(1 << 16)
        except TimeoutError:
            return False
        except OSError as error:
            raise BrokenError(f"is interrupted: the server closed the connection ({error})") from error
        if not piece:
            raise BrokenError("is interrupted: the server closed the connection")
        self._bytes += piece
        self._heard = time.monotonic()
        return True

    def packet(self) -> tuple[int, bytes] | None:
        """The next packet's sequence number and record; None if none came within about a quarter of a second."""
        while True:
            if len(self._bytes) >= _HEAD + _RECORD:
                head = bytes(self._bytes[:_HEAD])
                record = bytes(self._bytes[_HEAD : _HEAD + _RECORD])
                if head.startswith(b"SLINFO"):
                    del self._bytes[: _HEAD + _RECORD]
                    return None
                try:
                    sequence = int(head[2:], 16) if head.startswith(b"SL") else -1
                except ValueError:
                    sequence = -1
                if sequence < 0:
                    raise BrokenError(f"has broken data: the server sent {head!r} where a packet should begin")
                del self._bytes[: _HEAD + _RECORD]
                return sequence, record
            if self._bytes.startswith(b"END"):
                raise BrokenError("has no more data: the server ended the connection")
            if not self._more():
                now = time.monotonic()
                if now - self._heard > _GONE:
                    raise BrokenError(f"is silent: the server sent nothing for {_GONE:.0f} s")
                if now - max(self._heard, self._asked) > _QUIET:
                    self._asked = now
                    self._send("INFO ID")
                return None

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def _connected(host: str, port: int, stop: threading.Event) -> socket.socket:
    """A socket that is connected: to the first of a host's addresses that answers."""
    known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failed: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in known:
        made = socket.socket(family, kind, protocol)
        try:
            _connect(made, address, _ANSWER / len(known), stop)
        except OSError as error:
            made.close()
            failed = error
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failed


def _connect(made: socket.socket, address: Any, seconds: float, stop: threading.Event) -> None:
    until = time.monotonic() + seconds
    made.setblocking(False)
    with selectors.DefaultSelector() as ready:
        with contextlib.suppress(BlockingIOError):
            made.connect(address)
        ready.register(made, selectors.EVENT_WRITE)
        while not ready.select(_LOOK):
            _wanted(stop)
            if time.monotonic() > until:
                raise TimeoutError(
                    f"host {address[0]}, port {address[1]}, accepted no connection within {seconds:.0f} s"
                )
    failed = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failed:
        raise OSError(failed, os.strerror(failed))
    made.settimeout(_LOOK)


def _wanted(stop: threading.Event) -> None:
    if stop.is_set():
        raise BrokenError("was closed, because the plan that read it ended")
