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

OnWorkers = Literal["auto", "threads", "processes", "inline"]


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A Python function for `Plan.map` or `Plan.filter`; made by `py`.

    Attributes:
        function: of one array: shape (windows, values), or (samples,) where there are no windows.
        dtype: of what it returns; None: found by calling it.
        width: values that it returns a window; None: found by calling it.
        counts: whether it is given counts instead of values in the unit.
        on_workers: who calls it in a run on several workers.
        sequential: whether it remembers what came before.
        state: makes what it remembers, at the beginning of each stretch without a gap.
        on_break: is told of breaks.
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
        function: of rows and results; returns a status.
        dtype: of the results of a map.
        width: results a window of a map.
        counts: whether it is given counts instead of values in the unit.
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
    """A Python function as an operator on whole blocks of windows.

    Parameters:
        function: is given a read-only array of shape (windows, values), which looks into the engine's memory: no
            copy, unless calibrated counts become values in their unit. It returns one value a window (1-D) or one row
            a window (2-D), and for `Plan.filter` one bool a window. The array that it returns is taken over without a
            copy; one that it keeps as well becomes read-only. How many windows a block has is the engine's choice, so
            each window must be computed from itself alone. Where there are no windows it is given samples, shape
            (n,), and returns as many. Where rows come in it is given a `Table`, in order: a filter returns one bool a
            row, a map a dict of columns, with which "start", "end" and "time" stay.
        dtype: of what it returns; default: found by calling it once with two windows of zeros.
        width: values that it returns a window; default: found in the same way, or 1 where `dtype` is given.
        counts: give it the counts as they are stored.
        on_workers: who calls it where a plan runs with ``workers=`` more than 1. "processes": worker processes, one a
            worker, started fresh and ended with the run: some tenths of a second, and what the function's modules take
            to import, so it pays where the function takes seconds in all. "threads": the workers' threads, for a
            function that is safe in several threads at once and that releases the interpreter's lock, as much of NumPy
            and SciPy does for large arrays; `threading` shows them as dummies, and Ctrl-C takes effect when the call
            that is under way is done. "inline": the run's own thread, in order. "auto": processes, if the
            function can travel there, else inline; `Plan.explain` says which, and why.
        sequential: it remembers what came before, so it is called in order, in one place: inline, or in one worker
            process of its own for "processes". By itself this promises order only: what a function keeps in a closure,
            an object or a global stays across gaps and clock steps, where samples were lost or left out by a filter,
            and from run to run. That is right for a count of all that came, and wrong for whatever needs samples that
            follow one another (a filter, a difference, a running mean): give that `state` or `on_break`, or write an
            `isochrony.Operator`. `Plan.explain` says which of the two a plan has.
        state: makes what the function remembers, its second argument: ``f(rows, state)``. It is called before the first
            block, and again wherever what comes does not continue what came before: behind a gap, a clock step, lost
            samples, and what a filter left out. So nothing is remembered across a gap, nor from run to run. Implies
            `sequential`, and inline.
        on_break: is called with an `isochrony.Break` at each of these places, before the next block. Implies
            `sequential`, and inline.

    In a worker process a function is a copy: what it changes (a global, what it encloses, an object) changes there
    and not here, and what it encloses is what it was when the run began. What it prints comes out, in any order. One
    that can be imported travels by name: its module is imported anew there, so that what this process changed in it
    or in any other module (``conf.LIMIT = 7``, ``np.seterr``) is not so there. Any other travels by value
    (cloudpickle), with the globals of its own module as they were when the run began, and modules that it uses are
    imported anew, too. What must be as it is here goes in as an argument (``functools.partial``) or is enclosed.
    A process that dies, as by the system for want of memory, costs one more try of its block on a fresh one, so a
    block may be computed twice. What it starts (commands, pools) ends with its process, at the latest with the run,
    unless it is in a session of its own. Results are the same bits for any number of workers if the function gives a
    window the same bits in whatever block it comes; products of matrices (BLAS) may round otherwise for another
    number of rows.

    Raises:
        OptionError: it is not a function, a width below 1, `on_workers` is none of the four, or `state` or `on_break`
            with one that is not "auto" or "inline".
        PlanError: used in a plan, ``on_workers="processes"`` where it cannot travel.

    >>> import numpy as np, isochrony as iso
    >>> windows = iso.scan(np.arange(8.0), rate=100).rewindow(4)
    >>> windows.map(iso.py(lambda rows: np.median(rows, axis=1))).collect()
    array([[1.5],
           [5.5]])

    A sum that begins anew behind every gap:

    >>> def running_sum(samples, before):
    ...     sums = before["sum"] + np.cumsum(samples)
    ...     before["sum"] = sums[-1]
    ...     return sums
    >>> def stretches():
    ...     yield 0, np.array([1.0, 2.0])
    ...     yield 100, np.array([5.0, 5.0])
    >>> summed = iso.generate(stretches, dtype="f8", rate=10).map(iso.py(running_sum, state=lambda: {"sum": 0.0}))
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
                f'iso.py({option}=..., on_workers="{on_workers}") is refused; what remembers with notice of breaks '
                "is called inline, so leave out on_workers="
            )
        sequential = True
    choice("on_workers", on_workers, get_args(OnWorkers))
    if sequential and on_workers == "threads":
        raise OptionError(
            'iso.py(sequential=True, on_workers="threads") is refused; one that remembers runs in one place'
        )
    return PythonFunction(function, dtype, width, counts, on_workers, sequential, state, on_break)


def jit(
    function: Callable[..., int], *, dtype: npt.DTypeLike = "float64", width: int = 1, counts: bool = False
) -> JitFunction:
    """A function that Numba compiles, as an operator that runs without the interpreter's lock.

    Parameters:
        function: ``f(rows, out)``, in the Python that Numba compiles: `rows` has shape (windows, values), `out` shape
            (windows,), or (windows, width) where `width` is more than 1, and is to be filled. It must return a status:
            0 where all went well; any other integer ends the run. It is required since a compiled function that raises
            is not heard of otherwise. Each window must be computed from itself alone.
        dtype: of `out`; in a filter it is bool.
        width: results a window.
        counts: give it the counts as they are stored.

    Raises:
        OptionError: it is not a function, or a width below 1.

    Numba takes globals and what the function encloses for constants: the function has those values that they had when
    the plan was built. Another plan of the same function has the values of its own time. The globals of a function that
    `numba.njit` compiled before stay what they were then.

    Used in a plan it raises MissingExtraError if Numba is not installed (extra `jit`), and PlanError if Numba cannot
    compile it or if it returns no status.
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
