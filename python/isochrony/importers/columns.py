"""The time columns of tables: which column it is, in which unit, and its times as whole nanoseconds.

A number is a time of the calendar if its digits are one (``201003010000``), else it counts since 1970 in the unit that
the column's name states (``time_us``, ``t (ms)``), or that its digits tell, nine at least. In a column with a unit,
numbers too small to be times since 1970 count from the start of the file: they are elapsed times.

Texts are ISO 8601, or have the day first with points (``01.05.2024 12:00``): nobody writes the month first with these.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ..errors import BadSourceError, UsageError
from .block import Samples
from .uniform_times import uniform_dates, uniform_decimals

__all__ = [
    "TIME_UNITS",
    "Batch",
    "calendar_digits",
    "epoch_unit_ns",
    "is_calendar_time",
    "is_elapsed",
    "is_time_name",
    "lacks_zone",
    "parse_time",
    "parse_times",
    "shown_value",
    "time_unit_ns",
]

Times = npt.NDArray[np.int64]

# Most characters of a value that an error shows.
_SHOWN = 60

#: Units of numbers in a time column, in ns.
TIME_UNITS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_UNIT_WORDS = {
    "ns": "ns|nsec|nsecs|nanosec|nanosecs|nanosecond|nanoseconds",
    "us": "us|\u00b5s|\u03bcs|usec|usecs|microsec|microsecs|microsecond|microseconds",
    "ms": "ms|msec|msecs|millisec|millisecs|millisecond|milliseconds",
    "s": "s|sec|secs|second|seconds",
    "min": "min|mins|minute|minutes",
    "h": "h|hr|hrs|hour|hours",
    "d": "d|day|days",
}
_UNIT_OF_WORD = {word: unit for unit, words in _UNIT_WORDS.items() for word in words.split("|")}
_UNITS = "|".join(_UNIT_OF_WORD)
_TIME_WORDS = "time|timestamp|datetime|date_?time|date|utc|epoch|t|ts|zeit|zeitstempel|datum"
_TIME_NAME = re.compile(rf"((elapsed[ _]?)?({_TIME_WORDS})|elapsed)(\W.*|_utc|_({_UNITS}))?", re.I)
_TIME_UNIT = re.compile(rf"[\W_](?P<unit>{_UNITS})\W*", re.I)
_NUMBER = re.compile(r"[+-]?(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?")
_CALENDAR = re.compile(r"(?:19|20)\d{6}(?:\d\d(?:\d\d(?:\d\d(?:\d{3})?)?)?)?")
_CALENDAR_RESOLUTION_NS = {
    8: 86_400_000_000_000,
    10: 3_600_000_000_000,
    12: 60_000_000_000,
    14: 1_000_000_000,
    17: 1_000_000,
}
_EPOCH_DIGITS = range(9, 20)
# Of numbers as long as this some may be times of the calendar.
_MAYBE_CALENDAR = re.compile(r"\d{8}|\d{10}|\d{12}|\d{14}|\d{17}")
# Fewer texts are parsed one by one.
_FEW = 16
# Smaller numbers of a column that states its unit are no times since 1970: they end in March 1973.
_ELAPSED_NS = 100_000_000 * 1_000_000_000
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,](\d+))?)?)?(Z|[+-]\d\d(:?\d\d)?)?")
_DAY_FIRST = re.compile(r"(\d\d?)\.(\d\d?)\.(\d{4})(.*)")
_WIDEST_ZONE_MINUTES = 14 * 60
_HOW = "write ISO 8601 (2010-03-01T00:30:00.25) or an epoch number"


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a table, in order.

    Attributes:
        times: ns since 1970 per row, floored to the resolution, or since the start of the file; None without a time
            column.
        resolution_ns: width of the last digit of the times.
        values: the value columns by name, each as long as `times`.
        first_row: number of the first row in the file, from 1, for messages.
        elapsed: the times count from the start of the file, whose own time the table does not know.
    """

    times: Times | None
    resolution_ns: int
    values: Mapping[str, Samples]
    first_row: int
    elapsed: bool = False


def shown_value(value: str | bytes) -> str:
    """A value of text or bytes as an error shows it."""
    return repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}... of {len(value)}"


def is_time_name(name: str) -> bool:
    """Whether a column's name says that it holds times."""
    return _TIME_NAME.fullmatch(name.strip()) is not None


def time_unit_ns(name: str) -> int | None:
    """The unit that a time column's name ends in, in ns; None if it states none.

    >>> time_unit_ns("time_us"), time_unit_ns("t (ms)"), time_unit_ns("timestamp")
    (1000, 1000000, None)
    """
    found = [*_TIME_UNIT.finditer(name.strip())]
    if not found or found[-1].end() != len(name.strip()):
        return None
    return TIME_UNITS[_UNIT_OF_WORD[found[-1]["unit"].lower()]]


