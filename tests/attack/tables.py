"""Imports odd CSV files, and compares each with a slow and independent reader.

    python tests/attack/tables.py [COUNT [SEED]]

Each file (`odd_tables.py`) is imported into a store of its own, by a process that imports some of them. It is either
taken, and then every value of every row is there once, in order, at the time that its own row says (within half a
sample and what the row's digits leave open); or it is refused, where it is defective, with a message that names the
row, and stores nothing. Prints a line for each failure, counts, and the seed.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import odd_tables
from odd_tables import SECOND, Table

TIMEOUT_S = 300
#: Files that one process imports.
TOGETHER = 30
#: Imports files into stores beside them and prints, as JSON, what the stores hold.
IMPORTER = """
import json, random, sys
from pathlib import Path
import numpy as np, isochrony as iso
from isochrony.importers import csv, import_files
for name in sys.argv[1:]:
    path = Path(name)
    # Batches of some kB, so that most files have several.
    csv._BATCH_BYTES = random.Random(path.stem).choice([2048, 16384, 1 << 19])
    with iso.open(path.with_suffix(".iso"), mode="x") as store:
        summary = import_files(store, path)
    problems = [[reason, kept] for (_, reason), kept in zip(summary["problems"], summary["kept"], strict=True)]
    signals = {}
    for title, signal in iso.open(path.with_suffix(".iso")).items():
        segments = list(signal[:].segments)
        values = [value for segment in segments for value in np.asarray(segment).tolist()]
        index = [k for segment in segments for k in range(segment.start, segment.end)]
        civil = segments[0].time is not None
        times = [signal.time_of(k).ns for k in index] if civil else None
        signals[title] = {"values": values, "times": times, "gaps": len(signal.gaps)}
    print(json.dumps({"file": path.stem, "problems": problems, "signals": signals}), flush=True)
"""


def same(value: Any, text: str) -> bool:
    """Whether a stored value is what a cell says."""
    if text in odd_tables.MISSING:
        return isinstance(value, float) and math.isnan(value)
    if text in ("true", "false"):
        return bool(value) is (text == "true")
    if isinstance(value, int):
        return value == Fraction(text)
    return value == float(text) or (math.isnan(value) and math.isnan(float(text)))


def judge(table: Table, outcome: dict[str, Any]) -> str:
    """What is wrong about an import, if anything."""
    refused = [reason for reason, kept in outcome["problems"] if not kept]
    if refused:
        if table.must == "import":
            return f"refused: {refused[0]}"
        if outcome["signals"]:
            return f"refused, and yet it stored {sorted(outcome['signals'])}"
        if table.line is not None and f"row {table.line}" not in refused[0]:
            return f"its row {table.line} is wrong, and the refusal says: {refused[0]}"
        return ""
    if table.must == "refuse":
        return "imported, although it is defective"
    times, columns = odd_tables.read(table)
    signals = {name.rpartition("/")[2]: signal for name, signal in outcome["signals"].items()}
    if len(columns) == 1:
        signals = dict(zip(columns, signals.values(), strict=False))
    if set(signals) != set(columns):
        return f"signals {sorted(signals)} of columns {sorted(columns)}"
    period = SECOND / table.rate
    # Digits as coarse as the samples hide gaps of one, and lines through such rows may bend by a quarter of a sample.
    tolerance = period * (Fraction(1, 2) if 2 * table.resolution < period else Fraction(3, 4)) + table.resolution
    for title, texts in columns.items():
        values, stored = signals[title]["values"], signals[title]["times"]
        if len(values) != len(texts):
            return f"{title} has {len(values)} samples of {len(texts)} rows"
        for row, (value, text) in enumerate(zip(values, texts, strict=True)):
            if not same(value, text):
                return f"{title}, row {row} of the values: {value!r} for {text!r}"
        if table.time_title == "elapsed (s)":
            # The table does not know when it began, so a signal of it has neither times nor gaps.
            if stored is not None or signals[title]["gaps"]:
                return f"{title} has times or gaps that the table does not say"
            continue
        for row, (ns, exact) in enumerate(zip(stored, times, strict=True)):
            if abs(ns - exact) > tolerance:
                return f"{title}, row {row} of the values is {float(ns - exact)} ns off"
    return ""


def main(count: int, seed: int) -> int:
    """Imports so many files; the number of failures."""
    rng, outcomes, failures = random.Random(seed), Counter[str](), 0
    seeds = [rng.randrange(1 << 40) for _ in range(count)]
    for first in range(0, count, TOGETHER):
        tables = {f"t{one}": odd_tables.generate(one) for one in seeds[first : first + TOGETHER]}
        with tempfile.TemporaryDirectory() as scratch:
            paths = [Path(scratch, f"{name}.csv") for name in tables]
            for path in paths:
                path.write_bytes(tables[path.stem].data)
            command = [sys.executable, "-c", IMPORTER, *map(str, paths)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
                said, end = done.stdout, f"ends with {done.returncode}: {done.stderr.strip()[-300:]}"
            except subprocess.TimeoutExpired as error:
                said, end = (error.stdout or b"").decode() if isinstance(error.stdout, bytes) else "", "hangs"
        results = {one["file"]: one for one in map(json.loads, said.splitlines())}
        # A file at which the process ended fails; those behind it are told, too, since nobody looked at them.
        for name, table in tables.items():
            wrong = judge(table, results[name]) if name in results else f"its process {end}"
            outcomes["failed" if wrong else "refused" if not results[name]["signals"] else "imported"] += 1
            if wrong:
                failures += 1
                print(f"table {name} ({', '.join(table.oddities)}): {wrong}"[:600], flush=True)
    print(f"tables: {count} with seed {seed}: {dict(sorted(outcomes.items()))}, {failures} failures")
    return failures


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    sys.exit(main(given[0] if given else 900, given[1] if len(given) > 1 else random.randrange(1 << 32)) > 0)
