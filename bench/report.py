"""Turns the benchmarks' JSON into the table of docs/benchmarks.md, losses included."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (ValueError, OSError):
        return "unknown"


def amount(seconds: float, size: int | None) -> str:
    if seconds < 1e-3:
        text = f"{seconds * 1e6:.1f} µs"
    elif seconds < 1:
        text = f"{seconds * 1e3:.2f} ms"
    else:
        text = f"{seconds:.2f} s"
    return f"{text} ({size / seconds / 1e9:.2f} GB/s)" if size else text


def row(result: dict[str, Any]) -> str:
    median, low, high = result["ratio"]
    goal = result["goal"]
    verdict = "" if goal is None else f"{goal}: {'met' if result['met'] else '**missed**'}"
    cells = [
        f"`{result['name']}`",
        amount(result["seconds"][0], result["bytes"]),
        f"{amount(result['other_seconds'][0], result['bytes'])}, {result['other']}",
        f"{median:.2f} ({low:.2f} to {high:.2f})",
        verdict,
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    results = [result for path in sys.argv[1:] for result in json.loads(Path(path).read_text())]
    print("# Benchmarks\n")
    print("Written by `make bench`. Everything is measured by turns in one process, page cache warm, each result")
    print("asserted. A ratio is the other's time over ours, so that above 1 is faster: median (quartiles) of the rounds.\n")
    cores = os.cpu_count()
    print(f"Machine: {processor()}, {cores} cores, {memory()} memory, {platform.system()} {platform.release()},")
    print(f"Python {platform.python_version()}.\n")
    print("| benchmark | ours | other | ratio | goal |")
    print("|---|---|---|---|---|")
    for result in results:
        print(row(result))
    missed = [result["name"] for result in results if result["met"] is False]
    if missed:
        print(f"\nGoals missed on this machine: {', '.join(f'`{name}`' for name in missed)}.")


if __name__ == "__main__":
    main()
