"""Runs of plans: several as one, with a progress line, and what each gave."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from ..errors import EmptyResultWarning
from ..errors.native import PlanError
from ..live.failures import expected
from ..options import choice, flag
from ..output.progress import ImportProgress
from ..steps.chain import Chain
from ..tables.table import Table
from ..tuning.configuration import cluster_machine
from .options import RunKeywords, RunOptions, takes_run_options
from .report import Report, RunResult
from .results import FORMS, Form, LabelledResult

if TYPE_CHECKING:
    from .._native import NativePlan, NativeReport
    from ..plan.plan import Plan

__all__ = ["collect", "collect_reported", "run", "run_progress", "run_reported"]


@takes_run_options
def collect(
    *plans: Plan | Sequence[Plan], as_: Form = "numpy", counts: bool = False, **options: Unpack[RunKeywords]
) -> tuple[Any, ...]:
    """Run several plans as one and gather their results: what they have in common is read and computed once.

    Parameters and errors are those of `Plan.collect`; `as_` and `counts` apply to all plans. A list of plans may be
    passed instead: ``iso.collect([a, b])``.

    Returns:
        A tuple with the result of `Plan.collect` for each plan.

    >>> import numpy as np, isochrony as iso
    >>> windows = iso.scan(np.arange(6.0), rate=100).rewindow(2)
    >>> iso.collect(windows.count(), windows.map(lambda s: s.max()))
    (3, array([[1.],
           [3.],
           [5.]]))
    """
    choice("collect as_", as_, FORMS)
    flag("collect counts", counts)
    checked, listed = RunOptions.of(**options), _listed("collect", plans)
    if as_ == "numpy":
        return _collected(listed, checked, counts=counts)[0]
    labelled = [LabelledResult(plan, as_, counts=counts) for plan in listed]
    gathered, report, *_ = _gather([one.native() for one in labelled], checked)
    _warn(report.notes)
    return tuple(one.result(collected) for one, (collected, _) in zip(labelled, gathered, strict=True))


@takes_run_options
def run(*plans: Plan | Sequence[Plan], **options: Unpack[RunKeywords]) -> RunResult:
    """Run several plans as one, for their side effects: what they have in common is read and computed once.

    Parameters and errors are those of `Plan.collect`. A list of plans may be passed instead: ``iso.run([a, b])``.

    Returns:
        A `RunResult`; its `report` states what each operator did.

    >>> import numpy as np, isochrony as iso
    >>> windows, seen = iso.scan(np.arange(6.0), rate=100).rewindow(2), []
    >>> result = iso.run(windows.each(lambda values, start: seen.append(len(values))), windows.count())
    >>> sum(seen), [operator.name for operator in result.report.operators]
    (3, ['scan', 'rewindow', 'each', 'count'])
    """
    return run_reported(_listed("run", plans), RunOptions.of(**options))


def _in_unit(native: NativePlan) -> NativePlan:
    """The plan with values in their unit where it gives counts of them."""
    return native.traced("map", "expression", lambda samples: samples) if native.gives_counts else native


def run_reported(plans: tuple[Plan, ...], options: RunOptions) -> RunResult:
    """As `run`, with options that were checked."""
    natives = [plan._native for plan in plans]
    with run_progress(options) as progress, run_place(natives, options, collects=False) as ((first, *others), settled):
        report = first.run(others, settled, progress)
        places = _places_of_cluster(settled)
    _warn(report.notes)
    return RunResult(_report(report, places, settled))


def _places_of_cluster(options: RunOptions) -> list[str]:
    """What the report says of a cluster."""
    return [] if options.cluster is None else options.cluster.notes()


def _report(native: NativeReport, places: list[str], options: RunOptions) -> Report:
    fields = native.fields()
    fields["places"] += places
    return Report._of(fields, options.request)


def collect_reported(
    plans: tuple[Plan, ...], options: RunOptions, *, counts: bool = False
) -> tuple[tuple[Any, ...], tuple[npt.NDArray[np.int64] | None, ...], RunResult]:
    """As `collect`, and where the rows of each array lie (index of the first and how many are next to one another), and
    the report.
    """
    results, gathered, report = _collected(plans, options, counts=counts)
    native, places, settled = report
    return results, tuple(parts for _, parts in gathered), RunResult(_report(native, places, settled))


#: The array and parts of each plan's result.
_Gathered = list[tuple[Any, npt.NDArray[np.int64] | None]]


def _collected(
    plans: tuple[Plan, ...], options: RunOptions, *, counts: bool
) -> tuple[tuple[Any, ...], _Gathered, tuple[NativeReport, list[str], RunOptions]]:
    """Results, how they were gathered, and the report with what it says of a cluster and the options of the run."""
    natives = [plan._native for plan in plans]
    asked = natives if counts else [_in_unit(one) for one in natives]
    gathered, report, places, settled = _gather(asked, options)
    _warn(report.notes)
    results = (Table._of(one) if plan.kind == "rows" else one for plan, (one, _) in zip(plans, gathered, strict=True))
    return tuple(results), gathered, (report, places, settled)


def _gather(natives: list[NativePlan], options: RunOptions) -> tuple[_Gathered, NativeReport, list[str], RunOptions]:
    with run_progress(options) as progress, run_place(natives, options, collects=True) as ((first, *others), settled):
        gathered, report = first.collect(others, settled, progress)
        return gathered, report, _places_of_cluster(settled), settled


def _warn(notes: Sequence[str]) -> None:
    """Warns of results that are empty for a reason that is no finding, where the user's code began the run."""
    if not notes:
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "isochrony":
        level, frame = level + 1, frame.f_back
    for note in notes:
        warnings.warn(note, EmptyResultWarning, stacklevel=level)


