"""N-buffering: read, process and write any stream of bytes on all cores, and what streams it reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._first_use import names_on_first_use

if TYPE_CHECKING:
    from .processors import BufferFunction, Processor
    from .progress import StreamProgress
    from .runs import NBufferReport, Result, StreamReport, WorkerReport, nbuffer

__all__ = [
    "BufferFunction",
    "NBufferReport",
    "Processor",
    "Result",
    "StreamProgress",
    "StreamReport",
    "WorkerReport",
    "nbuffer",
]

__getattr__, __dir__ = names_on_first_use(
    __name__,
    {
        ".processors": ("BufferFunction", "Processor"),
        ".progress": ("StreamProgress",),
        ".runs": ("NBufferReport", "Result", "StreamReport", "WorkerReport", "nbuffer"),
    },
)
