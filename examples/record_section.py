"""RECORD_SECTION: a shock's way across the stations of a volcano, as `onsets` has found it.

Traces by civil time, in order of what began there, with the onsets and their errors. With places of three stations or
more, as "network.station,east,north" and more in metres, it also tells how fast P ran along the ground.

    python examples/record_section.py shock.iso FIGURE.svg [STATIONS.csv]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from onsets import BAND, filtered

import isochrony as iso

BEFORE, AFTER = 1.0, 3.5  # seconds that are drawn around the first onset
COLOURS = {"P": "#0072B2", "onset": "#D55E00"}


def onsets(store: iso.Store) -> list[tuple[iso.Time, float, str, str]]:
    """Time, standard error in seconds, kind and station of all onsets, in order."""
    return sorted(
        (iso.Time(event.fields["time"]), event.fields["error"], event.kind, name.removesuffix("/HHZ"))
        for name in store.keys("*/*/*/HHZ")
        for event in store[name].events
        if event.kind in COLOURS
    )


def speed(store: iso.Store, stations: Path) -> float:
    """The speed of the plane wave that fits the P onsets best, in metres a second."""
    rows = (line.split(",") for line in stations.read_text(encoding="utf-8").split())
    places = {name.replace(".", "/"): np.array([east, north], float) for name, east, north, *_ in rows}
    known = [(time, places[who[:-3]]) for time, _, kind, who in onsets(store) if kind == "P" and who[:-3] in places]
    first, origin = known[0]
    design = np.array([[1, *(place - origin)] for _, place in known])
    return 1 / np.hypot(*np.linalg.lstsq(design, [float(time - first) for time, _ in known])[0][1:])


def draw(store: iso.Store, path: Path) -> None:
    """The section, as SVG or what else the path's ending says."""
    found = onsets(store)
    first = found[0][0]
    figure, axes = plt.subplots(figsize=(9, 8), layout="constrained")
    for row, (time, error, kind, station) in enumerate(found):
        signal = store[f"{station}/HHZ"]
        start, end = (signal.index_of(first + at, round="nearest") for at in (-BEFORE, AFTER))
        trace = filtered(store, station).between(start, end).collect()
        times = float(signal.time_of(start) - first) + np.arange(len(trace)) / float(signal.rate)
        axes.plot(times, row - 0.48 * trace / abs(trace).max(), color="0.3", linewidth=0.6)
        late, marks = float(time - first), {"color": COLOURS[kind], "zorder": 3}
        axes.vlines(late, row - 0.45, row + 0.45, linestyles="solid" if kind == "P" else "dotted", linewidth=2, **marks)
        axes.fill_betweenx([row - 0.45, row + 0.45], late - error, late + error, alpha=0.25, linewidth=0, **marks)
        axes.text(AFTER + 0.05, row, f"{late:.2f} ± {error:.2f}", color=COLOURS[kind], va="center", fontsize=9)
    axes.set_yticks(range(len(found)), [station.split("/")[1] for *_, station in found])
    axes.set(xlim=(-BEFORE, AFTER), ylim=(len(found) - 0.4, -0.6))
    axes.set_xlabel(f"seconds after {first.to_datetime():%Y-%m-%d %H:%M:%S.%f}".rstrip("0") + " UTC")
    axes.set_ylabel("station, in order of onset")
    axes.set_title(f"Vertical velocity, {BAND[0]:g} to {BAND[1]:g} Hz, each trace by its largest value")
    for kind, label in (("P", "P ± its error"), ("onset", "an onset that may not be P")):
        axes.plot([], color=COLOURS[kind], linestyle="solid" if kind == "P" else "dotted", linewidth=2, label=label)
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    figure.savefig(path)


if __name__ == "__main__":
    with iso.open(sys.argv[1]) as shock:
        draw(shock, Path(sys.argv[2]))
        if len(sys.argv) > 3:
            print(f"P ran along the ground at {speed(shock, Path(sys.argv[3])) / 1000:.1f} km/s")
