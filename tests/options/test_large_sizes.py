"""Sizes that are far too large are errors that name the value, the limit and a way out; none ends the process."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import isochrony as iso

HUGE = 1 << 50


def samples() -> iso.Plan:
    return iso.scan(np.arange(64.0), rate=100)


def live(segment: int) -> Any:
    feed = iso.listen("udp://127.0.0.1:0", dtype="f8", rate=1000, silence=0.05)
    return iso.scan(feed, segment=segment).count().collect()


# What is asked for, and what the error says of it.
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "taper": (
        lambda: iso.taper_factors("hann", 1 << 45),
        r"a taper of 35184372088832 samples needs 64 bytes for each, but only",
    ),
    "taper of all": (lambda: iso.taper_factors("hann", 1 << 62), r"give a smaller width"),
    "adds_up": (lambda: iso.adds_up("hann", 1 << 34, 1), r"a taper of 17179869184 samples"),
    "nbuffer buffer": (
        lambda: iso.nbuffer(iter_reader(), "sha256", buffer=HUGE, memory=HUGE << 8),
        r"buffer=\d+ is refused; give fewer bytes or fewer workers: .* need \d+ bytes, and \d+ are free",
    ),
    "nbuffer stride": (
        lambda: iso.nbuffer(iter_reader(), lambda record: None, stride=HUGE, memory=HUGE << 8),
        r"stride=1125899906842624 is refused; give fewer bytes",
    ),
    "nbuffer memory": (
        lambda: iso.nbuffer(iter_reader(), lambda record: None, stride=HUGE),
        r"memory=100000000 bytes are too few: .* give memory=\d+ or more",
    ),
    "listen buffer": (
        lambda: iso.listen("udp://127.0.0.1:0", dtype="f4", rate=1000, buffer=1 << 62),
        r"buffer=4611686018427387904 is refused; give bytes from 1 to \d+, the memory that is free",
    ),
    "listen max_frame": (
        lambda: iso.listen("udp://127.0.0.1:0", dtype="f4", rate=1000, max_frame=HUGE),
        r"max_frame=1125899906842624 is refused; give bytes from 64 to 268435456",
    ),
    "live segment": (lambda: live(HUGE), r"segment=1125899906842624 is refused; give samples from 1 to 33554432"),
    "fir taps": (
        lambda: samples().fir(taps=HUGE, band="lowpass", cutoff_hz=10),
        r"taps=1125899906842624 must be from 1 to 1048576",
    ),
    "fir memory": (
        lambda: samples().fir(taps=(1 << 20) - 1, band="lowpass", cutoff_hz=10).collect(memory=32 << 20),
        r"fir \(node 1\): taps=1048575 needs \d+ bytes of tables, but 33554432 bytes is what memory= gives .*memory=",
    ),
    "resample": (
        lambda: samples().resample(up=HUGE + 1),
        r"up/down=1125899906842625\S* must be a ratio from 1/1048576",
    ),
    "resample rate": (
        lambda: samples().resample(rate_hz=1e12),
        r"rate_hz=1000000000000 must be a ratio from 1/1048576 to 1048576",
    ),
    "power": (lambda: samples().rewindow(HUGE >> 5).power(), r"window=35184372088832 needs \d+ bytes of tables"),
    "rewindow": (lambda: samples().rewindow(HUGE), r"window=1125899906842624 must be .*2\^46"),
    "running mean": (lambda: samples().running_mean(1e12), r"1000000000000"),
    "delay": (lambda: samples().rewindow(4).feedback(lambda x, y: x, delay=HUGE), r"1125899906842624"),
    "limit of values": (lambda: iso.scan(np.zeros(3), rate=1).collect(memory=0), r"memory"),
}


def iter_reader() -> Any:
    class Reader:
        def read(self, size: int) -> bytes:
            return b""

    return Reader()


@pytest.mark.parametrize("name", REFUSED)
def test_a_huge_size_is_an_error_that_says_what_is_possible(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(iso.IsochronyError) as caught:
        call()
    assert re.search(message, str(caught.value)), str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
def test_a_huge_ratio_keeps_to_the_memory_of_its_run() -> None:
    # 157 taps for each of 1,000,003 phases would be 1.2 GB.
    plan = "iso.scan(np.arange(1000.0), rate=100).resample(up=1_000_003)"
    text = limited(f"print({plan}.limit(10**5).count().collect(memory='16MiB'))", 512)
    assert text == "100000\ndone\n"
    text = limited(f"{plan}.count().collect(memory='4MiB')", 512)
    assert text.startswith("RunError memory_cap resample (node 1"), text


def test_sizes_that_only_bound_something_may_be_huge() -> None:
    np.testing.assert_array_equal(iso.scan(np.arange(64.0), rate=100, segment=1 << 62).collect(), np.arange(64.0))
    assert samples().rewindow(1 << 45).count().collect() == 0
    assert iso.scan(np.arange(1000.0), rate=100).resample(up=1_000_003, down=1_000_000).count().collect() == 846
    assert samples().limit(1 << 62).collect().shape == (64,)


# What it takes above what the interpreter and its libraries have.
LIMITED = """
    import resource, sys
    import numpy as np
    import isochrony as iso

    used = next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]
    limit = int(used) * 1024 + ({mib} << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        {call}
    except (iso.IsochronyError, MemoryError) as error:
        print(type(error).__name__, getattr(error, "code", ""), error)
    else:
        print("done")
"""


def limited(call: str, mib: int = 1024) -> str:
    """What a call says in a process whose address space is limited."""
    program = textwrap.dedent(LIMITED).format(call=call, mib=mib)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("iso.scan(np.zeros(8), rate=1).rewindow(1 << 25).power()", "PlanError too_large power: window=33554432 needs"),
        ("iso.scan(np.zeros(8), rate=1).rewindow(1 << 26).rms()", "PlanError too_large rms: window=67108864 needs"),
        (
            'iso.nbuffer(b"abc", lambda r: None, stride=1, buffer=2 << 30, memory=16 << 30, workers=1)',
            "done",
        ),
        (
            "iso.nbuffer(sys.stdin.buffer, lambda r: None, buffer=2 << 30, memory=6 << 30, workers=1, ramp=False)",
            "NBufferOSError nbuf_read cannot read input 0 (<stdin>) at byte 0: a buffer of 2",
        ),
        (
            "iso.generate(lambda: (np.ones(1 << 20) for _ in range(4096)), dtype='f8', rate=1).collect(memory=1 << 40)",
            "RunError result_too_large",
        ),
    ],
)
def test_what_the_system_refuses_is_an_error_and_not_the_end(call: str, said: str) -> None:
    text = limited(call)
    assert text.startswith(said), text


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
def test_a_result_that_does_not_fit_says_how_much_there_was_and_what_to_do() -> None:
    text = limited("iso.generate(lambda: (np.ones(1 << 20) for _ in range(4096)), dtype='f8', rate=1).collect()", 512)
    assert re.search(r"result_too_large .*a result of \d+ bytes needs \d+ more", text), text
    assert "sink_parquet" in text, text


LEVEL = """
    import tempfile, numpy as np, isochrony as iso
    store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    x = store.create("x", dtype="i2", rate=1000, start="2020-01-01T00:00:00Z")
    x.append(np.zeros(3_000_000, "i2"))
    x.append_gap(samples=10**15)
    x.append(np.zeros(3_000_000, "i2"))
    store.commit()
    level = store["x"].level(512)[:]
    for read in (level.values, level.times, lambda: level.values(fill=0.0)):
        try:
            read()
        except (iso.IsochronyError, MemoryError) as error:
            print(type(error).__name__, getattr(error, "code", ""), error)
"""


def test_a_level_over_a_long_gap_is_an_error_and_not_the_end() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LEVEL)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    first, _, last = done.stdout.splitlines()
    assert re.search(r"too_large one array for this selection needs 156\d{11} bytes", first), first
    assert first == last


RECORD = """
    import os, struct, sys, tempfile, numpy as np, isochrony as iso
    path = tempfile.mkdtemp() + "/a.iso"
    store = iso.open(path, "x")
    store.create("x", dtype="i2", rate=1000).append(np.zeros(10, "i2"))
    store.commit()
    reader = iso.open(path)
    x = reader["x"]
    (log,) = [name for name in os.listdir(path + "/.isochrony") if name.startswith("log.")]
    with open(f"{path}/.isochrony/{log}", "r+b") as file:
        data = file.read()
        # The place of the next record: a length of 0, in front of the checksum and number of the acknowledged one.
        words = np.frombuffer(data, "<u4")
        (at,) = [k for k in range(2, len(words) - 8, 2) if words[k] == 0 and words[k + 1] and words[k + 2] == 1][:1]
        # It claims 4 GB less a page, in a file with a hole of that size.
        file.seek(4 * at)
        file.write(struct.pack("<I", 0xFFFFF000))
        file.truncate(5 << 30)
    import resource
    used = next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]
    limit = int(used) * 1024 + (512 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        reader.refresh()
        print("refreshed")
    except iso.IsochronyError as error:
        print(type(error).__name__, error.code)
    os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
def test_a_record_of_the_log_that_claims_gigabytes_is_an_error_and_not_the_end() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RECORD)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert "no_memory" in done.stdout, done.stdout


def test_decimals_with_absurd_exponents_are_refused_at_once() -> None:
    program = """
        from decimal import Decimal
        import isochrony as iso
        for text in ("1e999999999", "-1e-999999999"):
            for call in (lambda d: iso.Time("2020-01-01") + d, lambda d: iso.graph().timebase("x", rate=d)):
                try:
                    call(Decimal(text))
                except (iso.IsochronyError, TypeError, ValueError, AttributeError) as error:
                    print(type(error).__name__)
        print(iso.Time("2020-01-01T00:00:00Z") + Decimal("0e-999999999"))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5, done.stdout
