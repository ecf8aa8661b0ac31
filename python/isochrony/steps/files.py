"""What comes out of plans, kept in files while it comes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal, Self

from ..errors.native import OptionError
from ..extras import require
from ..options import choice, flag, whole
from .chain import Chain

__all__ = ["FileSteps"]

_PARQUET = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
_IPC = ("none", "zstd", "lz4")
_WAV = ("int8", "int16", "int24", "int32", "float32", "float64")


# Which step writes files of which suffix.
_WRITERS = {".parquet": "sink_parquet", ".arrow": "sink_ipc", ".feather": "sink_ipc", ".wav": "sink_wav"}
_FORMATS = {"sink_parquet": "Parquet", "sink_ipc": "Arrow IPC", "sink_wav": "WAV"}


def _check_suffix(step: str, path: str | os.PathLike[str]) -> None:
    """Refuses a name that promises another format."""
    name = Path(path)
    suffix = name.suffix.lower()
    writer = _WRITERS.get(suffix)
    if suffix in (".csv", ".flac", ".mseed", ".npy"):
        writer = "isochrony.export"
    if writer in (None, step):
        return
    own = next(one for one, by in _WRITERS.items() if by == step)
    raise OptionError(
        f"{step} writes {_FORMATS[step]}, but {name} ends in {name.suffix}; name it {name.stem}{own}, or use {writer}"
    )


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(path).absolute())


class FileSteps(Chain):
    """Part of `isochrony.Plan`: writes files of any length, in bounded memory.

    A file is written completely or not at all: it has a temporary name, beginning with a dot, until the run ends. A run
    that fails, or that Ctrl-C stops, removes it, and an older file of that name stays as it was. With
    ``keep_partial=True`` the part that was written stays as a readable file ``NAME.partial.SUFFIX``: use it for feeds
    that never end by themselves.
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
        """Write results to a Parquet file, and pass them on: ``plan.sink_parquet("bursts.parquet").run()``.

        Rows keep their columns. Samples have ``index``, ``time`` if civil time is known, and a column with the last
        part of the signal's name; windows ``start``, ``end``, ``time`` and ``value``, or ``values`` if there are
        several; ranges ``start``, ``end``, ``time``. Times are ``timestamp[ns, UTC]``. Values are in their unit, as of
        `collect`. Gaps are missing indices and times.

        The schema's metadata has ``isochrony.signal``, ``isochrony.rate`` (exact, in Hz), ``isochrony.timebase``,
        ``isochrony.unit``, for counts ``isochrony.scale`` and ``isochrony.offset``, for windows ``isochrony.window``
        and ``isochrony.hop``; a column's metadata has its ``unit``.

        The file appears when the run ends.

        Returns:
            The same items, unchanged. No edges, no delay.

        Parameters:
            path: path of the file; an existing file is replaced at the end of the run.
            compression: codec of the columns.
            row_group_size: rows per row group, from 1; fewer if they take 64 MiB.
            counts: samples as stored, instead of values; the metadata has scale and offset (docs/counts.md).
            keep_partial: if the run fails, keep the part that was written as ``NAME.partial.SUFFIX``; False: remove it.

        Raises:
            PlanError: the input is a count, which is one number.
            OptionError: a parameter out of range, or a path with the suffix of another format.
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
        """Write results to an Arrow IPC file (Feather), and pass them on.

        Columns, metadata and temporary files are those of `sink_parquet`. Without compression readers map the file,
        instead of reading it.

        Returns:
            The same items, unchanged. No edges, no delay.

        Parameters:
            path: path of the file; an existing file is replaced at the end of the run.
            compression: codec of the columns.
            row_group_size: rows per record batch, from 1; fewer if they take 64 MiB.
            counts: samples as stored, instead of values; the metadata has scale and offset (docs/counts.md).
            keep_partial: if the run fails, keep the part that was written as ``NAME.partial.SUFFIX``; False: remove it.

        Raises:
            PlanError: the input is a count, which is one number.
            OptionError: a parameter out of range, or a path with the suffix of another format.
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
        _check_suffix(step, path)
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
        r"""Write real samples to a WAV file, and pass them on: ``plan.sink_wav("clicks.wav").run()``.

        Files above 4 GiB are RF64. The file has the signal's name and the civil time of its first sample (INAM, ICRD).
        WAV has no unit, so calibrated signals are written as counts (docs/counts.md). Integers keep their values in
        wider integer formats, and are divided by the full scale of their dtype for floats; floats are relative to a
        full scale of 1. A value that does not fit ends the run: nothing is clipped. The file appears when the run ends.

        Returns:
            The same samples, shape (n,), unchanged. No edges, no delay.

        Parameters:
            path: path of the file; an existing file is replaced at the end of the run.
            format: sample format; None: the one that holds all values of the samples' dtype. uint32 has none and needs
                "float64", or "int32" if all values are below 2^31.
            gaps: treatment of gaps, which WAV cannot represent. ``"error"``: a gap ends the run. ``"zeros"``: a zero
                for each missing index. ``"split"``: a file per gap-free range, numbered from 1 (``NAME-1.wav``), which
                appears when its range ends. A clock step is an error, except with ``"split"``.
            keep_partial: if the run fails, keep the part that was written as ``NAME.partial.SUFFIX``; False: remove it.

        Raises:
            PlanError: the input is not real samples, `format` is missing for uint32, or the rate is not a whole number
                of Hz, as WAV requires.
            OptionError: a parameter out of range, or a path with the suffix of another format.

        >>> import tempfile, wave, numpy as np, isochrony as iso
        >>> path = tempfile.mkdtemp() + "/tone.wav"
        >>> _ = iso.scan(np.arange(100, dtype="i2"), rate=8000).sink_wav(path).run()
        >>> with wave.open(path) as tone:
        ...     tone.getparams()[:4], tone.readframes(3)
        ((1, 2, 8000, 100), b'\x00\x00\x01\x00\x02\x00')
        """
        _check_suffix("sink_wav", path)
        if format is not None:
            choice("sink_wav format", format, _WAV)
        choice("sink_wav gaps", gaps, ("error", "zeros", "split"))
        options = {"path": _absolute(path), "format": format, "gaps": gaps, "keep_partial": bool(keep_partial)}
        return type(self)(self._native.wav_file(json.dumps(options)))
