"""Plans on a Dask cluster of two worker processes of one thread each: against two threads of this process, and against
the same work in dask.array over our Zarr store; and how many tasks a second go through. Results are asserted equal.

Both cores of a small machine are the workers' and the client's at once: on other hosts the client has its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dask.array as da
import distributed
import numpy as np
import zarr
from peers import quartiles
from peers_flow import RESULTS, compare
from scipy.signal import periodogram

import isochrony as iso
from isochrony.running.options import RunOptions
from isochrony.running.runs import run_reported

RATE, WINDOW, TAPS = 1000, 4096, 255
#: Part of the speed of threads, times that of dask.array, and empty tasks a second, which must be reached.
GOAL_THREADS, GOAL_DASK, GOAL_TASKS = 0.9, 10.0, 5000.0


def filtered(signal: iso.Signal) -> iso.Plan:
    """Much to compute, little to send: a long filter, and of each window the largest value of its spectrum."""
    taps = np.hanning(TAPS) / np.hanning(TAPS).sum()
    plan = iso.scan(signal).fir(taps.tolist(), method="direct")
    return plan.rewindow(WINDOW).power().map(lambda s: s.max())


def spectra(signal: iso.Signal) -> iso.Plan:
    """What dask.array can do, too."""
    return iso.scan(signal).rewindow(WINDOW).power().map(lambda s: s.max())


def spectra_in_dask(store: Path, client: Any) -> np.ndarray[Any, Any]:
    """The largest value of each window's periodogram."""
    samples = da.from_zarr(zarr.open(str(store), mode="r")["s/data"])
    whole = samples[: samples.shape[0] // WINDOW * WINDOW]
    chunk = max(whole.chunksize[0] // WINDOW, 1) * WINDOW

    def largest(block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        _, power = periodogram(block.reshape(-1, WINDOW), RATE, window="hann", detrend="constant")
        return power.max(axis=1)

    cut = whole.rechunk((chunk,))
    windows = cut.map_blocks(largest, dtype="f8", chunks=(tuple(one // WINDOW for one in cut.chunks[0]),))
    return np.asarray(client.compute(windows).result())


def empty_tasks(signal: iso.Signal, client: Any, bytes_each: int) -> tuple[int, float]:
    """Tasks, and seconds: each only counts windows."""
    options = RunOptions.of(on=client)
    options.settings["task"] = bytes_each
    plan = iso.scan(signal).rewindow(64).filter(lambda s: s.max() > 1e9).count()
    start = time.perf_counter()
    report = run_reported((plan,), options).report
    return len(report.tasks), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    count, rounds = (1 << 22, 1) if arguments.quick else (1 << 27, 9)
    values = np.random.default_rng(0).integers(-2000, 2000, count, dtype="i2")
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        tempfile.TemporaryDirectory() as folder,
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
    ):
        path = Path(folder) / "bench.iso"
        with iso.open(path, "x") as store:
            store.create("s", dtype="i2", rate=RATE).append(values)
            store.commit()
        signal = iso.open(path)["s"]
        plan = filtered(signal)
        expected = plan.collect(workers=2)

        def timed(run: Any) -> float:
            start = time.perf_counter()
            found = run()
            spent = time.perf_counter() - start
            assert np.array_equal(found, expected)
            return spent

        compare(
            "cluster/long filter, power/2 workers",
            lambda: timed(lambda: plan.collect(on=client)),
            {"workers=2": lambda: timed(lambda: plan.collect(workers=2))},
            samples=count,
            rounds=rounds,
            goals={"workers=2": GOAL_THREADS},
        )
        plan = spectra(signal)
        expected = plan.collect(workers=2)
        in_dask = spectra_in_dask(path, client)
        np.testing.assert_allclose(in_dask, expected.ravel(), rtol=1e-6)

        def dask_turn() -> float:
            start = time.perf_counter()
            spectra_in_dask(path, client)
            return time.perf_counter() - start

        compare(
            "cluster/power/2 workers",
            lambda: timed(lambda: plan.collect(on=client)),
            {"dask.array over the same store": dask_turn},
            samples=count,
            rounds=rounds,
            goals={"dask.array over the same store": GOAL_DASK},
        )
        rates, times = [], []
        for _ in range(rounds + 1):
            tasks, spent = empty_tasks(signal, client, 2 * count // (400 if arguments.quick else 50_000))
            rates.append(tasks / spent)
            times.append(spent)
        rate = quartiles(rates[1:])
        ratio = quartiles([one / GOAL_TASKS for one in rates[1:]])
        RESULTS.append(
            {
                "name": f"cluster/{tasks} empty tasks/2 workers",
                "other": f"{GOAL_TASKS:.0f} tasks/s",
                "bytes": 2 * count,
                "seconds": quartiles(times[1:]),
                "other_seconds": (tasks / GOAL_TASKS,) * 3,
                "ratio": ratio,
                "goal": ">= 1",
                "met": ratio[0] >= 1,
            }
        )
        print(f"{rate[0]:.0f} empty tasks a second ({rate[1]:.0f} to {rate[2]:.0f})", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(RESULTS, indent=1))


if __name__ == "__main__":
    sys.exit(main())
