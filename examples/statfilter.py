"""STATFILTER: of all windows, those that vary much around a negative mean.

The functions are traced once and compiled; both conditions are computed in one pass over each window,
and windows that pass are not copied.

    python examples/statfilter.py
"""

import numpy as np

import isochrony as iso


def statfilter(source: iso.Plan) -> iso.Plan:
    """The windows of 4,096 samples whose deviation is above 10 and whose mean is below 0."""
    windows = source.rewindow(4096)
    return windows.filter(lambda s: s.std() > 10).filter(lambda s: s.mean() < 0)


def main() -> None:
    """Run it over 64 Msamples of 16 bits, and compare with NumPy."""
    rng = np.random.default_rng(2)
    loudness = rng.choice([4, 9.9, 10.1, 30], 1 << 14)[:, None]
    rows = np.rint(rng.standard_normal((1 << 14, 4096), dtype="f4") * loudness).astype("i2")
    plan = statfilter(iso.scan(rows.reshape(-1), rate=1_000_000))
    print(plan.explain())
    found = plan.count().collect()
    assert found == np.count_nonzero((rows.std(axis=1) > 10) & (rows.mean(axis=1) < 0))
    print(plan.run().report)
    print(f"{found} of {len(rows)} windows")


if __name__ == "__main__":
    main()
