"""``isochrony verify``: find damage, name it, repair what can be repaired safely."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import UsageError
from ..output.progress import bytes_text
from .exits import Exit
from .message_options import as_finding, as_options
from .tables import print_json
from .target import parse_target

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "check the checksums, tables and files of a store"
EXAMPLES = """examples:
  isochrony verify water.iso
  isochrony verify water.iso/stn_10/pressure --json
  isochrony verify water.iso --repair

Exit codes (with --json also "exit_code" and "verdict"):
  0  sound: no damage; also if the writer was killed, or is writing
  1  damaged: the damage is listed by file, each with a remedy
  5  repaired: --repair repaired all damage, and nothing was lost
  6  lost: --repair could not restore some samples; they are now a gap with an event
     "samples_lost", and are listed with signal, range and time. Remaining damage is
     listed too.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("target", metavar="STORE[/SIGNAL]", help="store or signal")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="repair what can be repaired; lost samples become a gap, and are listed",
    )
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--quick", action="store_true", help="check files and tables only, not every sample")
    depth.add_argument("--deep", action="store_true", help="check every sample too (the default)")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON, instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Verify, print findings."""
    from ..store import verify

    target = parse_target(arguments.target)
    report: Any = verify(target.store, signal=target.signal or None, repair=arguments.repair, deep=not arguments.quick)
    if target.signal and not report["signals"] and not report["damage"]:
        raise UsageError(f"{target.store} has no signal {target.signal!r}; see: isochrony info {target.store}")
    damage = [{**one, "what": as_finding(one["what"]), "mend": as_options(one["mend"])} for one in report["damage"]]
    status = _STATUS[report["verdict"]]
    if arguments.json:
        print_json({**report, "damage": damage, "exit_code": int(status)})
    else:
        _print(report, damage, arguments.quick)
    return status


_STATUS = {"sound": Exit.OK, "damaged": Exit.PARTIAL, "repaired": Exit.REPAIRED, "lost": Exit.LOST}


def _print(report: dict[str, Any], damage: list[dict[str, Any]], quick: bool) -> None:
    for one in damage:
        state = "repaired" if one["repaired"] else one["mend"]
        # Most say themselves which file they are about.
        where = "" if one["path"] in one["what"] else f"{one['path']}: "
        print(f"{where}{one['what']} ({state})")
    for loss in report["lost"]:
        if loss["reason"] == "damaged_metadata":
            print(
                "lost: attributes and saved plans of the store, if it had any; the damaged zarr.json "
                "is kept in .isochrony"
            )
            continue
        if loss["reason"] == "lost_commit" and not loss["samples"]:
            what = f"that changed {loss['signal']}" if loss["signal"] else "of a signal of unknown name"
            print(f"lost: a commit {what}; no lost samples are known")
            continue
        start, end = loss["range"]
        when = f", {loss['start']} to {loss['end']}" if loss["start"] else ""
        print(f"lost: {loss['samples']:,} samples of {loss['signal']} in {start}..{end}{when}; they are a gap now")
    looked = (
        "only files and tables checked" if quick else f"{bytes_text(report['bytes'])} compared with their checksums"
    )
    # Never called sound: nobody can know.
    unchecked = f", {report['unchecked']:,} samples have no checksum yet" if report["unchecked"] else ""
    left = sum(not one["repaired"] for one in damage)
    verdict = {"damaged": f"{left} damaged", "repaired": "all repaired, nothing lost"}.get(report["verdict"], "sound")
    if report["verdict"] == "lost":
        count = sum(loss["samples"] for loss in report["lost"])
        what = f"{count:,} samples were" if count else "a commit was"
        if all(loss["reason"] == "damaged_metadata" for loss in report["lost"]):
            what = "attributes were"
        verdict = f"repaired, but {what} lost" + (f"; {left} damaged" if left else "")
    elif verdict == "sound" and unchecked:
        verdict = "the rest is sound"
    count = report["signals"]
    print(f"{count} {'signal' if count == 1 else 'signals'}, {looked}{unchecked}; {verdict}")
