"""An import of files that is interrupted, and run again, gives what one that was not interrupted gives."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli import main
from processes import PROGRAM

FILES, SAMPLES = 1500, 50
START = 1_267_401_600
OPTIONS = ["--format", "numpy", "--layout", "{station}_{epoch}.npy", "--rate", "100", "--json"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A recording of half a second a file, with an outage of a minute in its middle."""
    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(FILES):
        ns = START * 10**9 + number * 500_000_000 + (60_000_000_000 if number >= FILES // 2 else 0)
        np.save(folder / f"stn_{ns // 1000}.npy", np.arange(number, number + SAMPLES, dtype="<i2"))
    return folder


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_import_resumes(
    how: signal.Signals, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, store = tmp_path / "whole.iso", tmp_path / "stopped.iso"
    assert main(["import", str(source), str(whole), *OPTIONS]) == 0
    command = [sys.executable, "-c", PROGRAM, "import", str(source), str(store), *OPTIONS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not any((store / ".isochrony" / "staging").glob("*/data/c/*")) and time.monotonic() < until:
            time.sleep(0.002)
        process.send_signal(how)
        _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    if how is signal.SIGINT:
        assert process.returncode == 130
        assert "the same command resumes" in said
        # What was done by then is committed.
        with iso.open(store) as opened:
            assert 0 < opened["stn"].sample_count < FILES * SAMPLES
    else:
        assert process.returncode == -signal.SIGKILL
    capsys.readouterr()
    assert main(["import", str(source), str(store), *OPTIONS]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["files"] + summary["skipped"] == FILES
    assert (summary["skipped"] > 0) is (how is signal.SIGINT)
    assert iso.verify(store)["damage"] == []
    with iso.open(whole) as expected, iso.open(store) as opened:
        a, b = expected["stn"], opened["stn"]
        assert b.sample_count == FILES * SAMPLES
        assert [(gap.start, gap.length) for gap in b.gaps] == [(gap.start, gap.length) for gap in a.gaps]
        assert [(run.start, run.end, run.reason) for run in b.runs()] == [
            (run.start, run.end, run.reason) for run in a.runs()
        ]
        assert np.array_equal(a[:].values(fill=-1), b[:].values(fill=-1))
        assert b.time_of(b.end_index - 1) == a.time_of(a.end_index - 1)
