"""What tests of N-buffering share: records that are numbered, and how they lie in memory."""

ORDERS = ("none", "output", "execution", "both")
RECORD = 16


def numbered(records: int) -> bytes:
    return b"".join(f"{number:>{RECORD}}".encode() for number in range(records))


def numbers(data: bytes | bytearray) -> list[int]:
    assert len(data) % RECORD == 0
    return [int(data[at : at + RECORD]) for at in range(0, len(data), RECORD)]
