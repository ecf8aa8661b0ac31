"""`import_files`: files of any format, raw ones too, into a store, by path and keywords."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ..errors import PartialImportWarning, UsageError
from ..options import function_or_none
from .block import Options
from .destination import check_destination, is_store, open_destination
from .driver import Progress, feed_files
from .keywords import ImportKeywords, checked, options_of, takes_import_options
from .registry import formats
from .sources import expand, printable_path
from .summary import ImportSummary, shown
from .without_effect import raw_stored_otherwise

if TYPE_CHECKING:
    from .._native import Store

__all__ = ["import_files", "import_recordings"]

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

# Either says that files are raw.
_FOR_RAW = ("preset", "dtype")
_OF_READERS = {one.name for one in fields(Options)}
_SHOWN = 3


@takes_import_options
def import_files(
    store: Store | str | os.PathLike[str],
    files: Paths,
    *,
    progress: Progress | None = None,
    **options: Unpack[ImportKeywords],
) -> ImportSummary:
    """Import recordings: a file, several, a folder with everything below it, or a pattern such as ``day*/*.wav``.

    A bad file never stops the others: it is refused, with the reason in the summary and in a warning. Importing again
    imports only what is new, also of files that have grown. A last row of a table without a line end may be incomplete,
    so it is left out until a later import finds the line end. Stored samples stay as they were imported: an option that
    would read a known file in another way, such as another ``zone=``, has no effect, and the remarks of the summary say
    so.

    A signal is named by the file's path without its suffix, relative to the named folder, or to the deepest folder that
    contains all files; ``signal=``, ``layout=`` or the file itself may state another name. Files that differ only in
    their suffix become signals with their full names. A file without a time, of a signal that has samples of another
    file, becomes a run of its own, since the time between them is unknown.

    Parameters:
        store: a store that is open for writing, or the path of one, which is created if it is missing.
        files: path or pattern, or a list of them; hidden files and stores are left out.
        progress: called at most ten times a second with bytes done, bytes in total, files done, files in total.
        {import_options}

    Returns:
        An `ImportSummary`, a dict that prints as a few lines: "results" has the status of each file, "signals" the
        name, samples, gaps and times of each signal.

    Warns:
        PartialImportWarning: files were refused, or imported in part.

    Raises:
        UsageError: a path that does not exist, nothing to import, or options that exclude each other.
        OptionError: an option with a value that is not legal.
        IsochronyError: the store cannot be written; committed samples stay.

    >>> import numpy as np, isochrony as iso, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "a.npy", np.arange(500, dtype="i2"))
    >>> summary = iso.import_files(folder / "s.iso", folder / "*.npy", rate=100, start="2024-05-01T12:00:00Z")
    >>> [(one["status"], one["signals"]) for one in summary["results"]]
    [('imported', ['a'])]
    """
    summary = import_recordings(store, files, progress, options)
    if summary["problems"]:
        some = "; ".join(f"{shown(path)}: {shown(reason)}" for path, reason in summary["problems"][:_SHOWN])
        more = len(summary["problems"]) - _SHOWN
        count = len({path for path, _ in summary["problems"]})
        warnings.warn(
            f"{count} {'file was' if count == 1 else 'files were'} not imported, or not as a whole: {some}"
            + (f"; and {more} more, in the summary's problems" if more > 0 else ""),
            PartialImportWarning,
            stacklevel=2,
        )
    return summary


def import_recordings(
    store: Store | str | os.PathLike[str], files: Paths, progress: Progress | None, options: Mapping[str, Any]
) -> ImportSummary:
    """As `import_files`, without a warning: the caller shows the summary."""
    from .._native import Store

    given = checked(options)
    function_or_none("progress", progress)
    is_raw = _check_together(given)
    paths = expand(files, patterns=not given["follow"])
    for path in paths:
        if is_store(path):
            raise UsageError(
                f"{printable_path(path)} is an Isochrony store, not recordings; name the recordings to import"
            )
    if is_raw:
        _check_folder(paths)
    with contextlib.ExitStack() as stack:
        opened: Any = store
        if isinstance(store, str | os.PathLike):
            _check_not_empty(paths, follow=given["follow"])
            check_destination(Path(store))
            opened = stack.enter_context(open_destination(store))
        if not hasattr(opened, "ingest"):
            raise UsageError(
                f"got {type(store).__name__} where a store is expected; give its path, or what "
                "iso.open(PATH, mode='a') gives"
            )
        if not is_raw:
            return feed_files(opened, paths, given, progress)
        raw = opened.import_raw(
            paths[0], progress=progress, **{name: given[name] for name in options_of(Store.import_raw)}
        )
        results = [
            {"path": path, "status": "kept" if kept else "refused", "signals": [], "samples": 0, "reason": reason}
            for (path, reason), kept in zip(raw["problems"], raw["kept"], strict=True)
        ]
        remarks = [(printable_path(paths[0]), text) for text in raw_stored_otherwise(opened, raw, given)]
        return ImportSummary(raw, remarks=remarks, results=results)


def _check_folder(paths: list[Path]) -> None:
    """Refuse other sources of raw recordings than one folder."""
    if len(paths) > 1:
        raise UsageError(f"raw recordings are imported by folder, got {len(paths)} paths; name the one that holds them")
    if not paths[0].is_dir() and paths[0].exists():
        parent = printable_path(paths[0].absolute().parent)
        raise UsageError(f"{printable_path(paths[0])} is a file; raw recordings are imported by folder: name {parent}")


def _check_not_empty(paths: list[Path], *, follow: bool) -> None:
    """Refuse folders without files before a store is made.

    Raises:
        UsageError: a path that does not exist, or no file.
    """
    for path in paths:
        if not path.exists():
            raise UsageError(f"{printable_path(path)} does not exist; name a folder or a file of recordings")
    if not follow and not any(not path.is_dir() or any(names for _, _, names in os.walk(path)) for path in paths):
        shown = ", ".join(map(printable_path, paths[:_SHOWN]))
        raise UsageError(f"{shown} holds no files; name the folder that holds the recordings")


def _check_together(given: Mapping[str, Any]) -> bool:
    """Whether the files are raw. Options that would be ignored are errors.

    Raises:
        UsageError: options that do not go together, or that are missing.
    """
    stated = {name for name, value in given.items() if value is not None and value is not False}
    name_of_format = given["format"]
    implied = [name for name in _FOR_RAW if name in stated]
    if name_of_format == "raw" or (name_of_format is None and implied):
        return _check_raw(given, stated, implied)
    for name in implied:
        raise UsageError(f"{name}= is for raw recordings; leave it out, or use format=raw")
    of_readers = [name for name in given if name in stated and name in _OF_READERS]
    for name in of_readers:
        takers = [one.name for one in formats() if one.takes(name)]
        if name_of_format not in (None, *takers):
            raise UsageError(
                f"{name}= is for {' and '.join(takers)} files, not {name_of_format}; leave it out, or use "
                f"format={' or '.join(takers)}"
            )
    if "ignore_times" in stated and "rate" not in stated:
        raise UsageError(
            "ignore_times= also needs the sample rate, since rows are then taken as evenly spaced; add rate=HZ"
        )
    return False


def _check_raw(given: Mapping[str, Any], stated: set[str], implied: list[str]) -> bool:
    from .._native import Store

    because = "" if given["format"] else f", as {implied[0]}= says that these are"
    other = "" if given["format"] else ", or name the format of the files with format="
    taken = options_of(Store.import_raw)
    for name in (one for one in given if one in stated and one in _OF_READERS):
        if name not in taken:
            raise UsageError(f"{name}= cannot be used with raw recordings{because}; leave out {name}={other}")
    missing = [] if "preset" in stated else [name for name in ("layout", "dtype", "rate") if name not in stated]
    if missing:
        options = ", ".join(f"{name}=" for name in missing)
        other = "" if given["format"] else "; if the files have a format of their own, name it with format="
        raise UsageError(
            f"raw recordings do not state their own format: also give {options}, or give preset= instead{other}"
        )
    return True
