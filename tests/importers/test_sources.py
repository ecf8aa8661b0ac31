"""What of a folder is imported, and what is said of the rest: no file ever stops the others."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

import isochrony as iso
from isochrony.errors import BadSourceError, UsageError
from isochrony.importers import find_sources, import_files
from isochrony.importers.sources import printable_path


def problems(folder: Path) -> dict[str, str]:
    found = find_sources(folder)
    return {printable_path(one.path.relative_to(folder)): one.problem for one in found if one.problem}


def names(folder: Path) -> list[str]:
    return [printable_path(one.path.relative_to(folder)) for one in find_sources(folder) if one.problem is None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "in"
    (inside / "deep").mkdir(parents=True)
    np.save(inside / "a.npy", np.arange(100))
    np.save(inside / "deep" / "b.npy", np.arange(100))
    outside = tmp_path / "outside"
    outside.mkdir()
    np.save(outside / "c.npy", np.arange(100))
    return inside


def test_links_out_of_the_folder_are_told_and_not_followed(folder: Path) -> None:
    (folder / "file.npy").symlink_to(folder.parent / "outside" / "c.npy")
    (folder / "more").symlink_to(folder.parent / "outside")
    (folder / "gone.npy").symlink_to("nowhere")
    (folder / "round").symlink_to("round")
    assert names(folder) == ["a.npy", "deep/b.npy"]
    told = problems(folder)
    assert "outside/c.npy, outside of what is imported" in told["file.npy"]
    assert "import that folder by itself" in told["more"]
    assert "leads nowhere" in told["gone.npy"]
    assert set(told) == {"file.npy", "more", "gone.npy", "round"}


def test_links_to_what_is_imported_anyway_are_passed_over(folder: Path) -> None:
    (folder / "again.npy").symlink_to("a.npy")
    (folder / "again").symlink_to("deep")
    (folder / "deep" / "up").symlink_to(folder)
    assert names(folder) == ["a.npy", "deep/b.npy"]
    assert problems(folder) == {}


def test_a_link_to_what_is_hidden_is_told(folder: Path) -> None:
    (folder / ".store").mkdir()
    np.save(folder / ".store" / "d.npy", np.arange(10))
    (folder / "d.npy").symlink_to(".store/d.npy")
    assert "which is hidden" in problems(folder)["d.npy"]


def test_a_link_that_the_user_names_is_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert names(tmp_path / "link") == ["a.npy", "deep/b.npy"]


def test_what_is_no_file_is_told_and_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.npy")
    assert problems(folder) == {"pipe.npy": "is a fifo, not a file; move it elsewhere"}


def test_a_name_that_is_no_utf8_ends_no_import(folder: Path, tmp_path: Path) -> None:
    odd = os.fsencode(folder) + b"/caf\xe9.npy"
    Path(os.fsdecode(odd)).write_bytes((folder / "a.npy").read_bytes())
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text("nothing")
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        summary = import_files(store, folder, rate=100)
        assert sorted(store) == ["a", "caf%E9", "deep/b"]
        assert [Path(path).name for path, _ in summary["problems"]] == ["%FF.txt"]
        assert import_files(store, folder, rate=100)["skipped"] == 3


def test_a_layout_without_time_names_signals(tmp_path: Path) -> None:
    (tmp_path / "in" / "left").mkdir(parents=True)
    soundfile.write(tmp_path / "in" / "left" / "take.wav", np.zeros(10, "i2"), 8000)
    soundfile.write(tmp_path / "in" / "odd.wav", np.zeros(10, "i2"), 8000)
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        summary = import_files(store, tmp_path / "in", layout="{side}/{name}.wav")
        assert list(store) == ["left/take"]
        ((path, reason),) = summary["problems"]
    assert path.endswith("odd.wav")
    assert "does not fit the layout" in reason


def test_a_layout_without_names_gives_the_folders_name(tmp_path: Path) -> None:
    (tmp_path / "tape").mkdir()
    soundfile.write(tmp_path / "tape" / "take_2010-03-01T00-00-00.wav", np.zeros(10, "i2"), 8000)
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        assert import_files(store, tmp_path / "tape", layout="take_{iso}.wav")["problems"] == []
        assert list(store) == ["tape"]


def test_raw_is_known_but_imported_elsewhere(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"store\.import_raw\(\)"):
        find_sources(folder, "raw")


def test_a_format_that_was_given_is_not_asked_for(folder: Path, tmp_path: Path) -> None:
    for format_name in ("mseed", "csv", "parquet", "audio"):
        with iso.open(tmp_path / f"{format_name}.iso", mode="x") as store:
            for _, reason in import_files(store, folder, format=format_name)["problems"]:
                assert "format=" not in reason
                assert isinstance(reason, str)
    assert issubclass(BadSourceError, ValueError)
