"""Samples on their way into a signal."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors.native import StoreTypeError, StoreValueError
from .values import cast

__all__ = ["as_samples", "as_stretches"]

# `astype` is not advised: it wraps what does not fit.
_CAST = "call append(samples, cast=True), which rounds them and refuses what does not fit"


def as_samples(samples: Any, dtype: str, signal: str, is_cast: bool = False) -> npt.NDArray[Any]:
    """A 1-D array of exactly that dtype, converted only where that loses nothing, or where a cast is asked for.

    Parameters:
        samples: array, or a sequence of numbers; of complex int16 shape (n, 2), or complex numbers to cast.
        dtype: name of the signal's dtype as stored.
        signal: the signal's name, for the message.
        is_cast: round to the dtype, as `values.cast` does.

    Raises:
        StoreTypeError: another dtype, whose conversion could lose something.
        StoreValueError: not 1-D, masked samples, or with `is_cast` one that does not fit.
    """
    if isinstance(samples, np.ma.MaskedArray) and np.ma.is_masked(samples):
        raise StoreValueError(
            f"masked samples cannot be appended to {signal!r}; append each unmasked part and call append_gap() for "
            "each masked one"
        )
    array = np.asarray(samples)
    if dtype == "complex_int16":
        return _pairs(samples, array, signal, is_cast)
    if array.ndim != 1:
        raise StoreValueError(
            f"samples for {signal!r} must be 1-D, got shape {array.shape}; append one channel at a time"
        )
    wanted = np.dtype(dtype)
    if array.dtype == wanted:
        return array
    if np.can_cast(array.dtype, wanted, "safe") or _list_fits(samples, array, wanted):
        return array.astype(wanted)
    if is_cast and array.dtype.kind in "biufc":
        return cast(array, wanted, f"samples for {signal!r}")
    raise StoreTypeError(f"signal {signal!r} holds {wanted} samples, got {_got(samples, array)}; {_CAST}")


def _got(samples: Any, array: npt.NDArray[Any]) -> str:
    """What was given in place of samples of the signal's dtype."""
    if isinstance(samples, np.ndarray):
        return f"{array.dtype}, whose values may not fit"
    return f"{array.dtype} numbers, not all of which it holds exactly"


def _pairs(samples: Any, array: npt.NDArray[Any], signal: str, is_cast: bool) -> npt.NDArray[np.int16]:
    """Real and imaginary parts in turn: of an array of shape (n, 2), or of complex numbers that are cast."""
    what = f"samples for {signal!r}"
    if array.dtype.kind == "c" and array.ndim == 1:
        if not is_cast:
            raise StoreTypeError(
                f"signal {signal!r} holds complex int16 samples, got {array.dtype}, whose values may not fit; give "
                f"int16 of shape (n, 2), real and imaginary parts, or {_CAST}"
            )
        wide = np.ascontiguousarray(array, np.complex128)
        return cast(wide.view(np.float64), np.dtype("i2"), what, is_pairs=True)
    if array.shape == (0,) and not isinstance(samples, np.ndarray):
        # A list without numbers has no dtype and no second dimension.
        return np.empty(0, np.int16)
    if array.ndim != 2 or array.shape[1] != 2:
        raise StoreValueError(
            f"signal {signal!r} holds complex int16 samples: give an array of shape (n, 2), real and imaginary parts, "
            f"or 1-D complex numbers with cast=True; got {array.dtype} of shape {array.shape}"
        )
    wanted = np.dtype(np.int16)
    if np.can_cast(array.dtype, wanted, "safe") or _list_fits(samples, array, wanted):
        return np.ascontiguousarray(array, wanted).reshape(-1)
    if is_cast and array.dtype.kind in "biuf":
        return cast(array.reshape(-1), wanted, what, is_pairs=True)
    raise StoreTypeError(f"signal {signal!r} holds complex int16 samples, got parts of {_got(samples, array)}; {_CAST}")


def as_stretches(rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Rows of first index and number of samples, flat.

    Parameters:
        rows: whole numbers, shape (n, 2); the second above zero.

    Raises:
        StoreTypeError: other numbers.
        StoreValueError: another shape, or a length of zero or less.
    """
    if rows.dtype.kind not in "iu":
        raise StoreTypeError(
            f"ranges must be whole numbers, got dtype {rows.dtype}; give rows of first index and number of samples"
        )
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise StoreValueError(
            f"ranges must have shape (n, 2), got {rows.shape}; give rows of first index and number of samples"
        )
    if len(rows) and rows[:, 1].min() < 1:
        raise StoreValueError(f"a range has {rows[:, 1].min()} samples; leave out ranges without samples")
    return np.ascontiguousarray(rows, "i8").ravel()


def _list_fits(samples: Any, array: npt.NDArray[Any], wanted: np.dtype[Any]) -> bool:
    """Whether the numbers of a plain sequence, which has no dtype of its own, are exact in `wanted`."""
    if isinstance(samples, np.ndarray) or array.dtype.kind not in "biufc" or hasattr(samples, "__array__"):
        return False
    if wanted.kind in "fc" and array.dtype.kind in "biufc" and not (wanted.kind == "f" and array.dtype.kind == "c"):
        return True
    with np.errstate(invalid="ignore"):
        return bool(np.array_equal(array.astype(wanted), array))
