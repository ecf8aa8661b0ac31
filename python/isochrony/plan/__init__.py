"""Plans: what to compute over signals, where plans begin, and how they are saved, pickled and declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._first_use import names_on_first_use

if TYPE_CHECKING:
    from .plan import Plan
    from .sources import generate, scan

__all__ = ["Plan", "generate", "scan"]

__getattr__, __dir__ = names_on_first_use(__name__, {".plan": ("Plan",), ".sources": ("generate", "scan")})
