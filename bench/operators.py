"""Operators of signal processing against the libraries that people use, by turns in one run and one thread.

Every result is asserted equal to the library's, within rounding, before its time counts. Ours are whole plans, from an
array to an array; the library's are the calls that a user makes. A library that is not installed is listed as missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers_flow import MISSING, RESULTS, Turn, compare, missing

# Behind it: it sets the number of threads before NumPy is loaded.
import numpy as np  # isort: skip

import isochrony as iso

RATE = 1000.0

Array = np.ndarray[Any, Any]


def turn(run: Callable[[], Array], expected: Array, tolerance: float) -> Turn:
    """Runs once; the result is looked at in a few thousand places, outside of the time."""
    places = np.linspace(0, expected.size - 1, 5000).astype(int)
    scale = float(np.abs(expected).max())

    def once() -> float:
        start = time.perf_counter()
        found = run()
        spent = time.perf_counter() - start
        assert found.size == expected.size
        np.testing.assert_allclose(found.ravel()[places], expected.ravel()[places], rtol=0, atol=tolerance * scale)
        return spent

    return once


def filters(x: Array, rounds: int) -> None:
    from scipy import signal

    scan = iso.scan(x, rate=RATE)
    tolerance = 1e-5 if x.dtype == np.float32 else 1e-9
    size = x.itemsize
    name = x.dtype.name
    for order in (2, 4, 8):
        sos = signal.butter(order, 60, fs=RATE, output="sos").astype(x.dtype)
        expected = signal.sosfilt(signal.butter(order, 60, fs=RATE, output="sos"), x.astype("f8"))
        compare(
            f"Butterworth low-pass of order {order}, {name}",
            turn(scan.lowpass(60, order).collect, expected, tolerance),
            {"SciPy sosfilt": turn(lambda sos=sos: signal.sosfilt(sos, x), expected, 2e-3 if size == 4 else 1e-9)},
            samples=x.size,
            rounds=rounds,
            size=size,
            goals={"SciPy sosfilt": 2},
        )
    for count in (16, 64, 256, 1024):
        taps = signal.firwin(count, 60, fs=RATE)
        own = taps.astype(x.dtype)
        expected = signal.oaconvolve(x.astype("f8"), taps)[: x.size]
        others = {"SciPy oaconvolve": turn(lambda own=own: signal.oaconvolve(x, own)[: x.size], expected, 1e-4)}
        if count <= 256:
            one = np.ones(1, x.dtype)
            others["SciPy lfilter"] = turn(lambda own=own, one=one: signal.lfilter(own, one, x), expected, 1e-4)
        compare(
            f"FIR filter of {count} taps, {name}",
            turn(scan.fir(taps.tolist()).collect, expected, tolerance),
            others,
            samples=x.size,
            rounds=rounds,
            size=size,
            goals=dict.fromkeys(others, 2),
        )


def spectra(x: Array, rounds: int) -> None:
    from scipy import fft, signal

    windows = iso.scan(x, rate=RATE).rewindow(4096)
    rows = x.reshape(-1, 4096)
    expected = fft.rfft(rows)
    compare(
        f"FFT of windows of 4096, {x.dtype.name}",
        turn(windows.fft().collect, expected, 1e-5),
        {"SciPy rfft": turn(lambda: fft.rfft(rows), expected, 1e-5)},
        samples=x.size,
        rounds=rounds,
        size=x.itemsize,
    )
    _, expected = signal.periodogram(rows, fs=RATE, window="hann")
    compare(
        f"power spectra of windows of 4096, {x.dtype.name}",
        turn(windows.power().collect, expected, 1e-4),
        {"SciPy periodogram": turn(lambda: signal.periodogram(rows, fs=RATE, window="hann")[1], expected, 1e-4)},
        samples=x.size,
        rounds=rounds,
        size=x.itemsize,
    )


def detectors(x: Array, rounds: int) -> None:
    from scipy import ndimage

    try:
        from obspy.signal import trigger
    except ImportError:
        missing("STA/LTA, 1 s and 30 s", "ObsPy is not installed (pip install obspy)")
    else:
        # ObsPy's begins with no average of the long window; from there on they are alike.
        expected = trigger.classic_sta_lta(x, 1000, 30_000)
        compare(
            "classic STA/LTA, 1 s and 30 s",
            turn(iso.scan(x, rate=RATE).stalta(1, 30).collect, expected, 1e-9),
            {"ObsPy, in C": turn(lambda: trigger.classic_sta_lta(x, 1000, 30_000), expected, 1e-9)},
            samples=x.size,
            rounds=rounds,
            size=8,
            goals={"ObsPy, in C": 1},
        )
        expected = trigger.recursive_sta_lta(x, 1000, 30_000)
        compare(
            "recursive STA/LTA, 1 s and 30 s",
            turn(iso.scan(x, rate=RATE).stalta(1, 30, method="recursive").collect, expected, 1e-9),
            {"ObsPy, in C": turn(lambda: trigger.recursive_sta_lta(x, 1000, 30_000), expected, 1e-9)},
            samples=x.size,
            rounds=rounds,
            size=8,
            goals={"ObsPy, in C": 1},
        )
    medians(x, rounds)
    part = x[: x.size // 8]
    expected = ndimage.percentile_filter(part, 50, size=501, origin=250)
    whole = iso.scan(part, rate=RATE).running_quantile(0.501, 0.5)

    def theirs() -> Array:
        return np.asarray(ndimage.percentile_filter(part, 50, size=501, origin=250))

    def ours() -> Array:
        # SciPy's edge differs: what of ours is not full yet is put there.
        found = np.asarray(whole.collect())
        return np.concatenate([expected[:500], found[500:]]) if found.size == part.size else found

    compare(
        "running median over 501 samples",
        turn(ours, expected, 1e-12),
        {"SciPy percentile_filter": turn(theirs, expected, 1e-12)},
        samples=part.size,
        rounds=rounds,
        size=8,
    )


def medians(x: Array, rounds: int) -> None:
    from scipy import ndimage

    for dtype in ("f4", "f8", "i2"):
        part = x[: x.size // 8].astype(dtype) if dtype != "i2" else (x[: x.size // 8] * 3000).astype(dtype)
        for window in (3, 51, 255):
            expected = ndimage.median_filter(part, window, origin=window // 2)
            plan = iso.scan(part, rate=RATE).running_quantile(window / RATE, 0.5)

            def ours(plan: iso.Plan = plan, window: int = window, expected: Array = expected) -> Array:
                # SciPy's edge differs: what of ours is not full yet is put there.
                found = np.asarray(plan.collect())
                found[: window - 1] = expected[: window - 1]
                return found

            def theirs(part: Array = part, window: int = window) -> Array:
                return np.asarray(ndimage.median_filter(part, window, origin=window // 2))

            compare(
                f"running median over {window} samples, {part.dtype.name}",
                turn(ours, expected, 1e-12),
                {"SciPy median_filter": turn(theirs, expected, 1e-12)},
                samples=part.size,
                rounds=rounds,
                size=part.itemsize,
                goals={"SciPy median_filter": 1},
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 7
    count = (64 if arguments.quick else 1024) * 4096
    x = np.random.default_rng(3).standard_normal(count)
    try:
        import scipy  # noqa: F401
    except ImportError:
        missing("operators", "SciPy is not installed (pip install scipy)")
    else:
        for dtype in ("f8", "f4"):
            filters(x.astype(dtype), rounds)
        spectra(x.astype("f4"), rounds)
        spectra(x, rounds)
        detectors(x, rounds)
    if arguments.out:
        arguments.out.write_text(json.dumps({"results": RESULTS, "missing": MISSING}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
