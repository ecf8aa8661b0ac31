"""What tasklets return: as it is reported, and as it is kept for a run that is continued."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import numpy as np

from .._native import NativeTable
from ..running.report import ProcessReport
from ..tables.table import Table
from .report import TaskletsReport, TaskletWorkerReport

__all__ = ["kept", "never_kept", "owned", "report"]

_PLAIN = frozenset((int, float, complex, bool, str, bytes))
_LONG = 10**18


def report(done: dict[str, Any], results: dict[str, Any]) -> TaskletsReport:
    """What the native half tells, and what functions returned in this process, as the report."""
    rows, values = done.pop("tasklets"), {}
    for name, state, _, _, _, _, text in rows:
        if state in ("done", "kept") and name in results:
            value = results[name]
            values[name] = Table._of(value) if type(value) is NativeTable else value
        elif text is not None:
            values[name] = json.loads(text)
    workers = tuple(TaskletWorkerReport(*one) for one in done.pop("workers"))
    notes, places = tuple(done.pop("notes")), tuple(done.pop("places"))
    processes = tuple(ProcessReport(**one) for one in done.pop("processes"))
    return TaskletsReport(
        _rows=rows, workers=workers, values=values, notes=notes, places=places, processes=processes, **done
    )


def never_kept(unkept: list[tuple[str, str]]) -> list[str]:
    """Notes on tasklets, by name and reason, of which no run can tell whether they are what they were."""
    of: dict[str, list[str]] = {}
    for name, reason in unkept:
        of.setdefault(reason, []).append(name)
    notes = []
    for reason, names in of.items():
        who = json.dumps(names[0], ensure_ascii=False) + (f" and {len(names) - 1} more" if names[1:] else "")
        they = "it is" if len(names) == 1 else "they are"
        notes.append(
            f"tasklet {who} cannot be told from what it was, because of {reason}: with resume {they} run again"
        )
    return notes


def owned(value: Any) -> Any:
    """The same without views: what they look into may be scratch, which is freed."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray):
        return value if value.flags.owndata else value.copy()
    if type(value) in (list, tuple):
        return type(value)(owned(one) for one in value)
    if type(value) is dict:
        return {key: owned(one) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(type(value), "_make"):
        make: Any = type(value)
        return make._make(owned(one) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        copied = copy.copy(value)
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):
                # Also of frozen ones.
                object.__setattr__(copied, field.name, owned(getattr(value, field.name)))
        return copied
    return value


def kept(value: Any) -> str | None:
    """JSON that gives the same value again, if there is such."""
    if type(value) is int and -_LONG < value < _LONG:
        return str(value)
    try:
        text = json.dumps(value, allow_nan=False, default=_plain)
        return text if json.loads(text) == value else None
    except (TypeError, ValueError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    """A NumPy scalar as Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value))
