"""What `isochrony import` says of files that were refused, and of those that were imported in part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isochrony.cli import main

ROWS = "".join(f"2010-03-01T00:00:{k:02d},{k}\n" for k in range(30))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "good.csv").write_text("time,v\n" + ROWS)
    (inside / "cut.csv").write_text("time,v\n" + ROWS[:-2])
    (inside / "bad.csv").write_text("time,v\n" + ROWS + "later,7\n")
    return inside


def test_kept_and_refused_files_are_told_apart(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(folder), str(tmp_path / "a.iso")]) == 1
    said = capsys.readouterr().err
    (kept,) = [line for line in said.splitlines() if line.startswith("kept:")]
    assert "cut.csv: the rest is imported, but not: the last row" in kept
    assert "no line end" in kept
    (refused,) = [line for line in said.splitlines() if line.startswith("refused:")]
    assert "bad.csv: row 32: 'later' is not a time" in refused
    assert "1 refused; 1 imported in part" in said


def test_names_of_files_do_not_reach_the_terminal_as_they_are(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "\x1b[31mred\n.csv").write_text("nothing")
    assert main(["import", str(folder), str(tmp_path / "a.iso")]) == 1
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert r"\x1b[31mred\n.csv" in said


def test_a_stated_format_is_not_asked_for_again(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(folder / "a.npy", np.arange(9))
    for name in ("mseed", "csv", "audio", "parquet"):
        main(["import", str(folder), str(tmp_path / f"{name}.iso"), "--format", name])
        assert "--format" not in capsys.readouterr().err.replace("isochrony import --", "")
    assert main(["import", str(folder), str(tmp_path / "raw.iso"), "--format", "raw"]) == 2
    assert "unknown format" not in capsys.readouterr().err


def test_an_encoding_is_for_miniseed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["import", str(folder), str(tmp_path / "a.iso"), "--encoding", "int32"]
    assert main([*line, "--format", "csv"]) == 2
    assert "--encoding is for mseed files, not csv; leave it out" in capsys.readouterr().err
