"""Folders for one task each, and links to cached files, beside a host's cache. What ended processes left is removed by
the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import secrets
import shutil
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = "lock"
#: What names of folders of outputs begin with.
OUTPUT = "out"
#: Links that are kept for later tasks.
_KEPT_LINKS = 4096
#: Empty folders that are kept for later tasks.
_KEPT_FOLDERS = 64


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
        #: Folders of earlier tasks, empty but for the empty folders of their outputs.
        self._empty: list[Path] = []
        #: To files of the cache.
        self.links = FileLinks(self._folder / "links")

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """A folder for a task, empty but for empty folders of outputs; what the task leaves there is removed."""
        try:
            path = self._empty.pop()
        except IndexError:
            path = self._folder / str(next(self._numbers))
            path.mkdir()
        try:
            yield path
        finally:
            if len(self._empty) < _KEPT_FOLDERS and _is_emptied(path):
                self._empty.append(path)
            else:
                shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Removes all."""
        if not self._is_closed:
            self._is_closed = True
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._lock)


class FileLinks:
    """Links to files by the names that these have elsewhere: functions look at a file's ending.

    A link costs the file system more than reading a small file, so it is kept for later tasks. Thread-safe.

    Parameters:
        folder: of the links; made with the first one.
        kept: links that no task uses, at most.
    """

    def __init__(self, folder: Path, kept: int = _KEPT_LINKS) -> None:
        self._folder = folder
        self._kept = kept
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        #: Links and how many tasks use each, by target and name; those that were used last come last.
        self._links: OrderedDict[tuple[Path, str], tuple[Path, int]] = OrderedDict()

    def take(self, target: Path, name: str) -> Path:
        """A link of this name to a file. It stays until it was given back as often as it was taken."""
        with self._lock:
            link, users = self._links.pop((target, name), (None, 0))
            # A function may have removed it.
            if link is None or not link.is_symlink():
                folder = self._folder / str(next(self._numbers))
                folder.mkdir(parents=True)
                link = folder / name
                link.symlink_to(target)
            self._links[target, name] = link, users + 1
        return link

    def give_back(self, target: Path, name: str) -> None:
        """A task does not use a link any more."""
        with self._lock:
            link, users = self._links[target, name]
            self._links[target, name] = link, users - 1
            excess = len(self._links) - self._kept
            idle = [key for key, (_, users) in self._links.items() if not users] if excess > 0 else []
            removed = [self._links.pop(key)[0] for key in idle[:excess]]
        for link in removed:
            shutil.rmtree(link.parent, ignore_errors=True)


def _is_emptied(folder: Path) -> bool:
    """Removes the files in a folder, and those of its outputs, whose folders stay; False: more than that is in it."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    Path(entry).unlink()
                    continue
                if not entry.name.startswith(OUTPUT):
                    return False
                with os.scandir(entry.path) as files:
                    for file in files:
                        Path(file).unlink()
    except OSError:
        return False
    return True


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
