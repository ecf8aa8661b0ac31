"""Feeds files of any format to a store's ingest session; the same for every format.

Rules that hold whatever the format:

- Files are taken in order of the time they begin, whatever the folder lists first;
  files that know no time come in natural order of their names (``take2`` before
  ``take10``).
- A file is read to its end before any of it is stored, so a file that turns out to
  be damaged is refused whole. Files up to `_HELD_BYTES` are held in memory
  meanwhile; longer ones are read twice.
- A file that was imported before and has not changed is skipped, which is also how
  an interrupted import resumes.
- A bad file is reported with its path and reason, and the rest is imported. Errors
  of the store itself (disk full, read-only) end the import.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from ..errors import BadSourceError, IsochronyError, UsageError
from ..interrupts import unbroken
from .block import Block, Options, Stamp
from .registry import Format, format_named, format_of, formats

__all__ = ["Source", "find_sources", "import_files"]

_HELD_BYTES = 64 << 20
_PROGRESS_EVERY_S = 0.1
_FOLLOW_EVERY_S = 1.0

Progress = Callable[[int, int, int, int], None]
# A layout template's answer for a path: signal and stamp, or None where it does not match.
Match = Callable[[str], tuple[str, Stamp] | None]
Summary = Mapping[str, Any]


class Session(Protocol):
    """The part of the native ingest session that the driver uses."""

    def known(self, source: str, size: int, mtime_ns: int) -> bool: ...
    def block(self, signal: str, samples: Any, **description: Any) -> None: ...
    def done(self, source: str, size: int, mtime_ns: int) -> None: ...
    def reject(self, source: str, reason: str) -> None: ...
    def commit(self) -> None: ...
    def finish(self) -> Summary: ...


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
    """

    path: Path
    signal: str
    format: Format | None
    size: int
    mtime_ns: int
    stamp: Stamp | None = None
    problem: str | None = None


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
        raise UsageError(f"{src} does not exist; name a folder or a file of recordings")
    forced = format_named(format_name) if format_name else None
    root = src if src.is_dir() else src.parent
    closed: list[OSError] = []
    found = [_source(path, root, forced, match, (before or {}).get(path)) for path in _files(src, closed.append)]
    return found + [_closed(error, root) for error in closed]


def _closed(error: OSError, root: Path) -> Source:
    """A folder that cannot be listed: nobody knows what is in it, so it counts as one recording that is refused."""
    path = Path(error.filename)
    name = path.relative_to(root).as_posix()
    return Source(path, name, None, 0, 0, problem=f"cannot be listed ({error.strerror}); check its permissions")


def _files(src: Path, closed: Callable[[OSError], None]) -> list[Path]:
    if not src.is_dir():
        return [src]
    found = []
    for folder, folders, names in os.walk(src, onerror=closed):
        if ".isochrony" in folders:
            # A store is no recording, also where it lies among them.
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(folder, name) for name in names if not name.startswith(".")]
    return sorted(found, key=lambda path: _natural(str(path)))


def _natural(text: str) -> list[tuple[int, int | str]]:
    """Sort key by which ``take2`` comes before ``take10``."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", text)]


def _source(path: Path, root: Path, forced: Format | None, match: Match | None, before: Source | None) -> Source:
    relative = path.relative_to(root)
    signal = relative.with_suffix("").as_posix()
    try:
        status = path.stat()
        if before is not None and (before.size, before.mtime_ns) == (status.st_size, status.st_mtime_ns):
            return before
        found = Source(path, signal, forced, status.st_size, status.st_mtime_ns)
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
        matched = match(relative.as_posix())
        if matched is None:
            return replace(found, problem="its name does not match the layout; rename it, or correct the layout")
        found = replace(found, signal=matched[0], stamp=matched[1])
    return found


def import_files(
    store: Any,
    src: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002  (the word of the command line)
    options: Options | None = None,
    layout: str | None = None,
    gap_slip: float | None = None,
    alpha: float | None = None,
    initial_rate: Fraction | float | None = None,
    max_gap: float | None = None,
    value_jump: float | None = None,
    follow: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Import a file, or every file below a folder, into a store opened for writing.

    Parameters:
        store: from ``iso.open(path, mode="a")``.
        src: file or folder.
        format: name of a format for all files; default: each by its content or suffix.
        options: what the files do not say themselves (`Options`).
        layout: template of paths below `src`, which then names signals and times.
        gap_slip: seconds that a stamp may be off before it is a gap or a step.
        alpha: weight of the running rate estimate, 0 to 1.
        initial_rate: Hz, a better guess of the true rates than what the files state.
        max_gap: seconds beyond which a gap takes no index of its own length.
        value_jump: difference in the signal's unit between blocks that follow on, above which an event notes it.
        follow: go on watching the folder until interrupted.
        progress: called with bytes done, bytes in all, files done, files in all.

    Returns:
        The session's summary: ``signals``, ``files``, ``skipped``, ``bytes``, ``seconds``,
        ``problems``.

    Raises:
        UsageError: `src` does not exist, or the format is unknown.
        IsochronyError: the store cannot be written; what was committed stays.
    """
    if not hasattr(store, "ingest"):
        raise UsageError(
            f"got {type(store).__name__} where an open store is expected; give iso.open(PATH, mode='a') first, then "
            "what to import"
        )
    options = options or Options()
    match = _layout(layout) if layout else None
    session: Session = store.ingest(
        gap_slip=gap_slip, alpha=alpha, initial_rate=initial_rate, max_gap=max_gap, value_jump=value_jump
    )
    sources = find_sources(Path(src), format, match)
    if not sources and not follow:
        raise UsageError(f"{src} holds no files; name the folder that holds the recordings")
    feed = _Feed(session, options, progress)
    try:
        feed.all(sources)
        if follow:
            session.commit()
            _follow(Path(src), format, match, feed, sources)
    except KeyboardInterrupt:
        if feed.within:
            # Part of a long file: the last commit has no file without its provenance, and stays.
            raise
        if not follow:
            session.finish()
            raise
    return session.finish()


