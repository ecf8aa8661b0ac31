"""Parquet files by pyarrow: a time column and numeric columns.

The time column is the first of a timestamp type, else the one whose name says so
(numbers count in the unit that the name states, else s, ms, us or ns since 1970 by the
digits of the first one, which must be 9 at least). Times without a zone are UTC, unless
`zone` says otherwise. A column of whole numbers with missing values is read as floats,
which have NaN for them. A file that `isochrony export` or
`sink_parquet` wrote comes back as one signal, with its name, rate and unit: they stand
in the schema's metadata.

Batches are read whose rows take at most `_BATCH_BYTES`, however well they are compressed. Pages are decoded whole;
what is larger than `MOST_PAGE_BYTES` is refused. Text is read as indices into its distinct values: written out, a
small file could fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadSourceError, UsageError
from ..extras import require
from .block import Block, Options, Part, Remark, Samples
from .columns import Batch, is_elapsed, is_time_name, shown_value, time_unit_ns
from .parquet_pages import check_pages
from .parquet_times import TIME_BYTES, TimeColumn, is_text
from .rational import parse_rate
from .registry import Format
from .table import TABLE_OPTIONS, values_of
from .table_blocks import Column, blocks_of, default_columns
from .without_effect import rates_differ, time_remarks

__all__ = ["FORMAT", "read"]

_BATCH_ROWS = 1 << 18
_BATCH_BYTES = 8 << 20
_INDEX = "index"


def recognises(head: bytes) -> bool:
    """Parquet's magic bytes."""
    return head[:4] == b"PAR1"


def read(path: Path, signal: str, options: Options) -> Iterator[Part]:
    """Blocks of the numeric columns, and remarks.

    Raises:
        BadSourceError: not Parquet, no time column and no rate, columns that are not
            numbers, or irregular times.
    """
    pyarrow = require("pyarrow", "reading Parquet")
    parquet = require("pyarrow.parquet", "reading Parquet")
    try:
        # Buffering ahead would hold the whole file.
        file = parquet.ParquetFile(path, pre_buffer=False)
        texts = [field.name for field in file.schema_arrow if is_text(pyarrow.types, field.type)]
        if texts:
            file.close()
            file = parquet.ParquetFile(path, pre_buffer=False, read_dictionary=texts)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise BadSourceError(
            f"cannot be read as Parquet ({_one_line(error)}); fetch it again, or leave it out"
        ) from error
    with file:
        table = _Table(pyarrow, path, file, _Known.of(file.schema_arrow), options)
        if table.known.rate is not None:
            if options.rate is None:
                options = replace(options, rate=table.known.rate)
            elif rates_differ(options.rate, table.known.rate):
                yield Remark(f"states a rate of {float(table.known.rate):.9g} Hz, which rate= replaced")
        columns = table.columns(signal, options)
        known = table.known
        for part in blocks_of(table.batches(list(columns)), signal, options, columns):
            is_ours = known.signal is not None
            yield replace(part, scale=known.scale, offset=known.offset) if is_ours and isinstance(part, Block) else part
        yield from table.remarks(options)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the schema's metadata says of a file that we wrote."""

    signal: str | None = None
    rate: Fraction | None = None
    unit: str | None = None
    scale: float = 1.0
    offset: float = 0.0

    @classmethod
    def of(cls, schema: Any) -> _Known:
        stated: Mapping[bytes, bytes] = schema.metadata or {}
        texts = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in stated.items()}
        try:
            return cls(
                signal=texts["isochrony.signal"],
                rate=parse_rate(texts["isochrony.rate"]),
                unit=texts.get("isochrony.unit") or None,
                scale=float(texts.get("isochrony.scale", 1.0)),
                offset=float(texts.get("isochrony.offset", 0.0)),
            )
        except (KeyError, ValueError, UsageError):
            return cls()


