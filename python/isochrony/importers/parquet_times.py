"""The time column of a Parquet file: timestamps, text and numbers as whole nanoseconds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import BadSourceError
from ..extras import require
from .block import Options
from .columns import (
    TIME_UNITS,
    Times,
    calendar_digits,
    epoch_unit_ns,
    is_calendar_time,
    lacks_zone,
    parse_times,
    shown_value,
    time_unit_ns,
)

__all__ = ["TIME_BYTES", "TimeColumn", "is_text"]

# Most bytes of a time as text. Longer ones are refused before they are written out.
TIME_BYTES = 64
_MOST_NS = (1 << 63) - 1
# Smaller numbers do not say their unit: they have fewer than nine digits.
_LEAST_EPOCH = 100_000_000


class TimeColumn:
    """Reads a time column batch by batch; what its first values say of their unit holds for all."""

    def __init__(self, pyarrow: Any, name: str, options: Options) -> None:
        self._pyarrow = pyarrow
        self.unit_ns = time_unit_ns(name) if options.time_unit is None else TIME_UNITS[options.time_unit]
        self._zone = options.zone
        # Whether there are times that state no zone, and such that are numbers.
        self.lacks_zone = False
        self.are_numbers = False
        # What the first number of a column without a unit says of all: digits of the calendar, or the unit.
        self._calendar: bool | None = None
        self._epoch_unit_ns: int | None = None

    def read(self, column: Any, row: int) -> tuple[Times, int]:
        """Times in ns and their resolution in ns."""
        types = self._pyarrow.types
        if column.null_count:
            at = column.is_null().to_pylist().index(True)
            raise BadSourceError(f"row {row + at}: the time is empty; fill it, or drop the row")
        kind = column.type
        if types.is_timestamp(kind):
            if kind.tz is None:
                column = self._in_utc(column, row)
            unit = TIME_UNITS[kind.unit]
            return _scaled(column.cast(self._pyarrow.int64()).to_numpy(), unit, row), unit
        if is_text(types, kind):
            distinct = column.dictionary.to_pylist()
            long = next((value for value in distinct if len(value or "") > TIME_BYTES), None)
            if long is not None or types.is_binary(kind.value_type) or types.is_large_binary(kind.value_type):
                found = kind.value_type if long is None else shown_value(long)
                raise BadSourceError(f"its time column holds {found}; use timestamps or epoch numbers")
            texts = column.dictionary_decode().to_pylist()
            if texts:
                self.lacks_zone |= lacks_zone(texts[0], self.unit_ns)
                self.are_numbers |= not is_calendar_time(texts[0])
            return parse_times(texts, row, self.unit_ns, self._zone)
        self.are_numbers = True
        if types.is_integer(kind):
            values = column.to_numpy()
            if self.unit_ns is None and len(values) and self._calendar is None:
                self._calendar = calendar_digits(str(values[0])) is not None
            if self._calendar:
                self.lacks_zone = True
                return parse_times([str(value) for value in values], row, zone=self._zone)
            unit = self._unit_of(values, row)
            return _scaled(values, unit, row), unit
        if types.is_floating(kind):
            return self._float_times(column.to_numpy().astype("f8"), row)
        raise BadSourceError(f"its time column holds {kind}; use timestamps or epoch numbers")

    def _in_utc(self, column: Any, row: int) -> Any:
        """Times of a type without a zone."""
        self.lacks_zone = True
        if self._zone is None:
            return column
        compute = require("pyarrow.compute", "reading tables")
        offset = self._zone.utcoffset(None)
        if offset is not None:
            return compute.subtract(column, self._pyarrow.scalar(offset, self._pyarrow.duration(column.type.unit)))
        try:
            return compute.assume_timezone(column, str(self._zone))
        except self._pyarrow.ArrowInvalid as error:
            raise BadSourceError(
                f"rows {row} to {row + len(column) - 1}: one of these local times occurs twice or not at all in "
                f"{self._zone}, because the clocks change ({' '.join(str(error).split())}); write the times in UTC"
            ) from error

    def _unit_of(self, values: Any, row: int) -> int:
        """The unit of the column's numbers, by its name or by the first of them."""
        if self.unit_ns is not None or not len(values):
            return self.unit_ns or 1
        small = np.flatnonzero((values > -_LEAST_EPOCH) & (values < _LEAST_EPOCH))
        if len(small):
            # Says what is wrong with it, as with the same text in a CSV file.
            parse_times([str(values[small[0]])], row + int(small[0]))
        if self._epoch_unit_ns is None:
            self._epoch_unit_ns = epoch_unit_ns(len(str(abs(int(values[0])))))
        return self._epoch_unit_ns

    def _float_times(self, values: Any, row: int) -> tuple[Times, int]:
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            raise BadSourceError(
                f"row {row + int(wrong[0])}: {values[wrong[0]]} is not a time; correct it, or drop the row"
            )
        largest = float(np.abs(values).max()) if len(values) else 0.0
        unit = self._unit_of(values, row)
        # A double of epoch seconds resolves about 240 ns; say so rather than pretend.
        whole = np.floor(values)
        if largest * unit > _MOST_NS - unit:
            _out_of_range(row + int(np.argmax(np.abs(values))))
        times = whole.astype(np.int64) * unit + np.floor((values - whole) * unit).astype(np.int64)
        return times, max(int(np.ceil(np.spacing(largest) * unit)), 1)


def is_text(types: Any, kind: Any) -> bool:
    """Whether a type is text or bytes, written out or as indices into its distinct values."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    checks = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(is_one(kind) for is_one in checks)


def _largest(values: Any) -> int:
    return max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0


def _scaled(values: Any, unit: int, row: int) -> Times:
    """Whole numbers of a unit as ns; NumPy would wrap round beyond its range without a word."""
    if _largest(values) > _MOST_NS // unit:
        _out_of_range(row + int(np.argmax(np.abs(values.astype(object)))))
    times: Times = values.astype(np.int64) * unit
    return times


def _out_of_range(row: int) -> None:
    raise BadSourceError(f"row {row}: its time is not between the years 1678 and 2262; correct it, or drop the row")
