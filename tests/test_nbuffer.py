"""N-buffering: what each order promises, bounded memory, and how runs end, whoever is slow, gone, full or wrong."""

from __future__ import annotations

import copy
import hashlib
import io
import os
import pickle
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import isochrony as iso
from isochrony.native_errors import NBufferBrokenPipeError, NBufferError, NBufferOSError, OptionError

ORDERS = ("none", "output", "execution", "both")
RECORD = 16


def numbered(records: int) -> bytes:
    return b"".join(f"{number:>{RECORD}}".encode() for number in range(records))


def numbers(data: bytes | bytearray) -> list[int]:
    assert len(data) % RECORD == 0
    return [int(data[at : at + RECORD]) for at in range(0, len(data), RECORD)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_each_order_keeps_what_it_promises(order: Any, workers: int) -> None:
    data = numbered(3000)
    seen: list[int] = []

    def even(record: memoryview) -> memoryview | None:
        number = int(bytes(record))
        seen.append(number)
        return record if number % 2 == 0 else None

    out = bytearray()
    report = iso.nbuffer(io.BytesIO(data), even, out, stride=RECORD, order=order, workers=workers, buffer=40 * RECORD)
    assert (report.bytes, report.records, report.complete) == (len(data), 3000, True)
    assert sum(worker.bytes for worker in report.workers) == len(data)
    assert len(report.workers) == workers
    written = numbers(out)
    if order in ("output", "both"):
        assert written == list(range(0, 3000, 2))
    assert sorted(written) == list(range(0, 3000, 2))
    if order in ("execution", "both"):
        assert seen == list(range(3000))
    assert sorted(seen) == list(range(3000))


@pytest.mark.parametrize("order", ORDERS)
def test_nothing_one_record_and_thousands_of_tiny_buffers(order: Any) -> None:
    for records in (0, 1, 4000):
        out = bytearray()
        report = iso.nbuffer(numbered(records), None, out, stride=RECORD, buffer=RECORD, order=order, workers=4)
        assert (report.buffers, report.records) == (records, records)
        assert sorted(numbers(out)) == list(range(records))


def test_a_short_last_record_is_passed_with_its_length() -> None:
    lengths: list[int] = []
    report = iso.nbuffer(b"x" * 25, lambda record: lengths.append(len(record)), stride=10)
    assert lengths == [10, 10, 5]
    assert report.inputs[0].short_record == 5


def test_batches_are_whole_records_and_results_may_be_any_memory() -> None:
    samples = np.arange(100_000, dtype="i2")
    out = bytearray()

    def doubled(view: memoryview) -> Any:
        assert len(view) % 200 == 0
        return (np.frombuffer(view, "i2") * 2).astype("i2")

    iso.nbuffer(samples, doubled, out, stride=200, batch=True, buffer="10kB", order="output")
    np.testing.assert_array_equal(np.frombuffer(out, "i2"), (samples * 2).astype("i2"))


def test_what_a_function_keeps_stays_valid(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(numbered(2000))
    kept: list[memoryview] = []
    iso.nbuffer(path, lambda record: kept.append(record), stride=RECORD, buffer=RECORD * 7)
    assert [int(bytes(record)) for record in kept] == list(range(2000))
    with pytest.raises(TypeError):
        kept[0][0] = 1  # read-only


def test_memory_that_is_given_is_not_copied() -> None:
    data = bytearray(numbered(100))
    seen: list[memoryview] = []
    iso.nbuffer(data, seen.append, stride=RECORD)
    data[:RECORD] = b"7" * RECORD
    assert bytes(seen[0]) == b"7" * RECORD


def test_accumulators_are_combined_in_stream_order_whatever_the_workers() -> None:
    data = np.random.default_rng(3).standard_normal(40_000)

    def run(workers: int) -> Any:
        def add(record: memoryview, sums: dict[str, Any]) -> None:
            sums["sum"] += float(np.frombuffer(record).sum())
            sums["first"].append(record[0])

        def combine(total: dict[str, Any], sums: dict[str, Any]) -> dict[str, Any]:
            return {key: total[key] + sums[key] for key in total}

        report = iso.nbuffer(
            data, add, stride=80, buffer=8000, order="none", workers=workers,
            initial=lambda: {"sum": 0.0, "first": []}, combine=combine,
        )  # fmt: skip
        return report.result

    one = run(1)
    assert one["sum"] == pytest.approx(data.sum())
    assert len(one["first"]) == 4000
    assert all(run(workers) == one for workers in (2, 3, 7))
    assert iso.nbuffer(b"", lambda r, s: None, initial=list, combine=lambda a, b: a + b).result == []


def naive_lines(data: bytes, delimiter: bytes) -> list[bytes]:
    parts = data.split(delimiter)
    return [part + delimiter for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


@given(st.binary(max_size=400).map(lambda data: data.replace(b"\x01", b"\n")), st.integers(1, 4), st.booleans())
def test_delimited_records_are_pythons_lines(data: bytes, workers: int, lent: bool) -> None:
    seen: list[bytes] = []
    iso.nbuffer(
        data if lent else io.BytesIO(data), lambda record: seen.append(bytes(record)), delimiter=b"\n", workers=workers,
        buffer=401,
    )  # fmt: skip
    assert seen == naive_lines(data, b"\n")


def test_prefixed_records_and_one_that_is_too_large() -> None:
    records = [bytes([length]) + b"x" * length for length in (0, 5, 255, 3)]
    seen: list[bytes] = []
    iso.nbuffer(io.BytesIO(b"".join(records)), lambda r: seen.append(bytes(r)), prefix="u1", buffer=300)
    assert seen == records
    with pytest.raises(
        NBufferError, match=r"the record at byte 6 has 256 bytes and a buffer 200; give more memory"
    ) as e:
        iso.nbuffer(io.BytesIO(b"".join(records[1:])), None, prefix="u1", buffer=200)
    assert e.value.code == "nbuf_record"


def test_sources_and_destinations_of_all_kinds(tmp_path: Path) -> None:
    data = numbered(5000)
    path = tmp_path / "in"
    path.write_bytes(data)

    def check(src: Any, expected: bytes = data) -> None:
        out = bytearray()
        report = iso.nbuffer(src, None, out, stride=RECORD, buffer=RECORD * 99)
        assert bytes(out) == expected
        assert report.bytes == len(expected)

    check(path)
    check(str(path))
    check(memoryview(data))
    check(np.frombuffer(data, "u1"))
    check(io.BytesIO(data))
    with path.open("rb") as file:
        assert file.read(RECORD * 2) == data[: RECORD * 2]
        check(file, data[RECORD * 2 :])
        assert file.read() == b""  # where the bytes ended
    with path.open("rb", buffering=0) as raw:
        check(raw)
    descriptor = os.open(path, os.O_RDONLY)
    check(descriptor)
    os.close(descriptor)  # still ours
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=lambda: (theirs.sendall(data), theirs.close()))
    thread.start()
    check(ours)
    thread.join()
    ours.close()

    def arrives(dst: Any, read: Callable[[], bytes]) -> None:
        iso.nbuffer(data, None, dst, stride=RECORD)
        assert read() == data

    out = tmp_path / "out"
    out.write_bytes(b"older" * 100_000)
    arrives(out, out.read_bytes)
    with out.open("wb") as file:
        file.write(b"head")
        arrives(file, lambda: out.read_bytes()[4:])
        file.write(b"tail")
    assert out.read_bytes() == b"head" + data + b"tail"
    memory = io.BytesIO()
    arrives(memory, memory.getvalue)


def test_signals_are_sources_and_destinations(store: iso.Store) -> None:
    samples = np.random.default_rng(1).integers(-3000, 3000, 30_000).astype("i2")
    signal = store.create("a", dtype="i2", rate=100, start="2020-01-01")
    signal.append(samples[:20_000])
    signal.append_gap(samples=500)
    signal.append(samples[20_000:])
    store.commit()
    report = iso.nbuffer(signal, "sha256")
    assert report.results["sha256"] == hashlib.sha256(samples.tobytes()).hexdigest()
    assert len(report.inputs) == 2
    copy = store.create("b", dtype="i2", rate=100, start="2020-01-01")
    iso.nbuffer(signal[100:200], None, copy, stride=33)
    np.testing.assert_array_equal(copy.counts[:], samples[100:200])


def test_several_sources_and_destinations() -> None:
    one, two = numbered(300), b"z" * RECORD * 100
    out = bytearray()
    iso.nbuffer([one, io.BytesIO(two)], None, out, stride=RECORD, buffer=RECORD * 10)
    assert bytes(out) == one + two
    merged = bytearray()
    iso.nbuffer([one, two], None, merged, stride=RECORD, buffer=RECORD * 10, merge="fair", ramp=False)
    assert bytes(merged[: RECORD * 20]) == one[: RECORD * 10] + two[: RECORD * 10]
    assert Counter(merged) == Counter(one + two)
    everything, odd, none = bytearray(), bytearray(), bytearray()
    iso.nbuffer(
        one,
        lambda record: (record, record if int(bytes(record)) % 2 else None, None),
        [everything, odd, none],
        stride=RECORD,
    )
    assert (numbers(everything), numbers(odd), none) == (list(range(300)), list(range(1, 300, 2)), bytearray())
    with pytest.raises(NBufferError, match="returned 2 things for 3 outputs"):
        iso.nbuffer(one, lambda record: (record, record), [everything, odd, none])


PATIENCE_S = 120


def until(deadline: float) -> Callable[[int, int], None]:
    """Ends a run that would never end."""

    def look(done: int, total: int) -> None:
        assert time.monotonic() < deadline, f"it hangs after {done} bytes"

    return look


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("producer", "consumer"), [(0, 0), (0.002, 0), (0, 0.002), (0.002, 0.002)])
def test_producer_and_consumer_may_be_slower(order: Any, producer: float, consumer: float) -> None:
    data = numbered(20_000)
    from_fd, into = os.pipe()
    result, to = os.pipe()
    got = bytearray()

    def produce() -> None:
        for at in range(0, len(data), 20_001):
            view = memoryview(data)[at : at + 20_001]
            while view:
                view = view[os.write(into, view) :]
            time.sleep(producer)
        os.close(into)

    def consume() -> None:
        while part := os.read(result, 20_001):
            got.extend(part)
            time.sleep(consumer)

    threads = [threading.Thread(target=one, daemon=True) for one in (produce, consume)]
    for thread in threads:
        thread.start()
    try:
        report = iso.nbuffer(
            from_fd, lambda record: record, to, stride=RECORD, order=order, workers=3, buffer="32kB",
            progress=until(time.monotonic() + PATIENCE_S),
        )  # fmt: skip
    finally:
        os.close(to)
        os.close(from_fd)
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    os.close(result)
    assert report.bytes == len(data)
    assert sorted(numbers(got)) == list(range(20_000))
    if order in ("output", "both"):
        assert bytes(got) == data


@pytest.mark.parametrize("order", ORDERS)
def test_a_failing_function_surfaces_once_with_its_record(order: Any) -> None:
    data = numbered(1000)

    def bad(record: memoryview) -> memoryview:
        if int(bytes(record)) == 567:
            raise ValueError("this one is bad")
        return record

    out = bytearray()
    with pytest.raises(NBufferError, match="this one is bad") as caught:
        iso.nbuffer(io.BytesIO(data), bad, out, stride=RECORD, order=order, workers=3, buffer=RECORD * 10, ramp=False)
    assert isinstance(caught.value.__cause__, ValueError)
    assert f"bytes {567 * RECORD} to {568 * RECORD}" in str(caught.value)
    assert caught.value.offset == 567 * RECORD
    assert caught.value.report.complete is False
    if order in ("output", "both"):
        assert numbers(out) == list(range(560))


def test_wrong_things_are_errors_that_say_so(tmp_path: Path) -> None:
    with pytest.raises(NBufferError, match=r"returned <class 'int'>; return something bytes-like, or None"):
        iso.nbuffer(b"abc", lambda record: 7, bytearray())
    with pytest.raises(iso.UsageError, match="src=float is refused; give a path"):
        iso.nbuffer(1.5)
    with pytest.raises(iso.UsageError, match="dst=dict is refused"):
        iso.nbuffer(b"", None, {})
    with pytest.raises(iso.UsageError, match="binary mode"):
        iso.nbuffer(b"", None, io.StringIO())
    with pytest.raises(FileNotFoundError):
        iso.nbuffer(tmp_path / "none")
    for wrong in (
        {"order": "sorted"}, {"workers": 0}, {"workers": "many"}, {"memory": "much"}, {"memory": 0}, {"stride": 0},
        {"prefix": "i4"}, {"prefix": "u2"}, {"delimiter": b"\n", "prefix": "u1"}, {"delimiter": b""}, {"delimiter": 10},
        {"delimiter": "\n"}, {"merge": "any"},
        {"initial": list}, {"process": 7}, {"process": "no_such_processor"}, {"process": [len, len]},
        {"memory": 1000, "stride": 1000, "workers": 8, "src": io.BytesIO(b"abc")}, {"buffer": 10},
    ):  # fmt: skip
        out = tmp_path / "out"
        out.write_bytes(b"precious")
        arguments: dict[str, Any] = {"src": b"abc", "process": None, **wrong}
        with pytest.raises(OptionError) as caught:
            iso.nbuffer(arguments.pop("src"), arguments.pop("process"), out, **arguments)
        assert "give" in str(caught.value) or "leave" in str(caught.value), caught.value
        assert out.read_bytes() == b"precious", wrong
    with pytest.raises(iso.UsageError, match="the same file"):
        iso.nbuffer(out, None, out)
    assert out.read_bytes() == b"precious"


class Breaking(io.RawIOBase):
    def __init__(self) -> None:
        self.calls = 0

    def read(self, count: int = -1) -> bytes:
        self.calls += 1
        if self.calls > 3:
            raise OSError(5, "the tape tears")
        return b"x" * min(count, 100)


def test_streams_that_fail_are_named() -> None:
    with pytest.raises(NBufferOSError, match=r"reading input 0 \(Breaking\) at byte 300") as caught:
        iso.nbuffer(Breaking(), None, bytearray(), stride=10)
    assert "the tape tears" in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)

    class Full:
        def write(self, data: bytes) -> int:
            raise RuntimeError("the drawer is full")

    with pytest.raises(NBufferError, match="the drawer is full") as caught:
        iso.nbuffer(b"abc", None, Full())
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("order", ORDERS)
def test_a_full_disk(order: Any) -> None:
    with pytest.raises(NBufferOSError, match=r"/dev/full\) after 0 bytes: No space left") as caught:
        iso.nbuffer(numbered(10_000), None, "/dev/full", order=order)
    assert caught.value.errno == 28
    assert caught.value.report.outputs[0].bytes == 0


