"""XStream's table I: PASSCHAIN, STATFILTER and SILENCEFILTER over nine seconds of a speaker, and what loading takes.

The paper (L. Girod et al., ICDE 2008) sets XStream beside a commercial stream processing system, Borealis, and XStream
without signal segments, which passes each sample by itself. Here the same applications are plans of segments, plans
whose segments hold one sample, and what peers make of them, by turns in one thread; results are asserted equal to
NumPy's before a time counts. Times are of the processor, which other programs change least. All read the recording
from memory. It is nine seconds at 44.1 kHz as in the paper, where starting a run shows, and the same repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bystanders import Bystanders
from peers_flow import MISSING, RESULTS, Server, Turn, compare, missing

# Behind it: it sets the number of threads before NumPy is loaded.
import numpy as np  # isort: skip
from peers import quartiles  # isort: skip

import isochrony as iso

RATE = 44_100
SECONDS = 9
WINDOW = 4096
OPERATORS = 10
#: Samples that PASSCHAIN's end adds up at a time: nine seconds are a whole number of them.
PASSED = 4725
#: Windows that vary more than this hold a voice for SILENCEFILTER; STATFILTER keeps those whose mean is negative.
DEVIATION = 500.0

Samples = np.ndarray[Any, Any]

#: Table I of the paper, samples a second and seconds of loading: the commercial system, Borealis, XStream without
#: signal segments, and XStream.
PAPER = {
    "file loading": ("4.2 s", "8.1 s", "2.24 s", "0.2 s"),
    "PASSCHAIN": (177.7e3, 5.47e3, 92.8e3, 71.4e6),
    "STATFILTER": (72.7e3, 7.05e3, 57.9e3, 97.6e6),
    "SILENCEFILTER": (4.58e3, 142.8, 75.1e3, 64.5e6),
}
OURS, ITEMS = "Isochrony", "Isochrony, segments of one sample"


def speaker() -> Samples:
    """Counts from one to five: half a second of voice every one and a half, between faint noise."""
    rng = np.random.default_rng(8)
    samples = rng.normal(-2, 5, SECONDS * RATE)
    for word in range(5):
        begin = round((0.8 + 1.6 * word) * RATE)
        at = np.arange(RATE // 2)
        voice = np.sin(2 * np.pi * (110 + 15 * word) * at / RATE) + 0.3 * rng.normal(size=len(at))
        samples[begin : begin + len(at)] += 4000 * np.hanning(len(at)) * voice
    return np.rint(samples).astype("i2")


# --- the applications as plans -----------------------------------------------------


def scan(samples: Samples, segment: int | None) -> iso.Plan:
    return iso.scan(samples, rate=RATE) if segment is None else iso.scan(samples, segment=segment, rate=RATE)


def passchain(samples: Samples, segment: int | None) -> iso.Plan:
    """Ten operators that pass segments on, and an end that reads every sample: sums of what came through."""
    plan = scan(samples, segment)
    for _ in range(OPERATORS):
        plan = plan.passthrough()
    return plan.rewindow(PASSED).map(lambda s: s.sum())


def statfilter(samples: Samples, segment: int | None) -> iso.Plan:
    windows = scan(samples, segment).rewindow(WINDOW)
    return windows.filter(lambda s: s.std() > DEVIATION).filter(lambda s: s.mean() < 0).count()


def silencefilter(samples: Samples, segment: int | None) -> iso.Plan:
    sound = scan(samples, segment)
    voiced = sound.rewindow(WINDOW).filter(lambda s: s.std() > DEVIATION).ranges()
    (kept,) = sound.sync(on=voiced)
    return kept


#: How to make the plan of each, and to take its result.
APPLICATIONS: dict[str, tuple[Callable[[Samples, int | None], iso.Plan], Callable[[iso.Plan], Any]]] = {
    "PASSCHAIN": (passchain, lambda plan: int(plan.collect().sum())),
    "STATFILTER": (statfilter, lambda plan: plan.collect()),
    "SILENCEFILTER": (silencefilter, lambda plan: plan.collect()),
}


def engine_share(plan: iso.Plan, runs: int) -> float:
    """Median share of the time outside operators and sources, from the reports of runs that gather nothing."""
    shares = [plan.run(workers=1).report.engine_share for _ in range(runs)]
    return quartiles([share for share in shares if share is not None])[0]


# --- and by peers ------------------------------------------------------------------


def moments(windows: Samples) -> tuple[Samples, Samples]:
    """Mean and deviation of each, as dot products of 32-bit floats."""
    single = windows.astype("f4")
    mean = (single @ np.ones(WINDOW, "f4")).astype("f8") / WINDOW
    squares = np.einsum("ij,ij->i", single, single).astype("f8") / WINDOW
    return mean, np.sqrt(squares - mean * mean)


def plain(windows: Samples) -> tuple[Samples, Samples]:
    return windows.mean(axis=1), windows.std(axis=1)


def by_numpy(samples: Samples, measure: Callable[[Samples], tuple[Samples, Samples]]) -> dict[str, Callable[[], Any]]:
    """Both filters, sixteen windows at a time."""
    windows = samples[: len(samples) // WINDOW * WINDOW].reshape(-1, WINDOW)
    parts = [windows[at : at + 16] for at in range(0, len(windows), 16)]

    def stat() -> int:
        found = (measure(part) for part in parts)
        return sum(int(((deviation > DEVIATION) & (mean < 0)).sum()) for mean, deviation in found)

    def silence() -> Samples:
        return np.concatenate([part[measure(part)[1] > DEVIATION].ravel() for part in parts])

    return {"STATFILTER": stat, "SILENCEFILTER": silence}


def by_polars(samples: Samples) -> dict[str, Callable[[], Any]]:
    import polars as pl

    frame = pl.DataFrame({"x": samples, "window": np.arange(len(samples), dtype="u4") // WINDOW})
    grouped = frame.lazy().group_by("window").agg(s=pl.col("x").std(ddof=0), m=pl.col("x").mean(), n=pl.len())
    voiced = grouped.filter((pl.col("s") > DEVIATION) & (pl.col("n") == WINDOW))
    kept = frame.lazy().join(voiced, on="window", how="semi", maintain_order="left").select("x")
    return {
        "STATFILTER": lambda: voiced.filter(pl.col("m") < 0).select(pl.len()).collect().item(),
        "SILENCEFILTER": lambda: kept.collect()["x"].to_numpy(),
    }


def by_duckdb(samples: Samples) -> dict[str, Callable[[], Any]]:
    """The join is of times with ranges of them, as the paper's."""
    import duckdb

    database = duckdb.connect()
    database.execute("SET threads=1")
    recording = {"t": np.arange(len(samples), dtype="i4"), "x": samples}
    database.execute("CREATE TABLE samples AS SELECT t, x FROM recording")
    del recording
    voiced = (
        f"SELECT t // {WINDOW} AS part, avg(x) AS m FROM samples GROUP BY part "
        f"HAVING stddev_pop(x) > {DEVIATION} AND count(*) = {WINDOW}"
    )
    kept = (
        f"WITH ranges AS (SELECT part * {WINDOW} AS a, (part + 1) * {WINDOW} AS b FROM ({voiced})) "
        "SELECT t, x FROM samples JOIN ranges ON t >= a AND t < b"
    )

    def silence() -> Samples:
        found = database.execute(kept).fetchnumpy()
        return found["x"][np.argsort(found["t"])] if np.any(np.diff(found["t"]) < 0) else found["x"]

    return {
        "STATFILTER": lambda: database.execute(f"SELECT count(*) FROM ({voiced}) WHERE m < 0").fetchone()[0],
        "SILENCEFILTER": silence,
    }


