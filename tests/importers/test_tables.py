from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isochrony as iso
from isochrony.errors import BadSourceError, UsageError
from isochrony.importers import Block, Options, Stamp, csv, format_of, numpy, parquet

START = 1_267_401_600_000_000_000


def blocks(module: object, path: Path, **options: object) -> list[Block]:
    parts = module.read(path, "s", Options(**options))  # type: ignore[attr-defined]
    return [part for part in parts if isinstance(part, Block)]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def rows(count: int, step_ms: int = 10) -> str:
    times = np.datetime64("2010-03-01T00:00:00.000") + np.arange(count) * np.timedelta64(step_ms, "ms")
    return "".join(f"{time},{i},{i / 2}\n" for i, time in enumerate(times))


# --- CSV


def test_csv_with_a_header(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "time,p,q\n" + rows(500))
    p, q = blocks(csv, path, unit="kPa")
    assert (p.signal, q.signal) == ("s/p", "s/q")
    assert np.array_equal(p.samples, np.arange(500))
    assert p.samples.dtype == "i8"
    assert np.array_equal(q.samples, np.arange(500) / 2)
    assert p.rate == 100
    assert p.start == Stamp(START, 10**6)
    assert p.unit == "kPa"


def test_csv_without_a_header_whose_first_column_is_a_time(tmp_path: Path) -> None:
    (first, _) = blocks(csv, write(tmp_path / "a.csv", rows(100)))
    assert first.signal == "s/column2"
    assert first.start == Stamp(START, 10**6)


@pytest.mark.parametrize("delimiter", ["\t", ";"])
def test_csv_with_other_delimiters(tmp_path: Path, delimiter: str) -> None:
    path = write(tmp_path / "a.csv", ("time,p,q\n" + rows(100)).replace(",", delimiter))
    assert len(blocks(csv, path)[0].samples) == 100


def test_csv_with_blanks_around_values_and_missing_ones(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", "time,v\n2010-03-01T00:00:00, 1.5 \n2010-03-01T00:00:01, NA\n2010-03-01T00:00:02,  \n"
    )
    (block,) = blocks(csv, path)
    assert np.array_equal(block.samples, [1.5, np.nan, np.nan], equal_nan=True)


@pytest.mark.filterwarnings("error")
def test_csv_of_the_least_whole_numbers_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", f"time,v\n2010-03-01T00:00:00,{-(1 << 63)}\n2010-03-01T00:00:01,{(1 << 63) - 1}\n")
    (block,) = blocks(csv, path)
    assert block.samples.tolist() == [-(1 << 63), (1 << 63) - 1]


def test_csv_longer_than_a_batch_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "_BATCH_BYTES", 4096)
    path = write(tmp_path / "a.csv", "time,p,q\n" + rows(5000))
    found = [block for block in blocks(csv, path) if block.signal == "s/p"]
    assert len(found) > 10
    assert np.array_equal(np.concatenate([block.samples for block in found]), np.arange(5000))


