"""``isochrony info``: what a store or a signal holds."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..errors.native import StoreError
from ..output.progress import bytes_text
from .damaged import Damaged, each, print_damaged
from .describe import describe
from .exits import Exit
from .output import printable
from .summary import best_rate_text, rate_text
from .tables import print_json, render, short_time
from .target import open_store, parse_target

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "show the signals of a store: rates, gaps, sizes and compression ratios"
EXAMPLES = """examples:
  isochrony info water.iso
  isochrony info 'water.iso/stn_*/pressure'
  isochrony info water.iso/stn_10/pressure --json

Damaged signals are listed with a remedy. A signal of which the store lost a commit is shown as
it was before that commit.

Exit codes: 0 done; 1 a signal is damaged, or the store lost a commit.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("target", metavar="STORE[/SIGNAL]", help="store, signal or pattern")
    parser.add_argument("--json", action="store_true", help="print the signals as JSON, instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Print a table of signals, or all about one."""
    target = parse_target(arguments.target)
    with open_store(target.store) as store:
        plans = _saved_plans(store)
        named = target.signal in plans
        found, damaged = ([], []) if named else each(store, target.signal, describe)
        shown = plans if not target.signal else {target.signal: plans[target.signal]} if named else {}
        saved = [{"name": name, "plan": plan} for name, plan in shown.items()]
        lost = [] if named else _lost_commits(target.store, {one["name"] for one in found})
    if arguments.json:
        said: dict[str, Any] = {"store": str(target.store), "signals": found}
        said |= {"damaged": [one.as_dict() for one in damaged + lost]} if damaged or lost else {}
        print_json(said | ({"saved_plans": saved} if saved else {}))
        return Exit.PARTIAL if damaged or lost else Exit.OK
    if len(found) == 1 and not damaged:
        _print_one(found[0])
    elif found:
        _print_table(found)
    if saved:
        gap = "\n" if found else ""
        print(gap + render(("saved plan", "what it does"), [(one["name"], one["plan"]) for one in saved]))
    if not (found or saved or damaged or lost):
        print(f"{target.store} has no signals yet; import some with: isochrony import SRC {target.store}")
    for one in lost:
        print(f"isochrony: {printable(one.error)}", file=sys.stderr)
    print_damaged(target.store, damaged, len(found))
    return Exit.PARTIAL if damaged or lost else Exit.OK


def _saved_plans(store: Any) -> dict[str, str]:
    """What each saved plan does; where they cannot be read, that is said, and signals are shown all the same."""
    try:
        plans: dict[str, str] = store.saved_plans.texts()
    except StoreError as error:
        if error.code not in ("damaged_file", "unexpected_file"):
            raise
        print(f"isochrony: saved plans cannot be read: {printable(str(error))}", file=sys.stderr)
        return {}
    return plans


def _lost_commits(store: Path | str, shown: set[str]) -> list[Damaged]:
    """Signals that are shown as they were before a commit that the store lost."""
    from .._native import lost_commits

    def as_damage(name: str, what: str) -> Damaged:
        error = (
            f"{name} is shown as it was before its last commit: {what}; to repair it, run: isochrony "
            f"verify {store} --repair"
        )
        return Damaged(name, "lost_commit", error)

    return [as_damage(name or "a signal", what) for name, what in lost_commits(store) if not name or name in shown]


def _print_table(found: list[dict[str, Any]]) -> None:
    head = (
        "signal",
        "dtype",
        "unit",
        "samples",
        "gaps",
        "runs",
        "rate (Hz)",
        "start",
        "stored",
        "ratio",
    )
    rows = [
        (
            one["name"],
            one["dtype"],
            one["unit"],
            f"{one['samples']:,}",
            one["gaps"],
            len(one["runs"]),
            best_rate_text(one),
            short_time(one["start"]),
            bytes_text(one["stored_bytes"]),
            _ratio(one),
        )
        for one in found
    ]
    print(render(head, rows))


def _print_one(one: dict[str, Any]) -> None:
    stored_as = "" if one["stored_dtype"] == one["dtype"] else f", stored as {one['stored_dtype']}"
    lines = [
        ("dtype", one["dtype"] + stored_as + (f", {one['unit']}" if one["unit"] else "")),
        (
            "samples",
            f"{one['samples']:,} on indices {one['start_index']:,} to {one['end_index']:,}",
        ),
        ("nominal rate", f"{one['rate']} Hz"),
        ("civil time", f"{short_time(one['start'])} to {short_time(one['end'])}" if one["start"] else "unknown"),
        ("gaps", f"{one['gaps']:,}"),
        ("stored", f"{bytes_text(one['stored_bytes'])}, {_ratio(one)} times the size of its samples"),
        ("codec", one["codec"]),
        *((name, _shown(value)) for name, value in sorted(one["attrs"].items())),
    ]
    print(one["name"])
    width = max(14, *(len(name) + 2 for name, _ in lines))
    for name, value in lines:
        print(f"  {name:<{width}}{value}")
    head = ("run", "samples", "rate (Hz)", "start", "end", "began because")
    rows = [
        (
            run["id"],
            f"{run['samples']:,}",
            rate_text(run["rate_hz"], run["rate_error_hz"]),
            short_time(run["start"]),
            short_time(run["end"]),
            run["reason"],
        )
        for run in one["runs"]
    ]
    print("\n" + render(head, rows, "  "))


def _shown(value: Any) -> Any:
    """An attribute; the entries of a dict one after the other."""
    return ", ".join(f"{key}: {one}" for key, one in value.items()) if isinstance(value, dict) else value


def _ratio(one: dict[str, Any]) -> str:
    size = one["samples_bytes"]
    return f"{one['stored_bytes'] / size:.2f}" if size else "–"
