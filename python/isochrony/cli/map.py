"""``isochrony map``: run a program on each of many files, on cluster hosts that cache the files."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path, PurePosixPath

from ..errors import UsageError
from .exits import Exit
from .tables import print_json

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "run"]

HELP = "run a program on each of many files, on cluster hosts that cache the files"
EXAMPLES = """examples:
  isochrony map --on tcp://10.0.0.5:8786 --items urls.txt -- wc -c {}
  isochrony map --on local --items urls.txt --unpack --output /results/{stem}.txt -- sort {} -o {out}

Each line of --items names the files of one run of the program, as URLs or paths, separated
by tabs. In the arguments, {} stands for their local paths, {0} for the first one, {out} for
the path of the output, {item} for the line. The program's printed text comes in the order of
the lines. The program runs in an empty folder, without a shell.

Exit codes: 0 done; 1 the program failed for some lines (with --keep-going); 3 the program
failed for a line, and the run stopped.
"""
INTERRUPTED = "finished outputs stay"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("argv", metavar="PROGRAM", nargs="+", help="program and its arguments, after --")
    parser.add_argument("--on", metavar="CLUSTER", required=True, help='address of a Dask scheduler, or "local"')
    parser.add_argument(
        "--items",
        metavar="FILE",
        default="-",
        help="file with one line per run: its input files, separated by tabs (default: -, standard input)",
    )
    parser.add_argument(
        "--output",
        metavar="URL",
        help="path or URL of the output of a line; {name}: file name of its first input; {stem}: that without its "
        "suffix",
    )
    parser.add_argument(
        "--unpack", action="store_true", help="decompress gzip, bzip2 and xz files once, and cache the result"
    )
    parser.add_argument("--cache", metavar="BYTES", default="20GB", help="size of each host's cache (default: 20GB)")
    parser.add_argument(
        "--folder",
        metavar="FOLDER",
        help="folder of each host's cache; {worker} in it stands for the name of the worker",
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        default="good-cache-compute",
        help="which task a free worker gets. first-available: the oldest; first-cache-available: the oldest, which is "
        "told which hosts to fetch its files from; max-cache-hit: the one with most bytes on this host, of those that "
        "no other host caches more of; else one that no host caches; else none; max-compute-util: the one with most "
        "bytes on this host; else one that no host caches; else the oldest; good-cache-compute: as max-compute-util "
        "while few workers are busy, else as max-cache-hit (default: good-cache-compute)",
    )
    parser.add_argument(
        "--evict",
        metavar="NAME",
        default="lru",
        help="which files leave a full cache: lru, lfu, fifo or random (default: lru)",
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="continue with the other lines if the program fails for one"
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object per line, instead of the program's text"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the program for each line."""
    from ..cluster import Executable, attach, map, unpack  # noqa: A004
    from ..cluster.connect import checked_client

    lines = _lines(arguments.items)
    client = checked_client("--on", arguments.on)
    failed = 0
    output = arguments.output
    with (
        attach(
            client,
            policy=arguments.policy,
            cache=arguments.cache,
            evict=arguments.evict,
            folder=arguments.folder,
        ) as attachment,
        map(
            Executable(arguments.argv),
            lines,
            client=attachment,
            inputs=lambda line: line.split("\t"),
            outputs=None if output is None else lambda line: _output(output, line),
            cache_form=unpack if arguments.unpack else None,
            keep_going=arguments.keep_going,
            progress=True,
        ) as results,
    ):
        for line, result in zip(lines, results, strict=True):
            if isinstance(result, Exception):
                failed += 1
                print(f"isochrony: {line}: {' '.join(str(result).split())}", file=sys.stderr)
            elif arguments.json:
                print_json({"item": line, "stdout": result})
            else:
                print(result, end="")
        results.close()
        print(f"isochrony: {results.report}", file=sys.stderr)
    return Exit.PARTIAL if failed else Exit.OK


def _lines(items: str) -> list[str]:
    with contextlib.ExitStack() as stack:
        source = sys.stdin if items == "-" else stack.enter_context(Path(items).open(encoding="utf-8"))
        lines = [line.rstrip("\n") for line in source if line.strip()]
    if not lines:
        raise UsageError(f"--items {items} has no lines; write the URLs or paths of each run of the program in a line")
    return lines


def _output(template: str, line: str) -> list[str]:
    first = PurePosixPath(line.split("\t")[0].partition("?")[0])
    return [template.replace("{stem}", first.stem).replace("{name}", first.name)]
