"""CSV and other delimited text by pyarrow: a time column and numeric columns.

The header, where there is one, names the signals; ``name [unit]`` states a unit. The time column is the one whose
name says so, else the first that holds ISO 8601 times; ``rate`` replaces it. A column ``index`` of rising whole
numbers beside it counts samples and is no signal: that is how `isochrony export` writes a signal, which comes back
under its own name. A table without time column or rate, such as a list of stations, is refused: it is no recording.

A file is read twice: the type of a column is that of all its rows. A last row without a line end may be cut in the
middle of a number; it is left out until it has one.
"""

from __future__ import annotations

import csv
import io
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import BadSourceError
from ..extras import require
from .block import Block, Omission, Options
from .columns import Batch, is_elapsed, is_time_name, parse_times, time_unit_ns
from .csv_columns import MISSING, Kinds, convert
from .registry import Format
from .stretches import Column, blocks_of, default_columns
from .table import values_of

__all__ = ["FORMAT", "read"]

_SAMPLE_BYTES = 65_536
# Arrow reads 32 of them ahead.
_BATCH_BYTES = 1 << 19
_INDEX = "index"
_TITLE = re.compile(r"(?P<name>.*\S)\s*\[(?P<unit>[^\[\]]*)\]")
_LINE_ENDS = b"\r\n"


def read(path: Path, signal: str, options: Options) -> Iterator[Block | Omission]:
    """Blocks of the numeric columns, and whether the last row is left out.

    Raises:
        BadSourceError: not a table, no time column and no rate, text where numbers are
            expected, or irregular times; rows and columns are named.
    """
    pyarrow = require("pyarrow", "reading CSV")
    require("pyarrow.csv", "reading CSV")
    look = _Look(path)
    time = look.time_column(options)
    if time is None and options.rate is None:
        raise BadSourceError(look.why_no_recording())
    # Not needed any more, and much larger than the text that it was read from.
    look.body = []
    status = path.stat()
    end = status.st_size if options.partial else look.end
    table = _Table(pyarrow, path, look, time, end)
    kinds = _CACHE.kinds(table, status.st_size, status.st_mtime_ns)
    columns = _columns(table, kinds, signal, options)
    yield from blocks_of(table.batches(kinds, list(columns)), signal, options, columns)
    if end < look.whole_end:
        yield Omission(
            f"the last row, from byte {end} on: it has no line end and may be cut in the middle of a number; end it "
            "with one, or take it with partial=True"
        )


def _columns(table: _Table, kinds: Kinds, signal: str, options: Options) -> dict[str, Column]:
    """What becomes of the value columns."""
    names = table.value_names
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


