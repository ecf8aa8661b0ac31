"""Rows with named fields: made, filtered, grouped, joined, given away."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso
from made import START, pressure


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_rows_agree_with_numpy(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["i2", "u1", "i4", "f4", "f8", "?"]))
    window, hop = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 20))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = (rng.standard_normal(data.draw(st.integers(1, 400))) * 50).astype(dtype)
    plan = iso.scan(x, data.draw(st.sampled_from([None, 7, 64])), rate=10).rewindow(window, hop)
    table = (
        plan.rows(peak=lambda s: s.max(), positive=lambda s: (s > 0).count(), wave=lambda s: s * np.float32(2))
        .filter(lambda r: (r.positive > 1) | ~(r["peak"] > 3))
        .select("start", "peak", "wave", share=lambda r: r.positive / np.int64(window))
        .collect()
    )
    starts = np.arange(0, max(len(x) - window + 1, 0), hop)
    windows = np.array([x[a : a + window] for a in starts], dtype=dtype).reshape(len(starts), window)
    peak, positive = windows.max(axis=1), np.count_nonzero(windows > 0, axis=1)
    kept = (positive > 1) | ~(peak > 3)
    assert table.columns == ("start", "peak", "wave", "share")
    np.testing.assert_array_equal(table["start"], starts[kept])
    np.testing.assert_array_equal(table["peak"], peak[kept])
    np.testing.assert_array_equal(table["wave"], windows[kept] * np.float32(2))
    np.testing.assert_array_equal(table["share"], positive[kept] / window)
    assert table["peak"].dtype == np.dtype(dtype)
    assert table["wave"].dtype == (windows * np.float32(2)).dtype


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_groups_agree_with_arrow(data: st.DataObject) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = rng.integers(-9, 9, data.draw(st.integers(1, 500))).astype("i2")
    rows = iso.scan(x, rate=10).rewindow(data.draw(st.integers(1, 5))).stats("min", "max", "mean")
    hows = ("sum", "min", "max", "mean", "std", "first", "last")
    aggregates = {"n": "count", **{f"{how}_of_means": ("mean", how) for how in hows}}
    ours = rows.group_by("min", "max").agg(**aggregates).collect()
    arrow = pyarrow.table(rows.collect()).group_by(["min", "max"], use_threads=False)
    named = {"std": "stddev"}
    wanted = arrow.aggregate([("mean", "count"), *(("mean", named.get(how, how)) for how in hows)])
    # Ours come in the order of their first rows, Arrow's in any.
    groups = ours.to_numpy()
    order, theirs = (np.lexsort((np.asarray(table["max"]), np.asarray(table["min"]))) for table in (groups, wanted))
    np.testing.assert_array_equal(groups["n"][order], np.asarray(wanted["mean_count"])[theirs])
    for column in ("min", "max"):
        np.testing.assert_array_equal(groups[column][order], np.asarray(wanted[column])[theirs])
    for how in hows:
        expected = np.asarray(wanted[f"mean_{named.get(how, how)}"])[theirs]
        np.testing.assert_allclose(groups[f"{how}_of_means"][order], expected, atol=1e-12)


def test_rows_meet_by_index_and_by_civil_time(store: iso.Store) -> None:
    slow = pressure(store, name="slow", rate=10)
    fast = pressure(store, name="fast", rate=100)
    own = iso.scan(slow).rewindow(100).stats("max")
    peaks = iso.scan(slow).rewindow(50).filter(lambda s: s.max() > 1000).rows(peak=lambda s: s.max())
    pairs = own.join(peaks).collect()
    assert set(pairs.columns) >= {"start", "time", "max", "start_right", "time_right", "peak"}
    assert np.all(pairs["start_right"] // 100 * 100 == pairs["start"])
    other = iso.scan(fast).rewindow(100).stats("mean")
    near = own.join(other, tolerance=0.001, suffix="_fast").collect()
    np.testing.assert_array_equal(near["time"], near["time_fast"])
    overlapping = own.join(other, suffix="_fast").collect()
    a, b = own.collect(), other.collect()
    wanted = [
        (i, j)
        for i, (start, rows) in enumerate(zip(a["time"], a["end"] - a["start"], strict=True))
        for j, beside in enumerate(b["time"])
        if start < beside + np.timedelta64(1, "s") and beside < start + rows * np.timedelta64(100, "ms")
    ]
    assert len(wanted) > 0
    np.testing.assert_array_equal(overlapping["start"], a["start"][[i for i, _ in wanted]])
    np.testing.assert_array_equal(overlapping["start_fast"], b["start"][[j for _, j in wanted]])
    with pytest.raises(iso.PlanError, match="civil time"):
        own.join(iso.scan(np.zeros(9), rate=1).rewindow(3).stats("min"))


def test_plans_of_rows_print_compare_save_and_explain(store: iso.Store) -> None:
    def made() -> iso.Plan:
        rows = iso.scan(pressure_signal).rewindow(100).rows(energy=lambda s: (s * s).sum(), peak=lambda s: s.max())
        return rows.filter(lambda r: r.peak > 3).select("start", "end", ratio=lambda r: r.energy / r["peak"])

    pressure_signal = pressure(store)
    plan = made()
    assert plan == made()
    assert "rows(fields={energy: (s * s).sum(), peak: s.max()}) -> filter(predicate=r.peak > 3)" in str(plan)
    assert "rows[start int64, end int64, time time, energy" in plan.explain()
    joined = plan.join(plan.filter(lambda r: r.ratio > 1))
    outer = plan.join(plan.filter(lambda r: r.ratio > 1), how="outer")
    grouped = joined.group_by("start").agg(n="count", ratio=("ratio", "mean"))
    for one in (plan, joined, outer, grouped):
        saved = iso.Plan.from_json(one.to_json(), store=store)
        assert saved == one
        assert saved.collect() == one.collect()
    assert grouped.count().collect() == grouped.collect().num_rows
    assert plan.limit(3).collect().num_rows == 3


def test_errors_name_what_there_is(store: iso.Store) -> None:
    rows = iso.scan(pressure(store)).rewindow(100).stats("mean", "std")
    with pytest.raises(iso.PlanError, match=r'"average".*start, end, time, mean, std'):
        rows.filter(lambda r: r.average > 3)
    with pytest.raises(AttributeError, match="mean, std"):
        rows.filter(lambda r: r.average > 3)
    for wrong in (
        lambda: rows.filter(lambda r: r["average"] > 3),
        lambda: rows.select("average"),
        lambda: rows.group_by("average").agg(n="count"),
        lambda: rows.group_by("mean").agg(n=("average", "max")),
    ):
        with pytest.raises(iso.PlanError, match=r'"average".*mean, std'):
            wrong()
    with pytest.raises(iso.PlanError, match="median"):
        rows.group_by("mean").agg(m=("std", "median"))
    with pytest.raises(iso.PlanError, match=r"& \|"):
        rows.filter(lambda r: r.mean > 3 and r.std > 3)
    with pytest.raises(iso.RunError, match="most=3"):
        rows.group_by("start", most=3).agg(n="count").collect()
    with pytest.raises(iso.OptionError, match="most"):
        rows.group_by("start", most=0)


def test_times_that_are_not_known_are_nat(store: iso.Store) -> None:
    table = iso.scan(np.arange(10), rate=10).rewindow(5).stats("mean").collect()
    assert "time" not in table
    signal = pressure(store)
    grouped = iso.scan(signal).rewindow(100).stats("mean").group_by().agg(first=("time", "first"), n="count").collect()
    assert grouped["first"].dtype == np.dtype("datetime64[ns]")
    assert grouped["first"][0] == np.datetime64(START.replace("Z", ""), "ns")


def test_complex_fields_and_bools_come_back_as_they_are() -> None:
    x = np.exp(1j * np.arange(12)).astype("c8")
    rows: Any = iso.scan(x, rate=10).rewindow(4)
    table = rows.rows(mean=lambda s: s.mean(), big=lambda s: (abs(s) > 0.5).all(), wave=lambda s: s * 2).collect()
    assert table["mean"].dtype == np.dtype("c8") and table["wave"].shape == (3, 4)
    np.testing.assert_allclose(table["mean"], x.reshape(3, 4).mean(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(table["wave"], x.reshape(3, 4) * 2)
    assert table["big"].dtype == bool and table["big"].all()
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.table(table)["wave"].type.list_size == 4
