"""Times of a column whose texts are all written alike, parsed by NumPy instead of one by one.

Each function returns None where the texts are not alike, or one of them is no time: the caller then parses them one by
one, which finds the row. What is returned equals what that gives.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

__all__ = ["uniform_dates", "uniform_decimals"]

Times = npt.NDArray[np.int64]
Characters = npt.NDArray[np.uint8]

_DATE = re.compile(r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?)(Z|[+-]\d\d(?::?\d\d)?)?")
_DECIMAL = re.compile(r"\d+(?:\.(\d+))?")
# Within what nanoseconds since 1970 hold in 64 bits.
_YEARS = (1700, 2200)
_ZERO, _NINE, _POINT = b"09."
_DAY_NS = 86_400_000_000_000
_MOST_DIGITS = 18
_MOST_LENGTHS = 8


def uniform_dates(texts: list[str]) -> Times | None:
    """Times as written, in ns since 1970, of ISO 8601 with the same characters but for digits, and the same zone."""
    match = _DATE.fullmatch(texts[0])
    characters = _characters(texts)
    if match is None or characters is None or not characters[:, -1].all():
        return None
    written = len(match[1])
    pattern = characters[0]
    fixed = (pattern < _ZERO) | (pattern > _NINE)
    fixed[written:] = True
    digits = characters[:, ~fixed]
    if (characters[:, fixed] != pattern[fixed]).any() or not _are_digits(digits):
        return None
    # Of nanoseconds at most: finer digits are cut off.
    count = min(digits.shape[1], 14 + 9)
    fields = [_number(digits[:, at : min(at + width, count)]) for at, width in _fields(count)]
    fields += [np.zeros(1, np.int64)] * (7 - len(fields))
    year, month, day, hour, minute, second, fraction = fields
    if year.min() < _YEARS[0] or year.max() > _YEARS[1] or month.min() < 1 or month.max() > 12 or day.min() < 1:
        return None
    if hour.max() > 23 or minute.max() > 59 or second.max() > 59:
        return None
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    first_days, next_days = (one.astype("M8[D]").astype(np.int64) for one in (months, months + 1))
    if (day > next_days - first_days).any():
        return None
    nanoseconds = fraction * 10 ** (9 - max(count - 14, 0))
    seconds = (hour * 60 + minute) * 60 + second
    times: Times = (first_days + day - 1) * _DAY_NS + seconds * 1_000_000_000 + nanoseconds
    return times


def _fields(count: int) -> list[tuple[int, int]]:
    """Place and width of year, month, day, hour, minute, second and fraction, as far as there are digits."""
    return [(at, width) for at, width in ((0, 4), (4, 2), (6, 2), (8, 2), (10, 2), (12, 2), (14, 9)) if at < count]


def uniform_decimals(texts: list[str], unit_ns: Callable[[str], int | None]) -> tuple[Times, int] | None:
    """Nanoseconds and their resolution of decimal numbers without sign and exponent, with equally many decimals.

    Parameters:
        texts: the numbers.
        unit_ns: unit of numbers as long as a text, in ns; None: it is to be parsed by itself.
    """
    match = _DECIMAL.fullmatch(texts[0])
    characters = _characters(texts)
    if match is None or characters is None:
        return None
    decimals = len(match[1] or "")
    lengths = np.count_nonzero(characters, axis=1)
    times = np.empty(len(texts), np.int64)
    finest = None
    different = np.unique(lengths)
    if len(different) > _MOST_LENGTHS:
        return None
    for length in different.tolist():
        alike = np.flatnonzero(lengths == length)
        digits = characters[alike, :length]
        if decimals:
            if length < decimals + 2 or (digits[:, -decimals - 1] != _POINT).any():
                return None
            digits = np.delete(digits, length - decimals - 1, axis=1)
        unit = unit_ns(texts[int(alike[0])])
        if unit is None or digits.shape[1] > _MOST_DIGITS or not _are_digits(digits):
            return None
        numbers = _number(digits)
        factor, divisor = unit // math.gcd(unit, 10**decimals), 10**decimals // math.gcd(unit, 10**decimals)
        if int(numbers.max()) * factor >= 1 << 63:
            return None
        times[alike] = numbers * factor // divisor
        resolution = max(unit // 10**decimals, 1)
        finest = resolution if finest is None else min(finest, resolution)
    assert finest is not None
    return times, finest


def _characters(texts: list[str]) -> Characters | None:
    """The texts as rows of characters, shorter ones filled up with zeros; None if some are not ASCII."""
    try:
        rows = np.array(texts, dtype=np.bytes_)
    except UnicodeEncodeError:
        return None
    characters = rows.view(np.uint8).reshape(len(texts), -1)
    # NumPy drops zeros at the end.
    return characters if np.count_nonzero(characters) == sum(map(len, texts)) else None


def _are_digits(characters: Characters) -> bool:
    return bool(((characters >= _ZERO) & (characters <= _NINE)).all())


def _number(digits: Characters) -> Times:
    """The numbers that rows of digits are."""
    number = np.zeros(len(digits), np.int64)
    for column in digits.T:
        number = number * 10 + (column - _ZERO)
    return number
