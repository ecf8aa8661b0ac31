"""From a table's time column and value columns to blocks of regularly sampled signals.

A table is a recording if its times are regular: within a stretch every time lies
on a straight line up to the resolution of its digits and a quarter of a sample
period. A step in time starts a new stretch, and so a new block with its own stamp;
it never enters the rate. Where steps are about as many as rows, or as all else, the
table is no recording and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..errors import BadSourceError, UsageError
from .block import Block, Options, Samples, Stamp
from .rational import simplest_around

__all__ = ["Batch", "blocks_of", "epoch_unit_ns", "is_time_name", "parse_time", "parse_times"]

Times = npt.NDArray[np.int64]

_TIME_NAME = re.compile(r"(time|timestamp|datetime|date_?time|date|utc|epoch|t|ts)(\W.*|_utc|_ns|_us|_ms|_s)?", re.I)
_EPOCH = re.compile(r"-?\d{9,19}(\.\d+)?")
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.(\d+))?)?)?(Z|[+-]\d\d(:?\d\d)?)?")
# More breaks than this share of the rows, and more than `_FEW`, is not a recording;
# nor is one with fewer rows than `_ROWS` of which any breaks.
_BREAKS_SHARE = 0.1
_FEW = 8
_HOW = "write ISO 8601 (2010-03-01T00:30:00.25) or an epoch number"
_ROWS = 4
# Changes of the time over which the typical period is measured.
_WINDOW = 16
# How far a row may lie off its stretch beyond the resolution, in periods.
_OFF = 0.25


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a table, in order.

    Attributes:
        times: ns since 1970 per row, floored to the resolution; None without a time column.
        resolution_ns: width of the last digit of the times.
        values: the value columns by name, each as long as `times`.
        first_row: number of the first row in the file, from 1, for messages.
    """

    times: Times | None
    resolution_ns: int
    values: Mapping[str, Samples]
    first_row: int


def is_time_name(name: str) -> bool:
    """Whether a column's name says that it holds times."""
    return _TIME_NAME.fullmatch(name.strip()) is not None


def parse_times(texts: list[str], first_row: int = 1) -> tuple[Times, int]:
    """Times and their resolution, both in ns, from ISO 8601 or epoch numbers as text.

    Epoch numbers count s, ms, us or ns since 1970 by their number of digits. Times
    without a zone are UTC. The resolution is that of the longest text.

    Raises:
        BadSourceError: a text that is neither; the message names its row.
    """
    times = np.empty(len(texts), dtype=np.int64)
    finest = 86_400_000_000_000
    for i, raw in enumerate(texts):
        try:
            times[i], resolution = _time(raw.strip())
        except (ValueError, OverflowError) as error:
            raise BadSourceError(f"row {first_row + i}: {raw!r} is not a time{_why(error)}; {_HOW}") from error
        finest = min(finest, resolution)
    return times, finest


def parse_time(text: str) -> tuple[int, int]:
    """One time and its resolution, both in ns, as `parse_times` reads them.

    Raises:
        UsageError: neither ISO 8601 nor an epoch number.
    """
    try:
        return _time(text.strip())
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text!r} is not a time{_why(error)}; {_HOW}") from error


def _time(text: str) -> tuple[int, int]:
    if _EPOCH.fullmatch(text):
        found = _epoch(text)
    elif (match := _ISO.fullmatch(text)) is not None:
        found = _iso(text, match)
    else:
        raise ValueError
    if abs(found[0]) >= 1 << 63:
        raise ValueError("it is not between the years 1678 and 2262")
    return found


def _why(error: Exception) -> str:
    return f" ({error})" if str(error) else ""


def epoch_unit_ns(digits: int) -> int:
    """Unit of an epoch number by the digits of its whole part: s, ms, us or ns, as ns."""
    if digits <= 11:
        return 1_000_000_000
    if digits <= 14:
        return 1_000_000
    return 1_000 if digits <= 17 else 1


