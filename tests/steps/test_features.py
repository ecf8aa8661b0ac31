"""What windows are described by, against NumPy, SciPy and definitions."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso

signal = pytest.importorskip("scipy.signal")

REAL = ["i2", "f4", "f8"]


def samples(seed: int, count: int, dtype: str) -> np.ndarray:
    x = 1000 * np.random.default_rng(seed).standard_normal(count)
    return x.astype(dtype)


def wide(x: np.ndarray) -> np.ndarray:
    """As the engine computes: single where samples are, else double."""
    return x if x.dtype.kind in "fc" else x.astype("f8")


def close(got: np.ndarray, expected: np.ndarray, single: float = 2e-6, double: float = 1e-13) -> None:
    assert got.dtype == expected.dtype
    tolerance = single if got.dtype.char in "fF" else double
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * abs(expected).max() + 1e-300)


@given(seed=st.integers(0, 2**32), window=st.integers(1, 200), dtype=st.sampled_from(REAL))
@settings(max_examples=100, deadline=None)
def test_envelopes_are_those_of_scipys_hilbert(seed: int, window: int, dtype: str) -> None:
    x = samples(seed, 2 * window, dtype)
    expected = abs(signal.hilbert(wide(x).reshape(2, window)))
    close(iso.scan(x, rate=100).rewindow(window).envelope().collect(), expected)


@given(seed=st.integers(0, 2**32), window=st.integers(1, 200), dtype=st.sampled_from([*REAL, "c8", "c16"]))
@settings(max_examples=100, deadline=None)
def test_rms_is_its_definition(seed: int, window: int, dtype: str) -> None:
    x = samples(seed, 2 * window, dtype) * (1 + 1j if dtype[0] == "c" else 1)
    x = x.astype(dtype)
    rows = wide(x).reshape(2, window)
    expected = np.sqrt((abs(rows.astype("c16" if dtype[0] == "c" else "f8")) ** 2).mean(axis=1, keepdims=True))
    close(iso.scan(x, rate=100).rewindow(window).rms().collect(), expected.astype(rows.real.dtype))


@given(st.lists(st.sampled_from([-2.0, -0.0, 0.0, 1.0, np.nan]), min_size=8, max_size=8))
@settings(max_examples=100, deadline=None)
def test_zeros_and_nan_have_no_sign(x: list[float]) -> None:
    signs = [np.sign(value) for value in x if value and value == value]
    expected = sum(a != b for a, b in zip(signs, signs[1:], strict=False))
    assert iso.scan(np.array(x), rate=100).rewindow(8).zero_crossings().collect().item() == expected


def wavedec(row: np.ndarray, levels: int) -> list[np.ndarray]:
    """As PyWavelets' `wavedec`: the approximation, then details from the last level to the first."""
    details = []
    for _ in range(levels):
        pairs = row.reshape(-1, 2)
        details.append((pairs[:, 0] - pairs[:, 1]) / np.sqrt(2))
        row = (pairs[:, 0] + pairs[:, 1]) / np.sqrt(2)
    return [row, *reversed(details)]


@given(seed=st.integers(0, 2**32), count=st.integers(1, 12), levels=st.integers(1, 5), dtype=st.sampled_from(REAL))
@settings(max_examples=100, deadline=None)
def test_haar_is_its_definition(seed: int, count: int, levels: int, dtype: str) -> None:
    window = count << levels
    x = samples(seed, 2 * window, dtype)
    windows = iso.scan(x, rate=100).rewindow(window)
    rows = [wavedec(row, levels) for row in x.astype("f8").reshape(2, window)]
    kind = wide(x).dtype
    energies = np.array([[(part**2).sum() for part in [*reversed(row[1:]), row[0]]] for row in rows])
    close(windows.haar(levels).collect(), energies.astype(kind), single=1e-5)
    coefficients = np.array([np.concatenate(row) for row in rows])
    close(windows.haar(levels, output="coefficients").collect(), coefficients.astype(kind), single=1e-5)
    details = np.array([row[1] for row in rows]).astype(kind)
    got = windows.haar(levels, output="details").collect()
    np.testing.assert_allclose(got, details, rtol=0, atol=(1e-5 if kind == "f4" else 1e-12) * abs(coefficients).max())
    np.testing.assert_allclose(
        windows.haar(levels).collect().sum(axis=1), (x.astype("f8").reshape(2, -1) ** 2).sum(axis=1), rtol=1e-5
    )


