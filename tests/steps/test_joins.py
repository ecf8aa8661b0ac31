"""Joins that keep rows without a partner, against loops, pandas and Polars; and what takes their nulls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso

Row = tuple[int, int]


def ranges(values: np.ndarray, segment: int | None) -> iso.Plan:
    """Rows of where values are 1."""
    return iso.scan(values.astype("f4"), segment, rate=10).triggers(on=0.5)


def stretches(values: np.ndarray) -> list[Row]:
    edges = np.flatnonzero(np.diff(np.r_[0, values, 0]))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def pairs(a: list[Row], b: list[Row], how: str, tolerance: int | None) -> list[tuple[Row | None, Row | None]]:
    """Of every row, and every other."""
    found: list[tuple[tuple[int, int], Row | None, Row | None]] = []
    taken = set()
    for one in a:
        if tolerance is None:
            near = [other for other in b if one[0] < other[1] and other[0] < one[1]]
        else:
            near = sorted(
                (other for other in b if abs(one[0] - other[0]) <= tolerance), key=lambda r: abs(one[0] - r[0])
            )
            near = near[:1]
        taken.update(near)
        found += [((one[0], 0), one, other) for other in near]
        if not near and how != "inner":
            found.append(((one[0], 0), one, None))
    if how == "outer":
        found += [((other[0], 1), None, other) for other in b if other not in taken]
    return [(one, other) for _, one, other in sorted(found, key=lambda pair: pair[0])]


def as_pairs(table: iso.Table) -> list[tuple[Row | None, Row | None]]:
    def row(k: int, suffix: str) -> Row | None:
        start, end = table["start" + suffix][k], table["end" + suffix][k]
        return None if np.isnan(start) else (int(start), int(end))

    return [(row(k, ""), row(k, "_right")) for k in range(len(table))]


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_joins_agree_with_loops_however_they_are_cut(data: st.DataObject) -> None:
    bits = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9)), max_size=30)
    a, b = (np.repeat(*zip((0, 1), *data.draw(bits), strict=True)) for _ in range(2))
    how = data.draw(st.sampled_from(["inner", "left", "outer"]))
    tolerance = data.draw(st.none() | st.integers(0, 15))
    segments = data.draw(st.sampled_from([None, 3, 17])), data.draw(st.sampled_from([None, 5, 64]))
    seconds = None if tolerance is None else tolerance / 10 + 0.01
    left, right = (ranges(values, segment) for values, segment in zip((a, b), segments, strict=True))
    joined = left.join(right, how=how, tolerance=seconds)
    table = joined.collect()
    assert as_pairs(table) == pairs(stretches(a), stretches(b), how, tolerance)
    assert joined.collect(workers=3).to_arrow().equals(table.to_arrow())


def windows(values: np.ndarray, **fields: Any) -> iso.Plan:
    return iso.scan(values, rate=100).rewindow(4).rows(**fields)


def two() -> tuple[iso.Plan, iso.Plan]:
    """Rows of every window where some condition holds; those of the second have fields of every kind."""
    x = np.arange(40, dtype="i4")
    a = windows(x, high=lambda s: s.max()).filter(lambda r: r.high % 3 != 0)
    kinds = {
        "flag": lambda s: s.max() > 20,
        "wave": lambda s: s * 2,
        "z": lambda s: (s + 1j).sum(),
        "mean": lambda s: s.mean(),
    }
    b = windows(x + 100, least=lambda s: s.min(), **kinds)
    return a, b.filter(lambda r: (r.least - 100) % 8 == 0)


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_equal_windows_join_as_keys_do_in_polars_and_pandas(how: str) -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    a, b = two()
    a, b = a.select("start", "end", "high"), b.select("start", "end", "least")
    got = polars.from_arrow(a.join(b, how=how).collect().to_arrow())
    one, other = (polars.from_arrow(plan.collect().to_arrow()) for plan in (a, b))
    options = {"how": "full", "coalesce": False} if how == "outer" else {"how": how, "coalesce": False}
    wanted = one.join(other, on="start", suffix="_right", **options).select(got.columns)
    order = polars.coalesce("start", "start_right")
    assert got.equals(wanted.sort(order))
    assert got["start"].to_list() == got.sort(order, maintain_order=True)["start"].to_list()
    frames = [plan.collect().to_pandas().set_index("start", drop=False) for plan in (a, b)]
    frames[1].columns = [name if name == "least" else f"{name}_right" for name in frames[1]]
    joined = frames[0].join(frames[1], how=how).sort_index()
    theirs = joined.reset_index(drop=True)
    pandas.testing.assert_frame_equal(a.join(b, how=how).collect().to_pandas(), theirs, check_dtype=False)


def test_missing_fields_of_every_kind_are_null(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    a, b = two()
    joined = a.join(b, how="outer")
    table = joined.collect()
    missing = np.isnan(table["start_right"])
    assert missing.any() and not missing.all() and np.isnan(table["start"]).any()
    for name in ("least", "flag", "mean", "z"):
        np.testing.assert_array_equal(np.isnan(table[name]), missing)
    assert table["wave"].shape == (len(table), 4) and table["z"].dtype == np.dtype("c16")
    np.testing.assert_array_equal(np.isnan(table["wave"]).all(axis=1), missing)
    arrow = table.to_arrow()
    for name in ("end_right", "least", "flag", "wave", "z", "mean"):
        assert arrow[name].null_count == missing.sum(), name
        assert arrow[name].is_null().to_numpy().tolist() == missing.tolist(), name
    # A file.
    joined.sink_parquet(tmp_path / "joined.parquet").run()
    assert parquet.read_table(tmp_path / "joined.parquet").equals(arrow)
    assert isinstance(arrow, pyarrow.Table)


def test_what_follows_a_join_takes_nulls() -> None:
    a, b = two()
    joined = a.join(b, how="outer")
    table = joined.collect()
    high, least = table["high"], table["least"]
    # A comparison with null is not true, nor is its opposite.
    above = joined.filter(lambda r: r.least > 110).collect()
    np.testing.assert_array_equal(above["least"], least[least > 110])
    assert joined.filter(lambda r: (r.least > 110) | ~(r.least > 110)).count().collect() == (~np.isnan(least)).sum()
    total = joined.select("start", total=lambda r: r.high + r.least).collect()
    np.testing.assert_array_equal(total["total"], high + least)
    grouped = joined.group_by("flag").agg(n="count", known=("high", "count"), most=("high", "max")).collect()
    assert grouped["n"].sum() == len(table) and grouped["known"].sum() == (~np.isnan(high)).sum()
    assert np.nanmax(grouped["most"]) == np.nanmax(high)
    seen: list[float] = []
    joined.each(lambda rows, start: seen.extend(rows["least"])).run()
    np.testing.assert_array_equal(seen, least)


def test_joins_that_cannot_be_are_refused() -> None:
    a, b = two()
    with pytest.raises(iso.OptionError, match=r"how='full' is refused; give 'inner' or 'left' or 'outer'"):
        a.join(b, how="full")
    outer = a.select("start", "end").join(b.select("start", "end"), how="outer")
    with pytest.raises(iso.PlanError, match="before an outer join"):
        outer.join(a)
    with pytest.raises(iso.PlanError, match="no indices"):
        outer.merge(outer)
    # Those of a left join go on.
    left = a.select("start", "end").join(b.select("start", "end"), how="left")
    assert left.join(a, suffix="_2").count().collect() > 0


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_rows_of_two_clocks_are_not_paired(tmp_path: Path, how: str) -> None:
    """However near their indices are."""
    with iso.open(tmp_path / "s.iso", "x") as store:
        signal = store.create("s", dtype="i2", rate=100, start="2026-01-01T10:00:00Z")
        signal.append(np.arange(100, dtype="i2"))
        signal.append(np.arange(100, 200, dtype="i2"), at="2026-01-01T09:00:00Z")
        store.commit()
        windows = iso.scan(signal).rewindow(10).stats("max")

        def beginning(*starts: int) -> iso.Plan:
            values = [9 + start for start in starts]
            return windows.filter(lambda r: (r.max >= min(values)) & (r.max <= max(values)))

        for left, right in ((90, 100), (100, 90)):
            table = beginning(left).join(beginning(right), tolerance=0.15, how=how).collect()
            pairs = table.to_pandas()[["start", "start_right"]].fillna(-1).astype(int).to_numpy().tolist()
            only_left, only_right = [left, -1], [-1, right]
            expected = {"inner": [], "left": [only_left], "outer": sorted([only_left, only_right], key=max)}
            assert pairs == expected[how], (left, right)
        # Of one clock they are.
        table = beginning(100).join(beginning(110), tolerance=0.15, how=how).collect()
        assert (len(table), table["start_right"].tolist()) == (1, [110])
