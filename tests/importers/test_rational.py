from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isochrony.errors import UsageError
from isochrony.importers.rational import parse_rate, simplest_between, simplest_near

positive = st.fractions(min_value=Fraction(1, 50), max_value=50, max_denominator=60)


def by_trying(low: Fraction, high: Fraction) -> Fraction:
    """The slow obvious way: denominators in order."""
    denominator = 1
    while True:
        numerator = -(-low.numerator * denominator // low.denominator)
        if Fraction(numerator, denominator) <= high:
            return Fraction(numerator, denominator)
        denominator += 1


@given(positive, positive)
def test_simplest_fraction_is_the_one_found_by_trying_denominators(a: Fraction, b: Fraction) -> None:
    low, high = sorted((a, b))
    assert simplest_between(low, high) == by_trying(low, high)


@pytest.mark.parametrize(
    ("value", "relative", "expected"),
    [
        (100.0, 6e-8, Fraction(100)),
        (44_100_000 / 1001, 1e-12, Fraction(44_100_000, 1001)),
        (1 / 3, 1e-9, Fraction(1, 3)),
    ],
)
def test_a_rounded_rate_is_recovered_exactly(value: float, relative: float, expected: Fraction) -> None:
    assert simplest_near(value, relative) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2000", Fraction(2000)),
        ("100.0000042", Fraction("100.0000042")),
        ("44100000/1001", Fraction(44_100_000, 1001)),
        ("1e6", Fraction(1_000_000)),
    ],
)
def test_rates_are_read_exactly(text: str, expected: Fraction) -> None:
    assert parse_rate(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-5", "1/0", "fast", "nan", "inf"])
def test_rejects_what_is_no_rate(text: str) -> None:
    with pytest.raises(UsageError, match="positive number of Hz"):
        parse_rate(text)


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_rejects_a_rate_that_is_not_positive_and_finite(value: float) -> None:
    with pytest.raises(UsageError, match="positive and finite"):
        simplest_near(value, 1e-9)
