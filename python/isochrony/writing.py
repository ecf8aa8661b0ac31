"""Files that people ask for: there as a whole, or not at all."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from .errors import IsochronyError

__all__ = ["named", "unfinished", "writing"]

# Files that this process began.
_BEGUN = itertools.count()


def unfinished(out: Path) -> Path:
    """An empty file beside `out` to write to, hidden, of the same suffix, and nobody else's.

    Raises:
        OSError: the system's, with `out` as its file.
    """
    while True:
        part = out.with_name(f".{out.stem}.{os.getpid()}-{next(_BEGUN)}.part{out.suffix}")
        try:
            part.open("xb").close()
        except FileExistsError:
            # One that a process of this number left, or has on another machine.
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(out)) from None
        return part


def named(part: Path, out: Path) -> None:
    """Give a file that is whole and synced its name, for good."""
    part.replace(out)
    # The name is durable once its folder is.
    folder = os.open(out.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def writing(out: Path) -> Iterator[Path]:
    """A path to write to, which becomes `out` when all is written; whatever fails leaves `out` as it was.

    Raises:
        OSError: the system's, always with `out` as its file.
    """
    # A device, a pipe: what is written there is gone.
    direct = out.exists() and not out.is_file()
    part = out if direct else unfinished(out)
    try:
        yield part
        if not direct:
            with part.open("rb") as written:
                os.fsync(written.fileno())
            named(part, out)
    except BaseException as error:
        if not direct:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, IsochronyError):
            raise OSError(error.errno, error.strerror or str(error), str(out)) from error
        if isinstance(error, RuntimeError):
            # Libraries that write audio say so in their own way.
            raise OSError(None, f"{error}", str(out)) from error
        raise
