"""Civil times: what is accepted, what is refused, and that nothing is lost on the way."""

import copy
import datetime as dt
import pickle
from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso
from isochrony.times import civil, duration, rate

NS = 10**9
UNIT = Fraction(1, 2**32)

# Within datetime's years, whole nanoseconds.
nanoseconds = st.integers(-62_135_596_800 * NS, 253_402_300_799 * NS)
fractions_of_ns = st.integers(0, 2**32 - 1)


def exact(time: iso.Time) -> Fraction:
    return time.ns + time.frac * UNIT


def oracle_datetime(when: dt.datetime) -> int:
    """Nanoseconds by the calendar's own ordinal numbers, not by subtraction."""
    when = when.replace(tzinfo=dt.UTC) if when.tzinfo is None else when.astimezone(dt.UTC)
    days = when.date().toordinal() - dt.date(1970, 1, 1).toordinal()
    seconds = days * 86_400 + when.hour * 3_600 + when.minute * 60 + when.second
    return seconds * NS + when.microsecond * 1_000


class TestAccepted:
    def test_all_libraries_name_the_same_instant(self) -> None:
        pandas = pytest.importorskip("pandas")
        obspy = pytest.importorskip("obspy")
        text = "2010-03-01T00:00:07.000128"
        zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
        for same in (
            text,
            text + "Z",
            "2010-03-01T05:30:07.000128+05:30",
            np.str_(text),
            dt.datetime(2010, 3, 1, 0, 0, 7, 128),
            dt.datetime(2010, 3, 1, 0, 0, 7, 128, tzinfo=dt.UTC),
            dt.datetime(2010, 3, 1, 5, 30, 7, 128, tzinfo=zone),
            np.datetime64(text),
            np.datetime64(text, "ns"),
            np.array(text, dtype="datetime64[ns]"),
            pandas.Timestamp(text),
            pandas.Timestamp(text + "Z"),
            obspy.UTCDateTime(text),
            iso.Time(text),
        ):
            assert iso.Time(same).ns == 1_267_401_607_000_128_000, same
            assert iso.Time(same).frac == 0

    def test_nanoseconds_of_pandas_and_obspy_survive(self) -> None:
        pandas = pytest.importorskip("pandas")
        obspy = pytest.importorskip("obspy")
        ns = 1_267_401_607_000_128_731
        assert iso.Time(pandas.Timestamp(ns)).ns == ns
        assert iso.Time(pandas.Timestamp(ns, tz="Asia/Kolkata")).ns == ns
        assert iso.Time(obspy.UTCDateTime(ns=ns)).ns == ns

    def test_pandas_times_beyond_nanosecond_range_are_exact(self) -> None:
        pandas = pytest.importorskip("pandas")
        early = pandas.Timestamp("1066-10-14T09:00:00").as_unit("s")
        assert iso.Time(early).ns == oracle_datetime(dt.datetime(1066, 10, 14, 9))

    @given(st.datetimes())
    @settings(max_examples=300)
    def test_any_datetime(self, when: dt.datetime) -> None:
        assert iso.Time(when).ns == oracle_datetime(when)
        assert iso.Time(when).to_datetime() == when.replace(tzinfo=dt.UTC)
        assert iso.Time(when.isoformat()).ns == oracle_datetime(when)

    @given(st.integers(-(2**40), 2**40), st.sampled_from(["ns", "us", "ms", "s", "m", "h", "D", "W", "ps", "fs", "as"]))
    @settings(max_examples=300)
    def test_any_datetime64(self, count: int, unit: str) -> None:
        per = {
            "ps": Fraction(1, 10**3), "fs": Fraction(1, 10**6), "as": Fraction(1, 10**9), "ns": 1, "us": 10**3,
            "ms": 10**6, "s": NS, "m": 60 * NS, "h": 3_600 * NS, "D": 86_400 * NS, "W": 604_800 * NS,
        }[unit]  # fmt: skip
        time = iso.Time(np.datetime64(count, unit))
        assert abs(exact(time) - count * per) <= UNIT / 2

    def test_calendar_units_of_datetime64(self) -> None:
        assert iso.Time(np.datetime64("2010")) == iso.Time("2010-01-01")
        assert iso.Time(np.datetime64("2010-03")) == iso.Time("2010-03-01")


class TestRefused:
    @pytest.mark.parametrize("number", [5, 1.5, True, np.float64(3), np.int64(3), Decimal(2), Fraction(1, 3)])
    def test_numbers_are_ambiguous(self, number: object) -> None:
        with pytest.raises(iso.TimeError, match=r"ambiguous .*Time\.from_ns") as caught:
            iso.Time(number)
        assert isinstance(caught.value, TypeError | ValueError)
        assert caught.value.code == "not_a_time"

    @pytest.mark.parametrize("missing", [np.datetime64("NaT"), np.datetime64("NaT", "ns")])
    def test_missing_times(self, missing: object) -> None:
        with pytest.raises(iso.TimeError, match="NaT"):
            iso.Time(missing)

    def test_pandas_nat(self) -> None:
        pandas = pytest.importorskip("pandas")
        with pytest.raises(iso.TimeError, match="NaT"):
            iso.Time(pandas.NaT)

    @pytest.mark.parametrize("text", ["", "yesterday", "2010-13-01", "2010-02-30", "2010-03-01T25:00"])
    def test_text_that_is_no_time(self, text: str) -> None:
        with pytest.raises(iso.TimeError, match="ISO 8601") as caught:
            iso.Time(text)
        assert isinstance(caught.value, ValueError)
        assert caught.value.code == "bad_civil"

    def test_other_objects_by_their_type(self) -> None:
        with pytest.raises(iso.TimeError, match="got list"):
            iso.Time([1])

    def test_times_out_of_datetime64_range(self) -> None:
        with pytest.raises(iso.TimeError, match="datetime64"):
            iso.Time("2500-01-01").to_datetime64()


