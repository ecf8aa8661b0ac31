"""The map of the demo's picture: the network to scale, its stations, and where it broke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..store.plots import FAINT, INK
from .findings import Burst
from .network import JUNCTIONS_M, PIPES, STATIONS, Place

__all__ = ["draw_map"]

_PIPE = "#c4cbd4"
_SCALE_M = 250.0
# Names stand where no pipe runs: offset in points from the junction, and their alignment.
_NAMED = {
    "reservoir": ((0, -16), "center"),
    "mill": ((-9, -11), "right"),
    "square": ((-9, 4), "right"),
    "school": ((10, 4), "left"),
    "bridge": ((-2, -16), "right"),
    "harbour": ((-4, -17), "right"),
}


def draw_map(axes: Any, bursts: Sequence[Burst], colors: Mapping[str, str]) -> None:
    """Draw pipes, stations in their colours, and all places that fit a burst.

    Parameters:
        axes: to draw in.
        bursts: as found; those without a place are left out.
        colors: of stations, by name.
    """
    for pipe in PIPES:
        (x0, y0), (x1, y1) = (JUNCTIONS_M[end] for end in pipe.ends)
        axes.plot([x0, x1], [y0, y1], color=_PIPE, lw=3.0, solid_capstyle="round", zorder=1)
    station_at = {station.junction: station.name for station in STATIONS}
    for name, (x, y) in JUNCTIONS_M.items():
        station = station_at.get(name)
        color = colors.get(station or "", FAINT)
        axes.plot(x, y, "s" if station else "o", ms=8 if station else 4, color=color, zorder=3)
        offset, side = _NAMED[name]
        axes.annotate(
            name if station is None else f"{station}, {name}",
            (x, y),
            xytext=offset,
            textcoords="offset points",
            ha=side,
            fontsize=8.5,
            color=color,
            weight="normal" if station is None else "bold",
        )
    for number, burst in enumerate(bursts):
        if burst.position is not None:
            _draw_burst(axes, number, burst)
    left, low = -620.0, -240.0
    axes.plot([left, left + _SCALE_M], [low, low], color=INK, lw=1.6, solid_capstyle="butt")
    axes.text(left + _SCALE_M / 2, low + 18.0, f"{_SCALE_M:.0f} m", ha="center", va="bottom", fontsize=8)
    axes.set_aspect("equal", anchor="NW")
    axes.set_xlim(-700.0, 1360.0)
    axes.set_ylim(-360.0, 560.0)
    axes.set_axis_off()
    axes.set_title("Where it broke, from the arrivals' differences")


def _draw_burst(axes: Any, number: int, burst: Burst) -> None:
    """The place that fits best, and the stretches that fit alike."""
    found = burst.position
    assert found is not None
    for stretch in found.region:
        (x0, y0), (x1, y1) = (_on_map(end) for end in stretch.ends)
        axes.plot([x0, x1], [y0, y1], color=INK, lw=3.0, solid_capstyle="butt", zorder=2)
    x, y = _on_map(found.place)
    (x0, y0), (x1, y1) = (JUNCTIONS_M[end] for end in found.place.pipe.ends)
    steep = abs(y1 - y0) > abs(x1 - x0)
    axes.plot(x, y, "X", ms=11, color=INK, mec="white", mew=1.2, zorder=4)
    axes.annotate(
        f"burst {number + 1}\n{found.place.at_m:.2f} ± {found.error_m:.2f} m\nfrom {found.place.pipe.ends[0]}",
        (x, y),
        # West of a pipe that runs north, above one that runs east.
        xytext=(-9, 1) if steep else (0, 11),
        textcoords="offset points",
        ha="right" if steep else "left",
        va="bottom",
        fontsize=8.5,
        weight="bold",
        linespacing=1.3,
    )


def _on_map(place: Place) -> tuple[float, float]:
    """A place as a point of the plan."""
    (x0, y0), (x1, y1) = (JUNCTIONS_M[end] for end in place.pipe.ends)
    share = place.at_m / place.pipe.length_m
    return x0 + share * (x1 - x0), y0 + share * (y1 - y0)
