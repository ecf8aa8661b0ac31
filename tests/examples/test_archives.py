"""The applications over archives: the examples, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from example_modules import example


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_scan_summarize_tells_of_every_whole_minute_and_of_no_gap(tmp_path: Path, workers: int) -> None:
    rng = np.random.default_rng(workers)
    first, second = (rng.integers(-900, 900, minutes * 6000, dtype="i2") for minutes in (7, 5))
    with iso.open(tmp_path / "water.iso", "x") as store:
        logger = store.create("pressure", dtype="i2", rate=100, start="2010-03-01T00:00:00Z")
        logger.append(first[:-1000])  # six minutes, and a piece of one
        logger.append(second, at="2010-03-01T00:30:00Z")
        store.commit()
        table = example("scan_summarize").scan_summarize(store["pressure"]).collect(workers=workers)
    minutes = np.concatenate([first[:36_000], second]).reshape(-1, 6000)
    np.testing.assert_array_equal(table["min"], minutes.min(axis=1))
    np.testing.assert_array_equal(table["max"], minutes.max(axis=1))
    np.testing.assert_allclose(table["mean"], minutes.mean(axis=1), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("workers", [1, 2])
def test_windowed_fft_gives_the_power_that_numpy_gives(tmp_path: Path, workers: int) -> None:
    windowed = example("windowed_fft")
    rows = np.random.default_rng(3).integers(-2000, 2000, (7, windowed.WINDOW), dtype="i2")
    with iso.open(tmp_path / "sea.iso", "x") as store:
        store.create("hydrophone", dtype="i2", rate=windowed.RATE).append(rows.reshape(-1))
        store.commit()
        found = windowed.windowed_fft(store["hydrophone"]).collect(workers=workers)
    power = np.abs(np.fft.rfft(rows.astype("f8"))) ** 2 / (windowed.WINDOW * windowed.RATE)
    power[:, 1:-1] *= 2  # one-sided
    np.testing.assert_allclose(found, power, rtol=0, atol=3e-6 * power.max())
