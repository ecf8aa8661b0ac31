"""Decodes the samples of miniSEED records by pymseed (EarthScope's libmseed), and checks them.

Steim frames hold the last sample a second time, as the integration constant X_n. libmseed only warns where the
decoded samples end in another value; here that is an error, since one flipped bit changes all samples behind it.

Source: SEED Reference Manual 2.4, appendix B (Steim 1 and 2 compression).
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ..errors import BadSourceError
from .block import Samples
from .mseed_headers import FIXED_BYTES
from .mseed_records import Record

__all__ = ["ENCODINGS", "TEXT", "samples_of", "samples_of_version_3"]

# Names for `encoding=`, and what blockette 1000 calls them.
ENCODINGS = {
    "int16": 1,
    "int32": 3,
    "float32": 4,
    "float64": 5,
    "steim1": 10,
    "steim2": 11,
    "geoscope24": 12,
    "geoscope16-3": 13,
    "geoscope16-4": 14,
    "cdsn": 16,
    "sro": 30,
    "dwwssn": 32,
}
TEXT = 0
_STEIM = (10, 11)
# Bytes of a sample where all have as many.
_WIDTHS = {1: 2, 3: 4, 4: 4, 5: 8, 12: 3, 13: 2, 14: 2, 16: 2, 30: 2, 32: 2}
_OTHER_ORDER = {"<": ">", ">": "<"}
# Records without blockette 1000 put their samples behind the header or behind a first frame of blockettes.
_USUAL_OFFSETS = (64, 128)
_DATA_AT = 64


def samples_of(pymseed: Any, record: Record, encoding: int | None = None) -> Samples:
    """The samples of a version 2 record.

    What the header states is tried first. Where it states no encoding, byte order or place that the samples agree
    with, Steim 1 and 2 in either byte order are; those are taken only if they end in the value that is stored for
    their last sample.

    Parameters:
        pymseed: the module.
        record: a whole record with samples.
        encoding: number of the encoding of records that do not state it.

    Raises:
        BadSourceError: an unknown encoding, fewer samples than stated, or another last value than stored.
    """
    header = record.header
    assert header is not None
    stated = encoding if header.encoding is None else header.encoding
    offset = header.data_offset
    if stated is not None and offset:
        try:
            return _decoded(pymseed, record.data[offset:], stated, header.data_order, header.samples)
        except BadSourceError:
            if stated not in _STEIM:
                raise
            found = _searched(pymseed, record, (stated,), (offset,))
            if found is None:
                raise
            return found
    kinds = _STEIM if stated is None else (stated,) if stated in _STEIM else ()
    found = _searched(pymseed, record, kinds, (offset,) if offset else _USUAL_OFFSETS)
    if found is None:
        missing = "blockette 1000, which tells the encoding" if stated is None else "the place of its samples"
        raise BadSourceError(
            f"states no {missing}, and its samples are not in Steim 1 or 2; give the encoding of its samples with "
            "encoding="
        )
    return found


def _searched(pymseed: Any, record: Record, encodings: tuple[int, ...], offsets: tuple[int, ...]) -> Samples | None:
    """Samples of the first of some encodings, places and byte orders that agree with their stored last value."""
    header = record.header
    assert header is not None
    for encoding in encodings:
        for order in (header.data_order, _OTHER_ORDER[header.data_order]):
            for offset in offsets:
                try:
                    return _decoded(pymseed, record.data[offset:], encoding, order, header.samples)
                except BadSourceError:
                    continue
    return None


def _decoded(pymseed: Any, payload: bytes, encoding: int, order: str, count: int) -> Samples:
    if encoding not in ENCODINGS.values():
        raise BadSourceError(f"has encoding {encoding}, which is not known")
    width = _WIDTHS.get(encoding, 0)
    if len(payload) < max(count * width, 1):
        raise BadSourceError(_incomplete(len(payload) // width if width else 0, count))
    record = _wrapped(payload, encoding, order, count)
    try:
        decoded = pymseed.MS3Record.parse(record, unpack_data=True)
    except pymseed.PymseedError as error:
        raise BadSourceError(f"does not decode ({_one_line(error)})") from error
    if decoded.numsamples != count:
        raise BadSourceError(_incomplete(decoded.numsamples, count))
    samples: Samples = np.array(decoded.np_datasamples, copy=True)
    if encoding in _STEIM:
        _check_last(samples, payload, order)
    return samples


def _incomplete(found: int, count: int) -> str:
    return f"is damaged: its header states {count} samples, its data has {max(found, 0)}; fetch the file again"


def _check_last(samples: Samples, payload: bytes, order: str) -> None:
    stored = struct.unpack_from(order + "i", payload, 8)[0]
    if int(samples[-1]) != stored:
        raise BadSourceError(
            f"is damaged: its last sample decodes to {int(samples[-1])}, but the record says that it is {stored}; "
            "fetch the file again"
        )


def _wrapped(payload: bytes, encoding: int, order: str, count: int) -> bytes:
    """A plain record of the same samples, so that nothing in the record's own header can mislead the decoder."""
    exponent = max((_DATA_AT + len(payload) - 1).bit_length(), 7)
    fixed = struct.pack(
        ">6scc5s2s3s2sHHBBBBHHhhBBBBiHH",
        *(b"000001", b"D", b" ", b"A    ", b"  ", b"BHZ", b"XX"),
        *(2000, 1, 0, 0, 0, 0, 0, count, 1, 1, 0, 0, 0, 1, 0, _DATA_AT, FIXED_BYTES),
    )
    blockette = struct.pack(">HHBBBB", 1000, 0, encoding, order == ">", exponent, 0)
    return (fixed + blockette).ljust(_DATA_AT, b"\0") + payload.ljust((1 << exponent) - _DATA_AT, b"\0")


def samples_of_version_3(record: Any, data: bytes) -> Samples:
    """The samples of a version 3 record that pymseed has parsed, checksum included.

    Raises:
        BadSourceError: another last value than stored.
    """
    samples: Samples = np.array(record.np_datasamples, copy=True)
    if record.encoding in _STEIM:
        # Its samples end the record, and Steim frames are big endian there.
        _check_last(samples, data[len(data) - record.datalength :], ">")
    return samples


def _one_line(error: Exception) -> str:
    """What the decoder says, without what it says of the record that it was wrapped in."""
    said = " ".join(str(error).split()).removeprefix("Error: ").replace("FDSN:XX_A__B_H_Z: ", "")
    return said.removesuffix(" :: Error parsing miniSEED record")
