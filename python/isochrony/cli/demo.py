"""``isochrony demo``: the main job from end to end."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "make an hour of recordings, import them, find what happened, and draw it"
EXAMPLES = """examples:
  isochrony demo
  isochrony demo --dir /tmp/demo
  isochrony demo --from ~/recordings --dir /tmp/mine

With --from it does the same for your own files: what is there, what is missing, how
fast the clocks ran, and a picture. Exit code 1: files were refused, or (without
--from) a finding missed the truth by more than 1 ppm or 1 ms.
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
        help="your own recordings, of any importable format",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo on made or on own recordings."""
    if arguments.source is not None:
        from ..demo.own import run_own

        return run_own(arguments.source, arguments.dir)
    from ..demo.network_demo import run_demo

    return run_demo(arguments.dir)
