"""The options of ``isochrony import``: what they are, and which of them go together."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..importers import Stamp, formats
from ..importers.columns import parse_time
from ..importers.mseed_samples import ENCODINGS
from ..importers.rational import parse_rate

__all__ = ["EXAMPLES", "HELP", "add_arguments", "check", "rate_pair"]

HELP = "bring recordings into a store, creating it if it is missing"
EXAMPLES = """examples:
  isochrony import recordings water.iso --dtype '<i2' --rate 2000 --unit mbar \\
      --layout '{station}/{sensor}/{station}_{epoch}.raw'
  isochrony import archive.mseed event.iso
  isochrony import field-tapes sound.iso --start 2024-05-01T06:00:00Z
  isochrony import /data/live water.iso --preset censam --follow

layouts:
  A layout is a path below SRC with fields in braces. Fields of your own, such as
  {station} or {sensor}, make the signal's name, joined by "/". Fields of time are
  {epoch} (s, ms, us or ns since 1970, by its digits; or {epoch:ms}), {iso}, and
  {year} {month} {day} {hour} {minute} {second} {fraction}. {name:4} takes four
  characters, * anything. A time is as fine as its last digit: a file named to the
  second begins somewhere in that second, and the rate is found all the same.

Raw recordings have no header: --layout, --dtype or --preset says that the files are
raw, and --layout, --dtype and --rate are needed then, or a --preset. With --format,
--layout names the signals and times of files of another format; without a field of
time it names the signals only.

Running it again imports only what is new, also of files that have grown, and so goes
on with an import that was interrupted. Files that cannot be taken are reported with
their reason (refused), and so are those that are taken, but not as a whole (kept);
the rest is imported, and the exit code is 1. Options of clock and gaps hold for signals that the
import creates; existing ones keep theirs.

