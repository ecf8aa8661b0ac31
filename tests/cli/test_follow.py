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
