"""The table at the end of an import."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from .tables import render, short_time

__all__ = ["best_rate_text", "print_refused", "print_summary", "rate_text"]

_LINES_SHOWN = 20
_SAME_SHOWN = 3
# Slower than a sample in a quarter of an hour: nine decimals would show nothing.
_SLOW_HZ = 1e-3
_ALL = "isochrony import --json lists every file"
# What differs between files that are refused for the same thing.
_VARIES = re.compile(r"\"[^\"]*\"|'[^']*'|\d+")


def rate_text(rate: float | None, error: float | None) -> str | None:
    """A rate in Hz with the digits that its uncertainty leaves."""
    if rate is None:
        return None
    if not error:
        return f"{rate:.9g}"
    if abs(rate) < _SLOW_HZ:
        return f"{rate:.6g} ± {error:.1g}"
    digits = 0
    while digits < 9 and error * 10**digits < 1:
        digits += 1
    return f"{rate:.{digits}f} ± {error:.{digits}f}"


def best_rate_text(described: Mapping[str, Any]) -> str:
    """The rate of a described signal's longest run, else its nominal one, in Hz."""
    known = [run for run in described["runs"] if run["rate_hz"]]
    if not known:
        return f"{described['rate_hz']:.9g}"
    longest = max(known, key=lambda run: run["samples"])
    return rate_text(longest["rate_hz"], longest["rate_error_hz"]) or "–"


def print_summary(summary: Mapping[str, Any]) -> None:
    """Signals on stdout, problems on stderr."""
    rows = [
        (
            one["name"],
            f"{one['samples']:,}",
            one["gaps"],
            one["runs"],
            rate_text(one["rate"], one["rate_uncertainty"]) or f"{one['nominal_rate']:.9g}",
            short_time(one["start"]),
            short_time(one["end"]),
        )
        for one in summary["signals"]
    ]
    if rows:
        head = ("signal", "samples", "gaps", "runs", "rate (Hz)", "start", "end")
        print(render(head, rows))
    problems, kept = summary["problems"], summary["kept"]
    for is_kept, label in ((True, "kept"), (False, "refused")):
        print_refused([one for one, k in zip(problems, kept, strict=True) if k == is_kept], sys.stderr, label)
    print_refused(summary["remarks"], sys.stderr, "note")


def print_refused(problems: Sequence[tuple[str, str]], stream: TextIO, label: str = "refused") -> None:
    """Files that were not imported, or not as a whole, with their reasons, up to a screenful.

    Reasons that differ only in names and numbers are one: they are told once, with the first
    reason's words, some of the files, and how many more there are. `label` begins every line.
    """
    alike: dict[str, list[tuple[str, str]]] = {}
    for path, reason in problems:
        alike.setdefault(_VARIES.sub("…", reason.replace(path, "…")), []).append((path, reason))
    lines = []
    hidden = 0
    for same in alike.values():
        if len(same) <= _SAME_SHOWN:
            lines += [f"{label}: {_printable(path)}: {_printable(reason)}" for path, reason in same]
            continue
        paths = ", ".join(_printable(path) for path, _ in same[:_SAME_SHOWN])
        hidden += len(same) - _SAME_SHOWN
        more = len(same) - _SAME_SHOWN
        lines.append(f"{label}: {len(same)} files ({paths} and {more} more), such as: {_printable(same[0][1])}")
    for line in lines[:_LINES_SHOWN]:
        print(line, file=stream)
    if len(lines) > _LINES_SHOWN:
        print(f"{label}: {len(lines) - _LINES_SHOWN} more reasons; {_ALL}", file=stream)
    elif hidden:
        print(f"{label}: {_ALL}", file=stream)


def _printable(text: str) -> str:
    """Text without control characters, which a terminal would obey: names of files may hold any."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
