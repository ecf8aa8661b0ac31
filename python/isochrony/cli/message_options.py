"""Translates messages of the library for the command line.

The remedy in a message names a keyword (``partial=True``, ``rate=HZ``) or a call (open with mode "a"); on the command
line it is an option (``--partial``, ``--rate HZ``) or another command. Messages are written once, for Python, and
translated here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["as_finding", "as_options", "with_options"]

# Advice that names what only a program can do, and what somebody at a command line can.
_ADVICE = {
    'open with mode "a" to create one': "make one with: isochrony import SRC STORE",
    'open it with mode "r+" or "a", or choose another path': "choose another path",
    'open the store with mode "r" if it was to be written': "work on a copy",
    'open the store with mode "r", or mount it writable': "mount it writable, or work on a copy",
    'or open it with mode "r"': "or use a command that only reads, such as isochrony info",
    'open it once with mode "r+" on a machine that may write to it': (
        "whoever may write to it recovers it with: isochrony verify STORE --repair"
    ),
    'open it with mode "r+"': "use a command that writes",
    "unseal it first": "unseal it first, with: isochrony seal STORE/SIGNAL --undo",
    "choose with overlap when reading": "isochrony gaps shows the run",
    "partial = true": "--partial",
    "create it with a start, or append with stamps": "state one when it is imported, with --start TIME",
    "iterate over its segments, or ask for values with a fill": "narrow what is asked for; isochrony gaps shows it",
    "`refresh()` the store and look it up again to read the new one": "run the command again to read the new one",
    "`refresh()` shows the new ones": "run the command again to read the new ones",
    "or delete that signal first": "or into another store",
    "iterate over its segments": "narrow what is asked for; isochrony info shows its runs",
    "get it with store[name], delete it with store.delete(name), or give overwrite=True": "choose another name",
    "list(store) lists all names, store.find(pattern) searches": "isochrony info STORE lists all names",
    "or import recordings into a new one with isochrony.import_files": (
        "or import recordings with: isochrony import SRC STORE"
    ),
    'give True, "recommend", a Configuration, or the file of one': (
        "give yes, no, recommend, or the file of --save-configuration"
    ),
    "name a folder or a file of recordings": "name a folder or a file of recordings; the store comes last",
    "name the recordings to import": "name the recordings first, then the store",
    "allow them with allow_functions=True, or with a list of these names": (
        "allow them with --allow-functions, or each with --allow-function MODULE:NAME"
    ),
}

# How errors of a store refer to the command that finds all damage, or repairs it.
_SEE_VERIFY = re.compile(
    r" \(`isochrony verify` names [^)]*\)|,? or run `isochrony verify` to see what is lost"
    r"|; restore it from a copy, unless `isochrony verify` says that `--repair` can repair it"
)
_MOVE_AWAY = ". Move it away and restore what was there from a copy of the store"

# Of feeds; those of imports are declared.
_KEYWORDS_OF_FEEDS = ("anyone", "channel", "framing", "jitter", "loss", "reorder", "silence", "speed", "twice")


@functools.cache
def _keyword() -> re.Pattern[str]:
    """A keyword that is an option, not inside a path or a quotation: folders may be named rate=100."""
    from ..importers.keywords import OPTIONS

    return re.compile(rf"(?<![\w/\"'.-])({'|'.join((*_KEYWORDS_OF_FEEDS, *OPTIONS))})=(True\b)?(?=(\S?))")


def as_options(text: str) -> str:
    """A message with ``keyword=`` as ``--keyword``.

    >>> as_options("fetch it again, or take its 7 whole samples with partial=True")
    'fetch it again, or take its 7 whole samples with --partial'
    >>> as_options("give it with rate=HZ, or time_column=")
    'give it with --rate HZ, or --time-column'
    >>> as_options('no store at x: nothing is there; check the path, or open with mode "a" to create one')
    'no store at x: nothing is there; check the path, or make one with: isochrony import SRC STORE'
    """
    for said, can in _ADVICE.items():
        text = text.replace(said, can)

    def option(match: re.Match[str]) -> str:
        follows = "" if match[2] or not match[3] or match[3] in ",;.)" else " "
        return f"--{match[1].replace('_', '-')}{follows}"

    return _keyword().sub(option, text)


def as_finding(text: str) -> str:
    """A message that `isochrony verify` itself shows: without advice to run it, or that its remedy replaces.

    >>> as_finding("x is torn; restore it (`isochrony verify` names it), or run `isochrony verify --repair` first")
    'x is torn; restore it, or run this with --repair first'
    """
    text = _SEE_VERIFY.sub("", as_options(text)).removesuffix(_MOVE_AWAY)
    return text.replace("run `isochrony verify --repair`", "run this with --repair").replace(
        "`isochrony verify --repair`", "`--repair`"
    )


def with_options(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary of an import, with ``keyword=`` as ``--keyword`` in its texts."""
    translated = {name: [(path, as_options(text)) for path, text in summary[name]] for name in ("problems", "remarks")}
    results = [{**one, "reason": one["reason"] and as_options(one["reason"])} for one in summary["results"]]
    return {**summary, **translated, "results": results}
