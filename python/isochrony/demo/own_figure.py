"""A picture of any collection of signals: one lane each, on a common time axis where they have one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..extras import require
from ..store.civil import knows_civil_time
from ..store.plots import COLORS, FAINT, INK, STYLE, Trace, new_figure, save_figure, time_axis, trace_of
from .figure import Closeup
from .find import closeups
from .findings import Burst, Findings
from .own_marks import draw_below, drifts, mark

__all__ = ["draw_all", "draw_lanes"]

# Lanes in one column, and columns.
_LANES = 24
_COLUMNS = 4
_LANE_INCHES = 0.3
_DAY_NS = 86_400_000_000_000


def draw_all(signals: Sequence[Any], title: str, out: Path, findings: Findings | None = None) -> None:
    """Draw signals as lanes, each scaled to itself; more than 96 are drawn in part and counted.

    Parameters:
        signals: of an open store.
        title: large, above.
        out: file to write.
        findings: gaps, clock steps and events to mark, and clocks to draw below; by signal names.
    """
    civil = [signal for signal in signals if knows_civil_time(signal)]
    chosen = civil or list(signals)
    note = f"{len(signals)} signals"
    if len(chosen) < len(signals):
        note += f", {len(chosen)} with civil time drawn"
    shown = chosen[: _LANES * _COLUMNS]
    if len(shown) < len(chosen):
        note += f", the first {len(shown)} drawn"
    traces = [(signal.name, trace_of(signal, None, pixels=1200)) for signal in shown]
    traces = [one for one in traces if len(one[1].time_ns)]
    if findings is None or not civil:
        draw_lanes(traces, title, note, bool(civil), out)
        return
    near = []
    for event in findings.bursts:
        heard = {arrival.station for arrival in event.arrivals}
        near.append((event, closeups([one for one in civil if one.name in heard], event, label=str)))
    draw_lanes(traces, title, note, True, out, findings, near)


def draw_lanes(
    traces: Sequence[tuple[str, Trace]],
    title: str,
    note: str,
    civil: bool,
    out: Path,
    findings: Findings | None = None,
    near: Sequence[tuple[Burst, Sequence[Closeup]]] = (),
) -> None:
    """Write the figure.

    Parameters:
        traces: name and trace of each lane, top to bottom, then column by column.
        title: large, above.
        note: small, below the title.
        civil: whether times are civil; else they count from each signal's own start.
        out: file to write.
        findings: what to mark in the lanes; only with civil times.
        near: events and the samples around them, drawn close up below the lanes.
    """
    matplotlib = require("matplotlib", "drawing recordings")
    found = {} if findings is None else {one.signal: one for one in findings.stations}
    events = [] if findings is None else findings.bursts
    drifting = drifts(found.values())
    columns = max(1, min(_COLUMNS, -(-len(traces) // _LANES)))
    lanes = -(-len(traces) // columns)
    with matplotlib.rc_context(STYLE):
        # Few lanes are drawn larger.
        lane_inches = max(_LANE_INCHES, min(1.0, 4.0 / lanes))
        below = 3.4 if near or drifting else 0.0
        height = 1.5 + max(lanes, 4) * lane_inches + below
        width = 12.0 if columns == 1 else 5.0 * columns
        figure = new_figure(width, height)
        left = 0.35 / width
        figure.text(left, 1 - 0.42 / height, title, fontsize=17, weight="bold")
        figure.text(left, 1 - 0.72 / height, _subtitle(traces, note, civil), fontsize=10, color=FAINT)
        origin, span = _extent(traces, civil)
        for column in range(columns):
            some = traces[column * lanes : (column + 1) * lanes]
            label = 1.35 / width
            cell = (1 - 0.3 / width) / columns
            bottom = (0.5 + below) / height
            axes = figure.add_axes(
                (column * cell + label, bottom, cell - label - 0.15 / width, 1 - (1.5 + below) / height)
            )
            _lanes(axes, some, lanes, origin, span)
            mark(axes, [name for name, _ in some], found, events, origin)
            if civil:
                time_axis(axes, origin, span, 7 if columns == 1 else 4)
            else:
                axes.set_xlabel("seconds from the start of each")
        if below:
            draw_below(figure, width, height, near, drifting, {name: _color(name, traces) for name, _ in traces})
        save_figure(figure, out)


def _extent(traces: Sequence[tuple[str, Trace]], civil: bool) -> tuple[int, float]:
    """Origin in ns (0: each its own) and span in s that hold all traces."""
    origin = min(int(trace.time_ns[0]) for _, trace in traces) if civil else 0
    ends = [int(trace.time_ns[-1]) - (origin or int(trace.time_ns[0])) for _, trace in traces]
    return origin, max(max(ends) * 1e-9, 1e-9)


def _subtitle(traces: Sequence[tuple[str, Trace]], note: str, civil: bool) -> str:
    if not civil:
        return note
    first = min(int(trace.time_ns[0]) for _, trace in traces)
    last = max(int(trace.time_ns[-1]) for _, trace in traces)
    days = [datetime.fromtimestamp(ns * 1e-9, tz=UTC).strftime("%-d %B %Y") for ns in (first, last)]
    # A recording that ends soon after midnight is of the day on which it began.
    return (days[0] if last - first < _DAY_NS else " to ".join(days)) + f", UTC   ·   {note}"


def _lanes(axes: Any, traces: Sequence[tuple[str, Trace]], lanes: int, origin: int, span: float) -> None:
    for row, (name, trace) in enumerate(traces):
        seconds = (trace.time_ns - (origin or int(trace.time_ns[0]))) * 1e-9
        low, high = np.nanmin(trace.low), np.nanmax(trace.high)
        middle = float(np.nanmedian(trace.mean))
        scale = 0.48 / max(high - middle, middle - low, np.finfo(float).tiny)
        # Signals of one station share a colour: names up to their last part.
        color = _color(name, traces)
        band = (trace.low - middle) * scale - row, (trace.high - middle) * scale - row
        axes.fill_between(seconds, *band, color=color, linewidth=0.3)
        axes.text(
            -0.01, -row, name, transform=axes.get_yaxis_transform(), ha="right", va="center",
            fontsize=6.5, color=INK,
        )  # fmt: skip
    axes.set_xlim(0, span)
    axes.set_ylim(-lanes + 0.4, 0.6)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")


def _color(name: str, traces: Sequence[tuple[str, Trace]]) -> str:
    return COLORS[_group(name, traces) % len(COLORS)]


def _group(name: str, traces: Sequence[tuple[str, Trace]]) -> int:
    groups = list(dict.fromkeys(one.rpartition("/")[0] or one for one, _ in traces))
    return groups.index(name.rpartition("/")[0] or name)
