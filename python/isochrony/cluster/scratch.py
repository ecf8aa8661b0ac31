"""Folders for one task each, beside a host's cache. Those of processes that ended are removed by the next one."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = "lock"


class Scratch:
    """A process's folders.

    Parameters:
        folder: of all processes of the host.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for other in folder.iterdir():
            _remove_if_dead(other)
        # Locked before it has the name at which others look.
        temporary = folder / f".{secrets.token_hex(8)}"
        temporary.mkdir()
        self._lock = os.open(temporary / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._folder = folder / temporary.name.removeprefix(".")
        temporary.rename(self._folder)
        self._numbers = itertools.count()
        self._is_closed = False

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """A folder, which is removed with all that is in it."""
        path = self._folder / str(next(self._numbers))
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Removes all."""
        if not self._is_closed:
            self._is_closed = True
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._lock)


def _remove_if_dead(folder: Path) -> None:
    """Removes the folder of a process that has ended: the kernel has unlocked it."""
    if folder.name.startswith("."):
        # Of a process that starts now, or that was killed when it did; nothing is in it.
        return
    with contextlib.suppress(OSError):
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
