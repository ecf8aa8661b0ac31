"""``isochrony demo --from DIR``: the same job on the user's own recordings."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..civil import knows_civil_time
from ..cli.describe import describe
from ..cli.exits import Exit
from ..cli.summary import best_rate_text, print_refused
from ..cli.tables import render, short_time
from ..errors import UsageError
from ..importers import find_sources, import_files
from ..progress import ImportProgress, bytes_text, duration_text
from .report import heading

__all__ = ["phase_groups", "run_own"]

_ROWS_SHOWN = 24


def run_own(source: Path, folder: Path) -> int:
    """Import whatever is importable below `source`, say what is there, and draw it.

    Returns:
        0, or 1 where files were refused.

    Raises:
        UsageError: nothing importable, or `folder` lies inside `source` or holds
            something else than an earlier run's results.
    """
    started = time.monotonic()
    sources = find_sources(source)
    _say_what_is_there(source, sources)
    store_path = _prepare(source, folder)
    from .. import open as open_

    with open_(store_path, mode="x") as writer, ImportProgress("importing") as progress:
        summary = import_files(writer, source, progress=progress)
    took = time.monotonic() - started
    print(
        f"Imported {summary['files']} files, {bytes_text(summary['bytes'])} into {store_path} in {duration_text(took)}"
    )
    if summary["problems"]:
        heading("Refused")
        print_refused(summary["problems"], sys.stdout)
    store = open_(store_path)
    signals = sorted(store.values(), key=lambda signal: signal.name)
    if not signals:
        raise UsageError(
            f"nothing below {source} could be imported; headerless samples need: isochrony import "
            f"{source} STORE --dtype '<i2' --rate HZ --layout TEMPLATE"
        )
    described = [describe(signal) for signal in signals]
    _print_signals(described)
    _print_phases(signals)
    _draw(signals, source, folder)
    _print_next(store_path, signals[0].name)
    return Exit.PARTIAL if summary["problems"] else Exit.OK


def _say_what_is_there(source: Path, sources: Sequence[Any]) -> None:
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
            raise UsageError(f"{store_path} is not a store; name another folder with --dir")
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


def _print_phases(signals: Sequence[Any]) -> None:
    groups = phase_groups(signals)
    if not 1 < len(groups) <= 8:
        return
    heading(f"{len(groups)} groups of sample clocks")
    rows = [
        (f"{rate:g}", f"{phase * 1e-3:.3f}", len(names), ", ".join(names[:3]) + (", …" if len(names) > 3 else ""))
        for (rate, phase), names in sorted(groups.items())
    ]
    print(render(("rate (Hz)", "phase (ms)", "signals", "such as"), rows, "  "))
    print("  samples of two groups are not simultaneous: compare them by time, not by index")


def _draw(signals: Sequence[Any], source: Path, folder: Path) -> None:
    from .own_figure import draw_all

    out = folder / "own.png"
    try:
        draw_all(signals, f"{source.resolve().name}", out)
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
