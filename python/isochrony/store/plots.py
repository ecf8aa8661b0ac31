"""Pictures of signals: what was recorded, what is missing, and where clocks stepped.

A plot reads a decimated view, so it costs the same for an hour and for a year. The
band is each pixel's minimum to maximum, so no spike hides between pixels; gaps are
shaded and left empty, never joined by a line.

Matplotlib is optional (``pip install 'isochrony[plot]'``) and never needs a display:
figures are drawn by its Agg canvas unless you pass your own axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from ..extras import require
from ..output.files import writing
from .civil import knows_civil_time

__all__ = ["COLORS", "STYLE", "Trace", "clock_text", "draw_trace", "new_figure", "plot", "trace_of"]

# Colour-blind safe, of similar lightness, readable on white and in grey.
COLORS = ("#2f6db5", "#c2571a", "#2a8a6a", "#8a4fa3", "#b03a5b", "#6b7a1f")
INK = "#22272e"
FAINT = "#8b949e"
GAP = "#d8dde3"
STEP = "#b3261e"

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": "#c5ccd3",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlepad": 8.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#edf0f3",
    "grid.linewidth": 0.8,
    "xtick.color": "#57606a",
    "ytick.color": "#57606a",
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}

Float = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trace:
    """A signal at the resolution of a picture.

    Attributes:
        time_ns: start of each bucket, ns since 1970, ascending (shape n, int64).
        low: smallest value in each bucket, NaN where there is none (shape n).
        high: largest value in each bucket, NaN where there is none (shape n).
        mean: mean of each bucket, NaN where there is none (shape n).
    """

    time_ns: npt.NDArray[np.int64]
    low: Float
    high: Float
    mean: Float


def new_figure(width: float, height: float) -> Any:
    """A figure of that size in inches, in our style, without touching pyplot's state."""
    matplotlib = require("matplotlib", "plotting")
    figures = require("matplotlib.figure", "plotting")
    with matplotlib.rc_context(STYLE):
        return figures.Figure(figsize=(width, height), dpi=150)


def save_figure(figure: Any, out: str | Path, *, replace: bool = True) -> None:
    """Write a figure to a file, whole or not at all.

    Parameters:
        figure: of matplotlib.
        out: file to write (PNG, SVG or PDF by its suffix).
        replace: a file that exists is replaced.

    Raises:
        UsageError: it exists and `replace` is false, or lies inside a store.
        OSError: it cannot be written, such as on a full disk; what was there stays.
    """
    matplotlib = require("matplotlib", "plotting")
    path = Path(out)
    with matplotlib.rc_context(STYLE), writing(path, replace=replace) as file:
        figure.savefig(file, format=path.suffix.removeprefix(".").lower() or None)


def clock_text(ns: float, precision: int = 0) -> str:
    """Time of day of a civil time in ns, with that many decimals of the second."""
    whole, rest = divmod(round(ns), 1_000_000_000)
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=whole)).strftime("%H:%M:%S")
    return f"{text}.{rest:09d}"[: 9 + precision] if precision else text


def draw_trace(axes: Any, trace: Trace, origin_ns: int, color: str) -> None:
    """Draw a trace as its band of extremes and a line of means, in seconds after `origin_ns`."""
    seconds = (trace.time_ns - origin_ns) * 1e-9
    axes.fill_between(seconds, trace.low, trace.high, color=color, alpha=0.28, linewidth=0)
    axes.plot(seconds, trace.mean, color=color, linewidth=0.8)


def draw_gaps(axes: Any, gaps_ns: Sequence[tuple[int, int]], origin_ns: int) -> None:
    """Shade stretches of civil time (start, end in ns) in which nothing was recorded."""
    for start, end in gaps_ns:
        axes.axvspan((start - origin_ns) * 1e-9, (end - origin_ns) * 1e-9, color=GAP, linewidth=0, zorder=0.5)


