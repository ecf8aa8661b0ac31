"""Detectors and running statistics against ObsPy, NumPy and SciPy."""

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

import isochrony as iso

trigger = pytest.importorskip("obspy.signal.trigger")
ndimage = pytest.importorskip("scipy.ndimage")

DTYPES = ["i2", "i4", "f4", "f8"]


def samples(seed: int, count: int, dtype: str) -> np.ndarray:
    return (1000 * np.random.default_rng(seed).standard_normal(count)).astype(dtype)


def tolerance(dtype: str) -> float:
    """float32 is rounded once, at 2^-24; doubles are sums of some hundred squares in either way."""
    return 1.2e-7 if dtype == "f4" else 1e-12


@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 500),
    sta=st.integers(1, 20),
    more=st.integers(1, 80),
    dtype=st.sampled_from(DTYPES),
    method=st.sampled_from(["classic", "recursive"]),
)
@settings(max_examples=150, deadline=None)
def test_stalta_is_obspys(seed: int, count: int, sta: int, more: int, dtype: str, method: str) -> None:
    lta = sta + more
    x = samples(seed, max(count, lta), dtype)
    oracle = trigger.classic_sta_lta_py if method == "classic" else trigger.recursive_sta_lta_py
    got = iso.scan(x, rate=50).stalta(sta / 50, lta / 50, method=method).collect()
    assert got.dtype == ("f4" if dtype == "f4" else "f8")
    want = oracle(x.astype("f8"), sta, lta)
    atol = 0.0
    if method == "classic":
        # ObsPy's sums are differences of sums since the beginning: 500 squares, each off by 2^-53 of them all.
        squares = x.astype("f8") ** 2
        least = np.lib.stride_tricks.sliding_window_view(squares, lta).mean(1).min()
        assume(least > 0)
        atol = 2 * 500 * 1.2e-16 * squares.sum() / (sta * least) * (1 + want.max())
    np.testing.assert_allclose(got, want, rtol=tolerance(dtype), atol=atol)
    assert not got[: lta - 1].any()


def test_stalta_keeps_no_error_of_a_huge_step() -> None:
    """Whole numbers are added exactly in windows; running sums are off by more than what is left of the signal."""
    x = np.where(np.arange(200_000) % 3 == 0, 1.0, -1.0)
    x[20_000:30_000] = 1e9
    got = iso.scan(x, rate=100).stalta(0.5, 20).collect()
    assert (got[32_000:] == 1).all()
    assert abs(trigger.classic_sta_lta_py(x, 50, 2000)[32_000:] - 1).max() > 0.1


@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 800),
    on=st.floats(0, 3),
    down=st.floats(0, 2),
    smooth=st.integers(1, 9),
)
@settings(max_examples=150, deadline=None)
def test_triggers_are_obspys(seed: int, count: int, on: float, down: float, smooth: int) -> None:
    x = np.abs(np.convolve(np.random.default_rng(seed).standard_normal(count), np.ones(smooth), "same"))
    want = trigger.trigger_onset(x, on, on - down)
    got = iso.scan(x, rate=100).triggers(on, on - down).collect()
    # ObsPy's end is the last index in the range.
    np.testing.assert_array_equal(got.reshape(-1, 2), np.add(np.reshape(want, (-1, 2)), [0, 1]))


@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 400),
    window=st.integers(1, 60),
    dtype=st.sampled_from(DTYPES),
    q=st.floats(0, 1),
)
@settings(max_examples=150, deadline=None)
def test_running_statistics_are_numpys_of_each_window(seed: int, count: int, window: int, dtype: str, q: float) -> None:
    x = samples(seed, count, dtype)
    wide = x.astype("f8")
    windows = [wide[max(0, k + 1 - window) : k + 1] for k in range(count)]
    scan = iso.scan(x, rate=50)
    for got, want in [
        (scan.running_mean(window / 50), [w.mean() for w in windows]),
        (scan.running_rms(window / 50), [np.sqrt((w * w).mean()) for w in windows]),
        (scan.running_quantile(window / 50, q), [np.quantile(w, q) for w in windows]),
    ]:
        values = got.collect()
        assert values.dtype == ("f4" if dtype == "f4" else "f8")
        # Means may cancel: off by 60 roundings of the largest sample.
        np.testing.assert_allclose(values, want, rtol=tolerance(dtype), atol=1e-14 * abs(wide).max() * 60)


