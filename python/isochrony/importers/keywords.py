"""Declares the keyword arguments of `isochrony.import_files`, from which the command line's options are made.

`Options` (for an importer), the native session and `Store.import_raw` each take a subset, by name.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ParamSpec, TypedDict, TypeVar

import numpy.typing as npt

from ..errors import IsochronyError, UsageError
from ..options import flag
from ..options.keywords import declared_options, did_you_mean, listing_options
from . import option_checks as checks
from .columns import TIME_UNITS
from .mseed_samples import ENCODINGS
from .option_checks import ChoiceCheck, ImportOption
from .registry import formats

__all__ = ["OPTIONS", "ImportKeywords", "checked", "options_of", "takes_import_options"]

P = ParamSpec("P")
R = TypeVar("R")

_CLOCK = "clock and gaps"
_HOW = "how to import"


class ImportKeywords(TypedDict, total=False):
    """The options, by name."""

    format: Annotated[
        str | None,
        ImportOption(
            default=None,
            check=ChoiceCheck(lambda: ("raw", *(one.name for one in formats()))),
            help="format of all files (default: each by its content)",
            metavar="NAME",
        ),
    ]
    layout: Annotated[
        str | None,
        ImportOption(
            default=None,
            check=checks.text,
            help="how to read signal names and times from the file paths, such as '{station}/{iso}.wav'",
            details="""`{station}/{station}_{epoch}.raw` names the signal by its fields and the time of the first sample
                by `{epoch}`, `{iso}` or `{year}`, `{month}` and so on.""",
            metavar="TEMPLATE",
        ),
    ]
    preset: Annotated[
        str | None,
        ImportOption(
            default=None,
            check=checks.text,
            help="built-in layout, dtype and rate of the raw recordings of a known deployment; available: censam "
            "({station}/{year}/{day}/{sensor}/{station}_{epoch}.raw, int16, 2000 Hz)",
            metavar="NAME",
        ),
    ]
    dtype: Annotated[
        npt.DTypeLike | None,
        ImportOption(
            default=None,
            check=checks.anything,
            help="type of raw samples in NumPy's spelling, such as '<i2'",
            details="With it, or with a preset, the files are raw recordings: headerless samples in one folder.",
            metavar="TYPE",
        ),
    ]
    rate: Annotated[
        float | Fraction | str | None,
        ImportOption(
            default=None,
            check=checks.rate,
            help="nominal sample rate where files do not state it, such as 2000 or 44100000/1001",
            metavar="HZ",
        ),
    ]
    unit: Annotated[
        str | None, ImportOption(default=None, check=checks.text, help="unit of the samples, such as mbar", metavar="U")
    ]
    full_scale: Annotated[
        float | None,
        ImportOption(
            default=None,
            check=checks.number_above_zero,
            help="""value of a full-scale sample of WAV and FLAC files, in the stated unit, such as 1 or 2.5 (default:
                values are counts)""",
            details="""Samples are stored as counts; their values are those that soundfile reads as floats, times this:
                one count of 16 bits is 1/32768 of it.""",
            metavar="VALUE",
            is_recorded=True,
        ),
    ]
    start: Annotated[
        Any,
        ImportOption(
            default=None,
            check=checks.start,
            help="time (UTC) of the first sample of files that state none, such as 2010-03-01T12:00:00",
            details="""Text, a `Time`, a datetime or a datetime64; a year or a month is its first instant. Elapsed times
                of tables count from it.""",
            metavar="TIME",
        ),
    ]
    signal: Annotated[
        str | None,
        ImportOption(
            default=None,
            check=checks.text,
            help="name of the signal (default: from the path or the file)",
            details="Files without a time that share a signal become a run each, in the order of the import.",
            metavar="NAME",
        ),
    ]
    time_column: Annotated[
        str | None,
        ImportOption(
            default=None,
            check=checks.text,
            help="column of a table that holds the times (default: found by its name)",
            metavar="NAME",
            is_recorded=True,
        ),
    ]
    columns: Annotated[
        str | Sequence[str] | None,
        ImportOption(
            default=None,
            check=checks.column_names,
            help="columns of values to import from tables, such as p,t (default: all)",
            details="A list of names, or text with commas between them.",
            metavar="NAMES",
        ),
    ]
    time_unit: Annotated[
        str | None,
        ImportOption(
            default=None,
            check=ChoiceCheck(lambda: TIME_UNITS),
            help="""unit of numbers in a table's time column: ns, us, ms, s, min, h or d; large numbers count from 1970,
                small ones from the stated start (default: the unit in the column's name, such as 't (ms)', else by the
                number of digits)""",
            metavar="UNIT",
            is_recorded=True,
        ),
    ]
    zone: Annotated[
        str | dt.tzinfo | None,
        ImportOption(
            default=None,
            check=checks.time_zone,
            help="time zone of times in tables that state none, such as Europe/Berlin or +02:00 (default: UTC)",
            metavar="ZONE",
            is_recorded=True,
        ),
    ]
    ignore_times: Annotated[
        bool,
        ImportOption(
            default=False,
            check=flag,
            help="use only the time of a table's first row, and place all rows evenly at the stated rate",
            details="For tables whose times are not regular.",
            is_recorded=True,
        ),
    ]
    encoding: Annotated[
        str | None,
        ImportOption(
            default=None,
            check=ChoiceCheck(lambda: ENCODINGS),
            help="encoding of miniSEED records that do not state it (default: Steim 1 or 2, found from the samples)",
            metavar="NAME",
            is_recorded=True,
        ),
    ]
    gap_slip: Annotated[
        Any,
        ImportOption(
            default=None,
            check=checks.seconds_above_zero,
            help="""largest difference, in seconds or as text such as 5ms, between a time stamp and the time expected
                from the rate; a larger one is a gap or a clock step (default: estimated from the stamps)""",
            group=_CLOCK,
            metavar="S",
        ),
    ]
    alpha: Annotated[
        float | None,
        ImportOption(
            default=None,
            check=checks.weight,
            help="""weight of earlier files in the estimate of the true sample rate, above 0, at most 1: 0.95 averages
                over about the last 20 files, 1 over all (default: 0.95)""",
            group=_CLOCK,
            metavar="A",
        ),
    ]
    initial_rate: Annotated[
        float | Fraction | str | None,
        ImportOption(
            default=None,
            check=checks.rate,
            help="""initial estimate of the true sample rate in Hz, such as that of an earlier recording (default: the
                nominal rate); improves the lengths of gaps near the beginning""",
            group=_CLOCK,
            metavar="HZ",
        ),
    ]
    max_gap: Annotated[
        Any,
        ImportOption(
            default=None,
            check=checks.seconds_above_zero,
            help="""longest gap, in seconds or as text such as 12h, that is stored with an index for each missing
                sample; a longer gap gets only a few indices, but keeps its duration (default: 30 days)""",
            group=_CLOCK,
            metavar="S",
        ),
    ]
    value_jump: Annotated[
        float | None,
        ImportOption(
            default=None,
            check=checks.number_above_zero,
            help="""record an event where the value changes by more than V from the end of one file to the start of the
                next""",
            group=_CLOCK,
            metavar="V",
        ),
    ]
    partial: Annotated[
        bool,
        ImportOption(
            default=False,
            check=flag,
            help="import the complete samples of truncated files instead of refusing those files",
            group=_HOW,
        ),
    ]
    follow: Annotated[
        bool,
        ImportOption(
            default=False,
            check=flag,
            help="after the import, keep looking for new files and import them, until interrupted",
            group=_HOW,
        ),
    ]


#: The declarations, by name.
OPTIONS: dict[str, ImportOption] = declared_options(ImportKeywords)


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each option, that of the declaration where it is not given.

    Raises:
        UsageError: there is no such option, or a value is not legal. OptionError: a value is not legal.
    """
    for name in given:
        if name not in OPTIONS:
            raise UsageError(
                f"there is no option {name}{did_you_mean(name, OPTIONS)}; give one of {', '.join(OPTIONS)}"
            )
    values = {}
    for name, option in OPTIONS.items():
        try:
            values[name] = option.check(name, given.get(name, option.default))
        except IsochronyError as error:
            if not str(error).startswith(name):
                error.args = (f"{name}: {error}", *error.args[1:])
            raise
    return values


@functools.cache
def options_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the options that a function takes by keyword."""
    taken = inspect.signature(function).parameters
    return tuple(name for name in OPTIONS if name in taken)


def takes_import_options(function: Callable[P, R]) -> Callable[P, R]:
    """Give a function with ``**options: Unpack[ImportKeywords]`` a signature that lists them.

    A line ``{import_options}`` of its docstring becomes the list with their help.
    """
    return listing_options(function, ImportKeywords, OPTIONS, "{import_options}")
