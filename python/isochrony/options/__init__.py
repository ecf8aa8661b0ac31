"""Options: what is no legal value is refused when it is given, not when something runs."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, TypeAlias

import numpy as np

from ..errors.native import OptionError, SegmentTypeError

__all__ = [
    "byte_count",
    "choice",
    "duration",
    "finite",
    "finite_or_list",
    "flag",
    "function_or_none",
    "index",
    "is_auto",
    "length",
    "length_in_seconds",
    "names",
    "number",
    "sample_dtype",
    "seconds",
    "text",
    "whole",
    "whole_list",
]

#: A length in samples: a whole number of samples, or a time, as text or timedelta.
Length: TypeAlias = int | str | timedelta | np.timedelta64
#: A length in seconds: a number of seconds, or text or timedelta.
Duration: TypeAlias = float | str | timedelta | np.timedelta64

#: Beyond what native code counts seconds with.
_MAX_DURATION = 2.0**64


def whole(step: str, value: object, unit: str, least: int = 1, legal: str = "") -> int:
    """A whole number from `least` that 64 bits hold, or `OptionError`; `legal` says in words which are legal."""
    count = _counted(value, least)
    if count is None:
        given = f"{step}{value!r}" if step.endswith("=") else f"{step}({value!r})"
        bounds = legal or f"from {least}"
        # One that has no upper bound of its own.
        most = " to 2^63 - 1" if bounds == f"from {least}" and _is_beyond_64_bits(value) else ""
        raise OptionError(f"{given} is refused; give a whole number{_of(unit)}, {bounds}{most}")
    return count


def length(step: str, value: object, unit: str, least: int = 1, legal: str = "") -> int | str:
    """A whole number from `least`, or a length as text, which the engine reads, or `OptionError`."""
    written = _written_length(step, value)
    if written is not None:
        return written
    try:
        return whole(step, value, unit, least, legal)
    except OptionError as error:
        raise OptionError(f'{error}, or a length such as "125ms"') from None


def length_in_seconds(step: str, value: object) -> float | str:
    """Finite seconds, or a length as text, which the engine reads, or `OptionError`."""
    written = _written_length(step, value)
    if written is not None:
        return written
    try:
        return seconds(step, value)
    except OptionError as error:
        raise OptionError(f'{error}, or a length such as "125ms" or "512 samples"') from None


def _written_length(step: str, value: object) -> str | None:
    """Text, and durations of the standard library, of NumPy and of pandas as text; None of anything else."""
    if isinstance(value, str):
        return str(value)
    # Of pandas: its base class has no nanoseconds.
    duration = value.to_timedelta64() if hasattr(value, "to_timedelta64") else value
    if isinstance(duration, np.timedelta64):
        return _of_timedelta64(step, duration)
    if isinstance(duration, timedelta):
        return f"{duration // timedelta(microseconds=1)}us"
    return None


#: By NumPy's unit: how many of which unit of ours.
_TIMEDELTA_UNITS = {
    "W": (604_800, "s"),
    "D": (86_400, "s"),
    "h": (3_600, "s"),
    "m": (60, "s"),
    "s": (1, "s"),
    "ms": (1, "ms"),
    "us": (1, "us"),
    "ns": (1, "ns"),
    "ps": (1, "e-3ns"),
    "fs": (1, "e-6ns"),
    "as": (1, "e-9ns"),
}


def _of_timedelta64(step: str, duration: np.timedelta64) -> str:
    name, multiple = np.datetime_data(duration.dtype)
    why = ""
    if name == "generic":
        why = ", since it has no unit"
    elif name not in _TIMEDELTA_UNITS:
        why = f", since a {'month' if name == 'M' else 'year'} is no fixed time"
    if np.isnat(duration) or why:
        raise OptionError(f'{step}{duration!r} is refused{why}; give a length such as "125ms"')
    times, unit = _TIMEDELTA_UNITS[name]
    # Of Python, which have no end.
    return f"{int(duration.astype(np.int64)) * multiple * times}{unit}"


def whole_list(step: str, value: object, unit: str, least: int | None, legal: str = "") -> list[int]:
    """A list of whole numbers, of any sign or from `least`, or `OptionError`."""
    try:
        several = list(value)  # type: ignore[call-overload]
    except TypeError:
        raise OptionError(f"{step}{value!r} is refused; give a list of whole numbers{_of(unit)}") from None
    if least is None:
        return [index(step, one, unit, legal) for one in several]
    return [whole(step, one, unit, least, legal) for one in several]


def index(step: str, value: object, unit: str, legal: str = "") -> int:
    """A whole number that may be negative and that 64 bits hold, or `OptionError`."""
    count = _counted(value, -(1 << 63))
    if count is None:
        how = legal or ("from -2^63 to 2^63 - 1" if _is_beyond_64_bits(value) else "")
        if isinstance(value, str | date | np.datetime64) and unit == "samples":
            how = f"such as signal.index_of({str(value)!r})"
        raise OptionError(f"{step}{value!r} is refused; give a whole number{_of(unit)}{how and f', {how}'}")
    return count


def finite(step: str, value: object, unit: str) -> float:
    """A finite number, or `OptionError`."""
    not_a_number = bool | str | np.bool_ | np.complexfloating
    try:
        found = math.nan if isinstance(value, not_a_number) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise OptionError(f"{step}{value!r} is refused; give a finite number{_of(unit)}")
    return found


def _of(unit: str) -> str:
    return unit and f" {unit if unit.startswith('of ') else f'of {unit}'}"


def seconds(step: str, value: object) -> float:
    """Finite seconds, of a float32 the decimal that it prints as, or `OptionError`."""
    try:
        return finite(step, float(str(value)) if isinstance(value, np.floating) else value, "seconds")
    except OptionError:
        raise OptionError(f"{step}{value!r} is refused; give a finite number of seconds") from None


def duration(step: str, value: object) -> float:
    """Seconds, 0 or more, or `OptionError`."""
    found = seconds(step, value)
    if not 0 <= found < _MAX_DURATION:
        legal = "a number of seconds, 0 or more" if found < 0 else f"at most {_MAX_DURATION:.2g} seconds"
        raise OptionError(f"{step}{found:g} is refused; give {legal}")
    return found


def finite_or_list(step: str, value: object, unit: str) -> float | list[float]:
    """One finite number, or a list of them, or `OptionError`."""
    if getattr(value, "ndim", 1) == 0 or isinstance(value, str):
        return finite(step, value, unit)
    try:
        several = list(value)  # type: ignore[call-overload]
    except TypeError:
        return finite(step, value, unit)
    return [finite(step, one, unit) for one in several]


def names(step: str, values: Sequence[object]) -> list[str]:
    """Names that were given one by one, or `OptionError`."""
    for value in values:
        if not isinstance(value, str):
            raise OptionError(
                f'{step}{value!r} is refused; give each name as a separate text argument, such as "mean", "max", '
                "not in a list"
            )
    return [str(value) for value in values]


def text(step: str, value: object, what: str) -> str:
    """A text, or `OptionError`."""
    if not isinstance(value, str):
        raise OptionError(f"{step}{value!r} is refused; give {what or 'text'}")
    return value


def number(name: str, value: object, least: int, legal: str) -> int:
    """The same of an option by its name; `legal` says in words what may be given."""
    count = _counted(value, least)
    if count is None:
        raise OptionError(f"{name}={value!r} is refused; give {legal}")
    return count


def sample_dtype(value: Any, option: str = "dtype") -> np.dtype[Any]:
    """The dtype that an option names in one of NumPy's spellings: text, scalar type or dtype.

    Raises:
        SegmentTypeError: it names none, or one of several fields or of arrays.
    """
    found = _numpy_dtype(value)
    if found is None or found.names is not None or found.subdtype is not None:
        text = repr(value)
        shown = text if len(text) <= 100 else text[:100] + "..."
        error = SegmentTypeError(
            f"{option}={shown} names no dtype of samples; write a NumPy spelling such as '<i2', 'int16', 'f4' or "
            "'complex64' (NumPy counts bytes: 'i2' is a 16-bit integer)"
        )
        error.code = "unknown_dtype"
        raise error from None
    return found


def _numpy_dtype(value: Any) -> np.dtype[Any] | None:
    # NumPy takes None for float64.
    if value is None:
        return None
    try:
        found: np.dtype[Any] = np.dtype(value)
    except Exception:
        # Odd texts raise TypeError, ValueError, SyntaxError and more, depending on NumPy's version.
        return None
    return found


def _counted(value: object, least: int) -> int | None:
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
    return count if not isinstance(value, bool) and least <= count < 1 << 63 else None


def _is_beyond_64_bits(value: object) -> bool:
    return isinstance(value, int | np.integer) and not -(1 << 63) <= value < 1 << 63


_UNITS = {"": 1, "B": 1, "K": 1000, "KB": 1000, "M": 10**6, "MB": 10**6, "G": 10**9, "GB": 10**9, "T": 10**12}
_UNITS |= {"TB": 10**12, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


def byte_count(name: str, value: object, least: int = 1, other: str = "") -> int:
    """A number of bytes from `least` on: a whole number, or text such as "100MB" (powers of 1000) or "64MiB" (of 1024).

    `other` says in words what else is legal.
    """
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
        unit = None if found is None else _UNITS.get(found[2].upper())
        if found is not None and unit is not None:
            count = int(float(found[1]) * unit) if "." in found[1] else int(found[1]) * unit
            if least <= count < 1 << 63:
                return count
        such = f'give bytes from {least}, such as 1000000, "100MB" or "64MiB"{other}'
        raise OptionError(f"{name}={value!r} is refused; {such}")
    return number(name, value, least, f"a whole number of bytes, from {least}{other}")


def choice(name: str, value: object, legal: tuple[str, ...]) -> str:
    """One of `legal`, or `OptionError`."""
    if not isinstance(value, str) or value not in legal:
        raise OptionError(f"{name}={value!r} is refused; give {' or '.join(map(repr, legal))}")
    return value


def flag(name: str, value: object, other: str = "") -> bool:
    """True or False, or `OptionError`; `other` says in words what else is legal."""
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"{name}={value!r} is refused; give True or False{other}")
    return bool(value)


def function_or_none(name: str, value: object) -> None:
    """A function, None, or `OptionError`."""
    if value is not None and not callable(value):
        raise OptionError(f"{name}={value!r} is refused; give a function, or leave it out")


def is_auto(value: object) -> bool:
    """Whether it is "auto"; an array, which compares with nothing, is not."""
    return isinstance(value, str) and value == "auto"
