"""miniSEED 2 and 3, and full SEED volumes, by pymseed (EarthScope's libmseed).

Every record gives one block, so every record's own start time becomes a point of
the timebase. A SEED volume carries control headers before its data; they are
skipped. Rates are exact: miniSEED 2 states them as two integers, of which
libmseed hands on only the quotient, so they are read from the record itself.

Source: SEED Reference Manual 2.4, chapters 8 and Appendix (fixed section of the
data header, blockettes 100 and 1001); FDSN miniSEED 3 specification.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadSourceError
from ..extras import require
from .block import Block, Options, Stamp
from .rational import simplest_near
from .registry import Format

__all__ = ["FORMAT", "read"]

# SEED 2 stamps count 100 us; blockette 1001 adds the microseconds.
_TICK_NS = 100_000
_DATA_QUALITY = b"DRQM"
_CONTROL = b"VAST"
_LEAP_SECOND = "/FDSN/Time/LeapSecond"


def recognises(head: bytes) -> bool:
    """Six digits and a record type (SEED 2, control headers too), or ``MS`` and version 3."""
    if head[:3] == b"MS\x03":
        return True
    return len(head) >= 8 and head[:6].isdigit() and head[6] in _DATA_QUALITY + _CONTROL


def read(path: Path, signal: str, options: Options) -> Iterator[Block]:  # noqa: ARG001
    """Blocks of a file, one per record with samples. `signal` is not used: records name theirs.

    Raises:
        BadSourceError: no record with samples, a damaged record, or a file that ends
            part way through one (unless ``options.partial``).
    """
    pymseed = require("pymseed", "reading miniSEED")
    with path.open("rb") as file:
        head = file.read(64)
    if not recognises(head):
        raise BadSourceError(
            f"does not begin with a SEED record (first bytes {head[:8]!r}); leave it out, or name its format="
        )
    volume = head[6] in _CONTROL
    found = False
    length = 0
    try:
        reader = pymseed.MS3Record.from_file(path, unpack_data=True, skip_not_data=volume)
        for record in reader:
            length = record.reclen
            if record.numsamples > 0 and record.sampletype in ("i", "f", "d"):
                found = True
                yield _block(pymseed, record, options)
    except pymseed.PymseedError as error:
        if not found:
            raise BadSourceError(
                f"holds no whole SEED record ({_one_line(error)}); fetch it again, or leave it out"
            ) from error
        if not options.partial:
            how = "truncated" if "incomplete" in str(error).lower() else "damaged"
            raise BadSourceError(
                f"is {how} ({_one_line(error)}): fetch it again, or take the whole records before with partial=True"
            ) from error
    if not found:
        raise BadSourceError("holds no SEED record with numeric samples; leave it out")
    # Skipping what is not data also skips a last record that is cut short.
    excess = path.stat().st_size % length if volume and length else 0
    if excess and not options.partial:
        raise BadSourceError(
            f"ends {excess} bytes into a record of {length}; it is truncated: "
            "fetch it again, or take the whole records with partial=True"
        )


def _block(pymseed: Any, record: Any, options: Options) -> Block:
    network, station, location, channel = pymseed.sourceid2nslc(record.sourceid)
    codes = (network, station, location or "--", channel)
    if not all(codes):
        raise BadSourceError(f"record of {record.sourceid!r} lacks a SEED code; leave the file out, or mend its header")
    rate, resolution = _rate_and_resolution(record)
    return Block(
        signal="/".join(codes),
        # The reader reuses its buffer for the next record.
        samples=np.array(record.np_datasamples, copy=True),
        rate=rate,
        start=Stamp(record.starttime, resolution),
        unit=options.unit or "counts",
        attrs={
            "network": network,
            "station": station,
            "location": location,
            "channel": channel,
            "source_id": record.sourceid,
        },
        # Bit 4 of the activity flags of SEED 2, which libmseed tells as the header of miniSEED 3.
        leap=_leap_seconds(record) > 0,
    )


def _leap_seconds(record: Any) -> int:
    """Leap seconds during a record: 1, 0, or -1 for one left out, which a stamp shows as a gap of a second."""
    return int(record.get_extra_header(_LEAP_SECOND) or 0) if record.extralength else 0


def _rate_and_resolution(record: Any) -> tuple[Fraction, int]:
    """Exact rate in Hz, and the width of the stamp's last digit in ns."""
    stated = float(record.samprate)
    if record.formatversion >= 3:
        # A negative raw value is a period in seconds, which libmseed inverts.
        raw = float(record.samprate_raw)
        exact = simplest_near(abs(raw), 1e-15)
        return (exact if raw > 0 else 1 / exact), 1
    header = record.record
    year_big = struct.unpack_from(">H", header, 20)[0]
    order = ">" if 1900 <= year_big <= 2100 else "<"
    factor, multiplier = struct.unpack_from(order + "hh", header, 32)
    rate = Fraction(0)
    if factor and multiplier:
        rate = Fraction(factor) if factor > 0 else Fraction(1, -factor)
        rate *= Fraction(multiplier) if multiplier > 0 else Fraction(1, -multiplier)
    # Blockette 100 may state a better rate than the two integers can, as a float32.
    if rate == 0 or abs(float(rate) - stated) > 1e-9 * stated:
        rate = simplest_near(stated, 6e-8)
    return rate, 1_000 if _has_blockette(header, order, 1001) else _TICK_NS


def _has_blockette(header: bytes, order: str, wanted: int) -> bool:
    """Whether a SEED 2 record carries a blockette; a chain that runs in a circle ends."""
    at = struct.unpack_from(order + "H", header, 46)[0]
    while 48 <= at <= len(header) - 4:
        kind, following = struct.unpack_from(order + "HH", header, at)
        if kind == wanted:
            return True
        if following <= at:
            break
        at = following
    return False


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


FORMAT = Format(
    name="mseed",
    summary="miniSEED 2 and 3, full SEED volumes",
    suffixes=(".mseed", ".msd", ".ms", ".seed", ".mseed3"),
    read=read,
    recognises=recognises,
    extra="seismic",
)
