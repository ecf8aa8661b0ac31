"""Run options as flags of a command, made from their declarations."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from ..errors import UsageError
from ..errors.native import OptionError
from ..running.options import OPTIONS, RunOptions

__all__ = ["add_run_options", "run_options"]


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each option that text can give."""
    for name, option in OPTIONS.items():
        help_text = (option.flag_help or option.help).replace("%", "%%")
        if option.metavar is not None:
            if isinstance(option.default, int | float) and not isinstance(option.default, bool):
                help_text += f" (default: {option.default:g})"
            parser.add_argument(f"--{name}", metavar=option.metavar, help=help_text)
        elif option.is_setting and option.default is False:
            parser.add_argument(f"--{name}", action="store_true", default=None, help=help_text)
        elif option.is_setting and option.default is True:
            negated = f"no-{name}"
            parser.add_argument(
                f"--{negated}", dest=name, action="store_false", default=None, help=f"do not {help_text}"
            )


def run_options(arguments: argparse.Namespace) -> RunOptions:
    """The options that were given, with a progress line on a terminal.

    Raises:
        UsageError: one has no legal value.
    """
    given: Any = {"progress": True}
    for name, option in OPTIONS.items():
        value = getattr(arguments, name, None)
        if isinstance(value, str):
            # What is no number is refused by the option's own check.
            with contextlib.suppress(ValueError):
                value = option.parse(value)
        if value is not None:
            given[name] = value
    try:
        return RunOptions.of(**given)
    except OptionError as error:
        name, _, rest = str(error).partition("=")
        raise UsageError(f"--{name} {rest}") from error
