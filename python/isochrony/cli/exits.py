"""Exit codes, the same for every command."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["EPILOG", "Exit"]


class Exit(IntEnum):
    """What the status of the process says."""

    OK = 0
    """Everything asked for was done."""
    PARTIAL = 1
    """Done in part: some input was refused, or damage was found; it was reported."""
    USAGE = 2
    """The command line cannot be carried out as given; nothing was changed."""
    STORE = 3
    """The store cannot be opened, read or written; it is as last committed."""
    MISSING = 4
    """An optional package is not installed."""
    REPAIRED = 5
    """Damage was found and all of it repaired; no sample was lost."""
    LOST = 6
    """Repaired, but samples were lost; the report says which, and whether damage remains."""
    INTERNAL = 70
    """A bug in isochrony."""
    INTERRUPTED = 130
    """Interrupted from the keyboard; what was committed stays."""


EPILOG = """exit codes:
  0  done
  1  done in part: some input was refused, or damage was found; both are reported
  2  invalid command line; nothing was changed
  3  the store cannot be opened, read or written; its last commit stays
  4  an optional package is not installed
  5  verify --repair: all damage was repaired, and nothing was lost
  6  verify --repair: repaired, but samples were lost; the report lists them
  70  a bug in isochrony
  130  interrupted; what was committed stays

environment:
  ISOCHRONY_DEBUG=1  show the traceback of an error
"""
