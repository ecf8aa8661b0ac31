"""The file of what `tune.py` has measured: entries of several runs, all of one machine, commit and size."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from report import processor

__all__ = ["PARTS", "Results", "origin"]

#: Lists of entries, each with its `name` and its `origin`.
PARTS = ("plans", "changes", "harm")


def origin(*, is_quick: bool) -> dict[str, Any]:
    """What entries of one file must have in common."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpu": processor(),
        "commit": described.stdout.strip() or "unknown",
        "quick": is_quick,
    }


class Results:
    """The file of all results, in which those of other parts and workloads stay.

    Attributes:
        results: by part, with summaries.
    """

    def __init__(self, path: Path, made: dict[str, Any]) -> None:
        self._path, self._origin = path, made
        self.results: dict[str, Any] = {"plans": [], "summary": {}, "simulated": {}, "changes": [], "harm": []}

    def read(self) -> None:
        """Take over what an earlier run left. Call it before measuring, so that nothing is measured in vain.

        Raises:
            SystemExit: the file has another layout, or entries of another machine, commit or size.
        """
        if not self._path.exists():
            return
        remedy = "give another file with --out, or measure everything anew, without --part and --only"
        try:
            found = json.loads(self._path.read_text())
            entries = [(one["name"], one["origin"]) for part in PARTS for one in found[part]]
        except (ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"{self._path} is no file of this version of tune.py ({error!r}); {remedy}") from error
        for name, other in entries:
            if other != self._origin:
                raise SystemExit(
                    f"{self._path} has results that cannot be merged with those of this run: {name!r} is of {other}, "
                    f"this run of {self._origin}; {remedy}"
                )
        self.results |= found

    def add(self, part: str, one: dict[str, Any]) -> None:
        """Add an entry, in place of one of the same name. Written at once: a later one may be interrupted."""
        others = [other for other in self.results[part] if other["name"] != one["name"]]
        self.results[part] = [*others, one | {"origin": self._origin}]
        self.write()

    def write(self) -> None:
        """Write all as JSON."""
        self._path.write_text(json.dumps(self.results, indent=1))
