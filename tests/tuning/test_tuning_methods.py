"""Methods that `bench/tune_methods.py` compares with the tuner, and paths of tuned runs, over grids that are known."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from isochrony.tuning.configuration import TuningDecision, TuningReport

BENCH = Path(__file__).parents[2] / "bench"
COSTS, CORES, SIZES = (1.0, 3.0), 4, (1 << 16, 1 << 20)


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    """The modules, which are scripts beside one another."""
    sys.path.insert(0, str(BENCH))
    try:
        yield {name: importlib.import_module(name) for name in ("tune_methods", "tune_path")}
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
    return bench["tune_methods"].Grid({configuration(*one): [seconds(*one)] for one in every}, COSTS, CORES)


def test_each_method_reaches_what_it_can(bench: Any, grid: Any) -> None:
    start = configuration(1, (1, 1), SIZES[0])
    reached = bench["tune_methods"].compared(grid, start, 1000)
    # The best takes 1 s: four threads, three replicas, large links.
    assert reached["start"] == reached["all ones"] == [pytest.approx(1 / 4.4)]
    # All threads, one or three replicas of the second stage, and the links of the start.
    assert reached["all cores"] == reached["DS2"] == reached["dissertation"] == [pytest.approx(1 / 1.1)]
    assert reached["hill climbing"] == [pytest.approx(1.0)]
    assert reached["random search"] == [pytest.approx(1.0)] * bench["tune_methods"].DRAWS


def test_ds2_and_the_dissertations_rule_stop_at_what_is_needed(bench: Any, grid: Any) -> None:
    methods = bench["tune_methods"]
    points = grid.points()
    space, start = methods.Space(grid, points), (1, 1, 1, SIZES[1])
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
    grid = methods.Grid({iso.Configuration(1): [2.0, 1.0, 3.0], iso.Configuration(2): [1.5]}, (1.0,), 2)
    trials = methods.Trials(grid.points(), (1, 0), 9)
    assert [trials.seconds((1, 0)) for _ in range(4)] == [2.0, 1.0, 3.0, 2.0]
    # Noise may mislead a method; its pick counts by the median of 2 s.
    assert methods.compared(grid, iso.Configuration(1), 100)["start"] == [0.75]


def test_what_has_no_stages_is_given_threads(bench: Any) -> None:
    methods = bench["tune_methods"]
    every = product(range(1, 5), SIZES)
    times = {iso.Configuration(workers, buffer_bytes=size): [1 / workers] for workers, size in every}
    reached = methods.compared(methods.Grid(times, (1.0,), 4), iso.Configuration(1, buffer_bytes=SIZES[0]), 50)
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


class Known:
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
    parts = module.Parts(Known(), [iso.Configuration(workers) for workers in range(1, 9)], 0.0, 1)
    found = parts.of_path(before + after)
    assert found["parts"] == pytest.approx([0.25, 1 / 1.5, 1.0, 1.0, 0.25, 1.0])
    assert found["to_goal"] == {"trials": 2, "changes": 2, "at_s": 4.0}
    assert found["changes_after_goal"] == 3
    assert {one.workers for one in parts.ties} == {7, 8}
    assert parts.is_tie(iso.Configuration(8)) and not parts.is_tie(iso.Configuration(3))
    assert parts.of_path(before)["to_goal"] is None
