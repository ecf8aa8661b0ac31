"""Importers and processors of other packages: installed as pip would, loaded on first use, left out where broken."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony.importers.registry import format_of, formats
from isochrony.plugins import plugins
from plugin_packages import documented_package, install

DOCS = Path(__file__).parents[1] / "docs"
IMPORTERS, PROCESSORS = "isochrony.importers", "isochrony.processors"
VIB = """
from fractions import Fraction
import numpy as np
from isochrony.importers import Block, Format
def read(path, signal, options):
    yield Block(signal, np.frombuffer(path.read_bytes()[4:], "<i2"), Fraction(100), None)
FORMAT = Format("NAME", "a test", (".NAME",), read, recognises=lambda head: head[:4] == b"VIB1")
"""
Package = Callable[..., None]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """Installs a package into a folder of this process's path; what it registers is forgotten after the test."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    known = set(sys.modules)

    def forget() -> None:
        formats.cache_clear()
        plugins.cache_clear()

    forget()
    yield lambda *arguments, **options: install(folder, *arguments, **options)
    forget()
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) and Path(str(sys.modules[name].__file__)).parent == folder:
            del sys.modules[name]


def vib(name: str) -> str:
    return VIB.replace("NAME", name)


def in_process(folder: Path, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Python in a process of its own that finds what was installed into a folder."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *words], input=data, capture_output=True, timeout=120, env=environment, check=False
    )


def test_the_importer_of_the_page_imports_as_a_package(tmp_path: Path) -> None:
    documented_package(DOCS / "add_a_format.md", tmp_path)
    samples = np.random.default_rng(1).integers(-30_000, 30_000, (5000, 2)).astype("<i2")
    header = struct.pack("<4sQIH", b"VIB1", 1_267_401_600_000_000, 25_600_000, 2)
    (tmp_path / "pump.vib").write_bytes(header + samples.tobytes())
    np.save(tmp_path / "samples.npy", samples)
    script = f"""
import sys, numpy as np, isochrony as iso
iso.nbuffer(b"abc", "sha256")
assert "acme_vib" not in sys.modules, "loaded before its first use"
store = iso.open("{tmp_path}/a.iso", "x")
iso.import_files(store, "{tmp_path}/pump.vib")
assert "acme_vib" in sys.modules
samples = np.load("{tmp_path}/samples.npy")
for channel in range(2):
    signal = store[f"pump/ch{{channel + 1}}"]
    np.testing.assert_array_equal(signal.values(), samples[:, channel])
    assert signal.rate == 25_600 and signal.unit == "m/s^2"
"""
    done = in_process(tmp_path, "-c", script)
    assert done.returncode == 0, done.stderr.decode()
    shown = in_process(tmp_path, "-m", "isochrony", "import", "--help")
    assert "VIB1 files of the Acme vibration logger" in " ".join(shown.stdout.decode().split())
    stored = in_process(tmp_path, "-m", "isochrony", "import", f"{tmp_path}/pump.vib", f"{tmp_path}/b.iso")
    assert stored.returncode == 0, stored.stderr.decode()
    with iso.open(tmp_path / "b.iso") as store:
        assert sorted(store) == ["pump/ch1", "pump/ch2"]


def entropy(data: bytes) -> float:
    """By the definition, byte by byte."""
    shares = [data.count(value) / len(data) for value in set(data)]
    return -sum(share * float(np.log2(share)) for share in shares)


def test_the_processor_of_the_page_runs_as_a_package(tmp_path: Path) -> None:
    documented_package(DOCS / "add_a_processor.md", tmp_path)
    data = bytes(range(256)) * 100 + b"a" * 30_000
    pipe = ["-m", "isochrony", "pipe", "--json", "--buffer", "4999"]
    done = in_process(tmp_path, *pipe, "entropy", "sha256", data=data)
    results = json.loads(done.stdout)["results"]
    assert list(results) == ["entropy", "sha256"]
    assert results["sha256"] == hashlib.sha256(data).hexdigest()
    assert results["entropy"]["bits_per_byte"] == pytest.approx(entropy(data), abs=1e-12)
    plain = in_process(tmp_path, "-m", "isochrony", "pipe", "entropy", data=b"ab" * 50)
    assert plain.stdout == b"entropy  bits_per_byte=1\n"
    refused = in_process(tmp_path, "-m", "isochrony", "pipe", "entropy:3")
    assert refused.returncode == 2
    assert b"of package acme-entropy 1.0 is refused: entropy takes no argument; leave out the colon" in refused.stderr


