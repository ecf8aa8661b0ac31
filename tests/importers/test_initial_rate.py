"""A better initial rate than the nominal one sizes a gap that comes before the stamps have told the rate."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli import main
from isochrony.importers import import_files

LAYOUT = "{station}_{epoch}.raw"
DAY = 86_400
TRUE = Fraction(100_005, 1000)


def raw_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for epoch in (1_267_401_600, 1_267_401_600 + DAY):
        (folder / f"stn_{epoch}000000.raw").write_bytes(np.arange(200, dtype="<i2").tobytes())
    return folder


def native(folder: Path, path: Path) -> None:
    with iso.open(path, mode="x") as store:
        store.import_raw(folder, layout=LAYOUT, dtype="<i2", rate=100, initial_rate=TRUE)


def command(folder: Path, path: Path) -> None:
    line = ["--layout", LAYOUT, "--dtype", "<i2", "--rate", "100", "--initial-rate", "100.005"]
    assert main(["import", str(folder), str(path), *line]) == 0


def importers(folder: Path, path: Path) -> None:
    for raw in list(folder.iterdir()):
        np.save(raw.with_suffix(".npy"), np.frombuffer(raw.read_bytes(), "<i2"))
        raw.unlink()
    with iso.open(path, mode="x") as store:
        import_files(store, folder, rate=Fraction(100), layout="{station}_{epoch}.npy", initial_rate=TRUE)


@pytest.mark.parametrize("bring_in", [native, command, importers])
def test_the_first_gap_has_the_length_of_the_initial_rate(
    bring_in: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    bring_in(raw_folder(tmp_path), tmp_path / "s.iso")
    (gap,) = iso.open(tmp_path / "s.iso")["stn"].gaps
    # At the nominal rate it would be 432 samples shorter.
    assert gap.length == pytest.approx(8_640_432 - 200, abs=1)
