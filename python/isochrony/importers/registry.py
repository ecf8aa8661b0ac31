"""Which formats there are, and which of them a file is.

A format is one module of this package that defines ``FORMAT``; nothing else has
to be edited to add one (see docs/add_a_format.md). Modules are cheap to import:
each asks for its optional library only when it reads. Other packages add formats
as entry points of the group ``isochrony.importers``.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UsageError
from ..plugins import Plugin, one_line, plugins, warn_of_plugin
from .block import Options, Part

__all__ = ["Format", "format_named", "format_of", "formats"]

_HEAD_BYTES = 512
_GROUP = "isochrony.importers"


@dataclass(frozen=True, slots=True)
class Format:
    """One importable format.

    Attributes:
        name: as given to ``format``.
        summary: one line for people.
        suffixes: of file names, lower case, with the dot.
        read: yields the blocks of a file, in the order of the file, an `Omission`
            for each part that is not imported while the rest is, and a `Remark` on
            what the user should know of the file. It is given the path,
            the default signal name and the options; it reads lazily and raises
            `BadSourceError` for a file that it cannot take.
        recognises: whether the first bytes of a file are of this format. Default: never,
            the suffix alone decides.
        checks_parts: whether each block is known to be good when it is yielded, so that a long file is stored while it
            is read; others are read to their end first, and refused whole if they are damaged.
        extra: the extra that installs what `read` needs.
        uses: options (fields of `Options`) that apply to files of the format; of others one that is given is told of
            in the summary. Default: all.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, str, Options], Iterator[Part]]
    recognises: Callable[[bytes], bool] = lambda _head: False
    checks_parts: bool = False
    extra: str | None = None
    uses: tuple[str, ...] | None = None

    def takes(self, option: str) -> bool:
        """Whether an option of readers applies to files of the format; `partial` does to all."""
        return self.uses is None or option in (*self.uses, "partial")


@functools.cache
def formats() -> tuple[Format, ...]:
    """Every format: those of this package by name, then those of others."""
    built_in = _built_in()
    known = {one.name: "isochrony" for one in built_in} | {"raw": "isochrony"}
    added = []
    for plugin in plugins(_GROUP, Format):
        name = plugin.value.name
        if name in known:
            why = f"is left out: its format {name!r} is one of {known[name]} already"
            warn_of_plugin(_GROUP, plugin.name, plugin.package, why)
            continue
        known[name] = f"package {plugin.package}"
        added.append(_guarded(plugin))
    return (*built_in, *added)


def _built_in() -> tuple[Format, ...]:
    found = []
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        value = getattr(importlib.import_module(f"{package}.{module.name}"), "FORMAT", None)
        if isinstance(value, Format):
            found.append(value)
    return tuple(sorted(found, key=lambda one: one.name))


def _guarded(plugin: Plugin) -> Format:
    """A format of another package, which says that it recognises nothing where its function fails."""
    added: Format = plugin.value

    def recognises(head: bytes) -> bool:
        try:
            return bool(added.recognises(head))
        except Exception as error:
            why = f"recognises no file: its function raised {one_line(error)}"
            warn_of_plugin(_GROUP, plugin.name, plugin.package, why)
            return False

    return replace(added, recognises=recognises)


def format_named(name: str) -> Format:
    """The format of that name.

    Raises:
        UsageError: there is none; the message lists those there are.
    """
    for one in formats():
        if one.name == name:
            return one
    known = ", ".join(one.name for one in formats())
    if name == "raw":
        raise UsageError(
            "raw samples have no header that this function could read: import them with store.import_raw(), which "
            f"takes their layout, dtype and rate; the formats here are {known}"
        )
    raise UsageError(f"unknown format {name!r}; known are {known}, and raw")


def format_of(path: Path) -> Format | None:
    """The format of a file, by its first bytes, else by its suffix; None if neither tells."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    for one in formats():
        if one.recognises(head):
            return one
    suffix = path.suffix.lower()
    return next((one for one in formats() if suffix in one.suffixes), None)
