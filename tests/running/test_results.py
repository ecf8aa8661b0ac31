"""Results with index, time and gaps: ``collect(as_=...)``."""

import json
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from made import START


def drifting(store: iso.Store) -> iso.Signal:
    """Calibrated counts of a clock 40 ppm fast; a gap; a clock step."""
    signal = store.create("stn/p", dtype="i2", rate=100, unit="kPa", scale=0.5, offset=1)
    rng = np.random.default_rng(5)
    at = float(np.datetime64(START.removesuffix("Z"), "ns").view("i8"))
    for _ in range(3):
        signal.append(rng.integers(-100, 100, 600).astype("i2"), at=np.datetime64(round(at), "ns"), resolution=0)
        at += 600 * 10_000_000 / 1.00004
    at += 3.3e9
    signal.append(rng.integers(-100, 100, 700).astype("i2"), at=np.datetime64(round(at), "ns"), resolution=0)
    signal.append(rng.integers(-100, 100, 500).astype("i2"), at=np.datetime64(round(at - 7200e9), "ns"), resolution=0)
    store.commit()
    return signal


def columns(signal: iso.Signal) -> dict[str, np.ndarray]:
    """Index, time and value of every sample, by the store."""
    segments = signal[:].segments
    index = np.concatenate([np.arange(one.start, one.end) for one in segments])
    return {
        "index": index,
        "time": signal.time_of(index),
        "p": np.concatenate([one.values() for one in segments]),
    }


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"optimise": False}])
def test_samples_keep_index_time_and_gaps(store: iso.Store, options: Any) -> None:
    signal = drifting(store)
    expected = columns(signal)
    table = iso.scan(signal, 250).collect(as_="table", **options)
    assert table.columns == ("index", "time", "p")
    assert table.units == {"p": "kPa"}
    for name, column in expected.items():
        np.testing.assert_array_equal(table[name], column)
        assert table[name].dtype == column.dtype


def test_samples_are_segments_up_to_gaps_and_clock_steps(store: iso.Store) -> None:
    signal = drifting(store)
    got, expected = iso.scan(signal, 250).collect(as_="segments"), signal[:].segments
    assert len(expected) == 3
    assert [(one.start, one.end) for one in got] == [(one.start, one.end) for one in expected]
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one.values(), other.values())
        assert (one.unit, one.name, one.rate) == (other.unit, other.name, other.rate)
        assert abs(int(one.time.ns) - int(other.time.ns)) <= 1
    assert iso.scan(signal[1900:1950]).collect(as_="segments") == []
    (whole,) = iso.scan(np.arange(9), 2, rate=10).collect(as_="segments")
    assert (whole.start, whole.end, whole.time) == (0, 9, None)
    np.testing.assert_array_equal(whole, np.arange(9))


@pytest.mark.parametrize("options", [{"workers": 2}, {"optimise": False}])
def test_segments_are_the_same_for_any_options(store: iso.Store, options: Any) -> None:
    plan = iso.scan(drifting(store), 250)
    for one, other in zip(plan.collect(as_="segments", **options), plan.collect(as_="segments"), strict=True):
        np.testing.assert_array_equal(one.values(), other.values())
        assert (one.start, one.time) == (other.start, other.time)


MEASURED = """
import sys, threading, time
import numpy as np
import isochrony as iso

def own():
    line = next(line for line in open("/proc/self/status") if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024

signal, form = iso.open(sys.argv[1])["long"], sys.argv[2]
iso.scan(signal[:1000]).collect(as_=form)
most, done, before = 0, False, own()
def watch():
    global most
    while not done:
        most = max(most, own())
        time.sleep(0.002)
thread = threading.Thread(target=watch)
thread.start()
result = iso.scan(signal).collect(as_=form)
done = True
thread.join()
print((most - before) / signal.sample_count)
"""


@pytest.mark.parametrize(("form", "bytes_a_sample"), [("segments", 2), ("table", 2 + 8 + 8)])
def test_a_form_takes_the_memory_of_its_result(store: iso.Store, form: str, bytes_a_sample: int) -> None:
    """Not that of the columns of all blocks beside it."""
    signal = store.create("long", dtype="i2", rate=1000, start=START)
    for _ in range(2):
        signal.append(np.arange(4_000_000).astype("i2"))
        signal.append_gap(samples=10)
    store.commit()
    command = [sys.executable, "-c", MEASURED, str(store.path), form]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    # Beside it one segment is joined, and the engine has a few blocks.
    assert float(done.stdout) < 1.5 * bytes_a_sample + 2


