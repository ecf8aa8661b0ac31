"""Keyword arguments that are declared once: signatures, docstrings and flags of the command line are made of them.

A family of keywords is a `TypedDict` whose entries are ``Annotated`` with an `Option`.
"""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, get_type_hints

__all__ = ["Option", "declared_options", "did_you_mean", "listing_options"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The declaration of one option.

    Attributes:
        default: its value where it is not given; that of the field in Rust, or None where Rust's is taken.
        check: gives the value that goes to Rust, of the option's name and what was given, or raises `OptionError`.
        help: what it is, in one clause.
        flag_help: the same for the command line, where its value is written otherwise; default: `help`.
        details: what else a user needs to know, for docstrings.
        metavar: what stands for its value in the help of the command line; None: there is no flag for it, unless its
            default is True or False.
        parse: makes a value of the flag's text; what it refuses goes to `check` as text.
        is_setting: it goes to Rust as a plain value.
    """

    default: Any
    check: Callable[[str, Any], Any]
    help: str
    flag_help: str = ""
    details: str = ""
    metavar: str | None = None
    parse: Callable[[str], Any] = str
    is_setting: bool = True


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion in brackets where something known is spelt nearly like `word`; else ""."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def declared_options(keywords: type) -> dict[str, Any]:
    """The declarations of a family of keywords, by name."""
    hints: dict[str, Any] = get_type_hints(keywords, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def listing_options(
    function: Callable[P, R], keywords: type, options: Mapping[str, Option], placeholder: str
) -> Callable[P, R]:
    """Give a function with ``**options: Unpack[keywords]`` a signature that lists them.

    A line of its docstring that is the placeholder becomes the list with their help.
    """
    hints: dict[str, Any] = get_type_hints(keywords, include_extras=True)
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    listed = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=hints[name].__origin__
        )
        for name, option in options.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *listed])  # type: ignore[attr-defined]
    if function.__doc__:
        lines = function.__doc__.splitlines()
        texts = (_listed(line, options) if line.strip() == placeholder else [line] for line in lines)
        function.__doc__ = "\n".join(line for some in texts for line in some)
    return function


def _listed(placeholder: str, options: Mapping[str, Option]) -> list[str]:
    """Lines for all options, indented as their placeholder is."""
    indent = placeholder[: len(placeholder) - len(placeholder.lstrip())]
    lines = []
    for name, option in options.items():
        text = f"{name}: {option.help}. {option.details}"
        lines += textwrap.wrap(
            " ".join(text.split()),
            width=120,
            initial_indent=indent,
            subsequent_indent=f"{indent}    ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    return lines
