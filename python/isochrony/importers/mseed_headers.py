"""Recognises miniSEED 2 and 3 records and SEED control headers, and parses miniSEED 2 headers.

Source: SEED Reference Manual 2.4, chapter 8 (fixed section of the data header; blockettes 100, 1000 and 1001);
FDSN miniSEED 3 specification (fixed header).
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from .rational import simplest_near

__all__ = [
    "BLOCKETTE_OFFSET_LIMIT",
    "FIXED_BYTES",
    "VERSION_3",
    "Header",
    "byte_order_v2",
    "is_control",
    "is_data",
    "parse_header",
    "record_length_v3",
]

FIXED_BYTES = 48
# Exclusive upper bound of a blockette's offset.
BLOCKETTE_OFFSET_LIMIT = 8192
VERSION_3 = b"MS\x03"
# SEED 2 stamps count 100 us; blockette 1001 adds the microseconds.
_TICK_NS = 100_000

_QUALITY = b"DRQM"
_CONTROL = b"VAST"
_FIXED_3 = struct.Struct("<2sBBIHHBBBBdIIBBHI")
# Lengths are powers of two.
_LENGTH_EXPONENTS = range(6, 21)
_LONGEST_3 = 10 << 20
_TIME = {order: struct.Struct(order + "HHBBBBH") for order in "<>"}
_PLACES = {order: struct.Struct(order + "HH") for order in "<>"}
_SAMPLES = {order: struct.Struct(order + "HhhB3xi") for order in "<>"}
# The manual allows up to 9999; writers that round up to a whole second give 10000 or more.
_TICKS_LIMIT = 20_000
_SEQUENCE = bytes(range(0x20, 0x7F)) + b"\0"


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


def is_control(head: bytes) -> bool:
    """Whether bytes begin with a control header of a SEED volume."""
    return len(head) >= 8 and head[:6].isdigit() and head[6] in _CONTROL and head[7] in b" *"


def is_data(head: bytes) -> bool:
    """Whether bytes begin with the header of a record with data, of version 2 or 3."""
    return byte_order_v2(head) is not None or record_length_v3(head) is not None


def byte_order_v2(head: bytes) -> str | None:
    """Byte order of a version 2 header; None if there is none."""
    return _order_in(head[:FIXED_BYTES])


# Each header is tested up to three times: as the successor of the previous record, at its own offset, and when it is
# parsed.
@functools.lru_cache(maxsize=8)
def _order_in(head: bytes) -> str | None:
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
        is_place = (data == 0 or data >= FIXED_BYTES) and (
            blockette == 0 or FIXED_BYTES <= blockette < BLOCKETTE_OFFSET_LIMIT
        )
        if is_time and is_place and ticks < _TICKS_LIMIT:
            return order
    return None


def record_length_v3(head: bytes) -> int | None:
    """Length of a version 3 record by its fixed header; None if there is none."""
    if len(head) < _FIXED_3.size or head[:3] != VERSION_3:
        return None
    found = _FIXED_3.unpack_from(head)
    nanosecond, _, day, hour, minute, second = found[3:9]
    name, extra, data = found[14:17]
    length = _FIXED_3.size + name + extra + data
    is_time = 1 <= day <= 366 and hour <= 23 and minute <= 59 and second <= 60 and nanosecond < 1_000_000_000
    return length if is_time and length <= _LONGEST_3 else None


def parse_header(record: bytes) -> Header | None:
    """The header of a version 2 record of which at least the blockettes are there; None if it is none."""
    order = byte_order_v2(record)
    if order is None:
        return None
    year, day, hour, minute, second, _, ticks = _TIME[order].unpack_from(record, 20)
    samples, factor, multiplier, activity, correction = _SAMPLES[order].unpack_from(record, 30)
    data_offset, blockette = _PLACES[order].unpack_from(record, 44)
    rate = _nominal_rate(factor, multiplier)
    start = _year_begins(year) + (day - 1) * 86_400 + hour * 3600 + minute * 60 + second
    start_ns = start * 1_000_000_000 + ticks * _TICK_NS
    # Bit 1 says that the stamp holds the correction already.
    if not activity & 0x02:
        start_ns += correction * _TICK_NS
    resolution, encoding, length, data_order = _TICK_NS, None, None, order
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
