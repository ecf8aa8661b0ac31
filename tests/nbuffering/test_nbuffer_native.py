"""N-buffering by native processors: in one pass, for any workers, beside a function of one's own."""

from __future__ import annotations

import hashlib
import io
import zlib

import numpy as np
import pytest

import isochrony as iso
from isochrony.errors.native import OptionError

RECORD = 16


def numbered(records: int) -> bytes:
    return b"".join(f"{number:>{RECORD}}".encode() for number in range(records))


def test_native_processors_in_one_pass_while_copying() -> None:
    data = np.random.default_rng(2).integers(-9000, 9000, 1_500_000).astype("<i2")
    raw = data.tobytes()
    for workers in (1, 2, 5):
        out = bytearray()
        names = ["sha256", "md5", "stats:<i2"]
        report = iso.nbuffer(io.BytesIO(raw), names, out, order="none" if workers == 5 else "both", workers=workers)
        assert list(report.results) == names
        assert report.results["sha256"] == hashlib.sha256(raw).hexdigest()
        assert report.results["md5"] == hashlib.md5(raw).hexdigest()
        stats = report.results["stats:<i2"]
        assert (stats.count, stats["min"], stats.max) == (len(data), data.min(), data.max())
        assert stats.mean == pytest.approx(data.mean(), rel=1e-12)
        assert stats.std == pytest.approx(data.std(), rel=1e-9)
        assert len(out) == len(raw)
        if workers < 5:
            assert bytes(out) == raw


def test_statistics_of_an_array_are_of_its_samples() -> None:
    data = np.random.default_rng(2).standard_normal(30_001).astype("f4")
    stats = iso.nbuffer(data, "stats").results["stats"]
    assert (stats.count, stats.min, stats.max) == (len(data), data.min(), data.max())
    with pytest.raises(OptionError, match="stats"):
        iso.nbuffer(data.tobytes(), "stats")


def test_compressed_output_is_the_same_for_any_workers() -> None:
    data = b"all work and no play " * 300_000
    outputs = []
    for workers in (1, 2, 4):
        out = bytearray()
        report = iso.nbuffer(data, ["gzip", "crc32c"], out, workers=workers, buffer="256kB")
        outputs.append((bytes(out), report.results["crc32c"]))
    assert outputs[0] == outputs[1] == outputs[2]
    whole, rest = bytearray(), outputs[0][0]
    while rest:
        member = zlib.decompressobj(31)
        whole += member.decompress(rest)
        rest = member.unused_data
    assert bytes(whole) == data


def test_a_function_beside_native_processors() -> None:
    data = numbered(5000)
    out = bytearray()
    report = iso.nbuffer(data, ["sha256", lambda record: record[-1:]], out, stride=RECORD)
    assert report.results == {"sha256": hashlib.sha256(data).hexdigest()}
    assert bytes(out) == data[RECORD - 1 :: RECORD]
    with pytest.raises(OptionError, match="both a function and a native processor make output"):
        iso.nbuffer(data, ["zstd", len], out)


@pytest.mark.parametrize(
    ("names", "given", "offset", "says"),
    [
        (["unzstd"], b"no frame at all", 0, "unzstd: the buffer at byte 0 cannot be decompressed"),
        (["convert:<i2:<i1"], bytes(range(2)) * 4, 0, "convert: the sample at byte 0 becomes 256"),
        (["stats:<i2"], b"abc", 2, "stats: the stream ends inside a sample, with 1 of its 2 bytes at byte 2"),
    ],
    ids=["scanned", "converted", "ended"],
)
def test_an_error_of_a_native_processor_says_once_where(names: list[str], given: bytes, offset: int, says: str) -> None:
    with pytest.raises(iso.NBufferError, match=f"processing failed: {says}") as caught:
        iso.nbuffer(given, names)
    assert str(caught.value).count("at byte") == 1
    assert caught.value.offset == offset
