"""Plans against what users have now, by turns in one run: GNU Radio, NumPy, Polars, DuckDB; and Python against Rust.

Every result is asserted equal to ours before its time counts. A peer that is not installed is listed as missing, never
as beaten. Peers that live in another process (GNU Radio under Debian's Python, the Rust benchmark) time themselves on
request, so turns are taken across processes. Everything runs on one thread but GNU Radio, which has one a block.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before the libraries start their threads.
for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
# Nor do our plans use more than one, unless a measurement says so.
os.environ.setdefault("ISOCHRONY_WORKER", "1")

import numpy as np  # noqa: E402
from peers import quartiles  # noqa: E402

import isochrony as iso  # noqa: E402

WINDOW = 4096
DEVIATION = 1182.0
RESULTS: list[dict[str, Any]] = []
MISSING: list[dict[str, str]] = []

#: Runs once; gives seconds.
Turn = Callable[[], float]


def compare(
    name: str,
    ours: Turn,
    others: dict[str, Turn],
    *,
    samples: int,
    rounds: int,
    size: int = 2,
    goals: dict[str, float] | None = None,
) -> None:
    """Times ours and all others by turns after a round that does not count; a ratio above one: ours is faster."""
    runs = {"": ours, **others}
    times: dict[str, list[float]] = {which: [] for which in runs}
    for turn in range(rounds + 1):
        for which, run in runs.items():
            spent = run()
            if turn:
                times[which].append(spent)
    for other in others:
        ratio = quartiles([b / a for a, b in zip(times[""], times[other], strict=True)])
        goal = (goals or {}).get(other)
        RESULTS.append(
            {
                "name": name,
                "other": other,
                "bytes": samples * size,
                "seconds": quartiles(times[""]),
                "other_seconds": quartiles(times[other]),
                "ratio": ratio,
                "goal": None if goal is None else f">= {goal}",
                "met": None if goal is None else ratio[0] >= goal,
            }
        )
        rates = [samples / quartiles(times[which])[0] / 1e6 for which in ("", other)]
        print(
            f"{name} against {other}: {rates[0]:.0f} and {rates[1]:.1f} Msamples/s, "
            f"ratio {ratio[0]:.3f} ({ratio[1]:.3f} to {ratio[2]:.3f})",
            flush=True,
        )


def missing(name: str, why: str) -> None:
    MISSING.append({"name": name, "why": why})
    print(f"{name} is missing: {why}", flush=True)


def timed(run: Callable[[], int], expected: int) -> Turn:
    def turn() -> float:
        start = time.perf_counter()
        found = run()
        spent = time.perf_counter() - start
        assert found == expected, f"{found} instead of {expected}"
        return spent

    return turn


class Server:
    """A process that runs on request and says how long it took."""

    def __init__(self, *command: str | Path, greets: bool = False) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.greeting = self._line() if greets else ""

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} ended with {self.process.wait()}")
        return line.strip()

    def turn(self, request: str, expected: int) -> Turn:
        def turn() -> float:
            assert self.process.stdin is not None
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            seconds, found = self._line().split()
            assert int(found) == expected, f"{request}: {found} instead of {expected}"
            return float(seconds)

        return turn

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def numpy_plain(samples: np.ndarray[Any, Any]) -> int:
    """As a user writes it, a chunk at a time."""
    count = 0
    for at in range(0, len(samples), 64 * WINDOW):
        windows = samples[at : at + 64 * WINDOW].reshape(-1, WINDOW)
        count += int(((windows.std(axis=1) > DEVIATION) & (windows.mean(axis=1) < 0)).sum())
    return count


def numpy_moments(samples: np.ndarray[Any, Any]) -> int:
    """As fast as we could make it: moments of a chunk that stays in the cache, as dot products of 32-bit floats."""
    count = 0
    ones = np.ones(WINDOW, dtype=np.float32)
    for at in range(0, len(samples), 16 * WINDOW):
        windows = samples[at : at + 16 * WINDOW].reshape(-1, WINDOW).astype(np.float32)
        mean = (windows @ ones).astype(np.float64) / WINDOW
        squares = np.einsum("ij,ij->i", windows, windows).astype(np.float64) / WINDOW
        count += int(((np.sqrt(squares - mean * mean) > DEVIATION) & (mean < 0)).sum())
    return count


def statfilter_peers(samples: np.ndarray[Any, Any]) -> dict[str, Callable[[], int]]:
    peers: dict[str, Callable[[], int]] = {
        "NumPy in chunks": lambda: numpy_plain(samples),
        "NumPy in chunks, by moments": lambda: numpy_moments(samples),
    }
    try:
        import polars as pl
    except ImportError as error:
        missing("Polars", str(error))
    else:
        frame = pl.DataFrame({"x": samples, "window": np.arange(len(samples), dtype=np.uint32) // WINDOW})
        rows = pl.DataFrame({"x": samples.reshape(-1, WINDOW)})
        row = pl.col("x").arr

        def grouped() -> int:
            windows = frame.lazy().group_by("window").agg(s=pl.col("x").std(ddof=0), m=pl.col("x").mean())
            return windows.filter((pl.col("s") > DEVIATION) & (pl.col("m") < 0)).select(pl.len()).collect().item()

        peers[f"Polars {pl.__version__}, windows as rows"] = lambda: (
            rows.lazy().filter((row.std(ddof=0) > DEVIATION) & (row.mean() < 0)).select(pl.len()).collect().item()
        )
        peers[f"Polars {pl.__version__}, group_by"] = grouped
    try:
        import duckdb
    except ImportError as error:
        missing("DuckDB", str(error))
    else:
        database = duckdb.connect()
        database.execute("SET threads=1")
        recording = {"x": samples}
        database.execute("CREATE TABLE samples AS SELECT x FROM recording")
        del recording
        query = (
            "SELECT count(*) FROM (SELECT avg(x) AS m, stddev_pop(x) AS s FROM samples "
            f"GROUP BY rowid // {WINDOW}) WHERE s > {DEVIATION} AND m < 0"
        )
        peers[f"DuckDB {duckdb.__version__}"] = lambda: database.execute(query).fetchone()[0]
    return peers


def statfilter(count: int, rounds: int) -> None:
    block = np.random.default_rng(9).integers(-2048, 2048, 1 << 20, dtype=np.int16)
    samples = np.tile(block, count >> 20)
    plan = iso.scan(samples, rate=48_000).rewindow(WINDOW)
    plan = plan.filter(lambda s: s.std() > DEVIATION).filter(lambda s: s.mean() < 0).count()
    expected = plan.collect()
    assert 0 < expected < count // WINDOW // 3
    peers = statfilter_peers(samples)
    ours = timed(plan.collect, expected)
    turns = {name: timed(run, expected) for name, run in peers.items()}
    goals = {"NumPy in chunks": 12.0, "NumPy in chunks, by moments": 12.0}
    compare("py/statfilter/16-bit/4096", ours, turns, samples=count, rounds=rounds, goals=goals)


def python_against_rust(rust: Server, folder: Path, count: int, rounds: int) -> None:
    """The same saved plan over the same stored signal, run by either; enough of it that starting does not show."""
    block = np.random.default_rng(9).integers(-2048, 2048, 1 << 20, dtype=np.int16)
    with iso.open(folder / "plan.iso", "x") as store:
        writer = store.create("s", dtype="i2", rate=48_000)
        for _ in range(count >> 20):
            writer.append(block)
        store.commit()
    with iso.open(folder / "plan.iso") as store:
        plan = iso.scan(store["s"]).rewindow(WINDOW)
        plan = plan.filter(lambda s: s.std() > DEVIATION).filter(lambda s: s.mean() < 0).count()
        path = folder / "plan.json"
        path.write_text(plan.to_json())
        expected = plan.collect()
        other = {"the same plan run by Rust": rust.turn(f"plan {path}", expected)}
        goals = {"the same plan run by Rust": 0.99}
        ours = timed(plan.collect, expected)
        compare("py/plan/statfilter", ours, other, samples=count, rounds=3 * rounds, goals=goals)


def passchain(rust: Server, quick: bool, rounds: int) -> None:
    radio = None
    try:
        radio = Server("/usr/bin/python3", Path(__file__).with_name("peers_gnuradio.py"), greets=True)
    except (OSError, RuntimeError) as error:
        missing("GNU Radio", f"{error}; apt-get install --no-install-recommends gnuradio")
    missing(
        "FutureSDR", "not built here; 820 to 1870 and 8.2 Msamples/s for 10 and 1000 operators were measured before"
    )
    if radio is None:
        return
    for operators, count in ((10, 1 << 22), (1000, 1 << 17)) if quick else ((10, 1 << 26), (1000, 1 << 21)):
        if quick and operators == 1000:
            continue
        ours = rust.turn(f"chain {operators} {count}", count)
        name = f"GNU Radio {radio.greeting}, copy blocks"
        others = {name: radio.turn(f"{operators} {count}", count)}
        compare(f"peers/passchain/{operators}-operators", ours, others, samples=count, rounds=rounds)
    radio.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rust", type=Path, required=True, help="the Rust benchmark, iso-bench")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 7
    count = (2 if arguments.quick else 32) << 20
    rust = Server(arguments.rust, "--serve")
    passchain(rust, arguments.quick, rounds)
    statfilter(count, rounds)
    with tempfile.TemporaryDirectory(dir=arguments.dir) as name:
        python_against_rust(rust, Path(name), 8 * count, rounds)
    rust.close()
    if arguments.out:
        arguments.out.write_text(json.dumps({"results": RESULTS, "missing": MISSING}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
