"""Records in any order, with clock faults: whatever is imported, the store opens and has the samples."""

from __future__ import annotations

import io
import struct
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from obspy import Trace, UTCDateTime

import isochrony as iso
from isochrony.importers import import_files

RECORD = 256
PERIOD = timedelta(seconds=2)


def records() -> list[bytes]:
    data = np.cumsum(np.random.default_rng(1).integers(-90, 90, 16_000)).astype("i4")
    header = {"network": "XX", "station": "ABC", "channel": "HHZ", "starttime": UTCDateTime(2012, 3, 4, 5, 6, 7)}
    out = io.BytesIO()
    Trace(data, {**header, "sampling_rate": 0.5}).write(out, format="MSEED", reclen=RECORD, encoding="STEIM2")
    whole = out.getvalue()
    return [whole[at : at + RECORD] for at in range(0, len(whole), RECORD)]


def later(record: bytes, by: timedelta) -> bytes:
    """A record with another start, to 100 us."""
    year, day, hour, minute, second, _, fraction = struct.unpack_from(">HHBBBBH", record, 20)
    time = datetime(year, 1, 1, hour, minute, second, fraction * 100, tzinfo=UTC) + timedelta(days=day - 1) + by
    fields = (time.year, time.timetuple().tm_yday, time.hour, time.minute, time.second, 0, time.microsecond // 100)
    return record[:20] + struct.pack(">HHBBBBH", *fields) + record[30:]


def shuffled(seed: int) -> tuple[list[bytes], int]:
    """Records at 0.5 Hz, some lost or exchanged, whose clock steps by half a sample at most; and how many samples."""
    rng = np.random.default_rng(seed)
    found = records()
    offset = timedelta()
    for at, record in enumerate(found):
        if rng.random() < 0.15:
            offset += PERIOD * rng.uniform(-0.5, 0.5)
        found[at] = later(record, offset)
    for _ in range(6):
        one, other = rng.integers(len(found), size=2)
        found[one], found[other] = found[other], found[one]
    for at in sorted(rng.choice(len(found), 8, replace=False), reverse=True):
        del found[at]
    return found, sum(int.from_bytes(record[30:32], "big") for record in found)


@pytest.mark.parametrize("seed", range(40))
def test_the_store_of_shuffled_records_opens_and_has_all_samples(seed: int, tmp_path: Path) -> None:
    found, samples = shuffled(seed)
    path = tmp_path / "a.mseed"
    path.write_bytes(b"".join(found))
    with warnings.catch_warnings():
        # Records out of order overlap others, which is told.
        warnings.simplefilter("ignore")
        import_files(tmp_path / "a.iso", path)
    with iso.open(tmp_path / "a.iso") as store:
        (signal,) = store.values()
        assert signal.sample_count == samples
    assert iso.verify(tmp_path / "a.iso")["damage"] == []
