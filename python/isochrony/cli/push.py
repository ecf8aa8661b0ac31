"""``isochrony push``: a copy of a store in object storage."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from .copying import add_copy_options, copy
from .paths import is_url, store_path

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "copy a store to object storage (s3://, gs://, az://); repeated, copy only what is new"
EXAMPLES = """examples:
  isochrony push water.iso s3://recordings/water.iso
  isochrony push water.iso s3://recordings/water.iso        # again: copies what is new
  isochrony push water.iso gs://lab/hydro.iso --signals 'stn_1*/hydro'

The copy is a store as of one commit: any command, plan and Zarr reader opens it by its
URL. Every full chunk is compared with its checksum before it is sent. Until the new commit
is complete, readers see the previous one, or an error that the copy is unfinished. To finish
an interrupted push, run the same command again; only one process may push to a URL at a time.
URL must be unused, or an earlier push of the same store. Changes are staged in the folder of
TMPDIR, which needs up to 1 GB.

Credentials come from the environment of this host: docs/cloud.md.

Exit codes: 0 done; 1 some signals cannot be read, and stay as they were in the copy;
3 STORE cannot be read, or URL cannot be written.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("store", metavar="STORE", type=store_path, help="store to copy")
    parser.add_argument("url", metavar="URL", help="URL of the copy, such as s3://bucket/water.iso")
    add_copy_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Push, print what was copied."""
    if not is_url(arguments.url):
        raise UsageError(
            f"{arguments.url} is not a URL of object storage (s3://, gs://, az://); to copy to a disk, run: "
            "isochrony backup STORE DEST"
        )
    return copy(arguments, arguments.store, arguments.url, "pushing")
