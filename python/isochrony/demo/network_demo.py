"""The demo from end to end: make recordings, import, find, compare, draw."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from ..cli.exits import Exit
from ..errors import IsochronyError, UsageError
from ..output.progress import ImportProgress, bytes_text, duration_text
from . import report
from .figure import draw
from .find import closeups, examine, hour_views
from .findings import Findings
from .fronts import find_bursts
from .synth import LAYOUT, RATE_HZ, write_recordings
from .truth import Truth, read_truth

__all__ = ["run_demo"]

# Says whose folder it is before anything else is in it, so that a demo that was interrupted can be run again.
_MARK = ".isochrony-demo"
_MADE = ("recordings", "recordings-to-the-second", "water.iso", "coarse.iso")


def run_demo(folder: Path) -> int:
    """Run the demo in a folder (made if missing; what an earlier demo left there is replaced).

    Returns:
        0, or 1 where a finding misses the truth by more than 1 ppm, 1 ms, or a front's travel in a sample.

    Raises:
        UsageError: the folder holds something else.
    """
    started = time.monotonic()
    _prepare(folder)
    written = write_recordings(folder)
    print(
        f"Made one hour of a water network: {written.files} files, {bytes_text(written.bytes)} "
        f"in {duration_text(time.monotonic() - started)}"
    )
    store = _import(written.recordings, folder / "water.iso")
    signals = sorted(store.find("*/pressure"), key=lambda signal: signal.name)

    findings = examine(signals)
    report.heading("Gaps and clock steps")
    report.print_missing(findings)
    report.heading("True sample rates (nominal 2000 Hz)")
    report.print_rates(findings)
    findings.bursts = find_bursts(signals)
    report.heading("Bursts")
    report.print_bursts(findings)

    report.heading("The same recordings, named only to the second")
    coarse_store = _import(written.coarse, folder / "coarse.iso")
    coarse = examine(coarse_store.find("*/pressure"))
    report.print_missing(coarse)
    report.print_rates(coarse)

    # Everything above came from the recordings alone.
    truth = read_truth(written.truth)
    good = _compare(truth, findings, coarse)
    figure = _draw(folder, findings, coarse, signals)
    if figure is not None:
        print(f"\nFigure: {figure}")
    print(f"Done in {duration_text(time.monotonic() - started)}")
    report.print_next(folder)
    return Exit.OK if good else Exit.PARTIAL


def _prepare(folder: Path) -> None:
    """An empty folder, or one that an earlier demo made, which is emptied."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder with --dir")
    if folder.is_dir() and any(folder.iterdir()):
        if not any((folder / name).exists() for name in (_MARK, "truth.json")):
            raise UsageError(f"{folder} has files that are not from a demo; name another folder with --dir")
        for name in _MADE:
            if (folder / name).exists():
                shutil.rmtree(folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).touch()


def _import(recordings: Path, store_path: Path) -> Any:
    from .. import open as open_

    started = time.monotonic()
    with ImportProgress("importing") as progress:
        writer = open_(store_path, mode="x")
        with writer:
            summary = writer.import_raw(
                recordings, layout=LAYOUT, dtype="<i2", rate=(RATE_HZ, 1), unit="mbar", progress=progress
            )
    if summary["problems"]:
        path, reason = summary["problems"][0]
        raise IsochronyError(f"{path}: {reason}")
    seconds = time.monotonic() - started
    print(
        f"Imported {summary['files']} files, {bytes_text(summary['bytes'])} into {store_path} "
        f"in {duration_text(seconds)}"
    )
    return open_(store_path)


def _compare(truth: Truth, findings: Findings, coarse: Findings) -> bool:
    report.heading("Against the truth, read only now")
    rates = report.print_rate_errors(truth.rate_errors(findings))
    print()
    arrivals = report.print_arrival_errors(truth.arrival_errors(findings), truth.bursts)
    print()
    positions = report.print_position_errors(truth.position_errors(findings), truth.bursts)
    print()
    honest = _print_coarse(truth, coarse)
    return rates and arrivals and positions and honest


def _print_coarse(truth: Truth, coarse: Findings) -> bool:
    """Whether coarse stamps gave no gap, no step, and an uncertainty that holds the truth."""
    clean = all(len(one.runs) == 1 and not one.outages for one in coarse.stations)
    errors = truth.rate_errors(coarse)
    contained = all(abs(error.error_ppm) <= error.claimed_ppm for error in errors)
    for error in errors:
        print(
            f"  {error.station}, stamps to the second: {error.found_ppm:+.1f} ± {error.claimed_ppm:.1f} ppm, "
            f"true {error.true_ppm:+.1f}"
        )
    good = clean and contained
    print(f"  no gap, no step, and the truth within the uncertainty: {'met' if good else 'MISSED'}")
    return good


def _draw(folder: Path, findings: Findings, coarse: Findings, signals: list[Any]) -> Path | None:
    """The figure, or a line that says why there is none."""
    out = folder / "water.png"
    try:
        near = [closeups(signals, burst) for burst in findings.bursts]
        draw(findings, coarse, hour_views(signals), near, out)
    except ImportError as error:
        print(f"\nNo figure: {error}")
        return None
    return out
