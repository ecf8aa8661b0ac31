"""``isochrony calibrate``: structure and invariants at a tiny size; no speeds, for the machine may be busy."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony import machine
from isochrony.cli import main
from isochrony.cli.calibrate import size_bytes
from isochrony.errors.native import StoreOSError, StoreValueError

#: What a file system or a container may refuse.
REFUSABLE = {"direct", "io_uring", "io_uring_direct"}
STRATEGIES = {"read", "mmap", "readahead", "readahead_all", "populate"} | REFUSABLE
TINY = ("--size", "8MiB", "--repeats", "1")


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "settings"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder / "isochrony" / "machine.json"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def run(capsys: pytest.CaptureFixture[str], *line: str, code: int = 0) -> tuple[str, str]:
    assert main(["calibrate", *line]) == code
    done = capsys.readouterr()
    return done.out, done.err


def spreads(value: Any) -> list[dict[str, float]]:
    """All figures with quartiles anywhere in a profile."""
    if isinstance(value, dict):
        if set(value) == {"low", "median", "high"}:
            return [value]
        return [found for inner in value.values() for found in spreads(inner)]
    return [found for inner in value for found in spreads(inner)] if isinstance(value, list) else []


def test_a_profile_has_all_that_was_measured_and_leaves_the_folder_empty(
    settings: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = run(capsys, "--dir", str(disk), *TINY, "--json")
    profile = json.loads(out)
    assert str(settings) in err
    assert json.loads(settings.read_text()) == profile == machine.load()
    assert list(disk.iterdir()) == []
    (volume,) = profile["volumes"]
    assert volume["bytes"] == 8 << 20
    assert volume["repeats"] == 1
    assert STRATEGIES - REFUSABLE <= set(volume["paths"]) <= STRATEGIES
    assert profile["timer_resolution"] > 0
    assert profile["system_call"]["median"] > 0
    assert profile["machine"]["cores"] >= 1
    found = spreads(profile)
    assert len(found) > 10
    assert all(0 <= one["low"] <= one["median"] <= one["high"] for one in found)


def test_the_table_names_the_strategies_and_the_file(
    settings: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = run(capsys, "--dir", str(disk), *TINY)
    assert all(name in out for name in STRATEGIES - REFUSABLE)
    assert "a minor page fault" in out
    assert out.rstrip().endswith(f"saved in {settings}")


def test_another_file_is_written_on_request(
    settings: Path, disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = run(capsys, "--dir", str(disk), *TINY, "--out", str(tmp_path / "mine.json"))
    assert not settings.exists()
    assert "mine.json" in out
    assert machine.load(tmp_path / "mine.json") is not None


def test_other_disks_are_kept_and_those_of_another_machine_are_not(disk: Path) -> None:
    profile = machine.calibrate(disk, size=4 << 20, repeats=1)
    volume = profile["volumes"][0]
    machine.save({**profile, "volumes": [{**volume, "disk": "ext4:another"}]})
    machine.save(profile)
    kept = machine.load()
    assert kept is not None
    assert [one["disk"] for one in kept["volumes"]] == [volume["disk"], "ext4:another"]
    machine.save({**profile, "machine": {**profile["machine"], "cpu": "another"}})
    machine.save(profile)
    assert machine.load() == profile


def test_predictions_scale_with_the_size_and_know_nothing_that_was_not_measured(disk: Path) -> None:
    profile = machine.calibrate(disk, size=4 << 20, repeats=2)
    one, ten = (machine.predict(profile, size) for size in (1e9, 1e10))
    assert set(one) == set(profile["volumes"][0]["paths"])
    for strategy, states in one.items():
        for state, seconds in states.items():
            assert seconds[0] <= seconds[1] <= seconds[2]
            assert ten[strategy][state] == pytest.approx([10 * each for each in seconds])
    for path in profile["volumes"][0]["paths"].values():
        path["cold"] = None
    assert all("cold" not in states for states in machine.predict(profile, 1e9).values())


def test_explain_predicts_only_what_was_calibrated(settings: Path, tmp_path: Path) -> None:
    store = iso.open(tmp_path / "a.iso", "x")
    store.create("p", dtype="i2", rate=1000).append(np.zeros(10_000_000, "i2"))
    store.commit()
    plan = iso.scan(store["p"]).count()
    assert "p: mmap" in plan.explain()
    assert "isochrony calibrate" in plan.explain()
    machine.save(machine.calibrate(tmp_path, size=4 << 20, repeats=3))
    text = plan.explain()
    assert all(name in text for name in STRATEGIES)
    assert "as it is now" in text
    # Whatever is chosen, the result is the same, and the report says by what it was read.
    assert plan.collect() == 10_000_000
    (reads,) = plan.run().report.reads
    assert reads.removeprefix("p: ") in STRATEGIES
    # What was measured on another machine, or of another disk, or is no profile, predicts nothing.
    profile = machine.load()
    assert profile is not None
    other = {**profile, "machine": {**profile["machine"], "cpu": "another"}}
    settings.write_text(json.dumps(other))
    assert "another machine's" in plan.explain()
    volumes = [{**one, "disk": "ext4:another"} for one in profile["volumes"]]
    settings.write_text(json.dumps({**profile, "volumes": volumes}))
    assert "is not calibrated" in plan.explain()
    settings.write_text("no profile")
    assert str(settings) in plan.explain()
    assert plan.collect() == 10_000_000


def test_a_disk_whose_number_has_changed_is_known_again(settings: Path, tmp_path: Path) -> None:
    store = iso.open(tmp_path / "a.iso", "x")
    store.create("p", dtype="i2", rate=1000).append(np.zeros(10_000, "i2"))
    store.commit()
    profile = machine.calibrate(tmp_path, size=4 << 20, repeats=1)
    machine.save({**profile, "volumes": [{**profile["volumes"][0], "device": "250:9"}]})
    assert "as it is now" in iso.scan(store["p"]).count().explain()


def test_samples_of_every_type_are_predicted(settings: Path, tmp_path: Path) -> None:
    machine.save(machine.calibrate(tmp_path, size=4 << 20, repeats=2))
    store = iso.open(tmp_path / "a.iso", "x")
    for dtype in ("?", "i1", "i4", "i8", "u1", "u2", "u4", "f4", "f8", "c8", "c16"):
        writer = store.create(f"p_{dtype.strip('?')}", dtype=dtype, rate=1000)
        writer.append(np.zeros(1000, dtype))
    store.commit()
    for name in store:
        assert "as it is now" in iso.scan(store[name]).count().explain(), name
    profile = machine.load()
    assert profile is not None
    slow, fast = (machine.predict(profile, 1e9, dtype)["read"]["cached"][1] for dtype in ("complex128", "int16"))
    assert 0 < fast < slow
    with pytest.raises(ValueError, match="U8"):
        machine.predict(profile, 1e9, "U8")


def child(disk: Path) -> tuple[subprocess.Popen[str], Path]:
    """A calibration that takes a while, and its scratch folder."""
    line = [sys.executable, "-m", "isochrony", "calibrate", "--dir", str(disk), "--size", "64MiB", "--repeats", "100"]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (found := list(disk.glob(".isochrony-calibrate-*/a.iso"))):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process, found[0].parent


def test_a_killed_calibration_is_tidied_up_by_the_next(disk: Path) -> None:
    process, scratch = child(disk)
    # It is in use: another calibration leaves it alone.
    machine.calibrate(disk, size=4 << 20, repeats=1)
    assert list(disk.iterdir()) == [scratch]
    process.kill()
    process.communicate()
    assert list(disk.iterdir()) == [scratch]
    machine.calibrate(disk, size=4 << 20, repeats=1)
    assert list(disk.iterdir()) == []


def test_ctrl_c_leaves_nothing_and_says_so(settings: Path, disk: Path) -> None:
    process, _ = child(disk)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "nothing was saved" in err
    assert "resumes" not in err
    assert list(disk.iterdir()) == []
    assert not settings.exists()


@pytest.mark.parametrize(("line", "words"), [
    (("--size", "lots"), "256MB"),
    (("--size", "1kB"), "--size 1kB is refused; give 4MiB to 1TiB"),
    (("--repeats", "0"), "1 to 100"),
    (("--repeats", "-1"), "1 to 100"),
    (("--size", "99999999TB"), "give 4MiB to 1TiB"),
    (("--dir", "nowhere"), "is not a folder"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(
    line: tuple[str, ...], words: str, disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(disk)
    _, err = run(capsys, *line, code=2)
    assert words in err
    assert ("measuring" in err) is (line[0] == "--repeats")
    assert list(disk.iterdir()) == []


def test_a_disk_without_room_is_left_alone(disk: Path) -> None:
    if shutil.disk_usage(disk).free >= 2 << 40:
        pytest.skip("this disk has room for the largest calibration")
    with pytest.raises(StoreOSError, match="free some space"):
        machine.calibrate(disk, size=1 << 40, repeats=1)
    assert list(disk.iterdir()) == []


def test_what_is_no_profile_is_refused_with_its_path(settings: Path) -> None:
    assert machine.load() is None
    settings.parent.mkdir(parents=True)
    settings.write_text('{"format": 1}')
    with pytest.raises(StoreValueError, match="isochrony calibrate") as caught:
        machine.load()
    assert str(settings) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "size"), [("65536", 65536), ("256MB", 256_000_000), ("1GiB", 1 << 30), ("1.5k", 1500)]
)
def test_sizes_are_decimal_unless_they_say_i(text: str, size: int) -> None:
    assert size_bytes(text) == size
