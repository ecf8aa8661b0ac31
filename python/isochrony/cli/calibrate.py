"""``isochrony calibrate``: measure this machine, so that scans choose how to read."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..output.files import check_output, writing
from ..output.progress import bytes_text
from .exits import Exit
from .paths import output_path
from .tables import print_json, render

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run", "size_bytes"]

HELP = "measure how fast this machine reads from a disk, so that scans use the fastest way"
EXAMPLES = """examples:
  isochrony calibrate --dir /data
  isochrony calibrate --dir /data --size 256MB --repeats 10 --json
  isochrony calibrate --out laptop.json

Run nothing else on the machine meanwhile. Writes a test store to the folder, scans it with each
I/O strategy in turn, from the page cache and from the disk, and removes it. Only the test store's
files are dropped from the page cache. The measurements are saved for each disk, in
~/.config/isochrony/machine.json (below $XDG_CONFIG_HOME, if set). Scans then use the strategy that
is predicted to be the fastest; `plan.explain()` shows the predictions. No signal is calibrated.
"""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)
# The sizes that `machine.calibrate` takes.
_SMALLEST, _LARGEST = 4 << 20, 1 << 40
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(),
        metavar="D",
        help="any folder on the disk to measure, for the test store (default: the current folder)",
    )
    parser.add_argument(
        "--size", default="1GiB", metavar="N", help="size of the test store, 4MiB to 1TiB (default: 1GiB)"
    )
    parser.add_argument(
        "--repeats", type=int, default=5, metavar="N", help="how often to repeat each scan (default: 5)"
    )
    parser.add_argument(
        "--out",
        type=output_path,
        metavar="F",
        help="write the measurements to the JSON file F, instead of ~/.config/isochrony/machine.json",
    )
    parser.add_argument("--force", action="store_true", help="replace the file of --out if it exists")
    parser.add_argument("--json", action="store_true", help="print the measurements as JSON, instead of text")


def size_bytes(text: str) -> int:
    """A number of bytes from ``256MB``, ``1GiB`` or ``65536``.

    Raises:
        UsageError: it is none.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--size {text!r} is not a size; give a number of bytes, or text such as 256MB or 1GiB")
    number, unit, binary = match.groups()
    base: int = 1024 if binary else 1000
    power: int = _POWERS[unit.lower()]
    size = float(number) * float(base) ** power
    if size >= 1 << 63:
        raise UsageError(f"--size {text[:40]} is too large; give 4MiB to 1TiB")
    return round(size)


def run(arguments: argparse.Namespace) -> int:
    """Measure, keep and print."""
    from .. import machine

    size = size_bytes(arguments.size)
    if not _SMALLEST <= size <= _LARGEST:
        raise UsageError(f"--size {arguments.size} is refused; give 4MiB to 1TiB")
    if not arguments.dir.is_dir():
        raise UsageError(f"--dir {arguments.dir} is not a folder; give a folder on the disk to measure")
    print(f"measuring with {bytes_text(size)} in {arguments.dir.absolute()}", file=sys.stderr)
    try:
        if arguments.out is None:
            profile = machine.calibrate(arguments.dir, size=size, repeats=arguments.repeats)
            path = machine.save(profile)
        else:
            # A file that cannot be written is known before minutes are spent.
            check_output(arguments.out, replace=arguments.force)
            profile = machine.calibrate(arguments.dir, size=size, repeats=arguments.repeats)
            with writing(arguments.out, replace=arguments.force) as file:
                file.write(f"{json.dumps(profile, indent=2)}\n".encode())
            path = arguments.out
    except KeyboardInterrupt:
        print("isochrony: interrupted; nothing was saved, and the test store is removed", file=sys.stderr)
        return Exit.INTERRUPTED
    if arguments.json:
        print_json(profile)
        print(f"saved in {path}", file=sys.stderr)
    else:
        print(_text(profile))
        print(f"\nsaved in {path}")
    return Exit.OK


Spread = tuple[float, float, float]


def _text(profile: dict[str, Any]) -> str:
    from .. import machine

    here, volume = profile["machine"], profile["volumes"][0]
    costs = volume["costs"]
    figures = [
        ("reading the clock", _time(_of(profile["timer_cost"]))),
        ("resolution of the clock", _time((profile["timer_resolution"],) * 3)),
        ("a system call", _time(_of(profile["system_call"]))),
        ("memory bandwidth of a core", _rate(_of(profile["memory_bandwidth"]))),
        ("statistics of copied samples", _rate(_inverse(_of(costs["summarise"])))),
        ("statistics of mapped samples", _rate(_inverse(_of(costs["summarise_mapped"])))),
        ("a minor page fault", _time(_of(costs["minor_fault"]))),
        ("a minor page fault, per page mapped", _time(_of(costs["page"]))),
        ("a major page fault", _time(_of(volume["major_fault"]))),
    ]
    scans = [
        (name, _rate(_inverse(states.get("cached"))), _rate(_inverse(states.get("cold"))))
        for name, states in machine.predict(profile, 1.0).items()
    ]
    head = (
        f"{here['cpu']}, {here['cores']} cores, {bytes_text(here['memory_bytes'])} memory, {here['kernel']}, "
        f"pages of {here['page_bytes']} bytes\n"
        f"disk {volume['device']}, {volume['filesystem']}, in {volume['folder']}; "
        f"{volume['repeats']} scans of each kind\n"
    )
    table = render(["", "median (quartiles)"], figures)
    return f"{head}\n{table}\n\n{render(['a scan by', 'in the page cache', 'on the disk'], scans)}"


def _of(found: dict[str, float] | None) -> Spread | None:
    return None if found is None else (found["low"], found["median"], found["high"])


def _inverse(each: Spread | None) -> Spread | None:
    """Bytes a second from seconds a byte, or the other way round."""
    return None if each is None or min(each) <= 0 else (1 / each[2], 1 / each[1], 1 / each[0])


def _rate(rate: Spread | None) -> str | None:
    if rate is None:
        return None
    low, median, high = (bytes_text(each) for each in rate)
    return f"{median}/s ({low} to {high})"


def _time(seconds: Spread | None) -> str | None:
    if seconds is None:
        return None
    unit, scale = next((one for one in (("s", 1), ("ms", 1e3), ("us", 1e6)) if seconds[1] * one[1] >= 1), ("ns", 1e9))
    low, median, high = (f"{each * scale:.3g}" for each in seconds)
    return f"{median} {unit} ({low} to {high})"
