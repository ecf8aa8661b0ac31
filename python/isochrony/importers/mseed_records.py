"""Finds the records of a miniSEED file, and reads the headers of those of version 2.

Real files hold more than records: control headers of full SEED volumes, noise, a last record that was cut short,
records without the blockette that states their length. So a file is searched for records instead of being stepped
through: what is no record is passed over up to the next header and given as an `Unreadable` with its place, and a
damaged record never hides the one behind it. `split` reads a file once, with a window of it in memory.

Source: SEED Reference Manual 2.4, chapter 8 (fixed section of the data header; blockettes 100, 1000 and 1001);
FDSN miniSEED 3 specification (fixed header).
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import BinaryIO

from .rational import simplest_near

__all__ = ["Header", "Record", "Unreadable", "is_control", "is_data", "parse_header", "split"]

FIXED_BYTES = 48
# SEED 2 stamps count 100 us; blockette 1001 adds the microseconds.
TICK_NS = 100_000

_QUALITY = b"DRQM"
_CONTROL = b"VAST"
_VERSION_3 = b"MS\x03"
_FIXED_3 = struct.Struct("<2sBBIHHBBBBdIIBBHI")
# A quality indicator and the reserved byte behind it (bytes 6 and 7 of a header), or the start of a version 3 record.
_HINT = re.compile(rb"[DRQM][ \0]|MS\x03")
# Lengths are powers of two: as blockette 1000 may state them, and as they are looked for where it is missing.
_LENGTH_EXPONENTS = range(6, 21)
_DETECTED_EXPONENTS = range(7, 17)
_LONGEST_3 = 10 << 20
_TIME = {order: struct.Struct(order + "HHBBBBH") for order in "<>"}
_PLACES = {order: struct.Struct(order + "HH") for order in "<>"}
_SAMPLES = {order: struct.Struct(order + "HhhB3xi") for order in "<>"}
_LAST_BLOCKETTE = 8192
_WINDOW_BYTES = 1 << 20
# The manual allows 9999; some writers round up to a whole second.
_MOST_TICKS = 20_000
_SEQUENCE = bytes(range(0x20, 0x7F)) + b"\0"
_BLANKS = b" \r\n"
_TEXT = bytes(range(0x20, 0x7F)) + _BLANKS


@dataclass(frozen=True, slots=True)
class Header:
    """What the header of a version 2 record states.

    Attributes:
        codes: network, station, location and channel, as printable text; blank ones are empty.
        start_ns: time of the first sample, ns since 1970, with the time correction unless it was applied before.
        resolution_ns: width of the last digit of the start.
        rate: in Hz; 0: the record is no time series.
        samples: their number.
        data_offset: where they begin in the record; 0: not stated.
        encoding: of blockette 1000; None: there is none.
        order: byte order of the header, ``<`` or ``>``.
        data_order: byte order of the samples.
        length: bytes of the record; None: not stated.
        leap: a positive leap second happened during the record.
    """

    codes: tuple[str, str, str, str]
    start_ns: int
    resolution_ns: int
    rate: Fraction
    samples: int
    data_offset: int
    encoding: int | None
    order: str
    data_order: str
    length: int | None
    leap: bool


@dataclass(frozen=True, slots=True)
class Record:
    """A record: its place in the file, its bytes, and its header if it is of version 2."""

    offset: int
    data: bytes
    header: Header | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stretch of a file that holds no whole record, and why."""

    offset: int
    length: int
    reason: str


def is_control(head: bytes) -> bool:
    """Whether bytes begin with a control header of a SEED volume."""
    return len(head) >= 8 and head[:6].isdigit() and head[6] in _CONTROL and head[7] in b" *"


def is_data(head: bytes) -> bool:
    """Whether bytes begin with the header of a record with data, of version 2 or 3."""
    return _order(head) is not None or _length_3(head) is not None


def _order(head: bytes) -> str | None:
    """Byte order of a version 2 header; None if there is none."""
    return _order_of(head[:FIXED_BYTES])


# A header is looked at behind the record before it, at its own place, and when it is read.
@functools.lru_cache(maxsize=8)
def _order_of(head: bytes) -> str | None:
    """Byte order of a version 2 header; None if there is none: every field must be one that a header can have."""
    if len(head) < FIXED_BYTES or head[6] not in _QUALITY or head[7] not in b" \0":
        return None
    # Writers without sequence numbers leave blanks or zeros.
    if head[:6].translate(None, _SEQUENCE):
        return None
    for order in "><":
        year, day, hour, minute, second, _, ticks = _TIME[order].unpack_from(head, 20)
        data, blockette = _PLACES[order].unpack_from(head, 44)
        is_time = 1900 <= year <= 2100 and 1 <= day <= 366 and hour <= 23 and minute <= 59 and second <= 60
        is_place = (data == 0 or data >= FIXED_BYTES) and (blockette == 0 or FIXED_BYTES <= blockette < _LAST_BLOCKETTE)
        if is_time and is_place and ticks < _MOST_TICKS:
            return order
    return None


