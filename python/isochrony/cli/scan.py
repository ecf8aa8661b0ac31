"""``isochrony scan``: windowed statistics to a table."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError
from ..errors.native import OptionError, PlanError
from ..extras import require
from ..output.files import check_output, writing
from ..steps.rows import STATS
from .exits import Exit
from .paths import output_path
from .tables import listed, print_json, render
from .target import open_store, parse_target, single_signal

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "run", "window_length"]

HELP = "compute statistics of gap-free windows: min, max, count, mean, std, var and rms"
INTERRUPTED = "nothing was written"
EXAMPLES = """examples:
  isochrony scan water.iso/stn_10/pressure --window 60s --stats min,max,mean,std
  isochrony scan water.iso/stn_10/pressure --window 4096 --stats std --out std.parquet

The first window begins with the first sample of the scan, or after a gap or clock step. No
window spans these: samples before them that do not fill a window are left out. A length in
seconds is rounded to the nearest whole number of samples at the nominal rate.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("target", metavar="STORE/SIGNAL", help="signal to scan")
    parser.add_argument(
        "--window",
        required=True,
        metavar="W",
        help="length of a window: a number of samples such as 4096, or a time such as 250ms, 60s, 5min or 1h",
    )
    parser.add_argument(
        "--stats",
        default=",".join(STATS),
        metavar="LIST",
        help=f"statistics to compute, of {','.join(STATS)} (default: all)",
    )
    parser.add_argument(
        "--from", dest="start", metavar="T", help="time (UTC) of the first sample to scan, such as 2010-03-01T12:00:00"
    )
    parser.add_argument(
        "--to",
        dest="end",
        metavar="T",
        help="end time (UTC), excluded, such as 2010-03-01T12:05:00",
    )
    parser.add_argument(
        "--out",
        type=output_path,
        metavar="F",
        help="write to this file, .csv or .parquet, instead of the screen",
    )
    parser.add_argument("--force", action="store_true", help="replace the output file if it exists")
    parser.add_argument("--json", action="store_true", help="print the columns as JSON, instead of a table or CSV")


def window_length(text: str) -> int | str:
    """A window length of the command line as `Plan.rewindow` takes it: ``4096``, or text with a unit, as ``250ms``."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 20 else text


def run(arguments: argparse.Namespace) -> int:
    """Scan and write the table."""
    from .. import scan

    wanted = parse_stats(arguments.stats)
    if arguments.out is not None and arguments.out.suffix not in (".csv", ".parquet", ".pq"):
        # Before anything is computed.
        raise UsageError(f"--out {arguments.out} has an unknown suffix; give a .csv or .parquet file")
    if arguments.out is not None:
        check_output(arguments.out, replace=arguments.force)
    target = parse_target(arguments.target)
    with open_store(target.store) as store:
        signal = single_signal(store, target.signal)
        source = selection(signal, arguments.start, arguments.end)
        try:
            plan = scan(source).rewindow(window_length(arguments.window)).stats(*wanted)
        except (OptionError, PlanError) as error:
            raise UsageError(
                f"--window {arguments.window!r} is refused; give a number of samples such as 4096, or a time such as "
                f"125ms, of 1 to 2^46 samples at {float(signal.rate):.9g} Hz"
            ) from error
        with _notes_in_options(arguments.window):
            table = plan.collect()
        columns = as_columns(table, wanted)
    write_columns(columns, arguments.out, as_json=arguments.json, replace=arguments.force)
    return Exit.OK


@contextlib.contextmanager
def _notes_in_options(window: str) -> Iterator[None]:
    """Warnings of empty results in the words of the command's options, instead of the plan's."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in caught:
        text = re.sub(r"^rewindow\(.*?\) made", f"--window {window} made", str(one.message))
        text = re.sub(r"^scan\((.*?)\) read nothing", r"nothing of \1 was read", text)
        warnings.warn(text, one.category, stacklevel=2)


def parse_stats(text: str) -> list[str]:
    """Names of statistics from a comma-separated list, in its order.

    Raises:
        UsageError: an unknown or repeated name, or none.
    """
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in wanted if name not in STATS]
    if unknown or not wanted or len(set(wanted)) < len(wanted):
        raise UsageError(
            f"--stats {text!r} has unknown, repeated or no names; give names of {','.join(STATS)}, each once"
        )
    return wanted


def span_ends(signal: Any, start: str | None, end: str | None) -> tuple[Any, ...]:
    """Civil times that bound ``--from`` and ``--to``; nothing where neither is given.

    Raises:
        UsageError: a text that is no time, or an open end that the signal cannot give: it lies on the wrong side of the
            other one.
    """
    from .. import Time, TimeError

    for option, given in (("--from", start), ("--to", end)):
        try:
            _ = given is None or Time(given)
        except TimeError as error:
            raise UsageError(f"{option}: {error}") from error
    if start is None and end is None:
        return ()
    if start is not None and end is not None:
        return start, end
    runs = [run for run in signal.runs() if run.start_time is not None]
    if not runs:
        return start, end
    first = min(run.start_time for run in runs)
    last = max(run.end_time for run in runs)
    if start is not None and Time(start) >= last:
        raise UsageError(f"--from {start} is after the end of {signal.name}; give a time from {first} to {last}")
    if end is not None and Time(end) <= first:
        raise UsageError(f"--to {end} is before the start of {signal.name}; give a time from {first} to {last}")
    return (first, end) if start is None else (start, last)


def selection(signal: Any, start: str | None, end: str | None) -> Any:
    """A signal's samples between civil times, or all of them."""
    from .. import span

    ends = span_ends(signal, start, end)
    return signal.select(span(*ends) if ends else None)


def as_columns(table: Any, wanted: Sequence[str]) -> dict[str, Any]:
    """Columns to write: first index, civil time where it is known, statistics."""
    columns: dict[str, Any] = {"index": table["start"]}
    if "time" in table:
        columns["time"] = table["time"]
    return columns | {name: table[name] for name in wanted}


def write_columns(columns: dict[str, Any], out: Path | None, *, as_json: bool = False, replace: bool = False) -> None:
    """Write columns to a file by its suffix, or to the screen.

    Raises:
        UsageError: neither .csv nor .parquet, or the file exists and `replace` is false.
    """
    rows = zip(*(list(column) for column in columns.values()), strict=True)
    if out is None:
        if as_json:
            print_json({name: listed(np.asarray(column)) for name, column in columns.items()})
        elif sys.stdout.isatty():
            print(render(list(columns), ([_cell(value) for value in row] for row in rows)))
        else:
            csv.writer(sys.stdout, lineterminator="\n").writerows([list(columns), *rows])
    elif out.suffix == ".csv":
        with writing(out, replace=replace) as file:
            text = io.TextIOWrapper(file, "utf-8", newline="")
            csv.writer(text, lineterminator="\n").writerow(columns)
            csv.writer(text, lineterminator="\n").writerows(rows)
            text.detach()
    elif out.suffix in (".parquet", ".pq"):
        pyarrow = require("pyarrow", "writing Parquet")
        parquet = require("pyarrow.parquet", "writing Parquet")
        with writing(out, replace=replace) as file:
            parquet.write_table(pyarrow.table(columns), file)
    else:
        raise UsageError(f"--out {out} has an unknown suffix; give a .csv or .parquet file")


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
