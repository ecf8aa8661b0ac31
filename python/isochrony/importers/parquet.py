"""Parquet files by pyarrow: a time column and numeric columns.

The time column is the first of a timestamp type, else the one whose name says so
(whole numbers count s, ms, us or ns since 1970 by their size). Times without a
zone are UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadSourceError
from ..extras import require
from .block import Block, Options
from .columns import Batch, Times, blocks_of, epoch_unit_ns, is_time_name, parse_times
from .registry import Format
from .table import values_of

__all__ = ["FORMAT", "read"]

_BATCH_ROWS = 1 << 18
_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def recognises(head: bytes) -> bool:
    """Parquet's magic bytes."""
    return head[:4] == b"PAR1"


def read(path: Path, signal: str, options: Options) -> Iterator[Block]:
    """Blocks of the numeric columns.

    Raises:
        BadSourceError: not Parquet, no time column and no rate, columns that are not
            numbers, or irregular times.
    """
    pyarrow = require("pyarrow", "reading Parquet")
    parquet = require("pyarrow.parquet", "reading Parquet")
    try:
        # Buffering ahead would hold the whole file.
        file = parquet.ParquetFile(path, pre_buffer=False)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise BadSourceError(
            f"cannot be read as Parquet ({_one_line(error)}); fetch it again, or leave it out"
        ) from error
    with file:
        time = _time_column(pyarrow, file.schema_arrow, options)
        yield from blocks_of(_batches(pyarrow, file, time), signal, options)


def _time_column(pyarrow: Any, schema: Any, options: Options) -> str | None:
    if options.time_column is not None:
        if options.time_column not in schema.names:
            raise BadSourceError(f"has no column {options.time_column!r}; it has {', '.join(schema.names)}")
        return options.time_column
    for one in schema:
        if pyarrow.types.is_timestamp(one.type):
            return str(one.name)
    return next((name for name in schema.names if is_time_name(name)), None)


def _batches(pyarrow: Any, file: Any, time: str | None) -> Iterator[Batch]:
    row = 1
    resolution = None
    try:
        for table in file.iter_batches(batch_size=_BATCH_ROWS):
            times = None
            if time is not None:
                times, finest = _times(pyarrow, table.column(time), row)
                resolution = min(finest, resolution or finest)
            values = {name: values_of(table.column(name), name, row) for name in table.schema.names if name != time}
            yield Batch(times, resolution or 1, values, row)
            row += table.num_rows
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise BadSourceError(
            f"is damaged after row {row} ({_one_line(error)}); fetch it again, or leave it out"
        ) from error


def _times(pyarrow: Any, column: Any, row: int) -> tuple[Times, int]:
    """Times in ns and their resolution in ns."""
    if column.null_count:
        at = column.is_null().to_pylist().index(True)
        raise BadSourceError(f"row {row + at}: the time is empty")
    kind = column.type
    if pyarrow.types.is_timestamp(kind):
        unit = _UNIT_NS[kind.unit]
        return column.cast(pyarrow.int64()).to_numpy() * unit, unit
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return parse_times(column.to_pylist(), row)
    values = column.to_numpy()
    largest = float(np.abs(values).max()) if len(values) else 0.0
    unit = epoch_unit_ns(len(str(int(largest))))
    if pyarrow.types.is_integer(kind):
        return values.astype(np.int64) * unit, unit
    if pyarrow.types.is_floating(kind):
        # A double of epoch seconds resolves about 240 ns; say so rather than pretend.
        whole = np.floor(values)
        times = whole.astype(np.int64) * unit + np.floor((values - whole) * unit).astype(np.int64)
        return times, max(int(np.ceil(np.spacing(largest) * unit)), 1)
    raise BadSourceError(f"its time column holds {kind}; use timestamps or epoch numbers")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


FORMAT = Format(
    name="parquet",
    summary="Parquet with a time column",
    suffixes=(".parquet", ".pq"),
    read=read,
    recognises=recognises,
    extra="table",
)
