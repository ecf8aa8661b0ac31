"""A link between a receiver and a sender that tests break: it flips, cuts or stalls what the sender says."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class FaultyLink:
    """Forwards connections to an address.

    Parameters:
        target: of the sender.
        fault: "none", "flip" a bit, "cut" the connection, or "stall" it.
        after: bytes of the sender after which it does so.
    """

    def __init__(self, target: tuple[str, int], fault: str, after: int) -> None:
        self._target = target
        self._fault = fault
        self._after = after
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                far = socket.create_connection(self._target)
                self._sockets += [near, far]
                threading.Thread(target=self._forward, args=(near, far, False), daemon=True).start()
                threading.Thread(target=self._forward, args=(far, near, True), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_sender: bool) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := bytearray(source.recv(65536)):
                if is_sender and self._fault != "none" and passed + len(data) > self._after:
                    place = self._after - passed
                    if self._fault == "stall":
                        sink.sendall(data[: max(place, 0)])
                        return
                    if self._fault == "cut":
                        sink.sendall(data[: max(place, 0)])
                        break
                    if place >= 0:
                        data[place] ^= 0x10
                passed += len(data)
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
