"""Short recordings that are imported take few files and little room, whatever their length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli.main import main


@pytest.mark.parametrize("count", [1, 4_600, 16_384, 16_385, 33_000, 65_537, 262_143])
def test_they_take_few_files_and_little_room(count: int, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    for number in range(5):
        np.save(folder / f"s{number}.npy", np.arange(count, dtype="<f4"))
    store = tmp_path / "a.iso"
    assert main(["import", str(folder), str(store), "--rate", "100", "--start", "2020-01-01T00:00:00Z"]) == 0
    with iso.open(store) as opened:
        names = list(opened)
        assert len(names) == 5
        np.testing.assert_array_equal(opened[names[0]][:].values(), np.arange(count, dtype="f4"))
    for name in names:
        files = [path for path in (store / name).rglob("*") if path.is_file()]
        assert len(files) <= 20
        # Four files, one of them with a block for its header: 20 KiB however few the samples.
        most = max(1.5 * 4 * count + (16 << 10), 20 << 10)
        assert sum(512 * path.stat().st_blocks for path in files) <= most
