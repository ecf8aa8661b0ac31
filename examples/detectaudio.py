"""DETECTAUDIO: what an array of four microphones heard, cut out of the noise.

One channel is watched: windows of 32 samples, their spectra, a score of the frequencies that matter, and a
detector that learns the noise and has a constant rate of false alarms. Around every detection the samples of
all four channels are kept, and an event says where; between them nothing is stored.

    python examples/detectaudio.py array.iso

The array here is made: noise, and calls that reach the microphones one after the other.
"""

import sys
from pathlib import Path

import numpy as np

import isochrony as iso

RATE = 48_000
WINDOW = 32
CHANNELS = [f"mic_{k}" for k in range(4)]


def call() -> np.ndarray:
    """A chirp of 40 ms that rises from 2 to 6 kHz."""
    t = np.arange(RATE // 25) / RATE
    return np.sin(2 * np.pi * (2000 * t + 50_000 * t * t)) * np.hanning(len(t))


def record(store: iso.Store, seconds: int = 20, seed: int = 1) -> list[int]:
    """Store an array's recording, a call about every second; where they begin in the first channel."""
    rng = np.random.default_rng(seed)
    sound = rng.normal(0, 100, (len(CHANNELS), seconds * RATE))
    placed = [second * RATE + int(rng.integers(RATE // 2)) for second in range(1, seconds - 1)]
    for begin in placed:
        for channel, late in enumerate(rng.integers(0, 30, len(CHANNELS)) * (np.arange(len(CHANNELS)) > 0)):
            sound[channel, begin + late :][: len(call())] += 1500 * call()
    for name, samples in zip(CHANNELS, sound, strict=True):
        store.create(name, dtype="i2", rate=RATE, start="2026-01-01").append(np.rint(samples).astype("i2"))
    store.commit()
    return placed


def detected(channel: iso.Plan) -> iso.Plan:
    """The ranges in which a channel stands out of its noise."""
    score = channel.rewindow(WINDOW).spectral_score(band_hz=(1500, 7500))
    return score.cfar(deviations=7, memory=1000).triggers(on=1, off=0.5, min_length=0.005, merge=0.02)


def detectaudio(store: iso.Store) -> list[iso.Plan]:
    """The detections as events of the first channel, and what all of them heard meanwhile as signals."""
    first, *others = (iso.scan(store[name], clock=store[CHANNELS[0]]) for name in CHANNELS)
    ranges = detected(first).annotate(store[CHANNELS[0]], "call")
    heard = first.sync(*others, on=ranges)
    kept = [channel.sink(store, f"heard/{name}", overwrite=True) for channel, name in zip(heard, CHANNELS, strict=True)]
    return [ranges, *kept]


def main(path: Path) -> None:
    """Record, detect, and list what was found."""
    with iso.open(path, "x") as store:
        placed = record(store)
        iso.run(*detectaudio(store))
        for event in store[CHANNELS[0]].events:
            print(f"{event.start / RATE:8.4f} s, {1000 * (event.end - event.start) / RATE:5.1f} ms")
        print(f"{len(store[CHANNELS[0]].events)} calls found, {len(placed)} were made")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
