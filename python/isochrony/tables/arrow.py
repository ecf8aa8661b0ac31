"""Converts columns of tables from NumPy to Arrow, with the types that the engine gives rows of plans."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors.native import OptionError
from .columns import Column

__all__ = ["arrow_array"]

# NumPy's dtype of each half of a complex number.
_HALVES = {"complex64": "f4", "complex128": "f8"}


def arrow_array(pyarrow: Any, name: str, column: Column) -> Any:
    """A column as an Arrow array: times in UTC, complex numbers as pairs, several values a row as lists.

    Raises:
        OptionError: Arrow has no such type.
    """
    try:
        return _converted(pyarrow, column)
    except (pyarrow.ArrowException, KeyError, TypeError, OverflowError) as error:
        raise OptionError(
            f"column {name!r} of dtype {column.dtype} and shape {column.shape} has no Arrow type ({error}); convert it "
            "to another dtype, or leave it out"
        ) from error


def _converted(pyarrow: Any, column: Column) -> Any:
    if column.dtype.kind == "c":
        halves = np.ascontiguousarray(column).view(_HALVES[column.dtype.name])
        pair = pyarrow.field("re_im", pyarrow.from_numpy_dtype(halves.dtype), nullable=False)
        values = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(halves.reshape(-1)), type=pyarrow.list_(pair, 2))
    elif column.dtype.kind == "M":
        values = pyarrow.array(column.reshape(-1))
        values = values.cast(pyarrow.timestamp(values.type.unit, "UTC"))
    else:
        values = pyarrow.array(column.reshape(-1))
    for width in reversed(column.shape[1:]):
        values = pyarrow.FixedSizeListArray.from_arrays(values, width)
    return values
