"""``isochrony pipe``: standard input through processors to standard output."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from ..errors.native import OptionError
from .exits import Exit

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "hash, search, summarise, convert or compress any stream on all cores, in bounded memory"
EXAMPLES = """examples:
  isochrony pipe sha256 < big
  isochrony pipe crc32c 'stats:<i2' < samples.raw
  tar c folder | isochrony pipe zstd > folder.tar.zst
  isochrony pipe --copy blake3 < big > copy
  isochrony pipe --json 'count:needle' < text

Processors see the same bytes in one pass. Results go to standard output; to standard error where that has the
stream itself, which is compressed or converted, copied with --copy, or copied since no processor is named.
After an error or Ctrl-C, what was written stays, and a line on standard error says that the output is incomplete.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "processors",
        metavar="PROCESSOR",
        nargs="*",
        help="such as sha256, crc32c, stats:<i2, zstd:3, gzip, count:TEXT, convert:<i2:<f4; a wrong one lists all",
    )
    parser.add_argument("--copy", action="store_true", help="write the input to standard output as well")
    parser.add_argument(
        "--memory",
        default="100MB",
        metavar="SIZE",
        help="upper limit on the memory used, such as 500MB (default: 100MB)",
    )
    parser.add_argument(
        "--workers", default="auto", metavar="N", help="threads to use (default: as many as can be busy)"
    )
    parser.add_argument(
        "--buffer",
        metavar="SIZE",
        help="size of the block that each worker processes at a time, such as 256kB (default: 1MiB; 4MiB where a "
        "processor needs the blocks in order, such as sha256)",
    )
    parser.add_argument(
        "--order",
        default="both",
        choices=["none", "output", "execution", "both"],
        help="order of the output. both, and output: that of the input. execution, and none: blocks are written as "
        "soon as they are processed, in any order. Results such as hashes are the same with each of them, since every "
        "processor here sees the bytes in input order; both differs from output, and execution from none, only where a "
        "Python function is given to iso.nbuffer() (default: both)",
    )
    parser.add_argument(
        "--eager", action="store_true", help="process data as soon as they arrive, without waiting for full blocks"
    )
    parser.add_argument(
        "--json", action="store_true", help="print results, and what each worker did, as JSON, instead of text"
    )


def run(arguments: argparse.Namespace) -> int:
    """Process standard input, print results."""
    from ..nbuffering.processors import makes_output
    from ..nbuffering.runs import nbuffer

    names = arguments.processors
    try:
        for name in names:
            name.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"PROCESSOR {error.object!a} is not UTF-8; give it as UTF-8 text") from error
    try:
        makes = makes_output(names)
    except OptionError as error:
        raise UsageError(f"{_named(str(error))}; see isochrony pipe --help") from error
    streams = arguments.copy or makes or not names
    if arguments.copy and makes:
        raise UsageError(
            "--copy and one of the processors both write to standard output; leave out --copy, or that processor"
        )
    try:
        report = nbuffer(
            0,
            names or None,
            1 if streams else None,
            memory=_number(arguments.memory),
            stride=1 if arguments.eager else 1024,
            workers=_number(arguments.workers),
            buffer=None if arguments.buffer is None else _number(arguments.buffer),
            order=arguments.order,
            eager=arguments.eager,
        )
    except OptionError as error:
        raise UsageError(_named(str(error))) from error
    except KeyboardInterrupt:
        print("isochrony: interrupted; the output is incomplete", file=sys.stderr)
        return Exit.INTERRUPTED
    out = sys.stderr if streams else sys.stdout
    if arguments.json:
        print(json.dumps(_plain(report), indent=2), file=out)
        return Exit.OK
    for name, found in report.results.items():
        print(f"{name}  {_fields(found)}" if isinstance(found, Mapping) else f"{found}  {name}", file=out)
    return Exit.OK


def _named(text: str) -> str:
    """A message with what are options here as such; what belongs to a processor's name is none."""
    text = re.sub(r"\b(memory|workers|buffer|order)=", r"--\1 ", text)
    return re.sub(r"(?<=\s)(\w+)=(?=\S)", r"\1 ", text)


def _number(text: str) -> Any:
    """Digits as a number; anything else as it is, for `nbuffer` to judge."""
    return int(text) if text.isascii() and text.isdigit() else text


def _fields(found: Any) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in found.items())


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_text(one) for one in value) + "]"
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _plain(report: Any) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode("utf-8", "backslashreplace")
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        if isinstance(value, float) and value - value != 0:
            return None
        return value

    results = {
        name: {field: plain(value) for field, value in found.items()} if isinstance(found, Mapping) else plain(found)
        for name, found in report.results.items()
    }
    workers = [
        {field: getattr(worker, field) for field in worker.__slots__ if field != "trace"} for worker in report.workers
    ]
    return {
        "bytes": report.bytes,
        "written": sum(output.bytes for output in report.outputs),
        "elapsed_s": report.elapsed_s,
        "buffer_bytes": report.buffer_bytes,
        "peak_bytes": report.peak_bytes,
        "results": results,
        "workers": workers,
    }
