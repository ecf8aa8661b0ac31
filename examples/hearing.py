"""HEARING: what an array of microphones hears, and where it comes from: the first stage of `localise`.

One channel is watched by a detector, as in `detectaudio`; a window of all channels around every call gives delays
between microphones, and these a bearing. Errors are standard deviations; bearings are radians from north to east.
"""

from functools import reduce

import numpy as np
from bearings import BAND, CALL, bearings, error_of_time
from meadow import MICS, RATE

import isochrony as iso

BEFORE = 512  # samples of a window around a call before it is loud


def working(store: iso.Store, array: int) -> list[int]:
    """The microphones of an array that are not silent."""
    levels = [iso.scan(store[f"array_{array}/mic_{mic}"]).rewindow(RATE).stats("std") for mic in range(len(MICS))]
    loud = [np.median(one["std"]) if len(one) else 0 for one in iso.collect(*levels)]
    silent = [mic for mic, level in enumerate(loud) if not level > 0.01 * max(loud)]
    if silent:
        print(f"array {array}: silent and left out: microphones {silent}")
    return [mic for mic in range(len(MICS)) if mic not in silent]


def microphones(store: iso.Store, array: int, which: list[int]) -> list[iso.Plan]:
    """What an array's microphones hear in the band, index for index: they share a clock."""
    signals = [store[f"array_{array}/mic_{mic}"] for mic in which]
    return [iso.scan(one, clock=signals[0]).bandpass(*BAND) for one in signals]


def around_calls(first: iso.Plan, *others: iso.Plan, length: int, before: int) -> list[iso.Plan]:
    """One window around every call in the first channel, of all of them."""
    loud = first.rewindow(64).spectral_score(band_hz=BAND).cfar(deviations=8).filter(lambda level: level.max() >= 1)
    # Longer than a window and shorter than two: there is one in each.
    calls = loud.ranges(join=RATE // 12, before=before, after=length - before)
    return [cut.rewindow(length, anchor="range") for cut in first.sync(*others, on=calls)]


def after(times: np.ndarray, samples: int) -> np.ndarray:
    """Times so many samples later."""
    return times + np.timedelta64(10**9 * samples // RATE, "ns")


def hear(store: iso.Store, array: int, which: list[int]) -> dict[str, np.ndarray]:
    """The calls that an array hears: when, from where, how well both are known, and what is typical of them."""
    if len(which) < 3:
        return {}
    first, *others = around_calls(*microphones(store, array, which), length=CALL, before=BEFORE)
    spectrum = first.power(taper="boxcar")
    delays = [first.delay(other, 17, refine="band_limited") for other in others]
    windows, power, haar, crossings, *rows = iso.collect(
        first.stats("mean"), spectrum, first.haar(5), first.zero_crossings(), *delays
    )
    # Where all of them have samples.
    starts = reduce(np.intersect1d, [one["start"] for one in (windows, *rows)])
    rows = [{key: one[key][np.isin(one["start"], starts)] for key in one.columns} for one in rows]
    power, haar, crossings = (one[np.isin(windows["start"], starts)] for one in (power, haar, crossings))
    time_error = error_of_time(np.mean([one["peak"] for one in rows], axis=0), power, spectrum.frequencies)
    late = np.column_stack([0 * rows[0]["delay"], *(one["delay"] for one in rows)])
    bearing, error, contradiction = bearings(late, time_error, MICS[which])
    if len(starts) and np.median(contradiction) > 6:
        print(f"array {array}: left out, since its microphones contradict one another; are two of them swapped?")
        return {}
    for start, degrees, off in zip(starts + BEFORE, np.degrees(bearing), np.degrees(error), strict=True):
        store[f"array_{array}/mic_{which[0]}"].events.add("call", start, bearing_deg=degrees, error_deg=off)
    features = np.column_stack([np.log(haar / haar.sum(axis=1, keepdims=True)), np.log(crossings)])
    times = after(rows[0]["time"], BEFORE)
    return {"time": times, "time_error": time_error, "bearing": bearing, "bearing_error": error, "features": features}
