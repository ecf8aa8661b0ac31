"""``isochrony gaps``: what is missing, and where clocks stepped."""

from __future__ import annotations

import argparse
from typing import Any

from .damaged import each, print_damaged
from .describe import describe_run, gap_rows
from .exits import Exit
from .tables import print_json, render, short_time
from .target import open_store, parse_target

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "list gaps and clock steps"
EXAMPLES = """examples:
  isochrony gaps water.iso
  isochrony gaps water.iso/stn_11/pressure --json

A gap is a range of missing samples within one run; "seconds" is its duration, "length" its
number of indices. A new run begins after a clock step, or with a file that overlaps earlier
recordings in time; the column "because" has the reason.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("target", metavar="STORE[/SIGNAL]", help="store, signal or pattern")
    parser.add_argument("--json", action="store_true", help="print gaps and new runs as JSON, instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Print gaps and runs."""
    target = parse_target(arguments.target)
    with open_store(target.store) as store:
        found, damaged = each(store, target.signal, lambda signal: (gap_rows(signal), _later_runs(signal)))
    gaps = [row for rows, _ in found for row in rows]
    steps = [run for _, runs in found for run in runs]
    status = Exit.PARTIAL if damaged else Exit.OK
    if arguments.json:
        said = {"gaps": gaps, "new_runs": steps}
        print_json(said | ({"damaged": [one.as_dict() for one in damaged]} if damaged else {}))
        return status
    if gaps:
        head = ("signal", "start", "end", "seconds", "index", "length", "ended by", "resumed by")
        rows = [
            (
                gap["signal"],
                short_time(gap["start"]),
                short_time(gap["end"]),
                None if gap["seconds"] is None else f"{gap['seconds']:.6f}",
                gap["start_index"],
                gap["length"],
                _edge_text(gap["before"]),
                _edge_text(gap["after"]),
            )
            for gap in gaps
        ]
        print(render(head, rows))
    else:
        print("no gaps")
    if steps:
        print("\n" + render(("signal", "run", "begins", "index", "because"), map(_step_row, steps)))
    print_damaged(target.store, damaged, len(found))
    return status


def _edge_text(edge: dict[str, Any]) -> str:
    """The file, which has its stamp in its name as a rule; where there is none, the stamp."""
    return str(edge["file"] or short_time(edge["stamp"]) or "-")


def _later_runs(signal: Any) -> list[dict[str, Any]]:
    return [{"signal": signal.name, **describe_run(one)} for one in list(signal.runs())[1:]]


def _step_row(step: dict[str, Any]) -> tuple[Any, ...]:
    return step["signal"], step["id"], short_time(step["start"]), step["start_index"], step["reason"]
