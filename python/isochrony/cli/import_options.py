"""The options of ``isochrony import``, made from the declarations of `importers.keywords`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..errors import IsochronyError
from ..importers import formats
from ..importers.keywords import OPTIONS
from ..importers.option_checks import ChoiceCheck
from .message_options import as_options
from .paths import input_path

__all__ = ["EXAMPLES", "HELP", "add_arguments"]

HELP = "import recordings into a store, which is created if it is missing"
EXAMPLES = """examples:
  isochrony import recordings water.iso --dtype '<i2' --rate 2000 --unit mbar \\
      --layout '{station}/{sensor}/{station}_{epoch}.raw'
  isochrony import archive.mseed event.iso
  isochrony import take1.wav take2.wav sound.iso --start 2024-05-01T06:00:00Z --full-scale 1
  isochrony import 'day*/*.csv' log.iso --zone Europe/Berlin
  isochrony import /data/live water.iso --preset censam --follow

layouts:
  A layout is a path below SRC with fields in braces. Fields with names of your choice,
  such as {station} or {sensor}, form the signal's name, joined by "/". Time fields are
  {epoch} (s, ms, us or ns since 1970, by its number of digits; or {epoch:ms}), {iso}, and
  {year} {month} {day} {hour} {minute} {second} {fraction}. {name:4} matches four
  characters, * any text. The resolution of a time is that of its last digit: a file that
  is named to the second begins at any time in that second. The true rate is estimated from
  all files.

Raw recordings have no header: --dtype or --preset declares that the files are raw. They
need --layout, --dtype and --rate, or a --preset. For other formats, --layout states signal
names and times; without a time field, signal names only.

SRC may be several files, folders and patterns. A signal is named by the file's path
without its suffix, relative to the folder SRC, or to the folder that contains all SRC.
Files without a time that share a signal (--signal) become a run each, in the order of the
import, since the time between them is unknown.

Times without a zone are UTC, unless --zone states another. The unit of numbers in a time
column is that in the column's name, or --time-unit; small numbers count from --start. An
empty cell is NaN, and makes its column one of floats. Tables with semicolons may have
decimal commas.

Importing again imports only what is new, also of files that have grown, and continues an
interrupted import. Stored samples stay as they were imported: options that would read a
known file in another way have no effect, and a note says so. Files that cannot be imported
are reported as refused, files that were imported in part as kept, both with the reason; the
rest is imported, and the exit code is 1. Options for clock and gaps apply to signals that
this import creates; existing signals keep theirs.

--follow looks for new files once a second. A raw file is imported within two seconds if it
has its full length (known from presets) or a later file of its signal exists, otherwise when
it has not changed for ten seconds. A file of another format is imported when it has not
changed between two checks. Imported files are committed at once. Ctrl-C ends the import with
a summary; run the same command again to continue.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.usage = f"{parser.prog} SRC ... STORE [options]"
    parser.add_argument("src", metavar="SRC", nargs="+", type=input_path, help="folder, file or pattern of recordings")
    parser.add_argument("store", metavar="STORE", type=input_path, help="store to import into, such as water.iso")
    groups = {title: parser.add_argument_group(title) for title in dict.fromkeys(o.group for o in OPTIONS.values())}
    kinds = as_options("; ".join(f"{one.name}: {one.summary}" for one in formats()))
    for name, option in OPTIONS.items():
        group = groups[option.group]
        flag = f"--{name.replace('_', '-')}"
        help_text = " ".join((option.flag_help or option.help).replace("%", "%%").split())
        if name == "format":
            help_text += f". raw: headerless samples; {kinds}"
        if name == "layout":
            help_text += '; see "layouts" below'
        if option.metavar is None:
            group.add_argument(flag, action="store_true", default=None, help=help_text)
        elif isinstance(option.check, ChoiceCheck):
            group.add_argument(flag, metavar=option.metavar, choices=list(option.check.legal()), help=help_text)
        else:
            group.add_argument(flag, metavar=option.metavar, type=_argument(name, option.check), help=help_text)
    group.add_argument("--json", action="store_true", help="print the summary as JSON, instead of text")


def _argument(name: str, check: Callable[[str, Any], Any]) -> Callable[[str], Any]:
    """A parser for argparse, which reports the message of a check as a usage error."""

    def parsed(text: str) -> Any:
        try:
            return check(name, text)
        except IsochronyError as error:
            # argparse names the option itself.
            raise argparse.ArgumentTypeError(str(error).removeprefix(f"{name} ")) from error

    return parsed
