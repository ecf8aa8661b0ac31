"""What `isochrony verify` and `isochrony backup` say of stores, and the status that goes with it."""

from __future__ import annotations

import json
import os
import signal as signals
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zarr

import isochrony as iso
from isochrony.cli.main import main


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "a.iso"
    with iso.open(path, "x") as opened:
        for name in ("n/a", "n/b"):
            signal = opened.create(name, dtype="i2", rate=100, start="2020-01-01")
            signal.append(np.arange(40_000, dtype="i2") % 999)
            signal.append_gap(samples=50)
            signal.append(np.arange(100, dtype="i2"))
        opened.commit()
    return path


def run(capsys: pytest.CaptureFixture[str], *command: str, code: int = 0) -> str:
    assert main(list(command)) == code, capsys.readouterr()
    return capsys.readouterr().out


def test_attributes_that_a_damaged_root_takes_with_it_are_a_loss(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with iso.open(store, "r+") as opened:
        opened.attrs["operator"] = "city water works"
        opened.saved_plans.save("loud", iso.scan(opened["n/a"]).rewindow(100).rms())
        opened.commit()
    root = store / "zarr.json"
    damaged = root.read_text()[:-30]
    root.write_text(damaged)
    with iso.open(store, "r+") as opened:
        with pytest.raises(iso.StoreError, match="cannot be read"):
            dict(opened.attrs)
        with pytest.raises(iso.StoreError, match="cannot be read"):
            opened.attrs["operator"] = "nobody"
        assert opened["n/a"].sample_count == 40_100
    assert root.read_text() == damaged
    assert "saved plans" in run(capsys, "verify", str(store), code=1)
    said = run(capsys, "verify", str(store), "--repair", code=6)
    assert "lost: attributes and saved plans of the store" in said
    assert "repaired, but attributes were lost" in said
    assert (store / ".isochrony" / "zarr.json.damaged").read_text() == damaged
    run(capsys, "verify", str(store), "--repair", code=0)


def test_each_outcome_has_its_exit_code_and_verdict(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*options: str, code: int) -> dict:
        report = json.loads(run(capsys, "verify", str(store), "--json", *options, code=code))
        assert report["exit_code"] == code
        return report

    assert told(code=0)["verdict"] == "sound"
    assert told("--deep", code=0)["verdict"] == "sound"
    (store / "n" / "a" / "gaps" / "zarr.json").unlink()
    assert told(code=1)["verdict"] == "damaged"
    assert told("--repair", code=5)["verdict"] == "repaired"
    assert told(code=0)["verdict"] == "sound"
    (store / "n" / "a" / "data" / "c" / "0").unlink()
    assert told(code=1)["verdict"] == "damaged"
    report = told("--repair", code=6)
    assert report["verdict"] == "lost"
    (loss,) = report["lost"]
    assert (loss["signal"], loss["range"], loss["samples"]) == ("n/a", [0, 40_150], 40_100)
    assert loss["start"].startswith("2020-01-01T00:00:00")
    assert told(code=0)["verdict"] == "sound"
    with iso.open(store) as opened:
        assert opened["n/a"].sample_count == 0
        assert opened["n/b"].sample_count == 40_100


def test_what_is_lost_is_said_with_signal_range_and_time(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "n" / "a" / "data" / "c" / "0").unlink()
    said = run(capsys, "verify", str(store), "--repair", code=6)
    assert "lost: 40,100 samples of n/a in 0..40150, 2020-01-01T00:00:00" in said
    assert said.rstrip().endswith("repaired, but 40,100 samples were lost")


def test_the_help_states_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["verify", "--help"])
    said = capsys.readouterr().out
    for line in ("0  sound", "1  damaged", "5  repaired", "6  lost"):
        assert line in said


def test_a_store_whose_description_is_a_trap_is_still_a_store(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "zarr.json").write_text("[" * 200_000, encoding="utf-8")
    assert main(["info", str(store)]) == 0
    shown = capsys.readouterr()
    assert "n/a" in shown.out
    assert "saved plans cannot be read" in shown.err
    assert "zarr.json" in run(capsys, "verify", str(store), code=1)
    # Nobody can know whether it had attributes.
    run(capsys, "verify", str(store), "--repair", code=6)
    run(capsys, "verify", str(store))


WRITER = """
import sys, numpy as np, isochrony as iso
store = iso.open(sys.argv[1], "r+")
print("open", flush=True)
for round in range(1_000_000):
    store["n/a"].append(np.arange(300, dtype="i2"))
    if round % 5 == 4:
        store.create("n/new", dtype="i2", rate=100, overwrite=True).append(np.arange(round % 50 + 1, dtype="i2"))
    store.commit(publish=round % 2 == 0)
"""


