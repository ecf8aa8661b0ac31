"""N-buffering: how runs end, whoever is slow, gone, full or wrong."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from isochrony.errors.native import NBufferBrokenPipeError, NBufferError, NBufferOSError, OptionError
from numbered import ORDERS, RECORD, numbered, numbers

PATIENCE_S = 120


def until(deadline: float) -> Callable[[iso.StreamProgress], None]:
    """Ends a run that would never end."""

    def look(so_far: iso.StreamProgress) -> None:
        assert time.monotonic() < deadline, f"it hangs after {so_far.bytes} bytes"

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
        assert numbers(out) == list(range(567))


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
        {"prefix": "i4"}, {"prefix": "u2"}, {"prefix": b"varint"}, {"max_length": 5},
        {"prefix": "u1", "max_length": -1}, {"delimiter": b"\n", "prefix": "varint"},
        {"on_workers": "threads"}, {"on_workers": "processes"},
        {"progress_every_s": -1}, {"progress_every_s": "soon"},
        {"delimiter": b"\n", "prefix": "u1"}, {"delimiter": b""}, {"delimiter": 10},
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
    out = bytearray()
    with pytest.raises(NBufferOSError, match=r"cannot read input 0 \(Breaking\) at byte 300") as caught:
        iso.nbuffer(Breaking(), None, out, stride=10)
    assert "the tape tears" in str(caught.value)
    assert out == b"x" * 300, "what was read is delivered"
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
    with pytest.raises(iso.UsageError, match="only 1 of 2 bytes"):
        iso.nbuffer(b"a", half, signal, stride=1)


def test_a_raw_writer_that_takes_nothing_loses_nothing() -> None:
    class Busy(io.RawIOBase):
        def write(self, data: Any) -> None:
            return None

    with pytest.raises(NBufferError, match="takes nothing now; give a blocking destination"):
        iso.nbuffer(b"abc", None, Busy())


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


class Counting:
    """Takes what it is told to, and says what it is told to."""

    def __init__(self, says: Any, takes: int = 1 << 30) -> None:
        self.says, self.takes, self.got = says, takes, bytearray()

    def write(self, data: bytes) -> Any:
        taken = data[: self.takes]
        self.got += taken
        return len(taken) if self.says == "truth" else self.says


def test_a_destination_that_takes_less_is_given_the_rest() -> None:
    data = numbered(500)
    for most in (1, 7, 100_000):
        short = Counting("truth", most)
        report = iso.nbuffer(io.BytesIO(data), None, short, stride=RECORD, buffer=RECORD * 20)
        assert bytes(short.got) == data and report.outputs[0].bytes == len(data)
    silent = Counting(None)
    iso.nbuffer(io.BytesIO(data), None, silent, stride=RECORD)
    assert bytes(silent.got) == data


@pytest.mark.parametrize("says", [-1, 1 << 40, 1 << 80, "all", 1.5, object(), b"x"])
def test_a_destination_whose_count_is_nonsense_is_an_error(says: Any) -> None:
    with pytest.raises(NBufferError, match=r"the destination's write returned .* for \d+ bytes; return how many") as e:
        iso.nbuffer(b"abc", None, Counting(says))
    assert e.value.report.complete is False


def test_a_record_larger_than_the_buffer_has_what_memory_leaves(tmp_path: Path) -> None:
    lines = b"short\n" + b"x" * 3_000_000 + b"\nend\n"
    path = tmp_path / "lines"
    path.write_bytes(lines)
    for source in (path, io.BytesIO(lines)):
        out = bytearray()
        report = iso.nbuffer(source, lambda line: line, out, delimiter=b"\n", buffer="64kB", memory="100MB")
        assert bytes(out) == lines and report.records == 3
    with pytest.raises(NBufferError, match=r"the record at byte 6 does not end within a buffer"):
        iso.nbuffer(io.BytesIO(lines), None, delimiter=b"\n", buffer="64kB", memory="2MB", workers=2)


def test_several_destinations_get_what_is_theirs_or_an_error(tmp_path: Path) -> None:
    data = numbered(5000)
    outs: list[Any] = [bytearray(), tmp_path / "copy", io.BytesIO()]
    report = iso.nbuffer(data, None, outs, stride=RECORD)
    assert bytes(outs[0]) == (tmp_path / "copy").read_bytes() == outs[2].getvalue() == data
    assert [one.bytes for one in report.outputs] == [len(data)] * 3
    pair = [bytearray(), bytearray()]
    assert len(iso.nbuffer(data, "sha256", pair).results["sha256"]) == 64
    assert bytes(pair[0]) == bytes(pair[1]) == data
    untouched = tmp_path / "untouched"
    untouched.write_bytes(b"precious")
    with pytest.raises(OptionError, match=r"dst=2 destinations is refused; give one destination"):
        iso.nbuffer(data, "zstd", [untouched, bytearray()])
    assert untouched.read_bytes() == b"precious"
    with pytest.raises(NBufferError, match=r"returned bytes for 2 outputs; return a tuple"):
        iso.nbuffer(data, lambda record: bytes(record), [bytearray(), bytearray()], stride=RECORD)


def test_a_padded_gzip_file_is_decompressed() -> None:
    import gzip

    data = numbered(5000)
    out = bytearray()
    iso.nbuffer(io.BytesIO(gzip.compress(data[:1000]) + gzip.compress(data[1000:]) + bytes(10_240)), "gunzip", out)
    assert bytes(out) == data
