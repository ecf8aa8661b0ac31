"""What runs on this machine, as `isochrony top` shows it: each run writes its state to a file meanwhile.

Plans write theirs in native code; tuned byte streams and executors by `PoolStatus`, without what only plans have:
stages, links, a bottleneck and decisions.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .._native import is_process_running

__all__ = ["PoolStatus", "running_plans", "status_folder", "status_path"]

_numbers = itertools.count()


def status_folder() -> Path:
    """Where running plans of this user write their state: a folder that nobody else may write to."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_absolute():
        return Path(runtime) / "isochrony"
    return Path(tempfile.gettempdir()) / f"isochrony-{os.getuid()}"


def status_path() -> Path | None:
    """A file for the state of another run of this process; None where there can be none."""
    folder = status_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    # Somebody else's folder could lead elsewhere.
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        return None
    return folder / f"{os.getpid()}-{next(_numbers)}.json"


class PoolStatus:
    """Writes the state of a run that is no plan, while it runs. A disk that is full does not end the run.

    Parameters:
        kind: what runs, such as "byte stream".
        configuration: what its workers and buffers are, in words; "" where that changes.
    """

    #: Seconds between two states.
    INTERVAL_S = 0.5

    def __init__(self, kind: str, configuration: str) -> None:
        self._kind, self._configuration = kind, configuration
        self._path: Path | None = None

    def __enter__(self) -> Self:
        self._path = status_path()
        self._begun = self._written = time.monotonic()
        self._cpu_s, self._done = time.process_time(), 0
        self._write(0, 0, "", 0.0, 0.0)
        return self

    def show(self, done: int, total: int, unit: str) -> None:
        """Write the state, unless that was done a moment ago.

        Parameters:
            done: units that are done.
            total: units in all; 0 if unknown.
            unit: what is counted, such as "bytes".
        """
        elapsed_s = time.monotonic() - self._written
        if elapsed_s < self.INTERVAL_S:
            return
        cpu_s = time.process_time()
        self._write(done, total, unit, elapsed_s, cpu_s - self._cpu_s)
        self._written, self._cpu_s, self._done = self._written + elapsed_s, cpu_s, done

    def _write(self, done: int, total: int, unit: str, elapsed_s: float, cpu_s: float) -> None:
        if self._path is None:
            return
        state = {
            "format": 1,
            "kind": self._kind,
            "unit": unit,
            "pid": os.getpid(),
            "elapsed_s": time.monotonic() - self._begun,
            "done": done,
            "total": total or None,
            "window": {"elapsed_s": elapsed_s, "delivered": done - self._done, "cpu_s": cpu_s},
            "configuration": {"shown": self._configuration},
        }
        part = self._path.with_suffix(".part")
        with suppress(OSError):
            part.write_text(json.dumps(state), encoding="utf-8")
            part.replace(self._path)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


def running_plans() -> list[dict[str, Any]]:
    """The state of each plan, tuned byte stream and tuned executor that runs now, in the order of process numbers.

    Its `elapsed_s` is up to now, however long ago the run wrote the rest. Files of ended processes are removed.
    """
    states: list[dict[str, Any]] = []
    try:
        # Of a killed process also what it was about to put in place.
        paths = sorted(path for path in status_folder().iterdir() if path.suffix in {".json", ".part"})
    except OSError:
        return states
    for path in paths:
        pid = path.name.partition("-")[0]
        if not is_process_running(pid):
            path.unlink(missing_ok=True)
            continue
        if path.suffix == ".part":
            continue
        try:
            with path.open(encoding="utf-8") as file:
                state = json.load(file)
                age_s = max(0.0, time.time() - os.fstat(file.fileno()).st_mtime)
        except (OSError, ValueError):
            # It has just ended.
            continue
        if isinstance(state, dict) and state.get("format") == 1:
            states.append({"kind": "plan", "unit": "samples"} | state | {"elapsed_s": state["elapsed_s"] + age_s})
    return sorted(states, key=lambda one: one["pid"])
