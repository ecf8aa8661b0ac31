from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from isochrony.errors import BadSourceError
from isochrony.importers import Block, Options, Remark, Stamp, audio, format_of
from isochrony.importers.audio import read

# (subtype, bits, type we store)
DEPTHS = [("PCM_16", 16, "i2"), ("PCM_24", 24, "i4"), ("PCM_32", 32, "i4")]


def blocks(path: Path, signal: str = "take", **options: object) -> list[Block]:
    return list(read(path, signal, Options(**options)))  # type: ignore[arg-type]


def counts(bits: int, channels: int, frames: int = 4000) -> np.ndarray:
    random = np.random.default_rng(bits * 10 + channels)
    values = random.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (frames, channels))
    values[0], values[1] = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return values


@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize(("suffix", "depths"), [(".wav", ["PCM_U8", 8, "i1"])] + [(".wav", d) for d in DEPTHS]
                         + [(".flac", ("PCM_S8", 8, "i1"))] + [(".flac", d) for d in DEPTHS[:2]])  # fmt: skip
def test_whole_numbers_keep_their_counts(tmp_path: Path, suffix: str, depths: tuple, channels: int) -> None:
    subtype, bits, dtype = depths
    values = counts(bits, channels)
    path = tmp_path / f"take{suffix}"
    # libsndfile takes samples left-justified in 32 bits.
    soundfile.write(path, (values << (32 - bits)).astype("i4"), 48_000, subtype=subtype)
    found = blocks(path)
    names = ["take"] if channels == 1 else [f"take/ch{i + 1}" for i in range(channels)]
    assert [block.signal for block in found] == names
    for channel, block in enumerate(found):
        assert block.samples.dtype == dtype
        assert np.array_equal(block.samples, values[:, channel])
        assert block.rate == 48_000
        assert block.start is None


@pytest.mark.parametrize(("subtype", "dtype"), [("FLOAT", "f4"), ("DOUBLE", "f8")])
def test_floating_samples_are_kept_bit_for_bit(tmp_path: Path, subtype: str, dtype: str) -> None:
    values = np.random.default_rng(1).standard_normal(1000).astype(dtype)
    path = tmp_path / "take.wav"
    soundfile.write(path, values, 8000, subtype=subtype)
    (block,) = blocks(path)
    assert block.samples.dtype == dtype
    assert block.samples.tobytes() == values.tobytes()


def test_long_files_come_in_bounded_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio, "BLOCK_SAMPLES", 1000)
    values = counts(16, 2, 2300).astype("i2")
    path = tmp_path / "take.wav"
    soundfile.write(path, values, 8000)
    found = blocks(path, start=Stamp(5))
    assert [len(block.samples) for block in found] == [500] * 8 + [300] * 2
    assert [block.start for block in found[:3]] == [Stamp(5), Stamp(5), None]
    left = np.concatenate([block.samples for block in found if block.signal == "take/ch1"])
    assert np.array_equal(left, values[:, 0])


def with_bext(path: Path, date: bytes, time: bytes, samples: int) -> None:
    """Insert a bext chunk before the data of a WAV file, by EBU Tech 3285."""
    raw = path.read_bytes()
    body = b"\0" * 320 + date + time + struct.pack("<Q", samples) + b"\0" * 256
    chunk = b"bext" + struct.pack("<I", len(body)) + body
    out = raw[:12] + chunk + raw[12:]
    path.write_bytes(out[:4] + struct.pack("<I", len(out) - 8) + out[8:])


@pytest.mark.parametrize(
    ("samples", "ns", "resolution"),
    [
        (48_000 * 3600 + 24_000, 1_714_521_600_000_000_000 + 3600 * 10**9 + 500_000_000, 20_834),
        (0, 1_714_521_600_000_000_000 + 3723 * 10**9, 10**9),
    ],
)
def test_broadcast_wave_knows_when_it_began(tmp_path: Path, samples: int, ns: int, resolution: int) -> None:
    path = tmp_path / "field.wav"
    soundfile.write(path, np.zeros(100, "i2"), 48_000)
    with_bext(path, b"2024-05-01", b"01:02:03", samples)
    (block,) = blocks(path)
    assert block.start == Stamp(ns, resolution)
    # What the user says counts more.
    remark, block = read(path, "take", Options(start=Stamp(7)))
    assert isinstance(remark, Remark)
    assert isinstance(block, Block)
    assert block.start == Stamp(7)


def test_a_broadcast_wave_with_an_empty_date_has_no_time(tmp_path: Path) -> None:
    path = tmp_path / "field.wav"
    soundfile.write(path, np.zeros(100, "i2"), 48_000)
    with_bext(path, b"\0" * 10, b"\0" * 8, 0)
    assert blocks(path)[0].start is None


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_rejects_a_truncated_file_whole_and_takes_its_samples_on_request(tmp_path: Path, suffix: str) -> None:
    values = counts(16, 1, 50_000).astype("i2")
    path = tmp_path / f"take{suffix}"
    soundfile.write(path, values, 8000)
    path.write_bytes(path.read_bytes()[:-1001])
    with pytest.raises(BadSourceError):
        blocks(path)
    taken = np.concatenate([block.samples for block in blocks(path, partial=True)])
    assert len(taken) > 40_000 or suffix == ".flac"
    assert np.array_equal(taken, values[: len(taken), 0])


@pytest.mark.parametrize("content", [b"", b"RIFF", b"RIFF\x04\0\0\0WAVE", b"fLaC and then nothing"])
def test_rejects_what_is_no_audio(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "no.wav"
    path.write_bytes(content)
    with pytest.raises(BadSourceError):
        blocks(path)


def test_a_file_of_another_format_is_refused_without_its_path(tmp_path: Path) -> None:
    path = tmp_path / "no.wav"
    path.write_text("time,value")
    with pytest.raises(BadSourceError) as refused:
        blocks(path)
    assert str(refused.value) == "is not a WAV or FLAC file; give it the ending of its format, or leave it out"
    path.write_bytes(b"RIFF\x40\0\0\0WAVE" + b"junk" * 16)
    with pytest.raises(BadSourceError, match=r"^cannot be read as audio \(.*chunk.*\); fetch it again") as refused:
        blocks(path)
    assert "no.wav" not in str(refused.value)


def test_rejects_a_file_without_samples(tmp_path: Path) -> None:
    path = tmp_path / "none.wav"
    soundfile.write(path, np.zeros(0, "i2"), 8000)
    with pytest.raises(BadSourceError, match="no samples"):
        blocks(path)


def test_every_spoken_digit_is_that_of_soundfile(recordings: Path) -> None:
    paths = sorted((recordings / "speech").glob("*.wav"))
    assert len(paths) == 90
    for path in paths:
        found = format_of(path)
        assert found is not None
        assert found.name == "audio"
        expected, rate = soundfile.read(path, dtype="int16")
        (block,) = blocks(path)
        assert np.array_equal(block.samples, expected)
        assert block.rate == rate == 8000
