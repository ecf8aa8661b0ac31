"""``isochrony pipe`` between files: names, records, progress, and what is left after an error or Ctrl-C."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from isochrony.output.progress import count_text

ISOCHRONY = [sys.executable, "-m", "isochrony", "pipe"]
DATA = hashlib.shake_128(b"files").digest(700_000)


def pipe(*words: object, data: bytes = b"", code: int = 0) -> tuple[bytes, str]:
    done = subprocess.run([*ISOCHRONY, *map(str, words)], input=data, capture_output=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").write_bytes(DATA)
    return tmp_path


def test_a_file_becomes_a_file(folder: Path) -> None:
    digest = hashlib.sha256(DATA).hexdigest()
    out, said = pipe("gzip", "sha256", "--in", folder / "in", "--out", folder / "out.gz")
    # Results go to standard output, since the stream does not.
    assert f"{digest}  sha256" in out.decode().splitlines()
    assert said == ""
    packed, whole = (folder / "out.gz").read_bytes(), bytearray()
    while packed:
        member = zlib.decompressobj(31)
        whole += member.decompress(packed)
        packed = member.unused_data
    assert whole == DATA
    assert pipe("sha256", "--in", folder / "in") == (f"{digest}  sha256\n".encode(), "")
    assert pipe("sha256", "--in", folder / "in", "--out", folder / "copy")[0] == f"{digest}  sha256\n".encode()
    assert (folder / "copy").read_bytes() == DATA
    assert sorted(path.name for path in folder.iterdir()) == ["copy", "in", "out.gz"]


def test_several_inputs_are_read_one_after_another(folder: Path) -> None:
    (folder / "more").write_bytes(b"more")
    out, _ = pipe("--in", folder / "more", "--in", "-", "--in", folder / "in", data=b" and ")
    assert out == b"more and " + DATA


def test_a_file_that_exists_is_replaced_only_by_force(folder: Path) -> None:
    out = folder / "out"
    out.write_bytes(b"precious")
    _, said = pipe("--in", folder / "in", "--out", out, code=2)
    assert said == f"isochrony: {out} exists; name another file, or replace it with --force\n"
    assert out.read_bytes() == b"precious"
    pipe("--in", folder / "in", "--out", out, "--force")
    assert out.read_bytes() == DATA
    # Also where it is what is read.
    pipe("--in", out, "--out", out, "--force")
    assert out.read_bytes() == DATA


def records(*words: object, data: bytes) -> int:
    return int(json.loads(pipe("--json", "crc32c", *words, data=data)[0])["records"])


def test_records_are_those_of_the_framing() -> None:
    lines = b"one\r\ntwo\r\n\r\nfour"
    assert records("--delimiter", r"\r\n", data=lines) == 4
    assert records("--delimiter", r"\x0a", data=lines) == 4
    assert records("--delimiter", "o", data=lines) == 4
    assert records("--record-size", 5, data=lines) == records("--stride", 5, data=lines) == 4
    assert records("--prefix", "varint", data=b"\x03abc\x00\x81\x00!") == 3
    assert records("--prefix", ">u2", data=b"\x00\x03abc\x00\x00") == 2
    assert records("--delimiter", r"\\", data=rb"a\b") == 2
    assert records("--delimiter", "ö", data="söß".encode()) == 2


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--in", "none"], 3, "input 'none' does not exist; check the path"),
        (["--in", "/etc/passwd/x"], 3, "input '/etc/passwd/x': Not a directory; check the path"),
        (["--in", ""], 2, "--in: the path is empty"),
        (["--in", "."], 3, "input '.' is a folder; give the path of a file"),
        (["--out", "-"], 2, "--out: '-' is not a file"),
        (["--out", "none/out"], 3, "none/out: No such file or directory"),
        (["--force"], 2, "--force replaces the files of --out and --save-configuration, which are"),
        (["--copy", "--out", "out", "gzip"], 2, "both write to the output; leave out one of them"),
        (["--delimiter", ""], 2, "--delimiter: the text is empty"),
        (["--delimiter", r"\q"], 2, r"'\q' in '\\q' is not an escape sequence"),
        (["--delimiter", "\\"], 2, "is not an escape sequence"),
        (["--delimiter", "a", "--prefix", "u1"], 2, "--prefix: not allowed with argument --delimiter"),
        (["--record-size", "0"], 2, "--record-size '0' is refused; give bytes from 1"),
        (["--stride", "0"], 2, "--record-size '0' is refused; give bytes from 1"),
        (["--prefix", "u3"], 2, "--prefix 'u3' is refused"),
        (["--max-length", "5"], 2, "--max-length"),
        (["--prefix", "u1", "--max-length", "much"], 2, "--max-length 'much' is refused"),
        (
            ["--prefix", "varint", "--max-length", "1", "crc32c"],
            3,
            "at byte 0 gives a length of 9 bytes, but --max-length 1",
        ),
        (["--delimeter", "x"], 2, "did you mean --delimiter?"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_no_file(words: list[str], code: int, says: str, tmp_path: Path) -> None:
    done = subprocess.run([*ISOCHRONY, *words], input=b"\x09something", capture_output=True, timeout=120, cwd=tmp_path)
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (code, b""), said
    assert says in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_no_output_and_what_was_there(folder: Path) -> None:
    (folder / "old").write_bytes(b"precious")
    packed = subprocess.run(["gzip", "-c"], input=DATA, capture_output=True, check=True, timeout=120).stdout
    (folder / "cut.gz").write_bytes(packed[: len(packed) // 2])
    for name in ("old", "new"):
        _, said = pipe(
            "gunzip", "--in", folder / "cut.gz", "--out", folder / name, "--force", "--buffer", "50kB", code=3
        )
        assert said.endswith(f"; {folder / name} was not written\n") and said.count("\n") == 1, said
    assert (folder / "old").read_bytes() == b"precious"
    assert sorted(path.name for path in folder.iterdir()) == ["cut.gz", "in", "old"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_output_and_what_was_there(number: signal.Signals, folder: Path) -> None:
    out = folder / "out"
    out.write_bytes(b"precious")
    child = subprocess.Popen(
        [*ISOCHRONY, "--eager", "--out", out, "--force"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdin is not None
    try:
        child.stdin.write(b"x" * 5000)
        child.stdin.flush()
        # Until a part is written, under another name.
        deadline = time.monotonic() + 60
        while not [path for path in folder.iterdir() if path.name.startswith(".") and path.stat().st_size == 5000]:
            assert time.monotonic() < deadline, list(folder.iterdir())
            time.sleep(0.01)
        assert out.read_bytes() == b"precious"
        child.send_signal(number)
        _, said = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    if number == signal.SIGINT:
        assert child.returncode == 130
        assert said.decode() == f"isochrony: interrupted; {out} was not written\n"
    else:
        assert child.returncode == -signal.SIGTERM
    assert out.read_bytes() == b"precious"
    assert sorted(path.name for path in folder.iterdir()) == ["in", "out"]


def test_progress_is_drawn_on_a_terminal_alone(folder: Path) -> None:
    _, said = pipe("--progress", "md5", "--in", folder / "in")
    assert said == ""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*ISOCHRONY, "--progress", "--eager", "md5"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    assert child.stdin is not None and child.stdout is not None
    try:
        drawn = b""
        child.stdin.write(DATA)
        child.stdin.flush()
        while b"B/s" not in drawn:
            drawn += os.read(ours, 10_000)
        child.stdin.close()
        assert child.stdout.read() == f"{hashlib.md5(DATA).hexdigest()}  md5\n".encode()
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        os.close(ours)


def test_a_configuration_is_found_saved_and_applied(folder: Path) -> None:
    saved, digest = folder / "here.json", hashlib.sha256(DATA).hexdigest()
    words = ["sha256", "--in", folder / "in", "--out", folder / "copy"]
    out, said = pipe(*words, "--tune", "recommend", "--save-configuration", saved)
    assert out.decode() == f"{digest}  sha256\n"
    found = json.loads(saved.read_text())
    assert said.splitlines()[-1].startswith(f"tuning: {count_text(found['workers'], 'worker')}, buffers of ")
    saved.write_text(json.dumps(found | {"buffer_bytes": 65536}))
    out, said = pipe(*words, "--tune", saved, "--force", "--json")
    report = json.loads(out)
    assert (report["buffer_bytes"], report["tuning"]["configuration"]["buffer_bytes"]) == (65536, 65536)
    assert report["tuning"]["decisions"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--save-configuration", "F"], "--save-configuration F needs --tune"),
        (
            ["--tune", "maybe"],
            "--tune 'maybe' is refused, since there is no such file; give yes, no, recommend, or the file",
        ),
        (["--tune", "in"], "--tune 'in' cannot be read as a configuration: "),
        (
            ["--tune", "yes", "--workers", "1", "--buffer", "64kB"],
            "--tune yes is refused with both --workers and --buffer",
        ),
        (["--tune", "yes", "--save-configuration", "in"], "in exists"),
    ],
)
def test_wrong_tuning_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str) -> None:
    monkeypatch.chdir(folder)
    out, said = pipe("sha256", *words, data=DATA, code=2)
    assert (out, message in said) == (b"", True), said
    assert (folder / "in").read_bytes() == DATA


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_results_are_printed_also_where_the_configuration_cannot_be_saved(folder: Path, more: list[str]) -> None:
    words = ["crc32c", "--in", folder / "in", "--tune", "recommend", "--save-configuration", "/dev/full", *more]
    done = subprocess.run([*ISOCHRONY, *map(str, words)], capture_output=True, timeout=120)
    assert done.returncode == 3
    assert b"crc32c" in done.stdout
    assert b"/dev/full: No space left on device; free some space" in done.stderr
