"""Links to parts of a plan on other hosts, ``plan.on(HOST)``: the client connects to the host over TCP.

    client                                         worker of that name
    HostLink: connects, again after a loss         HostActor: runs the part of the plan, serves one connection
      token, last message that arrived   =======>
      number, length, message            <=======
      number of the last message read    =======>

Messages are numbered by the runtime, which also keeps them until they are read. A connection is accepted by the token
of the run, which came by way of Dask, and is encrypted as Dask's own where that uses TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import select
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors.native import RunError
from .connections import keep_alive, received
from .worker import Settings, localized, module_error, version_error

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from .._native import NativeHostInbox, NativeHostRun

#: Seconds for which a host that is lost may come back, and for which a host keeps what a client that is gone reads.
LOST_TIMEOUT_S = 60.0
#: Seconds between attempts to connect, at first and at most.
_RETRY_S = (0.05, 1.0)
#: Seconds within which a connection is made, and an answer comes.
_CONNECT_S = 5.0
#: Seconds after which a thread that waits checks whether it has to end.
_WAIT_S = 0.1
#: Seconds for which a side waits for the other before it looks whether it has something to send.
_POLL_S = 0.02

_TOKEN_BYTES = 32
#: Token, window in bytes, last message that arrived.
_HELLO = struct.Struct(f"<{_TOKEN_BYTES}sQQ")
#: Number and length of a message.
_HEADER = struct.Struct("<QQ")
_NUMBER = struct.Struct("<Q")
#: What a host answers to a client.
_ACCEPTED, _REFUSED, _TOO_LATE = b"\x01", b"\x02", b"\x03"


class HostLink:
    """The client's side of one host: a thread that starts the part of the plan there and receives what it sends.

    Parameters:
        host: name or address of the worker.
        form: of the plan.
        start: has the worker of this name start a form, with the number of the first message and a token.
        inbox: takes the messages.
    """

    def __init__(
        self, host: str, form: str, start: Callable[[str, int, bytes], HostServer], inbox: NativeHostInbox
    ) -> None:
        self.host = host
        self.connections = 0
        #: What was lost, for the report.
        self.losses: list[str] = []
        self._form = form
        self._start = start
        self._inbox = inbox
        self._token = secrets.token_bytes(_TOKEN_BYTES)
        self._stopped = threading.Event()
        # In the caller's thread, so that what cannot start is an error at once.
        self._server = start(form, 1, self._token)
        self._thread = threading.Thread(target=self._receive, name="isochrony-host", daemon=True)
        self._thread.start()

    @property
    def received_bytes(self) -> int:
        """Bytes of all messages that arrived."""
        return self._inbox.received_bytes

    def stop(self) -> None:
        """Ends it."""
        self._stopped.set()

    def close(self) -> None:
        """Ends it, and what runs on the host."""
        self.stop()
        self._thread.join()
        self._server.close()

    def _receive(self) -> None:
        try:
            while not self._is_done():
                try:
                    self._connect_once()
                except _TooLateError:
                    raise
                except OSError:
                    if not self._server.is_alive():
                        self._restart()
        except Exception as error:
            if not self._stopped.is_set():
                self._inbox.fail(error)

    def _is_done(self) -> bool:
        return self._stopped.is_set() or self._inbox.is_done()

    def _connect_once(self) -> None:
        """Receives messages over one connection.

        Raises:
            OSError: it is lost.
            _TooLateError: the host does not keep what follows the last message any more.
        """
        with self._connected() as connection:
            read = self._inbox.arrived
            connection.sendall(_HELLO.pack(self._token, self._inbox.window, read))
            answer = received(connection, 1)
            if answer == _TOO_LATE:
                raise _TooLateError(
                    f"the worker {self.host} has dropped the results after message {read}; run the plan again"
                )
            if answer != _ACCEPTED:
                raise RunError(
                    f"the worker {self.host} refused the connection to {self._server.address}: another run has this "
                    "port now; run the plan again"
                )
            self.connections += 1
            told = read
            while not self._is_done():
                if _is_readable(connection, _POLL_S):
                    number, length = _HEADER.unpack(received(connection, _HEADER.size))
                    self._inbox.push(number, received(connection, length))
                now = self._inbox.read_after(told, 0.0)
                if now is not None:
                    told = now
                    connection.sendall(_NUMBER.pack(told))

    def _connected(self) -> socket.socket:
        retry, most = _RETRY_S
        until = time.monotonic() + LOST_TIMEOUT_S
        while True:
            try:
                return self._server.connect()
            except OSError:
                if self._stopped.wait(retry) or not self._server.is_alive():
                    raise
                if time.monotonic() > until:
                    raise RunError(
                        f"the address {self._server.address} of the worker {self.host} was not reached for "
                        f"{LOST_TIMEOUT_S:.0f} s, though the cluster does not say that the worker left; see whether a "
                        "firewall stops connections to ports other than Dask's"
                    ) from None
                retry = min(2 * retry, most)

    def _restart(self) -> None:
        """Starts the plan again on a worker of the same name, where its sources can go on.

        Raises:
            RunError: they cannot, or there is no such worker.
        """
        form = self._inbox.resumed(self._form)
        if form is None:
            raise RunError(
                f"the worker {self.host} was lost with the state of its operators, and a stored signal cannot be read "
                "again from the middle; run the plan again"
            )
        self._server.close()
        until = time.monotonic() + LOST_TIMEOUT_S
        while not self._stopped.wait(_RETRY_S[1]):
            try:
                self._server = self._start(form, self._inbox.arrived + 1, self._token)
            except (OSError, RunError) as error:
                if time.monotonic() > until:
                    raise RunError(
                        f"the worker {self.host} was lost and is not back after {LOST_TIMEOUT_S:.0f} s ({error}); "
                        f"start a worker of this name (dask worker --name {self.host}) and run the plan again"
                    ) from error
                continue
            self.losses.append(
                f"on({self.host!r}): the worker was lost after {self._inbox.arrived} messages, with what its operators "
                "remembered and the samples until it was back; feeds go on there as new runs"
            )
            return


class _TooLateError(RunError):
    """Messages between two connections are not kept any more."""


class HostServer:
    """A part of a plan that runs on a worker, as its client sees it.

    Parameters:
        address: host and port of the connection.
        wrap: encrypts a connection, if Dask's are.
        is_alive: whether the worker is still there.
        release: gives the actor back.
    """

    def __init__(
        self,
        address: tuple[str, int],
        wrap: ssl.SSLContext | None,
        is_alive: Callable[[], bool],
        release: Callable[[], None],
    ) -> None:
        self.address = f"{address[0]}:{address[1]}"
        self._address = address
        self._wrap = wrap
        self.is_alive = is_alive
        self.close = release

    def connect(self) -> socket.socket:
        """A connection to it.

        Raises:
            OSError: there is none.
        """
        connection = socket.create_connection(self._address, timeout=_CONNECT_S)
        keep_alive(connection)
        return connection if self._wrap is None else self._wrap.wrap_socket(connection)


class HostActor:
    """A part of a plan, in its worker.

    Parameters:
        version: of Isochrony on the client.
    """

    def __init__(self, version: str) -> None:
        from distributed import get_worker

        if version != __version__:
            raise version_error(version)
        worker: Any = get_worker()
        self._host = str(worker.ip)
        self._tls = worker.security.get_listen_args("worker").get("ssl_context")
        self._run: NativeHostRun | None = None
        self._listener: socket.socket | None = None
        self._stopped = threading.Event()

    async def begin(self, payload: bytes, first: int, token: bytes) -> tuple[str, int] | Exception:
        """Starts a plan; gives where it is reached, or what was raised."""
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self._begin, payload, first, token)
        except Exception as error:
            return error

    async def stop(self) -> None:
        """Ends it."""
        self._stopped.set()
        await asyncio.get_running_loop().run_in_executor(None, self._stop)

    def _begin(self, payload: bytes, first: int, token: bytes) -> tuple[str, int]:
        import pickle

        from .._native import NativeHostRun

        try:
            form, objects, settings, paths, process = pickle.loads(payload)
        except ModuleNotFoundError as error:
            raise module_error(error) from error
        objects = localized(objects, paths, process)
        listener = socket.create_server((self._host, 0))
        listener.settimeout(_WAIT_S)
        try:
            self._run = NativeHostRun(form, objects, first, Settings(settings))
        except BaseException:
            listener.close()
            raise
        self._listener = listener
        threading.Thread(target=self._serve, args=(token,), name="isochrony-host", daemon=True).start()
        return self._host, listener.getsockname()[1]

    def _stop(self) -> None:
        if self._run is not None:
            self._run.stop()

    def _serve(self, token: bytes) -> None:
        assert self._listener is not None and self._run is not None
        seen = time.monotonic()
        with self._listener as listener:
            while not self._stopped.is_set() and not self._run.is_done():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    if time.monotonic() - seen > LOST_TIMEOUT_S:
                        break
                    continue
                with contextlib.suppress(OSError), connection:
                    self._send(connection, token)
                seen = time.monotonic()
        # Nobody reads it any more.
        self._run.stop()

    def _send(self, connection: socket.socket, token: bytes) -> None:
        """Sends messages over one connection.

        Raises:
            OSError: it is lost.
        """
        run = self._run
        assert run is not None
        connection.settimeout(_CONNECT_S)
        keep_alive(connection)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True)
        given, window, arrived = _HELLO.unpack(received(connection, _HELLO.size))
        if not hmac.compare_digest(given, token):
            connection.sendall(_REFUSED)
            return
        if not run.acknowledge(arrived):
            connection.sendall(_TOO_LATE)
            return
        connection.sendall(_ACCEPTED)
        sent = arrived
        while not (self._stopped.is_set() or run.is_done()):
            message = run.next(sent, window, _POLL_S)
            if message is not None:
                sent, content = message
                connection.sendall(_HEADER.pack(sent, len(content)))
                connection.sendall(content)
            while _is_readable(connection, 0.0):
                run.acknowledge(_NUMBER.unpack(received(connection, _NUMBER.size))[0])


def _is_readable(connection: socket.socket, wait: float) -> bool:
    """Whether something has arrived, within so many seconds. One thread reads and writes: an encrypted connection
    allows no more.
    """
    pending = getattr(connection, "pending", None)
    if pending is not None and pending():
        return True
    return bool(select.select([connection], [], [], wait)[0])
