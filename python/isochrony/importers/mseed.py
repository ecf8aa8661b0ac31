"""miniSEED 2 and 3, and full SEED volumes.

Every record gives one block, alone or among several that come together, so every record's own start time becomes a
point of the timebase. Whole records are imported wherever they stand in a file; what is no record, or a damaged one, is
left out and told with its place (`mseed_records` finds them, `mseed_headers` reads their headers, `mseed_ahead` decodes
most of them in threads, `mseed_samples` decodes and checks the rest). Rates are exact: version 2 states them as two
integers. Blank codes become ``--`` in the signal's name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..errors import BadSourceError, UsageError
from ..extras import require
from .block import Block, Omission, Options, Part, Remark, Samples, Stamp, StampedBlocks
from .mseed_ahead import DecodedRun, decoded
from .mseed_headers import is_control, is_data
from .mseed_records import Record, Unreadable, split
from .mseed_samples import ENCODINGS, TEXT, samples_of, samples_of_version_3
from .rational import simplest_near
from .registry import Format

__all__ = ["FORMAT", "read"]

_LEAP_SECOND = "/FDSN/Time/LeapSecond"


def recognises(head: bytes) -> bool:
    """A record with data of either version, or a control header of a volume."""
    return is_data(head) or is_control(head)


def read(path: Path, signal: str, options: Options) -> Iterator[Part]:  # noqa: ARG001
    """Blocks of a file, one for each record with samples, and what is left out. `signal` is not used: they have names.

    Raises:
        BadSourceError: no record with samples. UsageError: an unknown `Options.encoding`.
    """
    pymseed = require("pymseed", "reading miniSEED")
    encoding = _encoding(options.encoding)
    found = whole = uses_encoding = False
    left_out: list[Omission] = []
    with path.open("rb") as file:
        size = path.stat().st_size
        for one in decoded(split(file, size), size, encoding):
            block: Block | StampedBlocks | None = None
            if isinstance(one, DecodedRun):
                whole = True
                block = _blocks(one, options)
            elif isinstance(one.part, Unreadable):
                left_out.append(Omission(f"byte {one.part.offset}: {one.part.reason}"))
            else:
                whole = True
                record = one.part
                uses_encoding |= record.header is not None and record.header.encoding is None
                try:
                    block = _block(pymseed, record, one.samples, encoding, options)
                except BadSourceError as error:
                    reason = f"byte {record.offset}: the record of {len(record.data)} bytes {error}"
                    left_out.append(Omission(reason))
            # Told in the order of the file, but not before anything of it is known to be good.
            found |= block is not None
            if found:
                yield from left_out
                left_out.clear()
            if block is not None:
                yield block
    if not found:
        why = f" ({left_out[0].reason})" if left_out else ""
        what = "holds no SEED record with numeric samples"
        if not whole:
            what = "does not begin with a SEED record, and none follows"
            with path.open("rb") as file:
                if not left_out and is_control(file.read(8)):
                    what = "has control headers of SEED, and no record with data"
        raise BadSourceError(f"{what}{why}; fetch it again, or leave it out")
    if encoding is not None and not uses_encoding:
        yield Remark("its records state their encoding, and encoding= was not used")


def _encoding(name: str | None) -> int | None:
    if name is None:
        return None
    if name not in ENCODINGS:
        raise UsageError(f"unknown encoding {name!r}; known are {', '.join(ENCODINGS)}")
    return ENCODINGS[name]


def _block(
    pymseed: Any, record: Record, samples: Samples | None, encoding: int | None, options: Options
) -> Block | None:
    """The block of a record, of which samples may be decoded; None if it holds no numeric samples."""
    header = record.header
    if header is None:
        return _block_of_version_3(pymseed, record, options)
    if header.samples == 0 or header.encoding == TEXT:
        return None
    if header.rate <= 0:
        raise BadSourceError(_without_rate(header.samples))
    if samples is None:
        samples = samples_of(pymseed, record, encoding)
    return Block(
        samples=samples,
        rate=header.rate,
        start=Stamp(header.start_ns, header.resolution_ns),
        leap=header.leap,
        **_named(header.codes, _source_id(header.codes), options.unit),
    )


def _blocks(run: DecodedRun, options: Options) -> StampedBlocks:
    header = run.header
    return StampedBlocks(
        samples=run.samples,
        counts=run.counts,
        starts_ns=run.starts_ns,
        rate=header.rate,
        resolution_ns=header.resolution_ns,
        **_named(header.codes, _source_id(header.codes), options.unit),
    )


def _without_rate(samples: int) -> str:
    return f"has {samples} samples but no sample rate; correct the rate in its header and import the file again"


def _block_of_version_3(pymseed: Any, record: Record, options: Options) -> Block | None:
    try:
        parsed = pymseed.MS3Record.parse(record.data, unpack_data=True)
    except pymseed.PymseedError as error:
        raise BadSourceError(f"cannot be read ({' '.join(str(error).split())})") from error
    if parsed.numsamples <= 0 or parsed.sampletype not in ("i", "f", "d"):
        return None
    # A negative raw value is a period in seconds.
    raw = float(parsed.samprate_raw)
    exact = simplest_near(abs(raw), 1e-15) if raw else Fraction(0)
    if exact == 0:
        raise BadSourceError(_without_rate(parsed.numsamples))
    return Block(
        samples=samples_of_version_3(parsed, record.data),
        rate=exact if raw > 0 else 1 / exact,
        start=Stamp(parsed.starttime),
        # 1, 0, or -1 for one left out, which a stamp shows as a gap of a second.
        leap=bool(parsed.extralength) and int(parsed.get_extra_header(_LEAP_SECOND) or 0) > 0,
        **_named(pymseed.sourceid2nslc(parsed.sourceid), parsed.sourceid, options.unit),
    )


@functools.lru_cache(maxsize=4096)
def _named(codes: tuple[str, str, str, str], source_id: str, unit: str | None) -> dict[str, Any]:
    """What blocks of a channel have in common."""
    names = ("network", "station", "location", "channel")
    shown = [_component(code) for code in codes]
    attrs = dict(zip(names, shown, strict=True)) | {"source_id": source_id}
    return {"signal": "/".join(shown), "unit": unit or "counts", "attrs": attrs}


def _component(code: str) -> str:
    """A code as part of a signal's name; ``--`` stands for a blank one, as is usual for locations."""
    # Zarr reserves two underscores at the beginning of a name.
    name = code.replace("/", "_").replace("\\", "_").replace("__", "--")
    return name if name.strip(".") else "-" * len(name) or "--"


@functools.lru_cache(maxsize=4096)
def _source_id(codes: tuple[str, str, str, str]) -> str:
    """FDSN source identifier of SEED 2 codes."""
    network, station, location, channel = codes
    return f"FDSN:{network}_{station}_{location}_{'_'.join(channel)}"


FORMAT = Format(
    name="mseed",
    summary="miniSEED 2 and 3, full SEED volumes",
    suffixes=(".mseed", ".msd", ".ms", ".seed", ".mseed3"),
    read=read,
    recognises=recognises,
    checks_parts=True,
    extra="seismic",
    uses=("unit", "encoding"),
)
