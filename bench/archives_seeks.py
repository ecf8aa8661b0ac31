"""A stand-in for a disk whose head has to go to what is read."""

from __future__ import annotations

import fcntl
import json
import struct
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from archives_work import summary

import isochrony as iso


class Seeks:
    """Summaries behind a disk that takes a while for what does not follow on what was read before.

    As on a disk, what follows is what lies there, by byte of the device: a window that lies in two pieces costs a seek
    in any order. Where the file system does not tell, the index stands for the byte.
    """

    def __init__(self, seconds: float, path: Path) -> None:
        self.seconds = seconds
        self.end = 0
        data = path / "a" / "data"
        (samples,) = json.loads((data / "zarr.json").read_text())["chunk_grid"]["configuration"]["chunk_shape"]
        self.shard = samples * 2
        shards = [data / "c" / str(number) for number in range(len(list((data / "c").iterdir())))]
        # What a full one has more than samples lies before them.
        self.head = shards[0].stat().st_size - self.shard if len(shards) > 1 else 0
        self.pieces = [pieces(shard) for shard in shards]

    def places(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        """Bytes of the device that hold some bytes of the signal, in their order."""
        while start < end:
            number, within = divmod(start, self.shard)
            at = within + self.head
            stop = min(end, (number + 1) * self.shard)
            found = [piece for piece in self.pieces[number] if piece[0] <= at < piece[0] + piece[2]]
            if not found:
                yield start, stop
                start = stop
                continue
            ((logical, physical, length),) = found
            count = min(stop - start, logical + length - at)
            yield physical + at - logical, physical + at - logical + count
            start += count

    def reach(self, start: int, end: int) -> None:
        """Goes to samples."""
        for first, last in self.places(2 * start, 2 * end):
            if first != self.end:
                time.sleep(self.seconds)
            self.end = last


# By name, so that no tasklet's identity is that of a disk and all of its pieces.
DISK: list[Seeks] = []


def behind_seeks(inputs: list[iso.Selection], _: list[Any]) -> int:
    DISK[0].reach(*inputs[0].ranges[0])
    return summary(np.asarray(inputs[0]))


def behind(disk: Seeks) -> Callable[[list[iso.Selection], list[Any]], int]:
    DISK[:] = [disk]
    return behind_seeks


def pieces(file: Path) -> list[tuple[int, int, int]]:
    """Where a file lies: byte of the file, byte of the device, length of each piece; nothing if nobody tells."""
    request = struct.Struct("=QQIIII")
    extent = struct.Struct("=QQQQQIIII")
    asked = bytearray(request.pack(0, (1 << 64) - 1, 0, 0, 512, 0) + bytes(512 * extent.size))
    with file.open("rb") as opened:
        try:
            # FS_IOC_FIEMAP
            fcntl.ioctl(opened, 0xC020660B, asked)
        except OSError:
            return []
    count = request.unpack_from(asked)[3]
    rows = [extent.unpack_from(asked, request.size + number * extent.size) for number in range(count)]
    # Not those that have no place yet.
    return [] if any(row[5] & 0x206 for row in rows) else [row[:3] for row in rows]
