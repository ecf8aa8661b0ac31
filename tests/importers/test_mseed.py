from __future__ import annotations

import io
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import obspy
import pytest
from obspy import Stream, Trace, UTCDateTime

import isochrony as iso
from isochrony.errors import BadSourceError
from isochrony.importers import Block, Omission, Options, format_of, import_files
from isochrony.importers.mseed import recognises
from mseed_parts import read


def blocks(path: Path, **options: object) -> list[Block]:
    parts = read(path, "unused", Options(**options))  # type: ignore[arg-type]
    return [part for part in parts if isinstance(part, Block)]


def omissions(path: Path) -> list[str]:
    return [part.reason for part in read(path, "unused", Options()) if isinstance(part, Omission)]


def by_signal(found: list[Block]) -> dict[str, list[Block]]:
    signals = defaultdict(list)
    for block in found:
        signals[block.signal].append(block)
    return signals


def trace(data: np.ndarray, **header: object) -> Trace:
    names = {"network": "XX", "station": "ABC", "location": "", "channel": "HHZ"}
    return Trace(data, header={**names, "sampling_rate": 100.0, **header})


def test_every_sample_and_time_of_the_volcano_is_that_of_obspy(volcano: Path) -> None:
    expected = obspy.read(volcano)
    found = by_signal(blocks(volcano))
    assert len(found) == len(expected) == 66
    for one in expected:
        stats = one.stats
        ours = found["/".join((stats.network, stats.station, stats.location or "--", stats.channel))]
        assert np.array_equal(np.concatenate([block.samples for block in ours]), one.data)
        assert ours[0].start is not None
        assert ours[0].start.ns == stats.starttime.ns
        assert {block.rate for block in ours} == {Fraction(stats.sampling_rate)}
        assert ours[0].attrs["station"] == stats.station


def test_every_record_carries_its_own_start(volcano: Path) -> None:
    for records in by_signal(blocks(volcano)).values():
        count = 0
        assert records[0].start is not None
        for record in records:
            assert record.start is not None
            assert record.start.ns - records[0].start.ns == count * 10_000_000
            count += len(record.samples)


def test_the_volcano_has_two_clock_phases(volcano: Path) -> None:
    phases = {records[0].start.ns % 10_000_000 for records in by_signal(blocks(volcano)).values()}  # type: ignore[union-attr]
    assert phases == {0, 8_300_000}


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize(
    ("encoding", "dtype"),
    [("INT16", "i2"), ("INT32", "i4"), ("STEIM1", "i4"), ("STEIM2", "i4"), ("FLOAT32", "f4"), ("FLOAT64", "f8")],
)
def test_reads_every_encoding_in_either_byte_order(tmp_path: Path, encoding: str, dtype: str, byteorder: str) -> None:
    data = np.random.default_rng(1).integers(-3000, 3000, 5000).astype(dtype)
    path = tmp_path / "one.mseed"
    trace(data).write(str(path), format="MSEED", encoding=encoding, byteorder=byteorder, reclen=512)
    found = blocks(path)
    assert np.array_equal(np.concatenate([block.samples for block in found]), data)
    assert {block.signal for block in found} == {"XX/ABC/--/HHZ"}


@pytest.mark.parametrize(
    ("rate", "exact"),
    [(100.0, Fraction(100)), (0.1, Fraction(1, 10)), (2000.0, Fraction(2000)), (1 / 60, Fraction(1, 60))],
)
def test_rates_are_exact(tmp_path: Path, rate: float, exact: Fraction) -> None:
    path = tmp_path / "one.mseed"
    trace(np.arange(100, dtype="i4"), sampling_rate=rate).write(str(path), format="MSEED")
    assert {block.rate for block in blocks(path)} == {exact}


@pytest.mark.parametrize(("microsecond", "resolution"), [(8_300, 100_000), (8_317, 1_000)])
def test_stamps_resolve_what_the_record_can_say(tmp_path: Path, microsecond: int, resolution: int) -> None:
    start = UTCDateTime(2010, 10, 14, 11, 11, 57, microsecond)
    path = tmp_path / "one.mseed"
    trace(np.arange(100, dtype="i4"), starttime=start).write(str(path), format="MSEED")
    (block,) = blocks(path)
    assert block.start is not None
    assert block.start.ns == start.ns
    # ObsPy writes blockette 1001 only where microseconds need it.
    assert block.start.resolution_ns == resolution


