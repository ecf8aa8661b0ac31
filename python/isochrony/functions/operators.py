"""Operators of your own in Python: classes with several inputs, any number of outputs, and notices of breaks.

`iso.py` runs a function on blocks of one input and takes one result for each window. What remembers, meets other
inputs, gives nothing for some blocks and several things for others, or must know where a gap lies, is a class derived
from `Operator`; `Plan.apply` puts it into a plan::

    class Peaks(iso.Operator):
        def outputs(self, samples):
            return samples.rows(start="int64", end="int64", peak=samples.dtype)

        def process(self, block, emit):
            ...
            emit({"start": [at], "end": [at + 1], "peak": [value]})
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..errors.native import OptionError, PlanError
from ..options import sample_dtype
from ..steps.chain import Chain
from ..tables.table import Table
from .python import importable, shown

if TYPE_CHECKING:
    from ..plan.plan import Plan

__all__ = ["Block", "Break", "Emitter", "Operator", "OperatorSteps", "Port"]


@dataclass(frozen=True, slots=True)
class Break:
    """Why what comes next on an input does not continue what came before.

    Attributes:
        kind: "gap": nothing was recorded; "clock": the recording's clock was set; "dropped": samples were lost on the
            way, as by an overloaded source; "removed": an operator before left something out, as a filter does, which
            is no gap; "back": what follows lies before what came, as in a selection by civil time over a clock that was
            set back. Where the clock was set there as well, or lies a gap, that is told next.
        start: index of the first sample that is missing; None where that is not known.
        end: index after the last one.
        input: number of the input.
    """

    kind: Literal["gap", "clock", "dropped", "removed", "back"]
    start: int | None = None
    end: int | None = None
    input: int = 0


@dataclass(frozen=True, slots=True)
class Port:
    """What flows through an input or an output of an `Operator`.

    Attributes:
        kind: "samples", "frames" (windows), "ranges" or "rows".
        dtype: of the values, as the operator sees them: in their unit, or counts; None of ranges and rows.
        unit: of the values; "" where it is not known.
        name: of the signal that was read; None of groups, which have no indices.
        rate: samples a second.
        window: samples of a window.
        hop: samples from one window to the next.
        width: values of a window.
        fields: names, dtypes and widths (None: one value) of the fields of rows.
        input: number of the input whose indices it has.
    """

    kind: str
    dtype: str | None = None
    unit: str = ""
    name: str | None = None
    rate: float | None = None
    window: int | None = None
    hop: int | None = None
    width: int | None = None
    fields: tuple[tuple[str, str, int | None], ...] = ()
    input: int = 0

    def of(self, dtype: Any = None, *, width: int | None = None, unit: str | None = None) -> Port:
        """The same with values of another dtype, unit, or number for each window."""
        return replace(
            self,
            dtype=self.dtype if dtype is None else sample_dtype(dtype).name,
            width=self.width if width is None else width,
            unit=self.unit if unit is None else unit,
        )

    def ranges(self) -> Port:
        """Ranges of this one's indices: arrays of shape (n, 2)."""
        return Port("ranges", name=self.name, rate=self.rate, input=self.input)

    def rows(self, **fields: Any) -> Port:
        """Rows of this one's indices.

        Parameters:
            fields: the dtype of each, or a pair of it and how many values a row has. "start" and "end" (int64) are the
                indices of a row's samples, by which rows are joined, annotated and merged.
        """
        all_of = []
        for name, given in fields.items():
            dtype, width = given if isinstance(given, tuple) else (given, None)
            is_time = isinstance(dtype, str) and dtype == "datetime64[ns]"
            all_of.append((name, dtype if is_time else sample_dtype(dtype, name).name, width))
        return Port("rows", name=self.name, rate=self.rate, fields=tuple(all_of), input=self.input)


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a plan's result, as `Plan.blocks` gives it, or of the input of an `Operator`.

    Attributes:
        values: samples, shape (n,); windows, shape (n, values); ranges, shape (n, 2): read-only arrays over the
            engine's memory. Of rows a `Table`.
        start: index of the first sample; None of groups.
        end: index after the last one.
        input: number of the operator's input.
        breaks: of `Plan.blocks`: kinds of `Break` since the block before, as ("clock",), each once; empty where this
            one continues it. An `Operator` gets `on_break` instead.
    """

    values: Any
    start: int | None
    end: int | None
    input: int = 0
    breaks: tuple[str, ...] = ()


class Emitter:
    """Takes what an `Operator` gives: ``emit(values)``."""

    __slots__ = ("_start", "emitted")

    def __init__(self) -> None:
        self.emitted: list[tuple[int, int | None, Any]] = []
        self._start: int | None = None

    def __call__(self, values: Any, *, start: int | None = None, output: int = 0) -> None:
        """Give something to an output.

        Parameters:
            values: samples, shape (n,); one row of values for each window, shape (n, values), or (n,) where that is
                one; ranges, shape (n, 2); for rows columns by name, or a `Table`. An array is taken over without a
                copy, and is read-only from then on.
            start: index of the first sample; default: that of the block in hand, at a break and at the end the one that
                follows on what was emitted last. Rows and ranges say themselves.
            output: number of the output.

        Samples and windows begin no earlier than where those ended that the output was given last, also behind a break;
        ranges and rows are in order of their starts, within one call and from one to the next. Only behind a break of
        kind "back" indices begin anew.
        """
        columns = dict(values) if isinstance(values, Table) else values
        self.emitted.append((output, self._start if start is None else int(start), columns))

    def _begin(self, start: int | None) -> None:
        self._start = start

    def _take(self) -> list[tuple[int, int | None, Any]]:
        taken, self.emitted = self.emitted, []
        return taken


class Operator:
    """An operator of your own; derive a class from it and give that to `Plan.apply`.

    An instance is made when the plan is built, to ask for `outputs`, and one more for each run: what it keeps in its
    attributes belongs to that run. Its methods are called in the run's own thread, in order, never at the same time.
    What they raise ends the run.

    Attributes:
        meet: of several inputs: "index": blocks over the same indices, one of each input, are given together; what not
            all inputs have is left out. "time": one block at a time, in the order of the indices at which they begin.
        counts: values are the counts as they are stored, not in their unit.
        lag: samples by which what is emitted may begin before the block in hand does, as of a window that began
            earlier. Whoever merges this with others waits for as long.

    >>> import numpy as np, isochrony as iso
    >>> class Jumps(iso.Operator):
    ...     '''Where samples differ by more than a limit from the one before; a gap is no jump.'''
    ...     def __init__(self, limit):
    ...         self.limit, self.last = limit, None
    ...     def outputs(self, samples):
    ...         return samples.rows(start="int64", end="int64", by="float64")
    ...     def process(self, block, emit):
    ...         before = block.values[:1] if self.last is None else self.last
    ...         by = np.diff(block.values, prepend=before)
    ...         found = np.flatnonzero(abs(by) > self.limit)
    ...         at = block.start + found
    ...         emit({"start": at, "end": at + 1, "by": by[found]})
    ...         self.last = block.values[-1:]
    ...     def on_break(self, why, emit):
    ...         self.last = None
    >>> def stretches():
    ...     yield 0, np.array([1.0, 1.0, 5.0])
    ...     yield 100, np.array([9.0, 9.0])  # behind a gap
    >>> iso.generate(stretches, dtype="f8", rate=10).apply(Jumps, limit=2).collect()
     start  end  by
         2    3   4
    [1 rows]

    Two inputs, and two outputs, the louder one of both and the other:

    >>> class Sorted(iso.Operator):
    ...     def outputs(self, first, second):
    ...         return first, first
    ...     def process(self, first, second, emit):
    ...         emit(np.maximum(first.values, second.values), output=0)
    ...         emit(np.minimum(first.values, second.values), output=1)
    >>> a, b = (iso.scan(np.array(x), rate=10) for x in ([1.0, 5.0], [3.0, 2.0]))
    >>> loud, quiet = a.apply(Sorted, b)
    >>> iso.collect(loud, quiet)
    (array([3., 5.]), array([1., 2.]))
    """

    meet: ClassVar[Literal["index", "time"]] = "index"
    counts: bool = False
    lag: int = 0

    def outputs(self, *inputs: Port) -> Port | Sequence[Port]:
        """What comes out of inputs of these types; called once, before anything else.

        Returns:
            One `Port`, or one for each output, made of those of the inputs: ``first.of("float64")``,
            ``first.rows(start="int64", end="int64")``, ``first.ranges()``. An empty tuple: nothing of its own, and the
            first input goes on as it is. Default: as the first input.
        """
        return inputs[0]

    def process(self, *blocks_and_emit: Any) -> None:
        """Take a block, or one of each input, and emit any number of things: ``process(self, block, emit)``.

        Raises:
            NotImplementedError: the class does not say what to do.
        """
        raise NotImplementedError(f"{type(self).__name__} has no process(self, block, emit); define it")

    def on_break(self, why: Break, emit: Emitter) -> None:
        """What comes next on ``why.input`` does not continue what came before: emit what is complete, and forget."""

    def finish(self, emit: Emitter) -> None:
        """All inputs have ended: emit what is left."""


class Factory:
    """Makes an instance of an operator's class for each run; the native half keeps one in a plan."""

    __slots__ = ("_class", "_params")

    def __init__(self, class_: Callable[..., Any], params: Mapping[str, Any]) -> None:
        self._class = class_
        self._params = dict(params)

    def __str__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self._params.items())
        return f"{shown(self._class)}({params})" if params else shown(self._class)

    def start(self, ports: Iterable[Mapping[str, Any]]) -> Running:
        """An instance at work in a run."""
        return Running(self._class(**self._params), tuple(ports))


