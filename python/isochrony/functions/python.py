"""Functions of your own inside plans, where an expression does not say it.

`py` runs a Python function on whole blocks of windows, as NumPy arrays that look into the engine's
memory; `jit` has Numba compile one, which then runs without the interpreter's lock. Both are given to
`Plan.map` and `Plan.filter` in place of a traced function::

    loud = windows.filter(iso.py(lambda rows: np.abs(rows).max(axis=1) > 10))

A plan that holds a function is saved only if the function can be imported by its name: it is saved as
``module:name``. Reading the plan imports that module, which runs its code, so it is refused unless
``allow_functions=`` names the function (`Plan.from_json`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ..errors.native import OptionError, PlanError
from ..options import choice, sample_dtype
from ..tables.table import Table

if TYPE_CHECKING:
    from .._native import NativePlan
    from .operators import Break

__all__ = ["JitFunction", "PythonFunction", "imported", "jit", "py", "shown"]

OnWorkers = Literal["auto", "any", "threads", "processes", "inline"]


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A Python function for `Plan.map` or `Plan.filter`; made by `py`.

    Attributes:
        function: function of an array: windows, shape (windows, values), or samples, shape (n,).
        dtype: dtype of its results; None: found by a call.
        width: number of results per window; None: found by a call.
        counts: whether it gets counts as stored, instead of values in the unit.
        on_workers: where it is called in a run on several workers; "any": the run chooses.
        sequential: whether it must be called in order, since it has state.
        state: function that makes its state, at the start of each gap-free range.
        on_break: function that is called at breaks.

    >>> import numpy as np, isochrony as iso
    >>> peak = iso.py(lambda rows: rows.max(axis=1), dtype="f8")
    >>> peak.dtype, peak(np.array([[1.0, 3.0], [2.0, 0.0]]))
    ('f8', array([3., 2.]))
    """

    function: Callable[..., Any]
    dtype: npt.DTypeLike | None = None
    width: int | None = None
    counts: bool = False
    on_workers: OnWorkers = "auto"
    sequential: bool = False
    state: Callable[[], Any] | None = None
    on_break: Callable[[Break], object] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the function itself."""
        return self.function(*arguments)

    def _add(self, plan: NativePlan, how: str) -> NativePlan:
        name, saved = shown(self.function), importable(self.function)
        others = (_named(self.state), _named(self.on_break))
        if plan.kind == "rows":
            fields = None if how == "filter" else self._fields(plan)
            in_order = (False, "inline", True, fields, *others)
            return plan.python(how, self.function, name, saved, None, 1, *in_order)
        where = (self.counts, self.on_workers, self.sequential, None, *others)
        if self.on_workers == "processes":
            from ..workers.transport import travel

            how_it_travels, _, why = travel(self.function)
            if not how_it_travels:
                raise PlanError(f'iso.py({name}, on_workers="processes") is refused: {name} {why}; give "inline"')
        if how == "filter":
            return plan.python("filter", self.function, name, saved, None, 1, *where)
        dtype, width = self._result(plan)
        return plan.python("map", self.function, name, saved, dtype, width, *where)

    def _tried(self, values: Any) -> Any:
        """What it gives of values without a past."""
        return self.function(values) if self.state is None else self.function(values, self.state())

    def _fields(self, plan: NativePlan) -> list[tuple[str, str, int | None]]:
        """Fields of the rows that it makes of a plan's rows: of what came in "start", "end" and "time", and its own."""
        given = plan.fields() or []
        table = Table({name: np.zeros(2 if width is None else (2, width), dtype) for name, dtype, width in given})
        try:
            columns = {name: np.asarray(column) for name, column in dict(self._tried(table)).items()}
        except Exception as error:
            raise PlanError(
                f"iso.py({shown(self.function)}) was tried on a table of two rows, to find its columns, and raised "
                f"{type(error).__name__}: {error}; return columns by name, as a dict of arrays"
            ) from error
        for name, column in columns.items():
            if column.shape[:1] != (2,) or column.ndim > 2:
                raise PlanError(
                    f"iso.py({shown(self.function)}) returned shape {column.shape} for column {name!r} when given two "
                    "rows; return a 1-D array of one value per row, or a 2-D array with equally many values in each row"
                )
        kept = [field for field in given if field[0] in ("start", "end", "time") and field[0] not in columns]
        return kept + [
            (name, _dtype_name(column.dtype), column.shape[1] if column.ndim == 2 else None)
            for name, column in columns.items()
        ]

    def _result(self, plan: NativePlan) -> tuple[str, int]:
        if self.dtype is not None:
            return sample_dtype(self.dtype).name, 1 if self.width is None else self.width
        row = plan.row(self.counts)
        if row is None:
            raise PlanError(f"map(iso.py({shown(self.function)})) needs samples or windows, got {plan.port}")
        dtype, width = row
        try:
            zeros = np.zeros((2, width) if width else 2, dtype)
        except (MemoryError, ValueError) as error:
            raise PlanError(
                f"iso.py({shown(self.function)}) cannot be tried on two windows of {width} values: {error}; make the "
                "windows shorter"
            ) from error
        zeros.flags.writeable = False
        try:
            result = np.asarray(self._tried(zeros))
        except Exception as error:
            raise PlanError(
                f"iso.py({shown(self.function)}) was tried on zeros of shape {zeros.shape}, to find its dtype and "
                f"width, and raised {type(error).__name__}: {error}; correct the function, or state dtype= and width="
            ) from error
        if result.shape[:1] != (2,) or result.ndim > (2 if width else 1):
            raise PlanError(
                f"iso.py({shown(self.function)}) returned shape {result.shape} for {zeros.shape}; given windows, "
                "return one value (1-D) or one row of values (2-D) per window; given samples without windows, return "
                "as many samples as came in"
            )
        return result.dtype.name, result.shape[1] if result.ndim == 2 else 1


