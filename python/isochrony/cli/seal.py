"""``isochrony seal``: compress finished signals."""

from __future__ import annotations

import argparse
from typing import Any

from ..output.progress import bytes_text
from .damaged import each, print_damaged
from .exits import Exit
from .tables import print_json
from .target import open_store, parse_target

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "run"]

HELP = "compress finished signals; any Zarr reader can still read them"
INTERRUPTED = "what was committed stays"
EXAMPLES = """examples:
  isochrony seal water.iso/stn_10/pressure
  isochrony seal water.iso --codec blosc
  isochrony seal water.iso/stn_10/pressure --undo

Sealing writes a compressed copy of the samples, which then replaces them in one step. A sealed
signal is read-only, until --undo decompresses it; reading it takes the time to decompress it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("target", metavar="STORE[/SIGNAL]", help="signals to seal (compress and make read-only)")
    parser.add_argument(
        "--codec",
        default="zstd",
        metavar="CODEC",
        help="compression method: zstd, zstd:LEVEL, blosc or blosc:COMPRESSOR[:LEVEL] (default: zstd)",
    )
    parser.add_argument(
        "--undo", action="store_true", help="decompress the samples, so that the signal can be appended to"
    )
    parser.add_argument(
        "--json", action="store_true", help="print each signal's bytes before and after as JSON, instead of text"
    )


def run(arguments: argparse.Namespace) -> int:
    """Seal, print sizes before and after."""
    target = parse_target(arguments.target)

    def seal(signal: Any) -> dict[str, Any]:
        before, after = _unseal(signal) if arguments.undo else signal.seal(arguments.codec)
        if not arguments.json:
            share = f" ({after / before:.2f})" if before else ""
            print(f"{signal.name}: {bytes_text(before)} -> {bytes_text(after)}{share}")
        return {"signal": signal.name, "samples_bytes": before, "stored_bytes": after}

    with open_store(target.store, "r+") as store:
        rows, damaged = each(store, target.signal, seal)
    if arguments.json:
        print_json(rows)
    print_damaged(target.store, damaged, len(rows))
    return Exit.PARTIAL if damaged else Exit.OK


def _unseal(signal: Any) -> tuple[int, int]:
    before = signal.sizes()["stored"]
    signal.unseal()
    return before, signal.sizes()["stored"]
