"""Tuned runs in which something changes midway: how many changes of the configuration follow, and for how long.

A program that computes all the time takes a core of half of the run; and a spectrum that a tenth of the windows need is
needed by all of them in the second half, so that its cost per sample is ten times as much. Goal: at most three changes.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import isochrony as iso

__all__ = ["competitor", "dearer_operator"]

RATE, WINDOW, SEGMENT = 1000, 4096, 1 << 20
#: Changes that are allowed.
GOAL = 3
#: Cost of the operator in the second half, in units of that before.
DEARER = 10
#: Outcomes of decisions that change the configuration.
CHANGES = {"kept", "rolled_back"}


def _changed(name: str, tuning: iso.TuningReport, at_s: float, run_s: float) -> dict[str, Any]:
    """What followed the change at a time of the run."""
    later = [one for one in tuning.decisions if one.at_s > at_s]
    changes = [one for one in later if one.outcome in CHANGES]
    return {
        "name": name,
        "at_s": at_s,
        "run_s": run_s,
        "is_noticed": any(one.outcome == "load_changed" for one in later),
        "changes": len(changes),
        "settled_s": changes[-1].at_s - at_s if changes else 0.0,
        "goal": GOAL,
        "kept": str(tuning.configuration),
        "decisions": [str(one) for one in tuning.decisions],
    }


def _segments(seconds: float, begun: float, change: threading.Event) -> Iterator[np.ndarray[Any, Any]]:
    """Noise in which a tenth of the windows are loud, and all once `change` is set."""
    quiet = np.random.default_rng(1).standard_normal(SEGMENT).astype("f4").reshape(-1, WINDOW)
    loud = 100 * quiet
    few = quiet.copy()
    few[::DEARER] = loud[::DEARER]
    few, loud = few.ravel(), loud.ravel()
    for array in (few, loud):
        array.flags.writeable = False
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
    return (0.6, 0.3) if is_quick else (60.0, 20.0)


def competitor(is_quick: bool) -> dict[str, Any]:
    """A program that computes all the time starts midway."""
    seconds, at_s = _seconds(is_quick)
    started: list[subprocess.Popen[bytes]] = []

    class Start(threading.Event):
        def set(self) -> None:
            started.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))

    try:
        tuning, run_s = _tuned(seconds, at_s, Start())
    finally:
        for one in started:
            one.kill()
            one.wait()
    assert started
    return _changed("a competitor for a core", tuning, at_s, run_s)


def dearer_operator(is_quick: bool) -> dict[str, Any]:
    """An operator costs ten times as much from the middle of the run on."""
    seconds, at_s = _seconds(is_quick)
    change = threading.Event()
    tuning, run_s = _tuned(seconds, at_s, change)
    assert change.is_set()
    return _changed("an operator ten times dearer", tuning, at_s, run_s)
