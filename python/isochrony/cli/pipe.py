"""``isochrony pipe``: a byte stream through processors, between files and standard streams."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import UsageError
from ..errors.native import NBufferError, OptionError
from ..options import byte_count
from ..output.files import OutputFile, check_output, writing
from ..output.progress import bytes_text, count_text
from ..tuning.configuration import TuningReport, parsed_tune, tuning_fields
from .exits import Exit
from .paths import input_path, output_path

if TYPE_CHECKING:
    from ..nbuffering import NBufferReport

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "hash, search, summarise, convert or compress any stream on all cores, in bounded memory"
EXAMPLES = """examples:
  isochrony pipe sha256 < big
  isochrony pipe crc32c 'stats:<i2' < samples.raw
  tar c folder | isochrony pipe zstd > folder.tar.zst
  isochrony pipe --copy blake3 < big > copy
  isochrony pipe --json 'count:needle' < text
  isochrony pipe zstd sha256 --in big --out big.zst --progress
  isochrony pipe zstd --in big --out big.zst --tune yes --save-configuration here.json
  isochrony pipe --json --in messages.bin --prefix varint --max-length 1MB

All processors get the same bytes, in one pass. Their results go to standard output, or to
standard error if standard output carries the stream: compressed, converted, or copied (with
--copy, or without a PROCESSOR). After an error or Ctrl-C, bytes on standard output are
incomplete, and a line on standard error says so; the file of --out is written completely or
not at all.

