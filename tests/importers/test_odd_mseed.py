"""Odd miniSEED: what we read of it beside what ObsPy reads, record for record, and what we say of the rest."""

from __future__ import annotations

import io
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import obspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obspy import Trace, UTCDateTime

import isochrony as iso
from isochrony.importers import Block, Omission, Options, import_files
from isochrony.importers.mseed_records import Record, Unreadable
from mseed_parts import read, split

# Files of which nothing is taken; of the text ObsPy reads eight characters.
NOT_TAKEN = {
    "not.mseed": "does not begin with a SEED record",
    "not2.mseed": "does not begin with a SEED record",
    "smallASCII_littleEndian.mseed": "no SEED record with numeric samples",
}
# Fragments of records, which ObsPy refuses as a whole: one of them is undamaged.
FRAGMENTS = "infinite-loop.mseed"
PARTLY_TAKEN = {
    "brokenlastrecord.mseed": "byte 4096: 2206 bytes are no record",
    "single_record_plus_noise_record.mseed": "byte 512: 512 bytes are no record",
}


def parts(path: Path, **options: object) -> list[Block | Omission]:
    return list(read(path, "unused", Options(**options)))  # type: ignore[arg-type]


def by_obspy(path: Path) -> dict[str, list[tuple[int, np.ndarray, float]]]:
    """Start in ns, samples and rate of each trace of a file."""
    found = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stream = obspy.read(path)
    for one in stream:
        stats = one.stats
        codes = (stats.network, stats.station, stats.location, stats.channel)
        if len(one.data):
            found["/".join(code or "--" for code in codes)].append((stats.starttime.ns, one.data, stats.sampling_rate))
    return found


def by_obspy_or_none(path: Path) -> dict[str, list[Any]]:
    """As `by_obspy`; nothing of what it refuses, too."""
    try:
        return dict(by_obspy(path))
    except Exception:
        return {}


def odd_files(recordings: Path) -> list[Path]:
    return sorted((recordings / "odd-mseed").iterdir())


def test_odd_files_give_the_samples_and_times_that_obspy_reads(recordings: Path) -> None:
    table = []
    for path in odd_files(recordings):
        if path.name in NOT_TAKEN:
            with pytest.raises(iso.BadSourceError, match=NOT_TAKEN[path.name]) as refused:
                parts(path)
            theirs = sum(len(data) for traces in by_obspy_or_none(path).values() for _, data, _ in traces)
            table.append(f"| {path.name} | | refused: {refused.value} | {theirs} samples |")
            continue
        found = parts(path)
        if path.name == FRAGMENTS:
            (block,) = [part for part in found if isinstance(part, Block)]
            # The last value that the record stores, at its place in the file.
            stored = int.from_bytes(path.read_bytes()[6079 + 72 : 6079 + 76], "big", signed=True)
            assert (len(block.samples), int(block.samples[-1])) == (136, stored)
            table.append(
                f"| {path.name} | {block.signal} | 136 samples; {len(found) - 1} parts are reported | refused |"
            )
            continue
        said = [part.reason for part in found if isinstance(part, Omission)]
        assert said == ([PARTLY_TAKEN[path.name]] if path.name in PARTLY_TAKEN else [])
        ours = defaultdict(list)
        for block in (part for part in found if isinstance(part, Block)):
            ours[block.signal].append(block)
        theirs = by_obspy(path)
        assert set(ours) == set(theirs), path.name
        for name, traces in theirs.items():
            samples = np.concatenate([data for _, data, _ in traces])
            assert np.array_equal(np.concatenate([block.samples for block in ours[name]]), samples, equal_nan=True)
            first = ours[name][0]
            assert first.start is not None
            assert first.start.ns == traces[0][0], path.name
            assert float(first.rate) == pytest.approx(traces[0][2], rel=1e-7)
            starts = {block.start.ns for block in ours[name] if block.start is not None}
            assert {start for start, _, _ in traces} <= starts
            remark = "".join(f"; {reason}" for reason in said)
            table.append(
                f"| {path.name} | {name} | {len(samples)} samples{remark} | {len(samples)} samples, the same |"
            )
    written = (Path(__file__).parents[2] / "docs/odd_mseed.md").read_text(encoding="utf-8")
    assert [line for line in written.splitlines() if line.startswith("| ")][1:] == table, "\n".join(table)


