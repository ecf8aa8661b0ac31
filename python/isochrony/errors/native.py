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
    "NBufferFolderError",
    "NBufferNotFoundError",
    "NBufferOSError",
    "NBufferPermissionError",
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
    """A parameter with a value that is not legal; the message lists the legal ones.

    >>> import isochrony as iso
    >>> try:
    ...     iso.taper_factors("hann", 0)
    ... except iso.OptionError as error:
    ...     print(error.code)
    bad_option
    """

    code = "bad_option"


class TimeError(IsochronyError, ValueError):
    """A time, rate or range that cannot be used, or a conversion between timebases that does not exist.

    >>> import isochrony as iso
    >>> try:
    ...     iso.Time("2010-13-01")
    ... except iso.TimeError as error:
    ...     print(error.code)
    bad_civil
    """

    code = "time"


class TimeArgumentError(TimeError, TypeError):
    """An argument that is not a time, such as a plain number."""

    code = "not_a_time"


class SegmentError(IsochronyError, ValueError):
    """Samples that do not fit together, or cannot be converted as requested.

    >>> import numpy as np, isochrony as iso
    >>> segment = iso.Segment(np.zeros(5), rate=100)
    >>> try:
    ...     segment.append(iso.Segment(np.zeros(5), start=7, rate=100))
    ... except iso.SegmentError as error:
    ...     print(error.code)
    not_adjacent
    """

    code = "segment"


class SegmentIndexError(SegmentError, IndexError):
    """A range outside the segment."""

    code = "out_of_range"


class SegmentTypeError(SegmentError, TypeError):
    """A dtype that signals cannot have, or another one than requested."""

    code = "unsupported_dtype"


class SegmentMemoryError(SegmentError, MemoryError):
    """Not enough memory for samples."""

    code = "out_of_memory"


class StorageError(IsochronyError, OSError):
    """A file that cannot be read from its storage, or written to it."""

    code = "storage"


class StorageNotFoundError(StorageError, FileNotFoundError):
    """A file that its storage does not have."""

    code = "storage_not_found"


class StorageChangedError(StorageError):
    """A file that changed in its storage while a run read it."""

    code = "storage_changed"


class StoreError(IsochronyError):
    """Base class of all errors of a store.

    >>> import isochrony as iso
    >>> try:
    ...     iso.open("no_such_store.iso")
    ... except iso.StoreError as error:
    ...     print(error.code, isinstance(error, FileNotFoundError))
    not_a_store True
    """

    code = "store"


class StoreValueError(StoreError, ValueError):
    """A value that a store cannot hold."""


class GapError(StoreValueError):
    """A request for one array across a gap or a clock step; the message names it.

    >>> import numpy as np, tempfile, isochrony as iso
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> signal = store.create("p", dtype="i2", rate=100)
    >>> _ = signal.append(np.zeros(5, "i2")), signal.append_gap(samples=2), signal.append(np.zeros(5, "i2"))
    >>> try:
    ...     np.asarray(signal[:])
    ... except iso.GapError as error:
    ...     print(error.code)
    gap_in_selection
    """

    code = "gap_in_selection"


class StoreTypeError(StoreError, TypeError):
    """Samples of another dtype than the signal's."""

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
    """An error of the operating system: full disk, vanished file, or damage on disk."""

    code = "io"


class StoreNotFoundError(StoreOSError, FileNotFoundError):
    """No store at that path."""

    code = "not_a_store"


class StoreExistsError(StoreOSError, FileExistsError):
    """Something exists already where a new store or signal should be."""

    code = "store_exists"


class StorePermissionError(StoreOSError, PermissionError):
    """A write to a store that is open for reading, or to a read-only folder."""

    code = "read_only"


class StoreLockedError(StoreOSError, BlockingIOError):
    """Another process is writing to the store; the message names it."""

    code = "locked"


class StoreMemoryError(StoreError, MemoryError):
    """More memory than is available or sensible."""

    code = "too_large"


class CacheError(IsochronyError):
    """An error of a host's cache of remote data; the data can still be read from their source.

    >>> import isochrony as iso
    >>> issubclass(iso.CacheError, iso.IsochronyError), iso.CacheError.code
    (True, 'cache')
    """

    code = "cache"


