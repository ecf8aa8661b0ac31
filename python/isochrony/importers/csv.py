"""CSV and other delimited text by pyarrow: a time column and numeric columns.

The header, where there is one, names the signals; ``name [unit]`` states a unit. The time column is the one whose
name says so, else the first that holds ISO 8601 times; a column of dates goes with one of times of day. ``rate``
replaces it. A column ``index`` of rising whole numbers beside it counts samples and is no signal: that is how
`isochrony export` writes a signal, which comes back under its own name. A table without time column or rate, such as a
list of stations, is refused: it is no recording.

Fields are separated by the character among comma, semicolon, tab and bar that cuts all rows into equally many. Where
that is no comma, numbers may have decimal commas. An empty cell is a missing value, NaN, and its column is of floats; a
column without any value is left out.

A file is read twice: the type of a column is that of all its rows. A last row without a line end may be cut in the
middle of a number; it is left out until it has one, also with `partial`.
"""

from __future__ import annotations

import csv
import io
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import BadSourceError
from ..extras import require
from .block import Omission, Options, Part, Remark
from .columns import TIME_UNITS, Batch, is_elapsed, parse_times, shown_value, time_unit_ns
from .csv_columns import MISSING, Kinds, convert
from .csv_look import SAMPLE_BYTES, TableLook
from .registry import Format
from .table import TABLE_OPTIONS, values_of
from .table_blocks import Column, blocks_of, default_columns

__all__ = ["FORMAT", "read"]

# Arrow reads 32 of them ahead.
_BATCH_BYTES = 1 << 19
_INDEX = "index"
_CUT = (
    "which has no line end and may be cut in the middle of a number: the next import takes it once it has one; add it "
    "if the file is complete"
)
# A number with a decimal point, or with points between thousands; no date, and no text.
_POINT = r"^[+-]?(\d*\.\d+|[\d.]*\.[\d.]*,\d*|\d{1,3}(\.\d{3})+)([eE][+-]?\d+)?$"
_TITLE = re.compile(r"(?P<name>.*\S)\s*\[(?P<unit>[^\[\]]*)\]")


def read(path: Path, signal: str, options: Options) -> Iterator[Part]:
    """Blocks of the numeric columns, remarks, and whether the last row is left out.

    Raises:
        BadSourceError: not a table, no time column and no rate, text where numbers are
            expected, or irregular times; rows and columns are named.
    """
    pyarrow = require("pyarrow", "reading CSV")
    require("pyarrow.csv", "reading CSV")
    look = TableLook(path)
    time = look.time_column(options)
    if time is None and options.rate is None:
        raise BadSourceError(look.why_no_recording())
    clock = look.clock_column(time)
    remarks = list(look.remarks(time, options))
    status = path.stat()
    is_cut = look.end < look.whole_end
    table = _Table(pyarrow, path, look, time, clock, look.end, options)
    # Not needed any more, and much larger than the text that it was read from.
    look.body = []
    kinds = _CACHE.kinds(table, status.st_size, status.st_mtime_ns)
    if is_cut and not any(map(kinds.of, table.value_names)):
        raise BadSourceError(f"holds no values but those of its last row, {_CUT}")
    columns = _columns(table, kinds, signal, options)
    yield from remarks
    for name in table.value_names:
        if not kinds.of(name):
            yield Remark(f"its column {name!r} has no values and was left out")
    yield from blocks_of(table.batches(kinds, list(columns)), signal, options, columns)
    if is_cut:
        yield Omission(f"the last row, from byte {look.end} on, {_CUT}")


def _columns(table: _Table, kinds: Kinds, signal: str, options: Options) -> dict[str, Column]:
    """What becomes of the value columns."""
    names = [name for name in table.value_names if kinds.of(name)]
    if not names:
        raise BadSourceError(
            "holds no rows; leave it out"
            if table.is_empty
            else "has no numeric column beside the time; check its delimiter, or leave it out"
        )
    counts = [name for name in names if name == _INDEX and len(names) > 1 and kinds.rises(name)]
    names = [name for name in names if name not in counts]
    if counts and table.time is None and (row := kinds.jump(_INDEX)) is not None:
        raise BadSourceError(
            f"row {row}: column 'index' jumps, and a file without a time column cannot have gaps; add a time column, "
            "or split the file at this row and import each part by itself with start=TIME of its first sample"
        )
    if len(names) > 1 or not counts:
        titles = {name: _title(name) for name in names}
        if len({title for title, _ in titles.values()}) < len(titles):
            titles = {name: (name, None) for name in names}
        single = len(names) == 1
        named = default_columns([title for title, _ in titles.values()], signal, None)
        return {name: Column(signal if single else named[title].signal, unit) for name, (title, unit) in titles.items()}
    # One column beside the numbers of its samples: an exported signal, whose title is its name.
    title, unit = _title(names[0])
    return {names[0]: Column(options.signal or title.strip("/") or signal, unit)}


