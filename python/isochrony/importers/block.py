"""What an importer yields, and what it is told.

An importer turns one file into `Block`s: consecutive samples of one signal with
the sample rate that the file states and, where the file knows it, the civil time
of the first sample. Many short ones may come together, as `StampedBlocks`. It
decides nothing about gaps, duplicates, order or resuming; the driver and the native
ingest session do, in the same way for every format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from ..errors import BadSourceError

__all__ = [
    "BLOCK_SAMPLES",
    "SAMPLE_DTYPES",
    "Block",
    "Omission",
    "Options",
    "Part",
    "Remark",
    "Samples",
    "Stamp",
    "StampedBlocks",
    "storable",
]

# Importers cut long files into blocks of about this many samples, so that memory
# stays bounded whatever the size of a file.
BLOCK_SAMPLES = 1 << 20

Samples = npt.NDArray[np.generic]

SAMPLE_DTYPES = frozenset(
    np.dtype(code)
    for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8", "c8", "c16")
)  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """A civil time as its source gives it: somewhere in [ns, ns + resolution_ns).

    Attributes:
        ns: nanoseconds since 1970-01-01 UTC.
        resolution_ns: width of the last digit of the source, in ns; a file named to
            the second has 1,000,000,000.
    """

    ns: int
    resolution_ns: int = 1


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive samples of one signal.

    Attributes:
        signal: name in the store, such as ``YA/FJS/00/HHZ``.
        samples: shape (n,), one of `SAMPLE_DTYPES`, n > 0; not written to later.
        rate: sample rate as the source states it, in Hz, exact.
        start: civil time of the first sample; None: follows on the block before it.
        unit: of the samples after `scale` and `offset`; None if unknown.
        scale: physical value of one count.
        offset: physical value of count zero.
        attrs: what the source says about the signal, as text.
        leap: the source says that a positive leap second came during these samples, so that the
            signal's next stamp repeats a second.
    """

    signal: str
    samples: Samples
    rate: Fraction
    start: Stamp | None = None
    unit: str | None = None
    scale: float = 1.0
    offset: float = 0.0
    attrs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    leap: bool = False


@dataclass(frozen=True, slots=True)
class StampedBlocks:
    """Consecutive blocks of one signal, each with a stamp of its own: what as many `Block`s are, faster.

    Attributes:
        signal, rate, unit, scale, offset, attrs: as for `Block`.
        samples: of all blocks, one after the other; as for `Block`.
        counts: how many of them each block has, above zero, int64.
        starts_ns: civil time of the first sample of each block, ns since 1970-01-01 UTC, int64.
        resolution_ns: width of the last digit of these times.
    """

    signal: str
    samples: Samples
    counts: npt.NDArray[np.int64]
    starts_ns: npt.NDArray[np.int64]
    rate: Fraction
    resolution_ns: int = 1
    unit: str | None = None
    scale: float = 1.0
    offset: float = 0.0
    attrs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def start(self) -> Stamp:
        """Civil time of the first sample of all."""
        return Stamp(int(self.starts_ns[0]), self.resolution_ns)


@dataclass(frozen=True, slots=True)
class Omission:
    """Part of a file that is not imported, while the rest is; the summary of the import reports it.

    Attributes:
        reason: where it is, and what is wrong with it, such as ``byte 1024: 512 bytes are no record``.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Remark:
    """What a user should know of a file that is imported; the summary of the import shows it.

    Attributes:
        text: one clause, the same for all files that it holds for.
    """

    text: str


Part = Block | StampedBlocks | Omission | Remark


@dataclass(frozen=True, slots=True)
class Options:
    """What the user says about files that do not say it themselves; see `ImportKeywords`.

    `start` is also what a layout says of a file's name.
    """

    rate: Fraction | None = None
    unit: str | None = None
    full_scale: float | None = None
    start: Stamp | None = None
    signal: str | None = None
    time_column: str | None = None
    columns: tuple[str, ...] | None = None
    time_unit: str | None = None
    zone: tzinfo | None = None
    ignore_times: bool = False
    partial: bool = False
    encoding: str | None = None


def storable(samples: npt.ArrayLike, what: str) -> Samples:
    """The samples in native byte order, or an error naming the types a store has.

    Parameters:
        samples: any array.
        what: where they come from, for the message ("column 'p'").
    """
    array = np.asarray(samples)
    native = array.dtype.newbyteorder("=")
    if native not in SAMPLE_DTYPES:
        known = ", ".join(sorted(dtype.name for dtype in SAMPLE_DTYPES))
        raise BadSourceError(f"{what} has type {array.dtype}; a store holds {known}: convert it")
    return array.astype(native, copy=False)
