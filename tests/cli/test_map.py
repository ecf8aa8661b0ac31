"""`isochrony map` and `isochrony cache`."""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isochrony.cli import main
from isochrony.cluster.host_cache import HostCache
from isochrony.cluster.input_files import CacheSettings, InputFile
from isochrony.cluster.storage import storage_of

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster.scheduler_address


def files(folder: Path) -> tuple[Path, list[bytes]]:
    """Files, and a list of them."""
    folder.mkdir()
    contents = [f"line {n}\nanother\n".encode() * (n + 1) for n in range(4)]
    for number, content in enumerate(contents):
        (folder / f"f{number}.txt.gz").write_bytes(gzip.compress(content))
    listed = folder / "list.txt"
    listed.write_text("".join(f"{folder}/f{number}.txt.gz\n" for number in range(4)) + "\n")
    return listed, contents


def run(capsys: pytest.CaptureFixture[str], status: int, *words: str) -> tuple[str, str]:
    assert main(words) == status, capsys.readouterr().err
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_a_program_runs_for_each_line(capsys: Any, address: str, tmp_path: Path) -> None:
    listed, contents = files(tmp_path / "in")
    base = ["map", "--on", address, "--items", str(listed), "--folder", f"{tmp_path}/{{worker}}", "--cache", "100MB"]
    out, err = run(capsys, 0, *base, "--unpack", "--", "wc", "-l", "{}")
    assert [int(line.split()[0]) for line in out.splitlines()] == [2, 4, 6, 8]
    assert "4 tasks in" in err and "hits" in err
    target = f"{tmp_path}/out/{{stem}}"
    out, _ = run(capsys, 0, *base, "--unpack", "--output", target, "--json", "--", "cp", "{0}", "{out}")
    assert [json.loads(line)["stdout"] for line in out.replace("}\n{", "}\0{").split("\0")] == [""] * 4
    assert [(tmp_path / "out" / f"f{number}.txt").read_bytes() for number in range(4)] == contents
    out, err = run(capsys, 1, *base, "--keep-going", "--", "grep", "-q", "no such text", "{}")
    assert out == "" and err.count("'grep' ended with status 1") == 4
    _, err = run(capsys, 3, *base, "--", "grep", "-q", "no such text", "{}")
    assert err.count("\n") == 1 and "ended with status 1" in err
    out, _ = run(capsys, 0, "cache", "info", f"{tmp_path}/0")
    assert "quota      100.0 MB" in out and "lru" in out


def test_wrong_uses_are_one_line(capsys: Any, address: str, tmp_path: Path) -> None:
    listed, _ = files(tmp_path / "in")
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for words, message in {
        ("--items", str(empty), "--", "wc"): "has no lines; write the URLs or paths",
        ("--items", str(tmp_path / "none"), "--", "wc"): "check the path",
        ("--items", str(listed), "--policy", "best", "--", "wc"): "policy='best' is refused",
        ("--items", str(listed), "--cache", "1", "--", "wc"): "cache='1' is refused",
    }.items():
        assert main(["map", "--on", address, *words]) in (2, 3)
        shown = capsys.readouterr().err
        assert message in shown and shown.count("\n") == 1
    assert main(["map", "--on", "nowhere", "--items", str(listed), "--", "wc"]) == 2
    assert "is not an address of a Dask scheduler" in capsys.readouterr().err


def test_a_cache_is_shown_and_cleared(capsys: Any, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.bin" for number in range(3)]
    for path in paths:
        path.write_bytes(b"x" * 100_000)
    with contextlib.closing(HostCache(CacheSettings(bytes(32), None, 32 << 20), tmp_path / "c", "127.0.0.1")) as cache:
        wanted = [InputFile(storage_of("").stat(str(path))) for path in paths]
        for one in wanted:
            cache.obtain(one).close()
        in_use = cache.obtain(wanted[0])
        out, _ = run(capsys, 0, "cache", "info", str(tmp_path / "c"))
        assert "files      3, 1 in use" in out and "present    300.0 kB" in out
        shown = json.loads(run(capsys, 0, "cache", "info", str(tmp_path / "c"), "--json")[0])
        assert shown["objects"] == 3 and shown["folder"] == str(tmp_path / "c")
        out, _ = run(capsys, 1, "cache", "clear", str(tmp_path / "c"))
        assert out.startswith("2 removed (") and "1 kept, since they are in use" in out
        in_use.close()
        report = json.loads(run(capsys, 0, "cache", "clear", str(tmp_path / "c"), "--json")[0])
        assert report["removed"] == 1 and report["in_use"] == 0
    journal = tmp_path / "c" / "journal"
    journal.write_bytes(b"damage")
    _, err = run(capsys, 3, "cache", "info", str(tmp_path / "c"))
    assert "journal of the cache" in err and "is missing or damaged" in err
    assert journal.read_bytes() == b"damage"
    _, err = run(capsys, 2, "cache", "info", str(tmp_path))
    assert "is not a cache; give the folder= of isochrony.cluster.attach" in err
    shutil.rmtree(tmp_path / "c")
