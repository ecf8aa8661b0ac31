"""``isochrony backup``: a consistent copy of a store, also while it is written."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..progress import ImportProgress, bytes_text
from .exits import Exit
from .paths import store_path
from .tables import print_json
from .target import is_store
from .words import as_options

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "copy a store consistently, also while it is written; the next time only what is new"
EXAMPLES = """examples:
  isochrony backup water.iso /mnt/disk/water.iso
  isochrony backup water.iso /mnt/disk/water.iso      # again: copies what is new

DEST becomes a store like STORE as of one commit: any command and any Zarr reader opens
it. A backup that was interrupted goes on with the same command. DEST must be missing,
empty, or an earlier backup of the same store that nobody wrote to.

Exit codes: 0 done; 1 some signals cannot be read, and DEST holds them as it did before;
3 nothing can be read there or written here.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("store", metavar="STORE", type=store_path, help="store to copy")
    parser.add_argument("dest", metavar="DEST", type=Path, help="folder of the copy")
    parser.add_argument("--json", action="store_true", help="print the report as JSON, instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Back up, print what was copied."""
    from ..store import backup

    if not is_store(arguments.store):
        raise UsageError(f"{arguments.store} is not an Isochrony store; check the path")
    with ImportProgress("backing up") as progress:
        report: Any = backup(arguments.store, arguments.dest, progress=progress)
    failed = [(name, as_options(reason)) for name, reason in report["failed"]]
    if arguments.json:
        print_json({**report, "failed": [{"name": name, "error": reason} for name, reason in failed]})
    else:
        count = report["signals"]
        removed = f", {report['removed']} removed" if report["removed"] else ""
        print(
            f"{count} {'signal' if count == 1 else 'signals'}{removed}: {bytes_text(report['copied_bytes'])} copied, "
            f"{bytes_text(report['kept_bytes'])} were there already"
        )
    for name, reason in failed:
        print(f"isochrony: {name}: {reason}", file=sys.stderr)
    if failed:
        print(
            f"isochrony: {len(failed)} of {report['signals'] + len(failed)} signals cannot be read; to see all that is "
            f"damaged: isochrony verify {arguments.store}",
            file=sys.stderr,
        )
    return Exit.PARTIAL if failed else Exit.OK
