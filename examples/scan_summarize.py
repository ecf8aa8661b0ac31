"""Scan Summarize: least, greatest and mean of every minute of a recording, on all cores.

Minutes begin anew behind each gap, and none is made of samples from both sides of one.

    python examples/scan_summarize.py
"""

import tempfile
from pathlib import Path

import numpy as np

import isochrony as iso

MINUTE = 60


def scan_summarize(signal: iso.Signal) -> iso.Plan:
    """A row for each whole minute, with its time."""
    return iso.scan(signal).rewindow(int(MINUTE * signal.rate)).stats("min", "max", "mean")


def main() -> None:
    """Run it over three hours of a pressure logger that was off for ten minutes, and compare with NumPy."""
    rng = np.random.default_rng(5)
    hours = [np.rint(rng.normal(4000, 30, 3600 * 2000)).astype("i2") for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "water.iso"
        with iso.open(path, "x") as store:
            logger = store.create("stn_10/pressure", dtype="i2", rate=2000, unit="kPa", start="2010-03-01T00:00:00Z")
            for k, samples in enumerate(hours):
                logger.append(samples, at=f"2010-03-01T{k:02}:{10 * (k > 0):02}:00Z")
            store.commit()
        with iso.open(path) as store:
            plan = scan_summarize(store["stn_10/pressure"])
            print(plan.explain())
            table = plan.collect(workers="auto")
    minutes = np.concatenate(hours).reshape(-1, MINUTE * 2000)
    np.testing.assert_array_equal(table["max"], minutes.max(axis=1))
    np.testing.assert_allclose(table["mean"], minutes.mean(axis=1))
    loudest = (table["max"] - table["min"]).max()
    print(f"{len(minutes)} whole minutes; most that one went up and down: {loudest} kPa")


if __name__ == "__main__":
    main()
