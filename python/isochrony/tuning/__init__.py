"""Tuning: how something is executed, as a value, and what a run found out about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._first_use import names_on_first_use

if TYPE_CHECKING:
    from .configuration import (
        Configuration,
        Gain,
        OperatorCost,
        TuningDecision,
        TuningReport,
        TuningRequest,
        checked_tune,
    )

__all__ = ["Configuration", "Gain", "OperatorCost", "TuningDecision", "TuningReport", "TuningRequest", "checked_tune"]

__getattr__, __dir__ = names_on_first_use(__name__, {".configuration": tuple(__all__)})