def is_elapsed(ns: int, unit_ns: int | None) -> bool:
    """Whether the first time of a column counts from the start of the file: so does a small number with a unit."""
    return unit_ns is not None and abs(ns) < _ELAPSED_NS


def is_calendar_time(text: str) -> bool:
    """Whether a text is a date, with or without a time of day, rather than a number."""
    return _calendar_text(text.strip()) is not None


def lacks_zone(text: str, unit_ns: int | None = None) -> bool:
    """Whether a text is a date that states no time zone, written with signs or, in a column without unit, as digits."""
    match = _calendar_text(text.strip())
    if match is None:
        return unit_ns is None and calendar_digits(text.strip()) is not None
    return match[5] is None


def _calendar_text(text: str) -> re.Match[str] | None:
    found = _ISO.fullmatch(text)
    if found is None and (day_first := _DAY_FIRST.fullmatch(text)) is not None:
        day, month, year, rest = day_first.groups()
        # Their hours may have one digit.
        clock = rest if rest[2:3] != ":" else f"{rest[0]}0{rest[1:]}"
        found = _ISO.fullmatch(f"{year}-{month:0>2}-{day:0>2}{clock}")
    return found


def parse_times(
    texts: list[str], first_row: int = 1, unit_ns: int | None = None, zone: tzinfo | None = None
) -> tuple[Times, int]:
    """Times and their resolution, both in ns, from ISO 8601, digits of the calendar or numbers as text.

    Without a unit numbers count s, ms, us or ns since 1970 by their number of digits. The resolution is that of the
    longest text.

    Parameters:
        texts: one per row.
        first_row: number of the first, for messages.
        unit_ns: unit of numbers in ns.
        zone: of texts that state none; None: UTC.

    Raises:
        BadSourceError: a text that is no time; the message names its row.
    """
    if len(texts) >= _FEW and (found := _uniform_times(texts, unit_ns, zone)) is not None:
        return found
    times = np.empty(len(texts), dtype=np.int64)
    finest = 86_400_000_000_000
    for i, raw in enumerate(texts):
        try:
            times[i], resolution = _time(raw.strip(), unit_ns, zone)
        except (ValueError, OverflowError) as error:
            advice = _advice(error)
            if advice == _HOW and unit_ns is None and _NUMBER.fullmatch(raw.strip()):
                advice += (
                    "; where it counts from the file's start, state the unit with time_unit=, or say in the column's "
                    "name what it counts, such as 'time (s)'"
                )
            raise BadSourceError(
                f"row {first_row + i}: {shown_value(raw)} is not a time{_why(error)}; {advice}"
            ) from error
        finest = min(finest, resolution)
    return times, finest


