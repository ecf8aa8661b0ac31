"""Importing takes no more memory than its buffers, however large the files."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso

_MIB = 1 << 20
_BOUND_MIB = 200

# The high-water mark of resident memory, by the kernel's own account.
_IMPORT = """
import sys
from isochrony.cli import main
code = main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
sys.exit(code)
"""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs /proc: the kernel's account of a process's memory"
)


def sparse(path: Path, head: bytes, size: int) -> None:
    """A file of zeros after `head`, which takes no disk space and no time to write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)


def peak_mib(*line: str, code: int = 0) -> int:
    """Import in a process of its own; its largest resident memory in MiB."""
    done = subprocess.run([sys.executable, "-c", _IMPORT, "import", *line], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return int(done.stdout.splitlines()[-1])


def test_raw_files_of_300_mb_take_less_than_200_mb(tmp_path: Path) -> None:
    count = 3
    size = 100 * _MIB
    for i in range(count):
        seconds = i * (size // 2) / 100_000
        sparse(tmp_path / "src" / f"a_{1_267_401_600_000_000 + round(seconds * 1e6)}.raw", b"", size)
    layout = ["--format", "raw", "--layout", "{station}_{epoch}.raw", "--dtype", "<i2", "--rate", "100000"]
    assert peak_mib(str(tmp_path / "src"), str(tmp_path / "a.iso"), *layout) < _BOUND_MIB
    assert iso.open(tmp_path / "a.iso")["a"].sample_count == count * size // 2


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_long_table_takes_less_than_250_mb(suffix: str, tmp_path: Path) -> None:
    parts, rows = 20, 1_000_000
    values = np.random.default_rng(1).integers(-30_000, 30_000, rows).astype("f8")
    path = tmp_path / "src" / f"long{suffix}"
    path.parent.mkdir()
    if suffix == ".csv":
        text = "\n".join(map(str, values.astype("i4").tolist())) + "\n"
        with path.open("w") as file:
            file.write("value\n")
            file.writelines([text] * parts)
    else:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        schema = pyarrow.schema([("value", pyarrow.float64())])
        with parquet.ParquetWriter(path, schema, use_dictionary=False, compression="none") as file:
            for _ in range(parts):
                file.write_table(pyarrow.table({"value": values}, schema=schema))
    assert path.stat().st_size > 100_000_000
    assert peak_mib(str(path.parent), str(tmp_path / "a.iso"), "--rate", "100") < 250
    assert iso.open(tmp_path / "a.iso")["long"].sample_count == parts * rows


def test_a_wav_file_of_200_mb_takes_less_than_200_mb(tmp_path: Path) -> None:
    data = 200 * _MIB
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 48_000, 96_000, 2, 16)
    head = struct.pack("<4sI4s", b"RIFF", 4 + len(form) + 8 + data, b"WAVE") + form + struct.pack("<4sI", b"data", data)
    sparse(tmp_path / "src" / "long.wav", head, len(head) + data)
    assert peak_mib(str(tmp_path / "src"), str(tmp_path / "a.iso")) < _BOUND_MIB
    assert iso.open(tmp_path / "a.iso")["long"].sample_count == data // 2


@pytest.mark.parametrize("suffix", [".parquet", ".flac"])
def test_memory_is_bound_by_what_is_decoded_not_by_the_size_of_the_file(suffix: str, tmp_path: Path) -> None:
    """Samples that compress to almost nothing: less than 3 MB of file for 400 MB of samples."""
    rows = 50_000_000
    path = tmp_path / "src" / f"small{suffix}"
    path.parent.mkdir()
    if suffix == ".parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        schema = pyarrow.schema([("value", pyarrow.float64())])
        with parquet.ParquetWriter(path, schema, compression="zstd") as file:
            table = pyarrow.table({"value": np.zeros(rows // 10)}, schema=schema)
            for _ in range(10):
                file.write_table(table)
        options = ["--rate", "100"]
    else:
        soundfile = pytest.importorskip("soundfile")
        with soundfile.SoundFile(path, "w", samplerate=48_000, channels=1, subtype="PCM_24") as file:
            for _ in range(10):
                file.write(np.zeros(rows // 10, "i4"))
        options = []
    assert path.stat().st_size < 3_000_000
    assert peak_mib(str(path.parent), str(tmp_path / "a.iso"), *options) < 250
    assert iso.open(tmp_path / "a.iso")["small"].sample_count == rows


@pytest.mark.parametrize("column", ["note", "time"])
def test_text_in_parquet_takes_no_more_memory_than_its_distinct_values(column: str, tmp_path: Path) -> None:
    """100,000 rows that name one text of 100 kB: some 100 kB of file, 10 GB if they were written out."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "src" / "text.parquet"
    path.parent.mkdir()
    rows = 100_000
    long = pyarrow.DictionaryArray.from_arrays(pyarrow.array(np.zeros(rows, "i4")), ["x" * 100_000])
    parquet.write_table(pyarrow.table({"value": np.zeros(rows), column: long}), path, store_schema=False)
    assert path.stat().st_size < 1_000_000
    good = tmp_path / "src" / "good.csv"
    good.write_text("value\n1\n2\n")
    assert peak_mib(str(path.parent), str(tmp_path / "a.iso"), "--rate", "100", code=1) < 250
    assert [signal.sample_count for signal in iso.open(tmp_path / "a.iso").values()] == [2]


def test_a_npy_file_of_200_mb_is_mapped_and_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "src" / "long.npy"
    path.parent.mkdir()
    size = 200 * _MIB
    np.lib.format.open_memmap(path, mode="w+", dtype="<i2", shape=(size // 2,)).flush()
    # The mapped file counts itself: a copy of it would be 200 MB more.
    assert peak_mib(str(path.parent), str(tmp_path / "a.iso"), "--rate", "1000") < 200 + 150
    assert iso.open(tmp_path / "a.iso")["long"].sample_count == size // 2


def test_miniseed_of_constant_samples_takes_less_than_250_mb(tmp_path: Path) -> None:
    """Steim keeps seven differences a word: samples of 400 MB in a file of some 60 MB, one record after the other."""
    pymseed = pytest.importorskip("pymseed")
    path = tmp_path / "src" / "still.mseed"
    path.parent.mkdir()
    part, parts, rate = 5_000_000, 20, 1000.0
    first = 1_267_401_600_000_000_000
    with path.open("wb") as file:
        for number in range(parts):
            traces = pymseed.MS3TraceList()
            start = first + round(number * part / rate * 1e9)
            traces.add_data("FDSN:XX_STA_00_H_H_Z", np.zeros(part, "i4"), "i", rate, starttime=start)
            piece = tmp_path / "piece.mseed"
            traces.to_file(str(piece), overwrite=True, format_version=2, encoding=pymseed.DataEncoding.STEIM2)
            file.write(piece.read_bytes())
    assert path.stat().st_size < part * parts
    assert peak_mib(str(path.parent), str(tmp_path / "a.iso")) < 250
    (signal,) = iso.open(tmp_path / "a.iso").values()
    assert (signal.sample_count, len(signal.gaps)) == (part * parts, 0)
