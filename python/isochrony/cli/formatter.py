"""How the help of the command line looks."""

from __future__ import annotations

import argparse
import shutil

__all__ = ["Formatter"]

_WIDEST = 100


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help in one column of options and one of words, no wider than a person likes to read."""

    def __init__(self, prog: str) -> None:
        width = min(shutil.get_terminal_size().columns - 2, _WIDEST)
        super().__init__(prog, max_help_position=26, width=width)
        # argparse forgets that commands are indented further than options.
        self._action_max_length = 14
