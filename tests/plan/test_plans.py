"""Plans of traced expressions by `iso.scan`, against NumPy."""

import json
import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

import isochrony as iso
from made import START, pressure

Array = npt.NDArray[Any]


def windows_of(parts: list[Array], window: int, hop: int) -> Array:
    """Every part's own windows, by a loop."""
    rows = [x[at : at + window] for x in parts for at in range(0, len(x) - window + 1, hop)]
    return np.array(rows, dtype=parts[0].dtype).reshape(-1, window)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_statfilter_is_what_numpy_gives(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    window = data.draw(st.integers(2, 40))
    hop = data.draw(st.sampled_from([window, 1, 7]))
    segment = data.draw(st.sampled_from([None, 1, 50]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    parts = []
    with iso.open(tmp_path_factory.mktemp("s") / "x.iso", "x") as store:
        signal = store.create("x", dtype="i2", rate=10, start=START)
        for count, gap in data.draw(st.lists(st.tuples(st.integers(1, 90), st.integers(1, 9)), min_size=1, max_size=4)):
            parts.append((rng.standard_normal(count) * 30).astype("i2"))
            signal.append(parts[-1])
            signal.append_gap(samples=gap)
        plan = iso.scan(signal, segment).rewindow(window, hop)
        plan = plan.filter(lambda s: s.std() > 28.7).filter(lambda s: s.mean() < 0)
        kept, count = plan.collect(), plan.count().collect()
        as_written = plan.collect(optimise=False)
    rows = windows_of(parts, window, hop)
    expected = rows[(rows.std(axis=1) > 28.7) & (rows.mean(axis=1) < 0)]
    np.testing.assert_array_equal(kept, expected)
    np.testing.assert_array_equal(as_written, expected)
    assert kept.dtype == np.int16
    assert type(count) is int
    assert count == len(expected)


# Each works on a traced window and, with axis=-1 where that matters, on NumPy's rows.
ELEMENTWISE: list[Callable[[Any], Any]] = [
    lambda s: s * 2 + 1,
    lambda s: 3 - s,
    lambda s: s / np.float32(3),
    lambda s: s * np.float64(0.5),
    lambda s: s + np.int64(7),
    lambda s: s * 1j,
    lambda s: -s,
    lambda s: abs(s) ** 2,
    lambda s: np.abs(s) + np.square(s),
    lambda s: s == 3,
    lambda s: s != s,
    lambda s: np.where(s != 0, s, 5),
    lambda s: np.conj(s),
    lambda s: np.real(s) - np.imag(s),
    lambda s: s.astype("complex128"),
    lambda s: np.isfinite(s) & ~np.isnan(s),
    lambda s: 1 / (np.abs(s) + 1),
]
REAL: list[Callable[[Any], Any]] = [
    lambda s: s // 3,
    lambda s: s % 7,
    lambda s: 100 % (np.abs(s) + 1),
    lambda s: (s > 3) | (s <= -2) ^ (s < 1),
    lambda s: ~(s >= 0),
    lambda s: np.clip(s, -4, 4),
    lambda s: s.clip(-4, 4).astype("float32"),
    lambda s: np.minimum(s, 2) + np.maximum(2, s),
    lambda s: np.floor(s / 4) + np.ceil(s / 4) + np.rint(s / 4),
    lambda s: np.sqrt(np.abs(s) + 1.0),
    lambda s: np.exp(-np.abs(s) / 2.0) + np.log(np.abs(s) + 1.0) + np.log10(np.abs(s) + 2.0),
    lambda s: np.sin(s / 2.0) * np.cos(s / 2.0),
    lambda s: np.hypot(s / 2.0, 3.0) + np.arctan2(s / 2.0, 3.0),
    lambda s: s.astype("int32") & 6,
]
REDUCED: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Any]]] = {
    "normalised": (
        lambda s: (s - s.mean()) / (s.std() + 1),
        lambda x: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1),
    ),
    "mean": (lambda s: s.mean(), lambda x: x.mean(-1, keepdims=True)),
    "std": (lambda s: np.std(s), lambda x: x.std(-1, keepdims=True)),
    "var": (lambda s: s.var(), lambda x: x.var(-1, keepdims=True)),
    "sum": (lambda s: s.sum(), lambda x: x.sum(-1, keepdims=True)),
    "any": (lambda s: (s == 0).any(), lambda x: (x == 0).any(-1, keepdims=True)),
    "all": (lambda s: np.all(s != 0), lambda x: np.all(x != 0, -1, keepdims=True)),
    "count": (lambda s: (s != 0).count(), lambda x: np.count_nonzero(x, -1, keepdims=True)),
}
REDUCED_REAL: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Any]]] = {
    "spread": (lambda s: s.max() - s.min(), lambda x: x.max(-1, keepdims=True) - x.min(-1, keepdims=True)),
    "rms": (
        lambda s: s.rms(),
        lambda x: np.sqrt((x.astype("f8") ** 2).mean(-1, keepdims=True)).astype(x.mean().dtype),
    ),
}


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_traced_functions_are_numpys(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(["i2", "f4", "f8", "c8"])))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    count, window = data.draw(st.integers(4, 300)), data.draw(st.integers(2, 4))
    x = rng.integers(-9, 9, count).astype(dtype)
    if dtype.kind == "c":
        x += (1j * rng.integers(-9, 9, count)).astype(dtype)
    rows = windows_of([x], window, window)
    plan = iso.scan(x, rate=100).rewindow(window)
    if data.draw(st.booleans()):
        function = data.draw(st.sampled_from(ELEMENTWISE + (REAL if dtype.kind != "c" else [])))
        expected = function(rows)
        np.testing.assert_allclose(iso.scan(x, rate=100).map(function, wrap=True).collect(), function(x), rtol=1e-6)
    else:
        reductions = REDUCED if dtype.kind == "c" else {**REDUCED, **REDUCED_REAL}
        function, reference = reductions[data.draw(st.sampled_from(sorted(reductions)))]
        expected = reference(rows)
    # Integers widen unless they are to wrap, as NumPy's do.
    result = plan.map(function, wrap=True).collect()
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=2e-6)
    assert result.dtype == expected.dtype


