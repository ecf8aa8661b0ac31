"""Hints for calls that are legal, and rarely do what was meant."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ..errors import NoMatchWarning

if TYPE_CHECKING:
    from .._native import Store

__all__ = ["warn_of_no_match"]


def warn_of_no_match(store: Store, pattern: str) -> None:
    """Warn that no signal fits a pattern, and say which pattern does."""
    names = store.keys()
    some = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
    wider = "**" if pattern == "*" else f"**/{pattern}" if "/" not in pattern else f"{pattern}/**"
    try:
        fits = len(store.keys(wider))
    except ValueError:
        # As of "a**", which may not be a part of a component.
        fits = 0
    hint = f"; find({wider!r}) gives {fits}" if fits else ""
    warnings.warn(
        f"no signal fits find({pattern!r}), in which * stays inside one part of a name{hint}; the store has {some}",
        NoMatchWarning,
        # Behind the native method, which has no frame.
        stacklevel=2,
    )