class _Table:
    """A Parquet file as batches of columns."""

    def __init__(self, pyarrow: Any, path: Path, file: Any, known: _Known, options: Options) -> None:
        self._path = path
        self._pyarrow = pyarrow
        self._file = file
        self._schema = file.schema_arrow
        self._time = _time_column(pyarrow, self._schema, options)
        self.times = None if self._time is None else TimeColumn(pyarrow, self._time, options)
        names = [str(name) for name in self._schema.names if name != self._time]
        if len(names) > 1 and _INDEX in names and self._is_count():
            names.remove(_INDEX)
        if options.columns is not None:
            missing = [name for name in options.columns if name not in names]
            if missing:
                raise BadSourceError(f"has no column {missing[0]!r} of values; it has {', '.join(names)}")
            names = list(options.columns)
        self._names = names
        # Columns of whole numbers that have missing values.
        self._with_missing: frozenset[str] = frozenset()
        # Tables of windows or rows have the metadata too, but are several signals.
        self.known = known if len(names) == 1 else _Known()

    def columns(self, signal: str, options: Options) -> dict[str, Column]:
        """What becomes of the value columns."""
        if self.known.signal is None:
            return default_columns(self._names, signal, None)
        return {self._names[0]: Column(options.signal or self.known.signal, self.known.unit)}

    def remarks(self, options: Options) -> Iterator[Remark]:
        """Remarks on the times, once they were read."""
        if self.times is not None and self._time is not None:
            # Times that we wrote are in UTC.
            lacks_zone = self.times.lacks_zone and (options.zone is not None or self.known.signal is None)
            yield from time_remarks(
                self._time,
                options,
                unit_ns=time_unit_ns(self._time),
                is_number=self.times.are_numbers,
                lacks_zone=lacks_zone,
            )

    def _is_count(self) -> bool:
        """Whether the column `index` counts samples: whole numbers that rise, without a jump if there are no times."""
        if not self._pyarrow.types.is_integer(self._schema.field(_INDEX).type):
            return False
        last = None
        row = 1
        for table in self._read([_INDEX]):
            column = table.column(0)
            if column.null_count:
                return False
            numbers = column.to_numpy().astype(np.int64)
            if last is not None:
                numbers = np.concatenate(([last], numbers))
            steps = np.diff(numbers)
            if (steps <= 0).any():
                return False
            if self._time is None and (steps != 1).any():
                at = int(np.flatnonzero(steps != 1)[0])
                raise BadSourceError(
                    f"row {row + at + (last is None)}: column 'index' jumps from {numbers[at]} to {numbers[at + 1]}, "
                    "and a file without a time column cannot have gaps; add a time column, or split the file at this "
                    "row and import each part by itself with start=TIME of its first sample"
                )
            row += table.num_rows
            last = int(numbers[-1]) if len(numbers) else last
        return True

    def _read(self, names: list[str]) -> Iterator[Any]:
        check_pages(self._path, self._file.metadata, names)
        width = sum(self._width(name, self._schema.field(name).type) for name in names)
        rows = max(min(_BATCH_ROWS, _BATCH_BYTES // max(width, 1)), 1)
        done = 1
        try:
            for table in self._file.iter_batches(batch_size=rows, columns=names):
                yield table
                done += table.num_rows
        except (self._pyarrow.ArrowInvalid, OSError) as error:
            raise BadSourceError(
                f"is damaged after row {done} ({_one_line(error)}); fetch it again, or leave it out"
            ) from error

    def _width(self, name: str, kind: Any) -> int:
        """Bytes that a value of a column takes."""
        if is_text(self._pyarrow.types, kind):
            return TIME_BYTES
        if self._pyarrow.types.is_fixed_size_list(kind):
            return max(int(kind.list_size), 1) * self._width(name, kind.value_type)
        try:
            return max(int(kind.bit_width) // 8, 1)
        except ValueError:
            raise BadSourceError(
                f"column {name!r} holds {kind}, not numbers; name the columns to import with columns="
            ) from None

    def _refuse_text(self, name: str) -> None:
        """Refuse a column of values that is text, with its first value that is no number."""
        row = 1
        first = None
        for table in self._read([name]):
            column = table.column(name)
            distinct = column.dictionary.to_pylist()
            wrong = [at for at, value in enumerate(distinct) if not _is_number(value)]
            places = np.flatnonzero(np.isin(column.indices.to_numpy(zero_copy_only=False), wrong))
            if len(places):
                first = row + int(places[0]), distinct[int(column.indices[int(places[0])].as_py())]
                break
            row += table.num_rows
        kind = self._schema.field(name).type.value_type
        where = "" if first is None else f" (row {first[0]}: {shown_value(first[1])})"
        raise BadSourceError(
            f"column {name!r} holds {kind}, not numbers{where}; correct it, or leave the column out: name those to "
            "import with columns="
        )

    def batches(self, names: list[str]) -> Iterator[Batch]:
        """Times and values of the rows."""
        for name in names:
            if is_text(self._pyarrow.types, self._schema.field(name).type):
                self._refuse_text(name)
        self._with_missing = frozenset(name for name in names if self._has_missing_integers(name))
        row = 1
        resolution = None
        elapsed = None
        for table in self._read([*names, *([] if self._time is None else [self._time])]):
            times = None
            if self.times is not None:
                times, finest = self.times.read(table.column(self._time), row)
                if elapsed is None and len(times):
                    elapsed = is_elapsed(int(times[0]), self.times.unit_ns)
                resolution = min(finest, resolution or finest)
            values = {name: self._values(table.column(name), name, row) for name in names}
            yield Batch(times, resolution or 1, values, row, bool(elapsed))
            row += table.num_rows

    def _has_missing_integers(self, name: str) -> bool:
        """Whether a column of whole numbers has missing values, in any row."""
        if not self._pyarrow.types.is_integer(self._schema.field(name).type):
            return False
        metadata = self._file.metadata
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            found = (row_group.column(place) for place in range(row_group.num_columns))
            statistics = next((one.statistics for one in found if one.path_in_schema == name), None)
            if statistics is None or not statistics.has_null_count:
                return any(table.column(0).null_count for table in self._read([name]))
            if statistics.null_count:
                return True
        return False

    def _values(self, column: Any, name: str, row: int) -> Samples:
        kind = column.type
        if name in self._with_missing:
            try:
                column = column.cast(self._pyarrow.float64())
            except self._pyarrow.ArrowInvalid as error:
                raise BadSourceError(
                    f"column {name!r} has missing values, so it is stored as 64-bit floats, and one of its whole "
                    f"numbers is too large for an exact float ({_one_line(error)}); fill the missing values, or leave "
                    "out this column by listing the others in columns="
                ) from error
        if (
            self.known.signal is not None
            and self._pyarrow.types.is_fixed_size_list(kind)
            and kind.list_size == 2
            and str(kind.value_type) in ("float", "double")
            and not column.null_count
        ):
            # Complex numbers as their two parts.
            parts = column.flatten().to_numpy(zero_copy_only=False)
            return np.ascontiguousarray(parts).view("c8" if parts.dtype == "f4" else "c16")
        return values_of(column, name, row)


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def _time_column(pyarrow: Any, schema: Any, options: Options) -> str | None:
    if options.time_column is not None:
        if options.time_column not in schema.names:
            raise BadSourceError(f"has no column {options.time_column!r}; it has {', '.join(schema.names)}")
        return options.time_column
    for one in schema:
        if pyarrow.types.is_timestamp(one.type):
            return str(one.name)
    return next((name for name in schema.names if is_time_name(name)), None)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


FORMAT = Format(
    name="parquet",
    summary="Parquet with a time column",
    suffixes=(".parquet", ".pq"),
    read=read,
    recognises=recognises,
    extra="table",
    uses=TABLE_OPTIONS,
)