def _uniform_times(texts: list[str], unit_ns: int | None, zone: tzinfo | None) -> tuple[Times, int] | None:
    """What `parse_times` returns, of texts that are all written alike; None: parse each by itself."""
    if (first := texts[0].strip()) != texts[0]:
        texts = [text.strip() for text in texts]
    try:
        if _NUMBER.fullmatch(first) is not None:
            return uniform_decimals(texts, lambda text: _unit_of_digits(text) if unit_ns is None else unit_ns)
        if (times := uniform_dates(texts)) is None:
            return None
        time, resolution = _time(first, unit_ns, zone)
        if zone is None or not lacks_zone(first):
            # All have the same zone.
            return times + (time - int(times[0])), resolution
        minutes, places = np.unique(times // 60_000_000_000, return_inverse=True)
        offsets = np.array([_local_offset_ns(minute, zone) for minute in minutes.tolist()], np.int64)
        return times - offsets[places], resolution
    except (ValueError, OverflowError):
        return None


def _unit_of_digits(text: str) -> int | None:
    """The unit of a number of a column without unit; None if it is none, or a time of the calendar."""
    digits = len(text.partition(".")[0])
    return None if digits not in _EPOCH_DIGITS or _MAYBE_CALENDAR.fullmatch(text) else epoch_unit_ns(digits)


def parse_time(text: str, *, shown: str) -> tuple[int, int]:
    """One time and its resolution, both in ns, as `parse_times` reads them; errors show it as the user gave it.

    Raises:
        UsageError: neither ISO 8601 nor an epoch number.
    """
    try:
        return _time(text.strip())
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{shown!r} is not a time{_why(error)}; {_advice(error)}") from error


def _time(text: str, unit_ns: int | None = None, zone: tzinfo | None = None) -> tuple[int, int]:
    if (number := _NUMBER.fullmatch(text)) is not None:
        digits = calendar_digits(text) if unit_ns is None else None
        found = _number(text, number, unit_ns) if digits is None else (_in_utc(digits[0], zone), digits[1])
    elif (match := _calendar_text(text)) is not None:
        found = _iso(match, zone)
    else:
        raise ValueError
    if abs(found[0]) >= 1 << 63:
        raise _UnusableTimeError("it is not between the years 1678 and 2262", "give one that is")
    return found


class _UnusableTimeError(ValueError):
    """A time that can be read, but not be used: why, and what to do."""

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(why)
        self.advice = advice


def _why(error: Exception) -> str:
    return f" ({error})" if str(error) else ""


def _advice(error: Exception) -> str:
    return error.advice if isinstance(error, _UnusableTimeError) else _HOW


def epoch_unit_ns(digits: int) -> int:
    """Unit of an epoch number by the digits of its whole part: s, ms, us or ns, as ns.

    No longer number is a time before 2262 in the coarser unit.
    """
    if digits <= 10:
        return 1_000_000_000
    if digits <= 13:
        return 1_000_000
    return 1_000 if digits <= 16 else 1


def calendar_digits(text: str) -> tuple[int, int] | None:
    """Time and resolution of digits like ``20100301``, ``201003010030`` or ``20100301003000``; None if they are none.

    Epoch numbers that look like it lie in 1976 (as ms) or after 2030 (as s).
    """
    if not _CALENDAR.fullmatch(text):
        return None
    pattern = "%Y%m%d%H%M%S"[: min(len(text), 14) - 2]
    try:
        moment = datetime.strptime(text[:14], pattern).replace(tzinfo=UTC)
    except ValueError:
        return None
    ns = int(moment.timestamp()) * 1_000_000_000 + int(text[14:] or 0) * 1_000_000
    return ns, _CALENDAR_RESOLUTION_NS[len(text)]


def _number(text: str, parts: re.Match[str], unit_ns: int | None) -> tuple[int, int]:
    """Time and resolution of a number, exact whatever its digits."""
    whole, fraction, exponent = parts[1], parts[2] or "", int(parts[3] or 0)
    exact = Fraction(text)
    if unit_ns is None:
        # Digits of the value, not of how it is written.
        digits = len(whole) if exponent == 0 else len(str(abs(int(exact))))
        if digits not in _EPOCH_DIGITS:
            raise ValueError
        unit_ns = epoch_unit_ns(digits)
    exact *= unit_ns
    resolution = Fraction(unit_ns) * Fraction(10) ** (exponent - len(fraction))
    return exact.numerator // exact.denominator, max(int(resolution), 1)


@functools.lru_cache(maxsize=4096)
def _local_offset_ns(minute: int, zone: tzinfo) -> int:
    """What to take from a local time, by the minute of its calendar, for UTC.

    Raises:
        ValueError: it comes twice or never there, where the clocks change.
    """
    local = datetime(1970, 1, 1) + timedelta(minutes=minute)
    before, after = (local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    if before is None or before != after:
        raise _UnusableTimeError(
            f"this local time occurs twice or not at all in {zone}, because the clocks change",
            "write it with its UTC offset, such as 2024-10-27T02:00:00+01:00",
        )
    return int(before / timedelta(microseconds=1)) * 1_000


def _in_utc(ns: int, zone: tzinfo | None) -> int:
    """UTC of a time of the calendar in a zone."""
    return ns if zone is None else ns - _local_offset_ns(ns // 60_000_000_000, zone)


def _iso(match: re.Match[str], default_zone: tzinfo | None) -> tuple[int, int]:
    text = match[0]
    time, seconds, fraction, zone = match.group(1, 2, 4, 5)
    plain = text[: len(text) - len(zone)] if zone else text
    digits = (fraction or "")[:9]
    # In ns at once, NumPy would wrap round beyond its range without a word.
    whole, _, _ = plain.replace(" ", "T").replace(",", ".").partition(".")
    ns = int(np.datetime64(whole, "s").astype(np.int64)) * 1_000_000_000 + int(digits.ljust(9, "0"))
    if zone and zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        if minutes > 59 or hours * 60 + minutes > _WIDEST_ZONE_MINUTES:
            raise ValueError("its zone is not between -14:00 and +14:00")
        offset = (hours * 60 + minutes) * 60_000_000_000
        ns -= offset if zone[0] == "+" else -offset
    elif not zone:
        ns = _in_utc(ns, default_zone)
    if time is None:
        return ns, 86_400_000_000_000
    if seconds is None:
        return ns, 60_000_000_000
    return ns, 10 ** (9 - len(digits))
