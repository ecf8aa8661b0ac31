"""Stores: opening, reading, writing and checking them.

The classes are native; this package is where the public functions around them are found together, and what is written
in Python: values and samples as arrays, attributes, conversion, export and pictures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._first_use import names_on_first_use

if TYPE_CHECKING:
    from .._native import (
        Gap,
        Gaps,
        Run,
        Segment,
        Selection,
        Signal,
        Span,
        Store,
        Time,
        backup,
        open,  # noqa: A004
        span,
        verify,
    )
    from ..plan.sources import scan
    from .convert import from_obspy

__all__ = [
    "Gap",
    "Gaps",
    "Run",
    "Segment",
    "Selection",
    "Signal",
    "Span",
    "Store",
    "Time",
    "backup",
    "from_obspy",
    "open",
    "scan",
    "span",
    "verify",
]

__getattr__, __dir__ = names_on_first_use(
    __name__,
    {
        ".._native": (
            "Gap", "Gaps", "Run", "Segment", "Selection", "Signal", "Span", "Store", "Time", "backup", "open", "span",
            "verify",
        ),
        "..plan": ("scan",),
        ".convert": ("from_obspy",),
    },
)  # fmt: skip
