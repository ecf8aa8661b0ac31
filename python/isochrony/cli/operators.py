"""`isochrony operators`: what can be put into a plan."""

from __future__ import annotations

import argparse
import textwrap

from ..errors import UsageError
from ..options.keywords import did_you_mean
from ..plan.declarations import INTERNAL, call, declared, docstring
from .exits import Exit
from .tables import print_json

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "run"]

HELP = "list the operators that plans can have, or describe one"
INTERRUPTED = "nothing was changed"
EXAMPLES = """examples:
  isochrony operators
  isochrony operators stalta
  isochrony operators stalta --json

An operator's parameters have the same names in Python and in saved plans.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="operator to describe")
    parser.add_argument(
        "--json", action="store_true", help="print the operators and their parameters as JSON, instead of text"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the list by family, or one operator's description."""
    known = {one["name"]: one for one in declared()}
    if arguments.name is None:
        public = {name: one for name, one in known.items() if name not in INTERNAL}
        if arguments.json:
            print_json(list(public.values()))
            return Exit.OK
        for family in sorted({one["family"] for one in public.values()}):
            print(f"{family.replace('_', '-')}:")
            for name in sorted(name for name, one in public.items() if one["family"] == family):
                text = textwrap.fill(known[name]["summary"], 100, initial_indent=" " * 22, subsequent_indent=" " * 22)
                print(f"  {name:<19} {text.strip()}")
        return Exit.OK
    if arguments.name not in known:
        raise UsageError(
            f"there is no operator {arguments.name}{did_you_mean(arguments.name, known)}; "
            "isochrony operators lists them"
        )
    one = known[arguments.name]
    if arguments.json:
        print_json(one)
    else:
        print(f"{call(one) or arguments.name}\n\n{docstring(one)}", end="")
    return Exit.OK
