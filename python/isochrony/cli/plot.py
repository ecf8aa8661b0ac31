"""``isochrony plot``: a picture of a signal with its gaps."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from ..output.files import check_output
from .exits import Exit
from .paths import output_path
from .scan import span_ends
from .target import open_store, parse_target, single_signal

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "run"]

HELP = "draw a signal, with its gaps shaded"
INTERRUPTED = "nothing was written"
EXAMPLES = """examples:
  isochrony plot water.iso/stn_10/pressure --out pressure.png
  isochrony plot water.iso/stn_10/pressure --from 2010-03-01T00:14 --to 2010-03-01T00:15 --out burst.svg
"""

_SUFFIXES = (".png", ".svg", ".pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("target", metavar="STORE/SIGNAL", help="signal to draw")
    parser.add_argument(
        "--from", dest="start", metavar="T", help="time (UTC) of the first sample to draw, such as 2010-03-01T12:00:00"
    )
    parser.add_argument(
        "--to",
        dest="end",
        metavar="T",
        help="end time (UTC), excluded, such as 2010-03-01T12:05:00",
    )
    parser.add_argument("--out", type=output_path, required=True, metavar="F", help="file to write: .png, .svg or .pdf")
    parser.add_argument("--force", action="store_true", help="replace the output file if it exists")


def run(arguments: argparse.Namespace) -> int:
    """Draw, and name what was written."""
    from ..store.plots import plot, save_figure

    if arguments.out.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"--out {arguments.out} has an unknown suffix; give a file with {', '.join(_SUFFIXES)}")
    check_output(arguments.out, replace=arguments.force)
    target = parse_target(arguments.target)
    with open_store(target.store) as store:
        signal = single_signal(store, target.signal)
        ends = span_ends(signal, arguments.start, arguments.end)
        save_figure(plot(signal, *ends), arguments.out, replace=arguments.force)
    print(arguments.out)
    return Exit.OK
