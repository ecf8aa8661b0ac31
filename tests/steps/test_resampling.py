"""`Plan.resample` and `Plan.decimate`: against SciPy, tones, and the times of the signal that they are of."""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.signal

import isochrony as iso
from made import START

RATIOS = [(2, 1), (1, 2), (1, 10), (10, 1), (160, 147), (147, 160), (3, 7)]


def scipys(samples: npt.NDArray[np.float64], up: int, down: int) -> npt.NDArray[np.float64]:
    """`resample_poly` with a lowpass longer than ours: 0.9 to 1 of half the lower rate, 120 dB."""
    half = 90 * max(up, down)
    lowpass = scipy.signal.firwin(2 * half + 1, 0.95 / max(up, down), window=("kaiser", 0.1102 * (120 - 8.7)))
    made: npt.NDArray[np.float64] = scipy.signal.resample_poly(samples, up, down, window=lowpass)
    return made


def passing(count: int, up: int, down: int, seed: int = 1) -> npt.NDArray[np.float64]:
    """Noise of unit deviation below 0.85 of half the lower rate: where both lowpasses are 1."""
    part = 0.85 * min(1.0, up / down)
    sections = scipy.signal.cheby2(12, 140, part, output="sos")
    noise = scipy.signal.sosfiltfilt(sections, np.random.default_rng(seed).standard_normal(count))
    return np.asarray(noise / noise.std())


