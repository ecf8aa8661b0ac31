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
from ..steps.chain import Chain, natives_of
from ..tables.table import Table
from .python import JitFunction, PythonFunction, importable, shown

if TYPE_CHECKING:
    from ..plan.plan import Plan

__all__ = ["Block", "Break", "Emitter", "Operator", "OperatorSteps", "Port"]


@dataclass(frozen=True, slots=True)
class Break:
    """Why the next block of an input does not continue the one before.

    Attributes:
        kind: "gap": nothing was recorded; "clock": the recorder's clock was set; "dropped": samples were lost on the
            way, as when a plan is slower than a live source; "removed": an earlier operator left items out, as
            `Plan.filter` does; nothing is missing in the recording; "back": the next indices are smaller, as in a
            selection by civil time across a clock that was set back. A clock step or a gap at the same place follows as
            a break of its own.
        start: index of the first missing sample; None if that is not known.
        end: index after the last missing sample; None if that is not known.
        input: number of the input, from 0.

    >>> import numpy as np, isochrony as iso
    >>> class Breaks(iso.Operator):
    ...     def outputs(self, samples):
    ...         return samples.rows(start="int64", end="int64")
    ...     def process(self, block, emit):
    ...         pass
    ...     def on_break(self, why, emit):
    ...         if why.kind == "gap":
    ...             emit({"start": [why.start], "end": [why.end]})
    >>> def recording():
    ...     yield 0, np.zeros(10)
    ...     yield 100, np.zeros(10)  # indices 10 to 99 are missing
    >>> iso.generate(recording, dtype="f8", rate=10).apply(Breaks).collect()
     start  end
        10  100
    [1 rows]
    """

    kind: Literal["gap", "clock", "dropped", "removed", "back"]
    start: int | None = None
    end: int | None = None
    input: int = 0


@dataclass(frozen=True, slots=True)
class Port:
    """The type of items at an input or an output of an `Operator`.

    `Operator.outputs` gets one per input and makes those of the outputs from them.

    Attributes:
        kind: "samples", "frames" (windows), "ranges" or "rows".
        dtype: dtype of the values as the operator gets them, in their unit or as counts; None for ranges and rows.
        unit: unit of the values; "" if unknown.
        name: name of the signal that is read; None for groups, which have no indices.
        rate: samples per second.
        window: samples that a window spans.
        hop: distance between the starts of consecutive windows, in samples.
        width: values that represent a window, such as ``nfft // 2 + 1`` for a spectrum; equal to `window` before a
            transform.
        fields: name, dtype and width (None: one value) of each field of rows.
        input: number of the input whose indices the items have.

    >>> import isochrony as iso
    >>> samples = iso.Port("samples", dtype="int16", unit="kPa", rate=100.0)
    >>> samples.of("float64").dtype, samples.ranges().kind
    ('float64', 'ranges')
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
        """The same type with another dtype, unit or number of values per window.

        Parameters:
            dtype: dtype of the values; None: as it is.
            width: values per window, from 1; None: as it is.
            unit: unit of the values; None: as it is.

        Returns:
            A `Port` of the same kind.

        Raises:
            OptionError: a dtype that signals cannot have.

        >>> import isochrony as iso
        >>> counts = iso.Port("samples", dtype="int16", rate=100.0)
        >>> values = counts.of("float64", unit="kPa")
        >>> values.dtype, values.unit, values.rate
        ('float64', 'kPa', 100.0)
        """
        return replace(
            self,
            dtype=self.dtype if dtype is None else sample_dtype(dtype).name,
            width=self.width if width is None else width,
            unit=self.unit if unit is None else unit,
        )

    def ranges(self) -> Port:
        """The type of ranges over the indices of this port.

        Returns:
            A `Port` of ranges: `emit` takes arrays of shape (n, 2), int64: start, and index after the end.

        >>> import isochrony as iso
        >>> iso.Port("samples", dtype="int16", rate=100.0).ranges().kind
        'ranges'
        """
        return Port("ranges", name=self.name, rate=self.rate, input=self.input)

    def rows(self, **fields: Any) -> Port:
        """The type of rows over the indices of this port.

        Parameters:
            fields: name=dtype, or name=(dtype, values per row). "start" and "end" (int64) are the indices of a row's
                samples, by which rows are joined, annotated and merged.

        Returns:
            A `Port` of rows: `emit` takes a dict of columns, or a `Table`.

        Raises:
            OptionError: a dtype that columns cannot have.

        >>> import isochrony as iso
        >>> samples = iso.Port("samples", dtype="int16", rate=100.0)
        >>> samples.rows(start="int64", end="int64", spectrum=("float32", 64)).fields
        (('start', 'int64', None), ('end', 'int64', None), ('spectrum', 'float32', 64))
        """
        all_of = []
        for name, given in fields.items():
            dtype, width = given if isinstance(given, tuple) else (given, None)
            is_time = isinstance(dtype, str) and dtype == "datetime64[ns]"
            all_of.append((name, dtype if is_time else sample_dtype(dtype, name).name, width))
        return Port("rows", name=self.name, rate=self.rate, fields=tuple(all_of), input=self.input)


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a plan's result, as `Plan.blocks` gives it, or of an input of an `Operator`.

    Attributes:
        values: samples, shape (n,); windows, shape (n, values per window); ranges, shape (n, 2): read-only arrays over
            the engine's memory, without a copy. For rows, a `Table`.
        start: index of the first sample; None for groups.
        end: index after the last sample; None for groups.
        input: number of the operator's input, from 0.
        breaks: in `Plan.blocks`: kinds of `Break` since the previous block, each once, such as ("clock",); empty if
            this block continues it. An `Operator` gets `on_break` instead.

    >>> import numpy as np, isochrony as iso
    >>> plan = iso.scan(np.arange(6.0), rate=100).map(lambda s: s * 2)
    >>> [(block.start, block.end, block.values.tolist()) for block in plan.blocks()]
    [(0, 6, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])]
    """

    values: Any
    start: int | None
    end: int | None
    input: int = 0
    breaks: tuple[str, ...] = ()


