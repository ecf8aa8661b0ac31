"""Filters inside feedback loops, against loops over single samples and windows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal as scipy_signal

import isochrony as iso


def noise(length: int) -> np.ndarray:
    return np.random.default_rng(11).normal(size=length)


@settings(max_examples=60, deadline=None)
@given(delay=st.integers(1, 40), segment=st.integers(1, 300), length=st.integers(50, 300))
def test_a_low_pass_in_the_loop_is_that_of_a_loop_over_samples(delay: int, segment: int, length: int) -> None:
    """y[n] = x[n] - 0.5 f[n - delay], where f is y behind a low-pass of two poles."""
    x = noise(length)

    def subtracted(samples: iso.Plan, back: iso.Plan) -> tuple[iso.Plan, iso.Plan]:
        out = samples.map(lambda s, f: s - 0.5 * f, back)
        return out, out.lowpass(10, order=2)

    got = iso.scan(x, segment, rate=100).feedback(subtracted, delay=delay).collect()
    # The direct form of the filter's difference equation.
    b, a = scipy_signal.butter(2, 10, fs=100)
    y, f = np.zeros(length), np.zeros(length)
    for n in range(length):
        y[n] = x[n] - (0.5 * f[n - delay] if n >= delay else 0.0)
        f[n] = sum(b[k] * y[n - k] for k in range(3) if n >= k) - sum(a[k] * f[n - k] for k in (1, 2) if n >= k)
    np.testing.assert_allclose(got, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("workers", [1, 2])
def test_results_may_be_filtered_inside_the_loop(workers: int) -> None:
    """A noise estimate follows every window; only windows above it come out."""
    x = noise(6000)

    def above(windows: iso.Plan, level: iso.Plan) -> tuple[iso.Plan, iso.Plan]:
        loud = windows.filter(lambda s, before: s.std() > before, level)
        return loud, windows.map(lambda s, before: 0.9 * before + 0.1 * s.std(), level)

    got = iso.scan(x, 700, rate=100).rewindow(20).feedback(above, initial=1.0).collect(workers=workers)
    level, expected = 1.0, []
    for window in x.reshape(-1, 20):
        if window.std() > level:
            expected.append(window)
        level = 0.9 * level + 0.1 * window.std()
    assert 20 < len(expected) < 280
    np.testing.assert_array_equal(got, expected)


def test_what_is_fed_back_is_held_where_a_window_is_refused() -> None:
    """A filter in the way back: the last window that passed is fed back until another passes."""
    x = noise(3000)

    def follow(windows: iso.Plan, held: iso.Plan) -> tuple[iso.Plan, iso.Plan]:
        passed = windows.map(lambda s, before: (s.max() > 2).where(s.max(), before), held)
        return windows.map(lambda s, before: s.max() - before, held), passed

    got = iso.scan(x, rate=100).rewindow(10).feedback(follow, initial=0.0).collect()
    held, expected = 0.0, []
    for window in x.reshape(-1, 10):
        expected.append([window.max() - held])
        held = window.max() if window.max() > 2 else held
    assert len({round(value, 12) for (value,) in expected}) > 100
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_a_filter_in_the_way_back_is_refused_with_what_to_do() -> None:
    windows = iso.scan(np.arange(8.0), rate=100).rewindow(2)
    with pytest.raises(iso.PlanError, match="filter in its loop"):
        windows.feedback(lambda w, back: (w, back.filter(lambda b: b.max() > 0)))
