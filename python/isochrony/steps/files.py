"""What comes out of plans, kept in files while it comes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal, Self

from ..extras import require
from ..options import choice, flag, whole
from .chain import Chain

__all__ = ["FileSteps"]

_PARQUET = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
_IPC = ("none", "zstd", "lz4")
_WAV = ("int8", "int16", "int24", "int32", "float32", "float64")


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(path).absolute())


class FileSteps(Chain):
    """Files that a run writes, in bounded memory, whatever their length.

    A file is there as a whole or not at all: it is written beside its place, under a name that begins with a dot, and
    gets its own when the run ends. A run that fails, or that Ctrl-C stops, removes what it wrote, and an older file
    of that name stays as it was. With ``keep_partial=True`` what was written until then is left as a file that can be
    read, called ``NAME.partial.SUFFIX``: the way to keep what a feed brought that never ends by itself.
    """

    __slots__ = ()

    def sink_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        compression: Literal["zstd", "snappy", "gzip", "lz4", "brotli", "none"] = "zstd",
        row_group_size: int = 1 << 20,
        counts: bool = False,
        keep_partial: bool = False,
    ) -> Self:
        """Keep what comes out in a Parquet file, and pass it on: ``plan.sink_parquet("bursts.parquet").run()``.

        Rows are columns as they are. Samples become ``index``, ``time`` where civil time is known, and a column called
        as the signal (the last part of its name); windows ``start``, ``end``, ``time`` and ``value``, or ``values``
        where they have several; ranges ``start``, ``end``, ``time``. Times are ``timestamp[ns, UTC]``. Values
        are in their unit, as `collect` gives them. Gaps are indices, and times, that are not there.

        The schema's metadata has ``isochrony.signal``, ``isochrony.rate`` (exact, in Hz), ``isochrony.timebase``,
        ``isochrony.unit``, of counts ``isochrony.scale`` and ``isochrony.offset``, of windows ``isochrony.window`` and
        ``isochrony.hop``; a column's metadata its ``unit``.

        Returns:
            The same items, unchanged. No edges, no delay; the file has its name when the run ends.

        Parameters:
            path: of the file; one that exists is replaced at the end.
            compression: of the columns.
            row_group_size: rows that are written together, from 1; fewer where they take 64 MiB.
            counts: samples as stored, instead of values; the metadata has scale and offset (docs/counts.md).
            keep_partial: leave what a run that fails has written; see above.

        Raises:
            PlanError: a count comes in, which is one number. OptionError: an option is refused.
            MissingExtraError: pyarrow is not installed (extra `table`).

        >>> import tempfile, numpy as np, pyarrow.parquet, isochrony as iso
        >>> path = tempfile.mkdtemp() + "/levels.parquet"
        >>> _ = iso.scan(np.arange(6), rate=100).rewindow(3).stats("min", "max").sink_parquet(path).run()
        >>> pyarrow.parquet.read_table(path).to_pydict()
        {'start': [0, 3], 'end': [3, 6], 'min': [0, 3], 'max': [2, 5]}
        """
        choice("sink_parquet compression", compression, _PARQUET)
        require("pyarrow.parquet", "writing Parquet")
        return self._table_file("sink_parquet", path, compression, row_group_size, counts, keep_partial)

    def sink_ipc(
        self,
        path: str | os.PathLike[str],
        *,
        compression: Literal["none", "zstd", "lz4"] = "none",
        row_group_size: int = 1 << 20,
        counts: bool = False,
        keep_partial: bool = False,
    ) -> Self:
        """Keep what comes out in an Arrow IPC file (Feather), and pass it on.

        Columns, metadata and the rest are those of `sink_parquet`. Without compression readers map it instead of
        reading it.

        Returns:
            The same items, unchanged. No edges, no delay; the file has its name when the run ends.

        Parameters:
            path: of the file; one that exists is replaced at the end.
            compression: of the columns.
            row_group_size: rows that are written together, from 1; fewer where they take 64 MiB.
            counts: samples as stored, instead of values; the metadata has scale and offset (docs/counts.md).
            keep_partial: leave what a run that fails has written; see above.

        Raises:
            PlanError: a count comes in. OptionError: an option is refused.
            MissingExtraError: pyarrow is not installed (extra `table`).

        >>> import tempfile, numpy as np, pyarrow.feather, isochrony as iso
        >>> path = tempfile.mkdtemp() + "/levels.arrow"
        >>> _ = iso.scan(np.arange(6), rate=100).rewindow(3).stats("max").sink_ipc(path).run()
        >>> pyarrow.feather.read_table(path).to_pydict()
        {'start': [0, 3], 'end': [3, 6], 'max': [2, 5]}
        """
        choice("sink_ipc compression", compression, _IPC)
        require("pyarrow.ipc", "writing Arrow files")
        return self._table_file("sink_ipc", path, compression, row_group_size, counts, keep_partial)

    def _table_file(
        self,
        step: str,
        path: str | os.PathLike[str],
        compression: str,
        row_group_size: int,
        counts: bool,
        keep_partial: bool,
    ) -> Self:
        """A file of columns: what Parquet and IPC have in common."""
        options = {
            "path": _absolute(path),
            "compression": compression,
            "row_group_size": whole(f"{step} row_group_size=", row_group_size, "rows"),
            "counts": flag(f"{step} counts", counts),
            "keep_partial": bool(keep_partial),
        }
        return type(self)(self._native.table_file(step, json.dumps(options)))

    def sink_wav(
        self,
        path: str | os.PathLike[str],
        *,
        format: Literal["int8", "int16", "int24", "int32", "float32", "float64"] | None = None,  # noqa: A002
        gaps: Literal["error", "zeros", "split"] = "error",
        keep_partial: bool = False,
    ) -> Self:
        r"""Keep real samples in a WAV file, and pass them on: ``plan.sink_wav("clicks.wav").run()``.

        Longer than 4 GiB it is RF64. The file says the signal's name and the civil time of its first sample (INAM,
        ICRD). WAV has no place for a unit, so counts of a calibrated signal are written as stored (docs/counts.md).
        Integers keep their values between integer formats, and are divided by their type's full scale for
        floats; floats are relative to a full scale of 1. What does not fit ends the run: nothing is clipped.

        Returns:
            The same samples, shape (n,), unchanged. No edges, no delay; the file has its name when the run ends.

        Parameters:
            path: of the file; one that exists is replaced at the end.
            format: of its samples; default: the one that holds all values of the samples' type as they are. uint32 has
                none and needs one given: "float64", or "int32" where all values are below 2^31.
            gaps: WAV knows none. ``"error"`` ends the run at one; ``"zeros"`` writes as many zeros as indices are
                missing; ``"split"`` writes a file for every gap-free range, numbered from 1 (``NAME-1.wav``), each of
                which has its name when its range ends. A clock step is an error, but for ``"split"``.
            keep_partial: leave what a run that fails has written; see above.

        Raises:
            PlanError: other than real samples come in, uint32 without `format`, or their rate is no whole number of Hz,
                which is all that WAV has.
            OptionError: an option is refused.

        >>> import tempfile, wave, numpy as np, isochrony as iso
        >>> path = tempfile.mkdtemp() + "/tone.wav"
        >>> _ = iso.scan(np.arange(100, dtype="i2"), rate=8000).sink_wav(path).run()
        >>> with wave.open(path) as tone:
        ...     tone.getparams()[:4], tone.readframes(3)
        ((1, 2, 8000, 100), b'\x00\x00\x01\x00\x02\x00')
        """
        if format is not None:
            choice("sink_wav format", format, _WAV)
        choice("sink_wav gaps", gaps, ("error", "zeros", "split"))
        options = {"path": _absolute(path), "format": format, "gaps": gaps, "keep_partial": bool(keep_partial)}
        return type(self)(self._native.wav_file(json.dumps(options)))
