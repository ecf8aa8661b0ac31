"""STORE, and STORE/SIGNAL, as people write them on a command line.

A store is a folder, so ``water.iso/stn_10/pressure`` is a path whose first part
that is a store ends the store's name; what follows names a signal or a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..importers.destination import is_store as is_store_folder
from .paths import is_url

__all__ = ["Target", "is_store", "names_of", "open_store", "parse_target", "single_signal"]


@dataclass(frozen=True, slots=True)
class Target:
    """A store's folder or URL, and a signal's name or pattern; "" stands for all signals."""

    store: Path | str
    signal: str


def parse_target(text: str) -> Target:
    """Split ``STORE[/SIGNAL]``.

    Raises:
        UsageError: no part of the path is a store.
    """
    if is_url(text):
        return _url_target(text)
    path = Path(text)
    for candidate in (path, *path.parents):
        if is_store_folder(candidate):
            rest = path.relative_to(candidate).as_posix()
            return Target(candidate, "" if rest == "." else rest)
    if path.exists():
        raise UsageError(
            f"{text} is not an Isochrony store; check the path, or create one with: isochrony import SRC STORE"
        )
    raise UsageError(f"{text} does not exist; check the path of the store")


def is_store(path: Path | str) -> bool:
    """Whether a path is a store's. What a URL is tells whoever opens it, in one go with all else."""
    return isinstance(path, str) or is_store_folder(path)


def _url_target(text: str) -> Target:
    """The store is what can be opened; in a URL, a name that ends in ``.iso`` saves the tries."""
    parts = text.rstrip("/").split("/")
    named = [count for count in range(4, len(parts) + 1) if parts[count - 1].endswith(".iso")]
    counts = named[-1:] or range(len(parts), 3, -1)
    for count in counts:
        store = "/".join(parts[:count])
        try:
            open_store(store).close()
        except FileNotFoundError as error:
            missing = error
            continue
        return Target(store, "/".join(parts[count:]))
    if not counts:
        raise UsageError(f"{text} is not a store; give the URL of a store, such as {text.rstrip('/')}/water.iso")
    raise missing


def open_store(path: Path | str, mode: str = "r") -> Any:
    """Open a store; a module of its own so that commands import nothing they do not need."""
    from .. import open as open_

    return open_(path, mode=mode)


def names_of(store: Any, pattern: str) -> list[str]:
    """Names of signals by name, by glob pattern, or below a name; "" gives all.

    Raises:
        UsageError: nothing matches; the message lists some names there are.
    """
    names: list[str] = store.keys()
    if not pattern or pattern in names:
        return [pattern] if pattern else names
    found: list[str] = store.keys(pattern) if any(c in pattern for c in "*?[") else []
    found = found or [name for name in names if name.startswith(pattern.rstrip("/") + "/")]
    if found:
        return found
    some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    raise UsageError(f"no signal matches {pattern!r}; the store has {some or 'no signals'}")


def single_signal(store: Any, pattern: str) -> Any:
    """The one signal that a pattern names.

    Raises:
        UsageError: it names none or several.
    """
    found = names_of(store, pattern)
    if len(found) != 1:
        raise UsageError(
            f"{pattern!r} matches {len(found)} signals ({', '.join(found[:5])}); name one, as STORE/SIGNAL"
        )
    return store[found[0]]
