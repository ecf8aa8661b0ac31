"""What `bench/tune.py` makes of measured times: other methods beside the tuner, paths of tuned runs, results."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from isochrony.tuning.configuration import TuningDecision, TuningReport

BENCH = Path(__file__).parents[2] / "bench"
COSTS, CORES, SIZES = (1.0, 3.0), 4, (1 << 16, 1 << 20)
#: Of links of a run.
DEFAULT = 2 << 20
MODULES = (
    "dissertation",
    "tune",
    "tune_changes",
    "tune_methods",
    "tune_path",
    "tune_results",
    "tune_streams",
    "tune_workloads",
)


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    """The modules, which are scripts beside one another."""
    sys.path.insert(0, str(BENCH))
    before = dict(os.environ)
    try:
        modules = {name: importlib.import_module(name) for name in MODULES}
        # Benchmarks measure in one thread unless they say otherwise: not so the tests that follow.
        os.environ.clear()
        os.environ.update(before)
        yield modules
    finally:
        sys.path.remove(str(BENCH))


def configuration(workers: int, replicas: tuple[int, ...], size: int) -> iso.Configuration:
    return iso.Configuration(workers, replicas, (size,), CORES)


def seconds(workers: int, replicas: tuple[int, ...], size: int) -> float:
    """Of the busiest stage, or of all threads; small links cost a tenth."""
    busiest = max(cost / count for cost, count in zip(COSTS, replicas, strict=True))
    return max(busiest, sum(COSTS) / workers) * (1.1 if size == SIZES[0] else 1.0)


@pytest.fixture
def grid(bench: Any) -> Any:
    every = product(range(1, CORES + 1), product([1], range(1, CORES + 1)), SIZES)
    times = {configuration(*one): [seconds(*one)] for one in every}
    return bench["tune_methods"].MeasuredGrid(times, COSTS, CORES, configuration(CORES, (1, 3), SIZES[1]), DEFAULT)


def test_each_method_reaches_what_it_can(bench: Any, grid: Any) -> None:
    start = configuration(1, (1, 1), SIZES[0])
    reached = bench["tune_methods"].compared(grid, start, 1000)
    # The best takes 1 s: four threads, three replicas, large links.
    assert reached["start"] == [pytest.approx(1 / 4.4)]
    # Links of the default size, cut to the largest of the grid, not those of the start.
    assert reached["all ones"] == [pytest.approx(1 / 4)]
    assert reached["all cores"] == reached["DS2"] == reached["dissertation"] == [pytest.approx(1.0)]
    assert reached["hill climbing"] == [pytest.approx(1.0)]
    assert reached["random search"] == [pytest.approx(1.0)] * bench["tune_methods"].DRAWS


def test_methods_that_state_no_links_have_those_of_a_run(bench: Any, grid: Any) -> None:
    reached = bench["tune_methods"].compared(
        replace(grid, default_bytes=1 << 18), configuration(1, (1, 1), SIZES[1]), 1000
    )
    # The largest of the grid that is not above the default takes a tenth longer.
    assert reached["all cores"] == reached["DS2"] == reached["dissertation"] == [pytest.approx(1 / 1.1)]
    assert reached["start"] == [pytest.approx(1 / 4)]


@pytest.mark.parametrize("costs", [(1.0,), (1.0, 1.0, 1.0)])
def test_costs_of_other_stages_are_refused(bench: Any, grid: Any, costs: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=f"{len(costs)} costs for 2 stages"):
        bench["tune_methods"].compared(replace(grid, costs=costs), configuration(1, (1, 1), SIZES[0]), 5)


def test_ds2_and_the_dissertations_rule_stop_at_what_is_needed(bench: Any, grid: Any) -> None:
    methods = bench["tune_methods"]
    points = grid.points()
    space, start = methods.ConfigurationSpace(grid, points), (1, 1, 1, SIZES[1])
    for name in ("DS2", "dissertation"):
        search = methods.Search(space, methods.Trials(points, start, 1000), start, None)
        picked = methods.METHODS[name](search)
        assert picked == (CORES, 1, 3, SIZES[1]), name


@pytest.mark.parametrize("trials", [1, 2, 5])
def test_no_method_has_more_trials_than_the_tuner(
    bench: Any, grid: Any, trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods, counts = bench["tune_methods"], {}
    given = methods.Trials.seconds

    def counted(self: Any, point: Any) -> float:
        found: float = given(self, point)
        counts[id(self)] = counts.get(id(self), 0) + 1
        kept.append(self)
        return found

    kept: list[Any] = []
    monkeypatch.setattr(methods.Trials, "seconds", counted)
    reached = methods.compared(grid, configuration(1, (1, 1), SIZES[0]), trials)
    assert max(counts.values()) == trials
    if trials == 1:
        assert reached["hill climbing"] == reached["start"] == [reached["random search"][0]]


def test_trials_give_the_measured_times_in_turn(bench: Any) -> None:
    methods = bench["tune_methods"]
    times = {iso.Configuration(1): [2.0, 1.0, 3.0], iso.Configuration(2): [1.5]}
    grid = methods.MeasuredGrid(times, (1.0,), 2, iso.Configuration(2), 0)
    trials = methods.Trials(grid.points(), (1, 0), 9)
    assert [trials.seconds((1, 0)) for _ in range(4)] == [2.0, 1.0, 3.0, 2.0]
    # Noise may mislead a method; its pick counts by the median of 2 s.
    assert methods.compared(grid, iso.Configuration(1), 100)["start"] == [0.75]


def test_what_has_no_stages_is_given_threads(bench: Any) -> None:
    methods = bench["tune_methods"]
    every = product(range(1, 5), SIZES)
    times = {iso.Configuration(workers, buffer_bytes=size): [1 / workers] for workers, size in every}
    best = iso.Configuration(4, buffer_bytes=SIZES[0])
    grid = methods.MeasuredGrid(times, (1.0,), 4, best, SIZES[1])
    reached = methods.compared(grid, iso.Configuration(1, buffer_bytes=SIZES[0]), 50)
    assert reached["start"] == reached["all ones"] == [0.25]
    for name in ("all cores", "DS2", "dissertation", "hill climbing"):
        assert reached[name] == [1.0], name


def test_summaries_weigh_all_starts(bench: Any) -> None:
    methods = bench["tune_methods"]
    one = {name: [0.5] for name in methods.METHODS}
    other = {name: [0.8, 0.8] if name == "random search" else [0.8] for name in methods.METHODS}
    by_name = {row["method"]: row for row in methods.summary([one, other], [1.0, 0.9])}
    assert by_name["DS2"]["geometric_mean"] == pytest.approx((0.5 * 0.8) ** 0.5)
    assert by_name["random search"]["geometric_mean"] == pytest.approx((0.5 * 0.8 * 0.8) ** (1 / 3))
    assert by_name["controller"]["worst"] == 0.9


def decision(at_s: float, outcome: str, before: int, candidate: int) -> TuningDecision:
    one, other = iso.Configuration(before), iso.Configuration(candidate)
    return TuningDecision(at_s, outcome, one, other, "", None, None, (), "")


def report(*decisions: TuningDecision) -> TuningReport:
    last = iso.Configuration(9)
    return TuningReport(last, None, None, 1.0, None, None, None, None, None, 10, decisions)


class KnownWorkload:
    """Runs whose times are known by their workers; seven are as good as eight."""

    name = "known"

    def seconds(self, configuration: iso.Configuration, _: float) -> float:
        workers = configuration.workers
        return 1.0 if workers in (7, 8) else 1.5 if workers == 3 else 4.0


def test_a_path_has_every_change_and_its_trials(bench: Any) -> None:
    module = bench["tune_path"]
    tuning = report(
        decision(1.0, "rejected", 1, 2),
        decision(2.0, "kept", 1, 3),
        decision(3.0, "load_changed", 3, 3),
        decision(4.0, "applied", 3, 7),
        decision(4.5, "kept", 3, 7),
        decision(5.0, "kept", 7, 8),
        decision(6.0, "applied", 8, 2),
        decision(7.0, "rolled_back", 8, 2),
    )
    before, after = module.path(tuning, 3.5)
    assert [(one.at_s, one.trials, one.configuration.workers) for one in before] == [(0.0, 0, 1), (2.0, 2, 3)]
    assert [one.configuration.workers for one in after] == [7, 8, 2, 8]
    parts = module.PartsOfBest(KnownWorkload(), [iso.Configuration(workers) for workers in range(1, 9)], 0.0, 1)
    found = parts.of_path(before + after)
    assert found["parts"] == pytest.approx([0.25, 1 / 1.5, 1.0, 1.0, 0.25, 1.0])
    assert found["to_goal"] == {"trials": 2, "changes": 2, "at_s": 4.0}
    assert found["changes_after_goal"] == 3
    assert {one.workers for one in parts.ties} == {7, 8}
    assert parts.is_tie(iso.Configuration(8)) and not parts.is_tie(iso.Configuration(3))
    assert parts.of_path(before)["to_goal"] is None


class NoisyWorkload:
    """Runs that are slow by chance, more often with few workers."""

    name = "noisy"

    def __init__(self) -> None:
        self.runs: dict[int, int] = {}

    def seconds(self, configuration: iso.Configuration, _: float) -> float:
        workers = configuration.workers
        nth = self.runs[workers] = self.runs.get(workers, 0) + 1
        return 1.0 / workers + 0.5 * ((nth * (workers + 3)) % 5) / 5


def test_a_configuration_has_the_same_part_as_a_methods_pick_and_as_the_tuners(bench: Any) -> None:
    workload, every = NoisyWorkload(), [iso.Configuration(workers) for workers in range(1, 9)]
    parts = bench["tune_path"].PartsOfBest(workload, every, 0.0, 5)
    assert {len(times) for times in parts.times.values()} == {3}
    grid = bench["tune_methods"].MeasuredGrid(parts.times, (1.0,), 8, parts.best, 0)
    by_method = [bench["tune_methods"].compared(grid, one, 1)["start"][0] for one in every]
    before = dict(workload.runs)
    assert by_method == [parts.part_in_grid(one) for one in every] == [parts.first[one] for one in every]
    assert workload.runs == before
    assert parts.first[parts.best] == 1.0 == max(by_method) > min(by_method)


def test_medians_are_medians(bench: Any) -> None:
    part = bench["tune_workloads"].part_of_best
    times = {"best": [1.0, 1.0, 9.0], "other": [2.0, 4.0, 5.0], "lucky": [0.5, 0.5, 0.5]}
    assert [part(times, "best", name) for name in times] == [1.0, 0.25, 1.0]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, []), (1, [0]), (6, [0, 1, 2, 3, 4, 5]), (11, [0, 1, 3, 5, 7, 9]), (60, range(0, 60, 10))],
)
def test_starts_come_from_the_whole_grid(bench: Any, count: int, expected: list[int]) -> None:
    starts = [iso.Configuration(1 + nth) for nth in range(count)]
    assert [one.workers - 1 for one in bench["tune_path"].spread(starts)] == list(expected)


def test_tuned_and_untuned_runs_have_as_many_threads(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[dict[str, Any]] = []

    class RecordedPlan:
        def run(self, **options: Any) -> None:
            runs.append(options)

    module = bench["tune_workloads"]
    monkeypatch.setattr(module.Workload, "lasting", lambda *_: RecordedPlan())
    monkeypatch.setattr(module, "auto_workers", lambda: 7)
    workload = module.Workload("x", None, 1, None)
    workload.plain_run(1.0, tune=False)
    workload.plain_run(1.0, tune=True)
    # A tuned run has all cores by itself.
    assert runs == [{"workers": 7}, {"tune": True}]


def test_a_bound_is_stated_of_thirty_pairs_only(bench: Any) -> None:
    class IdleWorkload:
        name = "still"

        def plain_run(self, _: float, *, tune: bool) -> None:
            pass

    assert bench["tune"].harm(IdleWorkload(), 0.0, 2)["low"] is None
    found = bench["tune"].harm(IdleWorkload(), 0.0, 30)
    assert found["low"] <= found["mean"]


@pytest.mark.parametrize(
    ("changes", "part", "is_noticed", "is_met"),
    [
        (0, None, False, False),
        (0, 0.6, False, False),
        (0, 0.96, False, True),
        (0, 0.6, True, True),
        (4, 1.0, True, False),
    ],
)
def test_doing_nothing_after_a_change_is_no_success(
    bench: Any, changes: int, part: float | None, is_noticed: bool, is_met: bool
) -> None:
    assert bench["tune_changes"].is_met(changes, part, is_noticed=is_noticed) is is_met


def test_a_part_that_is_missing_is_not_zero(bench: Any) -> None:
    changes = [{"name": "a", "changes": 1, "part": None}, {"name": "b", "changes": 2, "part": 0.5}]
    text = bench["dissertation"].load_changes({"tune": {"changes": changes}})
    assert text == "a: 1 changes, part not measured; b: 2 changes, 50.0 %"


def test_results_of_the_same_origin_are_merged(bench: Any, tmp_path: Path) -> None:
    module, path = bench["tune_results"], tmp_path / "tune.json"
    made = module.origin(is_quick=True)
    assert made["quick"] and made["cores"] >= 1 and made["cpu"] and made["commit"]
    first = module.Results(path, made)
    first.add("plans", {"name": "a", "value": 1})
    first.add("harm", {"name": "a", "value": 2})
    second = module.Results(path, made)
    second.read()
    second.add("plans", {"name": "a", "value": 3})
    found = json.loads(path.read_text())
    assert found["plans"] == [{"name": "a", "value": 3, "origin": made}]
    assert found["harm"] == [{"name": "a", "value": 2, "origin": made}]


@pytest.mark.parametrize("other", [{"cores": 99}, {"cpu": "other"}, {"commit": "0"}, {"quick": False}])
def test_results_of_another_origin_are_refused(bench: Any, tmp_path: Path, other: dict[str, Any]) -> None:
    module, path = bench["tune_results"], tmp_path / "tune.json"
    made = module.origin(is_quick=True)
    module.Results(path, made | other).add("changes", {"name": "a"})
    with pytest.raises(
        SystemExit, match=f"cannot be merged.*'a' is of .*{re.escape(repr(next(iter(other.values()))))}"
    ):
        module.Results(path, made).read()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"plans": [{"name": "a"}], "changes": [], "harm": []}'])
def test_a_file_of_another_layout_is_refused(bench: Any, tmp_path: Path, text: str) -> None:
    module, path = bench["tune_results"], tmp_path / "tune.json"
    path.write_text(text)
    with pytest.raises(SystemExit, match=r"tune\.json is no file of this version of tune\.py .*--out"):
        module.Results(path, module.origin(is_quick=True)).read()
    assert path.read_text() == text
