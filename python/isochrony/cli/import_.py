"""``isochrony import``: files into a store."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..importers import Options, import_files
from ..progress import ImportProgress, bytes_text, duration_text
from .exits import Exit
from .import_options import EXAMPLES, HELP, add_arguments, check, rate_pair
from .summary import print_summary
from .tables import print_json
from .target import is_store, open_for_import
from .words import in_option_words

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "check_store", "run"]

INTERRUPTED = "what was committed stays, and the same command resumes"


def run(arguments: argparse.Namespace) -> int:
    """Import, print the summary, and say by the status whether all of it went in."""
    raw = check(arguments)
    _check_source(arguments.src, raw=raw, follow=arguments.follow)
    check_store(arguments.store)
    with open_for_import(arguments.store) as store, ImportProgress("importing") as progress:
        summary = in_option_words((_import_raw if raw else _import_files)(store, arguments, progress))
    if arguments.json:
        print_json(summary)
    else:
        print_summary(summary)
        _closing(summary, arguments.store)
    return Exit.PARTIAL if summary["problems"] else Exit.OK


def _import_raw(store: Any, arguments: argparse.Namespace, progress: ImportProgress) -> Any:
    """The native path, for headerless samples."""
    return store.import_raw(
        arguments.src,
        preset=arguments.preset,
        dtype=arguments.dtype,
        rate=rate_pair(arguments.rate),
        unit=arguments.unit,
        partial=arguments.partial,
        **_common(arguments, progress),
    )


def _import_files(store: Any, arguments: argparse.Namespace, progress: ImportProgress) -> Any:
    options = Options(
        rate=arguments.rate,
        unit=arguments.unit,
        start=arguments.start,
        signal=arguments.signal,
        time_column=arguments.time_column,
        partial=arguments.partial,
        encoding=arguments.encoding,
    )
    return import_files(store, arguments.src, format=arguments.format, options=options, **_common(arguments, progress))


def _common(arguments: argparse.Namespace, progress: ImportProgress) -> dict[str, Any]:
    """What both ways of importing take alike."""
    names = ("layout", "gap_slip", "alpha", "initial_rate", "max_gap", "value_jump", "follow")
    return {name: getattr(arguments, name) for name in names} | {"progress": progress}


def _check_source(src: Path, *, raw: bool, follow: bool) -> None:
    """Refuse a source that cannot hold recordings before a store is made."""
    if not src.exists():
        raise UsageError(f"{src} does not exist; name a folder or a file of recordings")
    if is_store(src):
        raise UsageError(f"{src} is an Isochrony store, not recordings; name the recordings first, then the store")
    if raw and not src.is_dir():
        raise UsageError(f"{src} is a file; raw recordings are imported by folder: name {src.absolute().parent}")
    if src.is_dir() and not follow and not any(names for _, _, names in os.walk(src)):
        raise UsageError(f"{src} holds no files; name the folder that holds the recordings")


def check_store(store: Path) -> None:
    """Refuse a place where no store can be made."""
    if store.is_file():
        raise UsageError(f"{store} is a file; name a folder for the store, such as {store.with_suffix('.iso')}")
    # A store whose making was interrupted, by a full disk say, has no more than the engine's folder, and is made now.
    if store.is_dir() and any(inside.name != ".isochrony" for inside in store.iterdir()) and not is_store(store):
        raise UsageError(f"{store} is a folder of other files; name a new one for the store, such as {store}.iso")


def _closing(summary: Mapping[str, Any], store: Path) -> None:
    seconds = summary["seconds"]
    size = summary["bytes"]
    files = summary["files"]
    rate = f" ({bytes_text(size / seconds)}/s)" if seconds > 0 and size else ""
    kept = sum(summary["kept"])
    print(
        f"{files} {'file' if files == 1 else 'files'}, {bytes_text(size)} in {duration_text(seconds)}{rate}; "
        f"{summary['skipped']} known before; {len(summary['problems']) - kept} refused"
        + (f"; {kept} kept with remarks" if kept else ""),
        file=sys.stderr,
    )
    print(f"next: isochrony info {store}" if store.exists() else "no store was made: nothing went in", file=sys.stderr)