# --- loading -----------------------------------------------------------------------


def write_csv(path: Path, samples: Samples) -> None:
    """A row for each sample: its time to the nanosecond, and its value."""
    nanoseconds = np.arange(len(samples), dtype="i8") * 10**9 // RATE
    times = np.datetime64("2026-01-01T00:00:00", "ns") + nanoseconds.astype("m8[ns]")
    rows = (f"{time}Z,{value}\n" for time, value in zip(np.datetime_as_string(times), samples.tolist(), strict=True))
    with path.open("w") as file:
        file.write("time,value\n")
        file.writelines(rows)


def loading(samples: Samples, folder: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds of the processor until what a CSV file holds can be scanned; ours is stored durably by then."""
    path = folder / "speaker.csv"
    write_csv(path, samples)

    def ours() -> tuple[float, Samples]:
        with tempfile.TemporaryDirectory(dir=folder) as inner, iso.open(Path(inner) / "s.iso", "x") as store:
            begin = time.process_time()
            iso.import_files(store, path)
            spent = time.process_time() - begin
            (name,) = store
            return spent, store[name].counts[:]

    def by_numpy() -> tuple[float, Samples]:
        begin = time.process_time()
        found = np.loadtxt(path, "i2", delimiter=",", skiprows=1, usecols=1)
        return time.process_time() - begin, found

    runs: dict[str, Callable[[], tuple[float, Samples]]] = {OURS: ours, "NumPy": by_numpy}
    try:
        import polars as pl
    except ImportError as error:
        missing("Polars", str(error))
    else:

        def by_polars() -> tuple[float, Samples]:
            begin = time.process_time()
            frame = pl.read_csv(path, try_parse_dates=True)
            return time.process_time() - begin, frame["value"].to_numpy()

        runs["Polars"] = by_polars
    try:
        import duckdb
    except ImportError as error:
        missing("DuckDB", str(error))
    else:

        def by_duckdb() -> tuple[float, Samples]:
            with duckdb.connect() as database:
                database.execute("SET threads=1")
                begin = time.process_time()
                database.execute(f"CREATE TABLE samples AS SELECT * FROM read_csv('{path}')")
                spent = time.process_time() - begin
                return spent, database.execute("SELECT value FROM samples").fetchnumpy()["value"]

        runs["DuckDB"] = by_duckdb
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            spent, found = run()
            np.testing.assert_array_equal(found, samples, name)
            if turn:
                times[name].append(spent)
    return {name: quartiles(each) for name, each in times.items()}


# --- the table ---------------------------------------------------------------------


def checked(run: Callable[[], Any], expected: Any) -> Turn:
    """Runs once and gives seconds of the processor; looking at the result is not timed."""

    def turn() -> float:
        begin = time.process_time()
        found = run()
        spent = time.process_time() - begin
        np.testing.assert_array_equal(found, expected)
        return spent

    return turn


#: By application and who runs it.
Figures = dict[str, dict[str, float]]


def applications(samples: Samples, what: str, rounds: int, radio: Server | None) -> tuple[Figures, dict[str, float]]:
    """Samples a second of each application; and the engine's share of the time, of ours."""
    peers = {
        "NumPy": by_numpy(samples, plain),
        "NumPy, by moments": by_numpy(samples, moments),
    }
    for name, make in (("Polars", by_polars), ("DuckDB", by_duckdb)):
        try:
            peers[name] = make(samples)
        except ImportError as error:
            missing(name, str(error))
    expected = {"PASSCHAIN": int(samples.sum(dtype="i8"))} | {which: run() for which, run in peers["NumPy"].items()}
    assert 0 < expected["STATFILTER"] < len(samples) // WINDOW // 4
    assert 0 < len(expected["SILENCEFILTER"]) < len(samples) // 2
    rates: Figures = {}
    shares: dict[str, float] = {}
    for which, (make, result) in APPLICATIONS.items():
        plans = {OURS: make(samples, None), ITEMS: make(samples, 1)}
        others = {ITEMS: checked(partial(result, plans[ITEMS]), expected[which])}
        others |= {name: checked(runs[which], expected[which]) for name, runs in peers.items() if which in runs}
        if radio is not None and which == "PASSCHAIN":
            others["GNU Radio"] = radio.turn(f"{OPERATORS} {len(samples)}", len(samples))
        before = len(RESULTS)
        ours = checked(partial(result, plans[OURS]), expected[which])
        compare(f"xstream/{which}/{what}", ours, others, samples=len(samples), rounds=rounds)
        seconds = {result["other"]: result["other_seconds"][0] for result in RESULTS[before:]}
        seconds[OURS] = RESULTS[before]["seconds"][0]
        rates[which] = {name: len(samples) / spent for name, spent in seconds.items()}
        shares[which] = engine_share(plans[OURS], max(rounds, 5))
    return rates, shares


def number(rate: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if rate >= size:
            return f"{rate / size:.3g}{unit}"
    return f"{rate:.3g}"


def table(
    what: str, figures: tuple[Figures, dict[str, float]], loaded: dict[str, list[float]] | None, by: Bystanders
) -> None:
    rates, shares = figures
    here = [OURS, ITEMS, "NumPy", "NumPy, by moments", "Polars", "DuckDB", "GNU Radio"]
    here = [name for name in here if any(name in row for row in rates.values())]
    rows = []
    if loaded is not None:
        seconds = [f"{loaded[name][0]:.3f} s" if name in loaded else "–" for name in here]
        rows.append(["file loading", *PAPER["file loading"], *seconds])
    for which, row in rates.items():
        rows.append([which, *map(number, PAPER[which]), *(number(row[name]) if name in row else "–" for name in here)])
    for which, share in shares.items():
        own = [f"{100 * share:.1f} %" if name == OURS else "–" for name in here]
        rows.append([f"{which}, share of the time in the engine", *("–" for _ in PAPER[which]), *own])
    there = ["commercial, 2008", "Borealis, 2008", "XStream without segments, 2008", "XStream, 2008"]
    RESULTS.append(
        {
            "name": f"xstream/table_1/{what}",
            "goal": None,
            "met": None,
            "others": by.cores(),
            "table": {
                "title": f"XStream's table I, samples a second, of {what}; medians",
                "head": ["", *there, *here],
                "rows": rows,
            },
        }
    )


HEAD = """## XStream's table I

`make -C bench xstream_section` measures this by itself and writes this section. The paper's nine seconds at 44.1 kHz
from memory, by turns in one thread, in seconds of the processor; each result is asserted equal to NumPy's. A segment
of ours has as many samples as the engine likes, or one: what passing samples one by one costs. SILENCEFILTER is `sync`
on the ranges of windows that vary; DuckDB joins times with ranges, as the paper's systems do, Polars windows by number.
Loading is of a CSV file of times and values: ours ends with a durable store, the others with a table in memory, NumPy
with the values alone. PASSCHAIN passes references, and its end reads every sample once. STATFILTER counts the windows
that pass. The share of the time in the engine is `report.engine_share` of a run of the same plan: what operators and
sources leave of the time; the start of a run counts. It is estimated from the time of some items, so 0 % means a share
too small to tell. Of segments of one sample it cannot be told: reading the clock takes longer than such an item.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=32, help="of the nine seconds in the second table")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 11
    repeats = 2 if arguments.quick else arguments.repeats
    samples, bystanders = speaker(), Bystanders()
    radio = None
    try:
        radio = Server("/usr/bin/python3", Path(__file__).with_name("peers_gnuradio.py"), greets=True)
    except (OSError, RuntimeError):
        missing("GNU Radio", "its module is not installed; apt-get install --no-install-recommends gnuradio")
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        loaded = loading(samples, Path(folder), min(rounds, 5))
    short, long = "nine seconds", f"nine seconds {repeats} times"
    table(short, applications(samples, short, rounds, radio), loaded, bystanders)
    table(long, applications(np.tile(samples, repeats), long, min(rounds, 5), radio), None, bystanders)
    if radio is not None:
        radio.close()
    if arguments.out:
        arguments.out.write_text(json.dumps({"results": RESULTS, "missing": MISSING}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
