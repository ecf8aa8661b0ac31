"""What tune="recommend" says about cuts and task size, and configurations that state no replicas and links."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony import Configuration

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")


def noise(samples: int) -> np.ndarray:
    values = (1000 * np.random.default_rng(5).standard_normal(1 << 20)).astype(np.int16)
    return np.tile(values, samples >> 20)


def in_stages(samples: int) -> Any:
    plan: Any = iso.scan(noise(samples), rate=1000.0)
    for cutoff_hz in (40.0, 50.0, 60.0):
        plan = plan.iir("butter", band="lowpass", cutoff_hz=cutoff_hz, order=4)
    return plan


def in_tasks(samples: int) -> Any:
    return iso.scan(noise(samples), rate=1000.0).rewindow(4096).power()


def recommended(plan: Any, **options: Any) -> tuple[Configuration, tuple[str, ...], Any]:
    report = plan.run(**{"workers": 2, "tune": "recommend"} | options).report
    assert report.tuning.configuration is not None
    return report.tuning.configuration, report.tuning.advice, report


@pytest.mark.parametrize(("plan", "about"), [(in_stages, "cuts"), (in_tasks, "task")])
def test_each_recommendation_says_something_about_cuts_or_task_size(plan: Any, about: str) -> None:
    _, advice, report = recommended(plan(32 << 20))
    (text,) = advice
    assert text.startswith(about)
    assert f"tuning {text}" in str(report)
    assert plan(2 << 20).run(workers=2, tune=True).report.tuning.advice == ()


def test_what_cannot_be_said_has_a_reason() -> None:
    for plan, options, reason in (
        (in_stages(16 << 20), {"measure": False}, "cuts: nothing can be said: the run did not measure its operators"),
        (in_stages(1 << 20), {}, "cuts: nothing can be said: the run was too short"),
        (in_tasks(2 << 20), {}, "task size: nothing can be said: the run took"),
    ):
        found, (text,), _ = recommended(plan, **options)
        assert text.startswith(reason), text
        assert found.task_bytes == 0


def test_a_configuration_without_replicas_and_links_has_those_of_its_run(tmp_path: Path) -> None:
    plan = in_stages(4 << 20)
    expected = plan.collect(workers=1)
    # Too short for a trial: as it began.
    found = plan.run(workers=2, tune=True).report.tuning.configuration
    assert found.cuts and found.replicas and found.link_bytes
    bare = replace(found, replicas=(), link_bytes=())
    bare.save(tmp_path / "bare.json")
    replayed = plan.run(tune=tmp_path / "bare.json").report.tuning.configuration
    assert replayed == found
    np.testing.assert_array_equal(plan.collect(tune=replace(bare, plan="", cuts=())), expected)
