"""Finds the records of a miniSEED file.

Real files hold more than records: control headers of full SEED volumes, noise, a last record that was cut short,
records without the blockette that states their length. So a file is searched for records instead of being stepped
through: what is no record is passed over up to the next header and given as an `Unreadable` with its place, and a
damaged record never hides the one behind it. `split` reads a file once, with a window of it in memory. Records that are
alike are found many at a time by native code, which has the same rules and stops at whatever is out of the ordinary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from .._native import find_mseed_run
from .mseed_headers import (
    BLOCKETTE_OFFSET_LIMIT,
    FIXED_BYTES,
    VERSION_3,
    Header,
    byte_order_v2,
    is_control,
    is_data,
    parse_header,
    record_length_v3,
)

__all__ = ["Record", "RecordRun", "Unreadable", "split"]

# A quality indicator and the reserved byte behind it (bytes 6 and 7 of a header), or the start of a version 3 record.
_HINT = re.compile(rb"[DRQM][ \0]|MS\x03")
# Lengths are looked for where they are not stated.
_DETECTED_EXPONENTS = range(7, 17)
_WINDOW_BYTES = 1 << 20
# Records that are given together: storing their samples takes some milliseconds, so that an import can be interrupted.
_RUN_BYTES = 1 << 18
_BLANKS = b" \r\n"
_TEXT = bytes(range(0x20, 0x7F)) + _BLANKS


@dataclass(frozen=True, slots=True)
class Record:
    """A record: its place in the file, its bytes, and its header if it is of version 2."""

    offset: int
    data: bytes
    header: Header | None


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records of one channel, rate and encoding that lie one behind the other, each as its header says.

    Attributes:
        offset: of the first in the file.
        window: bytes of which they are a part.
        start: where the first begins in the window.
        end: where the last ends.
        count: number of records.
        header: of the first.
    """

    offset: int
    window: bytes
    start: int
    end: int
    count: int
    header: Header

    @property
    def length(self) -> int:
        """Bytes of all records."""
        return self.end - self.start

    def record(self, start: int, end: int) -> Record:
        """The one at a place of the window."""
        header = parse_header(self.window[start : start + BLOCKETTE_OFFSET_LIMIT])
        return Record(self.offset + start - self.start, self.window[start:end], header)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stretch of a file that holds no whole record, and why."""

    offset: int
    length: int
    reason: str


class _Window:
    """A file's bytes at any place, of which a bounded stretch is in memory."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size = size
        self._first = 0
        self._held = b""

    def run(self, offset: int, header: Header | None) -> RecordRun | None:
        """Records from here on that are like the first, which has this header; None if there is at most one."""
        if header is None or header.length is None or header.rate <= 0:
            return None
        start, rest = offset - self._first, self.size - self._first
        end, count = find_mseed_run(self._held, start, _RUN_BYTES, rest)
        return RecordRun(offset, self._held, start, end, count, header) if count > 1 else None

    def held(self, offset: int) -> tuple[bytes, int]:
        """Bytes in memory, and where in them this place of the file is; a header may lie behind it."""
        start = offset - self._first
        if start < 0 or len(self._held) - start <= FIXED_BYTES:
            self.at(offset, _WINDOW_BYTES)
            start = offset - self._first
        return self._held, start

    def at(self, offset: int, length: int) -> bytes:
        """`length` bytes, or fewer at the end of the file."""
        start = offset - self._first
        if start < 0 or start + length > len(self._held):
            self._file.seek(offset)
            self._held = self._file.read(max(length, _WINDOW_BYTES))
            self._first, start = offset, 0
        return self._held[start : start + length]