def test_beside_a_writer_and_after_its_death_a_store_is_sound(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for life in range(4):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(store)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"open\n"
            run(capsys, "verify", str(store))
            time.sleep(0.05 * life)
            os.kill(writer.pid, signals.SIGKILL)
        run(capsys, "verify", str(store))
    with iso.open(store, "r+"):
        pass
    run(capsys, "verify", str(store))


def test_backup_copies_what_is_new_and_any_zarr_reader_opens_it(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copies" / "b.iso"
    assert "2 signals: 160.4 kB copied" in run(capsys, "backup", str(store), str(copy))
    with iso.open(store, "r+") as opened:
        opened["n/a"].append(np.arange(7, dtype="i2"))
        opened.commit()
        report = opened.backup(copy)
        assert report["copied_bytes"] == 14
    with iso.open(copy) as opened, iso.open(store) as source:
        assert opened.uuid == source.uuid
        assert np.array_equal(opened["n/a"][40_050:].values(), source["n/a"][40_050:].values())
    original = zarr.open_array(store / "n" / "b" / "data", mode="r")[:]
    assert np.array_equal(zarr.open_array(copy / "n" / "b" / "data", mode="r")[:], original)
    run(capsys, "verify", str(copy))
    report = json.loads(run(capsys, "backup", str(store), str(copy), "--json"))
    assert (report["copied_bytes"], report["failed"]) == (0, [])


def test_backup_writes_into_nothing_but_a_backup(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").write_text("text", encoding="utf-8")
    assert main(["backup", str(store), str(tmp_path / "other")]) == 2
    said = capsys.readouterr().err
    assert "the folder holds other files; choose an empty folder" in said
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["mine"]


def test_backup_tells_how_far_it_is(store: Path, tmp_path: Path) -> None:
    told: list[tuple[int, ...]] = []
    iso.backup(store, tmp_path / "b.iso", progress=lambda *state: told.append(state))
    assert told[-1][:2] == (160_400, 160_400)


def test_backup_ends_with_what_progress_raises(store: Path, tmp_path: Path) -> None:
    with iso.open(store, "r+") as opened:
        opened["n/a"].append(np.zeros(120_000_000, dtype="i2"))
        opened.commit()
    told: list[int] = []

    def stop(done: int, *_: int) -> None:
        told.append(done)
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        iso.backup(store, tmp_path / "b.iso", progress=stop)
    assert len(told) == 1
    assert told[0] < 200_000_000
    # It ended at once, and the next one finishes it.
    with pytest.raises(iso.StoreError, match="is not complete"):
        iso.open(tmp_path / "b.iso")
    assert iso.backup(store, tmp_path / "b.iso")["failed"] == []


KILLED_BACKUP = """
import os, signal, sys, isochrony as iso
iso.backup(sys.argv[1], sys.argv[2], progress=lambda done, *_: done > 3e8 and os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_backup_that_is_killed_is_no_store_and_the_next_keeps_what_it_committed(store: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    with iso.open(store, "r+") as opened:
        opened["n/a"].append(rng.integers(-9999, 9999, 160_000_000, dtype="i2"))
        opened.commit()
    copy = tmp_path / "b.iso"
    done = subprocess.run([sys.executable, "-c", KILLED_BACKUP, str(store), str(copy)], check=False, timeout=300)
    assert done.returncode == -signals.SIGKILL
    with pytest.raises(iso.StoreError, match="is not complete"):
        iso.open(copy)
    report = iso.backup(store, copy)
    assert report["failed"] == []
    # It commits every 256 MiB.
    assert report["kept_bytes"] >= 1 << 28 > report["copied_bytes"]
    assert iso.verify(copy)["damage"] == []
    with iso.open(copy) as opened, iso.open(store) as source:
        for name in ("n/a", "n/b"):
            ours, theirs = (one[name] for one in (opened, source))
            assert [(gap.start, gap.length) for gap in ours.gaps] == [(gap.start, gap.length) for gap in theirs.gaps]
            for one, other in zip(ours[:].segments, theirs[:].segments, strict=True):
                assert one.start == other.start
                np.testing.assert_array_equal(one.counts, other.counts)


SEAL_WITHIN = """
import resource, sys
from isochrony.cli.main import main
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000))
sys.exit(main(["seal", sys.argv[1], "--codec", "blosc:lz4:1"]))
"""


def test_a_limit_that_sealing_meets_is_no_damage(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with iso.open(store, "r+") as opened:
        noise = np.random.default_rng(1).integers(-30_000, 30_000, 400_000).astype("i2")
        opened["n/a"].append(noise)
        opened.commit()
    done = subprocess.run([sys.executable, "-c", SEAL_WITHIN, str(store)], capture_output=True, text=True, check=False)
    assert done.returncode == 3, done
    assert "cannot be read" not in done.stderr
    assert "ulimit -f" in done.stderr
    run(capsys, "verify", str(store))
