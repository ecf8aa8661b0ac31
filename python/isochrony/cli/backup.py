"""``isochrony backup``: a consistent copy of a store, also while it is written."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from .copying import add_copy_options, copy
from .paths import is_url, store_path

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "copy a store, even while it is being written; repeated, copy only what is new"
EXAMPLES = """examples:
  isochrony backup water.iso /mnt/disk/water.iso
  isochrony backup water.iso /mnt/disk/water.iso      # again: copies what is new

DEST becomes a copy of STORE as of one commit, which any command and any Zarr reader opens.
To finish an interrupted backup, run the same command again. DEST must be missing, empty, or
an earlier backup of the same store without other changes.

Exit codes: 0 done; 1 some signals cannot be read, and stay as they were in DEST;
3 STORE cannot be read, or DEST cannot be written.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("store", metavar="STORE", type=store_path, help="store to copy")
    parser.add_argument("dest", metavar="DEST", type=store_path, help="folder of the copy")
    add_copy_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Back up, print what was copied."""
    if is_url(str(arguments.dest)):
        raise UsageError(
            f"{arguments.dest} is a URL, not a folder; to copy to object storage, run: isochrony push STORE URL"
        )
    return copy(arguments, arguments.store, arguments.dest, "backing up")
