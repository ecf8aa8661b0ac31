"""Python functions in worker processes: what they raise, and what is said where one cannot be called."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functions_of_tests as own
import isochrony as iso
from worker_processes import Array, noted, nothing_is_left, on_two, pressure, until, windows

pytestmark = pytest.mark.native

__all__ = ["nothing_is_left", "pressure"]  # fixtures


class UnpicklableError(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.lock = threading.Lock()


def test_an_exception_comes_back_as_itself_with_where_it_came_from(pressure: iso.Signal) -> None:
    def strict(rows: Array) -> Array:
        if rows.max() > 0:
            raise ValueError("too loud")
        return rows.max(axis=1)

    with pytest.raises(iso.RunError) as caught:
        on_two(windows(pressure).map(iso.py(strict, dtype="i2")))
    for part in ("py (node 2, samples 0 to", "2010-03-01T00:00:00", "ValueError: too loud"):
        assert part in str(caught.value)
    cause = caught.value.__cause__
    assert type(cause) is ValueError
    (note,) = cause.__notes__
    assert "In worker process" in note
    assert "in strict\n" in note
    assert "_worker.py" not in note


def test_an_exception_that_cannot_be_pickled_comes_back_as_text(pressure: iso.Signal) -> None:
    def fails(rows: Array) -> Array:
        raise UnpicklableError(3, 4)

    with pytest.raises(iso.RunError, match="UnpicklableError: 3 and 4") as caught:
        on_two(windows(pressure).map(iso.py(fails, dtype="i2")))
    assert type(caught.value.__cause__) is RuntimeError
    assert "in fails\n" in caught.value.__cause__.__notes__[0]


def test_what_is_no_error_leaves_a_run_as_itself(pressure: iso.Signal) -> None:
    def leaves(rows: Array) -> Array:
        sys.exit("enough")

    with pytest.raises(SystemExit, match="enough"):
        on_two(windows(pressure).map(iso.py(leaves, dtype="i2")))


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (lambda rows: rows[:1, 0], r"returned int16 of shape \(1,\)"),
        (lambda rows: rows[:, 0].astype("f4"), "returned float32 of shape"),
        (lambda rows: rows[None], "array of 3 dimensions"),
        (lambda rows: np.array(["a"] * len(rows)), r"cannot be used in a plan; convert them with \.astype"),
        (lambda rows: None, "cannot be used in a plan|dimensions"),
    ],
)
def test_results_of_another_kind_are_refused_as_in_one_process(
    pressure: iso.Signal, function: Callable[[Array], Any], part: str
) -> None:
    plan = windows(pressure).map(iso.py(function, dtype="i2"))
    with pytest.raises(iso.RunError, match=part):
        on_two(plan)
    with pytest.raises(iso.RunError, match=part):
        plan.run()


def test_a_function_that_cannot_be_loaded_there_says_so(pressure: iso.Signal, tmp_path: Path) -> None:
    class Here:
        """Comes back only in the process that it was made in."""

        def __init__(self, pid: int) -> None:
            if pid != os.getpid():
                (tmp_path / str(os.getpid())).touch()
                raise ImportError("not here")
            self.pid = pid

        def __reduce__(self) -> Any:
            return type(self), (self.pid,)

    def waits(rows: Array) -> Array:
        """In the workers' threads: until both have tried to load what comes behind."""
        until(lambda: len(noted(tmp_path)) >= 2)
        return rows.copy()

    here = Here(os.getpid())
    plan = windows(pressure).map(iso.py(waits, dtype="i2", width=500, on_workers="threads"))
    with pytest.raises(iso.RunError, match="not here") as caught:
        on_two(plan.map(iso.py(lambda rows: rows[:, 0] + here.pid * 0, dtype="i2")))
    assert isinstance(caught.value.__cause__, ImportError)
    assert "could not be loaded there" in caught.value.__cause__.__notes__[-1]
    # No worker has tried in a second process what failed in its first.
    assert len(noted(tmp_path)) == 2


def test_memory_that_cannot_be_had_is_an_error_and_no_crash(pressure: iso.Signal) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    plan = windows(pressure).map(iso.py(own.peaks))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, hard))
    try:
        with pytest.raises(
            iso.RunError, match=r"1048576 bytes of shared memory .*peaks cannot be allocated .*fewer workers"
        ):
            plan.run(workers=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


CLASSES = """
class Loud(Exception):
    def __init__(self, channel, level):
        super().__init__(f"channel {channel} is at {level}")
        self.channel, self.level = channel, level

class Odd(OSError):
    def __init__(self, number, *, why):
        super().__init__(number, why)
        self.why = why

class Twice(ValueError):
    # Called with its own message it would say it once more.
    def __init__(self, what, times=2):
        super().__init__(" ".join([what] * times))

class Inner(KeyError):
    def __init__(self, *, key):
        super().__init__(key)

class Outer(Exception):
    def __init__(self, first, second):
        super().__init__("both")
        self.parts = [first, second]

class Kept(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")
        self.lock = threading.Lock()
"""

RAISING = """
import threading
import numpy as np, isochrony as iso
{classes}

cases = [
    (lambda: Loud(3, 7.5), lambda e: (type(e) is Loud, e.channel, e.level, e.args)),
    (lambda: Odd(28, why="full"), lambda e: (type(e) is Odd, e.errno, e.strerror, e.why)),
    (lambda: Twice("no"), lambda e: (type(e) is Twice, str(e))),
    (lambda: Outer(Inner(key="a"), Inner(key="b")), lambda e: (type(e) is Outer, [type(p) is Inner for p in e.parts])),
    (lambda: ExceptionGroup("all", [Loud(1, 2)]), lambda e: (type(e), type(e.exceptions[0]) is Loud)),
    (lambda: Kept(1, 2), lambda e: (type(e), str(e))),
]

def work(make):
    def strict(rows):
        raise make()
    return strict

windows = iso.scan(np.arange(1000.0), rate=10).rewindow(10)
for make, look in cases:
    try:
        windows.map(iso.py(work(make), dtype="f8")).run(workers=2)
    except iso.RunError as error:
        cause = error.__cause__
        print(look(cause), "In worker process" in cause.__notes__[0])
"""


def test_exceptions_of_classes_with_arguments_of_their_own_come_back_as_themselves(tmp_path: Path) -> None:
    """Of classes that a script defines, which are made anew without a call that they would not understand."""
    done = subprocess.run(
        [sys.executable, "-c", RAISING.format(classes=CLASSES)],
        capture_output=True, text=True, timeout=200, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "(True, 3, 7.5, ('channel 3 is at 7.5',)) True",
        "(True, 28, 'full', 'full') True",
        "(True, 'no no') True",
        "(True, [True, True]) True",
        "(<class 'ExceptionGroup'>, True) True",
        "(<class 'RuntimeError'>, 'Kept: 1 and 2') True",
    ], done.stderr