@dataclass(frozen=True, slots=True)
class JitFunction:
    """A function for `Plan.map` or `Plan.filter` that Numba compiles; made by `jit`.

    Attributes:
        function: function of rows and results, which returns a status.
        dtype: dtype of the results of a map.
        width: number of results per window of a map.
        counts: whether it gets counts as stored, instead of values in the unit.

    >>> import numpy as np, isochrony as iso
    >>> def peak(rows, out):
    ...     for k in range(len(rows)):
    ...         out[k, 0] = rows[k].max()
    ...     return 0
    >>> out = np.zeros((2, 1))
    >>> iso.jit(peak)(np.array([[1.0, 3.0], [2.0, 0.0]]), out), out[:, 0]
    (0, array([3., 2.]))
    """

    function: Callable[..., int]
    dtype: npt.DTypeLike = "float64"
    width: int = 1
    counts: bool = False

    def __call__(self, rows: npt.NDArray[Any], out: npt.NDArray[Any]) -> int:
        """Call the function itself, not compiled."""
        return self.function(rows, out)

    def _add(self, plan: NativePlan, how: str) -> NativePlan:
        dtype = None if how == "filter" else sample_dtype(self.dtype).name
        return plan.jit(self.function, shown(self.function), importable(self.function), dtype, self.width, self.counts)


