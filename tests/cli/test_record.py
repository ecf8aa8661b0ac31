"""``isochrony record`` and ``isochrony send``: a signal goes over a real socket from one store into another."""

from __future__ import annotations

import json
import signal as signals
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli import main
from isochrony.cli.exits import Exit
from processes import PROGRAM, wait_for

RATE = 2000


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    path = tmp_path / "sent.iso"
    with iso.open(path, "x") as store:
        signal = store.create("stn/mic", dtype="i2", rate=RATE, unit="Pa", start="2026-01-01")
        signal.append(np.arange(4000, dtype="i2"))
        signal.append_gap(samples=300)
        signal.append(np.arange(4300, 8000, dtype="i2"))
        store.commit()
    return path


def recording(*line: str) -> tuple[subprocess.Popen[str], str]:
    """A process that records, and where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "record", *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    assert said.startswith("listening at "), said + process.stderr.read()
    return process, said.split()[2].rstrip(";")


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
def test_what_is_sent_is_recorded(sent: Path, tmp_path: Path, scheme: str, capsys: pytest.CaptureFixture[str]) -> None:
    got = tmp_path / "got.iso"
    process, address = recording(
        f"{scheme}://127.0.0.1:0", str(got), "a/mic", "--dtype", "i2", "--rate", "2000", "--unit", "Pa", "--json"
    )
    assert main(["send", f"{sent}/stn/mic", address, "--speed", "8"]) == 0
    assert "7,700 samples sent" in capsys.readouterr().err
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    said = json.loads(out)
    assert said["counts"]["samples"] == 7700
    assert said["counts"]["lost_samples"] == 0
    with iso.open(got) as store, iso.open(sent) as source:
        there, here = store["a/mic"], source["stn/mic"]
        assert there.unit == "Pa"
        assert np.array_equal(there[:].values(), here[:].values(), equal_nan=True)
        assert abs(there.time_of(5000).ns - here.time_of(5000).ns) < 10_000


def test_ctrl_c_keeps_what_came_and_the_same_command_goes_on_behind_a_gap(tmp_path: Path) -> None:
    got = tmp_path / "got.iso"
    samples = np.arange(30_000, dtype="i2")
    ends = []
    for _ in range(2):
        process, address = recording("udp://127.0.0.1:0", str(got), "mic", "--dtype", "i2", "--rate", "2000")
        send = iso.scan(samples, rate=RATE, segment=50).send(address, speed=1)
        sending = threading.Thread(target=send.limit(5000).run, daemon=True)
        sending.start()
        wait_for(got, 1 + sum(ends), "mic")
        time.sleep(0.4)
        process.send_signal(signals.SIGINT)
        out, err = process.communicate(timeout=30)
        sending.join()
        assert process.returncode == 0, err
        assert "Traceback" not in err and "nothing lost" in out, (out, err)
        with iso.open(got) as store:
            ends.append(store["mic"].sample_count - sum(ends))
        told = int(out.split(": ")[1].split(" ")[0].replace(",", ""))
        # What had arrived is stored, also what the last second's commit did not have yet.
        assert told == ends[-1] > 500
    with iso.open(got) as store:
        signal = store["mic"]
        assert len(signal.gaps) + len(signal.runs()) == 2
        values = signal[:].values()
        values = values[np.isfinite(values)]
        assert np.array_equal(values, [*range(ends[0]), *range(ends[1])])


def test_losses_are_told(sent: Path, tmp_path: Path) -> None:
    got = tmp_path / "got.iso"
    process, address = recording(
        "udp://127.0.0.1:0", str(got), "mic", "--dtype", "i2", "--rate", "2000", "--silence", "5"
    )
    line = ["send", f"{sent}/stn/mic", address, "--speed", "8", "--frame", "20", "--loss", "0.2", "--seed", "3"]
    assert main(line) == 0
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "lost samples" in out
    with iso.open(got) as store:
        assert store["mic"].sample_count < 7700


def test_samples_of_a_pipe_are_recorded(tmp_path: Path) -> None:
    got = tmp_path / "got.iso"
    line = ["record", "-", str(got), "adc", "--dtype", ">i2", "--rate", "1e3", "--framing", "raw"]
    samples = np.arange(5000, dtype=">i2")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *line], input=samples.tobytes(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with iso.open(got) as store:
        assert np.array_equal(store["adc"].counts[:], samples)


@pytest.mark.parametrize(
    ("line", "code", "part"),
    [
        (["record", "udp://127.0.0.1:0", "{new}", "mic", "--rate", "5"], Exit.USAGE, "--dtype"),
        (
            ["record", "udp://127.0.0.1:0", "{new}", "mic", "--dtype", "loud", "--rate", "5"],
            Exit.USAGE,
            "--dtype 'loud'",
        ),
        (["record", "udp://127.0.0.1:0", "{new}", "mic", "--dtype", "i2", "--rate", "x"], Exit.USAGE, "rate"),
        (["record", "udp://0.0.0.0:0", "{new}", "mic", "--dtype", "i2", "--rate", "5"], Exit.USAGE, "--anyone"),
        (["record", "http://x", "{new}", "mic", "--dtype", "i2", "--rate", "5"], Exit.USAGE, "udp://HOST:PORT"),
        (["record", "seedlink://x/XX", "{new}", "mic"], Exit.USAGE, "NET.STA.LOC.CHA"),
        (
            ["record", "udp://127.0.0.1:0", "{new}", "data", "--dtype", "i2", "--rate", "5", "--silence", "0.1"],
            Exit.STORE,
            "data",
        ),
        (["record", "udp://127.0.0.1:0", "{new}", "mic", "--framing", "vita"], Exit.USAGE, "--framing"),
        (["send", "{sent}/stn/mic", "udp://127.0.0.1:9", "--loss", "2"], Exit.USAGE, "--loss"),
        (["send", "{sent}/stn/mic", "udp://127.0.0.1:9", "--speed", "-1"], Exit.USAGE, "--speed"),
        (["send", "{sent}/stn/mic", "nowhere"], Exit.USAGE, "udp://HOST:PORT"),
        (["send", "{sent}/stn/none", "udp://127.0.0.1:9"], Exit.USAGE, "no signal"),
        (["send", "{new}/a", "udp://127.0.0.1:9"], Exit.USAGE, "no such store"),
        (["send", "{sent}/stn/mic", "tcp://127.0.0.1:1"], Exit.STORE, "start what listens first"),
    ],
)
def test_mistakes_are_one_line_and_leave_no_store(
    line: list[str], code: Exit, part: str, sent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new.iso"
    status = main([word.format(new=new, sent=sent) for word in line])
    err = capsys.readouterr().err
    said = [line for line in err.splitlines() if not line.startswith("listening at ")]
    assert status == code, err
    assert len(said) == 1 and part in said[0]
    assert not new.exists()


def test_completion_knows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert "--framing" in script and "--jitter" in script and "record" in script and "send" in script