def test_one_odd_file_never_stops_the_others(recordings: Path, tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        summary = import_files(store, recordings / "odd-mseed")
        refused = {
            Path(path).name for (path, _), kept in zip(summary["problems"], summary["kept"], strict=True) if not kept
        }
    assert set(NOT_TAKEN) <= refused
    assert summary["files"] >= 20


RECORD = 512


def records(count: int = 2000, **header: object) -> list[bytes]:
    """Records of a regular signal."""
    names = {"network": "XX", "station": "ABC", "location": "00", "channel": "HHZ", "sampling_rate": 100.0}
    out = io.BytesIO()
    data = np.random.default_rng(3).integers(-9000, 9000, count).astype("i4")
    encoding = header.pop("encoding", "STEIM2")
    Trace(data, header={**names, "starttime": UTCDateTime(2010, 3, 1), **header}).write(
        out, format="MSEED", reclen=RECORD, encoding=encoding
    )
    whole = out.getvalue()
    return [whole[at : at + RECORD] for at in range(0, len(whole), RECORD)]


def written(path: Path, *pieces: bytes) -> Path:
    path.write_bytes(b"".join(pieces))
    return path


def samples(found: list[Block | Omission]) -> np.ndarray:
    return np.concatenate([part.samples for part in found if isinstance(part, Block)])


def changed(record: bytes, **fields: tuple[int, bytes]) -> bytes:
    out = bytearray(record)
    for at, value in fields.values():
        out[at : at + len(value)] = value
    return bytes(out)


@pytest.mark.parametrize("encoding", ["STEIM1", "STEIM2"])
@pytest.mark.parametrize("at", [64 + 8, 64 + 20, 64 + 100, 300])
def test_steim_samples_that_contradict_their_stored_last_value_are_left_out(
    encoding: str, at: int, tmp_path: Path
) -> None:
    good = records(encoding=encoding)
    bad = bytearray(good[1])
    bad[at] ^= 1
    path = written(tmp_path / "a.mseed", good[0], bytes(bad), *good[2:])
    found = parts(path)
    expected = samples(parts(written(tmp_path / "b.mseed", good[0], *good[2:])))
    assert np.array_equal(samples(found), expected)
    (omission,) = [part for part in found if isinstance(part, Omission)]
    assert omission.reason.startswith("byte 512: the record of 512 bytes")


@pytest.mark.parametrize("encoding", ["STEIM1", "STEIM2"])
def test_no_flipped_bit_of_steim_frames_changes_a_sample(encoding: str, tmp_path: Path) -> None:
    """Whatever one bit does: what is imported of the record is what was recorded, or nothing."""
    (good, *_) = records(2000, encoding=encoding)
    (expected,) = (part.samples for part in parts(written(tmp_path / "a.mseed", good)) if isinstance(part, Block))
    refused = 0
    chance = np.random.default_rng(7)
    for bit in chance.choice(np.arange(64 * 8, RECORD * 8), 400, replace=False).tolist():
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path = written(tmp_path / "b.mseed", bytes(bad), *records(600, station="OTHER"))
        ours = [part.samples for part in parts(path) if isinstance(part, Block) and "/ABC/" in part.signal]
        refused += not ours
        assert all(np.array_equal(samples, expected) for samples in ours), f"bit {bit}"
    assert refused > 300


def without_blockette_1000(record: bytes) -> bytes:
    return changed(record, count=(39, b"\0"), first=(46, b"\0\0"), blockette=(48, bytes(8)))


@pytest.mark.parametrize("encoding", ["STEIM1", "STEIM2"])
def test_records_without_blockette_1000(encoding: str, tmp_path: Path) -> None:
    good = records(encoding=encoding)
    path = written(tmp_path / "a.mseed", *map(without_blockette_1000, good))
    assert np.array_equal(samples(parts(path)), samples(parts(written(tmp_path / "b.mseed", *good))))


def test_an_encoding_that_no_record_states_can_be_named(tmp_path: Path) -> None:
    good = records(encoding="INT32")
    path = written(tmp_path / "a.mseed", *map(without_blockette_1000, good))
    with pytest.raises(iso.BadSourceError, match="give the encoding of its samples with encoding="):
        parts(path)
    expected = samples(parts(written(tmp_path / "b.mseed", *good)))
    assert np.array_equal(samples(parts(path, encoding="int32")), expected)
    with pytest.raises(iso.UsageError, match="unknown encoding 'steim9'; known are int16"):
        parts(path, encoding="steim9")


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ((18, b"  "), "--/ABC/00/HHZ"),
        ((8, b"     "), "XX/--/00/HHZ"),
        ((8, b"\xf0A/B "), "XX/A_B/00/HHZ"),
        ((8, b"..   "), "XX/--/00/HHZ"),
        ((8, b"\0\0\0\0\0"), "XX/--/00/HHZ"),
    ],
)
def test_codes_that_are_blank_or_odd_name_a_signal_all_the_same(
    field: tuple[int, bytes], name: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.mseed", *(changed(one, codes=field) for one in records()))
    assert {part.signal for part in parts(path) if isinstance(part, Block)} == {name}
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        assert import_files(store, path)["problems"] == []
        assert list(store) == [name]


@pytest.mark.parametrize("sequence", [b"      ", b"\0\0\0\0\0\0", b"ABCDEF", b"1     "])
def test_records_without_sequence_numbers(sequence: bytes, tmp_path: Path) -> None:
    good = records()
    path = written(tmp_path / "a.mseed", *(changed(one, sequence=(0, sequence)) for one in good))
    assert np.array_equal(samples(parts(path)), samples(parts(written(tmp_path / "b.mseed", *good))))


def test_ten_thousand_ticks_are_a_second(tmp_path: Path) -> None:
    (first, *_) = records()
    path = written(tmp_path / "a.mseed", changed(first, ticks=(28, (10_000).to_bytes(2, "big"))))
    (block,) = parts(path)
    assert isinstance(block, Block)
    assert block.start is not None
    assert block.start.ns == UTCDateTime(2010, 3, 1, 0, 0, 1).ns


@pytest.mark.parametrize("exponent", [10, 11, 20])
def test_a_wrong_record_length_swallows_no_record(exponent: int, tmp_path: Path) -> None:
    good = records()
    assert good[1][48:50] == b"\x03\xe8"
    path = written(tmp_path / "a.mseed", good[0], changed(good[1], length=(54, bytes([exponent]))), *good[2:])
    assert np.array_equal(samples(parts(path)), samples(parts(written(tmp_path / "b.mseed", *good))))


def test_a_record_that_comes_twice_is_stored_once_and_stops_nothing(tmp_path: Path) -> None:
    good = records(5000)
    for number, order in enumerate(([0, 0, 1, 2, 3], [0, 1, 2, 3, 1], [0, 1, 0, 1, 2, 3], [0, 1, 2, 3] * 3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        written(folder / "a.mseed", *(good[at] for at in order))
        written(folder / "b.mseed", *records(station="OTHER"))
        with iso.open(tmp_path / f"{number}.iso", mode="x") as store:
            summary = import_files(store, folder)
            assert sorted(store) == ["XX/ABC/00/HHZ", "XX/OTHER/00/HHZ"]
            assert summary["files"] == 2
        expected = samples(parts(written(tmp_path / "b.mseed", *good[:4])))
        assert np.array_equal(np.asarray(iso.open(tmp_path / f"{number}.iso")["XX/ABC/00/HHZ"][:].counts), expected)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_bytes_are_split_without_losing_their_place(data: st.DataObject) -> None:
    """Pieces lie end to end in their order, and no damage hides a whole record behind it."""
    good = records(600)
    pieces = data.draw(
        st.lists(
            st.one_of(
                st.sampled_from(good),
                st.binary(max_size=200),
                st.builds(lambda one, at: one[:at], st.sampled_from(good), st.integers(0, 511)),
                st.builds(
                    lambda one, at, byte: one[:at] + bytes([byte]) + one[at + 1 :],
                    st.sampled_from(good),
                    st.integers(0, 511),
                    st.integers(0, 255),
                ),
            ),
            max_size=8,
        )
    )
    whole = b"".join([*pieces, good[0]])
    at = 0
    found = list(split(io.BytesIO(whole), len(whole)))
    for part in found:
        assert part.offset >= at
        at = part.offset + (len(part.data) if isinstance(part, Record) else part.length)
        if isinstance(part, Unreadable):
            assert part.length > 0
    assert at <= len(whole)
    last = found[-1]
    assert isinstance(last, Record)
    assert last.data.endswith(good[0])
