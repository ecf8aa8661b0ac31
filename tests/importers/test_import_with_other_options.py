"""Importing a known file again with other options: what is stored stays, and a remark says so."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import isochrony as iso
from isochrony.cli import main

ROWS = "".join(f"2024-05-01T12:00:{k:02d},{k},{k * k},{-k}\n" for k in range(30))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_text("time,p,q,r\n" + ROWS)
    return path


def again(source: Path, **options: Any) -> list[str]:
    """Remarks on a file that is known."""
    summary = iso.import_files(source.parent / "s.iso", source, **options)
    assert [one["status"] for one in summary["results"]] == ["known"]
    assert (summary["files"], summary["bytes"]) == (0, 0)
    return [text for _, text in summary["remarks"]]


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({}, {"zone": "Europe/Berlin"}, "which was created without zone=, and zone= does not change that"),
        ({"zone": "Europe/Berlin"}, {"zone": "+01:00"}, "which was created with zone=Europe/Berlin, and zone= does"),
        ({"zone": "Europe/Berlin"}, {"zone": "UTC"}, "which was created with zone=Europe/Berlin, and zone= does"),
        ({"zone": "Europe/Berlin"}, {"zone": "Europe/Berlin"}, None),
        ({"zone": "Europe/Berlin"}, {}, None),
        ({}, {"zone": "UTC"}, None),
        ({}, {"ignore_times": True, "rate": 1}, "which was created without ignore_times="),
        ({"columns": "p,q"}, {"columns": "p,r"}, "without column 'r', and columns= does not change that"),
        ({"columns": "p,q"}, {"columns": "q"}, None),
        ({"columns": "p"}, {"columns": "q"}, "is stored already in signal 'a' without column 'q'"),
        ({"columns": "p", "unit": "V"}, {"columns": "p", "unit": "A"}, "with unit V, and unit= does not change that"),
    ],
)
def test_a_table(table: Path, first: dict[str, Any], second: dict[str, Any], told: str | None) -> None:
    iso.import_files(table.parent / "s.iso", table, **first)
    stored = {name: signal.time_of(0) for name, signal in iso.open(table.parent / "s.iso").items()}
    found = again(table, **second)
    assert (found == []) is (told is None), found
    assert all(told is not None and told in text for text in found)
    assert {name: signal.time_of(0) for name, signal in iso.open(table.parent / "s.iso").items()} == stored


def test_the_remedy_of_the_remark_works(table: Path) -> None:
    iso.import_files(table.parent / "s.iso", table, columns="p")
    (remark,) = again(table, columns="p", zone="Europe/Berlin")
    assert "import it as another signal with signal=" in remark
    iso.import_files(table.parent / "s.iso", table, columns="p", zone="Europe/Berlin", signal="local")
    store = iso.open(table.parent / "s.iso")
    assert store["a"].start_time - store["local"].start_time == 7200
    assert again(table, columns="p", zone="Europe/Berlin", signal="local") == []
    with iso.open(table.parent / "s.iso", "r+") as opened:
        del opened["a"], opened["local"]
    iso.import_files(table.parent / "s.iso", table, columns="p", zone="Europe/Berlin")
    assert iso.open(table.parent / "s.iso")["a"].start_time == iso.Time("2024-05-01T10:00:00Z")


def test_elapsed_times_in_another_unit(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time,v\n" + "".join(f"{k},{k}\n" for k in range(30)))
    iso.import_files(tmp_path / "s.iso", path, time_unit="ms")
    assert "which was created with time_unit=ms, and time_unit= does not change that" in str(again(path, time_unit="s"))
    assert iso.open(tmp_path / "s.iso")["a"].rate == 1000


def test_another_full_scale(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.arange(3000, dtype="i2"), 8000)
    iso.import_files(tmp_path / "s.iso", path, full_scale=1)
    assert again(path, full_scale=1.0) == []
    assert "created with full_scale=1.0, and full_scale= does not change that" in str(again(path, full_scale=2))


def test_files_that_name_their_signals_are_found_too(volcano: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mseed"
    path.write_bytes(volcano.read_bytes())
    iso.import_files(tmp_path / "s.iso", path)
    found = again(path, unit="m/s")
    assert len(found) == len(iso.open(tmp_path / "s.iso"))
    assert all("with unit counts, and unit= does not change that; import it into another store" in one for one in found)


def test_a_layout_that_names_other_signals_imports_them(table: Path) -> None:
    folder = table.parent / "in"
    (folder / "x").mkdir(parents=True)
    (folder / "x" / "b.csv").write_text(table.read_text())
    store = table.parent / "s.iso"
    for layout, status in (
        ("{name}/b.csv", "imported"),
        ("{name}/b.csv", "known"),
        ("{name}/*.csv", "known"),
        ("x/{name}.csv", "imported"),
        ("x/{name}.csv", "known"),
    ):
        summary = iso.import_files(store, folder, layout=layout, columns="p,q")
        assert [one["status"] for one in summary["results"]] == [status]
    assert iso.open(store).keys() == ["b/p", "b/q", "x/p", "x/q"]


def test_signals_of_other_files_are_not_compared(table: Path) -> None:
    (table.parent / "a").mkdir()
    (table.parent / "a" / "b.csv").write_text(
        "time,v\n" + "".join(f"2024-05-01T12:00:{k:02d}Z,{k}\n" for k in range(9))
    )
    iso.import_files(table.parent / "s.iso", table, columns="p", zone="Europe/Berlin")
    with iso.open(table.parent / "s.iso", "r+") as store:
        iso.import_files(store, table.parent / "a" / "b.csv", signal="a/b")
    assert again(table, columns="p", zone="Europe/Berlin") == []


def test_the_last_row_comes_once_it_has_a_line_end(table: Path) -> None:
    whole = table.read_text()
    table.write_text(whole[:-1])
    with pytest.warns(iso.PartialImportWarning, match="the last row"):
        iso.import_files(table.parent / "s.iso", table)
    for partial in (False, True):
        assert again(table, partial=partial) == []
        assert iso.open(table.parent / "s.iso")["a/p"].sample_count == 29
    table.write_text(whole)
    assert iso.import_files(table.parent / "s.iso", table).is_clean
    np.testing.assert_array_equal(iso.open(table.parent / "s.iso")["a/q"][:].values(), np.arange(30) ** 2)
    assert again(table, partial=True) == []


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"columns": "p", "zone": "Europe/Berlin"}, {"columns": "p", "zone": "UTC"}),
        ({"columns": "p"}, {"columns": "q"}),
        ({"columns": "p", "unit": "V"}, {"columns": "p", "unit": "A"}),
    ],
)
def test_a_file_without_a_last_line_end_is_known_with_partial(
    table: Path, end: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    table.write_text("time,p,q,r\n" + ROWS[:-1] + end)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", iso.PartialImportWarning)
        iso.import_files(table.parent / "s.iso", table, partial=True, **first)
    before = iso.open(table.parent / "s.iso")["a"].sample_count
    assert before == (30 if end else 29)
    assert again(table, partial=True, **first) == []
    (remark,) = again(table, partial=True, **second)
    assert "is stored already in signal 'a'" in remark
    assert iso.open(table.parent / "s.iso")["a"].sample_count == before


def test_raw_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    np.arange(5000, dtype="<i2").tofile(folder / "radio_1600000000.raw")
    given = {"layout": "{station}_{epoch}.raw", "dtype": "<i2", "rate": 1000}
    for options, told in (
        ({}, []),
        ({}, []),
        ({"unit": "Pa"}, ["with no unit, and unit= does not change that"]),
        ({"rate": 2000}, ["with 1000 Hz, and rate= does not change that"]),
    ):
        remarks = iso.import_files(tmp_path / "s.iso", folder, **given | options)["remarks"]
        assert [path for path, _ in remarks] == [str(folder)] * len(told)
        for part, (_, text) in zip(told, remarks, strict=True):
            assert text.startswith(f"is stored already in signal 'radio', {part}")
    line = ["import", str(folder), str(tmp_path / "s.iso"), "--layout", "{station}_{epoch}.raw", "--dtype", "<i2"]
    assert main([*line, "--rate", "3000"]) == 0
    assert "with 1000 Hz, and --rate does not change that" in capsys.readouterr().err


def test_the_command_line_says_it_in_its_own_words(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for zone in ("Europe/Berlin", "+01:00"):
        assert main(["import", str(table), str(table.parent / "s.iso"), "--columns", "p", "--zone", zone]) == 0
    assert (
        "is stored already in signal 'a', which was created with --zone Europe/Berlin, and --zone does not change "
        "that; import it as another signal with --signal, or into another store"
    ) in capsys.readouterr().err


def test_what_a_signal_keeps_of_its_import_is_shown(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = table.parent / "s.iso"
    options = ["--zone", "Europe/Berlin", "--time-column", "time", "--columns", "p"]
    assert main(["import", str(table), str(store), *options]) == 0
    assert iso.open(store)["a"].attrs["import_options"] == {"zone": "Europe/Berlin", "time_column": "time"}
    capsys.readouterr()
    assert main(["info", f"{store}/a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (shown,) = [line.split(maxsplit=1) for line in lines if "import_options" in line]
    assert sorted(shown[1].split(", ")) == ["time_column: time", "zone: Europe/Berlin"]