def test_reads_miniseed_3(tmp_path: Path) -> None:
    pymseed = pytest.importorskip("pymseed")
    data = np.arange(2000, dtype="i4")
    path = tmp_path / "three.mseed"
    traces = pymseed.MS3TraceList()
    traces.add_data(
        sourceid="FDSN:XX_ABC_00_H_H_Z",
        data_samples=data,
        sample_type="i",
        sample_rate=250.0,
        starttime=1_267_401_600_000_000_123,
    )
    traces.to_file(str(path), format_version=3)
    found = blocks(path)
    assert np.array_equal(np.concatenate([block.samples for block in found]), data)
    assert found[0].signal == "XX/ABC/00/HHZ"
    assert found[0].start is not None
    assert (found[0].start.ns, found[0].start.resolution_ns) == (1_267_401_600_000_000_123, 1)
    assert found[0].rate == 250


@pytest.fixture
def one_file(tmp_path: Path) -> Path:
    path = tmp_path / "one.mseed"
    stream = Stream([trace(np.arange(5000, dtype="i4"), station=name) for name in ("AAA", "BBB")])
    stream.write(str(path), format="MSEED", reclen=512)
    return path


def test_takes_the_whole_records_of_a_truncated_file_and_says_what_is_missing(one_file: Path) -> None:
    whole = one_file.read_bytes()
    one_file.write_bytes(whole[:-100])
    complete = list(obspy.read(io.BytesIO(whole[:-512])))
    taken = by_signal(blocks(one_file))
    (omission,) = omissions(one_file)
    assert omission == f"byte {len(whole) - 512}: a record of 512 bytes is cut short after 412"
    for one in complete:
        ours = np.concatenate([block.samples for block in taken[f"XX/{one.stats.station}/--/HHZ"]])
        assert np.array_equal(ours, one.data)


