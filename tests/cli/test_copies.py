"""Copies of signals over pipes and connections: a copy of a copy is the signal, to the last sample and 2^-32 ns."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli.exits import Exit

PROGRAM = "import sys; from isochrony.cli.main import main; sys.exit(main())"


def command(*line: str, **streams: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *line], stderr=subprocess.PIPE, **streams)


def piped(source: Path, copy: Path, name: str, dtype: str, rate: str, *more: str) -> tuple[int, int, str]:
    """``send SOURCE - | record -``: both exit codes, and what was said."""
    sender = command("send", f"{source}/{name}", "-", "--speed", "0", stdout=subprocess.PIPE)
    line = ("record", "-", str(copy), name, "--dtype", dtype, "--rate", rate, *more)
    recorder = command(*line, stdin=sender.stdout, stdout=subprocess.DEVNULL)
    assert sender.stdout is not None and sender.stderr is not None
    sender.stdout.close()
    said = recorder.communicate()[1].decode() + sender.stderr.read().decode()
    return sender.wait(), recorder.returncode, said


def sent(source: Path, copy: Path, name: str, dtype: str, rate: Any) -> None:
    """The same over a connection, in this process."""
    with iso.open(source) as store, iso.open(copy, "x") as to:
        listener = iso.listen("tcp://127.0.0.1:0", dtype=dtype, rate=rate, silence=20)
        plan = iso.scan(store[name]).send(listener.address)
        thread = threading.Thread(target=plan.run)
        thread.start()
        iso.scan(listener).sink(to, name).run()
        thread.join()
        assert listener.counts["truncated_feeds"] == listener.counts["lost_samples"] == 0


def civil(signal: Any, index: int) -> Any:
    """The exact time of a sample; None where it has none."""
    try:
        return signal.time_of(index)
    except iso.StoreError as error:
        assert error.code == "no_civil_time", error
        return None


def described(path: Path, name: str) -> dict[str, Any]:
    """All that a copy is to have."""
    with iso.open(path) as store:
        signal = store[name]
        segments = list(signal[:].segments)
        some = np.linspace(0, max(0, len(signal) - 1), 997).astype(np.int64)
        return {
            "samples": [np.asarray(part.counts).tobytes() for part in segments],
            "starts": [(part.start, len(part)) for part in segments],
            "gaps": [(gap.start, gap.length) for gap in signal.gaps],
            "length": len(signal),
            "times": [str(civil(signal, at)) for part in segments for at in (part.start, part.start + len(part) - 1)],
            "all times": [time and time.ns for time in (civil(signal, at) for at in some.tolist())] if segments else [],
            # A run without samples is not sent.
            "runs": [(run.start, run.end) for run in signal.runs() if run.start < run.end],
            "dtype": signal.dtype,
            "unit": signal.unit,
            "calibration": (signal.scale, signal.offset),
            "attributes": dict(signal.attrs),
            "rate": Fraction(signal.rate.numerator, signal.rate.denominator)
            if hasattr(signal.rate, "numerator")
            else float(signal.rate),
        }


def noise(dtype: str, samples: int, seed: int) -> np.ndarray:
    """Any bits that are numbers."""
    bits = np.random.default_rng(seed).integers(0, 256, samples * np.dtype(dtype).itemsize, dtype="u1")
    values = bits.view(dtype)
    return values if np.dtype(dtype).kind in "iu" else np.nan_to_num(values, nan=1.5)


SIGNALS = [
    ("i2", 48_000, "2026-01-01T00:00:00.000000123", 100_003),
    ("f8", Fraction(200, 3), "1999-12-31T23:59:59.9", 20_011),
    ("i4", 1000, "2026-01-01T12:00:00.5", 123_457),
    ("u1", 1, "1969-07-20T20:17:40", 333),
    ("f4", 1_000_000, "2026-06-30T23:59:59.999999999", 700_001),
    ("i8", Fraction(1, 60), "1900-01-01", 50),
]


def made(path: Path, dtype: str, rate: Any, start: str, samples: int) -> None:
    """A signal with gaps of one sample and of many."""
    with iso.open(path, "x") as store:
        store.create("a/b", dtype=dtype, rate=rate, start=start)
        signal = store["a/b"]
        for number, gap in enumerate((1, 77, 5000)):
            signal.append(noise(dtype, samples, number))
            signal.append_gap(samples=gap)
        signal.append(noise(dtype, 1, 9))


@pytest.mark.parametrize(("dtype", "rate", "start", "samples"), SIGNALS)
def test_the_fifth_copy_of_a_copy_is_the_signal(
    dtype: str, rate: Any, start: str, samples: int, tmp_path: Path
) -> None:
    made(tmp_path / "0.iso", dtype, rate, start, samples)
    first = described(tmp_path / "0.iso", "a/b")
    for number in range(5):
        sent(tmp_path / f"{number}.iso", tmp_path / f"{number + 1}.iso", "a/b", dtype, rate)
        assert described(tmp_path / f"{number + 1}.iso", "a/b") == first, number


@pytest.mark.parametrize(("dtype", "rate", "start", "samples"), SIGNALS[:2])
def test_so_is_that_over_pipes(dtype: str, rate: Any, start: str, samples: int, tmp_path: Path) -> None:
    made(tmp_path / "0.iso", dtype, rate, start, samples)
    first = described(tmp_path / "0.iso", "a/b")
    for number in range(5):
        source, copy = tmp_path / f"{number}.iso", tmp_path / f"{number + 1}.iso"
        done = piped(source, copy, "a/b", dtype, str(rate))
        assert done[:2] == (Exit.OK, Exit.OK), done[2]
        assert described(copy, "a/b") == first, number


def test_clock_steps_and_gaps_of_any_duration_are_copied(tmp_path: Path) -> None:
    with iso.open(tmp_path / "0.iso", "x") as store:
        store.create("a", dtype="i4", rate=100)
        signal = store["a"]
        signal.append(noise("i4", 5000, 1), at="2026-01-01")
        # The clock is set back by an hour, then a week of nothing.
        signal.begin_run()
        signal.append(noise("i4", 5000, 2), at="2025-12-31T23:00:00")
        signal.append(noise("i4", 5000, 3), at="2026-01-07T00:00:00.25")
    first = described(tmp_path / "0.iso", "a")
    assert len(first["runs"]) == 2 and len(first["starts"]) >= 3
    for number in range(5):
        sent(tmp_path / f"{number}.iso", tmp_path / f"{number + 1}.iso", "a", "i4", 100)
        assert described(tmp_path / f"{number + 1}.iso", "a") == first, number


def test_a_copy_of_a_clock_that_drifts_has_its_times(tmp_path: Path) -> None:
    # 20 ppm fast, stamped once a second: the fitted line is copied, not the stamps.
    with iso.open(tmp_path / "0.iso", "x") as store:
        store.create("a", dtype="i2", rate=1000)
        begin = np.datetime64("2026-01-01", "ns")
        for second in range(600):
            at = begin + np.timedelta64(round(second * 1e9 * (1 - 20e-6)), "ns")
            store["a"].append(noise("i2", 1000, second), at=at)
    sent(tmp_path / "0.iso", tmp_path / "1.iso", "a", "i2", 1000)
    was, copied = (described(tmp_path / f"{k}.iso", "a") for k in range(2))
    assert was["samples"] == copied["samples"] and was["starts"] == copied["starts"]
    off = [new - old for new, old in zip(copied["all times"], was["all times"], strict=True)]
    assert np.abs(off).max() < 1000, "less than a microsecond, of a drift of 12 ms"


def test_a_sender_that_stops_early_is_told(tmp_path: Path) -> None:
    made(tmp_path / "0.iso", "i4", 1000, "2026-01-01", 200_000)
    sender = command("send", f"{tmp_path}/0.iso/a/b", "-", "--speed", "10", stdout=subprocess.PIPE)
    line = ("record", "-", str(tmp_path / "1.iso"), "a", "--dtype", "i4", "--rate", "1000")
    assert sender.stdout is not None and sender.stderr is not None
    recorder = command(*line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert recorder.stdin is not None
    recorder.stdin.write(sender.stdout.read(30_000))
    sender.kill()
    said = recorder.communicate()[1].decode()
    sender.stdout.close()
    sender.stderr.close()
    sender.wait()
    assert recorder.returncode == Exit.PARTIAL and "stopped before the end of its signal" in said
    with iso.open(tmp_path / "1.iso") as store:
        assert 0 < len(store["a"]) < 10_000


UNITS: list[tuple[str, tuple[float, float] | None]] = [
    ("", None),
    ("Pa", None),
    ("m/s", (1.1e-7, -0.25)),
    ("µV", (-3.0, 1e300)),
    ("", (0.1, 0.0)),
]


def random_signal(path: Path, seed: int) -> tuple[str, Any]:
    """A signal of a few stretches, which may begin and end with gaps, and has some unit; its dtype and rate."""
    chance = random.Random(seed)
    dtype = chance.choice(["i1", "u1", "i2", "i4", "i8", "f4", "f8"])
    rate = chance.choice([1, 50, 1000, Fraction(200, 3), 48_000])
    unit, calibration = chance.choice(UNITS)
    attributes = chance.choice([{}, {"place": "roof", "serial": [1, 2, {"of": None}]}, {"note": "ü\n\t" * 300}])
    timed = chance.random() < 0.6
    with iso.open(path, "x") as store:
        start = "2026-01-01T00:00:00.000000123" if timed else None
        scale, offset = calibration or (None, None)
        signal = store.create(
            "a/b", dtype=dtype, rate=rate, unit=unit, scale=scale, offset=offset, start=start, attrs=attributes
        )
        if chance.random() < 0.3:
            signal.append_gap(samples=chance.randrange(1, 5000))
        for part in range(chance.randrange(5)):
            if not timed and part > 0 and chance.random() < 0.3:
                signal.begin_run()
            signal.append(noise(dtype, chance.choice([1, 2, 700, 30_000]), part))
            if chance.random() < 0.5:
                signal.append_gap(samples=chance.choice([1, 2, 4000, 10**6]))
        if chance.random() < 0.5:
            signal.append(noise(dtype, 10, 99))
        if chance.random() < 0.6:
            signal.append_gap(samples=chance.choice([1, 3, 10**7]))
    return dtype, rate


@pytest.mark.parametrize("seed", range(60))
def test_a_copy_of_any_signal_is_the_signal(seed: int, tmp_path: Path) -> None:
    dtype, rate = random_signal(tmp_path / "0.iso", seed)
    first = described(tmp_path / "0.iso", "a/b")
    for number in range(2):
        sent(tmp_path / f"{number}.iso", tmp_path / f"{number + 1}.iso", "a/b", dtype, rate)
        copied = described(tmp_path / f"{number + 1}.iso", "a/b")
        assert {key: copied[key] for key in first if copied[key] != first[key]} == {}, (first, number)


@pytest.mark.parametrize("seed", [3, 4, 7, 8, 11, 12])
def test_so_is_that_of_any_signal_over_pipes(seed: int, tmp_path: Path) -> None:
    dtype, rate = random_signal(tmp_path / "0.iso", seed)
    first = described(tmp_path / "0.iso", "a/b")
    for number in range(2):
        source, copy = tmp_path / f"{number}.iso", tmp_path / f"{number + 1}.iso"
        done = piped(source, copy, "a/b", dtype, str(rate))
        assert done[:2] == (Exit.OK, Exit.OK), done[2]
        assert described(copy, "a/b") == first, number


def test_a_datagram_copy_has_unit_calibration_and_both_outer_gaps(tmp_path: Path) -> None:
    with iso.open(tmp_path / "0.iso", "x") as store:
        signal = store.create("a", dtype="i2", rate=1000, unit="Pa", scale=0.5, offset=2, attrs={"place": "roof"})
        signal.append_gap(samples=7)
        signal.append(noise("i2", 2000, 1))
        signal.append_gap(samples=11)
    with iso.open(tmp_path / "0.iso") as store, iso.open(tmp_path / "1.iso", "x") as to:
        listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=1000, silence=20)
        thread = threading.Thread(target=iso.scan(store["a"]).send(listener.address, speed=2).run)
        thread.start()
        iso.scan(listener).sink(to, "a").run()
        thread.join()
    assert described(tmp_path / "1.iso", "a") == described(tmp_path / "0.iso", "a")


def test_a_relay_passes_everything_on(tmp_path: Path) -> None:
    dtype, rate = random_signal(tmp_path / "0.iso", 5)
    with iso.open(tmp_path / "0.iso") as store, iso.open(tmp_path / "1.iso", "x") as to:
        ends = [iso.listen("tcp://127.0.0.1:0", dtype=dtype, rate=rate, silence=20) for _ in range(2)]
        plans = [iso.scan(store["a/b"]).send(ends[0].address), iso.scan(ends[0]).send(ends[1].address)]
        threads = [threading.Thread(target=plan.run) for plan in plans]
        for thread in threads:
            thread.start()
        iso.scan(ends[1]).sink(to, "a/b").run()
        for thread in threads:
            thread.join()
    assert described(tmp_path / "1.iso", "a/b") == described(tmp_path / "0.iso", "a/b")


def test_computed_samples_do_not_take_the_calibration_of_the_feed(tmp_path: Path) -> None:
    with iso.open(tmp_path / "0.iso", "x") as store:
        signal = store.create("a", dtype="i2", rate=1000, unit="Pa", scale=0.5, offset=2, attrs={"place": "roof"})
        signal.append(noise("i2", 2000, 1))
    with iso.open(tmp_path / "0.iso") as store, iso.open(tmp_path / "1.iso", "x") as to:
        listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=1000, silence=20)
        thread = threading.Thread(target=iso.scan(store["a"]).send(listener.address).run)
        thread.start()
        iso.scan(listener).map(lambda s: s * s).sink(to, "a").run()
        thread.join()
        assert listener.sender_unit == "Pa"
        assert (to["a"].unit, dict(to["a"].attrs)) == ("", {})


def test_a_stated_unit_counts_and_another_one_is_told(tmp_path: Path) -> None:
    with iso.open(tmp_path / "0.iso", "x") as store:
        signal = store.create("a", dtype="i2", rate=1000, unit="Pa", scale=0.5, offset=2)
        signal.append(noise("i2", 2000, 1))
    for unit, calibration in (("Pa", (0.5, 2.0)), ("V", (1.0, 0.0))):
        copy = tmp_path / f"{unit}.iso"
        done = piped(tmp_path / "0.iso", copy, "a", "i2", "1000", "--unit", unit)
        assert done[:2] == (Exit.OK, Exit.OK), done[2]
        assert ("without the sender's calibration" in done[2]) == (unit == "V"), done[2]
        with iso.open(copy) as store:
            assert store["a"].unit == unit
            assert (store["a"].scale, store["a"].offset) == calibration
    # What is there already has a unit of its own.
    done = piped(tmp_path / "0.iso", tmp_path / "V.iso", "a", "i2", "1000")
    assert done[1] == Exit.STORE and "choose another name" in done[2], done[2]
