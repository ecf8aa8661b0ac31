"""What other processes do with what test_pickling.py sends them: a module, since spawned processes import it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

import isochrony as iso


def shown(handle: Any) -> dict[str, Any]:
    """What a signal or a selection shows, as plain values."""
    signal = handle if isinstance(handle, iso.Signal) else handle.signal
    selection = signal.select() if handle is signal else handle
    return {
        "name": signal.name,
        "end": signal.end_index,
        "gaps": [(gap.start, gap.length, gap.duration) for gap in selection.gaps],
        "runs": [(run.id, run.start, run.end, run.start_time, run.rate) for run in signal.runs()],
        "ranges": selection.ranges,
        "times": selection.times().tolist(),
        "values": selection.values(0.0).tolist(),
    }


def store_shown(store: iso.Store) -> dict[str, Any]:
    """What a store shows."""
    return {name: shown(store[name]) for name in store} | {"sequence": store.sequence, "mode": store.mode}


def segment_shown(segment: iso.Segment) -> tuple[Any, ...]:
    """What a segment shows."""
    about = (segment.start, segment.name, segment.unit, segment.scale, segment.offset, segment.rate, segment.time)
    return (*about, str(segment.dtype), segment.counts.tolist(), segment.values().tolist())


def event_shown(event: iso.Event) -> tuple[Any, ...]:
    """What an event shows."""
    return event.id, event.kind, event.start, event.end, event.time, event.fields


def collected(plan: iso.Plan) -> Any:
    """What a plan gives, and how it prints."""
    return str(plan), np.asarray(plan.collect()).tolist()


def unpickled_shown(data: bytes) -> Any:
    """What a pickled signal or selection shows."""
    return shown(pickle.loads(data))


def unpickled_event_shown(data: bytes) -> Any:
    """What a pickled event shows."""
    return event_shown(pickle.loads(data))


def unpickled_store_shown(data: bytes) -> Any:
    """What a pickled store shows."""
    return store_shown(pickle.loads(data))


def code_of(data: bytes) -> tuple[str, str]:
    """How unpickling fails."""
    try:
        pickle.loads(data)
    except iso.StoreError as error:
        return error.code, str(error)
    return "", ""


def loud(rows: Any) -> Any:
    """Which windows a plan lets pass."""
    return np.abs(rows).max(axis=1) > 10


def ramp() -> Any:
    """Samples that are made."""
    yield np.arange(5.0)
    yield 10, np.arange(5.0)


class Doubled(iso.Operator):
    """An operator with a parameter."""

    def __init__(self, by: float) -> None:
        self.by = by

    def outputs(self, port: iso.Port) -> iso.Port:
        return port

    def process(self, block: iso.Block, emit: Any) -> None:
        emit(block.values * self.by)


class Windows:
    """A data set of windows, as PyTorch's loaders take it: length, items, and a store or a selection inside."""

    def __init__(self, source: iso.Store | iso.Selection, length: int) -> None:
        self.source = source
        self.length = length

    def _selection(self) -> iso.Selection:
        return self.source["x"].select() if isinstance(self.source, iso.Store) else self.source

    def __len__(self) -> int:
        return self._selection().signal.end_index // self.length

    def __getitem__(self, at: int) -> tuple[list[float], int]:
        first = at * self.length
        signal = self._selection().signal
        return signal[first : first + self.length].values().tolist(), signal.time_of(first).ns


_windows: Windows | None = None


def begin(windows: Windows) -> None:
    """Makes a worker process one of a data set."""
    global _windows
    _windows = windows


def item(at: int) -> tuple[list[float], int]:
    """An item of the process's data set."""
    assert _windows is not None
    return _windows[at]