def _length_3(head: bytes) -> int | None:
    """Length of a version 3 record by its fixed header; None if there is none."""
    if len(head) < _FIXED_3.size or head[:3] != _VERSION_3:
        return None
    found = _FIXED_3.unpack_from(head)
    nanosecond, _, day, hour, minute, second = found[3:9]
    name, extra, data = found[14:17]
    length = _FIXED_3.size + name + extra + data
    is_time = 1 <= day <= 366 and hour <= 23 and minute <= 59 and second <= 60 and nanosecond < 1_000_000_000
    return length if is_time and length <= _LONGEST_3 else None


def parse_header(record: bytes) -> Header | None:
    """The header of a version 2 record of which at least the blockettes are there; None if it is none."""
    order = _order(record)
    if order is None:
        return None
    year, day, hour, minute, second, _, ticks = _TIME[order].unpack_from(record, 20)
    samples, factor, multiplier, activity, correction = _SAMPLES[order].unpack_from(record, 30)
    data_offset, blockette = _PLACES[order].unpack_from(record, 44)
    rate = _nominal_rate(factor, multiplier)
    start = _year_begins(year) + (day - 1) * 86_400 + hour * 3600 + minute * 60 + second
    start_ns = start * 1_000_000_000 + ticks * TICK_NS
    # Bit 1 says that the stamp holds the correction already.
    if not activity & 0x02:
        start_ns += correction * TICK_NS
    resolution, encoding, length, data_order = TICK_NS, None, None, order
    while FIXED_BYTES <= blockette <= len(record) - 8:
        kind, following = _PLACES[order].unpack_from(record, blockette)
        if kind == 1000:
            encoding, word_order, exponent = record[blockette + 4 : blockette + 7]
            data_order = ">" if word_order else "<"
            length = 1 << exponent if exponent in _LENGTH_EXPONENTS else None
        elif kind == 1001:
            start_ns += struct.unpack_from("b", record, blockette + 5)[0] * 1000
            resolution = 1000
        elif kind == 100:
            rate = _stated_rate(struct.unpack_from(order + "f", record, blockette + 4)[0], rate)
        # A chain that does not lead onward ends.
        if following <= blockette:
            break
        blockette = following
    return Header(
        codes=_codes(record[8:20]),
        start_ns=start_ns,
        resolution_ns=resolution,
        rate=rate,
        samples=samples,
        data_offset=data_offset,
        encoding=encoding,
        order=order,
        data_order=data_order,
        length=length,
        leap=bool(activity & 0x10),
    )


@functools.lru_cache(maxsize=4096)
def _codes(field: bytes) -> tuple[str, str, str, str]:
    """Network, station, location and channel of bytes 8 to 20; what is not printable is left out."""
    fields = (field[10:12], field[:5], field[5:7], field[7:10])
    network, station, location, channel = (bytes(b for b in f if 0x20 < b < 0x7F).decode("ascii") for f in fields)
    return network, station, location, channel


@functools.cache
def _year_begins(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


@functools.lru_cache(maxsize=1024)
def _nominal_rate(factor: int, multiplier: int) -> Fraction:
    """Rate of the fixed section: positive numbers are Hz, negative ones seconds."""
    if factor == 0 or multiplier == 0:
        return Fraction(0)
    rate = Fraction(factor) if factor > 0 else Fraction(1, -factor)
    return rate * (Fraction(multiplier) if multiplier > 0 else Fraction(1, -multiplier))


@functools.lru_cache(maxsize=1024)
def _stated_rate(stated: float, nominal: Fraction) -> Fraction:
    """Blockette 100 may state a better rate than two integers can, as a 32-bit float."""
    if not 0 < stated < float("inf") or abs(float(nominal) - stated) <= 1e-9 * stated:
        return nominal
    return simplest_near(stated, 6e-8)


class _Window:
    """A file's bytes at any place, of which a bounded stretch is in memory."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size = size
        self._first = 0
        self._held = b""

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


def split(file: BinaryIO, size: int) -> Iterator[Record | Unreadable]:
    """The records of a file in its order, and the stretches between them that are none.

    Control headers of a SEED volume and blanks that fill it up are passed over without a word: they hold no samples.

    Parameters:
        file: open for reading.
        size: its bytes; what is beyond is not read.
    """
    window = _Window(file, size)
    at = 0
    while at < size:
        head = window.at(at, FIXED_BYTES)
        length, header = _record_at(window, at, head)
        if length is not None and at + length <= size:
            yield Record(at, window.at(at, length), header)
            at += length
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
    length = _length_3(head)
    if length is not None:
        return length, None
    header = parse_header(window.at(at, _LAST_BLOCKETTE)) if _order(head) else None
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
        place = hint.start() - (0 if hint.group() == _VERSION_3 else 6)
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
            place = at - first + hint.start() - (0 if hint.group() == _VERSION_3 else 6)
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
