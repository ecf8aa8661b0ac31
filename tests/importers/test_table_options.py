"""Tables as people have them: dialects, local and elapsed times, empty cells, whole seconds. pandas is the oracle."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isochrony as iso
from isochrony.importers.csv_look import SAMPLE_BYTES
from isochrony.importers.summary import ImportSummary

START = "2024-05-01T12:00:00Z"


def imported(folder: Path, text: str, **options: Any) -> tuple[iso.Store, ImportSummary]:
    (folder / "a.csv").write_text(text, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summary = iso.import_files(folder / "s.iso", folder / "a.csv", **options)
    assert summary["problems"] == []
    return iso.open(folder / "s.iso"), summary


def refused(folder: Path, text: str, **options: Any) -> str:
    (folder / "a.csv").write_text(text, encoding="utf-8")
    with pytest.warns(UserWarning, match="not imported"):
        summary = iso.import_files(folder / "s.iso", folder / "a.csv", **options)
    ((_, reason),) = summary["problems"]
    return str(reason)


def times(signal: iso.Signal) -> np.ndarray:
    return np.asarray(signal[:].times())


# --- dialects


def test_semicolons_and_decimal_commas(tmp_path: Path) -> None:
    rows = [f"01.05.2024 12:{k // 120:02d}:{k // 2 % 60:02d},{k % 2 * 5};{k},25;-{k}" for k in range(400)]
    text = "Zeit;p, Mittel [kPa];q\n" + "\n".join(rows) + "\n"
    store, summary = imported(tmp_path, text)
    expected = pd.read_csv(io.StringIO(text), sep=";", decimal=",")
    names = store.keys()
    assert names == ["a/p,_Mittel", "a/q"]
    np.testing.assert_array_equal(store[names[0]][:].values(), expected.iloc[:, 1])
    np.testing.assert_array_equal(store[names[1]][:].values(), expected.iloc[:, 2])
    assert (store[names[0]].unit, store[names[0]].rate) == ("kPa", 2)
    assert store[names[0]].time_of(0).isoformat().startswith("2024-05-01T12:00:00Z")
    assert "decimal commas" in str(summary["remarks"])


@pytest.mark.parametrize(
    ("titles", "date", "clock"),
    [
        ("Datum;Uhrzeit;p", "%d.%m.%Y", "%H:%M:%S"),
        ("Time;Date;p", "%Y-%m-%d", "%H:%M:%S.000"),
        ("date;time;p", "%Y-%m-%d", "%H:%M"),
    ],
)
def test_a_date_and_a_time_of_day_of_their_own(tmp_path: Path, titles: str, date: str, clock: str) -> None:
    moments = pd.date_range("2024-05-01 09:58", periods=200, freq="1min")
    order = [clock, date] if titles.startswith("Time") else [date, clock]
    rows = "".join(f"{moment.strftime(';'.join(order))};{k}\n" for k, moment in enumerate(moments))
    # A clock may have one digit for the hour.
    store, _ = imported(tmp_path, f"{titles}\n{rows.replace(';09:', ';9:')}")
    assert store.keys() == ["a"]
    np.testing.assert_array_equal(times(store["a"]), moments.to_numpy("M8[ns]"))
    np.testing.assert_array_equal(store["a"][:].values(), np.arange(200))


def test_numbers_with_commas_among_others_are_no_decimals(tmp_path: Path) -> None:
    reason = refused(tmp_path, "time;v\n2024-05-01T00:00:00;1.5\n2024-05-01T00:00:01;1,5\n")
    assert "row 3: '1,5'" in reason


@pytest.mark.parametrize("titles", ["p;q", "Druck [kPa];q"])
def test_a_header_above_numbers_that_all_have_decimal_commas(tmp_path: Path, titles: str) -> None:
    text = f"{titles}\n" + "".join(f"{k},5;-{k},25\n" for k in range(40))
    store, _ = imported(tmp_path, text, rate=10)
    expected = pd.read_csv(io.StringIO(text), sep=";", decimal=",")
    assert store.keys() == [f"a/{titles.partition(';')[0].partition(' ')[0]}", "a/q"]
    for place, name in enumerate(store.keys()):
        np.testing.assert_array_equal(store[name][:].values(), expected.iloc[:, place])


def test_numbers_with_points_far_below_ones_with_commas_are_refused_with_their_row(tmp_path: Path) -> None:
    moments = pd.date_range("2024-05-01", periods=9000, freq="1s").strftime("%d.%m.%Y %H:%M:%S")
    rows = [f"{moment};{k},25;{k},5" for k, moment in enumerate(moments)]
    assert len("\n".join(rows)) > 2 * SAMPLE_BYTES
    for column, cell in (
        ("p", "1.234"),
        ("p", "+1.234,5"),
        ("q", ".5"),
        ("q", " -1.234.567,8"),
        ("q", "\u00a01.5"),
        ("p", "1.5e3"),
    ):
        odd = list(rows)
        odd[8000] = f"{moments[8000]};{cell if column == 'p' else '1,5'};{cell if column == 'q' else '1,5'}"
        reason = refused(tmp_path, "Zeit;p;q\n" + "\n".join(odd) + "\n")
        assert reason.startswith(f"row 8002: column '{column}' holds {cell!r}, with a point")
    # Dates have points, and a column that is left out may have what it likes.
    odd[8000] = f"{moments[8000]};1.5;7,5"
    store, _ = imported(tmp_path, "Zeit;p;q\n" + "\n".join(odd) + "\n", columns="q")
    assert store["a"][8000] == 7.5
    numbers = [f"{k},0;{k},25" for k in range(9000)]
    numbers[8000] = "8000.0;1,5"
    assert refused(tmp_path, "time (s);p\n" + "\n".join(numbers) + "\n").startswith("row 8002: column 'time (s)' holds")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_every_separator(tmp_path: Path, separator: str) -> None:
    text = "time,p,q\n" + "".join(f"2024-05-01T00:00:{k:02d}Z,{k},{k / 4}\n" for k in range(60))
    store, summary = imported(tmp_path, text.replace(",", separator))
    np.testing.assert_array_equal(store["a/q"][:].values(), np.arange(60) / 4)
    assert summary["remarks"] == []


# --- empty cells and columns


def test_an_empty_cell_is_nan_as_in_pandas(tmp_path: Path) -> None:
    text = "time,p,q,r,\n" + "".join(
        f"2024-05-01T00:00:{k:02d}Z,{'' if k == 7 else k},{k},{'NA' if k % 2 else k / 2},\n" for k in range(60)
    )
    store, summary = imported(tmp_path, text)
    expected = pd.read_csv(io.StringIO(text))
    assert store.keys() == ["a/p", "a/q", "a/r"]
    for name in "pqr":
        np.testing.assert_array_equal(store[f"a/{name}"][:].values(), expected[name])
    assert [store[f"a/{name}"].dtype for name in "pqr"] == ["f8", "i8", "f8"]
    assert len(store["a/p"].gaps) == 0
    assert "its column 'column5' has no values and was left out" in str(summary["remarks"])


def test_whole_numbers_beside_an_empty_cell_are_not_rounded(tmp_path: Path) -> None:
    reason = refused(tmp_path, f"time,v\n2024-05-01T00:00:00,{2**53 + 1}\n2024-05-01T00:00:01,\n")
    assert "has missing values, so it is stored as 64-bit floats" in reason
    assert f"the number in row 2 exactly ({2**53 + 1})" in reason


def test_columns_are_chosen_by_name(tmp_path: Path) -> None:
    text = "time,p,state,q\n" + "".join(f"2024-05-01T00:00:{k:02d}Z,{k},ok,{-k}\n" for k in range(60))
    assert "columns=" in refused(tmp_path, text)
    store, _ = imported(tmp_path, text, columns="p,q")
    assert store.keys() == ["a/p", "a/q"]
    assert "has no column 'z' of values; it has p, state, q" in refused(tmp_path, text, columns=["z"], signal="other")


# --- local and elapsed times


@pytest.mark.parametrize("zone", ["Europe/Berlin", "-03:30", "America/New_York"])
def test_local_times(tmp_path: Path, zone: str) -> None:
    local = pd.date_range("2024-03-31 06:00", periods=50, freq="10min")
    text = "time,v\n" + "".join(f"{moment:%Y-%m-%d %H:%M:%S},{k}\n" for k, moment in enumerate(local))
    store, summary = imported(tmp_path, text, zone=zone)
    expected = local.tz_localize(zone).tz_convert("UTC").tz_localize(None)
    np.testing.assert_array_equal(times(store["a"]), expected.to_numpy("M8[ns]"))
    assert summary["remarks"] == []
    path = tmp_path / "b.parquet"
    pq.write_table(pa.table({"time": local.to_numpy("M8[us]"), "v": np.arange(50)}), path)
    iso.import_files(tmp_path / "t.iso", path, zone=zone)
    np.testing.assert_array_equal(times(iso.open(tmp_path / "t.iso")["b"]), expected.to_numpy("M8[ns]"))


def test_a_local_time_that_comes_twice_is_refused(tmp_path: Path) -> None:
    text = "time,v\n" + "".join(f"2024-10-27 0{k}:00:00,{k}\n" for k in range(6))
    reason = refused(tmp_path, text, zone="Europe/Berlin")
    assert "row 4: '2024-10-27 02:00:00' is not a time (this local time occurs twice or not at all in Europe/" in reason
    assert reason.endswith("; write it with its UTC offset, such as 2024-10-27T02:00:00+01:00")


@pytest.mark.parametrize("cell", ["01.02.2024", "10.0.0.1", "1.5 ok", "ok 1.5", "1.2.3"])
def test_a_column_of_texts_beside_decimal_commas(tmp_path: Path, cell: str) -> None:
    text = "time;v;note\n" + "".join(f"2024-05-01T00:00:{k:02d}Z;{k},5;{cell}\n" for k in range(10))
    reason = refused(tmp_path, text)
    assert reason.startswith(f"column 'note' holds text, not numbers (row 2: {cell!r})")
    assert reason.endswith("leave out this column by listing the others in columns=")
    store, _ = imported(tmp_path, text, columns="v")
    np.testing.assert_array_equal(store["a"][:].values(), np.arange(10) + 0.5)


def test_times_without_a_zone_are_told_of_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "abcde":
        rows = "".join(f"2024-05-01T00:00:{k:02d},{k}\n" for k in range(30))
        (tmp_path / f"{name}.csv").write_text("time,v\n" + rows)
    from isochrony.cli import main

    assert main(["import", *(str(tmp_path / f"{name}.csv") for name in "abcde"), str(tmp_path / "s.iso")]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "state no zone" in line]
    assert len(told) == 1
    assert told[0].startswith("note: 5 files (")
    assert "import it with --zone" in told[0]


@pytest.mark.parametrize(("unit", "per_s"), [("s", 1), ("ms", 1000), ("us", 10**6)])
def test_a_column_counts_from_a_stated_start(tmp_path: Path, unit: str, per_s: int) -> None:
    digits = 2 if unit == "s" else 0
    text = "t,v\n" + "".join(f"{k * per_s / 100:.{digits}f},{k}\n" for k in range(300))
    assert "time_unit=" in refused(tmp_path, text, start=START)
    store, summary = imported(tmp_path, text, start=START, time_unit=unit)
    signal = store["a"]
    assert signal.rate == 100
    expected = np.datetime64("2024-05-01T12:00:00", "ns") + np.arange(300) * np.timedelta64(10, "ms")
    np.testing.assert_array_equal(times(signal), expected)
    assert summary["remarks"] == []


# --- irregular times


def test_rows_of_irregular_times_are_evenly_spaced_on_request(tmp_path: Path) -> None:
    moments = np.datetime64(START[:-1], "ms") + np.cumsum(np.random.default_rng(1).integers(50, 900, 200))
    text = "time,v\n" + "".join(f"{moment}Z,{k}\n" for k, moment in enumerate(moments))
    reason = refused(tmp_path, text)
    assert "take its rows as evenly spaced with rate=HZ and ignore_times=True" in reason
    assert "ignore_times=True" in refused(tmp_path, text, rate=2)
    store, _ = imported(tmp_path, text, rate=2, ignore_times=True)
    signal = store["a"]
    assert (signal.sample_count, len(signal.gaps)) == (200, 0)
    assert abs(times(signal)[0] - moments[0]) <= np.timedelta64(1, "ms")
    assert signal.time_of(199).ns - signal.time_of(0).ns == 99_500_000_000
    path = tmp_path / "b.parquet"
    pq.write_table(pa.table({"time": moments, "v": np.arange(200)}), path)
    iso.import_files(tmp_path / "t.iso", path, rate=2, ignore_times=True)
    assert iso.open(tmp_path / "t.iso")["b"].sample_count == 200


# --- times as coarse as the samples


@pytest.mark.parametrize(
    ("period", "digits"),
    [("1min", "%Y-%m-%dT%H:%MZ"), ("10min", "%Y-%m-%dT%H:%MZ"), ("1s", "%Y-%m-%dT%H:%M:%SZ")],
)
def test_whole_minutes_and_seconds_are_taken_as_written(tmp_path: Path, period: str, digits: str) -> None:
    moments = pd.date_range("2024-05-01 12:00", periods=500, freq=period)
    text = "time,v\n" + "".join(f"{moment.strftime(digits)},{k}\n" for k, moment in enumerate(moments))
    store, summary = imported(tmp_path, text)
    np.testing.assert_array_equal(times(store["a"]), moments.to_numpy("M8[ns]"))
    assert summary["remarks"] == []
    # What the digits leave open is stated.
    assert store["a"].time_of(0).uncertainty_ns > 0


@pytest.mark.parametrize("first", [0, 7])
def test_ten_rows_of_a_second_begin_at_the_full_second(tmp_path: Path, first: int) -> None:
    moments = pd.date_range("2024-05-01 12:00", periods=1000, freq="100ms")[first:]
    text = "time,v\n" + "".join(f"{moment:%Y-%m-%dT%H:%M:%S}Z,{k}\n" for k, moment in enumerate(moments))
    store, summary = imported(tmp_path, text)
    np.testing.assert_array_equal(times(store["a"]), moments.to_numpy("M8[ns]"))
    assert summary["remarks"] == []


def test_seconds_that_drift_against_the_samples_are_told_of(tmp_path: Path) -> None:
    moments = pd.Timestamp("2024-05-01 12:00") + pd.to_timedelta(np.arange(1500) * 1.0008, "s")
    text = "time,v\n" + "".join(f"{moment:%Y-%m-%dT%H:%M:%S}Z,{k}\n" for k, moment in enumerate(moments))
    store, summary = imported(tmp_path, text)
    assert "drift against them" in str(summary["remarks"])
    off = times(store["a"]) - moments.to_numpy("M8[ns]")
    assert np.abs(off).max() <= np.timedelta64(1, "s")