def test_running_quantile_is_scipys_percentile_filter() -> None:
    x = samples(3, 20_000, "f8")
    got = iso.scan(x, rate=1000).running_quantile(0.501, 0.3).collect()
    # Odd windows, rank 150 of 0 to 500; SciPy's are centred.
    want = ndimage.percentile_filter(x, 30, size=501, origin=250)
    np.testing.assert_array_equal(got[500:], want[500:])


def alarms(levels: np.ndarray, pfa: float) -> None:
    """Within 20 % of what is promised: six binomial deviations of 900 alarms, which all cases here have."""
    assert pfa * len(levels) >= 900
    assert abs((levels >= 1).mean() / pfa - 1) < 0.2


def test_false_alarms_are_as_many_as_promised() -> None:
    rng = np.random.default_rng(7)
    noise = rng.normal(5.0, 3.0, 1_000_000)
    for pfa, memory in [(1e-3, 200), (1e-2, 1000)]:
        alarms(iso.scan(noise, rate=1000).cfar(pfa, memory=memory).collect()[memory:], pfa)
    power = iso.scan(rng.exponential(7.0, 1_000_000), rate=1000)
    alarms(power.ca_cfar(1e-3).collect(), 1e-3)
    alarms(power.ca_cfar(1e-3, sides="before", training=32).collect(), 1e-3)
    alarms(power.ca_cfar(1e-3, order=0.75).collect(), 1e-3)
    squares = iso.scan(rng.normal(size=1_000_000) ** 2, rate=1000)
    alarms(squares.ca_cfar(1e-3, degrees=1).collect(), 1e-3)
    means = iso.scan((rng.normal(size=(1_000_000, 4)) ** 2).mean(1), rate=1000)
    alarms(means.ca_cfar(1e-3, degrees=4).collect(), 1e-3)


def test_audio_events_are_detected_by_their_score_and_taken_out_of_all_channels() -> None:
    """XStream's DETECTAUDIO, with the loudness of a window as its score."""
    rng = np.random.default_rng(11)
    channels = rng.normal(size=(4, 48_000))
    channels[:, 30_000:30_640] += 12 * np.sin(np.arange(640) * 0.9)
    scans = [iso.scan(channel, rate=48_000) for channel in channels]
    score = scans[0].rewindow(32).map(lambda s: (s * s).mean())
    events = score.cfar(deviations=8, memory=500).triggers(on=1)
    assert events.collect().tolist() == [[29_984, 30_656]]


