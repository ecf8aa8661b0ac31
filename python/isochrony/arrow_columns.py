"""Columns of tables as Arrow has them: of the types that the engine gives the rows of plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["arrow_array"]


def arrow_array(pyarrow: Any, column: npt.NDArray[Any]) -> Any:
    """A NumPy array as an Arrow array: times in UTC, complex numbers as pairs, several values a row as lists."""
    if column.dtype.kind == "c":
        halves = np.ascontiguousarray(column).view("f4" if column.dtype.itemsize == 8 else "f8")
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
