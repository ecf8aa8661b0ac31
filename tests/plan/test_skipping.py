"""Filters on extremes of windows: what the stored extremes exclude is not read, and NumPy finds the same windows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import isochrony as iso

WINDOW = 4096
# Extremes are stored for 2 MiB of samples at a time.
TOTAL = 4 << 20


@pytest.fixture
def samples() -> npt.NDArray[np.int16]:
    samples = np.random.default_rng(3).integers(-50, 50, TOTAL, dtype="i2")
    samples[1_000_000:1_000_300] = 2000
    samples[3_000_000] = -3000
    return samples


@pytest.fixture
def signal(store: iso.Store, samples: npt.NDArray[np.int16]) -> iso.Signal:
    signal = store.create("x", dtype="i2", rate=100)
    signal.append(samples)
    store.commit()
    return signal


@pytest.mark.parametrize(
    ("predicate", "passes", "count"),
    [
        (lambda s: s.max() > 1000, lambda w: w.max(axis=1) > 1000, 1),
        (lambda s: s.min() < -1000, lambda w: w.min(axis=1) < -1000, 1),
        (lambda s: abs(s).max() >= 2000, lambda w: np.abs(w).max(axis=1) >= 2000, 2),
        (lambda s: (s.max() > 1000) | (s.min() < -1000), lambda w: np.abs(w).max(axis=1) > 1000, 2),
        (lambda s: (s.max() > 1000) & (s.std() > 1), lambda w: w.max(axis=1) > 1000, 1),
        (lambda s: s.max() > 5000, lambda w: w.max(axis=1) > 5000, 0),
    ],
)
def test_reads_only_what_may_pass(
    signal: iso.Signal,
    samples: npt.NDArray[np.int16],
    predicate: Callable[[iso.Expr], iso.Expr],
    passes: Callable[[npt.NDArray[np.int16]], npt.NDArray[np.bool_]],
    count: int,
) -> None:
    plan = iso.scan(signal).rewindow(WINDOW).filter(predicate)
    windows = samples.reshape(-1, WINDOW)
    wanted = windows[passes(windows)]
    assert len(wanted) == count
    for options in ({}, {"workers": 3}, {"optimise": False}):
        found = plan.collect(**options)
        np.testing.assert_array_equal(found, wanted)
    # Several workers would read some samples twice.
    scan = plan.run(workers=1).report.operators[0]
    # Two bytes a sample: less than a fiftieth of the signal.
    assert 2 * scan.samples < 2 * TOTAL / 50
    assert scan.samples + scan.skipped == TOTAL
    assert "samples, by their stored extremes" in str(plan.run(workers=1).report)
    whole = plan.run(workers=1, optimise=False).report.operators[0]
    assert (whole.samples, whole.skipped) == (TOTAL, 0)


def test_explain_says_what_is_skipped_and_why_not(signal: iso.Signal) -> None:
    windows = iso.scan(signal).rewindow(WINDOW)
    text = windows.filter(lambda s: s.max() > 1000).explain()
    assert "the scan of x skips ranges without a window that passes filter(s.max() > 1000)" in text
    assert f"of {TOTAL} samples are skipped" in text
    text = iso.scan(signal).map(lambda s: s - 1).rewindow(WINDOW).filter(lambda s: s.max() > 1000).explain()
    assert "map lies between" in text
    assert "skip" not in windows.filter(lambda s: s.std() > 1000).explain()


def test_a_filter_that_a_control_may_change_reads_everything(signal: iso.Signal) -> None:
    plan = iso.scan(signal).rewindow(WINDOW).filter(lambda s: s.max() > 1000).count()
    report = plan.run(workers=1, control=iso.Control()).report
    assert (report.operators[0].samples, report.operators[0].skipped) == (TOTAL, 0)
