"""Standard streams as a shell may leave them: full, closed, or left by their reader. One line says so, and no trace."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso

ISOCHRONY = f"'{sys.executable}' -m isochrony"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("output") / "a.iso"
    with iso.open(path, "x") as store:
        store.create("a", dtype="i2", rate=100, start="2020-01-01").append(np.arange(40_000, dtype="i2"))
    return path


def shell(line: str, store: Path) -> subprocess.CompletedProcess[str]:
    line = line.replace("isochrony", ISOCHRONY, 1).replace("STORE", f"'{store}'")
    # As people have it, unless a test says otherwise.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, env=own
    )


PRINTING = (
    "isochrony --version",
    "isochrony info --help",
    "isochrony info STORE",
    "isochrony scan STORE/a --window 10",
    "isochrony scan STORE/a --window 10 --json",
    "isochrony pipe sha256",
    "isochrony pipe --json md5",
)


@pytest.mark.parametrize("line", (*PRINTING, "PYTHONUNBUFFERED=1 isochrony info STORE"))
def test_a_full_disk_is_told_in_one_line(line: str, store: Path) -> None:
    done = shell(f"{line} > /dev/full", store)
    assert done.stderr == "isochrony: standard output: No space left on device; free some space and try again\n"
    assert done.returncode == 3


@pytest.mark.parametrize("line", PRINTING)
def test_a_closed_output_is_told_in_one_line_and_writes_into_no_other_file(line: str, store: Path) -> None:
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    done = shell(f"{line} >&-", store)
    assert done.stderr == (
        "isochrony: standard output: Bad file descriptor; the stream is closed: redirect it to a file or a pipe\n"
    )
    assert done.returncode == 3
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("line", PRINTING)
def test_a_reader_that_leaves_is_no_error(line: str, store: Path) -> None:
    done = shell(f"{line} | true; exit ${{PIPESTATUS[0]}}", store)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("line", ["isochrony pipe", "isochrony pipe --copy sha256", "isochrony pipe zstd"])
def test_a_stream_to_nowhere_names_it(line: str, store: Path) -> None:
    for nowhere, said in ((">&-", "; the stream is closed: redirect it"), ("> /dev/full", "; free some space")):
        done = shell(f"{line} < STORE/zarr.json {nowhere}", store)
        assert done.returncode == 3
        assert done.stderr.startswith("isochrony: cannot write output 0 (descriptor 1) after 0 bytes: ")
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def test_input_that_is_closed_is_told_in_one_line(store: Path) -> None:
    done = shell("isochrony pipe sha256 <&-", store)
    assert done.returncode == 3
    assert done.stderr.startswith("isochrony: cannot read input 0 (descriptor 0) at byte 0: Bad file descriptor")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("errors", ["2>&-", "2> /dev/full"])
def test_where_errors_cannot_be_told_the_status_says_so(errors: str, store: Path) -> None:
    assert shell(f"isochrony info STORE/none {errors}", store).returncode == 2
    done = shell(f"isochrony info STORE {errors}", store)
    assert done.returncode == 0
    assert "a" in done.stdout


HOSTILE = "a\x1b[31m\x07\x9b2J\u202egnp.\udcff"


def test_no_argument_and_no_name_of_a_file_reaches_a_terminal_as_a_command(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / HOSTILE.replace("\udcff", "")
    folder.mkdir()
    (folder / f"{HOSTILE}.csv").write_text("no recording\n")
    lines = [
        ["info", HOSTILE],
        ["info", f"{store}/{HOSTILE}"],
        [HOSTILE],
        ["info", f"--{HOSTILE}"],
        ["export", f"{store}/{HOSTILE}", "--out", HOSTILE],
        ["scan", f"{store}/a", "--window", HOSTILE],
        ["plot", f"{store}/a", "--out", HOSTILE],
        ["run", HOSTILE],
        ["import", str(folder), str(tmp_path / f"{HOSTILE}.iso")],
        ["import", str(folder / HOSTILE), str(tmp_path / "b.iso")],
        ["verify", HOSTILE],
        ["send", f"{store}/a", HOSTILE],
        ["record", "udp://127.0.0.1:0", str(tmp_path / "c.iso"), "--dtype", HOSTILE],
        ["calibrate", "--dir", HOSTILE],
        ["demo", "--from", HOSTILE, "--dir", HOSTILE],
        ["pipe", HOSTILE],
    ]
    for line in lines:
        # To a terminal, both outputs.
        controller, terminal = pty.openpty()
        command = [sys.executable, "-m", "isochrony", *line]
        arguments = [os.fsencode(one) for one in command]
        with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal) as child:
            os.close(terminal)
            said = b""
            # A terminal whose other side is gone is an error when it is read.
            with contextlib.suppress(OSError):
                while got := os.read(controller, 4096):
                    said += got
            assert child.wait(60) in (1, 2, 3), (line, said)
        os.close(controller)
        text = said.decode("utf-8", "surrogateescape")
        bad = [one for one in text if not one.isprintable() and one not in "\r\n\t"]
        assert not bad, (line, text)
        assert text.strip(), line