def test_expressions_print_as_python() -> None:
    s = iso.Expr.input()
    for expr, text in [
        ((s - s.mean()) / s.std() > 3, "(s - s.mean()) / s.std() > 3"),
        (np.sqrt(abs(s)) + np.float32(2), "sqrt(abs(s)) + float32(2.0)"),
        (2 ** (1 - s) % 3, "2**(1 - s) % 3"),
        ((s > 1) & ~(s < 3), "(s > 1) & ~(s < 3)"),
        (s.rms().ewm(0.1).hysteresis(1, 2), "s.rms().ewm(0.1).hysteresis(1, 2)"),
        ((s.max() > 3).counter() - s.min().previous(0), "(s.max() > 3).counter() - s.min().previous(0)"),
        ((s > 0).where(s, 0.5), "where(s > 0, s, 0.5)"),
    ]:
        assert str(expr) == text
        assert repr(expr) == f"Expr({text})"
    assert len({s, s, s + 1}) == 2


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (lambda s: 1 < s < 3, ["`s > 1` has no truth value", "(a < s) & (s < b)", ".where("]),
        (lambda s: s.mean() if s.std() > 3 else 0, ["`s.std() > 3`", "& | ~"]),
        (lambda s: float(s), ["number", "np.sqrt"]),
        (lambda s: s[0], ["elements", "s.max()"]),
        (lambda s: sum(s), ["elements"]),
        (lambda s: len(s), ["length"]),
        (lambda s: 3 in s, ["(s == value).any()"]),
        (lambda s: s.median(), ["median", "mean std var"]),
        (lambda s: np.cumsum(s), ["np.cumsum", "np.abs"]),
        (lambda s: np.std(s, ddof=1), ["np.std", "no options"]),
        (lambda s: s + np.ones(3), ["shape (3,)"]),
        (lambda s: s + "x", ["got str"]),
        (lambda s: s + 2**70, ["int64"]),
        (lambda _: None, ["returned NoneType", "lambda s:"]),
        (lambda _: True, ["does not depend on the signal"]),
        (lambda s: s > 3, ["one bool per window", ".any()"]),
        (lambda s: s.mean(), ["compare"]),
        (3, ["lambda s:"]),
    ],
)
def test_what_cannot_be_traced_says_how_to_mend_it(function: Any, parts: list[str]) -> None:
    plan = iso.scan(np.arange(10), rate=10).rewindow(2)
    with pytest.raises(iso.PlanError) as error:
        plan.filter(function)
    for part in parts:
        assert part in str(error.value)
    assert error.value.code not in ("", "plan")