class Emitter:
    """Passes on the results of an `Operator`: ``emit(values)``.

    `Operator.process`, `on_break` and `finish` get one as their last argument.

    >>> import numpy as np, isochrony as iso
    >>> class Halves(iso.Operator):
    ...     def process(self, block, emit):
    ...         middle = len(block.values) // 2
    ...         emit(block.values[:middle])
    ...         emit(block.values[middle:], start=block.start + middle)
    >>> iso.scan(np.arange(6.0), rate=10).apply(Halves).collect()
    array([0., 1., 2., 3., 4., 5.])
    """

    __slots__ = ("_start", "emitted")

    def __init__(self) -> None:
        self.emitted: list[tuple[int, int | None, Any]] = []
        self._start: int | None = None

    def __call__(self, values: Any, *, start: int | None = None, output: int = 0) -> None:
        """Pass values on to an output.

        Samples and windows must not begin before the end of what the same output got last, after a break either. Ranges
        and rows must be in order of their starts, within one call and from one call to the next. Only after a break of
        kind "back" may indices begin again from smaller ones.

        Parameters:
            values: samples, shape (n,); one row of values per window, shape (n, values), or (n,) for one value; ranges,
                shape (n, 2); for rows, a dict of columns or a `Table`. An array is taken over without a copy and is
                read-only from then on.
            start: index of the first sample. Default: the start of the current block; in `on_break` and `finish`, the
                end of what was passed on last. Rows and ranges have indices of their own.
            output: number of the output, from 0.
        """
        columns = dict(values) if isinstance(values, Table) else values
        self.emitted.append((output, self._start if start is None else int(start), columns))

    def _begin(self, start: int | None) -> None:
        self._start = start

    def _take(self) -> list[tuple[int, int | None, Any]]:
        taken, self.emitted = self.emitted, []
        return taken


class Operator:
    """Base class of your own operators: derive a class and pass it to `Plan.apply`.

    One instance is made when the plan is built, to call `outputs`, and another for each run: its attributes hold the
    state of that run. Methods are called in the thread of the run, in order, never two at a time. An exception ends the
    run.

    Attributes:
        meet: how several inputs are matched. "index": `process` gets one block of each input over the same indices;
            indices that an input lacks are left out. "time": `process` gets one block at a time, in order of the
            blocks' starts.
        counts: True: values are counts as stored, instead of values in the unit.
        lag: by how many samples results may start before the current block, such as a window that began earlier, from
            0. A merge with other plans waits for that long.

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
    >>> def recording():
    ...     yield 0, np.array([1.0, 1.0, 5.0])
    ...     yield 100, np.array([9.0, 9.0])  # after a gap
    >>> iso.generate(recording, dtype="f8", rate=10).apply(Jumps, limit=2).collect()
     start  end  by
         2    3   4
    [1 rows]
    """

    meet: ClassVar[Literal["index", "time"]] = "index"
    counts: bool = False
    lag: int = 0

    def outputs(self, *inputs: Port) -> Port | Sequence[Port]:
        """Types of the outputs, given those of the inputs. Called once, before everything else.

        Parameters:
            inputs: a `Port` for each input.

        Returns:
            A `Port`, or a sequence of one per output, made from those of the inputs: ``first.of("float64")``,
            ``first.rows(start="int64", end="int64")``, ``first.ranges()``. An empty tuple: no results of its own; the
            items of the first input pass unchanged. Unless overridden: the type of the first input.

        >>> import numpy as np, isochrony as iso
        >>> class Envelope(iso.Operator):
        ...     def outputs(self, samples):
        ...         return samples.of("float32")
        ...     def process(self, block, emit):
        ...         emit(np.abs(block.values).astype("float32"))
        >>> iso.scan(np.array([1, -2], "i2"), rate=10).apply(Envelope).collect()
        array([1., 2.], dtype=float32)
        """
        return inputs[0]

    def process(self, *blocks_and_emit: Any) -> None:
        """Process a block of each input: override it as ``process(self, block, emit)``.

        Parameters:
            blocks_and_emit: a `Block` per input (with ``meet = "time"`` only one), and an `Emitter`, which may be
                called any number of times.

        Raises:
            NotImplementedError: the class does not override it.

        >>> import numpy as np, isochrony as iso
        >>> class Doubled(iso.Operator):
        ...     def process(self, block, emit):
        ...         emit(2 * block.values)
        >>> iso.scan(np.array([1.0, 2.0]), rate=10).apply(Doubled).collect()
        array([2., 4.])
        """
        raise NotImplementedError(f"{type(self).__name__} has no process(self, block, emit); define it")

    def on_break(self, why: Break, emit: Emitter) -> None:
        """Called before a block that does not continue the one before: pass on what is complete, and reset the state.

        Parameters:
            why: kind and place of the break.
            emit: as in `process`.

        >>> import numpy as np, isochrony as iso
        >>> class Running(iso.Operator):
        ...     total = 0.0
        ...     def process(self, block, emit):
        ...         sums = self.total + np.cumsum(block.values)
        ...         self.total = sums[-1]
        ...         emit(sums)
        ...     def on_break(self, why, emit):
        ...         self.total = 0.0
        >>> def recording():
        ...     yield 0, np.array([1.0, 2.0])
        ...     yield 100, np.array([5.0, 5.0])  # after a gap
        >>> iso.generate(recording, dtype="f8", rate=10).apply(Running).collect()
        array([ 1.,  3.,  5., 10.])
        """

    def finish(self, emit: Emitter) -> None:
        """Called after the last block of all inputs: pass on what is left.

        Parameters:
            emit: as in `process`.

        >>> import numpy as np, isochrony as iso
        >>> class OneLate(iso.Operator):
        ...     lag = 1
        ...     held = np.empty(0)
        ...     def process(self, block, emit):
        ...         values = np.append(self.held, block.values)
        ...         self.held = values[-1:]
        ...         emit(values[:-1], start=block.end - len(values))
        ...     def finish(self, emit):
        ...         emit(self.held)
        >>> iso.scan(np.array([1.0, -7.0, 3.0]), rate=10).apply(OneLate).collect()
        array([ 1., -7.,  3.])
        """


