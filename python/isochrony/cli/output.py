"""Standard streams, as a command line finds them: a pipe whose reader leaves, a full disk, or closed.

Names of files, of signals and arguments may hold characters that a terminal takes for commands. All that is printed for
people goes through `printable`: standard error always, standard output where it is a terminal.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

__all__ = ["printable", "standard_streams"]


def printable(text: str) -> str:
    r"""A text with characters that are not printed, but for line ends and tabs, as escapes.

    >>> print(printable("red: \x1b[31m, reversed: \u202e"))
    red: \x1b[31m, reversed: \u202e
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode("ascii") for one in text
    )


class _Printed(io.TextIOWrapper):
    """A text output for people."""

    def write(self, text: str, /) -> int:
        # A line of progress begins by going back to the line's start.
        start = "\r" if text.startswith("\r") else ""
        super().write(start + printable(text.removeprefix(start)))
        return len(text)


class _Output(io.FileIO):
    """Standard output, which its errors name."""

    def write(self, data: Any) -> Any:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Has what is printed to standard output fail by name, and Python not complain once more at its exit.

    Those that are closed (``>&-``) are opened, so that no file that is opened later takes their place. What is written
    to such an output fails as it would to one that is closed; of errors nobody hears.
    """
    for descriptor, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest that is free.
            os.open(os.devnull, mode)
    before = sys.stdout, sys.stderr
    # Not where a program has put something else there.
    if sys.stdout is sys.__stdout__:
        sys.stdout = _named(sys.stdout)
    # Python has none where it found it closed.
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
        raw = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
        sys.stderr = _Printed(raw, encoding, "backslashreplace", line_buffering=True, write_through=True)
    try:
        yield
    finally:
        for output in (sys.stdout, sys.stderr):
            _let_go(output)
        sys.stdout, sys.stderr = before


def _named(found: TextIO | None) -> TextIO:
    lines = False
    encoding, errors = "utf-8", "backslashreplace"
    if isinstance(found, io.TextIOWrapper):
        found.flush()
        lines = found.line_buffering or found.write_through
        encoding = found.encoding
        if found.errors not in (None, "strict"):
            errors = found.errors
    raw = _Output(1, "w", closefd=False)
    kind = _Printed if os.isatty(1) else io.TextIOWrapper
    return kind(io.BufferedWriter(raw), encoding, errors, line_buffering=lines)


def _let_go(output: TextIO) -> None:
    """What cannot be written has been told of."""
    try:
        output.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, output.fileno())
            os.close(null)
