"""Options that make no sense: what is said is one line with what is wrong and what to give instead."""

from __future__ import annotations

import io
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.errors.native import OptionError

pytestmark = pytest.mark.native


def windows() -> iso.Plan:
    return iso.scan(np.arange(1000.0), rate=10).rewindow(10)


def refused(call: Callable[[], object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    said = str(caught.value)
    assert isinstance(caught.value, iso.IsochronyError)
    assert re.search(words, said), said
    assert "\n" not in said
    assert ";" in said, f"{said} does not say how to mend it"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, r"workers=0 is refused; give a whole number from 1 to 1024, or \"auto\""),
        ({"workers": 1025}, "workers=1025 is refused; give"),
        ({"workers": 2.0}, r"workers=2\.0 is refused; give"),
        ({"workers": "many"}, "workers='many' is refused; give"),
        ({"workers": np.array([2, 2])}, r"workers=array\(\[2, 2\]\) is refused; give"),
        ({"workers": True}, "workers=True is refused; give"),
        ({"memory": 0}, "memory=0 is refused; give a whole number of bytes, from 1"),
        ({"memory": "much"}, r"memory='much' is refused; give bytes from 1, such as 1000000, \"100MB\""),
        ({"memory": 1e6}, r"memory=1000000\.0 is refused; give"),
        ({"memory": 1 << 63}, "memory=9223372036854775808 is refused; give"),
        ({"pin": "yes"}, "pin='yes' is refused; give True or False"),
        ({"optimise": None}, "optimise=None is refused; give True or False"),
        ({"tolerance": 1}, "tolerance=1 is refused; give a number from 0 to below 1"),
        ({"tolerance": np.nan}, "tolerance=nan is refused; give"),
        ({"control": 5}, r"control=5 is refused; give an isochrony\.Control"),
    ],
)
def test_options_of_runs(options: dict[str, Any], words: str) -> None:
    refused(lambda: windows().run(**options), OptionError, words)
    refused(lambda: windows().collect(**options), OptionError, words)


def test_memory_of_runs_may_be_text() -> None:
    np.testing.assert_array_equal(windows().collect(memory="16MiB"), np.arange(1000.0).reshape(-1, 10))
    with pytest.raises(iso.RunError, match="memory=4000 bytes"):
        iso.scan(np.arange(1e6), rate=10).map(lambda s: s + 1).run(memory="4kB")


def test_options_of_scans(store: iso.Store) -> None:
    signal = store.create("a", dtype="i2", rate=100)
    signal.append(np.arange(100, dtype="i2"))
    for options, words in [
        ({"io": "fast"}, "fast.*(choose|give|one of).*mmap"),
        ({"io": 3}, r"scan\(io=3\) is refused; give the name of a strategy"),
        ({"clock": "b"}, r"scan\(clock='b'\) is refused; give the signal"),
        ({"segment": 0}, r"scan segment=0 is refused; give"),
        ({"unit": 3}, r"scan\(unit=3\) is refused; give text"),
    ]:
        refused(lambda options=options: iso.scan(signal, **options), iso.IsochronyError, words)  # type: ignore[misc]


