"""Sample rates as exact rationals, from numbers that were rounded on the way to us."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from ..errors import UsageError

__all__ = ["parse_number", "parse_rate", "simplest_around", "simplest_between", "simplest_near"]


def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the smallest denominator in [low, high], 0 < low <= high.

    By the continued fractions of both ends: as long as they agree, so does the answer.
    """
    if not 0 < low <= high:
        raise UsageError(f"the limits low={low} and high={high} are refused; give low above 0 and high not below low")
    terms: list[int] = []
    while True:
        whole = math.ceil(low)
        if whole <= high:
            terms.append(whole)
            break
        whole -= 1
        terms.append(whole)
        low, high = 1 / (high - whole), 1 / (low - whole)
    value = Fraction(terms.pop())
    while terms:
        value = terms.pop() + 1 / value
    return value


def simplest_around(low: Fraction, middle: Fraction, high: Fraction) -> Fraction:
    """Of the fractions with the smallest denominator in [low, high], the one nearest to `middle`.

    Of the whole numbers from 98 to 102 a rate of 100.1 +- 2 is most likely 100.
    """
    denominator = simplest_between(low, high).denominator
    near = Fraction(round(middle * denominator), denominator)
    if low <= near <= high:
        return near
    return simplest_between(low, high)


def simplest_near(value: float, relative: float) -> Fraction:
    """The simplest fraction within a relative error of a positive, finite number."""
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"a sample rate must be positive and finite, got {value}")
    exact = Fraction(value)
    slack = exact * Fraction(relative)
    return simplest_around(exact - slack, exact, exact + slack)


def parse_number(text: str) -> Fraction | None:
    """A number as written, exact; None if it is none, or one of so many digits that they would take long to compute."""
    written = text.replace(" ", "")
    exponent = re.search(r"[eE]([+-]?\d+)$", written)
    try:
        # A power of ten of so many digits would be computed before it is refused.
        is_sane = len(written) <= 100 and (exponent is None or abs(int(exponent[1])) <= 100)
        return Fraction(written) if is_sane else None
    except (ValueError, ZeroDivisionError):
        return None


def parse_rate(text: str) -> Fraction:
    """A rate in Hz as users write it: ``2000``, ``100.0000042``, ``44100000/1001``, ``1e6``.

    Raises:
        UsageError: not a positive number.
    """
    rate = parse_number(text)
    if rate is None or rate <= 0:
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise UsageError(
            f"rate {shown!r} is not a positive number of Hz; write it like 2000, 100.0000042 or 44100000/1001"
        )
    return rate
