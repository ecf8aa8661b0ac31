"""What the ends of a file of delimited text tell: delimiter, decimal commas, header, time column, last whole row."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import BadSourceError
from .block import Options, Remark
from .columns import TIME_UNITS, is_calendar_time, is_time_name, lacks_zone, parse_times, time_unit_ns
from .sources import packed_as
from .without_effect import time_remarks

__all__ = ["SAMPLE_BYTES", "TableLook"]

SAMPLE_BYTES = 65_536
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_CLOCK = re.compile(r"\d?\d:\d\d(:\d\d([.,]\d+)?)?")
_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


class TableLook:
    """What the ends of a file tell: delimiter, header, kinds of columns, where the last whole row ends."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            raw = file.read(SAMPLE_BYTES)
            self.whole_end = file.seek(0, io.SEEK_END)
            self.end = _last_line_end(file, self.whole_end)
        if not raw.strip():
            raise BadSourceError("is empty; fetch it again, or leave it out")
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise BadSourceError("is UTF-16 text; save it as UTF-8")
        if not raw.isascii() and (packed := packed_as(raw)) is not None:
            raise BadSourceError(f"is {packed}; unpack it, or save it in another format, and import that")
        if b"\0" in raw:
            raise BadSourceError("is not text; leave it out, or give it the suffix of its format")
        self.encoding = _encoding(raw)
        text = raw.decode(self.encoding.replace("utf8", "utf-8-sig"), "replace")
        lines = text.splitlines()
        if len(raw) == SAMPLE_BYTES:
            lines = lines[:-1] or lines
        remarks = [line for line in lines if line.startswith("#")]
        self.skipped = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
        lines = lines[self.skipped :]
        if not lines:
            raise BadSourceError("holds nothing but comment lines; leave it out")
        self.delimiter = _delimiter(lines[:50])
        rows = [row for row in csv.reader(lines, delimiter=self.delimiter) if row]
        self.rows = len(rows)
        self.whole = len(raw) < SAMPLE_BYTES
        self.has_commas = self.delimiter != "," and _have_decimal_commas(rows)
        if self.has_commas:
            rows = [
                [cell.replace(",", ".") if _COMMA.fullmatch(cell.strip()) else cell for cell in row] for row in rows
            ]
        first = rows[0]
        below = rows[1] if len(rows) > 1 else []
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
        cells = dict(zip(self.names, self.body[0] if self.body else [], strict=False))
        if self.titled:
            for name in self.names:
                # A time of day belongs to a column of dates.
                if is_time_name(name) and not _CLOCK.fullmatch(cells.get(name, "").strip()):
                    return name
        return next((name for name, cell in cells.items() if is_calendar_time(cell) and _is_time(cell)), None)

    def has_dates(self, time: str) -> bool:
        """Whether a time column holds dates, rather than numbers."""
        place = self.names.index(time)
        return bool(self.body) and place < len(self.body[0]) and is_calendar_time(self.body[0][place])

    def clock_column(self, time: str | None) -> str | None:
        """Name of the column that has the times of day for a time column of dates; None if there is none."""
        cells = dict(zip(self.names, self.body[0] if self.body else [], strict=False))
        if time is None or ":" in cells.get(time, ":") or not is_calendar_time(cells[time]):
            return None
        return next((name for name, cell in cells.items() if _CLOCK.fullmatch(cell.strip())), None)

    def remarks(self, time: str | None, options: Options) -> Iterator[Remark]:
        """What was assumed of a table whose time column is `time`."""
        if self.has_commas:
            yield Remark("its numbers were read with decimal commas")
        if time is None or not self.body:
            return
        place = self.names.index(time)
        cell = self.body[0][place] if place < len(self.body[0]) else ""
        unit_ns = time_unit_ns(time) if self.titled else None
        yield from time_remarks(
            time,
            options,
            unit_ns=unit_ns,
            is_number=not is_calendar_time(cell),
            lacks_zone=lacks_zone(cell, unit_ns if options.time_unit is None else TIME_UNITS[options.time_unit]),
        )

    def why_no_recording(self) -> str:
        """A sentence about a table that is no recording."""
        count = len(self.body)
        rows = f"{count} row{'s' * (count != 1)}" if self.whole else f"more than {count} rows"
        columns = f"{len(self.names)} column{'s' * (len(self.names) != 1)}"
        text = [
            name
            for i, name in enumerate(self.names)
            if any(i < len(row) and not _is_value(row[i]) for row in self.body)
        ]
        words = f", with text in {text[0]}" if text else ""
        return (
            f"is a table of {rows} and {columns} without a time column{words}, "
            "not a recording; name its time column 'time', or give rate=HZ if rows are samples"
        )


def _delimiter(lines: list[str]) -> str:
    """What separates fields: the character that cuts most lines into one number of fields, of at least two."""
    best, most = ",", 0.0
    # Where several do, a comma is that of decimals.
    for one in ";\t|,":
        counts = Counter(len(row) for row in csv.reader(lines, delimiter=one) if row)
        fields, agreeing = counts.most_common(1)[0] if counts else (0, 0)
        if fields > 1 and agreeing / counts.total() > most:
            best, most = one, agreeing / counts.total()
    return best


def _have_decimal_commas(rows: list[list[str]]) -> bool:
    """Whether cells are numbers with decimal commas, and none with points."""
    commas = False
    for row in rows:
        for cell in row:
            if _POINT.fullmatch(cell.strip()):
                return False
            commas = commas or _COMMA.fullmatch(cell.strip()) is not None
    return commas


def _encoding(raw: bytes) -> str:
    """UTF-8, or Latin 1 where that is none: so are the degree and micro signs of older programs."""
    try:
        # A character may be cut at the end of the sample.
        raw[: len(raw) - 3 if len(raw) == SAMPLE_BYTES else None].decode()
    except UnicodeDecodeError as error:
        return "utf8" if error.start >= len(raw) - 4 else "latin1"
    return "utf8"


def _last_line_end(file: BinaryIO, size: int) -> int:
    """Where the last line that has an end ends; the size of the file if only blanks follow it."""
    at, is_blank = size, True
    while at > 0:
        first = max(at - SAMPLE_BYTES, 0)
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
