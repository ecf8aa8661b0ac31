"""PASSCHAIN: ten operators that do nothing, between ends that read every sample.

What is left is what the engine itself costs. The operators are opaque to the optimiser: they stay in
the plan and are counted. Segments are of 4,096 samples.

    python examples/passchain.py
"""

import numpy as np

import isochrony as iso


def passchain(samples: np.ndarray, operators: int = 10) -> iso.Plan:
    """From samples through a chain of operators to their sums."""
    plan = iso.scan(samples, segment=4096, rate=1_000_000).map(lambda s: s + 1)
    for _ in range(operators):
        plan = plan.passthrough()
    return plan.rewindow(4096).map(lambda s: s.sum())


def main() -> None:
    """Run it over 64 Msamples, compare with NumPy, and show what each operator did."""
    samples = np.random.default_rng(1).integers(-1000, 1000, 1 << 26).astype("i4")
    plan = passchain(samples)
    assert plan.collect().sum() == (samples + 1).sum(dtype="i8")
    report = plan.run().report
    print(report)
    print(f"{len(samples) / report.elapsed_s / 1e6:,.0f} Msamples/s")


if __name__ == "__main__":
    main()
