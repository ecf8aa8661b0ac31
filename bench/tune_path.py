"""The configurations through which a tuned run went, and the part of the best that each of them reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tune_workloads import Tunable, by_turns, median, part_of_best, plain

import isochrony as iso

__all__ = ["GOAL", "NO_TRIALS", "TIE", "PartsOfBest", "PathStep", "path", "spread"]

#: What must be reached of the best configuration.
GOAL = 0.95
#: Winners that take so much longer than the best, measured again, are as good.
TIE = 0.02
#: Outcomes of decisions that are no trials.
NO_TRIALS = {"load_changed", "applied", "too_short"}
#: Winners that are measured again.
WINNERS = 5


@dataclass(frozen=True)
class PathStep:
    """A change of the configuration.

    Attributes:
        at_s: seconds since the start of the run.
        trials: how many trials had been decided, the one that led to this change included. That of a configuration
            that is applied at once is decided later.
        configuration: the new one.
    """

    at_s: float
    trials: int
    configuration: iso.Configuration


def path(tuning: iso.TuningReport, at_s: float = 0.0) -> tuple[list[PathStep], list[PathStep]]:
    """Changes until a time of the run, that to the first configuration included, and after it. Going back is one."""
    steps: list[PathStep] = []
    trials = 0
    for one in tuning.decisions:
        trials += one.outcome not in NO_TRIALS
        if not steps:
            steps.append(PathStep(0.0, 0, one.before))
        # What was applied at once is kept, or taken back, by a later decision.
        to = {"kept": one.candidate, "applied": one.candidate, "rolled_back": one.before}.get(one.outcome)
        if to is not None and to != steps[-1].configuration:
            steps.append(PathStep(one.at_s, trials, to))
    if not steps and tuning.configuration is not None:
        steps.append(PathStep(0.0, 0, tuning.configuration))
    return [one for one in steps if one.at_s <= at_s], [one for one in steps if one.at_s > at_s]


def spread(starts: list[iso.Configuration], most: int = 6) -> list[iso.Configuration]:
    """So many of them at equal distances from the first on: neighbours differ in little."""
    count = min(most, len(starts))
    return [starts[nth * len(starts) // count] for nth in range(count)]


class PartsOfBest:
    """The best configuration of a grid, and the part of its throughput that others reach.

    All are measured by turns, and the best ones again.

    Parameters:
        rounds: in which the best ones are measured again; the whole grid in more than half as many, three of five.
    """

    def __init__(self, workload: Tunable, grid: list[iso.Configuration], seconds: float, rounds: int) -> None:
        self._workload, self._seconds, self._rounds = workload, seconds, rounds
        #: Of the whole grid.
        self.times = by_turns(workload, grid, seconds, rounds // 2 + 1)
        first = {one: median(times) for one, times in self.times.items()}
        winners = sorted(first, key=lambda one: first[one])[:WINNERS]
        self._again = {one: median(times) for one, times in by_turns(workload, winners, seconds, rounds).items()}
        self.best = min(self._again, key=lambda one: self._again[one])
        self.first = {one: part_of_best(self.times, self.best, one) for one in self.times}
        self._beside: dict[iso.Configuration, float] = {}

    @property
    def ties(self) -> list[iso.Configuration]:
        """Winners within 2 % of the best, itself included."""
        return [one for one in self._again if self._again[one] <= (1 + TIE) * self._again[self.best]]

    def part(self, configuration: iso.Configuration) -> float:
        """The part of the best that a configuration reaches, in or beyond the grid, measured beside the best one."""
        one = plain(configuration)
        if one == plain(self.best):
            return 1.0
        if one not in self._beside:
            pairs = by_turns(self._workload, [plain(self.best), one], self._seconds, self._rounds)
            self._beside[one] = part_of_best(pairs, plain(self.best), one)
        return self._beside[one]

    def part_in_grid(self, configuration: iso.Configuration) -> float:
        """The same by the times of the whole grid, by which other methods count; beyond the grid as `part` has it."""
        for one, part in self.first.items():
            if plain(one) == plain(configuration):
                return part
        return self.part(configuration)

    def is_tie(self, configuration: iso.Configuration) -> bool:
        """Another winner that cannot be told from the best, or less than that beside it."""
        return plain(configuration) in map(plain, self.ties) or self.part(configuration) >= 1 / (1 + TIE)

    def of_path(self, steps: list[PathStep]) -> dict[str, Any]:
        """Parts of all steps; trials and time until one reached the goal, None if none did; changes after that."""
        parts = [self.part(one.configuration) for one in steps]
        reached = next((nth for nth, part in enumerate(parts) if part >= GOAL), None)
        to_goal = None
        if reached is not None:
            to_goal = {"trials": steps[reached].trials, "changes": reached, "at_s": steps[reached].at_s}
        return {
            "parts": parts,
            "to_goal": to_goal,
            "changes_after_goal": None if reached is None else len(steps) - 1 - reached,
        }
