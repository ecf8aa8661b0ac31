"""``isochrony import``: files into a store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..importers import Options, Stamp, formats, import_files
from ..importers.columns import parse_times
from ..importers.rational import parse_rate
from ..progress import ImportProgress, bytes_text, duration_text
from .exits import Exit
from .summary import print_summary
from .tables import print_json
from .target import open_for_import

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "bring recordings into a store, creating it if it is missing"
EXAMPLES = """examples:
  isochrony import recordings water.iso --format raw --dtype '<i2' --rate 2000 \\
      --layout '{station}/{sensor}/{station}_{epoch}.raw' --unit mbar
  isochrony import archive.mseed event.iso
  isochrony import field-tapes sound.iso --start 2024-05-01T06:00:00Z
  isochrony import /data/live water.iso --format raw --preset censam --follow

Running it again imports only what is new. Files that cannot be taken are reported
with their reason, the rest is imported, and the exit code is 1.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    names = ["raw", *(one.name for one in formats())]
    parser.add_argument("src", metavar="SRC", type=Path, help="folder or file of recordings")
    parser.add_argument("store", metavar="STORE", type=Path, help="store to import into")
    parser.add_argument("--format", choices=names, help="format of all files (default: each by its content)")
    parser.add_argument(
        "--layout",
        metavar="TEMPLATE",
        help="paths below SRC, such as {station}/{sensor}/{station}_{epoch}.raw",
    )
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="a known layout with its dtype and rate, such as censam (raw)",
    )
    parser.add_argument("--dtype", metavar="TYPE", help="type of raw samples in NumPy's spelling, such as '<i2'")
    parser.add_argument(
        "--rate",
        metavar="HZ",
        type=parse_rate_argument,
        help="nominal sample rate, such as 2000 or 44100000/1001",
    )
    parser.add_argument("--unit", metavar="U", help="unit of the samples, such as mbar")
    parser.add_argument("--start", metavar="TIME", help="civil time of the first sample of files that know none")
    parser.add_argument("--signal", metavar="NAME", help="name of the signal (default: from the path or the file)")
    parser.add_argument("--time-column", metavar="NAME", help="time column of tables (default: found)")
    parser.add_argument(
        "--gap-slip",
        metavar="S",
        type=positive,
        help="seconds a stamp may be off before it is a gap or a clock step",
    )
    parser.add_argument(
        "--alpha",
        metavar="A",
        type=fraction_argument,
        help="memory of the running rate estimate, 0 to 1",
    )
    parser.add_argument(
        "--max-gap",
        metavar="S",
        type=positive,
        help="longest gap that takes index of its own length (default: 30 days)",
    )
    parser.add_argument(
        "--value-jump",
        metavar="V",
        type=positive,
        help="note a larger difference between the values on both sides of a file border as an event",
    )
    parser.add_argument(
        "--partial",
        action="store_true",
        help="take the whole samples of truncated files instead of refusing them",
    )
    parser.add_argument("--follow", action="store_true", help="go on watching SRC until interrupted")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Import, print the summary, and say by the status whether all of it went in."""
    if not arguments.src.exists():
        raise UsageError(f"{arguments.src} does not exist; name a folder or a file of recordings")
    raw = arguments.format == "raw" or (arguments.format is None and arguments.preset is not None)
    _check(arguments, raw)
    with open_for_import(arguments.store) as store, ImportProgress("importing") as progress:
        if raw:
            summary = import_raw(store, arguments, progress)
        else:
            summary = import_files(
                store,
                arguments.src,
                format=arguments.format,
                options=Options(
                    rate=arguments.rate,
                    unit=arguments.unit,
                    start=_start(arguments.start),
                    signal=arguments.signal,
                    time_column=arguments.time_column,
                    partial=arguments.partial,
                ),
                layout=arguments.layout,
                gap_slip=arguments.gap_slip,
                alpha=arguments.alpha,
                max_gap=arguments.max_gap,
                value_jump=arguments.value_jump,
                follow=arguments.follow,
                progress=progress,
            )
    if arguments.json:
        print_json(summary)
    else:
        print_summary(summary)
        _closing(summary, arguments.store)
    return Exit.PARTIAL if summary["problems"] else Exit.OK


def import_raw(store: Any, arguments: argparse.Namespace, progress: ImportProgress) -> Any:
    """The native path, for headerless samples."""
    rate = arguments.rate
    return store.import_raw(
        arguments.src,
        layout=arguments.layout,
        preset=arguments.preset,
        dtype=arguments.dtype,
        rate=None if rate is None else (rate.numerator, rate.denominator),
        unit=arguments.unit,
        gap_slip=arguments.gap_slip,
        alpha=arguments.alpha,
        max_gap=arguments.max_gap,
        value_jump=arguments.value_jump,
        partial=arguments.partial,
        follow=arguments.follow,
        progress=progress,
    )


def _check(arguments: argparse.Namespace, raw: bool) -> None:
    """Options that the chosen path would ignore are errors: nothing is ignored in silence."""
    given = [
        option
        for option, value in (
            ("--start", arguments.start),
            ("--signal", arguments.signal),
            ("--time-column", arguments.time_column),
        )
        if raw and value is not None
    ] + [
        option
        for option, value in (("--dtype", arguments.dtype), ("--preset", arguments.preset))
        if not raw and value is not None
    ]
    if given:
        kind = "raw recordings" if raw else "formats other than raw"
        raise UsageError(f"{given[0]} does not apply to {kind}; leave it out, or change --format")
    if raw and arguments.preset is None:
        missing = [
            option
            for option, value in (
                ("--layout", arguments.layout),
                ("--dtype", arguments.dtype),
                ("--rate", arguments.rate),
            )
            if value is None
        ]
        if missing:
            raise UsageError(f"raw recordings do not describe themselves: give {', '.join(missing)}, or a --preset")


def _start(text: str | None) -> Stamp | None:
    if text is None:
        return None
    times, resolution = parse_times([text])
    return Stamp(int(times[0]), resolution if "." in text else 1)


def _closing(summary: Mapping[str, Any], store: Path) -> None:
    seconds = summary["seconds"]
    size = summary["bytes"]
    rate = f" ({bytes_text(size / seconds)}/s)" if seconds > 0 else ""
    print(
        f"{summary['files']} files, {bytes_text(size)} in {duration_text(seconds)}{rate}; "
        f"{summary['skipped']} known before; {len(summary['problems'])} refused",
        file=sys.stderr,
    )
    print(f"next: isochrony info {store}" if store.exists() else "no store was made: nothing went in", file=sys.stderr)


def parse_rate_argument(text: str) -> Any:
    """`parse_rate` for argparse, which reports its message as a usage error."""
    try:
        return parse_rate(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def fraction_argument(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value
