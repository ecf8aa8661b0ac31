"""What an import did, for programs and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..output.progress import bytes_text

__all__ = ["ImportSummary", "shown"]

_LINES_SHOWN = 10


class ImportSummary(dict[str, Any]):
    """What an import did: a dict, which prints as a few lines.

    Its entries:

    - ``signals``: a dict for each signal: ``name``; ``samples``, number of samples that it has now; ``added``, number
      of samples from this import; ``gaps`` and ``runs``, numbers of them; ``rate`` and ``rate_uncertainty``, measured
      from time stamps, in Hz, None without stamps; ``nominal_rate``, in Hz; ``unit``, empty if not known; ``start`` and
      ``end``, civil times in UTC of the earliest sample and behind the latest as text, None if not known;
    - ``files``: number of files of which something was stored;
    - ``skipped``: number of files that were imported before;
    - ``duplicates``: number of files whose samples are stored, with the same times, from another file;
    - ``bytes``: bytes of samples stored; ``seconds``: duration in seconds; ``cancelled``: whether the import was ended
      early;
    - ``problems``: pairs of path and reason; ``kept``: for each problem, whether samples of that file are stored
      nevertheless;
    - ``remarks``: pairs of path and text, about files that were imported;
    - ``results``: a dict for each file: ``path``, as it was named; ``status``, one of ``"imported"``, ``"known"``
      (imported before and not changed), ``"kept"`` (imported, with a problem) and ``"refused"``; ``signals``, names of
      the signals that have its samples, and ``samples``, their number, empty and 0 if it was not read; ``reason``, the
      problem, or None. For raw recordings only files with problems are listed.

    >>> import isochrony as iso, numpy as np, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "a.npy", np.arange(500, dtype="i2"))
    >>> summary = iso.import_files(folder / "s.iso", folder / "*.npy", rate=100)
    >>> summary.is_clean, summary["files"], summary["signals"][0]["samples"]
    (True, 1, 500)
    """

    @property
    def is_clean(self) -> bool:
        """Whether all was imported: no file was refused or imported in part, and the import was not cancelled.

        >>> import isochrony as iso, numpy as np, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> np.save(folder / "a.npy", np.arange(500, dtype="i2"))
        >>> iso.import_files(folder / "s.iso", folder / "*.npy", rate=100).is_clean
        True
        """
        return not self["problems"] and not self["cancelled"]

    def __repr__(self) -> str:
        files, signals = self["files"], len(self["signals"])
        lines = [
            f"{_count(files, 'file')} imported ({bytes_text(self['bytes'])}, {_count(signals, 'signal')}), "
            f"{self['skipped']} skipped (imported before), {_refused(self)} refused"
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
