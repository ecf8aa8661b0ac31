"""Damaged files of every format: refused or taken, one line each, and never the end of the import."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import obspy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

import isochrony as iso
from isochrony.importers import find_sources, formats, import_files

SAMPLES = (np.sin(np.arange(4000) / 9) * 9000).astype("i2")


def audio(kind: str) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, SAMPLES, 8000, format=kind)
    return out.getvalue()


def mseed() -> bytes:
    out = io.BytesIO()
    header = {"network": "XX", "station": "A", "channel": "HHZ", "sampling_rate": 100.0}
    obspy.Stream([obspy.Trace(SAMPLES.astype("i4"), header)]).write(out, format="MSEED", reclen=512)
    return out.getvalue()


def array() -> bytes:
    out = io.BytesIO()
    np.save(out, SAMPLES)
    return out.getvalue()


def parquet() -> bytes:
    out = io.BytesIO()
    times = pa.array(1_267_401_600_000_000_000 + np.arange(4000) * 10_000_000, pa.timestamp("ns"))
    pq.write_table(pa.table({"time": times, "p": SAMPLES}), out)
    return out.getvalue()


def text() -> bytes:
    rows = (f"2010-03-01T00:00:{k // 100:02d}.{k % 100:02d},{value}" for k, value in enumerate(SAMPLES))
    return ("time,p\n" + "\n".join(rows) + "\n").encode()


MAKERS: dict[str, Callable[[], bytes]] = {
    "a.wav": lambda: audio("WAV"),
    "a.flac": lambda: audio("FLAC"),
    "a.mseed": mseed,
    "a.npy": array,
    "a.parquet": parquet,
    "a.csv": text,
}


def damaged(good: bytes, seed: int) -> bytes:
    """Cut, overwritten in one place, or with noise behind its first bytes."""
    random = np.random.default_rng(seed)
    at = int(random.integers(1, len(good)))
    noise = random.bytes(int(random.integers(1, 400)))
    return (good[:at], good[:at] + noise + good[at + len(noise) :], good[: min(at, 200)] + noise)[seed % 3]


def test_all_formats_are_broken_here() -> None:
    assert {one.name for one in formats()} == {"audio", "csv", "mseed", "numpy", "parquet"}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("partial", [False, True])
def test_a_damaged_file_never_stops_the_rest(name: str, partial: bool, tmp_path: Path) -> None:
    good = MAKERS[name]()
    source = tmp_path / "in"
    source.mkdir()
    stem, _, suffix = name.partition(".")
    for seed in range(36):
        (source / f"{stem}{seed}.{suffix}").write_bytes(damaged(good, seed))
    (source / f"good.{suffix}").write_bytes(good)
    with iso.open(tmp_path / "s.iso", mode="x") as store:
        summary = import_files(store, source, rate=Fraction(100), partial=partial)
        assert max(signal.sample_count for signal in store.values()) >= len(SAMPLES)
    assert summary["files"] + len(summary["problems"]) + summary["duplicates"] >= 37
    for path, reason in summary["problems"]:
        assert "\n" not in reason
        assert ";" in reason or ":" in reason, f"{path}: {reason} does not say how to mend"


def test_a_store_among_recordings_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(array())
    iso.open(tmp_path / "old.iso", mode="x").close()
    assert [source.path.name for source in find_sources(tmp_path)] == ["a.npy"]


@pytest.mark.parametrize("rate", ["1e999999999", "1e-999999999", "1/0", "9" * 5000, "nan", "inf"])
def test_a_rate_in_the_metadata_that_cannot_be_stops_no_import(rate: str, tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    table = pa.table({"v": np.zeros(9)})
    stated = {"isochrony.signal": "x", "isochrony.rate": rate}
    pq.write_table(table.replace_schema_metadata(stated), source / "a.parquet")
    (source / "b.csv").write_bytes(text())
    line = [sys.executable, "-m", "isochrony", "import", str(source), str(tmp_path / "a.iso")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert "a.parquet" in done.stderr + done.stdout
    store = iso.open(tmp_path / "a.iso")
    assert [signal.sample_count for signal in store.values()] == [len(SAMPLES)]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv.gz", gzip.compress(text()), "is compressed by gzip; unpack it"),
        ("a.csv.bz2", bz2.compress(text()), "is compressed by bzip2; unpack it"),
        ("a.csv.xz", lzma.compress(text()), "is compressed by xz; unpack it"),
        ("a.csv", gzip.compress(text()), "is compressed by gzip; unpack it"),
        ("a.txt", bz2.compress(text()), "is compressed by bzip2; unpack it"),
        ("a.tsv", b"PK\x03\x04" + bytes(range(100, 200)), "is a ZIP archive"),
        ("a.xlsx", b"PK\x03\x04" + bytes(100), "is a ZIP archive, as .xlsx and .npz files are, too; unpack it"),
        ("a.csv", text().decode().encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        ("a.csv", b"time,v\n", "holds no rows; leave it out"),
        ("a.csv", text() + b"2010-03-01T00:00:40," + b"9" * 5000 + b"\n", "(row 4002: '999"),
        ("a.csv", text() + b"2010-03-01T00:00:40," + b"x" * 5000 + b"\n", "... of 5000); correct it"),
        ("a.csv", text() + b"y" * 5000 + b",5\n", "... of 5000 is not a time"),
        ("a.npy", bytes(range(256)), "does not begin as .npy files do; save it with numpy.save"),
        ("a.mseed", b"000001V 0100100" + b" " * 241, "has control headers of SEED, and no record with data"),
    ],
)
def test_what_a_file_is_instead_is_said_briefly(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    folder = tmp_path / "in \u00e4"
    folder.mkdir()
    (folder / "good one.wav").write_bytes(audio("WAV"))
    (folder / name).write_bytes(content)
    with pytest.warns(iso.PartialImportWarning):
        summary = iso.import_files(tmp_path / "a store.iso", folder, rate=100)
    assert [one["status"] for one in summary["results"]].count("imported") == 1
    ((path, reason),) = summary["problems"]
    assert path == str(folder / name)
    assert words in reason
    assert len(reason) < 300
    assert "Error" not in reason


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("format_name", [None, "csv"])
def test_a_file_that_cannot_be_opened_is_refused_alone(
    format_name: str | None, partial: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_bytes(text())
    path_open = Path.open

    def opened(path: Path, *given: Any, **options: Any) -> Any:
        # Also for root, whom permissions do not stop.
        if path.name == "b.csv":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return path_open(path, *given, **options)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.warns(iso.PartialImportWarning, match="Permission denied"):
        summary = iso.import_files(
            tmp_path / "s.iso", [tmp_path / "a.csv", tmp_path / "b.csv"], format=format_name, partial=partial
        )
    assert [one["status"] for one in summary["results"]] == ["imported", "refused"]
