"""The demo's words: findings, errors, and what to try next."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ..cli.tables import render
from ..store.plots import clock_text
from .findings import Burst, Findings
from .truth import ARRIVAL_LIMIT_S, RATE_LIMIT_PPM, ArrivalError, PositionError, RateError

__all__ = [
    "heading",
    "print_arrival_errors",
    "print_bursts",
    "print_missing",
    "print_next",
    "print_position_errors",
    "print_rate_errors",
    "print_rates",
]


def heading(text: str) -> None:
    """A heading on a line of its own."""
    print(f"\n{text}\n{'─' * len(text)}")


def print_missing(findings: Findings, most: int | None = None) -> None:
    """Gaps and clock steps, or the first `most` of them."""
    rows: list[tuple[object, ...]] = []
    for station in findings.stations:
        rows += [
            (
                station.name,
                "gap",
                clock_text(outage.start_ns, 6),
                f"{(outage.end_ns - outage.start_ns) * 1e-9:.6f} s without samples",
            )
            for outage in station.outages
        ]
        rows += [
            (
                station.name,
                "clock step",
                clock_text(step.at_ns, 6),
                f"back by {step.back_by_s:.6f} s; every sample kept, in a new run",
            )
            for step in station.steps
        ]
    if rows:
        print(render(("station", "what", "at (UTC)", ""), rows[:most], "  "))
        if most is not None and len(rows) > most:
            print(f"  … and {len(rows) - most} more: isochrony gaps lists all")
    else:
        print("  no gap and no clock step")


def print_rates(findings: Findings, most: int | None = None) -> None:
    """The true rate of every run, or of the first `most`."""
    rows = [
        (
            station.name,
            number,
            f"{run.samples:,}",
            f"{run.rate_hz:.6f} ± {run.rate_error_hz:.6f}",
            f"{run.ppm(station.nominal_hz):+.3f} ± {run.ppm_error(station.nominal_hz):.3f}",
        )
        for station in findings.stations
        for number, run in enumerate(station.runs)
    ]
    print(render(("station", "run", "samples", "mean rate (Hz)", "ppm"), rows[:most], "  "))
    if most is not None and len(rows) > most:
        print(f"  … and {len(rows) - most} more: isochrony info SIGNAL tells each run")


def print_bursts(findings: Findings) -> None:
    """Where every burst was, its arrivals, and how much later than the first."""
    for number, burst in enumerate(findings.bursts):
        first = burst.arrivals[0]
        print(f"  burst {number + 1}: {_where(burst)}")
        rows = [
            (
                arrival.station,
                clock_text(arrival.ns, 6),
                f"+{(arrival.ns - first.ns) * 1e-6:.3f}",
                f"± {arrival.error_ns * 1e-6:.3f}",
                f"{arrival.drop:.0f}",
            )
            for arrival in burst.arrivals
        ]
        head = ("station", "arrives (UTC)", "ms later", "", "drop (mbar)")
        print(render(head, rows, "    "))
    if not findings.bursts:
        print("  none")


def _where(burst: Burst) -> str:
    """A burst's place in words."""
    found = burst.position
    if found is None:
        return "these stations tell no place"
    at = clock_text(burst.arrivals[0].ns + found.at_s * 1e9, 6)
    text = f"{found.place} ± {found.error_m:.2f} m (95 %), at {at}"
    if found.verdict == "ambiguous":
        text += f"; {found.parts} parts of the network fit alike"
    elif found.verdict == "inconsistent":
        text += f"; but the arrivals contradict each other (chance {found.chance:.1g})"
    return text


def print_rate_errors(errors: Sequence[RateError]) -> bool:
    """Table of rate errors; whether all are within the limit."""
    rows = [
        (e.station, f"{e.true_ppm:+.3f}", f"{e.found_ppm:+.3f}", f"{e.error_ppm:+.4f}", f"{e.claimed_ppm:.4f}")
        for e in errors
    ]
    print(render(("station", "true ppm", "found ppm", "error", "claimed ±"), rows, "  "))
    worst = max((abs(e.error_ppm) for e in errors), default=float("inf"))
    good = worst <= RATE_LIMIT_PPM
    print(f"  largest rate error {worst:.4f} ppm (limit {RATE_LIMIT_PPM:g}): {_verdict(good)}")
    return good


def print_arrival_errors(errors: Sequence[ArrivalError], expected: int) -> bool:
    """Table of delay errors; whether all bursts were found and all are within the limit."""
    rows = [(e.burst + 1, " → ".join(e.stations), f"{e.true_s * 1e3:+.3f}", f"{e.error_s * 1e3:+.3f}") for e in errors]
    print(render(("burst", "between", "true delay (ms)", "error (ms)"), rows, "  "))
    worst = max((abs(e.error_s) for e in errors), default=float("inf"))
    found = len({e.burst for e in errors})
    good = worst <= ARRIVAL_LIMIT_S and found == expected
    print(
        f"  {found} of {expected} bursts; largest delay error {worst * 1e3:.3f} ms "
        f"(limit {ARRIVAL_LIMIT_S * 1e3:g}): {_verdict(good)}"
    )
    return good


def print_position_errors(errors: Sequence[PositionError], expected: int) -> bool:
    """Table of position errors; whether all bursts have a place, within what is allowed."""
    rows = [
        (e.burst + 1, f"{e.place}", f"{e.error_m:.3f}", f"{e.stated_m:.3f}", f"{e.allowed_m:.3f}", e.verdict)
        for e in errors
    ]
    print(render(("burst", "found at", "error (m)", "stated ±", "allowed", "verdict"), rows, "  "))
    placed = {e.burst for e in errors if e.verdict == "located"}
    good = len(placed) == expected and all(e.error_m <= e.allowed_m for e in errors)
    print(
        f"  {len(placed)} of {expected} bursts placed; allowed is a front's travel in one sample and in the clocks' "
        f"uncertainty: {_verdict(good)}"
    )
    return good


def _verdict(good: bool) -> str:
    return "met" if good else "MISSED"


def print_next(folder: Path) -> None:
    """Commands and lines of Python that go on from here."""
    store = folder / "water.iso"
    heading("Try next")
    print(
        f"""{_on_the_path()}  isochrony info {store}
  isochrony gaps {store}
  isochrony plot {store}/stn_10/pressure --from 2010-03-01T00:14 --to 2010-03-01T00:15 --out burst.png
  isochrony scan {store}/stn_10/pressure --window 60s --stats min,max,mean,std
  isochrony demo --from YOUR_RECORDINGS --dir mine

  import isochrony as iso
  signal = iso.open({str(store)!r})["stn_10/pressure"]
  signal[iso.span("2010-03-01T00:14", "2010-03-01T00:15")].values()

  import zarr                                       # any Zarr reader opens it without us
  zarr.open({str(store)!r})["stn_10/pressure/data"]"""
    )


def _on_the_path() -> str:
    """How to make `isochrony` a command, where this Python's environment is not the shell's."""
    activate = Path(sys.executable).with_name("activate")
    if shutil.which("isochrony") or not activate.exists():
        return ""
    if activate.is_relative_to(Path.cwd()):
        activate = activate.relative_to(Path.cwd())
    return f"  source {activate}\n"
