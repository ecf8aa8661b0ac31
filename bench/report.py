"""Turns the benchmarks' JSON into the table of docs/benchmarks.md, losses included."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import figures
import scaling
import streams
import thesis


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
    if not size:
        return text
    rate = size / seconds / 1e9
    return f"{text} ({rate:.2f} GB/s)" if rate >= 0.1 else f"{text} ({rate * 1e3:.2g} MB/s)"


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


def figure(result: dict[str, Any]) -> str:
    """A line of what stands for itself."""
    median, low, high = result["nanoseconds"]
    verdict = f"{result['goal']}: {'met' if result['met'] else '**missed**'}"
    each = [f"{value:.0f}" if value >= 100 else f"{value:.2f}" for value in (median, low, high)]
    return f"| `{result['name']}` | {each[0]} ns {result['what']} | {each[1]} to {each[2]} | {verdict} |"


def table(result: dict[str, Any]) -> str:
    """A table as the benchmark made it, with its goal."""
    made = result["table"]
    head = "| " + " | ".join(made["head"]) + " |\n|" + "---|" * len(made["head"])
    rows = ["| " + " | ".join(row) + " |" for row in made["rows"]]
    goal = "" if result["goal"] is None else f"\nGoal {result['goal']}: {'met' if result['met'] else '**missed**'}.\n"
    return "\n".join([f"\n**{made['title']}** (`{result['name']}`)\n", head, *rows, goal])


def machine() -> str:
    cores = os.cpu_count()
    return (
        f"Machine: {processor()}, {cores} cores, {memory()} memory, {platform.system()} {platform.release()},\n"
        f"Python {platform.python_version()}.\n"
    )


def main() -> None:
    files = {Path(path).stem: json.loads(Path(path).read_text()) for path in sys.argv[1:]}
    space = files.get("design_space", {})
    compared = [files.get(name, {}) for name in ("peers", "operators", "resampling", "applications", "archives")]
    results = [result for file in files.values() if isinstance(file, list) for result in file]
    results += space.get("sync_cost", [])
    results += [result for part in compared for result in part.get("results", [])]
    figures_alone = [result for result in results if "nanoseconds" in result]
    print("# Benchmarks\n")
    print("Written by `make bench`. Everything is measured by turns in one run, page cache warm, each result asserted.")
    print("A ratio is the other's time over ours, so that above 1 is faster: median (quartiles) of the rounds.\n")
    print(machine())
    print("| benchmark | ours | other | ratio | goal |")
    print("|---|---|---|---|---|")
    for result in results:
        if "ratio" in result:
            print(row(result))
    if figures_alone:
        print("\n| benchmark | median | quartiles | goal |")
        print("|---|---|---|---|")
        for result in figures_alone:
            print(figure(result))
    missed = dict.fromkeys(result["name"] for result in results if result["met"] is False)
    if missed:
        print(f"\nGoals missed on this machine: {', '.join(f'`{name}`' for name in missed)}.")
    for peer in (peer for part in compared for peer in part.get("missing", [])):
        print(f"\nMissing, so not compared with: {peer['name']} ({peer['why']}).")
    for result in results:
        if "table" in result:
            print(table(result))
    grid = [result for result in results if "grid" in result]
    if grid:
        print(f"\n{streams.section(grid)}", end="")
    tables = thesis.section(results)
    if tables:
        print(f"\n{tables}", end="")
    if "scaling" in files:
        print(f"\n{scaling.section(files['scaling'])}", end="")
    if space:
        print(f"\n{figures.section(space, files['cache'])}", end="")


if __name__ == "__main__":
    main()
