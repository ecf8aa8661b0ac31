"""The command line: ``isochrony COMMAND ...``.

Each command is one module of this package with a ``NAME``, a ``HELP`` line,
``add_arguments(parser)`` and ``run(arguments) -> exit code``. Errors are one line
on stderr that says what, where and how to mend it; a trace appears only with
``ISOCHRONY_DEBUG=1``.
"""

from __future__ import annotations

from .main import main

__all__ = ["main"]
