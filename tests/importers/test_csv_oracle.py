"""Odd CSV files beside a slow reader of one row at a time with exact fractions.

Each file is made of rows with known times and values. A file is either imported, and then every sample is there once,
in order, at the time that its own row says (within half a sample and what the row's digits leave open); or it is
refused with a message that names a row.
"""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony.importers import csv, import_files

SECOND = 10**9
EPOCH = 1_267_401_600 * SECOND


@dataclass
class Table:
    """A file, and what its rows say."""

    text: str
    # Per row the exact time in ns, and how wide its last digit is.
    times: list[Fraction] = field(default_factory=list)
    resolution: int = 1
    values: list[str] = field(default_factory=list)
    rate: Fraction = Fraction(1)
    must_refuse: bool = False


def row_times(random: random.Random, rate: Fraction, count: int) -> tuple[list[Fraction], bool]:
    """Times of rows in ns: regular, with gaps, an excursion, a drifting clock, or another rate behind a gap."""
    kind = random.choice(["regular", "regular", "gaps", "excursion", "drift", "backward", "rate"])
    period = SECOND / rate
    times = [EPOCH + k * period for k in range(count)]
    refused = False
    if kind == "gaps":
        for _ in range(random.randint(1, 4)):
            at = random.randrange(count // 8, count)
            missing = random.choice([1, 2, 3, 50, 100_000])
            times = times[:at] + [time + missing * period for time in times[at:]]
    elif kind == "excursion":
        first, end = sorted(random.sample(range(count // 4, count), 2))
        times[first:end] = [time + 3600 * SECOND for time in times[first:end]]
    elif kind == "backward":
        at = random.randrange(count // 4, count)
        times[at:] = [time - 1800 * SECOND for time in times[at:]]
    elif kind == "drift":
        ppm = random.choice([-200, -30, 30, 200])
        times = [EPOCH + k * period * (1 + Fraction(ppm, 10**6)) for k in range(count)]
    elif kind == "rate":
        at = random.randrange(10, count - 20)
        other = period * Fraction(100, 130)
        times[at:] = [times[at] + 3600 * SECOND + k * other for k in range(count - at)]
        refused = True
    return times, refused


def written(time: Fraction, style: str, digits: int) -> tuple[str, Fraction]:
    """A time as text, and what the text says in ns."""
    scale = 10 ** (9 - digits)
    ns = time.numerator // time.denominator // scale * scale
    if style == "iso":
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=ns // SECOND)
        fraction = f".{ns % SECOND:09d}"[: digits + 1] if digits else ""
        return moment.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z", Fraction(ns)
    if style == "seconds":
        return f"{ns // SECOND}" + (f".{ns % SECOND:09d}"[: digits + 1] if digits else ""), Fraction(ns)
    unit = {"time_ms": 10**6, "t (us)": 10**3, "t[ns]": 1}[style]
    ns = time.numerator // time.denominator // unit * unit
    return str(ns // unit), Fraction(ns)


def made(seed: int) -> Table:
    """One odd file."""
    chance = random.Random(seed)
    rate = chance.choice([Fraction(1), Fraction(1, 60), Fraction(20), Fraction(100), Fraction(1000, 3), Fraction(2000)])
    count = chance.choice([40, 200, 1000, 3000])
    times, refused = row_times(chance, rate, count)
    style = chance.choice(["iso", "iso", "seconds", "time_ms", "t (us)", "t[ns]"])
    # As many digits as tell rows apart, or more.
    least = 0 if rate <= 1 else 3 if rate <= 100 else 5
    digits = chance.choice([d for d in (0, 3, 6, 9) if d >= least])
    if style == "time_ms" and rate > 100:
        style = "t (us)"
    table = Table("", rate=rate, must_refuse=refused)
    table.resolution = {"time_ms": 10**6, "t (us)": 10**3, "t[ns]": 1}.get(style, 10 ** (9 - digits))
    delimiter = chance.choice([",", ";", "\t"])
    late = chance.choice([None, None, count // 2, count - 1])
    lines = []
    for k, time in enumerate(times):
        text, exact = written(time, style, digits)
        value = f"{k}.5" if late is not None and k >= late else str(k)
        lines.append(text + delimiter + value)
        table.times.append(exact)
        table.values.append(value)
    title = style if style[0] == "t" else "time"
    table.text = chance.choice(["", "# a remark\n"]) + title + delimiter + "v\n" + "\n".join(lines) + "\n"
    return table


@pytest.mark.parametrize("seed", range(120))
def test_every_row_is_stored_at_its_own_time_or_the_file_is_refused(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "_BATCH_BYTES", random.Random(seed).choice([2048, 16384, 1 << 20]))
    table = made(seed)
    path = tmp_path / "in" / "s.csv"
    path.parent.mkdir()
    path.write_text(table.text, encoding="utf-8")
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        summary = import_files(store, path)
    refused = [reason for (_, reason), kept in zip(summary["problems"], summary["kept"], strict=True) if not kept]
    if refused:
        assert table.must_refuse, refused
        assert "row" in refused[0]
        return
    assert not table.must_refuse, "a change of the rate was not noticed"
    (signal,) = iso.open(tmp_path / "a.iso").values()
    segments = list(signal[:].segments)
    stored = np.concatenate([np.asarray(segment) for segment in segments])
    assert stored.tolist() == [float(value) for value in table.values]
    indices = np.concatenate([np.arange(segment.start, segment.end) for segment in segments])
    half = SECOND / table.rate / 2
    for index, exact in zip(indices.tolist(), table.times, strict=True):
        off = abs(Fraction(signal.time_of(index).ns) - exact)
        assert off <= half + table.resolution, f"index {index} is {float(off)} ns off"


def test_the_oracle_sees_a_wrong_time(tmp_path: Path) -> None:
    """Known answers for the reader that judges."""
    text, exact = written(Fraction(EPOCH + 1_234_567_891), "iso", 3)
    assert (text, exact) == ("2010-03-01T00:00:01.234Z", EPOCH + 1_234_000_000)
    assert written(Fraction(EPOCH + 1_234_567_891), "t (us)", 3) == ("1267401601234567", EPOCH + 1_234_567_000)
    assert written(Fraction(EPOCH + SECOND // 2), "seconds", 0) == ("1267401600", EPOCH)


def test_gaps_that_a_wrong_rate_would_explain_are_found(tmp_path: Path) -> None:
    """After two samples in 232, one in 140: in proportion, but no clock is off by a hundredth."""
    lost = {1211: 50, 1536: 2, 1768: 2, 1908: 1}
    at, rows = 0, []
    for row in range(3000):
        at += lost.get(row, 0)
        seconds, ns = divmod(EPOCH + at * SECOND // 2000, SECOND)
        rows.append(f"{seconds}.{ns:09d},{row}")
        at += 1
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["time,value", *rows]))
    with iso.open(tmp_path / "a.iso", mode="x") as store:
        import_files(store, path)
        (signal,) = (signal for _, signal in store.items())
        before = 0
        for (row, samples), gap in zip(lost.items(), signal.gaps, strict=True):
            assert (gap.start, gap.length) == (row + before, samples)
            before += samples
