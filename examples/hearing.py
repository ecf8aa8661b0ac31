"""HEARING: what an array of microphones hears, and where it comes from: the first stage of `localise`.

One channel is watched by a detector, as in `detectaudio`; a window of all channels around every call gives delays
between microphones, and these a bearing. Errors are standard deviations; bearings are radians from north to east.
"""

import numpy as np
from meadow import ARRAYS, MICS, RATE, SOUND

import isochrony as iso

LOW, HIGH = BAND = 600, 9000  # Hz
CALL, BEFORE = 8192, 512  # samples around a call, and those of them before it is loud
CROSSING = int(np.ptp(ARRAYS) * 2**0.5 / SOUND * RATE) + 100  # samples while sound crosses the meadow


def microphones(store: iso.Store, array: int) -> list[iso.Plan]:
    """What an array's microphones hear in the band, index for index: they share a clock."""
    signals = [store[f"array_{array}/mic_{mic}"] for mic in range(len(MICS))]
    return [iso.scan(one, clock=signals[0]).bandpass(LOW, HIGH) for one in signals]


def around_calls(first: iso.Plan, *others: iso.Plan, length: int, before: int) -> list[iso.Plan]:
    """One window around every call in the first channel, of all of them."""
    loud = first.rewindow(64).spectral_score(band_hz=BAND).cfar(deviations=8).filter(lambda level: level.max() >= 1)
    # Longer than a window and shorter than two: there is one in each.
    calls = loud.ranges(join=RATE // 12, before=before, after=length - before)
    return [cut.rewindow(length, anchor="range") for cut in first.sync(*others, on=calls)]


def after(times: np.ndarray, samples: int) -> np.ndarray:
    """Times so many samples later."""
    return times + np.timedelta64(10**9 * samples // RATE, "ns")


def hear(store: iso.Store, array: int) -> dict[str, np.ndarray]:
    """The calls that an array hears: when, from where, how well both are known, and what is typical of them."""
    first, *others = around_calls(*microphones(store, array), length=CALL, before=BEFORE)
    spectrum = first.power(taper="boxcar")
    delays = [first.delay(other, 17, refine="band_limited") for other in others]
    power, haar, crossings, *rows = iso.collect(spectrum, first.haar(5), first.zero_crossings(), *delays)
    time_error = error_of_time(np.mean([one["peak"] for one in rows], axis=0), power, spectrum.frequencies)
    bearing, error = bearings(np.column_stack([0 * rows[0]["delay"], *(one["delay"] for one in rows)]), time_error)
    for start, degrees, off in zip(rows[0]["start"] + BEFORE, np.degrees(bearing), np.degrees(error), strict=True):
        store[f"array_{array}/mic_0"].events.add("call", start, bearing_deg=degrees, error_deg=off)
    features = np.column_stack([np.log(haar / haar.sum(axis=1, keepdims=True)), np.log(crossings)])
    times = after(rows[0]["time"], BEFORE)
    return {"time": times, "time_error": time_error, "bearing": bearing, "bearing_error": error, "features": features}


def error_of_time(peak: np.ndarray, power: np.ndarray, hz: np.ndarray) -> np.ndarray:
    """How well one microphone times a call in a window of noise: Cramér and Rao's bound.

    `peak` is the correlation of two microphones, which is the call's share of the power, and `power` is the spectrum.
    """
    noise, noise_hz2 = (1 - peak) / peak, (HIGH**3 - LOW**3) / (HIGH - LOW) / 3
    # Mean squares of frequencies: of the noise alone, and of the call alone.
    call_hz2 = power @ hz**2 / power.sum(axis=1) * (1 + noise) - noise_hz2 * noise
    independent = 2 * (HIGH - LOW) * CALL / RATE
    return np.sqrt((noise + noise**2 * noise_hz2 / call_hz2 / 2) / (independent * 4 * np.pi**2 * call_hz2))


def bearings(late: np.ndarray, time_error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where plane waves come from that reach an array's microphones `late`, and the error."""
    # With the slowness s a wave reaches the microphone at m later by s · m.
    slowness = late @ np.linalg.pinv(MICS).T
    error = time_error / np.sqrt((MICS[:, 0] ** 2).sum())
    return np.arctan2(-slowness[:, 0], -slowness[:, 1]), error / np.hypot(*slowness.T)


def arrivals(store: iso.Store) -> tuple[np.ndarray, np.ndarray]:
    """When calls are loud at the first array, and how many seconds later each array hears them, in common time."""
    here, *there = (microphones(store, array)[0] for array in range(len(ARRAYS)))
    aligned = [one.align(here) for one in there]
    first, *others = around_calls(here, *aligned, length=2 * CROSSING + CALL, before=CROSSING)
    rows = iso.collect(*(first.delay(other, CROSSING, refine="band_limited") for other in others))
    # Delays count samples of the first array's clock, which runs at a rate of its own.
    seconds = RATE / store["array_0/mic_0"].runs()[0].rate
    late = np.column_stack([0 * rows[0]["delay"], *(one["delay"] * seconds for one in rows)])
    return after(rows[0]["time"], CROSSING), late
