"""Filters of samples: steps of `isochrony.Plan`."""

from __future__ import annotations

from .chain import Chain

__all__ = ["FilterSteps"]


class FilterSteps(Chain):
    """Filters of samples."""

    __slots__ = ()
