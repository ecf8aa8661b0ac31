"""PIPELINE: where a water network broke, from the pressure at four stations.

Each station samples with a clock of its own, so all are first put onto the clock of one. Windows of two seconds are met;
their Haar wavelets tell how far the pressure falls anywhere in them, and a detector knows how much it falls without a
leak. Only what stands out is kept, with what is around it; there the steepest fall at each station is trimmed as a peak.
These are the arrivals of a front, whose differences place the leak on the plan of the network. A window that holds only
half of a front contradicts itself; the next one has all of it.

    python examples/pipeline.py FOLDER

The recordings are those of `isochrony demo`: an hour of four stations with an outage, a clock step and two bursts.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import isochrony as iso
from isochrony.demo.network import STATIONS
from isochrony.demo.position import Heard, Position, locate
from isochrony.demo.synth import LAYOUT, RATE_HZ, write_recordings

WINDOW = 4096
LEVELS = 7
# A Haar wavelet of eight samples at every sample: the mean of the last four less that of the four before.
STEEP = 4 * [0.25] + 4 * [-0.25]


def record(store: iso.Store, folder: Path) -> None:
    """Make the stations' recordings and import them."""
    recordings = write_recordings(folder).recordings
    store.import_raw(recordings, layout=LAYOUT, dtype="<i2", rate=RATE_HZ, unit="mbar")


def leaks(stations: Sequence[iso.Plan]) -> iso.Plan:
    """Ranges with a leak, and a window before and behind it."""
    first, *others = (station.rewindow(WINDOW).haar(LEVELS, output="details") for station in stations)
    deepest = first.map(lambda a, b, c, d: a.max() + b.max() + c.max() + d.max(), *others)
    level = deepest.cfar(deviations=20, memory=60)
    return level.filter(lambda one: one.max() >= 1).ranges(before=WINDOW, after=WINDOW)


def falls(stations: Sequence[iso.Plan]) -> list[iso.Plan]:
    """For each station a row for each leak: "at", the index of the steepest fall, and how steep it is, "peak"."""
    first, *others = stations
    heard = first.sync(*others, on=leaks(stations))
    return [station.fir(STEEP).rewindow(2 * WINDOW, WINDOW).trim_peak("min") for station in heard]


def pipeline(store: iso.Store) -> list[iso.Plan]:
    """The falls of all stations, by the first one's clock."""
    first, *others = (iso.scan(store[f"{station.name}/pressure"]) for station in STATIONS)
    return falls(first.zip(*(other.align(first) for other in others)))


def places(store: iso.Store) -> list[tuple[iso.Time, Position]]:
    """When and where the network broke."""
    arrivals = zip(*(table["at"] for table in iso.collect(*pipeline(store))), strict=True)
    clock = store[f"{STATIONS[0].name}/pressure"]
    found = []
    for ats in sorted(set(arrivals)):
        times = [clock.time_of(at) - clock.time_of(ats[0]) for at in ats]
        # An arrival is known to a sample.
        heard = [Heard(station.junction, float(t), 1 / RATE_HZ) for station, t in zip(STATIONS, times, strict=True)]
        position = locate(heard)
        if position.verdict == "located":
            found.append((clock.time_of(ats[0]) + position.at_s, position))
    return found


def main(folder: Path) -> None:
    """Record, find, and list what was found."""
    with iso.open(folder / "pipeline.iso", "x") as store:
        record(store, folder)
        for time, position in places(store):
            print(f"{time}: {position.place} ± {position.error_m:.1f} m")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