BROKEN = {
    "raises when imported": ({"broken": "raise OSError('no licence\\nfile')"}, "broken:X", "OSError: no licence file"),
    "ends the interpreter": ({"broken": "import sys; sys.exit(3)"}, "broken:X", "SystemExit: 3"),
    "lacks a module": ({}, "acme_absent:X", "ModuleNotFoundError: No module named 'acme_absent'"),
    "lacks the object": ({"broken": ""}, "broken:X", "AttributeError: module 'broken' has no attribute 'X'"),
    "is of another type": ({"broken": "X = 5"}, "broken:X", "broken:X is of type int, not isochrony."),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_importer_is_left_out_and_the_others_stay(how: str, package: Package, tmp_path: Path) -> None:
    modules, reference, said = BROKEN[how]
    before = [one.name for one in formats()]
    formats.cache_clear()
    plugins.cache_clear()
    package("acme-broken", modules, {IMPORTERS: {"bad": reference}}, version="0.3")
    package("acme-vib", {"acme_vib": vib("vib")}, {IMPORTERS: {"vib": "acme_vib:FORMAT"}})
    with pytest.warns(iso.PluginWarning) as caught:
        assert [one.name for one in formats()] == [*before, "vib"]
    (text,) = (str(one.message) for one in caught)
    assert "entry point 'bad' of package acme-broken 0.3 (group isochrony.importers) is left out" in text
    assert said in text and "\n" not in text
    (tmp_path / "a.vib").write_bytes(b"VIB1" + np.arange(50, dtype="<i2").tobytes())
    with warnings.catch_warnings(), iso.open(tmp_path / "a.iso", "x") as store:
        warnings.simplefilter("error")
        iso.import_files(store, tmp_path / "a.vib")
        np.testing.assert_array_equal(store["a"].values(), np.arange(50))


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_processor_is_left_out_and_the_others_stay(how: str, package: Package) -> None:
    modules, reference, said = BROKEN[how]
    package("acme-broken", modules, {PROCESSORS: {"bad": reference}}, version="0.3")
    good = """
from isochrony.nbuffering import BufferFunction, Processor
P = Processor("upper case", lambda argument: BufferFunction(lambda b: bytes(b).upper(), makes_output=True))
"""
    package("acme-upper", {"acme_upper": good}, {PROCESSORS: {"upper": "acme_upper:P"}})
    out = bytearray()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert iso.nbuffer(b"abc", "crc32c").results["crc32c"] == "364b3fb7"
    with pytest.warns(iso.PluginWarning) as caught:
        iso.nbuffer(b"one\ntwo\n" * 1000, ["upper", "crc32c"], out, stride=7, buffer=777)
    assert bytes(out) == b"ONE\nTWO\n" * 1000
    (text,) = (str(one.message) for one in caught)
    assert "entry point 'bad' of package acme-broken 0.3 (group isochrony.processors) is left out" in text
    assert said in text and "\n" not in text
    with pytest.raises(iso.OptionError, match=r'no processor "bad".*or of other packages upper'):
        iso.nbuffer(b"abc", "bad")


def test_entry_points_that_cannot_be_read_are_named(package: Package, tmp_path: Path) -> None:
    package("acme-torn", {}, {IMPORTERS: {}})
    package("acme-other", {}, {"console_scripts": {}})
    for name in ("acme_torn", "acme_other"):
        path = tmp_path / f"site/{name}-1.0.dist-info/entry_points.txt"
        path.write_text(path.read_text() + "no reference\n")
    package("acme-vib", {"acme_vib": vib("vib")}, {IMPORTERS: {"vib": "acme_vib:FORMAT"}})
    with pytest.warns(iso.PluginWarning, match="of package acme-torn 1.0 .*entry_points.txt cannot be read") as caught:
        assert formats()[-1].name == "vib"
    assert len(caught) == 1


@pytest.mark.parametrize(("name", "owner"), [("csv", "isochrony"), ("raw", "isochrony"), ("vib", "package acme-a 1.0")])
def test_a_format_of_a_name_that_is_taken_is_left_out(name: str, owner: str, package: Package) -> None:
    package("acme-a", {"acme_a": vib("vib")}, {IMPORTERS: {"a": "acme_a:FORMAT"}})
    package("acme-b", {"acme_b": vib(name)}, {IMPORTERS: {"b": "acme_b:FORMAT"}})
    with pytest.warns(iso.PluginWarning, match=f"'b' of package acme-b 1.0 .*its format '{name}' is one of {owner}"):
        names = [one.name for one in formats()]
    assert names.count(name) == (name != "raw")


def test_a_format_that_fails_harms_no_file_of_others(package: Package, tmp_path: Path) -> None:
    source = """
from isochrony.importers import Format
def recognises(head):
    raise IndexError("beyond the head")
def read(path, signal, options):
    yield 5
FORMAT = Format("odd", "a test", (".odd",), read, recognises=recognises)
"""
    package("acme-odd", {"acme_odd": source}, {IMPORTERS: {"odd": "acme_odd:FORMAT"}})
    package("acme-vib", {"acme_vib": vib("vib")}, {IMPORTERS: {"vib": "acme_vib:FORMAT"}})
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.vib").write_bytes(b"VIB1" + np.arange(50, dtype="<i2").tobytes())
    (folder / "b.odd").write_bytes(b"whatever")
    raised = r"'odd' of package acme-odd 1.0 .* recognises no file: its function raised IndexError: beyond the head"
    with pytest.warns(iso.PluginWarning, match=raised):
        found = format_of(folder / "a.vib")
    assert found is not None and found.name == "vib"
    with iso.open(tmp_path / "a.iso", "x") as store, warnings.catch_warnings():
        warnings.simplefilter("ignore", iso.PluginWarning)
        with pytest.warns(iso.PartialImportWarning, match=r"b\.odd"):
            iso.import_files(store, folder)
        np.testing.assert_array_equal(store["a"].values(), np.arange(50))


SUM = """
import numpy as np
from isochrony.nbuffering import BufferFunction, Processor
def add(records, total):
    total += np.frombuffer(records, np.uint8).sum(dtype=np.int64)
def make(argument):
    if argument == "crash":
        raise KeyError("argument")
    if argument == "wrong":
        return 5
    return BufferFunction(add, lambda: np.zeros((), np.int64), np.add, lambda total: int(total) % int(argument or 256))
P = Processor("sum of bytes", make)
"""


def test_a_processor_has_an_argument_an_empty_stream_and_copies(package: Package) -> None:
    package("acme-sum", {"acme_sum": SUM}, {PROCESSORS: {"sum": "acme_sum:P", "total": "acme_sum:P"}})
    data = np.random.default_rng(2).bytes(100_000)
    copies = [bytearray(), io.BytesIO()]
    report = iso.nbuffer(data, ["crc32c", "sum:1000"], copies, buffer=4096)
    assert report.results["sum:1000"] == sum(data) % 1000 and report.result is None
    assert list(report.results) == ["crc32c", "sum:1000"]
    assert bytes(copies[0]) == data and copies[1].getvalue() == data
    assert iso.nbuffer(b"", "sum").results["sum"] == 0


@pytest.mark.parametrize(
    ("process", "said"),
    [
        ("sum:x", "processor 'sum:x' of package acme-sum 1.0"),
        ("sum:crash", "'sum:crash' of package acme-sum 1.0 is refused: KeyError: 'argument'"),
        ("sum:wrong", r"makes a int; its make\(\) must return an isochrony.nbuffering.BufferFunction"),
        (["sum", "total"], "two processors in Python, 'sum' and 'total'"),
        (["sum", len], "'sum' is a function of a package, and takes the place of one of your own"),
    ],
)
def test_what_a_processor_cannot_do_is_refused(process: object, said: str, package: Package) -> None:
    package("acme-sum", {"acme_sum": SUM.replace("int(argument or 256)", "modulus").replace(
        "    return BufferFunction", "    modulus = int(argument or 256)\n    return BufferFunction")},
        {PROCESSORS: {"sum": "acme_sum:P", "total": "acme_sum:P"}})  # fmt: skip
    with pytest.raises(iso.OptionError, match=said):
        iso.nbuffer(b"abc", process)
