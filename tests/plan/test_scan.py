"""Windowed statistics by `iso.scan`."""

import warnings

import duckdb
import hypothesis.strategies as st
import numpy as np
import polars
import pytest
from hypothesis import given, settings

import isochrony as iso
from made import START, pressure


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_windows_agree_with_numpy(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["i2", "u1", "f4", "f8"]))
    window = data.draw(st.integers(1, 30))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = []
    with iso.open(tmp_path_factory.mktemp("s") / "x.iso", "x") as store:
        signal = store.create("x", dtype=dtype, rate=10, start=START)
        at = 0
        for count, gap in data.draw(st.lists(st.tuples(st.integers(1, 90), st.integers(1, 9)), min_size=1, max_size=4)):
            x = (rng.standard_normal(count) * 50).astype(dtype)
            signal.append(x)
            for k in range(count // window):
                part = x[k * window : (k + 1) * window].astype("f8")
                rows.append((at + k * window, part.min(), part.max(), part.mean(), part.std(), len(part)))
            signal.append_gap(samples=gap)
            at += count + gap
        table = iso.scan(signal).rewindow(window).stats("min", "max", "mean", "std", "count").collect()
    expected = np.array(rows).reshape(-1, 6).T
    np.testing.assert_array_equal(table["start"], expected[0])
    np.testing.assert_array_equal(table["end"], expected[0] + window)
    np.testing.assert_array_equal(table["min"], expected[1])
    np.testing.assert_array_equal(table["max"], expected[2])
    np.testing.assert_allclose(table["mean"], expected[3], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(table["std"], expected[4], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(table["count"], expected[5])


def test_a_part_gives_windows_from_its_first_sample_on_or_the_signals_own(store: iso.Store) -> None:
    signal = pressure(store)
    whole = iso.scan(signal).rewindow(100).stats("mean").collect()
    part = iso.scan(signal[150:1790]).rewindow(100, anchor="run").stats("mean").collect()
    assert list(part["start"]) == [200, 300, 400, 500, 600, 700, 800, 900, 1500, 1600]
    assert set(part["start"]) <= set(whole["start"])
    own = iso.scan(signal[150:1790]).rewindow(100).stats("mean").collect()
    assert list(own["start"]) == [150, 250, 350, 450, 550, 650, 750, 850, 1500, 1600]
    kept = iso.scan(signal[150:1790]).rewindow(100, tail="keep").stats("count").collect()
    assert list(kept["count"]) == [100] * 8 + [50, 100, 100, 90]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_selection_of_exactly_one_window_gives_that_window(store: iso.Store, workers: int) -> None:
    signal = pressure(store)
    samples = signal.values(fill=0)
    for start in (0, 1, 137, 700):
        np.testing.assert_array_equal(
            iso.scan(signal[start : start + 100]).rewindow(100).collect(workers=workers), [samples[start : start + 100]]
        )
    # Of several selections that meet, from the first sample that all have.
    a, b = iso.scan(signal[30:500]), iso.scan(signal[70:600])
    both = a.map(lambda x, y: x + y, b).rewindow(100).stats("count").collect(workers=workers)
    assert both["start"].tolist() == [70, 170, 270, 370]
    # A range of indices moves into the scan and leaves windows where they are.
    windows = iso.scan(signal).rewindow(100).between(150, 700)
    assert windows.stats("count").collect(workers=workers)["start"].tolist() == [200, 300, 400, 500, 600]
    part = iso.scan(signal).between(150, 700).rewindow(100).stats("count")
    for optimise in (True, False):
        assert part.collect(workers=workers, optimise=optimise)["start"].tolist() == [150, 250, 350, 450, 550]


@pytest.mark.parametrize("workers", [1, 2])
def test_windows_of_a_selection_are_the_same_however_it_is_cut(store: iso.Store, workers: int) -> None:
    signal = pressure(store)
    plan = iso.scan(signal[37:1790]).rewindow(64, 24).map(lambda s: s + 1)
    np.testing.assert_array_equal(plan.collect(workers=workers), plan.collect(optimise=False))


def test_an_empty_result_says_why(store: iso.Store) -> None:
    signal = pressure(store)  # 1000 samples, a gap of 500, 500 samples
    short = iso.scan(signal[10:60]).rewindow(100)
    with pytest.warns(
        iso.EmptyResultWarning, match=r"rewindow\(window=100\) made no window: .* has 100 of them"
    ) as caught:
        assert short.collect().shape == (0, 100)
    assert caught[0].filename == __file__
    with pytest.warns(iso.EmptyResultWarning):
        assert len(short.stats("mean").collect(workers=2)) == 0
    with pytest.warns(iso.EmptyResultWarning):
        assert len(short.collect(as_="table")) == 0
    with pytest.warns(iso.EmptyResultWarning):
        report = short.stats("mean").run().report
    assert report.notes[0] in str(report)
    with pytest.warns(iso.EmptyResultWarning, match="read nothing: all of the selection lies in gaps"):
        assert len(iso.scan(signal[1100:1200]).collect()) == 0
    another_day = signal[iso.span("2010-03-02", "2010-03-03")]
    beyond = "has indices 0 to 2499, from 2010-03-01T00:00:00Z to 2010-03-01T00:00:24.990Z; select some of these"
    for nothing in (another_day, signal[5000:6000], signal[10:10]):
        with pytest.warns(iso.EmptyResultWarning, match=beyond):
            assert len(iso.scan(nothing).collect()) == 0
    with pytest.warns(iso.EmptyResultWarning, match='signal "empty" has no samples'):
        assert iso.scan(store.create("empty", dtype="f4", rate=1)).rewindow(5).count().collect() == 0
    own = iso.scan(signal[50:170]).rewindow(100, anchor="run")
    with pytest.warns(iso.EmptyResultWarning, match="counted from the start of the gap-free range"):
        assert len(own.collect()) == 0


def test_legitimate_empty_results_are_silent(store: iso.Store) -> None:
    signal = pressure(store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        windows = iso.scan(signal).rewindow(100)
        assert len(windows.filter(lambda s: s.max() > 1e9).collect()) == 0
        assert len(iso.scan(signal).triggers(on=1e9).collect()) == 0
        assert len(windows.limit(1).filter(lambda s: s.max() > 1e9).collect()) == 0


def test_times_units_and_calibration(store: iso.Store) -> None:
    signal = pressure(store, dtype="i2", scale=-0.5, offset=1)
    table = iso.scan(signal).rewindow(500).stats("min", "max").collect()
    assert table.columns == ("start", "end", "time", "min", "max")
    assert table["time"][2] == np.datetime64("2010-03-01T00:00:15", "ns")
    assert table["max"][0] == 1.0
    assert table["min"][0] == 1 - 499 / 2
    assert table.units == {"min": "kPa", "max": "kPa"}


def test_plans_print_compare_and_explain(store: iso.Store) -> None:
    signal = pressure(store)
    plan = iso.scan(signal).rewindow(100).stats("min")
    assert str(plan) == 'scan(stn_10/pressure) -> rewindow(window=100) -> stats(names=["min"])'
    assert plan == iso.scan(signal).rewindow(100).stats("min")
    assert "rows[start int64, end int64, time time, min float64]" in plan.explain()
    assert iso.Plan.from_json(plan.to_json(), store=store) == plan


def test_refuses_what_it_cannot_run(store: iso.Store) -> None:
    signal = pressure(store)
    plan = iso.scan(signal).rewindow(100)
    with pytest.raises(iso.OptionError, match="workers"):
        plan.stats("min").collect(workers=0)
    for bad in ((), ("min", "min"), ("median",)):
        with pytest.raises(iso.PlanError, match="stats"):
            plan.stats(*bad)
    for window in (0, -1, 2.5, True):
        with pytest.raises(iso.OptionError, match="rewindow"):
            iso.scan(signal).rewindow(window)
    with pytest.raises(iso.PlanError, match="rewindow"):
        iso.scan(signal).rewindow("a minute")
    with pytest.raises(iso.PlanError, match="signal"):
        iso.scan(np.zeros(3))


def test_tables_convert(store: iso.Store) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    table = iso.scan(pressure(store)).rewindow(100).stats("mean", "count").collect()
    arrow = pyarrow.table(table)
    assert arrow.num_rows == table.num_rows == 20
    assert arrow.schema.field("time").type == pyarrow.timestamp("ns", "UTC")
    # Both look into the same memory, also after the table is gone.
    address = arrow["mean"].chunk(0).buffers()[1].address
    assert address == table["mean"].__array_interface__["data"][0]
    assert not table["mean"].flags.writeable
    assert pyarrow.schema(table) == arrow.schema
    assert arrow.schema.field("mean").metadata == {b"unit": b"kPa"}
    assert isinstance(table.to_pandas(), pandas.DataFrame)
    assert table.to_numpy()["mean"][3] == table["mean"][3]
    assert "[20 rows]" in repr(table)
    assert table._repr_html_().count("<tr>") == 12


def test_statistics_follow_filters_and_overlap(store: iso.Store) -> None:
    signal = pressure(store)
    loud = iso.scan(signal[0:1790]).rewindow(100, 50).filter(lambda s: s.max() > 400).stats("mean", "max").collect()
    whole = iso.scan(signal[0:1790]).rewindow(100, 50).stats("mean", "max").collect()
    wanted = whole["max"] > 400
    assert 0 < wanted.sum() < len(wanted)
    for name in ("start", "time", "mean", "max"):
        np.testing.assert_array_equal(loud[name], whole[name][wanted])
    doubled = iso.scan(signal).rewindow(100).map(lambda s: s * 2).stats("mean").collect()
    single = iso.scan(signal).rewindow(100).stats("mean").collect()
    np.testing.assert_array_equal(doubled["mean"], single["mean"] * 2)
    assert doubled.units == {}


def test_tables_go_to_other_libraries_without_a_copy(store: iso.Store) -> None:
    table = iso.scan(pressure(store)).rewindow(100).stats("mean", "count").collect()
    mean = table["mean"]
    frame = polars.DataFrame(table)
    theirs = frame["mean"].to_numpy(allow_copy=False)
    assert theirs.__array_interface__["data"] == mean.__array_interface__["data"]
    np.testing.assert_array_equal(frame["start"].to_numpy(), table["start"])
    # DuckDB finds tables by the names of Python's variables.
    rows_of_windows = table
    total, rows = duckdb.sql("select sum(mean), count(*) from rows_of_windows").fetchall()[0]
    assert rows_of_windows is table
    assert total == pytest.approx(mean.sum()) and rows == len(mean)