class Running:
    """An instance of an operator's class at work in one run, as the native half calls it."""

    __slots__ = ("_emit", "_operator", "manner", "outputs")

    def __init__(self, operator: Any, ports: tuple[Mapping[str, Any], ...]) -> None:
        name = type(operator).__name__
        if not isinstance(operator, Operator):
            raise PlanError(f"apply({name}) is refused; make {name} a subclass of isochrony.Operator")
        if operator.meet not in ("index", "time"):
            raise OptionError(f'{name}.meet={operator.meet!r} is refused; give "index" or "time"')
        lag: Any = operator.lag
        if isinstance(lag, bool) or not isinstance(lag, int) or lag < 0:
            raise OptionError(f"{name}.lag={lag!r} is refused; give a whole number of samples, from 0")
        self._operator = operator
        self._emit = Emitter()
        self.manner = (operator.meet == "index", bool(operator.counts), operator.lag)
        given = operator.outputs(*(_port(port, bool(operator.counts)) for port in ports))
        all_of = tuple(given) if isinstance(given, tuple | list) else (given,)
        for port in all_of:
            if not isinstance(port, Port):
                raise PlanError(
                    f"{name}.outputs() returned {type(port).__name__}; return ports: arguments of outputs(), or "
                    "results of port.of(), port.rows() or port.ranges()"
                )
        self.outputs = [(p.kind, p.input, p.dtype, p.unit, p.width, list(p.fields)) for p in all_of]

    def process(self, blocks: Sequence[tuple[Any, int | None, int | None, int]]) -> list[tuple[int, int | None, Any]]:
        given = [Block(*block) for block in blocks]
        self._emit._begin(given[0].start)
        self._operator.process(*given, self._emit)
        return self._emit._take()

    def on_break(self, why: Break) -> list[tuple[int, int | None, Any]]:
        self._emit._begin(None)
        self._operator.on_break(why, self._emit)
        return self._emit._take()

    def finish(self, _: None) -> list[tuple[int, int | None, Any]]:
        self._emit._begin(None)
        self._operator.finish(self._emit)
        return self._emit._take()


