"""Finds the pressure fronts of bursts by a plan of operators, and where each burst was.

`falling` is the plan, for every station alike: windows of a quarter of a second, overlapping;
the one Haar wavelet that is as long as a window, which is the fall of the level from its first
half to its second; a detector that knows the noise of that number at this station; and in
windows that stand out the steepest fall of all samples, trimmed as a peak. An hour of a station
gives a few rows; `picks` then times each front to a fraction of a sample in the half second
around it, which is all that Python ever sees.

Arrivals become civil times by each station's own clock, with its uncertainty: the timebase that
stations with clocks of their own have in common. Their differences say where the burst was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..errors import UsageError
from .findings import Arrival, Burst
from .network import STATIONS
from .picks import AROUND_S, pick_onset
from .position import Heard, Position, locate

__all__ = ["falling", "find_bursts"]

# Windows of a quarter of a second at 2 kHz; a front lies near the middle of one of them.
_LEVELS = 9
_HOP = 2 ** (_LEVELS - 2)
# Falls of the level that are no fronts stay below half of this; fronts of the demo reach a hundred.
_DEVIATIONS = 15.0
_MEMORY = 200
# The Haar wavelet of eight samples at every sample: its least value is the steepest fall.
_STEEP = 4 * [0.25] + 4 * [-0.25]
# Falls nearer to each other than this are one front.
_APART_S = 0.25
# A front crosses the network within this time; a burst is heard by so many stations.
_CROSSING_S = 5.0
_HEARD_BY = 3


def falling(pressure: Any) -> Any:
    """The plan: a row for each steepest fall, "at" its last sample and "peak" (below 0) its depth.

    Parameters:
        pressure: a plan of samples of one station.
    """
    window = 2**_LEVELS
    falls = pressure.rewindow(window, _HOP).haar(_LEVELS, output="details")
    stands_out = falls.cfar(deviations=_DEVIATIONS, memory=_MEMORY)
    steep = pressure.fir(_STEEP).rewindow(window, _HOP)
    fronts = steep.filter(lambda _, level: level >= 1, stands_out).trim_peak("min")
    # Windows overlap, so that most fronts are told several times.
    return fronts.group_by("at").agg(peak=("peak", "min"))


def find_bursts(signals: Iterable[Any]) -> list[Burst]:
    """Falls that several stations heard within the time a front takes to cross, and where they came from."""
    from .. import collect, scan

    signals = list(signals)
    tables = collect(*(falling(scan(signal)) for signal in signals)) if signals else ()
    found = (_arrivals(signal, table) for signal, table in zip(signals, tables, strict=True))
    arrivals = sorted((one for some in found for one in some), key=lambda one: one.ns)
    bursts = []
    while arrivals:
        near = [one for one in arrivals if one.ns - arrivals[0].ns < _CROSSING_S * 1e9]
        # A station counts once, with what it heard first.
        first = {one.station: one for one in reversed(near)}
        if len(first) >= _HEARD_BY:
            heard = tuple(sorted(first.values(), key=lambda one: one.ns))
            bursts.append(Burst(heard, _position(heard)))
        arrivals = arrivals[len(near) :]
    return bursts


def _arrivals(signal: Any, table: Any) -> Iterator[Arrival]:
    """Every front of a station, timed."""
    rate = float(signal.rate)
    around = round(AROUND_S * rate)
    order = np.argsort(np.asarray(table["peak"]))
    taken: list[int] = []
    # The deepest first: a window that holds only the edge of a front gives a shallower one beside it.
    for at in np.asarray(table["at"], dtype=np.int64)[order].tolist():
        if any(abs(at - other) < _APART_S * rate for other in taken):
            continue
        taken.append(at)
        about = at - len(_STEEP) // 2
        for piece in signal[max(about - around, 0) : about + around].segments:
            if piece.start <= about < piece.end:
                onset = pick_onset(np.asarray(piece), rate, about - piece.start)
                if onset is not None:
                    yield _arrival(signal, piece.start + onset.index, onset.error / rate * 1e9, onset.drop)


def _arrival(signal: Any, index: float, error_ns: float, drop: float) -> Arrival:
    """An onset at a fractional index in civil time; between two samples along their line."""
    whole = int(np.floor(index))
    before, after = signal.time_of(whole), signal.time_of(whole + 1)
    clock_ns = float(before.uncertainty_ns or 0.0)
    return Arrival(
        station=signal.name.partition("/")[0],
        # A double holds ns since 1970 only to 256 ns; that is far below the onset's own error.
        ns=float(before.ns + (index - whole) * (after.ns - before.ns)),
        error_ns=float(np.hypot(error_ns, clock_ns)),
        drop=drop,
        clock_ns=clock_ns,
    )


def _position(arrivals: tuple[Arrival, ...]) -> Position | None:
    """Where a front came from, if its stations are the network's."""
    junctions = {station.name: station.junction for station in STATIONS}
    zero = arrivals[0].ns
    try:
        return locate([Heard(junctions[one.station], (one.ns - zero) * 1e-9, one.error_ns * 1e-9) for one in arrivals])
    except (KeyError, UsageError):
        return None
