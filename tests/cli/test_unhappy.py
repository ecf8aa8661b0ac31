"""What goes wrong around the command line: one line, with a way to mend, and what was there stays as it was."""

from __future__ import annotations

import argparse
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli import main
from isochrony.store import exporters

RAW = ["--layout", "{station}_{epoch}.raw", "--dtype", "<i2", "--rate", "100"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "a.iso"
    with iso.open(path, "x") as store:
        samples = np.arange(400, dtype="f4")
        samples[100:200] = np.nan
        samples[300] = np.inf
        store.create("a", dtype="f4", rate=100, start="2020-01-01").append(samples)
    return path


def test_json_has_null_where_there_is_no_number(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", f"{store}/a", "--window", "1s", "--stats", "mean,max", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["mean"] == [49.5, None, 249.5, 350.0]
    assert table["max"] == [99.0, None, 299.0, 399.0]
    assert table["time"][1] == "2020-01-01T00:00:01.000000000"


@pytest.mark.parametrize("error", [RuntimeError("a mistake"), MemoryError(), ZeroDivisionError("of ours")])
def test_a_mistake_of_ours_is_one_line_too(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr("isochrony.cli.info.run", fail)
    memory = isinstance(error, MemoryError)
    assert main(["info", "x"]) == (3 if memory else 70)
    said = capsys.readouterr().err
    assert said.startswith("isochrony: ")
    assert said.count("\n") == 1
    assert ("not enough memory" if memory else "ISOCHRONY_DEBUG=1") in said


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full after the first bytes of an export, which the system tells without a file's name."""

    def write(_signal: Any, _segments: Any, file: Any, _counts: bool) -> None:
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setitem(exporters._WRITERS, "csv", write)


@pytest.mark.usefixtures("full_disk")
def test_a_file_that_could_not_be_written_whole_is_not_there(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "a.csv"
    out.parent.mkdir()
    assert main(["export", f"{store}/a", "--out", str(out)]) == 3
    assert capsys.readouterr().err == f"isochrony: {out}: No space left on device; free some space and try again\n"
    assert not list(out.parent.iterdir())
    out.write_text("an older one")
    assert main(["export", f"{store}/a", "--out", str(out), "--force"]) == 3
    assert out.read_text() == "an older one"
    assert list(out.parent.iterdir()) == [out]


def test_a_missing_folder_is_named_and_no_permission_is_blamed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = store.parent / "nowhere" / "a.png"
    for command in (["plot", f"{store}/a"], ["export", f"{store}/a"], ["scan", f"{store}/a", "--window", "10"]):
        suffix = ".png" if command[0] == "plot" else ".csv"
        assert main([*command, "--out", str(out.with_suffix(suffix))]) == 3
        said = capsys.readouterr().err
        assert said == f"isochrony: {out.with_suffix(suffix)}: No such file or directory; check the path\n"


def test_a_store_in_place_of_a_saved_plan_is_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, kind in ((store, "a store"), (store.parent, "a folder")):
        assert main(["run", str(folder)]) == 2
        said = capsys.readouterr().err
        assert said == f"isochrony: {folder} is {kind}; give the path of a plan's JSON file\n"


def test_a_store_whose_making_was_interrupted_is_made_by_the_next_import(tmp_path: Path) -> None:
    # What a full disk leaves of the first import into a new store.
    store, source = tmp_path / "a.iso", tmp_path / "source"
    (store / ".isochrony" / "tmp").mkdir(parents=True)
    (store / ".isochrony" / "LOCK").touch()
    source.mkdir()
    np.arange(500, dtype="<i2").tofile(source / "stn_1267401600000000.raw")
    assert main(["import", str(source), str(store), *RAW]) == 0
    assert iso.open(store)["stn"].sample_count == 500
    (tmp_path / "b.iso" / ".isochrony").mkdir(parents=True)
    (tmp_path / "b.iso" / "thesis.tex").touch()
    assert main(["import", str(source), str(tmp_path / "b.iso"), *RAW]) == 2


def closed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Lists nothing of `folder`, as where the right to it is missing (which an administrator never sees)."""
    scandir = os.scandir

    def refuse(path: Any) -> Iterator[Any]:
        if Path(path) == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)


def test_a_folder_that_cannot_be_listed_is_reported_and_the_rest_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    for name in ("a", "sub/b"):
        np.save(source / f"{name}.npy", np.arange(100, dtype="i2"))
    closed(monkeypatch, source / "sub")
    assert main(["import", str(source), str(tmp_path / "a.iso"), "--rate", "100"]) == 1
    assert (
        f"refused: {source}/sub: cannot be listed (Permission denied); check its permissions" in capsys.readouterr().err
    )
    assert iso.open(tmp_path / "a.iso").keys() == ["a"]


def test_a_store_that_may_not_be_looked_into_is_named_itself(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path, *_: Any, **__: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(Path, "exists", refuse)
    assert main(["info", str(store)]) == 3
    assert capsys.readouterr().err == f"isochrony: {store}: Permission denied; check the path and its permissions\n"


def test_a_result_that_could_not_be_written_is_refused_before_it_is_computed(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def computes(*_: Any, **__: Any) -> Any:
        raise AssertionError("it is computed")

    monkeypatch.setattr("isochrony.machine.calibrate", computes)
    monkeypatch.setattr("isochrony.scan", computes)
    nowhere = store.parent / "nowhere" / "x.json"
    for line, said in (
        (["calibrate", "--dir", str(store.parent), "--out", str(nowhere)], f"{nowhere}: No such file or directory"),
        (
            ["scan", f"{store}/a", "--window", "10", "--out", "x.txt"],
            "--out x.txt has an unknown suffix; give a .csv or .parquet file",
        ),
    ):
        assert main(line) in (2, 3)
        assert said in capsys.readouterr().err
