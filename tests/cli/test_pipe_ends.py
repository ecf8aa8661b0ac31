"""What ``isochrony pipe`` and `nbuffer` leave where a run does not come to its end: a part of the output, so marked."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

import isochrony as iso
from processes import unshare

ISOCHRONY = [sys.executable, "-m", "isochrony", "pipe"]
DATA = hashlib.shake_128(b"isochrony").digest(1_000_000)


def part(written: int, name: str) -> str:
    return f"; the output is incomplete: {written} bytes in {name}"


@pytest.mark.parametrize("broken", ["cut off", "overwritten"])
def test_a_broken_archive(broken: str) -> None:
    packed = bytearray(gzip.compress(DATA, 1))
    at = len(packed) // 2
    if broken == "cut off":
        del packed[at:]
    else:
        packed[at : at + 50] = bytes(50)
    done = subprocess.run([*ISOCHRONY, "gunzip", "--buffer", "50kB"], input=packed, capture_output=True, timeout=120)
    said = done.stderr.decode()
    assert done.returncode == 3, said
    assert 0 < len(done.stdout) < len(DATA)
    assert said.startswith("isochrony: processing failed: gunzip: ")
    assert said.endswith(part(len(done.stdout), "descriptor 1") + "\n")
    if broken == "cut off":
        assert done.stdout == DATA[: len(done.stdout)]


def test_an_archive_that_is_none_has_no_part() -> None:
    done = subprocess.run([*ISOCHRONY, "gunzip"], input=b"no archive", capture_output=True, timeout=120)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"part of the output" not in done.stderr


def test_a_failing_function_leaves_the_part_before_it_under_the_given_name(tmp_path: Path) -> None:
    def bad(record: memoryview) -> memoryview:
        if record[0] == 70:
            raise ValueError("this one is bad")
        return record

    out, log = tmp_path / "out", list[str]()
    out.write_bytes(b"what was there before" * 100)
    with pytest.raises(iso.NBufferError) as caught:
        iso.nbuffer(bytes(range(100)), bad, out, stride=1, buffer=10, ramp=False, workers=3, log=log.append)
    assert str(caught.value).endswith(f"this one is bad; correct it, or the data there{part(70, str(out))}")
    assert out.read_bytes() == bytes(range(70))
    assert caught.value.report.complete is False
    assert log[-1] == f"error: {caught.value}"
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_that_may_grow_no_further(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(DATA)
    # 300 blocks of 1,024 bytes; the signal would kill the shell's child.
    script = "trap '' XFSZ; ulimit -f 300; exec \"$@\" < in > out"
    command = ["bash", "-c", script, "bash", *ISOCHRONY, "--buffer", "50kB"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    out = (tmp_path / "out").read_bytes()
    assert out == DATA[: 300 * 1024]
    assert f"after {300 * 1024} bytes: File too large" in done.stderr
    assert done.stderr.endswith(part(300 * 1024, "descriptor 1") + "\n")


@pytest.mark.parametrize("order", ["none", "output", "execution", "both"])
def test_a_disk_that_becomes_full(order: str, tmp_path: Path) -> None:
    command = unshare()
    if command is None:
        pytest.skip("needs a mount of its own, which is not permitted here")
    (tmp_path / "in").write_bytes(DATA)
    (tmp_path / "disk").mkdir()
    script = 'mount -t tmpfs -o size=400k none disk; "$@" < in > disk/out; code=$?; cat disk/out > kept; exit $code'
    shell = [*command, "bash", "-c", script, "bash", *ISOCHRONY, "--buffer", "50kB", "--order", order, "--workers", "3"]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    kept = (tmp_path / "kept").read_bytes()
    assert 300_000 < len(kept) <= 400 * 1024
    assert f"after {len(kept)} bytes: No space left" in done.stderr
    assert done.stderr.endswith(part(len(kept), "descriptor 1") + "\n")
    assert done.stderr.count("\n") == 1
    if order in ("output", "both"):
        assert kept == DATA[: len(kept)]
