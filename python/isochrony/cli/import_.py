"""``isochrony import``: files into a store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..importers.files import import_recordings
from ..importers.keywords import OPTIONS
from ..output.progress import ImportProgress, bytes_text, duration_text
from .exits import Exit
from .import_options import EXAMPLES, HELP, add_arguments
from .message_options import with_options
from .summary import print_summary
from .tables import print_json

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "run"]

INTERRUPTED = "what was committed stays, and the same command resumes"


def run(arguments: argparse.Namespace) -> int:
    """Import, print the summary, and say by the status whether all of it went in."""
    given = {name: value for name in OPTIONS if (value := getattr(arguments, name)) is not None}
    with ImportProgress("importing") as progress:
        summary = with_options(import_recordings(arguments.store, arguments.src, progress, given))
    if arguments.json:
        print_json(summary)
    else:
        print_summary(summary)
        _closing(summary, arguments.store)
    return Exit.PARTIAL if summary["problems"] else Exit.OK


def _closing(summary: Mapping[str, Any], store: Path) -> None:
    seconds = summary["seconds"]
    size = summary["bytes"]
    files = summary["files"]
    rate = f" ({bytes_text(size / seconds)}/s)" if seconds > 0 and size else ""
    kept = sum(summary["kept"])
    print(
        f"{files} {'file' if files == 1 else 'files'}, {bytes_text(size)} in {duration_text(seconds)}{rate}; "
        f"{summary['skipped']} known already; {len(summary['problems']) - kept} refused"
        + (f"; {kept} imported in part" if kept else ""),
        file=sys.stderr,
    )
    print(
        f"next: isochrony info {store}" if store.exists() else "no store was created, since nothing was imported",
        file=sys.stderr,
    )
