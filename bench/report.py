"""Turns the benchmarks' JSON into the table of docs/benchmarks.md, losses included."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

import adder_model
import bystanders
import diffusion_report
import scaling
import streams
import thesis
import xstream_table


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


#: Of benchmarks of streams and archives the beginning of their names.
ARCHIVES = ("nbuf/", "store/strategies/", "archives/")


def is_of_archives(result: dict[str, Any]) -> bool:
    return result["name"].startswith(ARCHIVES)


#: Of benchmarks of data diffusion the beginning of their names.
DIFFUSION = "diffusion/"

#: Of the benchmarks of XStream's table I the beginning of their names.
XSTREAM = "xstream/"


def rows(results: list[dict[str, Any]]) -> str:
    """What was compared, what stands for itself, and what is missed."""
    lines = ["| benchmark | ours | other | ratio | goal |", "|---|---|---|---|---|"]
    lines += [row(result) for result in results if "ratio" in result]
    alone = [figure(result) for result in results if "nanoseconds" in result]
    if alone:
        lines += ["", "| benchmark | median | quartiles | goal |", "|---|---|---|---|", *alone]
    missed = dict.fromkeys(result["name"] for result in results if result["met"] is False)
    if missed:
        lines += ["", f"Goals missed on this machine: {', '.join(f'`{name}`' for name in missed)}."]
    return "\n".join(lines)


def archives(results: list[dict[str, Any]], files: dict[str, Any]) -> str:
    """The section on streams and archives."""
    results = [result for result in results if is_of_archives(result)]
    if not results:
        return ""
    text = [HEAD, machine(), rows([result for result in results if "grid" not in result and "table" not in result])]
    text += [table(result) for result in results if "table" in result]
    grid = [result for result in results if "grid" in result]
    parts = [streams.section(grid) if grid else "", thesis.section(results)]
    parts += [module.section(files[name]) for name, module in OF_ARCHIVES.items() if name in files]
    text += [lowered(part) for part in parts if part]
    return "\n".join(text).rstrip() + "\n"


#: What measures parts of the section on streams and archives, each of which can be measured by itself.
OF_ARCHIVES = {"adder_model": adder_model, "scaling": scaling}


def lowered(section: str) -> str:
    """A section as a part of one."""
    return re.sub(r"^##", "###", section, flags=re.MULTILINE).replace("#####", "####")


def diffusion(results: list[dict[str, Any]]) -> str:
    """The section on data diffusion."""
    made = [table(result) for result in results if result["name"].startswith(DIFFUSION)]
    if not made:
        return ""
    return "\n".join([diffusion_report.HEAD, machine(), diffusion_report.FINDINGS, *made]).rstrip() + "\n"


def xstream(results: list[dict[str, Any]], missing: list[dict[str, str]]) -> str:
    """The section on XStream's table I."""
    results = [result for result in results if result["name"].startswith(XSTREAM)]
    if not results:
        return ""
    tables = [table(result) for result in results if "table" in result]
    absent = [f"Missing, so not compared with: {peer['name']} ({peer['why']}).\n" for peer in missing]
    compared = rows([result for result in results if "table" not in result])
    others = max(result.get("others", 0.0) for result in results)
    head = [xstream_table.HEAD, machine(), bystanders.sentence(others, "they share caches and memory").strip()]
    return "\n".join([*head, *tables, *absent, compared]).rstrip() + "\n"


HEAD = """## Streams and archives

`make -C bench archives_section` measures these by themselves and writes this section. By turns; over the rounds each
follows each other as often. "Cached" is in the page cache, "cold" dropped from it, with the disk as it is: where its
speed changes by more than half from round to round a prediction of it is called unpredictable. Applications are the
thesis's, of windows of 64 pages.
"""


def read(paths: list[str]) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """The files by name, all results, and what peers are missing."""
    files = {Path(path).stem: json.loads(Path(path).read_text()) for path in paths}
    compared = [
        files.get(name, {})
        for name in ("peers", "operators", "resampling", "applications", "storage", "archives", "xstream_table")
    ]
    results = [result for file in files.values() if isinstance(file, list) for result in file]
    results += [result for part in compared for result in part.get("results", [])]
    return files, results, [peer for part in compared for peer in part.get("missing", [])]