def _epoch(text: str) -> tuple[int, int]:
    whole, _, fraction = text.partition(".")
    unit = epoch_unit_ns(len(whole.lstrip("-")))
    exact = Fraction(text) * unit
    return exact.numerator // exact.denominator, max(unit // 10 ** len(fraction), 1)


def _iso(text: str, match: re.Match[str]) -> tuple[int, int]:
    time, seconds, fraction, zone = match.group(1, 2, 4, 5)
    plain = text[: len(text) - len(zone)] if zone else text
    digits = (fraction or "")[:9]
    # In ns at once, NumPy would wrap round beyond its range without a word.
    whole, _, _ = plain.replace(" ", "T").partition(".")
    ns = int(np.datetime64(whole, "s").astype(np.int64)) * 1_000_000_000 + int(digits.ljust(9, "0"))
    if zone and zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        offset = (hours * 60 + minutes) * 60_000_000_000
        ns -= offset if zone[0] == "+" else -offset
    if time is None:
        return ns, 86_400_000_000_000
    if seconds is None:
        return ns, 60_000_000_000
    return ns, 10 ** (9 - len(digits))


def blocks_of(batches: Iterator[Batch], signal: str, options: Options) -> Iterator[Block]:
    """Blocks of all value columns; a single one is the signal itself, more are ``signal/column``.

    Raises:
        BadSourceError: no rows, no value column, no time column and no rate, or times
            that are not regular.
    """
    rate = options.rate
    rows = breaks = 0
    previous: tuple[int, int] | None = None
    for batch in batches:
        count = len(next(iter(batch.values.values()), np.empty(0)))
        if not batch.values:
            raise BadSourceError("has no numeric column beside the time")
        if count == 0:
            continue
        if batch.times is None:
            if rate is None:
                raise BadSourceError(
                    "has no time column; a recording needs one named like 'time', or a sample rate with rate=HZ"
                )
            start = options.start if rows == 0 else None
            yield from _columns(batch, slice(0, count), rate, start, signal, options)
            rows += count
            continue
        rate = rate or _rate(batch)
        cuts = _cuts(batch.times, batch.resolution_ns, rate, previous)
        rows += count
        breaks += len(cuts) - (cuts[:1] == [0])
        if breaks > max(_FEW, _BREAKS_SHARE * rows):
            raise BadSourceError(
                f"its times are not regular: {breaks} breaks in {rows} rows at "
                f"{float(rate):.6g} Hz; resample it, or state the true rate with rate=HZ"
            )
        edges = [*([] if cuts[:1] == [0] else [0]), *cuts, count]
        for first, end in pairwise(edges):
            _check_line(batch, first, end, rate)
            stamp = Stamp(int(batch.times[first]), batch.resolution_ns)
            yield from _columns(batch, slice(first, end), rate, stamp, signal, options)
        previous = (int(batch.times[-1]), batch.resolution_ns)
    if rows == 0:
        raise BadSourceError("holds no rows; leave it out")


def _columns(
    batch: Batch, rows: slice, rate: Fraction, start: Stamp | None, signal: str, options: Options
) -> Iterator[Block]:
    for name, values in batch.values.items():
        yield Block(
            signal=signal if len(batch.values) == 1 else f"{signal}/{_component(name)}",
            samples=np.ascontiguousarray(values[rows]),
            rate=rate,
            start=start,
            unit=options.unit,
            attrs={"column": name},
        )


def _component(name: str) -> str:
    """A column's name as part of a signal's name."""
    return name.strip().replace("/", "_").replace(" ", "_") or "column"


