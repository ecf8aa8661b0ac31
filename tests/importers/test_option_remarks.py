"""Options that have no effect on a file, or that replace what it states, are told of; those that fit are not."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

import isochrony as iso


def remarks(source: Path, **options: Any) -> list[str]:
    """What an import says of a file that it takes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summary = iso.import_files(source.parent / "s.iso", source, **options)
    assert [one["status"] for one in summary["results"]] == ["imported"]
    return [text for _, text in summary["remarks"]]


def csv(folder: Path, title: str, times: list[Any]) -> Path:
    path = folder / "a.csv"
    path.write_text(f"{title}\n" + "".join(f"{time},{k}\n" for k, time in enumerate(times)))
    return path


SECONDS = [f"2024-05-01T00:00:{k:02d}" for k in range(30)]
IN_UTC = [f"{text}Z" for text in SECONDS]
EPOCH = [1_714_521_600 + k for k in range(30)]
DIGITS = [f"202405010000{k:02d}" for k in range(30)]


@pytest.mark.parametrize(
    ("title", "times", "options", "told"),
    [
        ("time,v", IN_UTC, {}, []),
        (
            "time,v [mbar]",
            IN_UTC,
            {"unit": "kPa"},
            ["its column 'v [mbar]' states the unit mbar, which unit= replaced"],
        ),
        ("time,v [mbar]", IN_UTC, {"unit": "mbar"}, []),
        ("time,v", IN_UTC, {"unit": "kPa"}, []),
        ("time,v", IN_UTC, {"zone": "Europe/Berlin"}, ["its times state their time zone, and zone= was not used"]),
        ("time,v", EPOCH, {"zone": "Europe/Berlin"}, ["its times are numbers, and zone= was not used"]),
        ("time,v", SECONDS, {"zone": "Europe/Berlin"}, []),
        ("time,v", IN_UTC, {"time_unit": "ms"}, ["its times are dates, and time_unit= was not used"]),
        ("time,v", EPOCH, {"time_unit": "s"}, []),
        ("time (s),v", EPOCH, {"time_unit": "s"}, []),
        (
            "time (ms),v",
            EPOCH,
            {"time_unit": "s"},
            ["its time column 'time (ms)' states another unit, which time_unit="],
        ),
        ("time,v", DIGITS, {}, ["its times state no zone and were taken as UTC"]),
        ("time,v", DIGITS, {"zone": "Europe/Berlin"}, []),
        ("utc,v", SECONDS, {}, []),
        (
            "p,v",
            list(range(30)),
            {"rate": 10, "zone": "Europe/Berlin", "time_unit": "s", "ignore_times": True},
            [f"has no time column, and {name}= was not used" for name in ("time_unit", "zone", "ignore_times")],
        ),
    ],
)
def test_a_table(tmp_path: Path, title: str, times: list[Any], options: dict[str, Any], told: list[str]) -> None:
    found = remarks(csv(tmp_path, title, times), **options)
    assert len(found) == len(told), found
    for text, start in zip(found, told, strict=True):
        assert text.startswith(start)


