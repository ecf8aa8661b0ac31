"""Importers: one small module per file format, and one driver for all of them.

`import_files` brings files of any known format into a store; raw recordings
(headerless samples named by a layout template) it hands to `Store.import_raw`.

The names below load on first use: most commands need only where a store is, or how a rate is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._first_use import names_on_first_use

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

__getattr__, __dir__ = names_on_first_use(
    __name__,
    {
        ".block": ("BLOCK_SAMPLES", "Block", "Omission", "Options", "Remark", "Stamp", "StampedBlocks"),
        ".files": ("import_files",),
        ".registry": ("Format", "format_named", "format_of", "formats"),
        ".sources": ("Source", "find_sources"),
    },
)
