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

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from .functions import JitFunction, PythonFunction, importable, once, shown
from .native_errors import OptionError, PlanError
from .progress import ImportProgress
from .table import Table

if TYPE_CHECKING:
    from ._native import Expr, NativePlan, Row, Selection, Signal, Store

__all__ = [
    "STATS",
    "Groups",
    "OperatorReport",
    "Plan",
    "Report",
    "RunResult",
    "collect",
    "collect_reported",
    "generate",
    "run",
    "scan",
]

#: Statistics of `Plan.stats`.
STATS = ("min", "max", "count", "mean", "std", "var", "rms")


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """What one operator did in a run.

    Attributes:
        name: of the operator.
        items: segments and blocks of windows that it was given.
        samples: in them; of overlapping windows those that no other has.
        gaps: that it met.
        useful_s: seconds spent in it, estimated from the first item of each burst.
    """

    name: str
    items: int
    samples: int
    gaps: int
    useful_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did; prints as a table.

    Attributes:
        operators: in the order in which they ran.
        bursts: that the sources gave.
        elapsed_s: seconds from start to end.
        peak_bytes: most bytes in pooled blocks and queues at once.
    """

    operators: tuple[OperatorReport, ...]
    bursts: int
    elapsed_s: float
    peak_bytes: int
    _text: str = field(repr=False)

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class RunResult:
    """What `Plan.run` gives.

    Attributes:
        report: what each operator did.
    """

    report: Report

    def __repr__(self) -> str:
        return str(self.report)


def _whole(step: str, value: object, unit: str, least: int = 1) -> int:
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if number < least:
        raise OptionError(f"{step}({value!r}) is refused; give a whole number of {unit}, from {least}")
    return number


def _choice(name: str, value: object, legal: tuple[str, ...]) -> None:
    if value not in legal:
        raise OptionError(f"{name}={value!r} is refused; give {' or '.join(map(repr, legal))}")


def _one_worker(workers: int) -> None:
    if workers != 1:
        raise PlanError(f"workers={workers!r} is refused: this version runs plans in one thread; leave it at 1")


class Plan:
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

    __slots__ = ("_native",)

    def __init__(self, native: NativePlan) -> None:
        self._native = native

    def _then(self, name: str, others: tuple[Plan, ...] = (), **params: object) -> Self:
        return type(self)(self._native.then(name, json.dumps(params), [other._native for other in others]))

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
        samples = _whole("rewindow", window, "samples")
        every = None if hop is None else _whole("rewindow hop=", hop, "samples")
        _choice("tail", tail, ("drop", "keep"))
        _choice("anchor", anchor, ("run", "range"))
        return self._then("rewindow", window=samples, hop=every, tail=tail, anchor=anchor)

    def filter(self, predicate: Callable[[Any], Expr] | Expr | PythonFunction | JitFunction) -> Self:
        """Let those windows or rows pass for which an expression is true.

        Parameters:
            predicate: gives one bool a window, as ``lambda s: s.std() > 10``, or a row, as
                ``lambda r: (r.mean > 3) & (r["std"] < 2)``; traced once. A row of which a field is unknown (a null)
                does not pass; a civil time is its nanoseconds since 1970. Or `isochrony.py` or `isochrony.jit` of
                a function that runs on blocks of windows.

        Raises:
            PlanError: it cannot be traced, gives one bool a sample, names a field that there is not, or its types do
                not fit.
        """
        if isinstance(predicate, PythonFunction | JitFunction):
            return type(self)(predicate._add(self._native, "filter"))
        return type(self)(self._native.traced("filter", "predicate", predicate))

    def map(self, expression: Callable[[Expr], Expr] | Expr | PythonFunction | JitFunction) -> Self:
        """Compute an expression of each window, or of each sample.

        Parameters:
            expression: as ``lambda s: s - s.mean()``; traced once. One value a window gives rows of one value. Or
                `isochrony.py` or `isochrony.jit` of a function that runs on blocks of windows.

        Raises:
            PlanError: it cannot be traced, or its types do not fit.
        """
        if isinstance(expression, PythonFunction | JitFunction):
            return type(self)(expression._add(self._native, "map"))
        return type(self)(self._native.traced("map", "expression", expression))

    def each(self, function: Callable[[npt.NDArray[Any], int], object], *, counts: bool = False) -> Self:
        """Show every block to a Python function and pass it on: ``plan.each(print).run()``.

        Parameters:
            function: is called as ``f(values, start)`` in order, in the run's thread, with values as `isochrony.py` has
                them (ranges: one row of start and end each) and the index of the first sample; what it returns is
                dropped, what it raises ends the run.
            counts: give it the counts as they are stored.

        Raises:
            OptionError: it is not a function.
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
        checked = {name: _whole(f"ranges {name}=", value, "samples", 0) for name, value in widths.items()}
        return self._then("ranges", (), **checked)

    def sync(self, *others: Plan, on: Plan) -> tuple[Plan, ...]:
        """The samples of this plan and of others in the ranges that a third gives; the rest is dropped.

        ``around, = iso.scan(signal).sync(on=detected.ranges(before=100))``. Samples wait, without a copy, until no
        range can ask for them any more.

        Parameters:
            others: samples of the same timebase.
            on: ranges, as `ranges` gives them.

        Returns:
            One plan for this one and for each of the others.

        Raises:
            PlanError: the plans are no samples, or `on` gives no ranges.
        """
        inputs = [*(other._native for other in others), on._native]
        synced = self._native.then("sync", "{}", inputs)
        return tuple(type(self)(synced.output(port)) for port in range(1 + len(others)))

    def rows(self, **fields: Callable[[Expr], Expr] | Expr) -> Self:
        """Make a row of each window, or of each range.

        Parameters:
            fields: by name, each as ``lambda s: s.max()``; traced once. One value a window is a number, several are a
                list. Ranges have no samples and take none.

        Returns:
            A plan of rows: "start" and "end" (indices), "time" (of the first sample, where the signal knows civil
            time), then the fields.

        Raises:
            PlanError: one cannot be traced, its types do not fit, two fields have one name, or no windows come in.

        >>> import numpy as np, isochrony as iso
        >>> windows = iso.scan(np.arange(6), rate=100).rewindow(3)
        >>> windows.rows(energy=lambda s: (s * s).sum(), peak=lambda s: s.max()).collect()
         start  end  energy  peak
             0    3       5     2
             3    6      50     5
        [2 rows]
        """
        return type(self)(self._native.traced_fields("rows", "{}", fields))

    def select(self, *names: str, **fields: Callable[[Row], Expr] | Expr) -> Self:
        """Keep some fields of rows, in this order, and add others.

        Parameters:
            names: of fields that are kept. Without "start" and "end" rows cannot be joined.
            fields: further ones by name, each as ``lambda r: r.std / r.mean``; traced once.

        Raises:
            PlanError: a field that there is not, two fields of one name, or no rows come in.
        """
        return type(self)(self._native.traced_fields("select", json.dumps({"names": names}), fields))

    def group_by(self, *keys: str, most: int = 1_000_000) -> Groups:
        """Group rows with equal fields; say what to make of the groups with `Groups.agg`.

        Parameters:
            keys: names of the fields; none: all rows are one group. Other keys, as hours, are made by `select`.
            most: groups that there may be; more end the run.
        """
        return Groups(self, keys, _whole("group_by most=", most, "groups"))

    def join(self, other: Plan, *, tolerance: float | None = None, suffix: str = "_right") -> Self:
        """Put rows together with another plan's rows of the same time: a row for each pair.

        Parameters:
            other: a plan of rows or ranges. Rows of one timebase meet by indices, others by civil time.
            tolerance: seconds; each row then meets at most one, whose start is nearest and no further away. None:
                all whose ranges overlap.
            suffix: put behind names of the other's fields that this one has, too.

        Raises:
            PlanError: no rows with "start" and "end" come in, or they have no time in common.
        """
        return self._then("join", (other,), tolerance=tolerance, suffix=suffix)

    def passthrough(self) -> Self:
        """Let everything pass as it is: an operator that the optimiser does not see into."""
        return self._then("passthrough")

    def limit(self, count: int) -> Self:
        """Let the first `count` windows or rows pass (samples, where there are neither), then stop what is before.

        Raises:
            OptionError: `count` is no whole number from 1.
        """
        return self._then("limit", count=_whole("limit", count, "windows or samples"))

    def fft(self) -> Self:
        """Transform every window: a row of complex numbers each, as `numpy.fft.rfft`, of complex samples as `fft`.

        A row of N real samples gives N // 2 + 1 numbers, at ``numpy.fft.rfftfreq(N, 1 / rate)`` Hz. complex64 for
        float32 and complex64 samples, else complex128.

        Raises:
            PlanError: no windows of samples come in.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([1.0, 0.0, -1.0, 0.0]), rate=100).rewindow(4).fft().collect()
        array([[0.+0.j, 2.+0.j, 0.+0.j]])
        """
        return self._then("fft")

    def power(self, *, taper: str = "hann", scaling: str = "density", detrend: str = "constant") -> Self:
        """Power spectrum of every window: a row of real numbers each, as `scipy.signal.periodogram`.

        Parameters:
            taper: "hann", "hamming", "blackman" or "boxcar", periodic.
            scaling: "density", in the unit squared per Hz; or "spectrum", in the unit squared, where a sine of
                amplitude A peaks at A²/2. One-sided for real samples.
            detrend: "constant" takes each window's mean out first; or "none".

        Raises:
            PlanError: no windows of samples come in. OptionError: a parameter is none of these.
        """
        _choice("taper", taper, ("hann", "hamming", "blackman", "boxcar"))
        _choice("scaling", scaling, ("density", "spectrum"))
        _choice("detrend", detrend, ("constant", "none"))
        return self._then("power", taper=taper, scaling=scaling, detrend=detrend)

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

    def zip(self, *others: Plan) -> Self:
        """Meet others at equal ranges of indices: what not all of them have is left out.

        Raises:
            PlanError: the plans differ in what flows or in their timebase.
        """
        return self._then("zip", others)

    def merge(self, *others: Plan) -> Self:
        """Take items of this and of others in the order of time.

        Raises:
            PlanError: the plans differ in what flows.
        """
        return self._then("merge", others)

    def stats(self, *names: str) -> Self:
        """Compute statistics of the finite samples of each window, in the signal's unit: a row each.

        Parameters:
            names: of "min", "max", "count", "mean", "std" (population, as NumPy's), "var" and "rms"; each once. Of
                complex samples they are those of the magnitude.

        Returns:
            A plan of rows: "start" and "end" (indices), "time" (of the first sample, where the signal knows civil
            time), then the statistics; int64 where they are exact, else float64 with NaN for a window without finite
            samples.

        Raises:
            PlanError: an unknown or repeated name, none, or no windows come in.
        """
        return self._then("stats", names=list(names))

    def collect(
        self,
        *,
        workers: int = 1,
        progress: bool = False,
        memory: int | None = None,
        optimise: bool = True,
    ) -> Any:
        """Run the plan in this thread and gather what comes out.

        Parameters:
            workers: 1; more is an error until parallel runs exist.
            progress: draw a progress line on a terminal.
            memory: most bytes that may wait in queues and pooled blocks; default 1 GiB. The result is not counted.
            optimise: rewrite the plan first; results are the same.

        Returns:
            Samples as an array, shape (n,); windows or what was computed of them as an array, shape (windows, values);
            rows as a `Table`; a count as an integer. Values are those stored: calibrated counts stay counts until an
            expression uses them.

        Raises:
            RunError: an operator failed; the message names it, the samples and their time. What a Python function
                raised is its `__cause__`.
            PlanError: `workers` is not 1.
            KeyboardInterrupt: within a tenth of a second of Ctrl-C.
        """
        return collect(self, workers=workers, progress=progress, memory=memory, optimise=optimise)[0]

    def run(
        self,
        *,
        workers: int = 1,
        progress: bool = False,
        memory: int | None = None,
        optimise: bool = True,
    ) -> RunResult:
        """Run the plan in this thread and drop what comes out; parameters and errors are those of `collect`.

        Returns:
            A `RunResult`: its `report` says what each operator did.
        """
        return run(self, workers=workers, progress=progress, memory=memory, optimise=optimise)

    @property
    def hop(self) -> int:
        """Samples from one window to the next; 1 where there are no windows."""
        return self._native.hop

    @property
    def kind(self) -> str:
        """What comes out: "samples", "frames" (windows), "ranges", "rows" or "count"."""
        return self._native.kind

    def explain(self) -> str:
        """The plan as written, what is rewritten and why, and the plan as it will run; reads nothing."""
        return self._native.explain()

    def to_json(self) -> str:
        """The plan as JSON text: operators by name, signals by store and name, expressions as graphs.

        Raises:
            PlanError: it scans an array, which exists in this process only, or calls a function that cannot be
                imported by name.
        """
        return self._native.to_json()

    @classmethod
    def from_json(cls, saved: str | bytes | Mapping[str, Any], *, store: Store | None = None) -> Self:
        """A plan that `to_json` saved.

        Parameters:
            saved: the text, or the object that it stands for.
            store: where to look for its signals; default: the stores that it names, opened for reading.

        Raises:
            PlanError: it is no plan, or a signal is not there.
        """
        from ._native import NativePlan

        text = json.dumps(dict(saved)) if isinstance(saved, Mapping) else saved
        return cls(NativePlan.from_json(text.decode() if isinstance(text, bytes) else text, store))

    def __eq__(self, other: object) -> bool:
        return self._native == other._native if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        # Equal plans print alike.
        return hash(str(self))

    def __str__(self) -> str:
        return str(self._native)

    def __repr__(self) -> str:
        return f"Plan({self})"


