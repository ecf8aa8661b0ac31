"""Quantiles of latencies, of live feeds and of runs."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Latency"]


class Latency(NamedTuple):
    """Seconds from the arrival of an item until the plan has processed it; quantiles are within a tenth."""

    items: int
    """Number of items measured."""
    median: float
    p99: float
    """99 % of the items took at most this long."""
    most: float
