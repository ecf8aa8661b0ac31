"""What was found, drawn into and below the lanes of `own_figure`: gaps, steps, events, clocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..store.plots import GAP, INK, STEP, clock_text
from .figure import Closeup
from .findings import Burst, StationFindings

__all__ = ["draw_below", "drifts", "mark"]

# What fits below the lanes.
_STATIONS_CLOSE = 8
_CLOCKS = 6
# Gaps that are wider than nothing on paper; drawing a million of them would say no more.
_GAPS_DRAWN = 500


def mark(
    axes: Any, names: Sequence[str], found: Mapping[str, StationFindings], events: Sequence[Burst], origin: int
) -> None:
    """Mark gaps, clock steps and events in lanes at 0, -1, ..., in seconds after `origin` (ns), within the x limits."""
    for row, name in enumerate(names):
        station = found.get(name)
        if station is None:
            continue
        longest = sorted(station.outages, key=lambda one: one.start_ns - one.end_ns)[:_GAPS_DRAWN]
        for outage in longest:
            edges = [(outage.start_ns - origin) * 1e-9, (outage.end_ns - origin) * 1e-9]
            axes.fill_between(edges, -row - 0.45, -row + 0.45, color=GAP, linewidth=0, zorder=0.6)
        for step in station.steps[:_GAPS_DRAWN]:
            at = (step.at_ns - origin) * 1e-9
            axes.plot([at, at], [-row - 0.45, -row + 0.45], color=STEP, lw=1.2, zorder=3)
    first, last = axes.get_xlim()
    for number, event in enumerate(events):
        at = (event.arrivals[0].ns - origin) * 1e-9
        # Of a station without a lane; text far outside of a figure cannot be drawn.
        if not first <= at <= last:
            continue
        axes.axvline(at, color=INK, linewidth=0.7, linestyle=(0, (2, 3)), zorder=0.6)
        axes.annotate(
            f"{number + 1}", (at, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2),
            textcoords="offset points", ha="center", va="bottom", fontsize=8.5, weight="bold",
        )  # fmt: skip


def drifts(stations: Iterable[StationFindings]) -> list[StationFindings]:
    """The stations whose clocks are known to run off their nominal rate, the furthest first."""
    off = [
        one
        for one in stations
        if one.runs and abs(one.longest.ppm(one.nominal_hz)) > 3.0 * one.longest.ppm_error(one.nominal_hz)
    ]
    return sorted(off, key=lambda one: -abs(one.longest.ppm(one.nominal_hz)))[:_CLOCKS]


def draw_below(
    figure: Any,
    width: float,
    height: float,
    near: Sequence[tuple[Burst, Sequence[Closeup]]],
    drifting: Sequence[StationFindings],
    colors: Mapping[str, str],
) -> None:
    """A row of panels: each event close up, then the clocks. Sizes of the figure are in inches."""
    panels = len(near) + bool(drifting)
    cell = (width - 0.5) / panels
    boxes = [
        ((0.35 + number * cell + 0.1) / width, 0.55 / height, (cell - 0.5) / width, 2.3 / height)
        for number in range(panels)
    ]
    for number, ((event, closeups), box) in enumerate(zip(near, boxes, strict=False)):
        _close(figure.add_axes(box), number, event, closeups, colors)
    if drifting:
        left, bottom, wide, tall = boxes[-1]
        _clocks(figure.add_axes((left + 0.4 / width, bottom, wide - 1.9 / width, tall)), drifting, colors)


def _close(axes: Any, number: int, event: Burst, closeups: Sequence[Closeup], colors: Mapping[str, str]) -> None:
    """One event as each station heard it, each scaled to itself, the first arrival at the top."""
    arrivals = event.arrivals[:_STATIONS_CLOSE]
    origin = arrivals[0].ns
    last = max((arrivals[-1].ns - origin) * 1e-6, 1.0)
    left, right = -0.25 * last, 1.45 * last
    by_name: dict[str, list[Closeup]] = {}
    for one in closeups:
        by_name.setdefault(one.station, []).append(one)
    for row, arrival in enumerate(arrivals):
        color = colors.get(arrival.station, INK)
        for closeup in by_name.get(arrival.station, []):
            after = (np.asarray(closeup.time_ns) - origin) * 1e-6
            values = np.asarray(closeup.values, dtype=np.float64)[(after >= left) & (after <= right)]
            if not len(values):
                continue
            reach = max(float(np.abs(values - np.median(values)).max()), np.finfo(float).tiny)
            shown = after[(after >= left) & (after <= right)]
            axes.plot(shown, (values - np.median(values)) / reach * 0.42 - row, color=color, lw=0.7)
        at = (arrival.ns - origin) * 1e-6
        axes.plot([at, at], [-row - 0.4, -row + 0.4], color=color, lw=1.6)
        late = clock_text(arrival.ns, 3) if row == 0 else f"+{at:.1f} ms"
        axes.text(1.0, -row + 0.2, f"{arrival.station}  {late}", transform=axes.get_yaxis_transform(), ha="right",
                  va="bottom", fontsize=6.5, color=color, weight="bold")  # fmt: skip
    axes.set_xlim(left, right)
    axes.set_ylim(-len(arrivals) + 0.4, 0.75)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("ms after the first arrival")
    more = len(event.arrivals) - len(arrivals)
    axes.set_title(
        f"Event {number + 1}" + (f", the first {len(arrivals)} of {len(event.arrivals)} stations" if more else "")
    )


def _clocks(axes: Any, stations: Sequence[StationFindings], colors: Mapping[str, str]) -> None:
    """How far each sample clock ran ahead of its nominal rate."""
    origin = min(station.longest.start_ns for station in stations)
    ends = []
    right = 0.0
    for station in stations:
        run = station.longest
        drift = np.asarray(run.drift_s)
        seconds = (run.start_ns - origin) * 1e-9 + drift[:, 0]
        axes.plot(seconds / 60.0, drift[:, 1] * 1e3, color=colors.get(station.signal, INK), lw=1.4)
        right = max(right, float(seconds[-1]) / 60.0)
        ends.append((float(drift[-1, 1]) * 1e3, station))
    low, high = axes.get_ylim()
    placed = -np.inf
    for value, station in sorted(ends, key=lambda end: end[0]):
        placed = max(value, placed + 0.1 * (high - low))
        ppm = f"{station.longest.ppm(station.nominal_hz):+.3g}".replace("-", "−")
        axes.annotate(
            f"{station.name}\n{ppm} ppm", (right, placed), xytext=(5, 0), textcoords="offset points", fontsize=7,
            color=colors.get(station.signal, INK), va="center", annotation_clip=False,
        )  # fmt: skip
    axes.set_xlim(0, right)
    axes.set_xlabel("minutes")
    axes.set_ylabel("ms ahead")
    axes.set_title("Sample clocks against their nominal rate")