def _layout(template: str) -> Match:
    """A layout template of the native layer as a function of the path below the folder."""
    from .._native import Layout

    layout = Layout(template)

    def match(relative: str) -> tuple[str, Stamp] | None:
        found = layout.match(relative)
        return None if found is None else (found[0], Stamp(found[1], found[2]))

    return match


@dataclass(slots=True)
class _Feed:
    """Feeds sources to a session, and counts."""

    session: Session
    options: Options
    progress: Progress | None
    bytes_done: int = 0
    bytes_total: int = 0
    files_done: int = 0
    files_total: int = 0
    told: float = 0.0
    # Whether a part of a file is in the session, and not the rest.
    within: bool = False
    # Signals whose last block had a leap second in it: their next stamp may lie in another file.
    leapt: set[str] = field(default_factory=set)

    def all(self, sources: Iterable[Source]) -> None:
        """Import sources in order of time."""
        fresh = []
        for source in sources:
            if source.problem is not None:
                self.session.reject(str(source.path), source.problem)
            elif not self.session.known(_key(source), source.size, source.mtime_ns):
                fresh.append(source)
        self.bytes_total += sum(source.size for source in fresh)
        self.files_total += len(fresh)
        for source in sorted(fresh, key=self._begins):
            self._one(source)
            self.files_done += 1
            self.bytes_done += source.size
            self._tell()

    def _begins(self, source: Source) -> tuple[int, int]:
        """Sort key: files with a time by it; the sort is stable, so others keep their order."""
        if source.stamp is not None:
            return (0, source.stamp.ns)
        try:
            first = next(self._read(source), None)
        except (IsochronyError, OSError):
            # The same error comes again when the file is imported, and is reported there.
            return (1, 0)
        return (1, 0) if first is None or first.start is None else (0, first.start.ns)

    def _read(self, source: Source) -> Iterator[Block]:
        assert source.format is not None
        options = self.options
        if source.stamp is not None:
            options = replace(options, start=source.stamp)
        try:
            yield from source.format.read(source.path, options.signal or source.signal, options)
        except (IsochronyError, OSError):
            raise
        except Exception as error:
            # Libraries raise what they like at bytes that nobody foresaw: a bad file, never the end of the import.
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise BadSourceError(
                f"cannot be read as {source.format.name} ({said}); fetch it again, or leave it out"
            ) from error

    def _one(self, source: Source) -> None:
        try:
            if source.size <= _HELD_BYTES:
                blocks = list(self._read(source))
                with unbroken():
                    self._blocks(source, blocks)
            else:
                for _ in self._read(source):
                    self._tell()
                self._blocks(source, self._read(source))
        except OSError as error:
            # Reading failed, or the store did: only the first is about this file.
            if isinstance(error, IsochronyError):
                raise
            self.session.reject(
                str(source.path), f"cannot be read ({error.strerror or error}); check its permissions and its disk"
            )
        except (IsochronyError, ValueError, TypeError) as error:
            self.session.reject(str(source.path), " ".join(str(error).split()))

    def _blocks(self, source: Source, blocks: Iterable[Block]) -> None:
        self.within = True
        try:
            for block in blocks:
                self._block(source, block)
            self.session.done(_key(source), source.size, source.mtime_ns)
        except BaseException as error:
            self.within = isinstance(error, KeyboardInterrupt)
            raise
        self.within = False

    def _block(self, source: Source, block: Block) -> None:
        self.session.block(
            block.signal,
            block.samples,
            rate=(block.rate.numerator, block.rate.denominator),
            start=None if block.start is None else (block.start.ns, 0),
            resolution=(0 if block.start is None else block.start.resolution_ns, 0),
            unit=block.unit,
            scale=block.scale,
            offset=block.offset,
            source=_key(source),
            attrs=dict(block.attrs),
            leap=block.start is not None and block.signal in self.leapt,
        )
        if block.start is not None:
            self.leapt.discard(block.signal)
        if block.leap:
            self.leapt.add(block.signal)

    def _tell(self) -> None:
        now = time.monotonic()
        if self.progress is not None and now - self.told >= _PROGRESS_EVERY_S:
            self.told = now
            self.progress(self.bytes_done, self.bytes_total, self.files_done, self.files_total)


def _key(source: Source) -> str:
    """How provenance names a file."""
    return str(source.path.resolve())


def _follow(src: Path, format_name: str | None, match: Match | None, feed: _Feed, sources: list[Source]) -> None:
    """Import files that appear or change, once they have kept still from one look to the next."""
    done = {(source.path, source.size, source.mtime_ns) for source in sources}
    before: set[tuple[Path, int, int]] = set()
    while True:
        time.sleep(_FOLLOW_EVERY_S)
        # Thousands of files are looked at each second: only those that changed are worth opening.
        now = find_sources(src, format_name, match, {source.path: source for source in sources})
        sources = now
        seen = {(source.path, source.size, source.mtime_ns) for source in now}
        still = (seen & before) - done
        feed.all([s for s in now if (s.path, s.size, s.mtime_ns) in still])
        if still:
            # Whoever reads the store live waits for what came.
            feed.session.commit()
        done |= still
        before = seen
