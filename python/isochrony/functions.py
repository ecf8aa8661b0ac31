"""Functions of your own inside plans, where an expression does not say it.

`py` runs a Python function on whole blocks of windows, as NumPy arrays that look into the engine's
memory; `jit` has Numba compile one, which then runs without the interpreter's lock. Both are given to
`Plan.map` and `Plan.filter` in place of a traced function::

    loud = windows.filter(iso.py(lambda rows: np.abs(rows).max(axis=1) > 10))

A plan that holds a function is saved only if the function can be imported by its name: it is saved as
``module:name``, and reading the plan imports that module. So a saved plan is as trustworthy as a script.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from .extras import require
from .native_errors import OptionError, PlanError
from .options import choice

if TYPE_CHECKING:
    from ._native import NativePlan

__all__ = ["JitFunction", "PythonFunction", "compiled", "imported", "jit", "py", "shown"]

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
    """

    function: Callable[[npt.NDArray[Any]], Any]
    dtype: npt.DTypeLike | None = None
    width: int | None = None
    counts: bool = False
    on_workers: OnWorkers = "auto"
    sequential: bool = False

    def __call__(self, rows: npt.NDArray[Any]) -> Any:
        """Call the function itself."""
        return self.function(rows)

    def _add(self, plan: NativePlan, how: str) -> NativePlan:
        name, saved = shown(self.function), importable(self.function)
        where = (self.counts, self.on_workers, self.sequential)
        if self.on_workers == "processes":
            from .transport import travel

            how_it_travels, _, why = travel(self.function)
            if not how_it_travels:
                raise PlanError(f'iso.py({name}, on_workers="processes") is refused: {name} {why}; give "inline"')
        if how == "filter":
            return plan.python("filter", self.function, name, saved, None, 1, *where)
        dtype, width = self._result(plan)
        return plan.python("map", self.function, name, saved, dtype, width, *where)

    def _result(self, plan: NativePlan) -> tuple[str, int]:
        if self.dtype is not None:
            return np.dtype(self.dtype).name, 1 if self.width is None else self.width
        row = plan.row(self.counts)
        if row is None:
            raise PlanError(f"map(iso.py({shown(self.function)})) needs samples or windows, got {plan.port}")
        dtype, width = row
        zeros = np.zeros((2, width) if width else 2, dtype)
        zeros.flags.writeable = False
        try:
            result = np.asarray(self.function(zeros))
        except Exception as error:
            raise PlanError(
                f"iso.py({shown(self.function)}) was called with {zeros.shape} zeros, to see what it gives, and raised "
                f"{type(error).__name__}: {error}; state dtype= and width= instead"
            ) from error
        if result.shape[:1] != (2,) or result.ndim > (2 if width else 1):
            raise PlanError(
                f"iso.py({shown(self.function)}) returned shape {result.shape} for {zeros.shape}; return one value a "
                "window (1-D) or one row a window (2-D), and of samples without windows as many samples"
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
        dtype = None if how == "filter" else np.dtype(self.dtype).name
        return plan.jit(self.function, shown(self.function), importable(self.function), dtype, self.width, self.counts)


def py(
    function: Callable[[npt.NDArray[Any]], Any],
    *,
    dtype: npt.DTypeLike | None = None,
    width: int | None = None,
    counts: bool = False,
    on_workers: OnWorkers = "auto",
    sequential: bool = False,
) -> PythonFunction:
    """A Python function as an operator on whole blocks of windows.

    Parameters:
        function: is given a read-only array of shape (windows, values), which looks into the engine's memory: no
            copy, unless calibrated counts become values in their unit. It returns one value a window (1-D) or one row
            a window (2-D), and for `Plan.filter` one bool a window. The array that it returns is taken over without a
            copy; one that it keeps as well becomes read-only. How many windows a block has is the engine's choice, so
            each window must be computed from itself alone. Where there are no windows it is given samples, shape
            (n,), and returns as many.
        dtype: of what it returns; default: found by calling it once with two windows of zeros.
        width: values that it returns a window, likewise; 1 where only `dtype` is given.
        counts: give it the counts as they are stored.
        on_workers: who calls it where a plan runs with ``workers=`` more than 1. "processes": worker processes, one a
            worker, started fresh and ended with the run: some tenths of a second, and what the function's modules take
            to import, so it pays where the function takes seconds in all. "threads": the workers' threads, for a
            function that is safe in several threads at once and that releases the interpreter's lock, as much of NumPy
            and SciPy does for large arrays; `threading` shows them as dummies, and Ctrl-C takes effect when the call
            that is under way is done. "inline": the run's own thread, in order. "auto": processes, if the
            function can travel there, else inline; `Plan.explain` says which, and why.
        sequential: it remembers what came before, so it is called in order, in one place: inline, or in one worker
            process of its own for "processes".

    In a worker process a function is a copy: what it changes (a global, what it encloses, an object) changes there
    and not here, and what it encloses is what it was when the run began. What it prints comes out, in any order. One
    that can be imported travels by name: its module is imported anew there, so that what this process changed in it
    or in any other module (``conf.LIMIT = 7``, ``np.seterr``) is not so there. Any other travels by value
    (cloudpickle), with the globals of its own module as they were when the run began, and modules that it uses are
    imported anew likewise. What must be as it is here goes in as an argument (``functools.partial``) or is enclosed.
    A process that dies, as by the system for want of memory, costs one more try of its block on a fresh one, so a
    block may be computed twice. What it starts (commands, pools) ends with its process, at the latest with the run,
    unless it is in a session of its own. Results are the same bits for any number of workers if the function gives a
    window the same bits in whatever block it comes; products of matrices (BLAS) may round otherwise for another
    number of rows.

    Raises:
        OptionError: it is not a function, a width below 1, or `on_workers` is none of the four.
        PlanError: used in a plan, ``on_workers="processes"`` where it cannot travel.

    >>> import numpy as np, isochrony as iso
    >>> windows = iso.scan(np.arange(8.0), rate=100).rewindow(4)
    >>> windows.map(iso.py(lambda rows: np.median(rows, axis=1))).collect()
    array([[1.5],
           [5.5]])
    """
    _check("py", function, width)
    choice("on_workers", on_workers, get_args(OnWorkers))
    if sequential and on_workers == "threads":
        raise OptionError(
            'iso.py(sequential=True, on_workers="threads") is refused; one that remembers runs in one place'
        )
    return PythonFunction(function, dtype, width, counts, on_workers, sequential)


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

    Used in a plan it raises MissingExtraError if Numba is not installed (extra `jit`), and PlanError if Numba cannot
    compile it or if it returns no status.
    """
    _check("jit", function, width)
    return JitFunction(function, dtype, width, counts)


def _check(name: str, function: object, width: int | None) -> None:
    if not callable(function):
        raise OptionError(f"iso.{name}({function!r}) is refused; give a function")
    if width is not None and width < 1:
        raise OptionError(f"iso.{name} width={width!r} is refused; give the number of values a window, from 1")


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
            raise PlanError("the iterator was used up by the run before; give iso.generate a function that makes one")
        return left.pop()

    return take


def compiled(function: Callable[..., int], given: str, wanted: str, width: int) -> Any:
    """A C function of rows, their number, their width, their distance, and results, which returns 2 * status + 1, or 0
    where the function raised; `address` is where it lies.

    Raises:
        MissingExtraError: Numba is not installed.
        PlanError: Numba cannot compile the function, or it returns no status.
    """
    numba = require("numba", "iso.jit")
    name = shown(function)
    inner: Any = function if hasattr(function, "py_func") else numba.njit(function)
    source, target = np.dtype(given), np.dtype(wanted)
    size = source.itemsize
    types, carray, as_strided = numba.types, numba.carray, np.lib.stride_tricks.as_strided

    rows_type = types.Array(numba.from_dtype(source), 2, "A")
    out_type = types.Array(numba.from_dtype(target), 1 if width == 1 else 2, "C")
    try:
        inner.compile((rows_type, out_type))
        status = inner.overloads[(rows_type, out_type)].signature.return_type
        if not isinstance(status, types.Integer | types.Boolean):
            raise PlanError(f"iso.jit({name}) returns {status} where a status is required; end it with: return 0")

        if width == 1:

            def entry(rows, count, columns, stride, out):  # type: ignore[no-untyped-def]
                values = carray(rows, ((count - 1) * stride + columns,), source)
                windows = as_strided(values, (count, columns), (stride * size, size))
                return np.int64(inner(windows, carray(out, (count,), target))) * 2 + 1

        else:

            def entry(rows, count, columns, stride, out):  # type: ignore[no-untyped-def]
                values = carray(rows, ((count - 1) * stride + columns,), source)
                windows = as_strided(values, (count, columns), (stride * size, size))
                return np.int64(inner(windows, carray(out, (count, width), target))) * 2 + 1

        whole, pointer = types.int64, types.voidptr
        return numba.cfunc(whole(pointer, whole, whole, whole, pointer))(entry)
    except numba.core.errors.NumbaError as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise PlanError(
            f"iso.jit({name}) cannot be compiled for {given} rows and {wanted} results: {reason}; use iso.py, or "
            "mend it"
        ) from error
