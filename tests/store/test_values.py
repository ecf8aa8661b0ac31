"""`values`: dtypes, arrays of the caller's and fills, beside NumPy and pandas."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import isochrony as iso
from made import pressure

FLOATS = ["f2", "f4", "f8", np.longdouble]
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


@pytest.fixture
def counted(store: iso.Store) -> iso.Signal:
    """Counts -3..3 with a gap of two behind the third, of 0.5 kPa each."""
    signal = store.create("p", dtype="i2", rate=100, unit="kPa", scale=0.5, offset=1)
    signal.append(np.arange(-3, 0, dtype="i2"))
    signal.append_gap(samples=2)
    signal.append(np.arange(0, 4, dtype="i2"))
    return signal


EXPECTED = np.array([-0.5, 0, 0.5, np.nan, np.nan, 1, 1.5, 2, 2.5])


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_dtypes_are_those_of_astype(counted: iso.Signal, dtype: Any) -> None:
    for read in (counted.values(dtype=dtype), counted[:].values(dtype=dtype)):
        assert read.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(read, EXPECTED.astype(dtype))
    out = np.empty(9, dtype)
    assert counted.values(out=out) is out
    np.testing.assert_array_equal(out, EXPECTED.astype(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_dtypes_round_half_to_even(counted: iso.Signal, dtype: str) -> None:
    part = counted[5:]
    out = np.full(4, 9, dtype)
    assert part.values(dtype=dtype).dtype == np.dtype(dtype)
    np.testing.assert_array_equal(part.values(out=out), np.rint(EXPECTED[5:]).astype(dtype))
    np.testing.assert_array_equal(part.values(dtype=dtype), np.rint(EXPECTED[5:]).astype(dtype))
    np.testing.assert_array_equal(counted[2:6].values(7, dtype=dtype), [0, 7, 7, 1])


@pytest.mark.parametrize("stored", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8", "c8", "c16"])
def test_every_stored_dtype_is_read_as_itself_and_as_floats(store: iso.Store, stored: str) -> None:
    rng = np.random.default_rng(3)
    kind = np.dtype(stored).kind
    if kind in "biu":
        limits = np.iinfo("i1" if kind == "b" else stored)
        given_samples = rng.integers(limits.min, limits.max, 700_000, endpoint=True).astype(stored)
    else:
        given_samples = rng.normal(size=700_000).astype(stored) * (1 + 1j if kind == "c" else 1)
        given_samples = given_samples.astype(stored)
        given_samples[5] = -0.0
    signal = store.create("x", dtype=stored, rate=100)
    signal.append(given_samples)
    for part in (slice(None), slice(3, 500_000)):
        np.testing.assert_array_equal(signal[part].values(counts=True), given_samples[part])
        assert signal[part].values(counts=True).dtype == given_samples.dtype
        for dtype in ("c8", "c16") if kind == "c" else ("f4", "f8", "c8", "c16"):
            read, wanted = signal[part].values(dtype=dtype), given_samples[part].astype(dtype)
            np.testing.assert_array_equal(read, wanted)
            np.testing.assert_array_equal(np.signbit(read.real), np.signbit(wanted.real))
    if kind in "biu":
        np.testing.assert_array_equal(signal.values(dtype="i8"), given_samples.astype("i8"))


@pytest.mark.parametrize("dtype", ["f4", ">f4", "f8", np.longdouble, "c8", "c16", np.clongdouble])
@pytest.mark.parametrize("fill", [np.nan, 3, "ffill"])
def test_integers_of_64_bits_are_rounded_once(store: iso.Store, dtype: Any, fill: Any) -> None:
    # Just beside the middle between two float32: float64 has the middle for each.
    edges = [sign * ((1 << e) + (1 << (e - 24)) + one) for e in (54, 58, 61) for one in (-1, 1) for sign in (-1, 1)]
    samples = np.array([*edges, 2**53 + 1, 2**63 - 1, -(2**63)])
    assert (samples.astype("f8").astype("f4") != samples.astype("f4")).any()
    signal = store.create("x", dtype="i8", rate=100)
    signal.append(samples)
    signal.append_gap(samples=2)
    signal.append(samples)
    gap = samples[-1] if fill == "ffill" else fill
    wanted = np.concatenate([samples.astype(dtype), np.array([gap] * 2).astype(dtype), samples.astype(dtype)])
    for counts in (False, True):
        read = signal.values(fill, dtype=dtype, counts=counts)
        assert read.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(read, wanted)
        if np.dtype(dtype).isnative:
            out = np.zeros(len(wanted), dtype)
            np.testing.assert_array_equal(signal.values(fill, out=out, counts=counts), wanted)


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble])
def test_gaps_are_filled_with_64_bits(store: iso.Store, dtype: Any) -> None:
    signal = store.create("x", dtype="i8", rate=100)
    samples = [2**53 + 1, 2**62 + 1, -(2**63) + 1]
    for sample in samples:
        signal.append([5, sample])
        signal.append_gap(samples=3)
    signal.append([7])
    signal.append([9], at=iso.Time("2030-01-01T00:00:00Z"))
    wanted = [number for sample in samples for number in [5, *[sample] * 4]] + [7, 9]
    read = signal.values("ffill", dtype=dtype)
    assert [int(number.real) for number in read] == wanted
    # Of a part that begins in a gap nobody knows what was before.
    part = signal[3:7].values("ffill", dtype=dtype, counts=True)
    assert np.isnan(part[:2]).all()
    assert [int(number.real) for number in part[2:]] == [5, 2**62 + 1]


def test_large_integers_stay_exact(store: iso.Store) -> None:
    signal = store.create("x", dtype="i8", rate=100)
    samples = np.array([2**62 + 1, -(2**60) - 3, 5])
    signal.append(samples)
    np.testing.assert_array_equal(signal.values(dtype="i8"), samples)
    with pytest.raises(iso.StoreError, match=r"4611686018427387905 at position 0 does not fit int32"):
        signal.values(dtype="i4")


def test_what_an_integer_cannot_hold_is_refused_with_its_place(store: iso.Store) -> None:
    signal = store.create("x", dtype="f8", rate=100)
    signal.append(np.r_[np.zeros(70_000), 127.4, 127.5, np.zeros(3)])
    with pytest.raises(
        iso.StoreError, match=r"values of 'x': 127.5 at position 70001 does not fit int8 .*-128 to 127"
    ) as caught:
        signal.values(dtype="i1")
    assert isinstance(caught.value, ValueError)
    assert signal[:70_001].values(dtype="i1")[-1] == 127
    signal.append([np.nan, 2.0**63])
    with pytest.raises(iso.StoreError, match="nan at position 0"):
        signal[70_005:].values(dtype="i8")
    with pytest.raises(iso.StoreError, match=r"9\.223372036854776e"):
        signal[70_006:].values(dtype="i8")
    assert signal[70_006:].values(dtype="u8")[0] == 2**63
    with pytest.raises(iso.StoreError, match="fit bool"):
        signal[70_000:70_002].values(dtype=bool)


def test_refuses_arrays_and_types_that_cannot_be_written(counted: iso.Signal, store: iso.Store) -> None:
    fixed = np.empty(9)
    fixed.flags.writeable = False
    for out, match in (
        (np.empty(8), r"shape is \(8,\), and there are 9 values"),
        (np.empty((9, 1)), "shape"),
        (np.empty(18)[::2], "not contiguous"),
        (fixed, "read-only"),
        (np.empty(9, ">f8"), "byte order"),
        ([0.0] * 9, "NumPy array"),
        (np.empty(9, "M8[ns]"), "type of numbers"),
        (np.empty(9, object), "type of numbers"),
    ):
        with pytest.raises(iso.OptionError, match=match):
            counted.values(out=out)  # type: ignore[arg-type]
    with pytest.raises(iso.OptionError, match="its dtype is float32, and dtype='float64'"):
        counted.values(dtype="f8", out=np.empty(9, "f4"))
    for dtype in ("M8[ns]", "U3", object, "nonsense", "f8,f8"):
        with pytest.raises(iso.OptionError, match="type of numbers"):
            counted.values(dtype=dtype)
    spectrum = store.create("c", dtype="c8", rate=1)
    spectrum.append(np.ones(3, "c8"))
    with pytest.raises(iso.OptionError, match="imaginary"):
        spectrum.values(dtype="f8")


def test_fills_in_words(counted: iso.Signal) -> None:
    series = pd.Series(EXPECTED)
    np.testing.assert_array_equal(counted.values("ffill"), series.ffill())
    known = np.flatnonzero(~np.isnan(EXPECTED))
    np.testing.assert_allclose(
        counted.values("interpolate"), np.interp(np.arange(9), known, EXPECTED[known]), rtol=1e-15
    )
    np.testing.assert_array_equal(counted.values("ffill", counts=True), [-3, -2, -1, -1, -1, 0, 1, 2, 3])
    with pytest.raises(iso.GapError, match="2 samples at index 3"):
        counted.values(None)
    np.testing.assert_array_equal(counted[5:].values(None), EXPECTED[5:])
    # At the ends of a selection nothing is taken from outside of it.
    np.testing.assert_array_equal(counted[4:7].values("ffill"), [np.nan, 1, 1.5])
    np.testing.assert_array_equal(counted[4:7].values("interpolate"), [np.nan, 1, 1.5])
    np.testing.assert_array_equal(counted[1:4].values("ffill"), [0, 0.5, 0.5])
    np.testing.assert_array_equal(counted[1:4].values("interpolate"), [0, 0.5, np.nan])
    with pytest.raises(
        iso.GapError, match=r'fill="ffill" has no sample before a gap, and int16 has no NaN.*1 sample at index 4'
    ):
        counted[4:7].values("ffill", counts=True)
    with pytest.raises(iso.GapError, match="2 samples at index 3"):
        counted.values(counts=True)
    np.testing.assert_array_equal(counted[5:].values(counts=True), np.arange(4))
    for dtype in ("f4", "f8", "f2"):
        as_float = counted.values(dtype=dtype, counts=True)
        np.testing.assert_array_equal(as_float, np.array([-3, -2, -1, np.nan, np.nan, 0, 1, 2, 3], dtype))
        assert as_float.dtype == np.dtype(dtype)
    np.testing.assert_allclose(counted.values("interpolate", dtype="f8", counts=True)[3:5], [-2 / 3, -1 / 3])
    np.testing.assert_array_equal(counted.values(7, dtype="i4", counts=True)[2:6], [-1, 7, 7, 0])
    with pytest.raises(iso.OptionError, match=r"interpolate.*int16"):
        counted.values("interpolate", counts=True)
    for fill in ("bfill", [1, 2], object(), "nan"):
        with pytest.raises(iso.OptionError, match="fill="):
            counted.values(fill)  # type: ignore[arg-type]
    for fill in (0.5, 40_000, 1 + 1j):
        with pytest.raises(iso.OptionError, match="int16 cannot hold it"):
            counted.values(fill, counts=True)
    with pytest.raises(iso.OptionError, match="cannot hold"):
        counted.values(1j)


@pytest.mark.parametrize(
    ("fill", "dtype"),
    [
        (-99_999, "i4"), (70_000, "u4"), (2**63 - 1, "i8"), (2**64 - 1, "u8"), (np.int64(-(2**63)), "i8"),
        (1e300, "f8"), (np.longdouble(2) ** -1070, np.longdouble), (0.1, np.longdouble), (65_504, "f2"), (1e300, "c16"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("counts", [False, True])
def test_a_fill_need_only_fit_the_result(store: iso.Store, fill: Any, dtype: Any, counts: bool) -> None:
    signal = store.create("x", dtype="i2", rate=100)
    signal.append(np.array([1, 2], "i2"))
    signal.append_gap(samples=2)
    signal.append(np.array([3], "i2"))
    wanted = np.array([1, 2, fill, fill, 3], dtype)
    np.testing.assert_array_equal(signal.values(fill, dtype=dtype, counts=counts), wanted)
    out = np.zeros(5, dtype)
    np.testing.assert_array_equal(signal.values(fill, out=out, counts=counts), wanted)


def test_what_a_result_cannot_hold_fills_nothing(counted: iso.Signal) -> None:
    for fill, dtype in (
        (-1, "u4"), (2**31, "i4"), (2**64, "u8"), (70_000, "f2"), (2, "?"), (Fraction(1, 3), "i4"),
        (Decimal("0.5"), "i8"), (Decimal("1e400"), "f8"), (10**400, "f8"), (Decimal("1e999999"), "i8"),
    ):  # fmt: skip
        with pytest.raises(iso.OptionError, match=rf"fill=.* is refused: {np.dtype(dtype)} cannot hold it"):
            counted.values(fill, dtype=dtype)


def test_fractions_and_decimals_fill(counted: iso.Signal) -> None:
    for fill, dtype in (
        (Fraction(3, 2), "f8"), (Fraction(1, 3), "f4"), (Decimal("0.1"), "f8"), (Decimal("-0.25"), "c16"),
        (Fraction(6, 2), "i4"), (Decimal("7"), "i8"), (Fraction(2**62 + 1), "i8"),
    ):  # fmt: skip
        filled = counted.values(fill, dtype=dtype)[3]
        assert filled == (np.dtype(dtype).type(float(fill)) if np.dtype(dtype).kind in "fc" else int(fill))


def test_real_samples_take_no_complex_fill(counted: iso.Signal) -> None:
    for dtype in ("c8", "c16"):
        for fill in (1j, np.complex64(2), complex(1, 0)):
            with pytest.raises(iso.OptionError, match=r"fill=.* is refused, since the samples are real; give a real"):
                counted.values(fill, dtype=dtype)
        np.testing.assert_array_equal(counted.values(2, dtype=dtype), np.nan_to_num(EXPECTED, nan=2).astype(dtype))
        assert counted.values(dtype=dtype)[3].imag == 0


def test_an_imaginary_part_is_named(store: iso.Store) -> None:
    signal = store.create("x", dtype="f4", rate=100)
    with pytest.raises(iso.StoreError, match=r"its imaginary part is 2\.0, not 0\); choose a complex dtype, or take"):
        signal.append(np.array([1, 1 + 2j]), cast=True)


def test_nothing_is_carried_across_a_clock_step(store: iso.Store) -> None:
    signal = store.create("x", dtype="f4", rate=1, start="2020-01-02")
    signal.append(np.array([1, 2], "f4"))
    signal.append_gap(samples=2)
    signal.append(np.array([5], "f4"), at="2020-01-01")
    assert len(signal.runs()) == 2
    # The gap ends the first run: it has a sample before, none behind.
    np.testing.assert_array_equal(signal.values(), [1, 2, np.nan, np.nan, 5])
    np.testing.assert_array_equal(signal.values("ffill"), [1, 2, 2, 2, 5])
    np.testing.assert_array_equal(signal.values("interpolate"), [1, 2, np.nan, np.nan, 5])
    signal.mark_invalid(4, 5)
    signal.append(np.array([7], "f4"))
    np.testing.assert_array_equal(signal.values("ffill"), [1, 2, 2, 2, np.nan, 7])


def test_recorded_nan_is_a_sample(store: iso.Store) -> None:
    signal = store.create("x", dtype="f8", rate=1)
    signal.append([1.0, np.nan])
    signal.append_gap(samples=1)
    signal.append([3.0])
    np.testing.assert_array_equal(signal.values("ffill"), [1, np.nan, np.nan, 3])
    np.testing.assert_array_equal(signal.values(0), [1, np.nan, 0, 3])


def test_complex_fills(store: iso.Store) -> None:
    signal = store.create("x", dtype="c8", rate=1)
    signal.append(np.array([1 + 2j], "c8"))
    signal.append_gap(samples=1)
    signal.append(np.array([3 - 2j], "c8"))
    np.testing.assert_array_equal(signal.values(5), [1 + 2j, 5 + 5j, 3 - 2j])
    np.testing.assert_array_equal(signal.values(5j, dtype="c8"), [1 + 2j, 5j, 3 - 2j])
    np.testing.assert_array_equal(signal.values("interpolate"), [1 + 2j, 2, 3 - 2j])
    assert np.isnan(signal.values()[1].imag)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_fills_agree_with_pandas_and_numpy(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 6)), min_size=1, max_size=6))
    stored = data.draw(st.sampled_from(["i2", "f4", "f8", "i8"]))
    model: list[float] = []
    rng = np.random.default_rng(len(lengths))
    with iso.open(tmp_path_factory.mktemp("v") / "x.iso", "x") as store:
        signal = store.create("x", dtype=stored, rate=10)
        for count, gap in lengths:
            samples = rng.integers(-1000, 1000, count).astype(stored)
            signal.append(samples)
            model += samples.tolist()
            if gap:
                signal.append_gap(samples=gap)
                model += [np.nan] * gap
        start = data.draw(st.integers(0, len(model) - 1))
        stop = data.draw(st.integers(start + 1, len(model)))
        part, series = signal[start:stop], pd.Series(model[start:stop], dtype="f8")
        inner = series.interpolate(limit_area="inside")
        for dtype in ("f8", "f4"):
            np.testing.assert_array_equal(part.values("ffill", dtype=dtype), series.ffill().to_numpy(dtype))
            np.testing.assert_allclose(
                part.values("interpolate", dtype=dtype), inner.to_numpy(dtype), rtol=1e-6, atol=1e-3
            )
        np.testing.assert_array_equal(part.values(-1.5), series.fillna(-1.5))


def test_a_worker_process_reads_the_same(counted: iso.Signal) -> None:
    from isochrony.workers.tasklet_call import Input

    part = counted[1:9]
    segments = part.segments
    shared = bytearray(b"".join(one.counts.tobytes() for one in segments))
    places = np.cumsum([0, *(one.counts.nbytes for one in segments)])
    about = {
        "name": "p", "unit": "kPa", "dtype": "int16", "ranges": part.ranges, "rate": (100, 1), "scale": 0.5,
        "offset": 1.0,
        "segments": [(one.start, len(one), int(place), None) for one, place in zip(segments, places, strict=False)],
    }  # fmt: skip
    one = Input(about, shared)
    for options in (
        {}, {"fill": -1}, {"fill": "ffill"}, {"fill": "interpolate"}, {"fill": 7, "counts": True}, {"dtype": "f4"},
        {"fill": "ffill", "dtype": "i4"}, {"fill": "ffill", "counts": True}, {"fill": -99_999, "dtype": "i4"},
        {"fill": 3, "dtype": "c8"},
    ):  # fmt: skip
        np.testing.assert_array_equal(one.values(**options), part.values(**options))
        assert one.values(**options).dtype == part.values(**options).dtype
    assert [one[0], one[-1], one[4]] == [part[0], part[-1], part[4]]
    for position in (2, 8, -9):
        for source in (one, part):
            with pytest.raises((iso.GapError, IndexError)):
                source[position]
    for refused in (None, "nonsense"):
        with pytest.raises((iso.GapError, iso.OptionError)):
            one.values(refused)


def test_interrupts_and_large_selections(tmp_path: Path) -> None:
    with iso.open(tmp_path / "x.iso", "x") as store:
        signal = store.create("x", dtype="i2", rate=1000)
        signal.append(np.zeros(10, "i2"))
        signal.append_gap(samples=1 << 45)
        with pytest.raises(iso.StoreError, match="bytes") as caught:
            signal.values()
        assert isinstance(caught.value, MemoryError)


def test_a_signal_reads_as_its_whole_selection(store: iso.Store) -> None:
    signal = pressure(store)
    for options in ({}, {"fill": 3}, {"fill": "ffill", "dtype": "f4"}):
        np.testing.assert_array_equal(signal.values(**options), signal[:].values(**options))
