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
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

from ..errors import BadSourceError, IsochronyError, UsageError
from .block import Block, Options, Part, Remark, Stamp, StampedBlocks
from .interrupts import unbroken
from .keywords import options_of
from .sources import Match, Source, find_sources, printable_path
from .summary import ImportSummary
from .without_effect import SignalNames, recorded_options, stored_otherwise, unused_options

__all__ = ["Progress", "feed_files"]

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
    def blocks(self, signal: str, samples: Any, counts: Any, starts: Any, **description: Any) -> None: ...
    def done(self, source: str, size: int, mtime_ns: int) -> None: ...
    def reject(self, source: str, reason: str) -> None: ...
    def report(self, source: str, reason: str) -> None: ...
    def commit(self) -> None: ...
    def finish(self) -> Summary: ...


def feed_files(
    store: Any,
    files: Sequence[Path],
    given: Mapping[str, Any],
    progress: Progress | None = None,
) -> ImportSummary:
    """Import files, and every file below folders, into a store opened for writing.

    Parameters:
        store: from ``iso.open(path, mode="a")``.
        files: files and folders, at least one.
        given: a checked value for each of `keywords.OPTIONS`.
        progress: called with bytes done, bytes in all, files done, files in all.

    Raises:
        UsageError: one of `files` does not exist, they hold none, or the format is unknown.
        IsochronyError: the store cannot be written; what was committed stays.
    """
    from .._native import Store

    options = Options(**{one.name: given[one.name] for one in fields(Options)})
    match = _layout(given["layout"]) if given["layout"] else None
    session: Session = store.ingest(**{name: given[name] for name in options_of(Store.ingest)})

    def find(before: Mapping[Path, Source] | None = None) -> list[Source]:
        return find_sources(files, given["format"], match, before)

    sources = find()
    if not sources and not given["follow"]:
        raise UsageError(
            f"{', '.join(map(printable_path, files))} holds no files; name the folder that holds the recordings"
        )
    feed = _Feed(store, session, options, progress, SignalNames(store))
    try:
        feed.all(sources)
        if given["follow"]:
            session.commit()
            _follow(find, feed, sources)
    except KeyboardInterrupt:
        if feed.within:
            # Part of a long file: the last commit has no file without its provenance, and stays.
            raise
        if not given["follow"]:
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

    store: Any
    session: Session
    options: Options
    progress: Progress | None
    names: SignalNames
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
    # What became of each source, by how provenance names it; and texts about those that are imported.
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    remarks: dict[tuple[str, str], None] = field(default_factory=dict)

    def all(self, sources: Iterable[Source]) -> None:
        """Import sources in order of time."""
        fresh = []
        for source in sources:
            key = _key(source)
            self.results[key] = {
                "path": printable_path(source.path),
                "status": "imported",
                "signals": [],
                "samples": 0,
                "reason": None,
            }
            if source.problem is not None:
                self.session.reject(key, source.problem)
            elif self._is_known(source):
                self.results[key]["status"] = "known"
                for text in stored_otherwise(self.store, self.names, source, key, self.options):
                    self._remark(source, text)
            else:
                fresh.append(source)
        self.bytes_total += sum(source.size for source in fresh)
        self.files_total += len(fresh)
        for source in sorted(fresh, key=self._begins):
            self._one(source)
            self.files_done += 1
            self.bytes_done += source.size
            self._tell()

    def _is_known(self, source: Source) -> bool:
        """Whether a source was imported before, into the signal that is named now if one is."""
        key, named = _key(source), self.options.signal or (source.signal if source.named else None)
        if named is not None and not _names_signals(source) and not self.names.hold(named, key):
            return False
        return self.session.known(key, source.size, source.mtime_ns)

    def _remark(self, source: Source, text: str) -> None:
        self.remarks[_key(source), text] = None

    def _begins(self, source: Source) -> tuple[int, int]:
        """Sort key: files with a time by it; the sort is stable, so others keep their order."""
        if source.stamp is not None:
            return (0, source.stamp.ns)
        parts = self._read(source)
        try:
            first = next((part for part in parts if isinstance(part, Block | StampedBlocks)), None)
        except (IsochronyError, OSError):
            # The same error comes again when the file is imported, and is reported there.
            return (1, 0)
        return (1, 0) if first is None or first.start is None else (0, first.start.ns)

    def _read(self, source: Source) -> Iterator[Part]:
        assert source.format is not None
        options = self.options
        if source.stamp is not None:
            options = replace(options, start=source.stamp)
        if source.named and options.signal is None:
            options = replace(options, signal=source.signal)
        try:
            for part in source.format.read(source.path, options.signal or source.signal, options):
                if not isinstance(part, Part):
                    raise TypeError(f"its reader yields {type(part).__name__}, which is no block")
                yield part
        except (IsochronyError, OSError):
            raise
        except Exception as error:
            # Libraries raise what they like at bytes that nobody foresaw: a bad file, never the end of the import.
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise BadSourceError(
                f"cannot be read as {source.format.name} ({said}); fetch it again, or leave it out"
            ) from error

    def _hold(self, parts: Iterator[Part]) -> tuple[list[Part], bool]:
        """The first parts of a file, as many as may be held, and whether these are all."""
        held: list[Part] = []
        size = 0
        for part in parts:
            held.append(part)
            size += _BLOCK_BYTES + (part.samples.nbytes if isinstance(part, Block | StampedBlocks) else 0)
            if size > _HELD_BYTES:
                return held, False
        return held, True

    def _telling(self, parts: Iterable[Part]) -> Iterator[Part]:
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

    def _parts(self, source: Source, parts: Iterable[Part]) -> None:
        self.within = True
        left_out: list[str] = []
        count = 0
        # Once for all blocks: finding links on the way to a file takes longer than storing a short one.
        key = _key(source)
        try:
            recorded = recorded_options(source, self.options)
            for part in parts:
                if isinstance(part, Block | StampedBlocks):
                    self._block(key, part, recorded)
                    continue
                if isinstance(part, Remark):
                    self._remark(source, part.text)
                    continue
                count += 1
                if count <= _OMISSIONS_TOLD:
                    left_out.append(part.reason)
            self.session.done(key, source.size, source.mtime_ns)
        except BaseException as error:
            self.within = isinstance(error, KeyboardInterrupt)
            # A signal that this file would have created may be gone with it.
            self.described.clear()
            raise
        self.within = False
        for text in unused_options(source, self.options):
            self._remark(source, text)
        self.left_out.pop(key, None)
        if count:
            more = f"; and {count - _OMISSIONS_TOLD} more" if count > _OMISSIONS_TOLD else ""
            self.left_out[key] = f"the rest is imported, but not: {'; '.join(left_out)}{more}"

    def finish(self) -> ImportSummary:
        """End the import. A file that grew while it was followed is reported once, as it was last."""
        for source, reason in self.left_out.items():
            self.session.report(source, reason)
        summary = ImportSummary(self.session.finish())
        problems = []
        for (key, reason), kept in zip(summary["problems"], summary["kept"], strict=True):
            result = self.results.get(key)
            if result is not None:
                # A file may have several problems; what is refused is in no signal.
                status = "kept" if kept and result["status"] != "refused" else "refused"
                reasons = reason if result["reason"] is None else f"{result['reason']}; {reason}"
                result.update(status=status, reason=reasons)
            problems.append((key if result is None else result["path"], reason))
        for result in self.results.values():
            if result["status"] == "refused":
                result.update(signals=[], samples=0)
        remarks = [(self.results[key]["path"], text) for key, text in self.remarks]
        summary.update(problems=problems, remarks=remarks, results=list(self.results.values()))
        return summary

    def _block(self, key: str, block: Block | StampedBlocks, recorded: Mapping[str, str]) -> None:
        attrs = {**block.attrs, "import_options": dict(recorded)} if recorded else dict(block.attrs)
        description: dict[str, Any] = {
            "rate": (block.rate.numerator, block.rate.denominator),
            "unit": block.unit,
            "scale": block.scale,
            "offset": block.offset,
            "source": key,
            "attrs": None if block.signal in self.described else attrs,
            "leap": block.start is not None and block.signal in self.leapt,
        }
        if isinstance(block, StampedBlocks):
            description["resolution_ns"] = block.resolution_ns
            self.session.blocks(block.signal, block.samples, block.counts, block.starts_ns, **description)
        else:
            if block.start is not None:
                description["start"] = (block.start.ns, 0)
                description["resolution"] = (block.start.resolution_ns, 0)
            self.session.block(block.signal, block.samples, **description)
        self.described.add(block.signal)
        result = self.results[key]
        result["samples"] += len(block.samples)
        if block.signal not in result["signals"]:
            result["signals"].append(block.signal)
        if block.start is not None:
            self.leapt.discard(block.signal)
        if isinstance(block, Block) and block.leap:
            self.leapt.add(block.signal)

    def _tell(self) -> None:
        now = time.monotonic()
        if self.progress is not None and now - self.told >= _PROGRESS_EVERY_S:
            self.told = now
            self.progress(self.bytes_done, self.bytes_total, self.files_done, self.files_total)


def _key(source: Source) -> str:
    """How provenance names a file; a link, which is not imported, is named itself."""
    if source.problem is not None:
        return printable_path(source.path.parent.resolve() / source.path.name)
    return printable_path(source.path.resolve())


def _names_signals(source: Source) -> bool:
    """Whether files of the source's format name their signals themselves, whatever the user says."""
    return source.format is not None and not source.format.takes("signal")


def _follow(find: Callable[[Mapping[Path, Source]], list[Source]], feed: _Feed, sources: list[Source]) -> None:
    """Import files that appear or change, once they have kept still from one look to the next."""
    done = {(source.path, source.size, source.mtime_ns) for source in sources}
    before: set[tuple[Path, int, int]] = set()
    while True:
        time.sleep(_FOLLOW_EVERY_S)
        # Thousands of files are looked at each second: only those that changed are worth opening.
        now = find({source.path: source for source in sources})
        sources = now
        seen = {(source.path, source.size, source.mtime_ns) for source in now}
        still = (seen & before) - done
        feed.all([s for s in now if (s.path, s.size, s.mtime_ns) in still])
        if still:
            # Whoever reads the store live waits for what came.
            feed.session.commit()
        done |= still
        before = seen
