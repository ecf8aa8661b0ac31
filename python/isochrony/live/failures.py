"""Threads of feeds that fail: the run that reads such a feed ends with their error.

A feed's thread can tell the engine only that samples ended, which would look like success. But a run looks around in
Python now and then, as for Ctrl-C, and what is raised there ends it. So each run has its `Failures`: feeds find it when
they begin, in the run's own thread, and every look asks it.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from contextvars import ContextVar

__all__ = ["Failures", "expected", "failures_of_this_run", "may_fail"]


class Failures:
    """What failed in threads that a run waits for: the first of it."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: Exception | None = None

    def add(self, error: Exception) -> None:
        """In any thread: the run is to end with this."""
        if self._first is None:
            self._first = error

    def look(self) -> None:
        """In the run's thread: raises what was added."""
        if self._first is not None:
            raise self._first


_RUN: ContextVar[Failures | None] = ContextVar("isochrony_run", default=None)
# Feeds that exist, whether a run reads them or not.
_FEEDS: weakref.WeakSet[object] = weakref.WeakSet()


def may_fail(feed: object) -> None:
    """A feed is there that has a thread of its own."""
    _FEEDS.add(feed)


@contextlib.contextmanager
def expected() -> Iterator[Failures | None]:
    """Within is a run; None if there is no feed in this process that could fail, so that nobody has to look."""
    failures = Failures() if _FEEDS else None
    token = _RUN.set(failures)
    try:
        yield failures
    finally:
        _RUN.reset(token)


def failures_of_this_run() -> Failures:
    """Where a feed that begins tells of failures."""
    return _RUN.get() or Failures()
