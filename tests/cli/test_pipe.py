"""``isochrony pipe`` in a shell: real processes, real pipes."""

from __future__ import annotations

import hashlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ISOCHRONY = [sys.executable, "-m", "isochrony", "pipe"]


def pipe(*words: str, data: bytes = b"", code: int = 0) -> tuple[bytes, str]:
    done = subprocess.run([*ISOCHRONY, *words], input=data, capture_output=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr.decode()


DATA = bytes(range(256)) * 20_000


def test_digests_of_a_pipe_and_of_a_file(tmp_path: Path) -> None:
    digest = hashlib.sha256(DATA).hexdigest()
    assert pipe("sha256", data=DATA) == (f"{digest}  sha256\n".encode(), "")
    path = tmp_path / "big"
    path.write_bytes(DATA)
    with path.open("rb") as file:
        done = subprocess.run(
            [*ISOCHRONY, "sha256", "md5", "--workers", "3"], stdin=file, capture_output=True, timeout=120
        )
    assert done.stdout.decode().splitlines() == [f"{digest}  sha256", f"{hashlib.md5(DATA).hexdigest()}  md5"]
    assert pipe("sha256")[0].startswith(hashlib.sha256().hexdigest().encode())


def test_without_a_processor_it_copies() -> None:
    assert pipe(data=DATA) == (DATA, "")
    out, said = pipe("--copy", "md5", data=DATA)
    assert (out, said) == (DATA, f"{hashlib.md5(DATA).hexdigest()}  md5\n")


def test_output_of_a_processor_goes_on_and_its_results_aside() -> None:
    out, said = pipe("gzip", "sha256", "--memory", "20MB", data=DATA)
    whole = bytearray()
    while out:
        member = zlib.decompressobj(31)
        whole += member.decompress(out)
        out = member.unused_data
    assert bytes(whole) == DATA
    assert hashlib.sha256(DATA).hexdigest() in said
    assert f"bytes_in={len(DATA)}" in said


def test_json_tells_who_did_what() -> None:
    out, _ = pipe("--json", "stats:<i2", "count:\x01\x02", "--workers", "2", data=DATA)
    told = json.loads(out)
    assert told["bytes"] == len(DATA)
    assert told["results"]["stats:<i2"]["count"] == len(DATA) // 2
    assert told["results"]["count:\x01\x02"]["total"] == 20_000
    assert len(told["workers"]) == 2
    assert sum(worker["bytes"] for worker in told["workers"]) == len(DATA)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sha265"], "sha256"),
        (["--memory", "much", "md5"], "--memory 'much' is refused; give bytes from 1"),
        (["--memory", "1kB", "md5"], "--memory 1000 bytes are too few"),
        (["--workers", "0", "md5"], "--workers 0 is refused; give 1 to 4096"),
        (["stats:i3"], "stats: dtype i3 is refused; give one of i1"),
        (["zstd:99"], "zstd: level 99 is refused; give from -7 to 22"),
        (["sha256,fast"], 'sha256 has no option "fast"; write sha256'),
        (["find:"], "find: a pattern is empty; give patterns of 1 to 65536 bytes"),
        (["md5", "md5"], "told apart by name; give it once"),
        (["--copy", "zstd"], "both write to the output; leave out one of them"),
        (["--order", "sorted"], "not one of input"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], message: str) -> None:
    out, said = pipe(*words, data=b"abc", code=2)
    assert out == b""
    assert said.count("\n") == 1
    assert message in said


def test_a_reader_that_goes_away_is_no_error_and_a_full_disk_is(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(DATA)
    with path.open("rb") as file:
        done = subprocess.run(
            f"'{sys.executable}' -m isochrony pipe | head -c 100 | wc -c; echo ${{PIPESTATUS[0]}}",
            shell=True, executable="/bin/bash", stdin=file, capture_output=True, timeout=120,
        )  # fmt: skip
    assert done.stdout.split() == [b"100", b"0"], done.stderr
    assert done.stderr == b""
    with path.open("rb") as file, Path("/dev/full").open("wb") as full:
        done = subprocess.run(ISOCHRONY, stdin=file, stdout=full, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 3
    assert b"No space left" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_what_comes_is_answered_at_once_if_eager() -> None:
    child = subprocess.Popen([*ISOCHRONY, "--eager"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    try:
        for size in (1, 7, 1023, 1024, 3000):
            record = bytes([size % 256]) * size
            child.stdin.write(record)
            child.stdin.flush()
            got = b""
            while len(got) < size:
                assert select.select([child.stdout], [], [], 120)[0], f"{len(got)} of {size} bytes came"
                part = os.read(child.stdout.fileno(), size - len(got))
                assert part, "it ended"
                got += part
            assert got == record
        child.stdin.write(b"short")
        child.stdin.close()
        assert select.select([child.stdout], [], [], 120)[0]
        assert os.read(child.stdout.fileno(), 100) == b"short"
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_ctrl_c_says_what_became_of_the_output() -> None:
    child = subprocess.Popen(
        [*ISOCHRONY, "--eager"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdin.write(b"x")
        child.stdin.flush()
        # When this came, the run is under way.
        assert select.select([child.stdout], [], [], 120)[0]
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130
    assert said == b"isochrony: interrupted; the output is incomplete\n"


def test_a_name_that_is_no_text_is_refused() -> None:
    done = subprocess.run([*ISOCHRONY, b"count:\xff"], input=b"abc", capture_output=True, timeout=120)
    assert done.returncode == 2
    assert b"give it as UTF-8 text" in done.stderr


def test_help_says_which_orders_keep_that_of_the_input() -> None:
    words = " ".join(pipe("--help")[0].decode().split())
    assert "--memory SIZE upper limit on the memory used, such as 500MB" in words
    assert "order of the output: input (default): that of the input; any: buffers are written as soon as" in words
    # As it says: results do not depend on it, and with two of them the output has the order of the input.
    data = random.Random(1).randbytes(3_000_000)
    for order in ("input", "any", "none", "output", "execution", "both"):
        out, said = pipe("--copy", "--order", order, "--buffer", "4kB", "--workers", "4", "md5", data=data)
        assert said.split()[0] == hashlib.md5(data).hexdigest()
        assert len(out) == len(data)
        if order in ("input", "output", "both"):
            assert out == data
