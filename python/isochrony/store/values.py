"""Samples of a selection as one array: of which dtype, in which array, and what stands in gaps."""

from __future__ import annotations

import math
import numbers
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from ..errors.native import GapError, OptionError, StoreMemoryError, StoreValueError

__all__ = ["cast", "fill_gap", "read_values"]

Array = npt.NDArray[Any]
How = Literal["value", "refuse", "ffill", "interpolate"]


class Source(Protocol):
    """A selection, or what stands for one in a worker process."""

    @property
    def name(self) -> str: ...

    def __len__(self) -> int: ...

    def mask(self) -> npt.NDArray[np.bool_]: ...

    def _read(self, out: Array, how: How, value: Array | None, counts: bool) -> None:
        """Write all indices to an array of a float or complex type, or of integer counts to one of their own type."""


def read_values(
    source: Source,
    stored: str,
    is_uncalibrated: bool,
    *,
    fill: Any = math.nan,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    counts: bool = False,
) -> Array:
    """What `Selection.values` gives; its docstring has parameters and errors.

    Parameters:
        source: what to read.
        stored: name of the signal's dtype.
        is_uncalibrated: whether its counts are its values.
    """
    held = np.dtype(stored)
    exact = np.dtype("c16" if held.kind == "c" else "f8")
    wanted = _wanted(source, held if counts else exact, dtype, out)
    how, value = _fill(fill, wanted, held)
    counts = counts or is_uncalibrated
    # From integers to integers nothing is rounded on the way.
    read = held if counts and held.kind in "biu" and wanted.kind in "biu" else _read_as(wanted, exact)
    with np.errstate(all="ignore"):
        first_read = None if value is None else _of_kind(value, read).astype(read)
        # A value that is lost on the way is written to the gaps of the result, and any other stands there until then.
        if first_read is None or value is None:
            is_held = True
        elif wanted.kind in "biu":
            is_held = first_read.tolist() == value.tolist()
        else:
            is_held = np.array_equal(first_read.astype(wanted), value, equal_nan=True)
    # A dtype that is not read directly takes an array in between.
    array = out if out is not None and read == wanted else _empty(len(source), read)
    try:
        source._read(array, how, first_read if is_held else np.zeros(1, read), counts)
    except GapError as error:
        if how != "ffill":
            raise
        why = f'fill="ffill" has no sample before a gap, and {wanted} has no NaN: {error}'
        raise GapError(why) from None
    if read != wanted:
        array = _converted(array, wanted, source.name, out)
    if not is_held:
        array[~source.mask()] = value
    if counts and held.kind in "iu" and held.itemsize == 8 and wanted.char in "gG":
        # float64, by way of which they came, has fewer digits than these integers.
        whole, mask = _empty(len(source), held), source.mask()
        source._read(whole, "value", np.zeros(1, held), True)
        if how == "ffill":
            # What is filled has the sample before it, which is of the same run; all else is NaN.
            before = np.maximum.accumulate(np.where(mask, np.arange(len(mask)), 0))
            whole, mask = whole[before], mask | ~np.isnan(array)
        array[mask] = whole[mask]
    return array


def _read_as(wanted: np.dtype[Any], exact: np.dtype[Any]) -> np.dtype[Any]:
    """The float or complex dtype that is read for a result of another dtype."""
    here = wanted.newbyteorder("=")
    if exact.kind == "f" and here == np.dtype("c8"):
        return np.dtype("f4")
    return here if here in _READ_AS[exact.kind] else exact


def _converted(array: Array, wanted: np.dtype[Any], name: str, out: Array | None) -> Array:
    if wanted.kind in "biu":
        return cast(array, wanted, f"values of {name!r}", out=out)
    with np.errstate(all="ignore"):
        if out is None:
            return array.astype(wanted)
        out[...] = array
        return out


# What native code converts values to.
_READ_AS = {
    "f": (np.dtype("f4"), np.dtype("f8")),
    "c": (np.dtype("c8"), np.dtype("c16")),
}


def _wanted(source: Source, exact: np.dtype[Any], dtype: npt.DTypeLike | None, out: Array | None) -> np.dtype[Any]:
    """The dtype of the result."""
    asked = exact if dtype is None else _number_type(dtype)
    if out is not None:
        _check_out(out, len(source), dtype is not None, asked)
        asked = out.dtype
    if exact.kind == "c" and asked.kind != "c":
        raise OptionError(
            f"values of {source.name!r} are complex, and {asked} is refused, which would lose the imaginary parts; "
            'give dtype="complex64", or take .real of the result'
        )
    return asked


