"""Checks of the values of import options: what is no legal value is refused by the option's name."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors.native import OptionError
from ..options import finite
from ..options.keywords import Option
from ..times import civil
from ..times import rate as exact_rate
from .block import Stamp
from .columns import TIME_UNITS, parse_time
from .rational import parse_number, parse_rate

__all__ = [
    "ChoiceCheck",
    "ImportOption",
    "anything",
    "column_names",
    "number_above_zero",
    "rate",
    "seconds_above_zero",
    "start",
    "text",
    "time_zone",
    "weight",
]

_FIXED_ZONE = re.compile(r"([+-])(\d\d):?(\d\d)?")
_WIDEST_ZONE = dt.timedelta(hours=14)
# Most characters of a value that an error shows.
_SHOWN = 40
# Nanoseconds have 63 bits.
_LONGEST_S = Fraction((1 << 63) - 1, 1_000_000_000)
# Their first instant is meant, as with `iso.Time("2024")`.
_YEAR_OR_MONTH = re.compile(r"\d{4}(-(0[1-9]|1[0-2]))?")
_DURATION = re.compile(r"([0-9.eE+-]+?)\s*([^\W\d_]+)")
_DURATION_UNITS = {**TIME_UNITS, "\u00b5s": TIME_UNITS["us"], "\u03bcs": TIME_UNITS["us"], "m": TIME_UNITS["min"]}


def text(name: str, value: Any) -> Any:
    """A text that is not blank, or None."""
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    if value == "":
        raise OptionError(f"{name} is empty; give a text, or leave it out")
    raise OptionError(f"{name} {value!r} is not a text; give one, or leave it out")


def rate(_name: str, value: Any) -> Fraction | None:
    """A rate in Hz, exact, or None."""
    if value is None or isinstance(value, Fraction):
        return value
    if isinstance(value, str):
        return parse_rate(value)
    return Fraction(*exact_rate(value))


def start(name: str, value: Any) -> Stamp | None:
    """A time as a stamp, or None."""
    if value is None or isinstance(value, Stamp):
        return value
    # Whoever gives 06:00:00 or 06:00:00.5 means that instant, not somewhere in its last digit.
    if isinstance(value, str):
        date = value.strip()
        whole = f"{date}-01-01"[:10] if _YEAR_OR_MONTH.fullmatch(date) else date
        return Stamp(parse_time(whole, shown=value)[0], 1)
    ns = getattr(value, "ns", None)
    ns = int(ns if ns is not None else civil(value)[0])
    if abs(ns) >= 1 << 63:
        raise OptionError(f"{name} {value!r} is not between the years 1678 and 2262")
    return Stamp(ns, 1)


def number_above_zero(name: str, value: Any) -> float | None:
    """A finite number above zero, or None."""
    number = _number(value)
    if value is not None and not 0 < number < float("inf"):
        raise OptionError(f"{name} {value!r} is not a number above 0")
    return None if value is None else number


def weight(name: str, value: Any) -> float | None:
    """A number above 0 and at most 1, or None."""
    number = _number(value)
    if value is not None and not 0 < number <= 1:
        raise OptionError(f"{name} {value!r} is not a number above 0 and at most 1")
    return None if value is None else number


def _number(value: Any) -> float:
    try:
        return finite("", float(value) if isinstance(value, str) else value, "")
    except (OptionError, ValueError):
        return float("nan")


def seconds_above_zero(name: str, value: Any) -> Any:
    """Seconds above zero as a number, exact ones of a text with a unit; durations of other libraries as they are."""
    if value is None:
        return None
    if isinstance(value, dt.timedelta | np.timedelta64):
        if not value > type(value)(0):
            raise OptionError(f"{name} {value!r} is not a duration above 0; give a longer one")
        if isinstance(value, dt.timedelta):
            _check_not_too_long(name, value, value.total_seconds())
        return value
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds: Fraction | float | None
    if found is None:
        seconds = _number(value)
    else:
        unit = _DURATION_UNITS.get(found[2])
        number = parse_number(found[1])
        seconds = None if unit is None or number is None else number * unit / TIME_UNITS["s"]
    if seconds is None or not 0 < seconds < float("inf"):
        shown = repr(value) if len(repr(value)) <= _SHOWN else f"{repr(value)[:_SHOWN]}..."
        raise OptionError(
            f"{name} {shown} is not a duration above 0; give seconds as a number, or a text such as 5ms, 1.5s or 2h"
        )
    _check_not_too_long(name, value, seconds)
    return seconds


def _check_not_too_long(name: str, value: Any, seconds: Fraction | float) -> None:
    if seconds >= _LONGEST_S:
        raise OptionError(f"{name} {value!r} is longer than 292 years, the longest duration; give a shorter one")


def time_zone(name: str, value: Any) -> dt.tzinfo | None:
    """A time zone, or None."""
    if value is None or isinstance(value, dt.tzinfo):
        return value
    if isinstance(value, str) and (fixed := _FIXED_ZONE.fullmatch(value)) is not None:
        offset = dt.timedelta(hours=int(fixed[2]), minutes=int(fixed[3] or 0))
        if offset <= _WIDEST_ZONE:
            return dt.timezone(-offset if fixed[1] == "-" else offset)
    elif isinstance(value, str):
        try:
            return zoneinfo.ZoneInfo(value)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise OptionError(f"{name} {value!r} is not a time zone; give one such as Europe/Berlin or +02:00")


def column_names(name: str, value: Any) -> tuple[str, ...] | None:
    """Names of columns, at least one, or None."""
    if value is None:
        return None
    names = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Iterable) else []
    if not names or not all(isinstance(one, str) and one.strip() for one in names):
        raise OptionError(f"{name} {value!r} does not name columns; give names with commas between them, or a list")
    return tuple(one.strip() for one in names)


def anything(_name: str, value: Any) -> Any:
    """Whatever was given."""
    return value


@dataclass(frozen=True, slots=True)
class ChoiceCheck:
    """A check that a text is one of those that are known when it is asked.

    Attributes:
        legal: gives them.
    """

    legal: Callable[[], Iterable[str]]

    def __call__(self, name: str, value: Any) -> Any:
        """The value, if it is one of them or None."""
        known = list(self.legal())
        if value is None or value in known:
            return value
        raise OptionError(f"{name} {value!r} is not one of {', '.join(known)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOption(Option):
    """The declaration of an option of imports.

    Attributes:
        group: its heading in the help of the command line.
        is_recorded: what is stored of a file depends on it, which a signal does not show: the attribute
            ``import_options`` of a signal has what was given when it was created.
    """

    group: str = "what the files are"
    is_recorded: bool = False
