"""Signals as files of common formats.

Formats that carry times (CSV, Parquet, miniSEED) take a stretch with gaps as it is:
the gap is simply not there. Formats that do not (WAV, FLAC, NumPy) would silently
close it up, so they take one gap-free stretch per file.

CSV, Parquet and NumPy get values in the signal's unit, or counts on request. WAV,
FLAC and miniSEED are formats of counts, without a place for a unit or a scale: they
get the samples as stored.
"""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from ..extras import require
from ..output.files import OutputFile, check_output, writing
from .civil import knows_civil_time

__all__ = ["FORMATS", "export", "format_of", "write_npy"]

_STEP = 1 << 18
# Bytes of samples whose size a WAV header can state.
_LONGEST_WAV = (1 << 32) - 4096

Samples = npt.NDArray[np.generic]


def format_of(out: Path, stated: str | None) -> str:
    """The format of an output file: the stated one, else by its suffix.

    Raises:
        UsageError: no such format.
    """
    found = out.suffix.lower().removeprefix(".") if stated is None else stated
    if found not in _WRITERS:
        how = "" if stated is None else f"{stated!r} is no format; "
        suffixes = ", ".join(f".{one}" for one in FORMATS)
        raise UsageError(f"{out}: {how}write one of {suffixes}, or name the format with format=")
    return found


def export(
    signal: Any,
    stretch: Any,
    out: Path,
    *,
    format: str | None = None,  # noqa: A002  (the word of the command line)
    split: bool = False,
    replace: bool = False,
    counts: bool = False,
) -> list[Path]:
    """Write a range of a signal to a file.

    Parameters:
        signal: from an open store; gives times, rate and unit.
        stretch: the signal itself or a selection of it.
        out: file to write.
        format: one of `FORMATS`; default: by the suffix of `out`.
        split: write one file per gap-free stretch, numbered from 1.
        replace: files that exist are replaced; else nothing is written where one of them does.
        counts: samples as stored, instead of values, where the format can have both.

    Returns:
        The files written.

    Raises:
        UsageError: an unknown format, an empty stretch, samples or a rate that the format
            cannot hold, a gap in a format without times, a file that exists, or one inside a store.
        OSError: a file cannot be written, such as on a full disk; what was there stays.
    """
    kind = format_of(out, format)
    writer = _WRITERS[kind]
    segments = list(stretch.segments)
    if not segments:
        raise UsageError(
            f"{signal.name} has no samples in the range to export; widen or leave out --from and --to, or choose a "
            "signal that has samples"
        )
    if split:
        names = [out.with_name(f"{out.stem}-{i + 1}{out.suffix}") for i in range(len(segments))]
        for name in names:
            check_output(name, replace=replace)
        for name, segment in zip(names, segments, strict=True):
            with writing(name, replace=replace) as file:
                writer(signal, [segment], file, counts)
        return names
    if kind in _WITHOUT_TIMES and len(segments) > 1:
        first = segments[0].end
        what = f"a gap of {segments[1].start - first} samples" if segments[1].start > first else "a new run"
        raise UsageError(
            f"{signal.name} has {what} at index {first}, which {kind} files cannot store; write one file for each "
            "gap-free part with --split, or narrow --from and "
            "--to"
        )
    with writing(out, replace=replace) as file:
        writer(signal, segments, file, counts)
    return [out]


def _pieces(segments: list[Any]) -> Iterator[tuple[int, Any]]:
    """Index and a bounded piece of each segment, in order."""
    for segment in segments:
        for first in range(0, len(segment), _STEP):
            start = segment.start + first
            yield start, segment.subseg(start, min(start + _STEP, segment.end))


def _table_pieces(signal: Any, segments: list[Any], counts: bool) -> Iterator[tuple[dict[str, Any], Samples]]:
    """Index and time of bounded pieces, and their values or counts."""
    civil = knows_civil_time(signal)
    for first, piece in _pieces(segments):
        values = piece.counts if counts else np.asarray(piece)
        columns: dict[str, Any] = {"index": np.arange(first, first + len(values))}
        if civil:
            columns["time"] = signal.select(slice(first, first + len(values))).times()
        yield columns, values