class TestArithmetic:
    @given(nanoseconds, fractions_of_ns, nanoseconds, fractions_of_ns)
    @settings(max_examples=300)
    def test_differences_and_order_are_exact(self, a: int, fa: int, b: int, fb: int) -> None:
        t, u = iso.Time.from_ns(a, fa), iso.Time.from_ns(b, fb)
        assert (t - u) * NS == exact(t) - exact(u)
        assert (t < u) == (exact(t) < exact(u))
        assert (t == u) == (exact(t) == exact(u))
        assert u + (t - u) == t

    @given(nanoseconds, st.fractions(-(10**9), 10**9, max_denominator=10**12))
    def test_adding_seconds_is_within_half_a_unit(self, ns: int, seconds: Fraction) -> None:
        moved = iso.Time.from_ns(ns) + seconds
        assert abs(exact(moved) - (ns + seconds * NS)) <= UNIT / 2

    def test_durations_of_all_kinds(self) -> None:
        t = iso.Time("2010-03-01")
        for second in (1, 1.0, Fraction(1), Decimal(1), dt.timedelta(seconds=1), np.timedelta64(1, "s"), np.int32(1)):
            assert (t + second) - t == 1
            assert t - second == iso.Time("2010-02-28T23:59:59")
        assert t + 0.1 == t + Fraction(1, 10)  # a float means the decimal it prints as

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), "1", True, None, np.timedelta64("NaT", "s")])
    def test_refuses_what_is_no_duration(self, bad: object) -> None:
        with pytest.raises(iso.TimeError):
            iso.Time("2010-03-01") + bad

    def test_times_are_values(self) -> None:
        t = iso.Time.from_ns(5, 7)
        assert hash(t) == hash(iso.Time.from_ns(5, 7))
        assert t != "1970-01-01"
        assert pickle.loads(pickle.dumps(t)) == t
        assert copy.copy(t) == t
        assert f"{t}" == str(t) == t.isoformat()


class TestText:
    @given(nanoseconds, fractions_of_ns)
    @settings(max_examples=300)
    def test_isoformat_reads_back_exactly(self, ns: int, frac: int) -> None:
        time = iso.Time.from_ns(ns, frac)
        assert iso.Time(time.isoformat()) == time


class TestSpan:
    def test_from_times_or_a_length(self) -> None:
        a = iso.span("2010-03-01T00:30", "2010-03-01T01:00")
        assert a == iso.span(dt.datetime(2010, 3, 1, 0, 30), seconds=1_800)
        assert "2010-03-01T00:45" in a
        assert "2010-03-01T01:00" not in a
        assert pickle.loads(pickle.dumps(a)) == a
        assert iso.span(None, "2010-03-01").start is None

    def test_refuses_reversed_ends_and_contradictions(self) -> None:
        with pytest.raises(iso.TimeError, match="before it starts"):
            iso.span("2011-01-01", "2010-01-01")
        with pytest.raises(iso.OptionError, match="seconds"):
            iso.span("2010-01-01", "2011-01-01", seconds=3)
        with pytest.raises(iso.TimeError, match="ambiguous"):
            iso.span(1, 2)


class TestRate:
    @pytest.mark.parametrize(
        ("given_rate", "expected"),
        [
            (2000, (2000, 1)),
            (100.0000042, (500_000_021, 5_000_000)),
            (np.float64(0.1), (1, 10)),
            (np.int16(50), (50, 1)),
            (Fraction(44_100_000, 1001), (44_100_000, 1001)),
            ((44_100_000, 1001), (44_100_000, 1001)),
            (Decimal("0.25"), (1, 4)),
            (iso.Rate(44_100_000, 1001), (44_100_000, 1001)),
        ],
    )
    def test_exact_ratios(self, given_rate: object, expected: tuple[int, int]) -> None:
        assert rate(given_rate) == Fraction(*expected).as_integer_ratio()

    @pytest.mark.parametrize("bad", [0, -1, float("nan"), True, None, (1, 0), (1, 2, 3), 10**30])
    def test_refuses_what_is_no_rate(self, bad: object) -> None:
        with pytest.raises(iso.TimeError, match="samples per second"):
            rate(bad)

    def test_a_rate_is_a_float_that_knows_its_ratio(self) -> None:
        r = iso.Rate(44_100_000, 1001)
        assert r == 44_100_000 / 1001
        assert pickle.loads(pickle.dumps(r)).fraction == Fraction(44_100_000, 1001)
        assert copy.deepcopy(r).interval == Fraction(1001, 44_100_000)


def test_slow_paths_give_whole_numbers() -> None:
    assert civil(dt.date(2010, 3, 1)) == (1_267_401_600 * NS, 0)
    assert duration(0.5) == (500_000_000, 0)
    assert duration(Fraction(1, 3 * NS)) == (0, round(Fraction(2**32, 3)))


@pytest.mark.parametrize(
    "text",
    ["2016-06-15T12:00:60", "2016-12-31T23:59:60+01:00", "2010-03-01T00:00:00+99:99", "2010-03-01T00:00:00+24:00"],
)
def test_text_that_is_no_time_of_any_clock_is_refused(text: str) -> None:
    with pytest.raises(iso.TimeError):
        iso.Time(text)
    assert iso.Time("2016-12-31T23:59:60") == iso.Time("2017-01-01")