class CacheOSError(CacheError, OSError):
    """The disk of the cache is full, or its folder cannot be used."""

    code = "cache_io"


class CacheTimeoutError(CacheError, TimeoutError):
    """Another process fetches the same bytes, but makes no progress."""

    code = "fetch_timeout"


class CacheValueError(CacheError, ValueError):
    """A quota, key or range that a cache cannot have."""

    code = "cache_value"


class ImportRefusedError(IsochronyError, ValueError):
    """Recordings that cannot be imported with these options.

    >>> import tempfile, isochrony as iso
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> try:
    ...     store.import_raw("no_such_folder", layout="{station}_{epoch}.raw", dtype="<i2", rate=100)
    ... except iso.ImportRefusedError as error:
    ...     print(error.code)
    io
    """

    code = "import"


class PlanError(IsochronyError, ValueError):
    """A plan that cannot be built or run.

    >>> import numpy as np, isochrony as iso
    >>> try:
    ...     iso.scan(np.zeros(100), rate=100).lowpass(80)
    ... except iso.PlanError as error:
    ...     print(error.code)
    parameter
    """

    code = "plan"


class TraceError(PlanError, TypeError):
    """A function of samples that cannot become an expression, since it needs values while the plan is built."""

    code = "untraceable"


class TraceAttributeError(PlanError, AttributeError):
    """An attribute or method that expressions do not have."""

    code = "no_such_operation"


class RunError(IsochronyError, RuntimeError):
    """An operator that failed during a run; the message names it, with indices and civil time of the samples.

    >>> import numpy as np, isochrony as iso
    >>> def failing(values, start):
    ...     raise ValueError("no disk")
    >>> try:
    ...     iso.scan(np.zeros(100), rate=100).each(failing).run()
    ... except iso.RunError as error:
    ...     print(error.code, repr(error.__cause__))
    operator_failed ValueError('no disk')
    """

    code = "run"


class LiveOSError(IsochronyError, OSError):
    """An address that the system refuses to open for listening or sending."""

    code = "live_socket"


class NBufferError(IsochronyError, RuntimeError):
    """A run of `nbuffer` that failed before its end; outputs are partial.

    Attributes:
        offset: byte offset of the error in the input or output that failed; None if unknown.
        report: what was done until then, an `NBufferReport`; None if nothing was.

    >>> import isochrony as iso
    >>> def failing(record):
    ...     raise ValueError("bad record")
    >>> try:
    ...     iso.nbuffer(b"abcd" * 8, failing, stride=4)
    ... except iso.NBufferError as error:
    ...     print(error.offset, repr(error.__cause__))
    0 ValueError('bad record')
    """

    code = "nbuf"
    offset: int | None = None
    report: Any = None


class NBufferOSError(NBufferError, OSError):
    """The system refuses to open, read or write a stream: full disk, failing device, or closed connection."""

    code = "nbuf_write"


class NBufferNotFoundError(NBufferOSError, FileNotFoundError):
    """No file at the path of an input, or no folder for an output."""

    code = "no_input"


class NBufferFolderError(NBufferOSError, IsADirectoryError):
    """A folder at the path of an input or output."""


class NBufferPermissionError(NBufferOSError, PermissionError):
    """A file at the path of an input or output that this process may not read or write."""


class NBufferBrokenPipeError(NBufferOSError, BrokenPipeError):
    """The reader of an output has closed it."""

    code = "nbuf_write"


class TaskletError(IsochronyError, RuntimeError):
    """Tasklets that failed or cannot run; what was finished is kept.

    Attributes:
        report: what was done until then, a `TaskletsReport`; None if nothing was.

    >>> import isochrony as iso
    >>> def failing(inputs, outputs):
    ...     raise ValueError("no disk")
    >>> executor = iso.Executor()
    >>> executor.add(iso.Tasklet(failing, name="first"))
    >>> try:
    ...     executor.run()
    ... except iso.TaskletError as error:
    ...     print(error.report.tasklets[0].state, repr(error.__cause__))
    failed ValueError('no disk')
    """

    code = "tasklet_failed"
    report: Any = None


class TaskletValueError(TaskletError, ValueError):
    """Tasklets that cannot run as declared; the message names them."""

    code = "tasklet_cycle"


class TaskletOSError(TaskletError, OSError):
    """The journal of a run cannot be read or written."""

    code = "journal"