def test_takes_the_whole_records_of_a_truncated_volume(volcano: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.seed"
    path.write_bytes(volcano.read_bytes()[:-1000])
    assert len(blocks(path)) == len(blocks(volcano)) - 1
    (omission,) = omissions(path)
    assert "a record of 4096 bytes is cut short after 3096" in omission
    assert omissions(volcano) == []


def test_rejects_a_file_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "not.mseed"
    path.write_bytes(b"hello, this is no record at all" * 50)
    with pytest.raises(BadSourceError, match="does not begin with a SEED record"):
        blocks(path)


@pytest.mark.parametrize("length", [1, 63, 512, 5000, 2_000_000])
def test_noise_between_records_is_passed_over_and_told(one_file: Path, length: int) -> None:
    whole = one_file.read_bytes()
    expected = [block.samples for block in blocks(one_file)]
    noise = np.random.default_rng(length).bytes(length)
    one_file.write_bytes(whole[:512] + noise + whole[512:])
    assert all(map(np.array_equal, (block.samples for block in blocks(one_file)), expected))
    assert omissions(one_file) == [f"byte 512: {length} bytes are no record"]


def test_recognises_records_and_volumes(volcano: Path, one_file: Path) -> None:
    assert recognises(volcano.read_bytes()[:64])
    found = format_of(one_file)
    assert found is not None
    assert found.name == "mseed"
    assert not recognises(b"123456")
    assert not recognises(b"time,value\n1,2\n")


LEAP = UTCDateTime(2017, 1, 1)


def leap_second_records(flagged: bool) -> tuple[bytes, bytes]:
    """100 Hz through the leap second at the end of 2016: the records before its end, and those after it."""
    out = []
    for start, count in ((LEAP - 20, 2100), (LEAP, 2000)):
        buffer = io.BytesIO()
        trace(np.arange(count, dtype="i4"), starttime=start, sampling_rate=100.0).write(
            buffer, format="MSEED", encoding="INT32", reclen=512
        )
        out.append(bytearray(buffer.getvalue()))
    if flagged:
        # Activity flags of the last record before: a positive leap second happened during it.
        out[0][-512 + 36] |= 0x10
    return bytes(out[0]), bytes(out[1])


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize(("flagged", "reason"), [(True, "leap_second"), (False, "backward_step")])
def test_a_flagged_leap_second_is_no_clock_step(tmp_path: Path, files: int, flagged: bool, reason: str) -> None:
    before, after = leap_second_records(flagged)
    folder = tmp_path / "in"
    folder.mkdir()
    if files == 1:
        (folder / "a.mseed").write_bytes(before + after)
    else:
        (folder / "a.mseed").write_bytes(before)
        (folder / "b.mseed").write_bytes(after)
    with iso.open(tmp_path / "s.iso", mode="x") as store:
        problems = import_files(store, folder)["problems"]
    # Of two files nobody can say that one recorder made both.
    told = [str((folder / "b.mseed").resolve())] if files == 2 and not flagged else []
    assert [path for path, _ in problems] == told
    (signal,) = iso.open(tmp_path / "s.iso").values()
    assert signal.sample_count == 4100
    assert [run.reason for run in signal.runs()] == ["first", reason]
    second = signal.runs()[1]
    assert abs(second.start_time.ns - LEAP.ns) < 1_000_000
    kinds = [event.kind for event in signal.events if event.kind in ("leap_second", "clock_step")]
    assert kinds == ["leap_second" if flagged else "clock_step"]


def test_a_file_whose_records_overlap_those_of_others_is_kept_and_reported(tmp_path: Path) -> None:
    start = UTCDateTime(2010, 3, 1)
    folder = tmp_path / "in"
    folder.mkdir()
    # The recording goes on from a to c; b lies beside it.
    parts = {"a": (0, 6000, 0), "b": (20, 1000, 1_000_000), "c": (60, 3000, 6000)}
    written = []
    for name, (second, count, first) in parts.items():
        data = np.arange(first, first + count, dtype="i4")
        trace(data, starttime=start + second).write(
            str(folder / f"{name}.mseed"), format="MSEED", encoding="INT32", reclen=512
        )
        written.append(data)
    with iso.open(tmp_path / "s.iso", mode="x") as store:
        ((path, reason),) = import_files(store, folder)["problems"]
        assert path == str((folder / "b.mseed").resolve())
        for part in ("overlap", "XX/ABC/--/HHZ", "from 2010-03-01T00:00:20", "to 2010-03-01T00:00:30"):
            assert part in reason
        # All of it is known now.
        assert import_files(store, folder)["problems"] == []
    (signal,) = iso.open(tmp_path / "s.iso").values()
    assert [run.reason for run in signal.runs()] == ["first", "overlap", "resumed"]
    assert len(signal.gaps) == 0
    assert np.array_equal(signal[:].values(), np.concatenate(written))
    assert [event.kind for event in signal.events if event.kind != "import"] == ["overlap"]
    # By civil time the recording is whole, and what lies beside it is there for who asks.
    whole = signal[iso.span(start, start + 90)]
    assert np.array_equal(np.concatenate([np.asarray(part) for part in whole.segments]), np.concatenate(written[::2]))


@pytest.mark.parametrize("held", [1000, 32 << 20])
def test_a_long_file_is_stored_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    from isochrony.importers import driver, mseed

    data = np.random.default_rng(1).integers(-3000, 3000, 20_000).astype("i4")
    path = tmp_path / "one.mseed"
    trace(data).write(str(path), format="MSEED", reclen=512)
    reads = []
    monkeypatch.setattr(driver, "_HELD_BYTES", held)
    monkeypatch.setattr(mseed, "split", lambda file, size, split=mseed.split: reads.append(size) or split(file, size))
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        assert not import_files(store, path)["problems"]
        assert np.array_equal(store["XX/ABC/--/HHZ"].counts[:], data)
    # Once to see when it begins, once for its samples.
    assert len(reads) == 2
