"""N-buffering: the memory limit, as the system counts it, of a process that runs `nbuffer`."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

MEMORY = """
import threading, time
import isochrony as iso

def own():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return sum(int(lines[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))

iso.nbuffer(b"abc", ["sha256"]).results
most, done = 0, False
def watch():
    global most
    while not done:
        most = max(most, own())
        time.sleep(0.002)
before = own()
thread = threading.Thread(target=watch)
thread.start()
records = 0
try:
    with open({path!r}, "rb") as src, open("/dev/null", "wb") as dst:
        records = iso.nbuffer(src, {process}, dst, memory="24MB", {options}).records
except (iso.OptionError, iso.NBufferError) as error:
    print(error)
else:
    print(records, "records")
done = True
thread.join()
print(most - before)
"""


def run(path: Path, process: str, options: str) -> str:
    """What a run with 24 MB of memory says; its growth was looked at."""
    with path.open("wb") as file:
        file.truncate(200_000_000)
    program = textwrap.dedent(MEMORY).format(path=str(path), process=process, options=options)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    said, growth = done.stdout.splitlines()
    assert int(growth) <= 24_000_000 + 16_000_000, said
    return said


@pytest.mark.parametrize("process", ["lambda view: view", "None", "lambda view: bytes(view)", "['md5', 'zstd']"])
@pytest.mark.parametrize("workers", [2, 6])
def test_memory_stays_within_the_limit_and_sixteen_megabytes(process: str, workers: int, tmp_path: Path) -> None:
    assert run(tmp_path / "big", process, f"stride=1000, batch=True, workers={workers}") == "200000 records"


# What would take 50 MB and more if it were let.
@pytest.mark.parametrize(
    ("process", "options", "says"),
    [
        ("lambda view: view", "delimiter=b'#', workers=1", "the record at byte 0 does not end within a buffer"),
        ("None", "delimiter=b'#', workers=1", "the record at byte 0 does not end within a buffer"),
        ("lambda view: view", "stride=50_000_000, workers=1", "memory=24000000 bytes are too few"),
    ],
)
def test_what_needs_more_than_the_limit_is_refused(process: str, options: str, says: str, tmp_path: Path) -> None:
    assert says in run(tmp_path / "big", process, options)


# Three workers with a buffer and a result each would take more than 40 MB; so would three that compress like this.
@pytest.mark.parametrize(
    ("process", "options", "records"),
    [
        ("lambda view: bytes(view)", "stride=7_000_000, buffer=7_000_000", 29),
        ("'zstd:12'", "stride=1000", 200_000),
    ],
)
def test_workers_and_buffers_are_what_memory_is_for(process: str, options: str, records: int, tmp_path: Path) -> None:
    assert run(tmp_path / "big", process, options) == f"{records} records"