def test_csv_without_times_needs_a_rate(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x\n1.5\n2.5\n3.5\n")
    with pytest.raises(BadSourceError, match=r"without a time column.*rate=HZ"):
        blocks(csv, path)
    (block,) = blocks(csv, path, rate=Fraction(5), start=Stamp(9))
    assert block.samples.tolist() == [1.5, 2.5, 3.5]
    assert (block.rate, block.start) == (5, Stamp(9))


def test_csv_of_epoch_seconds_keeps_every_digit(tmp_path: Path) -> None:
    times = [f"{1267401600 + i // 10}.{i % 10}00000001" for i in range(50)]
    path = write(tmp_path / "a.csv", "epoch,v\n" + "".join(f"{t},{i}\n" for i, t in enumerate(times)))
    (block,) = blocks(csv, path)
    # A double would have lost the last digit.
    assert block.start == Stamp(START + 1, 1)
    assert block.rate == 10


def test_the_station_table_is_refused_with_its_reason(recordings: Path) -> None:
    path = recordings / "seismic" / "stations-classic.csv"
    found = format_of(path)
    assert found is not None
    assert found.name == "csv"
    with pytest.raises(BadSourceError, match=r"table of 3 rows and 4 columns without a time column.*not a recording"):
        blocks(csv, path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("time,v\n2010-03-01T00:00:00,1\nlater,2\n", "row 3: 'later' is not a time"),
        ("time,v\n2010-03-01T00:00:00,1\n,2\n", "row 3"),
        ("time,v\n2010-03-01T00:00:00,1\n2010-03-01T00:00:01\n", "row 3 has 1 field, not 2"),
        ("# x\ntime,v\n2010-03-01T00:00:00,1\n2010-03-01T00:00:01,2,3\n", "row 4 has 3 fields, not 2"),
        ("time,v\n2010-03-01T00:00:00,true\n2010-03-01T00:00:01,x\n", r"another value \(row 3: 'x'\)"),
        ("time,v\n2010-03-01T00:00:00,NA\n2010-03-01T00:00:01,1\n2010-03-01T00:00:02,-\n", r"\(row 4: '-'\)"),
        ("time,v\n2010-03-01T00:00:00,a\n2010-03-01T00:00:01,b\n", "column 'v' holds text"),
        ("time,v\n2010-03-01T00:00:00,1\n2010-03-01T00:00:01,2..5\n", r"column 'v' .* \(row 3: '2\.\.5'\); correct it"),
        ("time,v\n2010-03-01T00:00:00,1\n2010-03-01T00:00:01,0x1F\n", r"not numbers \(row 3: '0x1F'\)"),
        ("time,v\n2010-03-01T00:00:00,true\n2010-03-01T00:00:01,\n", "column 'v' is empty in row 3"),
        ("time,v,v\n2010-03-01T00:00:00,1,2\n", "same name"),
        ("time\n2010-03-01T00:00:00\n2010-03-01T00:00:01\n", "no numeric column"),
    ],
)
def test_csv_rejects_and_says_where(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadSourceError, match=message):
        blocks(csv, write(tmp_path / "a.csv", text))


def test_csv_names_a_missing_time_column(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "time,p,q\n" + rows(10))
    with pytest.raises(BadSourceError, match="no column 'when'; it has time, p, q"):
        blocks(csv, path, time_column="when")


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (["7"] * 70_000 + ["1.5"], "f8"),
        (["7"] * 70_000 + ["nan"], "f8"),
        (["7"] * 70_000 + ["-3"], "i8"),
        (["+7", "+8", "-9"], "i8"),
        (["+7.5", "1e3", "-inf"], "f8"),
        (["true", "false", "true"], "?"),
        ([str(2**63 - 1), str(-(2**63))], "i8"),
    ],
)
def test_csv_types_are_decided_by_all_rows(tmp_path: Path, values: list[str], dtype: str) -> None:
    path = write(tmp_path / "a.csv", "v\n" + "\n".join(values) + "\n")
    found = blocks(csv, path, rate=Fraction(100))
    samples = np.concatenate([block.samples for block in found])
    assert samples.dtype == np.dtype(dtype)
    exact = {"?": lambda text: text == "true", "i8": int, "f8": float}[dtype]
    assert np.array_equal(samples, np.array([exact(value) for value in values], dtype), equal_nan=dtype == "f8")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1", str(2**63)], rf"beyond the 64 bits .* \(row 3: {2**63}\)"),
        (["1", "2.5", str(2**64)], rf"beyond the 64 bits .* \(row 4: {2**64}\)"),
        ([str(2**53 + 1), "2.5"], rf"cannot hold the number in row 2 exactly \({2**53 + 1}\)"),
        (["2.5", str(2**53 + 1)], rf"cannot hold the number in row 3 exactly \({2**53 + 1}\)"),
        (["1", "2"] * 400 + ["3x"], r"row 802: '3x'"),
    ],
)
def test_csv_changes_no_number_to_make_it_fit(tmp_path: Path, values: list[str], message: str) -> None:
    path = write(tmp_path / "a.csv", "v\n" + "\n".join(values) + "\n")
    with pytest.raises(BadSourceError, match=message):
        blocks(csv, path, rate=Fraction(100))


def test_csv_units_and_sample_numbers_stand_in_the_titles(tmp_path: Path) -> None:
    times = "".join(f"{k},2010-03-01T00:00:{k:02d},{k},{k / 2}\n" for k in range(20))
    p, q = blocks(csv, write(tmp_path / "a.csv", "index,time,p [kPa],q\n" + times))
    assert (p.signal, p.unit, q.signal, q.unit) == ("s/p", "kPa", "s/q", None)
    one = "\n".join(line.rpartition(",")[0] for line in times.splitlines()) + "\n"
    (exported,) = blocks(csv, write(tmp_path / "b.csv", "index,time,stn/p [kPa]\n" + one))
    assert (exported.signal, exported.unit) == ("stn/p", "kPa")
    # What does not count samples is a signal like any other.
    falling = "".join(f"{-k},2010-03-01T00:00:{k:02d},{k}\n" for k in range(20))
    assert len(blocks(csv, write(tmp_path / "c.csv", "index,time,p\n" + falling))) == 2


