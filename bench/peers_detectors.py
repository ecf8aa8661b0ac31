"""The detectors of our plans by hand, for peers that have none: a noise model, and ranges by two levels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Ranges = list[tuple[int, int]]


def jit(function: Any) -> Any:
    """A loop of a peer, compiled."""
    from numba import njit

    return njit(function)


def levels(scores: Array, deviations: float, memory: int, cut: tuple[float, float], timeout: int = 1000) -> Array:
    """The detector's levels, by the definition of `Plan.cfar`; `cut` is what leaving it out takes from the noise."""
    found = np.zeros(len(scores))
    weight = 2.0 * memory - 1.0
    widen = weight / (weight - 1.0) / cut[1]
    count = detected = 0
    mean = variance = limit = 0.0
    for k, value in enumerate(scores):
        learns = count < memory
        if not learns:
            above = value - (mean - cut[0] * limit / deviations)
            level = 0.0 if above == 0.0 else above / limit
            found[k] = level
            detected = detected + 1 if level >= 1.0 else 0
            learns = detected == 0 or detected > timeout
        if learns:
            count = min(count + 1, memory)
            gain = 1.0 / count
            off = value - mean
            step = gain * off
            mean += step
            variance = (1.0 - gain) * (variance + off * step)
            limit = deviations * math.sqrt(variance * widen)
    return found


def tail(deviations: float) -> tuple[float, float]:
    """Mean and variance of standard Gaussian numbers without those above so many deviations."""
    density = math.exp(-0.5 * deviations**2) / math.sqrt(2 * math.pi)
    below = 0.5 * math.erfc(-deviations / math.sqrt(2))
    mean = -density / below
    return mean, 1.0 - deviations * density / below - mean**2


def triggered(values: Array, window: int, on: float, off: float, least: int, merge: int) -> Ranges:
    """Ranges as `Plan.triggers` gives them, from the few values that are above `off`."""
    ranges: Ranges = []
    for group in groups(np.flatnonzero(values >= off), 1):
        risen = group[values[group] >= on]
        if risen.size:
            start, end = int(risen[0]) * window, (int(group[-1]) + 1) * window
            if ranges and start - ranges[-1][1] <= merge:
                start = ranges.pop()[0]
            ranges.append((start, end))
    return [one for one in ranges if one[1] - one[0] >= least]


def groups(found: Array, apart: int) -> list[Array]:
    """What is found, in groups with no more than so much from one to the next."""
    return [one for one in np.split(found, np.flatnonzero(np.diff(found) > apart) + 1) if one.size]
