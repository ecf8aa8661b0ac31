"""The size of tasks as a part of configurations: the same bits for any of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony import Configuration

# A sixteenth of the recording, of two bytes a sample: less than a task reads by default.
START_BYTES = (12 << 20) // 16 * 2
# By default a cell has 1 MiB of the eight bytes that a filter gives for a sample.
CELL_BYTES = (1 << 20) // 8 * 2


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return (1000 * np.random.default_rng(3).standard_normal(12 << 20)).astype(np.int16)


def in_tasks(noise: np.ndarray) -> iso.Plan:
    return iso.scan(noise, rate=1000.0).rewindow(4096).power()


def in_cells(noise: np.ndarray) -> iso.Plan:
    plan: Any = iso.scan(noise, rate=1000.0)
    return plan.iir("butter", band="lowpass", cutoff_hz=50.0, order=4)


def recommended(plan: iso.Plan, **options: Any) -> Configuration:
    tuning = plan.run(workers=2, tune="recommend", **options).report.tuning
    assert tuning is not None
    assert tuning.configuration is not None
    return tuning.configuration


@pytest.mark.parametrize(
    ("of", "tolerance", "sizes"),
    [(in_tasks, 0.0, (START_BYTES // 4, START_BYTES // 2)), (in_cells, 1e-9, (2 * CELL_BYTES, 3 * CELL_BYTES))],
)
def test_task_sizes_are_saved_and_replayed_with_the_same_bits(
    noise: np.ndarray, tmp_path: Path, of: Any, tolerance: float, sizes: tuple[int, ...]
) -> None:
    plan = of(noise)
    expected = plan.collect(workers=1, tolerance=tolerance)
    found = recommended(plan, tolerance=tolerance)
    # Only what was changed or given is stated.
    assert found.task_bytes == 0
    assert found.cuts == found.link_bytes == ()
    for number, size in enumerate(sizes):
        other = replace(found, task_bytes=size)
        other.save(tmp_path / f"{number}.json")
        assert Configuration.load(tmp_path / f"{number}.json") == other != found
        tuning = plan.run(tune=tmp_path / f"{number}.json", tolerance=tolerance).report.tuning
        assert tuning is not None
        assert tuning.configuration == other
        assert f"task_bytes={other.task_bytes}" in repr(tuning.configuration)
        # Without the identity of a plan: here its results are gathered.
        gathered = plan.collect(tune=replace(other, plan=""), tolerance=tolerance)
        np.testing.assert_array_equal(gathered, expected)


def test_a_file_without_a_task_size_is_replayed_with_that_of_the_run(noise: np.ndarray, tmp_path: Path) -> None:
    plan = in_tasks(noise)
    found = recommended(plan)
    found.save(tmp_path / "old.json")
    text = (tmp_path / "old.json").read_text()
    # As files were before there were task sizes.
    old = text.replace(',\n "task_bytes": 0', "")
    assert old != text
    (tmp_path / "old.json").write_text(old)
    assert Configuration.load(tmp_path / "old.json").task_bytes == 0
    tuning = plan.run(tune=tmp_path / "old.json").report.tuning
    assert tuning is not None
    assert tuning.configuration == found


def test_a_configuration_of_a_long_recording_is_applied_to_a_short_one(noise: np.ndarray, tmp_path: Path) -> None:
    short = in_tasks(noise[: 2 << 20])
    expected = short.collect(workers=1)
    most = START_BYTES // 6
    found = replace(recommended(in_tasks(noise)), plan="")
    for number, (stated, used) in enumerate([(0, 0), (most // 2, most // 2), (START_BYTES, most), (1 << 40, most)]):
        replace(found, task_bytes=stated).save(tmp_path / f"{number}.json")
        tuning = short.run(tune=tmp_path / f"{number}.json").report.tuning
        assert tuning is not None
        assert tuning.configuration is not None
        assert tuning.configuration.task_bytes == used
        np.testing.assert_array_equal(short.collect(tune=tmp_path / f"{number}.json"), expected)


def test_sizes_of_no_recording_are_refused(noise: np.ndarray) -> None:
    plan = in_tasks(noise)
    found = recommended(plan)
    # At least four times the rest of a window behind a task.
    for task_bytes in (1, 1 << 63):
        with pytest.raises(iso.PlanError, match=rf"task_bytes={task_bytes} is refused; it must be 32760 to \d+"):
            plan.run(tune=replace(found, task_bytes=task_bytes))


def test_tuning_tries_task_sizes_within_their_limits() -> None:
    noise = np.tile(np.random.default_rng(3).standard_normal(1 << 20).astype("f4"), 96)
    plan = iso.scan(noise, rate=1000.0).rewindow(4096).power()
    expected = plan.collect(workers=1)
    np.testing.assert_array_equal(plan.collect(workers=2, tune=True), expected)
    tuning = plan.run(workers=2, tune=True).report.tuning
    assert tuning is not None
    sizes = {one.candidate.task_bytes for one in tuning.decisions if one.outcome != "load_changed"}
    assert all(16384 <= size <= noise.nbytes for size in sizes)