def test_csv_whose_sample_numbers_jump_without_times_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "index,v\n0,1\n1,2\n5,3\n")
    with pytest.raises(BadSourceError, match="row 4: column 'index' jumps"):
        blocks(csv, path, rate=Fraction(100))


def test_csv_with_remarks_and_the_titles_of_savetxt(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    table = np.column_stack([1_267_401_600 + np.arange(50) / 4, np.arange(50) / 3])
    np.savetxt(path, table, delimiter=",", header="made by a logger\ntime (s),v")
    (block,) = blocks(csv, path)
    assert np.array_equal(block.samples, table[:, 1])
    assert block.rate == 4
    assert block.start is not None
    assert abs(block.start.ns - START) < 1000


def test_csv_in_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = "".join(f"2010-03-01T00:00:0{k};{k}\n" for k in range(9))
    path.write_bytes(f"time;W\u00e4rme [\u00b0C]\n{rows}".encode("latin1"))
    (block,) = blocks(csv, path)
    assert (block.unit, len(block.samples)) == ("\u00b0C", 9)


# --- Parquet


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("year", ["3000", "1500"])
def test_parquet_times_that_nanoseconds_do_not_hold_are_refused_with_their_row(
    tmp_path: Path, unit: str, year: str
) -> None:
    path = tmp_path / "a.parquet"
    times = np.datetime64("2010-03-01", unit) + np.arange(50) * np.timedelta64(1, "s")
    times[30] = np.datetime64(f"{year}-01-01", unit)
    pq.write_table(pa.table({"time": times, "p": np.zeros(50)}), path)
    with pytest.raises(BadSourceError, match="row 31: its time is not between the years 1678 and 2262"):
        blocks(parquet, path)


@pytest.mark.parametrize("kind", ["i8", "f8"])
def test_parquet_numbers_count_in_the_unit_of_their_column(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t (us)": (np.arange(100) * 10_000).astype(kind), "p": np.zeros(100)}), path)
    (block,) = blocks(parquet, path, start=Stamp(START))
    assert block.rate == 100
    assert block.start is not None
    assert block.start.ns == START


def test_parquet_digits_of_the_calendar_are_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = [20100301 * 10**4 + 100 * (k // 60) + k % 60 for k in range(200)]
    pq.write_table(pa.table({"time": times, "p": np.zeros(200)}), path)
    (block,) = blocks(parquet, path)
    # Full minutes, and no more is known.
    assert (block.start, block.rate) == (Stamp(START - 30 * 10**9, 60 * 10**9), Fraction(1, 60))


@pytest.mark.parametrize(
    "times", [np.arange(100) * 10, np.arange(100) / 100, [*range(START // 10**9, START // 10**9 + 99), 5]]
)
def test_parquet_numbers_too_small_to_say_their_unit_are_refused(tmp_path: Path, times: object) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"time": times, "p": np.zeros(100)}), path)
    with pytest.raises(BadSourceError, match=r"row (1|100): '.*' is not a time; .*say in the column's name what"):
        blocks(parquet, path)


@pytest.mark.parametrize("kind", ["i8", "f8"])
def test_parquet_numbers_count_in_one_unit_throughout_a_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.parquet"
    times = START // 10**9 + np.arange(100)
    times[60] *= 1000
    pq.write_table(pa.table({"time": times.astype(kind), "p": np.zeros(100)}), path)
    with pytest.raises(BadSourceError, match="row 61: its time is not between the years 1678 and 2262"):
        blocks(parquet, path)


@pytest.mark.parametrize("counts", [False, True])
def test_parquet_of_a_plan_is_the_signal_that_it_came_from(tmp_path: Path, counts: bool) -> None:
    path = tmp_path / "a.parquet"
    with iso.open(tmp_path / "s.iso", mode="x") as store:
        signal = store.create("stn/p", dtype="i2", rate=Fraction(1000, 3), unit="mbar", scale=0.5, offset=2.0)
        signal.append(np.arange(500, dtype="i2"))
        store.commit()
        iso.scan(signal).sink_parquet(path, counts=counts).run()
        values = signal.values()
    (block,) = blocks(parquet, path)
    assert (block.signal, block.unit, block.rate) == ("stn/p", "mbar", Fraction(1000, 3))
    expected = (0.5, 2.0, np.dtype("i2")) if counts else (1.0, 0.0, np.dtype("f8"))
    assert (block.scale, block.offset, block.samples.dtype) == expected
    np.testing.assert_array_equal(block.samples * block.scale + block.offset, values)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_parquet_timestamps(tmp_path: Path, unit: str) -> None:
    times = np.datetime64("2010-03-01", unit) + np.arange(400) * np.timedelta64(5, "ms")
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"when": times, "p": np.arange(400, dtype="i2")}), path)
    (block,) = blocks(parquet, path)
    assert block.signal == "s"
    assert block.samples.dtype == "i2"
    assert np.array_equal(block.samples, np.arange(400))
    assert block.rate == 200
    assert block.start == Stamp(START, {"ms": 10**6, "us": 1000, "ns": 1}[unit])


def test_parquet_of_doubles_says_how_little_they_resolve(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = 1267401600.0 + np.arange(100) / 4
    pq.write_table(pa.table({"time": times, "p": np.zeros(100)}), path)
    (block,) = blocks(parquet, path)
    assert block.start is not None
    assert block.start.ns == START
    assert 200 < block.start.resolution_ns < 300
    assert block.rate == 4


def test_parquet_missing_values(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = np.datetime64("2010-03-01", "ns") + np.arange(3) * np.timedelta64(1, "s")
    pq.write_table(pa.table({"time": times, "p": pa.array([1.0, None, 3.0])}), path)
    assert np.isnan(blocks(parquet, path)[0].samples[1])
    pq.write_table(pa.table({"time": times, "p": pa.array([1, None, 3])}), path)
    assert np.array_equal(blocks(parquet, path)[0].samples, [1, np.nan, 3], equal_nan=True)
    pq.write_table(pa.table({"time": times, "p": pa.array([1, None, 2**53 + 1])}), path)
    with pytest.raises(BadSourceError, match=r"column 'p' has missing values, .* too large for an exact float"):
        blocks(parquet, path)
    pq.write_table(pa.table({"time": times, "p": pa.array([True, None, False])}), path)
    with pytest.raises(BadSourceError, match="column 'p' is empty in row 2"):
        blocks(parquet, path)


def test_parquet_rejects_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"time": np.arange(10), "p": np.zeros(10)}), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadSourceError, match="cannot be read as Parquet"):
        blocks(parquet, path)


