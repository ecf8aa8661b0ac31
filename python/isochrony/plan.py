"""Plans: what to compute over a signal, said first and run later.

``iso.scan(signal).rewindow(4096).filter(lambda s: s.std() > 10).count().collect()``
is built step by step; types are checked at each step, and nothing is read before
`Plan.collect` or `Plan.run`. A plan is a value: it prints as what it does, compares,
is saved as JSON, and runs as often as you like, each time over the signal as it is
then.

The functions given to `Plan.filter` and `Plan.map` are not called for each window:
they are called once, with an `isochrony.Expr`, and what they return is compiled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy.typing as npt

from .calibration import CalibrationSteps
from .correlations import CorrelationSteps
from .detectors import DetectorSteps
from .features import FeatureSteps
from .files import FileSteps
from .filters import FilterSteps
from .functions import JitFunction, PythonFunction, importable, shown
from .live import LiveSteps
from .meeting import MeetingSteps, alone, takes_plans
from .native_errors import OptionError
from .operators import OperatorSteps
from .options import choice, whole
from .packets import PacketSteps
from .report import RunResult
from .resampling import ResamplingSteps
from .rows import RowSteps
from .run_options import RunKeywords, takes_run_options
from .running import collect, run
from .spectra import SpectrumSteps

if TYPE_CHECKING:
    from ._native import Expr, Signal, Store

__all__ = ["Plan"]


class Plan(
    RowSteps,
    MeetingSteps,
    FilterSteps,
    ResamplingSteps,
    CalibrationSteps,
    SpectrumSteps,
    FeatureSteps,
    CorrelationSteps,
    DetectorSteps,
    LiveSteps,
    PacketSteps,
    FileSteps,
    OperatorSteps,
):
    """Operators over the samples of one or more signals; made by `isochrony.scan`.

    Each method adds an operator and gives a new plan; the old one can be used again, so plans branch and meet.

    >>> import numpy as np, isochrony as iso
    >>> loud = iso.scan(np.arange(12) % 5, rate=100).rewindow(4).filter(lambda s: s.std() > 1.5)
    >>> loud.map(lambda s: s - s.mean()).collect()
    array([[ 1.,  2., -2., -1.]])
    >>> loud.count().collect()
    1
    >>> print(loud)
    scan(array) -> rewindow(window=4) -> filter(predicate=s.std() > 1.5)
    """

    __slots__ = ()

    def rewindow(
        self,
        window: int,
        hop: int | None = None,
        *,
        tail: Literal["drop", "keep"] = "drop",
        anchor: Literal["run", "range"] = "run",
    ) -> Self:
        """Cut every gap-free stretch into windows.

        Parameters:
            window: samples a window, from 1. A window never spans a gap or a clock step.
            hop: samples from the start of one window to the next, from 1; default: `window`.
            tail: "drop" a last window that is left short, or "keep" it.
            anchor: "run": scanning a part of a signal gives those of the signal's own windows that lie wholly
                inside; "range": windows begin at the part's first sample.

        Raises:
            OptionError: an option without a legal value.
            PlanError: no samples come in.
        """
        samples = whole("rewindow", window, "samples")
        every = None if hop is None else whole("rewindow hop=", hop, "samples")
        choice("tail", tail, ("drop", "keep"))
        choice("anchor", anchor, ("run", "range"))
        return self._then("rewindow", window=samples, hop=every, tail=tail, anchor=anchor)

    def filter(self, predicate: Callable[..., Expr] | Expr | PythonFunction | JitFunction, *others: Plan) -> Self:
        """Let those windows or rows pass for which an expression is true.

        Parameters:
            predicate: gives one bool a window, as ``lambda s: s.std() > 10``, or a row, as
                ``lambda r: (r.mean > 3) & (r["std"] < 2)``; traced once. A row of which a field is unknown (a null)
                does not pass; a civil time is its nanoseconds since 1970. Or `isochrony.py` or `isochrony.jit` of
                a function that runs on blocks of windows.
            others: plans of equal windows and the same timebase, whose windows at the same indices are the function's
                further arguments, as in `map`.

        Raises:
            PlanError: it cannot be traced, gives one bool a sample, names a field that there is not, or its types do
                not fit; or the plans differ in what flows.
        """
        if isinstance(predicate, PythonFunction | JitFunction):
            return type(self)(predicate._add(alone("filter", self, others), "filter"))
        return self._traced("filter", "predicate", predicate, others)

    def map(self, expression: Callable[..., Expr] | Expr | PythonFunction | JitFunction, *others: Plan) -> Self:
        """Compute an expression of each window, or of each sample.

        Parameters:
            expression: as ``lambda s: s - s.mean()``; traced once. One value a window gives rows of one value. Or
                `isochrony.py` or `isochrony.jit` of a function that runs on blocks of windows.
            others: plans of equal windows (or of samples) and the same timebase: ``a.map(lambda x, y: x - y, b)``. What
                not all plans have at the same indices is left out. A row of one value meets every sample of a window.

        Raises:
            PlanError: it cannot be traced, or its types do not fit; or the plans differ in what flows.

        >>> import numpy as np, isochrony as iso
        >>> x, y = iso.scan(np.arange(6), rate=100), iso.scan(np.arange(6)[::-1], rate=100)
        >>> x.map(lambda a, b: a - b, y).collect()
        array([-5, -3, -1,  1,  3,  5])
        >>> windows = x.rewindow(3)
        >>> windows.map(lambda s, mean: s - mean, windows.map(lambda s: s.mean())).collect()
        array([[-1.,  0.,  1.],
               [-1.,  0.,  1.]])
        """
        if isinstance(expression, PythonFunction | JitFunction):
            return type(self)(expression._add(alone("map", self, others), "map"))
        return self._traced("map", "expression", expression, others)

    def _traced(
        self, step: str, parameter: str, function: Callable[..., Expr] | Expr, others: tuple[Plan, ...]
    ) -> Self:
        if others and callable(function):
            takes_plans(step, function, 1 + len(others))
        return type(self)(self._native.traced(step, parameter, function, [other._native for other in others]))

    def each(self, function: Callable[[npt.NDArray[Any], int], object], *, counts: bool = False) -> Self:
        """Show every block to a Python function and pass it on: ``plan.each(print).run()``.

        Parameters:
            function: is called as ``f(values, start)`` in order, in the run's thread, with values as `isochrony.py` has
                them (ranges: one row of start and end each; rows: a `Table`) and the index of the first sample (None of
                groups, which have none); what it returns is
                dropped, what it raises ends the run. Calls of two functions on two branches alternate block by block
                in one thread; with `workers` each gets a portion's blocks before the other does, in the plan's order.
            counts: give it the counts as they are stored.

        Raises:
            OptionError: it is not a function.

        >>> import numpy as np, isochrony as iso
        >>> loud = iso.scan(np.arange(12) % 7, rate=100).rewindow(4).stats("max").filter(lambda r: r.max > 5)
        >>> _ = loud.each(lambda table, start: print("alert:", table["start"], table["max"])).run()
        alert: [4] [6]
        """
        if not callable(function):
            raise OptionError(f"each({function!r}) is refused; give a function of values and start")
        name, saved = shown(function), importable(function)
        return type(self)(self._native.python("each", function, name, saved, counts=counts))

    def sink(
        self, to: Store | Signal, name: str | None = None, *, overwrite: bool = False, append: bool = False
    ) -> Self:
        """Keep what comes out as a signal, and pass it on: ``plan.sink(store, "stn_10/mean").run()``.

        Samples, and windows that do not overlap, keep their rate; windows of one computed value become a signal with
        one sample every hop. Gaps stay gaps, clock steps begin runs, and times follow the source's clock; what a filter
        removed becomes a gap, too. Commits once a second or every 64 MiB, and at the end; a run that fails keeps what
        was committed. A commit includes what else waits for one in that store.

        Parameters:
            to: a store that is open for writing; or one of its signals, to which samples are added.
            name: of the signal, in a store.
            overwrite: replace a signal of that name.
            append: add to a signal of that name, of the same dtype and rate.

        Raises:
            PlanError: what comes out is no signal, or the plan reads the signal that it would write.
            StoreError: the store is open for reading. When the plan runs, also: the signal exists (as `RunError`).
        """
        from ._native import Store

        if isinstance(to, Store):
            if name is None or (overwrite and append):
                raise OptionError("sink(store, name) needs a name, and at most one of overwrite= and append=")
            how = "overwrite" if overwrite else "append" if append else "refuse"
            return type(self)(self._native.sink(to, name, how))
        if name is not None or overwrite or append:
            raise OptionError("sink(signal) adds to a signal; give a store and a name to make one")
        return type(self)(self._native.append(to))

    def annotate(self, signal: Signal, kind: str, **fields: Any) -> Self:
        """Add an event to a signal for each window or range that comes, and pass it on.

        ``windows.filter(...).ranges().annotate(signal, "voiced").run()``. Events are durable as samples of `sink` are.
        One that the signal has already, of the same kind, range and fields, is not added again: a plan may run twice.

        Parameters:
            signal: of a store that is open for writing; where it is not the signal that the plan reads, ranges are
                found in it by civil time.
            kind: of event, `snake_case` by convention.
            fields: values that all events have; or of windows functions that are traced, as
                ``peak=lambda s: abs(s).max()``, which give one value each.

        Raises:
            PlanError: neither windows nor ranges come, or a function cannot be traced.
            StoreError: the store is open for reading.
        """
        return type(self)(self._native.annotate(signal, kind, fields))

    def ranges(self, *, join: int = 0, before: int = 0, after: int = 0) -> Self:
        """The stretches that windows cover, as ranges of indices: those that touch or overlap become one.

        `collect` gives them as rows of start and end; `sync` and `annotate` take them.

        Parameters:
            join: ranges with no more samples than this between them become one, but never across a gap.
            before: samples that each begins earlier.
            after: samples that each ends later.

        >>> import numpy as np, isochrony as iso
        >>> loud = iso.scan(np.arange(12) % 6, rate=100).rewindow(2).filter(lambda s: s.max() > 1)
        >>> loud.ranges().collect()
        array([[ 2,  6],
               [ 8, 12]])
        """
        widths = {"join": join, "before": before, "after": after}
        checked = {name: whole(f"ranges {name}=", value, "samples", 0) for name, value in widths.items()}
        return self._then("ranges", (), **checked)

    def passthrough(self) -> Self:
        """Let everything pass as it is: an operator that the optimiser does not see into."""
        return self._then("passthrough")

    def limit(self, count: int) -> Self:
        """Let the first `count` windows or rows pass (samples, where there are neither), then stop what is before.

        Raises:
            OptionError: `count` is no whole number from 1.
        """
        return self._then("limit", count=whole("limit", count, "windows or samples"))

    def between(self, start: int, end: int) -> Self:
        """Let pass what has indices from `start` to before `end`: samples, or windows that lie wholly inside.

        Where it can, the optimiser makes this the range of the scan, so that nothing else is read; see `explain`.

        Raises:
            PlanError: neither samples nor windows come in.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.arange(12), rate=100).rewindow(4).between(3, 12).collect()
        array([[ 4,  5,  6,  7],
               [ 8,  9, 10, 11]])
        """
        bounds = (operator.index(start), operator.index(end))
        return self._then("between", start=bounds[0], end=bounds[1])

    def count(self) -> Self:
        """Count windows or rows, or samples where there are neither; `collect` then gives an integer."""
        return self._then("count")

    @takes_run_options
    def collect(self, **options: Unpack[RunKeywords]) -> Any:
        """Run the plan and gather what comes out.

        Parameters:
            {run_options}

        Returns:
            Samples as an array, shape (n,); windows or what was computed of them as an array, shape (windows, values);
            rows as a `Table`; a count as an integer. Values are those stored: calibrated counts stay counts until an
            expression uses them.

        Raises:
            RunError: an operator failed; the message names it, the samples and their time. What a Python function
                raised is its `__cause__`.
            OptionError: `workers` is no number from 1 to 1024, nor "auto"; `tolerance` is none from 0 to below 1;
                another option without a legal value.
            PlanError: `control` with more than one worker.
            KeyboardInterrupt: within a tenth of a second of Ctrl-C.
        """
        return collect(self, **options)[0]

    @takes_run_options
    def run(self, **options: Unpack[RunKeywords]) -> RunResult:
        """Run the plan and drop what comes out; parameters and errors are those of `collect`.

        Returns:
            A `RunResult`: its `report` says what each operator did.
        """
        return run(self, **options)