def _port(given: Mapping[str, Any], counts: bool) -> Port:
    fields = tuple(tuple(field) for field in given.get("fields", ()))
    rest = {key: value for key, value in given.items() if key not in ("fields", "stored")}
    if counts:
        rest["dtype"], rest["unit"] = given["stored"], ""
    return Port(**rest, fields=fields)


class OperatorSteps(Chain):
    """Of `isochrony.Plan`: operators of your own."""

    __slots__ = ()

    def apply(self, operator: Callable[..., Operator], *others: Plan, **params: Any) -> Any:
        """Add an operator of your own: a class derived from `isochrony.Operator`.

        Returns:
            A plan, or a tuple of one for each output where there are several.

        Parameters:
            operator: the class; what makes an instance of it.
            others: plans that are its further inputs.
            params: what it is made with, each time, by name. The plan can be saved if the class can be imported by its
                name and these are numbers, texts, lists and dicts.

        Raises:
            PlanError: it is no such class, it refuses its inputs, or ``meet = "index"`` of inputs that do not have
                samples or windows alike, of one timebase.

        >>> import numpy as np, isochrony as iso
        >>> class Doubled(iso.Operator):
        ...     def process(self, block, emit):
        ...         emit(2 * block.values)
        >>> iso.scan(np.array([1.0, 2.0]), rate=10).apply(Doubled).collect()
        array([2., 4.])
        """
        given: Any = operator
        if not callable(given) or isinstance(given, Operator):
            raise PlanError(
                f"apply({given!r}) is refused; give the operator's class and the parameters by name, such as "
                "apply(MyOperator, gain=2), so that each run makes a new instance"
            )
        factory = Factory(operator, params)
        try:
            saved = json.dumps(params, allow_nan=False)
        except (TypeError, ValueError):
            saved = None
        natives = [other._native for other in others]
        native = self._native.operator(factory, str(factory), importable(operator), saved, natives)
        if native.outputs == 1:
            return type(self)(native)
        return tuple(type(self)(native.output(output)) for output in range(native.outputs))
