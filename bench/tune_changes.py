"""Tuned runs in which something changes after a third of the time.

Reported are how many changes of the configuration follow, for how long, and what part of the best the last one reaches
under what has changed.

In one run another program begins to compute all the time, on one core. In the other all windows begin to need a
spectrum that a tenth of them needed before, so its cost per sample becomes ten times as much. Goal: at most three
changes, and either the change was noticed or the last configuration reaches 95 % of the best, so that a tuner that does
nothing fails where something must be done. The best is that of a grid measured with the program running, or with
spectra of all windows.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from tune_path import GOAL as GOAL_PART
from tune_path import PartsOfBest, PathStep, path
from tune_workloads import RATE, WINDOW, Workload

import isochrony as iso

__all__ = ["competitor", "dearer_operator", "is_met"]

SEGMENT = 1 << 20
#: Changes that are allowed.
GOAL = 3
#: Cost of the operator after the change, in units of that before.
DEARER = 10
#: Of links, in the grid.
CAPACITIES = (1 << 16, 1 << 20)


def _samples() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Noise in which a tenth of the windows are loud, and in which all are."""
    quiet = np.random.default_rng(1).standard_normal(SEGMENT).astype("f4").reshape(-1, WINDOW)
    loud = 100 * quiet
    few = quiet.copy()
    few[::DEARER] = loud[::DEARER]
    few, loud = few.ravel(), loud.ravel()
    for array in (few, loud):
        array.flags.writeable = False
    return few, loud


def _segments(seconds: float, begun: float, change: threading.Event) -> Iterator[np.ndarray[Any, Any]]:
    """Loud windows from `change` on."""
    few, loud = _samples()
    while time.perf_counter() < begun + seconds:
        yield loud if change.is_set() else few


def _plan(source: Any) -> Any:
    """A filter, and spectra of the loud windows."""
    return source.highpass(100).rewindow(WINDOW).filter(lambda s: s.max() > 20).power().map(lambda s: s.max())


def _tuned(seconds: float, at_s: float, change: threading.Event) -> tuple[iso.TuningReport, float]:
    """The run, in which `change` is set after some time."""
    begun = time.perf_counter()
    timer = threading.Timer(at_s, change.set)
    timer.start()
    source = iso.generate(lambda: _segments(seconds, begun, change), dtype="f4", rate=RATE)
    try:
        tuning = _plan(source).run(tune=True).report.tuning
    finally:
        timer.cancel()
        timer.join()
    assert tuning is not None
    return tuning, time.perf_counter() - begun


def _seconds(is_quick: bool) -> tuple[float, float]:
    """Of a run, and until its change."""
    return (0.6, 0.2) if is_quick else (60.0, 20.0)


@contextmanager
def _competing() -> Iterator[None]:
    """With a program that computes all the time."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as program:
        try:
            yield
        finally:
            program.kill()


def is_met(changes: int, part: float | None, *, is_noticed: bool) -> bool:
    """Whether few changes sufficed. None at all does only where the change was noticed, or the best was kept."""
    return changes <= GOAL and (is_noticed or (part is not None and part >= GOAL_PART))


def _reported(
    name: str,
    run: tuple[iso.TuningReport, float],
    at_s: float,
    workload: Workload,
    changed: Callable[[], AbstractContextManager[None]],
    cores: int,
    is_quick: bool,
) -> dict[str, Any]:
    """What followed the change at a time of the run, beside the best under what has changed."""
    tuning, run_s = run
    short_s, rounds = (0.02, 1) if is_quick else (0.5, 5)
    with changed():
        parts = PartsOfBest(workload, workload.grid(cores), short_s, rounds)
        before, after = path(tuning, at_s)
        # As if the run had begun with the change.
        ran = [PathStep(0.0, 0, one.configuration) for one in before[-1:]]
        shifted = [PathStep(one.at_s - at_s, one.trials - before[-1].trials, one.configuration) for one in after]
        found = parts.of_path(ran + shifted)
        kept_part = parts.part(tuning.configuration) if tuning.configuration is not None else None
    is_noticed = any(one.outcome == "load_changed" for one in tuning.decisions if one.at_s > at_s)
    return {
        "name": name,
        "at_s": at_s,
        "run_s": run_s,
        "is_noticed": is_noticed,
        "is_met": is_met(len(after), kept_part, is_noticed=is_noticed),
        "changes": len(after),
        "settled_s": after[-1].at_s - at_s if after else 0.0,
        "goal": GOAL,
        "kept": str(tuning.configuration),
        "best": str(parts.best),
        "part": kept_part,
        "part_unchanged": found["parts"][0] if ran else None,
        "to_goal": found["to_goal"],
        "changes_after_goal": found["changes_after_goal"],
        "grid_s": {str(one): times for one, times in parts.times.items()},
        "decisions": [str(one) for one in tuning.decisions],
    }


def competitor(is_quick: bool, cores: int) -> dict[str, Any]:
    """A program that computes all the time starts after a third of the run."""
    seconds, at_s = _seconds(is_quick)
    started: list[AbstractContextManager[None]] = []

    class Start(threading.Event):
        def set(self) -> None:
            started.append(_competing())
            started[-1].__enter__()

    try:
        run = _tuned(seconds, at_s, Start())
    finally:
        for one in started:
            one.__exit__(None, None, None)
    assert started
    workload = Workload("a competitor for a core", _plan, RATE, _samples()[0], CAPACITIES)
    return _reported(workload.name, run, at_s, workload, _competing, cores, is_quick)


def dearer_operator(is_quick: bool, cores: int) -> dict[str, Any]:
    """An operator costs ten times as much after a third of the run."""
    seconds, at_s = _seconds(is_quick)
    change = threading.Event()
    run = _tuned(seconds, at_s, change)
    assert change.is_set()
    workload = Workload("an operator ten times dearer", _plan, RATE, _samples()[1], CAPACITIES)
    return _reported(workload.name, run, at_s, workload, nullcontext, cores, is_quick)
