"""N-buffering: Python functions of records in worker processes give what they give inline."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from isochrony.errors.native import NBufferError, OptionError
from numbered import ORDERS, RECORD, numbered, numbers
from worker_processes import nothing_is_left

pytestmark = pytest.mark.native

__all__ = ["nothing_is_left"]  # fixture


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("lent", [True, False])
def test_output_is_that_of_a_function_in_this_process(order: Any, lent: bool) -> None:
    data = numbered(3000)

    def chosen(record: memoryview) -> Any:
        number = int(bytes(record))
        if number % 3 == 0:
            return None
        return record if number % 3 == 1 else bytes(record)

    out = bytearray()
    report = iso.nbuffer(
        data if lent else io.BytesIO(data), chosen, out, stride=RECORD, order=order, workers=2, buffer=40 * RECORD,
        on_workers="processes",
    )  # fmt: skip
    assert (report.bytes, report.records, report.complete) == (len(data), 3000, True)
    wanted = [number for number in range(3000) if number % 3]
    assert sorted(numbers(out)) == wanted
    if order in ("output", "both"):
        assert numbers(out) == wanted


def test_several_processes_are_busy_at_once(tmp_path: Path) -> None:
    def meet(record: memoryview) -> bytes:
        (tmp_path / str(os.getpid())).touch()
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2:
            assert time.monotonic() < deadline, "the other process does not come"
            time.sleep(0.01)
        return b"%d\n" % os.getpid()

    out = bytearray()
    iso.nbuffer(
        bytes(40), meet, out, stride=10, buffer=10, ramp=False, order="output", workers=2, on_workers="processes"
    )
    processes = set(bytes(out).split())
    assert len(processes) == 2
    assert str(os.getpid()).encode() not in processes


def test_batches_several_destinations_and_no_destination() -> None:
    data = numbered(100)

    def split(batch: memoryview) -> tuple[Any, Any]:
        assert len(batch) % RECORD == 0
        return batch, len(batch).to_bytes(4, "little")

    one, other = bytearray(), bytearray()
    iso.nbuffer(
        data, split, [one, other], stride=RECORD, batch=True, buffer=7 * RECORD, ramp=False, workers=2,
        on_workers="processes",
    )  # fmt: skip
    assert one == data
    lengths = [int.from_bytes(other[at : at + 4], "little") for at in range(0, len(other), 4)]
    assert sum(lengths) == len(data) and max(lengths) == 7 * RECORD
    report = iso.nbuffer(data, lambda record: b"dropped", stride=RECORD, on_workers="processes", workers=2)
    assert report.records == 100


def test_accumulators_come_back_and_are_combined_in_stream_order() -> None:
    data = numbered(2000)

    def note(record: memoryview, seen: list[int]) -> None:
        seen.append(int(bytes(record)))

    report = iso.nbuffer(
        data, note, stride=RECORD, buffer=30 * RECORD, order="none", workers=3, initial=list,
        combine=lambda before, more: before + more, on_workers="processes",
    )  # fmt: skip
    assert report.result == list(range(2000))


def test_an_exception_has_its_record_and_what_was_before_is_written() -> None:
    data = numbered(200)

    def bad(record: memoryview) -> memoryview:
        if int(bytes(record)) == 77:
            raise LookupError("no 77")
        return record

    out = bytearray()
    with pytest.raises(NBufferError, match=r"failed at bytes .* LookupError: no 77") as caught:
        iso.nbuffer(data, bad, out, stride=RECORD, buffer=50 * RECORD, ramp=False, workers=2, on_workers="processes")
    assert caught.value.offset == 77 * RECORD
    assert isinstance(caught.value.__cause__, LookupError)
    assert "In worker process" in "".join(caught.value.__cause__.__notes__)
    assert numbers(out) == list(range(77))


@pytest.mark.parametrize(
    ("returned", "destinations", "says"),
    [
        (7, 1, "returned <class 'int'>; return something bytes-like, or None"),
        ((b"",), 2, "returned 1 values for 2 outputs; return bytes or None for each"),
        (b"", 2, "returned bytes for 2 outputs; return a tuple with bytes or None for each"),
    ],
)
@pytest.mark.parametrize("place", ["inline", "processes"])
def test_wrong_results_are_the_same_errors_in_both_places(
    returned: Any, destinations: int, says: str, place: Any
) -> None:
    with pytest.raises(NBufferError, match=says):
        iso.nbuffer(
            bytes(10), lambda record: returned, [bytearray() for _ in range(destinations)], stride=5, workers=1,
            on_workers=place,
        )  # fmt: skip


def test_what_a_function_keeps_stays_valid() -> None:
    kept: list[memoryview] = []

    def last_three(record: memoryview) -> bytes:
        kept.append(record)
        return b"".join(kept[-3:])

    out = bytearray()
    iso.nbuffer(
        io.BytesIO(numbered(30)), last_three, out, stride=RECORD, buffer=RECORD, workers=1, on_workers="processes"
    )
    wanted = [number for end in range(1, 31) for number in range(max(end - 3, 0), end)]
    assert numbers(out) == wanted


def test_a_process_that_dies_is_replaced_once(tmp_path: Path) -> None:
    def dies_first(record: memoryview) -> memoryview:
        mark = tmp_path / "died"
        if int(bytes(record)) == 50 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return record

    out = bytearray()
    data = numbered(100)
    iso.nbuffer(data, dies_first, out, stride=RECORD, buffer=9 * RECORD, workers=2, on_workers="processes")
    assert out == data

    def dies(record: memoryview) -> None:
        os._exit(3)

    with pytest.raises(NBufferError, match=r"ended with exit status 3, and so did another .* same buffer of records"):
        iso.nbuffer(data, dies, stride=RECORD, workers=1, on_workers="processes")


def test_what_cannot_travel_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"precious")
    lock = threading.Lock()
    says = r'^on_workers="processes" is refused: .* cannot travel .*; give on_workers="inline"$'
    with pytest.raises(OptionError, match=says):
        iso.nbuffer(b"abc", lambda record: lock.locked(), out, on_workers="processes")
    assert out.read_bytes() == b"precious"
    with pytest.raises(OptionError, match="is for a function"):
        iso.nbuffer(b"abc", "md5", on_workers="processes")
    with pytest.raises(NBufferError, match=r'the accumulator cannot be pickled.* on_workers="inline"'):
        iso.nbuffer(b"abc", lambda record, sums: None, initial=threading.Lock, combine=max, on_workers="processes")


def test_ctrl_c_ends_calls_in_processes(tmp_path: Path) -> None:
    begun = time.monotonic()

    def sleep(record: memoryview) -> None:
        (tmp_path / "asleep").touch()
        time.sleep(1000)

    def press(so_far: iso.StreamProgress) -> None:
        if (tmp_path / "asleep").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        iso.nbuffer(b"abc", sleep, on_workers="processes", workers=2, progress=press)
    assert time.monotonic() - begun < 60
