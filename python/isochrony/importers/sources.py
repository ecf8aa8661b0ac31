"""Finds the files that are to be imported, and what stands in the way of those that are not.

Every file that is not imported is told with its reason, whatever its name is made of: nothing is left out in silence
but hidden files, stores, and links to what lies in the same folder and is imported under its own name.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import IsochronyError, UsageError
from .block import Stamp
from .registry import Format, format_named, format_of, formats

__all__ = ["Match", "Source", "expand", "find_sources", "packed_as", "printable_path"]

# A layout template's answer for a path: signal and stamp. It raises `IsochronyError` where the path does not fit.
Match = Callable[[str], tuple[str, Stamp | None]]

_KINDS = (
    (stat.S_ISFIFO, "a fifo"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
)
# First bytes of files that hold others, compressed.
_PACKED = {
    b"\x1f\x8b": "compressed by gzip",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"PK\x03\x04": "a ZIP archive, as .xlsx and .npz files are, too",
}


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


def expand(files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, patterns: bool = True) -> list[Path]:
    """The paths that a path, a pattern such as ``day*/*.wav``, or several of them name, each once.

    Files of a pattern come in natural order (``take2`` before ``take10``), others as they are given.

    Raises:
        UsageError: no path, or a pattern that no file matches, or any pattern if `patterns` is false.
    """
    several: list[Any] = list(files) if isinstance(files, Iterable) and not isinstance(files, str | bytes) else [files]
    found: dict[Path, Path] = {}
    for one in several:
        if not isinstance(one, str | os.PathLike) or not os.fspath(one):
            raise UsageError(f"got {one!r} where a path is expected; name a file, a folder, a pattern or several")
        text = os.fspath(one)
        paths = [text]
        if glob.has_magic(text) and not os.path.lexists(text):
            if not patterns:
                raise UsageError(
                    f"{printable_path(text)} is a pattern, but follow= watches a folder for new files; give the "
                    "folder instead of the pattern, and keep follow="
                )
            # `Path.glob` takes relative patterns only.
            paths = sorted(glob.glob(text, recursive=True), key=_natural)  # noqa: PTH207
            if not paths:
                raise UsageError(f"nothing matches {printable_path(text)}; check the pattern, or name a folder")
        for path in map(Path, paths):
            found.setdefault(_absolute(path), path)
    if not found:
        raise UsageError("no path was given; name a file, a folder, a pattern or several")
    return list(found.values())


def find_sources(
    src: Path | Sequence[Path],
    format_name: str | None = None,
    match: Match | None = None,
    before: Mapping[Path, Source] | None = None,
) -> list[Source]:
    """Files, and those below folders, hidden ones and stores left out; those of a folder in natural order.

    Parameters:
        src: an existing folder or file, or several.
        format_name: treat every file as this format; default: each by its content or suffix.
        match: a layout template; a file that it does not match has a problem.
        before: what an earlier look found, by path; files that are as they were then are not opened again.

    Raises:
        UsageError: `src` does not exist or the format is unknown.
    """
    paths = [src] if isinstance(src, Path) else src
    for path in paths:
        if not path.exists():
            raise UsageError(f"{printable_path(path)} does not exist; name a folder or a file of recordings")
    forced = format_named(format_name) if format_name else None
    root = Path(os.path.commonpath([_absolute(path if path.is_dir() else path.parent) for path in paths]))
    found: dict[Path, Source] = {}
    problems: list[Source] = []
    for path in paths:
        walk = _Walk(path)
        found |= {one: _source(one, root, forced, match, (before or {}).get(one)) for one in walk.files}
        problems += walk.problems
    return _told_apart(list(found.values()), root) + problems


def _told_apart(sources: list[Source], root: Path) -> list[Source]:
    """Sources of which those that differ in the suffix only keep it in their signals' names."""
    suffixes: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        if not source.named and source.problem is None:
            suffixes[source.signal].add(source.path.suffix)
    return [
        replace(source, signal=_relative(source.path, root))
        if not source.named and len(suffixes[source.signal]) > 1
        else source
        for source in sources
    ]


def _relative(path: Path, root: Path) -> str:
    """Where a file lies below the folder that signals are named from."""
    return printable_path(_absolute(path).relative_to(root).as_posix())


def _absolute(path: Path) -> Path:
    """A path from the root on; links stay what they are, since names follow what the user named."""
    return Path(os.path.abspath(path))  # noqa: PTH100


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


def packed_as(head: bytes) -> str | None:
    """What a file is that has others in it, by its first bytes; None if it has none."""
    return next((what for magic, what in _PACKED.items() if head.startswith(magic)), None)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(max(map(len, _PACKED)))


def _natural(text: str) -> list[tuple[int, int | str]]:
    """Sort key by which ``take2`` comes before ``take10``."""
    parts = re.split(r"([0-9]+)", text)
    return [(0, int(part)) if at % 2 else (1, part) for at, part in enumerate(parts)]


def _source(path: Path, root: Path, forced: Format | None, match: Match | None, before: Source | None) -> Source:
    relative = _relative(path, root)
    signal = printable_path(_absolute(path).relative_to(root).with_suffix("").as_posix())
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
        if (packed := packed_as(_head(path))) is not None:
            return replace(found, problem=f"is {packed}; unpack it, or save it in another format, and import that")
        known = ", ".join(one.name for one in formats())
        return replace(
            found,
            problem=f"no importer recognises it; name one with format= ({known}), "
            "or give layout= and dtype= if its samples are raw",
        )
    if match is not None:
        try:
            name, stamp = match(relative)
        except IsochronyError as error:
            return replace(found, problem=" ".join(str(error).split()))
        found = replace(found, signal=name or root.resolve().name, stamp=stamp, named=True)
    return found
