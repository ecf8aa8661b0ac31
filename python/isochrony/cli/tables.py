"""Tables on the screen, and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["listed", "print_json", "render", "short_time"]


def render(head: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "") -> str:
    """A table of text; columns whose cells are all numbers are aligned right.

    Parameters:
        head: column titles.
        rows: cells; `None` shows as a dash.
        indent: put before every line.
    """
    cells = [["–" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    right = [bool(cells) and all(_numeric(row[i]) for row in cells) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        ]
        return (indent + "  ".join(padded)).rstrip()

    return "\n".join([line(list(head)), *map(line, cells)])


def _numeric(cell: str) -> bool:
    return cell == "–" or cell[:1].isdigit() or (cell[:1] in "+-−±<" and cell[1:2].isdigit())


def short_time(text: str | None) -> str | None:
    """An exact ISO time as people read it: whole microseconds, rounded down."""
    if text is None or "." not in text:
        return text
    whole, _, fraction = text.rstrip("Z").partition(".")
    digits = fraction[:6].rstrip("0")
    return f"{whole}.{digits}Z" if digits else f"{whole}Z"


def print_json(value: Any) -> None:
    """Write a value as JSON; NumPy scalars and arrays become plain numbers and lists."""
    print(json.dumps(value, indent=1, default=_plain, allow_nan=False))


def listed(column: Any) -> list[Any]:
    """A column as JSON can say it: null for what is not finite, pairs for complex numbers."""
    if column.dtype.kind == "c":
        column = np.ascontiguousarray(column).view(column.real.dtype).reshape(-1, 2)
    values = column.astype(str if column.dtype.kind == "M" else object).astype(object)
    if column.dtype.kind == "f":
        values[~np.isfinite(column)] = None
    return list(values.tolist())


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)
