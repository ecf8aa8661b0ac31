"""Converts the times and value columns of a table to blocks of regularly sampled signals.

A table is a recording if its times are regular: in each range of rows without a step in time, every row's time lies on
a straight line, up to the resolution of its digits and a quarter of a sample period. Every row's time counts, exactly:
a step in time starts a new range with its own stamp and never enters the rate; a row that lies half a sample beside the
line of its block starts a new block with its own stamp; a range of another rate is refused with its row. Where breaks
are about as many as rows, or as all else, the table is no recording and is refused.

Times as coarse as the samples do not say where in their last digit the first sample lies. Where they are those of
samples that lie on whole digits, row by row, they are taken as they are written: minutes 12:00, 12:01, ... are full
minutes, and the first of ten rows of one second is at the full second. A stamp whose middle the clock takes is then
centred on that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from ..errors import BadSourceError
from .block import Block, Options, Remark, Stamp
from .columns import Batch, Times
from .table_rate import BREAKS_SHARE, FEW, rate_of, spread_of
from .without_effect import table_remarks

__all__ = ["Column", "blocks_of", "default_columns"]

# How far a row may lie off its range's line beyond the resolution, in periods.
_OFF = 0.25
# Rates that differ by more are not one signal's; those of clocks that drift differ by less.
_SAME_RATE = Fraction(1, 1000)
_INT64_SAFE = 1 << 62
# The clock takes the middle of stamps from this width on, finer ones as they are written (`COARSE_NS` in crates/time).
_COARSE_NS = 50_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """The signal that a value column becomes.

    Attributes:
        signal: name of the signal.
        unit: unit of the signal; None: not known.
    """

    signal: str
    unit: str | None = None


def default_columns(names: list[str], signal: str, unit: str | None) -> dict[str, Column]:
    """A single value column is the signal itself, more are ``signal/column``."""
    single = len(names) == 1
    return {name: Column(signal if single else f"{signal}/{_component(name)}", unit) for name in names}


def _component(name: str) -> str:
    """A column's name as part of a signal's name."""
    return name.strip().replace("/", "_").replace(" ", "_") or "column"


@dataclass(frozen=True, slots=True)
class _RowRange:
    """Rows of a batch, without a step in time between them.

    Attributes:
        batch: the rows' table.
        first: place of the first row in it.
        end: place behind the last row.
        row: number of the first row among all rows with times, from 0.
        is_cut: a step in time comes before it.
    """

    batch: Batch
    first: int
    end: int
    row: int
    is_cut: bool

    def time(self, place: int) -> int:
        assert self.batch.times is not None
        return int(self.batch.times[place])


def blocks_of(
    batches: Iterator[Batch], signal: str, options: Options, columns: Mapping[str, Column] | None = None
) -> Iterator[Block | Remark]:
    """Blocks of all value columns, in the order of the rows, and remarks on their times.

    Parameters:
        batches: the table, in order.
        signal: name of the signals, or of their folder.
        options: `rate` and `start` for tables that do not know them; `ignore_times`.
        columns: what becomes of each value column; default: `default_columns`.

    Raises:
        BadSourceError: no rows, no value column, no time column and no rate, or times
            that are not regular; rows are named.
    """
    emit = _Emitter(signal, options, columns)
    table = _Table(options)
    for batch in batches:
        if not batch.values:
            raise BadSourceError(
                "has no numeric column beside the time; check its delimiter and decimal sign, or leave it out"
            )
        count = len(next(iter(batch.values.values())))
        if count == 0:
            continue
        if table.rows == 0:
            units = {name: column.unit for name, column in (columns or {}).items()}
            yield from table_remarks(options, units, has_times=batch.times is not None, elapsed=batch.elapsed)
        if batch.times is None or options.ignore_times:
            yield from emit.untimed(batch, count, is_first=table.rows == 0)
            table.rows += count
            continue
        for rows, is_excursion in table.ranges(batch):
            yield from emit.timed(rows, table.rate, is_excursion=is_excursion)
    for rows, is_excursion in table.last():
        yield from emit.timed(rows, table.rate, is_excursion=is_excursion)
    if emit.ambiguous_s is not None:
        yield Remark(
            f"its times have steps of {emit.ambiguous_s:.6g} s, as coarse as its samples, and drift against them: "
            "samples are placed in the middle of what the digits allow"
        )
    if table.rows == 0:
        raise BadSourceError("holds no rows; leave it out")


class _Table:
    """Cuts batches at steps in time, and knows the rate."""

    def __init__(self, options: Options) -> None:
        self._rate = options.rate
        self._rate_is_known = options.rate is not None
        self._start_is_known = options.start is not None
        self.rows = 0
        self._breaks = 0
        self._previous: int | None = None
        self._pending: _RowRange | None = None
        # First row of the range before the pending one, and its time.
        self._before: tuple[int, int] | None = None

    @property
    def rate(self) -> Fraction:
        assert self._rate is not None
        return self._rate

    def ranges(self, batch: Batch) -> Iterator[tuple[_RowRange, bool]]:
        """Row ranges that are complete now, and whether each is an excursion.

        An excursion lies beside the times before and after it, which continue each other: one stamp for all of it
        would look like a wrong one.
        """
        times = batch.times
        assert times is not None
        if self._rate is None:
            self._rate = rate_of(batch)
        cuts = _cuts(times, batch.resolution_ns, self._rate, self._previous)
        self._check_breaks(batch, cuts, len(times))
        edges = sorted({0, *cuts, len(times)})
        for first, end in pairwise(edges):
            rows = _RowRange(batch, first, end, self.rows + first, first in cuts)
            _check_rate(rows, self._rate, rate_is_known=self._rate_is_known)
            yield from self._push(rows)
        self.rows += len(times)
        self._previous = int(times[-1])

    def last(self) -> Iterator[tuple[_RowRange, bool]]:
        """The last row range."""
        if self._pending is not None:
            yield self._pending, False

    def _check_breaks(self, batch: Batch, cuts: list[int], count: int) -> None:
        self._breaks += len(cuts)
        rows = self.rows + count
        if cuts and batch.elapsed and not self._start_is_known:
            assert batch.times is not None
            before = batch.times[cuts[0] - 1] if cuts[0] else self._previous
            assert before is not None
            step = (int(batch.times[cuts[0]]) - int(before)) / 1e9
            raise BadSourceError(
                f"row {batch.first_row + cuts[0]} is {step:.6g} s after the row before, not "
                f"{1 / float(self.rate):.6g} s, but a gap can be imported only if the date and time of the file's "
                "start are known; give them with start=TIME"
            )
        if self._breaks > max(FEW, BREAKS_SHARE * rows):
            raise BadSourceError(
                f"its times are not regular: {self._breaks} breaks in {rows} rows at {float(self.rate):.6g} Hz, the "
                f"last at row {batch.first_row + cuts[-1]}; {_advice(self._rate_is_known)}"
            )

    def _push(self, rows: _RowRange) -> Iterator[tuple[_RowRange, bool]]:
        pending, self._pending = self._pending, rows
        if pending is None:
            return
        is_excursion = False
        if pending.is_cut and rows.is_cut and self._before is not None:
            row, time = self._before
            period = 1 / self.rate * 1_000_000_000
            off = abs(rows.time(rows.first) - time - (rows.row - row) * period)
            is_excursion = off <= rows.batch.resolution_ns + period
        if rows.is_cut:
            self._before = (pending.row, pending.time(pending.first))
        yield pending, is_excursion


class _Emitter:
    """Makes blocks of rows."""

    def __init__(self, signal: str, options: Options, columns: Mapping[str, Column] | None) -> None:
        self._signal = signal
        self._options = options
        self._columns = columns
        # Step of times, in s, that do not say where in it a sample lies.
        self.ambiguous_s: float | None = None

    def untimed(self, batch: Batch, count: int, *, is_first: bool) -> Iterator[Block]:
        """Rows of a table without a time column, or one whose times are ignored but for the first."""
        rate = self._options.rate
        if rate is None:
            raise BadSourceError(
                "has no time column; name one 'time', 'timestamp', 'date', 'utc' or 't', also with a unit, as "
                "'time_ms', or give the sample rate with rate=HZ"
            )
        start = self._options.start if is_first else None
        if is_first and batch.times is not None and not batch.elapsed:
            start = _as_written(int(batch.times[0]), batch.resolution_ns)
        yield from self._rows(batch, slice(0, count), rate, start)

    def timed(self, rows: _RowRange, rate: Fraction, *, is_excursion: bool) -> Iterator[Block]:
        """Blocks of a row range, with a stamp wherever a row leaves the line of the one before."""
        for first, end in _pieces(rows, rate, rate_is_known=self._options.rate is not None):
            start = self._stamp(rows.batch, first, end, rate)
            if is_excursion and end - first > 1:
                # Two stamps that agree are no wrong one.
                middle = (first + end) // 2
                yield from self._rows(rows.batch, slice(first, middle), rate, start)
                first, start = middle, self._stamp(rows.batch, middle, end, rate)
            yield from self._rows(rows.batch, slice(first, end), rate, start)

    def _stamp(self, batch: Batch, first: int, end: int, rate: Fraction) -> Stamp | None:
        """The time of a row; where the rows of its block jitter by more than their digits, as fine as those agree."""
        assert batch.times is not None
        base = 0
        resolution = batch.resolution_ns
        if batch.elapsed:
            start = self._options.start
            if start is None:
                return None
            base, resolution = start.ns, max(resolution, start.resolution_ns)
        times = batch.times[first:end]
        time = base + int(times[0])
        early, late = spread_of(times)
        if late - early > 2 * resolution:
            return Stamp(time + early, late - early)
        if resolution < _COARSE_NS and resolution * rate <= 1_000_000_000:
            return Stamp(time, resolution)
        offset = _on_whole_digits(times, batch.resolution_ns, rate)
        if offset is None:
            if 2 * resolution * rate > 1_000_000_000:
                self.ambiguous_s = resolution / 1e9
            return Stamp(time, resolution)
        width = min(resolution, int(1_000_000_000 / rate))
        return Stamp(time + offset - (width // 2 if width >= _COARSE_NS else 0), width)

    def _rows(self, batch: Batch, rows: slice, rate: Fraction, start: Stamp | None) -> Iterator[Block]:
        columns = self._columns or default_columns(list(batch.values), self._signal, self._options.unit)
        for name, values in batch.values.items():
            column = columns[name]
            yield Block(
                signal=column.signal,
                samples=np.ascontiguousarray(values[rows]),
                rate=rate,
                start=start,
                unit=self._options.unit or column.unit,
                attrs={"column": name},
            )


def _as_written(time: int, resolution: int) -> Stamp:
    """A stamp for a time that stands for itself: its middle, where the clock takes that, is the time.

    It is two digits wide, since the sample may all the same lie up to one behind: whatever is cut off, files that
    follow on each other then do so.
    """
    return Stamp(time - resolution, 2 * resolution) if 2 * resolution >= _COARSE_NS else Stamp(time, resolution)


def _on_whole_digits(times: Times, resolution: int, rate: Fraction) -> int | None:
    """How long after its digit the first row lies if some row lies on each full digit; None if the times are not those.

    One of sample period and digit is a whole number of the other, and cutting off what is below the digit gives every
    row's time.
    """
    digits = 1_000_000_000 / rate / resolution
    if digits.denominator != 1 and digits.numerator != 1:
        return None
    off = _beside_line(times, rate)
    # The first sample lies at or after each of these, and less than a digit after it.
    offset = int(off.max())
    return offset if offset - int(off.min()) < resolution else None


def _cuts(times: Times, resolution: int, rate: Fraction, previous: int | None) -> list[int]:
    """Rows at which a new range begins, including 0 where the batch does not follow on."""
    period = 1e9 / float(rate)
    steps = np.diff(times)
    cuts = [int(i) + 1 for i in np.flatnonzero(np.abs(steps - period) > 0.5 * period + resolution)]
    if previous is not None and abs(int(times[0]) - previous - period) > 0.5 * period + resolution:
        cuts.insert(0, 0)
    return cuts


def _check_rate(rows: _RowRange, rate: Fraction, *, rate_is_known: bool) -> None:
    """Refuse a row range whose times go on at another rate."""
    steps = rows.end - rows.first - 1
    if steps < 2:
        return
    period = 1 / rate * 1_000_000_000
    span = rows.time(rows.end - 1) - rows.time(rows.first)
    off = abs(span - steps * period)
    if off > max(_SAME_RATE * span, period + 2 * rows.batch.resolution_ns):
        found = float(steps * 10**9 / Fraction(span)) if span > 0 else 0.0
        if rate_is_known:
            raise BadSourceError(
                f"from row {rows.batch.first_row + rows.first} on its times are spaced at {found:.6g} Hz, but "
                f"rate= says {float(rate):.6g} Hz; leave out rate= to use the times, or keep it and ignore the times "
                "with ignore_times=True"
            )
        if rows.row == 0 and rows.end < len(rows.batch.times if rows.batch.times is not None else ()):
            # The rate is that of most rows, which are behind these.
            raise BadSourceError(
                f"from row {rows.batch.first_row + rows.end} on its rate is {float(rate):.6g} Hz, not "
                f"{found:.6g} Hz as before; a signal has one rate: split the file there, or resample it"
            )
        raise BadSourceError(
            f"from row {rows.batch.first_row + rows.first} on its rate is {found:.6g} Hz, not {float(rate):.6g} "
            "Hz as before; a signal has one rate: split the file there, or resample it"
        )


def _pieces(rows: _RowRange, rate: Fraction, *, rate_is_known: bool) -> Iterator[tuple[int, int]]:
    """A row range in pieces, each on the line that its first row and the rate give, within half a sample."""
    times = rows.batch.times
    assert times is not None
    resolution = rows.batch.resolution_ns
    tolerance = int(500_000_000 / rate) + resolution
    first, count = rows.first, 0
    while first < rows.end:
        off = _beside_line(times[first : rows.end], rate)
        beyond = np.flatnonzero(np.abs(off) > tolerance)
        end = first + int(beyond[0]) if len(beyond) else rows.end
        count += 1
        if count > max(FEW, BREAKS_SHARE * (rows.end - rows.first)):
            raise BadSourceError(
                f"its times are not regular: up to row {rows.batch.first_row + first} they depart from an even "
                f"spacing at {float(rate):.6g} Hz {count} times; {_advice(rate_is_known)}"
            )
        _check_line(rows.batch, first, end, rate, rate_is_known=rate_is_known)
        yield first, end
        first = end


def _advice(rate_is_known: bool) -> str:
    """What to do with a table whose times are not regular."""
    how = "ignore_times=True" if rate_is_known else "rate=HZ and ignore_times=True"
    return f"resample it, or take its rows as evenly spaced with {how}"


def _beside_line(times: Times, rate: Fraction) -> Times:
    """How far each time lies beside the line from the first one, in ns, exact up to one."""
    count = len(times)
    whole, part = divmod(rate.denominator * 1_000_000_000, rate.numerator)
    if (whole + 1) * count < _INT64_SAFE and part * count < _INT64_SAFE:
        index = np.arange(count, dtype=np.int64)
        line = index * whole + index * part // rate.numerator
    else:
        line = np.array([k * whole + k * part // rate.numerator for k in range(count)], dtype=np.int64)
    off: Times = times - times[0] - line
    return off


def _check_line(batch: Batch, first: int, end: int, rate: Fraction, *, rate_is_known: bool) -> None:
    """Refuse a row range whose times bend away from its own average by more than its digits and jitter explain."""
    times = batch.times
    assert times is not None
    if end - first < 3:
        return
    local = times[first:end] - times[first]
    index = np.arange(end - first)
    line = index * (float(local[-1]) / (end - first - 1))
    worst = int(np.argmax(np.abs(local - line)))
    period = 1e9 / float(rate)
    if abs(local[worst] - line[worst]) > _OFF * period + batch.resolution_ns:
        raise BadSourceError(
            f"its times are not regular: row {batch.first_row + first + worst} is "
            f"{abs(local[worst] - line[worst]) / 1e9:.6g} s off at {float(rate):.6g} Hz; "
            f"{_advice(rate_is_known)}"
        )