--follow looks for new files once a second. A raw file is taken when it has its full
length (presets know it) or a later file of its signal is there, then within two
seconds; else when it has not changed for ten. Files of other formats are taken when
they kept still from one look to the next. What was taken is committed at once. Ctrl-C
ends it with the summary; the store is closed clean, and the same command goes on later.
"""

_FOR_RAW = ("preset", "dtype")
_NOT_FOR_RAW = ("start", "signal", "time_column", "encoding")
_TABLES = ("csv", "parquet")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.usage = f"{parser.prog} SRC STORE [options]"
    parser.add_argument("src", metavar="SRC", type=_path, help="folder or file of recordings")
    parser.add_argument("store", metavar="STORE", type=_path, help="store to import into, such as water.iso")
    what = parser.add_argument_group("what the files are")
    kinds = "; ".join(f"{one.name}: {one.summary}" for one in formats())
    what.add_argument(
        "--format",
        choices=["raw", *(one.name for one in formats())],
        metavar="NAME",
        help=f"format of all files (default: each by its content). raw: headerless samples; {kinds}",
    )
    what.add_argument("--layout", metavar="TEMPLATE", help="what the paths below SRC mean; see below")
    what.add_argument("--preset", metavar="NAME", help="a known layout with its dtype and rate, such as censam")
    what.add_argument("--dtype", metavar="TYPE", help="type of raw samples in NumPy's spelling, such as '<i2'")
    what.add_argument(
        "--rate",
        metavar="HZ",
        type=_argument(parse_rate),
        help="nominal sample rate where files do not state it, such as 2000 or 44100000/1001",
    )
    what.add_argument("--unit", metavar="U", help="unit of the samples, such as mbar")
    what.add_argument(
        "--start",
        metavar="TIME",
        type=_argument(_start),
        help="time (UTC) of the first sample of files that state none, such as 2010-03-01T12:00:00",
    )
    what.add_argument("--signal", metavar="NAME", help="name of the signal (default: from the path or the file)")
    what.add_argument(
        "--time-column", metavar="NAME", help="column of a table that holds the times (default: found by its name)"
    )
    what.add_argument(
        "--encoding",
        metavar="NAME",
        choices=list(ENCODINGS),
        help="encoding of miniSEED records that do not state it (default: Steim 1 or 2, found from the samples)",
    )
    clock = parser.add_argument_group("clock and gaps")
    clock.add_argument(
        "--gap-slip",
        metavar="S",
        type=_argument(_positive),
        help="largest difference in seconds between a time stamp and the time expected from the rate; a larger "
        "one is a gap or a clock step (default: "
        "estimated from the stamps)",
    )
    clock.add_argument(
        "--alpha",
        metavar="A",
        type=_argument(_weight),
        help="weight of the past in the running rate estimate, above 0, at most 1 (default: 0.95, about 20 files)",
    )
    clock.add_argument(
        "--initial-rate",
        metavar="HZ",
        type=_argument(parse_rate),
        help="first estimate of the true sample rate, better than the nominal one, such as an earlier "
        "recording's, for gaps that "
        "come before the stamps have told it",
    )
    clock.add_argument(
        "--max-gap",
        metavar="S",
        type=_argument(_positive),
        help="longest gap in seconds that takes one index per missing sample; a longer one keeps its duration, "
        "but takes few indices "
        "(default: 30 days)",
    )
    clock.add_argument(
        "--value-jump",
        metavar="V",
        type=_argument(_positive),
        help="record an event where the value changes by more than V from the end of one file to the start of the next",
    )
    how = parser.add_argument_group("how to import")
    how.add_argument(
        "--partial",
        action="store_true",
        help="import the complete samples of truncated files instead of refusing those files",
    )
    how.add_argument("--follow", action="store_true", help="go on watching SRC until Ctrl-C; see below")
    how.add_argument("--json", action="store_true", help="print the summary as JSON, instead of text")


def check(arguments: argparse.Namespace) -> bool:
    """Whether the files are raw. Options that would be ignored are errors: nothing is ignored in silence.

    Raises:
        UsageError: options that do not go together, or that are missing.
    """
    given = {name for name, value in vars(arguments).items() if value is not None}
    implied = [name for name in ("layout", *_FOR_RAW) if name in given]
    raw = arguments.format == "raw" or (arguments.format is None and bool(implied))
    if not raw:
        for name in _FOR_RAW:
            if name in given:
                raise UsageError(f"{_option(name)} is for raw recordings; leave it out, or use --format raw")
        if "encoding" in given and arguments.format not in (None, "mseed"):
            raise UsageError("--encoding is for miniSEED; leave it out, or use --format mseed")
        if "time_column" in given and arguments.format not in (None, *_TABLES):
            raise UsageError(f"--time-column is for tables; leave it out, or use --format {' or '.join(_TABLES)}")
        return False
    because = "" if arguments.format else f", as {_option(implied[0])} says that these are"
    other = "" if arguments.format else ", or name the format of the files with --format"
    for name in _NOT_FOR_RAW:
        if name in given:
            raise UsageError(f"{_option(name)} does not apply to raw recordings{because}; leave it out{other}")
    missing = [] if "preset" in given else [name for name in ("layout", "dtype", "rate") if name not in given]
    if missing:
        options = ", ".join(map(_option, missing))
        other = "" if arguments.format else "; if the files have a format of their own, name it with --format"
        raise UsageError(f"raw recordings do not describe themselves: give {options}, or a --preset{other}")
    return True


def rate_pair(rate: Fraction | None) -> tuple[int, int] | None:
    """A rate as the native layer takes it."""
    return None if rate is None else (rate.numerator, rate.denominator)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _argument(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser for argparse, which reports its message as a usage error."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; name a file or a folder")
    return Path(text)


def _start(text: str) -> Stamp:
    ns, _ = parse_time(text)
    # Whoever types 06:00:00 or 06:00:00.5 means that instant, not somewhere in its last digit.
    return Stamp(ns, 1)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _positive(text: str) -> float:
    value = _number(text)
    if not 0 < value < float("inf"):
        raise UsageError(f"{text!r} is not a number above 0")
    return value


def _weight(text: str) -> float:
    value = _number(text)
    if not 0 < value <= 1:
        raise UsageError(f"{text!r} is not a number above 0 and at most 1")
    return value