def time_axis(axes: Any, origin_ns: int, span_s: float, labels: int = 7) -> None:
    """Label an axis that counts seconds after `origin_ns` with about so many times of day."""
    ticker = require("matplotlib.ticker", "plotting")
    step = next((s for s in _STEPS if span_s / s <= labels), 86_400.0 * max(span_s // 600_000, 1))
    first = -(origin_ns * 1e-9 % step)
    axes.xaxis.set_major_locator(ticker.FixedLocator(np.arange(first, span_s + step, step)))
    digits = max(0, -int(np.floor(np.log10(step)))) if step < 1 else 0
    form = "%d %b" if step >= 86_400 else None
    if span_s > _YEAR_S:
        form = "%b %Y"

    def label(seconds: float, _: int) -> str:
        ns = origin_ns + seconds * 1e9
        if form:
            return datetime.fromtimestamp(ns * 1e-9, tz=UTC).strftime(form)
        text = clock_text(ns, digits)
        return text if step < 60 else text[:5]

    axes.xaxis.set_major_formatter(ticker.FuncFormatter(label))


_YEAR_S = 366 * 86_400.0
_STEPS = tuple(
    base * scale
    for scale, bases in (
        (0.001, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1.0, (1, 2, 5, 10, 20, 30)),
        (60.0, (1, 2, 5, 10, 20, 30)),
        (3600.0, (1, 2, 3, 6, 12)),
        (86_400.0, (1, 2, 7, 14, 30, 91, 182, 365)),
    )
    for base in bases
)


def trace_of(signal: Any, key: Any = None, pixels: int = 2000) -> Trace:
    """The decimated view of a range of a signal as a `Trace`, in its unit.

    A point of NaN stands wherever a gap or a clock step parts two columns, so that no line joins them.

    Parameters:
        signal: from an open store.
        key: slice, span, run or selection; None: all of it.
        pixels: width to decimate to, above 0.
    """
    view = signal.view(key, pixels=pixels)
    start = np.asarray(view.time_ns, dtype=np.int64)
    end = np.asarray(view.end_ns, dtype=np.int64)
    run = np.asarray(view.run)
    slip = np.maximum(1e9 / float(signal.rate), 0.5 * (end - start)[:-1])
    parted = (np.abs(start[1:] - end[:-1]) > slip) | (run[1:] != run[:-1])
    where = np.flatnonzero(parted) + 1
    return Trace(
        time_ns=np.insert(start, where, end[where - 1]),
        low=np.insert(np.asarray(view.min, dtype=np.float64), where, np.nan),
        high=np.insert(np.asarray(view.max, dtype=np.float64), where, np.nan),
        mean=np.insert(np.asarray(view.mean, dtype=np.float64), where, np.nan),
    )


def plot(
    signal: Any,
    *stretch: Any,
    out: str | Path | None = None,
    axes: Any = None,
    pixels: int = 2000,
) -> Any:
    """Draw a range of a signal with its gaps.

    Parameters:
        signal: from an open store.
        stretch: a span, slice, run or selection, or two civil times or indices; none: all.
        out: file to write (PNG, SVG or PDF by its suffix); default: none.
        axes: matplotlib axes to draw into; default: a new figure.
        pixels: width to decimate to, above 0.

    Returns:
        The matplotlib figure.

    Raises:
        UsageError: the stretch holds no samples.
        MissingExtraError: matplotlib is not installed.
    """
    matplotlib = require("matplotlib", "plotting")
    key = _key(stretch)
    trace = trace_of(signal, key, pixels)
    if len(trace.time_ns) == 0:
        raise UsageError(f"{signal.name} has no samples in the range to plot; choose another range")
    civil = knows_civil_time(signal)
    origin = int(trace.time_ns[0])
    length = max(float(trace.time_ns[-1] - origin) * 1e-9, 1.0 / float(signal.rate))
    with matplotlib.rc_context(STYLE):
        figure = axes.figure if axes is not None else new_figure(10, 3.2)
        if axes is None:
            axes = figure.add_axes((0.08, 0.17, 0.9, 0.68))
        if civil:
            gaps = [(gap.start_time.ns, gap.end_time.ns) for gap in signal.select(key).gaps]
            draw_gaps(axes, gaps, origin)
            day = datetime.fromtimestamp(origin * 1e-9, tz=UTC).strftime("%Y-%m-%d")
            axes.set_title(f"{signal.name}   {day} UTC")
            time_axis(axes, origin, length)
        else:
            axes.set_title(signal.name)
            axes.set_xlabel("seconds")
        draw_trace(axes, trace, origin, COLORS[0])
        axes.set_xlim(0, length)
        axes.set_ylabel(signal.unit or "counts")
        if out is not None:
            save_figure(figure, out)
    return figure


def _key(stretch: tuple[Any, ...]) -> Any:
    """What `Signal.select` takes, from nothing, one stretch, or its two ends."""
    from .. import span

    if len(stretch) > 2:
        raise UsageError(
            f"got {len(stretch)} values where a range is expected; give one (a slice, a time or a period) or two "
            f"(start and end)"
        )
    if len(stretch) < 2:
        return stretch[0] if stretch else None
    if all(isinstance(end, int | np.integer) for end in stretch):
        return slice(*stretch)
    return span(*stretch)
