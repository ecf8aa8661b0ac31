"""N-buffering: what each order promises, sources and destinations of all kinds, what functions get and give back."""

from __future__ import annotations

import copy
import hashlib
import io
import os
import pickle
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import isochrony as iso
from isochrony.errors.native import NBufferError
from numbered import ORDERS, RECORD, numbered, numbers


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
        NBufferError,
        match=r"the record at byte 6 has 256 bytes, more than a buffer of 200 bytes holds; give more memory",
    ) as e:
        iso.nbuffer(io.BytesIO(b"".join(records[1:])), None, prefix="u1", buffer=200, workers=2, memory=1000)
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
    with pytest.raises(NBufferError, match="returned 2 values for 3 outputs"):
        iso.nbuffer(one, lambda record: (record, record), [everything, odd, none])


def test_results_can_be_copied_and_pickled() -> None:
    found = iso.nbuffer(b"abc", "stats:u1").results["stats:u1"]
    for same in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert dict(same) == dict(found)
        assert same.count == 3
    with pytest.raises(AttributeError, match=r"the result has no .nothing.; give one of its fields: count"):
        _ = found.nothing
    with pytest.raises(KeyError, match=r"the result has no .nothing.; give one of its fields: count"):
        _ = found["nothing"]


def test_progress_log_and_trace() -> None:
    calls: list[iso.StreamProgress] = []
    lines: list[str] = []
    data = numbered(1000)
    report = iso.nbuffer(
        data, None, bytearray(), progress=calls.append, log=lines.append, trace=5, workers=2
    )  # fmt: skip
    assert (calls[-1].bytes, calls[-1].total) == (len(data), len(data))
    assert [line.split(":")[0] for line in lines] == ["begin", "end"]
    assert 0 < sum(len(worker.trace) for worker in report.workers) <= 10
    assert {state for worker in report.workers for _, state, *_ in worker.trace} <= {"read", "execute", "write"}
    assert "1 inputs, 1 outputs" in lines[0]
    assert "16.0 kB in" in str(report)

    def stop(so_far: iso.StreamProgress) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        iso.nbuffer(data, None, progress=stop)


@pytest.mark.parametrize("buffer", [5, 100])
def test_a_function_that_fails_is_named_with_a_remedy(buffer: int) -> None:
    def refuse(record: memoryview) -> None:
        if bytes(record) == b"22222":
            raise ValueError("no twos")

    with pytest.raises(
        NBufferError,
        match=r"^the given processor failed at bytes 10 to 15: ValueError: no twos; correct it, or the data there",
    ) as caught:
        iso.nbuffer(b"000001111122222", refuse, stride=5, buffer=buffer)
    assert (caught.value.code, caught.value.offset) == ("nbuf_process", 10)
    assert isinstance(caught.value.__cause__, ValueError)
