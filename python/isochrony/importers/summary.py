"""What an import did, for programs and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..output.progress import bytes_text

__all__ = ["ImportSummary", "shown"]

_LINES_SHOWN = 10


class ImportSummary(dict[str, Any]):
    """What an import did: a dict, which prints as a few lines.

    Its entries: ``signals`` (dicts of ``name``, ``samples``, ``added``, ``gaps``, ``runs``, ``rate``,
    ``rate_uncertainty``, ``nominal_rate``, ``unit``, ``start``, ``end``), ``files`` (of which something was stored),
    ``skipped`` (known before), ``duplicates``, ``bytes``, ``seconds``, ``cancelled``, ``problems`` (pairs of path and
    reason), ``kept`` (for each problem, whether samples of that file are in the store all the same), ``remarks`` (pairs
    of path and text, about files that are imported) and ``results``, a dict for each file:

    - ``path``, as it was named;
    - ``status``: ``"imported"``, ``"known"`` (imported before and not changed), ``"kept"`` (imported, with a problem)
      or ``"refused"``;
    - ``signals``, names of those that its samples belong to, and ``samples``, how many it holds in all of them; empty
      and 0 if it was not read;
    - ``reason``: the problem, or None.

    Of raw recordings ``results`` lists files with problems only.
    """

    @property
    def is_clean(self) -> bool:
        """Whether nothing was refused or left out."""
        return not self["problems"]

    def __repr__(self) -> str:
        files, signals = self["files"], len(self["signals"])
        lines = [
            f"{_count(files, 'file')} imported ({bytes_text(self['bytes'])}, {_count(signals, 'signal')}), "
            f"{self['skipped']} known before, {_refused(self)} refused"
        ]
        for is_kept, label in ((False, "refused"), (True, "kept")):
            pairs = zip(self["problems"], self["kept"], strict=True)
            lines += _listed([problem for problem, kept in pairs if kept == is_kept], label)
        lines += _listed(self["remarks"], "note")
        return "\n".join(lines)


def _refused(summary: Mapping[str, Any]) -> int:
    kept: list[bool] = summary["kept"]
    return len(kept) - sum(kept)


def shown(text: str) -> str:
    """A text without characters that a terminal would obey: names of files may hold any."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _listed(pairs: Sequence[tuple[str, str]], label: str) -> list[str]:
    lines = [f"{label}: {shown(path)}: {shown(text)}" for path, text in pairs[:_LINES_SHOWN]]
    return lines + [f"{label}: {len(pairs) - _LINES_SHOWN} more"] * (len(pairs) > _LINES_SHOWN)
