"""``isochrony pipe`` keeps to its memory limit, as the system counts the child's own memory while bytes go through."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

ISOCHRONY = [sys.executable, "-m", "isochrony", "pipe"]
MARGIN = 16_000_000
BLOCK = hashlib.shake_128(b"isochrony").digest(500_000) + bytes(500_000)
ZSTD = shutil.which("zstd")


def own(pid: int) -> int:
    """RssAnon and RssShmem; 0 when it has ended."""
    with contextlib.suppress(OSError):
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return sum(int(lines[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem") if name in lines)
    return 0


def has_begun(pid: int) -> bool:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            if (thread / "comm").read_text().startswith("isochrony-"):
                return True
    return False


def carried(words: list[str], data: Iterable[bytes], code: int = 0) -> tuple[int, str, int, str]:
    """The child's growth since its workers waited for the first byte; digest and length of its output; what it says."""
    child = subprocess.Popen(
        [*ISOCHRONY, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdin and child.stdout and child.stderr
    into, out, said = child.stdin, child.stdout, child.stderr
    digest, length = hashlib.sha256(), 0

    def feed() -> None:
        with contextlib.suppress(BrokenPipeError):
            for part in data:
                into.write(part)
            into.close()

    def drain() -> None:
        nonlocal length
        while part := out.read1(1 << 20):  # type: ignore[attr-defined]
            digest.update(part)
            length += len(part)

    try:
        deadline = time.monotonic() + 120
        while not has_begun(child.pid) and child.poll() is None:
            assert time.monotonic() < deadline, "it does not begin"
            time.sleep(0.002)
        before = most = own(child.pid)
        threads = [threading.Thread(target=one, daemon=True) for one in (feed, drain)]
        for thread in threads:
            thread.start()
        while child.poll() is None:
            assert time.monotonic() < deadline, "it does not end"
            most = max(most, own(child.pid))
            time.sleep(0.001)
        for thread in threads:
            thread.join(60)
        text = said.read().decode()
    finally:
        child.kill()
        child.wait()
        for stream in (out, said):
            stream.close()
    assert child.returncode == code, text
    return most - before, digest.hexdigest(), length, text


# Buffers, workers and levels for which two or three workers would take more than the limit and its margin; one fits.
@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (["zstd:9", "--buffer", "8MiB"], 40_000_000),
        (["gzip", "--buffer", "16MiB"], 70_000_000),
        (["crc32c", "--buffer", "32MiB"], 68_000_000),
        (["--buffer", "32MiB"], 68_000_000),
    ],
    ids=["zstd", "gzip", "crc32c", "copy"],
)
def test_buffers_and_workers_fit_the_limit(words: list[str], limit: int) -> None:
    growth, digest, length, said = carried([*words, "--memory", str(limit)], [BLOCK] * 140)
    assert growth <= limit + MARGIN
    if words[0] == "--buffer":
        assert (digest, length) == (hashlib.sha256(BLOCK * 140).hexdigest(), 140_000_000)
    assert "bytes_in=140000000" in said or words[0] in ("crc32c", "--buffer")


def test_sha256_of_a_pipe_with_little_memory() -> None:
    growth, _, _, said = carried(["sha256", "--memory", "2MB"], [BLOCK] * 12)
    assert growth <= 2_000_000 + MARGIN
    assert said == ""


@pytest.mark.skipif(ZSTD is None, reason="needs the program zstd")
def test_what_is_decompressed_fits_the_limit_with_its_window_or_is_refused() -> None:
    data = BLOCK * 120
    # A frame that looks 64 MiB back.
    frame = subprocess.run([ZSTD or "", "-c", "--long=26"], input=data, capture_output=True, check=True, timeout=120)
    growth, digest, length, _ = carried(["unzstd", "--memory", "72MB"], [frame.stdout])
    assert growth <= 72_000_000 + MARGIN
    assert (length, digest) == (len(data), hashlib.sha256(data).hexdigest())
    _, _, _, said = carried(["unzstd", "--memory", "30MB"], [frame.stdout], code=2)
    assert "--memory 30000000 bytes are too few" in said
    growth, _, _, said = carried(["unzstd,window=20", "--memory", "30MB"], [frame.stdout], code=3)
    assert growth <= 30_000_000
    assert "unzstd,window=LOG" in said


@pytest.mark.skipif(ZSTD is None, reason="needs the program zstd")
def test_few_bytes_that_become_many_fit_the_limit() -> None:
    frame = subprocess.run([ZSTD or "", "-c"], input=bytes(300_000_000), capture_output=True, check=True, timeout=120)
    growth, _, length, _ = carried(["unzstd,window=23", "--memory", "20MB"], [frame.stdout])
    assert length == 300_000_000
    assert growth <= 20_000_000 + MARGIN
