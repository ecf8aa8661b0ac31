"""Arrays that functions in plans are given: one array serves block after block unless somebody keeps it."""

import contextlib
import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

import isochrony as iso

Array = npt.NDArray[Any]

# Ways to keep what a function is given, or a part of it, beyond the call; each gives what is kept as an array.
KEEPS: dict[str, Callable[[Array], Callable[[], Array]]] = {
    "nothing": lambda rows: lambda: np.empty(0),
    "itself": lambda rows: lambda: rows,
    "a slice": lambda rows: (lambda part: lambda: part)(rows[-1:, ::2]),
    "turned": lambda rows: (lambda turned: lambda: turned)(rows.T[::-1]),
    "its bytes": lambda rows: (lambda view: lambda: np.frombuffer(view, "f8"))(memoryview(rows[0])),
    "by an iterator": lambda rows: (lambda flat: lambda: flat.base.copy())(rows.flat),
    "by a bound method": lambda rows: (lambda copy: lambda: copy())(rows.copy),
    "in another shape": lambda rows: (lambda other: lambda: other)(rows.view("u8").reshape(-1)),
}


def in_memory_of_the_run(x: Array, segment: int, window: int, hop: int) -> iso.Plan:
    """Windows of values that lie in memory which the run uses again for later blocks."""
    return iso.scan(x, segment, rate=10).map(lambda s: s * 2.0).rewindow(window, hop)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_what_is_kept_never_changes(data: st.DataObject) -> None:
    window = data.draw(st.integers(1, 5))
    hop = data.draw(st.integers(1, window))
    x = np.arange(data.draw(st.integers(1, 80)), dtype="f8")
    how = data.draw(st.lists(st.sampled_from(sorted(KEEPS)), min_size=1, max_size=6))
    kept: list[tuple[Callable[[], Array], Array]] = []
    calls = 0

    def keeps(rows: Array) -> Array:
        nonlocal calls
        keep = KEEPS[how[calls % len(how)]](rows)
        calls += 1
        kept.append((keep, keep().copy()))
        return rows

    plan = in_memory_of_the_run(x, data.draw(st.integers(1, 9)), window, hop)
    result = plan.map(iso.py(keeps, dtype="f8", width=window)).collect()
    rows = [2 * x[k : k + window] for k in range(0, len(x) - window + 1, hop)]
    np.testing.assert_array_equal(result, np.array(rows).reshape(-1, window))
    for keep, before in kept:
        np.testing.assert_array_equal(keep(), before)


@pytest.mark.parametrize(
    ("function", "width"),
    [
        (lambda rows: rows, 4),
        (lambda rows: rows[:], 4),
        (lambda rows: rows[:, :1], 1),
        (lambda rows: rows[:, 1], 1),
        (lambda rows: rows[:, ::-1], 4),
        (lambda rows: np.asfortranarray(rows), 4),
        (lambda rows: rows.copy(), 4),
        (lambda rows: rows.copy()[:, 1:3], 2),
        (lambda rows: np.broadcast_to(rows[:, :1], rows.shape), 4),
        (lambda rows: np.repeat(rows, 300, axis=1), 1200),
        (lambda rows: rows.astype(">f8"), 4),
        (lambda rows: rows.tolist(), 4),
    ],
)
@pytest.mark.parametrize("segment", [4, 12, 1000])
def test_whatever_is_returned_is_what_comes_out(function: Callable[[Array], Any], width: int, segment: int) -> None:
    x = np.arange(120, dtype="f8")
    expected = np.asarray(function(2 * x.reshape(-1, 4)), "f8").reshape(30, width)
    plan = in_memory_of_the_run(x, segment, 4, 4).map(iso.py(function, dtype="f8", width=width))
    # Gathered at once, and held back by a delay, so that later blocks come before the first is looked at.
    np.testing.assert_array_equal(plan.collect(), expected)
    first, second = iso.collect(plan, plan.map(iso.py(np.negative)))
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(second, -expected)


def test_an_array_that_nobody_keeps_is_used_again_and_one_that_is_kept_is_not() -> None:
    x = np.arange(40.0)
    seen: list[int] = []
    iso.scan(x, 4, rate=1).rewindow(4).map(
        iso.py(lambda rows: seen.append(id(rows)) or rows, dtype="f8", width=4)
    ).run()
    assert len(set(seen)) == 1
    kept: list[Array] = []
    iso.scan(x, 4, rate=1).rewindow(4).each(lambda rows, start: kept.append(rows)).run()
    assert len({id(rows) for rows in kept}) == 10
    np.testing.assert_array_equal(np.concatenate(kept), x.reshape(-1, 4))


def test_an_array_that_was_changed_or_is_watched_is_not_used_again() -> None:
    watched: list[Any] = []
    shapes: list[Any] = []

    def reshapes(rows: Array) -> Array:
        shapes.append((rows.shape, rows.dtype.name, rows.flags.writeable))
        result = rows[:, 0].copy()
        # Not every version of NumPy lets them be set.
        with contextlib.suppress(AttributeError):
            rows.shape = (-1,)
            rows.dtype = np.dtype("u8")  # type: ignore[misc]
        return result

    def watches(rows: Array) -> Array:
        watched.append(weakref.ref(rows))
        return rows[:, 0].copy()

    x = np.arange(40.0)
    for function in (reshapes, watches):
        with warnings.catch_warnings():
            # To set a shape or a dtype is frowned upon, and done.
            warnings.simplefilter("ignore", DeprecationWarning)
            result = iso.scan(x, 4, rate=1).rewindow(4).map(iso.py(function, dtype="f8")).collect()
        np.testing.assert_array_equal(result[:, 0], x[::4])
    assert shapes == [((1, 4), "float64", False)] * 10
    assert all(reference() is None for reference in watched)
    assert len(set(map(id, watched))) == 10


def test_what_a_traceback_holds_goes_on_showing_what_failed() -> None:
    def fails(rows: Array) -> Array:
        if rows[0, 0] >= 40:
            raise ValueError("enough")
        return rows

    x = np.arange(40.0)
    with pytest.raises(iso.RunError) as error:
        in_memory_of_the_run(x, 4, 4, 4).map(iso.py(fails, dtype="f8", width=4)).collect()
    gc.collect()
    assert error.value.__cause__ is not None
    trace = error.value.__cause__.__traceback__
    assert trace is not None
    np.testing.assert_array_equal(trace.tb_frame.f_locals["rows"], [[40, 42, 44, 46]])


def test_memory_is_let_go_of_after_the_run() -> None:
    x = np.arange(4000.0)
    before = sys.getrefcount(x)
    plan = iso.scan(x, 40, rate=1).rewindow(4)
    plan.map(iso.py(lambda rows: rows[:, 0])).map(iso.py(np.negative)).each(lambda rows, start: None).run()
    del plan
    gc.collect()
    assert sys.getrefcount(x) == before


def test_other_threads_run_python_meanwhile() -> None:
    done, steps = threading.Event(), 0

    def busy() -> None:
        nonlocal steps
        while not done.is_set():
            steps += 1

    x = np.arange(400_000.0)
    calls: list[int] = []
    thread = threading.Thread(target=busy)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    thread.start()
    try:
        windows = iso.scan(x, 10, rate=1).rewindow(2)
        result = windows.map(iso.py(lambda rows: calls.append(steps) or rows.sum(axis=1), dtype="f8")).collect()
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)
    np.testing.assert_array_equal(result[:, 0], x.reshape(-1, 2).sum(axis=1))
    assert calls[-1] > calls[0]