class _Look:
    """What the ends of a file tell: delimiter, header, kinds of columns, where the last whole row ends."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            raw = file.read(_SAMPLE_BYTES)
            self.whole_end = file.seek(0, io.SEEK_END)
            self.end = _last_line_end(file, self.whole_end)
        if not raw.strip():
            raise BadSourceError("is empty; fetch it again, or leave it out")
        if b"\0" in raw:
            raise BadSourceError("is not text; leave it out, or give it the suffix of its format")
        self.encoding = _encoding(raw)
        text = raw.decode(self.encoding.replace("utf8", "utf-8-sig"), "replace")
        lines = text.splitlines()
        if len(raw) == _SAMPLE_BYTES:
            lines = lines[:-1] or lines
        remarks = [line for line in lines if line.startswith("#")]
        self.skipped = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
        lines = lines[self.skipped :]
        if not lines:
            raise BadSourceError("holds nothing but comment lines; leave it out")
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
        self.header = any(map(is_time_name, first)) or (
            not any(_is_value(cell) for cell in first) and any(_is_value(cell) for cell in below)
        )
        titles = first
        if not self.header and remarks[: self.skipped]:
            titles = self._remarked_titles(remarks[self.skipped - 1], len(first)) or first
        self.names = (
            [name.strip() or f"column{i + 1}" for i, name in enumerate(titles)]
            if self.header or titles is not first
            else [f"column{i + 1}" for i in range(len(first))]
        )
        self.titled = self.header or titles is not first
        if len(set(self.names)) < len(self.names):
            raise BadSourceError("has two columns of the same name; rename one of them in the first row")
        self.body = rows[1:] if self.header else rows

    def _remarked_titles(self, remark: str, count: int) -> list[str] | None:
        """Titles in the last remark above the rows, as `numpy.savetxt` writes them."""
        titles = next(csv.reader([remark.lstrip("# ")], delimiter=self.delimiter), [])
        return titles if len(titles) == count and not any(map(_is_value, titles)) else None

    @property
    def first_row(self) -> int:
        """Number of the first row with values."""
        return self.skipped + (2 if self.header else 1)

    def time_column(self, options: Options) -> str | None:
        """Name of the time column; None if there is none."""
        if options.time_column is not None:
            if options.time_column not in self.names:
                raise BadSourceError(f"has no column {options.time_column!r}; it has {', '.join(self.names)}")
            return options.time_column
        if self.titled:
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


def _encoding(raw: bytes) -> str:
    """UTF-8, or Latin 1 where that is none: so are the degree and micro signs of older programs."""
    try:
        # A character may be cut at the end of the sample.
        raw[: len(raw) - 3 if len(raw) == _SAMPLE_BYTES else None].decode()
    except UnicodeDecodeError as error:
        return "utf8" if error.start >= len(raw) - 4 else "latin1"
    return "utf8"


def _last_line_end(file: BinaryIO, size: int) -> int:
    """Where the last line that has an end ends; the size of the file if only blanks follow it."""
    at, is_blank = size, True
    while at > 0:
        first = max(at - _SAMPLE_BYTES, 0)
        file.seek(first)
        stretch = file.read(at - first)
        place = max(stretch.rfind(end) for end in (b"\n", b"\r"))
        if place >= 0:
            return first + place + 1 if stretch[place + 1 :].strip() or not is_blank else size
        is_blank = is_blank and not stretch.strip()
        at = first
    return 0


def _is_value(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip().lower() in ("true", "false") or _is_time(cell)
    return True


def _is_time(cell: str) -> bool:
    try:
        parse_times([cell])
    except (BadSourceError, ValueError):
        return False
    return True


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

    def __init__(self, pyarrow: Any, path: Path, look: _Look, time: str | None, end: int) -> None:
        self.pyarrow = pyarrow
        self.path = path
        self.end = end
        self._look = look
        self.time = time
        self.value_names = [name for name in look.names if name != time]
        self._unit_ns = time_unit_ns(time) if time is not None and look.titled else None

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
                texts = table.column(self._look.names.index(self.time)).to_pylist()
                if None in texts:
                    raise BadSourceError(f"row {row + texts.index(None)}: the time is empty")
                times, finest = parse_times(texts, row, self._unit_ns)
                if elapsed is None and len(times):
                    elapsed = is_elapsed(int(times[0]), self._unit_ns)
                # Writers drop trailing zeros: the finest seen so far counts.
                resolution = min(finest, resolution or finest)
            values = {}
            for name in names:
                texts = table.column(self._look.names.index(name))
                kind = kinds.of(name)
                if not kind:
                    raise BadSourceError(f"column {name!r} is empty; drop it")
                try:
                    column = convert(self.pyarrow, texts, kind)
                except self.pyarrow.ArrowInvalid as error:
                    raise BadSourceError(f"column {name!r} changed while it was read; import it again") from error
                values[name] = values_of(column, name, row)
            yield Batch(times, resolution or 1, values, row, bool(elapsed))

    def _texts(self) -> Iterator[tuple[int, Any]]:
        """Batches of all columns as text, each with the number of its first row."""
        pyarrow_csv = require("pyarrow.csv", "reading CSV")
        look = self._look
        # Times stay text: a double would lose nanoseconds before anyone could see them.
        types = {name: self.pyarrow.string() for name in look.names}
        row = look.first_row
        try:
            with _Head(self.path, self.end) as head, io.BufferedReader(head, _SAMPLE_BYTES) as file:
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
                    yield row, table
                    row += table.num_rows
        except self.pyarrow.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return
            self._check_fields(error)
            raise BadSourceError(
                f"cannot be read as CSV ({' '.join(str(error).split())}); mend that row, or leave the file out"
            ) from error

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
)
