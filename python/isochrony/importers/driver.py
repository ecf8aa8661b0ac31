"""Feeds files of any format to a store's ingest session; the same for every format.

Rules that hold whatever the format:

- Files are taken in order of the time they begin, whatever the folder lists first;
  files that know no time come in natural order of their names (``take2`` before
  ``take10``).
- A file is read to its end before any of it is stored, so a file that turns out to
  be damaged is refused whole, unless its format knows which parts are good. Up to
  `_HELD_BYTES` of decoded samples are held in memory meanwhile; of files with more
  the rest is stored as it is read if the format knows, others are read twice.
- A file that was imported before and has not changed is skipped, which is also how
  an interrupted import resumes. Of one that has changed only what is new is stored.
- A bad file is reported with its path and reason, and the rest is imported. Errors
  of the store itself (disk full, read-only) end the import.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from ..errors import BadSourceError, IsochronyError, UsageError
from ..interrupts import unbroken
from .block import Block, Omission, Options, Stamp
from .sources import Match, Source, find_sources, printable_path

__all__ = ["Source", "find_sources", "import_files"]

_HELD_BYTES = 32 << 20
# What a block costs beside its samples.
_BLOCK_BYTES = 1024
# Parts of a file that are named; more are counted.
_OMISSIONS_TOLD = 5
_PROGRESS_EVERY_S = 0.1
_FOLLOW_EVERY_S = 1.0

Progress = Callable[[int, int, int, int], None]
Summary = Mapping[str, Any]


class Session(Protocol):
    """The part of the native ingest session that the driver uses."""

    def known(self, source: str, size: int, mtime_ns: int) -> bool: ...
    def block(self, signal: str, samples: Any, **description: Any) -> None: ...
    def done(self, source: str, size: int, mtime_ns: int) -> None: ...
    def reject(self, source: str, reason: str) -> None: ...
    def report(self, source: str, reason: str) -> None: ...
    def commit(self) -> None: ...
    def finish(self) -> Summary: ...


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
        ``problems`` (path and reason), and ``kept``: for each problem, whether samples of that
        file are in the store all the same.

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
        raise UsageError(f"{printable_path(src)} holds no files; name the folder that holds the recordings")
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
            feed.finish()
            raise
    return feed.finish()


def _layout(template: str) -> Match:
    """A layout template of the native layer as a function of the path below the folder."""
    from .._native import Layout

    layout = Layout(template)

    def match(relative: str) -> tuple[str, Stamp | None]:
        signal, stamp = layout.match(relative)
        return signal, None if stamp is None else Stamp(*stamp)

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
    # Signals whose attributes the session has: they count when a signal is created.
    described: set[str] = field(default_factory=set)
    # What of the sources was left out when they were read last.
    left_out: dict[str, str] = field(default_factory=dict)

    def all(self, sources: Iterable[Source]) -> None:
        """Import sources in order of time."""
        fresh = []
        for source in sources:
            if source.problem is not None:
                self.session.reject(printable_path(source.path), source.problem)
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
        parts = self._read(source)
        try:
            first = next((part for part in parts if isinstance(part, Block)), None)
        except (IsochronyError, OSError):
            # The same error comes again when the file is imported, and is reported there.
            return (1, 0)
        return (1, 0) if first is None or first.start is None else (0, first.start.ns)

    def _read(self, source: Source) -> Iterator[Block | Omission]:
        assert source.format is not None
        options = self.options
        if source.stamp is not None:
            options = replace(options, start=source.stamp)
        if source.named and options.signal is None:
            options = replace(options, signal=source.signal)
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

    def _hold(self, parts: Iterator[Block | Omission]) -> tuple[list[Block | Omission], bool]:
        """The first parts of a file, as many as may be held, and whether these are all."""
        held: list[Block | Omission] = []
        size = 0
        for part in parts:
            held.append(part)
            size += _BLOCK_BYTES + (part.samples.nbytes if isinstance(part, Block) else 0)
            if size > _HELD_BYTES:
                return held, False
        return held, True

    def _telling(self, parts: Iterable[Block | Omission]) -> Iterator[Block | Omission]:
        for part in parts:
            self._tell()
            yield part

    def _one(self, source: Source) -> None:
        assert source.format is not None
        parts = self._read(source)
        try:
            held, is_all = self._hold(parts)
            if is_all:
                with unbroken():
                    self._parts(source, held)
            elif source.format.checks_parts:
                self._parts(source, itertools.chain(held, self._telling(parts)))
            else:
                held.clear()
                # To its end: it may be damaged there.
                for _ in self._telling(parts):
                    pass
                self._parts(source, self._read(source))
        except OSError as error:
            # Reading failed, or the store did: only the first is about this file.
            if isinstance(error, IsochronyError):
                raise
            why = error.strerror or error
            self.session.reject(_key(source), f"cannot be read ({why}); check its permissions and its disk")
        except (IsochronyError, ValueError, TypeError) as error:
            self.session.reject(_key(source), " ".join(str(error).split()))

    def _parts(self, source: Source, parts: Iterable[Block | Omission]) -> None:
        self.within = True
        left_out: list[str] = []
        count = 0
        # Once for all blocks: finding links on the way to a file takes longer than storing a short one.
        key = _key(source)
        try:
            for part in parts:
                if isinstance(part, Block):
                    self._block(key, part)
                    continue
                count += 1
                if count <= _OMISSIONS_TOLD:
                    left_out.append(part.reason)
            self.session.done(key, source.size, source.mtime_ns)
        except BaseException as error:
            self.within = isinstance(error, KeyboardInterrupt)
            raise
        self.within = False
        self.left_out.pop(key, None)
        if count:
            more = f"; and {count - _OMISSIONS_TOLD} more" if count > _OMISSIONS_TOLD else ""
            self.left_out[key] = f"the rest is imported, but not: {'; '.join(left_out)}{more}"

    def finish(self) -> Summary:
        """End the import. A file that grew while it was followed is reported once, as it was last."""
        for source, reason in self.left_out.items():
            self.session.report(source, reason)
        return self.session.finish()

    def _block(self, key: str, block: Block) -> None:
        self.session.block(
            block.signal,
            block.samples,
            rate=(block.rate.numerator, block.rate.denominator),
            start=None if block.start is None else (block.start.ns, 0),
            resolution=(0 if block.start is None else block.start.resolution_ns, 0),
            unit=block.unit,
            scale=block.scale,
            offset=block.offset,
            source=key,
            attrs=None if block.signal in self.described else dict(block.attrs),
            leap=block.start is not None and block.signal in self.leapt,
        )
        self.described.add(block.signal)
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
    return printable_path(source.path.resolve())


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
