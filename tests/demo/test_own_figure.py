"""The picture of a collection of signals of the user."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from isochrony.demo.findings import Arrival, Burst, Findings
from isochrony.demo.own_figure import draw_lanes
from isochrony.store.plots import Trace, new_figure, time_axis

pytest.importorskip("matplotlib")

YEAR_NS = 365 * 86_400_000_000_000


def trace(start_ns: int, length_ns: int) -> Trace:
    time_ns = start_ns + np.arange(100) * (length_ns // 100)
    values = np.sin(np.arange(100.0))
    return Trace(time_ns, values - 1, values + 1, values)


def event(ns: int) -> Burst:
    return Burst((Arrival("far", ns, 1000.0, 1.0),))


def test_events_decades_away_from_what_is_drawn_are_left_out(tmp_path: Path) -> None:
    start = 40 * YEAR_NS
    findings = Findings([], [event(start + 1000), event(start + 20 * YEAR_NS), event(start - 30 * YEAR_NS)])
    out = tmp_path / "own.png"
    draw_lanes([("a", trace(start, 3_600_000_000_000))], "An hour", "1 signal", True, out, findings)
    assert out.read_bytes()[:4] == b"\x89PNG"


def test_recordings_of_decades_have_years_on_their_axis() -> None:
    figure = new_figure(5, 2)
    axes = figure.add_axes((0.1, 0.2, 0.8, 0.7))
    origin = int(datetime(1973, 3, 3, tzinfo=UTC).timestamp()) * 1_000_000_000
    span = 50 * 365 * 86_400.0
    axes.set_xlim(0, span)
    time_axis(axes, origin, span)
    figure.canvas.draw()
    labels = [label.get_text() for label in axes.get_xticklabels() if label.get_text()]
    assert 3 <= len(labels) <= 9
    years = [int(label.split()[-1]) for label in labels]
    assert years == sorted(set(years)), labels
    # Ticks begin before the axis does.
    assert 1968 <= years[0] < years[-1] <= 2032
