"""A small SeedLink server (version 3) that does what tests ask of it: one channel, one connection after the other."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import obspy

START = obspy.UTCDateTime("2026-01-01T00:00:00")


def records(
    samples: np.ndarray, rate: float = 100.0, start: obspy.UTCDateTime = START, channel: str = "BHZ", **options: Any
) -> list[bytes]:
    """Samples as records of 512 bytes, made by ObsPy."""
    header = {"network": "XX", "station": "TEST", "channel": channel, "sampling_rate": rate, "starttime": start}
    trace = obspy.Trace(np.ascontiguousarray(samples), header)
    file = io.BytesIO()
    trace.write(file, format="MSEED", reclen=512, **options)
    content = file.getvalue()
    return [content[at : at + 512] for at in range(0, len(content), 512)]


class Server:
    """Serves packets by a script: what each connection sends, as pairs of a sequence number and bytes.

    Parameters:
        script: called with the number of the connection, from 0, and the sequence number it asked for, if any; gives
            packets, or bytes that are sent as they are; when it ends the connection is closed.
    """

    def __init__(self, script: Callable[[int, int | None], Iterator[tuple[int, bytes] | bytes]]) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.asked: list[str] = []
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def address(self, channel: str = "XX.TEST..BHZ") -> str:
        return f"seedlink://127.0.0.1:{self.port}/{channel}"

    def close(self) -> None:
        # A thread that waits in accept() does not notice that its socket is closed.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number, self.connections = self.connections, self.connections + 1
            with connection:
                try:
                    after = self._greet(connection)
                    for packet in self._script(number, after):
                        head = b"" if isinstance(packet, bytes) else b"SL%06X" % packet[0]
                        connection.sendall(head + (packet if isinstance(packet, bytes) else packet[1]))
                except OSError:
                    pass

    def _greet(self, connection: socket.socket) -> int | None:
        after = None
        waiting = b""
        while True:
            piece = connection.recv(100)
            if not piece:
                raise ConnectionError
            waiting += piece
            while b"\r" in waiting:
                line, _, waiting = waiting.partition(b"\r")
                command = line.decode().strip()
                self.asked.append(command)
                if command == "HELLO":
                    connection.sendall(b"SeedLink v3.1 (test)\r\nA test\r\n")
                elif command == "END":
                    return after
                elif command.startswith("SELECT") and "NO" in command:
                    connection.sendall(b"ERROR\r\n")
                else:
                    if command.startswith("DATA "):
                        after = int(command.split()[1], 16)
                    connection.sendall(b"OK\r\n")


@contextmanager
def serving(script: Callable[[int, int | None], Iterator[tuple[int, bytes] | bytes]]) -> Iterator[Server]:
    server = Server(script)
    try:
        yield server
    finally:
        server.close()