def _number_type(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] | None = np.dtype(dtype)
    except Exception:
        # Odd texts raise TypeError, ValueError, SyntaxError and more, depending on NumPy's version.
        found = None
    if found is None or found.kind not in "biufc":
        raise OptionError(f'values(dtype={dtype!r}) is refused; give a type of numbers, such as "float32" or np.int16')
    return found


def _check_out(out: Any, length: int, is_stated: bool, dtype: np.dtype[Any]) -> None:
    if not isinstance(out, np.ndarray):
        raise OptionError(f"values(out={type(out).__name__}) is refused; give a NumPy array")
    wrong = None
    if out.dtype.kind not in "biufc":
        wrong = f"its dtype is {out.dtype}, which is no type of numbers"
    elif out.shape != (length,):
        wrong = f"its shape is {out.shape}, and there are {length} values"
    elif is_stated and out.dtype != dtype:
        wrong = f"its dtype is {out.dtype}, and dtype={dtype.name!r} is asked for"
    elif not out.flags.writeable:
        wrong = "it is read-only"
    elif not out.flags.c_contiguous or not out.flags.aligned:
        wrong = f"it is not contiguous (strides {out.strides})"
    elif not out.dtype.isnative:
        wrong = f"its byte order is not that of this machine ({out.dtype.str})"
    if wrong is not None:
        raise OptionError(f"values(out=) is refused: {wrong}; give np.empty({length}, {dtype.name!r})")


def _empty(length: int, dtype: np.dtype[Any]) -> Array:
    # NumPy asks for large pages, and reuses small blocks.
    try:
        return np.empty(length, dtype)
    except (MemoryError, ValueError):
        raise StoreMemoryError(
            f"one array for this selection would take {length * dtype.itemsize} bytes, which cannot be allocated; read "
            "it in parts"
        ) from None


def _fill(fill: Any, wanted: np.dtype[Any], held: np.dtype[Any]) -> tuple[How, Array | None]:
    """How gaps are filled, and the value for it, of the dtype of the result."""
    has_nan = wanted.kind in "fc"
    if fill is None or (isinstance(fill, float) and math.isnan(fill) and not has_nan):
        return "refuse", None
    if isinstance(fill, str):
        if fill == "ffill":
            return "ffill", _of_both_parts(math.nan, wanted, held) if has_nan else None
        if fill == "interpolate" and has_nan:
            return "interpolate", _of_both_parts(math.nan, wanted, held)
        if fill == "interpolate":
            raise OptionError(
                f'fill="interpolate" is refused for {wanted}, which cannot hold what lies between two samples; give '
                'dtype="float64"'
            )
    is_number = isinstance(fill, numbers.Number | np.bool_) or (isinstance(fill, np.ndarray) and fill.ndim == 0)
    if not is_number:
        raise OptionError(f'fill={fill!r} is refused; give a number, None, "ffill" or "interpolate"')
    is_complex = np.asarray(fill).dtype.kind == "c"
    if is_complex and wanted.kind == "c" and held.kind != "c":
        raise OptionError(f"fill={fill!r} is refused, since the samples are real; give a real number")
    if wanted.kind == "c" and not is_complex:
        return "value", _of_both_parts(fill, wanted, held)
    return "value", _exactly(fill, wanted, wanted)


def _of_both_parts(fill: Any, wanted: np.dtype[Any], held: np.dtype[Any]) -> Array:
    """A real number; of complex samples in both parts."""
    value = np.zeros(1, wanted)
    value.real = _exactly(fill, value.real.dtype, wanted)
    if held.kind == "c":
        value.imag = value.real
    return value


def _exactly(fill: Any, dtype: np.dtype[Any], wanted: np.dtype[Any]) -> Array:
    """One value of a dtype, for a result of another; to a float it may be rounded, as any value."""
    given = np.asarray([fill])
    number = _of_numpy(given) if given.dtype.kind == "O" else given
    if number.dtype.kind in "biuf" or number.dtype.kind == dtype.kind == "c":
        with np.errstate(all="ignore"):
            value: Array = number.astype(dtype)
        is_whole = dtype.kind in "biu"
        if value.tolist() == given.tolist() if is_whole else np.isinf(value).any() == np.isinf(number).any():
            return value
    raise OptionError(f"fill={fill!r} is refused: {wanted} cannot hold it; give a value that it has, or another dtype=")


def _of_numpy(given: Array) -> Array:
    """What NumPy keeps as an object, such as a Fraction, as a number of its own; to a float it is rounded."""
    fill = given[0]
    try:
        number = float(fill)
        # A Decimal beyond the range of floats becomes infinite. Its whole part may have a thousand million digits.
        if math.isinf(number) and fill != number:
            return given
        is_whole = -(2.0**63) <= number < 2.0**64 and int(fill) == fill
        return np.asarray([int(fill) if is_whole else number])
    except (TypeError, ValueError, OverflowError):
        return given


