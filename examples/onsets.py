"""ONSETS: when a shock in a volcano reached its stations.

The recording is SEED. Six of its stations take their samples 8.3 ms after the others, so that indices say nothing and
times do. In each vertical channel the ratio of a short to a long mean finds what rises out of the noise, and the shock
that most stations heard is taken. Akaike's information tells when the noise ended, to parts of a sample, with a standard
error. Where the ground then moves more up and down than level it is P, else an onset of what is not sure. All are kept
as events.

    python examples/onsets.py RECORDING.mseed shock.iso
"""

import sys
from pathlib import Path

import numpy as np

import isochrony as iso

BAND = LOW, HIGH = 8.0, 25.0  # Hz: what is left of the shock before this one is slower
STA, LTA = 0.2, 3.0  # seconds
CROSSING = 2.5  # seconds from the first to the last station


def filtered(store: iso.Store, station: str, channel: str = "HHZ") -> iso.Plan:
    return iso.scan(store[f"{station}/{channel}"]).bandpass(LOW, HIGH, initial="steady")


def triggered(store: iso.Store) -> dict[str, iso.Time]:
    """The shock that most stations heard: when each of them did, to some tenths of a second."""
    vertical = {name.removesuffix("/HHZ"): store[name] for name in store.keys("*/*/*/HHZ")}
    plans = [filtered(store, name).stalta(STA, LTA, method="recursive").triggers(on=3, off=1) for name in vertical]
    found = [
        (signal.time_of(start), station)
        for (station, signal), ranges in zip(vertical.items(), iso.collect(*plans), strict=True)
        for start, _ in ranges
        if start > 1.1 * LTA * signal.rate  # else it was there before the long mean was known
    ]
    shocks = [{who: time for time, who in sorted(found, reverse=True) if 0 <= time - at < CROSSING} for at, _ in found]
    return max(shocks, key=len)


def change(x: np.ndarray, independent: float) -> tuple[float, float]:
    """Where samples change their variance (Maeda 1985), and the error; `independent` is the share of them that is."""
    k, energy = np.arange(10, len(x) - 10), np.cumsum(x * x)
    before, after = energy[k - 1] / k, (energy[-1] - energy[k - 1]) / (len(x) - k)
    information = independent * (k * np.log(before) + (len(x) - k) * np.log(after))
    weights = np.exp((information.min() - information) / 2)
    at = np.average(k, weights=weights)
    return at, np.sqrt(np.average((k - at) ** 2, weights=weights) + 1 / 12)


def onset(store: iso.Store, station: str, near: iso.Time) -> tuple[iso.Time, float, str]:
    """When what triggered began, found by the station's own clock; the error in seconds; and what it was."""
    signal = store[f"{station}/HHZ"]
    rate, start = float(signal.rate), signal.index_of(near - 1, round="nearest")
    plans = [filtered(store, station, name).between(start, start + int(1.4 * rate)) for name in ("HHZ", "HHN", "HHE")]
    vertical, *level = iso.collect(*plans)
    at, error = change(vertical, 2 * (HIGH - LOW) / rate)
    up, *flat = (np.square(one[round(at) :][: int(0.3 * rate)]).mean() for one in (vertical, *level))
    return signal.time_of(start) + at / rate, error / rate, "P" if up > 1.6 * np.mean(flat) else "onset"


def main(recording: Path, path: Path) -> None:
    """Import, pick, keep and list."""
    with iso.open(path, "x") as store:
        iso.import_files(store, recording)
        for (exact, error, kind), station in sorted((onset(store, *one), one[0]) for one in triggered(store).items()):
            time = iso.Time.from_ns(exact.ns)
            store[f"{station}/HHZ"].events.add(kind, time, time=str(time), error=error)
            print(f"{station:12} {time} ± {error:.3f} s {kind}")
        store.commit()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