def _write_parquet(signal: Any, segments: list[Any], file: OutputFile, counts: bool) -> None:
    """Columns as `sink_parquet` writes them: a complex number is a list of its two parts."""
    pyarrow = require("pyarrow", "writing Parquet")
    parquet = require("pyarrow.parquet", "writing Parquet")
    name = signal.name.rpartition("/")[2]
    about = {"isochrony.signal": signal.name, "isochrony.rate": str(signal.rate.fraction)}
    if signal.unit:
        about["isochrony.unit"] = signal.unit
    if counts:
        about |= {"isochrony.scale": str(signal.scale), "isochrony.offset": str(signal.offset)}
    unit = {"unit": signal.unit} if signal.unit and not counts else None
    writer = None
    try:
        for columns, values in _table_pieces(signal, segments, counts):
            array = _arrow_array(pyarrow, values)
            fields = [pyarrow.field(key, pyarrow.array(column).type) for key, column in columns.items()]
            fields.append(pyarrow.field(name, array.type, metadata=unit))
            arrays = [pyarrow.array(column) for column in columns.values()]
            table = pyarrow.table([*arrays, array], schema=pyarrow.schema(fields, metadata=about))
            writer = writer or parquet.ParquetWriter(file, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _arrow_array(pyarrow: Any, values: Samples) -> Any:
    if values.dtype.kind != "c":
        return pyarrow.array(values)
    parts = np.ascontiguousarray(values).view("f4" if values.dtype.itemsize == 8 else "f8")
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(parts), 2)


def _write_csv(signal: Any, segments: list[Any], file: OutputFile, counts: bool) -> None:
    """A column per row; the title of the values' is the signal's name and unit, by which they come back."""
    title = f"{signal.name} [{signal.unit}]" if signal.unit and not counts else signal.name
    text = io.TextIOWrapper(file, "utf-8", newline="")
    for number, (columns, values) in enumerate(_table_pieces(signal, segments, counts)):
        if values.dtype.kind == "c":
            raise UsageError("CSV cannot hold complex samples; write .parquet or .npy, which can")
        if number == 0:
            csv.writer(text, lineterminator="\n").writerow([*columns, title])
        texts = [
            np.datetime_as_string(column) if column.dtype.kind == "M" else column.astype(str)
            for column in (*columns.values(), values)
        ]
        text.writelines(",".join(row) + "\n" for row in zip(*texts, strict=True))
    text.detach()


def _write_npy(signal: Any, segments: list[Any], file: OutputFile, counts: bool) -> None:  # noqa: ARG001
    array: Callable[[Any], Samples] = (lambda piece: piece.counts) if counts else np.asarray
    count = sum(len(segment) for segment in segments)
    dtype = array(segments[0].subseg(segments[0].start, segments[0].start)).dtype
    write_npy(file, dtype, (count,), (array(piece) for _, piece in _pieces(segments)))


def write_npy(file: OutputFile, dtype: np.dtype[Any], shape: tuple[int, ...], pieces: Iterable[Samples]) -> None:
    """Write an array in NumPy's format piece by piece.

    NumPy's own functions write past the file object, to a memory map or to the descriptor, where a full disk ends the
    process or is no error of the system.
    """
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for piece in pieces:
        file.write(np.ascontiguousarray(piece).reshape(-1).view("u1").data)


