"""``isochrony demo``: the main job from end to end."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import IsochronyError, UsageError
from ..importers.rational import parse_rate

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "run"]

HELP = "generate an hour of recordings, import them, detect events, and draw them"
INTERRUPTED = "run it again"
EXAMPLES = """examples:
  isochrony demo
  isochrony demo --dir /tmp/demo
  isochrony demo --from ~/recordings --dir /tmp/mine
  isochrony demo --from demo/recordings --dir /tmp/mine --dtype '<i2' --rate 2000 \\
      --layout '{station}/{sensor}/{station}_{epoch}.raw'

With --from it does the same for your own files: what was recorded, what is missing, the true
sample rates, the arrival times of events that several stations recorded, and a picture.

Exit codes: 0 done; 1 files were refused, or (without --from) a sample rate is off by more than
1 ppm, or an arrival time by more than 1 ms.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path("demo"),
        metavar="OUT",
        help="folder to write into (default: demo)",
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR",
        help="recordings to use instead of the built-in ones; any format that `isochrony import` reads",
    )
    parser.add_argument(
        "--layout",
        metavar="TEMPLATE",
        help="how to read station names and times from the file paths below --from, such as '{station}/{iso}.wav'; see "
        "isochrony import --help",
    )
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="built-in layout, dtype and rate of the raw recordings of a known deployment; available: censam "
        "({station}/{year}/{day}/{sensor}/{station}_{epoch}.raw, int16, 2000 Hz)",
    )
    parser.add_argument(
        "--dtype",
        metavar="TYPE",
        help="type of the samples in the raw files (without a header) below --from, in NumPy's spelling, such as '<i2'",
    )
    parser.add_argument("--rate", metavar="HZ", help="nominal sample rate of files that do not state one")
    parser.add_argument("--unit", metavar="U", help="unit of the samples, such as mbar")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo on made or on own recordings."""
    try:
        return _run(arguments)
    except OSError as error:
        if isinstance(error, IsochronyError) or error.filename is not None:
            raise
        # What fails while a file is written, such as a full disk, does not name it.
        raise OSError(error.errno, error.strerror, str(arguments.dir)) from error


def _run(arguments: argparse.Namespace) -> int:
    if arguments.source is not None:
        from ..demo.own import Recordings, run_own

        rate = None if arguments.rate is None else parse_rate(arguments.rate)
        how = Recordings(arguments.layout, arguments.dtype, rate, arguments.preset, arguments.unit)
        return run_own(arguments.source, arguments.dir, how)
    for option in ("layout", "dtype", "rate", "preset", "unit"):
        if getattr(arguments, option) is not None:
            raise UsageError(
                f"--{option} applies to recordings of your own; name their folder with --from DIR, or "
                f"leave out --{option}"
            )
    from ..demo.network_demo import run_demo

    return run_demo(arguments.dir)
