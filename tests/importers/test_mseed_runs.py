"""Records that are read and stored many at a time: the same as one by one, and as ObsPy reads them."""

from __future__ import annotations

import io
import os
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import obspy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obspy import Trace, UTCDateTime

import isochrony as iso
from isochrony._native import decode_mseed_run, find_mseed_run
from isochrony.errors import BadSourceError
from isochrony.importers import Block, Options, StampedBlocks, import_files, mseed, mseed_records
from mseed_parts import read, without_runs

RECORD = 256
DTYPES = {"INT16": "i2", "FLOAT32": "f4", "FLOAT64": "f8"}


def records(
    count: int, encoding: str = "STEIM2", byteorder: str = ">", rate: float = 100.0, station: str = "ABC"
) -> list[bytes]:
    data = np.cumsum(np.random.default_rng(count).integers(-90, 90, count)).clip(-30000, 30000)
    header = {"network": "XX", "station": station, "location": "00", "channel": "HHZ", "sampling_rate": rate}
    start = UTCDateTime(2012, 3, 4, 5, 6, 7, 123_400 if count % 2 else 123_456)
    out = io.BytesIO()
    Trace(data.astype(DTYPES.get(encoding, "i4")), {**header, "starttime": start}).write(
        out, format="MSEED", reclen=RECORD, encoding=encoding, byteorder=byteorder
    )
    whole = out.getvalue()
    return [whole[at : at + RECORD] for at in range(0, len(whole), RECORD)]


