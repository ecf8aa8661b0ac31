"""The native decoder of miniSEED samples against ObsPy, and against the decoder of pymseed on damaged records."""

from __future__ import annotations

import io
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import obspy
import pymseed
import pytest
from obspy import Trace

from isochrony._native import decode_mseed
from isochrony.errors import BadSourceError
from isochrony.importers import Block, Omission, Options, mseed_ahead, mseed_samples
from isochrony.importers.mseed_headers import Header
from isochrony.importers.mseed_records import Record
from mseed_parts import read, split, without_runs

HEADER = {"network": "XX", "station": "ABC", "channel": "HHZ", "sampling_rate": 100.0}


def encoded(data: np.ndarray, encoding: str, byteorder: str, reclen: int) -> bytes:
    out = io.BytesIO()
    Trace(data, header=HEADER).write(out, format="MSEED", encoding=encoding, byteorder=byteorder, reclen=reclen)
    return out.getvalue()


def records(content: bytes) -> list[Record]:
    return [part for part in split(io.BytesIO(content), len(content)) if isinstance(part, Record)]


def natively(found: list[Record]) -> list[Any]:
    described = []
    for record in found:
        header = record.header
        assert header is not None
        assert header.encoding is not None
        described.append((record.data, header.data_offset, header.encoding, header.data_order == "<", header.samples))
    return decode_mseed(described)