def _rate(batch: Batch) -> Fraction:
    """The simplest rate that the times of a batch allow.

    The typical period, blind to gaps, says which rows follow on each other; the ends
    of the longest stretch of them, each known within the resolution, then bound the
    rate, and so does the typical period itself.
    """
    times = batch.times
    assert times is not None
    if len(times) < 2:
        raise BadSourceError("one row does not tell a sample rate; state it with rate=HZ")
    steps = np.diff(times)
    resolution = batch.resolution_ns
    rows, span = _typical(times)
    period = span / rows
    even = np.abs(steps - period) <= 0.5 * period + resolution
    edges = np.flatnonzero(np.diff(np.concatenate(([False], even, [False])).astype(np.int8)))
    starts, ends = edges[::2], edges[1::2]
    breaks = len(steps) - int(np.count_nonzero(even))
    # Digits as coarse as the samples would make a recording of almost anything.
    allowed = max(_FEW if 5 * resolution <= period else 1, _BREAKS_SHARE * len(times))
    few = len(times) < _ROWS and breaks > 0
    if few or 2 * breaks >= len(steps) or breaks > allowed:
        raise BadSourceError(
            f"its times are not regular (steps from {steps.min() / 1e9:.6g} s to "
            f"{steps.max() / 1e9:.6g} s); resample it, or state the true rate with rate=HZ"
        )
    longest = int(np.argmax(ends - starts))
    first, last = int(starts[longest]), int(ends[longest])
    low, high = _bounds(last - first, int(times[last] - times[first]), resolution)
    middle = Fraction(rows * 1_000_000_000, span)
    # A change of the time is as sharp as the samples are, if those are finer than the digits.
    near = _bounds(rows, span, min(resolution, int(period) + 1))
    if max(low, near[0]) <= min(high, near[1]):
        low, high = max(low, near[0]), min(high, near[1])
    middle = min(max(middle, low), high)
    if middle >= 1:
        return simplest_around(low, middle, high)
    # Slow recordings have simple periods: 7 minutes rather than 1/419 Hz.
    return 1 / simplest_around(1 / high, 1 / middle, 1 / low)


def _typical(times: Times) -> tuple[int, int]:
    """Rows and ns of a typical stretch: the lower median over windows of a few changes of the time.

    Windows, because the steps of times as coarse as the samples alternate between
    two values; a median, because a gap spoils the few windows that hold it.
    """
    changes = np.concatenate(([0], np.flatnonzero(np.diff(times)) + 1))
    if len(changes) < 2 or times[-1] <= times[0]:
        raise BadSourceError("its times do not increase; sort it by time")
    # The first row need not be the first of its time.
    inner = changes[1:] if len(changes) > 2 and len(changes) < len(times) else changes
    window = max(1, min(_WINDOW, (len(inner) - 1) // 4))
    rows = inner[window:] - inner[:-window]
    spans = times[inner[window:]] - times[inner[:-window]]
    order = np.argsort(spans / rows, kind="stable")
    middle = order[(len(order) - 1) // 2]
    if spans[middle] <= 0:
        raise BadSourceError("its times do not increase; sort it by time")
    return int(rows[middle]), int(spans[middle])


def _bounds(rows: int, span: int, slack: int) -> tuple[Fraction, Fraction]:
    """Least and greatest rate of `rows` samples in `span` ns, known within `slack`."""
    count = rows * 1_000_000_000
    # Only strictly inside: either stamp may be late by almost the resolution.
    slack = min(slack, span // 2)
    return Fraction(count, span + slack), Fraction(count, max(span - slack, 1))


def _cuts(times: Times, resolution: int, rate: Fraction, previous: tuple[int, int] | None) -> list[int]:
    """Rows at which a new stretch begins, including 0 where the batch does not follow on."""
    period = 1e9 / float(rate)
    steps = np.diff(times)
    cuts = [int(i) + 1 for i in np.flatnonzero(np.abs(steps - period) > 0.5 * period + resolution)]
    if previous is not None:
        joined = abs(int(times[0]) - previous[0] - period) <= 0.5 * period + resolution
        if not joined:
            cuts.insert(0, 0)
    return cuts


def _check_line(batch: Batch, first: int, end: int, rate: Fraction) -> None:
    """Refuse a stretch whose times bend away from its own average by more than its digits and jitter explain."""
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
            "resample it, or state the true rate with rate=HZ"
        )