class Groups:
    """Rows in groups; made by `Plan.group_by`."""

    __slots__ = ("_keys", "_most", "_plan")

    def __init__(self, plan: Plan, keys: tuple[str, ...], most: int) -> None:
        self._plan = plan
        self._keys = keys
        self._most = most

    def agg(self, **aggregates: str | tuple[str, str]) -> Plan:
        """One row for each group, at the end of the run, in the order of the groups' first rows.

        Parameters:
            aggregates: names of columns, and what they are: "count", or a field and one of "sum", "min", "max",
                "mean", "std" (of the population), "first", "last". Nulls are left out.

        Raises:
            PlanError: a field or an aggregate that there is not, or two columns of one name.

        >>> import numpy as np, isochrony as iso
        >>> rows = iso.scan(np.arange(8) % 3, rate=100).rewindow(2).stats("min", "max")
        >>> rows.group_by("max").agg(n="count", least=("min", "min")).collect()
         max  n  least
           1  2      0
           2  2      0
        [2 rows]
        """
        aggregates_json = {name: what if isinstance(what, str) else list(what) for name, what in aggregates.items()}
        return self._plan._then("group_by", keys=list(self._keys), aggregates=aggregates_json, most=self._most)


def collect(
    *plans: Plan,
    workers: int = 1,
    progress: bool = False,
    memory: int | None = None,
    optimise: bool = True,
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
    return collect_reported(plans, workers=workers, progress=progress, memory=memory, optimise=optimise)[0]


def run(
    *plans: Plan,
    workers: int = 1,
    progress: bool = False,
    memory: int | None = None,
    optimise: bool = True,
) -> RunResult:
    """Run several plans as one for their effects: what they have in common is read and computed once.

    Parameters and errors are those of `Plan.collect`.

    Returns:
        A `RunResult`: its `report` says what each operator did.
    """
    first, others = _natives(plans)
    _one_worker(workers)
    with ImportProgress("running", enabled=None if progress else False, unit="samples") as line:
        return _done(first.run(others, memory, optimise, _drawn(line) if progress else None))


def collect_reported(
    plans: tuple[Plan, ...],
    *,
    workers: int = 1,
    progress: bool = False,
    memory: int | None = None,
    optimise: bool = True,
) -> tuple[tuple[Any, ...], tuple[npt.NDArray[np.int64] | None, ...], RunResult]:
    """As `collect`, and where the rows of each array lie (index of the first and how many are next to one another), and
    the report.
    """
    first, others = _natives(plans)
    _one_worker(workers)
    with ImportProgress("running", enabled=None if progress else False, unit="samples") as line:
        gathered, done = first.collect(others, memory, optimise, _drawn(line) if progress else None)
    results = (Table._of(one) if plan.kind == "rows" else one for plan, (one, _) in zip(plans, gathered, strict=True))
    return tuple(results), tuple(parts for _, parts in gathered), _done(done)


def _done(parts: Any) -> RunResult:
    operators, bursts, elapsed_s, peak_bytes, text = parts
    operators_done = tuple(OperatorReport(*one) for one in operators)
    return RunResult(Report(operators_done, bursts, elapsed_s, peak_bytes, text))


def _natives(plans: tuple[Plan, ...]) -> tuple[NativePlan, list[NativePlan]]:
    if not plans or not all(isinstance(plan, Plan) for plan in plans):
        raise PlanError(f"got {', '.join(type(plan).__name__ for plan in plans) or 'nothing'} to run; give plans")
    return plans[0]._native, [plan._native for plan in plans[1:]]


def _drawn(line: ImportProgress) -> Callable[[int, int], None]:
    return lambda done, total: line(done, total, 0, 0)


def scan(
    source: Signal | Selection | npt.NDArray[Any],
    segment: int | None = None,
    *,
    rate: Any = None,
    unit: str = "",
) -> Plan:
    """A plan over a signal, over a part of it, or over an array.

    Parameters:
        source: ``store["name"]``, ``signal[a:b]``, or a 1-D array, which is not copied: leave it alone while the plan
            runs. A signal is read as it is when the plan runs.
        segment: samples of an item where the plan has no windows, from 1; default 131,072.
        rate: sample rate of an array in Hz, exact as everywhere.
        unit: unit of an array's values.

    Raises:
        PlanError: anything else.
        OptionError: `segment` is no whole number from 1.
    """
    from ._native import NativePlan, Selection, Signal

    samples = None if segment is None else _whole("scan segment=", segment, "samples")
    if isinstance(source, Signal | Selection):
        if rate is not None or unit:
            raise PlanError("scan of a signal takes its rate and unit from there; leave out rate= and unit=")
        return Plan(NativePlan.scan(source, samples))
    if not isinstance(source, np.ndarray):
        raise PlanError(f"scan got {type(source).__name__}; give a signal, a selection of one, or an array with rate=")
    if rate is None:
        raise PlanError("scan of an array needs rate=, in Hz; or give a signal, which knows it")
    return Plan(NativePlan.array(source, rate, unit, samples))


def generate(
    source: Callable[[], Iterable[Any]] | Iterable[Any],
    *,
    dtype: npt.DTypeLike,
    rate: Any,
    unit: str = "",
    start: Any = None,
    segment: int | None = None,
) -> Plan:
    """A plan over samples that Python code makes.

    Parameters:
        source: a function without arguments that gives an iterator, called for each run; or an iterable, which serves
            one run if it is an iterator. It gives 1-D arrays of `dtype` that follow one another, or pairs of the
            index of the first sample and the array: what lies between is a gap. Arrays are taken over without a copy;
            one that the code keeps becomes read-only, and of a view that can be written a copy is taken.
        dtype: of the arrays.
        rate: sample rate in Hz, exact as everywhere.
        unit: of the values.
        start: civil time of index 0.
        segment: as for `scan`.

    Raises:
        PlanError: the source is neither.

    >>> import numpy as np, isochrony as iso
    >>> noise = lambda: (np.full(100, k) for k in range(3))
    >>> iso.generate(noise, dtype="i8", rate=100).rewindow(50).map(lambda s: s.sum()).collect()[:, 0]
    array([  0,   0,  50,  50, 100, 100])
    """
    from ._native import NativePlan

    samples = None if segment is None else _whole("generate segment=", segment, "samples")
    if not callable(source) and not isinstance(source, Iterable):
        raise PlanError(f"generate got {type(source).__name__}; give a function that makes an iterator of arrays")
    made = source if callable(source) else once(source)
    name = shown(source) if callable(source) else "iterator"
    return Plan(NativePlan.generate(made, name, importable(source), np.dtype(dtype).name, rate, unit, start, samples))
