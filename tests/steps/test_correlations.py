"""`Plan.xcorr`, `Plan.gcc_phat` and `Plan.delay` against SciPy and delays that are known."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso

signal = pytest.importorskip("scipy.signal")


def delayed(noise: np.ndarray, delay: float) -> np.ndarray:
    """Periodic noise, later by any number of samples."""
    spectrum = np.fft.rfft(noise)
    turns = np.fft.rfftfreq(len(noise)) * delay
    return np.fft.irfft(spectrum * np.exp(-2j * np.pi * turns), len(noise))


def band_limited(seed: int, count: int, top: float) -> np.ndarray:
    """Noise of frequencies up to a share of the rate."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(count))
    spectrum[np.fft.rfftfreq(count) > top] = 0
    return np.fft.irfft(spectrum, count)


@given(
    seed=st.integers(0, 2**32),
    window=st.integers(1, 200),
    share=st.floats(0, 1),
    dtype=st.sampled_from(["i2", "f4", "f8"]),
)
@settings(max_examples=100, deadline=None)
def test_correlations_are_scipys(seed: int, window: int, share: float, dtype: str) -> None:
    max_lag = int(share * (window - 1))
    x, y = (1000 * np.random.default_rng(seed).standard_normal((2, window))).astype(dtype)
    lags = signal.correlation_lags(window, window)
    full = signal.correlate(y.astype("f8"), x.astype("f8"), method="direct")
    expected = full[abs(lags) <= max_lag]
    here, there = (iso.scan(z, rate=100).rewindow(window) for z in (x, y))
    got = here.xcorr(there, max_lag).collect()[0]
    norms = np.linalg.norm(x.astype("f8")) * np.linalg.norm(y.astype("f8"))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13 * norms)
    got = here.xcorr(there, max_lag, normalise="coeff").collect()[0]
    if norms > 0:
        np.testing.assert_allclose(got, expected / norms, rtol=0, atol=1e-13)


@given(seed=st.integers(0, 2**32), delay=st.floats(-15, 15), method=st.sampled_from(["xcorr", "gcc_phat"]))
@settings(max_examples=60, deadline=None)
def test_delays_of_band_limited_noise_are_found(seed: int, delay: float, method: str) -> None:
    noise = band_limited(seed, 4096, 0.2)
    x, y = noise[1024:3072], delayed(noise, delay)[1024:3072]
    here, there = (iso.scan(z, rate=100).rewindow(2048) for z in (x, y))
    options = {"band_hz": (1, 19)} if method == "gcc_phat" else {}
    found = here.delay(there, 40, method=method, refine="band_limited", **options).collect()
    # At the windows' ends up to 15 of 2048 samples differ: sqrt(2 * 15) of noise beside 2048 of signal.
    assert abs(found["delay"][0] * 100 - delay) < 0.05
    assert found["peak"][0] > (0.9 if method == "xcorr" else 0.5)
    parabola = here.delay(there, 40, method=method, refine="parabola", **options).collect()
    assert abs(parabola["delay"][0] - found["delay"][0]) * 100 < 0.03


@pytest.mark.parametrize(("top", "bias"), [(1 / 6, 0.011), (1 / 4, 0.026), (0.5, 0.12)])
def test_a_parabola_is_off_by_no_more_than_is_said(top: float, bias: float) -> None:
    worst = 0.0
    t = np.arange(4096) - 2048.0
    for delay in np.linspace(0, 0.5, 11):
        # The impulse of a band, which has the band's correlation.
        x, y = (np.sinc(2 * top * (t - at)) for at in (0.0, delay))
        here, there = (iso.scan(z, rate=1).rewindow(4096) for z in (x, y))
        found = here.delay(there, 4, refine="parabola").collect()["delay"][0]
        exact = here.delay(there, 4, refine="band_limited").collect()["delay"][0]
        assert abs(exact - delay) < 1e-3
        worst = max(worst, abs(found - delay))
    assert 0.5 * bias < worst <= bias + 1e-3


def test_the_phase_transform_tells_an_echo_from_a_coloured_signal() -> None:
    colour = signal.lfilter([1], [1, -0.95], np.random.default_rng(2).standard_normal(8192))
    x, y = colour[100:4196], colour[93:4189] + 0.5 * colour[80:4176]
    here, there = (iso.scan(z, rate=1000).rewindow(4096).taper("hann") for z in (x, y))
    row = here.gcc_phat(there, 40, regularise=1e-6).collect()[0]
    lags = np.arange(-40, 41)
    assert lags[row.argmax()] == 7
    assert set(lags[np.argsort(row)[-2:]]) == {7, 20}


def test_only_windows_that_both_have_are_compared() -> None:
    store_x, store_y = np.random.default_rng(3).standard_normal((2, 64))
    here = iso.scan(store_x, rate=100).rewindow(16)
    there = iso.scan(store_y, rate=100).rewindow(16).filter(lambda s: s.max() > s.min() + 3.2)
    kept = [start for start in range(0, 64, 16) if np.ptp(store_y[start : start + 16]) > 3.2]
    assert list(here.delay(there, 4).collect()["start"]) == kept


def test_a_window_of_zeros_has_no_delay() -> None:
    here, there = (iso.scan(z, rate=100).rewindow(16) for z in (np.zeros(16), np.arange(16.0)))
    found = here.delay(there, 4).collect()
    assert np.isnan(found["delay"][0]) and found["peak"][0] == 0


def test_wrong_parameters_and_inputs_are_refused() -> None:
    x = iso.scan(np.ones(64), rate=100)
    windows = x.rewindow(16)
    with pytest.raises(iso.PlanError, match="below the window's 16"):
        windows.xcorr(windows, 16)
    with pytest.raises(iso.PlanError, match="equal windows"):
        windows.xcorr(x.rewindow(8), 4)
    with pytest.raises(iso.PlanError, match="from 0 to 50 Hz"):
        windows.gcc_phat(windows, 4, band_hz=(10, 60))
    with pytest.raises(iso.PlanError, match="left out of xcorr"):
        windows.delay(windows, 4, band_hz=(10, 20))
    with pytest.raises(iso.OptionError, match="coeff"):
        windows.xcorr(windows, 4, normalise="unit")
    with pytest.raises(iso.OptionError, match="samples"):
        windows.delay(windows, -1)
