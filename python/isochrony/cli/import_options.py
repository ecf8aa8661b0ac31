"""The options of ``isochrony import``, made from the declarations of `importers.keywords`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..errors import IsochronyError
from ..importers import formats
from ..importers.keywords import OPTIONS
from ..importers.option_checks import ChoiceCheck
from .paths import input_path
from .words import as_options

__all__ = ["EXAMPLES", "HELP", "add_arguments"]

HELP = "bring recordings into a store, creating it if it is missing"
EXAMPLES = """examples:
  isochrony import recordings water.iso --dtype '<i2' --rate 2000 --unit mbar \\
      --layout '{station}/{sensor}/{station}_{epoch}.raw'
  isochrony import archive.mseed event.iso
  isochrony import take1.wav take2.wav sound.iso --start 2024-05-01T06:00:00Z --full-scale 1
  isochrony import 'day*/*.csv' log.iso --zone Europe/Berlin
  isochrony import /data/live water.iso --preset censam --follow

layouts:
  A layout is a path below SRC with fields in braces. Fields of your own, such as
  {station} or {sensor}, make the signal's name, joined by "/". Fields of time are
  {epoch} (s, ms, us or ns since 1970, by its digits; or {epoch:ms}), {iso}, and
  {year} {month} {day} {hour} {minute} {second} {fraction}. {name:4} takes four
  characters, * anything. A time is as fine as its last digit: a file named to the
  second begins somewhere in that second, and the rate is found all the same.

Raw recordings have no header: --dtype or --preset says that the files are raw, and
--layout, --dtype and --rate are needed then, or a --preset. Else --layout names the
signals and times of files of other formats; without a field of time it names the
signals only.

SRC may be several files, folders and patterns. A signal is named by the path below
the folder that is named, or that holds all of them, without its suffix. Files without
a time that share a signal (--signal) are a run each, in the order of their import:
nobody knows how one follows on the other.

Times without a zone are UTC, unless --zone says otherwise. Numbers in a time column
count what its name or --time-unit says, small ones from --start. An empty cell is a
missing value, NaN, and its column is of floats. Tables with semicolons may have decimal
commas.

Running it again imports only what is new, also of files that have grown, and so goes
on with an import that was interrupted. What is stored stays as it was imported: options
that would make something else of a known file change nothing, and a note says so.
Files that cannot be taken are reported with their reason (refused), and so are those
that are taken, but not as a whole (kept); the rest is imported, and the exit code is 1.
Options of clock and gaps hold for signals that the import creates; existing ones keep
theirs.

--follow looks for new files once a second. A raw file is taken when it has its full
length (presets know it) or a later file of its signal is there, then within two
seconds; else when it has not changed for ten. Files of other formats are taken when
they kept still from one look to the next. What was taken is committed at once. Ctrl-C
ends it with the summary; the store is closed clean, and the same command goes on later.
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
        help_text = " ".join(option.help.replace("%", "%%").split())
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