def split(file: BinaryIO, size: int) -> Iterator[Record | RecordRun | Unreadable]:
    """The records of a file in its order, and the byte ranges between them that are none.

    Control headers of a SEED volume and blanks that fill it up are passed over without a word: they hold no samples.
    The first record comes by itself: a file may be opened only to see how it begins.

    Parameters:
        file: open for reading.
        size: its bytes; what is beyond is not read.
    """
    window = _Window(file, size)
    at = 0
    found = False
    while at < size:
        head = window.at(at, FIXED_BYTES)
        length, header = _record_at(window, at, head)
        if length is not None and at + length <= size:
            run = window.run(at, header) if found else None
            found = True
            yield Record(at, window.at(at, length), header) if run is None else run
            at += length if run is None else run.length
            continue
        following = _next_header(window, at + 1)
        if length is not None:
            said = f"a record of {length} bytes is cut short after {following - at}"
        elif _is_filler(window, at, following):
            said = ""
        else:
            said = f"{following - at} bytes are no record"
        if said:
            yield Unreadable(at, following - at, said)
        at = following


def _record_at(window: _Window, at: int, head: bytes) -> tuple[int | None, Header | None]:
    """Length and header of the record that begins here, whole or not; no length if none does."""
    length = record_length_v3(head)
    if length is not None:
        return length, None
    header = parse_header(window.at(at, BLOCKETTE_OFFSET_LIMIT)) if byte_order_v2(head) else None
    if header is None:
        return None, None
    if header.length is None:
        return _detected_length(window, at), header
    # A length with a flipped bit would swallow the records behind: none holds the header of another.
    behind = window.at(at + header.length, FIXED_BYTES)
    is_followed = len(behind) == 0 or is_data(behind) or is_control(behind)
    inside = _header_inside(window.at(at, header.length + FIXED_BYTES), header.length, is_followed=is_followed)
    return header.length if inside is None else inside, header


def _header_inside(stretch: bytes, length: int, *, is_followed: bool) -> int | None:
    """Where another header begins in a record, which is then cut there or has a wrong length.

    In a record that a header follows it is one of the same channel at a usual place, or chance would find headers in
    the samples of a large archive.
    """
    if is_followed:
        return _same_channel_inside(stretch, length)
    for hint in _HINT.finditer(stretch, FIXED_BYTES):
        place = hint.start() - (0 if hint.group() == VERSION_3 else 6)
        if FIXED_BYTES <= place < length and is_data(stretch[place : place + FIXED_BYTES]):
            return place
    return None


def _same_channel_inside(stretch: bytes, length: int) -> int | None:
    """Where a header with the codes of the first one begins, at a multiple of 64 bytes.

    A search for the codes is some fifty times as fast as one for all that a header may begin with.
    """
    codes = stretch[8:20]
    place = 64
    while place < length:
        found = stretch.find(codes, place + 8)
        if found < 0:
            return None
        place = found - 8
        if place % 64:
            place += 64 - place % 64
        elif place < length and is_data(stretch[place : place + FIXED_BYTES]):
            return place
        else:
            place += 64
    return None


def _detected_length(window: _Window, at: int) -> int | None:
    """Length of a record that does not state it: up to the next header, or the end of the file."""
    rest = window.size - at
    for exponent in _DETECTED_EXPONENTS:
        length = 1 << exponent
        if length >= rest:
            return rest if rest == length else None
        head = window.at(at + length, FIXED_BYTES)
        if is_data(head) or is_control(head):
            return length
    return None


def _next_header(window: _Window, at: int) -> int:
    """Where the next header begins, of data or control; the size of the file if there is none."""
    while at < window.size:
        stretch, first = window.held(at)
        for hint in _HINT.finditer(stretch, first):
            place = at - first + hint.start() - (0 if hint.group() == VERSION_3 else 6)
            if place >= at and is_data(window.at(place, FIXED_BYTES)):
                return place
        if at + len(stretch) - first >= window.size:
            break
        # A header may begin in one stretch and go on in the next.
        at += max(len(stretch) - first - FIXED_BYTES, 1)
    return window.size


def _is_filler(window: _Window, at: int, end: int) -> bool:
    """Whether a stretch is control headers of a volume, which are text, or nothing but blanks."""
    allowed = _TEXT if is_control(window.at(at, 8)) else _BLANKS
    while at < end:
        stretch = window.at(at, min(end - at, _WINDOW_BYTES))
        if stretch.strip(allowed):
            return False
        at += len(stretch)
    return True
