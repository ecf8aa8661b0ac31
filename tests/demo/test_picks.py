from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isochrony.demo.picks import find_drops, pick_onset
from isochrony.demo.synth import front
from isochrony.errors import UsageError

RATE = 2000.0


def stretch(onset: float, rise_ms: float, drop: float, noise: float, seed: int) -> np.ndarray:
    time = np.arange(3000) / RATE
    random = np.random.default_rng(seed)
    return 500 + front(time - onset / RATE, drop, rise_ms / 1000, 40.0) + noise * random.standard_normal(3000)


@given(
    st.floats(600, 2400),
    st.floats(2, 8),
    st.floats(100, 400),
    st.floats(0.1, 3),
    st.integers(0, 2**31),
)
def test_onsets_are_timed_within_half_a_millisecond(
    onset: float, rise_ms: float, drop: float, noise: float, seed: int
) -> None:
    found = pick_onset(stretch(onset, rise_ms, drop, noise, seed), RATE)
    assert abs(found.index - onset) / RATE < 0.5e-3
    assert found.drop == pytest.approx(drop, rel=0.1)
    assert 0 < found.error < 1.0


@given(st.integers(0, 500), st.integers(0, 2**31))
def test_shifting_the_samples_shifts_the_onset(shift: int, seed: int) -> None:
    x = stretch(1200.25, 4, 300, 2, seed)
    a, b = pick_onset(x, RATE), pick_onset(x[shift:], RATE)
    assert a.index - shift == pytest.approx(b.index, abs=1e-6)


@given(st.floats(-1e4, 1e4), st.floats(0.01, 100))
def test_level_and_unit_do_not_matter(level: float, scale: float) -> None:
    x = stretch(1200.25, 4, 300, 2, 7)
    assert pick_onset(x * scale + level, RATE).index == pytest.approx(pick_onset(x, RATE).index, abs=1e-3)


def test_rejects_a_stretch_too_short_to_judge() -> None:
    with pytest.raises(UsageError, match="too few"):
        pick_onset(np.zeros(100), RATE)


@given(st.sets(st.integers(2, 18), min_size=0, max_size=3), st.integers(0, 2**31))
def test_every_drop_is_found_and_nothing_else(places: set[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    level = 0.2 * random.standard_normal(2000).cumsum() / 10 + 0.3 * random.standard_normal(2000)
    for place in places:
        level[place * 100 :] -= 40
    found = find_drops(level)
    assert len(found) == len(places)
    assert all(abs(a - b * 100) <= 2 for a, b in zip(found, sorted(places), strict=True))


def test_a_rise_is_no_drop() -> None:
    level = np.random.default_rng(1).standard_normal(1000)
    level[500:] += 100
    assert len(find_drops(level)) == 0


def test_short_and_constant_series_have_no_drops() -> None:
    assert len(find_drops(np.zeros(5))) == 0
    assert len(find_drops(np.zeros(500))) == 0


def test_rejects_a_threshold_that_everything_exceeds() -> None:
    with pytest.raises(UsageError, match="above 0"):
        find_drops(np.zeros(500), threshold=0)