def py(
    function: Callable[[npt.NDArray[Any]], Any],
    *,
    dtype: npt.DTypeLike | None = None,
    width: int | None = None,
    counts: bool = False,
    on_workers: OnWorkers = "auto",
    sequential: bool = False,
    state: Callable[[], Any] | None = None,
    on_break: Callable[[Break], object] | None = None,
) -> PythonFunction:
    """Wrap a Python function for `Plan.map` or `Plan.filter`, which call it with whole blocks of windows.

    **State.** By itself, `sequential` keeps only the order of calls: state in a closure, an object or a global stays
    across gaps, clock steps, lost and filtered samples, and from run to run. That is right for a count of all samples,
    and wrong for a filter, a difference or a running mean, which need consecutive samples: use `state` or `on_break`
    for these, or write an `isochrony.Operator`. `Plan.explain` states which of the two a plan has.

    **Worker processes.** In a worker process the function is a copy: its changes of globals and objects do not reach
    this process, and captured variables are as they were when the run began. Its printed text is shown, in any order. A
    function that can be imported is sent by name: its module is imported anew, so that changes by this process, in that
    module or another (``conf.LIMIT = 7``, ``np.seterr``), are missing there. Any other function is sent by value
    (cloudpickle), with the globals of its module as they were when the run began; modules that it uses are imported
    anew, too. Pass what must be as it is here as an argument (``functools.partial``), or enclose it. If a process dies,
    for instance for lack of memory, its block is tried once more in a new process, so a block may be computed twice.
    Commands and pools that the function starts end with its process, at the latest with the run, unless they have a
    session of their own.

    Results are the same to the bit for any number of workers, if the function computes a window alike in any block;
    products of matrices (BLAS) may round differently for another number of rows.

    Parameters:
        function: gets a read-only array of windows, shape (windows, values), without a copy unless counts are converted
            to values; of samples, shape (n,), if the plan has no windows; or a `Table` of rows, in order. It returns
            one value per window, shape (windows,), or one row, shape (windows, width); as many samples as it got; or,
            for rows, a dict of columns, to which "start", "end" and "time" are added. For `Plan.filter` it returns one
            bool per window, sample or row. The returned array is used without a copy, and is read-only from then on.
            The number of windows per block may vary, so each window must be computed from its own samples only.
        dtype: dtype of the results; None: found by a call with two windows of zeros.
        width: number of results per window, from 1; None: found in the same way, or 1 if `dtype` is stated.
        counts: pass counts as stored, instead of values in the unit.
        on_workers: where the function is called in a run with ``workers=`` above 1. "processes": in worker processes,
            one per worker, started with the run. This takes some tenths of a second plus the imports of the function's
            modules, and pays for functions that take seconds in all. "threads": in the threads of the workers, for a
            function that is thread-safe and releases the interpreter's lock (GIL), as much of NumPy and SciPy does for
            large arrays; Ctrl-C takes effect after the current call, and `threading` lists the threads as dummies.
            "inline": in the thread of the run, in order. "auto": "processes" in the part of a plan that runs in tasks,
            if the function can be sent there, else "inline"; `Plan.explain` states which, and why. "any": in any of
            these places, as the run chooses: the function keeps no state, calls may overlap, and blocks may have any
            length. With ``tune=True`` a run measures the function before its start, where that pays, and takes the
            fastest place; otherwise as "auto". Unless ``workers=`` is given or the run chose places, functions of
            every kind are called "inline", with the blocks of one thread.
        sequential: the function has state: call it in order, in one place, "inline" or with "processes" in one worker
            process.
        state: function that makes the state, the second argument of `function`: ``f(rows, state)``. It is called before
            the first block, and after each gap, clock step, loss, and filtered sample. So nothing is remembered across
            a gap or from run to run. Implies `sequential`, and "inline".
        on_break: function that gets an `isochrony.Break` at each of these places, before the next block. Implies
            `sequential`, and "inline".

    Returns:
        A `PythonFunction`, to pass to `Plan.map` or `Plan.filter`.

    Raises:
        OptionError: not a function, a `width` below 1, another value of `on_workers`, or `state` or `on_break` with
            `on_workers` other than "auto" or "inline".
        PlanError: when used in a plan: the function cannot be sent to a worker process as ``on_workers="processes"``
            requires.

    >>> import numpy as np, isochrony as iso
    >>> windows = iso.scan(np.arange(8.0), rate=100).rewindow(4)
    >>> windows.map(iso.py(lambda rows: np.median(rows, axis=1))).collect()
    array([[1.5],
           [5.5]])
    >>> def running_sum(samples, before):
    ...     sums = before["sum"] + np.cumsum(samples)
    ...     before["sum"] = sums[-1]
    ...     return sums
    >>> def recording():
    ...     yield 0, np.array([1.0, 2.0])
    ...     yield 100, np.array([5.0, 5.0])  # after a gap the sum starts from 0
    >>> summed = iso.generate(recording, dtype="f8", rate=10).map(iso.py(running_sum, state=lambda: {"sum": 0.0}))
    >>> summed.collect()
    array([ 1.,  3.,  5., 10.])
    """
    _check("py", function, width)
    for option, given in (("state", state), ("on_break", on_break)):
        if given is None:
            continue
        if not callable(given):
            raise OptionError(f"iso.py({option}={given!r}) is refused; give a function")
        if on_workers not in ("auto", "inline"):
            raise OptionError(
                f'iso.py({option}=..., on_workers="{on_workers}") is refused; a function with state= or on_break= is '
                "called inline, so leave out on_workers="
            )
        sequential = True
    choice("on_workers", on_workers, get_args(OnWorkers))
    if sequential and on_workers in ("threads", "any"):
        raise OptionError(
            f'iso.py(sequential=True, on_workers="{on_workers}") is refused; a sequential function runs in one place: '
            'give on_workers="inline" or "processes", or leave it out'
        )
    return PythonFunction(function, dtype, width, counts, on_workers, sequential, state, on_break)