def work(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None: ...


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": -1}, "workers=-1 is refused; give"),
        ({"on_workers": "there"}, "on_workers='there' is refused; give 'auto' or"),
        ({"on_workers": np.array(["auto"])}, "on_workers=array.* is refused; give"),
        ({"order": ["disk"]}, r"order=\['disk'\] is refused; give"),
        ({"scratch": "1.5"}, None),
        ({"scratch": "1 furlong"}, "scratch='1 furlong' is refused; give bytes from 1"),
        ({"scratch_memory": np.array([1, 2])}, "scratch_memory=array.* is refused; give"),
        ({"prefetch": None}, "prefetch=None is refused; give"),
        ({"keep_going": "no"}, "keep_going='no' is refused; give True or False"),
        ({"keep_every_s": "1s"}, "keep_every_s='1s' is refused; give a number of seconds"),
        ({"journal": 5}, "journal=5 is refused; give the path of a file"),
    ],
)
def test_options_of_executors(options: dict[str, Any], words: str | None) -> None:
    if words is None:
        iso.Executor(**options)
    else:
        refused(lambda: iso.Executor(**options), OptionError, words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"work": 5}, r"Tasklet\(5\) is refused; give a function"),
        ({"inputs": 5}, r"inputs=5 is refused; give a list"),
        ({"inputs": [5]}, r"inputs=\[5\] is refused; give ranges of signals"),
        ({"outputs": None}, r"outputs=None is refused; give a list"),
        ({"after": 5}, "after=5 is refused; give a list"),
        ({"after": "a"}, "after='a' is refused; put it in a list"),
        ({"name": 5}, "name=5 is refused; give text"),
        ({"on_workers": "there"}, "on_workers='there' is refused; give"),
    ],
)
def test_options_of_tasklets(options: dict[str, Any], words: str) -> None:
    refused(lambda: iso.Tasklet(**{"work": work, **options}), OptionError, words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 4097}, "workers=4097 is refused; give"),
        ({"workers": np.array([1, 2])}, r"workers=array\(\[1, 2\]\) is refused; give 1 to 4096"),
        ({"workers": 10**30}, "workers=1000.* is refused; give"),
        ({"batch": "yes"}, "batch='yes' is refused; give True or False"),
        ({"ramp": "no"}, "ramp='no' is refused; give True or False"),
        ({"eager": 3}, "eager=3 is refused; give True or False"),
        ({"progress": 5}, "progress=5 is refused; give True or False, or a function"),
        ({"log": 5}, "log=5 is refused; give a function"),
        ({"initial": 5, "combine": 5}, "initial=5 is refused; give a function"),
        ({"order": None}, "order=None is refused; give 'none' or"),
        ({"trace": -1}, "trace=-1 is refused; give visits from 0"),
    ],
)
def test_options_of_nbuffer(options: dict[str, Any], words: str) -> None:
    refused(lambda: iso.nbuffer(b"abc", None, bytearray(), **options), OptionError, words)


def test_streams_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    with path.open("rb") as closed:
        pass
    gone = socket.socket()
    gone.close()
    with path.open() as text, path.open("rb") as reads, path.open("ab") as writes, path.open("rb", buffering=0) as raw:
        for src, dst, words in [
            (12345, None, "src: descriptor 12345 is not open; give"),
            (-1, None, "src: descriptor -1 is not open; give"),
            (10**30, None, "src: descriptor 1000.* is not open; give"),
            (gone, None, "src: descriptor -1 is not open; give"),
            (closed, None, "src .*a is closed; open it again"),
            (text, None, r'src gives text, .* binary mode \("rb"\), or give src\.buffer'),
            (io.StringIO("abc"), None, "src gives text"),
            (writes, None, "src .*a is open for writing only; open it for reading"),
            (np.array([object()]), None, "src of dtype object is refused; give"),
            (np.arange(10)[::2], None, "src is not contiguous in memory; give"),
            (None, None, "src=NoneType is refused; give a path"),
            (b"abc", 12345, "dst: descriptor 12345 is not open; give"),
            (b"abc", closed, "dst .*a is closed; open it again"),
            (b"abc", reads, "dst .*a is open for reading only; open it for writing"),
            (b"abc", raw, "dst .*a is open for reading only; open it for writing"),
            (b"abc", io.StringIO(), r"dst takes text, .* binary mode"),
            (b"abc", bytes(3), "dst=bytes is refused; give"),
        ]:
            refused(lambda src=src, dst=dst: iso.nbuffer(src, None, dst), iso.UsageError, words)  # type: ignore[misc]
    assert path.read_bytes() == b"abc"
    for src, dst in ((tmp_path, None), (b"abc", tmp_path)):
        with pytest.raises(IsADirectoryError, match=re.escape(str(tmp_path))):
            iso.nbuffer(src, None, dst)


def test_arrays_of_any_type_are_bytes() -> None:
    times = np.arange("2020-01-01", "2020-01-09", dtype="M8[D]")
    pairs = np.zeros(5, [("a", "i2"), ("b", "f8")])
    for array in (
        np.arange(9, dtype=">i2"),
        times,
        pairs,
        np.zeros((3, 4), "c8"),
        np.zeros((0, 4), ">f4"),
        np.array(5),
    ):
        out = bytearray()
        iso.nbuffer(array, None, out, stride=1)
        assert bytes(out) == array.tobytes()


def test_a_descriptor_that_is_refused_stays_open(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="Is a directory"):
            iso.nbuffer(descriptor, None)
        os.fstat(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("wrap", ["yes", 1, None])
def test_wrap_is_true_or_false(wrap: Any) -> None:
    words = rf"wrap={wrap!r} is refused; give True or False"
    for function in (lambda s: s.max() > 1, iso.py(lambda s: s.max(axis=1) > 1)):
        refused(lambda function=function: windows().filter(function, wrap=wrap), OptionError, words)  # type: ignore[misc]
        refused(lambda function=function: windows().map(function, wrap=wrap), OptionError, words)  # type: ignore[misc]