def _listed(call: str, plans: tuple[Plan | Sequence[Plan], ...]) -> tuple[Plan, ...]:
    """The plans of arguments, or of one list of plans.

    Raises:
        PlanError: there are none, or one is no plan.
    """
    is_list = len(plans) == 1 and isinstance(plans[0], list | tuple)
    listed: tuple[Any, ...] = tuple(plans[0]) if is_list else plans
    if not listed:
        raise PlanError(f"{call} got no plan; give plans, such as iso.scan(signal)")
    for position, plan in enumerate(listed, 1):
        if not isinstance(plan, Chain):
            name = type(plan).__name__
            place = f" as argument {position}" if len(listed) > 1 else ""
            remedy = "give plans, such as iso.scan(signal)"
            if name == "Block":
                remedy = f"write {call}(plan), not {call}(*plan), which executes the plan"
            raise PlanError(f"{call} got {name}{place}; {remedy}")
    return listed


@contextmanager
def run_place(
    natives: list[NativePlan], options: RunOptions, *, collects: bool
) -> Iterator[tuple[list[NativePlan], RunOptions]]:
    """What is run, and how: on a cluster, if one was given, plans of signals as they are now."""
    if options.request is not None:
        machine = None if options.on is None else lambda: _machine_of_cluster(options.on)
        request = options.request.of_plans(natives, collects=collects, cluster=machine)
        options = replace(options, request=request, tuning=request.json())
    if options.on is None:
        yield natives, options
        return
    from .._native import NativePlan
    from ..cluster import ClusterRun

    pinned = NativePlan.at_snapshots(natives)
    with ClusterRun.of_plans(options.on, pinned, collects, options) as cluster:
        yield pinned, replace(options, cluster=cluster)


def _machine_of_cluster(client: Any) -> str:
    from ..cluster.connect import processors_of

    return cluster_machine(processors_of(client))


@contextmanager
def run_progress(options: RunOptions) -> Iterator[Callable[[int, int], None] | None]:
    """What a run calls now and then with how far it is; what it raises ends the run."""
    enabled = None if options.progress else False
    with ImportProgress("running", enabled=enabled, unit="samples") as line, expected() as failures:
        if failures is None and not options.progress:
            yield None
            return

        def report(done: int, total: int) -> None:
            if options.progress:
                line(done, total, 0, 0)
            if failures is not None:
                failures.look()

        yield report
