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

    Each method adds an operator and gives a new plan; the old one can be used again, so plans branch and are
    combined. Where a method says "float32 for float32", values of calibrated samples are float64.

    A plan can be pickled, also into other processes. There it reads each signal as a run would have read it when the
    plan was pickled, whatever is appended meanwhile. Arrays go with it; functions must be importable there (a lambda
    travels by cloudpickle only). A plan that writes or that listens to a feed is refused.

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
            The windows or rows that pass, unchanged and without a copy. No edges, no delay; what is removed is not a
            gap. Where a predicate compares ``s.max()``, ``s.min()`` or ``abs(s).max()`` with a number and the windows
            are those of a stored signal, ranges without a window that passes are not read: the signal's stored extremes
            tell. Results are the same to the bit; `explain` says how much is skipped, or why nothing is.

        Parameters:
            predicate: one bool per window, as ``lambda s: s.std() > 10``, or per row, as
                ``lambda r: (r.mean > 3) & (r["std"] < 2)``; traced once. A row with an unknown field (null) does
                not pass; a civil time is its nanoseconds since 1970. Or `isochrony.py` or `isochrony.jit` of
                a function that runs on blocks of windows.
            others: plans of equal windows and the same timebase, whose windows at the same indices are the function's
                further arguments, as in `map`.
            wrap: integer arithmetic wraps, as in `map`.

        Raises:
            PlanError: it cannot be traced, gives one bool per sample, names a field that does not exist, or its types
                do not fit; or the plans differ in what they carry.
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
            expression: as ``lambda s: s - s.mean()``; traced once. Or
                `isochrony.py` or `isochrony.jit` of a function that runs on blocks of windows.
            others: plans of equal windows (or of samples) and the same timebase: ``a.map(lambda x, y: x - y, b)``. What
                not all plans have at the same indices is left out. A row of one value is
                combined with every sample of a window.
            wrap: integer arithmetic keeps NumPy's dtype instead, and wraps: int16 and int16 give int16.

        Raises:
            PlanError: it cannot be traced, or its types do not fit; or the plans differ in what they carry.
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
        if others and callable(function):
            takes_plans(step, function, 1 + len(others))
        wraps = flag(f"{step} wrap", wrap)
        return type(self)(self._native.traced(step, parameter, function, [other._native for other in others], wraps))

    def each(self, function: Callable[[npt.NDArray[Any], int], object], *, counts: bool = False) -> Self:
        """Call a Python function with every block, and pass the block on: ``plan.each(print).run()``.

        Returns:
            The same items, unchanged. No edges, no delay.

        Parameters:
            function: is called as ``f(values, start)`` in order, in the run's thread, with values as `isochrony.py` has
                them (ranges: one row of start and end each; rows: a `Table`) and the index of the first sample (None of
                groups, which have none); what it returns is
                dropped, what it raises ends the run. Calls of two functions on two branches alternate block by block
                in one thread; with `workers` each gets a portion's blocks before the other does, in the plan's order.
            counts: give it samples as stored, instead of values.

        Raises:
            OptionError: it is not a function.

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
        one sample every hop. Gaps stay gaps, clock steps begin runs, and times follow the source's clock; what a filter
        removed becomes a gap, too. Commits once a second or every 64 MiB, and at the end; a run that fails keeps what
        was committed. A commit includes what else waits for one in that store.

        Returns:
            The same items, unchanged. No edges, no delay.

        Parameters:
            to: a store that is open for writing; or one of its signals, to which samples are added.
            name: of the signal, in a store.
            overwrite: replace a signal of that name.
            append: add to a signal of that name, of the same dtype and rate.

        Raises:
            PlanError: the results are not samples or windows, or the plan reads the signal that it would write.
            StoreError: the store is open for reading. When the plan runs, also: the signal exists (as `RunError`).

        >>> import tempfile, numpy as np, isochrony as iso
        >>> store = iso.open(tempfile.mkdtemp() + "/results.iso", "x")
        >>> _ = iso.scan(np.arange(6.0), rate=100).rewindow(2).map(lambda s: s.mean()).sink(store, "mean").run()
        >>> store["mean"].values(), store["mean"].rate
        (array([0.5, 2.5, 4.5]), 50.0)
        """
        from .._native import Store

        if isinstance(to, Store):
            if name is None or (overwrite and append):
                raise OptionError("sink(store, name) needs a name, and one of overwrite=True and append=True at most")
            how = "overwrite" if overwrite else "append" if append else "refuse"
            return type(self)(self._native.sink(to, name, how))
        if name is not None or overwrite or append:
            raise OptionError(
                "sink(signal) adds to an existing signal and takes no other arguments; give sink(store, name) to make "
                "a new signal"
            )
        return type(self)(self._native.append(to))

    def annotate(self, signal: Signal | tuple[Store, str], kind: str, **fields: Any) -> Self:
        """Store an event in a signal for each window or range, and pass the items on.

        ``windows.filter(...).ranges().annotate(signal, "voiced").run()``. Events are durable as samples of `sink` are.
        One that the signal has already, of the same kind, range and fields, is not added again: a plan may run twice.

        Returns:
            The same items, unchanged. No edges, no delay.

        Parameters:
            signal: of a store that is open for writing; where it is not the signal that the plan reads, ranges are
                found in it by civil time. Or a store and a name: the signal that a `sink` before this step creates in
                the same run.
            kind: of event, `snake_case` by convention.
            fields: values that all events have; or of windows functions that are traced, as
                ``peak=lambda s: abs(s).max()``, which give one value each.

        Raises:
            PlanError: the input is neither windows nor ranges, or a function cannot be traced.
            StoreError: the store is open for reading.

        >>> import tempfile, numpy as np, isochrony as iso
        >>> store = iso.open(tempfile.mkdtemp() + "/events.iso", "x")
        >>> signal = store.create("pressure", dtype="f8", rate=100)
        >>> _ = signal.append(np.array([0.0, 0, 5, 7, 0, 0])), store.commit()
        >>> _ = iso.scan(signal).triggers(on=4).annotate(signal, "burst").run()
        >>> [(event.start, event.end) for event in signal.events]
        [(2, 4)]

        Of a copy that the run itself makes:

        >>> timed = store.create("timed", dtype="f8", rate=100, start="2020-01-01T00:00:00Z")
        >>> _ = timed.append(np.array([0.0, 0, 5, 7, 0, 0])), store.commit()
        >>> copied = iso.scan(timed).sink(store, "copy")
        >>> _ = copied.triggers(on=4).annotate((store, "copy"), "burst").run()
        >>> [(event.start, event.end) for event in store["copy"].events]
        [(2, 4)]
        """
        from .._native import Store

        if isinstance(signal, tuple) and list(map(type, signal)) != [Store, str]:
            raise OptionError(f"annotate({signal!r}) is refused; give a signal, or a pair of a store and a name")
        return type(self)(self._native.annotate(signal, kind, fields))

    def limit(self, count: int) -> Self:
        """Pass the first `count` windows or rows (samples, where there are neither), then stop what is before.

        Returns:
            The first items, unchanged. No edges, no delay.

        Parameters:
            count (windows, rows or samples, from 1): number of items that pass.

        Raises:
            OptionError: `count` is no whole number from 1. Saved plans may have 0.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.arange(12), rate=100).rewindow(4).limit(2).collect()
        array([[0, 1, 2, 3],
               [4, 5, 6, 7]])
        """
        return self._then("limit", count=whole("limit", count, "windows or samples"))

    @takes_run_options
    def collect(self, *, as_: Form = "numpy", counts: bool = False, **options: Unpack[RunKeywords]) -> Any:
        """Run the plan and gather what comes out.

        Returns:
            ``"numpy"``: samples as an array, shape (n,); windows or what was computed of them as an array, shape
            (windows, values); ranges as an array of starts and ends, shape (n, 2), int64; rows as a `Table`; a count as
            an integer. Values are in their unit, float64 where a calibration makes them of counts.

            The other forms say where each value lies. Gaps, and what a filter removed,
            are indices and times that are not there. Times are datetime64[ns], UTC; where the signal has no civil time,
            neither column nor coordinate "time" exists. Where its clock was set back, times decrease or occur twice.
            Index and time take 16 bytes for each sample beside its value; ``"segments"`` takes none.

            ``"table"``: a `Table`. Of samples "index", "time" and a column called as the last part of the signal's
            name ("value" where that is "index" or "time"); of windows "start", "end", "time" and "value", or
            "values", shape (windows, values); of ranges "start", "end" and "time"; rows as they are.

            ``"xarray"``: of samples a `DataArray` of dimension "time" with coordinates "time" and "index"; of windows
            of dimensions "time" and "value" (of spectra "frequency", in Hz), with "start" and "end" too; the unit is in
            ``attrs["units"]``. Of rows and ranges a `Dataset` of dimension "row", a variable for each column.

            ``"segments"``: of samples a list of `Segment`, one for each contiguous range.

        Parameters:
            as_: form of the result: "numpy", "table", "xarray" or "segments".
            counts: samples as stored, of the signal's dtype, instead of values (docs/counts.md).
            {run_options}

        Raises:
            RunError: an operator failed; the message names it, the samples and their time. What a Python function
                raised is its `__cause__`.
            OptionError: `workers` is no number from 1 to 1024, nor "auto"; `tolerance` is none from 0 to below 1;
                another option without a legal value.
            PlanError: `control` with more than one worker; another form than "numpy" of a count; "segments" of other
                than samples; "xarray" of rows with a field that has the name of a dimension.
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

        Parameters are those of `collect`, without `as_`, and `workers` is 1 if it is not given; ``for block in plan``
        gives none. The plan is executed in a
        thread, at most a few blocks ahead of the loop. Leaving the loop, or dropping the iterator, ends the execution
        as Ctrl-C does: what sinks have committed stays. Each iteration is an execution of its own.

        Leaving waits for the source or function at work to return, and so for ever where that never does, as a
        generator that reads a silent socket without a timeout.

        Returns:
            An iterator of `Block`: ``values`` as `collect` gives them, read-only arrays of samples, shape (n,), of
            windows, shape (n, values), or of ranges, shape (n, 2), or a `Table` of rows; ``start`` and ``end``, the
            index of the first sample and the one after the last, both None of groups. The engine chooses the length of
            a block; samples of one block are contiguous, and ``breaks`` says whether a gap or a clock step lies before
            them. Blocks have no times: ``collect(as_="table")``
            has, and ``signal.time_of(block.start)`` where the plan keeps the signal's rate.

        Raises:
            PlanError: the plan gives a count.
            OptionError: an option without a legal value.
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
        """Run the plan and drop what comes out; parameters and errors are those of `collect`.

        Returns:
            A `RunResult`: its `report` says what each operator did.

        >>> import numpy as np, isochrony as iso
        >>> report = iso.scan(np.arange(6), rate=100).rewindow(3).run().report
        >>> [(one.name, one.samples) for one in report.operators]
        [('scan', 6), ('rewindow', 6)]
        """
        return run(self, **options)


# Operators of other crates that are linked into the extension.
add_methods(Plan)
