"""Checks of the selections that a tasklet reads and writes."""

from __future__ import annotations

from typing import Any

from .._native import Selection, Signal
from ..errors.native import OptionError

__all__ = ["bounds_text", "checked_selections", "listed"]


def listed(parameter: str, given: Any) -> list[Any]:
    """The elements of a parameter that is a list.

    Raises:
        OptionError: it is not a list.
    """
    try:
        return list(given)
    except TypeError:
        raise OptionError(f"{parameter}={given!r} is refused; give a list: {parameter}=[...]") from None


def checked_selections(parameter: str, given: Any) -> list[Selection]:
    """The selections of a parameter.

    Raises:
        OptionError: it is not a list of selections.
    """
    # The usual type first: there are thousands.
    if type(given) is not list and isinstance(given, Selection | Signal):
        raise OptionError(f"{parameter}={given!r} is refused; put it in a list, such as {parameter}=[signal[0:4096]]")
    several = listed(parameter, given)
    for one in several:
        if type(one) is not Selection:
            raise OptionError(f"{parameter}=[{one!r}] is refused; give ranges of signals, such as [signal[0:4096]]")
    return several


def bounds_text(selection: Selection) -> str:
    """First and last index of a selection, for a tasklet's name: "0:4096"."""
    ranges = selection.ranges
    return f"{ranges[0][0]}:{ranges[-1][1]}" if ranges else "empty"
