"""N-buffering of records with varint length prefixes, against a slow encoder and decoder."""

from __future__ import annotations

import io
import os
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import isochrony as iso
from isochrony.errors.native import NBufferError


def encoded(number: int) -> bytes:
    """A varint by its specification: groups of seven bits, the lowest first, all but the last marked."""
    groups = [number % 128]
    while (number := number // 128) > 0:
        groups.append(number % 128)
    return bytes([group + 128 for group in groups[:-1]] + groups[-1:])


def framed(messages: list[bytes]) -> list[bytes]:
    return [encoded(len(message)) + message for message in messages]


def test_the_encoder_is_that_of_the_specification() -> None:
    # The examples of protobuf's documentation of its encoding.
    assert encoded(1) == b"\x01"
    assert encoded(150) == b"\x96\x01"
    assert encoded((1 << 64) - 2) == b"\xfe" + b"\xff" * 8 + b"\x01"


@given(
    st.lists(st.integers(0, 300) | st.integers(16_380, 16_390), max_size=12),
    st.integers(1, 4), st.booleans(), st.integers(1, 400),
)  # fmt: skip
def test_messages_come_back_as_they_were_written(lengths: list[int], workers: int, lent: bool, buffer: int) -> None:
    records = framed([bytes([number]) * length for number, length in enumerate(lengths)])
    data = b"".join(records)
    seen: list[bytes] = []
    out = bytearray()

    def note(record: memoryview) -> memoryview:
        seen.append(bytes(record))
        return record

    report = iso.nbuffer(data if lent else io.BytesIO(data), note, out, prefix="varint", workers=workers, buffer=buffer)
    assert (seen, report.records, bytes(out)) == (records, len(records), data)


@pytest.mark.parametrize("lent", [True, False])
@pytest.mark.parametrize(
    ("bad", "options", "says"),
    [
        (b"\xff" * 10, {}, "the length prefix at byte 15 is not a varint of 64 bits; check that the stream"),
        (encoded(101), {"max_length": 100}, "at byte 15 gives a length of 101 bytes, but max_length=100; check"),
        (encoded(1 << 31), {}, "gives a length of 2147483648 bytes, but max_length=2147483647"),
        (encoded(10_000_000), {"memory": "1MB"}, "byte 15 has 10000004 bytes, more than a buffer"),
    ],
)
def test_a_wrong_prefix_is_named_with_its_offset(bad: bytes, options: dict[str, Any], says: str, lent: bool) -> None:
    before = framed([b"five." * 1, b"eight..."])
    data = b"".join(before) + bad + bytes(50)
    if lent and "memory" in options:
        pytest.skip("memory that is given needs no buffer")
    seen: list[bytes] = []
    source: Any = data
    if not lent:
        # A pipe that stays open: the rest could come.
        source, into = os.pipe()
        os.write(into, data)
        if "memory" not in options:
            os.close(into)
        else:
            threading.Timer(0.5, os.close, [into]).start()
    with pytest.raises(NBufferError, match=says) as caught:
        iso.nbuffer(source, lambda record: seen.append(bytes(record)), prefix="varint", eager=True, **options)
    assert (seen, caught.value.offset) == (before, 15)
    assert caught.value.code in ("nbuf_prefix", "nbuf_record")
    if not lent:
        os.close(source)


def test_a_last_message_that_was_cut_off_is_short() -> None:
    data = b"".join(framed([b"whole", b"cut off"]))[:-3]
    seen: list[bytes] = []
    report = iso.nbuffer(data, lambda record: seen.append(bytes(record)), prefix="varint")
    assert seen == [b"\x05whole", b"\x07cut "]
    assert report.inputs[0].short_record == 5


def test_a_limit_on_fixed_prefixes() -> None:
    with pytest.raises(NBufferError, match="at byte 3 gives a length of 1000 bytes, but max_length=999"):
        iso.nbuffer(b"\x00\x01a\x03\xe8" + bytes(1000), None, prefix=">u2", max_length=999)
