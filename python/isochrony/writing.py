"""Files that people ask for: there as a whole, or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from .errors import IsochronyError

__all__ = ["writing"]


@contextlib.contextmanager
def writing(out: Path) -> Iterator[Path]:
    """A path to write to, which becomes `out` when all is written; whatever fails leaves `out` as it was.

    Raises:
        OSError: the system's, always with `out` as its file.
    """
    # A device, a pipe: what is written there is gone.
    direct = out.exists() and not out.is_file()
    part = out if direct else out.with_name(f".{out.stem}.part{out.suffix}")
    try:
        yield part
        if not direct:
            part.replace(out)
    except BaseException as error:
        if not direct:
            with contextlib.suppress(OSError):
                part.unlink()
        if isinstance(error, OSError) and not isinstance(error, IsochronyError):
            raise OSError(error.errno, error.strerror or str(error), str(out)) from error
        if isinstance(error, RuntimeError):
            # Libraries that write audio say so in their own way.
            raise OSError(None, f"{error}", str(out)) from error
        raise
