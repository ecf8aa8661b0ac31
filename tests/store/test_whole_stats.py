"""Statistics of whole signals, selections and runs, against NumPy over the samples themselves."""

import re
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso

START = "2010-03-01T00:00:00Z"
NAMES = ("min", "max", "count", "mean", "std", "var", "rms")
EXTREMES = ("min", "max", "count")


def of_numpy(values: np.ndarray) -> dict[str, float]:
    """Of the finite values, in double precision; of complex ones of their magnitudes."""
    values = np.abs(values) if np.iscomplexobj(values) else values
    finite = values[np.isfinite(values)].astype("f8")
    if not len(finite):
        return {name: 0.0 if name == "count" else np.nan for name in NAMES}
    return {
        "min": finite.min(),
        "max": finite.max(),
        "count": len(finite),
        "mean": finite.mean(),
        "std": finite.std(),
        "var": finite.var(),
        "rms": np.sqrt((finite**2).mean()),
    }


def row(table: iso.Table, at: int = 0) -> dict[str, Any]:
    return {name: table[name][at] for name in table.columns}


def bits(table: iso.Table) -> dict[str, bytes]:
    return {name: np.asarray(table[name]).tobytes() for name in table.columns}


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_agree_with_numpy_and_with_views_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    dtype = data.draw(st.sampled_from(["?", "u1", "i2", "i4", "i8", "f4", "f8", "c8"]))
    scale, offset = data.draw(st.sampled_from([(None, None), (0.5, 3.0), (-2.0, 1.0)]))
    if dtype == "?":
        scale = offset = None
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    pieces: list[tuple[int, np.ndarray]] = []
    with iso.open(tmp_path_factory.mktemp("s") / "x.iso", "x") as store:
        signal = store.create("x", dtype=dtype, rate=100, unit="V", scale=scale, offset=offset, start=START)
        at = 0
        counts = data.draw(st.lists(st.tuples(st.integers(1, 90_000), st.integers(1, 9)), min_size=1, max_size=4))
        for count, gap in counts:
            x = rng.standard_normal(count) * 50
            x = (x + 1j * rng.standard_normal(count) if dtype == "c8" else x).astype(dtype)
            if x.dtype.kind in "fc":
                x[rng.random(count) < 0.01] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, -0.0]))
            signal.append(x)
            pieces.append((at, x))
            signal.append_gap(samples=gap)
            at += count + gap
        store.commit()
        physical = [
            (start, x if scale is None else x.astype("c16" if dtype == "c8" else "f8") * scale + offset)
            for start, x in pieces
        ]
        a, b = sorted(data.draw(st.tuples(st.integers(0, at), st.integers(0, at))))
        whole = data.draw(st.booleans())
        a, b = (0, at) if whole else (a, b)
        parts = [(max(s, a), x[max(a - s, 0) : max(b - s, 0)]) for s, x in physical]
        parts = [(s, x) for s, x in parts if len(x)]
        source = signal if whole else signal[a:b]
        table = iso.scan(source).stats(*NAMES).collect()
        if not parts:
            assert len(table) == 0
            assert len(iso.scan(source).stats(*EXTREMES).collect()) == 0
            return
        assert len(table) == 1
        found, wanted = row(table), of_numpy(np.concatenate([x for _, x in parts]))
        assert found["start"] == parts[0][0]
        assert found["end"] == parts[-1][0] + len(parts[-1][1])
        # Magnitudes of complex64 are single precision.
        rounding = 1e-6 if dtype == "c8" else 1e-9
        for name in NAMES:
            exact = name in EXTREMES and dtype != "c8"
            np.testing.assert_allclose(
                float(found[name]), wanted[name], rtol=0 if exact else rounding, atol=0 if exact else rounding
            )
        workers = data.draw(st.integers(1, 3))
        again = iso.scan(source).stats(*NAMES).collect(workers=workers)
        if dtype in ("?", "u1", "i2", "i4"):
            assert bits(again) == bits(table)
        # Of the stored views, and of the samples.
        plan = iso.scan(source).stats(*EXTREMES)
        assert (
            bits(plan.collect()) == bits(plan.collect(optimise=False)) == bits(plan.collect(workers=2, optimise=False))
        )


