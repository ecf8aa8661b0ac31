"""Columns of tables: makes them read-only and orders them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Column", "read_only", "sort_order"]

Column = npt.NDArray[Any]


def read_only(column: Column) -> Column:
    """The column, or a read-only view of it: the caller's own array stays writable."""
    if not column.flags.writeable:
        return column
    view = column.view()
    view.flags.writeable = False
    return view


def sort_order(column: Column, descending: bool) -> npt.NDArray[np.int64]:
    """Row numbers in sorted order; equal rows keep their order, NaN and NaT are last."""
    if not descending:
        return np.argsort(column, kind="stable")
    order = len(column) - 1 - np.argsort(column[::-1], kind="stable")[::-1]
    unknown = column[order] != column[order]
    return np.concatenate([order[~unknown], order[unknown]])
