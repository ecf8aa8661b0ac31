"""Draws the demo's figure: one hour of every station, a map of the bursts and their arrivals, and clock drift.

Uses only what was found in the store, not the parameters of the generator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..extras import require
from ..output.progress import count_text
from ..store.plots import (
    COLORS,
    FAINT,
    GAP,
    INK,
    STEP,
    STYLE,
    Trace,
    clock_text,
    draw_trace,
    new_figure,
    save_figure,
    time_axis,
)
from .findings import Burst, Findings, Run, StationFindings
from .map import draw_map

__all__ = ["Closeup", "draw"]


@dataclass(frozen=True, slots=True)
class Closeup:
    """Samples of one station around a burst: civil times in ns and values."""

    station: str
    time_ns: Any
    values: Any


def draw(
    findings: Findings,
    coarse: Findings,
    hour: Mapping[str, Trace],
    closeups: Sequence[Sequence[Closeup]],
    out: Path,
) -> None:
    """Write the figure.

    Parameters:
        findings: of the microsecond recordings.
        coarse: of the same recordings stamped to the second.
        hour: decimated view of each station by its name.
        closeups: samples around each burst of `findings`, in the same order.
        out: file to write.
    """
    matplotlib = require("matplotlib", "drawing the demo's figure")
    colors = {one.name: COLORS[i % len(COLORS)] for i, one in enumerate(findings.stations)}
    with matplotlib.rc_context(STYLE):
        figure = new_figure(13.0, 11.6)
        origin = min(int(trace.time_ns[0]) for trace in hour.values())
        day = datetime.fromtimestamp(origin * 1e-9, tz=UTC).strftime("%-d %B %Y, UTC")
        figure.text(0.085, 0.969, "One hour of a water network", fontsize=17, weight="bold")
        figure.text(0.085, 0.949, _subtitle(findings, day), fontsize=10, color=FAINT)
        top = figure.add_axes((0.085, 0.575, 0.865, 0.352))
        _hour(top, findings, hour, colors, origin)
        draw_map(figure.add_axes((0.03, 0.245, 0.385, 0.265)), findings.bursts, colors)
        width = 0.25
        for number, (burst, closeup) in enumerate(zip(findings.bursts[:2], closeups[:2], strict=False)):
            axes = figure.add_axes((0.455 + number * (width + 0.028), 0.245, width, 0.265))
            _burst(axes, number, burst, closeup, colors)
        _drift(figure.add_axes((0.085, 0.052, 0.36, 0.115)), findings, colors)
        _wander(figure.add_axes((0.56, 0.052, 0.36, 0.115)), findings, coarse, colors)
        save_figure(figure, out)


def _subtitle(findings: Findings, day: str) -> str:
    count = sum(one.samples for one in findings.stations)
    outages = sum(len(one.outages) for one in findings.stations)
    steps = sum(len(one.steps) for one in findings.stations)
    return (
        f"{day}   ·   {len(findings.stations)} stations, {count / 1e6:.1f} million samples   ·   "
        f"{count_text(len(findings.bursts), 'burst')}, {count_text(outages, 'outage')}, "
        f"{count_text(steps, 'clock step')}"
    )


def _hour(
    axes: Any,
    findings: Findings,
    hour: Mapping[str, Trace],
    colors: Mapping[str, str],
    origin: int,
) -> None:
    """Stations above one another, each about its own median, on one scale."""
    levels = {name: float(np.nanmedian(trace.mean)) for name, trace in hour.items()}
    reach = [float(np.nanpercentile(trace.high, 99.5) - np.nanpercentile(trace.low, 0.5)) for trace in hour.values()]
    lane = 1.02 * max(reach)
    end = max(int(trace.time_ns[-1]) for trace in hour.values())
    span = (end - origin) * 1e-9
    for number, station in enumerate(findings.stations):
        trace = hour[station.name]
        offset = -number * lane - levels[station.name]
        shifted = Trace(trace.time_ns, trace.low + offset, trace.high + offset, trace.mean + offset)
        middle = -number * lane
        for outage in station.outages:
            edges = [(outage.start_ns - origin) * 1e-9, (outage.end_ns - origin) * 1e-9]
            axes.fill_between(edges, middle - 0.45 * lane, middle + 0.45 * lane, color=GAP, linewidth=0)
            axes.text(
                sum(edges) / 2,
                middle,
                f"no data\n{(outage.end_ns - outage.start_ns) * 1e-9:.1f} s",
                ha="center",
                va="center",
                fontsize=8,
                color="#57606a",
            )
        draw_trace(axes, shifted, origin, colors[station.name])
        for step in station.steps:
            at = (step.at_ns - origin) * 1e-9
            axes.plot([at, at], [middle - 0.42 * lane, middle + 0.42 * lane], color=STEP, lw=1.2)
            axes.annotate(
                f"clock stepped back {step.back_by_s:.2f} s",
                (at, middle + 0.36 * lane),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color=STEP,
            )
        axes.text(
            -0.006 * span,
            middle,
            f"{station.name}\n{levels[station.name]:.0f} {station.unit}",
            ha="right",
            va="center",
            fontsize=8.5,
            color=colors[station.name],
            weight="bold",
        )
    for number, burst in enumerate(findings.bursts):
        at = (burst.arrivals[0].ns - origin) * 1e-9
        axes.axvline(at, color=INK, linewidth=0.7, linestyle=(0, (2, 3)), zorder=0.6)
        axes.annotate(
            f"burst {number + 1}",
            (at, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(4, -3),
            textcoords="offset points",
            va="top",
            fontsize=8.5,
            weight="bold",
        )
    # A little to the left, so that a recording from just after the hour keeps its label.
    axes.set_xlim(-0.002 * span, span)
    axes.set_ylim(-(len(findings.stations) - 0.28) * lane, 0.66 * lane)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    time_axis(axes, origin, span)
    # The scale that all lanes share.
    axes.plot([span * 1.008] * 2, [-50, 50], color=INK, lw=1.6, clip_on=False)
    axes.text(
        span * 1.013,
        0,
        f"100\n{findings.stations[0].unit}",
        ha="left",
        va="center",
        fontsize=8,
    )


def _burst(axes: Any, number: int, burst: Burst, closeups: Sequence[Closeup], colors: Mapping[str, str]) -> None:
    """One burst at each station, earliest arrival at the top.

    Time starts at the burst if it was located, else at the first arrival.
    """
    found = burst.position
    first, last = burst.arrivals[0].ns, burst.arrivals[-1].ns
    start = first if found is None else first + found.at_s * 1e9
    origin = round(start)
    reach = (last - start) * 1e-6
    left, right = -0.06 * reach, 1.25 * reach
    by_name = {one.station: one for one in closeups}
    lane = 1.5 * max(arrival.drop for arrival in burst.arrivals)
    for row, arrival in enumerate(burst.arrivals):
        closeup = by_name[arrival.station]
        color = colors[arrival.station]
        after = (np.asarray(closeup.time_ns) - origin) * 1e-6
        at = (arrival.ns - start) * 1e-6
        shown = (after >= left) & (after <= right)
        baseline = float(np.median(np.asarray(closeup.values, dtype=np.float64)[after < at][-400:]))
        axes.plot(after[shown], closeup.values[shown] - baseline - row * lane, color=color, lw=0.8)
        axes.plot(at, -row * lane, "o", ms=5, mfc="white", mec=color, mew=1.6, zorder=5)
        axes.annotate(
            f"{arrival.station}  {at:.2f} ms",
            (at, -row * lane),
            # Late arrivals are named to their left, so that no name leaves the panel.
            xytext=(7, 6) if at < 0.5 * reach else (-7, 6),
            ha="left" if at < 0.5 * reach else "right",
            textcoords="offset points",
            fontsize=8,
            color=color,
            weight="bold",
        )
    if found is not None:
        axes.axvline(0.0, color=INK, linewidth=0.7, linestyle=(0, (2, 3)), zorder=0.6)
    axes.set_xlim(left, right)
    axes.set_ylim(-(len(burst.arrivals) - 0.25) * lane, 0.45 * lane)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    zero = "the first arrival" if found is None else clock_text(start, 6)
    axes.set_xlabel(f"ms after {zero}")
    axes.set_title(f"Burst {number + 1} reaches the stations")


def _drift(axes: Any, findings: Findings, colors: Mapping[str, str]) -> None:
    """How far each sample clock ran ahead of its nominal rate."""
    ends: list[tuple[float, str, str]] = []
    right = 1.0
    for station in findings.stations:
        run = station.longest
        drift = np.asarray(run.drift_s)
        minutes = _minutes(findings, run)
        axes.plot(minutes, drift[:, 1] * 1e3, color=colors[station.name], lw=1.4)
        right = max(right, float(minutes[-1]))
        text = f"{station.name}  {_signed(run.ppm(station.nominal_hz), 3)} ppm"
        ends.append((float(drift[-1, 1]) * 1e3, text, colors[station.name]))
    low, high = axes.get_ylim()
    nearest = 0.15 * (high - low)
    placed = -np.inf
    for value, text, color in sorted(ends):
        placed = max(value, placed + nearest)
        axes.annotate(
            text,
            (right, placed),
            xytext=(5, 0),
            textcoords="offset points",
            fontsize=8,
            color=color,
            va="center",
            annotation_clip=False,
        )
    axes.set_xlim(0, right * 1.45)
    axes.set_xticks(np.arange(0, right + 1, 20))
    axes.set_xlabel("minutes", loc="left")
    axes.set_ylabel("ms ahead")
    axes.set_title("Sample clocks against 2 kHz")


def _minutes(findings: Findings, run: Run) -> Any:
    """Times of a run's drift in minutes after the first sample of all stations."""
    origin = min(one.start_ns for station in findings.stations for one in station.runs)
    return ((run.start_ns - origin) * 1e-9 + np.asarray(run.drift_s)[:, 0]) / 60.0