@given(
    seed=st.integers(0, 2**32),
    window=st.integers(1, 100),
    dtype=st.sampled_from(REAL),
    at=st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
@settings(max_examples=100, deadline=None)
def test_quantiles_are_numpys(seed: int, window: int, dtype: str, at: list[float]) -> None:
    x = samples(seed, 2 * window, dtype)
    expected = np.quantile(x.astype("f8").reshape(2, window), at, axis=1).T
    got = iso.scan(x, rate=100).rewindow(window).quantile(at).collect()
    close(got, expected.astype(wide(x).dtype))


def test_quantiles_of_windows_with_nan_are_nan_and_others_are_not() -> None:
    x = np.array([1.0, np.nan, 3.0, 4.0, 5.0, 6.0])
    np.testing.assert_array_equal(iso.scan(x, rate=1).rewindow(3).quantile([0, 1]).collect(), [[np.nan] * 2, [4, 6]])


@given(seed=st.integers(0, 2**32), window=st.integers(2, 80), dtype=st.sampled_from(REAL), total=st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_score_is_a_weighted_sum_of_magnitudes(seed: int, window: int, dtype: str, total: bool) -> None:
    x = samples(seed, 3 * window, dtype)
    weights = np.random.default_rng(seed + 1).random(window // 2 + 1)
    hz = np.fft.rfftfreq(window, 1 / 100)
    low, high = 10.01, 35.01  # None of these windows has a frequency there.
    factors = signal.get_window("hann", window)
    magnitudes = abs(np.fft.rfft(x.astype("f8").reshape(3, window) * factors))
    expected = (magnitudes * weights * ((hz >= low) & (hz <= high))).sum(axis=1, keepdims=True)
    if total:
        expected /= magnitudes.sum(axis=1, keepdims=True)
    normalise = "total" if total else "none"
    plan = iso.scan(x, rate=100).rewindow(window)
    got = plan.spectral_score(weights, band_hz=(low, high), normalise=normalise, taper="hann").collect()
    scale = 1.0 if total else magnitudes.sum(axis=1).max()
    np.testing.assert_allclose(got, expected, rtol=0, atol=(1e-5 if dtype == "f4" else 1e-12) * scale)


@given(
    seed=st.integers(0, 2**32),
    window=st.integers(1, 60),
    extreme=st.sampled_from(["max", "min", "abs"]),
    skip=st.integers(1, 20),
)
@settings(max_examples=100, deadline=None)
def test_each_peak_is_the_extreme_of_what_is_left(seed: int, window: int, extreme: str, skip: int) -> None:
    x = samples(seed, 3 * window, "i2")
    size = {"max": x.astype("f8"), "min": -x.astype("f8"), "abs": abs(x.astype("f8"))}[extreme]
    table = iso.scan(x, rate=100).rewindow(window).trim_peak(extreme, count=2, skip=skip).collect()
    for row, start in enumerate(range(0, 3 * window, window)):
        first = start + int(size[start : start + window].argmax())
        assert (table["at"][row], table["peak"][row]) == (first, x[first])
        rest = size[first + skip : start + window]
        second = None if len(rest) == 0 else first + skip + int(rest.argmax())
        if second is not None:
            assert (table["at_2"][row], table["peak_2"][row]) == (second, x[second])


def test_peaks_of_wavelets_have_the_index_of_their_first_sample() -> None:
    x = np.zeros(64)
    x[40:44] = [9, 9, -9, -9]
    details = iso.scan(x, rate=100).rewindow(64).haar(2, output="details")
    table = details.trim_peak("max").collect()
    assert (table["at"][0], table["peak"][0]) == (40, 18.0)


def test_wrong_parameters_and_inputs_are_refused() -> None:
    windows = iso.scan(np.arange(64.0), rate=100).rewindow(12)
    with pytest.raises(iso.PlanError, match="from 1 to 2 for windows of 12"):
        windows.haar(3)
    with pytest.raises(iso.OptionError, match="energies"):
        windows.haar(2, output="power")
    with pytest.raises(iso.PlanError, match="from 0 to 1"):
        windows.quantile([0.5, 2])
    with pytest.raises(iso.OptionError, match="finite"):
        windows.quantile(["x"])
    with pytest.raises(iso.PlanError, match="7 frequencies"):
        windows.spectral_score([1.0, 2.0])
    with pytest.raises(iso.PlanError, match="from 0 to 50 Hz"):
        windows.spectral_score(band_hz=(10, 60))
    with pytest.raises(iso.PlanError, match="real"):
        iso.scan(np.ones(8, "c8"), rate=100).rewindow(4).envelope()
    with pytest.raises(iso.OptionError, match="needs low_hz"):
        iso.scan(np.ones(8), rate=100).envelope()
    with pytest.raises(iso.OptionError, match="is for samples"):
        windows.envelope(low_hz=2)
    for decibels in (60.0, 80.0):
        with pytest.raises(iso.OptionError, match=f"attenuation_db={decibels}.*for samples"):
            windows.envelope(attenuation_db=decibels)
    with pytest.raises(iso.PlanError, match="a quarter of the rate"):
        iso.scan(np.ones(8), rate=100).envelope(low_hz=25)
    with pytest.raises(iso.OptionError, match="peaks"):
        windows.trim_peak(count=0)
    with pytest.raises(iso.PlanError, match="rewindow"):
        iso.scan(np.ones(8), rate=100).rms()


def test_the_envelope_of_samples_is_scipys_away_from_ends_and_slow_parts() -> None:
    t = np.arange(20_000) / 1000
    # A tone of 80 Hz whose amplitude goes up and down twice a second: all of it lies between 76 and 84 Hz.
    x = (2 + np.cos(2 * np.pi * 2 * t)) * np.sin(2 * np.pi * 80 * t)
    got = iso.scan(x, rate=1000).envelope(low_hz=20).collect()
    left_out = (len(x) - len(got)) // 2
    want = np.abs(signal.hilbert(x))[left_out:-left_out]
    # 60 dB of the largest amplitude; SciPy's own ends reach in by a few hundred samples.
    assert abs(got - want)[1000:-1000].max() < 3.3e-3


@pytest.mark.parametrize("low", [0.01, 0.1, 0.2, 0.24, 0.249])
@pytest.mark.parametrize("attenuation_db", [20, 30, 60, 100])
def test_the_envelope_of_a_sine_of_the_band_is_within_the_stated_error(low: float, attenuation_db: float) -> None:
    i = np.arange(4000)
    for cycles in np.linspace(low, 0.5 - low, 7):
        sine = np.sin(2 * np.pi * cycles * i + 0.3)
        envelope = iso.scan(sine, rate=1.0).envelope(low_hz=low, attenuation_db=attenuation_db).collect()
        assert abs(envelope - 1).max() <= 1.005 * 10 ** (-attenuation_db / 20)
