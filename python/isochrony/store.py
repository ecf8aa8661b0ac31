"""Stores: opening, reading, writing and checking them.

The classes are native; this module is where the public functions around them are
found together.
"""

from __future__ import annotations

from ._native import Gap, Gaps, Run, Segment, Selection, Signal, Span, Store, Time, open, span, verify  # noqa: A004
from .convert import from_obspy
from .sources import scan

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
    "from_obspy",
    "open",
    "scan",
    "span",
    "verify",
]
