"""The table at the end of an import."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from .tables import render

__all__ = ["print_refused", "print_summary", "rate_text"]

_PROBLEMS_SHOWN = 20


def rate_text(rate: float | None, error: float | None) -> str | None:
    """A rate in Hz with the digits that its uncertainty leaves."""
    if rate is None:
        return None
    if not error:
        return f"{rate:.9g}"
    digits = 0
    while digits < 9 and error * 10**digits < 1:
        digits += 1
    return f"{rate:.{digits}f} ± {error:.{digits}f}"


def print_summary(summary: Mapping[str, Any]) -> None:
    """Signals on stdout, problems on stderr."""
    rows = [
        (
            one["name"],
            f"{one['samples']:,}",
            one["gaps"],
            one["runs"],
            rate_text(one["rate"], one["rate_uncertainty"]),
            one["start"],
            one["end"],
        )
        for one in summary["signals"]
    ]
    if rows:
        head = ("signal", "samples", "gaps", "runs", "rate (Hz)", "start", "end")
        print(render(head, rows))
    print_refused(summary["problems"], sys.stderr)


def print_refused(problems: Sequence[tuple[str, str]], stream: TextIO) -> None:
    """Files that were not imported, with their reasons, up to a screenful."""
    for path, reason in problems[:_PROBLEMS_SHOWN]:
        print(f"refused: {path}: {reason}", file=stream)
    if len(problems) > _PROBLEMS_SHOWN:
        print(f"refused: {len(problems) - _PROBLEMS_SHOWN} more; --json lists them all", file=stream)
