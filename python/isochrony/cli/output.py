"""Standard streams, as a command line finds them: a pipe whose reader leaves, a full disk, or closed."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

__all__ = ["standard_streams"]


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
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    try:
        yield
    finally:
        for output in (sys.stdout, sys.stderr):
            _let_go(output)
        sys.stdout, sys.stderr = before


def _named(found: TextIO | None) -> TextIO:
    lines = False
    encoding, errors = "utf-8", "strict"
    if isinstance(found, io.TextIOWrapper):
        found.flush()
        lines = found.line_buffering or found.write_through
        encoding, errors = found.encoding, found.errors or errors
    raw = _Output(1, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=lines)


def _let_go(output: TextIO) -> None:
    """What cannot be written has been told of."""
    try:
        output.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, output.fileno())
            os.close(null)
