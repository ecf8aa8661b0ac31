"""Looks into a store, by the public interface only, and says what it holds.

Runs and their true rates, outages and clock steps; bursts are found by `fronts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..store.plots import Trace, trace_of
from .figure import Closeup
from .findings import Burst, Findings, Outage, Run, StationFindings, Step

__all__ = ["closeups", "examine", "hour_views"]

_DRIFT_POINTS = 160


def examine(signals: Iterable[Any], label: Callable[[str], str] | None = None) -> Findings:
    """Runs, outages and clock steps of signals that know civil time.

    Parameters:
        signals: of an open store, none of them empty.
        label: name to show for a signal's; default: its first part, the station's.
    """
    return Findings([_station(signal, label or _station_name) for signal in signals])


def _station_name(name: str) -> str:
    return name.partition("/")[0]


def _station(signal: Any, label: Callable[[str], str]) -> StationFindings:
    nominal = float(signal.rate)
    found = StationFindings(
        name=label(signal.name),
        signal=signal.name,
        nominal_hz=nominal,
        unit=signal.unit or "counts",
    )
    lost = np.asarray(signal.gaps).reshape(-1, 2)
    gaps = np.column_stack((lost[:, 0], lost.sum(axis=1)))
    for run in signal.runs():
        if run.start_time is None or run.end_time is None:
            continue
        pieces = list(_pieces(run.start, run.end, gaps))
        found.runs.append(
            Run(
                start_ns=run.start_time.ns,
                end_ns=run.end_time.ns,
                samples=sum(end - start for start, end in pieces),
                rate_hz=run.rate,
                rate_error_hz=run.rate_uncertainty,
                drift_s=tuple(_drift(signal, pieces, nominal, run.rate)),
            )
        )
    found.outages = [
        Outage(gap.start_time.ns, gap.end_time.ns, gap.length) for gap in signal.gaps if gap.start_time is not None
    ]
    for before, after in pairwise(found.runs):
        if after.start_ns < before.end_ns:
            found.steps.append(Step(after.start_ns, (before.end_ns - after.start_ns) * 1e-9))
    return found


def _pieces(start: int, end: int, gaps: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Index ranges with samples between `start` and `end`; `gaps` are starts and ends, ascending (shape n, 2)."""
    near = slice(*np.searchsorted(gaps[:, 0], (start, end)).tolist())
    for first, last in gaps[near].tolist():
        if start < last and first < end:
            if start < first:
                yield start, first
            start = last
    if start < end:
        yield start, end


def _drift(
    signal: Any, pieces: list[tuple[int, int]], nominal: float, rate: float
) -> Iterator[tuple[float, float, float]]:
    """How far a sample clock runs ahead of its nominal rate: (s since start, s ahead, uncertainty in s).

    Across a gap nobody counted samples; there the run's own rate carries the clock on,
    and a point of NaN keeps the picture from drawing a line.
    """
    if not pieces:
        return
    total = sum(end - start for start, end in pieces)
    origin = signal.time_of(pieces[0][0])
    ahead = since = 0.0
    for number, (start, end) in enumerate(pieces):
        first = signal.time_of(start)
        began = float(first - origin)
        if number:
            ahead += (began - since) * (rate / nominal - 1.0)
            yield began, np.nan, 0.0
        count = max(2, _DRIFT_POINTS * (end - start) // total)
        for index in np.linspace(start, end - 1, count).astype(np.int64):
            time = signal.time_of(int(index))
            elapsed = float(time - first)
            gained = (int(index) - start) / nominal - elapsed
            yield began + elapsed, ahead + gained, (time.uncertainty_ns or 0.0) * 1e-9
        since = began + elapsed
        ahead += gained


def hour_views(signals: Iterable[Any], pixels: int = 2000) -> dict[str, Trace]:
    """Decimated views of everything recorded, by station."""
    return {signal.name.partition("/")[0]: trace_of(signal, None, pixels) for signal in signals}


def closeups(signals: Iterable[Any], burst: Burst, label: Callable[[str], str] | None = None) -> list[Closeup]:
    """Samples of each station from before a burst, or before its first arrival, to after its last."""
    from .. import Time, span

    first, last = burst.arrivals[0].ns, burst.arrivals[-1].ns
    reach = last - first
    began = min(first - 0.3 * reach, first + 1e9 * (burst.position.at_s if burst.position else 0.0) - 0.1 * reach)
    stretch = span(Time.from_ns(round(began)), Time.from_ns(round(last + 0.5 * reach)))
    found = []
    for signal in signals:
        for segment in signal[stretch].segments:
            times = signal.select(slice(segment.start, segment.end)).times().astype(np.int64)
            found.append(Closeup((label or _station_name)(signal.name), times, np.asarray(segment)))
    return found
