"""Messages of the library in the words of the command line.

The library tells a user how to mend an error by naming a keyword (``partial=True``,
``rate=HZ``); on the command line the same thing is an option (``--partial``,
``--rate HZ``). Messages are written once, for Python, and translated here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["as_options", "in_option_words"]

_KEYWORDS = (
    "alpha|dtype|follow|format|gap_slip|initial_rate|layout|max_gap|partial|preset|rate|signal|start|time_column|unit"
    "|value_jump"
)
# Not inside a path or a quotation: folders may be named rate=100.
_KEYWORD = re.compile(rf"(?<![\w/\"'.-])({_KEYWORDS})=(True\b)?(?=(\S?))")


def as_options(text: str) -> str:
    """A message with ``keyword=`` as ``--keyword``.

    >>> as_options("fetch it again, or take its 7 whole samples with partial=True")
    'fetch it again, or take its 7 whole samples with --partial'
    >>> as_options("give it with rate=HZ, or time_column=")
    'give it with --rate HZ, or --time-column'
    """

    def option(match: re.Match[str]) -> str:
        follows = "" if match[2] or not match[3] or match[3] in ",;.)" else " "
        return f"--{match[1].replace('_', '-')}{follows}"

    return _KEYWORD.sub(option, text)


def in_option_words(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary of an import whose problems speak the command line's words."""
    return {**summary, "problems": [(path, as_options(reason)) for path, reason in summary["problems"]]}
