"""What windows are described by, and how two signals' windows compare: steps of `isochrony.Plan`."""

from __future__ import annotations

from .chain import Chain

__all__ = ["FeatureSteps"]


class FeatureSteps(Chain):
    """What windows are described by, and how two signals' windows compare."""

    __slots__ = ()
