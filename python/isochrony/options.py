"""Options of plans: what is no legal value is refused when a step is added, not when the plan runs."""

from __future__ import annotations

import operator

from .native_errors import OptionError

__all__ = ["choice", "whole"]


def whole(step: str, value: object, unit: str, least: int = 1) -> int:
    """A whole number from `least` that 64 bits hold, or `OptionError`."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not least <= number < 1 << 63:
        raise OptionError(f"{step}({value!r}) is refused; give a whole number of {unit}, from {least}")
    return number


def choice(name: str, value: object, legal: tuple[str, ...]) -> None:
    """One of `legal`, or `OptionError`."""
    if value not in legal:
        raise OptionError(f"{name}={value!r} is refused; give {' or '.join(map(repr, legal))}")
