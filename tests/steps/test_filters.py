"""Filters against SciPy's."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

import isochrony as iso

signal = pytest.importorskip("scipy.signal")

RATE = 1000.0
KINDS = {
    "butter": ({}, {}),
    "cheby1": ({"ripple_db": 0.5}, {"rp": 0.5}),
    "cheby2": ({"attenuation_db": 40.0}, {"rs": 40.0}),
    "ellip": ({"ripple_db": 1.0, "attenuation_db": 60.0}, {"rp": 1.0, "rs": 60.0}),
}


def noise(seed: int, count: int, dtype: str = "f8") -> np.ndarray:
    x = 100 * np.random.default_rng(seed).standard_normal(2 * count) + 50
    return (x[:count] + 1j * x[count:]).astype(dtype) if dtype.startswith("c") else x[:count].astype(dtype)


def error_of(sos: np.ndarray, x: np.ndarray) -> float:
    """How far two ways of rounding may drift apart: a rounding of each section's states in each sample, of the size
    of the largest of them, amplified by that section and all behind it."""
    impulse = np.zeros(20_000)
    impulse[0] = 1
    total = 0.0
    for k in range(len(sos)):
        # What a rounding error in section k's recursion becomes: its poles alone, and the sections behind it.
        only_poles = np.vstack([np.r_[1.0, 0, 0, sos[k, 3:]], sos[k + 1 :]])
        amplified = np.abs(signal.sosfilt(only_poles, impulse)).sum()
        size = np.abs(signal.sosfilt(sos[: k + 1], x)).max() + np.abs(signal.sosfilt(sos[:k], x) if k else x).max()
        # Five products and four sums with coefficients up to 2 (1 if the gain makes them smaller).
        total += amplified * size * 20 * max(1.0, np.abs(sos[k, :3]).max())
    return float(total * np.finfo("f8").eps)


@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(list(KINDS)),
    band=st.sampled_from(["lowpass", "highpass", "bandpass", "bandstop"]),
    order=st.integers(1, 9),
    low=st.floats(0.5, 240),
    width=st.floats(5, 240),
    dtype=st.sampled_from(["f8", "i2", "f4", "c16"]),
    steady=st.booleans(),
    count=st.integers(1, 600),
)
@settings(max_examples=150, deadline=None)
def test_iir_is_scipys_iirfilter_and_sosfilt(
    seed: int, kind: str, band: str, order: int, low: float, width: float, dtype: str, steady: bool, count: int
) -> None:
    ours, theirs = KINDS[kind]
    cutoff: Any = [low, low + width] if band.startswith("band") else low
    sos = signal.iirfilter(order, cutoff, btype=band, ftype=kind, fs=RATE, output="sos", **theirs)
    x = noise(seed, count, dtype)
    wide = x.astype("c16" if dtype.startswith("c") else "f8")
    slack = error_of(sos, np.abs(wide))
    assume(slack < 1e-3)  # a filter that amplifies rounding a billion times is nobody's oracle
    zi = signal.sosfilt_zi(sos)[:, :] * wide[0]
    expected = signal.sosfilt(sos, wide, zi=zi)[0] if steady else signal.sosfilt(sos, wide)
    initial = "steady" if steady else "zero"
    got = iso.scan(x, rate=RATE, segment=97).iir(kind, band, cutoff, order, initial=initial, **ours).collect()
    assert got.dtype == ("f4" if dtype == "f4" else expected.dtype)
    # Coefficients differ by roundings, too, which the states feel as they feel errors of their own.
    atol = 50 * slack + 1e-12 * np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=1e-7 if dtype == "f4" else 0, atol=atol)


@pytest.mark.parametrize(("hz", "q"), [(50.0, 30.0), (0.5, 2.0), (499.0, 5.0)])
def test_notch_is_scipys_iirnotch(hz: float, q: float) -> None:
    x = noise(1, 5000)
    expected = signal.lfilter(*signal.iirnotch(hz, q, fs=RATE), x)
    got = iso.scan(x, rate=RATE).notch(hz, q).collect()
    # One section, whose pole is 1 - pi hz / (q rate) from the origin: rounding errors add up over the inverse.
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * 300 * RATE * q / min(hz, 500 - hz))


def test_short_forms_are_butterworth_filters() -> None:
    plan = iso.scan(noise(2, 2000), rate=RATE)
    for name, band, corners in [
        ("lowpass", "lowpass", (30.0,)),
        ("highpass", "highpass", (30.0,)),
        ("bandpass", "bandpass", (30.0, 90.0)),
        ("bandstop", "bandstop", (30.0, 90.0)),
    ]:
        got = getattr(plan, name)(*corners, 3).collect()
        expected = plan.iir("butter", band, corners if len(corners) > 1 else corners[0], 3).collect()
        np.testing.assert_array_equal(got, expected)


def test_a_filter_begins_anew_behind_what_was_removed() -> None:
    x = noise(3, 1000)
    kept = iso.scan(x, rate=RATE).between(0, 400).lowpass(50).collect()
    np.testing.assert_array_equal(kept, iso.scan(x[:400], rate=RATE).lowpass(50).collect())
    later = iso.scan(x, rate=RATE).between(400, 1000).lowpass(50).collect()
    np.testing.assert_array_equal(later, iso.scan(x[400:], rate=RATE).lowpass(50).collect())


def test_infinities_make_nan_to_the_end_of_the_stretch_only() -> None:
    x = noise(4, 100)
    x[40] = np.inf
    got = iso.scan(x, rate=RATE).lowpass(50).collect()
    assert np.isfinite(got[:40]).all()
    assert np.isnan(got[42:]).all()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda p: p.lowpass(500), "half the rate, 500 Hz"),
        (lambda p: p.lowpass(0), "above 0"),
        (lambda p: p.lowpass("10"), "finite number of Hz"),
        (lambda p: p.bandpass(90, 30), r"low_hz=90 Hz must be below high_hz=30 Hz; swap them$"),
        (lambda p: p.bandstop(30, 30), r"low_hz=30 Hz must be below high_hz=30 Hz; lower low_hz, or raise high_hz$"),
        (lambda p: p.iir("butter", "bandpass", (90, 30)), "two ascending frequencies"),
        (
            lambda p: p.bandpass(1, 800),
            r"^bandpass \(operator iir\): high_hz=800 Hz must be below half the rate, 500 Hz; lower high_hz$",
        ),
        (lambda p: p.bandstop(0, 30), r"^bandstop \(operator iir\): low_hz=0 Hz must be above 0; raise low_hz$"),
        (
            lambda p: p.highpass(800),
            r"^highpass \(operator iir\): hz=800 Hz must be below half the rate, 500 Hz; lower hz$",
        ),
        (lambda p: p.iir("butter", "lowpass", 800), r"^iir: cutoff_hz=800 Hz must .*; change cutoff_hz$"),
        (lambda p: p.lowpass(30, 0), "from 1"),
        (lambda p: p.lowpass(30, 40), "1 to 32"),
        (lambda p: p.iir("bessel", "lowpass", 3), "'butter' or"),
        (lambda p: p.iir("ellip", "lowpass", 3, ripple_db=1), "needs attenuation_db="),
        (lambda p: p.iir("butter", "lowpass", 3, ripple_db=1), "must be left out"),
        (lambda p: p.notch(50, 0.01), "q=0.01 must be"),
        (lambda p: p.rewindow(10).lowpass(30), "put it before rewindow"),
    ],
)
def test_what_is_out_of_range_is_an_error_when_the_step_is_added(step: Any, message: str) -> None:
    with pytest.raises(iso.IsochronyError, match=message):
        step(iso.scan(noise(5, 100), rate=RATE))


def test_a_filtered_plan_can_be_saved_and_read_again(tmp_path: Any) -> None:
    with iso.open(tmp_path / "made.iso", mode="x") as store:
        made = store.create("p", dtype="f4", rate=1000, start="2026-01-01T00:00:00Z")
        made.append(noise(6, 500, "f4"))
        store.commit()
        plan = (
            iso.scan(store["p"]).iir("cheby2", "bandstop", (20, 80), 3, attenuation_db=30).notch(200, initial="steady")
        )
        again = iso.Plan.from_json(plan.to_json(), store=store)
        assert again == plan
        np.testing.assert_array_equal(again.collect(), plan.collect())


@given(
    seed=st.integers(0, 2**32),
    taps=st.integers(1, 300),
    dtype=st.sampled_from(["f8", "i2", "f4", "c16", "c8"]),
    count=st.integers(1, 6000),
    method=st.sampled_from(["auto", "direct", "fft"]),
    centred=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_fir_is_scipys_lfilter(seed: int, taps: int, dtype: str, count: int, method: Any, centred: bool) -> None:
    taps |= 1
    design = signal.firwin(taps, 100, fs=RATE)
    x = noise(seed, count, dtype)
    wide = x.astype("c16" if dtype.startswith("c") else "f8")
    expected = signal.lfilter(design, 1, wide)[taps - 1 if centred else 0 :]
    delay = "centred" if centred else "causal"
    got = iso.scan(x, rate=RATE, segment=1009).fir(taps, "lowpass", 100, delay=delay, method=method).collect()
    assert got.dtype == {"f4": "f4", "c8": "c8"}.get(dtype, expected.dtype)
    # A rounding of each product and sum of samples below 1000 with taps whose magnitudes add up to less than 3.
    eps = np.finfo(got.dtype).eps
    np.testing.assert_allclose(got, expected, rtol=0, atol=3000 * max(taps, 30) * eps)


def test_designs_of_taps_are_scipys() -> None:
    x = np.zeros(600)
    x[0] = 1
    impulse = iso.scan(x, rate=RATE)
    bands = ([0, 100, 130, 170, 200, 500], [1, 0, 1], [1, 10, 1])
    kaiser, beta = signal.kaiserord(70, 20 / 500)
    for got, expected, atol in [
        (
            impulse.fir(61, "bandpass", (40, 90), window="hann"),
            signal.firwin(61, (40, 90), window="hann", pass_zero=False, fs=RATE),
            1e-15,
        ),
        (
            impulse.fir(None, "highpass", 60, window="kaiser", attenuation_db=70, width_hz=20),
            signal.firwin(kaiser | 1, 60, window=("kaiser", beta), pass_zero=False, fs=RATE),
            1e-15,
        ),
        # Both are within a hundredth of the best, whose error is below 0.02.
        (
            impulse.fir(61, edges_hz=bands[0], gains=bands[1], weights=bands[2]),
            signal.remez(61, *bands[:2], weight=bands[2], fs=RATE),
            4e-4,
        ),
    ]:
        np.testing.assert_allclose(got.collect()[: len(expected)], expected, rtol=0, atol=atol)


def test_centred_results_keep_the_times_of_their_samples(tmp_path: Any) -> None:
    x = noise(8, 1000)
    with iso.open(tmp_path / "made.iso", mode="x") as store:
        made = store.create("p", dtype="f8", rate=1000, start="2026-01-01T00:00:00Z")
        made.append(x[:500])
        made.append_gap(samples=40)
        made.append(x[500:])
        store.commit()
        for method in ("direct", "fft"):
            blocks: list[tuple[int, np.ndarray]] = []
            plan = iso.scan(store["p"]).fir(21, "lowpass", 100, delay="centred", method=method)
            plan.each(lambda block, start, to=blocks: to.append((start, block.copy()))).run()
            design = signal.firwin(21, 100, fs=RATE)
            expected = [np.convolve(part, design, "valid") for part in (x[:500], x[500:])]
            got = np.concatenate([block for _, block in blocks])
            np.testing.assert_allclose(got, np.concatenate(expected), rtol=0, atol=1e-10)
            assert blocks[0][0] == 10
            assert 550 in [start for start, _ in blocks]


@pytest.mark.parametrize(
    ("kind", "band", "cutoff", "order", "count"),
    [
        ("butter", "lowpass", 40, 4, 100_000),
        ("butter", "highpass", 5, 3, 60_000),
        ("cheby1", "bandpass", (20, 60), 2, 40_000),
        ("cheby2", "bandstop", (45, 55), 3, 40_000),
        ("ellip", "lowpass", 100, 5, 16_384),
        ("butter", "lowpass", 40, 4, 50),
    ],
)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
def test_zero_phase_is_scipys_sosfiltfilt(
    kind: str, band: str, cutoff: Any, order: int, count: int, dtype: str
) -> None:
    ours, theirs = KINDS[kind]
    sos = signal.iirfilter(order, cutoff, btype=band, ftype=kind, fs=RATE, output="sos", **theirs)
    x = noise(9, count, dtype) + np.linspace(0, 300, count).astype(dtype)
    expected = signal.sosfiltfilt(sos, x.astype("f8"))
    got = iso.scan(x, rate=RATE, segment=7001).zero_phase(kind, band, cutoff, order, **ours).collect()
    assert got.dtype == ("f4" if dtype == "f4" else "f8")
    # A block misses 1e-12 of what lies behind it, of samples up to 1000; rounding is below that, and of float32 more.
    np.testing.assert_allclose(got, expected, rtol=6e-8 if dtype == "f4" else 0, atol=2e-9)


def test_zero_phase_moves_nothing_and_short_stretches_are_padded_by_what_they_have() -> None:
    t = np.arange(20_000) / RATE
    slow = np.sin(2 * np.pi * 3 * t)
    got = iso.scan(slow + np.sin(2 * np.pi * 200 * t), rate=RATE).zero_phase("butter", "lowpass", 30).collect()
    assert abs(got - slow)[500:-500].max() < 1e-3
    sos = signal.butter(4, 30, fs=RATE, output="sos")
    short = noise(10, 9)
    expected = signal.sosfiltfilt(sos, short, padlen=8)
    np.testing.assert_allclose(
        iso.scan(short, rate=RATE).zero_phase("butter", "lowpass", 30).collect(), expected, atol=1e-9
    )
    one = iso.scan(np.array([5.0]), rate=RATE).zero_phase("butter", "lowpass", 30).collect()
    np.testing.assert_allclose(one, [5.0], rtol=1e-9)