@pytest.mark.parametrize("rate", ["30000/1001", "100.5", "1/3", "44100"])
def test_segments_have_the_exact_rate(store: iso.Store, rate: str) -> None:
    signal = store.create("odd at 7 Hz at 1.2.3 Hz at 1 0 Hz", dtype="f8", rate=rate, unit="dB at 1/0 Hz at 9 Hz")
    signal.append(np.arange(50.0))
    (whole,) = iso.scan(signal).collect(as_="segments")
    assert whole.rate.fraction == Fraction(rate)


def test_xarray_has_coordinates_and_units(store: iso.Store) -> None:
    pytest.importorskip("xarray")
    signal = drifting(store)
    expected = columns(signal)
    array = iso.scan(signal).collect(as_="xarray")
    assert array.dims == ("time",)
    assert array.name == "stn/p"
    assert array.attrs == {"units": "kPa", "rate_hz": 100.0}
    np.testing.assert_array_equal(array.values, expected["p"])
    np.testing.assert_array_equal(array["index"].values, expected["index"])
    np.testing.assert_array_equal(array["time"].values, expected["time"])
    lazy = signal.to_xarray(gaps="drop")
    np.testing.assert_array_equal(lazy.values, array.values)
    np.testing.assert_array_equal(lazy["time"].values, array["time"].values)


def test_coordinates_of_a_signal_that_is_called_like_one(store: iso.Store) -> None:
    pytest.importorskip("xarray")
    for name in ("start", "end"):
        signal = store.create(f"x/{name}", dtype="f8", rate=10, start=START)
        signal.append(np.arange(5.0))
        array = iso.scan(signal).collect(as_="xarray")
        assert {*array.coords} == {"time", "index"}
        assert array.values.tolist() == [0, 1, 2, 3, 4]


def test_fields_that_are_called_like_a_position_stay_variables() -> None:
    pytest.importorskip("xarray")
    windows = iso.scan(np.arange(12.0), rate=10).rewindow(4)
    data = windows.rows(time=lambda s: s.mean(), index=lambda s: s.max(), wave=lambda s: s * 1.0).collect(as_="xarray")
    assert {*data.coords} == {"start", "end"}
    assert {*data.data_vars} == {"time", "index", "wave"}
    assert data["time"].values.tolist() == [1.5, 5.5, 9.5]
    assert data["wave"].dims == ("row", "wave_value")
    for name in ("row", "wave_value"):
        fields: Any = {name: lambda s: s.mean(), "wave": lambda s: s * 1.0}
        with pytest.raises(iso.PlanError, match=f"field '{name}' has the name of a dimension"):
            windows.rows(**fields).collect(as_="xarray")


def test_windows_keep_their_place(store: iso.Store) -> None:
    signal = drifting(store)
    windows = iso.scan(signal).rewindow(100, 50).filter(lambda s: s.max() > 50.2)
    rows = windows.rows(values=lambda s: s * 1.0, mean=lambda s: s.mean()).collect()
    table, means = iso.collect(windows, windows.map(lambda s: s.mean()), as_="table")
    assert 0 < len(table) < 60
    for name in ("start", "end", "time"):
        np.testing.assert_array_equal(table[name], rows[name])
        np.testing.assert_array_equal(means[name], rows[name])
    np.testing.assert_array_equal(table["values"], rows["values"])
    np.testing.assert_array_equal(means["value"], rows["mean"])
    assert table.units == {"values": "kPa"}
    pytest.importorskip("xarray")
    array = windows.collect(as_="xarray")
    assert array.dims == ("time", "value")
    assert {*array.coords} == {"time", "start", "end"}
    np.testing.assert_array_equal(array.values, rows["values"])


def test_windows_behind_a_gap_that_is_shorter_than_a_hop() -> None:
    def stretches() -> Iterator[tuple[int, np.ndarray]]:
        yield 0, np.array([1.0])
        yield 11, np.array([2.0, 3.0])

    table = iso.generate(stretches, dtype="f8", rate=10).rewindow(1, 12).collect(as_="table")
    assert table["start"].tolist() == [0, 11]
    assert table["value"].tolist() == [1, 2]


def test_spectra_have_a_frequency_axis(store: iso.Store) -> None:
    pytest.importorskip("xarray")
    plan = iso.scan(drifting(store)).spectrogram(64)
    array = plan.collect(as_="xarray")
    assert array.dims == ("time", "frequency")
    np.testing.assert_array_equal(array["frequency"], plan.frequencies)
    np.testing.assert_array_equal(array.values, plan.collect())
    assert array.attrs["units"] == "kPa^2/Hz"


