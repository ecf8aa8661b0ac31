"""Plans that are run by functions of plans."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest

import isochrony as iso


def windows() -> iso.Plan:
    return iso.scan(np.arange(12.0), rate=10).rewindow(4)


def reason(error: BaseException | None) -> BaseException:
    """What went wrong first."""
    assert error is not None
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def test_another_plan_may_run_inside_of_a_function() -> None:
    inner = windows().map(lambda s: s.max())
    counts: list[int] = []
    windows().each(lambda values, start: counts.append(len(inner.collect()))).run()
    assert counts == [3]
    # The part of the plan before the function, too.
    base = windows()
    sizes: list[int] = []
    base.each(lambda values, start: sizes.append(base.count().collect())).run()
    assert sizes == [3]


@pytest.mark.parametrize("how", ["each", "map", "filter", "generate", "operator", "behind", "threads"])
def test_a_plan_whose_function_runs_the_plan_itself_is_refused(how: str) -> None:
    plans: dict[str, iso.Plan] = {}

    def again(*_: Any) -> Any:
        plans["plan"].collect(workers=2 if how == "threads" else 1)
        return np.ones(3, bool)

    class Again(iso.Operator):
        def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
            again()

    match how:
        case "each":
            plans["plan"] = windows().each(again)
        case "map":
            plans["plan"] = windows().map(iso.py(again, dtype="bool"))
        case "filter":
            plans["plan"] = windows().filter(iso.py(again))
        case "generate":
            plans["plan"] = iso.generate(lambda: again(), dtype="f8", rate=10)
        case "operator":
            plans["plan"] = windows().apply(Again)
        case "threads":
            plans["plan"] = windows().map(iso.py(again, dtype="bool", on_workers="threads"))
        case "behind":
            base = windows().each(again)
            plans["plan"] = base.map(lambda s: s.max())
            plans["outer"] = base.count()
    with pytest.raises(iso.IsochronyError) as error:
        plans.get("outer", plans["plan"]).collect(workers=2 if how == "threads" else 1)
    first = reason(error.value)
    assert isinstance(first, iso.PlanError)
    assert first.code == "reentrant"
    assert "runs the plan itself" in str(first)


def test_functions_that_run_one_anothers_plans_are_refused() -> None:
    plans: dict[str, iso.Plan] = {}
    plans["a"] = windows().each(lambda values, start: plans["b"].run())
    plans["b"] = windows().each(lambda values, start: plans["a"].run())
    with pytest.raises(iso.RunError) as error:
        plans["a"].run()
    assert getattr(reason(error.value), "code", "") == "reentrant"


def test_runs_inside_of_one_another_without_end_are_refused() -> None:
    depth = 0

    def deeper(*_: Any) -> None:
        nonlocal depth
        depth += 1
        windows().each(deeper).run()

    with pytest.raises(iso.RunError) as error:
        deeper()
    assert getattr(reason(error.value), "code", "") == "nested_too_deep"
    assert 4 < depth < 40


def test_recursion_that_ends_is_not_refused() -> None:
    def halves(count: int) -> int:
        if count < 2:
            return 1
        made: list[int] = []
        iso.scan(np.arange(float(count)), rate=10).each(lambda v, s: made.append(halves(count // 2))).run()
        return 1 + made[0]

    assert halves(64) == 7


def test_the_same_plan_may_run_in_several_threads_at_once() -> None:
    plan = windows().map(iso.py(lambda rows: rows.max(axis=1)))
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(plan.collect().tolist())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [[[3], [7], [11]]] * 8


def test_endless_recursion_does_not_use_up_the_stack_of_a_small_thread() -> None:
    code = """
    import threading
    import numpy as np
    import isochrony as iso

    def deeper(*_):
        iso.scan(np.arange(4.0), rate=10).each(deeper).run()

    def main():
        try:
            deeper()
        except iso.RunError:
            print("refused")

    threading.stack_size(1 << 20)
    thread = threading.Thread(target=main)
    thread.start()
    thread.join()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


def test_a_progress_function_that_runs_its_plan_without_end_is_refused() -> None:
    # In a thread with little stack, which a run inside of a run inside of a run would use up.
    program = """
    import threading, time
    import numpy as np, isochrony as iso

    waits = True

    def wait(values, start):
        # A run that is over within the interval of progress reports makes none.
        if waits:
            time.sleep(0.001)

    plan = iso.scan(np.zeros(1 << 20), rate=10, segment=16).rewindow(16).each(wait)

    def again(done, total):
        plan._native.run(progress=again)

    def work():
        try:
            again(0, 0)
        except iso.PlanError as error:
            print(error.code)

    threading.stack_size(1 << 20)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    # Once is no circle.
    counts = []

    def count_once(done, total):
        global waits
        if waits:
            waits = False
            counts.append(plan.count().collect())

    plan._native.run(progress=count_once)
    print(counts)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "nested_too_deep\n[65536]\n", "")
