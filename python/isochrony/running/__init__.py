"""Runs of plans: with which options, how they are watched and changed, what they give, and what their report says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._first_use import names_on_first_use

if TYPE_CHECKING:
    from .runs import collect, collect_reported, run, run_progress, run_reported

__all__ = ["collect", "collect_reported", "run", "run_progress", "run_reported"]

__getattr__, __dir__ = names_on_first_use(
    __name__, {".runs": ("collect", "collect_reported", "run", "run_progress", "run_reported")}
)