@pytest.mark.parametrize("order", ORDERS)
def test_a_broken_pipe(order: Any) -> None:
    result, to = os.pipe()

    def consume() -> None:
        os.read(result, 1000)
        os.close(result)

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    try:
        with pytest.raises(NBufferBrokenPipeError) as caught:
            iso.nbuffer(numbered(100_000), None, to, order=order, progress=until(time.monotonic() + PATIENCE_S))
    finally:
        os.close(to)
    assert isinstance(caught.value, BrokenPipeError)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_run_that_cannot_begin_closes_only_what_it_opened(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"abc")
    sources = [path] * 3

    def tell(line: str) -> None:  # when all is open
        raise LookupError("no run")

    closed: list[int] = []
    close = os.close

    def noted(descriptor: int) -> None:
        close(descriptor)  # raises if it was closed before
        closed.append(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "close", noted)
        with pytest.raises(OptionError):
            iso.nbuffer(sources, None, buffer=10)
        with pytest.raises(LookupError):
            iso.nbuffer(sources, None, tmp_path / "out", log=tell)
        iso.nbuffer(sources, None, tmp_path / "out")
    assert len(closed) == 3 + 4 + 4


def test_the_error_that_came_first_is_the_one_that_is_told(store: iso.Store) -> None:
    def bad(record: memoryview, *_: Any) -> bytes:
        raise ValueError("this one is bad")

    def initial() -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise LookupError("no second")

    calls: list[int] = []
    with pytest.raises(NBufferError, match="this one is bad"):
        iso.nbuffer(b"abc", bad, initial=initial, combine=lambda a, b: a)

    def half(record: memoryview) -> bytes:
        if record[0] == ord("b"):
            raise ValueError("this one is bad")
        return b"xyz"  # a sample and a half

    signal = store.create("a", dtype="i2", rate=100, start="2020-01-01")
    with pytest.raises(NBufferError, match="this one is bad"):
        iso.nbuffer(b"ab", half, signal, stride=1, buffer=1)
    with pytest.raises(iso.UsageError, match="1 bytes of a sample"):
        iso.nbuffer(b"a", half, signal, stride=1)


