"""Functions that remember, and what they are told of gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import isochrony as iso

Array = npt.NDArray[Any]


def stretches() -> Iterator[tuple[int, Array]]:
    """Samples 0 to 5, a gap, 100 to 102."""
    yield 0, np.ones(3)
    yield 3, np.ones(3)
    yield 100, np.ones(3)


def gapped() -> iso.Plan:
    return iso.generate(stretches, dtype="f8", rate=10)


def running_sum() -> Callable[[Array], Array]:
    """A function that keeps its sum to itself."""
    total = 0.0

    def add(samples: Array) -> Array:
        nonlocal total
        sums = total + np.cumsum(samples)
        total = float(sums[-1])
        return sums

    return add


def add(samples: Array, before: dict[str, float]) -> Array:
    sums = before["sum"] + np.cumsum(samples)
    before["sum"] = float(sums[-1])
    return sums


def test_what_a_function_keeps_to_itself_stays_across_gaps_and_runs() -> None:
    plan = gapped().map(iso.py(running_sum(), dtype="f8", sequential=True))
    assert plan.collect().tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert plan.collect(workers=2).tolist() == [10, 11, 12, 13, 14, 15, 16, 17, 18]


def test_what_state_makes_ends_at_a_gap_and_with_a_run() -> None:
    plan = gapped().map(iso.py(add, dtype="f8", state=lambda: {"sum": 0.0}))
    for workers in (1, 2):
        assert plan.collect(workers=workers).tolist() == [1, 2, 3, 4, 5, 6, 1, 2, 3]


def test_explain_says_whether_a_function_that_remembers_is_told_of_gaps() -> None:
    plain = gapped().map(iso.py(running_sum(), dtype="f8", sequential=True))
    assert "also across gaps (sequential=True without state= or on_break=)" in plain.explain()
    for told in (iso.py(add, dtype="f8", state=dict), iso.py(np.copy, dtype="f8", on_break=lambda why: None)):
        assert "remembers what came before, and is notified of breaks" in gapped().map(told).explain()
