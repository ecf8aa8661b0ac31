"""``isochrony seal``: compress finished signals."""

from __future__ import annotations

import argparse

from ..progress import bytes_text
from .exits import Exit
from .tables import print_json
from .target import open_store, parse_target, signals_of

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "compress finished signals; they stay readable by any Zarr reader"
EXAMPLES = """examples:
  isochrony seal water.iso/stn_10/pressure
  isochrony seal water.iso --codec blosc

A sealed signal is rewritten whole into a new array, which then takes the old one's
place at once. Reading it costs decompression; nothing else changes.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("target", metavar="STORE[/SIGNAL]", help="signals to seal")
    parser.add_argument(
        "--codec",
        default="zstd",
        metavar="CODEC",
        help="zstd, zstd:LEVEL, blosc or blosc:COMPRESSOR[:LEVEL] (default: zstd)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Seal, print sizes before and after."""
    target = parse_target(arguments.target)
    rows = []
    with open_store(target.store, "r+") as store:
        for signal in signals_of(store, target.signal):
            before, after = signal.seal(arguments.codec)
            rows.append({"signal": signal.name, "samples_bytes": before, "stored_bytes": after})
            if not arguments.json:
                share = f" ({after / before:.2f})" if before else ""
                print(f"{signal.name}: {bytes_text(before)} -> {bytes_text(after)}{share}")
    if arguments.json:
        print_json(rows)
    return Exit.OK
