"""What notebooks show instead of a `repr`."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._native import Signal, Store

__all__ = ["signal_html", "store_html"]

# A store of thousands of signals shows this many.
_SHOWN = 50


def _row(signal: Signal) -> list[str]:
    runs = signal.runs()
    begins = [run.start_time for run in runs if run.start_time is not None]
    ends = [run.end_time for run in runs if run.end_time is not None]
    return [
        signal.name,
        str(signal.dtype),
        signal.unit,
        f"{signal.rate:g}",
        f"{signal.sample_count:,}",
        f"{len(signal.gaps):,}",
        f"{len(runs):,}",
        str(min(begins)) if begins else "",
        str(max(ends)) if ends else "",
    ]


_HEAD = ("signal", "dtype", "unit", "Hz", "samples", "gaps", "runs", "start", "end")


def _table(rows: list[list[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in _HEAD)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def signal_html(signal: Signal) -> str:
    """One signal as a table of one row."""
    return _table([_row(signal)])


def store_html(store: Store) -> str:
    """The signals of a store as a table."""
    if store.closed:
        return f"<p>{html.escape(repr(store))}</p>"
    names = store.keys()
    more = f"<p>and {len(names) - _SHOWN:,} more</p>" if len(names) > _SHOWN else ""
    return f"<p><b>{html.escape(str(store.path))}</b></p>" + _table([_row(store[n]) for n in names[:_SHOWN]]) + more
