"""CSV and other delimited text by pyarrow: a time column and numeric columns.

The header, where there is one, names the signals. The time column is the one whose
name says so, else the first that holds ISO 8601 times; ``rate`` replaces it. A
table without either, such as a list of stations, is refused: it is no recording.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import BadSourceError
from ..extras import require
from .block import Block, Options
from .columns import Batch, blocks_of, is_time_name, parse_times
from .registry import Format
from .table import values_of

__all__ = ["FORMAT", "read"]

_SAMPLE_BYTES = 65_536
# Arrow reads 32 of them ahead.
_BATCH_BYTES = 1 << 20


def read(path: Path, signal: str, options: Options) -> Iterator[Block]:
    """Blocks of the numeric columns.

    Raises:
        BadSourceError: not a table, no time column and no rate, text where numbers are
            expected, or irregular times; rows and columns are named.
    """
    pyarrow_csv = require("pyarrow.csv", "reading CSV")
    look = _Look(path)
    time = look.time_column(options)
    if time is None and options.rate is None:
        raise BadSourceError(look.why_no_recording())
    yield from blocks_of(_batches(pyarrow_csv, path, look, time), signal, options)


class _Look:
    """What the first rows of a file tell: delimiter, header, kinds of columns."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            raw = file.read(_SAMPLE_BYTES)
        if not raw.strip():
            raise BadSourceError("is empty; fetch it again, or leave it out")
        if b"\0" in raw:
            raise BadSourceError("is not text; name its format with format=")
        text = raw.decode("utf-8-sig", "replace")
        lines = text.splitlines()
        if len(raw) == _SAMPLE_BYTES:
            lines = lines[:-1] or lines
        try:
            self.delimiter = csv.Sniffer().sniff("\n".join(lines[:50]), ",;\t|").delimiter
        except csv.Error:
            self.delimiter = ","
        rows = [row for row in csv.reader(lines, delimiter=self.delimiter) if row]
        first = rows[0]
        below = rows[1] if len(rows) > 1 else []
        self.rows = len(rows)
        self.whole = len(raw) < _SAMPLE_BYTES
        # A header is a row without numbers or times above one that has some.
        self.header = not any(_is_value(cell) for cell in first) and (
            any(_is_value(cell) for cell in below) or any(map(is_time_name, first))
        )
        self.names = (
            [name.strip() or f"column{i + 1}" for i, name in enumerate(first)]
            if self.header
            else [f"column{i + 1}" for i in range(len(first))]
        )
        if len(set(self.names)) < len(self.names):
            raise BadSourceError("has two columns of the same name; rename one")
        self.body = rows[1:] if self.header else rows

    def time_column(self, options: Options) -> str | None:
        """Name of the time column; None if there is none."""
        if options.time_column is not None:
            if options.time_column not in self.names:
                raise BadSourceError(f"has no column {options.time_column!r}; it has {', '.join(self.names)}")
            return options.time_column
        if self.header:
            for name in self.names:
                if is_time_name(name):
                    return name
        for name, cell in zip(self.names, self.body[0] if self.body else [], strict=False):
            if "-" in cell and _is_time(cell):
                return name
        return None

    def why_no_recording(self) -> str:
        """A sentence about a table that is no recording."""
        count = len(self.body)
        rows = f"{count} rows" if self.whole else f"more than {count} rows"
        text = [
            name
            for i, name in enumerate(self.names)
            if any(i < len(row) and not _is_value(row[i]) for row in self.body)
        ]
        words = f", with text in {text[0]}" if text else ""
        return (
            f"is a table of {rows} and {len(self.names)} columns without a time column{words}, "
            "not a recording; name its time column 'time', or give rate=HZ if rows are samples"
        )


def _is_value(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return _is_time(cell)
    return True


def _is_time(cell: str) -> bool:
    try:
        parse_times([cell])
    except (BadSourceError, ValueError):
        return False
    return True


def _batches(pyarrow_csv: Any, path: Path, look: _Look, time: str | None) -> Iterator[Batch]:
    pyarrow = require("pyarrow", "reading CSV")
    # Times stay text: a double would lose nanoseconds before anyone could see them.
    types = {time: pyarrow.string()} if time is not None else {}
    resolution = None
    row = 2 if look.header else 1
    try:
        reader = pyarrow_csv.open_csv(
            path,
            read_options=pyarrow_csv.ReadOptions(
                block_size=_BATCH_BYTES,
                column_names=look.names,
                skip_rows=1 if look.header else 0,
            ),
            parse_options=pyarrow_csv.ParseOptions(delimiter=look.delimiter),
            convert_options=pyarrow_csv.ConvertOptions(column_types=types),
        )
        for table in reader:
            times = None
            if time is not None:
                texts = table.column(look.names.index(time)).to_pylist()
                if None in texts:
                    raise BadSourceError(f"row {row + texts.index(None)}: the time is empty")
                times, finest = parse_times(texts, row)
                # Writers drop trailing zeros: the finest seen so far counts.
                resolution = min(finest, resolution or finest)
            values = {name: values_of(table.column(i), name, row) for i, name in enumerate(look.names) if name != time}
            yield Batch(times, resolution or 1, values, row)
            row += table.num_rows
    except pyarrow.ArrowInvalid as error:
        raise BadSourceError(
            f"cannot be read as CSV ({' '.join(str(error).split())}); mend that row, or leave the file out"
        ) from error


FORMAT = Format(
    name="csv",
    summary="CSV and tab-separated text with a time column",
    suffixes=(".csv", ".tsv", ".txt"),
    read=read,
    extra="table",
)
