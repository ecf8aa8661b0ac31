"""Ten random expressions of a seed and each elementary function, traced from Python, against NumPy, by turns.

Samples of 16 bits, f32 and f64 in windows of 4,096. NumPy works on blocks of 16 windows, which suits its temporaries
best: whole arrays take it twice as long. Every result is asserted equal to NumPy's before its time counts. Prints each
expression's medians and quartiles, then how many meet the goal of 8 times NumPy; writes the summary for report.py.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from grammar import DTYPES, WINDOW, Node, draw, numpy_value, python, samples, traced
from peers import RESULTS, compare

import isochrony as iso

BLOCK = 16
GOAL = 8.0
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp(s)": np.exp,
    "expm1(s)": np.expm1,
    "log(abs(s))": lambda s: np.log(np.abs(s)),
    "log10(abs(s))": lambda s: np.log10(np.abs(s)),
    "log1p(abs(s))": lambda s: np.log1p(np.abs(s)),
    "sin(s)": np.sin,
    "cos(s)": np.cos,
    "tan(s)": np.tan,
    "tanh(s)": np.tanh,
    "abs(s) ** 1.7": lambda s: np.abs(s) ** 1.7,
    "s % 0.7": lambda s: s % 0.7,
    "s // 0.7": lambda s: s // 0.7,
    "fmod(s, 0.7)": lambda s: np.fmod(s, 0.7),
    "hypot(s, 0.7)": lambda s: np.hypot(s, 0.7),
    "arctan2(s, 0.7)": lambda s: np.arctan2(s, 0.7),
    "floor(s * 9)": lambda s: np.floor(s * 9),
}


def same(ours: np.ndarray, theirs: np.ndarray, of: str) -> bool:
    """Equal but for roundings; comparisons may fall out differently where both sides are as good as equal."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    if ours.dtype == bool:
        return bool(np.mean(ours != theirs) < 1e-4)
    if ours.dtype.kind == "i":
        return bool(np.all(np.abs(ours - theirs) <= 1))
    single = ours.dtype == np.float32 or of == "float32"
    scale = float(np.max(np.abs(theirs)))
    return np.allclose(ours, theirs, rtol=1e-3 if single else 1e-9, atol=scale * (1e-5 if single else 1e-11))


def measure(node: Node, dtype: str, count: int, rounds: int) -> None:
    x = samples(dtype, count)
    windows = x.reshape(-1, WINDOW)
    # NumPy's own rule for integers, which wrap, so that both sides compute the same.
    plan = iso.scan(x, rate=2000).rewindow(WINDOW).map(lambda s: traced(node, s), wrap=True)

    def by_numpy() -> np.ndarray:
        parts = [numpy_value(node, windows[at : at + BLOCK]) for at in range(0, len(windows), BLOCK)]
        return np.concatenate(parts)

    with np.errstate(all="ignore"):
        assert same(np.asarray(plan.collect()), by_numpy(), dtype), (python(node), dtype)
        compare(
            f"py/expr/{python(node)}/{dtype}",
            lambda: plan.collect(),
            "NumPy in blocks",
            by_numpy,
            rounds=rounds,
            size=x.nbytes,
        )


def measure_function(name: str, dtype: str, count: int, rounds: int) -> None:
    x = samples(dtype, count)
    function = FUNCTIONS[name]
    plan = iso.scan(x, rate=2000).map(function)
    blocks = x.reshape(-1, BLOCK * WINDOW)

    def by_numpy() -> np.ndarray:
        return np.concatenate([function(block) for block in blocks])

    with np.errstate(all="ignore"):
        assert same(np.asarray(plan.collect()), by_numpy(), dtype), (name, dtype)
        compare(f"py/expr/{name}/{dtype}", lambda: plan.collect(), "NumPy in blocks", by_numpy, rounds=rounds)


def summary(seed: int, dtype: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """One line for ten expressions: the geometric mean of the ratios, the least and the greatest."""
    ratios = [result["ratio"][0] for result in results]
    times = [
        statistics.geometric_mean(result[which][0] for result in results) for which in ("seconds", "other_seconds")
    ]
    mean = statistics.geometric_mean(ratios)
    met = sum(ratio >= GOAL for ratio in ratios)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"seed {seed}, {dtype}: mean {mean:.2f}, {spread}; {met} of {len(ratios)} at {GOAL}")
    return {
        "name": f"py/expr/{len(ratios)} of seed {seed}/{dtype}",
        "other": "NumPy in blocks (mean, least and greatest of the expressions' medians)",
        "bytes": results[0]["bytes"],
        "seconds": [times[0]] * 3,
        "other_seconds": [times[1]] * 3,
        "ratio": [mean, min(ratios), max(ratios)],
        "goal": f"each >= {GOAL:g}, met by {met} of {len(ratios)}",
        "met": met == len(ratios),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    size, rounds = (1 << 17, 1) if arguments.quick else (1 << 20, 9)
    summaries = []
    for dtype in DTYPES:
        before = len(RESULTS)
        for node in draw(arguments.seed, arguments.count):
            measure(node, dtype, size, rounds)
        summaries.append(summary(arguments.seed, dtype, RESULTS[before:]))
    for dtype in ("float32", "float64"):
        before = len(RESULTS)
        for name in FUNCTIONS:
            measure_function(name, dtype, size, rounds)
        summaries += RESULTS[before:]
    if arguments.out:
        arguments.out.write_text(json.dumps(summaries, indent=1))


if __name__ == "__main__":
    main()
