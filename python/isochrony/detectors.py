"""Detectors and running statistics of samples: steps of `isochrony.Plan`."""

from __future__ import annotations

from .chain import Chain

__all__ = ["DetectorSteps"]


class DetectorSteps(Chain):
    """Detectors and running statistics of samples."""

    __slots__ = ()
