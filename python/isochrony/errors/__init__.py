"""The errors and warnings of the Python layer, and the root of all Isochrony errors.

Every error of ours, native ones included, inherits `IsochronyError` and the
nearest built-in exception, so ``except iso.IsochronyError`` catches all of them
and ``except ValueError`` still catches what is one. A message says what is
wrong (got and expected), where, and how to mend it, on one line; `code` is a
stable snake_case name for programs.
"""

from __future__ import annotations

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
]


class IsochronyError(Exception):
    """Root of every error that Isochrony raises on purpose.

    Attributes:
        code: stable snake_case name of the kind of error, for programs.
    """

    code: str = "error"


class UsageError(IsochronyError, ValueError):
    """A parameter or a combination of parameters cannot be used; the message says which."""

    code = "usage"


class BadSourceError(IsochronyError, ValueError):
    """A file is not a recording that its importer can take; nothing of it was stored."""

    code = "bad_source"


class MissingExtraError(IsochronyError, ImportError):
    """An optional library is not installed; the message names the extra that brings it."""

    code = "missing_extra"


class IsochronyWarning(UserWarning):
    """Root of every warning that Isochrony gives; Python's `warnings` module turns them into errors, or off."""


class EmptyResultWarning(IsochronyWarning):
    """A run gave nothing because no window fits into what was read, or because a selection has no samples.

    What a filter or a detector does not find is no reason for it. The report of the run has the same text in `notes`.
    """


class NoMatchWarning(IsochronyWarning):
    """A pattern that no signal fits; the message names one that some do."""


class PartialImportWarning(IsochronyWarning):
    """Files that were not imported, or not as a whole, while the others were; the message names some and why.

    The summary of the import has all of them.
    """


class PluginWarning(IsochronyWarning):
    """An importer or a processor that another package registered is left out; the message names package and error."""


class UncommittedWarning(IsochronyWarning):
    """Samples that were appended and are lost, since nobody committed them or closed their store."""
