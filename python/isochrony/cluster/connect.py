"""The client of a cluster, of whatever names one, and the workers that its scheduler knows."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from .._native import processor_name
from ..errors.native import OptionError
from ..extras import require

#: Seconds within which a scheduler must answer.
CONNECT_S = 10.0

#: Seconds between two looks whether an answer can still come.
_WAIT_S = 0.5

#: Clients that were made of addresses, for as long as this process lives.
_CLIENTS: dict[str, Any] = {}
_CONNECTING = threading.Lock()


def checked_client(name: str, on: Any) -> Any:
    """Check what an option such as ``on=`` names, and connect to it.

    A client that was connected to an address or a cluster is kept and used again while this process lives.

    Parameters:
        name: name of the option, for error messages.
        on: a `distributed.Client`; a cluster such as `LocalCluster`; the address of a scheduler; or "local", which
            starts worker processes on this machine, each with one thread.

    Returns:
        A `distributed.Client` that is connected.

    Raises:
        OptionError: something else; an asynchronous or closed client; no scheduler answers within 10 s; or the worker
            processes of "local" do not start.
        MissingExtraError: Dask is not installed (extra `cluster`).

    >>> import isochrony as iso
    >>> client = iso.cluster.checked_client("on", "tcp://10.0.0.5:8786")  # doctest: +SKIP
    >>> client.status  # doctest: +SKIP
    'running'
    """
    distributed: Any = require("distributed", f"{name}={on!r}")
    client = on
    if isinstance(on, str):
        client = _connected(name, on, on, distributed)
    elif isinstance(on, distributed.deploy.Cluster):
        client = _connected(name, on.scheduler_address, on, distributed)
    if not isinstance(client, distributed.Client):
        raise OptionError(
            f"{name}={on!r} is refused; give a distributed.Client, a cluster such as LocalCluster, the address of a "
            'scheduler such as "tcp://10.0.0.5:8786", or "local"'
        )
    if client.asynchronous:
        raise OptionError(f"{name} is an asynchronous client; give one made with asynchronous=False")
    if client.status != "running":
        raise OptionError(f"{name} is a client that is {client.status}; connect a new one")
    return client


def workers_of(client: Any) -> dict[str, dict[str, Any]]:
    """What the scheduler knows of each worker, by its address.

    Asked of the scheduler itself: the answer of `Client.scheduler_info` has no workers where the client's own refresh,
    every two seconds, comes between.

    Raises:
        OSError: the scheduler does not answer.
    """
    scheduler = client.scheduler
    if scheduler is None:
        raise OSError("the client has no scheduler any more")
    workers: dict[str, dict[str, Any]] = client.sync(_identity, scheduler)["workers"]
    return workers


def processors_of(client: Any) -> list[str | None]:
    """Names of the processors of the workers that answer; None where it is unknown.

    Where the scheduler does not answer there are none: the run says so.
    """
    with contextlib.suppress(OSError):
        return list(client.run(_processor, on_error="ignore").values())
    return []


def _processor() -> str | None:
    return processor_name()


async def _identity(scheduler: Any) -> Any:
    try:
        return await asyncio.wait_for(scheduler.identity(n_workers=-1), CONNECT_S)
    except asyncio.CancelledError as error:
        # Without this `sync` raises UnboundLocalError.
        raise OSError("the connection to the scheduler was given up") from error


def result_within(answer: Any, seconds: float, check: Callable[[], None]) -> Any:
    """The result of a Dask future, or of a call of an actor.

    Parameters:
        answer: the future or the call.
        seconds: most that it may take.
        check: called twice a second; raises where there is nothing more to wait for.

    Raises:
        TimeoutError: there is none within so many seconds.
        OSError: the worker is gone.
        Exception: what the answer or `check` raises.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return answer.result(timeout=_WAIT_S)
        except RuntimeError as error:
            # Dask's error where the worker is gone before it has made the actor.
            if "holding Actor was lost" not in str(error):
                raise
            raise OSError(str(error)) from None
        # The second one is what Dask's `sync` raises if its own timeout cancels a call at the last moment.
        except (TimeoutError, UnboundLocalError):
            if answer.done():
                return answer.result()
            if time.monotonic() >= until:
                raise TimeoutError(f"no answer within {seconds:g} s") from None
        check()


def _connected(name: str, address: str, target: Any, distributed: Any) -> Any:
    """The client for an address, made once; `target`: what it connects to."""
    with _CONNECTING:
        client = _CLIENTS.get(address)
        is_same = isinstance(target, str) or (client is not None and client.cluster is target)
        if client is not None and client.status == "running" and is_same:
            return client
        started = None
        try:
            if target == "local":
                target = started = distributed.LocalCluster(threads_per_worker=1, dashboard_address=None)
            elif isinstance(target, str):
                _check_reachable(target)
            client = distributed.Client(target, set_as_default=False, timeout=CONNECT_S)
        except ValueError as error:
            raise OptionError(f"{name}={address!r} is not an address of a Dask scheduler: {error}") from error
        except (OSError, RuntimeError) as error:
            if started is not None:
                started.close()
            if address == "local":
                raise OptionError(
                    f"{name}={address!r}: worker processes do not start ({error}); in a script, call this under "
                    'if __name__ == "__main__":, since they import it'
                ) from error
            raise OptionError(
                f"{name}={address!r}: no Dask scheduler answers within {CONNECT_S:g} s ({error}); start one with "
                '"dask scheduler", or give the address that it printed'
            ) from error
        _CLIENTS[address] = client
        return client


def _check_reachable(address: str) -> None:
    """Tries to connect: a client that cannot prints a traceback of its own.

    Raises:
        OSError: nobody answers.
        ValueError: it is no address.
    """
    scheme, _, place = address.rpartition("://")
    if scheme not in ("", "tcp", "tls"):
        return
    host, _, port = place.rpartition(":")
    if not (host and port.isdigit()):
        raise ValueError("it is not host:port")
    socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
