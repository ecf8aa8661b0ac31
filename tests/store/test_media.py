"""Full, read-only and vanished media: every call says so in one error, and the store stays as last committed.

Each test runs in a process with namespaces of its own (``unshare -Urm``), in which it may mount
a small file system without being root.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Outcome = dict[str, str]

# What every test begins with: a store of one committed signal on a file system of 24 MiB.
_PRELUDE = """
import json, subprocess, sys
from pathlib import Path
import numpy as np
import isochrony as iso

place = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place], check=True)
path = place / "s.iso"
said = {}

def call(name, function):
    try:
        function()
        said[name] = ""
    except iso.IsochronyError as error:
        said[name] = f"{error.code}: {error}"
    except OSError as error:
        said[name] = f"not ours: {error!r}"

block = np.arange(1 << 20, dtype="i2")
store = iso.open(path, "x")
signal = store.create("a/b", dtype="i2", rate=1000, start="2020-01-01")
signal.append(block[:100_000])
store.commit()
"""

_WRITES = """
def writes():
    call("append", lambda: signal.append(block))
    call("commit", store.commit)
    call("create", lambda: store.create("c/d", dtype="f8", rate=10).append(np.zeros(1 << 20)))
    call("seal", signal.seal)
    call("scratch", lambda: store.scratch(dtype="i2", rate=10).append(block))
    call("commit again", store.commit)
    call("close", store.close)
"""


@pytest.fixture
def on_small_medium(tmp_path: Path) -> Callable[[str], Outcome]:
    """Runs a script after the prelude and gives what it said, or skips where mounting is not allowed."""
    allowed = ["unshare", "-Urm", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    try:
        tried = subprocess.run(allowed, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("unshare is not installed: full and read-only media are not tested")
    if tried.returncode:
        pytest.skip(f"this machine allows no user namespaces with mounts: {tried.stderr.strip()}")
    place = tmp_path / "medium"
    place.mkdir()

    def run(body: str) -> Outcome:
        script = _PRELUDE + _WRITES + body + "\nprint(json.dumps(said))\n"
        line = ["unshare", "-Urm", sys.executable, "-c", script, str(place)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        said: Outcome = json.loads(done.stdout.splitlines()[-1])
        for name, message in said.items():
            assert "\n" not in message, name
            assert not message.startswith("not ours"), f"{name}: {message}"
        return said

    return run


def test_a_full_disk_fails_every_write_in_one_error_and_changes_nothing(
    on_small_medium: Callable[[str], Outcome],
) -> None:
    said = on_small_medium("""
def fill():
    for _ in range(100):
        signal.append(block)
call("fill", fill)
writes()
# What was committed is all there.
reader = iso.open(path)
said["count"] = str(reader["a/b"].sample_count)
said["same"] = str(np.array_equal(np.asarray(reader["a/b"].counts[:100_000]), block[:100_000]))
said["damage"] = " ".join(sorted({found["code"] for found in iso.verify(path)["damage"]}))
# Room again: the next writer brings up to date what other programs read.
subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
iso.open(path, "a").close()
said["damage with room"] = str(iso.verify(path)["damage"])
""")
    assert said["fill"].startswith("disk_full: ")
    assert "free" in said["fill"]
    assert said["same"] == "True"
    assert said["damage"] in ("", "stale_metadata"), "zarr.json may be behind: there was no room to write it"
    assert said["damage with room"] == "[]"
    assert int(said["count"]) >= 100_000
    assert int(said["count"]) % (1 << 20) == 100_000


def test_a_repair_on_a_full_disk_loses_nothing_that_it_does_not_tell(
    on_small_medium: Callable[[str], Outcome],
) -> None:
    said = on_small_medium("""
def repaired(name):
    line = [sys.executable, "-m", "isochrony", "verify", path, "--repair", "--json"]
    done = subprocess.run(line, capture_output=True, text=True)
    said[name] = str(done.returncode)
    lost = json.loads(done.stdout)["lost"] if done.stdout else []
    said[name + " lost"] = str(sum(loss["samples"] for loss in lost))
    said[name + " said"] = " ".join((done.stdout + done.stderr).split())
