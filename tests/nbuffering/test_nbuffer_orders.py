"""N-buffering: what each order makes possible and what it forbids (table 2 of the paper), and how runs begin."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import isochrony as iso

# How long a test waits for what must come about, and how long it offers what must not.
PATIENCE_S, TEMPTED_S = 60.0, 0.05


class Numbers:
    """Records of one byte, 0, 1, 2, ...; says when each is read."""

    def __init__(self, count: int) -> None:
        self.read_of = [threading.Event() for _ in range(count)]
        self._next = 0

    def read(self, count: int) -> bytes:
        assert count == 1
        if self._next == len(self.read_of):
            return b""
        number = self._next
        self._next += 1
        self.read_of[number].set()
        return bytes([number])


@pytest.mark.parametrize(("order", "possible"), [("none", 1), ("output", 1), ("execution", 0), ("both", 0)])
def test_records_are_executed_at_once_where_execution_has_no_order(order: Any, possible: int) -> None:
    source = Numbers(12)
    begun = [threading.Event() for _ in source.read_of]
    met: list[bool] = []
    seen: list[int] = []

    def execute(record: memoryview) -> None:
        number = record[0]
        seen.append(number)
        begun[number].set()
        if number % 3 == 0:
            # The other two workers have theirs, and go on if they may.
            assert all(read.wait(PATIENCE_S) for read in source.read_of[number : number + 3])
            met.append(begun[number + 2].wait(PATIENCE_S if possible else TEMPTED_S))

    iso.nbuffer(source, execute, stride=1, buffer=1, order=order, workers=3)
    assert met == [bool(possible)] * 4
    assert sorted(seen) == list(range(12))
    if not possible:
        assert seen == list(range(12))


@pytest.mark.parametrize(("order", "possible"), [("none", 1), ("output", 0), ("execution", 1), ("both", 0)])
def test_a_record_is_overtaken_while_it_is_written_where_output_has_no_order(order: Any, possible: int) -> None:
    overtaken = threading.Event()
    met: list[bool] = []

    class First:
        def write(self, data: bytes) -> int:
            met.append(overtaken.wait(PATIENCE_S if possible else TEMPTED_S))
            return len(data)

    class Second:
        def write(self, data: bytes) -> int:
            overtaken.set()
            return len(data)

    def route(record: memoryview) -> Any:
        return (record, None) if record[0] == 0 else (None, record)

    iso.nbuffer(Numbers(6), route, [First(), Second()], stride=1, buffer=1, order=order, workers=2)
    assert met == [bool(possible)]


def test_the_first_buffers_of_a_run_are_filled_by_10_20_40_and_80_per_cent() -> None:
    data = bytes(400_000)

    def sizes(**options: Any) -> list[int]:
        seen: list[int] = []
        iso.nbuffer(data, lambda view: seen.append(len(view)), stride=10, batch=True, buffer=100_000, **options)
        return seen

    assert sizes() == [10_000, 20_000, 40_000, 80_000, 100_000, 100_000, 50_000]
    assert sizes(ramp=False) == [100_000] * 4
