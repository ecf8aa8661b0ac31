"""Gaps of one to three samples in recordings of every format whose blocks carry stamps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import obspy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from obspy import Trace, UTCDateTime

import isochrony as iso
from isochrony.errors import IsochronyError
from isochrony.importers import import_files

START = 1_267_401_600_000_000_000
RATES = (1, 10, 100, 1000, 10_000)
BEFORE = (5, 100, 5000)
AFTER = 60


@dataclass(frozen=True)
class Case:
    """A recording of `before` samples, `lost` ones that are missing, and `AFTER` more; the clock is exact."""

    rate: int
    before: int
    lost: int

    @property
    def name(self) -> str:
        return f"R{self.rate}B{self.before}L{self.lost}"

    def start(self, part: int) -> int:
        """Civil time of the first sample of a part, ns."""
        return START + (self.before + self.lost) * part * 1_000_000_000 // self.rate

    def samples(self, part: int) -> np.ndarray:
        return np.arange(AFTER if part else self.before, dtype="i4") % 100

    def truth(self) -> list[tuple[int, int]]:
        """Pairs of a sample's place among those recorded, and its civil time in ns."""
        return [
            *((i, START + i * 1_000_000_000 // self.rate) for i in range(self.before)),
            *((self.before + i, self.start(1) + i * 1_000_000_000 // self.rate) for i in range(AFTER)),
        ]


CASES = [Case(*case) for case in product(RATES, BEFORE, (0, 1, 2, 3))]


def times(case: Case) -> list[int]:
    return [time for _, time in case.truth()]


def mseed(folder: Path) -> None:
    for case in CASES:
        header = {"network": "XX", "station": "ABC", "channel": "HHZ", "sampling_rate": float(case.rate)}
        traces = [
            Trace(case.samples(part), header={**header, "starttime": UTCDateTime(ns=case.start(part))})
            for part in (0, 1)
        ]
        # One location for each case would be too few letters.
        for trace in traces:
            trace.stats.station = f"S{CASES.index(case):03}"
        obspy.Stream(traces).write(str(folder / f"{case.name}.mseed"), format="MSEED", reclen=512, encoding="STEIM1")


def parts(folder: Path, write: Callable[[Path, np.ndarray, int], None], suffix: str) -> None:
    for case, part in product(CASES, (0, 1)):
        write(folder / f"{case.name}_{case.start(part) // 1000}{suffix}", case.samples(part), case.rate)


def raw(folder: Path) -> None:
    parts(folder, lambda path, samples, _: samples.tofile(path), ".raw")


def npy(folder: Path) -> None:
    parts(folder, lambda path, samples, _: np.save(path, samples), ".npy")


def wav(folder: Path) -> None:
    parts(folder, lambda path, samples, rate: soundfile.write(path, samples.astype("i2"), rate), ".wav")


def csv(folder: Path) -> None:
    for case in CASES:
        values = np.concatenate([case.samples(0), case.samples(1)])
        stamps = np.array(times(case), "M8[ns]")
        rows = [f"{time}Z,{value}" for time, value in zip(np.datetime_as_string(stamps), values, strict=True)]
        (folder / f"{case.name}.csv").write_text("time,value\n" + "\n".join(rows) + "\n")


def parquet(folder: Path) -> None:
    for case in CASES:
        values = np.concatenate([case.samples(0), case.samples(1)])
        stamps = pa.array(times(case), pa.timestamp("ns", tz="UTC"))
        pq.write_table(pa.table({"time": stamps, "value": values}), folder / f"{case.name}.parquet")


def bring_in(store: iso.Store, folder: Path, kind: str) -> dict[Case, str]:
    """Imports a folder; the signal of each case."""
    layout = "{station}_{epoch}." + kind
    if kind == "raw":
        for rate in RATES:
            only = folder / str(rate)
            only.mkdir()
            for path in folder.glob(f"R{rate}B*.raw"):
                path.rename(only / path.name)
            store.import_raw(only, layout=layout, dtype="<i4", rate=rate)
    elif kind == "npy":
        for rate in RATES:
            only = folder / str(rate)
            only.mkdir()
            for path in folder.glob(f"R{rate}B*.npy"):
                path.rename(only / path.name)
            import_files(store, only, rate=Fraction(rate), layout=layout)
    elif kind == "wav":
        import_files(store, folder, layout=layout)
    else:
        import_files(store, folder)
    if kind == "mseed":
        return {case: f"XX/S{at:03}/--/HHZ" for at, case in enumerate(CASES)}
    names = list(store.keys())
    return {case: next(name for name in names if case.name in name.split("/")) for case in CASES}


#: Nanoseconds that the last digit of the stamps of a format stands for.
RESOLUTION = {"mseed": 100_000, "raw": 1000, "npy": 1000, "wav": 1000, "csv": 1, "parquet": 1}


def wrong(signal: iso.Signal, case: Case, resolution_ns: int) -> Iterator[str]:
    gaps = [gap.length for gap in signal.gaps]
    # Half a sample beyond the resolution of the stamps.
    tells = case.lost > 0.5 + resolution_ns * case.rate / 1e9
    if case.lost == 0 and gaps:
        yield f"{case}: gaps {gaps} where none is"
    # Stamps say its length to their resolution.
    blur = int(resolution_ns * case.rate / 1e9 + 0.5)
    if tells and not (len(gaps) == 1 and abs(gaps[0] - case.lost) <= blur):
        yield f"{case}: gaps {gaps}"
    found = sum(gaps)
    for place, truth in case.truth():
        if place % 7 and place not in (case.before - 1, case.before):
            continue
        time = signal.time_of(place + (found if place >= case.before else 0))
        off = abs(time.ns - truth)
        if off > time.uncertainty_ns + 1:
            yield f"{case}: sample {place} is off by {off} ns, said to be within {time.uncertainty_ns}"
            return


@pytest.mark.parametrize("write", [mseed, raw, npy, wav, csv, parquet], ids=lambda write: write.__name__)
def test_short_gaps_are_found_and_times_are_within_their_uncertainty(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder)
    with iso.open(tmp_path / "out.iso", "x") as store:
        signals = bring_in(store, folder, write.__name__)
        found = [
            line for case, name in signals.items() for line in wrong(store[name], case, RESOLUTION[write.__name__])
        ]
    assert not found, f"{len(found)} of {len(CASES)}: " + "\n".join(found[:10])


def test_a_short_gap_of_a_recorder_is_told_by_append(tmp_path: Path) -> None:
    with iso.open(tmp_path / "out.iso", "x") as store:
        signal = store.create("x", dtype="i2", rate=1000)
        signal.append(np.zeros(100, "i2"), at="2010-03-01T00:00:00")
        signal.append(np.zeros(100, "i2"), at="2010-03-01T00:00:00.102")
        assert [(gap.start, gap.length) for gap in signal.gaps] == [(100, 2)]
        assert signal.time_of(102).ns == START + 102_000_000


def obspy_gaps(path: Path) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Missing samples between the records of each signal, as ObsPy has them, and how many samples there are.

    Signals with overlaps are left out.
    """
    # Records without samples, which ObsPy takes for the ends of gaps, are none.
    stream = obspy.Stream([trace for trace in obspy.read(str(path)) if trace.stats.npts])
    gaps: dict[str, list[int]] = {}
    counts: dict[str, int] = {}
    for trace in stream:
        stats = trace.stats
        name = "/".join((stats.network, stats.station, stats.location or "--", stats.channel))
        gaps.setdefault(name, [])
        counts[name] = counts.get(name, 0) + stats.npts
    for *codes, start, end, seconds, samples in stream.get_gaps():
        network, station, location, channel = codes
        name = "/".join((network, station, location or "--", channel))
        if seconds < 0:
            gaps.pop(name, None)
        elif name in gaps and end > start:
            gaps[name].append(samples)
    return gaps, counts


def test_gaps_of_real_recordings_are_those_of_obspy(recordings: Path, tmp_path: Path) -> None:
    compared = 0
    for path in [*sorted((recordings / "seismic").glob("*.mseed")), *sorted((recordings / "odd-mseed").glob("*.m*"))]:
        try:
            expected, counts = obspy_gaps(path)
        except Exception:  # what ObsPy cannot read says nothing about gaps
            continue
        with iso.open(tmp_path / f"{path.stem}.iso", "x") as store:
            try:
                import_files(store, path)
            except IsochronyError:  # a file that cannot be imported has tests of its own
                continue
            for name, gaps in expected.items():
                if name not in store or len(store[name].runs()) != 1:
                    continue
                ours = [gap.length for gap in store[name].gaps]
                # Where a reader leaves out records that the other takes, gaps differ for that reason.
                if len(store[name]) - sum(ours) == counts[name]:
                    assert ours == gaps, f"{path.name}: {name}"
                    compared += 1
    assert compared > 66
