"""ARRIVALS: when each array of `localise` hears a call, by one clock.

One array is watched, and the call is looked for at each of the others by correlation, after its recording has been put
onto the clock of the first.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from bearings import CALL
from hearing import after, around_calls, microphones
from meadow import ARRAYS, MICS, RATE, SOUND

import isochrony as iso

CROSSING = int(np.ptp(ARRAYS) * 2**0.5 / SOUND * RATE) + 100  # samples while sound crosses the meadow


def arrivals(store: iso.Store, ears: dict[int, int]) -> Iterator[tuple[np.datetime64, dict[int, float]]]:
    """When calls are loud at an array, and how many seconds later each array hears them, in common time."""
    names = {array: f"array_{array}/mic_{mic}" for array, mic in ears.items()}
    if len(names) < 2:
        return
    # One whose recording has no gap, if there is such.
    here = max(names, key=lambda array: store[names[array]].sample_count)
    reference = microphones(store, here, [ears[here]])[0]
    # Delays count samples of that array's clock, which runs at a rate of its own.
    seconds = RATE / store[names[here]].runs()[0].rate
    calls: dict[int, tuple[np.datetime64, dict[int, float]]] = {}
    for there in names.keys() - {here}:
        aligned = microphones(store, there, [ears[there]])[0].align(reference)
        first, other = around_calls(reference, aligned, length=2 * CROSSING + CALL, before=CROSSING)
        rows = first.delay(other, CROSSING, refine="band_limited").collect()
        for start, time, delay in zip(rows["start"], after(rows["time"], CROSSING), rows["delay"], strict=True):
            calls.setdefault(start, (time, {here: 0.0}))[1][there] = delay * seconds
    yield from (calls[start] for start in sorted(calls))


def matched(
    store: iso.Store, heard: dict[int, dict[str, np.ndarray]], ears: dict[int, int]
) -> Iterator[tuple[np.datetime64, list[dict[str, Any]]]]:
    """When calls are loud at an array, and what arrays heard of each, of those that several did."""
    # Half the width of an interval in which any time is as likely.
    clocks = {array: store[f"array_{array}/mic_{mic}"].time_of(0).uncertainty_ns for array, mic in ears.items()}
    for time, late in arrivals(store, ears):
        calls = []
        for array, seconds in sorted(late.items()):
            away = abs(heard[array]["time"] - (time + np.timedelta64(int(seconds * 1e9), "ns")))
            if len(away) and away.min() < np.timedelta64(50, "ms"):
                call = {key: values[away.argmin()] for key, values in heard[array].items()}
                error = np.hypot(call["time_error"], 1e-9 * clocks[array] / 3**0.5)
                call |= {"late": seconds, "late_error": error, "middle": ARRAYS[array], "ear": MICS[ears[array]]}
                calls.append({**call, "array": array})
        if len(calls) > 1:
            yield time, calls
