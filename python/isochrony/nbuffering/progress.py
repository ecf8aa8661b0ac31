"""Progress of a byte stream: events at intervals for a function, or a line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

from ..output.progress import ImportProgress

__all__ = ["StreamProgress"]


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """Progress of a run of `nbuffer`, as its ``progress=`` function gets it.

    Attributes:
        bytes: number of bytes processed.
        total: number of bytes of all inputs; None if unknown, as for a pipe.
        elapsed_s: seconds since the run began.

    >>> import isochrony as iso
    >>> halfway = iso.StreamProgress(bytes=500, total=1000, elapsed_s=2.0)
    >>> halfway.rate, halfway.eta_s
    (250.0, 2.0)
    """

    bytes: int
    total: int | None
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Mean bytes per second since the run began.

        >>> import isochrony as iso
        >>> iso.StreamProgress(bytes=500, total=1000, elapsed_s=2.0).rate
        250.0
        """
        return self.bytes / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Expected seconds to the end at the mean `rate`; None if the total is unknown or nothing is processed yet.

        >>> import isochrony as iso
        >>> iso.StreamProgress(bytes=500, total=1000, elapsed_s=2.0).eta_s
        2.0
        """
        if self.total is None or self.rate == 0:
            return None
        return max(self.total - self.bytes, 0) / self.rate


ProgressFunction: TypeAlias = Callable[[StreamProgress], object]


class ProgressEvents:
    """Gives a function an event every `interval_s` at most, and one of the end; or draws a line.

    Parameters:
        progress: the function; True draws a line on a terminal or in a notebook; False does nothing.
        interval_s: least seconds between two events.
        clock: what tells seconds.
    """

    def __init__(
        self, progress: bool | ProgressFunction, interval_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._line = ImportProgress("nbuffer") if progress is True else None
        self._function = progress if callable(progress) else None
        self._interval_s = interval_s
        self._clock = clock
        self._started = clock()
        self._next_s = 0.0
        self._last: StreamProgress | None = None
        self._given: StreamProgress | None = None

    def __enter__(self) -> Callable[[int, int], object] | None:
        """What native code calls with bytes done and in all, 0 if unknown."""
        line = self._line
        if line is not None:
            return lambda done, total: line(done, total, 0, 0)
        return None if self._function is None else self._take

    def _take(self, done: int, total: int) -> None:
        elapsed_s = self._clock() - self._started
        self._last = StreamProgress(done, total or None, elapsed_s)
        if elapsed_s >= self._next_s:
            self._next_s = elapsed_s + self._interval_s
            self._give()

    def _give(self) -> None:
        if self._function is not None and self._last is not None:
            self._given = self._last
            self._function(self._last)

    def end(self) -> None:
        """The event of the end, unless it was given."""
        if self._last is not self._given:
            self._give()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            self._line.close()
