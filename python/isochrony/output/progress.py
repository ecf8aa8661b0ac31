"""One progress line with rate and remaining time.

The line is drawn on a terminal or in a notebook; a log or a pipe gets nothing, so
that output stays readable there. Drawing is limited to ten times a second.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TextIO

__all__ = ["ImportProgress", "bytes_text", "count_text", "duration_text"]

_DRAW_EVERY_S = 0.1

ProgressFunction = Callable[[int, int, int, int], None]


def bytes_text(count: float, unit: str = "B") -> str:
    """A byte count for people, in decimal units: ``57.6 MB``; or a count of something else."""
    for prefix in ("", "k", "M", "G"):
        if abs(count) < 1000:
            return f"{count:.1f} {prefix}{unit}" if prefix else f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} T{unit}"


def count_text(count: int, noun: str) -> str:
    """A number of things: ``1 worker``, ``2 workers``."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def duration_text(seconds: float) -> str:
    """A duration for people: ``3.2 s``, ``4:05``, ``2:10:07``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def notebook() -> Any:
    """IPython's `display` module where this process is the kernel of a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    # A terminal's IPython has no kernel.
    if getattr(shell, "kernel", None) is None:
        return None
    return sys.modules.get("IPython.display")


class ImportProgress:
    """Draws ``label  62%  35.8/57.6 MB  310 MB/s  298/480 files  ETA 0.1 s``.

    Usable as the `progress` argument of imports: it is called with bytes done,
    bytes in all, files done, files in all. Use it as a context manager, so that
    the line is wiped also when the import raises.

    Parameters:
        label: what is being done, one or two words.
        stream: where to draw; default stderr, or an output of its own in a notebook.
        enabled: draw or not; default: whether `stream` is a terminal or there is a notebook.
        unit: what is counted, if not bytes.
    """

    def __init__(self, label: str, stream: TextIO | None = None, enabled: bool | None = None, unit: str = "B") -> None:
        self._label = label
        self._unit = unit
        self._notebook = notebook() if stream is None else None
        self._output: Any = None
        self._stream = sys.stderr if stream is None else stream
        self._enabled = (self._notebook is not None or self._stream.isatty()) if enabled is None else enabled
        self._started = time.monotonic()
        self._drawn = -_DRAW_EVERY_S
        self._width = 0

    def __call__(self, done: int, total: int, files: int, files_total: int) -> None:
        """Take note of how far the work is, and draw it if it is time to."""
        if not self._enabled:
            return
        elapsed = time.monotonic() - self._started
        if elapsed - self._drawn < _DRAW_EVERY_S:
            return
        self._drawn = elapsed
        self._draw(self.text(done, total, files, files_total, elapsed))

    def text(self, done: int, total: int, files: int, files_total: int, elapsed: float) -> str:
        """The line for a state, without drawing it."""
        rate = done / elapsed if elapsed > 0 else 0.0
        parts = [self._label]
        if total > 0:
            parts.append(f"{100 * done // total:3d}%")
            parts.append(f"{bytes_text(done, self._unit)} of {bytes_text(total, self._unit)}")
        parts.append(f"{bytes_text(rate, self._unit)}/s")
        if files_total > 0:
            parts.append(f"{files}/{files_total} files")
        if 0 < done < total and rate > 0:
            parts.append(f"ETA {duration_text((total - done) / rate)}")
        return "  ".join(parts)

    def close(self) -> None:
        """Wipe the line."""
        if self._output is not None:
            self._output.update({"text/plain": ""}, raw=True)
            self._output = None
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

    def _draw(self, line: str) -> None:
        if self._notebook is not None:
            shown = {"text/plain": line}
            if self._output is None:
                self._output = self._notebook.display(shown, raw=True, display_id=True)
            else:
                self._output.update(shown, raw=True)
            return
        # A line longer than the terminal would wrap and could not be wiped.
        line = line[: max(shutil.get_terminal_size().columns - 1, 20)]
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