class Factory:
    """Makes an instance of an operator's class for each run; the native half keeps one in a plan."""

    __slots__ = ("_class", "_params")

    def __init__(self, class_: Callable[..., Any], params: Mapping[str, Any]) -> None:
        self._class = class_
        self._params = dict(params)

    def __str__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self._params.items())
        return f"{shown(self._class)}({params})" if params else shown(self._class)

    def start(self, ports: Iterable[Mapping[str, Any]]) -> OperatorInstance:
        """An instance for one execution."""
        return OperatorInstance(self._class(**self._params), tuple(ports))


class OperatorInstance:
    """An instance of an operator's class during one execution, as the native half calls it."""

    __slots__ = ("_emit", "_operator", "manner", "outputs")

    def __init__(self, operator: Any, ports: tuple[Mapping[str, Any], ...]) -> None:
        name = type(operator).__name__
        if not isinstance(operator, Operator):
            raise PlanError(f"{name} is not a subclass of isochrony.Operator; return an instance of one that is")
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
    """Part of `isochrony.Plan`: operators of your own."""

    __slots__ = ()

    def apply(self, operator: Callable[..., Operator], *others: Plan, **params: Any) -> Any:
        """Add an operator of your own: a class derived from `isochrony.Operator`.

        Returns:
            A plan; if the operator has several outputs, a tuple with a plan for each.

        Parameters:
            operator: the class, or a function that returns an instance of it.
            others: plans for its further inputs.
            params: arguments of the class, by name, for each instance. The plan can be saved if the class can be
                imported by its name and these are numbers, str, lists and dicts.

        Raises:
            PlanError: not such a class, the class refuses its inputs, or inputs with ``meet = "index"`` are not all
                samples or all windows of one timebase.

        >>> import numpy as np, isochrony as iso
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
        given: Any = operator
        if isinstance(given, PythonFunction | JitFunction):
            made = "py" if isinstance(given, PythonFunction) else "jit"
            raise PlanError(
                f"apply takes an operator class, got iso.{made}({shown(given.function)}); write map(...) for results "
                "of the function, or each(...) to call it"
            )
        if not callable(given) or isinstance(given, Operator):
            raise PlanError(
                f"apply({given!r}) is refused; give the operator's class and the parameters by name, such as "
                "apply(MyOperator, gain=2), so that each run makes a new instance"
            )
        if isinstance(given, type) and not issubclass(given, Operator):
            name = given.__name__
            raise PlanError(f"apply({name}): {name} is not a subclass of isochrony.Operator; give a class that is")
        factory = Factory(operator, params)
        try:
            saved = json.dumps(params, allow_nan=False)
        except (TypeError, ValueError):
            saved = None
        natives = natives_of("apply", others)
        native = self._native.operator(factory, str(factory), importable(operator), saved, natives)
        if native.outputs == 1:
            return type(self)(native)
        return tuple(type(self)(native.output(output)) for output in range(native.outputs))
