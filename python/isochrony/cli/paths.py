"""Paths as arguments of commands."""

from __future__ import annotations

import argparse
from pathlib import Path

from .._native import url_schemes

__all__ = ["input_path", "is_url", "output_path", "store_path"]


def is_url(text: str) -> bool:
    """Whether a store is named by a URL, such as ``s3://bucket/water.iso``."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme in url_schemes()


def store_path(text: str) -> Path | str:
    """A store's folder, or its URL, which is no path of a file system."""
    return text if is_url(text) else Path(text)


def input_path(text: str) -> Path:
    """A path that is not empty; pathlib would take that for the folder one is in."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; give the path of a file or a folder")
    return Path(text)


def output_path(text: str) -> Path:
    """A file to write; ``-`` is refused, since whoever writes it means standard output, and not a file of that name."""
    if text in ("", "-"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a file; give the path of a file, such as result.csv")
    return Path(text)
