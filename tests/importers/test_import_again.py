"""Importing again what was touched, has grown or was changed: only what is new is stored."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

import isochrony as iso
from isochrony.importers import csv, import_files


def imported(store: Path, source: Path, **options: Any) -> Any:
    with iso.open(store, mode="a") as opened:
        return import_files(opened, source, **options)


def touch(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))


def stored(store: Path, name: str) -> np.ndarray:
    return np.concatenate([np.asarray(segment) for segment in iso.open(store)[name][:].segments])


def rows(first: int, end: int) -> str:
    moments = np.datetime64("2010-03-01T00:00:00.00") + np.arange(first, end) * np.timedelta64(10, "ms")
    return "".join(
        f"{moment},{number * 37 % 1009}\n" for moment, number in zip(moments, range(first, end), strict=True)
    )


def expected(count: int) -> np.ndarray:
    return np.arange(count) * 37 % 1009


def test_a_touched_array_is_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.random.default_rng(1).normal(size=(5000, 2)))
    for _ in range(3):
        summary = imported(tmp_path / "s.iso", path, rate=Fraction(100))
        assert summary["problems"] == []
        touch(path)
    assert iso.open(tmp_path / "s.iso")["a/ch2"].sample_count == 5000
    assert summary["bytes"] == 0


def test_of_an_array_that_grew_only_the_end_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    values = np.random.default_rng(1).normal(size=9000)
    for count in (4000, 7000, 9000):
        np.save(path, values[:count])
        summary = imported(tmp_path / "s.iso", path, rate=Fraction(100))
        assert np.array_equal(stored(tmp_path / "s.iso", "a"), values[:count])
    assert summary["bytes"] == 2000 * 8


def test_an_array_that_was_changed_inside_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    values = np.arange(1000.0)
    np.save(path, values)
    imported(tmp_path / "s.iso", path, rate=Fraction(100))
    values[700] = -1
    np.save(path, values)
    ((_, reason),) = imported(tmp_path / "s.iso", path, rate=Fraction(100))["problems"]
    assert "its first 700 samples are stored" in reason
    assert iso.open(tmp_path / "s.iso")["a"].sample_count == 1000


def test_a_touched_recording_of_sound_is_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.arange(3000, dtype="i2"), 8000)
    for _ in range(3):
        imported(tmp_path / "s.iso", path)
        touch(path)
    assert iso.open(tmp_path / "s.iso")["a"].sample_count == 3000


@pytest.mark.parametrize("batch", [512, 1 << 20])
def test_a_table_that_grows_gives_its_new_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(csv, "_BATCH_BYTES", batch)
    path = tmp_path / "a.csv"
    path.write_text("time,v\n" + rows(0, 104))
    for count in (104, 105, 180, 181, 400):
        path.write_text("time,v\n" + rows(0, count))
        assert imported(tmp_path / "s.iso", path)["problems"] == []
        assert np.array_equal(stored(tmp_path / "s.iso", "a"), expected(count))
    signal = iso.open(tmp_path / "s.iso")["a"]
    assert (len(signal.gaps), len(signal.runs())) == (0, 1)
    start = iso.Time("2010-03-01T00:00:00Z").ns
    assert abs(signal.time_of(399).ns - start - 3_990_000_000) <= 10_000_000


def test_a_row_that_is_cut_waits_for_its_line_end(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    whole = ("time,v\n" + rows(0, 300)).encode()
    # At each byte of two rows, also inside of their numbers, whose first digits are numbers too, and of the time.
    first, behind = whole.index(b",572\n"), whole.index(b",609\n") + 5
    for end in (*range(first, behind + 1), 4001, len(whole)):
        path.write_bytes(whole[:end])
        summary = imported(tmp_path / "s.iso", path)
        complete = whole[:end].count(b"\n") - 1
        assert np.array_equal(stored(tmp_path / "s.iso", "a"), expected(complete))
        if whole[end - 1 : end] != b"\n":
            ((_, reason),) = summary["problems"]
            assert "no line end" in reason
            assert summary["kept"] == [True]


def test_a_cut_row_waits_with_partial_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    text = "time,v\n" + "".join(f"2024-01-01T00:00:0{k},{k}\n" for k in range(5)) + "2024-01-01T00:00:05,1"
    for _ in range(2):
        path.write_text(text)
        touch(path)
        ((_, reason),) = imported(tmp_path / "s.iso", path, partial=True)["problems"]
        assert "the last row, from byte 117 on, which has no line end" in reason
        assert "add it if the file is complete" in reason
    path.write_text(text + "7\n2024-01-01T00:00:06,9\n")
    assert imported(tmp_path / "s.iso", path, partial=True)["problems"] == []
    assert stored(tmp_path / "s.iso", "a").tolist() == [0, 1, 2, 3, 4, 17, 9]
    signal = iso.open(tmp_path / "s.iso")["a"]
    assert [signal.time_of(k) - iso.Time("2024-01-01T00:00:00Z") for k in range(7)] == list(range(7))
    assert len(signal.runs()) == 1


@pytest.mark.parametrize("text", ["1", "time,v", "v\n1", "time,v\n2024-01-01,1"])
def test_a_table_of_a_cut_row_only(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    ((_, reason),) = imported(tmp_path / "s.iso", path, rate=1)["problems"]
    assert "no line end" in reason


def test_a_gap_in_a_table_that_grows_is_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for end in (300, 500, 500):
        path.write_text("time,v\n" + rows(0, 100) + rows(150, end))
        touch(path)
        imported(tmp_path / "s.iso", path)
    signal = iso.open(tmp_path / "s.iso")["a"]
    assert signal.sample_count == 450
    assert [(gap.start, gap.length) for gap in signal.gaps] == [(100, 50)]


def test_a_parquet_file_that_is_written_anew_gives_its_new_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for count in (100, 100, 250):
        times = pa.array(1_267_401_600_000_000_000 + np.arange(count) * 10_000_000, pa.timestamp("ns"))
        pq.write_table(pa.table({"time": times, "v": expected(count)}), path)
        imported(tmp_path / "s.iso", path)
    assert np.array_equal(stored(tmp_path / "s.iso", "a"), expected(250))


def test_the_same_values_an_hour_later_are_other_samples(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    text = "time,v\n" + rows(0, 100)
    path.write_text(text)
    imported(tmp_path / "s.iso", path)
    path.write_text(text.replace("T00:", "T01:"))
    imported(tmp_path / "s.iso", path)
    assert iso.open(tmp_path / "s.iso")["a"].sample_count == 200
