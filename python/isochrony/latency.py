"""Quantiles of latencies, of live feeds and of runs."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Latency"]


class Latency(NamedTuple):
    """Seconds from the arrival of an item until the plan had done with it; quantiles to a tenth."""

    items: int
    """Items that were measured."""
    median: float
    p99: float
    """99 of 100 took no longer."""
    most: float
