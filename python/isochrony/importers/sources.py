"""Finds the files of a folder that are to be imported, and what stands in the way of those that are not.

Every file that is not imported is told with its reason, whatever its name is made of: nothing is left out in silence
but hidden files, stores, and links to what lies in the same folder and is imported under its own name.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import IsochronyError, UsageError
from .block import Stamp
from .registry import Format, format_named, format_of, formats

__all__ = ["Match", "Source", "find_sources", "printable_path"]

# A layout template's answer for a path: signal and stamp. It raises `IsochronyError` where the path does not fit.
Match = Callable[[str], tuple[str, Stamp | None]]

_KINDS = (
    (stat.S_ISFIFO, "a fifo"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """One file to import.

    Attributes:
        path: of the file.
        signal: its signal's name, unless the file itself names its signals.
        format: None if nothing recognises the file.
        size: in bytes.
        mtime_ns: time of its last change.
        stamp: when it begins, by its name.
        problem: why it cannot be imported, found before reading it.
        named: the signal's name was stated by a layout.
    """

    path: Path
    signal: str
    format: Format | None
    size: int
    mtime_ns: int
    stamp: Stamp | None = None
    problem: str | None = None
    named: bool = False


def printable_path(path: str | os.PathLike[str]) -> str:
    """A path as text that can be stored and shown: bytes that are no UTF-8 as ``%E9``.

    >>> printable_path("plain/name.csv")
    'plain/name.csv'
    """
    raw = os.fsencode(path)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return re.sub(r"\\x(..)", lambda found: f"%{found[1].upper()}", raw.decode(errors="backslashreplace"))


def find_sources(
    src: Path,
    format_name: str | None = None,
    match: Match | None = None,
    before: Mapping[Path, Source] | None = None,
) -> list[Source]:
    """The files below a folder (or the one file), hidden ones and stores left out, in natural order.

    Parameters:
        src: an existing folder or file.
        format_name: treat every file as this format; default: each by its content or suffix.
        match: a layout template; a file that it does not match has a problem.
        before: what an earlier look found, by path; files that are as they were then are not opened again.

    Raises:
        UsageError: `src` does not exist or the format is unknown.
    """
    if not src.exists():
        raise UsageError(f"{printable_path(src)} does not exist; name a folder or a file of recordings")
    forced = format_named(format_name) if format_name else None
    walk = _Walk(src)
    root = src if src.is_dir() else src.parent
    found = [_source(path, root, forced, match, (before or {}).get(path)) for path in walk.files]
    return found + walk.problems


class _Walk:
    """The files below a folder, in natural order, and what of it is passed over with a reason."""

    def __init__(self, src: Path) -> None:
        self.files: list[Path] = []
        self.problems: list[Source] = []
        if not src.is_dir():
            self.files.append(src)
            return
        self._root = src
        self._real_root = src.resolve()
        for folder, folders, names in os.walk(src, onerror=self._closed):
            if ".isochrony" in folders:
                # A store is no recording, also where it lies among them.
                folders.clear()
                continue
            inside = Path(folder)
            folders[:] = [name for name in folders if not name.startswith(".") and self._is_own(inside / name)]
            self.files += [inside / name for name in names if not name.startswith(".") and self._is_own(inside / name)]
        self.files.sort(key=lambda path: _natural(printable_path(path)))

    def _is_own(self, path: Path) -> bool:
        """Whether something is not a link. One is told, unless what it leads to is imported under its own name."""
        if not path.is_symlink():
            return True
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):
            self._pass_over(path, "is a link that leads nowhere; mend it, or remove it")
            return False
        if not target.is_relative_to(self._real_root):
            what = "folder" if target.is_dir() else "file"
            self._pass_over(
                path,
                f"is a link to {printable_path(target)}, outside of what is imported, and not followed; "
                f"import that {what} by itself, or copy it here",
            )
        elif any(part.startswith(".") for part in target.relative_to(self._real_root).parts):
            self._pass_over(
                path, f"is a link to {printable_path(target)}, which is hidden, and not followed; rename what is hidden"
            )
        return False

    def _closed(self, error: OSError) -> None:
        """A folder that cannot be listed: nobody knows what is in it, so it counts as one recording that is refused."""
        self._pass_over(Path(error.filename), f"cannot be listed ({error.strerror}); check its permissions")

    def _pass_over(self, path: Path, problem: str) -> None:
        name = printable_path(path.relative_to(self._root).as_posix())
        self.problems.append(Source(path, name, None, 0, 0, problem=problem))


def _natural(text: str) -> list[tuple[int, int | str]]:
    """Sort key by which ``take2`` comes before ``take10``."""
    parts = re.split(r"([0-9]+)", text)
    return [(0, int(part)) if at % 2 else (1, part) for at, part in enumerate(parts)]


def _source(path: Path, root: Path, forced: Format | None, match: Match | None, before: Source | None) -> Source:
    relative = path.relative_to(root)
    signal = printable_path(relative.with_suffix("").as_posix())
    try:
        status = path.stat()
        if before is not None and (before.size, before.mtime_ns) == (status.st_size, status.st_mtime_ns):
            return before
        found = Source(path, signal, forced, status.st_size, status.st_mtime_ns)
        if not stat.S_ISREG(status.st_mode):
            # Opening a fifo would wait for whoever writes to it.
            kind = next((text for is_kind, text in _KINDS if is_kind(status.st_mode)), "no file")
            return replace(found, problem=f"is {kind}, not a file; move it elsewhere")
        if status.st_size == 0:
            return replace(found, problem="is empty; fetch it again, or leave it out")
        if forced is None:
            found = replace(found, format=format_of(path))
    except OSError as error:
        return Source(path, signal, None, 0, 0, problem=f"cannot be read ({error.strerror}); check its permissions")
    if found.format is None:
        known = ", ".join(one.name for one in formats())
        return replace(
            found,
            problem=f"no importer recognises it; name one with format= ({known}), "
            "or give layout= and dtype= if its samples are raw",
        )
    if match is not None:
        try:
            name, stamp = match(printable_path(relative.as_posix()))
        except IsochronyError as error:
            return replace(found, problem=" ".join(str(error).split()))
        found = replace(found, signal=name or root.resolve().name, stamp=stamp, named=True)
    return found
