"""Exceptions on their way to another process."""

from __future__ import annotations

import os
import pickle
import socket
import traceback

from ..errors import IsochronyError
from ..errors.native import RunError


def pickled_exception(error: BaseException) -> bytes | None:
    """An exception for another process, with a note of where it was raised; None if it cannot be pickled."""
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
    """What `pickled_exception` gave."""
    error = pickle.loads(encoded)
    if not isinstance(error, BaseException):
        raise TypeError(f"{type(error).__name__} is not an exception")
    return error