def test_other_errors_of_a_function_come_through() -> None:
    plan = iso.scan(np.arange(10), rate=10).rewindow(2)
    with pytest.raises(ZeroDivisionError):
        plan.map(lambda s: s + 1 // 0)
    assert not hasattr(iso.Expr.input(), "median")


def test_calibrated_samples_are_seen_in_their_unit(store: iso.Store) -> None:
    signal = pressure(store, dtype="i2", scale=0.5, offset=1)
    plan = iso.scan(signal).rewindow(100)
    np.testing.assert_allclose(plan.map(lambda s: s.max()).collect()[0], [50.5])
    np.testing.assert_array_equal(plan.collect()[0], np.arange(100) * 0.5 + 1)
    np.testing.assert_array_equal(plan.collect(counts=True)[0], np.arange(100))


def test_windows_of_a_part_begin_at_its_first_sample_or_are_the_signals_own(store: iso.Store) -> None:
    signal = pressure(store)
    first = lambda plan: list(plan.map(lambda s: s.min()).collect()[:2, 0])  # noqa: E731
    assert first(iso.scan(signal[150:1790]).rewindow(100)) == [150, 250]
    assert first(iso.scan(signal[150:1790]).rewindow(100, anchor="run")) == [200, 300]
    assert iso.scan(signal[150:1790]).count().collect() == 1140
    own = iso.scan(signal[150:1790]).rewindow(100, anchor="run")
    kept = iso.scan(signal[150:1790]).rewindow(100, anchor="run", tail="keep")
    assert kept.count().collect() == own.count().collect() + 1


def test_plans_branch_meet_and_stop(store: iso.Store) -> None:
    scan = iso.scan(pressure(store))
    windows = scan.rewindow(100)
    low, high = windows.filter(lambda s: s.mean() < 500), windows.filter(lambda s: s.mean() > 1500)
    assert low.merge(high).count().collect() == 10
    np.testing.assert_array_equal(low.merge(high).collect(), np.concatenate([low.collect(), high.collect()]))
    assert windows.limit(3).count().collect() == 3
    np.testing.assert_array_equal(scan.passthrough().limit(5).collect(), np.arange(5))
    with pytest.raises(iso.PlanError, match="input 1"):
        windows.zip(scan)
    with pytest.raises(iso.OptionError, match="limit"):
        windows.limit(0)
    with pytest.raises(iso.PlanError, match="samples"):
        windows.rewindow(3)


def test_a_signal_is_read_as_it_is_when_the_plan_runs(store: iso.Store) -> None:
    signal = pressure(store)
    plan = iso.scan(signal).count()
    assert plan.collect() == 2000
    signal.append(np.zeros(7, "f4"))
    assert plan.collect() == 2007


def test_results_are_arrays_of_ones_own() -> None:
    x = np.arange(6, dtype="f4")
    result = iso.scan(x, rate=10).collect()
    result[0] = 7
    assert x[0] == 0
    assert result.flags.aligned
    empty = iso.scan(x, rate=10).rewindow(4).filter(lambda s: s.mean() > 99).collect()
    assert empty.shape == (0, 4)
    assert empty.dtype == np.float32
    assert iso.scan(x[:0], rate=10).collect().shape == (0,)
    with pytest.raises(iso.PlanError, match="rate"):
        iso.scan(x)


def test_plans_print_compare_explain_and_report(store: iso.Store) -> None:
    signal = pressure(store)
    made = lambda: iso.scan(signal).rewindow(100).filter(lambda s: s.std() > 1).filter(lambda s: s.mean() < 0)  # noqa: E731
    plan = made()
    filters = "filter(predicate=s.std() > 1) -> filter(predicate=s.mean() < 0)"
    expected = f"scan(stn_10/pressure) -> rewindow(window=100) -> {filters}"
    assert str(plan) == expected
    assert repr(plan) == f"Plan({expected})"
    assert plan == made()
    assert hash(plan) == hash(made())
    assert plan != plan.count()
    assert plan != 3
    assert "(s.std() > 1) & (s.mean() < 0)" in plan.explain()
    report = plan.run().report
    assert [one.name for one in report.operators] == ["scan", "rewindow", "filter"]
    assert report.operators[1].samples == 2000
    assert report.operators[1].gaps == 1
    assert report.elapsed_s > 0
    assert "rewindow" in repr(plan.run())
    assert plan.collect(progress=True).shape == (0, 100)
    for run in (plan.collect, plan.run):
        for bad in (0, -1, 2.5, "all", True, 5000):
            with pytest.raises(iso.OptionError, match="workers"):
                run(workers=bad)


def test_plans_come_back_from_json(store: iso.Store) -> None:
    signal = pressure(store)
    store.commit()
    plan = (
        iso.scan(signal[150:1790]).rewindow(100, 50).filter(lambda s: s.mean() > np.float32(300)).map(lambda s: s * 2)
    )
    saved = plan.to_json()
    for again in (
        iso.Plan.from_json(saved),
        iso.Plan.from_json(saved.encode(), store=store),
        iso.Plan.from_json(json.loads(saved)),
    ):
        assert again == plan
        np.testing.assert_array_equal(again.collect(), plan.collect())
    with pytest.raises(iso.PlanError, match="memory"):
        iso.scan(np.arange(3), rate=1).to_json()
    for broken, code in [("{", "unreadable_plan"), ("{}", "unreadable_plan")]:
        with pytest.raises(iso.PlanError) as error:
            iso.Plan.from_json(broken)
        assert error.value.code == code
    with pytest.raises(iso.PlanError, match="cannot be opened"):
        iso.Plan.from_json(saved.replace("stn_10", "stn_11"))


def test_a_failed_run_names_operator_samples_and_time(store: iso.Store) -> None:
    plan = iso.scan(pressure(store), 64).rewindow(100).map(lambda s: s * 2)
    with pytest.raises(iso.RunError, match="memory=") as error:
        plan.collect(memory=10)
    for part in ("map", "samples 0 to", "2010-03-01T00:00:00"):
        assert part in str(error.value)
    assert error.value.code == "memory_cap"


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_ends_a_run_within_a_tenth_of_a_second(tmp_path: Path) -> None:
    program = """
    import os, signal, sys, threading, time
    import numpy as np, isochrony as iso
    signal.signal(signal.SIGINT, signal.default_int_handler)
    plan = iso.scan(np.zeros(4 << 20), rate=1000).rewindow(64, 1).filter(lambda s: np.exp(np.sin(s)).std() > 1).count()
    pressed = []
    def press():
        time.sleep(0.2)
        pressed.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=press).start()
    try:
        plan.collect()
    except KeyboardInterrupt:
        print(time.perf_counter() - pressed[0])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=200, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    # A twentieth of a second and one operator call, where nobody else computes.
    assert float(done.stdout) < 1.5


def test_memories_begin_anew_after_a_gap(store: iso.Store) -> None:
    windows = iso.scan(pressure(store)).rewindow(250)
    before = windows.map(lambda s: s.min().previous(-1)).collect()[:, 0]
    assert list(before) == [-1, 0, 250, 500, -1, 1000, 1250, 1500]


def test_nothing_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iso.scan(np.arange(4), rate=1).map(lambda s: np.sqrt(s)).collect()


def test_a_count_is_not_limited() -> None:
    with pytest.raises(iso.PlanError, match=r"limit.*put limit\(\.\.\.\) before count"):
        iso.scan(np.arange(9), rate=1).rewindow(3).count().limit(1)


def test_windows_of_merged_samples_that_both_have_are_refused_when_the_plan_is_made(store: iso.Store) -> None:
    signal = pressure(store)
    one, other = iso.scan(signal[100:300]), iso.scan(signal[250:400])
    with pytest.raises(iso.PlanError, match=r"inputs 0 and 1 may both have samples with indices 250 to 299") as refused:
        one.merge(other).rewindow(10)
    assert refused.value.code == "indices_repeat"
    assert "put rewindow before the merge, on each of its inputs" in str(refused.value)
    with pytest.raises(iso.PlanError, match="fir needs contiguous samples"):
        iso.scan(signal).merge(iso.scan(signal)).fir([0.5, 0.5])
    assert one.rewindow(10).merge(other.rewindow(10)).count().collect() == 35
    apart = iso.scan(signal[100:200]).merge(iso.scan(signal[300:400])).rewindow(50)
    assert apart.count().collect() == 4
