"""``isochrony pull``: a copy of a store in object storage on a disk."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from .copying import add_copy_options, copy
from .paths import is_url, store_path

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "copy a store from its URL to a disk; repeated, copy only what is new"
EXAMPLES = """examples:
  isochrony pull s3://recordings/water.iso water.iso
  isochrony pull s3://recordings/water.iso water.iso         # again: copies what is new
  isochrony pull https://data.example.org/water.iso water.iso --signals 'stn_10/*'

DEST becomes a copy of the store at URL as of its last published commit. Every full chunk is
compared with its checksum. To finish an interrupted pull, run the same command again.
DEST must be missing, empty, or an earlier copy of the same store without other changes.

Exit codes: 0 done; 1 some signals cannot be read, and stay as they were in DEST;
3 URL cannot be read, or DEST cannot be written.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("url", metavar="URL", help="URL of the store, such as s3://bucket/water.iso")
    parser.add_argument("dest", metavar="DEST", type=store_path, help="folder of the copy")
    add_copy_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Pull, print what was copied."""
    if not is_url(arguments.url):
        raise UsageError(
            f"{arguments.url} is not a URL of a store (s3://, gs://, az://, https://); to copy from a disk, run: "
            "isochrony backup STORE DEST"
        )
    if is_url(str(arguments.dest)):
        raise UsageError(
            f"{arguments.dest} is a URL, not a folder; to copy to object storage, run: isochrony push STORE URL"
        )
    return copy(arguments, arguments.url, arguments.dest, "pulling")
