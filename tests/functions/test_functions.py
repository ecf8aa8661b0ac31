"""Python and Numba functions inside plans, several plans in one run."""

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

import functions_of_tests as own
import isochrony as iso
from isochrony.running.options import RunOptions
from made import pressure

Array = npt.NDArray[Any]


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_functions_see_the_windows_that_a_loop_sees(data: st.DataObject) -> None:
    window, hop = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    dtype = data.draw(st.sampled_from(["i2", "f4", "f8", "c16", "u1"]))
    x = np.arange(data.draw(st.integers(0, 60))).astype(dtype)
    segment = data.draw(st.sampled_from([None, 1, 7]))
    rows = np.array([x[k : k + window] for k in range(0, len(x) - window + 1, hop)], dtype).reshape(-1, window)
    windows = iso.scan(x, segment, rate=10).rewindow(window, hop)
    same = windows.map(iso.py(lambda r: r)).collect()
    np.testing.assert_array_equal(same, rows)
    assert same.dtype == dtype
    last = windows.map(iso.py(lambda r: r[:, -1])).collect()
    np.testing.assert_array_equal(last, rows[:, -1:])
    reversed_ = windows.map(iso.py(lambda r: r[:, ::-1].astype("f8" if dtype != "c16" else "c16"))).collect()
    np.testing.assert_array_equal(reversed_, rows[:, ::-1])
    odd = windows.filter(iso.py(lambda r: r[:, 0].real.astype("i8") % 2 == 1)).collect()
    np.testing.assert_array_equal(odd, rows[rows[:, 0].real.astype("i8") % 2 == 1])


def test_what_a_function_is_given_is_the_engines_own_memory() -> None:
    x = np.arange(1000.0)
    given: list[Array] = []
    iso.scan(x, rate=10).rewindow(10, 5).map(iso.py(lambda r: given.append(r) or r[:, 0], dtype="f8")).run()
    assert all(np.shares_memory(x, block) for block in given)
    assert not any(block.flags.writeable for block in given)
    assert given[0].strides == (40, 8)
    assert all(block.ndim == 2 for block in given)


def test_results_are_taken_over_and_never_change_later() -> None:
    x = np.arange(40.0)
    scratch = np.empty((4, 1))

    def reused(rows: Array) -> Array:
        scratch[: len(rows), 0] = rows.sum(axis=1)
        return scratch[: len(rows)]

    plan = iso.scan(x, 8, rate=10).rewindow(4).map(iso.py(reused, dtype="f8"))
    np.testing.assert_array_equal(plan.collect()[:, 0], x.reshape(-1, 4).sum(axis=1))
    kept = np.empty(2)

    def returns_its_own(rows: Array) -> Array:
        kept[:] = rows[:, 0]
        return kept

    plan = iso.scan(x, 8, rate=10).rewindow(4).map(iso.py(returns_its_own, dtype="f8"))
    with pytest.raises(iso.RunError, match="read-only"):
        plan.collect()
    assert not kept.flags.writeable


def test_calibrated_counts_come_in_their_unit_unless_asked_otherwise(store: iso.Store) -> None:
    signal = pressure(store, dtype="i2", scale=0.5, offset=1)
    windows = iso.scan(signal).rewindow(100, 50)
    values = windows.map(iso.py(lambda r: r[:, :2])).collect()
    np.testing.assert_array_equal(values[1], [26.0, 26.5])
    assert values.dtype == np.float64
    counts = windows.map(iso.py(lambda r: r[:, :2], counts=True)).collect()
    np.testing.assert_array_equal(counts[1], [50, 51])
    assert counts.dtype == np.int16
    loud = windows.filter(iso.py(lambda r: r[:, 0] > 900))
    np.testing.assert_array_equal(loud.collect(counts=True)[:, 0], [1800, 1850, 1900])
    np.testing.assert_array_equal(loud.collect()[:, 0], [901, 926, 951])


