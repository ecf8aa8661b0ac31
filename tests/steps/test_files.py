"""Files that plans write while they run, read again by the readers that people have."""

import itertools
import json
import os
import resource
import signal as signals
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
import scipy.io.wavfile
import soundfile

import isochrony as iso
from isochrony.output.files import writing

RATE = 8000


@pytest.fixture
def signal(store: iso.Store) -> Any:
    """16-bit counts of 0.5 Pa with a gap of 100 and a clock step."""
    signal = store.create("stn_1/mic", dtype="i2", rate=RATE, unit="Pa", scale=0.5, start="2026-01-01T00:00:00Z")
    signal.append(np.arange(1000, dtype="i2"))
    signal.append_gap(samples=100)
    signal.append(np.arange(1100, 2000, dtype="i2"))
    signal.append(np.arange(2000, 2500, dtype="i2"), at="2025-12-31T00:00:00Z")
    store.commit()
    return signal


def left(folder: Path) -> list[str]:
    """Files of a folder, but for the store."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".iso")


def read(path: Path) -> pa.Table:
    return pa.parquet.read_table(path) if path.suffix == ".parquet" else pa.feather.read_table(path)


def kept(plan: iso.Plan, path: Path, **options: Any) -> pa.Table:
    (plan.sink_parquet if path.suffix == ".parquet" else plan.sink_ipc)(path, **options).run()
    assert left(path.parent) == [path.name]
    return read(path)


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow"])
def test_samples_have_indices_times_and_what_they_are_of(signal: Any, tmp_path: Path, name: str) -> None:
    table = kept(iso.scan(signal), tmp_path / name, counts=True)
    assert table.column_names == ["index", "time", "mic"]
    index = table["index"].to_numpy()
    assert np.array_equal(index, [*range(1000), *range(1100, 2500)])
    assert table.schema.field("mic").type == pa.int16()
    assert np.array_equal(table["mic"].to_numpy(), index)  # counts, as they are stored
    assert table.schema.field("time").type == pa.timestamp("ns", "UTC")
    expected = signal.time_of(index).astype("i8")
    assert np.array_equal(table["time"].cast(pa.int64()).to_numpy(), expected)
    said = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert said["isochrony.signal"] == "stn_1/mic"
    assert (said["isochrony.rate"], said["isochrony.unit"]) == ("8000", "Pa")
    assert (float(said["isochrony.scale"]), float(said["isochrony.offset"])) == (0.5, 0.0)
    assert int(said["isochrony.timebase"]) > 0


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow"])
def test_rows_windows_and_ranges_are_what_collect_gives(signal: Any, tmp_path: Path, name: str) -> None:
    windows = iso.scan(signal).rewindow(100)
    rows = kept(windows.stats("mean", "max"), tmp_path / name)
    expected = windows.stats("mean", "max").collect()
    assert rows.column_names == list(expected.columns)
    assert rows.schema.field("mean").metadata == {b"unit": b"Pa"}
    for column in rows.column_names:
        values = rows[column].cast(pa.int64()) if column == "time" else rows[column]
        assert np.array_equal(values.to_numpy(), np.asarray(expected[column]).astype(values.type.to_pandas_dtype()))
    table = kept(windows, tmp_path / name)
    assert table.column_names == ["start", "end", "time", "values"]
    assert np.array_equal(np.array(table["values"].to_pylist()), windows.collect())
    assert np.array_equal(table["end"].to_numpy() - table["start"].to_numpy(), np.full(24, 100))
    assert table.schema.metadata[b"isochrony.window"] == b"100"
    one = kept(windows.map(lambda s: s.mean()), tmp_path / name)
    assert np.array_equal(one["value"].to_numpy(), windows.map(lambda s: s.mean()).collect()[:, 0])
    spectra = kept(windows.fft(), tmp_path / name)
    parts = np.array(spectra["values"].to_pylist())
    assert np.array_equal(parts[..., 0] + 1j * parts[..., 1], windows.fft().collect())
    found = windows.filter(lambda s: s.max() > 800).ranges()
    table = kept(found, tmp_path / name)
    pairs = np.column_stack([table["start"].to_numpy(), table["end"].to_numpy()])
    assert np.array_equal(pairs, found.collect())


def test_rows_are_written_in_groups_and_memory_stays_bounded(tmp_path: Path) -> None:
    code = """
