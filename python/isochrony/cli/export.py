"""``isochrony export``: a signal as a file of a common format."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import UsageError
from ..output.files import check_output
from ..output.progress import bytes_text
from ..store.exporters import FORMATS, export, format_of
from .exits import Exit
from .paths import output_path
from .scan import selection
from .target import open_store, parse_target, single_signal

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "run"]

HELP = "write a signal, or a time range of it, to a file of a common format"
INTERRUPTED = "no unfinished file is left"
EXAMPLES = """examples:
  isochrony export water.iso/stn_10/pressure --out pressure.parquet
  isochrony export event.iso/YA/FJS/00/HHZ --out fjs.mseed
  isochrony export sound.iso/take --format wav
  isochrony export sound.iso/take --from 2024-05-01T06:00 --to 2024-05-01T06:05 --out dawn.flac
  isochrony export sound.iso/take --format csv --out /dev/stdout | head

.csv and .parquet have a time for each sample, and leave gaps out. .mseed has a series of
records for each gap-free range: miniSEED 2, integers as STEIM2, floats as they are. Its codes are
those that the signal was imported with; a signal without any gets network XX, and the first part
of its name as station. .wav, .flac and .npy cannot represent gaps: a range with a gap is refused,
unless --split writes one file per gap-free range.

.csv, .parquet and .npy have values in the signal's unit, or with --counts the samples as
stored. .wav, .flac and .mseed always have the samples as stored, since they are formats of
counts without a unit.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("target", metavar="STORE/SIGNAL", help="signal to write")
    suffixes = ", ".join(f".{one}" for one in FORMATS)
    parser.add_argument(
        "--out",
        type=output_path,
        metavar="F",
        help=f"file to write: {suffixes} (default: the last part of the signal's name, with the suffix of --format)",
    )
    parser.add_argument("--format", metavar="NAME", choices=FORMATS, help="format (default: by the suffix of --out)")
    parser.add_argument(
        "--from", dest="start", metavar="T", help="time (UTC) of the first sample to write, such as 2010-03-01T12:00:00"
    )
    parser.add_argument(
        "--to",
        dest="end",
        metavar="T",
        help="end time (UTC), excluded, such as 2010-03-01T12:05:00",
    )
    parser.add_argument("--counts", action="store_true", help="write samples as stored, instead of values in the unit")
    parser.add_argument(
        "--split",
        action="store_true",
        help="write one file per gap-free range: with --out x.wav, x-1.wav, x-2.wav, ...",
    )
    parser.add_argument("--force", action="store_true", help="replace output files that exist")


def run(arguments: argparse.Namespace) -> int:
    """Export and name what was written."""
    if arguments.out is None and arguments.format is None:
        raise UsageError(f"no output file; name it with --out, or its format with --format: {', '.join(FORMATS)}")
    target = parse_target(arguments.target)
    if arguments.out is not None:
        # Before anything is opened.
        format_of(arguments.out, arguments.format)
    with open_store(target.store) as store:
        signal = single_signal(store, target.signal)
        out = arguments.out or Path(f"{signal.name.rpartition('/')[2]}.{arguments.format}")
        if not arguments.split:
            check_output(out, replace=arguments.force)
        stretch = selection(signal, arguments.start, arguments.end)
        options = {"split": arguments.split, "replace": arguments.force, "counts": arguments.counts}
        written = export(signal, stretch, out, format=arguments.format, **options)
    for path in written:
        # What went into a pipe may be read by a program.
        if path.is_file():
            print(f"{path}  {bytes_text(path.stat().st_size)}")
    return Exit.OK
