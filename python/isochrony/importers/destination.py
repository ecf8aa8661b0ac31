"""The store that an import writes to: opened by its path, and made if it is missing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import UsageError

__all__ = ["check_destination", "is_store", "open_destination"]

# Bytes of a zarr.json beyond which none of ours is.
_LONGEST_DESCRIPTION = 64 << 20


def is_store(folder: Path) -> bool:
    """Whether a folder is a store."""
    try:
        # What its projection says is anybody's; the engine's folder is enough.
        if (folder / ".isochrony" / "MANIFEST").exists():
            return True
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error
    try:
        described = folder / "zarr.json"
        # A store without its MANIFEST is one to repair.
        if not described.is_file() or described.stat().st_size > _LONGEST_DESCRIPTION:
            return False
        kind = json.loads(described.read_text(encoding="utf-8"))["attributes"]["isochrony"]["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    return bool(kind == "store")


def check_destination(store: Path) -> None:
    """Refuse a place where no store can be made.

    Raises:
        UsageError: a file, or a folder of other files.
    """
    if store.is_file():
        raise UsageError(f"{store} is a file; name a folder for the store, such as {store.with_suffix('.iso')}")
    # A store whose making was interrupted, by a full disk say, has no more than the engine's folder, and is made now.
    if store.is_dir() and any(inside.name != ".isochrony" for inside in store.iterdir()) and not is_store(store):
        such = store / "recordings.iso" if store.name in ("", "..") else f"{store}.iso"
        raise UsageError(f"{store} is a folder of other files; name a new one for the store, such as {such}")


@contextmanager
def open_destination(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A store to import into, made if missing; one that this call made and that got no signal is removed again.

    So what is refused as a whole, be it for an option or for all of its files, changes nothing.
    """
    from .. import open as open_

    made = not Path(path).exists()
    empty = False
    try:
        with open_(path, mode="a") as store:
            try:
                yield store
            finally:
                empty = made and len(store) == 0
    finally:
        if empty:
            shutil.rmtree(path)