import resource, sys, numpy as np, isochrony as iso
import pyarrow.parquet
noise = lambda: (np.full(1 << 16, k % 1000, "f4") for k in range(int(sys.argv[2])))
plan = iso.generate(noise, dtype="f4", rate=1000).sink_parquet(sys.argv[1], compression="none", row_group_size=1 << 18)
plan.run()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
    peaks = []
    for blocks in (64, 640):
        path = tmp_path / "out.parquet"
        done = subprocess.run([sys.executable, "-c", code, str(path), str(blocks)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout))
        file = pa.parquet.ParquetFile(path)
        assert file.metadata.num_rows == blocks << 16
        assert file.metadata.num_row_groups == blocks // 4
    # Ten times as much, half a gigabyte: a fixed number of groups of 3 MiB wait.
    assert peaks[1] - peaks[0] < 60, peaks


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "f4", "f8"])
def test_wav_files_hold_all_values_as_they_are(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "out.wav"
    rng = np.random.default_rng(3)
    if dtype[0] == "f":
        samples = rng.normal(size=1001).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        samples = rng.integers(limits.min, limits.max, 1001, dtype=dtype, endpoint=True)
    iso.scan(samples, rate=RATE).sink_wav(path).run()
    rate, values = scipy.io.wavfile.read(path)
    assert rate == RATE
    zero = 128 if dtype == "i1" else 0  # 8-bit samples have no sign in WAV
    assert np.array_equal(values.astype("f8") - zero, samples.astype("f8"))
    with soundfile.SoundFile(path) as file:
        assert (file.samplerate, file.channels, file.frames) == (RATE, 1, 1001)
    assert left(tmp_path) == ["out.wav"]


def test_wav_files_of_other_formats_are_what_soundfile_reads(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    samples = np.linspace(-1, 1, 501)
    for name, size, kind in [("int16", 2, "PCM_16"), ("int24", 3, "PCM_24"), ("int32", 4, "PCM_32")]:
        iso.scan(samples, rate=RATE).sink_wav(path, format=name).run()  # type: ignore[arg-type]
        assert soundfile.info(path).subtype == kind
        got = soundfile.read(path)[0]
        # Half a step of rounding, and one for 1.0 itself, which integers do not reach.
        assert np.abs(got - samples).max() <= 1.001 * 2.0 ** (1 - 8 * size)
    counts = np.array([-(1 << 23), -1, 0, 5, (1 << 23) - 1], "i4")
    iso.scan(counts, rate=RATE).sink_wav(path, format="int24").run()
    with wave.open(str(path)) as file:
        assert file.getsampwidth() == 3
        raw = np.frombuffer(file.readframes(5), "u1").reshape(5, 3)
    assert np.array_equal(np.pad(raw, ((0, 0), (1, 0))).copy().view("<i4")[:, 0] >> 8, counts)
    iso.scan(np.array([16384, -32768], "i2"), rate=RATE).sink_wav(path, format="float32").run()
    assert soundfile.read(path)[0].tolist() == [0.5, -1.0]


def test_gaps_are_an_error_or_zeros_or_files(signal: Any, tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    whole = iso.scan(signal)
    with pytest.raises(iso.RunError, match=r'100 samples are missing before index 1100.*gaps="zeros"'):
        whole.sink_wav(path).run()
    assert left(tmp_path) == []
    with pytest.raises(iso.RunError, match=r'clock was set before index 2000.*gaps="split"'):
        whole.sink_wav(path, gaps="zeros").run()
    assert left(tmp_path) == []
    iso.scan(signal[:2000]).sink_wav(path, gaps="zeros").run()
    values = scipy.io.wavfile.read(path)[1]
    assert np.array_equal(values, np.where(np.arange(2000) // 100 == 10, 0, np.arange(2000)))
    path.unlink()
    whole.sink_wav(path, gaps="split").run()
    assert left(tmp_path) == ["out-1.wav", "out-2.wav", "out-3.wav"]
    for number, (first, last) in enumerate([(0, 1000), (1100, 2000), (2000, 2500)], 1):
        part = tmp_path / f"out-{number}.wav"
        assert np.array_equal(scipy.io.wavfile.read(part)[1], np.arange(first, last))
        content = part.read_bytes()
        assert b"INAM\x0a\x00\x00\x00stn_1/mic\x00" in content
        at = content.index(b"ICRD") + 8
        said = content[at : at + 30].decode().strip().rstrip("Z")
        assert abs(np.datetime64(said, "ns").astype("i8") - signal.time_of(first).ns) <= 1


def test_what_wav_cannot_hold_is_refused_and_never_clipped(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    loud = iso.scan(np.array([0.0, 1.5]), rate=RATE)
    with pytest.raises(iso.RunError, match=r"sample 1 is 1\.5, which int16 cannot hold"):
        loud.sink_wav(path, format="int16").run()
    with pytest.raises(iso.RunError, match="sample 0 is 40000"):
        iso.scan(np.array([40000], "i4"), rate=RATE).sink_wav(path, format="int16").run()
    assert left(tmp_path) == []
    for plan, words in [
        (iso.scan(np.zeros(4), rate="0.5"), "whole rates"),
        (iso.scan(np.zeros(4, "c8"), rate=RATE), "astype"),
        (iso.scan(np.zeros(4, "i8"), rate=RATE), "astype"),
        (iso.scan(np.zeros(4, "u4"), rate=RATE), 'format="float64"'),
        (iso.scan(np.zeros(4), rate=RATE).rewindow(2), "rewindow"),
    ]:
        with pytest.raises(iso.PlanError, match=words):
            plan.sink_wav(path)
    for name in ("int32", "float64"):
        iso.scan(np.arange(4, dtype="u4"), rate=RATE).sink_wav(path, format=name).run()  # type: ignore[arg-type]
        scale = 1 if name == "int32" else 2**31
        assert (scipy.io.wavfile.read(path)[1] * scale).tolist() == [0, 1, 2, 3]
    for options in ({"format": "pcm"}, {"gaps": "none"}):
        with pytest.raises(iso.OptionError):
            loud.sink_wav(path, **options)  # type: ignore[arg-type]
    with pytest.raises(iso.PlanError):
        loud.count().sink_parquet(tmp_path / "out.parquet")
    for wrong in ({"compression": "zip"}, {"row_group_size": 0}):
        with pytest.raises(iso.OptionError):
            loud.sink_parquet(tmp_path / "out.parquet", **wrong)  # type: ignore[arg-type]


def sinks(plan: iso.Plan, folder: Path, **options: Any) -> dict[str, iso.Plan]:
    return {
        "out.parquet": plan.sink_parquet(folder / "out.parquet", row_group_size=1000, **options),
        "out.arrow": plan.sink_ipc(folder / "out.arrow", row_group_size=1000, **options),
        "out.wav": plan.sink_wav(folder / "out.wav", **options),
    }


def test_a_run_that_fails_midway_leaves_what_was_there_or_says_partial(tmp_path: Path) -> None:
    def broken() -> Any:
        yield from np.split(np.arange(5000.0), 5)
        raise ValueError("the sensor is gone")

    plan = iso.generate(broken, dtype="f8", rate=RATE)
    for name, sink in sinks(plan, tmp_path).items():
        (tmp_path / name).write_text("before")
        with pytest.raises(iso.RunError, match="the sensor is gone"):
            sink.run()
        assert (tmp_path / name).read_text() == "before"
        (tmp_path / name).unlink()
        assert left(tmp_path) == []
    for sink in sinks(plan, tmp_path, keep_partial=True).values():
        with pytest.raises(iso.RunError, match="the sensor is gone"):
            sink.run()
    assert left(tmp_path) == ["out.partial.arrow", "out.partial.parquet", "out.partial.wav"]
    assert np.array_equal(scipy.io.wavfile.read(tmp_path / "out.partial.wav")[1], np.arange(5000.0))
    for name in ("out.partial.arrow", "out.partial.parquet"):
        assert np.array_equal(read(tmp_path / name).column(1).to_numpy(), np.arange(5000.0))


def test_a_path_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    plan = iso.scan(np.arange(10.0), rate=RATE)
    for name, sink in sinks(plan, tmp_path / "nowhere").items():
        with pytest.raises(iso.RunError, match=rf"No such file.*nowhere/{name}|nowhere/{name}: No such file"):
            sink.run()
    (tmp_path / "out.wav").mkdir()
    with pytest.raises(iso.RunError, match="not a file"):
        plan.sink_wav(tmp_path / "out.wav").run()


FULL = """
import resource, sys, numpy as np, isochrony as iso
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
plan = iso.scan(np.random.default_rng(1).normal(size=1_000_000), rate=8000)
try:
    getattr(plan, sys.argv[1])(sys.argv[2], keep_partial=True).run()
except iso.RunError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("sink", "name"), [("sink_wav", "a.wav"), ("sink_parquet", "a.parquet"), ("sink_ipc", "a.arrow")]
)
def test_a_disk_without_room_is_an_error_and_leaves_nothing(tmp_path: Path, sink: str, name: str) -> None:
    # A limit on the size of files stands for a full disk: the same calls fail, in the same way but for the number.
    done = subprocess.run([sys.executable, "-c", FULL, sink, str(tmp_path / name)], capture_output=True, text=True)
    assert "File too large" in done.stdout, (done.stdout, done.stderr)
    assert "Exception ignored" not in done.stderr, done.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    assert [path for path in left(tmp_path) if "partial" not in path] == []


def test_ctrl_c_leaves_nothing_or_what_came_until_then(tmp_path: Path) -> None:
    code = """
import sys, isochrony as iso
feed = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=8000)
plan = iso.scan(feed).sink_parquet(sys.argv[1] + "/out.parquet").sink_wav(sys.argv[1] + "/out.wav", keep_partial=True)
print(feed.address, flush=True)
try:
    plan.run()
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    program = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    address = program.stdout.readline().strip()
    endless = iso.scan(np.arange(30_000, dtype="i2"), rate=RATE, segment=400).send(address, speed=1)
    sending = threading.Thread(target=endless.run, daemon=True)
    sending.start()
    time.sleep(2.5)
    program.send_signal(signals.SIGINT)
    assert program.stdout.readline() == "stopped\n"
    program.wait(10)
    sending.join()
    assert left(tmp_path) == ["out.partial.wav"]
    values = scipy.io.wavfile.read(tmp_path / "out.partial.wav")[1]
    assert np.array_equal(values, np.arange(len(values)))
    assert len(values) > 4000


def test_plans_that_write_files_are_saved_and_read_again(tmp_path: Path, signal: Any) -> None:
    plan = iso.scan(signal[:1000]).sink_wav(tmp_path / "out.wav", format="int24", gaps="split")
    again = iso.Plan.from_json(plan.sink_parquet(tmp_path / "out.parquet", compression="none").to_json())
    assert "sink_wav" in str(again) and json.loads(again.to_json())
    again.run()
    assert left(tmp_path) == ["out-1.wav", "out.parquet"]
    assert (
        pa.parquet.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0).column(0).compression == "UNCOMPRESSED"
    )


def test_two_runs_on_one_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "two.wav"

    def slow() -> Iterator[np.ndarray]:
        yield np.ones(50_000, "i2")
        iso.scan(np.full(70_000, 2, "i2"), rate=1000).sink_wav(path).run()
        assert (scipy.io.wavfile.read(path)[1] == 2).all()
        yield np.ones(50_000, "i2")

    iso.generate(slow, dtype="i2", rate=1000).sink_wav(path).run()
    assert (scipy.io.wavfile.read(path)[1] == 1).all()
    assert [one.name for one in tmp_path.iterdir()] == ["two.wav"]


def test_a_gap_that_would_fill_the_disk_is_not_filled(tmp_path: Path) -> None:
    def jump() -> Iterator[tuple[int, np.ndarray]]:
        yield 0, np.ones(10, "i2")
        yield 1 << 40, np.ones(10, "i2")

    plan = iso.generate(jump, dtype="i2", rate=1000).sink_wav(tmp_path / "gap.wav", gaps="zeros")
    with pytest.raises(iso.RunError, match=r"a gap of 1099511627766 samples .*gaps=\"split\""):
        plan.run()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["two.parquet", "two.arrow"])
def test_two_runs_that_write_one_table_each_keep_a_whole_file_and_the_last_stays(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    blocks, size = 40, 5000
    both_write = threading.Barrier(2, timeout=30)
    first_is_done = threading.Event()

    def one(number: int) -> Iterator[np.ndarray]:
        for block in range(blocks):
            # Both have written some, and go on by turns.
            both_write.wait()
            yield np.full(size, number * 1000 + block, "i4")
        if number == 1:
            assert first_is_done.wait(30)
            done.append(read(path))

    def run(number: int) -> None:
        plan = iso.generate(lambda: one(number), dtype="i4", rate=1000)
        sink = plan.sink_parquet if name.endswith("parquet") else plan.sink_ipc
        sink(path, compression="none", row_group_size=size).run()
        if number == 0:
            first_is_done.set()

    done: list[pa.Table] = []
    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    done.append(read(path))
    for number, table in enumerate(done):
        assert np.array_equal(table.column(1).to_numpy(), np.repeat(number * 1000 + np.arange(blocks), size))
    assert len(done) == 2
    assert left(tmp_path) == [name]


def test_an_unfinished_file_is_hidden_and_nobody_elses_even_of_a_process_of_the_same_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [tmp_path / f".out.{os.getpid()}-{number}.part.csv" for number in range(3)]
    for path in taken:
        path.write_text("another's")
    monkeypatch.setattr("isochrony.output.files._NUMBERS", itertools.count())
    with writing(tmp_path / "out.csv", replace=True) as one, writing(tmp_path / "out.csv") as other:
        parts = {f".out.{os.getpid()}-{number}.part.csv" for number in (3, 4)}
        assert parts <= set(left(tmp_path))
        one.write(b"one")
        other.write(b"other")
    assert (tmp_path / "out.csv").read_text() == "one"
    assert {path.read_text() for path in taken} == {"another's"}
    assert left(tmp_path) == sorted([*(path.name for path in taken), "out.csv"])
