"""What a new user meets first: messages that name the option, the file or the command that helps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli import main
from isochrony.cli.message_options import as_finding


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.iso"
    with iso.open(path, "x") as store:
        store.create("timed", dtype="i2", rate=100, start="2024-01-01").append(np.arange(1000, dtype="i2"))
        store.create("plain", dtype="i2", rate=100).append(np.arange(1000, dtype="i2"))
    return path


def said(capsys: pytest.CaptureFixture[str], *line: str, code: int) -> str:
    assert main(list(line)) == code
    out, err = capsys.readouterr()
    return out + err


@pytest.mark.parametrize("command", ["scan", "export", "plot", "send"])
@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_time_that_is_none_names_its_option(
    store: Path, command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = {
        "scan": ["--window", "1s"],
        "export": ["--out", "x.csv"],
        "plot": ["--out", "x.png"],
        "send": ["udp://127.0.0.1:9"],
    }[command]
    told = said(capsys, command, f"{store}/timed", *rest, option, "banana", code=2)
    assert told.startswith(f'isochrony: {option}: got time "banana"')


@pytest.mark.parametrize(
    "line",
    [("scan", "--window", "1s", "--from", "2024-01-01"), ("export", "--out", "x.mseed")],
)
def test_a_signal_without_times_says_how_to_import_it_with_some(
    store: Path, line: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(capsys, line[0], f"{store}/plain", *line[1:], code=2)
    assert "has no civil time here" in told
    assert "state one when it is imported, with --start TIME" in told


def test_an_empty_store_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    iso.open(tmp_path / "e.iso", "x").close()
    told = said(capsys, "info", str(tmp_path / "e.iso"), code=0)
    assert told == f"{tmp_path}/e.iso has no signals yet; import some with: isochrony import SRC {tmp_path}/e.iso\n"
    assert json.loads(said(capsys, "info", str(tmp_path / "e.iso"), "--json", code=0))["signals"] == []


def test_a_plan_that_cannot_be_read_is_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("{", '{"nodes": []}', "[]"):
        Path("bad.json").write_text(text)
        told = said(capsys, "run", "bad.json", code=2)
        assert told.startswith("isochrony: bad.json: the plan cannot be read")
    assert store.exists()


def test_a_report_has_words_that_people_know(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with iso.open(store) as opened:
        Path("plan.json").write_text(iso.scan(opened["timed"]).rewindow(100).stats("mean").to_json())
    told = said(capsys, "run", "plan.json", code=0)
    assert "useful" not in told
    assert "burst" not in told
    assert any(line.split()[-1:] == ["time"] for line in told.splitlines())


def test_a_root_description_that_is_a_link_keeps_no_command_from_reading(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (store / "zarr.json").rename("described.json")
    (store / "zarr.json").symlink_to("../described.json")
    told = said(capsys, "info", str(store), code=0)
    assert "timed" in told
    assert "saved plans cannot be read" in told
    assert "it is a symbolic link" in told
    said(capsys, "scan", f"{store}/timed", "--window", "1s", code=0)
    said(capsys, "gaps", str(store), code=0)
    told = said(capsys, "verify", str(store), code=1)
    assert told.count("restore it from a copy") == 1


def test_verify_does_not_advise_to_run_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "timed" / "zarr.json").unlink()
    (store / "timed" / "zarr.json").symlink_to("/etc/hostname")
    shard = store / "plain" / "data" / "c" / "0"
    shard.write_bytes(shard.read_bytes()[:100])
    told = said(capsys, "verify", str(store), code=1)
    assert "`isochrony verify" not in told
    assert (
        told.count(
            "timed/zarr.json is a symbolic link (other programs may misread the data; `--repair` writes it again)"
        )
        == 1
    )
    assert as_finding("which `isochrony verify --repair` may repair") == "which `--repair` may repair"


def test_verify_gives_one_remedy_for_a_damaged_log(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log,) = (store / ".isochrony").glob("log.*")
    log.write_bytes(log.read_bytes()[:40])
    for more in ([], ["--repair"]):
        told = said(capsys, "verify", str(store), *more, code=1)
        assert "unless" not in told
        assert told.count("from a copy") == 1


def test_the_table_of_an_import_has_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(100))
    np.save("none.npy", np.zeros(0))
    told = said(capsys, "import", "a.npy", "none.npy", "s.iso", "--rate", "44100/1001", code=1)
    assert "44.0559441" in told
    assert "refused: none.npy: holds no samples (its shape is (0,)); save it again, or leave it out" in told


@pytest.mark.parametrize("window", ["abc", "0", "-5", "5x", "", "0s", "1e99s", "nan", "9" * 30, "1.5"])
@pytest.mark.usefixtures("store")
def test_a_window_that_is_none_names_its_option(window: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = said(capsys, "scan", "a.iso/timed", f"--window={window}", code=2)
    assert told.startswith(f"isochrony: --window {window!r} is refused; give a number of samples such as 4096, or")
    assert "100 Hz" in told


@pytest.mark.usefixtures("store")
def test_a_scan_without_windows_says_so_in_its_own_words(capsys: pytest.CaptureFixture[str]) -> None:
    told = said(capsys, "scan", "a.iso/timed", "--window", "20s", code=0)
    assert "isochrony: --window 20s made no window: no gap-free range" in told
    ends = ("--from", "2024-01-01T00:00:01", "--to", "2024-01-01T00:00:01")
    told += said(capsys, "scan", "a.iso/timed", "--window", "10", *ends, code=0)
    assert "isochrony: nothing of timed was read: the selection has none of the samples" in told
    assert "rewindow" not in told
    assert "scan(" not in told


def test_a_folder_of_files_as_a_store_gets_a_name_to_use_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(100))
    told = said(capsys, "import", "a.npy", ".", "--rate", "1", code=2)
    assert told.endswith("such as recordings.iso\n")
    said(capsys, "import", "a.npy", "recordings.iso", "--rate", "1", code=0)
