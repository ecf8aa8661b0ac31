"""Decodes the samples of miniSEED records in threads, ahead of their import.

Records are decoded in batches by native code, which does not hold the interpreter's lock, while the importer stores the
batches before. At most one batch for each thread and one more is in memory: `_BATCH_BYTES` of records, or one run or
record more, with the windows of the file that they lie in, and up to seven times as many bytes of samples.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._native import decode_mseed, decode_mseed_run
from ..running.options import worker_count
from .block import Samples
from .mseed_headers import Header
from .mseed_records import Record, RecordRun, Unreadable

__all__ = ["DecodedPart", "DecodedRun", "decoded"]

_BATCH_BYTES = 1 << 20
_MOST_THREADS = 4

Part = Record | RecordRun | Unreadable


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """A part of a file, and its samples if they are decoded."""

    part: Record | Unreadable
    samples: Samples | None = None


@dataclass(frozen=True, slots=True)
class DecodedRun:
    """Samples of consecutive records that have the header of the first in common, but for start and number of samples.

    Attributes:
        header: of a record like them.
        samples: of all, one record after the other.
        counts: how many of them each record has, int64.
        starts_ns: time of the first sample of each record, ns since 1970, int64.
    """

    header: Header
    samples: Samples
    counts: npt.NDArray[np.int64]
    starts_ns: npt.NDArray[np.int64]


Decoded = DecodedPart | DecodedRun


def decoded(parts: Iterable[Part], size: int, encoding: int | None) -> Iterator[Decoded]:
    """The parts of a file in their order, each with its samples. Records of a run that are damaged come by themselves.

    Samples are None for all but records of version 2 with samples as their header says, in an encoding that the native
    decoder knows: `mseed_samples` decodes the others, or says what is wrong with them.

    Parameters:
        parts: of one file.
        size: bytes of the file.
        encoding: number of the encoding of records that do not state it.

    Raises:
        OSError: what `parts` raises, after all parts that were read before.
    """
    failures: list[OSError] = []
    parts = _until_failure(parts, failures)
    # The first part needs nothing behind it: a file may be opened only to see how it begins.
    yield from _decoded(list(itertools.islice(parts, 1)), encoding)
    batches = _batches(parts)
    if size <= _BATCH_BYTES:
        for batch in batches:
            yield from _decoded(batch, encoding)
    else:
        yield from _decoded_in_threads(batches, encoding)
    if failures:
        raise failures[0]


def _until_failure(parts: Iterable[Part], failures: list[OSError]) -> Iterator[Part]:
    try:
        yield from parts
    except OSError as error:
        failures.append(error)


def _decoded_in_threads(batches: Iterable[list[Part]], encoding: int | None) -> Iterator[Decoded]:
    threads = min(worker_count("workers", "auto"), _MOST_THREADS)
    ahead: deque[Future[list[Decoded]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="isochrony-mseed") as pool:
        try:
            for batch in batches:
                ahead.append(pool.submit(_decoded, batch, encoding))
                if len(ahead) > threads:
                    yield from ahead.popleft().result()
            while ahead:
                yield from ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def _batches(parts: Iterable[Part]) -> Iterator[list[Part]]:
    batch: list[Part] = []
    size = 0
    for part in parts:
        batch.append(part)
        size += len(part.data) if isinstance(part, Record) else part.length if isinstance(part, RecordRun) else 0
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _decoded(batch: list[Part], encoding: int | None) -> list[Decoded]:
    found: list[Decoded] = []
    records = []
    places = []
    for part in batch:
        if isinstance(part, RecordRun):
            found += _decoded_run(part)
            continue
        header = part.header if isinstance(part, Record) else None
        if header is not None and header.samples > 0 and header.data_offset > 0:
            stated = encoding if header.encoding is None else header.encoding
            if stated is not None:
                assert isinstance(part, Record)
                records.append((part.data, header.data_offset, stated, header.data_order == "<", header.samples))
                places.append((len(found), part))
        found.append(DecodedPart(part))
    for (place, record), samples in zip(places, decode_mseed(records), strict=True):
        found[place] = DecodedPart(record, samples)
    return found


def _decoded_run(run: RecordRun) -> Iterator[Decoded]:
    stretches = decode_mseed_run(run.window, run.start, run.end, run.count)
    if stretches is None:
        raise MemoryError(f"{run.count} records of miniSEED do not fit into memory")
    for start, end, arrays in stretches:
        yield DecodedPart(run.record(start, end)) if arrays is None else DecodedRun(run.header, *arrays)
