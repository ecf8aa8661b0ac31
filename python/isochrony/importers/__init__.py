"""Importers: one small module per file format, and one driver for all of them.

`import_files` brings files of any known format into a store; raw recordings
(headerless samples named by a layout template) it hands to `Store.import_raw`.
"""

from __future__ import annotations

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
