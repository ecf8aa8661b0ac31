"""miniSEED as the importer reads it, record by record: runs of records taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from isochrony.importers import Block, Omission, Options, Remark, Stamp, StampedBlocks, mseed, mseed_records
from isochrony.importers.mseed_records import Record, RecordRun, Unreadable


def one_by_one(parts: Iterable[object]) -> Iterator[Block | Omission | Remark]:
    """Parts of a file, with a block for each record."""
    for part in parts:
        if not isinstance(part, StampedBlocks):
            assert isinstance(part, Block | Omission | Remark)
            yield part
            continue
        assert part.counts.sum() == len(part.samples)
        ends = np.cumsum(part.counts)
        for start_ns, first, end in zip(part.starts_ns.tolist(), ends - part.counts, ends, strict=True):
            yield Block(
                signal=part.signal,
                samples=part.samples[first:end],
                rate=part.rate,
                start=Stamp(start_ns, part.resolution_ns),
                unit=part.unit,
                attrs=part.attrs,
            )


def read(path: Path, signal: str, options: Options) -> list[Block | Omission | Remark]:
    return list(one_by_one(mseed.read(path, signal, options)))


def split(file: BinaryIO, size: int) -> Iterator[Record | Unreadable]:
    """Records of a file and what is none; records of runs are as long as they say."""
    for part in mseed_records.split(file, size):
        if not isinstance(part, RecordRun):
            yield part
            continue
        at = part.start
        for _ in range(part.count):
            header = part.record(at, at).header
            assert header is not None
            assert header.length is not None
            yield part.record(at, at + header.length)
            at += header.length
        assert at == part.end


@contextmanager
def without_runs() -> Iterator[None]:
    """Every record by itself: headers are read by `parse_header` alone."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mseed_records, "find_mseed_run", lambda _window, start, *_: (start, 0))
        yield
