"""Tasklets: units of work over ranges of signals, what executes them, and what is kept and reported of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._first_use import names_on_first_use

if TYPE_CHECKING:
    from .executor import Executor, Output, Tasklet, prefetch

__all__ = ["Executor", "Output", "Tasklet", "prefetch"]

__getattr__, __dir__ = names_on_first_use(__name__, {".executor": ("Executor", "Output", "Tasklet", "prefetch")})
