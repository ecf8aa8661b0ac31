"""Measures what the CFAR detectors promise, checks it, and draws it: docs/figures/cfar.svg.

python cfar.py FIGURE.svg

Left: false alarms of noise alone over those that were asked for. Right: how often a target is detected, measured and by
theory. Seeds are fixed, so the figure is, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

import isochrony as iso

Values = npt.NDArray[np.float64]

COUNT = 4_000_000
PFAS = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2]
TRAINING, MEMORY = 16, 1000
TARGETS_PFA = 1e-4


def scan(values: Values) -> Any:
    return iso.scan(values, rate=1000)


#: Name, colour, mark, noise, and levels of it for a probability of false alarms.
DETECTORS: list[tuple[str, str, str, Callable[[np.random.Generator], Values], Callable[[Values, float], Values]]] = [
    (
        "ca_cfar, 32 cells, exponential power",
        "#4e79a7",
        "o",
        lambda rng: rng.exponential(3.0, COUNT),
        lambda x, pfa: scan(x).ca_cfar(pfa, training=TRAINING).collect(),
    ),
    (
        "ca_cfar, degrees=1, squares of Gaussian samples",
        "#59a14f",
        "s",
        lambda rng: rng.normal(size=COUNT) ** 2,
        lambda x, pfa: scan(x).ca_cfar(pfa, training=TRAINING, degrees=1).collect(),
    ),
    (
        "ca_cfar, order=0.75, exponential power",
        "#b07aa1",
        "^",
        lambda rng: rng.exponential(3.0, COUNT),
        lambda x, pfa: scan(x).ca_cfar(pfa, training=TRAINING, order=0.75).collect(),
    ),
    (
        "cfar, memory=1000, Gaussian scores",
        "#e15759",
        "D",
        lambda rng: rng.normal(40.0, 3.0, COUNT),
        lambda x, pfa: scan(x).cfar(pfa, memory=MEMORY).collect()[MEMORY:],
    ),
]


def false_alarms(axes: Any) -> None:
    for seed, (name, colour, mark, noise, levels) in enumerate(DETECTORS):
        values = noise(np.random.default_rng(seed))
        ratios, errors = [], []
        for pfa in PFAS:
            of = levels(values, pfa)
            ratios.append(float((of >= 1).mean()) / pfa)
            errors.append(2 * ((1 - pfa) / (pfa * len(of))) ** 0.5)
            assert abs(ratios[-1] - 1) < 0.2, (name, pfa, ratios[-1])
        at = np.array(PFAS) * 1.05 ** (seed - 1.5)
        axes.errorbar(at, ratios, errors, color=colour, marker=mark, markersize=4, linewidth=0.8, label=name)
        print(f"{name}: " + ", ".join(f"{pfa:g} x {ratio:.3f}" for pfa, ratio in zip(PFAS, ratios, strict=True)))
    axes.axhspan(0.8, 1.2, color="#8c8c8c", alpha=0.15, linewidth=0)
    axes.axhline(1, color="#8c8c8c", linewidth=0.8)
    axes.set(xscale="log", ylim=(0.7, 1.3), xlabel="probability asked for", ylabel="measured over asked for")
    axes.set_title(f"False alarms in {COUNT // 1_000_000} million numbers (bars: two binomial deviations)")


def detections(axes: Any) -> None:
    cells = 2 * TRAINING
    decibels = np.arange(0.0, 26.0, 2.0)
    fine = np.linspace(0.0, 25.0, 200)

    def mean(db: Values) -> Values:
        """Swerling's first case under cell averaging."""
        alpha = TARGETS_PFA ** (-1 / cells) - 1
        return (1 + alpha / (1 + 10 ** (db / 10))) ** -cells

    def rank(db: Values) -> Values:
        """The same under an ordered statistic (Rohling)."""
        below = cells - np.arange(round(0.75 * cells))

        def tail(factor: Values) -> Values:
            return np.exp(-np.log1p(np.asarray(factor)[..., None] / below).sum(-1))

        low, high = 0.0, 1e3
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if tail(np.array(middle)) > TARGETS_PFA else (low, middle)
        return tail(high / (1 + 10 ** (db / 10)))

    def student(db: Values) -> Values:
        """A constant on Gaussian noise that was estimated of as many numbers as the weights are worth."""
        n = 2 * MEMORY - 1
        limit = stats.t.isf(TARGETS_PFA, n - 1)
        return stats.nct.sf(limit, n - 1, 10 ** (db / 20) / (1 + 1 / n) ** 0.5)

    def power(rng: np.random.Generator, db: float) -> tuple[Values, slice]:
        values = rng.exponential(size=640_000)
        values[32::64] *= 1 + 10 ** (db / 10)
        # Levels begin where there are all cells.
        return values, slice(32 - TRAINING - 2, None, 64)

    def score(rng: np.random.Generator, db: float) -> tuple[Values, slice]:
        # So few that those that are not detected hardly count as noise.
        values = rng.normal(size=4_096_000)
        values[8192::1024] += 10 ** (db / 20)
        # Levels begin where the noise was learned.
        return values, slice(8192 - MEMORY, None, 1024)

    theory = [mean, mean, rank, student]
    for seed, (name, colour, mark, _, levels) in enumerate(DETECTORS):
        if "degrees" in name:
            continue
        points = []
        for db in decibels:
            values, targets = (score if seed == 3 else power)(np.random.default_rng(seed + 10), db)
            of = levels(values, TARGETS_PFA)
            hits = (of >= 1)[targets]
            points.append(hits.mean())
            want = theory[seed](np.array(db))
            deviation = max((want * (1 - want) / len(hits)) ** 0.5, 1 / len(hits))
            # Of targets that are not detected the running noise is up to 1 % louder: theory has none.
            assert abs(points[-1] - want) < 5 * deviation + (0.02 if seed == 3 else 0), (name, db, points[-1], want)
        axes.plot(fine, theory[seed](fine), color=colour, linewidth=1)
        axes.plot(decibels, points, color=colour, marker=mark, markersize=4, linestyle="none", label=name)
    axes.set(xlabel="power of the target over the noise's, dB", ylabel="part of targets detected", ylim=(-0.03, 1.03))
    axes.set_title(f"Targets found at one false alarm in {1 / TARGETS_PFA:.0f} (lines: theory)")


def main(figure: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "isochrony", "svg.fonttype": "none", "axes.titlesize": 9})
    import matplotlib.pyplot as plt

    drawn, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4))
    false_alarms(left)
    detections(right)
    drawn.legend(*left.get_legend_handles_labels(), loc="lower center", ncols=2, fontsize=8, frameon=False)
    drawn.tight_layout(rect=(0, 0.11, 1, 1))
    drawn.savefig(figure, metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
