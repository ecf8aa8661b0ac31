"""Finds what other packages add to Isochrony: importers and byte processors.

A package registers an object as an entry point, in its pyproject.toml. Entry points are looked up and loaded where they
are first needed, not when `isochrony` is imported. One that cannot be used is left out with a `PluginWarning` that
names package, entry point and error; the others stay.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any

from .errors import PluginWarning

__all__ = ["Plugin", "one_line", "plugins", "warn_of_plugin"]


@dataclass(frozen=True, slots=True)
class Plugin:
    """An object that a package registered.

    Attributes:
        name: of the entry point.
        package: that registered it, with its version.
        value: the object.
    """

    name: str
    package: str
    value: Any


@functools.cache
def plugins(group: str, kind: type) -> tuple[Plugin, ...]:
    """The objects of a class that packages registered in a group of entry points, by name; found and loaded once."""
    found: dict[str, Plugin] = {}
    for package, entry in sorted(_entries(group), key=lambda one: (one[1].name, one[0])):
        try:
            value = entry.load()
        except (Exception, SystemExit) as error:
            # The module of another package runs here, and raises what it likes.
            warn_of_plugin(group, entry.name, package, f"is left out: {entry.value} raised {one_line(error)}")
            continue
        if not isinstance(value, kind):
            wanted = f"{kind.__module__.rpartition('.')[0]}.{kind.__name__}"
            why = f"is left out: {entry.value} is of type {type(value).__name__}, not {wanted}"
            warn_of_plugin(group, entry.name, package, why)
        elif entry.name in found:
            why = f"is left out: package {found[entry.name].package} has one of that name"
            warn_of_plugin(group, entry.name, package, why)
        else:
            found[entry.name] = Plugin(entry.name, package, value)
    return tuple(found.values())


def warn_of_plugin(group: str, name: str, package: str, why: str) -> None:
    """Warn of an entry point: what is wrong with it, in words that follow its name, and what comes of it."""
    text = f"entry point {name!r} of package {package} (group {group}) {why}; update or uninstall that package"
    warnings.warn(text, PluginWarning, stacklevel=2)


def one_line(error: BaseException) -> str:
    """The class and the message of an exception, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _entries(group: str) -> Iterator[tuple[str, EntryPoint]]:
    """Entry points of a group, and the packages that have them. Of a package that is there twice the first counts."""
    seen = set()
    for distribution in distributions():
        try:
            entries = tuple(distribution.entry_points.select(group=group))
        except Exception as error:
            if group in (distribution.read_text("entry_points.txt") or ""):
                why = f"is left out: entry_points.txt cannot be read ({one_line(error)})"
                warn_of_plugin(group, "*", _described(distribution), why)
            continue
        if not entries:
            continue
        name = re.sub(r"[-_.]+", "-", distribution.name or "").lower()
        if name not in seen:
            seen.add(name)
            yield from ((_described(distribution), one) for one in entries)


def _described(distribution: Distribution) -> str:
    return f"{distribution.name} {distribution.version}"
