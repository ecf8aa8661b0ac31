"""NumPy ``.npy`` files: one array, one dimension, or two with a column per channel.

An array knows neither rate nor time: give ``rate``, and ``start`` or a layout
template with the time in the file name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..errors import BadSourceError, UsageError
from .block import BLOCK_SAMPLES, Block, Options, storable
from .registry import Format

__all__ = ["FORMAT", "read"]


def recognises(head: bytes) -> bool:
    """NumPy's magic string."""
    return head[:6] == b"\x93NUMPY"


def read(path: Path, signal: str, options: Options) -> Iterator[Block]:
    """Blocks of an array of shape (n,) or (n, channels).

    Raises:
        UsageError: no rate was given.
        BadSourceError: not an array of one or two dimensions of a type that a store holds,
            or empty.
    """
    if options.rate is None:
        raise UsageError("a NumPy array does not know its sample rate; give it with rate=HZ")
    try:
        with path.open("rb") as file:
            if not recognises(file.read(6)):
                raise BadSourceError("does not begin as .npy files do; save it with numpy.save, or leave it out")
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except BadSourceError:
        raise
    except (ValueError, OSError, EOFError, OverflowError, MemoryError) as error:
        raise BadSourceError(f"cannot be read as .npy ({error}); save it again with numpy.save") from error
    if array.ndim not in (1, 2):
        raise BadSourceError(
            f"has shape {array.shape}, not (samples,) or (samples, channels); save its channels as columns, or leave "
            "it out"
        )
    if array.size == 0:
        raise BadSourceError(f"holds no samples (its shape is {array.shape}); save it again, or leave it out")
    columns = array.reshape(len(array), -1)
    channels = columns.shape[1]
    step = max(BLOCK_SAMPLES // channels, 1)
    for first in range(0, len(columns), step):
        stretch = columns[first : first + step]
        for channel in range(channels):
            yield Block(
                signal=signal if array.ndim == 1 else f"{signal}/ch{channel + 1}",
                samples=storable(np.ascontiguousarray(stretch[:, channel]), "the array"),
                rate=options.rate,
                start=options.start if first == 0 else None,
                unit=options.unit,
            )


FORMAT = Format(
    name="numpy",
    summary="NumPy .npy arrays (also give rate=HZ)",
    suffixes=(".npy",),
    read=read,
    recognises=recognises,
    uses=("rate", "unit", "start", "signal"),
)
