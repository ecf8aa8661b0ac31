"""Runs of plans: several as one, with a progress line, and what each gave."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from .chain import Chain
from .control import Control
from .failures import Failures, expected
from .native_errors import OptionError, PlanError
from .options import byte_count, flag, is_auto
from .progress import ImportProgress
from .report import OperatorReport, ProcessReport, Report, RunResult, TaskReport, WorkerReport
from .table import Table

if TYPE_CHECKING:
    from ._native import NativeControl, NativePlan
    from .plan import Plan

# Threads beyond this only cost memory.
MOST_WORKERS = 1024

__all__ = ["collect", "collect_reported", "run"]


def collect(
    *plans: Plan,
    workers: int | Literal["auto"] = 1,
    tolerance: float = 0.0,
    pin: bool = False,
    progress: bool = False,
    memory: int | str | None = None,
    optimise: bool = True,
    control: Control | None = None,
) -> tuple[Any, ...]:
    """Run several plans as one and gather what comes out of each: what they have in common is read and computed once.

    Parameters and errors are those of `Plan.collect`; the result is a tuple.

    >>> import numpy as np, isochrony as iso
    >>> windows = iso.scan(np.arange(6.0), rate=100).rewindow(2)
    >>> iso.collect(windows.count(), windows.map(lambda s: s.max()))
    (3, array([[1.],
           [3.],
           [5.]]))
    """
    gathered, _, _ = collect_reported(
        plans,
        workers=workers,
        tolerance=tolerance,
        pin=pin,
        progress=progress,
        memory=memory,
        optimise=optimise,
        control=control,
    )
    return gathered


def run(
    *plans: Plan,
    workers: int | Literal["auto"] = 1,
    tolerance: float = 0.0,
    pin: bool = False,
    progress: bool = False,
    memory: int | str | None = None,
    optimise: bool = True,
    control: Control | None = None,
) -> RunResult:
    """Run several plans as one for their effects: what they have in common is read and computed once.

    Parameters and errors are those of `Plan.collect`.

    Returns:
        A `RunResult`: its `report` says what each operator did.
    """
    first, others = _natives(plans)
    most = None if memory is None else byte_count("memory", memory)
    threads, rewritten = (_threads(workers), flag("pin", pin), _granted(tolerance)), flag("optimise", optimise)
    with ImportProgress("running", enabled=None if progress else False, unit="samples") as line, expected() as failures:
        looks = _looks(line if progress else None, failures)
        return _done(first.run(others, most, rewritten, looks, _native(control), threads))


def collect_reported(
    plans: tuple[Plan, ...],
    *,
    workers: int | Literal["auto"] = 1,
    tolerance: float = 0.0,
    pin: bool = False,
    progress: bool = False,
    memory: int | str | None = None,
    optimise: bool = True,
    control: Control | None = None,
) -> tuple[tuple[Any, ...], tuple[npt.NDArray[np.int64] | None, ...], RunResult]:
    """As `collect`, and where the rows of each array lie (index of the first and how many are next to one another), and
    the report.
    """
    first, others = _natives(plans)
    most = None if memory is None else byte_count("memory", memory)
    threads, rewritten = (_threads(workers), flag("pin", pin), _granted(tolerance)), flag("optimise", optimise)
    with ImportProgress("running", enabled=None if progress else False, unit="samples") as line, expected() as failures:
        looks = _looks(line if progress else None, failures)
        gathered, done = first.collect(others, most, rewritten, looks, _native(control), threads)
    results = (Table._of(one) if plan.kind == "rows" else one for plan, (one, _) in zip(plans, gathered, strict=True))
    return tuple(results), tuple(parts for _, parts in gathered), _done(done)


def _threads(workers: object) -> int:
    """How many workers; of "auto" as many as the process has cores."""
    if is_auto(workers):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(workers, int | np.integer) and not isinstance(workers, bool) and 1 <= workers <= MOST_WORKERS:
        return int(workers)
    legal = f'a whole number from 1 to {MOST_WORKERS}, or "auto" for a worker a core'
    raise OptionError(f"workers={workers!r} is refused; give {legal}")


def _granted(tolerance: object) -> float:
    """By how much results of what settles may differ."""
    number = isinstance(tolerance, int | float | np.integer | np.floating) and not isinstance(tolerance, bool)
    if number and 0.0 <= float(tolerance) < 1.0:  # type: ignore[arg-type]
        return float(tolerance)  # type: ignore[arg-type]
    raise OptionError(f"tolerance={tolerance!r} is refused; give a number from 0 to below 1, such as 1e-9")


def _done(parts: Any) -> RunResult:
    operators, reads, workers, tasks, places, processes, *rest = parts
    return RunResult(
        Report(
            tuple(OperatorReport(*one) for one in operators),
            tuple(reads),
            tuple(WorkerReport(*one) for one in workers),
            tuple(TaskReport(*one) for one in tasks),
            tuple(places),
            tuple(ProcessReport(*one) for one in processes),
            *rest,
        )
    )


def _natives(plans: tuple[Plan, ...]) -> tuple[NativePlan, list[NativePlan]]:
    if not plans or not all(isinstance(plan, Chain) for plan in plans):
        raise PlanError(f"got {', '.join(type(plan).__name__ for plan in plans) or 'nothing'} to run; give plans")
    return plans[0]._native, [plan._native for plan in plans[1:]]


def _native(control: object) -> NativeControl | None:
    if control is not None and not isinstance(control, Control):
        raise OptionError(f"control={control!r} is refused; give an isochrony.Control, or leave it out")
    return None if control is None else control._native


def _looks(line: ImportProgress | None, failures: Failures | None) -> Callable[[int, int], None] | None:
    """What a run calls now and then, with how far it is; what it raises ends the run."""
    if line is None and failures is None:
        return None

    def looks(done: int, total: int) -> None:
        if line is not None:
            line(done, total, 0, 0)
        if failures is not None:
            failures.look()

    return looks
