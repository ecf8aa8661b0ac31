"""``isochrony verify``: find damage, name it, repair what can be repaired safely."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import UsageError
from ..progress import bytes_text
from .exits import Exit
from .tables import print_json
from .target import parse_target
from .words import as_options

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "check every checksum, table and file of a store"
EXAMPLES = """examples:
  isochrony verify water.iso
  isochrony verify water.iso/stn_10/pressure --json
  isochrony verify water.iso --repair

Exit code 0: sound, or all damage repaired. 1: damage remains, listed by file.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("target", metavar="STORE[/SIGNAL]", help="store or signal")
    parser.add_argument("--repair", action="store_true", help="repair what can be repaired without losing a sample")
    parser.add_argument("--quick", action="store_true", help="look at files and tables only, not at every sample")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Verify, print findings."""
    from ..store import verify

    target = parse_target(arguments.target)
    report: Any = verify(target.store, signal=target.signal or None, repair=arguments.repair, deep=not arguments.quick)
    if target.signal and not report["signals"] and not report["damage"]:
        raise UsageError(f"{target.store} has no signal {target.signal!r}; see: isochrony info {target.store}")
    damage = [{**one, "what": as_options(one["what"]), "mend": as_options(one["mend"])} for one in report["damage"]]
    left = [one for one in damage if not one["repaired"]]
    if arguments.json:
        print_json({**report, "damage": damage})
    else:
        for one in damage:
            state = "repaired" if one["repaired"] else one["mend"]
            # Most say themselves which file they are about.
            where = "" if one["path"] in one["what"] else f"{one['path']}: "
            print(f"{where}{one['what']} ({state})")
        looked = (
            "only files and tables looked at"
            if arguments.quick
            else f"{bytes_text(report['bytes'])} compared with their checksums"
        )
        # Never called sound: nobody can know.
        unchecked = f", {report['unchecked']:,} samples have none yet" if report["unchecked"] else ""
        verdict = f"{len(left)} damaged" if left else "sound" if not damage else "all repaired"
        if verdict == "sound" and unchecked:
            verdict = "the rest is sound"
        count = report["signals"]
        print(f"{count} {'signal' if count == 1 else 'signals'}, {looked}{unchecked}; {verdict}")
    return Exit.PARTIAL if left else Exit.OK
