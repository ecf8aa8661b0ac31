"""How records are looked for: the same places as by a slow search, and no byte of a file read over and over."""

from __future__ import annotations

import io
import random
import struct

import pytest

from isochrony.importers import mseed_records
from isochrony.importers.mseed_headers import FIXED_BYTES, is_data
from isochrony.importers.mseed_records import Record, Unreadable
from mseed_parts import split

CODES = b"STA1 00BHZXX"


def header(codes: bytes = CODES, exponent: int = 9) -> bytes:
    """A data header of version 2 with blockette 1000."""
    fixed = b"000001D " + codes + struct.pack(">HHBBBBH", 2010, 60, 1, 2, 3, 0, 0)
    fixed += struct.pack(">HhhBBBBiHH", 10, 100, 1, 0, 0, 0, 1, 0, 64, 48)
    return fixed + struct.pack(">HHBBBB", 1000, 0, 3, 1, exponent, 0) + bytes(8)


def record(codes: bytes = CODES) -> bytes:
    return header(codes).ljust(512, b"\x01")


def slowly(stretch: bytes, length: int) -> int | None:
    """The first place of 64 bytes with a header of the same channel."""
    for place in range(64, length, 64):
        if stretch[place + 8 : place + 20] == stretch[8:20] and is_data(stretch[place : place + FIXED_BYTES]):
            return place
    return None


@pytest.mark.parametrize("seed", range(200))
def test_headers_within_a_record_are_those_that_a_slow_search_finds(seed: int) -> None:
    chance = random.Random(seed)
    length = chance.choice([512, 1024, 4096])
    codes = chance.choice([CODES, b" " * 12, b"\0" * 12])
    body = bytearray(header(codes) + chance.choice([b"\0", b" ", b"\x01"]) * (length - 64 + FIXED_BYTES))
    for _ in range(chance.randrange(4)):
        # Whole headers and codes without one, at usual places and at others.
        planted = chance.choice([header(codes), header(b"OTHER00BHZXX"), b"x" * 8 + codes])
        place = chance.randrange(64, length - 64) // chance.choice([1, 64, 64])
        place *= 64 if place < length // 64 else 1
        body[place : place + len(planted)] = planted
    del body[length + FIXED_BYTES :]
    found = mseed_records._header_inside(bytes(body), length, is_followed=True)
    assert found == slowly(bytes(body), length)


class Counted(io.BytesIO):
    """Counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


def test_noise_between_records_is_read_once() -> None:
    noise = bytes(range(128, 256)) * 2
    text = (record() + noise) * 2000
    file = Counted(text)
    found = list(split(file, len(text)))
    assert sum(isinstance(one, Record) for one in found) == 2000
    assert sum(isinstance(one, Unreadable) for one in found) == 2000
    # What lies in memory at a time is 1 MiB; its end is read again with what follows.
    assert file.count < 2 * len(text)
