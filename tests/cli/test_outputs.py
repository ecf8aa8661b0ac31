"""Files that commands write: whole or not at all, never over another one unasked, never into a store."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli import main
from isochrony.cli.main import build_parser
from isochrony.output.files import writing
from processes import PROGRAM, unshare

# Every option of a command that names a file to write, a command line for it, and a name for the file.
LINES = {
    ("export", "--out"): (["{store}/a"], "a.csv"),
    ("scan", "--out"): (["{store}/a", "--window", "10"], "a.csv"),
    ("plot", "--out"): (["{store}/a"], "a.png"),
    ("run", "--out"): (["{plan}"], "a.parquet"),
    ("run", "--report"): (["{plan}"], "a.json"),
    ("run", "--save-configuration"): (["{stages}", "--workers", "2", "--tune", "yes"], "a.json"),
    ("pipe", "--out"): (["--in", "{plan}"], "a.bin"),
    ("pipe", "--save-configuration"): (["crc32c", "--in", "{plan}", "--tune", "recommend"], "a.json"),
    ("calibrate", "--out"): (["--dir", "{folder}", "--size", "8MB", "--repeats", "1"], "a.json"),
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of a gap-free signal of random 16-bit samples and one with a gap, and a plan beside it."""
    path = tmp_path / "in" / "a.iso"
    path.parent.mkdir()
    samples = np.random.default_rng(1).integers(-30_000, 30_000, 300_000).astype("i2")
    with iso.open(path, "x") as store:
        one = store.create("a", dtype="i2", rate=1000, start="2020-01-01")
        one.append(samples)
        two = store.create("b", dtype="i2", rate=1000, start="2020-01-01")
        two.append(samples[:50])
        two.append_gap(samples=10)
        two.append(samples[:50])
        store.commit()
        (path.parent / "plan.json").write_text(iso.scan(one).rewindow(1, 1).map(lambda s: s.max()).to_json())
        stages = iso.scan(one)
        for _ in range(3):
            stages = stages.iir("butter", band="lowpass", cutoff_hz=50, order=4)
        (path.parent / "stages.json").write_text(stages.rewindow(100).power().to_json())
    return path


@pytest.fixture(autouse=True)
def _measured_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isochrony.machine.calibrate", lambda *_, **__: {"machine": {}, "volumes": []})
    monkeypatch.setattr("isochrony.cli.calibrate._text", lambda _: "")


def command(key: tuple[str, str], store: Path, out: Path, *more: str) -> list[str]:
    given, _ = LINES[key]
    plans = {name: store.parent / f"{name}.json" for name in ("plan", "stages")}
    given = [one.format(store=store, folder=store.parent, **plans) for one in given]
    return [key[0], *given, key[1], str(out), *more]


def test_every_option_that_names_a_file_to_write_is_tested_here() -> None:
    found = set()
    commands: Any = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, parser in commands.choices.items():
        for action in parser._actions:
            if "write" in (action.help or "") and action.metavar == "F":
                found.add((name, action.option_strings[0]))
                assert "--force" in parser._option_string_actions, f"{name} {action.option_strings[0]}"
    assert found == set(LINES)


