"""Reads all of a store in a process of its own, for `damages.py`: prints what it read, or the errors, as JSON.

    python tests/attack/read_store.py STORE NAME...

Each signal is read three times: as a selection, by a plan that copies from the files, and as a plot. Its record
has the ranges of its segments, the samples, the times of each segment's ends and middle, and the events.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import numpy as np

import isochrony as iso


def record(signal: iso.Signal) -> dict[str, Any]:
    """What a signal shows."""
    segments = list(signal[:].segments)
    try:
        probes = {k for s in segments for k in (s.start, (s.start + s.end) // 2, s.end - 1)}
        times = [str(signal.time_of(k).ns) for k in sorted(probes)]
    except iso.IsochronyError as error:
        # A signal without civil time says so; anything else is an error of the read.
        if error.code != "no_civil_time":
            raise
        times = []
    return {
        "ranges": [[segment.start, len(segment)] for segment in segments],
        "times": times,
        "events": [[event.kind, event.start, event.end] for event in signal.events],
        "samples": encoded(b"".join(np.asarray(segment.counts).tobytes() for segment in segments)),
    }


def scanned(signal: iso.Signal) -> str:
    """The samples as a plan reads them."""
    pieces: list[bytes] = []
    iso.scan(signal, io="read").each(lambda values, _: pieces.append(np.asarray(values).tobytes())).run()
    return encoded(b"".join(pieces))


def plotted(signal: iso.Signal) -> list[str]:
    """The columns of a plot, which come from stored rows where there are any."""
    view = signal.view(pixels=100)
    return [encoded(np.asarray(part).tobytes()) for part in (view.min, view.max, view.mean)]


def encoded(data: bytes) -> str:
    """Bytes as text."""
    return base64.b85encode(data).decode()


def errand(path: str, names: list[str]) -> dict[str, Any]:
    """Everything that a store shows, and what `verify` finds."""
    outcome: dict[str, Any] = {"signals": {}, "scans": {}, "views": {}}
    try:
        with iso.open(path) as store:
            for name in names:
                for kind, read in (("signals", record), ("scans", scanned), ("views", plotted)):
                    try:
                        outcome[kind][name] = {"read": read(store[name])}
                    except (iso.IsochronyError, OSError) as error:
                        outcome[kind][name] = {"error": f"{type(error).__name__}: {error}"}
    except (iso.IsochronyError, OSError) as error:
        outcome["open"] = f"{type(error).__name__}: {error}"
    try:
        outcome["damage"] = [finding["code"] for finding in iso.verify(path)["damage"]]
    except (iso.IsochronyError, OSError) as error:
        outcome["verify"] = f"{type(error).__name__}: {error}"
    return outcome


if __name__ == "__main__":
    print(json.dumps(errand(sys.argv[1], sys.argv[2:])))