@pytest.mark.parametrize(
    ("times", "options", "told"),
    [
        (
            pa.array(pd.date_range("2024-05-01", periods=30, freq="1s", tz="UTC")),
            {"zone": "+02:00"},
            "state their time",
        ),
        (pa.array(pd.date_range("2024-05-01", periods=30, freq="1s")), {"zone": "+02:00"}, None),
        (pa.array(pd.date_range("2024-05-01", periods=30, freq="1s")), {}, "state no zone"),
        (pa.array(IN_UTC), {"zone": "+02:00"}, "state their time zone, and zone= was"),
        (pa.array(IN_UTC), {"time_unit": "ms"}, "are dates, and time_unit= was"),
        (pa.array(EPOCH), {"zone": "+02:00"}, "are numbers, and zone= was"),
        (pa.array(EPOCH), {"time_unit": "s"}, None),
        (pa.array([int(text) for text in DIGITS]), {"zone": "+02:00"}, None),
        (pa.array([int(text) for text in DIGITS]), {}, "state no zone"),
    ],
)
def test_a_parquet_table(tmp_path: Path, times: pa.Array, options: dict[str, Any], told: str | None) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"time": times, "v": np.arange(30)}), path)
    found = remarks(path, **options)
    assert len(found) == (told is not None), found
    assert told is None or told in found[0]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_digits_of_the_calendar_are_local_times_of_a_zone(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    frame = pd.DataFrame({"time": [int(text) for text in DIGITS], "v": np.arange(30)})
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    remarks(path, zone="Europe/Berlin")
    expected = pd.to_datetime(frame["time"], format="%Y%m%d%H%M%S").dt.tz_localize("Europe/Berlin")
    assert iso.open(tmp_path / "s.iso")["a"].time_of(0).ns == expected[0].value


def test_an_exported_table_that_states_its_rate_and_unit(tmp_path: Path) -> None:
    with iso.open(tmp_path / "o.iso", "x") as store:
        store.create("a", dtype="i2", rate=100, unit="mbar").append(np.arange(300, dtype="i2"))
    from isochrony.cli import main

    path = tmp_path / "a.parquet"
    assert main(["export", f"{tmp_path}/o.iso/a", "--out", str(path)]) == 0
    rate, unit = remarks(path, rate=50, unit="kPa")
    assert rate == "states a rate of 100 Hz, which rate= replaced"
    assert "states the unit mbar, which unit= replaced by kPa" in unit
    assert (iso.open(tmp_path / "s.iso")["a"].rate, iso.open(tmp_path / "s.iso")["a"].unit) == (50, "kPa")


def test_a_recording_of_sound_that_states_its_start(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.arange(3000, dtype="i2"), 8000)
    raw = path.read_bytes()
    body = bytearray(602)
    body[320:338] = b"2024-05-0101:02:03"
    at = raw.index(b"data")
    chunk = b"bext" + struct.pack("<I", len(body)) + body
    path.write_bytes(raw[:4] + struct.pack("<I", len(raw) + len(chunk) - 8) + raw[8:at] + chunk + raw[at:])
    (text,) = remarks(path, start="2023-01-01")
    assert text == "states the start 2024-05-01T01:02:03.000000000, which the stated one replaced"
    assert iso.open(tmp_path / "s.iso")["a"].start_time == iso.Time("2023-01-01")
    assert remarks(path, start="2024-05-01T01:02:03.2Z", signal="b") == []


def test_an_encoding_that_no_record_asks_for(volcano: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mseed"
    path.write_bytes(volcano.read_bytes())
    assert remarks(path, encoding="int32") == ["its records state their encoding, and encoding= was not used"]


@pytest.mark.parametrize(("digits", "rate"), [(16, 7), (19, 7), (21, 40), (22, 300), (23, 300)])
def test_ignored_times_begin_at_the_first_one_as_it_is_written(tmp_path: Path, digits: int, rate: int) -> None:
    """Whatever is cut off: files that follow on each other do so."""
    moments = np.datetime64("2024-05-01T00:00:40.777") + (np.arange(600) * 1e9 / rate).astype("m8[ns]")
    rows = [f"{str(moment)[:digits]}Z,{k}\n" for k, moment in enumerate(moments)]
    for name, first, end in (("1", 0, 250), ("2", 250, 600)):
        (tmp_path / f"{name}.csv").write_text("time,v\n" + "".join(rows[first:end]))
    iso.import_files(tmp_path / "s.iso", tmp_path / "*.csv", rate=rate, ignore_times=True, signal="a")
    signal = iso.open(tmp_path / "s.iso")["a"]
    assert (signal.sample_count, len(signal.gaps), len(signal.runs())) == (600, 0, 1)
    iso.import_files(tmp_path / "t.iso", tmp_path / "1.csv", rate=rate, ignore_times=True)
    assert iso.open(tmp_path / "t.iso")["1"].time_of(0) == iso.Time(f"{str(moments[0])[:digits]}Z")