def test_any_number_of_workers_gives_the_same_bits(store: iso.Store) -> None:
    signal = store.create("x", dtype="f4", rate=100)
    signal.append(np.random.default_rng(1).standard_normal(3_000_000).astype("f4") * 1e3 + 1e5)
    store.commit()
    plan = iso.scan(signal).stats(*NAMES)
    one, *others = (bits(plan.collect(workers=workers)) for workers in (1, 2, 3))
    assert all(other == one for other in others)


def test_a_row_for_each_run(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate=10, start=START)
    first, second = np.arange(100, dtype="i2"), np.arange(50, dtype="i2") - 7
    signal.append(first)
    signal.append_gap(samples=5)
    signal.append(first[::-1].copy())
    signal.append(second, at="2010-02-01T00:00:00Z")  # a clock step
    store.commit()
    both = np.concatenate([first, first])
    for names in (NAMES, EXTREMES):
        table = iso.scan(signal).stats(*names, per="run").collect()
        assert table["start"].tolist() == [0, 205]
        assert table["end"].tolist() == [205, 255]
        assert table["time"].tolist() == [
            signal.time_of(0).to_datetime64().astype("i8"),
            signal.time_of(205).to_datetime64().astype("i8"),
        ]
        for at, values in enumerate((both, second)):
            wanted = of_numpy(values)
            for name in names:
                np.testing.assert_allclose(float(table[name][at]), wanted[name], rtol=1e-12)
        assert bits(iso.scan(signal).stats(*names, per="run").collect(optimise=False)) == bits(table)
        assert bits(iso.scan(signal).stats(*names, per="run").collect(workers=2)) == bits(table)
    assert len(iso.scan(signal).stats("mean").collect()) == 1
    assert table.units == {}


def test_names_that_are_none_are_named() -> None:
    windows = iso.scan(np.arange(6), rate=100).rewindow(3)
    legal = "must be one of min, max, count, mean, std, var, rms"
    for names, wrong in ((("median",), '"median"'), (("max", "MIN"), '"MIN"'), (("mean", "", "p95"), '""')):
        with pytest.raises(iso.PlanError, match=rf"^stats: names={re.escape(wrong)} {legal}"):
            windows.stats(*names)
    with pytest.raises(iso.PlanError, match=r'names="min" twice must be one or more of min.*each once'):
        windows.stats("min", "min")
    with pytest.raises(iso.PlanError, match=r"names=\[\] must be one or more of min"):
        windows.stats()
    for name in (["min", "max"], np.max, 3, None):
        with pytest.raises(
            iso.OptionError, match=r"stats names=.* is refused; give each name as a separate text argument"
        ):
            windows.stats(name)  # type: ignore[arg-type]


def test_extremes_come_from_the_stored_views(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate=100, unit="V")
    signal.append(np.arange(500_000, dtype="i4").astype("i2"))
    store.commit()
    plan = iso.scan(signal).stats("min", "max", "count")
    assert "stored pyramid: min, max, count of x" in plan.explain()
    assert plan.run().report.operators[0].samples == 0
    assert plan.run(optimise=False).report.operators[0].samples == 500_000
    table = plan.collect()
    assert (table["min"][0], table["max"][0], table["count"][0]) == (-(1 << 15), (1 << 15) - 1, 500_000)
    assert table.units == {"min": "V", "max": "V"}
    assert "by default one worker: its results are read from the stored pyramid" in plan.explain()
    # Sums of floats depend on their order: not from the pyramid.
    assert "scan in order: it is read from the stored pyramid" in plan.explain()
    assert "stored pyramid" not in iso.scan(signal).stats("min", "mean").explain()
    assert "stored pyramid" not in iso.scan(signal).map(lambda s: s + 1).stats("min").explain()


def test_samples_of_arrays_and_behind_operators() -> None:
    x = np.random.default_rng(1).standard_normal(1000)
    table = iso.scan(x, rate=100).stats("mean", "std").collect()
    np.testing.assert_allclose((table["mean"][0], table["std"][0]), (x.mean(), x.std()), rtol=1e-12)
    doubled = iso.scan(x, rate=100).map(lambda s: 2 * s).stats("max").collect()
    assert doubled["max"][0] == 2 * x.max()
    with pytest.raises(iso.PlanError, match=r'stats needs samples for per="run" but.*leave out per='):
        iso.scan(x, rate=100).rewindow(10).stats("mean", per="run")
    with pytest.raises(iso.PlanError, match="windows or samples"):
        iso.scan(x, rate=100).count().stats("mean")
