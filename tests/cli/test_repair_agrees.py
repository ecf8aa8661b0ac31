"""`verify`, a repair and `verify` afterwards agree; `make attack` tries random damages, these are some that did not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli.main import main


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()


def link_instead(file: Path) -> None:
    aside = file.parent / "aside"
    file.rename(aside)
    file.symlink_to(aside)


def pipe_instead(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def write(path: Path, *, killed: bool) -> None:
    """A store of a short signal and a longer one, sealed and closed, or as a killed writer leaves it."""
    kept = path.with_suffix(".kept")
    with iso.open(path, "x") as store:
        store.create("net/sta", dtype="f4", rate=10, start="2020-01-01").append(np.zeros(3, dtype="f4"))
        short = store.create("short", dtype="f4", rate=10, start="2020-01-01")
        short.append(np.arange(50, dtype="f4"))
        long = store.create("long", dtype="i4", rate=500, start="2020-01-01")
        long.append(np.random.default_rng(0).integers(-9, 9, 100_000).astype("i4"))
        store.commit()
        if killed:
            shutil.copytree(path, kept)
        else:
            long.seal()
    if killed:
        shutil.rmtree(path)
        kept.rename(path)


@pytest.mark.parametrize(
    ("killed", "damage", "codes"),
    [
        (False, lambda s: (s / "short/data/.signal").unlink(), (1, 5, 0)),
        (False, lambda s: (s / "long/crc/.signal").unlink(), (1, 5, 0)),
        (False, lambda s: os.truncate(s / "long/crc/.signal", 3), (1, 5, 0)),
        (False, lambda s: shutil.rmtree(s / "long/crc"), (1, 5, 0)),
        (False, lambda s: (s / "zarr.json").unlink(), (1, 5, 0)),
        (False, lambda s: os.truncate(s / "zarr.json", 100), (1, 6, 0)),
        (True, lambda s: os.truncate(s / "zarr.json", 0), (1, 6, 0)),
        (True, lambda s: os.truncate(s / "long/zarr.json", 0), (1, 5, 0)),
        (True, lambda s: os.truncate(s / "long/data/c/0", 200_000), (1, 6, 0)),
        (True, lambda s: folder_instead(s / "long/zarr.json"), (1, 1, 1)),
        (True, lambda s: folder_instead(s / "short/data/c/0"), (1, 1, 1)),
        (False, lambda s: link_instead(s / "zarr.json"), (1, 6, 0)),
        (False, lambda s: pipe_instead(s / "zarr.json"), (1, 6, 0)),
        (False, lambda s: os.truncate(s / "zarr.json", 1 << 27), (1, 6, 0)),
        (False, lambda s: folder_instead(s / "zarr.json"), (1, 1, 1)),
        (False, lambda s: link_instead(s / "net/zarr.json"), (1, 5, 0)),
        (False, lambda s: pipe_instead(s / "net/zarr.json"), (1, 5, 0)),
        (False, lambda s: os.truncate(s / "net/zarr.json", 1 << 27), (1, 5, 0)),
        (False, lambda s: folder_instead(s / "net/zarr.json"), (1, 1, 1)),
        (False, lambda s: None, (0, 0, 0)),
        (True, lambda s: None, (0, 0, 0)),
    ],
)
def test_they_agree(
    killed: bool,
    damage: Callable[[Path], object],
    codes: tuple[int, int, int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = tmp_path / "a.iso"
    write(store, killed=killed)
    damage(store)
    opened = tmp_path / "opened.iso"
    subprocess.run(["cp", "-a", "--sparse=always", store, opened], check=True)
    before = {one["code"] for one in iso.verify(opened)["damage"]}
    try:
        iso.open(opened, "r+").close()
    except iso.StoreError as error:
        assert before, f"a sound store is refused: {error}"
    else:
        # What opening mends follows from the log, and nothing of it is a sample.
        mended = before - {one["code"] for one in iso.verify(opened)["damage"]}
        assert mended <= {"missing_metadata", "foreign_metadata", "stale_metadata", "damaged_identity"}
        assert before or not iso.verify(opened)["damage"]
    lines = (["verify", str(store)], ["verify", str(store), "--repair"], ["verify", str(store)])
    assert tuple(main(line) for line in lines) == codes, capsys.readouterr().out
