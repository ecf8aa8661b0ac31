"""Signals as files of common formats.

Formats that carry times (CSV, Parquet, miniSEED) take a stretch with gaps as it is:
the gap is simply not there. Formats that do not (WAV, FLAC, NumPy) would silently
close it up, so they take one gap-free stretch per file.

Samples are written as stored (`.counts`), except in CSV and Parquet, which give
them in the signal's unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .civil import knows_civil_time
from .errors import UsageError
from .extras import require
from .writing import writing

__all__ = ["SUFFIXES", "export"]

_STEP = 1 << 18

Samples = npt.NDArray[np.generic]


def export(signal: Any, stretch: Any, out: Path, *, split: bool = False) -> list[Path]:
    """Write a stretch of a signal to a file chosen by its suffix.

    Parameters:
        signal: from an open store; gives times, rate and unit.
        stretch: the signal itself or a selection of it.
        out: file to write, with a suffix of `SUFFIXES`; an existing file is replaced.
        split: write one file per gap-free stretch, numbered from 1.

    Returns:
        The files written.

    Raises:
        UsageError: an unknown suffix, an empty stretch, samples or a rate that the format
            cannot hold, or a gap in a format without times.
    """
    suffix = out.suffix.lower()
    writer = _WRITERS.get(suffix)
    if writer is None:
        raise UsageError(f"{out}: write one of {', '.join(SUFFIXES)}")
    segments = list(stretch.segments)
    if not segments:
        raise UsageError(f"{signal.name} has no samples there; widen --from and --to")
    if split:
        names = [out.with_name(f"{out.stem}-{i + 1}{out.suffix}") for i in range(len(segments))]
        for name, segment in zip(names, segments, strict=True):
            with writing(name) as part:
                writer(signal, [segment], part)
        return names
    if suffix in _WITHOUT_TIMES and len(segments) > 1:
        gap = stretch.gaps[0]
        raise UsageError(
            f"{signal.name} has a gap of {gap.length} samples at index {gap.start}, which "
            f"{suffix} cannot tell; use --split, or narrow --from and --to"
        )
    with writing(out) as part:
        writer(signal, segments, part)
    return [out]


def _pieces(segments: list[Any]) -> Iterator[tuple[int, Any]]:
    """Index and a bounded piece of each segment, in order."""
    for segment in segments:
        for first in range(0, len(segment), _STEP):
            start = segment.start + first
            yield start, segment.subseg(start, min(start + _STEP, segment.end))


def _table_pieces(signal: Any, segments: list[Any]) -> Iterator[dict[str, Any]]:
    civil = knows_civil_time(signal)
    name = signal.name.rpartition("/")[2]
    for first, piece in _pieces(segments):
        values = np.asarray(piece)
        columns: dict[str, Any] = {"index": np.arange(first, first + len(values))}
        if civil:
            columns["time"] = signal.select(slice(first, first + len(values))).times()
        yield columns | {name: values}


def _write_parquet(signal: Any, segments: list[Any], out: Path) -> None:
    pyarrow = require("pyarrow", "writing Parquet")
    parquet = require("pyarrow.parquet", "writing Parquet")
    writer = None
    try:
        for columns in _table_pieces(signal, segments):
            table = pyarrow.table(columns)
            writer = writer or parquet.ParquetWriter(out, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _write_csv(signal: Any, segments: list[Any], out: Path) -> None:
    with out.open("w", encoding="utf-8", newline="") as file:
        for number, columns in enumerate(_table_pieces(signal, segments)):
            if number == 0:
                file.write(",".join(columns) + "\n")
            texts = [
                np.datetime_as_string(column) if column.dtype.kind == "M" else column.astype(str)
                for column in columns.values()
            ]
            file.writelines(",".join(row) + "\n" for row in zip(*texts, strict=True))


def _write_npy(signal: Any, segments: list[Any], out: Path) -> None:  # noqa: ARG001
    count = sum(len(segment) for segment in segments)
    dtype = np.asarray(segments[0].counts).dtype
    target = np.lib.format.open_memmap(out, mode="w+", dtype=dtype, shape=(count,))
    at = 0
    for _, piece in _pieces(segments):
        target[at : at + len(piece)] = np.asarray(piece.counts)
        at += len(piece)
    target.flush()


# Our type -> libsndfile's subtype.
_SUBTYPES = {"i1": "PCM_U8", "i2": "PCM_16", "i4": "PCM_32", "f4": "FLOAT", "f8": "DOUBLE"}


def _write_audio(signal: Any, segments: list[Any], out: Path) -> None:
    soundfile = require("soundfile", "writing WAV and FLAC")
    dtype = np.asarray(segments[0].counts).dtype
    subtype = _SUBTYPES.get(dtype.str[1:])
    rate = round(float(signal.rate))
    flac = out.suffix.lower() == ".flac"
    if flac and subtype in ("PCM_U8", "PCM_32", "FLOAT", "DOUBLE"):
        subtype = {"PCM_U8": "PCM_S8"}.get(subtype)
    if subtype is None:
        raise UsageError(f"{out.suffix} cannot hold {dtype} samples; write .npy or .parquet")
    with soundfile.SoundFile(out, "w", samplerate=rate, channels=1, subtype=subtype) as file:
        for _, piece in _pieces(segments):
            values = np.asarray(piece.counts)
            # libsndfile takes 8-bit samples as the upper half of 16-bit ones.
            file.write(values.astype("i2") << 8 if dtype.itemsize == 1 else values)


def _write_mseed(signal: Any, segments: list[Any], out: Path) -> None:
    pymseed = require("pymseed", "writing miniSEED")
    dtype = np.asarray(segments[0].counts).dtype
    kinds = {"i1": "i", "i2": "i", "i4": "i", "f4": "f", "f8": "d"}
    kind = kinds.get(dtype.str[1:])
    if kind is None:
        raise UsageError(f"miniSEED cannot hold {dtype} samples; write .parquet")
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
    traces.to_file(str(out), overwrite=True, format_version=2, encoding=pymseed.DataEncoding[encoding])


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


_WITHOUT_TIMES = (".npy", ".wav", ".flac")
_WRITERS: dict[str, Callable[[Any, list[Any], Path], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".npy": _write_npy,
    ".wav": _write_audio,
    ".flac": _write_audio,
    ".mseed": _write_mseed,
}
SUFFIXES = tuple(_WRITERS)
