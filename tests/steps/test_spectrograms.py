"""Tapers, `Plan.stft`, `Plan.welch`, `Plan.spectrogram`, `Plan.detrend` and `Plan.ifft` against NumPy and SciPy."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso

signal = pytest.importorskip("scipy.signal")

TAPERS = [
    "boxcar",
    "bartlett",
    "hann",
    "hamming",
    "blackman",
    "blackmanharris",
    "nuttall",
    "flattop",
    ("kaiser", 8.6),
    ("kaiser", 0.0),
    ("tukey", 0.25),
    ("tukey", 1.0),
    ("gaussian", 7.0),
]
DTYPES = ["i2", "f4", "f8", "c8", "c16"]


def samples(seed: int, count: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = 1000 * rng.standard_normal(count) + 300
    if dtype.startswith("c"):
        x = x + 1000j * rng.standard_normal(count)
    return x.astype(dtype)


def wide(x: np.ndarray) -> np.ndarray:
    """As the engine computes: single where samples are, else double."""
    return x if x.dtype.kind in "fc" else x.astype("f8")


def close(got: np.ndarray, expected: np.ndarray, size: np.ndarray | None = None) -> None:
    """Within some roundings of the largest value, of log2(N) stages; of `size`, before trends were taken out."""
    assert got.dtype == expected.dtype
    single = got.dtype.char in "fF"
    largest = abs(expected if size is None else size).max()
    np.testing.assert_allclose(got, expected, rtol=0, atol=(1e-4 if single else 1e-11) * largest)


@pytest.mark.parametrize("taper", TAPERS, ids=str)
@pytest.mark.parametrize("width", [1, 2, 3, 16, 255])
@pytest.mark.parametrize("symmetric", [False, True])
def test_tapers_are_scipys(taper: str | tuple[str, float], width: int, symmetric: bool) -> None:
    expected = signal.get_window(taper, width, fftbins=not symmetric)
    # Cosines of up to 8 pi with an error of their argument's last bit.
    np.testing.assert_allclose(iso.taper_factors(taper, width, symmetric=symmetric), expected, rtol=0, atol=1e-14)


@given(
    taper=st.sampled_from(TAPERS),
    nfft=st.integers(2, 120),
    hop=st.integers(1, 120),
)
@settings(max_examples=150, deadline=None)
def test_adding_up_is_scipys_cola(taper: str | tuple[str, float], nfft: int, hop: int) -> None:
    hop = min(hop, nfft)
    assert iso.adds_up(taper, nfft, hop) == signal.check_COLA(taper, nfft, nfft - hop)


@given(
    seed=st.integers(0, 2**32),
    nfft=st.integers(2, 90),
    hop=st.integers(1, 100),
    dtype=st.sampled_from(DTYPES),
    taper=st.sampled_from(TAPERS),
    scaling=st.sampled_from(["spectrum", "psd"]),
    detrend=st.sampled_from(["none", "constant", "linear"]),
)
@settings(max_examples=150, deadline=None)
def test_stft_is_scipys(
    seed: int, nfft: int, hop: int, dtype: str, taper: str | tuple[str, float], scaling: str, detrend: str
) -> None:
    hop = min(hop, nfft)
    factors = signal.get_window(taper, nfft)
    if abs(factors.sum()) < 1e-3:
        return
    x = samples(seed, 3 * nfft + hop, dtype)
    options = {
        "fs": 250.0,
        "window": factors,
        "nperseg": nfft,
        "noverlap": nfft - hop,
        "return_onesided": not np.iscomplexobj(x),
        "boundary": None,
        "padded": False,
        "scaling": scaling,
    }
    f, _, size = signal.stft(wide(x), detrend=False, **options)
    _, _, expected = signal.stft(wide(x), detrend=False if detrend == "none" else detrend, **options)
    plan = iso.scan(x, rate=250).stft(nfft, hop, taper=taper, scaling=scaling, detrend=detrend)
    close(plan.collect(), expected.T, size)
    np.testing.assert_allclose(plan.frequencies, f)


@given(
    seed=st.integers(0, 2**32),
    window=st.integers(16, 400),
    nfft=st.integers(4, 80),
    hop=st.integers(1, 80),
    dtype=st.sampled_from(DTYPES),
    taper=st.sampled_from(TAPERS[1:]),
    scaling=st.sampled_from(["density", "spectrum"]),
    detrend=st.sampled_from(["none", "constant", "linear"]),
    average=st.sampled_from(["mean", "median"]),
)
@settings(max_examples=150, deadline=None)
def test_welch_is_scipys(
    seed: int,
    window: int,
    nfft: int,
    hop: int,
    dtype: str,
    taper: str | tuple[str, float],
    scaling: str,
    detrend: str,
    average: str,
) -> None:
    nfft = min(nfft, window)
    hop = min(hop, nfft)
    x = samples(seed, 2 * window, dtype)
    options = {
        "fs": 250.0,
        "window": taper,
        "nperseg": nfft,
        "noverlap": nfft - hop,
        "return_onesided": not np.iscomplexobj(x),
        "scaling": scaling,
        "average": average,
    }
    rows = wide(x).reshape(2, window)
    f, size = signal.welch(rows, detrend=False, **options)
    _, expected = signal.welch(rows, detrend=False if detrend == "none" else detrend, **options)
    plan = iso.scan(x, rate=250).rewindow(window)
    plan = plan.welch(nfft, hop, taper=taper, scaling=scaling, detrend=detrend, average=average)
    close(plan.collect(), expected, size)
    np.testing.assert_allclose(plan.frequencies, f)


@pytest.mark.parametrize("nfft", [31, 32])
def test_halves_overlap_by_default_as_scipys_do(nfft: int) -> None:
    x = samples(3, 500, "f8")
    f, _, expected = signal.spectrogram(x, fs=100.0, window="hann", nperseg=nfft, noverlap=nfft // 2)
    plan = iso.scan(x, rate=100).spectrogram(nfft)
    close(plan.collect(), expected.T)
    np.testing.assert_allclose(plan.frequencies, f)
    _, expected = signal.welch(x, fs=100.0, nperseg=nfft)
    close(iso.scan(x, rate=100).rewindow(500).welch(nfft).collect()[0], expected)
    _, _, expected = signal.stft(x, fs=100.0, nperseg=nfft, boundary=None, padded=False)
    close(iso.scan(x, rate=100).stft(nfft).collect(), expected.T)


def test_rows_of_a_spectrogram_know_their_times() -> None:
    table = iso.scan(samples(3, 500, "f8"), rate=100).spectrogram(100, 50).rows(power=lambda s: s).collect()
    assert list(table["start"]) == list(range(0, 401, 50)) and list(table["end"]) == list(range(100, 501, 50))


@given(seed=st.integers(0, 2**32), window=st.integers(1, 90), dtype=st.sampled_from(DTYPES), linear=st.booleans())
@settings(max_examples=150, deadline=None)
def test_detrending_is_scipys(seed: int, window: int, dtype: str, linear: bool) -> None:
    kind = "linear" if linear else "constant"
    x = samples(seed, 2 * window, dtype)
    rows = wide(x).reshape(2, window)
    # SciPy's least squares cannot fit a line through one sample.
    expected = signal.detrend(rows, type=kind) if window > 1 else np.zeros_like(rows)
    got = iso.scan(x, rate=100).rewindow(window).detrend(kind).collect()
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-3 if got.dtype.char in "fF" else 1e-9)


@given(
    seed=st.integers(0, 2**32), window=st.integers(1, 90), dtype=st.sampled_from(DTYPES), taper=st.sampled_from(TAPERS)
)
@settings(max_examples=100, deadline=None)
def test_tapered_windows_are_products_and_come_back_from_their_spectra(
    seed: int, window: int, dtype: str, taper: str | tuple[str, float]
) -> None:
    if np.dtype(dtype).kind == "c" and window <= 2:
        return  # Two complex numbers look like the spectrum of two real samples.
    x = samples(seed, 2 * window, dtype)
    plan = iso.scan(x, rate=100).rewindow(window).taper(taper)
    expected = wide(x).reshape(2, window) * signal.get_window(taper, window).astype(wide(x).real.dtype)
    close(plan.collect(), expected)
    back = plan.fft().ifft().collect()
    assert back.dtype == expected.dtype
    np.testing.assert_allclose(back, expected, rtol=0, atol=2e-2 if back.dtype.char in "fF" else 1e-10)


@given(seed=st.integers(0, 2**32), window=st.integers(3, 64))
@settings(max_examples=100, deadline=None)
def test_ifft_is_numpys(seed: int, window: int) -> None:
    rng = np.random.default_rng(seed)
    half = rng.standard_normal(window // 2 + 1) + 1j * rng.standard_normal(window // 2 + 1)
    plan = iso.scan(np.zeros(window), rate=100).rewindow(window).fft().map(iso.py(lambda rows: rows + half))
    np.testing.assert_allclose(plan.ifft().collect()[0], np.fft.irfft(half, window), rtol=0, atol=1e-13)


def test_wrong_parameters_and_inputs_are_refused() -> None:
    samples_of = iso.scan(np.arange(64.0), rate=100)
    windows = samples_of.rewindow(16)
    for wrong in ["hat", "kaiser", ("hann", 2), ("kaiser", "x"), 3]:
        with pytest.raises(iso.OptionError, match="blackmanharris"):
            windows.power(taper=wrong)
    with pytest.raises(iso.PlanError, match="beta from 0"):
        windows.fft(taper=("kaiser", -1))
    with pytest.raises(iso.OptionError, match="beta from 0"):
        iso.taper_factors(("kaiser", -1), 8)
    with pytest.raises(iso.OptionError, match="from 1 to the window's 8"):
        iso.adds_up("hann", 8, 9)
    with pytest.raises(iso.PlanError, match="from 1 to the window's 16"):
        windows.welch(17)
    with pytest.raises(iso.OptionError, match="median"):
        windows.welch(8, average="mode")
    with pytest.raises(iso.PlanError, match="fft"):
        windows.ifft()
    with pytest.raises(iso.PlanError, match="spectra"):
        _ = windows.frequencies
    with pytest.raises(iso.PlanError, match="samples"):
        windows.stft(8)
    with pytest.raises(iso.OptionError, match="samples"):
        samples_of.stft(0)


def test_a_taper_with_a_parameter_prints_and_is_saved(tmp_path: object) -> None:
    store = iso.open(str(tmp_path) + "/s.iso", "x")
    x = store.create("x", dtype="f8", rate=100, start="2010-03-01T00:00:00Z")
    x.append(np.arange(64.0))
    store.commit()
    plan = iso.scan(x).rewindow(16).power(taper=("kaiser", 8.6))
    assert 'taper="kaiser(8.6)"' in str(plan)
    assert iso.Plan.from_json(plan.to_json(), store=store) == plan