def differences(rng: np.random.Generator, count: int, bits: int) -> np.ndarray:
    """Samples whose differences have up to this many bits, in stretches of similar ones, so that every code occurs."""
    widths = np.repeat(rng.integers(1, bits + 1, count // 16 + 1), 16)[:count]
    steps = np.round((rng.random(count) - 0.5) * 2.0**widths)
    wrapped = np.cumsum(steps) % 2**bits - 2 ** (bits - 1)
    return wrapped.astype("i4")


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize(("encoding", "bits"), [("STEIM1", 31), ("STEIM2", 29)])
def test_steim_samples_are_those_of_obspy(encoding: str, bits: int, byteorder: str) -> None:
    rng = np.random.default_rng(11)
    for reclen in (256, 512, 4096):
        for most in (3, 6, 8, 10, 15, 17, bits):
            # Most lengths leave the last record partly filled.
            data = differences(rng, int(rng.integers(1, 5000)), most)
            content = encoded(data, encoding, byteorder, reclen)
            decoded = natively(records(content))
            assert all(one is not None for one in decoded)
            assert np.array_equal(np.concatenate(decoded), data)
            assert np.array_equal(obspy.read(io.BytesIO(content))[0].data, data)


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize(
    ("encoding", "written", "given"),
    [("INT16", "i2", "i4"), ("INT32", "i4", "i4"), ("FLOAT32", "f4", "f4"), ("FLOAT64", "f8", "f8")],
)
def test_plain_numbers_are_those_that_were_written(encoding: str, written: str, given: str, byteorder: str) -> None:
    bits = np.random.default_rng(12).integers(0, 256, 1003 * np.dtype(written).itemsize, dtype="u1")
    data = bits.view(written)
    found = natively(records(encoded(data, encoding, byteorder, 512)))
    assert {one.dtype for one in found} == {np.dtype(given)}
    assert np.concatenate(found).tobytes() == data.astype(given).tobytes()


def parts(content: bytes, path: Path, **options: Any) -> list[Any]:
    """All that an import takes of a file, comparable; the message of what is refused."""
    path.write_bytes(content)
    try:
        found = list(read(path, "unused", Options(**options)))
    except BadSourceError as error:
        return [str(error)]
    return [
        (part.signal, part.start, part.rate, part.samples.dtype, part.samples.tobytes())
        if isinstance(part, Block)
        else part
        for part in found
    ]


def by_pymseed(content: bytes, path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[Any]:
    with monkeypatch.context() as patched, without_runs():
        patched.setattr(mseed_ahead, "decode_mseed", lambda records: [None] * len(records))
        return parts(content, path, **options)


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("encoding", ["STEIM1", "STEIM2", "INT16", "INT32", "FLOAT32"])
def test_damaged_records_are_read_and_reported_as_by_pymseed(
    encoding: str, byteorder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(13)
    path = tmp_path / "damaged.mseed"
    dtype = {"INT16": "i2", "FLOAT32": "f4"}.get(encoding, "i4")
    whole = encoded(differences(rng, 3000, 14).astype(dtype), encoding, byteorder, 512)
    omitted = 0
    for round_ in range(40):
        damaged = bytearray(whole)
        for at in rng.integers(0, len(damaged), 8):
            # Headers, too: of them encoding, byte order, place and number of samples.
            damaged[at] ^= 1 << int(rng.integers(8))
        # Frame codes, the first and the last value, and the stated number of samples are hit rarely by chance.
        first = int(rng.integers(len(whole) // 512)) * 512
        place = (64, 68, 72, 31, 30, 52, 53, 45)[round_ % 8]
        damaged[first + place] ^= 1 << int(rng.integers(8))
        found = parts(bytes(damaged), path)
        assert found == by_pymseed(bytes(damaged), path, monkeypatch)
        omitted += sum(isinstance(part, Omission) for part in found)
    assert omitted > 10


def test_recordings_are_read_as_by_pymseed(recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "copy.mseed"
    files = [*(recordings / "odd-mseed").iterdir(), *(recordings / "seismic").glob("*.mseed")]
    assert len(files) > 20
    for file in files:
        content = file.read_bytes()
        for encoding in (None, "steim1", "int32", "dwwssn"):
            found = parts(content, path, encoding=encoding)
            assert found == by_pymseed(content, path, monkeypatch, encoding=encoding), (file.name, encoding)


def test_records_of_a_long_file_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches are decoded at a time; noise and a damaged record stay in their places."""
    data = differences(np.random.default_rng(14), 2_600_000, 12)
    content = bytearray(encoded(data, "STEIM2", ">", 512))
    assert len(content) > 3 * mseed_ahead._BATCH_BYTES
    content[512 * 4000 + 100] ^= 0x55
    content[512 * 5000 : 512 * 5000] = b"\xaa" * 512
    path = tmp_path / "long.mseed"
    found = parts(bytes(content), path)
    assert found == by_pymseed(bytes(content), path, monkeypatch)
    assert [type(part) for part in found].index(Omission) == 4000
    assert sum(isinstance(part, Omission) for part in found) == 2


def test_what_was_read_before_a_failing_disk_is_given() -> None:
    content = encoded(differences(np.random.default_rng(17), 2_600_000, 12), "STEIM2", ">", 512)
    whole = records(content)

    def failing() -> Iterator[Record]:
        yield from whole[:5000]
        raise OSError("input/output error")

    given = mseed_ahead.decoded(failing(), len(content), None)
    found = [next(given) for _ in range(5000)]
    assert [one.part for one in found if isinstance(one, mseed_ahead.DecodedPart)] == whole[:5000]
    with pytest.raises(OSError, match="input/output error"):
        next(given)


def test_records_that_are_not_as_described_give_nothing() -> None:
    content = encoded(np.arange(300, dtype="i4") ** 2, "STEIM2", ">", 512)
    record = records(content)[0]
    assert record.header is not None
    count = record.header.samples
    good = (record.data, 64, 11, False, count)
    bad = [
        (record.data, 64, 11, True, count),
        (record.data, 64, 10, False, count),
        (record.data, 64, 11, False, count - 1),
        (record.data, 64, 11, False, 1 << 62),
        (record.data, 512, 11, False, count),
        (record.data, 600, 11, False, count),
        (record.data, 64, 3, False, 113),
        (record.data, 64, 12, False, count),
        (b"", 0, 5, False, 1),
    ]
    decoded = decode_mseed([good, *bad, good])
    assert np.array_equal(decoded[0], decoded[-1])
    assert decoded[1:-1] == [None] * len(bad)


def test_frames_of_chance_decode_as_by_libmseed() -> None:
    """Any codes, with unknown ones among them, and any differences: they overflow 32 bits, too."""
    rng = np.random.default_rng(16)
    given = refused = 0
    for _ in range(2000):
        order, encoding = "<>"[rng.integers(2)], int(rng.integers(10, 12))
        frames = rng.integers(0, 1 << 32, (int(rng.integers(1, 8)), 16), dtype="u8").astype(order + "u4")
        # Mostly valid codes: of Steim 2 each third of the words would be an unknown one.
        if rng.integers(4):
            frames[:, 1:] |= np.array(1 << 30, order + "u4")
            frames[:, 1:] &= np.array(0x7FFFFFFF, order + "u4")
        count = int(rng.integers(1, 60 * len(frames)))
        header = Header(("", "", "", ""), 0, 1, Fraction(1), count, 64, encoding, order, order, None, False)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(mseed_samples, "_check_last", lambda *_: None)
            try:
                expected = mseed_samples._decoded(pymseed, frames.tobytes(), encoding, order, count)
            except BadSourceError:
                expected = None
        if expected is not None:
            frames[0, 2] = expected[-1].view("u4")
        record = Record(0, bytes(64) + frames.tobytes(), header)
        (found,) = natively([record])
        if expected is None:
            refused += 1
            assert found is None
        else:
            given += 1
            assert found is not None
            assert np.array_equal(found, expected)
    assert given > 400
    assert refused > 400
