"""Finds what several stations heard, in recordings of any kind, and times it at each of them.

Three steps. The loudness of a station is the standard deviation of short windows
over its usual value, so slow waves and units do not matter. An event is a rise of
loudness that enough stations share within the time a front takes to cross. The
onset at a station is where the differences of its samples change their variance:
the split of least Akaike information, whose weights also give its uncertainty.

Onsets are found on each station's own samples and become civil times by its own
clock, so stations may differ in rate, phase and drift.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .findings import Arrival, Burst

__all__ = ["find_events", "pick_change", "rises"]

Float = npt.NDArray[np.float64]

_WINDOW_S = 0.1
_WINDOW_SAMPLES = 16
_WINDOWS_MOST = 1_000_000
# So many times its usual loudness is loud; quiet for so many windows before is a rise.
_LOUD = 3.0
_QUIET = 8
_CROSSING_S = 5.0
# Windows to look at before and after a rise.
_BEFORE, _AFTER = 5, 4
_EDGE = 8


def find_events(signals: Sequence[Any], most: int = 3) -> list[Burst]:
    """The strongest events that at least two stations, and a third of all, heard.

    Parameters:
        signals: one per station, with civil time; any rates, dtypes and units.
        most: how many events to keep, at least 1.

    Returns:
        Events in order of time; `Arrival.drop` is how many times its usual loudness a
        station became.
    """
    heard_by = max(2, -(-len(signals) // 3))
    arrivals = sorted((one for signal in signals for one in _arrivals(signal)), key=lambda one: one.ns)
    events: list[Burst] = []
    while len(events) < most and (near := _fullest(arrivals)):
        # A station counts once, with what it heard first.
        first = {one.station: one for one in reversed(arrivals[near])}
        if len(first) < heard_by:
            break
        events.append(Burst(tuple(sorted(first.values(), key=lambda one: one.ns))))
        del arrivals[near]
    return sorted(events, key=lambda event: event.arrivals[0].ns)


def _fullest(arrivals: Sequence[Arrival]) -> slice | None:
    """The arrivals within a crossing time of one of them that most stations, then the loudest, share.

    Of windows that hold the same arrivals but for a lone one long before, the shorter is
    taken, for what a station hears alone is no part of what others hear later.
    """
    best: tuple[int, float, slice] | None = None
    end = 0
    for begin, one in enumerate(arrivals):
        while end < len(arrivals) and arrivals[end].ns - one.ns < _CROSSING_S * 1e9:
            end += 1
        near = arrivals[begin:end]
        stations = len({other.station for other in near})
        loudness = float(np.mean([np.log(other.drop) for other in near]))
        if best is None or (stations, loudness) > best[:2]:
            best = (stations, loudness, slice(begin, end))
    return None if best is None else best[2]


def _arrivals(signal: Any) -> Iterator[Arrival]:
    """Every rise of loudness in a signal, timed."""
    from .. import scan

    window = max(_WINDOW_SAMPLES, round(_WINDOW_S * float(signal.rate)), -(-signal.sample_count // _WINDOWS_MOST))
    table = scan(signal).rewindow(window).stats("std").collect()
    starts = np.asarray(table["start"], dtype=np.int64)
    spread = np.abs(np.asarray(table["std"], dtype=np.float64))
    usual = float(np.nanmedian(spread)) if len(spread) else 0.0
    if not usual > 0:
        return
    # Windows on two sides of a gap are no neighbours.
    breaks = np.flatnonzero(np.diff(starts) != window) + 1
    for begin, end in pairwise([0, *breaks.tolist(), len(starts)]):
        loudness = spread[begin:end] / usual
        for rise in rises(loudness):
            first = int(starts[begin + max(rise - _BEFORE, 0)])
            last = int(starts[begin + min(rise + _AFTER, end - begin) - 1]) + window
            samples = np.asarray(signal[first:last].values(), dtype=np.float64)
            found = pick_change(samples, max(1, window // _WINDOW_SAMPLES))
            if found is None:
                continue
            index, error = found
            time = signal.time_of(first + index)
            known = (time.uncertainty_ns or 0.0) if time is not None else 0.0
            yield Arrival(
                station=signal.name,
                ns=time.ns,
                error_ns=float(np.hypot(error / float(signal.rate) * 1e9, known)),
                drop=float(loudness[rise : rise + _AFTER].max()),
            )


def rises(loudness: npt.ArrayLike) -> list[int]:
    """Windows that are loud after eight quiet ones; `loudness` is relative to the usual (shape n)."""
    loud = np.asarray(loudness, dtype=np.float64) > _LOUD
    before = np.concatenate(([0], np.cumsum(loud)))
    return [int(at) for at in np.flatnonzero(loud) if at >= _QUIET and before[at] == before[at - _QUIET]]


def pick_change(samples: Float, lag: int = 1) -> tuple[int, float] | None:
    """Where the differences of samples (shape n) change their variance.

    Parameters:
        samples: a stretch with a change in it, at least 8 samples from its ends.
        lag: with more than 1, means of so many samples are compared first, which finds a
            slow front below fast noise; then single samples around what that found.

    Returns:
        Index of the first sample after the change and its standard error in samples,
        or None where there are too few samples or the variance does not double.

    Source: the split that minimises Akaike's information of two Gaussian stretches
    (Maeda 1985), without a fitted autoregressive model.
    """
    x = np.asarray(samples, dtype=np.float64)
    if lag == 1:
        return _split(np.diff(x))
    sums = np.concatenate(([0.0], np.cumsum(x - x[0])))
    means = (sums[lag:] - sums[:-lag]) / lag
    coarse = _split(means[lag:] - means[:-lag])
    if coarse is None:
        return None
    # A difference of means first feels a change at its last sample.
    about = coarse[0] + 2 * lag - 2
    reach = max(4 * lag, 3 * _EDGE)
    begin = max(about - reach, 0)
    fine = _split(np.diff(x[begin : about + reach]))
    return (about, coarse[1] + lag) if fine is None else (begin + fine[0], fine[1])


def _split(x: Float) -> tuple[int, float] | None:
    """The least-information split of differences: index after it, with its standard error."""
    n = len(x)
    if n < 4 * _EDGE - 1:
        return None
    energy = np.concatenate(([0.0], np.cumsum(x * x)))
    tiny = max(float(energy[-1]), 1.0) * 1e-15
    k = np.arange(_EDGE, n - _EDGE)
    before = energy[k] / k + tiny
    after = (energy[-1] - energy[k]) / (n - k) + tiny
    information = k * np.log(before) + (n - k) * np.log(after)
    best = int(np.argmin(information))
    # A few samples at an edge are quieter than the rest by chance; the best of n splits must be worth it.
    gained = n * np.log(energy[-1] / n + tiny) - information[best]
    if after[best] <= 2.0 * before[best] or gained <= 4.0 * np.log(n):
        return None
    weight = np.exp(-0.5 * (information - information[best]))
    weight /= weight.sum()
    # A change lies between two samples: half a sample more than the weights say.
    error = float(np.sqrt(weight @ (k - k[best]) ** 2 + 0.25))
    return int(k[best]) + 1, error
