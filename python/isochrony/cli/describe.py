"""A signal as plain values, for tables and JSON."""

from __future__ import annotations

from typing import Any

__all__ = ["describe", "describe_run", "gap_rows"]


def describe(signal: Any) -> dict[str, Any]:
    """Everything `info` says about a signal; times are ISO text, or None where unknown."""
    stored = signal.runs()
    # Runs are in storage order: late files and clock steps put an earlier time after a later one.
    starts = [run.start_time for run in stored if run.start_time is not None]
    ends = [run.end_time for run in stored if run.end_time is not None]
    sizes = signal.sizes()
    return {
        "name": signal.name,
        "dtype": str(signal.dtype),
        "stored_dtype": signal.stored_dtype,
        "unit": signal.unit,
        "rate": str(signal.rate.fraction),
        "rate_hz": float(signal.rate),
        "samples": signal.sample_count,
        "start_index": signal.start_index,
        "end_index": signal.end_index,
        "gaps": len(signal.gaps),
        "start": min(starts).isoformat() if starts else None,
        "end": max(ends).isoformat() if ends else None,
        "samples_bytes": sizes["samples"],
        "stored_bytes": sizes["stored"],
        "codec": sizes["codec"],
        "attrs": {str(key): value for key, value in dict(signal.attrs).items()},
        "runs": [describe_run(run) for run in stored],
    }


def describe_run(run: Any) -> dict[str, Any]:
    """One run as plain values."""
    return {
        "id": run.id,
        "start_index": run.start,
        "end_index": run.end,
        "samples": run.sample_count,
        "rate_hz": None if run.rate is None else float(run.rate),
        "rate_error_hz": run.rate_uncertainty,
        "start": None if run.start_time is None else run.start_time.isoformat(),
        "end": None if run.end_time is None else run.end_time.isoformat(),
        "reason": run.reason,
    }


def _edge(edge: Any) -> dict[str, Any]:
    """The recording on one side of a gap as plain values: its file, and its stamp as the source gave it."""
    return {"file": edge.source, "stamp": None if edge.stamp is None else edge.stamp.isoformat()}


def gap_rows(signal: Any) -> list[dict[str, Any]]:
    """The gaps of a signal as plain values; `seconds` is civil duration, not index length."""
    return [
        {
            "signal": signal.name,
            "start_index": gap.start,
            "length": gap.length,
            "start": None if gap.start_time is None else gap.start_time.isoformat(),
            "end": None if gap.end_time is None else gap.end_time.isoformat(),
            "seconds": None if gap.duration is None else float(gap.duration),
            "before": _edge(gap.before),
            "after": _edge(gap.after),
        }
        for gap in signal.gaps
    ]
