"""What signals and selections have in common, and what a user tries first with them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from made import START, pressure

SECOND = 1_000_000_000


def test_a_signal_has_times_as_its_selection_has(store: iso.Store) -> None:
    signal = pressure(store)
    whole = signal[:]
    assert signal.start_time == whole.start_time == iso.Time(START)
    assert signal.end_time == whole.end_time == iso.Time(START) + 25
    assert signal.duration == whole.duration == 25
    assert isinstance(signal.duration, Fraction)
    assert [(one.start, one.end) for one in signal.segments] == [(0, 1000), (1500, 2500)]
    np.testing.assert_array_equal(signal.times(), whole.times())
    expected = np.datetime64(START[:-1], "ns") + np.arange(2500) * np.timedelta64(10, "ms")
    np.testing.assert_array_equal(signal.times(), expected)
    part = signal[900:1600]
    assert (part.start_time, part.end_time, part.duration) == (signal.time_of(900), signal.time_of(1600), 7)
    # Its own times select it again.
    assert signal[part.start_time : part.end_time].ranges == part.ranges
    assert signal[signal.start_time : signal.end_time].ranges == whole.ranges


def test_times_are_the_earliest_and_latest_where_the_clock_was_set_back(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate=10, start="2020-01-02")
    signal.append(np.zeros(20, "i2"))
    signal.append(np.zeros(30, "i2"), at="2020-01-01")
    assert (signal.start_time, signal.end_time) == (iso.Time("2020-01-01"), iso.Time("2020-01-02") + 2)
    assert signal.duration == 86_402
    assert signal[:20].start_time == iso.Time("2020-01-02")
    assert signal[10:30].start_time == iso.Time("2020-01-01")


def test_without_civil_time_there_are_none(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate="100/3")
    for handle in (signal, signal[:]):
        assert (handle.start_time, handle.end_time, handle.duration) == (None, None, 0)
    signal.append(np.zeros(50, "i2"))
    for handle in (signal, signal[:]):
        assert (handle.start_time, handle.end_time, handle.duration) == (None, None, Fraction(3, 2))


def test_a_position_gives_one_value(store: iso.Store) -> None:
    signal = pressure(store, dtype="i2", scale=0.5, offset=1)
    part = signal[900:1600]
    values = part.values()
    for position in (0, 5, 99, 600, 699, -1, -100, np.int64(3)):
        assert part[position] == values[position]
        assert part[position] == signal[900 + int(position) % 700]
    with pytest.raises(iso.GapError, match="index 1000"):
        part[100]
    for position in (700, -701, 2**62, -(2**62)):
        with pytest.raises(IndexError, match=f"position {position} is outside the selection of 700 indices") as caught:
            part[position]
        assert isinstance(caught.value, iso.StoreError)
    for key in (slice(0, 2), "2020", 1.5, True, None):
        with pytest.raises(TypeError, match=r"selection\.signal\[a:b\]"):
            part[key]  # type: ignore[index]
    for start in (0, 3):
        empty = signal[start:start]
        assert (empty.start_time, empty.end_time, empty.duration) == (None, None, 0)
        for position in (0, -1):
            with pytest.raises(IndexError, match=f"position {position} is outside an empty selection of signal"):
                empty[position]


def test_a_position_counts_across_runs(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate=1, start="2020-01-02")
    signal.append(np.arange(5, dtype="i2"))
    signal.append(np.arange(5, 10, dtype="i2"), at="2020-01-01")
    by_time = signal["2020-01-01":"2020-01-03"]
    assert by_time.ranges == [(5, 10), (0, 5)]
    assert [by_time[k] for k in range(10)] == by_time.values().tolist() == [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]


def test_iterating_is_refused_on_both(store: iso.Store) -> None:
    signal = pressure(store)
    for handle, name in ((signal, "signal"), (signal[:], "selection")):
        with pytest.raises(
            TypeError, match=rf"{name}\.segments.*isochrony\.scan\({name}\).*{name}\.values\(\)"
        ) as caught:
            iter(handle)
        assert caught.value.code == "not_iterable"
        with pytest.raises(TypeError, match="segments"):
            list(handle)
        # Libraries that ask for an array are not bothered.
        assert np.nanmax(np.asarray(handle[:1000] if name == "signal" else signal[:1000])) == 999


def test_a_pattern_that_nothing_fits_says_what_does(store: iso.Store) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.find("*") == []  # An empty store has nothing to hint at.
    for name in ("stn_1/p", "stn_2/p"):
        store.create(name, dtype="i2", rate=1)
    with pytest.warns(iso.NoMatchWarning, match=r"find\('\*\*'\) gives 2; the store has 'stn_1/p', 'stn_2/p'"):
        assert store.find("*") == []
    with pytest.warns(iso.NoMatchWarning, match=r"find\('\*\*/p'\) gives 2") as caught:
        assert store.find("p") == []
    assert caught[0].filename == __file__
    with pytest.warns(iso.NoMatchWarning, match="the store has"):
        assert store.find("a/b") == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(store.find("*/p")) == 2
    with pytest.raises(KeyError, match=r"stn_\*/p.*that is a pattern, and find\(\) takes those"):
        store["stn_*/p"]


def test_dir_shows_public_names_only() -> None:
    assert dir(iso) == sorted([*iso.__all__, "__version__"])


def test_now_is_the_systems_clock() -> None:
    before = iso.Time(np.datetime64("now", "ns"))
    assert 0 <= iso.now() - before < 60


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("2024", "2024-01-01T00:00:00Z"),
        ("2024-03", "2024-03-01T00:00:00Z"),
        ("2024-03-05", "2024-03-05T00:00:00Z"),
        ("2024-03-05T07", "2024-03-05T07:00:00Z"),
        ("2024-03-05T07:08", "2024-03-05T07:08:00Z"),
    ],
)
def test_what_a_time_leaves_out_is_its_least_value(store: iso.Store, text: str, whole: str) -> None:
    assert iso.Time(text) == iso.Time(whole)
    assert iso.Time(text).to_datetime64() == np.datetime64(text, "ns")
    signal = store.create("x", dtype="i2", rate=1, start=text)
    signal.append(np.zeros(3, "i2"))
    signal.append(np.zeros(3, "i2"), at=iso.Time(text) + 10)
    assert signal[text:].sample_count == 6
    other = store.create("y", dtype="i2", rate=1)
    other.append(np.zeros(3, "i2"), at=text)
    assert other.start_time == iso.Time(whole)


def test_a_year_of_a_signal(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate="1/86400", start="2023-12-31")
    signal.append(np.zeros(500, "i2"))
    assert signal["2024":"2025"].sample_count == 366
    assert signal[iso.span("2024-02", "2024-03")].sample_count == 29
    for text in ("24", "202403", "2024-13", "2024-3", "2024Z"):
        with pytest.raises(iso.TimeError, match=text):
            iso.Time(text)


# --- changes that nobody commits ----------------------------------------------


def _opened(path: Path) -> iso.Store:
    store = iso.open(path, "x")
    store.create("a", dtype="i2", rate=1).append(np.zeros(7, "i2"))
    store.commit()
    store["a"].append(np.zeros(5, "i2"))
    store.create("b", dtype="i2", rate=1).append(np.zeros(3, "i2"))
    return store


def test_a_dropped_store_warns_of_what_is_lost(tmp_path: Path) -> None:
    store = _opened(tmp_path / "x.iso")
    match = r"x\.iso: 8 samples of 2 signals \(a, b\) were not committed and are lost; call store\.commit\(\)"
    with pytest.warns(iso.UncommittedWarning, match=match) as caught:
        del store
        gc.collect()
    assert len(caught) == 1
    with iso.open(tmp_path / "x.iso") as store:
        assert (store.keys(), store["a"].end_index) == (["a"], 7)


def test_a_signal_keeps_its_store(tmp_path: Path) -> None:
    signal = _opened(tmp_path / "x.iso")["a"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
        assert signal.end_index == 12
    with pytest.warns(iso.UncommittedWarning):
        del signal
        gc.collect()


def test_changes_without_samples(tmp_path: Path) -> None:
    store = iso.open(tmp_path / "x.iso", "x")
    store.create("a", dtype="i2", rate=1)
    with pytest.warns(iso.UncommittedWarning, match=r"changes of 1 signal \(a\)"):
        del store
        gc.collect()


def test_who_closed_is_not_warned(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _opened(tmp_path / "committed.iso").close()
        _opened(tmp_path / "forgotten.iso").close(commit=False)
        with _opened(tmp_path / "with.iso"):
            pass
        with pytest.raises(ZeroDivisionError), _opened(tmp_path / "failed.iso"):
            1 / 0  # noqa: B018
        store = _opened(tmp_path / "rested.iso")
        store.commit()
        store.scratch(dtype="i2", rate=1).append(np.zeros(5, "i2"))
        del store
        iso.open(tmp_path / "rested.iso")
        gc.collect()


def test_an_error_that_is_being_raised_stays(tmp_path: Path) -> None:
    def failing() -> None:
        store = _opened(tmp_path / "x.iso")
        raise KeyError(len(store))

    with pytest.warns(iso.UncommittedWarning):
        try:
            failing()
        except KeyError as error:
            assert error.args == (2,)
        gc.collect()


PROGRAM = """
import numpy as np, isochrony as iso
store = iso.open({path!r}, "x")
signal = store.create("a", dtype="i2", rate=1)
signal.append(np.zeros(5, "i2"))
{then}
"""


@pytest.mark.parametrize(
    ("then", "warned", "code"),
    [
        ("", 1, 0),
        ("store.commit()", 0, 0),
        ("store.close()", 0, 0),
        ("raise SystemExit(3)", 1, 3),
        ("1 / 0", 1, 1),
        ("with store: 1 / 0", 0, 1),
        ("del store, signal", 1, 0),
        ("import warnings; warnings.simplefilter('ignore', iso.UncommittedWarning)", 0, 0),
        ("import os; child = os.fork(); child and os.waitpid(child, 0); child and store.close()", 0, 0),
    ],
)
def test_a_program_that_ends_warns_once(tmp_path: Path, then: str, warned: int, code: int) -> None:
    program = PROGRAM.format(path=str(tmp_path / "x.iso"), then=then)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ})
    assert ended.returncode == code, ended.stderr
    assert ended.stderr.count("5 samples of 1 signal (a) were not committed") == warned, ended.stderr
    assert ended.stderr.count("UncommittedWarning: ") == warned


# --- appending with a cast, arrays with times ----------------------------------


def test_a_cast_rounds_and_refuses_what_does_not_fit(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate=1)
    samples = np.array([0.5, 1.5, 2.5, -0.5, 32767.4, -32768.4])
    signal.append(samples, cast=True)
    np.testing.assert_array_equal(signal.values(counts=True), np.rint(samples).astype("i2"))
    signal.append(np.array([7, -7]), cast=True)
    signal.append([1.0, 2.0], cast=True)
    assert signal.end_index == 10
    for bad, place in (
        (np.array([0, 32767.5]), "32767.5 at position 1"),
        (np.r_[np.zeros(100_000), np.nan], "nan at position 100000"),
        (np.array([np.inf]), "inf at position 0"),
        (np.array([70_000]), "70000 at position 0"),
        (np.array([-40_000], "i4"), "-40000 at position 0"),
        (np.array([2**63], "u8"), "9223372036854775808 at position 0"),
        (np.array([1 + 1j]), r"\(1\+1j\) at position 0"),
    ):
        with pytest.raises(iso.StoreError, match=f"samples for 'x': {place} does not fit int16") as caught:
            signal.append(bad, cast=True)
        assert isinstance(caught.value, ValueError)
    assert signal.end_index == 10
    with pytest.raises(TypeError, match="cast=True"):
        signal.append(samples)
    with pytest.raises(TypeError, match="datetime64"):
        signal.append(np.array(["2020"], "M8[ns]"), cast=True)


@pytest.mark.parametrize("stored", ["?", "i1", "u1", "i2", "u2", "i4", "i8", "f4", "f8", "c8"])
def test_casts_agree_with_numpy_where_all_fits(store: iso.Store, stored: str) -> None:
    signal = store.create("x", dtype=stored, rate=1)
    whole = [0, 1] if stored == "?" else [0, 1, 100]
    for dtype in ("?", "i1", "u2", "i8", "u8", "f2", "f4", "f8", "c16"):
        given = np.array(whole).astype(dtype)
        signal.append(given, cast=True)
        found = signal[-len(given) :].values(counts=True)
        np.testing.assert_array_equal(
            found, given.astype(stored) if np.dtype(stored).kind == "c" else given.real.astype(stored)
        )


def test_a_cast_to_a_smaller_float_refuses_infinity(store: iso.Store) -> None:
    signal = store.create("x", dtype="f4", rate=1)
    signal.append(np.array([1 / 3, np.nan, np.inf]), cast=True)
    np.testing.assert_array_equal(signal.values(counts=True), np.array([1 / 3, np.nan, np.inf], "f4"))
    with pytest.raises(iso.StoreError, match=r"1e\+39 at position 1 does not fit float32"):
        signal.append(np.array([0, 1e39]), cast=True)


def test_an_array_has_times(store: iso.Store) -> None:
    x = np.arange(50.0)
    table = iso.scan(x, rate=10, start="2024").rewindow(20).stats("max").collect()
    np.testing.assert_array_equal(table["time"], np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:02"], "M8[ns]"))
    (segment,) = iso.scan(x, rate=10, start="2024").collect(as_="segments")
    assert segment.time == iso.Time("2024")
    iso.scan(x, rate=10, start="2024").sink(store, "kept").run()
    assert (store["kept"].start_time, store["kept"].end_time) == (iso.Time("2024"), iso.Time("2024") + 5)
    # Arrays of one start and rate share a clock.
    a, b = (iso.scan(values, rate=10, start="2024") for values in (x, -x))
    np.testing.assert_array_equal(a.map(lambda p, q: p + q, b).collect(), np.zeros(50))
    with pytest.raises(iso.PlanError):
        a.map(lambda p, q: p + q, iso.scan(x, rate=10, start="2025"))
    np.testing.assert_array_equal(iso.scan(x, rate=10, start="2024").collect(workers=2), x)


def test_an_array_computed_of_a_signal_meets_it(store: iso.Store) -> None:
    signal = pressure(store)
    doubled = 2 * signal[100:900].values()
    scan = iso.scan(doubled, clock=signal, start=100, unit="kPa")
    difference = scan.map(lambda a, b: a - 2 * b, iso.scan(signal))
    np.testing.assert_array_equal(difference.collect(), np.zeros(800))
    table = scan.collect(as_="table")
    np.testing.assert_array_equal(table["index"], np.arange(100, 900))
    np.testing.assert_array_equal(table["time"], signal[100:900].times())
    by_time = iso.scan(doubled, clock=signal, start=iso.Time(START) + 1)
    np.testing.assert_array_equal(by_time.collect(as_="table")["index"], np.arange(100, 900))
    for refused in ({"clock": signal, "rate": 50}, {"clock": signal, "start": True}, {}):
        with pytest.raises(iso.IsochronyError):
            iso.scan(doubled, **refused)
    with pytest.raises(iso.PlanError, match="start="):
        iso.scan(signal, start="2024")
    assert iso.scan(doubled, clock=signal, rate=100).count().collect() == 800
