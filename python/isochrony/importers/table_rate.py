"""The sample rate of a table by the times of its rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ..errors import BadSourceError
from .columns import Batch, Times
from .rational import simplest_around

__all__ = ["BREAKS_SHARE", "FEW", "rate_of", "spread_of"]

# More breaks than this share of the rows, and more than `FEW`, is not a recording;
# nor is one with fewer rows than `_ROWS` of which any breaks.
BREAKS_SHARE = 0.1
FEW = 8
_ROWS = 4
# Changes of the time over which the typical period is measured.
_WINDOW = 16


def rate_of(batch: Batch) -> Fraction:
    """The simplest rate that the times of a batch allow.

    The typical period, blind to gaps, says which rows follow on each other; the ends
    of the longest stretch of them, each known within the resolution or what its rows
    jitter, then bound the rate, and so does the typical period itself.
    """
    times = batch.times
    assert times is not None
    if len(times) < 2:
        raise BadSourceError("one row does not tell a sample rate; state it with rate=HZ")
    steps = np.diff(times)
    resolution = batch.resolution_ns
    for window in (_WINDOW, 1):
        rows, span = _typical(times, window)
        period = span / rows
        even = np.abs(steps - period) <= 0.5 * period + resolution
        # A gap in few rows lies in most windows, and their median is no period: those without one tell it.
        rows, span = _typical(times, window, even)
        period = span / rows
        even = np.abs(steps - period) <= 0.5 * period + resolution
        # Many gaps in few rows spoil most windows, but not most steps, where the digits tell those apart.
        if 2 * int(np.count_nonzero(even)) > len(steps) or 5 * resolution > period:
            break
    edges = np.flatnonzero(np.diff(np.concatenate(([False], even, [False])).astype(np.int8)))
    starts, ends = edges[::2], edges[1::2]
    breaks = len(steps) - int(np.count_nonzero(even))
    # Digits as coarse as the samples would make a recording of almost anything.
    allowed = max(FEW if 5 * resolution <= period else 1, BREAKS_SHARE * len(times))
    few = len(times) < _ROWS and breaks > 0
    if few or 2 * breaks >= len(steps) or breaks > allowed:
        raise BadSourceError(
            f"its times are not regular (steps from {steps.min() / 1e9:.6g} s to "
            f"{steps.max() / 1e9:.6g} s); resample it, or take its rows as evenly spaced with rate=HZ and "
            "ignore_times=True"
        )
    longest = int(np.argmax(ends - starts))
    first, last = int(starts[longest]), int(ends[longest])
    early, late = spread_of(times[first : last + 1])
    if late - early > 2 * resolution:
        # Rows jitter by more than their digits, and so do the ends of the stretch.
        resolution = late - early
    low, high = _bounds(last - first, int(times[last] - times[first]), resolution)
    middle = Fraction(rows * 1_000_000_000, span)
    # A change of the time is as sharp as the samples are, if those are finer than the digits.
    near = _bounds(rows, span, min(resolution, int(period) + 1))
    if max(low, near[0]) <= min(high, near[1]):
        low, high = max(low, near[0]), min(high, near[1])
    middle = min(max(middle, low), high)
    if middle >= 1:
        return simplest_around(low, middle, high)
    # Slow recordings have simple periods: 7 minutes rather than 1/419 Hz.
    return 1 / simplest_around(1 / high, 1 / middle, 1 / low)


def _typical(times: Times, most: int, even: npt.NDArray[np.bool_] | None = None) -> tuple[int, int]:
    """Rows and ns of a typical stretch: the lower median over windows of a few changes of the time.

    Windows, because the steps of times as coarse as the samples alternate between
    two values; a median, because a gap spoils the few windows that hold it. Windows
    with a step that is not `even` are left out, unless all have one.
    """
    changes = np.concatenate(([0], np.flatnonzero(np.diff(times)) + 1))
    if len(changes) < 2:
        raise BadSourceError("its times do not increase; sort it by time")
    # The first row need not be the first of its time.
    inner = changes[1:] if len(changes) > 2 and len(changes) < len(times) else changes
    window = max(1, min(most, (len(inner) - 1) // 4))
    begins, ends = inner[:-window], inner[window:]
    if even is not None:
        uneven = np.concatenate(([0], np.cumsum(~even)))
        whole = uneven[begins] == uneven[ends]
        if whole.any():
            begins, ends = begins[whole], ends[whole]
    rows = ends - begins
    spans = times[ends] - times[begins]
    order = np.argsort(spans / rows, kind="stable")
    middle = order[(len(order) - 1) // 2]
    if spans[middle] <= 0:
        raise BadSourceError("its times do not increase; sort it by time")
    return int(rows[middle]), int(spans[middle])


def _bounds(rows: int, span: int, slack: int) -> tuple[Fraction, Fraction]:
    """Least and greatest rate of `rows` samples in `span` ns, known within `slack`."""
    count = rows * 1_000_000_000
    # Only strictly inside: either stamp may be late by almost the resolution.
    slack = min(slack, span // 2)
    return Fraction(count, span + slack), Fraction(count, max(span - slack, 1))


def spread_of(times: Times) -> tuple[int, int]:
    """Least and greatest distance of times from their own average line, in ns, relative to that of the first."""
    if len(times) < 3:
        return 0, 0
    local = times - times[0]
    off = local - np.arange(len(times)) * (float(local[-1]) / (len(times) - 1))
    return int(np.floor(off.min())), int(np.ceil(off.max()))
