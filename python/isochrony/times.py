"""Times, durations and rates of other libraries, exactly.

Native code takes ISO 8601 text and its own `Time` by itself and calls here for
everything else. Nothing passes through a float on the way: a civil time is a
whole number of nanoseconds since 1970 and a fraction in units of 2**-32 ns, a
rate is a ratio of two whole numbers.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
import time as system_clock
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from .errors import with_code
from .errors.native import StoreIndexError, StoreTypeError, TimeArgumentError, TimeError

if TYPE_CHECKING:
    from ._native import Time

__all__ = [
    "Rate",
    "civil",
    "duration",
    "exact_number",
    "indices",
    "instants",
    "now",
    "number",
    "rate",
    "ratio",
    "to_datetime",
]

_NS = 1_000_000_000
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=dt.UTC)

# Nanoseconds in one unit of datetime64; calendar units (Y, M) go by way of days.
_UNIT_NS: dict[str, int | Fraction] = {
    "W": 604_800 * _NS,
    "D": 86_400 * _NS,
    "h": 3_600 * _NS,
    "m": 60 * _NS,
    "s": _NS,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
    "ps": Fraction(1, 1_000),
    "fs": Fraction(1, 1_000_000),
    "as": Fraction(1, 1_000_000_000),
}


class Rate(float):
    """A sample rate in Hz: a float that knows its exact ratio.

    It computes and prints like a float. A store that is given the rate of a signal keeps the exact ratio.

    Attributes:
        fraction: the exact rate in Hz, a `fractions.Fraction`.

    Parameters:
        numerator: number of samples, above zero.
        denominator: number of seconds that they take, above zero.

    Raises:
        TimeError: not a whole number above zero.

    >>> import isochrony as iso
    >>> rate = iso.Rate(44_100_000, 1001)
    >>> rate.fraction, round(rate, 3)
    (Fraction(6300000, 143), 44055.944)
    """

    __slots__ = ("fraction",)

    fraction: Fraction

    def __new__(cls, numerator: int, denominator: int = 1) -> Self:
        """The rate `numerator / denominator`."""
        parts: tuple[Any, ...] = (numerator, denominator)
        if not all(map(_is_positive_ratio, parts)):
            refused = TimeError(
                f"Rate({numerator!r}, {denominator!r}) is refused; give whole numbers of samples and of seconds above "
                "zero, such as Rate(44_100_000, 1001)"
            )
            raise with_code(refused, "bad_rate")
        self = super().__new__(cls, numerator / denominator)
        self.fraction = Fraction(numerator, denominator)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fraction.numerator, self.fraction.denominator)

    @property
    def interval(self) -> Fraction:
        """Exact time from one sample to the next: a `fractions.Fraction` of seconds.

        >>> import isochrony as iso
        >>> iso.Rate(100).interval
        Fraction(1, 100)
        """
        return 1 / self.fraction


def _is_positive_ratio(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, numbers.Rational) and Fraction(value) > 0


def _split(ns: int | Fraction) -> tuple[int, int]:
    """Whole nanoseconds and the fraction in 2**-32, to the nearest.

    Raises:
        TimeError: beyond 2**95 ns, which no time can be.
    """
    if not -(1 << 95) < ns < 1 << 95:
        bits = math.floor(max(ns, -ns)).bit_length() - 1
        raise TimeError(f"a time or duration of 2**{bits} ns or more is out of range; give less than 1e19 s")
    if isinstance(ns, int):
        return ns, 0
    units = round(ns * 2**32)
    return units >> 32, units & 0xFFFF_FFFF


def _timedelta_ns(value: dt.timedelta) -> int:
    whole = (value.days * 86_400 + value.seconds) * _NS + value.microseconds * 1_000
    # pandas' Timedelta is a timedelta that keeps the rest here.
    return whole + int(getattr(value, "nanoseconds", 0))


def _datetime64_ns(value: np.datetime64 | np.timedelta64) -> int | Fraction:
    if np.isnat(value):
        raise TimeError("NaT is not a time; drop missing times first")
    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M", "generic"):
        if isinstance(value, np.timedelta64):
            raise TimeError(f"a timedelta64 in unit {unit!r} has no fixed length; give one in seconds or days")
        value, unit, step = value.astype("datetime64[D]"), "D", 1
    return int(value.astype(np.int64)) * step * _UNIT_NS[unit]


def civil(time: object) -> tuple[int, int]:
    """UTC nanoseconds since 1970 of a time of another library.

    Parameters:
        time: `datetime` (naive means UTC), `date` (its midnight), `numpy.datetime64`, pandas
            `Timestamp` or ObsPy `UTCDateTime`.

    Returns:
        Whole nanoseconds (floor), and the fraction in units of 2**-32 ns.

    Raises:
        TimeArgumentError: anything else; plain numbers are ambiguous.
    """
    if isinstance(time, np.datetime64):
        return _split(_datetime64_ns(time))
    if isinstance(time, dt.datetime):
        if time != time:  # NaT is a datetime to Python
            raise TimeError("NaT is not a time; drop missing times first")
        since = time - (_EPOCH if time.tzinfo is None else _EPOCH_UTC)
        # A pandas Timestamp carries nanoseconds beside datetime's fields, and keeps them in a difference, which
        # is then a Timedelta; one that overflows nanoseconds counts in coarser units.
        return _timedelta_ns(since), 0
    if isinstance(time, dt.date):
        return (time - _EPOCH.date()).days * 86_400 * _NS, 0
    if isinstance(time, np.ndarray) and time.ndim == 0 and time.dtype.kind == "M":
        return civil(time[()])
    if type(time).__name__ == "UTCDateTime" and hasattr(time, "ns"):
        return int(time.ns), 0
    if isinstance(time, numbers.Number | bool | np.bool_):
        raise TimeArgumentError(
            f"the number {time!r} is ambiguous as a time (seconds, nanoseconds or an index?); give ISO 8601 text, "
            "a datetime or datetime64, or Time.from_ns(ns)"
        )
    raise TimeArgumentError(
        f"got {type(time).__name__} where a time is expected; give ISO 8601 text, a datetime, datetime64, "
        "pandas Timestamp, ObsPy UTCDateTime or isochrony.Time"
    )


def duration(value: object) -> tuple[int, int]:
    """Nanoseconds of a duration: seconds as a number, `timedelta` or `timedelta64`.

    Returns:
        Whole nanoseconds (floor), and the fraction in units of 2**-32 ns.

    Raises:
        TimeArgumentError: anything else, or a float that is no finite number.
    """
    if isinstance(value, np.timedelta64):
        return _split(_datetime64_ns(value))
    if isinstance(value, dt.timedelta):
        if value != value:
            raise TimeError("NaT is not a duration; drop missing values first")
        return _timedelta_ns(value), 0
    seconds = _number(value)
    if seconds is None:
        raise TimeArgumentError(
            f"got {value!r} where a duration is expected; give finite seconds as a number, a timedelta or timedelta64"
        )
    return _split(seconds * _NS)


# Of ten, of a Decimal.
_MOST_EXPONENT = 400


def _number(value: object) -> Fraction | None:
    """A finite number; a float means the shortest decimal that reads back as it."""
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, Rate):
        return value.fraction
    if isinstance(value, float | np.floating):
        return Fraction(str(value)) if np.isfinite(value) else None
    if isinstance(value, Decimal):
        return _of_decimal(value)
    if isinstance(value, numbers.Rational | np.integer):
        return Fraction(int(value)) if isinstance(value, np.integer) else Fraction(value)
    return None


def _of_decimal(value: Decimal) -> Fraction | None:
    if not value.is_finite():
        return None
    # The power of ten is computed: of 1e999999999 for hours. No double is as large or as small as these.
    if value and abs(value.adjusted()) > _MOST_EXPONENT:
        return None
    return Fraction(value)


def number(value: object) -> tuple[int, int]:
    """A value of a timebase.

    Parameters:
        value: int, float, Fraction or Decimal; NumPy's too. A float means the decimal that it prints as.

    Returns:
        Its whole part (floor), and the fraction in units of 2**-32, to the nearest.

    Raises:
        TimeArgumentError: anything else, also NaN and infinity.
    """
    return _split(_value(value))


def exact_number(value: object) -> tuple[str, str]:
    """A value of a timebase as `number` takes it, not rounded: numerator and denominator as text."""
    exact = _value(value)
    return str(exact.numerator), str(exact.denominator)


def _value(value: object) -> Fraction:
    exact = _number(value)
    if exact is None:
        raise TimeArgumentError(
            f"got {value!r} where a number in the timebase's own unit is expected; give a finite number, or use "
            "isochrony.span(start, end) to select by date and time"
        )
    return exact


def ratio(value: object) -> tuple[int, int]:
    """Units of one timebase per unit of another.

    Parameters:
        value: int, float, Fraction, Decimal or a pair of whole numbers, not zero. A float means the decimal that it
            prints as.

    Returns:
        Numerator, of either sign, and denominator, above zero.

    Raises:
        TimeError: no number, zero, or parts beyond 63 bits.
    """
    exact = _pair(value)
    if not exact or max(abs(exact.numerator), exact.denominator) >= 2**63:
        raise TimeError(
            f"ratio {value!r} is refused; give a number other than zero, a Fraction, or a pair of whole numbers such "
            "as (1, 4096)"
        )
    return exact.numerator, exact.denominator


def _pair(value: object) -> Fraction | None:
    """A number, or the quotient of a pair."""
    if isinstance(value, tuple) and len(value) == 2:
        numerator, denominator = (_number(part) for part in value)
        return numerator / denominator if numerator is not None and denominator else None
    return _number(value)


def rate(value: object) -> tuple[int, int]:
    """A sample rate in Hz as a ratio.

    Parameters:
        value: int, float, Fraction, Decimal, `Rate` or a pair (samples, seconds) of whole numbers. A float
            means the decimal that it prints as: 100.0000042 is 500000021/5000000.

    Raises:
        TimeError: not a positive number, or parts beyond 64 bits.
    """
    exact = _pair(value)
    # Two negative numbers have a positive quotient.
    is_negative = isinstance(value, tuple) and any((_number(part) or 0) <= 0 for part in value)
    if exact is None or exact <= 0 or is_negative or max(exact.numerator, exact.denominator) >= 2**64:
        refused = TimeError(
            f"rate {value!r} is refused; give samples per second above zero as a number, a Fraction, "
            'text such as "44100000/1001" or a pair of whole numbers'
        )
        raise with_code(refused, "bad_rate")
    return exact.numerator, exact.denominator


def indices(values: Any) -> tuple[npt.NDArray[np.int64], tuple[int, ...]]:
    """Many indices as a flat int64 array, and the shape that they had.

    Parameters:
        values: array or sequence of whole numbers, any shape.

    Raises:
        StoreTypeError: anything but whole numbers, and masked ones.
        StoreIndexError: a number beyond 64 bits.
    """
    array = _array(values, StoreTypeError("got rows of different lengths where indices are expected; give a flat list"))
    if np.ma.is_masked(values):
        raise StoreTypeError("masked indices are refused; drop them first: indices.compressed()")
    if array.dtype.kind not in "iu" and array.size:
        raise StoreTypeError(
            f"got {_kind(values, array)} where indices are expected; give whole numbers, or times to index_of()"
        )
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
        raise StoreIndexError(f"index {array.max()} is beyond 64 bits; give an index below 2**63")
    return np.ascontiguousarray(array.ravel(), "i8"), array.shape


def instants(values: Any) -> tuple[Any, tuple[int, int] | None, tuple[int, ...]]:
    """Many times: as a flat int64 array of counts since 1970, its unit in ns as a ratio, and the shape that they had.

    Parameters:
        values: array of datetime64 of any unit and shape; or a sequence of times.

    Returns:
        Counts, unit, shape; for a sequence of other times a flat list of them, and None for the unit.

    Raises:
        TimeArgumentError: plain numbers, which are ambiguous, and masked times.
    """
    array = _array(
        values, TimeArgumentError("got rows of different lengths where times are expected; give a flat list")
    )
    if np.ma.is_masked(values):
        raise TimeArgumentError("masked times are refused; drop them first: times.compressed()")
    if array.dtype.kind == "M":
        unit, step = np.datetime_data(array.dtype)
        if unit in ("Y", "M", "generic"):
            array, unit, step = array.astype("M8[D]"), "D", 1
        ns = Fraction(_UNIT_NS[unit]) * step
        return np.ascontiguousarray(array.ravel()).view("i8"), (ns.numerator, ns.denominator), array.shape
    if array.dtype.kind not in "OSUV" and array.size:
        raise TimeArgumentError(
            f"{_kind(values, array)} is ambiguous as times (seconds, nanoseconds or indices?); give datetime64: "
            'whole nanoseconds are array.view("datetime64[ns]")'
        )
    return array.ravel().tolist() if array.size else [], None, array.shape


def _array(values: Any, refusal: Exception) -> npt.NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:  # ragged
        raise refusal from None


def _kind(values: Any, array: npt.NDArray[Any]) -> str:
    what = "an array" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
    return f"{what} of {array.dtype}"


def to_datetime(ns: int) -> dt.datetime:
    """UTC `datetime` of nanoseconds since 1970, rounded down to the microsecond.

    Raises:
        TimeError: a year outside 1 to 9999.
    """
    try:
        return _EPOCH_UTC + dt.timedelta(microseconds=ns // 1_000)
    except OverflowError:
        raise TimeError(f"{ns} ns since 1970 is outside the years 1 to 9999 of datetime") from None


def now() -> Time:
    """The current time of the system's clock, for live samples: ``signal.append(x, at=iso.now())``.

    Returns:
        A `Time`, UTC, to the nanosecond that the clock gives.

    >>> import isochrony as iso
    >>> iso.now() > iso.Time("2024")
    True
    """
    from ._native import Time

    return Time.from_ns(system_clock.time_ns())