def _wander(axes: Any, findings: Findings, coarse: Findings, colors: Mapping[str, str]) -> None:
    """Residual of a straight-line fit to the drift, with the uncertainty that the store reports."""
    right = 1.0
    for station in findings.stations:
        drift = np.asarray(station.longest.drift_s)
        minutes = _minutes(findings, station.longest)
        right = max(right, float(minutes[-1]))
        known = np.isfinite(drift[:, 1])
        line = np.polynomial.Polynomial.fit(drift[known, 0], drift[known, 1], 1)
        residual = (drift[:, 1] - line(drift[:, 0])) * 1e6
        error = drift[:, 2] * 1e6
        axes.fill_between(
            minutes, residual - error, residual + error, color=colors[station.name], alpha=0.25, linewidth=0
        )
        axes.plot(minutes, residual, color=colors[station.name], lw=1.1)
    axes.set_xlim(0, right * 1.45)
    axes.set_xticks(np.arange(0, right + 1, 20))
    axes.set_ylabel("µs")
    axes.set_xlabel("minutes", loc="left")
    axes.set_title("Residual of a straight-line fit")
    if coarse.stations:
        axes.text(0.72, 0.5, _coarse_text(coarse.stations), transform=axes.transAxes, fontsize=8,
                  va="center", color="#57606a", linespacing=1.4)  # fmt: skip


def _signed(value: float, decimals: int) -> str:
    """A number with its sign, with a true minus."""
    return f"{value:+.{decimals}f}".replace("-", "−")


def _coarse_text(stations: Sequence[StationFindings]) -> str:
    """Rates from stamps that say only the second."""
    lines = ["stamps to the second:"]
    for one in stations:
        run = one.longest
        lines.append(f"{one.name}  {_signed(run.ppm(one.nominal_hz), 0)} ± {run.ppm_error(one.nominal_hz):.0f} ppm")
    return "\n".join(lines)
