"""Stores: opening, reading, writing and checking them.

The classes are native; this module is where the public functions around them are
found together.
"""

from __future__ import annotations

from ._native import (
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
    "backup",
    "from_obspy",
    "open",
    "scan",
    "span",
    "verify",
]
