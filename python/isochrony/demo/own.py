"""``isochrony demo --from DIR``: the same job on the user's own recordings."""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..cli.describe import describe
from ..cli.exits import Exit
from ..cli.message_options import with_options
from ..cli.summary import best_rate_text, print_refused
from ..cli.tables import render, short_time
from ..errors import UsageError
from ..importers import find_sources
from ..importers.destination import open_destination
from ..importers.files import import_recordings
from ..output.progress import ImportProgress, bytes_text, duration_text
from ..store.civil import knows_civil_time
from ..store.plots import clock_text
from .arrivals import find_events
from .find import examine
from .findings import Burst, Findings
from .report import heading, print_missing, print_rates

__all__ = ["Recordings", "phase_groups", "run_own", "time_offsets"]

_ROWS_SHOWN = 24


@dataclass(frozen=True, slots=True)
class Recordings:
    """What the files do not say themselves, in the words of `isochrony import`."""

    layout: str | None = None
    dtype: str | None = None
    rate: Fraction | None = None
    preset: str | None = None
    unit: str | None = None

    @property
    def raw(self) -> bool:
        """Whether the files are headerless samples."""
        return any(one is not None for one in (self.layout, self.dtype, self.preset))


def run_own(source: Path, folder: Path, how: Recordings | None = None) -> int:
    """Import whatever is importable below `source`, say what happened in it, and draw it.

    Parameters:
        source: folder or file of recordings.
        folder: to write ``own.iso`` and ``own.png`` into.
        how: layout, dtype and rate of headerless samples, and the unit of any.

    Returns:
        0, or 1 where files were refused.

    Raises:
        UsageError: nothing importable, or `folder` lies inside `source` or holds
            something else than an earlier run's results.
    """
    started = time.monotonic()
    how = how or Recordings()
    _say_what_is_there(source, find_sources(source), how)
    made = not folder.exists()
    store_path = _prepare(source, folder)
    from .. import open as open_

    try:
        # Where nothing was imported, no store is left.
        with open_destination(store_path) as writer, ImportProgress("importing") as progress:
            summary = _import(writer, source, how, progress)
            found = len(writer)
    finally:
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()
    took = time.monotonic() - started
    print(
        f"Imported {summary['files']} files, {bytes_text(summary['bytes'])} into {store_path} in {duration_text(took)}"
    )
    if summary["problems"]:
        heading("Refused")
        print_refused(with_options(summary)["problems"], sys.stdout)
    if not found:
        raise UsageError(
            f"no file below {source} could be imported; if the files are samples without headers, give "
            "--layout TEMPLATE --dtype '<i2' --rate HZ, or a --preset"
        )
    store = open_(store_path)
    signals = sorted(store.values(), key=lambda signal: signal.name)
    described = [describe(signal) for signal in signals]
    _print_signals(described)
    timed = [signal for signal in signals if signal.sample_count and knows_civil_time(signal)]
    findings = examine(timed, label=str)
    heading("Gaps and clock steps")
    _say_untimed(len(signals) - len(timed))
    print_missing(findings, _ROWS_SHOWN)
    if timed:
        heading("True sample rates")
        _print_rates(findings)
        heading("Between the stations")
        _print_phases(timed)
        findings.bursts = _compare(timed)
    _draw(signals, findings, source, folder)
    _print_next(store_path, signals[0].name)
    return Exit.PARTIAL if summary["problems"] else Exit.OK


def _import(writer: Any, source: Path, how: Recordings, progress: ImportProgress) -> Any:
    given = {name: getattr(how, name) for name in ("layout", "preset", "dtype", "rate", "unit")}
    if not how.raw:
        given["layout"] = None
    elif how.preset is None and None in (how.layout, how.dtype, how.rate):
        raise UsageError(
            "raw recordings have no header that states their format; give --layout, --dtype and --rate, or a --preset"
        )
    return import_recordings(writer, source, progress, given)


def _say_what_is_there(source: Path, sources: Sequence[Any], how: Recordings) -> None:
    if how.raw:
        print(f"Found below {source}: {len(sources)} files ({bytes_text(sum(one.size for one in sources))})")
        return
    kinds = Counter(one.format.name if one.format else "unrecognised" for one in sources)
    size = sum(one.size for one in sources)
    parts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    print(f"Found below {source}: {parts or 'no files'} ({bytes_text(size)})")


