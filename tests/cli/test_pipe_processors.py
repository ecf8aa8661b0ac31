"""``isochrony pipe`` with every native processor, against what others make of the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
from typing import Any

import google_crc32c
import numpy as np
import pytest

ISOCHRONY = [sys.executable, "-m", "isochrony", "pipe"]
# Noise, and text in which there is something to find.
DATA = hashlib.shake_128(b"isochrony").digest(300_000) + b"a needle in the hay\n" * 15_000
ZSTD = shutil.which("zstd")


def pipe(*words: str, data: bytes = DATA, code: int = 0) -> tuple[bytes, str]:
    """Output and what is said, of several buffers that cut at no line of any format."""
    done = subprocess.run([*ISOCHRONY, "--buffer", "49999", *words], input=data, capture_output=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr.decode()


def found(name: str, data: bytes = DATA) -> Any:
    return json.loads(pipe("--json", name, data=data)[0])["results"][name]


DIGESTS = {
    "md5": hashlib.md5(DATA).hexdigest(),
    "sha256": hashlib.sha256(DATA).hexdigest(),
    "sha512": hashlib.sha512(DATA).hexdigest(),
    "crc32c": f"{google_crc32c.value(DATA):08x}",
    # What the reference implementations make of it: blake3 1.0.11 and xxhash 4.1.0 (libxxhash 0.8.4) of PyPI.
    "blake3": "338d3d3f83b0cac6b0252749319a0b7a2d9a563fdb748f5ca780db58197ef050",
    "xxh3": "bed59a9bff1685f4",
    "xxh3-128": "e021afdc6586d930bed59a9bff1685f4",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_digests(name: str) -> None:
    assert pipe(name) == (f"{DIGESTS[name]}  {name}\n".encode(), "")


def test_all_digests_in_one_pass() -> None:
    out, _ = pipe(*DIGESTS)
    assert out.decode().splitlines() == [f"{digest}  {name}" for name, digest in DIGESTS.items()]


DTYPES = [f"{order}{kind}" for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8") for order in "<>"]


def samples(dtype: str) -> np.ndarray[Any, Any]:
    if dtype[1] == "f":
        return (np.frombuffer(DATA, "<i2") / 7).astype(dtype)
    return np.frombuffer(DATA, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_statistics(dtype: str) -> None:
    data = samples(dtype)
    stats = found(f"stats:{dtype}", data.tobytes())
    wide = data.astype(np.longdouble)
    assert (stats["count"], stats["min"], stats["max"]) == (len(data), data.min(), data.max())
    assert stats["mean"] == pytest.approx(float(wide.mean()), rel=1e-9)
    assert stats["std"] == pytest.approx(float(wide.std()), rel=1e-9)


@pytest.mark.parametrize("name", ["gzip", "gzip:1", "gzip:12"])
def test_gzip_is_read_by_zlib(name: str) -> None:
    out, said = pipe(name)
    assert gzip.decompress(out) == DATA
    assert f"bytes_in={len(DATA)} bytes_out={len(out)}" in said


def test_gunzip_reads_what_zlib_wrote() -> None:
    members = gzip.compress(DATA[:100_001], 9) + gzip.compress(DATA[100_001:], 1)
    assert pipe("gunzip", data=members)[0] == DATA


@pytest.mark.skipif(ZSTD is None, reason="needs the program zstd")
@pytest.mark.parametrize("name", ["zstd", "zstd:-1", "zstd:19"])
def test_zstd_is_read_by_the_program(name: str) -> None:
    out, said = pipe(name)
    assert subprocess.run([ZSTD or "", "-dc"], input=out, capture_output=True, check=True, timeout=120).stdout == DATA
    assert f"bytes_in={len(DATA)} bytes_out={len(out)}" in said


@pytest.mark.skipif(ZSTD is None, reason="needs the program zstd")
def test_unzstd_reads_what_the_program_wrote() -> None:
    parts = [DATA[:100_001], DATA[100_001:]]
    frames = [
        subprocess.run([ZSTD or "", "-c"], input=part, capture_output=True, check=True, timeout=120).stdout
        for part in parts
    ]
    assert pipe("unzstd", data=b"".join(frames))[0] == DATA


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("convert:<i2:<f4", lambda: np.frombuffer(DATA, "<i2").astype("<f4")),
        ("convert:>i2:<i4", lambda: np.frombuffer(DATA, ">i2").astype("<i4")),
        ("convert,scale=0.5,offset=-1:u1:>f8", lambda: (np.frombuffer(DATA, "u1") * 0.5 - 1).astype(">f8")),
        ("convert,saturate:<i4:<i2", lambda: np.clip(np.frombuffer(DATA, "<i4"), -(2**15), 2**15 - 1).astype("<i2")),
    ],
)
def test_conversion(name: str, expected: Any) -> None:
    assert pipe(name)[0] == expected().tobytes()


def places(pattern: bytes, flags: int = 0) -> list[int]:
    return [match.start() for match in re.finditer(pattern, DATA, flags)]


@pytest.mark.parametrize(
    ("argument", "pattern", "flags"),
    [
        (":needle", b"needle", 0),
        (":needle|hay", b"needle|hay", 0),
        (",ignore-case:NEEDLE", b"needle", re.IGNORECASE),
        (",overlapping:\\n|e", b"[\\ne]", 0),
        (":\\x00\\xff", b"\\x00\\xff", 0),
    ],
)
def test_search(argument: str, pattern: bytes, flags: int) -> None:
    expected = places(pattern, flags)
    assert expected
    assert found(f"count{argument}")["total"] == len(expected)
    head, _, tail = argument.partition(":")
    matches = found(f"find{head},keep=100000:{tail}")
    assert matches["total"] == len(expected)
    assert [offset for offset, _ in matches["offsets"]] == expected


def test_no_processor_is_left_out_here() -> None:
    _, said = pipe("nothing", code=2)
    listed = said[said.index("give one of ") + len("give one of ") :].split(";")[0]
    known = {re.split(r"[:\[]", name.strip())[0] for name in listed.split(",")}
    assert known == {*DIGESTS, "stats", "gzip", "gunzip", "zstd", "unzstd", "convert", "count", "find"}


def test_the_help_names_every_native_processor() -> None:
    _, said = pipe("nonsense", code=2)
    listed = said.partition("give one of ")[2].partition("; see")[0].strip()
    assert listed.count(", ") > 10
    helped = " ".join(subprocess.run([*ISOCHRONY, "--help"], capture_output=True, text=True, check=True).stdout.split())
    assert f"one of {listed}" in helped
