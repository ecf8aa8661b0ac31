"""MEADOW: calls among four arrays of microphones, a recording that is made and of which everything is known.

A bird chirps, an owl hoots and hands clap, somewhere in a square of 60 m, one after the other. At each corner stand
four microphones, 8 cm apart, with a recorder whose clock is wrong by some parts in a million and samples when it
likes; once a second it notes GPS time, to the microsecond. What a microphone hears comes at the speed of sound and is
weaker by the distance; noise is everywhere. `localise` finds out what was called where.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import isochrony as iso

RATE, BEGIN = 48_000, iso.Time("2026-05-01T04:00:00Z")
SOUND, SOUND_ERROR = 343.2, 1.0  # metres a second, in air of 20 ± 2 °C
ARRAYS = np.array([(0, 0), (60, 0), (60, 60), (0, 60)], float)  # east and north, in metres
SPACING = 0.08
MICS = SPACING / 2 * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])  # around the middle of their array
CLOCKS = [(18e-6, 0.13), (-27e-6, 0.86), (9e-6, 0.41), (-35e-6, 0.67)]  # how much too fast, and the phase
#: Of each kind: seconds, Hz at the beginning and at the end, amplitude 1 m away.
KINDS = {"bird": (0.05, 2000, 6000, 9000), "owl": (0.14, 800, 1100, 9000), "clap": (0.012, 1000, 8000, 20000)}


@dataclass(frozen=True)
class Call:
    """What was called, where (metres), and when (seconds since the beginning)."""

    kind: str
    place: tuple[float, float]
    time: float


def voice(kind: str, rng: np.random.Generator) -> tuple[float, Callable[[np.ndarray], np.ndarray]]:
    """How long a call is, and what it sounds like 1 m away, as a function of time; no two are the same."""
    length, low, high, loud = KINDS[kind] * rng.uniform(0.9, 1.1, 4)
    tones, phases = rng.uniform(low, high, 60), rng.uniform(0, 2 * np.pi, 60)

    def sound(t: np.ndarray) -> np.ndarray:
        swell = loud * np.where((t > 0) & (t < length), np.sin(np.pi * t / length) ** 2, 0)
        if kind == "clap":
            return swell * np.sin(2 * np.pi * np.multiply.outer(t, tones) + phases).mean(axis=-1) * 4
        return swell * np.sin(2 * np.pi * (low + (high - low) * t / (2 * length)) * t)

    return length, sound


def record(store: iso.Store, seed: int, count: int = 32) -> list[Call]:
    """Store what all microphones hear; the calls are the truth."""
    rng = np.random.default_rng(seed)
    calls = [
        Call(str(rng.choice(list(KINDS))), tuple(rng.uniform(6, 54, 2)), 3 + 1.3 * number + rng.uniform(0, 0.25))
        for number in range(count)
    ]
    sound = rng.normal(SOUND, SOUND_ERROR)
    voices = [voice(call.kind, rng) for call in calls]
    seconds = int(calls[-1].time) + 2
    for array, (corner, (fast, phase)) in enumerate(zip(ARRAYS, CLOCKS, strict=True)):
        rate = RATE * (1 + fast)
        for mic, beside in enumerate(MICS):
            heard = rng.normal(0, 20, seconds * RATE)
            for call, (length, voiced) in zip(calls, voices, strict=True):
                away = np.hypot(*(corner + beside - call.place))
                arrives = call.time + away / sound
                indices = int(arrives * rate) + np.arange(int(length * RATE) + 3)
                heard[indices] += voiced((indices + phase) / rate - arrives) / away
            signal = store.create(f"array_{array}/mic_{mic}", dtype="i2", rate=RATE)
            for begin in range(0, len(heard), RATE):
                stamp = BEGIN + np.floor(1e6 * (begin + phase) / rate) / 1e6
                signal.append(np.rint(heard[begin:][:RATE]).astype("i2"), at=stamp, resolution=1e-6)
    store.commit()
    return calls