# --- NumPy


@pytest.mark.parametrize("dtype", ["?", "i1", "<i2", ">i2", "i4", "i8", "u1", "u2", "u4", "<f4", ">f8", "c8", "c16"])
def test_numpy_arrays_of_every_type(tmp_path: Path, dtype: str) -> None:
    values = np.random.default_rng(1).integers(0, 100, 1000).astype(dtype)
    path = tmp_path / "a.npy"
    np.save(path, values)
    (block,) = blocks(numpy, path, rate=Fraction(100))
    assert block.samples.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(block.samples, values)


def test_numpy_columns_are_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy, "BLOCK_SAMPLES", 200)
    values = np.arange(900).reshape(300, 3)
    path = tmp_path / "a.npy"
    np.save(path, values)
    found = [block for block in blocks(numpy, path, rate=Fraction(100)) if block.signal == "s/ch2"]
    assert len(found) == 5
    assert np.array_equal(np.concatenate([block.samples for block in found]), values[:, 1])


def test_numpy_needs_a_rate(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(UsageError, match="rate=HZ"):
        blocks(numpy, path)


@pytest.mark.parametrize(
    "values", [np.zeros((2, 2, 2)), np.zeros(0), np.float64(3), np.array(["a"]), np.zeros(3, "u8")]
)
def test_numpy_rejects_other_shapes_and_types(tmp_path: Path, values: np.ndarray) -> None:
    path = tmp_path / "a.npy"
    np.save(path, values)
    with pytest.raises(BadSourceError):
        blocks(numpy, path, rate=Fraction(1))


def test_numpy_does_not_unpickle(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(BadSourceError, match=r"cannot be read as \.npy"):
        blocks(numpy, path, rate=Fraction(1))