def _prepare(source: Path, folder: Path) -> Path:
    """The store to make; the one of an earlier run on the same folder is replaced."""
    if folder.resolve().is_relative_to(source.resolve()) and source.is_dir():
        raise UsageError(f"{folder} lies inside {source}; write elsewhere with --dir OUT")
    store_path = folder / "own.iso"
    if store_path.exists():
        if not (store_path / ".isochrony").is_dir():
            raise UsageError(f"{store_path} exists and is not a store; name another folder with --dir")
        shutil.rmtree(store_path)
    folder.mkdir(parents=True, exist_ok=True)
    return store_path


def _print_signals(described: Sequence[dict[str, Any]]) -> None:
    heading(f"{len(described)} signals")
    rows = [
        (
            one["name"],
            one["dtype"],
            f"{one['samples']:,}",
            one["gaps"],
            len(one["runs"]),
            best_rate_text(one),
            short_time(one["start"]) or "no civil time",
        )
        for one in described[:_ROWS_SHOWN]
    ]
    print(render(("signal", "dtype", "samples", "gaps", "runs", "rate (Hz)", "start"), rows, "  "))
    if len(described) > _ROWS_SHOWN:
        print(f"  … and {len(described) - _ROWS_SHOWN} more: isochrony info lists all")


def phase_groups(signals: Sequence[Any]) -> dict[tuple[float, int], list[str]]:
    """Signals by nominal rate and by where their samples lie within a sample period.

    Signals of one group can be lined up by index; between groups that is off by the
    difference of their phases, and only conversion of time lines them up.

    Returns:
        Names by (rate in Hz, phase in us), signals without civil time left out.
    """
    groups: dict[tuple[float, int], list[str]] = defaultdict(list)
    for signal in signals:
        if not signal.sample_count or not knows_civil_time(signal):
            continue
        rate = float(signal.rate)
        period_ns = 1e9 / rate
        phase_us = round(math.fmod(signal.time_of(signal.start_index).ns, period_ns) * 1e-3)
        # The last microsecond of a period and the first are neighbours.
        groups[rate, phase_us % max(round(period_ns * 1e-3), 1)].append(signal.name)
    return dict(groups)


def _say_untimed(count: int) -> None:
    if count:
        print(f"  {count} signals know no civil time: their clocks can be neither checked nor compared")


def _print_rates(findings: Findings) -> None:
    """Rates of all runs, or one line per nominal rate where all of many are what they should be."""
    runs = [(one, run) for one in findings.stations for run in one.runs]
    as_named = all(abs(run.ppm(one.nominal_hz)) <= run.ppm_error(one.nominal_hz) for one, run in runs)
    if len(runs) <= _ROWS_SHOWN or not as_named:
        print_rates(findings, _ROWS_SHOWN)
        return
    for nominal in sorted({one.nominal_hz for one, _ in runs}):
        errors = [run.ppm_error(nominal) for one, run in runs if one.nominal_hz == nominal]
        print(
            f"  {len(errors)} runs at {nominal:g} Hz: each is at its nominal rate within its uncertainty "
            f"(± {min(errors):.3g} to {max(errors):.3g} ppm; longer recordings tell more)"
        )


def _print_phases(signals: Sequence[Any]) -> None:
    groups = phase_groups(signals)
    if 1 < len(groups) <= 8:
        rows = [
            (f"{rate:g}", f"{phase * 1e-3:.3f}", len(names), ", ".join(names[:3]) + (", …" if len(names) > 3 else ""))
            for (rate, phase), names in sorted(groups.items())
        ]
        print(f"  {len(groups)} groups of sample clocks")
        print(render(("rate (Hz)", "phase (ms)", "signals", "such as"), rows, "    "))
        by_name = {signal.name: signal for signal in signals}
        offsets = time_offsets([by_name[names[0]] for _, names in sorted(groups.items())])
        for one, index, other, nearest, seconds in offsets:
            print(
                f"    sample {index} of {one} and the nearest of {other}, {nearest}, are {seconds * 1e3:+.3f} ms apart"
            )
        print("  samples of two groups are not simultaneous: compare them by time, not by index\n")


