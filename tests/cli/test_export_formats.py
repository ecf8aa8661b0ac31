"""`isochrony export --format`: sound as soundfile and SciPy read it, and what sound files cannot hold."""

from __future__ import annotations

import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io.wavfile
import soundfile

import isochrony as iso
from isochrony.cli import main
from isochrony.store.exporters import FORMATS


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.iso"
    rng = np.random.default_rng(2)
    with iso.open(path, "x") as store:
        for dtype in ("i1", "i2", "i4", "f4", "f8"):
            signal = store.create(f"take/{dtype}", dtype=dtype, rate=8000, start="2024-05-01", scale=0.5, unit="Pa")
            signal.append((rng.uniform(-100, 100, 4000)).astype(dtype))
        for dtype in ("?", "u1", "u2", "u4", "i8", "c8"):
            store.create(f"odd/{dtype.replace('?', 'bool')}", dtype=dtype, rate=8000).append(np.ones(10, dtype))
        slow = store.create("odd/slow", dtype="i2", rate=Fraction(1, 60))
        slow.append(np.arange(10, dtype="i2"))
        gappy = store.create("odd/gap", dtype="i2", rate=8000, start="2024-05-01")
        gappy.append(np.arange(100, dtype="i2"))
        gappy.append_gap(samples=50)
        gappy.append(np.arange(100, 300, dtype="i2"))
    return path


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "f4", "f8"])
def test_wav_has_the_very_samples(store: Path, dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", f"{store}/take/{dtype}", "--format", "wav"]) == 0
    assert capsys.readouterr().out.startswith(f"{dtype}.wav  ")
    counts = np.asarray(iso.open(store)[f"take/{dtype}"].counts[:])
    rate, read = scipy.io.wavfile.read(f"{dtype}.wav")
    # WAV keeps 8 bits unsigned.
    np.testing.assert_array_equal(read, counts.astype("i2") + 128 if dtype == "i1" else counts)
    assert rate == 8000
    if dtype in ("i2", "i4"):
        again, rate = soundfile.read(f"{dtype}.wav", dtype=f"int{8 * counts.itemsize}")
        np.testing.assert_array_equal(again, counts)
    assert iso.import_files("back.iso", f"{dtype}.wav").is_clean
    np.testing.assert_array_equal(iso.open("back.iso")[dtype].counts[:], counts)


def test_a_format_goes_before_a_suffix_and_a_selection_is_cut(store: Path) -> None:
    line = ["export", f"{store}/take/i2", "--out", "clip.audio", "--format", "wav", "--from", "2024-05-01T00:00:00.25"]
    assert main(line) == 0
    counts = np.asarray(iso.open(store)["take/i2"].counts[:])
    np.testing.assert_array_equal(scipy.io.wavfile.read("clip.audio")[1], counts[2000:])
    assert main(line) == 2
    assert main([*line, "--force"]) == 0


def test_a_gap_is_a_file_each_or_an_error_that_says_so(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", f"{store}/odd/gap", "--format", "wav"]) == 2
    said = capsys.readouterr().err
    assert "odd/gap has a gap of 50 samples at index 100, which wav files cannot store; write one file" in said
    assert main(["export", f"{store}/odd/gap", "--format", "wav", "--split"]) == 0
    np.testing.assert_array_equal(scipy.io.wavfile.read("gap-1.wav")[1], np.arange(100))
    np.testing.assert_array_equal(scipy.io.wavfile.read("gap-2.wav")[1], np.arange(100, 300))


def test_runs_without_a_gap_are_told_apart_too(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("x", "y"):
        np.save(f"{name}.npy", np.arange(100, dtype="i2"))
    iso.import_files(store, ["x.npy", "y.npy"], rate=8000, signal="both")
    assert main(["export", f"{store}/both", "--format", "wav"]) == 2
    assert "both has a new run at index 100, which wav files cannot store; write one file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [(name, f"wav cannot hold {dtype} samples; write .npy or .parquet, which can") for name, dtype in
     [("bool", "bool"), ("u1", "uint8"), ("u2", "uint16"), ("i8", "int64"), ("c8", "complex64")]]
    + [("slow", "odd/slow has 1/60 Hz (0.0166666667), and wav states whole Hz only")],
)  # fmt: skip
def test_what_wav_cannot_hold_is_refused(
    store: Path, name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", f"{store}/odd/{name}", "--format", "wav"]) == 2
    assert words in capsys.readouterr().err
    assert not list(store.parent.glob("*.wav*"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "no output file; name it with --out, or its format with --format: csv, parquet"),
        (
            ["--out", "x.txt"],
            "x.txt: write one of .csv, .parquet, .npy, .wav, .flac, .mseed, or name the format with --fo",
        ),
        (["--format", "mp3"], "--format: 'mp3' is not one of csv"),
        (["--format", "wav", "--from", "banana"], "--from"),
    ],
)
def test_mistakes_name_the_option(store: Path, more: list[Any], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", f"{store}/take/i2", *more]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("rate", [100, Fraction(100, 3), Fraction(1, 60)])
@pytest.mark.parametrize("start", ["2024-05-01", None])
def test_formats_that_a_refusal_names_can_hold_the_signal(
    tmp_path: Path, dtype: str, rate: Any, start: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        store.create("s", dtype=dtype, rate=rate, start=start).append((np.arange(300) % 2).astype(dtype))
    for name in FORMATS:
        capsys.readouterr()
        if main(["export", f"{tmp_path}/a.iso/s", "--out", f"{tmp_path}/out.{name}"]) == 0:
            continue
        said = capsys.readouterr().err.splitlines()[-1]
        named = re.findall(r"\.(\w+)\b", said.partition("; ")[2])
        # A signal without times is told how to get some instead.
        assert named or "--start TIME" in said
        for other in named:
            out = tmp_path / f"instead of {name}.{other}"
            assert main(["export", f"{tmp_path}/a.iso/s", "--out", str(out)]) == 0, said
            if "whole Hz" not in said:
                continue
            main(["import", str(out), f"{tmp_path}/{name}-{other}.iso", "--signal", "s"])
            # miniSEED gives counts back, and names its signals.
            (again,) = iso.open(f"{tmp_path}/{name}-{other}.iso").values()
            assert again.rate == pytest.approx(float(rate), rel=1e-6)


def test_what_goes_into_a_pipe_is_the_file_alone(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        store.create("s", dtype="i2", rate=100).append(np.arange(300, dtype="i2"))
    line = [
        sys.executable,
        "-m",
        "isochrony",
        "export",
        f"{tmp_path}/a.iso/s",
        "--format",
        "csv",
        "--out",
        "/dev/stdout",
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "299,299"


@pytest.mark.parametrize("line", [["export"], ["scan", "--window", "10"], ["plot"]], ids=lambda line: line[0])
def test_a_dash_is_no_file(tmp_path: Path, line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        store.create("s", dtype="i2", rate=100).append(np.arange(300, dtype="i2"))
    assert main([line[0], f"{tmp_path}/a.iso/s", *line[1:], "--out", "-"]) == 2
    assert "--out: '-' is not a file; give the path of a file, such as result.csv" in capsys.readouterr().err
