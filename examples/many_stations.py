"""Many stations: spectra and detections over a store of many channels, on the workers of a cluster.

A truck drives past a line of stations. Windowed spectra give what there is in its band, for each station and second;
where that is far above the station's own median something passed. The plans are the same on one machine and on a
cluster, and so are the results, to the bit, and the figure.

    python examples/many_stations.py many_stations.png              in this process
    python examples/many_stations.py many_stations.png local        on worker processes of this machine
    python examples/many_stations.py many_stations.png tcp://10.0.0.5:8786
"""

import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import isochrony as iso

STATIONS, RATE, SECONDS = 24, 500, 600
BAND = 15.0, 35.0  # Hz: of the truck's engine
WINDOW = RATE  # samples: a second
SPEED, SPACING = 15.0, 250.0  # m/s, m


def record(path: Path) -> None:
    """Ten minutes of noise at each station, and the truck when it passes."""
    rng = np.random.default_rng(24)
    t = np.arange(SECONDS * RATE) / RATE
    with iso.open(path, "x") as store:
        for station in range(STATIONS):
            distance = np.hypot(SPEED * (t - 60) - SPACING * station, 40.0)
            engine = np.sin(2 * np.pi * 25 * t + station) * 4e4 / distance
            noise = rng.normal(0, rng.uniform(60, 200), len(t))
            signal = store.create(f"line/{station:02}", dtype="i2", rate=RATE)
            signal.append(np.rint(engine + noise).astype("i2"), at="2026-06-01T08:00:00Z")
        store.commit()


def band_score(signal: iso.Signal) -> iso.Plan:
    """The sum of the spectrum's magnitudes in the band, for each window."""
    return iso.scan(signal).rewindow(WINDOW).spectral_score(band_hz=BAND, taper="hann")


def draw(score: np.ndarray, found: np.ndarray, out: Path) -> None:
    """Scores by station and time, in dB, and when each station heard the truck first."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    decibels = 20 * np.log10(score / np.median(score, axis=1, keepdims=True))
    image = axes.imshow(decibels, aspect="auto", origin="lower", cmap="magma")
    heard = found.any(axis=1)
    axes.plot(found.argmax(axis=1)[heard], np.flatnonzero(heard), "c|", markersize=9, label="heard first")
    axes.set(xlabel="time in seconds", ylabel="station", title=f"Spectra from {BAND[0]:g} to {BAND[1]:g} Hz")
    axes.legend(loc="upper left")
    figure.colorbar(image, label="dB above the median")
    # Without the date, so that equal results are equal files.
    figure.savefig(out, dpi=120, metadata={"Software": None})
    plt.close(figure)


def main(out: Path, on: str | None = None) -> None:
    """Record, compute here or on a cluster, and draw."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "line.iso"
        record(path)
        with iso.open(path) as store:
            plans = [band_score(store[name]) for name in store.keys("line/*")]
            score = np.hstack(iso.collect(plans, on=on)).T
    found = score > 2 * np.median(score, axis=1, keepdims=True)
    draw(score, found, out)
    first = found.argmax(axis=1)
    speed = SPACING / np.polyfit(np.arange(STATIONS), first, 1)[0]
    print(f"{found.any(axis=1).sum()} of {STATIONS} stations heard it, at {speed:.1f} m/s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
