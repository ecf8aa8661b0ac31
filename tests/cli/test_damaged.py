"""Damaged signals beside sound ones, and stores that cannot be opened, on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli import main

NAMES = ("n/a", "n/b", "n/c", "n/d")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Four signals with a gap each: of b the table of gaps is lost, of d the whole folder."""
    path = tmp_path / "a.iso"
    with iso.open(path, "x") as store:
        for name in NAMES:
            writer = store.create(name, dtype="i2", rate=100, start="2020-01-01")
            writer.append(np.arange(500, dtype="i2"))
            writer.append_gap(samples=7)
            writer.append(np.arange(500, dtype="i2"))
    shutil.rmtree(path / "n/b/gaps")
    shutil.rmtree(path / "n/d")
    return path


@pytest.mark.parametrize("pattern", ["", "/n", "/n/*"])
def test_info_shows_the_sound_signals_and_names_each_damaged_one(
    pattern: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", f"{store}{pattern}"]) == 1
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == ["n/a", "n/c"]
    b, d, last = shown.err.splitlines()
    assert b.startswith('isochrony: table "gaps" of signal "n/b" is missing')
    assert "copy it back" in b
    assert d.startswith('isochrony: the folder of signal "n/d" is missing')
    assert "copy it back" in d
    assert last == (
        f"isochrony: 2 of 4 signals cannot be read; to list all damage, run: isochrony verify {store}; "
        f"to repair what can be repaired: isochrony verify {store} --repair"
    )


def test_json_names_damaged_signals_with_their_codes(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, sound in (("info", "signals"), ("gaps", "gaps")):
        assert main([command, str(store), "--json"]) == 1
        said = json.loads(capsys.readouterr().out)
        assert len(said[sound]) == 2
        assert [(one["name"], one["code"]) for one in said["damaged"]] == [
            ("n/b", "missing_table"),
            ("n/d", "missing_folder"),
        ]


def test_a_damaged_signal_that_is_named_alone_is_an_error(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["info"], ["gaps"], ["scan", "--window", "10"], ["seal"]):
        assert main([command[0], f"{store}/n/b", *command[1:]]) == 3
        said = capsys.readouterr().err
        assert said.startswith('isochrony: table "gaps" of signal "n/b" is missing')
        assert said.count("\n") == 1
    assert main(["info", f"{store}/n/a"]) == 0


def test_sealing_and_its_undoing_pass_over_damaged_signals(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, codec in ([], "zstd"), (["--undo"], "raw"):
        assert main(["seal", str(store), *options]) == 1
        shown = capsys.readouterr()
        assert [line.split(":")[0] for line in shown.out.splitlines()] == ["n/a", "n/c"]
        assert "2 of 4 signals cannot be read" in shown.err
        with iso.open(store) as opened:
            assert opened["n/a"].sizes()["codec"].startswith(codec)
            assert opened["n/a"].sample_count == 1000


def test_verify_names_lost_tables_and_folders(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(store)]) == 1
    shown = capsys.readouterr().out
    assert '"n/b" is missing' in shown
    assert '"n/d" is missing' in shown
    assert shown.splitlines()[-1].endswith("2 damaged")


def test_importing_into_a_sealed_signal_says_how_to_unseal_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, store = tmp_path / "source", tmp_path / "a.iso"
    source.mkdir()
    np.save(source / "a.npy", np.arange(100, dtype="i2"))
    command = ["import", str(source), str(store), "--rate", "100", "--signal", "a"]
    assert main(command) == 0
    assert main(["seal", str(store)]) == 0
    np.save(source / "b.npy", np.arange(100, dtype="i2"))
    capsys.readouterr()
    assert main(command) != 0
    shown = capsys.readouterr()
    assert "isochrony seal STORE/SIGNAL --undo" in shown.out + shown.err
    assert main(["seal", f"{store}/a", "--undo"]) == 0
    assert main(command) == 0
    with iso.open(store) as opened:
        assert opened["a"].sample_count == 200


def test_a_plan_whose_store_is_gone_says_what_a_command_line_can_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with iso.open(tmp_path / "a.iso", "x") as opened:
        opened.create("n/a", dtype="i2", rate=100).append(np.arange(500, dtype="i2"))
        opened.commit()
        saved = iso.scan(opened["n/a"]).rewindow(10).stats("mean").to_json()
    plan = tmp_path / "plan.json"
    plan.write_text(saved)
    shutil.rmtree(tmp_path / "a.iso")
    assert main(["run", str(plan)]) != 0
    said = capsys.readouterr().err
    assert "isochrony import SRC STORE" in said
    assert "mode" not in said
    assert said.count("\n") == 1
    with pytest.raises(iso.StoreError, match='open with mode "a"'):
        iso.open(tmp_path / "a.iso")


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A sealed signal without its only shard, and a plan that reads it."""
    path = tmp_path / "sealed.iso"
    with iso.open(path, "x") as store:
        signal = store.create("a", dtype="i2", rate=100, start="2020-01-01")
        signal.append(np.arange(3000, dtype="i2"))
        store.commit()
        (tmp_path / "plan.json").write_text(iso.scan(signal).rewindow(10).map(lambda s: s.max()).to_json())
        signal.seal()
    (path / "a/data/c/0").unlink()
    return path


@pytest.mark.parametrize("out", ["a.csv", "a.npy", "a.wav"])
def test_export_of_a_sealed_signal_without_its_shard_is_an_error_and_leaves_nothing(
    out: str, sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.iterdir())
    assert main(["export", f"{sealed}/a", "--out", str(tmp_path / out)]) == 3
    said = capsys.readouterr().err
    assert said.startswith("isochrony: ")
    assert "verify" in said or "copy" in said
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_wrong_with_a_store_is_never_called_a_wrong_command_line(
    sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = tmp_path / "lost.iso"
    shutil.copytree(sealed, lost)
    shutil.rmtree(lost / "a")
    torn = tmp_path / "torn.iso"
    shutil.copytree(sealed, torn)
    (torn / ".isochrony/MANIFEST").write_text("{}")
    for store in (sealed, lost, torn):
        plan = (tmp_path / "plan.json").read_text().replace(str(sealed), str(store))
        (tmp_path / "own.json").write_text(plan)
        for line in (
            ["scan", f"{store}/a", "--window", "10"],
            ["run", str(tmp_path / "own.json")],
            ["plot", f"{store}/a", "--out", str(tmp_path / "a.png")],
            ["export", f"{store}/a", "--out", str(tmp_path / "a.csv")],
            ["send", f"{store}/a", "-"],
            ["seal", f"{store}/a", "--undo"],
        ):
            assert main(line) in (1, 3), (store.name, line, capsys.readouterr().err)


def _end_of_records(log: bytes) -> int:
    """Where the last record of a redo log ends: behind it a length is 0."""

    def length(at: int) -> int:
        return int.from_bytes(log[at : at + 4], "little")

    at = -(-(20 + length(12)) // 8) * 8
    while length(at):
        at = -(-(at + 16 + length(at)) // 8) * 8
    return at


def test_info_says_which_signal_is_shown_as_it_was_before_a_lost_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, copy = tmp_path / "a.iso", tmp_path / "copy.iso"
    with iso.open(path, "x") as store:
        store.create("n/a", dtype="i2", rate=100, start="2020-01-01").append(np.arange(500, dtype="i2"))
        store.commit()
        store.checkpoint()
        for _ in range(2):
            store["n/a"].append(np.arange(50, dtype="i2"))
            store.commit()
        # As a killed writer leaves it, and then a bit of the last record flips.
        shutil.copytree(path, copy)
    log = next((copy / ".isochrony").glob("log.*"))
    content = bytearray(log.read_bytes())
    content[_end_of_records(content) - 9] ^= 1
    log.write_bytes(content)
    assert main(["info", str(copy)]) == 1
    shown = capsys.readouterr()
    assert "550" in shown.out
    assert shown.err.startswith("isochrony: n/a is shown as it was before its last commit: the redo log lost a commit")
    assert f"isochrony verify {copy} --repair" in shown.err
    assert main(["info", str(copy), "--json"]) == 1
    assert [one["code"] for one in json.loads(capsys.readouterr().out)["damaged"]] == ["lost_commit"]
    assert main(["info", str(path)]) == 0
