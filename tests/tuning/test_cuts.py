"""Cuts between stages: by measured costs where a run may choose them, a part of configurations, and replayed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony import Configuration, OptionError

CUTOFFS = (40.0, 50.0, 60.0, 70.0)


def plan(samples: int = 24 << 20) -> Any:
    noise = (1000 * np.random.default_rng(5).standard_normal(1 << 20)).astype(np.int16)
    filtered: Any = iso.scan(np.tile(noise, samples >> 20), rate=1000.0)
    for cutoff_hz in CUTOFFS:
        filtered = filtered.iir("butter", band="lowpass", cutoff_hz=cutoff_hz, order=4)
    return filtered


@pytest.fixture
def costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Measured costs of `plan`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    plan().characterise(samples=1 << 16, repeats=3)
    return tmp_path / "isochrony/operators.json"


def claim(file: Path, *ns_per_sample: float) -> None:
    """Writes other costs, by filter."""
    known = json.loads(file.read_text())
    claimed = 0
    for operator in known["operators"]:
        for cutoff, ns in zip(CUTOFFS, ns_per_sample, strict=True):
            if f'"cutoff_hz":{cutoff}' in operator["key"].replace(" ", ""):
                operator["seconds_per_sample"] = dict.fromkeys(("low", "median", "high"), 1e-9 * ns)
                claimed += 1
    assert claimed == len(CUTOFFS)
    file.write_text(json.dumps(known))


def stages_of(report: Any) -> list[tuple[str, ...]]:
    """Operators of each stage."""
    names = [operator.name for operator in report.operators]
    stages = (stage for stage in report.stages if stage.replica in (None, 0))
    return [tuple(f"{number} {names[number]}" for number in stage.operators) for stage in stages]


def tuned(of: Any, **options: Any) -> tuple[Configuration, Any]:
    report = of.run(**{"workers": 2, "tune": True} | options).report
    assert report.tuning is not None
    assert report.tuning.configuration is not None
    return report.tuning.configuration, report


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_cuts_follow_measured_costs_where_the_run_may_choose(costs: Path) -> None:
    # All four take the same time: as declared.
    claim(costs, 30.0, 30.0, 30.0, 30.0)
    declared = stages_of(plan().run(workers=2).report)
    assert len(declared) > 2
    found, report = tuned(plan())
    assert stages_of(report) == declared
    assert found.cuts == (0, 0, 1, 2, 3)
    assert "as declared" not in plan().explain()
    # Between them are cheap ones: merged, they save passing samples on, and balance the others.
    claim(costs, 2.0, 0.2, 0.2, 2.0)
    assert tuned(plan())[0].cuts == (0, 0, 1, 1, 2)
    # Two take next to nothing: they are worth no stages of their own.
    claim(costs, 0.01, 3.0, 0.01, 3.0)
    found, report = tuned(plan())
    assert found.cuts == (0, 0, 0, 0, 1)
    assert [len(stage) for stage in stages_of(report)] == [4, 1]
    # A stated number of workers without tuning keeps the declared cuts; "auto" may choose.
    assert stages_of(plan().run(workers=2).report) == declared
    assert stages_of(plan().run().report) == stages_of(report)
    explained = plan().explain()
    assert "measured to take" in explained
    assert "as declared, with control=, or with a stated workers= and no tune=: scan -> " in explained
    assert "expected to take" not in explained


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_runs_are_checked_against_predictions_of_their_own_cuts(costs: Path) -> None:
    long = plan(96 << 20)
    claim(costs, 0.01, 3.0, 0.01, 3.0)
    predicted = []
    for options in ({}, {"tune": True}, {"tune": True}):
        long.run(workers=2, **options)
        predicted.append(json.loads(costs.read_text())["predictions"][-1]["predicted"])
    declared, measured, again = predicted
    assert measured == again != declared
    # One with given cuts is not checked.
    found, _ = tuned(long)
    count = len(json.loads(costs.read_text())["predictions"])
    long.run(tune=found)
    assert len(json.loads(costs.read_text())["predictions"]) == count


def test_results_are_the_same_bits_for_any_cuts(costs: Path) -> None:
    expected = plan(4 << 20).collect(workers=1)
    for claimed in [(2.0, 0.2, 0.2, 2.0), (0.01, 3.0, 0.01, 3.0), (3.0, 0.01, 0.01, 3.0), (0.2, 0.2, 2.0, 0.2)]:
        claim(costs, *claimed)
        np.testing.assert_array_equal(plan(4 << 20).collect(workers=2, tune=True), expected)


def test_cuts_are_replayed_without_measured_costs(costs: Path, tmp_path: Path) -> None:
    claim(costs, 0.01, 3.0, 0.01, 3.0)
    found, report = tuned(plan())
    found.save(tmp_path / "found.json")
    costs.unlink()
    declared, other = tuned(plan())
    assert declared.cuts != found.cuts
    replayed, again = tuned(plan(), tune=tmp_path / "found.json")
    assert replayed == found
    assert stages_of(again) == stages_of(report) != stages_of(other)
    assert f"cuts={found.cuts}" in repr(replayed)
    # One without cuts, as files were before, has those of declared costs.
    bare, again = tuned(plan(), tune=replace(declared, cuts=()))
    assert bare == declared
    assert stages_of(again) == stages_of(other)


def test_cuts_of_another_plan_are_refused(costs: Path, tmp_path: Path) -> None:
    found, _ = tuned(plan())
    with pytest.raises(iso.PlanError, match=f"has 2 operators and the plan has {len(found.cuts)}"):
        plan().run(tune=replace(found, cuts=(0, 1)))
    # Stages that would wait for each other.
    alternating = tuple(number % 2 for number in range(len(found.cuts)))
    with pytest.raises(iso.PlanError, match=r"into the 2 stages of the configuration: .*; change that, or tune"):
        plan().run(tune=replace(found, cuts=alternating))
    with pytest.raises(iso.PlanError, match="of the configuration: memory= has no room for what stages pass"):
        plan().run(tune=found, memory=2 << 20)
    for stage in (5, 2**64 - 1):
        with pytest.raises(iso.PlanError, match=f"of the configuration: it has {len(found.cuts)} operators; change"):
            plan().run(tune=replace(found, cuts=(*found.cuts[:-1], stage)))
    path = tmp_path / "cuts.json"
    found.save(path)
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"cuts": ["a"]}))
    with pytest.raises(OptionError, match=r"cuts=\['a'\] is refused; it must be a list of whole numbers"):
        Configuration.load(path)
