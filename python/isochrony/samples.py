"""Samples on their way into a signal."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .native_errors import StoreTypeError, StoreValueError

__all__ = ["as_samples"]


def as_samples(samples: Any, dtype: str, signal: str) -> npt.NDArray[Any]:
    """A 1-D array of exactly that dtype, converted only where that loses nothing.

    Parameters:
        samples: array, or a sequence of numbers.
        dtype: name of the signal's dtype.
        signal: the signal's name, for the message.

    Raises:
        StoreTypeError: another dtype, whose conversion could lose something.
        StoreValueError: not 1-D, or masked samples.
    """
    if isinstance(samples, np.ma.MaskedArray) and np.ma.is_masked(samples):
        raise StoreValueError(
            f"masked samples cannot be appended to {signal!r}; append the stretches between, with append_gap()"
        )
    array = np.asarray(samples)
    if array.ndim != 1:
        raise StoreValueError(
            f"samples for {signal!r} must be 1-D, got shape {array.shape}; append one channel at a time"
        )
    wanted = np.dtype(dtype)
    if array.dtype == wanted:
        return array
    if np.can_cast(array.dtype, wanted, "safe") or _list_fits(samples, array, wanted):
        return array.astype(wanted)
    raise StoreTypeError(
        f"signal {signal!r} holds {wanted} samples, got {array.dtype}, which may lose something; "
        f"convert them first: samples.astype({wanted.name!r})"
    )


def _list_fits(samples: Any, array: npt.NDArray[Any], wanted: np.dtype[Any]) -> bool:
    """Whether the numbers of a plain sequence, which has no dtype of its own, are exact in `wanted`."""
    if isinstance(samples, np.ndarray) or array.dtype.kind not in "biufc" or hasattr(samples, "__array__"):
        return False
    if wanted.kind in "fc" and array.dtype.kind in "biufc" and not (wanted.kind == "f" and array.dtype.kind == "c"):
        return True
    with np.errstate(invalid="ignore"):
        return bool(np.array_equal(array.astype(wanted), array))
