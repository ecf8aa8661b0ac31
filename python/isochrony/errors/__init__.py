"""The errors and warnings of the Python layer, and the root of all Isochrony errors.

Every error of ours, native ones included, inherits `IsochronyError` and the
nearest built-in exception, so ``except iso.IsochronyError`` catches all of them
and ``except ValueError`` still catches what is one. A message says what is
wrong (got and expected), where, and how to mend it, on one line; `code` is a
stable snake_case name for programs.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = [
    "BadSourceError",
    "EmptyResultWarning",
    "IsochronyError",
    "IsochronyWarning",
    "MissingExtraError",
    "NoMatchWarning",
    "PartialImportWarning",
    "PluginWarning",
    "UncommittedWarning",
    "UsageError",
    "with_code",
]


class IsochronyError(Exception):
    """Base class of all errors that Isochrony raises on purpose.

    Attributes:
        code: stable snake_case name of the kind of error, for programs.

    >>> import isochrony as iso
    >>> try:
    ...     iso.Time("yesterday")
    ... except iso.IsochronyError as error:
    ...     print(error.code)
    bad_civil
    """

    code: str = "error"


_Error = TypeVar("_Error", bound=IsochronyError)


def with_code(error: _Error, code: str) -> _Error:
    """The error with a code of its own, where that of its class says too little."""
    error.code = code
    return error


class UsageError(IsochronyError, ValueError):
    """A parameter, or a combination of parameters, that cannot be used; the message says which.

    >>> import isochrony as iso, tempfile
    >>> try:
    ...     iso.import_files(tempfile.mkdtemp() + "/water.iso", "no_such_file.wav")
    ... except iso.UsageError as error:
    ...     print(error.code)
    usage
    """

    code = "usage"


class BadSourceError(IsochronyError, ValueError):
    """A file that its importer cannot read as a recording, or a server that refuses; nothing of it was stored.

    >>> import isochrony as iso
    >>> try:
    ...     iso.listen("seedlink://127.0.0.1:1/GE.APE..BHZ", timeout=1)
    ... except iso.BadSourceError as error:
    ...     print(error.code)
    bad_source
    """

    code = "bad_source"


class MissingExtraError(IsochronyError, ImportError):
    """An optional package is not installed; the message names the extra that installs it.

    >>> import isochrony as iso
    >>> try:
    ...     raise iso.MissingExtraError("ObsPy is not installed; run: pip install 'isochrony[seismic]'")
    ... except ImportError as error:
    ...     print(error)
    ObsPy is not installed; run: pip install 'isochrony[seismic]'
    """

    code = "missing_extra"


class IsochronyWarning(UserWarning):
    """Base class of all warnings that Isochrony gives; use `warnings` to silence them or make them errors.

    >>> import warnings, isochrony as iso
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", iso.IsochronyWarning)
    """


class EmptyResultWarning(IsochronyWarning):
    """A run without results: no window fits into the samples, or the selection has no samples.

    A filter or detector that finds nothing gives no warning. `Report.notes` has the same text.

    >>> import warnings, numpy as np, isochrony as iso
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("ignore")
    ...     warnings.simplefilter("always", iso.EmptyResultWarning)
    ...     found = iso.scan(np.zeros(10), rate=100).rewindow(20).power().collect()
    >>> len(found), caught[0].category.__name__
    (0, 'EmptyResultWarning')
    """


class NoMatchWarning(IsochronyWarning):
    """A pattern that matches no signal; the message suggests one that does.

    >>> import tempfile, warnings, isochrony as iso
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> _ = store.create("north/p", dtype="i2", rate=100)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("ignore")
    ...     warnings.simplefilter("always", iso.NoMatchWarning)
    ...     found = store.find("p")
    >>> found, caught[0].category.__name__
    ([], 'NoMatchWarning')
    """


class PartialImportWarning(IsochronyWarning):
    """Files that were not imported, or only in part, while others were; the message names some, with the reason.

    The summary of the import lists all of them.

    >>> import pathlib, tempfile, warnings, numpy as np, isochrony as iso
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "good.npy", np.zeros(100, "i2"))
    >>> _ = (folder / "bad.npy").write_text("not an array")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("ignore")
    ...     warnings.simplefilter("always", iso.PartialImportWarning)
    ...     summary = iso.import_files(folder / "water.iso", folder / "*.npy", rate=100)
    >>> sorted(one["status"] for one in summary["results"]), caught[0].category.__name__
    (['imported', 'refused'], 'PartialImportWarning')
    """


class PluginWarning(IsochronyWarning):
    """An importer or processor of another package that cannot be loaded; the message names the package and the error.

    >>> import warnings, isochrony as iso
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", iso.PluginWarning)
    """


class UncommittedWarning(IsochronyWarning):
    """Appended samples that are lost: their store was dropped without a commit.

    >>> import tempfile, warnings, numpy as np, isochrony as iso
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> _ = store.create("p", dtype="i2", rate=100).append(np.zeros(100, "i2"))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("ignore")
    ...     warnings.simplefilter("always", iso.UncommittedWarning)
    ...     del store
    >>> caught[0].category.__name__
    'UncommittedWarning'
    """
