"""Iteration over a plan: blocks in bounded memory, and a run that ends with the loop."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso
from made import pressure

STRETCH = 1000


class Source:
    """Samples without an end, and how many stretches of them were asked for."""

    def __init__(self, stretches: int | None = None) -> None:
        self.given = 0
        self.stretches = stretches

    def __call__(self) -> Iterator[np.ndarray]:
        for number in itertools.count() if self.stretches is None else range(self.stretches):
            self.given = number + 1
            yield np.full(STRETCH, float(number))

    def plan(self) -> iso.Plan:
        return iso.generate(self, dtype="f8", rate=100, segment=STRETCH)


def running() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "isochrony-blocks"]


@pytest.fixture(autouse=True)
def no_run_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert running() == []


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_blocks_are_what_collect_gives(data: st.DataObject) -> None:
    x = np.random.default_rng(data.draw(st.integers(0, 2**32))).integers(-9, 9, data.draw(st.integers(0, 500)))
    cut = data.draw(st.integers(0, len(x)))
    segment = data.draw(st.integers(1, 200))
    stretches = [(0, x[:cut].copy()), (cut + 10, x[cut:].copy())]
    scan = iso.generate(lambda: iter(stretches), dtype="i8", rate=10, segment=segment)
    window, hop = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 20))
    windows = scan.rewindow(window, hop).filter(lambda s: s.max() > 2)
    for plan, length in ((scan, None), (windows, window), (windows.map(lambda s: s.mean()), window)):
        blocks = list(plan)
        empty = plan.collect()[:0]
        np.testing.assert_array_equal(np.concatenate([empty, *(block.values for block in blocks)]), plan.collect())
        index = [b.start + plan.hop * np.arange(len(b.values)) for b in blocks]
        table = plan.collect(as_="table")
        np.testing.assert_array_equal(
            np.concatenate([np.empty(0, int), *index]), table["index" if length is None else "start"]
        )
        for block in blocks:
            assert block.end == block.start + plan.hop * (len(block.values) - 1) + (length or 1)
    ranges = [block.values for block in windows.ranges()]
    np.testing.assert_array_equal(np.concatenate([np.empty((0, 2), int), *ranges]), windows.ranges().collect())
    rows = windows.stats("max")
    parts = [block.values for block in rows]
    assert all(isinstance(part, iso.Table) for part in parts)
    assert np.concatenate([[], *(part["max"] for part in parts)]).tolist() == rows.collect()["max"].tolist()


@pytest.mark.parametrize("workers", [1, 2])
def test_blocks_tell_of_gaps_clock_steps_and_filters(store: iso.Store, workers: int) -> None:
    signal = store.create("p", dtype="f8", rate=100)
    at = np.datetime64("2024-01-01T00:00:00", "ns")
    for _ in range(3):
        signal.append(np.arange(100.0), at=at, resolution=0)
        at -= np.timedelta64(7200, "s")
    signal.append_gap(samples=50)
    signal.append(np.arange(100.0))
    store.commit()
    blocks = list(iso.scan(signal, 60).blocks(workers=workers))
    before = {block.start: block.breaks for block in blocks if block.breaks}
    assert {start: set(kinds) for start, kinds in before.items()} == {100: {"clock"}, 200: {"clock"}, 350: {"gap"}}
    evens = iso.scan(np.arange(8.0), rate=10).rewindow(1).filter(lambda s: (s.max() % 4) == 3)
    assert [(block.start, block.breaks) for block in evens.blocks(workers=workers)] == [
        (3, ()),
        (7, ("removed",)),
    ]


@pytest.mark.parametrize("options", [{"workers": 2}, {"memory": "64MB"}, {"optimise": False}])
def test_loops_take_run_options(store: iso.Store, options: Any) -> None:
    plan = iso.scan(pressure(store), 300).rewindow(50).map(lambda s: s - s.mean())
    got = np.concatenate([block.values for block in plan.blocks(**options)])
    np.testing.assert_array_equal(got, plan.collect())
    with pytest.raises(iso.OptionError, match="workers=0"):
        plan.blocks(workers=0)
    with pytest.raises(TypeError, match="'threads' is not a run option"):
        plan.blocks(threads=2)  # type: ignore[call-arg]


def test_a_control_changes_the_plan_of_a_loop() -> None:
    control = iso.Control()
    plan = Source(500).plan().map(lambda s: s * 0 + 1)
    first = []
    for block in plan.blocks(control=control):
        if not first:
            control.set(plan, expression=lambda s: s * 0 + 2)
        first.append(block.values[0])
    assert (first[0], first[-1]) == (1, 2)
    assert len(first) == 500


def test_calibrated_counts_are_values_as_in_collect(store: iso.Store) -> None:
    signal = store.create("p", dtype="i2", rate=100, unit="kPa", scale=0.5, offset=1)
    signal.append(np.arange(1000, dtype="i2"))
    plan = iso.scan(signal, 300)
    for counts, dtype in ((False, "f8"), (True, "i2")):
        blocks = list(plan.blocks(counts=counts))
        assert [block.values.dtype for block in blocks] == [np.dtype(dtype)] * 4
        np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), plan.collect(counts=counts))


def test_groups_have_no_indices(store: iso.Store) -> None:
    plan = iso.scan(pressure(store)).rewindow(100).stats("max").group_by().agg(n="count")
    (block,) = plan
    assert (block.start, block.end) == (None, None)
    assert block.values == plan.collect()


def test_the_run_waits_for_the_loop() -> None:
    source = Source(200)
    seen = 0
    for block in source.plan():
        seen += 1
        if seen in (1, 50, 150):
            time.sleep(0.3)
            # What waits, what the run has in hand, and what it reads ahead.
            assert source.given <= seen + 8
        assert block.values[0] == seen - 1
    assert seen == 200


def test_blocks_may_be_kept() -> None:
    kept = [block.values for block in Source(50).plan().map(lambda s: s * 2)]
    np.testing.assert_array_equal(np.concatenate(kept), np.repeat(2.0 * np.arange(50), STRETCH))
    assert not kept[0].flags.writeable


def leave_by_break(plan: iso.Plan) -> None:
    for _ in plan:
        break


def leave_by_an_error(plan: iso.Plan) -> None:
    with pytest.raises(ZeroDivisionError):
        for _ in plan:
            raise ZeroDivisionError


def leave_by_close(plan: iso.Plan) -> None:
    blocks: Any = iter(plan)
    next(blocks)
    assert len(running()) == 1
    blocks.close()
    assert running() == []


def leave_by_dropping_it(plan: iso.Plan) -> None:
    blocks: Any = iter(plan)
    next(blocks)
    del blocks
    gc.collect()
    assert running() == []


def leave_to_the_garbage_collector(plan: iso.Plan) -> None:
    cycle: list[Any] = [iter(plan)]
    next(cycle[0])
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert running() == []


def leave_before_it_begins(plan: iso.Plan) -> None:
    iter(plan)
    assert running() == []


LEAVE = [
    leave_by_break, leave_by_an_error, leave_by_close, leave_by_dropping_it, leave_to_the_garbage_collector,
    leave_before_it_begins,
]  # fmt: skip


@pytest.mark.parametrize("leave", LEAVE)
@pytest.mark.parametrize("again", [1, 20])
def test_a_loop_that_is_left_ends_its_run(leave: Any, again: int) -> None:
    source = Source()
    for _ in range(again):
        begun = time.monotonic()
        leave(source.plan())
        assert time.monotonic() - begun < 20
    gc.collect()
    given = source.given
    time.sleep(0.05)
    assert source.given == given


def test_a_run_that_gives_nothing_ends_when_it_is_interrupted() -> None:
    """Ctrl-C in the loop while nothing passes the filter."""
    program = """
        import _thread, itertools, threading, time
        import numpy as np
        import isochrony as iso
        noise = lambda: (np.zeros(1000) for _ in itertools.count())
        plan = iso.generate(noise, dtype="f8", rate=10).rewindow(100).filter(lambda s: s.max() > 1)
        threading.Timer(0.5, _thread.interrupt_main).start()
        try:
            for block in plan:
                print("a block")
        except KeyboardInterrupt:
            print("interrupted", sum(one.name == "isochrony-blocks" for one in threading.enumerate()))
    """
    assert output_of(program) == "interrupted 0\n"


def output_of(program: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("where", ["in the main thread", "in a thread that has ended"])
def test_the_interpreter_ends_with_a_loop_unfinished(where: str) -> None:
    program = f"""
        import itertools, threading
        import numpy as np
        import isochrony as iso
        noise = lambda: (np.zeros(1000) for _ in itertools.count())
        blocks = iter(iso.generate(noise, dtype="f8", rate=10, segment=1000))
        if {where == "in the main thread"}:
            next(blocks)
        else:
            thread = threading.Thread(target=lambda: next(blocks))
            thread.start()
            thread.join()
        print("done")
    """
    assert output_of(program) == "done\n"


def test_a_thread_that_outlives_the_main_one_gets_every_block() -> None:
    program = """
        import threading, time
        import numpy as np
        import isochrony as iso
        def read():
            count = 0
            for block in iso.scan(np.arange(50_000), 1000, rate=10):
                time.sleep(0.01)
                count += len(block.values)
            print(count)
        threading.Thread(target=read).start()
    """
    assert output_of(program) == "50000\n"


def test_errors_come_behind_the_blocks_before_them() -> None:
    def stretches() -> Iterator[np.ndarray]:
        yield np.zeros(STRETCH)
        yield np.ones(STRETCH)
        raise ValueError("enough")

    seen = []
    with pytest.raises(iso.RunError, match="enough") as error:
        for block in iso.generate(stretches, dtype="f8", rate=10, segment=STRETCH):
            seen.append(block.values[0])
    assert seen == [0, 1]
    assert isinstance(error.value.__cause__, ValueError)


def test_a_count_has_no_blocks() -> None:
    with pytest.raises(iso.PlanError, match="one number"):
        iter(Source(1).plan().count())


def test_uses_that_would_run_the_plan_by_mistake_are_refused() -> None:
    source = Source(3)
    plan = source.plan()
    with pytest.raises(iso.PlanError, match="collect"):
        3 in plan  # noqa: B015
    with pytest.raises(iso.PlanError, match="not an array"):
        np.asarray(plan)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(iso.PlanError, match="not an array"):
        pandas.DataFrame(plan)
    assert source.given == 0
    with pytest.raises(iso.PlanError, match=r"collect got Block as argument 1; write collect\(plan\), not collect\("):
        iso.collect(*plan)


def test_loops_over_one_plan_are_independent() -> None:
    plan = iso.scan(np.arange(10_000), 500, rate=10)
    for one, other in zip(plan, plan, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    assert sum(len(inner.values) for _ in plan for inner in plan) == 20 * 10_000


@pytest.mark.parametrize("how", ["itself", "each other", "without end"])
def test_plans_whose_functions_iterate_over_them_are_refused(how: str) -> None:
    plans: dict[str, iso.Plan] = {}

    def again(name: str) -> iso.Plan:
        def look(values: np.ndarray, start: int) -> None:
            for _ in plans[name] if how != "without end" else again("a"):
                pass

        return iso.scan(np.arange(12.0), rate=10).each(look)

    plans["a"] = again("a" if how == "itself" else "b")
    plans["b"] = again("a")
    with pytest.raises(iso.RunError) as error:
        list(plans["a"])
    first: BaseException = error.value
    while first.__cause__ is not None:
        first = first.__cause__
    assert isinstance(first, iso.PlanError)
    assert "iterates over the same plan" in str(first)


def test_a_function_may_iterate_over_another_plan() -> None:
    inner = iso.scan(np.arange(6.0), 2, rate=10)
    sizes: list[int] = []
    outer = iso.scan(np.arange(12.0), rate=10).rewindow(4).each(lambda v, s: sizes.append(len(list(inner))))
    assert sum(len(block.values) for block in outer) == 3
    assert set(sizes) == {3}


def test_leaving_waits_for_a_source_that_is_blocked() -> None:
    begun, returned = threading.Event(), []

    def slow() -> Iterator[np.ndarray]:
        yield np.zeros(STRETCH)
        begun.set()
        time.sleep(1)
        returned.append(True)
        yield np.ones(STRETCH)

    for _ in iso.generate(slow, dtype="f8", rate=10, segment=STRETCH):
        assert begun.wait(20)
        break
    gc.collect()
    assert returned == [True]
    assert running() == []


def test_sinks_keep_what_was_committed(store: iso.Store) -> None:
    plan = iso.scan(pressure(store), 500).sink(store, "copy")
    assert sum(len(block.values) for block in plan) == store["copy"].sample_count
