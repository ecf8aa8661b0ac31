"""PIPELINE: where a water network broke, from the pressure at four stations.

Each station samples with a clock of its own, so all are first put onto the clock of one; those that hear nothing are left
out, aloud. Haar wavelets of windows of two seconds tell how far the pressure falls, and a detector how much it falls without
a leak. Of what stands out the steepest fall at each station is trimmed as a peak: the arrivals of a front, whose differences
place the leak. A window that holds only half of a front contradicts itself; the next one has all of it.

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
STEEP = 4 * [0.25] + 4 * [-0.25]  # the mean of the last four samples less that of the four before


def record(store: iso.Store, folder: Path) -> None:
    recordings = write_recordings(folder).recordings
    store.import_raw(recordings, layout=LAYOUT, dtype="<i2", rate=RATE_HZ, unit="mbar")


def leaks(stations: Sequence[iso.Plan]) -> iso.Plan:
    """Ranges with a leak, and a window before and behind it."""
    first, *others = (station.rewindow(WINDOW).haar(LEVELS, output="details") for station in stations)
    deepest = first.map(lambda one, *more: sum((other.max() for other in more), one.max()), *others)
    return deepest.cfar(deviations=20, memory=60).filter(lambda one: one.max() >= 1).ranges(before=WINDOW, after=WINDOW)


def working(store: iso.Store) -> dict[str, iso.Signal]:
    """The signals of stations whose pressure changes, by junction."""
    signals = {station.junction: store[f"{station.name}/pressure"] for station in STATIONS}
    changing = [iso.scan(one).rewindow(WINDOW).filter(lambda s: s.max() > s.min()).count() for one in signals.values()]
    for (junction, signal), changes in zip(list(signals.items()), iso.collect(*changing), strict=True):
        if 2 * WINDOW * changes <= signal.sample_count:
            print(f"{signals.pop(junction).name} is silent or constant: left out")
    return signals


def places(store: iso.Store) -> list[tuple[iso.Time, Position]]:
    """When and where the network broke, by the steepest falls at all stations, by the first one's clock."""
    signals, found, fronts = working(store), [], []
    if len(signals) < 3:
        return print(f"no place can be told: only {len(signals)} of the three stations hear that it takes") or []
    clock, (first, *others) = next(iter(signals.values())), map(iso.scan, signals.values())
    first, *others = stations = first.zip(*(other.align(first) for other in others))
    heard = first.sync(*others, on=leaks(stations))
    tables = iso.collect(*(one.fir(STEEP).rewindow(2 * WINDOW, WINDOW).trim_peak("min") for one in heard))
    steepness = -sum(table["peak"] for table in tables)
    for ats in [tuple(table["at"][row] for table in tables) for row in steepness.argsort()[::-1]]:
        # Less steep than a window beside it, this one holds a half of its front.
        if any(abs(ats[0] - known) < 2 * WINDOW for known in fronts):
            continue
        fronts.append(ats[0])
        times = [clock.time_of(at) - clock.time_of(ats[0]) for at in ats]
        # An arrival is known to a sample.
        position = locate([Heard(where, float(t), 1 / RATE_HZ) for where, t in zip(signals, times, strict=True)])
        if position.verdict == "located":
            found.append((clock.time_of(ats[0]) + position.at_s, position))
    return sorted(found, key=lambda one: one[0])


def main(folder: Path) -> None:
    with iso.open(folder / "pipeline.iso", "x") as store:
        record(store, folder)
        for time, position in places(store):
            print(f"{time}: {position.place} ± {position.error_m:.1f} m")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
