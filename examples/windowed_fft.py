"""Windowed FFT: the strongest tone of every stretch of 64 pages of a recording, one stretch a worker.

Much is computed of each sample, so that more cores help as long as memory feeds them. The results are the same bits for
any number of workers.

    python examples/windowed_fft.py
"""

import tempfile
import time
from pathlib import Path

import numpy as np

import isochrony as iso

WINDOW = 64 * 4096 // 2  # samples of 16 bits in 64 pages
RATE = 48_000


def windowed_fft(signal: iso.Signal) -> iso.Plan:
    """Power spectra of consecutive windows, without a taper."""
    return iso.scan(signal).rewindow(WINDOW).power(taper="boxcar", detrend="none")


def main() -> None:
    """Run it over six minutes of a tone that climbs through noise, with one worker and with all cores."""
    rng = np.random.default_rng(6)
    tones = np.linspace(200, 12_000, 128)
    turns = np.repeat(tones, WINDOW).cumsum() / RATE
    samples = np.rint(300 * np.sin(2 * np.pi * turns) + rng.normal(0, 200, len(turns))).astype("i2")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sea.iso"
        with iso.open(path, "x") as store:
            store.create("hydrophone", dtype="i2", rate=RATE).append(samples)
            store.commit()
        with iso.open(path) as store:
            plan = windowed_fft(store["hydrophone"])
            spent, spectra = [], []
            for workers in (1, "auto"):
                start = time.perf_counter()
                spectra.append(plan.collect(workers=workers))
                spent.append(time.perf_counter() - start)
    assert np.array_equal(spectra[0], spectra[1])
    heard = plan.frequencies[spectra[0].argmax(axis=1)]
    assert np.abs(heard - tones).max() <= RATE / WINDOW
    print(f"{len(heard)} windows, tones heard to {np.abs(heard - tones).max():.2f} Hz")
    print(f"{spent[0]:.2f} s with one worker, {spent[1]:.2f} s with all cores")


if __name__ == "__main__":
    main()