def test_samples_without_windows_and_values_that_numpy_knows(store: iso.Store) -> None:
    signal = pressure(store)
    np.testing.assert_array_equal(iso.scan(signal).map(iso.py(np.negative)).collect(), -np.arange(2000.0))
    plan = iso.scan(signal).rewindow(1000).map(iso.py(lambda r: [1.5] * len(r)))
    np.testing.assert_array_equal(plan.collect(), [[1.5], [1.5]])
    assert str(plan).endswith("-> map(py(<lambda>))")
    assert plan.collect(optimise=False).shape == (2, 1)


def test_an_exception_is_the_cause_of_the_runs_error(store: iso.Store) -> None:
    def strict(rows: Array) -> Array:
        if rows.max() > 1400:
            raise ValueError("too loud")
        return rows.max(axis=1)

    plan = iso.scan(pressure(store), 250).rewindow(100).map(iso.py(strict, dtype="f4"))
    with pytest.raises(iso.RunError) as error:
        plan.collect()
    for part in ("py (node 2", "samples 1700 to 2000", "2010-03-01T00:00:17", "ValueError: too loud"):
        assert part in str(error.value)
    assert error.value.code == "operator_failed"
    cause = error.value.__cause__
    assert isinstance(cause, ValueError)
    assert cause.__traceback__ is not None
    assert cause.__traceback__.tb_frame.f_code.co_name == "strict"


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (lambda r: r[:1, 0], ["shape (1,)", "return one value (1-D)"]),
        (lambda r: r[0, 0], ["shape ()", "return one value (1-D)"]),
        (lambda r: r.max(axis=1)[5], ["zeros", "IndexError", "dtype="]),
        (lambda r: np.array(["a"] * len(r)), ["dtype"]),
    ],
)
def test_functions_that_give_no_rows_are_refused(function: Any, parts: list[str]) -> None:
    with pytest.raises(iso.IsochronyError) as error:
        iso.scan(np.arange(10), rate=10).rewindow(2).map(iso.py(function))
    for part in parts:
        assert part in str(error.value)


def test_results_of_another_kind_than_promised_end_the_run() -> None:
    windows = iso.scan(np.arange(10), rate=10).rewindow(2)
    for plan, parts in [
        (
            windows.map(iso.py(lambda r: r[:, 0], dtype="f8")),
            ["int64 of shape (5,)", "float64", "isochrony.py(function, dtype="],
        ),
        (windows.map(iso.py(lambda r: r, dtype="i8", width=3)), ["(5, 2)", "(5, 3)"]),
        (windows.filter(iso.py(lambda r: r[:, 0])), ["bool", "one bool per window"]),
        (windows.filter(iso.py(lambda r: r > 0)), ["(5, 2)", "(5,) or (5, 1)"]),
        (windows.map(iso.py(lambda r: r[:, 0].astype("u8"), dtype="i8")), ["uint64", "astype"]),
        (windows.map(iso.py(lambda r: r.reshape(-1, 2, 1), dtype="i8")), ["3 dimensions"]),
    ]:
        with pytest.raises(iso.RunError) as error:
            plan.collect()
        for part in parts:
            assert part in str(error.value)
    with pytest.raises(iso.PlanError, match="rewindow"):
        iso.scan(np.arange(10), rate=10).filter(iso.py(lambda r: r > 0))
    with pytest.raises(iso.OptionError, match="function"):
        iso.py(3)  # type: ignore[arg-type]
    with pytest.raises(iso.OptionError, match="width=0"):
        iso.py(abs, width=0)


def test_what_cannot_be_traced_names_the_way_out() -> None:
    with pytest.raises(iso.PlanError, match=r"isochrony\.py\(f\)"):
        iso.scan(np.arange(10), rate=10).rewindow(2).filter(lambda s: float(s) > 3)