@pytest.mark.parametrize("key", LINES, ids=" ".join)
def test_an_existing_file_is_replaced_with_force_only(
    key: tuple[str, str], store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / LINES[key][1]
    out.write_text("mine")
    assert main(command(key, store, out)) == 2
    assert f"{out} exists; name another file, or replace it with --force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert main(command(key, store, out, "--force")) == 0
    assert b"mine" not in out.read_bytes()[:10]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([out.name, "in"])


@pytest.mark.parametrize("key", LINES, ids=" ".join)
def test_nothing_is_written_into_a_store_even_by_way_of_a_link(
    key: tuple[str, str], store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = LINES[key][1]
    (tmp_path / "folder").symlink_to(store / "a")
    (tmp_path / name).symlink_to(store / "zarr.json")
    manifest = shutil.copy(store / ".isochrony" / "MANIFEST", tmp_path / "manifest")
    before = sorted(store.rglob("*"))
    for out in (store / name, store / ".isochrony" / name, store / "a" / name, tmp_path / "folder" / name):
        assert main(command(key, store, out, "--force")) == 2
        assert f"{out} lies inside the store {store}; name a file outside of it" in capsys.readouterr().err
    assert main(command(key, store, tmp_path / name, "--force")) == 2
    assert sorted(store.rglob("*")) == before
    assert (store / ".isochrony" / "MANIFEST").read_bytes() == Path(manifest).read_bytes()
    assert iso.verify(store)["damage"] == []


def test_one_existing_file_of_several_refuses_all(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b-2.npy").write_text("mine")
    line = ["export", f"{store}/b", "--split", "--out", str(tmp_path / "b.npy")]
    assert main(line) == 2
    assert "b-2.npy exists" in capsys.readouterr().err
    assert not (tmp_path / "b-1.npy").exists()
    assert main([*line, "--force"]) == 0
    assert len(np.load(tmp_path / "b-2.npy")) == 50


def test_plans_and_streams_write_nothing_into_a_store_either(store: Path, tmp_path: Path) -> None:
    before = (store / "zarr.json").read_bytes()
    plan = iso.scan(np.arange(100, dtype="i2"), rate=1000)
    for suffix, sink in (("wav", plan.sink_wav), ("parquet", plan.sink_parquet), ("arrow", plan.sink_ipc)):
        link = tmp_path / f"link.{suffix}"
        link.symlink_to(store / "zarr.json")
        for out in (store / f"x.{suffix}", store / "zarr.json", link):
            with pytest.raises(iso.RunError, match="lies inside the store"):
                sink(out).run()
            with pytest.raises(iso.UsageError, match="lies inside the store"):
                iso.nbuffer(b"bytes", None, out)
        assert not (store / f"x.{suffix}").exists()
    assert (store / "zarr.json").read_bytes() == before


FULL_DISK = [
    *[(("export", "--out"), f"a.{suffix}") for suffix in ("csv", "parquet", "npy", "wav", "flac", "mseed")],
    (("scan", "--out"), "a.csv"),
    (("scan", "--out"), "a.parquet"),
    (("plot", "--out"), "a.png"),
    (("plot", "--out"), "a.svg"),
    (("run", "--out"), "a.csv"),
    (("run", "--out"), "a.npy"),
    (("run", "--out"), "a.parquet"),
    (("run", "--report"), "a.json"),
]


@pytest.mark.parametrize("name", sorted({name for _, name in FULL_DISK}))
def test_a_full_disk_is_one_line_and_leaves_what_was_there(name: str, store: Path, tmp_path: Path) -> None:
    mounted = unshare()
    if mounted is None:
        pytest.skip("needs a mount of its own, which is not permitted here")
    (tmp_path / "disk").mkdir()
    for key in [key for key, of in FULL_DISK if of == name]:
        program = [sys.executable, "-c", PROGRAM, *command(key, store, Path("disk") / name, "--force")]
        # 8 KiB are free, less than any of these files takes but a report, which gets none.
        room = 0 if key[1] == "--report" else 8
        script = (
            f"mount -t tmpfs -o size=64k none disk; echo mine > disk/{name}; "
            f'dd if=/dev/zero of=disk/rest bs=1k 2>/dev/null; truncate -s -{room}k disk/rest; "$@"; code=$?; '
            f"ls -A disk; cat disk/{name}; exit $code"
        )
        shell = [*mounted, "bash", "-c", script, "bash", *program]
        done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        said = f"isochrony: disk/{name}: No space left on device; free some space and try again\n"
        assert (done.returncode, done.stderr) == (3, said), (key, done.stdout)
        assert done.stdout == f"{name}\nrest\nmine\n", key


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy", "wav", "flac", "mseed"])
def test_a_limit_on_files_is_one_line_and_leaves_nothing(suffix: str, store: Path, tmp_path: Path) -> None:
    limited = (
        "import resource, sys; from isochrony.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)); sys.exit(main())"
    )
    out = tmp_path / f"a.{suffix}"
    line = [sys.executable, "-c", limited, "export", f"{store}/a", "--out", str(out)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    hint = "the file would exceed the size limit: raise it (ulimit -f), or write less"
    said = f"isochrony: {out}: File too large; {hint}\n"
    assert (done.returncode, done.stderr) == (3, said)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy", "wav", "flac", "mseed"])
def test_an_interrupted_export_stops_at_once_and_leaves_nothing(suffix: str, store: Path, tmp_path: Path) -> None:
    program = """
import signal, sys, threading, time, os
signal.signal(signal.SIGINT, signal.default_int_handler)
from isochrony import exporters, writing
from isochrony.cli import main
wrote = writing.OutputFile.write
def write(self, data):
    # Ctrl-C inside a library that catches the exception, as some do.
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        pass
    return wrote(self, data)
writing.OutputFile.write = write
sys.exit(main())
"""
    out = tmp_path / f"a.{suffix}"
    line = ["export", f"{store}/a", "--out", str(out)]
    done = subprocess.run([sys.executable, "-c", program, *line], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (130, "isochrony: interrupted; no unfinished file is left\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_process_that_is_ended_removes_its_part_file(number: signal.Signals, tmp_path: Path) -> None:
    program = """
import signal, sys, time
from pathlib import Path
from isochrony.output.files import writing
signal.signal(signal.SIGINT, signal.default_int_handler)
for name in ("SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
with writing(Path(sys.argv[1]) / "a.bin") as file:
    print("begun", flush=True)
    for _ in range(600):
        time.sleep(0.1)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    assert len(list(tmp_path.iterdir())) == 1
    begun = time.monotonic()
    child.send_signal(number)
    child.communicate(timeout=60)
    assert child.returncode == -number
    assert time.monotonic() - begun < 30
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "a.bin"
    with pytest.raises(iso.UsageError, match=r"a\.bin exists"), writing(out) as file:
        file.write(b"ours")
        out.write_text("theirs")
    assert out.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [out]


def test_a_device_or_a_pipe_is_written_to_as_it_is(tmp_path: Path, store: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    read: list[bytes] = []
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as cat:
        assert main(["export", f"{store}/b", "--out", str(pipe)]) == 0
        read.append(cat.communicate(timeout=60)[0])
    assert read[0].count(b"\n") == 101
    assert pipe.is_fifo()


@pytest.fixture(autouse=True)
def _handlers_are_given_back() -> Iterator[None]:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    yield
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