def cast(
    array: Array, dtype: np.dtype[Any], what: str, *, out: Array | None = None, first: int = 0, is_pairs: bool = False
) -> Array:
    """Numbers as another dtype: rounded to the nearest, ties to even, or refused.

    A float type is given the nearest value that it has. An integer type is given the nearest whole number; NaN,
    infinity and what lies outside its range are an error, as is a number other than 0 and 1 for a bool, an imaginary
    part for a real type, and a finite number that would become infinite.

    Parameters:
        array: 1-D, of numbers.
        dtype: dtype of numbers.
        what: of what they are values, for the error.
        out: array of that dtype and length to write to.
        first: position of the first one, for the error.
        is_pairs: the numbers are real and imaginary parts in turn; positions in errors count pairs.

    Returns:
        `out`, or a new array.

    Raises:
        StoreValueError: a number that the dtype cannot hold, with its position.
    """
    if out is None:
        out = np.empty(array.shape, dtype)
    for start in range(0, len(array), _BLOCK):
        part = array[start : start + _BLOCK]
        bad = _unfit(part, dtype)
        if bad.any():
            at = int(np.argmax(bad))
            why, mend = _reason(part[at], dtype)
            position = first + start + at
            if is_pairs:
                which, position = ("the imaginary part " if position % 2 else "the real part "), position // 2
                # No wider dtype is stored as pairs.
                mend = "scale, clip or drop such values first"
            else:
                which = ""
            raise StoreValueError(
                f"{what}: {which}{part[at]} at position {position} does not fit {dtype} ({why}); {mend}"
            )
        with np.errstate(all="ignore"):
            is_rounded = part.dtype.kind in "fc" and dtype.kind in "biu"
            out[start : start + _BLOCK] = (np.rint(part.real) if is_rounded else _of_kind(part, dtype)).astype(dtype)
    return out


# Numbers at a time: their intermediate arrays stay in the cache.
_BLOCK = 1 << 16


def _of_kind(part: Array, dtype: np.dtype[Any]) -> Array:
    return part.real if part.dtype.kind == "c" and dtype.kind != "c" else part


def _unfit(part: Array, dtype: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    """Where numbers do not fit a dtype."""
    bad = np.zeros(part.shape, bool)
    if part.dtype.kind == "c" and dtype.kind != "c":
        bad |= part.imag != 0
        part = part.real
    if dtype.kind == "b":
        bad |= (part != 0) & (part != 1)
    elif dtype.kind in "iu" and part.dtype.kind == "f":
        limits = np.iinfo(dtype)
        # float16 has less than the range of most integers.
        rounded = np.rint(part.astype("f8") if part.dtype.itemsize < 8 else part)
        # The upper limit plus one is a power of two, and so exact.
        with np.errstate(all="ignore"):
            bad |= ~((rounded >= float(limits.min)) & (rounded < float(limits.max + 1)))
    elif dtype.kind in "iu" and part.dtype.kind in "iu":
        limits, here = np.iinfo(dtype), np.iinfo(part.dtype)
        if here.min < limits.min:
            bad |= part < limits.min
        if here.max > limits.max:
            bad |= part > limits.max
    elif dtype.kind in "fc":
        with np.errstate(all="ignore"):
            bad |= np.isinf(part.astype(dtype)) & ~np.isinf(part)
    return bad


def _reason(number: Any, dtype: np.dtype[Any]) -> tuple[str, str]:
    """Why a number does not fit a dtype, and what to do."""
    if dtype.kind != "c" and number.imag != 0:
        return f"its imaginary part is {number.imag}, not 0", "choose a complex dtype, or take .real first"
    mend = "choose a wider dtype, or scale, clip or drop such values first"
    if dtype.kind == "b":
        return "it holds 0 and 1", mend
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return f"it holds whole numbers from {limits.min} to {limits.max}", mend
    return f"it holds numbers up to {np.finfo(dtype).max:.4g}", mend


def fill_gap(array: Array, gap: slice, how: How, value: Array | None) -> bool:
    """Fill the positions of a gap in the array of one run; those on both sides are filled, or lie outside.

    Returns:
        Whether there was something to fill it with.
    """
    before, behind = gap.start > 0, gap.stop < len(array)
    if how == "ffill" and before:
        array[gap] = array[gap.start - 1]
    elif how == "interpolate" and before and behind:
        first, last = array[gap.start - 1], array[gap.stop]
        share = np.arange(1, gap.stop - gap.start + 1) / (gap.stop - gap.start + 1)
        wide = np.result_type(array.dtype, "f8")
        array[gap] = wide.type(first) + (wide.type(last) - wide.type(first)) * share
    elif how != "refuse" and value is not None:
        array[gap] = value[0]
    else:
        return False
    return True
