"""`Plan.align`: signals with clocks of their own at the times of one of them."""

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

import isochrony as iso

START = "2010-03-01T00:00:00Z"
#: Errors for a sine of w radians a sample and amplitude 1.
BOUNDS = {"linear": lambda w: w**2 / 8, "cubic": lambda w: 3 * w**4 / 128}


def wave(seconds: npt.NDArray[np.float64], cycles: float) -> npt.NDArray[np.float64]:
    return np.sin(2 * np.pi * cycles * seconds)


@pytest.fixture
def store(tmp_path: Path) -> iso.Store:
    return iso.open(tmp_path / "two.iso", mode="x")


@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize(("rate", "later_ns"), [(100, 3_000_000), (130, 333_333_333), (41.7, 5), (1000, 77_777)])
def test_values_are_those_of_the_references_times(store: iso.Store, method: str, rate: float, later_ns: int) -> None:
    """A sine of 3 Hz, sampled by two clocks: what is interpolated is the sine at the other's times."""
    a = store.create("a", dtype="f8", rate=200, start=START, unit="kPa")
    a.append(wave(np.arange(4000) / 200, 3))
    b = store.create("b", dtype="i2", rate=rate, start=np.datetime64("2010-03-01T00:00:00", "ns") + later_ns)
    b.append(np.zeros(int(15 * rate), "i2"))
    store.commit()
    plan = iso.scan(a).align(iso.scan(b), method=method)
    times = later_ns / 1e9 + np.arange(int(15 * rate)) / rate
    got = plan.collect()
    # The cubic needs a sample before the first time.
    left_out = int((times < (1 / 200 if method == "cubic" else 0)).sum())
    assert len(got) == len(times) - left_out
    # Times are whole nanoseconds.
    bound = BOUNDS[method](2 * np.pi * 3 / 200) + 2 * np.pi * 3 * 2e-9
    assert abs(got - wave(times, 3)[left_out:]).max() < bound
    # The same bits however either is cut.
    for cuts in [(7, 1000), (1000, 7), (64, 64)]:
        other = iso.scan(a, segment=cuts[0]).align(iso.scan(b, segment=cuts[1]), method=method)
        np.testing.assert_array_equal(other.collect(), got)
    # Both meet at equal indices.
    here, there = iso.scan(b).zip(plan)
    assert len(here.collect()) == len(there.collect()) == len(got)


@given(gap=st.integers(5, 400), at=st.integers(50, 900), cut=st.integers(1, 500), shift=st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_gaps_of_either_stay_gaps(
    tmp_path_factory: pytest.TempPathFactory, gap: int, at: int, cut: int, shift: float
) -> None:
    store = iso.open(tmp_path_factory.mktemp("gaps") / "two.iso", mode="x")
    seconds = np.arange(1500) / 100
    a = store.create("a", dtype="f8", rate=100, start=START)
    a.append(wave(seconds[:at], 1))
    a.append_gap(samples=gap)
    a.append(wave(seconds[at + gap :], 1))
    later = int(shift * 1e9)
    b = store.create("b", dtype="f4", rate=80, start=np.datetime64("2010-03-01T00:00:00", "ns") + later)
    b.append(np.zeros(300, "f4"))
    b.append_gap(samples=100)
    b.append(np.zeros(600, "f4"))
    store.commit()
    rows = iso.scan(a, segment=cut).align(iso.scan(b)).rewindow(1).rows(value=lambda s: s.max()).collect()
    index, values = np.asarray(rows["start"]), np.asarray(rows["value"])
    every = np.concatenate([np.arange(300), np.arange(400, 1000)])
    times = later / 1e9 + every / 80
    # Two samples of one stretch on either side.
    place = np.floor(times * 100 + 1e-6)
    inside = ((place >= 1) & (place + 2 < at)) | ((place >= at + gap + 1) & (place + 2 < 1500))
    # A time that falls on a sample may be taken for either side of it.
    sure = abs(times * 100 - np.round(times * 100)) > 1e-6
    assert set(every[inside & sure]) <= set(index) <= set(every[inside | ~sure])
    assert abs(values - wave(later / 1e9 + index / 80, 1)).max() < 3 * (2 * np.pi / 100) ** 4 / 128 + 1e-7


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_nothing_is_left_out_where_items_meet(store: iso.Store, method: str) -> None:
    """Also at rates of audio, whose periods are not long against the 256 ns that doubles tell of a time since 1970."""
    values = wave(np.arange(20_000) / 48_000, 100)
    for name, later_ns in [("a", 0), ("b", 3_300)]:
        start = np.datetime64("2026-05-01T00:00:00", "ns") + later_ns
        store.create(name, dtype="f8", rate=48_000, start=start).append(values)
    store.commit()
    here, there = (iso.scan(store[name], segment=1000) for name in ("a", "b"))
    got = here.align(there, method=method).collect()
    # Only at the ends: the cubic needs a sample before the first time and two behind the last, the line one.
    assert len(got) == 20_000 - (3 if method == "cubic" else 1)
    expected = wave(np.arange(20_000) / 48_000 + 3.3e-6, 100)[1 if method == "cubic" else 0 :][: len(got)]
    # Times are whole nanoseconds, and so off by half of one on either side.
    assert abs(got - expected).max() < BOUNDS[method](2 * np.pi * 100 / 48_000) + 2 * np.pi * 100 * 2e-9


def test_what_has_no_time_in_common_is_refused(store: iso.Store) -> None:
    here, there = (store.create(name, dtype="f4", rate=100) for name in ("a", "b"))
    here.append(np.zeros(10, "f4"))
    there.append(np.zeros(10, "f4"))
    store.commit()
    with pytest.raises(iso.PlanError, match="no civil time"):
        iso.scan(here).align(iso.scan(there))
    with pytest.raises(iso.PlanError, match="align before rewindow"):
        iso.scan(here).align(iso.scan(here).rewindow(4))
    with pytest.raises(iso.PlanError, match="real samples"):
        iso.scan(here).map(lambda s: s.astype("c16")).align(iso.scan(here))
    with pytest.raises(iso.OptionError):
        iso.scan(here).align(iso.scan(here), method="nearest")
    # Indices of one signal are the same times.
    np.testing.assert_array_equal(
        iso.scan(np.arange(9.0), rate=5).align(iso.scan(np.zeros(20), rate=5), method="linear").collect(), np.arange(9)
    )
