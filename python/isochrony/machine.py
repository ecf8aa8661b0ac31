"""What this machine costs: calibrating it, and what is predicted of scans.

>>> from isochrony import machine
>>> profile = machine.calibrate(size=8 << 20, repeats=1)
>>> seconds = machine.predict(profile, 1e9)["mmap"]["cached"]
>>> seconds[0] <= seconds[1] <= seconds[2]
True
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

from ._native import (
    calibrate_machine,
    load_machine_profile,
    machine_profile_path,
    predict_scan,
    save_machine_profile,
)
from .errors.native import StoreValueError

__all__ = ["calibrate", "load", "predict", "profile_path", "save"]


def calibrate(folder: str | os.PathLike[str] = ".", *, size: int = 1 << 30, repeats: int = 5) -> dict[str, Any]:
    """Measures this machine and the disk of a folder.

    A scratch store is written to the folder, scanned by each I/O strategy by turns, with and without it in the page
    cache, and removed. Only the cache of its own files is dropped.

    Parameters:
        folder: on the disk to measure.
        size: bytes to scan, 4 MiB to 1 TiB; more than the processor's caches hold tells most.
        repeats: how often each scan is made, 1 to 100.

    Returns:
        The profile; each figure as low and high quartile and median, in seconds, bytes, or both.

    Raises:
        StoreValueError: `size` or `repeats` out of range.
        StoreOSError: the folder cannot be written, or has no room for twice `size`.
    """
    if not (0 <= size < 1 << 64 and 0 <= repeats < 1 << 32):
        raise StoreValueError(
            f"size={size}, repeats={repeats} is refused; give size from 4 MiB to 1 TiB (in bytes) and repeats from 1 "
            "to 100"
        )
    return cast("dict[str, Any]", json.loads(calibrate_machine(Path(folder), size, repeats)))


def profile_path() -> Path | None:
    """Where the profile is kept that plans choose by; None if there is no folder of settings."""
    return machine_profile_path()


def save(profile: dict[str, Any], path: str | os.PathLike[str] | None = None) -> Path:
    """Keeps a profile, with other disks of this machine that were measured before; gives the path.

    Parameters:
        profile: what `calibrate` gave.
        path: default: `profile_path`.

    Raises:
        StoreValueError: it is no profile, or there is no folder of settings.
        StoreOSError: the file cannot be written.
    """
    return save_machine_profile(json.dumps(profile), None if path is None else Path(path))


def load(path: str | os.PathLike[str] | None = None) -> dict[str, Any] | None:
    """The profile that is kept; None if there is none.

    Raises:
        StoreValueError: the file is no profile.
    """
    text = load_machine_profile(None if path is None else Path(path))
    return None if text is None else json.loads(text)


def predict(
    profile: dict[str, Any], size: float, dtype: str = "int16"
) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Seconds that reading and summarising `size` bytes takes, on the disk of a profile that was measured last.

    Parameters:
        profile: what `calibrate` gave.
        size: bytes of samples.
        dtype: their type, as NumPy names it.

    Returns:
        By strategy, then by where samples are ("cold": on the disk, "cached": in the page cache, "mapped": in the
        process already): low quartile, median, high quartile. What was not measured is not there.

    Raises:
        StoreValueError: it is no profile.
        SegmentError: signals have no samples of this type.
    """
    found: dict[str, dict[str, tuple[float, float, float]]] = {}
    for strategy, state, seconds in predict_scan(json.dumps(profile), size, dtype):
        found.setdefault(strategy, {})[state] = seconds
    return found
