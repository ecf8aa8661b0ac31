"""The keyword arguments of `isochrony.import_files`, each declared once; flags of the command line are made of them.

`Options` (what an importer is told), the native session and `Store.import_raw` take their part of them by name.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ParamSpec, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import IsochronyError, UsageError
from ..keyword_options import Option, declared_options, listing_options
from ..native_errors import OptionError
from ..options import finite, flag
from ..times import civil
from ..times import rate as exact_rate
from .block import Stamp
from .columns import TIME_UNITS, parse_time
from .rational import parse_rate

__all__ = ["OPTIONS", "ImportKeywords", "checked", "takes_import_options"]

P = ParamSpec("P")
R = TypeVar("R")

_FIXED_ZONE = re.compile(r"([+-])(\d\d):?(\d\d)?")
_WIDEST_ZONE = dt.timedelta(hours=14)
# Their first instant is meant, as with `iso.Time("2024")`.
_YEAR_OR_MONTH = re.compile(r"\d{4}(-(0[1-9]|1[0-2]))?")
_DURATION = re.compile(r"([0-9.eE+-]+?)\s*([^\W\d_]+)")
_DURATION_UNITS = {**TIME_UNITS, "\u00b5s": TIME_UNITS["us"], "\u03bcs": TIME_UNITS["us"], "m": TIME_UNITS["min"]}


def _text(name: str, value: Any) -> Any:
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    if value == "":
        raise OptionError(f"{name} is empty; give a text, or leave it out")
    raise OptionError(f"{name} {value!r} is not a text; give one, or leave it out")


def _rate(_name: str, value: Any) -> Fraction | None:
    if value is None or isinstance(value, Fraction):
        return value
    if isinstance(value, str):
        return parse_rate(value)
    return Fraction(*exact_rate(value))


def _start(_name: str, value: Any) -> Stamp | None:
    if value is None or isinstance(value, Stamp):
        return value
    # Whoever gives 06:00:00 or 06:00:00.5 means that instant, not somewhere in its last digit.
    if isinstance(value, str) and _YEAR_OR_MONTH.fullmatch(value.strip()) is None:
        return Stamp(parse_time(value)[0], 1)
    if isinstance(value, str):
        value = np.datetime64(value.strip())
    ns = getattr(value, "ns", None)
    return Stamp(int(ns if ns is not None else civil(value)[0]), 1)


def _above_zero(name: str, value: Any) -> float | None:
    number = _number(value)
    if value is not None and not 0 < number < float("inf"):
        raise OptionError(f"{name} {value!r} is not a number above 0")
    return None if value is None else number


def _weight(name: str, value: Any) -> float | None:
    number = _number(value)
    if value is not None and not 0 < number <= 1:
        raise OptionError(f"{name} {value!r} is not a number above 0 and at most 1")
    return None if value is None else number


def _number(value: Any) -> float:
    try:
        return finite("", float(value) if isinstance(value, str) else value, "")
    except (OptionError, ValueError):
        return float("nan")


def _seconds(name: str, value: Any) -> Any:
    """Seconds above zero as a number, exact ones of a text with a unit; durations of other libraries as they are."""
    if isinstance(value, dt.timedelta | np.timedelta64):
        if not value > type(value)(0):
            raise OptionError(f"{name} {value!r} is not a time above 0")
        return value
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None and found[2] in _DURATION_UNITS:
        with contextlib.suppress(ValueError):
            if (number := Fraction(found[1])) > 0:
                return number * _DURATION_UNITS[found[2]] / TIME_UNITS["s"]
    elif found is None and (value is None or 0 < _number(value) < float("inf")):
        return None if value is None else _number(value)
    raise OptionError(
        f"{name} {value!r} is not a time above 0; give seconds as a number, or a text such as 5ms, 1.5s or 2h"
    )


def _one_of(*legal: str) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if value is None or value in legal:
            return value
        raise OptionError(f"{name} {value!r} is not one of {', '.join(legal)}")

    return check


def _zone(name: str, value: Any) -> dt.tzinfo | None:
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


def _names(name: str, value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Iterable) else []
    if not names or not all(isinstance(one, str) and one.strip() for one in names):
        raise OptionError(f"{name} {value!r} does not name columns; give names with commas between them, or a list")
    return tuple(one.strip() for one in names)


def _anything(_name: str, value: Any) -> Any:
    return value


class ImportKeywords(TypedDict, total=False):
    """The options, by name."""

    format: Annotated[
        str | None,
        Option(default=None, check=_text, help="format of all files (default: each by its content)", metavar="NAME"),
    ]
    layout: Annotated[
        str | None,
        Option(
            default=None,
            check=_text,
            help="what the paths below the imported folder mean, as a template",
            details="""`{station}/{station}_{epoch}.raw` names the signal by its fields and the time of the first sample
                by `{epoch}`, `{iso}` or `{year}`, `{month}` and so on.""",
            metavar="TEMPLATE",
        ),
    ]
    preset: Annotated[
        str | None,
        Option(
            default=None,
            check=_text,
            help="a known layout of raw recordings with its dtype and rate, such as censam",
            metavar="NAME",
        ),
    ]
    dtype: Annotated[
        npt.DTypeLike | None,
        Option(
            default=None,
            check=_anything,
            help="type of raw samples in NumPy's spelling, such as '<i2'",
            details="With it, or with a preset, the files are raw recordings: headerless samples in one folder.",
            metavar="TYPE",
        ),
    ]
    rate: Annotated[
        float | Fraction | str | None,
        Option(
            default=None,
            check=_rate,
            help="nominal sample rate where files do not state it, such as 2000 or 44100000/1001",
            metavar="HZ",
        ),
    ]
    unit: Annotated[
        str | None, Option(default=None, check=_text, help="unit of the samples, such as mbar", metavar="U")
    ]
    full_scale: Annotated[
        float | None,
        Option(
            default=None,
            check=_above_zero,
            help="value at full scale of WAV and FLAC, in the unit, such as 1 or 2.5",
            details="""Samples keep their counts; their values are what soundfile reads as floats, times this: a 16-bit
                count is a 32768th of it. Default: values are counts.""",
            metavar="VALUE",
        ),
    ]
    start: Annotated[
        Any,
        Option(
            default=None,
            check=_start,
            help="time (UTC) of the first sample of files that state none, such as 2010-03-01T12:00:00",
            details="""Text, a `Time`, a datetime or a datetime64; a year or a month is its first instant. Elapsed times
                of tables count from it.""",
            metavar="TIME",
        ),
    ]
    signal: Annotated[
        str | None,
        Option(
            default=None,
            check=_text,
            help="name of the signal (default: from the path or the file)",
            details="Files without a time that share a signal are a run each, in the order in which they are imported.",
            metavar="NAME",
        ),
    ]
    time_column: Annotated[
        str | None,
        Option(
            default=None,
            check=_text,
            help="column of a table that holds the times (default: found by its name)",
            metavar="NAME",
        ),
    ]
    columns: Annotated[
        str | Sequence[str] | None,
        Option(
            default=None,
            check=_names,
            help="columns of values to import from tables, such as p,t (default: all)",
            details="Names as a list, or as a text with commas between them.",
            metavar="NAMES",
        ),
    ]
    time_unit: Annotated[
        str | None,
        Option(
            default=None,
            check=_one_of(*TIME_UNITS),
            help="what numbers in the time column of tables count: ns, us, ms, s, min, h or d",
            details="""Numbers too small to be times since 1970 count from `start`. Default: what the column's name
                says, as in `t (ms)`, else by the digits of the numbers.""",
            metavar="UNIT",
        ),
    ]
    zone: Annotated[
        str | dt.tzinfo | None,
        Option(
            default=None,
            check=_zone,
            help="time zone of times in tables that state none, such as Europe/Berlin or +02:00 (default: UTC)",
            metavar="ZONE",
        ),
    ]
    ignore_times: Annotated[
        bool,
        Option(
            default=False,
            check=flag,
            help="take the rows of tables as evenly spaced at the stated rate, from the first row's time on",
            details="For tables whose times are not regular.",
        ),
    ]
    encoding: Annotated[
        str | None,
        Option(
            default=None,
            check=_text,
            help="encoding of miniSEED records that do not state it (default: Steim 1 or 2, found from the samples)",
            metavar="NAME",
        ),
    ]
    gap_slip: Annotated[
        Any,
        Option(
            default=None,
            check=_seconds,
            help="""largest difference, in seconds or as a text such as 5ms, between a time stamp and the time expected
                from the rate; a larger one is a gap or a clock step (default: estimated from the stamps)""",
            metavar="S",
        ),
    ]
    alpha: Annotated[
        float | None,
        Option(
            default=None,
            check=_weight,
            help="""weight of the past in the running rate estimate, above 0, at most 1 (default: 0.95, about 20
                files)""",
            metavar="A",
        ),
    ]
    initial_rate: Annotated[
        float | Fraction | str | None,
        Option(
            default=None,
            check=_rate,
            help="""first estimate of the true sample rate in Hz, better than the nominal one, such as an earlier
                recording's, for gaps that come before the stamps have told it""",
            metavar="HZ",
        ),
    ]
    max_gap: Annotated[
        Any,
        Option(
            default=None,
            check=_seconds,
            help="""longest gap, in seconds or as a text such as 12h, that takes one index per missing sample; a longer
                one keeps its duration, but takes few indices (default: 30 days)""",
            metavar="S",
        ),
    ]
    value_jump: Annotated[
        float | None,
        Option(
            default=None,
            check=_above_zero,
            help="""record an event where the value changes by more than V from the end of one file to the start of the
                next""",
            metavar="V",
        ),
    ]
    partial: Annotated[
        bool,
        Option(
            default=False,
            check=flag,
            help="import the complete samples of truncated files instead of refusing those files",
        ),
    ]
    follow: Annotated[bool, Option(default=False, check=flag, help="go on watching the files until interrupted")]


#: The declarations, by name.
OPTIONS: dict[str, Option] = declared_options(ImportKeywords)


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each option, that of the declaration where it is not given.

    Raises:
        UsageError: no such option, or none of its legal values. OptionError: likewise.
    """
    for name in given:
        if name not in OPTIONS:
            raise UsageError(f"there is no option {name}; give {', '.join(OPTIONS)}")
    values = {}
    for name, option in OPTIONS.items():
        try:
            values[name] = option.check(name, given.get(name, option.default))
        except IsochronyError as error:
            if not str(error).startswith(name):
                error.args = (f"{name}: {error}", *error.args[1:])
            raise
    return values


def takes_import_options(function: Callable[P, R]) -> Callable[P, R]:
    """Give a function with ``**options: Unpack[ImportKeywords]`` a signature that lists them.

    A line ``{import_options}`` of its docstring becomes the list with their help.
    """
    return listing_options(function, ImportKeywords, OPTIONS, "{import_options}")
