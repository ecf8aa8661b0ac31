"""Plans that run on this machine, as `isochrony top` shows them: each writes its state to a file while it runs."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from .._native import is_process_running

__all__ = ["running_plans", "status_folder", "status_path"]

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


def running_plans() -> list[dict[str, Any]]:
    """The state of each plan that runs now, in the order of process numbers. Files of ended processes are removed."""
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
            state = json.loads(path.read_text())
        except (OSError, ValueError):
            # It has just ended.
            continue
        if isinstance(state, dict) and state.get("format") == 1:
            states.append(state)
    return sorted(states, key=lambda one: one["pid"])