def time_offsets(signals: Sequence[Any]) -> list[tuple[str, int, str, int, float]]:
    """How far the nearest samples of neighbouring signals lie apart in civil time.

    Parameters:
        signals: with civil time.

    Returns:
        For each neighbour that overlaps in time: name and index of a sample in the middle of
        the overlap, name and index of the nearest sample of the neighbour, seconds from the
        first to the second.
    """
    from .. import Time

    found = []
    for one, other in pairwise(signals):
        begin = max(_extent(one)[0], _extent(other)[0])
        end = min(_extent(one)[1], _extent(other)[1])
        if begin >= end:
            continue
        index = one.index_of(begin + float(end - begin) / 2, round="nearest", prefer="first")
        time = one.time_of(index)
        # Without its run, which means something in the first signal only.
        plain = Time.from_ns(time.ns, time.frac)
        nearest = other.index_of(plain, round="nearest", prefer="first")
        found.append((one.name, index, other.name, nearest, float(other.time_of(nearest) - time)))
    return found


def _extent(signal: Any) -> tuple[Any, Any]:
    runs = [run for run in signal.runs() if run.start_time is not None]
    return min(run.start_time for run in runs), max(run.end_time for run in runs)


def _compare(signals: Sequence[Any]) -> list[Burst]:
    """Print when each station heard what several heard."""
    chosen = one_per_station(signals)
    if not _any_overlap(chosen):
        print("  no two stations recorded at the same time: there is nothing to compare")
        return []
    events = find_events(chosen)
    if not events:
        print(f"  nothing rose above the noise at enough of {len(chosen)} stations to be timed")
    for number, event in enumerate(events):
        first = event.arrivals[0]
        print(f"  event {number + 1}: heard by {len(event.arrivals)} of {len(chosen)} stations")
        rows = [
            (
                arrival.station,
                clock_text(arrival.ns, 6),
                f"+{(arrival.ns - first.ns) * 1e-6:.3f}",
                f"± {math.hypot(arrival.error_ns, first.error_ns if arrival is not first else 0.0) * 1e-6:.3f}",
                f"{arrival.drop:.0f}",
            )
            for arrival in event.arrivals[:_ROWS_SHOWN]
        ]
        print(render(("station", "arrives (UTC)", "ms later", "", "times louder"), rows, "    "))
    return events


def one_per_station(signals: Sequence[Any]) -> list[Any]:
    """A signal of each station, real-valued, of the channel that most stations have.

    A station is a name without its last part; a name of one part, or one whose last part
    names one sensor everywhere, is a station of its own.
    """
    real = [signal for signal in signals if signal.dtype.kind in "iuf"]
    channels = Counter(signal.name.rpartition("/")[2] for signal in real)
    stations: dict[str, Any] = {}
    for signal in real:
        station, _, channel = signal.name.rpartition("/")
        key = station or signal.name
        if key not in stations or _rank(channels, channel) >= _rank(channels, stations[key].name.rpartition("/")[2]):
            stations[key] = signal
    return list(stations.values())


def _rank(channels: Counter[str], channel: str) -> tuple[int, str]:
    # Of channels that are equally common the last: vertical motion (Z) where there are three axes.
    return channels[channel], channel


def _any_overlap(signals: Sequence[Any]) -> bool:
    extents = sorted(_extent(signal) for signal in signals)
    return any(after[0] < before[1] for before, after in pairwise(extents))


def _draw(signals: Sequence[Any], findings: Findings, source: Path, folder: Path) -> None:
    from .own_figure import draw_all

    out = folder / "own.png"
    try:
        draw_all(signals, source.resolve().name, out, findings)
    except ImportError as error:
        print(f"\nNo figure: {error}")
        return
    print(f"\nFigure: {out}")


def _print_next(store: Path, name: str) -> None:
    heading("Try next")
    print(
        f"""  isochrony info {store}
  isochrony gaps {store}
  isochrony plot '{store}/{name}' --out signal.png
  isochrony scan '{store}/{name}' --window 1s --stats min,max,mean,std

  import isochrony as iso
  signal = iso.open({str(store)!r})[{name!r}]
  signal.values(), signal.rate, signal.gaps"""
    )
