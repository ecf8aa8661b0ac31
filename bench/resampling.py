"""Resampling against soxr and SciPy at equal quality, by turns in one run and one thread.

Equal quality is measured, not taken from names: tones over the band must come out at their exact places, and those that
alias must be gone, by ours and by the other, to the decibels that are printed, before any time counts. Ours are whole
plans from an array to an array; theirs are the calls that a user makes. The precision is measured too: ours computes in
that of the samples, soxr in singles or doubles as its quality says. So doubles are also compared with its "VHQ", whose
results are more exact than ours, and each comparison says in what the other computes.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers_flow import MISSING, RESULTS, Turn, compare, missing

# Behind it: it sets the number of threads before NumPy is loaded.
import numpy as np  # isort: skip

import isochrony as iso

Array = np.ndarray[Any, Any]

#: From and to which rate. The last has no ratio of small numbers.
RATES = [(24_000, 48_000), (480_000, 48_000), (44_100, 48_000), (48_000, 47_123.456)]
#: Attenuation and passband of ours, and the quality of soxr that is as good or less so.
QUALITIES = [(100.0, 0.9, "MQ"), (125.0, 0.92, "HQ")]


def worst_db(resample: Callable[[Array], Array], before: float, after: float, passband: float) -> float:
    """The largest error of tones that pass, and rest of tones that alias, in dB below them: root of the mean square."""
    count = 1 << 16
    low = min(before, after) / 2
    worst = math.inf
    for part in (0.03, 0.3, 0.6, 0.8, 0.95):
        hz = part * passband * low
        samples = np.cos(2 * np.pi * (hz / before) * np.arange(count))
        made = resample(samples)
        places = np.arange(len(made)) * (before / after)
        edge = len(made) // 8
        w = 2 * np.pi * (hz / before) * places[edge:-edge]
        # Gain and phase are not counted as errors: only what is not the tone.
        tone = np.column_stack([np.cos(w), np.sin(w)])
        rest = made[edge:-edge] - tone @ np.linalg.lstsq(tone, made[edge:-edge], rcond=None)[0]
        worst = min(worst, -20 * math.log10(max(float(rest.std()), 1e-20) * math.sqrt(2)))
    for part in (1.02, 1.3, 2.7) if after < before else ():
        hz = part * low
        if hz < before / 2:
            made = resample(np.cos(2 * np.pi * (hz / before) * np.arange(count)))
            edge = len(made) // 8
            worst = min(worst, -20 * math.log10(max(float(made[edge:-edge].std()), 1e-20) * math.sqrt(2)))
    return worst


def computes_in(resample: Callable[[Array], Array]) -> str:
    """In doubles, if results of doubles are not all singles."""
    made = resample(1 + 1e-9 * np.cos(0.05 * np.arange(1 << 14)))
    return "singles" if np.array_equal(made, made.astype("f4")) else "doubles"


def turn(run: Callable[[], Array], count: int, times: int = 1) -> Turn:
    """Runs once; what runs on a part of the samples counts so many times."""

    def once() -> float:
        start = time.perf_counter()
        made = run()
        spent = time.perf_counter() - start
        assert abs(made.size - count) <= 1
        return spent * times

    return once


def resampling(count: int, rounds: int) -> None:
    try:
        import soxr
    except ImportError:
        soxr = None
        missing("resampling", "soxr is not installed (pip install soxr)")
    from scipy import signal

    samples = np.random.default_rng(3).standard_normal(count)
    for before, after in RATES:
        ratio = after / before
        for attenuation, passband, quality in QUALITIES:

            def ours(
                x: Array, before: float = before, after: float = after, a: float = attenuation, p: float = passband
            ) -> Array:
                return np.asarray(
                    iso.scan(x, rate=before).resample(after, attenuation_db=a, passband=p, edges="zeros").collect()
                )

            own_db = worst_db(ours, before, after, passband)
            assert own_db > attenuation - 6, own_db
            for dtype in ("f4", "f8"):
                x = samples[: int(count * min(1.0, 2 / ratio))].astype(dtype)
                expected = math.ceil(len(x) * ratio)
                others: dict[str, Turn] = {}
                for name in ((quality, "VHQ") if dtype == "f8" else (quality,)) if soxr else ():

                    def theirs(x: Array, before: float = before, after: float = after, q: str = name) -> Array:
                        return np.asarray(soxr.resample(x, before, after, quality=q))

                    their_db = worst_db(theirs, before, after, passband)
                    label = f"soxr {name}, {their_db:.0f} dB in {computes_in(theirs)}"
                    others[label] = turn(lambda x=x, f=theirs: f(x), expected)
                if float(after).is_integer() and quality == "MQ":
                    common = math.gcd(before, int(after))
                    up, down = int(after) // common, before // common
                    most = max(up, down)
                    lowpass = signal.firwin(
                        128 * most + 1, 0.95 / most, window=("kaiser", 0.1102 * (attenuation - 8.7))
                    )
                    taps = lowpass.astype(dtype)

                    def scipys(x: Array, up: int = up, down: int = down, taps: Array = taps) -> Array:
                        return np.asarray(signal.resample_poly(x, up, down, window=taps))

                    # A fifteenth of soxr's speed: measured on an eighth of the samples.
                    part = x[: len(x) // 8]
                    others["SciPy resample_poly"] = turn(
                        lambda f=scipys, part=part: f(part), math.ceil(len(part) * ratio), 8
                    )
                plan = iso.scan(x, rate=before).resample(
                    after, attenuation_db=attenuation, passband=passband, edges="zeros"
                )
                compare(
                    f"{before} to {after} Hz, {x.dtype.name}, {own_db:.0f} dB",
                    turn(plan.collect, expected),
                    others,
                    samples=x.size,
                    rounds=rounds,
                    size=x.itemsize,
                    goals={other: 1 for other in others if other.startswith("soxr")},
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    try:
        import scipy  # noqa: F401
    except ImportError:
        missing("resampling", "SciPy is not installed (pip install scipy)")
    else:
        resampling(1 << (17 if arguments.quick else 21), 1 if arguments.quick else 7)
    if arguments.out:
        arguments.out.write_text(json.dumps({"results": RESULTS, "missing": MISSING}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
