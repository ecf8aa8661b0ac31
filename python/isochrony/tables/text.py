"""Prints tables as text and as HTML, the middle of long ones left out."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np

from .columns import Column

__all__ = ["as_html", "as_text"]

# Rows, and values of a row, that are printed before and after the dots.
_EDGE = 5


def as_text(columns: Mapping[str, Column], units: Mapping[str, str]) -> str:
    """Columns side by side, and the number of rows."""
    head = _head(columns, units)
    rows, is_cut = _rows(columns)
    widths = [max(map(len, cells)) for cells in zip(head, *rows, strict=True)]
    lines = [" " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in (head, *rows)]
    if is_cut:
        lines.insert(1 + _EDGE, " " + "  ".join("...".rjust(w) for w in widths))
    return "\n".join([*lines, f"[{_count(columns)} rows]"])


def as_html(columns: Mapping[str, Column], units: Mapping[str, str]) -> str:
    """The same as an HTML table, for notebooks."""
    rows, is_cut = _rows(columns)
    body = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    if is_cut:
        body.insert(_EDGE, "<td>…</td>" * len(columns))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in _head(columns, units))
    lines = "".join(f"<tr>{line}</tr>" for line in body)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table><p>{_count(columns):,} rows</p>"


def _count(columns: Mapping[str, Column]) -> int:
    return len(next(iter(columns.values()), ()))


def _head(columns: Mapping[str, Column], units: Mapping[str, str]) -> list[str]:
    return [f"{name} ({units[name]})" if name in units else name for name in columns]


def _rows(columns: Mapping[str, Column]) -> tuple[list[list[str]], bool]:
    """The cells that are shown, and whether rows in the middle are left out."""
    count = _count(columns)
    is_cut = count > 2 * _EDGE + 1
    shown = [*range(_EDGE), *range(count - _EDGE, count)] if is_cut else range(count)
    return [[_cell(column[row]) for column in columns.values()] for row in shown], is_cut


def _cell(value: Any) -> str:
    if isinstance(value, np.ndarray):
        shown = [_cell(one) for one in (value if len(value) <= _EDGE else value[:2])]
        return f"[{' '.join(shown)}]" if len(value) <= _EDGE else f"[{' '.join(shown)} ... {_cell(value[-1])}]"
    if isinstance(value, np.floating):
        return f"{value:.6g}"
    return str(value)
