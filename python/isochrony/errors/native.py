"""The exceptions that native code raises.

One class for each error type of the native layer, and below it one for each
built-in exception that some of its errors are (so that ``except KeyError`` and
``except OSError`` work too). All carry `code`, a stable snake_case name.
"""

from __future__ import annotations

from typing import Any

from . import IsochronyError

__all__ = [
    "CacheError",
    "CacheOSError",
    "CacheTimeoutError",
    "CacheValueError",
    "GapError",
    "ImportRefusedError",
    "LiveOSError",
    "NBufferBrokenPipeError",
    "NBufferError",
    "NBufferOSError",
    "OptionError",
    "PlanError",
    "RunError",
    "SegmentError",
    "SegmentIndexError",
    "SegmentMemoryError",
    "SegmentTypeError",
    "StorageChangedError",
    "StorageError",
    "StorageNotFoundError",
    "StoreError",
    "StoreExistsError",
    "StoreIndexError",
    "StoreKeyError",
    "StoreLockedError",
    "StoreMemoryError",
    "StoreNotFoundError",
    "StoreOSError",
    "StorePermissionError",
    "StoreTypeError",
    "StoreValueError",
    "TaskletError",
    "TaskletOSError",
    "TaskletValueError",
    "TimeArgumentError",
    "TimeError",
    "TraceAttributeError",
    "TraceError",
]


class OptionError(IsochronyError, ValueError):
    """A parameter has none of its legal values; the message lists them."""

    code = "bad_option"


class TimeError(IsochronyError, ValueError):
    """A time, rate or range that cannot be used, or a conversion that does not exist."""

    code = "time"


class TimeArgumentError(TimeError, TypeError):
    """Something that names no time, such as a plain number."""

    code = "not_a_time"


class SegmentError(IsochronyError, ValueError):
    """Samples that do not fit together, or cannot be what was asked for."""

    code = "segment"


class SegmentIndexError(SegmentError, IndexError):
    """A range outside the segment."""

    code = "out_of_range"


class SegmentTypeError(SegmentError, TypeError):
    """An element type that signals cannot have, or not the one that was asked for."""

    code = "unsupported_dtype"


class SegmentMemoryError(SegmentError, MemoryError):
    """The system gave no memory for samples."""

    code = "out_of_memory"


class StorageError(IsochronyError, OSError):
    """A file cannot be read from its storage, or written to it."""

    code = "storage"


class StorageNotFoundError(StorageError, FileNotFoundError):
    """Storage has no such file."""

    code = "storage_not_found"


class StorageChangedError(StorageError):
    """A file changed in its storage while a run read it."""

    code = "storage_changed"


class StoreError(IsochronyError):
    """Root of what goes wrong with a store."""

    code = "store"


class StoreValueError(StoreError, ValueError):
    """A value that a store cannot take."""


class GapError(StoreValueError):
    """One array was asked for, but a gap or a clock step lies in between; the message names it."""

    code = "gap_in_selection"


class StoreTypeError(StoreError, TypeError):
    """Samples of another type than the signal's."""

    code = "dtype_mismatch"


class StoreIndexError(StoreError, IndexError):
    """An index or a range outside the signal."""

    code = "out_of_bounds"


class StoreKeyError(StoreError, KeyError):
    """No signal or event of that name."""

    code = "no_such_signal"

    # KeyError prints the repr of its argument, which would quote a whole sentence.
    __str__ = Exception.__str__


class StoreOSError(StoreError, OSError):
    """The operating system refused something: disk full, file vanished, damage on disk."""

    code = "io"


class StoreNotFoundError(StoreOSError, FileNotFoundError):
    """No store at that path."""

    code = "not_a_store"


class StoreExistsError(StoreOSError, FileExistsError):
    """Something is already where a new store or signal should be."""

    code = "store_exists"


class StorePermissionError(StoreOSError, PermissionError):
    """Writing through a store that is open for reading, or to a folder that is read-only."""

    code = "read_only"


class StoreLockedError(StoreOSError, BlockingIOError):
    """Another process writes to the store; the message names it."""

    code = "locked"


class StoreMemoryError(StoreError, MemoryError):
    """More memory than is sensible, or than the system gives."""

    code = "too_large"


class CacheError(IsochronyError):
    """A host's cache of remote data cannot serve; read the data where they come from."""

    code = "cache"


class CacheOSError(CacheError, OSError):
    """The cache's disk is full, or its folder cannot be used."""

    code = "cache_io"


class CacheTimeoutError(CacheError, TimeoutError):
    """Another process fetches the same bytes and makes no progress."""

    code = "fetch_timeout"


class CacheValueError(CacheError, ValueError):
    """A quota, key or range that a cache cannot have."""

    code = "cache_value"


class ImportRefusedError(IsochronyError, ValueError):
    """Recordings that cannot be imported as asked."""

    code = "import"


class PlanError(IsochronyError, ValueError):
    """A plan that cannot be built or run."""

    code = "plan"


class TraceError(PlanError, TypeError):
    """A function of samples that cannot become an expression: it needs a value while a plan is written."""

    code = "untraceable"


class TraceAttributeError(PlanError, AttributeError):
    """Something that expressions do not have."""

    code = "no_such_operation"


class RunError(IsochronyError, RuntimeError):
    """An operator of a plan failed; the message names it, the samples and their civil time."""

    code = "run"


class LiveOSError(IsochronyError, OSError):
    """The system does not let us listen or send there."""

    code = "live_socket"


class NBufferError(IsochronyError, RuntimeError):
    """A run of n-buffering that did not come to its end; outputs are partial.

    Attributes:
        offset: the byte of the stream (of the input or output that fails) where it happened; None if it has no place.
        report: what was done until then, an `NBufferReport`; None if nothing was.
    """

    code = "nbuf"
    offset: int | None = None
    report: Any = None


class NBufferOSError(NBufferError, OSError):
    """The system refuses to read or write a stream: a full disk, a failing device, a closed connection."""

    code = "nbuf_write"


class NBufferBrokenPipeError(NBufferOSError, BrokenPipeError):
    """Nobody reads an output any more."""

    code = "nbuf_write"


class TaskletError(IsochronyError, RuntimeError):
    """Tasklets that did not all come to their end; what was finished is kept.

    Attributes:
        report: what was done until then, a `TaskletsReport`; None if nothing was.
    """

    code = "tasklet_failed"
    report: Any = None


class TaskletValueError(TaskletError, ValueError):
    """Tasklets that cannot be run as they are: the message names them."""

    code = "tasklet_cycle"


class TaskletOSError(TaskletError, OSError):
    """The journal of a run cannot be read or written."""

    code = "journal"