store.close()
(path / "a/b/data/c/0").unlink()
with (place / "filler").open("wb", buffering=0) as file:
    for size in (1 << 16, 1 << 12, 1):
        try:
            while True:
                file.write(bytes(size))
        except OSError:
            pass
repaired("full")
said["left"] = iso.verify(path)["verdict"]
(place / "filler").unlink()
repaired("room")
said["after"] = iso.verify(path)["verdict"]
events = [event for event in iso.open(path)["a/b"].events if event.kind == "samples_lost"]
said["events"] = str(len(events))
""")
    if said["full"] == "6":
        assert said["full lost"] == "100000"
    else:
        # Nothing was given up: the loss is still to be found.
        assert said["full"] in ("1", "3"), said
        assert "disk is full" in said["full said"]
        assert said["full lost"] == "0"
        assert said["left"] == "damaged"
    assert int(said["full lost"]) + int(said["room lost"]) == 100_000
    assert said["room"] in ("0", "5", "6")
    assert (said["after"], said["events"]) == ("sound", "1")


def test_a_disk_that_others_filled_fails_the_commit_and_keeps_the_last_one(
    on_small_medium: Callable[[str], Outcome],
) -> None:
    said = on_small_medium("""
with (place / "filler").open("wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(1 << 12))
    except OSError:
        pass
writes()
said["names"] = " ".join(iso.open(path))
said["count"] = str(iso.open(path)["a/b"].sample_count)
said["damage"] = str(iso.verify(path)["damage"])
(place / "filler").unlink()
# A close that failed can be done again where there is room; or what is pending is let go.
call("close later", lambda: store.close(commit=False))
with iso.open(path, "a") as again:
    again["a/b"].append(block)
said["after"] = str(iso.open(path)["a/b"].sample_count)
""")
    assert any(said[name].startswith("disk_full: ") for name in ("append", "commit", "create"))
    assert (said["names"], said["count"], said["damage"]) == ("a/b", "100000", "[]")
    assert said["close later"] == ""
    assert said["after"] == str(100_000 + (1 << 20))


def test_a_read_only_medium_is_read_and_refuses_writers(on_small_medium: Callable[[str], Outcome]) -> None:
    said = on_small_medium("""
store.close()
# The same files again, read-only: a medium on which something is open cannot be made so itself.
fixed = place.parent / "fixed"
fixed.mkdir()
subprocess.run(["mount", "--bind", place, fixed], check=True)
subprocess.run(["mount", "-o", "remount,bind,ro", fixed], check=True)
path = fixed / path.name
call("open for writing", lambda: iso.open(path, "a"))
call("create a store", lambda: iso.open(fixed / "new.iso", "x"))
said["count"] = str(iso.open(path)["a/b"].values().size)
said["damage"] = str(iso.verify(path)["damage"])
""")
    assert "Read-only file system" in said["open for writing"]
    assert "Read-only file system" in said["create a store"]
    assert (said["count"], said["damage"]) == ("100000", "[]")


def test_a_vanished_medium_takes_no_open_samples_along_and_cannot_be_opened(
    on_small_medium: Callable[[str], Outcome],
) -> None:
    said = on_small_medium("""
reader = iso.open(path)
held = np.asarray(reader["a/b"][0:1000])
subprocess.run(["umount", "-l", place], check=True)
said["held"] = str(np.array_equal(held, block[:1000]))
call("open", lambda: iso.open(path))
call("verify", lambda: iso.verify(path))
writes()
""")
    assert said["held"] == "True"
    assert said["open"].startswith("not_a_store: ")
    assert said["verify"]
    # What has no file any more cannot be made to last.
    assert any(said[name] for name in ("create", "seal", "commit", "commit again", "close"))