def test_results_can_be_copied_and_pickled() -> None:
    found = iso.nbuffer(b"abc", "stats:u1").results["stats:u1"]
    for same in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert dict(same) == dict(found)
        assert same.count == 3
    with pytest.raises(AttributeError, match="there is no 'nothing': give one of count"):
        _ = found.nothing


def test_a_raw_writer_that_takes_nothing_loses_nothing() -> None:
    class Busy(io.RawIOBase):
        def write(self, data: Any) -> None:
            return None

    with pytest.raises(NBufferError, match="does not wait; give a destination that waits"):
        iso.nbuffer(b"abc", None, Busy())


def test_progress_log_and_trace() -> None:
    calls: list[tuple[int, int]] = []
    lines: list[str] = []
    data = numbered(1000)
    report = iso.nbuffer(
        data, None, bytearray(), progress=lambda done, total: calls.append((done, total)), log=lines.append, trace=5,
        workers=2,
    )  # fmt: skip
    assert calls[-1] == (len(data), len(data))
    assert [line.split(":")[0] for line in lines] == ["begin", "end"]
    assert 0 < sum(len(worker.trace) for worker in report.workers) <= 10
    assert {state for worker in report.workers for _, state, *_ in worker.trace} <= {"read", "execute", "write"}
    assert "1 inputs, 1 outputs" in lines[0]
    assert "16.0 kB in" in str(report)

    def stop(done: int, total: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        iso.nbuffer(data, None, progress=stop)


INTERRUPTED = """
import os, signal, sys, threading, time
import isochrony as iso

signal.signal(signal.SIGINT, signal.default_int_handler)
def press():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
silent, keep = os.pipe()
full_end, full = os.pipe()
begun = time.monotonic()
try:
    threading.Thread(target=press, daemon=True).start()
    {call}
except KeyboardInterrupt:
    print("interrupted")
print(threading.active_count() <= 2, time.monotonic() - begun < 30)
"""


@pytest.mark.parametrize(
    "call",
    [
        "iso.nbuffer(silent, 'sha256')",
        "iso.nbuffer(bytes(10_000_000), None, full)",
        "iso.nbuffer(open('/dev/zero', 'rb', buffering=0), 'sha256')",
        "iso.nbuffer(open('/dev/zero', 'rb', buffering=0), lambda record: None)",
    ],
    ids=["silent", "full", "busy", "python"],
)
def test_ctrl_c_ends_a_run(call: str) -> None:
    program = textwrap.dedent(INTERRUPTED).format(call=call)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["interrupted", "True", "True"], done.stderr


def test_a_file_is_emptied_only_when_every_destination_is_open(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"years of work")
    with pytest.raises(iso.UsageError, match="dst=float is refused"):
        iso.nbuffer(b"new", None, [kept, 5.0], order="both")
    with pytest.raises(FileNotFoundError):
        iso.nbuffer(b"new", None, [kept, tmp_path / "no" / "folder"], order="both")
    assert kept.read_bytes() == b"years of work"
    iso.nbuffer(b"new", None, kept)
    assert kept.read_bytes() == b"new"