def jit(
    function: Callable[..., int], *, dtype: npt.DTypeLike = "float64", width: int = 1, counts: bool = False
) -> JitFunction:
    """Compile a function with Numba for `Plan.map` or `Plan.filter`: it runs without the interpreter's lock (GIL).

    Numba treats globals and captured variables as constants: a plan has their values of the time when it was built.
    Globals of a function that was compiled with `numba.njit` before keep the values of that time.

    Parameters:
        function: ``f(rows, out)``, in the subset of Python that Numba compiles. `rows` has shape (windows, values); the
            function fills `out`, of shape (windows,), or (windows, width) for a `width` above 1. It must return a
            status: 0 if all went well; any other integer ends the run, since exceptions of compiled functions are not
            reported. Each window must be computed from its own samples only.
        dtype: dtype of `out`; in a filter it is bool.
        width: number of results per window, from 1.
        counts: pass counts as stored, instead of values in the unit.

    Returns:
        A `JitFunction`, to pass to `Plan.map` or `Plan.filter`.

    Raises:
        OptionError: not a function, or a `width` below 1.
        MissingExtraError: when used in a plan: Numba is not installed (extra `jit`).
        PlanError: when used in a plan: Numba cannot compile the function, or it returns no status.

    >>> import numpy as np, isochrony as iso
    >>> def crossings(rows, out):
    ...     for k in range(rows.shape[0]):
    ...         out[k] = 0
    ...         for i in range(1, rows.shape[1]):
    ...             out[k] += rows[k, i - 1] * rows[k, i] < 0
    ...     return 0
    >>> windows = iso.scan(np.array([1.0, -2.0, 3.0, 4.0, 5.0, -1.0]), rate=100).rewindow(3)
    >>> windows.map(iso.jit(crossings, dtype="int64")).collect()
    array([[2],
           [1]])
    """
    _check("jit", function, width)
    return JitFunction(function, dtype, width, counts)


def _check(name: str, function: object, width: int | None) -> None:
    if not callable(function):
        raise OptionError(f"iso.{name}({function!r}) is refused; give a function")
    if width is not None and width < 1:
        raise OptionError(
            f"iso.{name} width={width!r} is refused; give how many values the function returns for each window, from 1"
        )


def _named(function: Callable[..., Any] | None) -> tuple[Callable[..., Any], str, str | None] | None:
    """A function as the native half takes it, with how it is shown and imported."""
    return None if function is None else (function, shown(function), importable(function))


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return "datetime64[ns]" if dtype.kind == "M" else dtype.name


def shown(function: object) -> str:
    """A function's name as plans and errors show it."""
    name: str = getattr(function, "__qualname__", None) or type(function).__name__
    return name.rpartition("<locals>.")[2]


def importable(function: object) -> str | None:
    """``module:name`` of a function that can be imported by that, else None."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or module == "__main__":
        return None
    try:
        found = imported(f"{module}:{name}")
    except (ImportError, AttributeError):
        return None
    return f"{module}:{name}" if found is function else None


def imported(name: str) -> Any:
    """The function of a name as `importable` gives it.

    Raises:
        ImportError: there is no such module.
        AttributeError: it has no such function.
    """
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    # The name of a decorated function is what the decorator made of it.
    return found.function if isinstance(found, PythonFunction | JitFunction) else found


def once(items: Iterable[Any]) -> Callable[[], Iterable[Any]]:
    """A function that gives an iterator once, and an error from then on; of what can be iterated again, that."""
    iterator = iter(items)
    if iterator is not items:
        return lambda: items
    left = [iterator]

    def take() -> Iterable[Any]:
        if not left:
            raise PlanError(
                "the iterator given to iso.generate was used up by an earlier run; give a function that returns a new "
                "iterator for each run"
            )
        return left.pop()

    return take
