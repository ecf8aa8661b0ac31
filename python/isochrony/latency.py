"""Quantiles of latencies, of live feeds and of runs."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Latency"]


class Latency(NamedTuple):
    """Seconds from the arrival of an item until the plan has processed it; quantiles are within a tenth.

    Attributes:
        items: number of items measured; of a run, number of bursts of items.
        median: half of the items took at most this long, in seconds.
        p99: 99 % of the items took at most this long, in seconds.
        most: longest time, in seconds.

    >>> import numpy as np, isochrony as iso
    >>> latency = iso.scan(np.arange(4000.0), rate=100).rewindow(100).power().run().report.latency
    >>> latency.items, latency.median <= latency.most
    (1, True)
    """

    items: int
    median: float
    p99: float
    most: float
