from __future__ import annotations

import datetime as dt
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isochrony.errors import BadSourceError
from isochrony.importers.block import Block, Options, Stamp
from isochrony.importers.columns import Batch, is_time_name, parse_times, time_unit_ns
from isochrony.importers.table_blocks import blocks_of

START = 1_267_401_600_000_000_000


def batch(times: np.ndarray | None, resolution: int = 1, first_row: int = 1, **columns: np.ndarray) -> Batch:
    return Batch(times, resolution, columns, first_row)


def collect(*batches: Batch, **options: object) -> list[Block]:
    parts = blocks_of(iter(batches), "s", Options(**options))  # type: ignore[arg-type]
    return [part for part in parts if isinstance(part, Block)]


def time(block: Block) -> int:
    """What a block's stamp says of its first sample; one coarser than 50 ms is centred on it."""
    assert block.start is not None
    is_coarse = block.start.resolution_ns >= 50_000_000
    return block.start.ns + (block.start.resolution_ns // 2 if is_coarse else 0)


@given(
    st.datetimes(min_value=dt.datetime(1930, 1, 1), max_value=dt.datetime(2200, 1, 1)),
    st.sampled_from(["T", " "]),
    st.sampled_from(["", "Z", "+00:00", "+02:00", "-0330", "+05"]),
    st.integers(0, 9),
)
def test_iso_times_are_those_of_the_standard_library(
    moment: dt.datetime, separator: str, zone: str, digits: int
) -> None:
    fraction = f"{moment.microsecond * 1000:09d}"[:digits]
    text = moment.strftime(f"%Y-%m-%d{separator}%H:%M:%S") + (f".{fraction}" if digits else "") + zone
    times, resolution = parse_times([text])
    floored = moment.replace(microsecond=int(fraction.ljust(9, "0")[:6]) if digits else 0)
    offset = dt.datetime.strptime((zone.replace("Z", "") or "+").ljust(5, "0"), "%z").tzinfo
    since = floored.replace(tzinfo=offset) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    exact = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
    assert times[0] == exact
    assert resolution == 10 ** (9 - digits)


@pytest.mark.parametrize(
    ("text", "ns", "resolution"),
    [
        ("1267401600", START, 10**9),
        ("1267401600.25", START + 250_000_000, 10**7),
        ("1267401600000", START, 10**6),
        ("1267401600000001", START + 1_000, 10**3),
        ("1267401600000000007", START + 7, 1),
        ("2010-03-01", START, 86_400 * 10**9),
        ("2010-03-01T00:30", START + 1800 * 10**9, 60 * 10**9),
        ("2010-03-01 00:00:00.1234567891", START + 123_456_789, 1),
        ("20100301", START, 86_400 * 10**9),
        ("2010030100", START, 3600 * 10**9),
        ("201003010030", START + 1800 * 10**9, 60 * 10**9),
        ("20100301003005", START + 1805 * 10**9, 10**9),
        ("20100301003005250", START + 1805_250_000_000, 10**6),
        ("1.267401600250000000e+09", START + 250_000_000, 1),
        ("99999999999", 99_999_999_999 * 10**6, 10**6),
    ],
)
def test_epoch_numbers_and_short_forms_carry_their_resolution(text: str, ns: int, resolution: int) -> None:
    times, finest = parse_times([text])
    assert (int(times[0]), finest) == (ns, resolution)


def test_the_finest_digit_of_a_column_is_its_resolution() -> None:
    # Writers drop trailing zeros.
    assert parse_times(["2010-03-01T00:00:00", "2010-03-01T00:00:00.01"])[1] == 10**7


@pytest.mark.parametrize("zone", ["+99:99", "+14:01", "-1500", "+0260", "-23:59"])
def test_rejects_zones_that_nobody_lives_in(zone: str) -> None:
    with pytest.raises(BadSourceError, match=r"row 1: .*its zone is not between -14:00 and \+14:00"):
        parse_times([f"2010-03-01T00:00:00{zone}"])
    assert parse_times(["2010-03-01T14:00:00+14:00"])[0][0] == START


def test_rejects_text_that_is_no_time_and_names_its_row() -> None:
    with pytest.raises(BadSourceError, match=r"row 8: 'noon' is not a time"):
        parse_times(["2010-03-01", "noon"], first_row=7)


@pytest.mark.parametrize("name", ["time", "Time (UTC)", "timestamp", "DateTime", "t", "epoch", "utc", "time_ns"])
def test_knows_names_of_time_columns(name: str) -> None:
    assert is_time_name(name)


@pytest.mark.parametrize(
    ("name", "text", "ns", "resolution"),
    [
        ("time_us", "1267401600000000", START, 1_000),
        ("time_ms", "1267401600000", START, 10**6),
        ("t (us)", "1500000", 1_500_000_000, 1_000),
        ("t[ns]", "1500000", 1_500_000, 1),
        ("time (s)", "1267401600.5", START + 500_000_000, 10**8),
        ("Time [ms]", "12.25", 12_250_000, 10_000),
        ("timestamp_s", "0", 0, 10**9),
        ("elapsed (min)", "2", 120 * 10**9, 60 * 10**9),
        ("t (\u00b5s)", "7", 7_000, 1_000),
    ],
)
def test_a_unit_in_the_name_of_a_column_is_that_of_its_numbers(name: str, text: str, ns: int, resolution: int) -> None:
    assert is_time_name(name)
    times, finest = parse_times([text], 1, time_unit_ns(name))
    assert (int(times[0]), finest) == (ns, resolution)


@pytest.mark.parametrize("name", ["time", "timestamp", "Time (UTC)", "utc", "datetime_utc", "ts"])
def test_a_name_without_a_unit_states_none(name: str) -> None:
    assert time_unit_ns(name) is None


@pytest.mark.parametrize("name", ["temperature", "value", "pressure", "station", "sometimes"])
def test_does_not_take_other_names_for_time(name: str) -> None:
    assert not is_time_name(name)


@given(
    st.sampled_from([Fraction(1), Fraction(20), Fraction(100), Fraction(1000, 3), Fraction(2000), Fraction(1, 60)]),
    st.sampled_from([1, 1_000, 1_000_000]),
    st.integers(20, 400),
    st.integers(1, 50),
)
def test_regular_times_in_any_chunks_give_the_rate_and_every_sample(
    rate: Fraction, resolution: int, count: int, chunk: int
) -> None:
    exact = [START + Fraction(i * 10**9) / rate for i in range(count)]
    times = np.array([int(t) // resolution * resolution for t in exact])
    values = np.arange(count, dtype="i4")
    whole = collect(batch(times, resolution, v=values))
    assert len(whole) == 1
    assert abs(whole[0].rate / rate - 1) < Fraction(2 * resolution, times[-1] - times[0])
    # The first chunk sets the rate, so it must be long enough to tell it.
    cuts = [0, *range(20, count, max(chunk, 20)), count]
    pieces = [
        batch(times[a:b], resolution, a + 1, v=values[a:b]) for a, b in zip(cuts, cuts[1:], strict=False) if a < b
    ]
    blocks = collect(*pieces)
    assert np.array_equal(np.concatenate([block.samples for block in blocks]), values)


def test_a_gap_in_time_starts_a_new_block_with_its_own_stamp() -> None:
    times = START + np.concatenate([np.arange(50), np.arange(80, 120)]) * 10**7
    first, second = collect(batch(times, 10**7, v=np.arange(90.0)))
    assert len(first.samples) == 50
    assert len(second.samples) == 40
    assert time(second) == START + 80 * 10**7
    assert first.rate == second.rate == 100


def test_a_gap_between_batches_starts_a_new_block() -> None:
    times = START + np.concatenate([np.arange(50), np.arange(80, 120)]) * 10**7
    blocks = collect(batch(times[:50], 10**7, v=np.zeros(50)), batch(times[50:], 10**7, 51, v=np.zeros(40)))
    assert [len(block.samples) for block in blocks] == [50, 40]


def test_stamps_coarser_than_the_samples_are_one_stretch() -> None:
    times = START + np.arange(1000) // 100 * 10**9
    (block,) = collect(batch(times, 10**9, v=np.zeros(1000)))
    assert 90 < block.rate < 112


def test_several_columns_become_several_signals() -> None:
    times = START + np.arange(10) * 10**9
    blocks = collect(batch(times, 1, **{"a": np.zeros(10), "flow rate/x": np.ones(10)}))
    assert [block.signal for block in blocks] == ["s/a", "s/flow_rate_x"]


@given(st.integers(0, 2**31))
def test_rejects_irregular_times(seed: int) -> None:
    random = np.random.default_rng(seed)
    times = START + np.sort(random.integers(0, 3600 * 10**9, 200))
    with pytest.raises(BadSourceError, match="not regular"):
        collect(batch(times, 1, v=np.zeros(200)))


def seconds(*rows: float, digit: int = 1) -> np.ndarray:
    """Times of rows, in whole `digit` ns."""
    return np.array([START + round(row * 1e9) // digit * digit for row in rows])


MINUTE = 60 * 10**9


@pytest.mark.parametrize("missing", [0, 20, 2000])
@pytest.mark.parametrize(
    ("period", "digit"),
    [(60, MINUTE), (600, MINUTE), (90, MINUTE), (1, 10**9), (3600, 10**9), (0.1, 10**9), (0.01, 10**9), (0.1, 10**6)],
)
def test_a_gap_never_enters_the_rate(period: float, digit: int, missing: int) -> None:
    count = 200 if digit < 10**9 * period * 5 else 2000
    rows = [k * period for k in range(count)] + [(k + missing) * period for k in range(count, 2 * count)]
    times = seconds(*rows, digit=digit)
    blocks = collect(batch(times, digit, v=np.arange(2.0 * count)))
    # Rows that a digit cannot tell apart hide a gap of as many.
    hidden = missing * period * 1e9 <= 1.5 * digit
    assert [len(block.samples) for block in blocks] == ([2 * count] if hidden or not missing else [count] * 2)
    assert blocks[0].rate == 1 / Fraction(str(period))


def test_many_gaps_never_enter_the_rate() -> None:
    rows = [k for k in range(2000) if k % 100 != 50]
    blocks = collect(batch(seconds(*rows, digit=10**6), 10**6, v=np.zeros(len(rows))))
    assert [len(block.samples) for block in blocks] == [50] + [99] * 19 + [49]
    assert {block.rate for block in blocks} == {Fraction(1)}


@pytest.mark.parametrize("digit", [10**4, 10**7])
def test_gaps_in_most_windows_of_a_short_table_never_enter_the_rate(digit: int) -> None:
    # 40 rows at 100 Hz: of 31 windows of nine rows 18 hold a gap.
    kept = [k for k in range(100_043) if not 10 <= k < 100_010 and not 100_018 <= k < 100_021]
    blocks = collect(batch(seconds(*(k / 100 for k in kept), digit=digit), digit, v=np.zeros(len(kept))))
    assert [len(block.samples) for block in blocks] == [10, 8, 22]
    assert {block.rate for block in blocks} == {Fraction(100)}


@pytest.mark.parametrize(
    ("rows", "digit"),
    [
        ((0, 5, 6), 10**9),
        ((0, 5, 6), 1),
        ((0, 1, 6), 1),
        ((0, 0.1, 0.2, 0.35, 0.4, 0.5), 10**6),
        ((0, 3, 4, 9, 11, 12, 20, 21, 22, 23), 10**9),
        ((0, 1, 3, 7, 15, 31, 63), 1),
    ],
)
def test_rejects_few_irregular_rows(rows: tuple[float, ...], digit: int) -> None:
    with pytest.raises(BadSourceError, match="not regular"):
        collect(batch(seconds(*rows, digit=digit), digit, v=np.zeros(len(rows))))


def test_few_regular_rows_and_a_gap_are_a_recording() -> None:
    first, second = collect(batch(seconds(0, 5, 6, 7, 8), 1, v=np.arange(5.0)))
    assert (len(first.samples), len(second.samples), first.rate) == (1, 4, 1)
    (both,) = collect(batch(seconds(0, 7), 10**9, v=np.arange(2.0)))
    assert both.rate == Fraction(1, 7)


def test_rejects_times_that_go_backwards() -> None:
    times = START - np.arange(100) * 10**9
    with pytest.raises(BadSourceError, match="sort it by time"):
        collect(batch(times, 1, v=np.zeros(100)))


def test_rejects_a_table_without_times_or_rate() -> None:
    with pytest.raises(BadSourceError, match="no time column"):
        collect(batch(None, 1, v=np.zeros(3)))


def test_rejects_a_table_without_values() -> None:
    with pytest.raises(BadSourceError, match="no numeric column"):
        collect(batch(START + np.arange(3), 1))


def test_rejects_a_single_row_without_a_rate() -> None:
    with pytest.raises(BadSourceError, match="one row"):
        collect(batch(np.array([START]), 1, v=np.zeros(1)))


def test_rejects_an_empty_table() -> None:
    with pytest.raises(BadSourceError, match="no rows"):
        collect(batch(np.empty(0, dtype=np.int64), 1, v=np.empty(0)))


def test_rows_that_lie_an_hour_later_keep_their_own_time() -> None:
    """An excursion that the rows before and behind it would hide: it has two stamps, and they agree."""
    times = START + np.arange(3000) * 10**7
    times[1000:2309] += 3600 * 10**9
    blocks = collect(batch(times, 10**7, v=np.arange(3000)))
    at = 0
    late = 0
    for block in blocks:
        assert time(block) == times[at]
        late += 1000 <= at < 2309
        at += len(block.samples)
    assert (at, late) == (3000, 2)


def test_rejects_another_rate_behind_a_gap_with_its_row() -> None:
    rows = np.concatenate([np.arange(1000) / 100, 3600 + np.arange(1000) / 130])
    with pytest.raises(BadSourceError, match=r"from row 1001 on its rate is 130\.\d+ Hz, not 100 Hz"):
        collect(batch(seconds(*rows, digit=10**6), 10**6, v=np.zeros(2000)))


def test_rejects_another_rate_with_its_row_also_where_most_rows_have_it() -> None:
    rows = np.concatenate([np.arange(1000) / 100, 3600 + np.arange(3000) / 130])
    with pytest.raises(BadSourceError, match=r"from row 1001 on its rate is 130.*, not 100 Hz as before"):
        collect(batch(seconds(*rows, digit=10**6), 10**6, v=np.zeros(4000)))


@pytest.mark.parametrize("ppm", [-300, 40, 300])
def test_a_drifting_clock_gives_a_stamp_wherever_it_leaves_the_line(ppm: int) -> None:
    exact = START + np.arange(20_000) * 10**7 * (1 + ppm / 1e6)
    times = exact.astype("i8")
    blocks = collect(batch(times, 1, v=np.zeros(20_000)), rate=Fraction(100))
    assert len(blocks) > 1
    at = 0
    for block in blocks:
        assert block.start is not None
        line = block.start.ns + np.arange(len(block.samples)) * 10**7
        assert np.abs(line - times[at : at + len(line)]).max() <= 5_000_500
        at += len(line)


def test_jitter_beyond_the_digits_makes_the_stamps_as_coarse() -> None:
    jitter = np.random.default_rng(1).integers(-2 * 10**6, 2 * 10**6, 2000)
    (block,) = collect(batch(START + np.arange(2000) * 10**7 + jitter, 1, v=np.zeros(2000)), rate=Fraction(100))
    assert block.start is not None
    assert 3_500_000 < block.start.resolution_ns < 8_000_000
    assert block.start.ns <= START <= block.start.ns + block.start.resolution_ns


@pytest.mark.parametrize("count", [85, 3000])
def test_jitter_beyond_the_digits_is_no_rate(count: int) -> None:
    rng = np.random.default_rng(1)
    jitter = rng.uniform(-0.15, 0.15, count)
    times = seconds(*((np.arange(count) + jitter) / 100), digit=10**6)
    assert {block.rate for block in collect(batch(times, 10**6, v=np.zeros(count)))} == {Fraction(100)}


def test_times_that_count_from_the_start_of_the_file_need_to_be_told_it() -> None:
    times = np.arange(100) * 10**7
    elapsed = Batch(times, 10**7, {"v": np.zeros(100)}, 1, elapsed=True)
    (block,) = collect(elapsed)
    assert block.start is None
    (block,) = collect(elapsed, start=Stamp(START))
    assert block.start == Stamp(START, 10**7)
    with_gap = Batch(np.where(times < 500_000_000, times, times + 10**9), 10**7, {"v": np.zeros(100)}, 1, elapsed=True)
    with pytest.raises(BadSourceError, match=r"row 51 is 1\.01 s after the row before, not 0\.01 s, .* start="):
        collect(with_gap)
    assert len(collect(with_gap, start=Stamp(START))) == 2
