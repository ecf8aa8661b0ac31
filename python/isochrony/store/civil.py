"""Whether a signal knows when it was recorded."""

from __future__ import annotations

from typing import Any

__all__ = ["knows_civil_time"]


def knows_civil_time(signal: Any) -> bool:
    """Whether the samples of a signal have civil times; an audio file without a date has none."""
    runs = signal.runs()
    return bool(runs) and runs[0].start_time is not None
