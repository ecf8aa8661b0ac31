"""Importers: one small module per file format, and one driver for all of them.

`import_files` brings files of any known format into a store; raw recordings
(headerless samples named by a layout template) it hands to `Store.import_raw`.

The names below load on first use: most commands need only where a store is, or how a rate is written.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .block import BLOCK_SAMPLES, Block, Omission, Options, Remark, Stamp, StampedBlocks
    from .files import import_files
    from .registry import Format, format_named, format_of, formats
    from .sources import Source, find_sources

__all__ = [
    "BLOCK_SAMPLES",
    "Block",
    "Format",
    "Omission",
    "Options",
    "Remark",
    "Source",
    "Stamp",
    "StampedBlocks",
    "find_sources",
    "format_named",
    "format_of",
    "formats",
    "import_files",
]

# Submodule -> public names that it holds.
_HOMES = {
    ".block": ("BLOCK_SAMPLES", "Block", "Omission", "Options", "Remark", "Stamp", "StampedBlocks"),
    ".files": ("import_files",),
    ".registry": ("Format", "format_named", "format_of", "formats"),
    ".sources": ("Source", "find_sources"),
}
_LAZY = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    home = _LAZY.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return list(__all__)