def _title(name: str) -> tuple[str, str | None]:
    """Name and unit of a column title like ``pressure [mbar]``."""
    match = _TITLE.fullmatch(name)
    return (name, None) if match is None else (match["name"], match["unit"].strip() or None)


class _Head(io.RawIOBase):
    """A file up to a place in it."""

    def __init__(self, path: Path, end: int) -> None:
        super().__init__()
        self._file = path.open("rb", buffering=0)
        self._left = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)[: self._left]
        count = self._file.readinto(view) if len(view) else 0
        self._left -= count or 0
        return count or 0

    def close(self) -> None:
        self._file.close()
        super().close()


class _Table:
    """A file of delimited text as batches of columns."""

    def __init__(
        self,
        pyarrow: Any,
        path: Path,
        look: TableLook,
        time: str | None,
        clock: str | None,
        end: int,
        options: Options,
    ) -> None:
        self.pyarrow = pyarrow
        self.path = path
        self.end = end
        self._look = look
        self.time = time
        self._clock = clock
        self.value_names = [name for name in look.names if name not in (time, clock)]
        if options.columns is not None:
            missing = [name for name in options.columns if name not in self.value_names]
            if missing:
                raise BadSourceError(f"has no column {missing[0]!r} of values; it has {', '.join(self.value_names)}")
            self.value_names = list(options.columns)
        # Whose numbers have decimal commas if any have; dates may have points.
        self._with_commas = list(self.value_names)
        if time is not None and not look.has_dates(time):
            self._with_commas.append(time)
        self._unit_ns = time_unit_ns(time) if time is not None and look.titled else None
        if options.time_unit is not None:
            self._unit_ns = TIME_UNITS[options.time_unit]
        self._zone = options.zone
        self.is_empty = not look.body

    def kinds(self) -> Kinds:
        """Types of the value columns, by all rows."""
        kinds = Kinds(self.value_names)
        kinds.take(self.pyarrow, self._texts(), {name: self._look.names.index(name) for name in self.value_names})
        return kinds

    def batches(self, kinds: Kinds, names: list[str]) -> Iterator[Batch]:
        """Times and values of the rows."""
        resolution = None
        elapsed = None
        for row, table in self._texts():
            times = None
            if self.time is not None:
                texts = self._time_texts(table, row, self.time)
                if self._clock is not None:
                    clocks = (text.strip() for text in self._time_texts(table, row, self._clock))
                    # Hours may have one digit.
                    padded = (f"0{clock}" if clock[1:2] == ":" else clock for clock in clocks)
                    texts = [f"{date.strip()} {clock}" for date, clock in zip(texts, padded, strict=True)]
                times, finest = parse_times(texts, row, self._unit_ns, self._zone)
                if elapsed is None and len(times):
                    elapsed = is_elapsed(int(times[0]), self._unit_ns)
                # Writers drop trailing zeros: the finest seen so far counts.
                resolution = min(finest, resolution or finest)
            values = {}
            for name in names:
                cells = table.column(self._look.names.index(name))
                try:
                    column = convert(self.pyarrow, cells, kinds.of(name))
                except self.pyarrow.ArrowInvalid as error:
                    raise BadSourceError(f"column {name!r} changed while it was read; import it again") from error
                values[name] = values_of(column, name, row)
            yield Batch(times, resolution or 1, values, row, bool(elapsed))

    def _time_texts(self, table: Any, row: int, name: str) -> list[str]:
        texts: list[Any] = table.column(self._look.names.index(name)).to_pylist()
        if None in texts:
            raise BadSourceError(f"row {row + texts.index(None)}: the time is empty; fill it, or drop the row")
        return texts

    def _texts(self) -> Iterator[tuple[int, Any]]:
        """Batches of all columns as text, each with the number of its first row."""
        pyarrow_csv = require("pyarrow.csv", "reading CSV")
        look = self._look
        # Times stay text: a double would lose nanoseconds before anyone could see them.
        types = {name: self.pyarrow.string() for name in look.names}
        row = look.first_row
        try:
            with _Head(self.path, self.end) as head, io.BufferedReader(head, SAMPLE_BYTES) as file:
                reader = pyarrow_csv.open_csv(
                    file,
                    read_options=pyarrow_csv.ReadOptions(
                        block_size=_BATCH_BYTES,
                        column_names=look.names,
                        skip_rows=look.skipped + (1 if look.header else 0),
                        encoding=look.encoding,
                    ),
                    parse_options=pyarrow_csv.ParseOptions(delimiter=look.delimiter),
                    convert_options=pyarrow_csv.ConvertOptions(
                        column_types=types, null_values=MISSING, strings_can_be_null=True
                    ),
                )
                for table in reader:
                    yield row, self._with_points(table, row) if look.has_commas else table
                    row += table.num_rows
        except self.pyarrow.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return
            self._check_fields(error)
            raise BadSourceError(
                f"cannot be read as CSV ({' '.join(str(error).split())}); mend that row, or leave the file out"
            ) from error

    def _with_points(self, table: Any, row: int) -> Any:
        """Texts with decimal points instead of commas.

        Raises:
            BadSourceError: a number with a point, be it one of decimals or of thousands; rows say which.
        """
        compute = require("pyarrow.compute", "reading tables")
        for name in self._with_commas:
            texts = table.column(self._look.names.index(name))
            trimmed = compute.utf8_trim_whitespace(texts)
            places = compute.indices_nonzero(compute.match_substring_regex(trimmed, _POINT).fill_null(False))
            if len(places):
                at = places[0].as_py()
                cell = shown_value(texts[at].as_py())
                raise BadSourceError(
                    f"row {row + at}: column {name!r} holds {cell}, with a point, and the first numbers of the file "
                    "have decimal commas; write all numbers alike, without separators of thousands, or leave out this "
                    "column by listing the others in columns="
                )
        columns = [compute.replace_substring(column, ",", ".") for column in table.columns]
        return self.pyarrow.RecordBatch.from_arrays(columns, names=table.schema.names)

    def _check_fields(self, cause: Exception) -> None:
        """Name the first row with too many or too few fields, of which Arrow gives the text, but not the number.

        Raises:
            BadSourceError: there is such a row.
        """
        look = self._look
        with self.path.open(newline="", encoding=look.encoding) as file:
            for _ in range(look.skipped):
                file.readline()
            rows = (row for row in csv.reader(file, delimiter=look.delimiter) if row)
            for number, row in enumerate(rows, look.skipped + 1):
                if len(row) != len(look.names):
                    fields = f"{len(row)} field" + "s" * (len(row) != 1)
                    raise BadSourceError(
                        f"row {number} has {fields}, not {len(look.names)}; mend that row, or leave the file out"
                    ) from cause


class _KindsCache:
    """Types of the columns of files that were read lately: an import asks for where a file begins and for its rows.

    It keeps names, types and a few numbers, and nothing of the rows.
    """

    def __init__(self, most_columns: int) -> None:
        self._most = most_columns
        self._columns = 0
        self._known: OrderedDict[Any, Kinds] = OrderedDict()
        self._lock = threading.Lock()

    def kinds(self, table: _Table, size: int, mtime_ns: int) -> Kinds:
        """The types of a file's columns; a file that has not changed is not read again for them."""
        key = (str(table.path), size, mtime_ns, table.end, tuple(table.value_names))
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        kinds = table.kinds()
        with self._lock:
            if key not in self._known:
                self._known[key] = kinds
                self._columns += len(table.value_names)
            while self._columns > self._most:
                (*_, names), _ = self._known.popitem(last=False)
                self._columns -= len(names)
        return kinds


_CACHE = _KindsCache(1 << 14)


FORMAT = Format(
    name="csv",
    summary="CSV and tab-separated text with a time column",
    suffixes=(".csv", ".tsv", ".txt"),
    read=read,
    extra="table",
    uses=TABLE_OPTIONS,
)
