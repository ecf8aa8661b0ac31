"""WAV and FLAC (and what else libsndfile reads) at any depth and channel count.

Integer samples keep their counts: 24-bit files become int32 of 24-bit values, not
of left-justified ones, and 8-bit files int8. Their values are counts too, unless
``full_scale`` says what the largest stand for: a count of 16 bits is then a 32768th
of it, and samples that are floats already are multiplied by it. Channels of one file become signals
``name/ch1``, ``name/ch2``; a mono file is the signal ``name``.

An audio file rarely knows when it was recorded. A Broadcast Wave file does (its
``bext`` chunk: date, and samples since midnight); else the time comes from a
layout template or ``start``; else the signal has an index but no civil time.

Source: EBU Tech 3285 (Broadcast Wave Format); RIFF/WAVE, RF64 (EBU Tech 3306).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import BadSourceError
from ..extras import require
from .block import BLOCK_SAMPLES, Block, Options, Part, Remark, Samples, Stamp
from .registry import Format

__all__ = ["FORMAT", "read"]

# libsndfile's subtype -> (type to read, bits to shift right, type to store, counts at full scale).
_DEPTHS: dict[str, tuple[str, int, str, int]] = {
    "PCM_S8": ("int16", 8, "i1", 1 << 7),
    "PCM_U8": ("int16", 8, "i1", 1 << 7),
    "PCM_16": ("int16", 0, "i2", 1 << 15),
    "PCM_24": ("int32", 8, "i4", 1 << 23),
    "PCM_32": ("int32", 0, "i4", 1 << 31),
    "FLOAT": ("float32", 0, "f4", 1),
    "DOUBLE": ("float64", 0, "f8", 1),
}
_PARTIAL_FRAMES = 4096
# libsndfile's SF_ERR_UNRECOGNISED_FORMAT.
_UNRECOGNISED_FORMAT = 1
_UNKNOWN_LENGTH = (0, 0xFFFFFFFF)


def recognises(head: bytes) -> bool:
    """RIFF or RF64 with WAVE inside, or FLAC."""
    return (head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE") or head[:4] == b"fLaC"


def read(path: Path, signal: str, options: Options) -> Iterator[Part]:
    """Blocks of a file, channel by channel within each stretch of about a million samples.

    Raises:
        BadSourceError: not readable as audio, no samples, or shorter than its header says
            (unless ``options.partial``).
    """
    soundfile = require("soundfile", "reading WAV and FLAC")
    riff = _riff(path)
    if riff.missing_bytes and not options.partial:
        raise BadSourceError(
            f"is {riff.missing_bytes} bytes shorter than its header says; it is truncated: "
            "fetch it again, or take what is there with partial=True"
        )
    try:
        with soundfile.SoundFile(path) as file:
            yield from _blocks(file, riff, signal, options)
    except soundfile.LibsndfileError as error:
        if error.code == _UNRECOGNISED_FORMAT:
            raise BadSourceError(
                "is not a WAV or FLAC file; give it the ending of its format, or leave it out"
            ) from error
        raise BadSourceError(
            f"cannot be read as audio ({_one_line(error.error_string)}); fetch it again, or leave it out"
        ) from error


@dataclass(frozen=True, slots=True)
class _Riff:
    """What libsndfile does not tell about a WAV file."""

    missing_bytes: int = 0
    bext: bytes = b""


def _blocks(file: Any, riff: _Riff, signal: str, options: Options) -> Iterator[Part]:
    if file.frames <= 0:
        raise BadSourceError("holds no samples; fetch it again, or leave it out")
    rate = Fraction(file.samplerate)
    dtype, shift, stored, full_count = _DEPTHS.get(file.subtype, ("int16", 0, "i2", 1 << 15))
    scale = 1.0 if options.full_scale is None else options.full_scale / full_count
    own = _bext_start(riff.bext, file.samplerate)
    start = options.start or own
    if own is not None and start is not None and abs(start.ns - own.ns) > max(start.resolution_ns, own.resolution_ns):
        yield Remark(f"states the start {np.datetime64(own.ns, 'ns')}, which the stated one replaced")
    attrs = {"audio_format": file.format, "audio_subtype": file.subtype}
    done = 0
    for frames in _frames(file, dtype, options.partial):
        for channel in range(file.channels):
            name = f"{signal}/ch{channel + 1}" if file.channels > 1 else signal
            yield Block(
                signal=name,
                samples=_counts(frames[:, channel], shift, stored),
                rate=rate,
                # Later stretches follow on the first.
                start=start if done == 0 else None,
                unit=options.unit,
                scale=scale,
                attrs=attrs,
            )
        done += len(frames)


def _frames(file: Any, dtype: str, partial: bool) -> Iterator[npt.NDArray[np.generic]]:
    """Frames of shape (n, channels) up to the end of the file, or to where it is damaged if `partial`."""
    step = max(BLOCK_SAMPLES // file.channels, 1)
    if partial:
        # A decoder that meets damage gives nothing of what was asked for: ask for little.
        step = min(step, _PARTIAL_FRAMES)
    done = 0
    while done < file.frames:
        try:
            frames = file.read(step, dtype=dtype, always_2d=True)
        except RuntimeError:
            # LibsndfileError is a RuntimeError.
            if partial and done:
                return
            raise
        if len(frames) == 0:
            if partial and done:
                return
            raise BadSourceError(
                f"ends after {done} of {file.frames} frames; it is truncated: "
                "fetch it again, or take what is there with partial=True"
            )
        yield frames
        done += len(frames)


def _counts(values: npt.NDArray[Any], shift: int, stored: str) -> Samples:
    """Samples as the file counts them, contiguous."""
    if shift:
        values = values >> shift
    return np.ascontiguousarray(values, dtype=stored)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _riff(path: Path) -> _Riff:
    """Walk the chunks of a WAV file; other files have none."""
    size = path.stat().st_size
    bext = b""
    with path.open("rb") as file:
        kind, _, form = struct.unpack("<4sI4s", file.read(12).ljust(12, b"\0"))
        if form != b"WAVE" or kind not in (b"RIFF", b"RF64"):
            return _Riff()
        at = 12
        long_data = 0
        while at + 8 <= size:
            file.seek(at)
            name, length = struct.unpack("<4sI", file.read(8))
            if name == b"ds64":
                # RF64 keeps 64-bit sizes here and 0xFFFFFFFF in the chunk itself.
                long_data = struct.unpack("<Q", file.read(24)[8:16].ljust(8, b"\0"))[0]
            elif name == b"bext":
                bext = file.read(min(length, 1024))
            elif name == b"data":
                if length in _UNKNOWN_LENGTH:
                    length = long_data
                missing = at + 8 + length - size
                if missing > 0:
                    return _Riff(missing, bext)
            at += 8 + length + (length & 1)
    return _Riff(0, bext)


def _bext_start(bext: bytes, rate: int) -> Stamp | None:
    """Civil time of the first sample by a bext chunk: its date, and samples since midnight.

    Where the sample count is missing the time of day stands in, good to a second.
    """
    if len(bext) < 346:
        return None
    day, clock = bext[320:330].decode("ascii", "replace"), bext[330:338].decode("ascii", "replace")
    since_midnight = struct.unpack_from("<Q", bext, 338)[0]
    try:
        midnight = datetime.strptime(day.replace(":", "-"), "%Y-%m-%d").replace(tzinfo=UTC)
        second = datetime.strptime(clock.replace("-", ":"), "%H:%M:%S")
    except ValueError:
        return None
    base = int(midnight.timestamp()) * 1_000_000_000
    if since_midnight:
        # One sample is what the count resolves.
        return Stamp(base + since_midnight * 1_000_000_000 // rate, -(-1_000_000_000 // rate))
    of_day = second.hour * 3600 + second.minute * 60 + second.second
    return Stamp(base + of_day * 1_000_000_000, 1_000_000_000)


FORMAT = Format(
    name="audio",
    summary="WAV, Broadcast Wave and FLAC, any depth and channel count",
    suffixes=(".wav", ".wave", ".flac", ".aif", ".aiff", ".au", ".ogg", ".w64", ".rf64"),
    read=read,
    recognises=recognises,
    extra="audio",
    uses=("unit", "full_scale", "start", "signal"),
)
