"""What reading CSV files leaves in memory: the types of their columns, and nothing of their rows."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from isochrony.errors import BadSourceError
from isochrony.importers import Options, csv


def test_reading_many_files_keeps_none_of_their_rows(tmp_path: Path) -> None:
    text = "value\n" + "".join(f"{k}.25\n" for k in range(10_000))
    paths = [tmp_path / f"{k}.csv" for k in range(40)]
    for path in paths:
        path.write_text(text)

    def read(path: Path) -> int:
        return sum(len(block.samples) for block in csv.read(path, "s", Options(rate=10)) if hasattr(block, "samples"))

    assert read(paths[0]) == 10_000
    tracemalloc.start()
    try:
        for path in paths[1:]:
            read(path)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 20_000 * len(paths)


def test_a_file_that_has_not_changed_is_read_once_for_its_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("value\n1\n2\n")
    looks: list[str] = []
    kinds = csv._Table.kinds
    monkeypatch.setattr(csv._Table, "kinds", lambda table: looks.append(table.path.name) or kinds(table))
    for _ in range(2):
        list(csv.read(path, "s", Options(rate=10)))
    path.write_text("value\n1\n2.5\n3\n")
    (block,) = csv.read(path, "s", Options(rate=10))
    assert block.samples.dtype == "f8"  # type: ignore[union-attr]
    assert looks == ["a.csv", "a.csv"]


def test_types_of_columns_are_kept_of_so_many_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = csv._KindsCache(8)
    monkeypatch.setattr(csv, "_CACHE", cache)
    for k in range(10):
        path = tmp_path / f"{k}.csv"
        path.write_text("a,b,c\n1,2,3\n")
        list(csv.read(path, "s", Options(rate=10)))
    assert len(cache._known) == 2


@pytest.mark.parametrize("text", ["+-5", "-+5", "++5", "+"])
def test_two_signs_are_no_number(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"value\n1\n{text}\n")
    with pytest.raises(BadSourceError, match="row 3"):
        list(csv.read(path, "s", Options(rate=10)))


def test_a_plus_is_a_sign(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("value\n+1\n+2.5\n+.5\n+inf\n")
    (block,) = csv.read(path, "s", Options(rate=10))
    assert block.samples.tolist() == [1, 2.5, 0.5, float("inf")]  # type: ignore[union-attr]