def test_other_rates_have_times_of_their_own(store: iso.Store) -> None:
    signal = drifting(store)
    table = iso.scan(signal[:1800]).resample(rate_hz=25).collect(as_="table")
    assert len(table) > 200
    off = table["time"] - signal.time_of(4 * table["index"])
    assert abs(off.view("i8")).max() <= 1


def test_ranges_and_rows(store: iso.Store) -> None:
    signal = drifting(store)
    windows = iso.scan(signal).rewindow(100)
    ranges = windows.ranges()
    table = ranges.collect(as_="table")
    np.testing.assert_array_equal(np.column_stack([table["start"], table["end"]]), ranges.collect())
    np.testing.assert_array_equal(table["time"], signal.time_of(table["start"]))
    stats = windows.stats("mean")
    assert stats.collect(as_="table") == stats.collect()
    pytest.importorskip("xarray")
    data = stats.collect(as_="xarray")
    assert {*data.coords} == {"start", "end", "time"}
    assert data["mean"].attrs == {"units": "kPa"}
    np.testing.assert_array_equal(data["mean"].values, stats.collect()["mean"])
    groups = stats.group_by().agg(n="count").collect(as_="xarray")
    assert groups["n"].values.tolist() == [len(stats.collect())]


def test_nothing_found_has_the_same_columns(store: iso.Store) -> None:
    plan = iso.scan(drifting(store)).rewindow(100).filter(lambda s: s.max() > 1e9)
    table = plan.collect(as_="table")
    assert table.shape == (0, 4)
    assert table["values"].shape == (0, 100)
    assert table["time"].dtype == np.dtype("M8[ns]")


def test_runs_that_fail_say_why_and_can_be_repeated() -> None:
    fail = [True]

    def look(values: np.ndarray, start: int) -> None:
        if fail[0] and start >= 500:
            raise ValueError("enough")

    plan = iso.scan(np.arange(1000), 100, rate=10).each(look)
    with pytest.raises(iso.RunError, match="enough"):
        plan.collect(as_="table")
    fail[0] = False
    assert len(plan.collect(as_="table")) == 1000


def test_forms_that_do_not_fit_are_refused() -> None:
    scan = iso.scan(np.arange(10), rate=10)
    with pytest.raises(iso.OptionError, match="pandas"):
        scan.collect(as_="pandas")  # type: ignore[arg-type]
    for form in ("table", "xarray", "segments"):
        with pytest.raises(iso.PlanError, match="one number"):
            scan.count().collect(as_=form)  # type: ignore[arg-type]
    with pytest.raises(iso.PlanError, match=r'the plan gives windows.*as_="table"'):
        scan.rewindow(2).collect(as_="segments")
    with pytest.raises(iso.PlanError, match="give plans"):
        iso.collect(as_="table")


def test_plans_may_be_given_as_a_list() -> None:
    scan = iso.scan(np.arange(4.0), rate=10)
    plans = [scan.count(), scan.map(lambda s: s * 2)]
    for given in (plans, tuple(plans)):
        count, values = iso.collect(given)
        assert (count, values.tolist()) == (4, [0, 2, 4, 6])
    (table,) = iso.collect([scan], as_="table")
    assert len(table) == 4
    assert iso.run(plans).report.operators
    for wrong, message in (
        (([],), "got no plan; give plans, such as iso.scan(signal)"),
        ((), "got no plan; give plans, such as iso.scan(signal)"),
        ((plans, plans), "got list as argument 1; give plans, such as iso.scan(signal)"),
        ((plans[0], 1), "got int as argument 2; give plans, such as iso.scan(signal)"),
        (([1],), "got int; give plans, such as iso.scan(signal)"),
    ):
        for call in (iso.collect, iso.run):
            with pytest.raises(iso.PlanError) as caught:
                call(*wrong)  # type: ignore[operator]
            assert str(caught.value) == f"{call.__name__} {message}"


def test_saved_plans_cannot_name_tables_in_memory(store: iso.Store) -> None:
    signal = drifting(store)
    pytest.importorskip("pyarrow")
    plan = iso.scan(signal).sink_parquet(f"{store.path}.parquet")
    saved = json.loads(plan.to_json())
    (params,) = [node["params"] for node in saved["nodes"] if node["op"] == "sink_parquet"]
    params["gathered"] = "0" * 32
    with pytest.raises(iso.RunError, match="gathered"):
        iso.Plan.from_json(saved, store=store).run()
