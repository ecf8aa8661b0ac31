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

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

import numpy.typing as npt

from ..errors.native import OptionError, PlanError
from ..functions.operators import Block, OperatorSteps
from ..functions.python import JitFunction, PythonFunction, importable, shown
from ..live.listening import LiveSteps
from ..options import flag, whole
from ..running.blocks import blocks_of
from ..running.options import RunKeywords, RunOptions, takes_run_options
from ..running.report import RunResult
from ..running.results import Form
from ..running.runs import collect, run
from ..steps.chain import natives_of
from ..steps.features import FeatureSteps
from ..steps.files import FileSteps
from ..steps.filters import FilterSteps
from ..steps.generated import GeneratedOperators
from ..steps.meeting import MeetingSteps, alone, takes_plans
from ..steps.resampling import ResamplingSteps
from ..steps.rows import RowSteps
from ..steps.spectra import SpectrumSteps
from ..steps.windows import WindowSteps
from .declarations import add_methods

if TYPE_CHECKING:
    from .._native import Expr, Signal, Store

__all__ = ["Plan"]


class Plan(
    RowSteps,
    MeetingSteps,
    FilterSteps,
    ResamplingSteps,
    SpectrumSteps,
    FeatureSteps,
    LiveSteps,
    FileSteps,
    OperatorSteps,
    WindowSteps,
    GeneratedOperators,
):
    """Operators over the samples of one or more signals; made by `isochrony.scan`.

    Each method adds an operator and returns a new plan. The old plan can be used again, so plans can branch and be
    combined. Where a method says "float32 for float32", values of calibrated samples are float64.

    A plan can be pickled, also into other processes. It reads each signal there as of the time of pickling, whatever is
    appended meanwhile. Arrays are pickled with it; functions must be importable there (cloudpickle also sends lambdas).
    A plan that writes, or reads a live feed, cannot be pickled.

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

    def filter(
        self,
        predicate: Callable[..., Expr] | Expr | PythonFunction | JitFunction,
        *others: Plan,
        wrap: bool = False,
    ) -> Self:
        """Pass windows or rows for which an expression is true.

        Returns:
            The windows or rows that pass, unchanged and without a copy. No edges, no delay; removed items are not a
            gap. If a predicate compares ``s.max()``, ``s.min()`` or ``abs(s).max()`` with a number, and the windows are
            those of a stored signal, ranges without a passing window are skipped by the signal's stored extremes,
            without reading them. Results are the same to the bit; `explain` states how much is skipped, or why nothing
            is.

        Parameters:
            predicate: one bool per window, such as ``lambda s: s.std() > 10``, or per row, such as ``lambda r: (r.mean
                > 3) & (r["std"] < 2)``; called once, to build an expression. A row whose field is null does not pass; a
                civil time is in nanoseconds since 1970. Or an `isochrony.py` or `isochrony.jit` function, which is
                called with blocks of windows.
            others: plans of equal windows on the same timebase; their windows at the same indices are further arguments
                of the function, as in `map`.
            wrap: integer arithmetic wraps, as in `map`.

        Raises:
            PlanError: the function cannot become an expression, gives one bool per sample, names a field that does not
                exist, or has types that do not fit; or the plans differ in items or timebase.
            OptionError: `wrap` is neither True nor False.

        >>> import numpy as np, isochrony as iso
        >>> windows = iso.scan(np.arange(12) % 5, rate=100).rewindow(4)
        >>> windows.filter(lambda s: s.std() > 1.5).collect()
        array([[3, 4, 0, 1]])
        """
        if isinstance(predicate, PythonFunction | JitFunction):
            return type(self)(predicate._add(alone("filter", self, others, wrap), "filter"))
        return self._traced("filter", "predicate", predicate, others, wrap)

    def map(
        self,
        expression: Callable[..., Expr] | Expr | PythonFunction | JitFunction,
        *others: Plan,
        wrap: bool = False,
    ) -> Self:
        """Compute an expression of each window, or of each sample.

        Returns:
            One row per window: one value, shape (n, 1), or as many as the window has samples, shape (n, N); of samples,
            samples, shape (n,). The dtype is NumPy's for the expression, but integer arithmetic (``+ - * // **``,
            minus, ``abs``) gives the narrowest dtype that holds every result, int64 at most. No edges, no delay.

        Parameters:
            expression: a function such as ``lambda s: s - s.mean()``; called once, to build an expression. Or an
                `isochrony.py` or `isochrony.jit` function, which is called with blocks of windows.
            others: plans of equal windows (or of samples) on the same timebase: ``a.map(lambda x, y: x - y, b)``.
                Indices that a plan lacks are left out. A row of one value is combined with every sample of a window.
            wrap: integer arithmetic keeps NumPy's dtype instead, and wraps: int16 and int16 give int16.

        Raises:
            PlanError: the function cannot become an expression, or has types that do not fit; or the plans differ in
                items or timebase.
            OptionError: `wrap` is neither True nor False.

        >>> import numpy as np, isochrony as iso
        >>> x, y = iso.scan(np.arange(6), rate=100), iso.scan(np.arange(6)[::-1], rate=100)
        >>> x.map(lambda a, b: a - b, y).collect()
        array([-5, -3, -1,  1,  3,  5])
        >>> counts = iso.scan(np.int16([30_000, -30_000]), rate=100)
        >>> counts.map(lambda s: s + s).collect()
        array([ 60000, -60000], dtype=int32)
        >>> counts.map(lambda s: s + s, wrap=True).collect()
        array([-5536,  5536], dtype=int16)
        >>> windows = x.rewindow(3)
        >>> windows.map(lambda s, mean: s - mean, windows.map(lambda s: s.mean())).collect()
        array([[-1.,  0.,  1.],
               [-1.,  0.,  1.]])
        """
        if isinstance(expression, PythonFunction | JitFunction):
            return type(self)(expression._add(alone("map", self, others, wrap), "map"))
        return self._traced("map", "expression", expression, others, wrap)

    def _traced(
        self,
        step: str,
        parameter: str,
        function: Callable[..., Expr] | Expr,
        others: tuple[Plan, ...],
        wrap: bool,
    ) -> Self:
        natives = natives_of(step, others)
        if others and callable(function):
            takes_plans(step, function, 1 + len(others))
        wraps = flag(f"{step} wrap", wrap)
        return type(self)(self._native.traced(step, parameter, function, natives, wraps))

    def each(self, function: Callable[[npt.NDArray[Any], int], object], *, counts: bool = False) -> Self:
        """Call a Python function with every block, and pass the block on: ``plan.each(print).run()``.

        Returns:
            The same items, unchanged. No edges, no delay.

        Parameters:
            function: called as ``f(values, start)``, in order, in the thread of the run. `values` are as for
                `isochrony.py` (ranges: an array of starts and ends, shape (n, 2); rows: a `Table`), `start` is the
                index of the first sample, None for groups. The return value is ignored; an exception ends the run.
                Calls of two functions on two branches alternate block by block in one thread; with several `workers`,
                part by part in the plan's order.
            counts: pass samples as stored, instead of values in the unit.

        Raises:
            OptionError: `function` is not callable.

        >>> import numpy as np, isochrony as iso
        >>> loud = iso.scan(np.arange(12) % 7, rate=100).rewindow(4).stats("max").filter(lambda r: r.max > 5)
        >>> _ = loud.each(lambda table, start: print("alert:", table["start"], table["max"])).run()
        alert: [4] [6]
        """
        if not callable(function):
            raise OptionError(
                f"each({function!r}) is refused; give a function that takes two arguments, "
                "f(values, start), where start is the index of the first sample"
            )
        name, saved = shown(function), importable(function)
        return type(self)(self._native.python("each", function, name, saved, counts=counts))

    def sink(
        self, to: Store | Signal, name: str | None = None, *, overwrite: bool = False, append: bool = False
    ) -> Self:
        """Store results as a signal, and pass them on: ``plan.sink(store, "stn_10/mean").run()``.

        Samples, and windows that do not overlap, keep their rate; windows of one computed value become a signal with
        one sample per hop. Gaps stay gaps, and so do items that a filter removed; clock steps begin runs; times are
        those of the source's clock. Commits once a second or every 64 MiB, and at the end, together with other pending
        changes of the store. If the run fails, committed samples stay.

        Returns:
            The same items, unchanged. No edges, no delay.

        Parameters:
            to: a store that is open for writing; or one of its signals, to append to.
            name: name of the signal, if `to` is a store.
            overwrite: replace a signal of that name.
            append: append to a signal of that name, of the same dtype and rate.

        Raises:
            PlanError: the results are not samples or windows, or the plan reads the signal that it writes.
            StoreError: the store is open for reading. In the run, as a `RunError`: the signal exists.

        >>> import tempfile, numpy as np, isochrony as iso
        >>> store = iso.open(tempfile.mkdtemp() + "/results.iso", "x")
        >>> _ = iso.scan(np.arange(6.0), rate=100).rewindow(2).map(lambda s: s.mean()).sink(store, "mean").run()
        >>> store["mean"].values(), store["mean"].rate
        (array([0.5, 2.5, 4.5]), 50.0)
        """
        from .._native import Signal, Store

        if isinstance(to, Store):
            if name is None or (overwrite and append):
                raise OptionError("sink(store, name) needs a name, and one of overwrite=True and append=True at most")
            how = "overwrite" if overwrite else "append" if append else "refuse"
            return type(self)(self._native.sink(to, name, how))
        if not isinstance(to, Signal):
            raise OptionError(
                f'sink got {type(to).__name__}; give a store and a name, such as sink(store, "stn_10/mean"), or a '
                "signal that is open for writing"
            )
        if name is not None or overwrite or append:
            raise OptionError(
                "sink(signal) adds to an existing signal and takes no other arguments; give sink(store, name) to make "
                "a new signal"
            )
        return type(self)(self._native.append(to))

    def annotate(self, signal: Signal | tuple[Store, str], kind: str, **fields: Any) -> Self:
        """Add an event to a signal for each window or range, and pass the items on.

        ``windows.filter(...).ranges().annotate(signal, "voiced").run()``. Events are committed like samples of `sink`.
        An event that the signal already has, of the same kind, range and fields, is not added again: the plan may be
        run twice. Where several such steps of a run add events to one signal, events are numbered in the order of their
        ends, of equal ends in that of the steps; so those of one step wait while a range of another is open.

        Returns:
            The same items, unchanged. No edges, no delay.

        Parameters:
            signal: a signal of a store that is open for writing. If it is not the signal that the plan reads, ranges
                are placed by civil time. Or a pair of a store and a name: the signal that a `sink` before this step
                creates in the same run.
            kind: kind of the events, `snake_case` by convention.
            fields: values of fields that all events have; for windows also functions of the samples, such as
                ``peak=lambda s: abs(s).max()``, which give one value each.

        Raises:
            PlanError: the input is neither windows nor ranges, or a function cannot become an expression.
            StoreError: the store is open for reading.

        >>> import tempfile, numpy as np, isochrony as iso
        >>> store = iso.open(tempfile.mkdtemp() + "/events.iso", "x")
        >>> signal = store.create("pressure", dtype="f8", rate=100)
        >>> _ = signal.append(np.array([0.0, 0, 5, 7, 0, 0])), store.commit()
        >>> _ = iso.scan(signal).triggers(on=4).annotate(signal, "burst").run()
        >>> [(event.start, event.end) for event in signal.events]
        [(2, 4)]
        >>> timed = store.create("timed", dtype="f8", rate=100, start="2020-01-01T00:00:00Z")
        >>> _ = timed.append(np.array([0.0, 0, 5, 7, 0, 0])), store.commit()
        >>> copied = iso.scan(timed).sink(store, "copy")
        >>> _ = copied.triggers(on=4).annotate((store, "copy"), "burst").run()  # of a copy that the run makes
        >>> [(event.start, event.end) for event in store["copy"].events]
        [(2, 4)]
        """
        from .._native import Signal, Store

        is_pair = isinstance(signal, tuple) and list(map(type, signal)) == [Store, str]
        if not is_pair and not isinstance(signal, Signal):
            raise OptionError(f"annotate({signal!r}) is refused; give a signal, or a pair of a store and a name")
        return type(self)(self._native.annotate(signal, kind, fields))

    def limit(self, count: int) -> Self:
        """Pass the first `count` windows or rows (or samples, if there are neither), then end the run.

        Returns:
            The first items, unchanged. No edges, no delay.

        Parameters:
            count (windows, rows or samples, from 1): number of items to pass.

        Raises:
            OptionError: `count` is not a whole number from 1. Saved plans may have 0.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.arange(12), rate=100).rewindow(4).limit(2).collect()
        array([[0, 1, 2, 3],
               [4, 5, 6, 7]])
        """
        return self._then("limit", count=whole("limit", count, "windows or samples"))

    @takes_run_options
    def collect(self, *, as_: Form = "numpy", counts: bool = False, **options: Unpack[RunKeywords]) -> Any:
        """Run the plan and gather its results.

        Returns:
            The results in a form that `as_` selects. Values are in their unit, float64 if a calibration makes them of
            counts.
            ``"numpy"``: samples as an array, shape (n,); windows, and values computed of them, as an array, shape
            (windows, values); ranges as an array of starts and ends, shape (n, 2), int64; rows as a `Table`; a count as
            an int.
            ``"table"``: a `Table`. Samples have "index", "time" and a column with the last part of the signal's name
            ("value" if that is "index" or "time"); windows "start", "end", "time" and "value", or "values", shape
            (windows, values); ranges "start", "end" and "time"; rows keep their columns.
            ``"xarray"``: samples as a `DataArray` of dimension "time" with coordinates "time" and "index"; windows of
            dimensions "time" and "value" (for spectra "frequency", in Hz), also with "start" and "end"; the unit is in
            ``attrs["units"]``. Rows and ranges as a `Dataset` of dimension "row", with a variable per column.
            ``"segments"``: samples as a list of `Segment`, one per gap-free range.
            All forms but "numpy" have the position of each value. Gaps, and items that a filter removed, are missing
            indices and times. Times are datetime64[ns], UTC; "time" is missing if the signal has no civil time. Across
            a clock that was set back, times decrease or repeat. Index and time take 16 bytes per sample in addition to
            its value; ``"segments"`` takes none.

        Parameters:
            as_: form of the result: "numpy", "table", "xarray" or "segments".
            counts: samples as stored, of the signal's dtype, instead of values (docs/counts.md).
            {run_options}

        Raises:
            RunError: an operator failed; the message names it, with indices and time of the samples. An exception of a
                Python function is its `__cause__`.
            OptionError: a parameter out of range.
            PlanError: a form other than "numpy" for a count; "segments" for items other than samples; "xarray" for rows
                with a field that has the name of a dimension; `control` that another run is using.
            MissingExtraError: xarray is not installed.
            KeyboardInterrupt: within a tenth of a second of Ctrl-C.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.arange(6), rate=100).rewindow(3).collect(workers=2)
        array([[0, 1, 2],
               [3, 4, 5]])
        >>> iso.scan(np.arange(6), rate=100).rewindow(3).map(lambda s: s.mean()).collect(as_="table")
         start  end  value
             0    3      1
             3    6      4
        [2 rows]
        >>> def parts():
        ...     yield 0, np.array([1.0, 2.0])
        ...     yield 10, np.array([3.0, 4.0])  # after a gap
        >>> gappy = iso.generate(parts, dtype="f8", rate=100, unit="V")
        >>> [(one.start, one.end) for one in gappy.collect(as_="segments")]
        [(0, 2), (10, 12)]
        >>> array = gappy.collect(as_="xarray")
        >>> array["index"].values, array.attrs["units"]
        (array([ 0,  1, 10, 11]), 'V')
        """
        return collect(self, as_=as_, counts=counts, **options)[0]

    @takes_run_options
    def blocks(self, *, counts: bool = False, **options: Unpack[RunKeywords]) -> Iterator[Block]:
        """Run the plan and iterate over its result block by block, in bounded memory: ``for block in plan.blocks()``.

        Parameters are those of `collect`, without `as_`, and with `workers` 1 by default; ``for block in plan`` uses
        the defaults. The plan runs in a thread, a few blocks ahead of the loop. Leaving the loop, or dropping the
        iterator, ends the run as Ctrl-C does: samples that sinks have committed stay. Each iteration is a run of its
        own.

        Leaving the loop waits for the current call of a source or function to return; it never returns if that call
        blocks for ever, such as a generator that reads a silent socket without a timeout.

        Returns:
            An iterator of `Block`. ``values`` as of `collect`: read-only arrays of samples, shape (n,), of windows,
            shape (n, values), or of ranges, shape (n, 2), or a `Table` of rows. ``start`` and ``end``: index of the
            first sample, and after the last one; None for groups. The number of items per block may vary; samples of a
            block are contiguous, and ``breaks`` states gaps and clock steps before it. Blocks have no times: use
            ``collect(as_="table")``, or ``signal.time_of(block.start)`` if the plan keeps the signal's rate.

        Raises:
            PlanError: the plan ends in `count`, and has no blocks.
            OptionError: a parameter out of range.
            RunError: an operator failed; raised after the blocks before it.

        >>> import numpy as np, isochrony as iso
        >>> [len(block.values) for block in iso.scan(np.arange(5), 2, rate=100).blocks(workers=2)]
        [2, 2, 1]
        """
        options.setdefault("workers", 1)
        return blocks_of(self, RunOptions.of(**options), counts=flag("blocks counts", counts))

    def __iter__(self) -> Iterator[Block]:
        """Run the plan and iterate over its result: ``for block in plan``, as `blocks` without parameters.

        >>> import numpy as np, isochrony as iso
        >>> for block in iso.scan(np.arange(5), 2, rate=100):
        ...     print(block.start, block.end, block.values)
        0 2 [0 1]
        2 4 [2 3]
        4 5 [4]
        """
        return self.blocks()

    def __contains__(self, item: object) -> NoReturn:
        # By default Python would execute the plan and compare its blocks.
        raise PlanError('"in" does not work on a plan; run it with collect(), and search the result')

    def __array__(self, *_: object, **__: object) -> NoReturn:
        # Collecting here would execute the plan each time that a library looks at it.
        raise PlanError("a plan is not an array; run it with collect(), and convert the result")

    @takes_run_options
    def run(self, **options: Unpack[RunKeywords]) -> RunResult:
        """Run the plan for its side effects, and drop its results. Parameters and errors are those of `collect`.

        Returns:
            A `RunResult`; its `report` states what each operator did.

        >>> import numpy as np, isochrony as iso
        >>> report = iso.scan(np.arange(6), rate=100).rewindow(3).run().report
        >>> [(one.name, one.samples) for one in report.operators]
        [('scan', 6), ('rewindow', 6)]
        """
        return run(self, **options)


# Operators of other crates that are linked into the extension.
add_methods(Plan)