def test_importable_functions_are_saved_by_name(store: iso.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    signal = pressure(store)
    store.commit()
    windows = iso.scan(signal).rewindow(100)
    plan = windows.filter(iso.py(own.rising)).map(iso.py(own.peaks)).each(own.seen)
    saved = plan.to_json()
    assert '"functions_of_tests:peaks"' in saved
    again = iso.Plan.from_json(saved, store=store, allow_functions=True)
    assert again == plan
    own.SEEN.clear()
    np.testing.assert_array_equal(again.collect(), plan.collect())
    assert own.SEEN[0] == (0, (10, 1))
    decorated = windows.map(own.decorated)
    assert iso.Plan.from_json(decorated.to_json(), allow_functions=True) == decorated
    for local in (lambda r: r, lambda r: r.max(axis=1)):
        with pytest.raises(iso.PlanError, match=r"py\(<lambda>\).*imported by name.*top of a module") as error:
            windows.map(iso.py(local)).to_json()
        assert error.value.code == "not_saveable"
    gone = saved.replace("functions_of_tests:peaks", "functions_of_tests:peak")
    with pytest.raises(iso.PlanError, match=r"functions_of_tests:peak.*PYTHONPATH"):
        iso.Plan.from_json(gone, store=store, allow_functions=True)


def test_each_sees_every_block_in_order(store: iso.Store) -> None:
    seen: list[tuple[int, int]] = []
    plan = iso.scan(pressure(store), 300).each(lambda x, start: seen.append((start, len(x))))
    np.testing.assert_array_equal(plan.collect(), np.arange(2000))
    assert seen == [(0, 300), (300, 300), (600, 300), (900, 100), (1500, 300), (1800, 300), (2100, 300), (2400, 100)]
    with pytest.raises(iso.RunError, match=r"each.*StopIteration"):
        iso.scan(np.arange(3), rate=1).each(lambda x, start: next(iter([]))).run()
    with pytest.raises(iso.OptionError, match="each"):
        iso.scan(np.arange(3), rate=1).each(3)  # type: ignore[arg-type]


# --- compiled ---


def test_compiled_functions_give_what_numpy_gives() -> None:
    pytest.importorskip("numba")
    x = np.arange(1001, dtype="f4")
    windows = iso.scan(x, 100, rate=10).rewindow(10, 5)
    rows = np.lib.stride_tricks.sliding_window_view(x, 10)[::5]

    def loud(rows: Array, out: Array) -> int:
        for k in range(len(rows)):
            out[k] = rows[k].sum() % 3 == 0
        return 0

    def ends(rows: Array, out: Array) -> int:
        for k in range(len(rows)):
            out[k, 0], out[k, 1] = rows[k, 0], rows[k, -1]
        return 0

    np.testing.assert_array_equal(windows.map(iso.jit(own.summed)).collect()[:, 0], rows.sum(axis=1, dtype="f8"))
    np.testing.assert_array_equal(windows.map(iso.jit(ends, dtype="f4", width=2)).collect(), rows[:, [0, -1]])
    kept = windows.filter(iso.jit(loud))
    np.testing.assert_array_equal(kept.collect(), rows[rows.sum(axis=1) % 3 == 0])
    plan = windows.map(iso.jit(own.summed, dtype="i8"))
    assert str(plan).endswith("map(jit(summed))")


def test_compiled_functions_must_say_how_it_went(store: iso.Store) -> None:
    pytest.importorskip("numba")
    signal = pressure(store)
    windows = iso.scan(signal).rewindow(100)

    def silent(rows: Array, out: Array) -> None:
        out[:] = 0

    def seven(rows: Array, out: Array) -> int:
        return 7

    def raises(rows: Array, out: Array) -> int:
        if rows[0, 0] > 900:
            raise ValueError("no")
        return 0

    def uncompilable(rows: Array, out: Array) -> int:
        return __import__(rows)  # type: ignore[call-overload, no-any-return]

    with pytest.raises(iso.PlanError, match=r"silent.*status.*return 0"):
        windows.map(iso.jit(silent))  # type: ignore[arg-type]
    with pytest.raises(iso.PlanError, match=r"uncompilable.*iso\.py"):
        windows.map(iso.jit(uncompilable))
    with pytest.raises(iso.RunError, match=r"jit \(node 2, samples 0.*status 7"):
        windows.map(iso.jit(seven)).collect()
    with pytest.raises(iso.RunError, match="raised an exception"):
        iso.scan(signal, 100).rewindow(100).map(iso.jit(raises)).collect()
    with pytest.raises(iso.PlanError, match="rewindow"):
        iso.scan(signal).map(iso.jit(seven))
    store.commit()
    plan = windows.map(iso.jit(own.summed, counts=True))
    again = iso.Plan.from_json(plan.to_json(), store=store, allow_functions=True)
    np.testing.assert_array_equal(again.collect(), plan.collect())


def test_a_missing_numba_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(iso.MissingExtraError, match=r"isochrony\[jit\]"):
        iso.scan(np.arange(4), rate=1).rewindow(2).map(iso.jit(own.summed))


# --- several plans in one run ---


def test_plans_run_together_share_what_they_have_in_common(store: iso.Store) -> None:
    windows = iso.scan(pressure(store)).rewindow(100).map(iso.py(own.peaks))
    high = windows.filter(lambda s: s.max() > 1500)
    count, peaks = iso.collect(windows.count(), high)
    assert count == 20
    np.testing.assert_array_equal(peaks, high.collect())
    report = iso.run(windows.count(), high, high).report
    assert [one.name for one in report.operators].count("py") == 1
    assert [one.name for one in report.operators].count("scan") == 1
    same = iso.collect(high, high)
    np.testing.assert_array_equal(same[0], same[1])
    with pytest.raises(iso.PlanError, match="give plans"):
        iso.collect()
    with pytest.raises(iso.OptionError, match="workers"):
        iso.run(windows, workers=0)


def test_a_run_goes_in_the_calling_thread() -> None:
    threads: list[int] = []
    plan = iso.scan(np.zeros(100), rate=1).rewindow(10).each(lambda *_: threads.append(threading.get_ident()))
    plan.run()
    assert set(threads) == {threading.get_ident()}
    other = threading.Thread(target=lambda: (threads.clear(), plan.run()))
    other.start()
    ident = other.ident
    other.join()
    assert set(threads) == {ident}


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
def test_what_is_no_error_leaves_a_run_as_itself(ending: type[BaseException]) -> None:
    def end(_: object) -> np.ndarray:
        raise ending("now")

    plan = iso.scan(np.zeros(100), rate=1).rewindow(10)
    with pytest.raises(ending, match="now"):
        plan.filter(iso.py(end)).run()

    def generated() -> Iterator[np.ndarray]:
        yield np.zeros(10)
        raise ending("then")

    with pytest.raises(ending, match="then"):
        iso.generate(generated, dtype="f8", rate=1).count().collect()


def test_progress_is_told_in_the_calling_thread_and_ends_the_run() -> None:
    told: list[tuple[int, int, int]] = []

    def tell(done: int, total: int) -> None:
        told.append((done, total, threading.get_ident()))
        if len(told) == 3:
            raise ValueError("enough")

    def slow(rows: np.ndarray) -> np.ndarray:
        time.sleep(0.002)
        return rows.max(axis=1)

    # Minutes, if nobody ended it.
    plan = iso.scan(np.zeros(1 << 20), rate=1, segment=16).rewindow(16).map(iso.py(slow))
    with pytest.raises(ValueError, match="enough"):
        plan._native.run(progress=tell)
    assert [total for _, total, _ in told] == [1 << 20] * 3
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert {ident for _, _, ident in told} == {threading.get_ident()}


def test_a_progress_function_that_raised_is_not_called_again_while_stages_end() -> None:
    told = 0

    def tell(done: int, total: int) -> None:
        nonlocal told
        told += 1
        raise ValueError(f"call {told}")

    samples = np.zeros(1000, "f4")
    plan = iso.generate(lambda: iter([samples] * 10**8), dtype="f4", rate=1000)
    plan = plan.lowpass(50).highpass(5).rewindow(512).power()
    with pytest.raises(ValueError, match="call 1"):
        plan._native.run(options=RunOptions.of(workers=2), progress=tell)
    assert told == 1


@pytest.mark.alone
def test_python_code_ends_within_a_second_of_ctrl_c(tmp_path: Path) -> None:
    program = """
    import os, signal, threading, time
    import numpy as np, isochrony as iso
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pressed, started = [], threading.Event()
    def press():
        started.wait()
        time.sleep(0.3)
        pressed.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=press).start()
    def endless():
        while True:
            started.set()
            yield np.zeros(1000)
    try:
        iso.generate(endless, dtype="f8", rate=1).rewindow(10).map(iso.py(lambda r: r.max(axis=1))).run()
    except KeyboardInterrupt:
        print(time.perf_counter() - pressed[0])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=200, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.5
