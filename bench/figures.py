"""What pages and figures of several benchmarks share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(header)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def spread(values: list[float]) -> str:
    return f"{values[0]:.2f} ({values[1]:.2f} to {values[2]:.2f})"


def legend_below(figure: Any, axes: Any, columns: int) -> None:
    """One legend for all axes, where it hides nothing."""
    figure.legend(*axes.get_legend_handles_labels(), fontsize=7, loc="lower center", ncols=columns)
