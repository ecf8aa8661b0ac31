"""``isochrony import --follow`` in a process: what comes is readable soon, and Ctrl-C leaves all in order."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from processes import PROGRAM, wait_for

RAW = ["--layout", "{station}_{epoch}.raw", "--dtype", "<i2", "--rate", "100"]
NUMPY = ["--format", "numpy", "--layout", "{station}_{epoch}.npy", "--rate", "100"]
START = 1_267_401_600


def write(folder: Path, suffix: str, number: int) -> None:
    samples = np.arange(500, dtype="<i2") + number
    passing = folder / f".new{suffix}"
    if suffix == ".npy":
        with passing.open("wb") as file:
            np.save(file, samples)
    else:
        passing.write_bytes(samples.tobytes())
    passing.rename(folder / f"stn_{(START + 5 * number) * 10**6}{suffix}")


@pytest.mark.parametrize(("suffix", "options"), [(".raw", RAW), (".npy", NUMPY)])
def test_what_comes_is_readable_and_ctrl_c_ends_with_the_summary(
    suffix: str, options: list[str], tmp_path: Path
) -> None:
    source, store = tmp_path / "live", tmp_path / "live.iso"
    source.mkdir()
    # A raw file is known to be complete once a later one is there.
    ahead = 1 if suffix == ".raw" else 0
    for number in range(1 + ahead):
        write(source, suffix, number)
    command = [sys.executable, "-c", PROGRAM, "import", str(source), str(store), *options, "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(store, 500)
            write(source, suffix, 1 + ahead)
            wait_for(store, 1000)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert "stn" in out
    assert "2 files" in err
    assert "Traceback" not in err
    # Closed clean: nobody is named as its holder, and it is sound.
    assert not (store / ".isochrony" / "LOCK").read_text().strip()
    assert iso.verify(store)["damage"] == []


def test_a_followed_table_that_grows_is_taken_once_and_row_by_row(tmp_path: Path) -> None:
    """104 rows in five parts, each of which ends in the middle of a row but the last."""
    source, store = tmp_path / "live", tmp_path / "live.iso"
    source.mkdir()
    rows = [f"2020-01-01T00:{k // 60:02}:{k % 60:02}.000Z,{1000 + k}\n" for k in range(104)]
    text = "time,v\n" + "".join(rows)
    # In the middle of a number, of a time, and right before an end of line.
    whole = [len("time,v\n") + sum(map(len, rows[:k])) for k in (20, 41, 63, 80)]
    cuts = [whole[0] + len(rows[20]) - 3, whole[1] + 12, whole[2] + len(rows[63]) - 1, whole[3] + len(rows[80]) - 2]
    path = source / "stn.csv"
    path.write_text(text[: cuts[0]])
    command = [sys.executable, "-c", PROGRAM, "import", str(source), str(store), "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            for known, begin, end in zip((20, 41, 63, 80), cuts, [*cuts[1:], len(text)], strict=True):
                wait_for(store, known)
                with path.open("a") as file:
                    file.write(text[begin:end])
            wait_for(store, 104)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    stn = iso.open(store)["stn"]
    assert np.asarray(stn[:].values()).tolist() == [1000 + k for k in range(104)]
    assert (len(stn.gaps), len(stn.runs())) == (0, 1)
    assert str(stn.time_of(103).ns) == str(iso.Time("2020-01-01T00:01:43Z").ns)
