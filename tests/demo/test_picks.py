"""Onsets are timed to a fraction of a sample, in noise of any colour, with errors that hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isochrony.demo.network import STATIONS
from isochrony.demo.picks import Onset, pick_onset
from isochrony.demo.synth import _Demand, front

RATE = 2000.0


def stretch(onset: float, rise_ms: float, drop: float, noise: float, seed: int) -> np.ndarray:
    time = np.arange(3000) / RATE
    random = np.random.default_rng(seed)
    return 500 + front(time - onset / RATE, drop, rise_ms / 1000, 40.0) + noise * random.standard_normal(3000)


def pick(x: np.ndarray, about: float) -> Onset:
    found = pick_onset(x, RATE, round(about))
    assert found is not None
    return found


@given(
    st.floats(800, 2400),
    st.floats(2, 8),
    st.floats(100, 400),
    st.floats(0.1, 3),
    st.integers(0, 2**31),
    st.integers(-5, 8),
)
def test_onsets_are_timed_within_half_a_millisecond(
    onset: float, rise_ms: float, drop: float, noise: float, seed: int, off: int
) -> None:
    # The fall is steepest somewhere behind its onset, and where exactly does not matter.
    found = pick(stretch(onset, rise_ms, drop, noise, seed), onset + off)
    assert abs(found.index - onset) / RATE < 0.5e-3
    assert found.drop == pytest.approx(drop, rel=0.1)
    assert 0 < found.error < 1.0


def test_errors_are_as_large_as_stated_where_pumps_hum_and_water_is_turbulent() -> None:
    # What the demo's stations record; a fit that takes this noise for white is off by five of its errors.
    ratios = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        demand = _Demand(STATIONS[seed % 4], random)
        onset = random.uniform(1000, 1001)
        time = 10.0 + np.arange(2000) / RATE
        x = demand.mbar(time) + front((np.arange(2000) - onset) / RATE, 200.0, 0.004, 40.0)
        found = pick(np.rint(x), onset + 2)
        ratios.append((found.index - onset) / found.error)
    # The deviation of 60 Gaussian numbers is 1 within 0.09; three of that, and a tenth for what is fitted.
    assert 0.65 < np.std(ratios) < 1.35
    assert abs(np.mean(ratios)) < 4 / np.sqrt(60)


@given(st.integers(0, 400), st.integers(0, 2**31))
def test_shifting_the_samples_shifts_the_onset(shift: int, seed: int) -> None:
    x = stretch(1200.25, 4, 300, 2, seed)
    a, b = pick(x, 1202), pick(x[shift:], 1202 - shift)
    assert a.index - shift == pytest.approx(b.index, abs=1e-6)


@given(st.floats(-1e4, 1e4), st.floats(0.01, 100))
def test_level_and_unit_do_not_matter(level: float, scale: float) -> None:
    x = stretch(1200.25, 4, 300, 2, 7)
    assert pick(x * scale + level, 1202).index == pytest.approx(pick(x, 1202).index, abs=1e-3)


def test_too_few_samples_before_or_behind_give_no_onset() -> None:
    x = stretch(1200.25, 4, 300, 2, 7)
    assert pick_onset(x[600:], RATE, 602) is None
    assert pick_onset(x[:1250], RATE, 1202) is None
    assert pick_onset(np.zeros(100), RATE, 50) is None


def test_where_nothing_falls_there_is_no_onset() -> None:
    assert pick_onset(np.zeros(3000), RATE, 1500) is None
    assert pick_onset(np.ones(3000), RATE, 1500) is None