def replace_section(document: Path, section: str, parent: str | None = None) -> None:
    """Writes the section in place of the one that a document has, or behind the end of its parent or of all."""
    text = document.read_text()
    title = section.splitlines()[0]
    begin = text.find(f"\n{title}\n")
    if begin >= 0:
        end = section_end(text, begin + 1)
    else:
        begin = end = len(text) if parent is None else section_end(text, text.index(parent))
    before = text[:begin].rstrip()
    behind = text[end:].lstrip()
    document.write_text(f"{before}\n\n{section.rstrip()}\n" + (f"\n{behind}" if behind else ""))


def section_end(text: str, begin: int) -> int:
    """Where the section that begins there ends: at the next title that is not below its own."""
    level = re.match("#+", text[begin:])
    assert level is not None
    found = re.compile(rf"^#{{1,{len(level[0])}}} ", re.MULTILINE).search(text, begin + len(level[0]))
    return found.start() if found else len(text)


def replace_rows(path: Path, results: list[dict[str, Any]]) -> None:
    """Puts rows into the first table of a page, each in the place of the one of the same benchmark and partner.

    What was measured, such as a bound behind a semicolon or a number of pairs, does not tell them apart.
    """
    lines = path.read_text().splitlines()
    for result in (one for one in results if "ratio" in one):
        new = row(result)
        name = re.sub(r"\d+\\ pairs", r"\\d+ pairs", re.escape(result["name"]))
        partner, *_ = result["other"].split(";")
        old = re.compile(rf"\| `{name}` \|[^|]*\|[^|]*, {re.escape(partner)}(;[^|]*)? \|")
        at = next((at for at, line in enumerate(lines) if old.match(line)), None)
        if at is not None:
            lines[at] = new
            continue
        head = lines.index("|---|---|---|---|---|")
        end = next(at for at in range(head, len(lines)) if not lines[at].startswith("|"))
        lines.insert(end, new)
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    if sys.argv[1:2] == ["--rows-into"]:
        replace_rows(Path(sys.argv[2]), read(sys.argv[3:])[1])
        return
    if sys.argv[1:2] == ["--archives-into"]:
        files, results, _ = read(sys.argv[3:])
        replace_section(Path(sys.argv[2]), archives(results, files))
        return
    if sys.argv[1:2] == ["--diffusion-into"]:
        replace_section(Path(sys.argv[2]), diffusion(read(sys.argv[3:])[1]))
        return
    if sys.argv[1:2] == ["--xstream-into"]:
        _, results, missing = read(sys.argv[3:])
        replace_section(Path(sys.argv[2]), xstream(results, missing))
        return
    if sys.argv[1:2] == ["--part-of-archives-into"]:
        for name, measured in read(sys.argv[3:])[0].items():
            part = lowered(OF_ARCHIVES[name].section(measured, machine()))
            replace_section(Path(sys.argv[2]), part, HEAD.splitlines()[0])
        return
    files, all_results, missing = read(sys.argv[1:])
    results = [
        result
        for result in all_results
        if not is_of_archives(result) and not result["name"].startswith((DIFFUSION, XSTREAM))
    ]
    print("# Benchmarks\n")
    print("Written by `make bench`. Everything is measured by turns in one run, page cache warm, each result asserted.")
    print("A ratio is the other's time over ours, so that above 1 is faster: median (quartiles) of the rounds.\n")
    print(machine())
    print(rows(results))
    for peer in missing:
        print(f"\nMissing, so not compared with: {peer['name']} ({peer['why']}).")
    for result in results:
        if "table" in result:
            print(table(result))
    print(f"\n{xstream(all_results, [])}", end="")
    print(f"\n{archives(all_results, files)}", end="")
    print(f"\n{diffusion(all_results)}", end="")


if __name__ == "__main__":
    main()
