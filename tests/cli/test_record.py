"""``isochrony record`` and ``isochrony send``: a signal goes over a real socket from one store into another."""

from __future__ import annotations

import json
import os
import signal as signals
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from hostile_feed import frame
from isochrony.cli import main
from isochrony.cli.exits import Exit
from processes import PROGRAM, unshare, wait_for

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
        (["send", "{sent}/stn/mic", "udp://127.0.0.1:9", "--jitter", "61"], Exit.USAGE, "--jitter"),
        (["send", "{sent}/stn/mic", "udp://127.0.0.1:9", "--speed", "-1"], Exit.USAGE, "--speed"),
        (["send", "{sent}/stn/mic", "nowhere"], Exit.USAGE, "udp://HOST:PORT"),
        (["send", "{sent}/stn/none", "udp://127.0.0.1:9"], Exit.USAGE, "no signal"),
        (["send", "{new}/a", "udp://127.0.0.1:9"], Exit.USAGE, "does not exist"),
        (["send", "{sent}/stn/mic", "tcp://127.0.0.1:1"], Exit.STORE, "start the receiver first"),
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


@pytest.mark.parametrize("dtype", ["0001-01-01", "(1,)(", "2**99i", "(", "f4,", "much"])
def test_a_type_that_numpy_does_not_know_is_a_wrong_option(
    dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["record", "udp://127.0.0.1:0", str(tmp_path / "a.iso"), "a", "--dtype", dtype, "--rate", "100"]
    assert main([*line, "--silence", "0.01"]) == 2
    assert "dtype" in capsys.readouterr().err


SMALL_DISK = """
mount -t tmpfs -o size=6m none disk
"$@" < feed
echo "code $?"
python=$1
"$python" -c "import sys; from isochrony.cli import main; sys.exit(main())" verify disk/a.iso > verified 2>&1
echo "verify $?"
exec "$python" -c "
import sys, isochrony as iso
with iso.open('disk/a.iso') as store:
    open('kept', 'wb').write(store['a'].counts[:].tobytes())
"
"""


def test_a_disk_that_fills_up_ends_a_recording_and_keeps_what_was_committed(tmp_path: Path) -> None:
    mounted = unshare()
    if mounted is None:
        pytest.skip("needs a mount of its own, which is not permitted here")
    (tmp_path / "disk").mkdir()
    os.mkfifo(tmp_path / "feed")
    line = ["record", "-", "disk/a.iso", "a", "--dtype", "u1", "--rate", "1000000", "--framing", "raw"]
    process = subprocess.Popen(
        [*mounted, "bash", "-c", SMALL_DISK, "bash", sys.executable, "-c", PROGRAM, *line],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # Numbers that do not compress, at 1.5 MB/s: the fourth or fifth commit finds no room.
    samples = np.random.default_rng(7).integers(0, 256, 20_000_000, dtype="u1").tobytes()
    try:
        with (tmp_path / "feed").open("wb", buffering=0) as feed:
            for at in range(0, len(samples), 75_000):
                feed.write(samples[at : at + 75_000])
                time.sleep(0.05)
    except BrokenPipeError:
        pass
    out, err = process.communicate(timeout=120)
    said = [line for line in err.splitlines() if not line.startswith("listening at ")]
    assert out == "code 3\nverify 0\n", (out, err, (tmp_path / "verified").read_text())
    assert len(said) == 1 and "disk is full; free some space" in said[0], err
    kept = (tmp_path / "kept").read_bytes()
    assert len(kept) > 1_500_000, "what earlier commits had"
    assert samples.startswith(kept)


@pytest.mark.parametrize("what", ["index", "stamp", "end", "counter"])
def test_one_datagram_from_afar_ends_no_recording(what: str, tmp_path: Path) -> None:
    got = tmp_path / "got.iso"
    framing = ">u4" if what == "counter" else "isochrony"
    process, address = recording(
        "udp://127.0.0.1:0",
        str(got),
        "a",
        "--dtype",
        "i4",
        "--rate",
        "1000",
        "--framing",
        framing,
        "--silence",
        "3",
        "--json",
    )
    to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    to.connect(("127.0.0.1", int(address.rpartition(":")[2])))
    begin = 1_767_225_600_000_000_000
    values = np.arange(20_000, dtype="<i4")
    stray = np.full(100, -1, dtype="<i4").tobytes()
    for number in range(200):
        part = values[100 * number : 100 * number + 100].tobytes()
        if number == 77:
            far = {
                "index": frame(5, 1 << 61, stray, time_ns=begin),
                "stamp": frame(5, 7700, stray, time_ns=1 << 62),
                "end": frame(5, 1 << 50, b"", end=True),
                "counter": struct.pack(">I", 1 << 31) + stray,
            }
            to.send(far[what])
        if what == "counter":
            to.send(struct.pack(">I", number) + part)
        else:
            to.send(frame(5, 100 * number, part, time_ns=begin + number * 10**8))
        time.sleep(0.005)
    if what != "counter":
        to.send(frame(5, len(values), b"", end=True))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    counts = json.loads(out)["counts"]
    assert (counts["samples"], counts["malformed_frames"], counts["lost_samples"]) == (20_000, 1, 0), counts
    with iso.open(got) as store:
        assert np.array_equal(store["a"].counts[:], values)
        assert len(store["a"].gaps) == 0 and len(store["a"].runs()) == 1