class _Callbacks:
    """A file as libsndfile calls it back: errors are short writes, since what a callback raises is printed and lost.

    `OutputFile` remembers the error, so the file does not get its name.
    """

    def __init__(self, file: OutputFile) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return self._call(self._file.write, data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._call(self._file.seek, offset, whence)

    def tell(self) -> int:
        return self._call(self._file.tell)

    @staticmethod
    def _call(function: Callable[..., int], *given: Any) -> int:
        try:
            return function(*given)
        except (OSError, KeyboardInterrupt):
            return 0


# Our type -> libsndfile's subtype.
_SUBTYPES = {"i1": "PCM_U8", "i2": "PCM_16", "i4": "PCM_32", "f4": "FLOAT", "f8": "DOUBLE"}


def _write_audio(signal: Any, segments: list[Any], file: OutputFile, counts: bool, *, kind: str) -> None:  # noqa: ARG001
    soundfile = require("soundfile", "writing WAV and FLAC")
    dtype = np.asarray(segments[0].counts).dtype
    subtype = _SUBTYPES.get(dtype.str[1:])
    exact = signal.rate.fraction
    if exact.denominator != 1:
        raise UsageError(
            f"{signal.name} has {exact} Hz ({float(exact):.9g}), and {kind} states whole Hz only; write "
            f"{_keeping_rate(signal, dtype)}, or resample the signal first"
        )
    rate = int(exact)
    if kind == "flac" and subtype in ("PCM_U8", "PCM_32", "FLOAT", "DOUBLE"):
        subtype = {"PCM_U8": "PCM_S8"}.get(subtype)
    if subtype is None:
        raise UsageError(f"{kind} cannot hold {dtype} samples; write .npy or .parquet, which can")
    if not 0 < rate < 1 << 31:
        raise UsageError(f"{kind} cannot hold {rate} Hz; write .npy or .parquet, which can")
    if kind == "wav" and sum(map(len, segments)) * dtype.itemsize > _LONGEST_WAV:
        raise UsageError(
            f"{signal.name} has {sum(map(len, segments)) * dtype.itemsize} bytes to export, and a wav file holds at "
            "most 4 GiB; export a shorter range with --from and --to"
        )
    with soundfile.SoundFile(
        _Callbacks(file), "w", samplerate=rate, channels=1, subtype=subtype, format=kind.upper()
    ) as sound:
        for _, piece in _pieces(segments):
            values = np.asarray(piece.counts)
            # libsndfile takes 8-bit samples as the upper half of 16-bit ones.
            sound.write(values.astype("i2") << 8 if dtype.itemsize == 1 else values)


def _keeping_rate(signal: Any, dtype: np.dtype[Any]) -> str:
    """Formats that hold samples of a dtype, and the signal's rate or the times that tell it."""
    able = [".parquet"]
    if knows_civil_time(signal):
        able += [".csv"] * (dtype.kind != "c") + [".mseed"] * (dtype.str[1:] in _MSEED_SAMPLES)
    return f"{' or '.join(able)}, which keep{'s' * (len(able) == 1)} it"


# Our type -> libmseed's.
_MSEED_SAMPLES = {"i1": "i", "i2": "i", "i4": "i", "f4": "f", "f8": "d"}


def _write_mseed(signal: Any, segments: list[Any], file: OutputFile, counts: bool) -> None:  # noqa: ARG001
    pymseed = require("pymseed", "writing miniSEED")
    dtype = np.asarray(segments[0].counts).dtype
    kind = _MSEED_SAMPLES.get(dtype.str[1:])
    if kind is None:
        raise UsageError(f"miniSEED cannot hold {dtype} samples; write .npy or .parquet, which can")
    traces = pymseed.MS3TraceList()
    for segment in segments:
        values = np.asarray(segment.counts)
        traces.add_data(
            sourceid=_source_id(signal),
            data_samples=values.astype("i4") if kind == "i" else values,
            sample_type=kind,
            sample_rate=float(signal.rate),
            starttime=signal.time_of(segment.start).ns,
        )
    encoding = {"i": "STEIM2", "f": "FLOAT32", "d": "FLOAT64"}[kind]
    file.writelines(traces.generate(format_version=2, encoding=pymseed.DataEncoding[encoding]))


def _source_id(signal: Any) -> str:
    """FDSN source identifier: the one it was imported with, else made of the name's parts."""
    stated = dict(signal.attrs).get("source_id")
    if stated:
        return str(stated)
    station = "".join(c for c in signal.name.partition("/")[0].upper() if c.isalnum())[:5]
    # Band code by rate; Y: an instrument that is not specified; XX: no registered network.
    band = next(code for rate, code in _BANDS if float(signal.rate) >= rate)
    return f"FDSN:XX_{station}__{band}_Y_Z"


# FDSN source identifiers, band codes: lowest rate in Hz of each.
_BANDS = ((1000, "F"), (250, "C"), (80, "H"), (10, "B"), (1.5, "M"), (0.5, "L"), (0.0, "V"))


_WITHOUT_TIMES = ("npy", "wav", "flac")
_WRITERS: dict[str, Callable[[Any, list[Any], OutputFile, bool], None]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "npy": _write_npy,
    "wav": functools.partial(_write_audio, kind="wav"),
    "flac": functools.partial(_write_audio, kind="flac"),
    "mseed": _write_mseed,
}
FORMATS = tuple(_WRITERS)
