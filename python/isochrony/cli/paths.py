"""Paths as arguments of commands."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["input_path", "output_path"]


def input_path(text: str) -> Path:
    """A path that is not empty; pathlib would take that for the folder one is in."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; name a file or a folder")
    return Path(text)


def output_path(text: str) -> Path:
    """A file to write; ``-`` is refused, since whoever writes it means standard output, and not a file of that name."""
    if text in ("", "-"):
        raise argparse.ArgumentTypeError(f"{text!r} names no file; name one, such as result.csv")
    return Path(text)
