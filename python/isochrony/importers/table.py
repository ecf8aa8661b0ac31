"""Columns of Arrow tables as arrays that a store can hold; shared by CSV and Parquet."""

from __future__ import annotations

from typing import Any

from ..errors import BadSourceError
from ..extras import require
from .block import Samples, storable

__all__ = ["TABLE_OPTIONS", "values_of"]

TABLE_OPTIONS = ("rate", "unit", "start", "signal", "time_column", "columns", "time_unit", "zone", "ignore_times")


def values_of(column: Any, name: str, first_row: int) -> Samples:
    """One value column (Arrow array) as NumPy.

    Missing values are NaN; a column of whole numbers that has any is given as floats.

    Raises:
        BadSourceError: not numeric, or a missing value in a column of booleans.
    """
    pyarrow = require("pyarrow", "reading tables")
    kind = column.type
    if pyarrow.types.is_null(kind):
        raise BadSourceError(f"column {name!r} has no values; leave it out by listing the other columns in columns=")
    is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
    if not (is_number or pyarrow.types.is_boolean(kind)):
        at, value = _not_a_number(column)
        raise BadSourceError(
            f"column {name!r} holds {kind}, not numbers (row {first_row + at}: {value!r}); correct it, or leave out "
            "this column by listing the others in columns="
        )
    if column.null_count and not pyarrow.types.is_floating(kind):
        row = first_row + column.is_null().to_pylist().index(True)
        raise BadSourceError(
            f"column {name!r} is empty in row {row}; fill it, or leave out this column by listing the "
            "others in columns="
        )
    return storable(column.to_numpy(zero_copy_only=False), f"column {name!r}")


def _not_a_number(column: Any) -> tuple[int, object]:
    """The value that makes a column one of text, and its place: one typing error in a million rows has to be found."""
    values = column.to_pylist()
    for at, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            return at, value
    return 0, values[0]
