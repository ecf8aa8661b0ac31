"""Two listeners in one plan in stages: equal and unequal rates, one that falls silent, one that returns."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from two_feeds import LATENESS, SLACK, Feeds, made

SECONDS = 2.0
#: When the second feed sends nothing, in seconds of its clock.
SILENCES = {"never": (0.0, 0.0), "to_its_end": (0.6, SECONDS), "and_returns": (0.6, 1.4)}


def peaks(plan: iso.Plan) -> iso.Plan:
    """Windows of a tenth of a second behind operators that remember, which are stages of their own."""
    return plan.lowpass(20).highpass(1).rewindow("100ms").stats("min", "max")


def together(first: iso.Plan, second: iso.Plan, how: str) -> iso.Plan:
    return peaks(first).join(peaks(second), how=how).select("start", "min", "max", "min_right", "max_right")


@dataclass(frozen=True)
class MetRows:
    """Rows of two feeds that met in stages.

    Attributes:
        values: of each row, by column.
        delays: seconds from when the row's window had been sent until the row came out.
        late: samples of each feed that came after their windows were given up.
        stages: numbers of the stages of the run.
    """

    values: list[dict[str, Any]]
    delays: np.ndarray[Any, Any]
    late: tuple[int, int]
    stages: set[int]


def run_two_feeds(workers: int, rates: tuple[int, int], silent: tuple[float, float]) -> MetRows:
    feeds = Feeds(rates)
    values: list[dict[str, Any]] = []
    delays: list[float] = []

    def take(table: Any, start: int) -> None:
        now = time.monotonic() - feeds.began
        for row in range(len(table["start"])):
            values.append({name: column[row] for name, column in table.items()})
            delays.append(now - (values[-1]["start"] + rates[0] / 10) / rates[0])

    plan = together(*(iso.scan(listener) for listener in feeds.listeners), "left").each(take)
    feeds.send(0, SECONDS)
    feeds.send(1, SECONDS, silent)
    report = plan.run(workers=workers).report
    feeds.join()
    return MetRows(values, np.array(delays), feeds.counts("late_samples"), {stage.number for stage in report.stages})


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("rates", [(100, 100), (100, 240)])
@pytest.mark.parametrize("silence", SILENCES)
def test_two_feeds_meet_in_stages_as_in_one_thread(workers: int, rates: tuple[int, int], silence: str) -> None:
    """Once more if a busy machine held a sender up for longer than a feed may lag behind the other, or the rows."""
    silent = SILENCES[silence]
    for _ in range(2):
        rows = run_two_feeds(workers, rates, silent)
        if rows.late == (0, 0) and np.median(rows.delays) < LATENESS + 0.3:
            break
    assert len(rows.stages) >= 3, rows.stages
    assert rows.late == (0, 0)
    # The same samples with nothing live about them, by one thread.
    expected = together(made(rates[0], SECONDS), made(rates[1], SECONDS, silent), "left").collect(workers=1)
    assert len(rows.values) == len(expected["start"]) == round(SECONDS * 10)
    for name in expected.columns:
        np.testing.assert_array_equal([row[name] for row in rows.values], expected[name], err_msg=name)
    alone = [np.isnan(row["min_right"]) for row in rows.values]
    assert sum(alone) == pytest.approx(10 * (silent[1] - silent[0]), abs=1)
    # Each row comes out soon after its window was sent, whatever the other feed does; without a lateness those of
    # the silence would wait for its end.
    assert rows.delays.max() < LATENESS + SLACK
    assert np.median(rows.delays) < LATENESS + 0.3
