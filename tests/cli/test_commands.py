"""Commands on a small store with a gap, a clock step and a signal without civil time."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import obspy
import pyarrow.parquet as pq
import pytest
import soundfile

import isochrony as iso
from isochrony.cli import main

START = "2010-03-01T00:00:00Z"
RATE = 100


@pytest.fixture
def samples() -> np.ndarray:
    return np.random.default_rng(5).integers(-1000, 1000, 3000).astype("i2")


@pytest.fixture
def store(tmp_path: Path, samples: np.ndarray) -> str:
    path = tmp_path / "small.iso"
    with iso.open(path, mode="x") as store:
        pressure = store.create("stn/pressure", dtype="i2", rate=RATE, unit="mbar", start=START)
        pressure.append(samples[:2000])
        pressure.append_gap(samples=500)
        pressure.append(samples[2000:])
        plain = store.create("bench/plain", dtype="f4", rate=8000)
        plain.append(np.linspace(-1, 1, 4000, dtype="f4"))
        store.commit()
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *line: str, code: int = 0) -> str:
    assert main(list(line)) == code
    return capsys.readouterr().out


def test_info_lists_signals(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "info", store).splitlines()
    assert len(lines) == 3
    assert "stn/pressure" in run(capsys, "info", f"{store}/stn/*")
    one = run(capsys, "info", f"{store}/stn/pressure")
    assert "3,000 on indices 0 to 3,500" in one
    assert "int16, mbar" in one


def test_info_for_programs(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = {one["name"]: one for one in json.loads(run(capsys, "info", store, "--json"))["signals"]}
    assert found["stn/pressure"]["samples"] == 3000
    assert found["stn/pressure"]["gaps"] == 1
    assert found["stn/pressure"]["rate"] == "100"
    assert found["bench/plain"]["start"] is None


def test_gaps_tells_duration_and_index(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    (gap,) = json.loads(run(capsys, "gaps", store, "--json"))["gaps"]
    assert (gap["start_index"], gap["length"]) == (2000, 500)
    assert gap["seconds"] == pytest.approx(5.0)
    assert gap["start"].startswith("2010-03-01T00:00:20")
    assert "no gaps" in run(capsys, "gaps", f"{store}/bench/plain")


def test_scan_gives_numpys_statistics_of_gap_free_windows(
    store: str, samples: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = f"{store}/stn/pressure"
    rows = list(csv.DictReader(run(capsys, "scan", target, "--window", "7s").splitlines()))
    windows = [samples[a : a + 700] for a in (0, 700, 2000)]
    assert [int(row["index"]) for row in rows] == [0, 700, 2500]
    for row, window in zip(rows, windows, strict=True):
        assert float(row["min"]) == window.min()
        assert float(row["max"]) == window.max()
        assert float(row["mean"]) == pytest.approx(window.mean(dtype=float))
        assert float(row["std"]) == pytest.approx(window.std(dtype=float))
    out = tmp_path / "scan.parquet"
    run(capsys, "scan", target, "--window", "7s", "--stats", "max", "--out", str(out))
    table = pq.read_table(out)
    assert table.column_names == ["index", "time", "max"]
    assert table["max"].to_pylist() == [int(window.max()) for window in windows]
    assert "index,mean" in run(capsys, "scan", f"{store}/bench/plain", "--window", "10", "--stats", "mean")
    assert json.loads(run(capsys, "scan", target, "--window", "7s", "--json"))["index"] == [0, 700, 2500]


def test_scan_of_a_stretch(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["scan", f"{store}/stn/pressure", "--window", "100", "--from", "2010-03-01T00:00:05"]
    rows = list(csv.DictReader(run(capsys, *line, "--to", "2010-03-01T00:00:10").splitlines()))
    assert [int(row["index"]) for row in rows] == [500, 600, 700, 800, 900]


@pytest.mark.parametrize("name", ["stn/pressure", "bench/plain"])
def test_plot_draws_with_and_without_civil_time(
    store: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix in (".png", ".svg", ".pdf"):
        out = tmp_path / f"a{suffix}"
        run(capsys, "plot", f"{store}/{name}", "--out", str(out))
        assert out.stat().st_size > 3000


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (
            ("--from", "2030-01-01"),
            "--from 2030-01-01 is after the end of stn/pressure; give a time from "
            "2010-03-01T00:00:00Z to 2010-03-01T00:00:35Z",
        ),
        (
            ("--to", "1990-01-01"),
            "--to 1990-01-01 is before the start of stn/pressure; give a time from "
            "2010-03-01T00:00:00Z to 2010-03-01T00:00:35Z",
        ),
        (("--from", "2011-01-01", "--to", "2010-01-01"), "ends at 2010-01-01T00:00:00Z before it starts at 2011-01"),
    ],
)
def test_ends_outside_a_signal_are_told_in_civil_time(
    store: str, ends: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (("plot", "--out", str(tmp_path / "a.png")), ("scan", "--window", "1s")):
        assert main([command[0], f"{store}/stn/pressure", *command[1:], *ends]) == 2
        assert message in capsys.readouterr().err


def test_verify_is_sound(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "sound" in run(capsys, "verify", store)
    report = json.loads(run(capsys, "verify", store, "--json"))
    assert report["damage"] == []
    assert (report["bytes"], report["unchecked"]) == (2 * (3000 + 500) + 4 * 4000, 0)


def test_verify_names_a_flipped_bit_of_a_short_signal(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (Path(store) / "bench" / "plain" / "data" / "c" / "0").open("r+b") as shard:
        shard.seek(4096 + 4 * 1234)
        byte = shard.read(1)[0]
        shard.seek(-1, 1)
        shard.write(bytes([byte ^ 8]))
    assert "bits were changed" in run(capsys, "verify", store, code=1)
    # Nothing but a copy of the file can mend it.
    assert "bits were changed" in run(capsys, "verify", store, "--repair", code=1)


def test_verify_says_what_it_could_not_compare(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with iso.open(store, mode="r+") as writing:
        writing["bench/plain"].append(np.zeros(7, dtype="f4"))
        writing.commit()
        assert iso.verify(store)["unchecked"] == 7
        assert "7 samples have no checksum yet; the rest is sound" in run(capsys, "verify", store)
    assert iso.verify(store)["unchecked"] == 0


def test_verify_names_damage_and_the_status_says_so(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(store) / "stn" / "pressure" / "data" / "zarr.json").unlink()
    said = run(capsys, "verify", store, code=1)
    assert "zarr.json" in said
    assert said.splitlines()[0].count(store) == 1
    assert "all repaired, nothing lost" in run(capsys, "verify", store, "--repair", code=5)
    assert "sound" in run(capsys, "verify", store)


@pytest.mark.parametrize("codec", ["zstd", "blosc"])
def test_seal_keeps_every_sample(
    store: str, samples: np.ndarray, codec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (row, _) = json.loads(run(capsys, "seal", store, "--codec", codec, "--json"))
    assert row["stored_bytes"] > 0
    signal = iso.open(store)["stn/pressure"]
    assert signal.codec.startswith(codec)
    assert np.array_equal(signal.counts[:2000], samples[:2000])
    assert np.array_equal(signal.counts[2500:], samples[2000:])


# --- export


def export(capsys: pytest.CaptureFixture[str], target: str, out: Path, *more: str, code: int = 0) -> None:
    run(capsys, "export", target, "--out", str(out), *more, code=code)


def test_tables_carry_times_and_leave_the_gap_out(
    store: str, samples: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export(capsys, f"{store}/stn/pressure", tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table["pressure"].to_pylist() == samples.tolist()
    assert table["index"].to_pylist() == [*range(2000), *range(2500, 3500)]
    times = table["time"].to_numpy()
    assert times[2000] - times[1999] == np.timedelta64(5_010_000_000, "ns")
    export(capsys, f"{store}/stn/pressure", tmp_path / "a.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert [int(row["stn/pressure [mbar]"]) for row in rows] == samples.tolist()
    assert rows[1]["time"].startswith("2010-03-01T00:00:00.01")


def test_miniseed_is_read_by_obspy_with_its_gap(
    store: str, samples: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export(capsys, f"{store}/stn/pressure", tmp_path / "a.mseed")
    first, second = obspy.read(tmp_path / "a.mseed")
    assert np.array_equal(np.concatenate([first.data, second.data]), samples)
    assert second.stats.starttime - first.stats.starttime == pytest.approx(25.0)


def test_formats_without_times_refuse_a_gap_or_split(
    store: str, samples: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = f"{store}/stn/pressure"
    assert main(["export", target, "--out", str(tmp_path / "a.npy")]) == 2
    assert "gap of 500 samples at index 2000" in capsys.readouterr().err
    export(capsys, target, tmp_path / "a.npy", "--split")
    parts = [np.load(tmp_path / f"a-{i}.npy") for i in (1, 2)]
    assert np.array_equal(np.concatenate(parts), samples)


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_audio_round_trip(
    store: str, samples: np.ndarray, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / f"a{suffix}"
    stretch = ["--from", "2010-03-01T00:00:00", "--to", "2010-03-01T00:00:10"]
    export(capsys, f"{store}/stn/pressure", out, *stretch)
    read, rate = soundfile.read(out, dtype="int16")
    assert rate == RATE
    assert np.array_equal(read, samples[:1000])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_was_exported_comes_back_as_one_signal_with_its_name_and_unit(
    store: str, samples: np.ndarray, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    export(capsys, f"{store}/stn/pressure", tmp_path / "out" / f"a{suffix}")
    again = tmp_path / "again.iso"
    assert main(["import", str(tmp_path / "out"), str(again), "--json"]) == 0
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in summary["signals"]] == ["stn/pressure"]
    signal = iso.open(again)["stn/pressure"]
    assert (signal.unit, signal.rate) == ("mbar", RATE)
    assert signal.sample_count == 3000
    assert len(signal.gaps) == 1
    assert np.array_equal(signal.counts[:2000], samples[:2000])
    # Without civil time only Parquet knows the rate.
    export(capsys, f"{store}/bench/plain", tmp_path / "out" / f"b{suffix}")
    rate = [] if suffix == ".parquet" else ["--rate", "8000"]
    assert main(["import", str(tmp_path / "out" / f"b{suffix}"), str(again), *rate]) == 0
    plain = iso.open(again)["bench/plain"]
    assert (plain.sample_count, plain.rate) == (4000, 8000)


def test_complex_samples_go_to_parquet_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.random.default_rng(2).normal(size=(500, 2)).astype("f4").view("c8")[:, 0]
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        signal = store.create("radar/iq", dtype="c8", rate=1000, start=START)
        signal.append(values)
        store.commit()
    target = f"{tmp_path / 'a.iso'}/radar/iq"
    for suffix in (".csv", ".wav", ".flac", ".mseed"):
        assert main(["export", target, "--out", str(tmp_path / f"a{suffix}")]) == 2
        assert re.search(r"complex.* samples; write .*\.parquet", capsys.readouterr().err)
    export(capsys, target, tmp_path / "a.npy")
    assert np.array_equal(np.load(tmp_path / "a.npy"), values)
    export(capsys, target, tmp_path / "a.parquet")
    assert main(["import", str(tmp_path / "a.parquet"), str(tmp_path / "b.iso")]) == 0
    assert np.array_equal(np.asarray(iso.open(tmp_path / "b.iso")["radar/iq"][:].counts), values)


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_audio_refuses_a_rate_that_is_no_whole_number_of_hz(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        store.create("a", dtype="i2", rate=100.5).append(np.zeros(100, "i2"))
        store.commit()
    assert main(["export", f"{tmp_path / 'a.iso'}/a", "--out", str(tmp_path / f"a{suffix}")]) == 2
    assert "201/2 Hz (100.5)" in capsys.readouterr().err
    assert not (tmp_path / f"a{suffix}").exists()


def test_an_existing_file_is_not_replaced_unasked(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.csv"
    out.write_text("mine")
    assert main(["export", f"{store}/stn/pressure", "--out", str(out)]) == 2
    assert out.read_text() == "mine"
    export(capsys, f"{store}/stn/pressure", out, "--force")
    assert out.read_text() != "mine"


# --- errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["info", "{store}/nothing"], "no signal matches 'nothing'; the store has bench/plain, stn/pressure"),
        (
            ["scan", "{store}", "--window", "1s"],
            "matches 2 signals (bench/plain, stn/pressure); name one, as STORE/SIGNAL",
        ),
        (["scan", "{store}/stn/pressure", "--window", "soon"], "--window 'soon' is refused; give a number of samples"),
        (["scan", "{store}/stn/pressure", "--window", "1s", "--stats", "mode"], "--stats 'mode'"),
        (["scan", "{store}/stn/pressure", "--window", "1s", "--out", "x.txt"], "give a .csv or .parquet file"),
        (
            ["plot", "{store}/stn/pressure", "--out", "x.txt"],
            "--out x.txt has an unknown suffix; give a file with .png, .svg, .pdf",
        ),
        (["plot", "{store}/stn/pressure", "--from", "noon", "--out", "x.png"], "noon"),
        (["export", "{store}/stn/pressure", "--out", "x.txt"], "one of .csv"),
        (["seal", "{store}", "--codec", "zip"], "zip"),
    ],
)
def test_mistakes_are_one_line(
    store: str,
    line: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([part.format(store=store) for part in line]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_second_writer_is_told_who_writes(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros(10))
    with iso.open(store, mode="r+"):
        assert main(["import", str(tmp_path / "x.npy"), store, "--rate", "10"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("isochrony: ")
    assert said.count("\n") == 1
    # Who to ask, or to end: the process and its command.
    assert re.search(rf"\b{os.getpid()}\b", said)
    assert Path(sys.argv[0]).name in said or Path(sys.executable).name in said


def test_civil_time_spans_all_runs_whatever_order_they_are_stored_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with iso.open(tmp_path / "late.iso", mode="x") as store:
        signal = store.create("a", dtype="i2", rate=10)
        for start in ("2020-01-02T00:00:00Z", "2020-01-01T00:00:00Z"):
            signal.append(np.zeros(20, dtype="i2"), at=start)
    signal = iso.open(tmp_path / "late.iso")["a"]
    assert [str(run.start_time)[:10] for run in signal.runs()] == ["2020-01-02", "2020-01-01"]
    (one,) = json.loads(run(capsys, "info", str(tmp_path / "late.iso"), "--json"))["signals"]
    assert one["start"].startswith("2020-01-01T00:00:00")
    assert one["end"].startswith("2020-01-02T00:00:0")


# --- import of raw recordings


def raw_folder(folder: Path, samples: np.ndarray) -> Path:
    for i in range(6):
        path = folder / "raw" / "stn_1" / f"stn_1_{1267401600 * 10**6 + i * 5 * 10**6}.raw"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(samples[i * 500 : (i + 1) * 500].astype("<i2").tobytes())
    return folder / "raw"


RAW = ["--layout", "{station}/{station}_{epoch}.raw", "--dtype", "<i2", "--rate", "100"]


def test_raw_recordings_import_and_again_only_what_is_new(
    tmp_path: Path, samples: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    source, path = raw_folder(tmp_path, samples), tmp_path / "raw.iso"
    first = json.loads(run(capsys, "import", str(source), str(path), *RAW, "--unit", "mbar", "--json"))
    assert (first["files"], first["skipped"], first["problems"]) == (6, 0, [])
    again = json.loads(run(capsys, "import", str(source), str(path), *RAW, "--unit", "mbar", "--json"))
    assert (again["files"], again["skipped"]) == (0, 6)
    signal = iso.open(path)["stn_1"]
    assert np.array_equal(np.asarray(signal.counts[:]), samples)
    assert len(signal.gaps) == 0


def test_bad_raw_files_are_reported_and_the_rest_is_imported(
    tmp_path: Path, samples: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    source, path = raw_folder(tmp_path, samples), tmp_path / "raw.iso"
    names = sorted((source / "stn_1").iterdir())
    names[1].write_bytes(names[1].read_bytes()[:-1])
    names[2].write_bytes(b"")
    (source / "notes.txt").write_text("hello")
    assert main(["import", str(source), str(path), *RAW]) == 1
    said = capsys.readouterr().err
    for name in (names[1].name, names[2].name, "notes.txt"):
        assert name in said
    signal = iso.open(path)["stn_1"]
    assert signal.sample_count == 2000
    assert [gap.length for gap in signal.gaps] == [1000]


def test_truncated_raw_files_are_refused_in_the_words_of_whoever_asked(
    tmp_path: Path, samples: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    source, path = raw_folder(tmp_path, samples), tmp_path / "raw.iso"
    name = sorted((source / "stn_1").iterdir())[1]
    name.write_bytes(name.read_bytes()[:-1])
    assert main(["import", str(source), str(path), *RAW]) == 1
    assert "correct the dtype, or take its 499 whole samples with --partial" in capsys.readouterr().err
    with iso.open(path, mode="a") as store:
        summary = store.import_raw(source, layout=RAW[1], dtype=RAW[3], rate=100)
        ((_, reason),) = summary["problems"]
        assert reason.endswith("take its 499 whole samples with partial=True")
    assert main(["import", str(source), str(path), *RAW, "--partial"]) == 0
    assert iso.open(path)["stn_1"].sample_count == 2999


def test_a_start_with_a_fraction_is_that_instant(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "sound.wav", np.zeros(100, "i2"), 1000)
    for text in ("2024-05-01T06:00:00.5Z", "2024-05-01T06:00:00.25Z", "2024-05-01T06:00:00.123456789Z"):
        assert main(["import", str(tmp_path / "sound.wav"), str(tmp_path / f"{text}.iso"), "--start", text]) == 0
        with iso.open(tmp_path / f"{text}.iso") as store:
            assert store["sound"].time_of(0) == iso.Time(text)
