"""``isochrony cache``: what a host's cache of remote files holds, and removing it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..output.progress import bytes_text
from .exits import Exit
from .tables import print_json

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "show or clear the cache of remote files of this host"
EXAMPLES = """examples:
  isochrony cache info /scratch/isochrony
  isochrony cache clear /scratch/isochrony

FOLDER is that of isochrony.cluster.attach(client, folder=...). Both actions are safe while
workers use the cache: clear keeps the files in use.

Exit codes: 0 done; 1 some files are in use and were kept; 3 the folder cannot be read.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "action",
        metavar="info|clear",
        choices=("info", "clear"),
        help="action: show the state of the cache, or remove its files",
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder of the cache")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Show or clear it."""
    from .._native import open_cache

    # Opening what is none would be an error of the system that does not say so.
    if not (arguments.folder / "journal").is_file():
        raise UsageError(
            f"{arguments.folder} is not a cache; give the folder= of isochrony.cluster.attach, on this host"
        )
    cache = open_cache(arguments.folder)
    if arguments.action == "info":
        return _info(cache.info(), arguments.json)
    removed, removed_bytes, kept, kept_bytes = cache.clear()
    if arguments.json:
        print_json({"removed": removed, "removed_bytes": removed_bytes, "in_use": kept, "in_use_bytes": kept_bytes})
    else:
        in_use = f"; {kept} kept, since they are in use ({bytes_text(kept_bytes)})" if kept else ""
        print(f"{removed} removed ({bytes_text(removed_bytes)}){in_use}")
    return Exit.PARTIAL if kept else Exit.OK


def _info(info: dict[str, Any], as_json: bool) -> int:
    if as_json:
        print_json({**info, "folder": str(info["folder"])})
        return Exit.OK
    looks = info["hits"] + info["misses"]
    rate = f"{info['hits'] / looks:.1%} of {looks}" if looks else "no reads yet"
    lines = {
        "folder": info["folder"],
        "quota": bytes_text(info["quota_bytes"]),
        "on disk": bytes_text(info["allocated_bytes"]),
        "files": f"{info['objects']}, {info['pinned_objects']} in use",
        "present": bytes_text(info["present_bytes"]),
        "hits": rate,
        "evictions": f"{info['evictions']} ({info['evict']})",
    }
    for name, value in lines.items():
        print(f"{name:<10} {value}")
    return Exit.OK
