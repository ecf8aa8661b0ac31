"""`Plan.fft` and `Plan.power` against NumPy and SciPy."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso

signal = pytest.importorskip("scipy.signal")

DTYPES = ["i2", "i4", "f4", "f8", "c8", "c16"]


def samples(seed: int, count: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = 1000 * rng.standard_normal(count)
    if dtype.startswith("c"):
        x = x + 1000j * rng.standard_normal(count)
    return x.astype(dtype)


@given(seed=st.integers(0, 2**32), count=st.integers(2, 400), window=st.integers(2, 80), dtype=st.sampled_from(DTYPES))
@settings(max_examples=100, deadline=None)
def test_fft_is_numpys(seed: int, count: int, window: int, dtype: str) -> None:
    x = samples(seed, max(count, window), dtype)
    rows = x[: len(x) // window * window].reshape(-1, window)
    expected = (np.fft.fft if np.iscomplexobj(x) else np.fft.rfft)(rows)
    got = iso.scan(x, rate=100).rewindow(window).fft().collect()
    assert got.dtype == expected.dtype
    scale = 1000 * window
    np.testing.assert_allclose(got, expected, rtol=0, atol=scale * (1e-5 if expected.dtype == "c8" else 1e-12))


@given(
    seed=st.integers(0, 2**32),
    window=st.integers(4, 80),
    dtype=st.sampled_from(DTYPES),
    taper=st.sampled_from(["hann", "hamming", "blackman", "boxcar"]),
    scaling=st.sampled_from(["density", "spectrum"]),
    detrend=st.sampled_from(["constant", "none"]),
)
@settings(max_examples=150, deadline=None)
def test_power_is_scipys_periodogram(
    seed: int, window: int, dtype: str, taper: str, scaling: str, detrend: str
) -> None:
    x = samples(seed, 3 * window, dtype)
    wide = x if dtype in ("f4", "c8", "c16") else x.astype("f8")
    _, expected = signal.periodogram(
        wide.reshape(3, window),
        fs=250.0,
        window=taper,
        scaling=scaling,
        detrend=False if detrend == "none" else detrend,
        return_onesided=not np.iscomplexobj(x),
    )
    got = iso.scan(x, rate=250).rewindow(window).power(taper=taper, scaling=scaling, detrend=detrend).collect()
    assert got.dtype == expected.dtype
    tolerance = 1e-4 if expected.dtype == "f4" else 1e-10
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * expected.max())


@pytest.mark.parametrize("taper", ["hann", "boxcar", ("tukey", 0.3)])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_a_density_adds_up_to_the_mean_square_weighted_by_the_taper(taper: str, dtype: str) -> None:
    x, rate = samples(3, 37, dtype), 250.0
    x = x - x.mean()
    density = iso.scan(x, rate=rate).rewindow(37).power(taper=taper).collect()
    w = signal.get_window(taper, 37)
    np.testing.assert_allclose(density.sum() * rate / 37, (abs(x * w) ** 2).sum() / (w**2).sum(), rtol=1e-12)
    _, theirs = signal.periodogram(x, rate, window=taper, detrend=False, return_onesided=dtype == "f8")
    np.testing.assert_allclose(density.sum(), theirs.sum(), rtol=1e-12)


def test_wrong_parameters_and_inputs_are_refused() -> None:
    windows = iso.scan(np.arange(8.0), rate=100).rewindow(4)
    with pytest.raises(iso.OptionError, match="blackman"):
        windows.power(taper="hat")
    with pytest.raises(iso.PlanError, match="rewindow"):
        iso.scan(np.arange(8.0), rate=100).fft()


@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_short_windows_come_back_real_or_complex_as_they_were(window: int) -> None:
    rng = np.random.default_rng(window)
    real = rng.standard_normal(4 * window)
    for samples in (real, real + 1j * rng.standard_normal(len(real))):
        plan = iso.scan(samples, rate=100).rewindow(window).fft()
        for spectra in (plan, plan.map(lambda s: s * 1.0)):
            back = spectra.ifft().collect()
            assert back.dtype == samples.dtype
            np.testing.assert_allclose(back.ravel(), samples, atol=1e-12)
