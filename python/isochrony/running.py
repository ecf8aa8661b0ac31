"""Runs of plans: several as one, with a progress line, and what each gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .chain import Chain
from .failures import Failures, expected
from .native_errors import PlanError
from .options import whole
from .progress import ImportProgress
from .report import OperatorReport, Report, RunResult
from .table import Table

if TYPE_CHECKING:
    from ._native import NativeControl, NativePlan
    from .control import Control
    from .plan import Plan

__all__ = ["collect", "collect_reported", "run"]


def collect(
    *plans: Plan,
    workers: int = 1,
    progress: bool = False,
    memory: int | None = None,
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
        plans, workers=workers, progress=progress, memory=memory, optimise=optimise, control=control
    )
    return gathered


def run(
    *plans: Plan,
    workers: int = 1,
    progress: bool = False,
    memory: int | None = None,
    optimise: bool = True,
    control: Control | None = None,
) -> RunResult:
    """Run several plans as one for their effects: what they have in common is read and computed once.

    Parameters and errors are those of `Plan.collect`.

    Returns:
        A `RunResult`: its `report` says what each operator did.
    """
    first, others = _natives(plans)
    memory = _checked(workers, memory)
    with ImportProgress("running", enabled=None if progress else False, unit="samples") as line, expected() as failures:
        looks = _looks(line if progress else None, failures)
        return _done(first.run(others, memory, optimise, looks, _native(control)))


def collect_reported(
    plans: tuple[Plan, ...],
    *,
    workers: int = 1,
    progress: bool = False,
    memory: int | None = None,
    optimise: bool = True,
    control: Control | None = None,
) -> tuple[tuple[Any, ...], tuple[npt.NDArray[np.int64] | None, ...], RunResult]:
    """As `collect`, and where the rows of each array lie (index of the first and how many are next to one another), and
    the report.
    """
    first, others = _natives(plans)
    memory = _checked(workers, memory)
    with ImportProgress("running", enabled=None if progress else False, unit="samples") as line, expected() as failures:
        looks = _looks(line if progress else None, failures)
        gathered, done = first.collect(others, memory, optimise, looks, _native(control))
    results = (Table._of(one) if plan.kind == "rows" else one for plan, (one, _) in zip(plans, gathered, strict=True))
    return tuple(results), tuple(parts for _, parts in gathered), _done(done)


def _checked(workers: int, memory: int | None) -> int | None:
    if workers != 1:
        raise PlanError(f"workers={workers!r} is refused: this version runs plans in one thread; leave it at 1")
    return None if memory is None else whole("memory=", memory, "bytes")


def _done(parts: Any) -> RunResult:
    operators, reads, bursts, elapsed_s, peak_bytes, text = parts
    operators_done = tuple(OperatorReport(*one) for one in operators)
    return RunResult(Report(operators_done, tuple(reads), bursts, elapsed_s, peak_bytes, text))


def _natives(plans: tuple[Plan, ...]) -> tuple[NativePlan, list[NativePlan]]:
    if not plans or not all(isinstance(plan, Chain) for plan in plans):
        raise PlanError(f"got {', '.join(type(plan).__name__ for plan in plans) or 'nothing'} to run; give plans")
    return plans[0]._native, [plan._native for plan in plans[1:]]


def _native(control: Control | None) -> NativeControl | None:
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
