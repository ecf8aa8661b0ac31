"""Feeds that arrive now, as sources of plans: sockets, SeedLink servers, sound cards, and signals that still grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._first_use import names_on_first_use

if TYPE_CHECKING:
    from .following import Followed, follow
    from .listening import Latency, LateSamples, Listener, LiveSteps, listen

__all__ = ["Followed", "LateSamples", "Latency", "Listener", "LiveSteps", "follow", "listen"]

__getattr__, __dir__ = names_on_first_use(
    __name__,
    {
        ".following": ("Followed", "follow"),
        ".listening": ("LateSamples", "Latency", "Listener", "LiveSteps", "listen"),
    },
)
