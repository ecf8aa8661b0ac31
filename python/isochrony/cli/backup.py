"""``isochrony backup``: a consistent copy of a store, also while it is written."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from .copying import add_copy_options, copy
from .paths import is_url, store_path

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
    parser.add_argument("dest", metavar="DEST", type=store_path, help="folder of the copy")
    add_copy_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Back up, print what was copied."""
    if is_url(str(arguments.dest)):
        raise UsageError(f"{arguments.dest} is no folder; to copy to object storage: isochrony push STORE URL")
    return copy(arguments, arguments.store, arguments.dest, "backing up")
