"""Damaged signals beside sound ones: what is asked about many is answered for all that can be read."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..errors import IsochronyError
from .message_options import as_options
from .output import printable
from .target import names_of

__all__ = ["Damaged", "each", "print_damaged"]

T = TypeVar("T")

# What is wrong with one signal's files. Of other errors (a full disk, a vanished mount) the next signal has as many.
_OF_ONE = frozenset(
    {
        "damaged_file",
        "damaged_table",
        "foreign_shard",
        "io",
        "missing_folder",
        "missing_samples",
        "missing_table",
        "newer_format",
        "undecodable",
    }
)


# What the system refuses to this process, whichever signal it works on: limits of files, room, rights to write.
_OF_ALL = frozenset(
    {errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EROFS, errno.EPERM}
)


@dataclass(frozen=True, slots=True)
class Damaged:
    """A signal that cannot be read, and why."""

    name: str
    code: str
    error: str

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return {"name": self.name, "code": self.code, "error": self.error}


def each(store: Any, pattern: str, use: Callable[[Any], T]) -> tuple[list[T], list[Damaged]]:
    """What `use` gives for each signal that `pattern` names, and the signals for which it cannot.

    Raises:
        UsageError: nothing matches.
        IsochronyError: the one signal that is named is damaged, or something is wrong that concerns all of them.
    """
    done: list[T] = []
    damaged: list[Damaged] = []
    for name in names_of(store, pattern):
        try:
            done.append(use(store[name]))
        except IsochronyError as error:
            if name == pattern or error.code not in _OF_ONE or getattr(error, "errno", None) in _OF_ALL:
                raise
            damaged.append(Damaged(name, error.code, as_options(" ".join(str(error).split()))))
    return done, damaged


def print_damaged(store: Path | str, damaged: list[Damaged], sound: int) -> None:
    """Name on stderr what is damaged, and what to do."""
    for one in damaged:
        where = "" if one.name in one.error else f"{one.name}: "
        print(f"isochrony: {printable(where + one.error)}", file=sys.stderr)
    if damaged:
        print(
            f"isochrony: {len(damaged)} of {len(damaged) + sound} signals cannot be read; to list all damage, run: "
            f"isochrony verify {store}; to repair what can be repaired: isochrony verify {store} --repair",
            file=sys.stderr,
        )
