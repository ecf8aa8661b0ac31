"""Lengths of windows, hops and lags: as samples, as text with a unit, as timedeltas."""

import json
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import isochrony as iso
from isochrony.plan.declarations import declared

SAMPLES = iso.scan(np.random.default_rng(1).standard_normal(6000), rate=2000)
WINDOWS = SAMPLES.rewindow(400)


@pytest.mark.parametrize(
    ("written", "in_samples"),
    [
        (lambda: SAMPLES.rewindow("125ms"), lambda: SAMPLES.rewindow(250)),
        (lambda: SAMPLES.rewindow(seconds=0.5, hop="125ms"), lambda: SAMPLES.rewindow(1000, 250)),
        (lambda: SAMPLES.rewindow("512 samples", "1e-3 s"), lambda: SAMPLES.rewindow(512, 2)),
        (lambda: SAMPLES.rewindow(timedelta(milliseconds=125)), lambda: SAMPLES.rewindow(250)),
        (lambda: SAMPLES.rewindow(np.timedelta64(125, "ms")), lambda: SAMPLES.rewindow(250)),
        (lambda: SAMPLES.rewindow(pd.Timedelta("125ms")), lambda: SAMPLES.rewindow(250)),
        (lambda: SAMPLES.rewindow(np.timedelta64(5, "25ms")), lambda: SAMPLES.rewindow(250)),
        (lambda: SAMPLES.rewindow(np.timedelta64(500_000_000, "ps")), lambda: SAMPLES.rewindow(1)),
        (lambda: SAMPLES.running_mean(np.timedelta64(1, "m")), lambda: SAMPLES.running_mean(60.0)),
        (lambda: WINDOWS.xcorr(WINDOWS, max_lag="10ms"), lambda: WINDOWS.xcorr(WINDOWS, 20)),
        (lambda: WINDOWS.gcc_phat(WINDOWS, "10ms"), lambda: WINDOWS.gcc_phat(WINDOWS, 20)),
        (lambda: WINDOWS.delay(WINDOWS, "10ms"), lambda: WINDOWS.delay(WINDOWS, 20)),
        (lambda: WINDOWS.welch("100ms", "25ms"), lambda: WINDOWS.welch(200, 50)),
        (lambda: SAMPLES.stft("125ms"), lambda: SAMPLES.stft(250)),
        (lambda: SAMPLES.spectrogram("0.0005 min", "10ms"), lambda: SAMPLES.spectrogram(60, 20)),
        (lambda: WINDOWS.ranges(join="1ms", before="2ms", after="3us"), lambda: WINDOWS.ranges(join=2, before=4)),
        (lambda: SAMPLES.running_mean("2ms"), lambda: SAMPLES.running_mean(0.002)),
        (lambda: SAMPLES.running_mean("4 samples"), lambda: SAMPLES.running_mean(0.002)),
        (lambda: SAMPLES.running_rms("2ms"), lambda: SAMPLES.running_rms(0.002)),
        (lambda: SAMPLES.running_quantile("2ms", 0.5), lambda: SAMPLES.running_quantile(0.002, 0.5)),
        (lambda: SAMPLES.stalta("10ms", "1s"), lambda: SAMPLES.stalta(0.01, 1)),
        (
            lambda: SAMPLES.triggers(on=1, min_length="2 samples", merge="5ms"),
            lambda: SAMPLES.triggers(on=1, min_length=0.001, merge=0.005),
        ),
        (lambda: SAMPLES.cfar(deviations=3, memory="50ms"), lambda: SAMPLES.cfar(deviations=3, memory=100)),
        (
            lambda: WINDOWS.map(lambda s: s.mean()).cfar(deviations=3, memory="2s"),
            lambda: WINDOWS.map(lambda s: s.mean()).cfar(deviations=3, memory=10),
        ),
        (
            lambda: WINDOWS.stats("max").join(WINDOWS.stats("min"), tolerance="10ms"),
            lambda: WINDOWS.stats("max").join(WINDOWS.stats("min"), tolerance=0.01),
        ),
        (
            lambda: SAMPLES.feedback(lambda x, y: x.map(lambda s, t: s + t / 2, y), delay="1ms"),
            lambda: SAMPLES.feedback(lambda x, y: x.map(lambda s, t: s + t / 2, y), delay=2),
        ),
    ],
)
def test_a_length_is_what_it_says(written: Callable[[], iso.Plan], in_samples: Callable[[], iso.Plan]) -> None:
    found, wanted = written().collect(), in_samples().collect()
    if isinstance(found, iso.Table):
        assert found.to_pandas().equals(wanted.to_pandas())
    else:
        np.testing.assert_array_equal(found, wanted)


def test_every_parameter_in_samples_or_seconds_is_a_length() -> None:
    """Of those in samples that are not, one is a position and one a ratio."""
    in_time = {
        (one["name"], param["name"]): param["length"]
        for one in declared()
        for param in one["params"]
        if param["unit"] in ("samples", "s", "samples or windows")
    }
    assert {name for name, is_length in in_time.items() if not is_length} == {
        ("between", "start"), ("between", "end"), ("resample", "up"), ("resample", "down")
    }  # fmt: skip
    assert len(in_time) > 20


