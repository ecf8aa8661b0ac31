"""``isochrony push``: a copy of a store in object storage."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from .copying import add_copy_options, copy
from .paths import is_url, store_path

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "copy a store to object storage (s3://, gs://, az://); the next time only what is new"
EXAMPLES = """examples:
  isochrony push water.iso s3://recordings/water.iso
  isochrony push water.iso s3://recordings/water.iso        # again: copies what is new
  isochrony push water.iso gs://lab/hydro.iso --signals 'stn_1*/hydro'

The copy is a store as of one commit: any command, plan and Zarr reader opens it by its
URL. Every full chunk is compared with its checksum before it is sent. Until the new state
is complete, readers see the one before or are told that the copy is unfinished. A push
that was interrupted goes on with the same command; one process pushes to a URL at a time.
URL must name nothing yet, or an earlier push of the same store. What changes is made in
the folder that TMPDIR names, which needs up to 1 GB.

Credentials are those of this host's environment: docs/cloud.md.

Exit codes: 0 done; 1 some signals cannot be read, and the copy holds them as it did
before; 3 nothing can be read here or written there.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("store", metavar="STORE", type=store_path, help="store to copy")
    parser.add_argument("url", metavar="URL", help="of the copy, such as s3://bucket/water.iso")
    add_copy_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Push, print what was copied."""
    if not is_url(arguments.url):
        raise UsageError(
            f"{arguments.url} is no URL of object storage (s3://, gs://, az://); to copy to a disk: "
            "isochrony backup STORE DEST"
        )
    return copy(arguments, arguments.store, arguments.url, "pushing")
