"""Expressions against loops fused by hand: runs the benchmarks of `crates/expr` and sums up what they print.

Loops are compiled for the same instruction set, compute in the same types and give the same bits, which is asserted.
Writes one line a dtype for report.py: the median of ten random expressions, the least and the greatest.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
from pathlib import Path
from typing import Any

GOAL = 0.5
#: A line for each expression, dtype and instruction set, from the oldest set to the best.
LINE = re.compile(
    r"^expr/(?P<expression>.*)/(?P<dtype>\w+)/(?P<isa>[\w.-]+): (?P<ours>[\d.]+) Gsamples/s; "
    r"by hand (?P<hand>[\d.]+); ratio (?P<ratio>[\d.]+) "
)
#: Times are stated for so many samples.
SAMPLES = 1 << 20
BYTES = {"i16": 2, "int16": 2, "f32": 4, "float32": 4, "f64": 8, "float64": 8}


def run(target: Path) -> str:
    command = ["cargo", "bench", "--locked", "--target-dir", str(target), "-p", "isochrony-expr", "--bench", "fused"]
    root = Path(__file__).parent.parent
    return subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout


def best(printed: str) -> list[dict[str, str]]:
    """What the best instruction set gives for each expression and dtype: it comes last."""
    found = {}
    for line in printed.splitlines():
        if match := LINE.match(line):
            found[match["expression"], match["dtype"]] = match.groupdict()
    return list(found.values())


def summary(dtype: str, results: list[dict[str, str]]) -> dict[str, Any]:
    ratios = [float(result["ratio"]) for result in results]
    times = [
        statistics.geometric_mean(SAMPLES * 1e-9 / float(result[which]) for result in results)
        for which in ("ours", "hand")
    ]
    met = sum(ratio >= GOAL for ratio in ratios)
    return {
        "name": f"expr/{len(results)} at random/{dtype}",
        "other": f"loops fused by hand, {results[0]['isa']} (median, least and greatest of the expressions' medians)",
        "bytes": BYTES[dtype] * SAMPLES,
        "seconds": [times[0]] * 3,
        "other_seconds": [times[1]] * 3,
        "ratio": [statistics.median(ratios), min(ratios), max(ratios)],
        "goal": f"each >= {GOAL}, met by {met} of {len(ratios)}",
        "met": met == len(ratios),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target-dir", type=Path, required=True, help="where cargo builds")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results = best(run(arguments.target_dir.absolute()))
    assert results, "the benchmark prints something else"
    dtypes = dict.fromkeys(result["dtype"] for result in results)
    summaries = [summary(dtype, [one for one in results if one["dtype"] == dtype]) for dtype in dtypes]
    for one in summaries:
        median, least, greatest = one["ratio"]
        print(f"{one['name']}: {median:.2f} of loops by hand ({least:.2f} to {greatest:.2f}); {one['goal']}")
    if arguments.out:
        arguments.out.write_text(json.dumps(summaries, indent=1))


if __name__ == "__main__":
    main()