def later(record: bytes, byteorder: str, ticks: int) -> bytes:
    """A record with another start, in units of 100 us; the same if damage has made its start no time."""
    year, day, hour, minute, second, _, fraction = struct.unpack_from(byteorder + "HHBBBBH", record, 20)
    try:
        time = datetime(year, 1, 1, hour, minute, second, fraction * 100, tzinfo=UTC) + timedelta(days=day - 1)
    except (ValueError, OverflowError):
        return record
    time += timedelta(microseconds=ticks * 100)
    fields = (time.year, time.timetuple().tm_yday, time.hour, time.minute, time.second, 0, time.microsecond // 100)
    return record[:20] + struct.pack(byteorder + "HHBBBBH", *fields) + record[30:]


def flipped(record: bytes, at: int, bit: int) -> bytes:
    return record[:at] + bytes([record[at] ^ bit]) + record[at + 1 :]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Records of one recording, some gone, moved in time or place, repeated, damaged, flagged; noise; and others."""
    encoding = draw(st.sampled_from(["STEIM2", "STEIM1", "INT32", "INT16", "FLOAT32", "FLOAT64"]))
    order = draw(st.sampled_from("<>"))
    # Most rates need blockette 100 or do not fit the stamps' digits.
    rate = draw(st.sampled_from([100.0, 1.0, 31.25, 200 / 3, 250.0, 0.7]))
    found = records(draw(st.integers(500, 4000)), encoding, order, rate)
    others = records(700, encoding, order, rate, "OTHER")
    for _ in range(draw(st.sampled_from([0, 1, 2, 5, 20]))):
        at = draw(st.integers(0, len(found) - 1))
        one = found[at]
        is_whole = len(one) == RECORD
        match draw(st.integers(0, 10)):
            case 0:
                del found[at : at + draw(st.integers(1, 4))]
            case 1:
                found.insert(draw(st.integers(0, len(found))), one)
            case 2:
                found.insert(at, draw(st.sampled_from(others)))
            case 3:
                found.insert(at, draw(st.binary(min_size=1, max_size=300)))
            case 4 if is_whole:
                by = draw(st.sampled_from([-10_000, -300, -1, 1, 20, 300, 10_000, 5_000_000]))
                found[at:] = [later(rest, order, by) if len(rest) == RECORD else rest for rest in found[at:]]
            case 5 if is_whole:
                found[at] = later(one, order, draw(st.integers(-30_000, 30_000)))
            case 6 if is_whole:
                found[at] = flipped(one, 36, draw(st.sampled_from([0x10, 0x20, 0x02, 0x01])))
            case 7 if is_whole:
                found[at] = flipped(one, draw(st.integers(0, RECORD - 1)), 1 << draw(st.integers(0, 7)))
            case 8 if is_whole:
                found[at] = one[:40] + struct.pack(order + "i", draw(st.integers(-20_000, 20_000))) + one[44:]
            case 9 if is_whole:
                # A header within a record.
                place = draw(st.sampled_from([64, 128, 100]))
                found[at] = one[:place] + draw(st.sampled_from([one, others[0]]))[:48] + one[place + 48 :]
            case _:
                found[at], found[0] = found[0], found[at]
        found = found or records(500, encoding, order, rate)
    whole = b"".join(found)
    return whole[: len(whole) - draw(st.sampled_from([0, 0, 0, 1, 100, 255]))]


@contextmanager
def sizes(window: int, run: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mseed_records, "_WINDOW_BYTES", window)
        patched.setattr(mseed_records, "_RUN_BYTES", run)
        yield


def parts(path: Path) -> list[Any]:
    """All that an import takes of a file, comparable; the message of what is refused."""
    try:
        found = read(path, "unused", Options())
    except BadSourceError as error:
        return [str(error)]
    return [
        (one.signal, one.start, one.rate, one.leap, one.attrs, one.samples.dtype, one.samples.tobytes())
        if isinstance(one, Block)
        else one
        for one in found
    ]


@given(
    whole=files(),
    window=st.sampled_from([300, 1000, 5000, 1 << 20]),
    run=st.sampled_from([RECORD, 3 * RECORD, 1 << 18]),
)
def test_any_file_is_read_as_record_by_record(
    whole: bytes, window: int, run: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("runs") / "a.mseed"
    path.write_bytes(whole)
    with without_runs():
        expected = parts(path)
    with sizes(window, run):
        assert parts(path) == expected


def stored(folder: Path, path: Path, beginning: bytes, whole: bytes) -> list[Any]:
    """What a store holds of a file that was imported and grew: its tables byte for byte, and what the imports said."""
    told: list[Any] = []
    for content in (beginning, whole):
        path.write_bytes(content)
        # Provenance tells the time of the last change.
        os.utime(path, (len(content), len(content)))
        with iso.open(folder, mode="a") as store, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            summary = import_files(store, path)
            told.append([(key, repr(value)) for key, value in summary.items() if key != "seconds"])
            for name, signal in store.items():
                told.append((name, [np.asarray(one).tobytes() for one in signal[:].segments]))
                told.append([(one.kind, one.start, one.end, repr(one.fields)) for one in signal.events])
    # Samples and views stand behind a head with the identity of the store.
    tables = [
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not {"data", "views", ".isochrony"} & set(file.relative_to(folder).parts)
    ]
    own = [(str(file.relative_to(folder)), file.read_bytes()) for file in tables if file.parent != folder]
    return [*told, *own]


@given(whole=files(), run=st.sampled_from([3 * RECORD, 1 << 18]), grown=st.floats(0.2, 1))
def test_any_file_is_stored_as_record_by_record(
    whole: bytes, run: int, grown: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    beginning = whole[: int(grown * len(whole))]
    stores = []
    for name, reading in (("one", without_runs()), ("many", nullcontext())):
        with sizes(1 << 20, run), reading:
            stores.append(stored(folder / f"{name}.iso", folder / "a.mseed", beginning, whole))
    assert stores[0] == stores[1]


def test_real_recordings_are_stored_as_record_by_record(recordings: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mseed"
    for number, file in enumerate([*(recordings / "odd-mseed").iterdir(), *(recordings / "seismic").glob("*.mseed")]):
        whole = file.read_bytes()
        stores = []
        for name, reading in (("one", without_runs()), ("many", nullcontext())):
            with reading:
                stores.append(stored(tmp_path / f"{name}{number}.iso", path, whole, whole))
        assert stores[0] == stores[1], file.name


@pytest.mark.parametrize("encoding", ["STEIM2", "STEIM1", "INT32", "INT16", "FLOAT32", "FLOAT64"])
@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_records_of_a_run_have_the_samples_and_starts_that_obspy_reads(
    encoding: str, byteorder: str, tmp_path: Path
) -> None:
    found = records(5001, encoding, byteorder)
    path = tmp_path / "a.mseed"
    path.write_bytes(b"".join(found))
    first, run = mseed.read(path, "unused", Options())
    # The first record comes by itself; all others come together.
    assert isinstance(first, Block)
    assert isinstance(run, StampedBlocks)
    expected = [obspy.read(io.BytesIO(record))[0] for record in found[1:]]
    assert np.array_equal(run.samples, np.concatenate([one.data for one in expected]))
    assert run.counts.tolist() == [len(one.data) for one in expected]
    assert run.starts_ns.tolist() == [one.stats.starttime.ns for one in expected]


def test_a_run_ends_where_a_record_is_out_of_the_ordinary() -> None:
    good = records(3000)
    other = records(3000, station="OTHER")
    assert len(good) > 9

    def run(*pieces: bytes, rest: int | None = None, most: int = 1 << 20) -> int:
        window = b"".join(pieces)
        end, count = find_mseed_run(window, 0, most, len(window) if rest is None else rest)
        assert end == count * RECORD
        return count

    assert run(*good) == len(good)
    assert run(*good[:6], most=1000) == 3
    assert run(*good[:3], *other) == 3
    assert run(*good[:3], b"noise" * 60, *good[3:]) == 2
    assert run(*good[:3], *records(3000, rate=50)) == 3
    assert run(*good[:3], *records(3000, "STEIM1")) == 3
    # More of the file follows, which may be anything.
    assert run(*good[:3], rest=10_000) == 2
    # Leap second, no samples, the header of another record of the channel within, no stated length.
    for at, value in ((36, b"\x10"), (30, b"\0\0"), (128, good[0][:48]), (48, b"\3\4")):
        changed = good[3][:at] + value + good[3][at + len(value) :]
        assert run(*good[:3], changed, *good[4:]) == 3, at
    assert run(b"") == 0
    assert find_mseed_run(b"".join(good), len(good) * RECORD + 1, 1 << 20, 0) == (len(good) * RECORD + 1, 0)


def test_a_damaged_record_comes_by_itself_in_its_place() -> None:
    good = records(3000)
    window = b"".join(flipped(one, 100, 4) if at in (0, 4, 5) else one for at, one in enumerate(good[:8]))
    found = decode_mseed_run(window, 0, len(window), 8)
    assert found is not None
    assert [(start // RECORD, end // RECORD, arrays is None) for start, end, arrays in found] == [
        (0, 1, True),
        (1, 4, False),
        (4, 5, True),
        (5, 6, True),
        (6, 8, False),
    ]


@pytest.mark.parametrize("counts", [[3, 4], [7, 0], [8], [6], [9, -2]])
def test_blocks_must_be_as_long_as_stated(counts: list[int], tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        session = store.ingest()
        samples = np.arange(7, dtype="i4")
        starts = 10**18 + 10_000_000 * np.arange(len(counts))
        described = {"rate": (100, 1), "resolution_ns": 1000, "source": "a"}
        if sum(counts) == 7 and min(counts) > 0:
            session.blocks("x", samples, np.array(counts), starts, **described)
            with pytest.raises(iso.ImportRefusedError, match="2 counts and 1 starts"):
                session.blocks("x", samples, np.array(counts), starts[:1], **described)
            with pytest.raises(iso.ImportRefusedError, match="starts have dtype float64"):
                session.blocks("x", samples, np.array(counts), starts.astype("f8"), **described)
            return
        with pytest.raises(iso.ImportRefusedError, match=rf"given 7 samples .* add up to {sum(counts)};"):
            session.blocks("x", samples, np.array(counts), starts, **described)