def test_levels_of_windows_have_the_indices_of_the_windows_that_they_are_of() -> None:
    power = np.random.default_rng(5).exponential(size=400)
    power[250] = 80.0
    windows = iso.scan(np.repeat(power, 10), rate=1000).rewindow(10).map(lambda s: s.mean())
    table = windows.ca_cfar(1e-5, training=8).rows(level=lambda s: s.max()).collect()
    levels, starts = np.asarray(table["level"]), np.asarray(table["start"])
    assert starts.tolist() == list(range(100, 3900, 10))
    assert starts[levels >= 1].tolist() == [2500]
    assert windows.ca_cfar(1e-5, training=8).triggers(on=1).collect().tolist() == [[2500, 2510]]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda scan: scan.stalta(1, 1), "longer than sta=1 s"),
        (lambda scan: scan.stalta(0.001, 1), "half a sample"),
        (lambda scan: scan.triggers(1, 2), "at most on=1"),
        (lambda scan: scan.triggers(1, min_length=-1), "min_length"),
        (lambda scan: scan.cfar(), "deviations"),
        (lambda scan: scan.cfar(0.5), "pfa=0.5"),
        (lambda scan: scan.ca_cfar(1e-3, order=0.7, degrees=1), "2 where order"),
        (lambda scan: scan.running_quantile(1, 1.5), "q=1.5"),
        (lambda scan: scan.running_mean(0), "above 0 and at most 1e9 s"),
        (lambda scan: scan.rewindow(4).running_mean(1), "one number each"),
        (lambda scan: scan.map(lambda s: s.astype("c16")).cfar(0.01), "real samples"),
    ],
)
def test_what_does_not_fit_is_refused_when_the_step_is_added(build, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(iso.PlanError, match=says):
        build(iso.scan(np.ones(500), rate=100))


@pytest.mark.parametrize(
    "build",
    [
        lambda scan: scan.stalta([1], 2),
        lambda scan: scan.stalta(1, 2, method="fast"),
        lambda scan: scan.triggers(float("nan")),
        lambda scan: scan.cfar(0.01, memory=1.5),
        lambda scan: scan.ca_cfar(0.01, sides="left"),
        lambda scan: scan.running_rms(None),
    ],
)
def test_options_without_a_legal_value_are_refused(build) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(iso.OptionError):
        build(iso.scan(np.ones(500), rate=100))


def test_seconds_are_the_decimals_that_they_are_written_as() -> None:
    # 0.07 * 100 is 7.000000000000001 of floats, 0.29 * 100 is 28.999999999999996.
    for samples in range(1, 200):
        one = np.zeros(1000)
        one[300 : 300 + samples] = 1.0
        ranges = iso.scan(one, rate=100).triggers(on=0.5, min_length=samples / 100).collect()
        assert [(start, end) for start, end in ranges] == [(300, 300 + samples)]
        two = np.zeros(1000)
        two[[300, 301 + samples]] = 1.0
        merged = iso.scan(two, rate=100).triggers(on=0.5, merge=samples / 100).collect()
        assert [(start, end) for start, end in merged] == [(300, 302 + samples)]


def test_windows_of_seconds_are_the_decimals_that_they_are_written_as() -> None:
    # Half a sample counts as one more: 0.145 * 100 is 14.499999999999998 of floats.
    one = np.zeros(600)
    one[300] = 1.0
    signal = iso.scan(one, rate=100)
    for halves in range(1, 200):
        window = halves / 200
        expected = (halves + 1) // 2
        assert np.count_nonzero(signal.running_mean(window).collect()) == expected, window
        assert np.count_nonzero(signal.running_rms(window).collect()) == expected, window
        largest = signal.running_quantile(window, 1.0).collect()
        assert np.count_nonzero(largest) == expected, window
    for halves in range(3, 100, 2):
        sta, samples = halves / 200, (halves + 1) // 2
        exact = signal.stalta(sta=samples / 100, lta=1.5).collect()
        np.testing.assert_array_equal(signal.stalta(sta=sta, lta=1.5).collect(), exact, err_msg=str(sta))


def test_a_tolerance_of_seconds_is_the_decimal_that_it_is_written_as(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        first = store.create("first", dtype="f8", rate=100, start="2020-01-01T00:00:00Z")
        first.append(np.ones(150))
        for samples in range(1, 60):
            name = f"later by {samples}"
            later = store.create(name, dtype="f8", rate=100, start="2020-01-01T00:00:00Z")
            later.append_gap(samples=samples)
            later.append(np.ones(150))
            store.commit()
            rows, others = (iso.scan(store[one]).rewindow(150).stats("max") for one in ("first", name))
            # 0.07 and 0.29 of floats are a hair less than 7 and 29 samples.
            assert len(rows.join(others, tolerance=samples / 100).collect()["start"]) == 1, samples
            assert len(rows.join(others, tolerance=samples / 100 - 0.001).collect()["start"]) == 0, samples


def test_single_precision_seconds_count_as_they_print() -> None:
    one = np.zeros(100)
    one[30:37] = 1.0
    assert len(iso.scan(one, rate=100).triggers(on=0.5, min_length=np.float32(0.07)).collect()) == 1
