"""Columns of tables: checks and normalises what a caller gives, makes columns read-only, orders them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors.native import OptionError

__all__ = [
    "Column",
    "checked_columns",
    "checked_slice",
    "checked_units",
    "column_names",
    "equal_columns",
    "join",
    "read_only",
    "sort_order",
]

Column = npt.NDArray[Any]


def checked_columns(columns: Any) -> dict[str, Column]:
    """Arrays of equal length by name, in native byte order, times in nanoseconds.

    Raises:
        OptionError: they cannot be columns of one table.
    """
    if not hasattr(columns, "items"):
        raise OptionError(f"a table of a {type(columns).__name__} is refused; give a dict of arrays by column name")
    checked = {name: _checked(name, column) for name, column in columns.items()}
    lengths = {name: len(column) for name, column in checked.items()}
    if len(set(lengths.values())) > 1:
        raise OptionError(f"columns of a table must be equally long, got {lengths}")
    return checked


def checked_units(units: Mapping[str, str] | None, columns: Mapping[str, Column]) -> dict[str, str]:
    """Units by column name, without empty ones.

    Raises:
        OptionError: one is of no column, or no text.
    """
    for name, unit in (units or {}).items():
        if name not in columns:
            raise OptionError(
                f"units= names {name!r}, which is no column; the table has {', '.join(columns) or 'none'}"
            )
        if not isinstance(unit, str | None):
            raise OptionError(f"the unit of column {name!r} is {unit!r}; give text")
    return {name: unit for name, unit in (units or {}).items() if unit}


def _checked(name: object, column: Any) -> Column:
    if not isinstance(name, str):
        raise OptionError(f"a column of a table is named {name!r}; give text")
    if isinstance(column, np.ma.MaskedArray) and np.ma.is_masked(column):
        raise OptionError(f"column {name!r} of a table has masked values; fill them, or leave out those rows")
    try:
        array = np.asarray(column)
    except ValueError as error:
        raise OptionError(f"column {name!r} of a table is no array ({error}); give rows of equal length") from error
    if array.ndim == 0:
        raise OptionError(f"column {name!r} of a table is {array!r}; give an array of one value a row")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return read_only(_in_nanoseconds(name, array) if array.dtype.kind in "mM" else array)


def _in_nanoseconds(name: str, times: Column) -> Column:
    if np.datetime_data(times.dtype) == ("ns", 1):
        return times
    try:
        converted = times.astype(f"{times.dtype.kind}8[ns]")
        # NumPy wraps around where 64 bits do not suffice, and cuts off parts of a nanosecond.
        is_exact = np.array_equal(converted.astype(times.dtype), times, equal_nan=True)
    except (TypeError, OverflowError):
        is_exact = False
    if not is_exact:
        raise OptionError(
            f"column {name!r} of a table has times of dtype {times.dtype} that are no 64-bit number of nanoseconds; "
            "give times from 1678 to 2262"
        )
    return converted


def column_names(key: Any) -> list[str] | None:
    """The names of a list or array of column names; None of any other key."""
    if isinstance(key, list | tuple):
        names = list(key)
    else:
        array = np.asarray(key)
        names = array.tolist() if array.ndim == 1 and array.dtype.kind in "OTU" else []
    return names if names and all(isinstance(name, str) for name in names) else None


def equal_columns(a: Column, b: Column) -> bool:
    """Whether two columns have the same values; NaN equals NaN, NaT equals NaT."""
    kinds = a.dtype.kind + b.dtype.kind
    are_comparable = all(kind in "biufc" for kind in kinds) or kinds[0] == kinds[1]
    return are_comparable and np.array_equal(a, b, equal_nan=any(kind in "fcmM" for kind in kinds))


def join(parts: list[Column]) -> Column:
    """The parts as one column. Each is released once it is copied, so that memory does not hold all rows twice."""
    whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), np.result_type(*parts))
    end = len(whole)
    while parts:
        part = parts.pop()
        begin = end - len(part)
        whole[begin:end] = part
        end = begin
        # The name is a reference, too.
        del part
    return whole


def read_only(column: Column) -> Column:
    """The column, or a read-only view of it: the caller's own array stays writable."""
    if not column.flags.writeable:
        return column
    view = column.view()
    view.flags.writeable = False
    return view


def sort_order(column: Column, descending: bool) -> npt.NDArray[np.int64]:
    """Row numbers in sorted order; equal rows keep their order, NaN and NaT are last.

    Raises:
        TypeError: objects that cannot be compared.
    """
    if not descending:
        return np.argsort(column, kind="stable")
    order = len(column) - 1 - np.argsort(column[::-1], kind="stable")[::-1]
    unknown = column[order] != column[order]
    return np.concatenate([order[~unknown], order[unknown]])


def checked_slice(rows: slice) -> slice:
    """A slice of rows.

    Raises:
        OptionError: a bound is no whole number, or the step is 0.
    """
    try:
        rows.indices(0)
    except (TypeError, ValueError) as error:
        shown = f"{rows.start!r}:{rows.stop!r}:{rows.step!r}"
        raise OptionError(
            f"rows {shown} of a table are refused: {error}; give whole numbers, or a list of names for columns"
        ) from error
    return rows
