"""Ctrl-C where half of something would be worse than a moment's wait."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["unbroken"]


@contextlib.contextmanager
def unbroken() -> Iterator[None]:
    """What is done within is done to its end; a Ctrl-C that came meanwhile counts then."""
    handler = signal.getsignal(signal.SIGINT)
    # Only the main thread gets signals, and may say what they do.
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(signal.SIGINT, came[0])