@pytest.mark.parametrize(("up", "down"), RATIOS)
def test_what_passes_is_what_scipy_gives(up: int, down: int) -> None:
    samples = passing(40_000, up, down)
    want = scipys(samples, up, down)
    got = iso.scan(samples, rate=1000).resample(up=up, down=down, edges="zeros").collect()
    assert len(got) == len(want) == math.ceil(len(samples) * up / down)
    # Ends differ, as the lowpasses do: by half the longer one's samples at the lower rate.
    edge = 100 * max(1, up // down + 1)
    # What either lowpass gets wrong is 1e-5 at any frequency: six deviations of noise, and a square root of two.
    assert abs(got - want)[edge:-edge].max() < 8.5e-5
    single = iso.scan(samples.astype("f4"), rate=1000).resample(up=up, down=down, edges="zeros").collect()
    assert single.dtype == np.float32
    # And roundings of singles: of samples up to five deviations, and of 200 sums.
    assert abs(single - want)[edge:-edge].max() < 8.5e-5 + 5 * 6e-8 * 14
    inside = iso.scan(samples, rate=1000).resample(up=up, down=down).collect()
    at = np.flatnonzero(got == inside[0])[0]
    np.testing.assert_array_equal(inside, got[at : at + len(inside)])


@pytest.mark.parametrize("rate", [997.0, 1000.0000042, 123.456789])
def test_any_rate_keeps_tones_at_exact_places(rate: float) -> None:
    cycles = 0.4 * rate  # Hz, of a rate of 1000 where rate is more
    tone = np.sin(2 * np.pi * min(cycles, 440.0) * np.arange(100_000) / 1000)
    plan = iso.scan(tone, rate=1000).resample(rate, edges="zeros")
    got = plan.collect()
    want = np.sin(2 * np.pi * min(cycles, 440.0) * np.arange(len(got)) / rate)
    assert abs(got - want)[200:-200].max() < 4e-5
    assert f"resample(rate_hz={rate}" in str(plan)


def test_decimating_by_steps_or_at_once_is_one_timebase(store: iso.Store) -> None:
    signal = store.create("p", dtype="f8", rate=1000, start=START)
    signal.append(passing(60_000, 1, 40))
    store.commit()
    plan = iso.scan(signal)
    by_steps = plan.decimate(4).decimate(10)
    at_once = plan.decimate(40)
    a, b = (side.collect() for side in by_steps.zip(at_once))
    assert len(a) == len(b) > 1000
    assert abs(a - b).max() < 5e-5
    with pytest.raises(iso.PlanError, match="of one timebase"):
        plan.decimate(4).zip(plan)
    # There and back: the signal's own indices.
    back, own = (side.collect() for side in plan.resample(up=3, down=2).resample(up=2, down=3).zip(plan))
    assert abs(back - own).max() < 5e-5


def test_times_of_a_kept_tenth_are_the_signals_over_a_gap_and_a_clock_step(store: iso.Store) -> None:
    """A clock 200 ppm fast, a gap of 7.7 s, a clock step back by two hours."""
    signal = store.create("p", dtype="f4", rate=100)
    at, period = 1_267_401_600_000_000_000.0, 1e7 / 1.0002

    def minutes(at: float, count: int) -> float:
        for _ in range(count):
            signal.append(np.zeros(6000, "f4"), at=np.datetime64(round(at), "ns"), resolution=0)
            at += 6000 * period
        return at

    at = minutes(minutes(at, 5) + 7.7e9, 5)
    minutes(at - 7200e9, 5)
    store.commit()
    plan = iso.scan(signal).resample(up=3, down=10)
    plan.sink(store, "in tasks").run(workers=2)
    plan.sink(store, "slow").run()
    slow = store["slow"]
    # The edges that resampling leaves out are no gaps before the clock step, however many workers there are.
    assert [gap.length for gap in store["in tasks"].gaps] == [gap.length for gap in slow.gaps]
    assert float(slow.rate) == 30
    assert len(slow.gaps) == 1
    assert len(slow.runs()) == 2
    rows = plan.rewindow(50).rows(first=lambda s: s.min())
    starts, times = np.asarray(rows.collect()["start"]), np.asarray(rows.collect()["time"])
    for start, time in zip(starts.tolist(), times, strict=True):
        whole, part = divmod(start * 10, 3)
        want = int(signal.time_of(whole).ns) + round(part / 3 * period)
        assert abs(int(np.datetime64(time, "ns").astype(np.int64)) - want) <= 4
    assert slow.sample_count == len(plan.collect())


def test_options_that_say_nothing_are_refused() -> None:
    plan = iso.scan(np.zeros(100), rate=100)
    for wrong in [
        {}, {"rate_hz": 10, "up": 2}, {"up": 0}, {"down": 1.5}, {"rate_hz": math.nan}, {"up": 2, "edges": "mirror"},
    ]:  # fmt: skip
        with pytest.raises(iso.OptionError):
            plan.resample(**wrong)  # type: ignore[arg-type]
    for beyond in [{"rate_hz": -1.0}, {"down": 1 << 40}, {"up": 2, "passband": 1.0}, {"up": 2, "attenuation_db": 3}]:
        with pytest.raises(iso.PlanError, match="resample"):
            plan.resample(**beyond)  # type: ignore[arg-type]
    with pytest.raises(iso.OptionError):
        plan.decimate(0)
    with pytest.raises(iso.PlanError):
        plan.rewindow(10).decimate(2)


def test_plans_are_saved_and_come_back(store: iso.Store) -> None:
    signal = store.create("p", dtype="i2", rate=100.25, start=START)
    signal.append(np.arange(3000, dtype="i2"))
    store.commit()
    plan = iso.scan(signal).resample(99.9, passband=0.8).rewindow(100).map(lambda s: s.mean())
    again = iso.Plan.from_json(plan.to_json(), store=store)
    assert again == plan
    np.testing.assert_array_equal(again.collect(), plan.collect())


def test_a_converted_signal_is_kept_as_counts_in_its_new_unit(store: iso.Store) -> None:
    signal = store.create("p", dtype="i2", rate=100, unit="kPa", scale=0.5, offset=1, start=START)
    signal.append(np.arange(-50, 50, dtype="i2"))
    store.commit()
    iso.scan(signal).to_unit("Pa").sink(store, "pascal").run()
    kept = store["pascal"]
    assert (kept.dtype, kept.unit, kept.scale, kept.offset) == (np.int16, "Pa", 500.0, 1000.0)
    np.testing.assert_array_equal(np.asarray(kept[:]), np.asarray(signal[:]) * 1000)
    with pytest.raises(iso.PlanError, match='a unit of the quantity that "kPa" measures'):
        iso.scan(signal).to_unit("m/s")
    with pytest.raises(iso.OptionError, match="name of a unit"):
        iso.scan(signal).calibrate(unit=3)  # type: ignore[arg-type]


def test_files_behind_it_have_the_times_of_what_they_hold(tmp_path: Path) -> None:
    signal = iso.open(tmp_path / "water.iso", "x").create("mic", dtype="f4", rate=1000, start="2024-01-01")
    signal.append(np.zeros(60_000, "f4"))
    plan = iso.scan(signal).decimate(10)
    plan.sink_parquet(tmp_path / "slow.parquet").run()
    table = pq.read_table(tmp_path / "slow.parquet")
    first = table["index"][0].as_py()
    times = table["time"].cast(pa.int64()).to_numpy()
    begin = np.datetime64("2024-01-01", "ns").astype(np.int64)
    # 100 Hz, and index 0 lies where the signal's does.
    np.testing.assert_array_equal(times, begin + 10_000_000 * np.arange(first, first + len(times)))
    plan.sink_wav(tmp_path / "slow.wav").run()
    held = (tmp_path / "slow.wav").read_bytes()
    assert f"2024-01-01T00:00:{first / 100:09.6f}".rstrip("0").encode() in held
