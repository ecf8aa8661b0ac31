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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from .native_errors import OptionError, PlanError
from .progress import ImportProgress
from .table import Table

if TYPE_CHECKING:
    from ._native import Expr, NativePlan, Selection, Signal, Store

__all__ = ["STATS", "OperatorReport", "Plan", "Report", "RunResult", "scan"]

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


def _whole(step: str, value: object, unit: str) -> int:
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1:
        raise OptionError(f"{step}({value!r}) is refused; give a whole number of {unit}, from 1")
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
    scan -> rewindow(window=4) -> filter(predicate=s.std() > 1.5)
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

    def filter(self, predicate: Callable[[Expr], Expr] | Expr) -> Self:
        """Let those windows pass for which an expression is true.

        Parameters:
            predicate: gives one bool a window, as ``lambda s: s.std() > 10``; traced once.

        Raises:
            PlanError: it cannot be traced, gives one bool a sample, or its types do not fit.
        """
        return type(self)(self._native.traced("filter", "predicate", predicate))

    def map(self, expression: Callable[[Expr], Expr] | Expr) -> Self:
        """Compute an expression of each window, or of each sample.

        Parameters:
            expression: as ``lambda s: s - s.mean()``; traced once. One value a window gives rows of one value.

        Raises:
            PlanError: it cannot be traced, or its types do not fit.
        """
        return type(self)(self._native.traced("map", "expression", expression))

    def passthrough(self) -> Self:
        """Let everything pass as it is: an operator that the optimiser does not see into."""
        return self._then("passthrough")

    def limit(self, count: int) -> Self:
        """Let the first `count` windows (or samples, where there are no windows) pass, then stop what comes before.

        Raises:
            OptionError: `count` is no whole number from 1.
        """
        return self._then("limit", count=_whole("limit", count, "windows or samples"))

    def count(self) -> Self:
        """Count windows, or samples where there are no windows; `collect` then gives an integer."""
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
            RunError: an operator failed; the message names it, the samples and their time.
            PlanError: `workers` is not 1.
            KeyboardInterrupt: within a tenth of a second of Ctrl-C.
        """
        _one_worker(workers)
        with ImportProgress("running", enabled=None if progress else False, unit="samples") as line:
            gathered = self._native.collect(memory, optimise, _drawn(line) if progress else None)
        return Table._of(gathered) if self._native.kind == "rows" else gathered

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
        _one_worker(workers)
        with ImportProgress("running", enabled=None if progress else False, unit="samples") as line:
            parts = self._native.run(memory, optimise, _drawn(line) if progress else None)
        operators, bursts, elapsed_s, peak_bytes, text = parts
        operators_done = tuple(OperatorReport(*one) for one in operators)
        return RunResult(Report(operators_done, bursts, elapsed_s, peak_bytes, text))

    def explain(self) -> str:
        """The plan as written, what is rewritten and why, and the plan as it will run; reads nothing."""
        return self._native.explain()

    def to_json(self) -> str:
        """The plan as JSON text: operators by name, signals by store and name, expressions as graphs.

        Raises:
            PlanError: it scans an array, which exists in this process only.
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
