"""Functions that Numba compiles for `isochrony.jit`, each once for the same types and the same constants.

What Numba compiles stays in memory for good, some 0.6 MB each, so one function in many plans must not be compiled for
each of them. But it takes globals and captured variables for constants, so a function is the same only as long as these
have the same values: they are part of the key.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors.native import PlanError
from ..extras import require
from .python import shown

__all__ = ["compiled"]


def compiled(function: Callable[..., int], given: str, wanted: str, width: int) -> Any:
    """A C function of rows, their number, their width, their distance, and results, which returns 2 * status + 1, or 0
    where the function raised; `address` is where it lies.

    Raises:
        MissingExtraError: Numba is not installed.
        PlanError: Numba cannot compile the function, or it returns no status.
    """
    if getattr(type(function), "__hash__", None) is None:
        return _compile(function, given, wanted, width)
    return _remembered(function, given, wanted, width, tuple(_constants(function)))


@functools.lru_cache(maxsize=128)
def _remembered(function: Callable[..., int], given: str, wanted: str, width: int, _: tuple[Any, ...]) -> Any:
    return _compile(function, given, wanted, width)


@dataclass(frozen=True, slots=True, eq=False)
class _Identity:
    """An object that is the same as itself only."""

    of: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


def _constants(function: Any) -> Iterator[Any]:
    """What Numba takes for constants in a function of Python, as a key; nothing of one that it compiled before."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return
    yield _Identity(code), _key(function.__defaults__ or ())
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, _key(cell.cell_contents)
        except ValueError:
            yield name, "not assigned yet"
    names = sorted(set(_names(code)))
    for name in names:
        if name in function.__globals__:
            yield from _of_global(name, function.__globals__[name], names, 0)


def _names(code: types.CodeType) -> Iterator[str]:
    """Names of globals and attributes in a function, and in those within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _of_global(path: str, value: Any, names: list[str], depth: int) -> Iterator[Any]:
    """A global; of a module also what the function may take from it, as `settings.LIMIT`."""
    yield path, _key(value)
    if isinstance(value, types.ModuleType) and depth < 3:
        for name in names:
            if name in vars(value):
                yield from _of_global(f"{path}.{name}", vars(value)[name], names, depth + 1)


def _key(value: Any) -> Any:
    """What is equal for values that are the same constant."""
    if isinstance(value, bool | int | float | complex | str | bytes | None):
        # Not by ==, by which 1 is 1.0 and True, 0.0 is -0.0, and no NaN is itself.
        return type(value), repr(value)
    if isinstance(value, tuple):
        return type(value), tuple(map(_key, value))
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        layout = (str(value.dtype), value.shape, value.strides)
        return type(value), layout, hashlib.blake2b(value.tobytes()).digest()
    return _Identity(value)


def _compile(function: Callable[..., int], given: str, wanted: str, width: int) -> Any:
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
            raise PlanError(f"iso.jit({name}) returns {status}, not an integer status; end the function with: return 0")

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
            f"iso.jit({name}) cannot be compiled for {given} rows and {wanted} results: {reason}; correct the "
            f"function, or run it without compiling it, with iso.py({name})"
        ) from error