A record is never split between buffers, nor between inputs: with --eager only whole records are
passed on, and each compressed frame holds whole records. --json reports the number of records.
"""

# Of --order, as `nbuffer` has it; the values of `nbuffer` itself are also taken.
_ORDERS = {"input": "both", "any": "none"}
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "processors",
        metavar="PROCESSOR",
        nargs="*",
        help="one of stats:DTYPE, md5, sha256, sha512, blake3, xxh3, xxh3-128, crc32c, zstd[:LEVEL], gzip[:LEVEL], "
        "unzstd, gunzip, convert:FROM:TO, count:PATTERN, find:PATTERN, or the name of a processor of an installed "
        "package; such as stats:<i2, convert:<i2:<f4 or zstd:3",
    )
    parser.add_argument(
        "--in",
        dest="inputs",
        metavar="F",
        action="append",
        type=input_path,
        help="file to read, or - for standard input; may be repeated, to read one after another (default: -)",
    )
    parser.add_argument(
        "--out",
        metavar="F",
        type=output_path,
        help="file to write, which appears when it is complete (default: standard output)",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace the files of --out and --save-configuration if they exist"
    )
    parser.add_argument("--copy", action="store_true", help="write the input to the output as well")
    framing = parser.add_mutually_exclusive_group()
    framing.add_argument(
        "--record-size",
        "--stride",
        dest="stride",
        metavar="SIZE",
        help="length of each record; a buffer never splits one (default: 1024 bytes; 1 byte with --eager)",
    )
    framing.add_argument(
        "--delimiter",
        type=_delimiter,
        metavar="TEXT",
        help="text at the end of each record; write \\n, \\r, \\t, \\0, \\xHH for special bytes, and \\\\ "
        "for a backslash",
    )
    framing.add_argument(
        "--prefix",
        metavar="KIND",
        help="type of the length before each record: u1, <u2, >u2, <u4, >u4, <u8, >u8, or varint as in delimited "
        "protobuf messages",
    )
    parser.add_argument(
        "--max-length",
        metavar="SIZE",
        help="largest legal length in a prefix (default: --memory; 2 GiB - 1 for varint)",
    )
    parser.add_argument(
        "--memory",
        default="100MB",
        metavar="SIZE",
        help="upper limit on the memory used, such as 500MB (default: 100MB)",
    )
    parser.add_argument(
        "--workers",
        default="auto",
        metavar="N",
        help="number of threads, 1 to 4096, or auto (default): one per core, and one each to read and to write; fewer "
        "if a processor needs the buffers in order",
    )
    parser.add_argument(
        "--buffer",
        metavar="SIZE",
        help="size of the buffer that each worker processes at a time, such as 256kB (default: 1MiB; 4MiB with a "
        "processor that needs the buffers in order, such as sha256)",
    )
    parser.add_argument(
        "--order",
        default="input",
        choices=["input", "any", *_ORDERS.values(), "output", "execution"],
        metavar="input|any",
        help="order of the output: input (default): that of the input; any: buffers are written as soon as they are "
        "processed. Results such as hashes are the same.",
    )
    parser.add_argument(
        "--eager", action="store_true", help="process data as soon as it arrives, without waiting for full buffers"
    )
    parser.add_argument(
        "--tune",
        metavar="yes|recommend|FILE",
        help="yes: adapt the number of workers and the size of buffers while it runs, if trials show a speed-up; "
        "recommend: change nothing, and report the best setting; or the file of --save-configuration",
    )
    parser.add_argument(
        "--save-configuration",
        type=output_path,
        metavar="F",
        help="write the configuration that --tune found to this JSON file, for --tune F",
    )
    parser.add_argument(
        "--progress", action="store_true", help="draw a line with rate and remaining time, on a terminal"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the results, and the work of each worker, as JSON, instead of text"
    )


def run(arguments: argparse.Namespace) -> int:
    """Process the input, print results."""
    from ..nbuffering.processors import makes_output

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
    if arguments.copy and makes:
        raise UsageError(
            "--copy and a processor that compresses or converts both write to the output; leave out one of them"
        )
    if arguments.force and arguments.out is None and arguments.save_configuration is None:
        raise UsageError(
            "--force replaces the files of --out and --save-configuration, which are missing; add one, or leave "
            "out --force"
        )
    _check_tuning(arguments)
    streams = arguments.copy or makes or not names
    try:
        with _destination(arguments, streams) as destination:
            report = _processed(arguments, destination)
    except OptionError as error:
        raise UsageError(_named(str(error))) from error
    except NBufferError as error:
        if type(error) is not NBufferError:
            raise
        raise NBufferError(_named(str(error))) from error
    except KeyboardInterrupt:
        left = "the output is incomplete" if arguments.out is None else f"{arguments.out} was not written"
        print(f"isochrony: interrupted; {left}", file=sys.stderr)
        return Exit.INTERRUPTED
    out = sys.stderr if streams and arguments.out is None else sys.stdout
    _print_results(report, out, as_json=arguments.json)
    # Last: a disk that is full costs the configuration, and not the results.
    tuning = report.tuning
    if arguments.save_configuration is not None and tuning is not None and tuning.configuration is not None:
        tuning.configuration.save(arguments.save_configuration, replace=arguments.force)
    return Exit.OK


def _print_results(report: NBufferReport, out: TextIO, *, as_json: bool) -> None:
    """Results on `out`, as text or JSON; with text, what tuning did on standard error."""
    if as_json:
        print(json.dumps(_plain(report), indent=2), file=out)
        return
    for name, found in report.results.items():
        print(f"{name}  {_fields(found)}" if isinstance(found, Mapping) else f"{found}  {name}", file=out)
    if report.tuning is not None:
        print(*_tuning_lines(report.tuning), sep="\n", file=sys.stderr)


def _check_tuning(arguments: argparse.Namespace) -> None:
    """Refuse a configuration that cannot be saved, before anything is read."""
    saved = arguments.save_configuration
    if saved is None:
        return
    if arguments.tune in (None, "no"):
        raise UsageError(
            f"--save-configuration {saved} needs --tune, which finds one; add --tune yes or --tune recommend"
        )
    check_output(saved, replace=arguments.force)


def _tuning_lines(tuning: TuningReport) -> list[str]:
    """What was tried, and what is kept or recommended."""
    lines = [f"tuning {decision}" for decision in tuning.decisions]
    found = tuning.configuration
    if found is not None:
        gain = tuning.predicted_gain
        predicted = "" if gain is None else f", predicted {100 * gain:+.1f} %"
        lines.append(
            f"tuning: {count_text(found.workers, 'worker')}, buffers of {bytes_text(found.buffer_bytes)}{predicted}"
        )
    return lines


@contextlib.contextmanager
def _destination(arguments: argparse.Namespace, streams: bool) -> Iterator[OutputFile | int | None]:
    """The file of --out, which gets its name if all goes well; else standard output, or nothing."""
    if arguments.out is None:
        yield 1 if streams else None
        return
    try:
        with writing(arguments.out, replace=arguments.force) as file:
            try:
                yield file
            except NBufferError as error:
                raise _UnfinishedError(error) from error
    except _UnfinishedError as unfinished:
        failure = unfinished.failure
        # What was written of it is removed.
        head = str(failure).partition("; the output is incomplete: ")[0].replace("(OutputFile)", f"({arguments.out})")
        raise type(failure)(f"{head}; {arguments.out} was not written") from failure


class _UnfinishedError(Exception):
    """Passes an error of the run through `writing`, which would take a RuntimeError for one of a library."""

    def __init__(self, failure: NBufferError) -> None:
        super().__init__(failure)
        self.failure = failure


def _processed(arguments: argparse.Namespace, destination: OutputFile | int | None) -> Any:
    from ..nbuffering import nbuffer

    sources = [0 if path == Path("-") else path for path in arguments.inputs or [Path("-")]]
    stride = arguments.stride or ("1" if arguments.eager else "1024")
    return nbuffer(
        sources,
        arguments.processors or None,
        destination,
        memory=_number(arguments.memory),
        stride=byte_count("stride", stride),
        delimiter=arguments.delimiter,
        prefix=arguments.prefix,
        max_length=None if arguments.max_length is None else _number(arguments.max_length),
        workers=_number(arguments.workers),
        buffer=None if arguments.buffer is None else _number(arguments.buffer),
        order=_ORDERS.get(arguments.order, arguments.order),
        eager=arguments.eager,
        progress=arguments.progress,
        tune=parsed_tune(arguments.tune or "no"),
    )


def _delimiter(text: str) -> bytes:
    """The bytes of a text with escapes."""
    parts = []
    for plain, escape in re.findall(r"([^\\]+)|\\(x[0-9A-Fa-f]{2}|.?)", text, re.DOTALL):
        if plain:
            parts.append(os.fsencode(plain))
        elif len(escape) == 3:
            parts.append(bytes([int(escape[1:], 16)]))
        elif escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
        else:
            raise argparse.ArgumentTypeError(
                f"'\\{escape}' in {text!r} is not an escape sequence; give \\n, \\r, \\t, \\0 or "
                f"\\xHH, or \\\\ for a backslash"
            )
    if not parts:
        raise argparse.ArgumentTypeError("the text is empty; give at least one character")
    return b"".join(parts)


def _named(text: str) -> str:
    """A message with what are options here as such; what belongs to a processor's name is none."""
    text = re.sub(r"\bstride=", "record_size=", text)
    options = r"\b(memory|workers|buffer|order|record_size|delimiter|prefix|max_length|tune)=(?=(\w|['\"<>])?)"
    text = re.sub(options, lambda found: f"--{found[1].replace('_', '-')}{' ' if found[2] else ''}", text)
    return re.sub(r"(?<=\s)(\w+)=(?=\S)", r"\1 ", text).replace("--tune True", "--tune yes")


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
        "records": report.records,
        "written": sum(output.bytes for output in report.outputs),
        "elapsed_s": report.elapsed_s,
        "buffer_bytes": report.buffer_bytes,
        "tuning": None if report.tuning is None else tuning_fields(report.tuning),
        "peak_bytes": report.peak_bytes,
        "results": results,
        "workers": workers,
    }