@given(
    st.integers(1, 10**9),
    st.sampled_from(["ns", "us", "ms", "s", "min", "h"]),
    st.sampled_from([1, 100, 2000, 44_100, 48_000]),
)
def test_a_time_is_the_nearest_number_of_samples(number: int, unit: str, rate: int) -> None:
    seconds = {
        "ns": Fraction(1, 10**9),
        "us": Fraction(1, 10**6),
        "ms": Fraction(1, 1000),
        "s": 1,
        "min": 60,
        "h": 3600,
    }
    exact = Fraction(number) * seconds[unit] * rate
    wanted = int(exact + Fraction(1, 2))  # halves up
    scan = iso.scan(np.zeros(3), rate=rate)
    if 1 <= wanted <= 1 << 46:
        assert str(scan.rewindow(f"{number}{unit}")) == f"scan(array) -> rewindow(window={wanted})"
    else:
        with pytest.raises(iso.PlanError, match=rf"which is {wanted} samples at {rate} Hz"):
            scan.rewindow(f"{number}{unit}")


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: SAMPLES.rewindow("125"), iso.PlanError, 'window="125" must be an integer from 1 to 2^46 samples'),
        (lambda: SAMPLES.rewindow("125"), iso.PlanError, 'samples, or text such as "125ms" or "512 samples"'),
        (lambda: SAMPLES.rewindow("3 parsecs"), iso.PlanError, 'window="3 parsecs" must be'),
        (lambda: SAMPLES.rewindow("-1s"), iso.PlanError, 'window="-1s" must be'),
        (lambda: SAMPLES.rewindow(timedelta(seconds=-1)), iso.PlanError, "must be"),
        (lambda: SAMPLES.rewindow("1us"), iso.PlanError, 'window="1us", which is 0 samples at 2000 Hz, must be'),
        (lambda: SAMPLES.rewindow(0.5), iso.OptionError, 'from 1 to 2^46, or a length such as "125ms"'),
        (lambda: SAMPLES.rewindow(np.timedelta64("NaT")), iso.OptionError, "is refused"),
        (lambda: SAMPLES.rewindow(np.timedelta64("NaT", "s")), iso.OptionError, "is refused"),
        (lambda: SAMPLES.rewindow(np.timedelta64(5)), iso.OptionError, "(5) is refused, since it has no unit"),
        (lambda: SAMPLES.running_mean(np.timedelta64(5)), iso.OptionError, "since it has no unit"),
        (lambda: SAMPLES.rewindow(np.timedelta64(1, "M")), iso.OptionError, "since a month is no fixed time"),
        (lambda: SAMPLES.rewindow(np.timedelta64(1, "Y")), iso.OptionError, "since a year is no fixed time"),
        # More nanoseconds than 64 bits hold.
        (lambda: SAMPLES.rewindow(np.timedelta64(10**18, "s")), iso.PlanError, 'window="1000000000000000000s"'),
        (lambda: SAMPLES.rewindow("5m"), iso.PlanError, 'or "512 samples"; for minutes write "min"'),
        (lambda: SAMPLES.running_mean("1.5 m"), iso.PlanError, 'window="1.5 m" must be'),
        (lambda: SAMPLES.running_mean("1.5 m"), iso.PlanError, '; for minutes write "min"'),
        (lambda: SAMPLES.rewindow(), iso.OptionError, "rewindow takes window="),
        (lambda: SAMPLES.rewindow(3, seconds=1), iso.OptionError, "rewindow takes window="),
        (lambda: SAMPLES.rewindow(seconds=float("nan")), iso.OptionError, "finite number of seconds"),
        (lambda: SAMPLES.running_mean("x"), iso.PlanError, 'running_mean: window="x" must be'),
        (lambda: SAMPLES.stalta("1s", None), iso.OptionError, 'or a length such as "125ms" or "512 samples"'),
        (
            lambda: WINDOWS.stats("max").join(WINDOWS.stats("min"), tolerance="3 samples"),
            iso.PlanError,
            "join: tolerance=3 samples must be a time",
        ),
    ],
)  # fmt: skip
def test_what_is_no_length_is_refused(build: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        build()
    assert message in str(raised.value)


def test_a_saved_plan_may_have_lengths_as_text(store: iso.Store) -> None:
    signal = store.create("p", dtype="f8", rate=2000)
    signal.append(np.arange(1000.0))
    store.commit()
    saved = json.loads(iso.scan(signal).rewindow(250).to_json())
    saved["nodes"][1]["params"]["window"] = "125ms"
    assert iso.Plan.from_json(saved, store=store) == iso.scan(signal).rewindow(250)
    kept = iso.scan(signal).running_mean("4 samples")
    assert iso.Plan.from_json(kept.to_json(), store=store) == kept
