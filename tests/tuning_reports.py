"""What every report of a tuned run has, whether of a plan, a byte stream or an executor."""

from __future__ import annotations

from typing import Any

from isochrony.tuning.configuration import OUTCOMES

__all__ = ["check_decisions"]


def check_decisions(report: Any) -> None:
    """Each decision has a known outcome and a reason, and is a line of the report."""
    for decision in report.tuning.decisions:
        assert decision.outcome in OUTCOMES
        assert decision.reason
        assert f"tuning {decision}" in str(report)
