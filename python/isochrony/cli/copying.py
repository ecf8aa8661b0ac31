"""What ``backup``, ``push`` and ``pull`` share: arguments, and the report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..output.progress import ImportProgress, bytes_text
from .exits import Exit
from .message_options import as_options
from .paths import is_url
from .tables import print_json
from .target import is_store

__all__ = ["add_copy_options", "copy"]


def add_copy_options(parser: argparse.ArgumentParser) -> None:
    """Options of a copy."""
    parser.add_argument(
        "--signals",
        metavar="PATTERN",
        action="append",
        help="copy only signals whose names match, such as 'stn_*/pressure' or '**/hydro'; may be repeated. Other "
        "signals of an earlier copy stay as they are",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON, instead of text")


def copy(arguments: argparse.Namespace, source: Path | str, dest: Path | str, action: str) -> int:
    """Copy a store, print what was copied."""
    from ..store import backup

    if not is_url(str(source)) and not is_store(source):
        raise UsageError(f"{source} is not an Isochrony store; check the path")
    with ImportProgress(action) as progress:
        report: Any = backup(source, dest, signals=arguments.signals, progress=progress)
    failed = [(name, as_options(reason)) for name, reason in report["failed"]]
    if arguments.json:
        print_json({**report, "failed": [{"name": name, "error": reason} for name, reason in failed]})
    else:
        count = report["signals"]
        removed = f", {report['removed']} removed" if report["removed"] else ""
        print(
            f"{count} {'signal' if count == 1 else 'signals'}{removed}: {bytes_text(report['copied_bytes'])} copied, "
            f"{bytes_text(report['kept_bytes'])} already there"
        )
    for name, reason in failed:
        print(f"isochrony: {name}: {reason}", file=sys.stderr)
    if failed:
        print(
            f"isochrony: {len(failed)} of {report['signals'] + len(failed)} signals cannot be read; to list all "
            f"damage, run: isochrony verify {source}",
            file=sys.stderr,
        )
    return Exit.PARTIAL if failed else Exit.OK
