"""Exceptions on their way to another process."""

from __future__ import annotations

import os
import pickle
import socket
import traceback

from ..errors import IsochronyError
from ..errors.native import RunError


def pickled_exception(error: BaseException) -> bytes | None:
    """Pickle an exception for another process.

    Adds a note with host, process ID and traceback to the exception, which travels with it.

    Parameters:
        error: the exception.

    Returns:
        Bytes for `unpickled_exception`; None if the exception cannot be pickled.

    >>> import isochrony as iso, threading
    >>> encoded = iso.cluster.pickled_exception(ValueError("no samples"))
    >>> iso.cluster.unpickled_exception(encoded)
    ValueError('no samples')
    >>> print(iso.cluster.pickled_exception(ValueError(threading.Lock())))
    None
    """
    import cloudpickle

    lines = "".join(traceback.format_exception(error))
    error.add_note(f"raised on {socket.gethostname()}, process {os.getpid()}:\n{lines}")
    try:
        return bytes(cloudpickle.dumps(error))
    except Exception:
        return None


def error_as_text(error: BaseException) -> bytes:
    """An exception that cannot be pickled, as one that says the same."""
    kind = type(error) if isinstance(error, IsochronyError) else RunError
    return pickle.dumps(kind(f"{type(error).__name__}: {error}"))


def unpickled_exception(encoded: bytes) -> BaseException:
    """Read an exception that `pickled_exception` wrote.

    Unpickling runs code: pass only bytes of processes that you trust.

    Parameters:
        encoded: pickled exception.

    Returns:
        The exception. Its last note says where it was raised.

    Raises:
        TypeError: the bytes hold no exception. Whatever else unpickling raises is passed on, such as
            ModuleNotFoundError if the exception's module is missing here.

    >>> import isochrony as iso
    >>> error = iso.cluster.unpickled_exception(iso.cluster.pickled_exception(ValueError("no samples")))
    >>> error.__notes__[0].splitlines()[-1]
    'ValueError: no samples'
    """
    error = pickle.loads(encoded)
    if not isinstance(error, BaseException):
        raise TypeError(f"{type(error).__name__} is not an exception")
    return error
