"""DETECTAUDIO, PIPELINE and PACKETS, whole, against the same work in NumPy and SciPy, by turns in one thread;
PIPELINE on two workers, too.

The plans are those of `examples/`, over arrays in memory with one clock. What others find is asserted equal to what
ours finds before its time counts. NumPy's work is done in chunks that stay in the cache; what it has no vector for, the
detector's noise model, which each number changes for the next, is a loop in Python, or the same loop compiled by Numba.
GNU Radio has no such detector: it does what comes before, and its time is that of less work.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from peers_flow import MISSING, RESULTS, Server, Turn, compare, missing

# Behind it: it sets the number of threads before NumPy is loaded.
import numpy as np  # isort: skip
from peers_detectors import Array, Ranges, groups, jit, levels, tail, triggered  # isort: skip

import isochrony as iso

GOAL = 5.0


def example(name: str) -> ModuleType:
    """A module of `examples/`."""
    path = Path(__file__).parents[1] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DETECT, PIPE, RADIO = example("detectaudio"), example("pipeline"), example("packets")

# --- DETECTAUDIO -------------------------------------------------------------------


def sound(count: int) -> Array:
    """Four channels of noise, a call every second that reaches them one after the other."""
    rng = np.random.default_rng(1)
    made = rng.normal(0, 100, (4, count)).astype("f4")
    call = 1500 * DETECT.call()
    for begin in range(DETECT.RATE, count - DETECT.RATE, DETECT.RATE):
        for channel, late in enumerate((0, 7, 19, 23)):
            made[channel, begin + late :][: len(call)] += call
    return made


def scores_by_fft(samples: Array, chunk: int = 1024) -> Array:
    from scipy import fft

    window = DETECT.WINDOW
    hertz = fft.rfftfreq(window, 1 / DETECT.RATE)
    band = np.flatnonzero((hertz >= 1500) & (hertz <= 7500))
    found = np.empty(len(samples) // window, "f4")
    rows = samples.reshape(-1, window)
    for at in range(0, len(rows), chunk):
        spectra = fft.rfft(rows[at : at + chunk])[:, band[0] : band[-1] + 1]
        found[at : at + chunk] = np.abs(spectra).sum(axis=1)
    return found


def scores_by_product(samples: Array, chunk: int = 1024) -> Array:
    """Only the frequencies that count, as a product of matrices."""
    window = DETECT.WINDOW
    hertz = np.fft.rfftfreq(window, 1 / DETECT.RATE)
    band = np.flatnonzero((hertz >= 1500) & (hertz <= 7500))
    angles = 2 * np.pi / window * np.outer(np.arange(window), band)
    waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype("f4")
    found = np.empty(len(samples) // window, "f4")
    rows = samples.reshape(-1, window)
    for at in range(0, len(rows), chunk):
        parts = rows[at : at + chunk] @ waves
        parts *= parts
        found[at : at + chunk] = np.sqrt(parts[:, : len(band)] + parts[:, len(band) :]).sum(axis=1)
    return found


def detect_peer(scores: Callable[[Array], Array], compiled: Any, channels: Array) -> tuple[Ranges, list[Array]]:
    found = compiled(scores(channels[0]), 7.0, 1000, tail(7.0))
    seconds = DETECT.RATE
    ranges = triggered(found, DETECT.WINDOW, 1.0, 0.5, round(0.005 * seconds), round(0.02 * seconds))
    return ranges, [np.concatenate([one[start:end] for start, end in ranges]) for one in channels]


def detectaudio(count: int, rounds: int, radio: Server | None) -> None:
    channels = sound(count)
    scans = [iso.scan(one, rate=DETECT.RATE) for one in channels]
    ranges = DETECT.detected(scans[0])
    heard = scans[0].sync(*scans[1:], on=ranges)

    def ours() -> tuple[Ranges, list[Array]]:
        found, *kept = iso.collect(ranges, *heard)
        return [(int(a), int(b)) for a, b in found], kept

    def score() -> Array:
        return np.asarray(scans[0].rewindow(DETECT.WINDOW).spectral_score(band_hz=(1500, 7500)).collect()).ravel()

    expected = ours()
    assert len(expected[0]) >= count // DETECT.RATE - 2
    compiled = jit(levels)
    by_fft = partial(detect_peer, scores_by_fft, compiled, channels)
    by_product = partial(detect_peer, scores_by_product, compiled, channels)
    plainly = partial(detect_peer, scores_by_fft, lambda scores, *how: levels(scores.tolist(), *how), channels)

    def same(found: tuple[Ranges, list[Array]]) -> None:
        assert found[0] == expected[0]
        for here, there in zip(found[1], expected[1], strict=True):
            np.testing.assert_array_equal(here, there)

    peers = {
        "SciPy's rfft in chunks, the detector in Python": turn(plainly, same),
        "SciPy's rfft in chunks, Numba's detector": turn(by_fft, same),
        "NumPy in chunks, the band alone as a matrix product, Numba's detector": turn(by_product, same),
    }
    compare(
        "DETECTAUDIO, four channels of float32",
        turn(ours, same),
        peers,
        samples=channels.size,
        rounds=rounds,
        size=4,
        goals=dict.fromkeys(peers, GOAL),
    )
    if radio is not None:
        windows = count // DETECT.WINDOW
        compare(
            "DETECTAUDIO's scores alone, one channel of float32",
            turn(score, lambda found: None if len(found) == windows else _differ(len(found), windows)),
            {f"GNU Radio {radio.greeting}": radio.turn(f"{DETECT.WINDOW} {count}", windows)},
            samples=count,
            rounds=rounds,
            size=4,
            goals={f"GNU Radio {radio.greeting}": GOAL},
        )


# --- PIPELINE ----------------------------------------------------------------------


def vibration(count: int) -> Array:
    """Four stations of a pipe: noise, and a fall every three minutes that reaches them one after the other."""
    rng = np.random.default_rng(2)
    made = rng.normal(5000, 3, (4, count)).astype("f4")
    every = 360_000
    for begin in range(every, count - 8 * PIPE.WINDOW, every):
        for station, late in enumerate((0, 801, 907, 2203)):
            since = np.arange(60_000)[: count - begin - late]
            made[station, begin + late :][: len(since)] += 300 * np.expm1(-since / 8) * np.exp(-since / 15_000)
    return np.rint(made).astype("i2")


Rows = list[list[int]]


def pipeline_by_sums(compiled: Any, stations: Array, chunk: int = 16) -> Rows:
    """The wavelets of one level, as differences of sums that NumPy makes of the samples as they are stored."""
    block, window = 2**PIPE.LEVELS, PIPE.WINDOW
    total = np.zeros(stations.shape[1] // window)
    for samples in stations:
        blocks = samples.reshape(-1, window // block, 2, block // 2)
        for at in range(0, len(blocks), chunk):
            sums = blocks[at : at + chunk].sum(axis=3, dtype="i4")
            total[at : at + chunk] += (sums[:, :, 0] - sums[:, :, 1]).max(axis=1)
    return _steepest(stations, compiled(total / math.sqrt(block), 20.0, 60, tail(20.0)))


def pipeline_by_products(compiled: Any, stations: Array, chunk: int = 16) -> Rows:
    """The wavelets of one level as a product of matrices, in single precision, which is exact of such sums."""
    block, window = 2**PIPE.LEVELS, PIPE.WINDOW
    wavelet = np.repeat([1.0, -1.0], block // 2).astype("f4")
    total = np.zeros(stations.shape[1] // window)
    for samples in stations:
        blocks = samples.reshape(-1, window)
        for at in range(0, len(blocks), chunk):
            singles = blocks[at : at + chunk].astype("f4").reshape(-1, block)
            total[at : at + chunk] += (singles @ wavelet).reshape(-1, window // block).max(axis=1)
    return _steepest(stations, compiled(total / math.sqrt(block), 20.0, 60, tail(20.0)))


def pipeline_plainly(compiled: Any, stations: Array, chunk: int = 16) -> Rows:
    """The transform as it is written down, level by level."""
    window = PIPE.WINDOW
    total = np.zeros(stations.shape[1] // window)
    for samples in stations:
        windows = samples.reshape(-1, window)
        for at in range(0, len(windows), chunk):
            sums = windows[at : at + chunk].astype("f4")
            for _ in range(PIPE.LEVELS - 1):
                sums = sums[:, ::2] + sums[:, 1::2]
            total[at : at + chunk] += (sums[:, ::2] - sums[:, 1::2]).max(axis=1)
    return _steepest(stations, compiled(total / math.sqrt(2**PIPE.LEVELS), 20.0, 60, tail(20.0)))


def _steepest(stations: Array, levels: Array) -> Rows:
    """Where each station falls most, in each window around what was detected."""
    window, taps = PIPE.WINDOW, np.array(PIPE.STEEP)
    found: Rows = [[] for _ in stations]
    for group in groups(np.flatnonzero(levels >= 1), 3):
        start = max(int(group[0]) - 1, 0) * window
        end = min((int(group[-1]) + 2) * window, stations.shape[1])
        for samples, ats in zip(stations, found, strict=True):
            fall = np.convolve(samples[start:end], taps)[: end - start]
            for at in range(0, end - start - 2 * window + 1, window):
                ats.append(start + at + int(fall[at : at + 2 * window].argmin()))
    return found


def fallen(stations: Array, workers: int = 1) -> Callable[[], Rows]:
    scans = [iso.scan(one, rate=2000) for one in stations]
    first, *others = zipped = scans[0].zip(*scans[1:])
    heard = first.sync(*others, on=PIPE.leaks(zipped))
    plans = [one.fir(PIPE.STEEP).rewindow(2 * PIPE.WINDOW, PIPE.WINDOW).trim_peak("min") for one in heard]
    return lambda: [np.asarray(table["at"]).tolist() for table in iso.collect(*plans, workers=workers)]


def found_as(ours: Callable[[], Rows], stations: Array) -> Callable[[Rows], None]:
    """Checks that others find the same."""
    expected = ours()
    assert len(expected[0]) >= stations.shape[1] // 360_000 - 1

    def same(found: Rows) -> None:
        assert found == expected

    return same


def pipeline(count: int, rounds: int) -> None:
    stations = vibration(count)
    ours = fallen(stations)
    same = found_as(ours, stations)
    compiled = jit(levels)
    peers = {
        "NumPy in chunks, level by level, Numba's detector": pipeline_plainly,
        "NumPy in chunks, sums of integers, Numba's detector": pipeline_by_sums,
        "NumPy in chunks, a matrix product, Numba's detector": pipeline_by_products,
    }
    compare(
        "PIPELINE, four stations of int16",
        turn(ours, same),
        {name: turn(partial(peer, compiled, stations), same) for name, peer in peers.items()},
        samples=stations.size,
        rounds=rounds,
        size=2,
        goals=dict.fromkeys(peers, GOAL),
    )


def pipeline_on_workers(count: int, rounds: int) -> None:
    stations = vibration(count)
    one, two = (fallen(stations, workers) for workers in (1, 2))
    same = found_as(one, stations)
    compare(
        "PIPELINE, four stations of int16, two workers",
        turn(two, same),
        {"one worker": turn(one, same)},
        samples=stations.size,
        rounds=rounds,
        size=2,
        goals={"one worker": 1.6},
    )


# --- PACKETS -----------------------------------------------------------------------


def heard(count: int) -> tuple[Array, list[Array]]:
    """Packets as sent, and as eight receivers in three rooms heard them: all of them, a third without an error."""
    rng = np.random.default_rng(3)
    sent = RADIO.send(rng, count)
    bits = (len(set(RADIO.ROOMS)), count, 8 * RADIO.BYTES)
    bursts = (rng.random(bits, "f4") < 0.004) & (rng.random(bits[:2]) < 0.5)[:, :, None]
    copies = []
    for room in RADIO.ROOMS:
        wrong = bursts[room] | (rng.random(bits[1:], "f4") < 2e-4)
        copies.append(sent ^ np.packbits(wrong, axis=1, bitorder="little"))
    return sent, copies


def agree(packets: Array) -> Array:
    """Which packets agree with their check; NumPy has no CRC."""
    found = [zlib.crc32(packet) for packet in _rows(packets)]
    return np.array(found, "u4") == np.ascontiguousarray(packets[:, -4:]).view("<u4")[:, 0]


def _rows(packets: Array) -> list[bytes]:
    data, size = packets.tobytes(), packets.shape[1]
    return [data[at : at + size - 4] for at in range(0, len(data), size)]


def by_majority(copies: list[Array], chunk: int = 256) -> Array:
    """What is intact, or agrees with its check after a majority of all receivers."""
    found = np.zeros(len(copies[0]), bool)
    for at in range(0, len(found), chunk):
        some = np.array([one[at : at + chunk] for one in copies])
        votes = np.unpackbits(some, axis=2).sum(axis=0, dtype="u1")
        voted = np.packbits(votes > len(copies) // 2, axis=1)
        found[at : at + chunk] = agree(voted)
        for one in some:
            left = ~found[at : at + chunk]
            found[at : at + chunk][left] = agree(one[left])
    return found


def packets(count: int, rounds: int) -> None:
    sent, copies = heard(count)
    first, *others = (iso.scan(one.reshape(-1), rate=1).rewindow(RADIO.BYTES) for one in copies)
    _, clusters, rates = RADIO.rooms([first, *others])
    pairs = np.equal.outer
    assert np.array_equal(pairs(clusters, clusters), pairs(RADIO.ROOMS, RADIO.ROOMS)), clusters
    both = [
        first.error_correlation(*others),
        first.combine_packets(*others, clusters=clusters, error_rates=rates),
    ]
    everything = {packet.tobytes() for packet in sent}

    def same(found: list[Array]) -> None:
        made = np.asarray(found[1]).reshape(-1, RADIO.BYTES)
        assert len(made) >= majority
        assert all(packet.tobytes() in everything for packet in made[:: max(len(made) // 1000, 1)])

    def none_less(found: Array) -> None:
        assert np.count_nonzero(found) == majority

    majority = np.count_nonzero(by_majority(copies))
    compare(
        "PACKETS, eight receivers, correlated and combined",
        turn(lambda: iso.collect(*both), same),
        {"NumPy's bits and zlib's check, a majority alone": turn(partial(by_majority, copies), none_less)},
        samples=len(copies) * sent.size,
        rounds=rounds,
        size=1,
        goals={"NumPy's bits and zlib's check, a majority alone": GOAL},
    )
    seconds = RESULTS[-1]["seconds"][0]
    print(f"PACKETS: {count / seconds:,.0f} packets/s, {len(copies) * count / seconds:,.0f} copies/s")


# -----------------------------------------------------------------------------------


def turn(run: Callable[[], Any], check: Callable[[Any], None]) -> Turn:
    """Runs once; the result is looked at outside of the time."""

    def once() -> float:
        start = time.perf_counter()
        found = run()
        spent = time.perf_counter() - start
        check(found)
        return spent

    return once


def _differ(found: int, expected: int) -> None:
    raise AssertionError(f"{found} instead of {expected}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 7
    try:
        import numba  # noqa: F401
        import scipy  # noqa: F401
    except ImportError as error:
        missing("applications", f"{error} (pip install scipy numba)")
    else:
        radio = None
        try:
            radio = Server("/usr/bin/python3", Path(__file__).with_name("applications_gnuradio.py"), greets=True)
        except (OSError, RuntimeError) as error:
            missing("GNU Radio's scores", f"{error}; apt-get install --no-install-recommends gnuradio")
        detectaudio((1 << 18 if arguments.quick else 1 << 22) // 480 * 480, rounds, radio)
        if radio is not None:
            radio.close()
        pipeline(1 << (20 if arguments.quick else 22), rounds)
        pipeline_on_workers(1 << (20 if arguments.quick else 24), rounds)
        packets(2000 if arguments.quick else 20_000, rounds)
    if arguments.out:
        arguments.out.write_text(json.dumps({"results": RESULTS, "missing": MISSING}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
